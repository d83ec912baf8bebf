"""Accepts connections on an address, with a thread for each, and ends them all in good order."""

import errno
import select
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from threading import Lock, Thread, current_thread

from kafkalog_cli.errors import KafkalogError, UsageError
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.move.serve.broker import Broker
from kafkalog_cli.ops.move.serve.connection import Connection
from kafkalog_cli.ops.move.serve.dialects import Dialect
from kafkalog_cli.ops.move.serve.options import ServerLimits

_TICK_SECONDS = 0.5
_END_SECONDS = 5.0
_BACKLOG = 128
_QUIET_SECONDS = 60.0
"""Time in which a reason for which connections of a host are closed is reported once: clients connect again at once."""
_MOST_REASONS = 1000


class _Closed:
    """Reports closed connections: each reason of a host once a minute, with the number of times since."""

    def __init__(self, report: Callable[[Note], None], clock: Callable[[], float]) -> None:
        self._report = report
        self._clock = clock
        self._reported: dict[tuple[str, str], tuple[float, int]] = {}
        self._changing = Lock()

    def report(self, peer: tuple[str, int], reason: str) -> None:
        """Report that the connection of a client was closed."""
        host, port = peer
        now = self._clock()
        with self._changing:
            if len(self._reported) >= _MOST_REASONS:
                self._reported.clear()
            last, since = self._reported.get((host, reason), (now - _QUIET_SECONDS, 0))
            is_quiet = now - last < _QUIET_SECONDS
            self._reported[host, reason] = (last, since + 1) if is_quiet else (now, 0)
        if not is_quiet:
            again = f" ({since} more times since the last report)" if since else ""
            self._report(Note("connection", f"connection of {host}:{port} closed: {reason}{again}"))


class Server:
    """Listens on ports of `host`, each with the requests that it understands; port 0 takes a free one.

    Raises UsageError for an unknown host, KafkalogError if the port cannot be had.
    """

    def __init__(  # noqa: PLR0913, PLR0917 what a server needs
        self, host: str, listeners: Sequence[tuple[int, Dialect]], broker: Broker, limits: ServerLimits,
        clock: Callable[[], float], report: Callable[[Note], None],
    ) -> None:  # fmt: skip
        self._broker = broker
        self._limits = limits
        self._clock = clock
        self._closed = _Closed(report, clock)
        self._listening: dict[int, tuple[socket.socket, Dialect]] = {}
        with ExitStack() as opened:
            for port, dialect in listeners:
                listening = opened.enter_context(_listening(host, port))
                self._listening[listening.fileno()] = listening, dialect
            opened.pop_all()
        self._threads: dict[Thread, socket.socket] = {}
        self._changing = Lock()
        self._wake, self._waker = socket.socketpair()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The host and port of each listener."""
        return [listening.getsockname()[:2] for listening, _ in self._listening.values()]

    @property
    def address(self) -> tuple[str, int]:
        """The host and port of the first listener."""
        return self.addresses[0]

    @property
    def connections(self) -> int:
        """The number of open connections."""
        with self._changing:
            return len(self._threads)

    def run(self) -> None:
        """Accept connections until `stop` is called, or the calling thread is interrupted. Then end all connections."""
        poll = select.poll()
        for descriptor in self._listening:
            poll.register(descriptor, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        try:
            while True:
                for descriptor, _ in poll.poll(_TICK_SECONDS * 1000):
                    if descriptor not in self._listening:  # `stop` was called
                        return
                    self._accept(*self._listening[descriptor])
                self._broker.groups.expire()
                self._broker.consumer_groups.expire()
        finally:
            self._end()

    def stop(self) -> None:
        """End `run`; any thread may call this, and a signal handler: it takes no lock, which the thread may have."""
        with suppress(OSError):  # `run` has ended by itself
            self._waker.send(b"x")

    def _accept(self, listening: socket.socket, dialect: Dialect) -> None:
        try:
            client, peer = listening.accept()
        except OSError:  # the client has gone, or there is no descriptor left: it may try again
            self._broker.stopping.wait(0.01)
            return
        most = self._limits.connections
        if self.connections >= most:
            client.close()
            self._closed.report(peer[:2], f"more than {most} at a time (--max-connections)")
            return
        with self._changing:
            try:
                connection = Connection(client, self._broker, dialect, self._limits.idle_seconds, self._clock)
                thread = Thread(target=self._serve, args=(client, connection), name="kafkalog-client", daemon=True)
                self._threads[thread] = client
                thread.start()
            except (OSError, RuntimeError):
                self._threads = {thread: known for thread, known in self._threads.items() if known is not client}
                client.close()

    def _serve(self, client: socket.socket, connection: Connection) -> None:
        try:
            reason = connection.serve()
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        finally:
            with self._changing:
                self._threads.pop(current_thread(), None)
            client.close()
        if reason and not self._broker.stopping.is_set():
            self._closed.report((connection.peer_host, connection.peer_port), reason)

    def _end(self) -> None:
        self._broker.stopping.set()
        self._broker.groups.stop()
        for listening, _ in self._listening.values():
            listening.close()
        with self._changing:
            threads = list(self._threads.items())
        for _, client in threads:
            try:
                client.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        until = self._clock() + _END_SECONDS
        for thread, _ in threads:
            thread.join(max(0.0, until - self._clock()))
        self._wake.close()
        self._waker.close()


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]  # fmt: skip
    except (socket.gaierror, UnicodeError) as error:
        raise UsageError(reason=f"--listen {host}: there is no such host") from error
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        advice = "; --port 0 takes a free port" if error.errno == errno.EADDRINUSE else ""
        reason = f"cannot listen on {host} port {port}: {error.strerror or error}{advice}"
        raise KafkalogError(reason=reason) from error
    return listening
