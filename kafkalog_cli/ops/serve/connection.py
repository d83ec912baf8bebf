"""One client's connection: reads requests, one after another, and sends their responses."""

import select
import socket
import struct
from collections.abc import Callable
from threading import Event

from kafkalog_cli.format.internal_topics.decode import Spliced
from kafkalog_cli.format.protocol.messages import BadRequest
from kafkalog_cli.ops.serve.broker import Broker, Caller
from kafkalog_cli.ops.serve.dialects import Dialect
from kafkalog_cli.ops.serve.segment_map import CheckedBytes
from kafkalog_cli.ops.serve.served_copy import RecordsPart

_SIZE = struct.Struct(">i")
_PIECE_BYTES = 64 << 10
_SEND_BYTES = 4 << 20
_CORK: int = getattr(socket, "TCP_CORK", getattr(socket, "TCP_NOPUSH", 4))
"""The option that holds back incomplete packets, by its name on Linux or on BSD."""
MOST_REQUEST_BYTES = 1 << 20
"""The largest request. Clients of a broker without writers send far smaller requests."""
_REQUEST_SECONDS = 30.0
"""Time in which a request must arrive after its first byte."""
_STALL_SECONDS = 60.0
"""Time after which a client that takes no bytes of a response is given up."""


class Gone(Exception):
    """The connection ends. The text is the reason; it is empty if the client closed it."""


class Connection:
    """Serves one client until it closes the connection, is idle, or breaks the protocol."""

    def __init__(
        self, client: socket.socket, broker: Broker, dialect: Dialect, idle_seconds: float,
        clock: Callable[[], float],
    ) -> None:  # fmt: skip
        self._client = client
        self._broker = broker
        self._dialect = dialect
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._stopping: Event = broker.stopping
        self._ahead: CheckedBytes | None = None
        self._host, self._port = client.getsockname()[:2]
        self.peer_host, self.peer_port = client.getpeername()[:2]

    def serve(self) -> str:
        """Serve the client; return the reason why the connection ended, "" if the client closed it."""
        try:
            self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while not self._stopping.is_set():
                self._answer(self._frame())
        except Gone as reason:
            return str(reason)
        except (ConnectionError, TimeoutError, BrokenPipeError):
            return ""
        except OSError as error:
            return "" if self._stopping.is_set() else f"the connection failed: {error.strerror or error}"
        return ""

    # -- reading

    def _frame(self) -> bytes:
        """Return the next request without its size. Memory is taken as its bytes arrive, not as its size says."""
        head = self._exactly(_SIZE.size, self._idle_seconds, may_end=True)
        size = _SIZE.unpack(head)[0]
        if not 0 < size <= MOST_REQUEST_BYTES:
            raise Gone(f"a request of {size} bytes (limit {MOST_REQUEST_BYTES})")
        return self._exactly(size, _REQUEST_SECONDS)

    def _exactly(self, size: int, seconds: float, *, may_end: bool = False) -> bytes:
        data = bytearray()
        until = self._clock() + seconds
        while len(data) < size:
            left = until - self._clock()
            if left <= 0:
                raise Gone("" if may_end and not data else "an incomplete request")
            self._client.settimeout(left)
            try:
                part = self._client.recv(min(size - len(data), _PIECE_BYTES))
            except TimeoutError:
                continue
            if not part:
                raise Gone("")
            if may_end and not data:
                until = self._clock() + _REQUEST_SECONDS
            data += part
        return bytes(data)

    # -- answering

    def _answer(self, frame: bytes) -> None:
        try:
            pieces = self._dialect(self._broker, Caller("", self.peer_host, self._host, self._port), frame)
        except BadRequest as error:
            raise Gone(f"a request is not answered: {error}") from error
        records = [piece for piece in pieces if isinstance(piece, RecordsPart)]
        if records:  # the client wakes up for full packets only, not for each piece
            self._client.setsockopt(socket.IPPROTO_TCP, _CORK, 1)
        for piece in pieces:
            self._send(piece)
        if records:
            self._client.setsockopt(socket.IPPROTO_TCP, _CORK, 0)
        for part in records:  # while the client is busy with these records
            self._read_ahead(part)

    def _read_ahead(self, part: RecordsPart) -> None:
        if (read := part.read_ahead()) is not None:
            if self._ahead is not None:
                self._ahead.release()
            self._ahead = read

    def _send(self, piece: bytes | Spliced) -> None:
        if isinstance(piece, RecordsPart):
            self._send_file(piece)
            return
        assert isinstance(piece, bytes)
        rest = memoryview(piece)
        self._client.settimeout(_STALL_SECONDS)
        while rest:
            rest = rest[self._client.send(rest) :]

    def _send_file(self, part: RecordsPart) -> None:
        """Send the bytes that were just checked from memory; have the kernel send the others.

        Where it cannot, read and send them.
        """
        position, end = part.position, part.position + part.size_bytes
        self._client.settimeout(_STALL_SECONDS)
        while position < end:
            ahead = self._ahead if self._ahead is not None and self._ahead.segment is part.segment else None
            if ahead is not None and (checked := ahead.between(position, end)):
                position += self._client.send(checked)
                continue
            until = ahead.position if ahead is not None and position < ahead.position else end
            wanted = min(_SEND_BYTES, end - position, until - position)
            try:
                sent = part.file.send_to(self._client.fileno(), position, wanted)
            except BlockingIOError:
                self._wait_until_writable()
                continue
            except NotImplementedError:
                sent = self._copy(part, position, min(wanted, _PIECE_BYTES))
            if not sent:
                raise Gone(f"{part.file.path} became shorter while it was sent")
            position += sent

    def _copy(self, part: RecordsPart, position: int, size: int) -> int:
        buffer = memoryview(bytearray(size))
        got = part.file.read_into(position, buffer)
        self._client.sendall(buffer[:got])
        return got

    def _wait_until_writable(self) -> None:
        poll = select.poll()
        poll.register(self._client, select.POLLOUT)
        if not poll.poll(_STALL_SECONDS * 1000):
            raise Gone("the client takes no bytes")
