"""One client's connection: reads requests, one after another, and sends their responses."""

import select
import socket
import struct
from collections.abc import Callable, Sequence
from threading import Event

from kafkalog_cli.format.internal_topics.decode import Spliced
from kafkalog_cli.format.protocol.messages import BadRequest
from kafkalog_cli.ops.move.serve.broker import Broker, Caller
from kafkalog_cli.ops.move.serve.dialects import Dialect
from kafkalog_cli.ops.move.serve.segment_map import RecordsRange

_SIZE = struct.Struct(">i")
_RECEIVE_BYTES = 64 << 10
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
        self._received = bytearray()
        self._poll = select.poll()
        self.peer_host, self.peer_port = client.getpeername()[:2]
        self._caller = Caller("", self.peer_host, *client.getsockname()[:2])

    def serve(self) -> str:
        """Serve the client; return the reason why the connection ended, "" if the client closed it."""
        try:
            self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._client.setblocking(False)
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
        """Return the next request without its size. Its memory grows as bytes arrive, whatever its size is."""
        until = self._clock() + self._idle_seconds
        while not self._received:
            self._receive(until, "")
        until = self._clock() + _REQUEST_SECONDS
        while len(self._received) < _SIZE.size:
            self._receive(until)
        size = _SIZE.unpack_from(self._received)[0]
        if not 0 < size <= MOST_REQUEST_BYTES:
            raise Gone(f"a request of {size} bytes (limit {MOST_REQUEST_BYTES})")
        end = _SIZE.size + size
        while len(self._received) < end:
            self._receive(until)
        frame = bytes(memoryview(self._received)[_SIZE.size : end])
        del self._received[:end]
        return frame

    def _receive(self, until: float, too_late: str = "an incomplete request") -> None:
        """Receive more bytes, which may also be those of later requests."""
        if not self._is_ready(select.POLLIN, until - self._clock()):
            raise Gone(too_late)
        try:
            data = self._client.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return
        if not data:
            raise Gone("")
        self._received += data

    def _is_ready(self, event: int, seconds: float) -> bool:
        """Wait until the client has sent bytes, or can be sent bytes."""
        self._poll.register(self._client, event)
        return seconds > 0 and bool(self._poll.poll(seconds * 1000))

    # -- answering

    def _answer(self, frame: bytes) -> None:
        try:
            chunks = self._dialect(self._broker, self._caller, frame)
        except BadRequest as error:
            raise Gone(f"a request is not answered: {error}") from error
        self._send(chunks)
        for chunk in chunks:  # while the client is busy with these records
            if isinstance(chunk, RecordsRange):
                chunk.read_ahead()

    def _send(self, chunks: Sequence[bytes | Spliced]) -> None:
        """Send chunks from memory and from files. The client wakes up for full packets only, not for each chunk."""
        self._client.setsockopt(socket.IPPROTO_TCP, _CORK, 1)
        for chunk in chunks:
            if isinstance(chunk, RecordsRange):
                self._send_file(chunk)
            else:
                assert isinstance(chunk, bytes)
                self._send_bytes(chunk)
        self._client.setsockopt(socket.IPPROTO_TCP, _CORK, 0)

    def _send_bytes(self, chunk: bytes) -> None:
        left = memoryview(chunk)
        while left:
            try:
                left = left[self._client.send(left) :]
            except BlockingIOError:
                self._wait_until_writable()

    def _send_file(self, records: RecordsRange) -> None:
        """Have the kernel send the bytes, where it can."""
        position, end = records.position, records.position + records.size_bytes
        while position < end:
            try:
                sent = records.file.send_to(self._client.fileno(), position, min(_SEND_BYTES, end - position))
            except BlockingIOError:
                self._wait_until_writable()
                continue
            if not sent:
                raise Gone(f"{records.file.path} became shorter while it was sent")
            position += sent

    def _wait_until_writable(self) -> None:
        if not self._is_ready(select.POLLOUT, _STALL_SECONDS):
            raise Gone("the client takes no bytes")
