"""Opens everything that a server needs, in order, and closes it: the view, the offsets, the socket."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from threading import Event, Thread
from types import TracebackType

from kafkalog_cli.log.settings.topic_config import read_broker_properties
from kafkalog_cli.ops.coordinators import LogDirs
from kafkalog_cli.ops.selection import Selection
from kafkalog_cli.ops.serve.broker import Broker
from kafkalog_cli.ops.serve.catalog import CatalogRequest, ServedCatalog
from kafkalog_cli.ops.serve.committed import CommitFile, CommitPlace, CommittedStore
from kafkalog_cli.ops.serve.consumer_groups import ConsumerGroupCoordinator
from kafkalog_cli.ops.serve.dialects import Dialect, of_old_clients, of_today
from kafkalog_cli.ops.serve.groups import GroupCoordinator
from kafkalog_cli.ops.serve.served_partition import DamageAnswer
from kafkalog_cli.ops.serve.server import Server, ServerLimits
from kafkalog_cli.ops.serve.transactional_ids import TransactionalIds
from kafkalog_cli.ops.session.observer import Note
from kafkalog_cli.ops.session.options import Context

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 9092


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The logs to serve, and the server's settings.

    `commit_to` is the path of a file for commits, or of a log directory with a copy of `__consumer_offsets`; None keeps
    them in memory. `at_ms`: see CatalogRequest.
    `old_clients_port` is the port for clients of Kafka 0.7 and 0.8; None serves none of them.
    """

    paths: Sequence[str]
    selection: Selection = field(default=Selection())
    host: str = LOOPBACK
    port: int = DEFAULT_PORT
    commit_to: str | None = None
    on_damage: DamageAnswer = DamageAnswer.STOP
    at_ms: int | None = None
    metadata: str | None = None
    broker_config: str | None = None
    limits: ServerLimits = field(default=ServerLimits())
    old_clients_port: int | None = None


class Serving:
    """A server that is ready to run. `report` is called from several threads.

    Raises as `ServedCatalog`, `CommitFile`, `Server` and `read_broker_properties`.
    """

    def __init__(self, context: Context, options: ServeOptions, report: Callable[[Note], None]) -> None:
        properties: dict[str, str] | None = None
        if options.broker_config is not None:
            properties = read_broker_properties(context.fs, options.broker_config)
        with ExitStack() as opened:
            request = CatalogRequest(
                options.paths, options.selection, options.metadata, properties, options.on_damage,
                options.limits.connections, options.at_ms, options.old_clients_port is not None,
            )  # fmt: skip
            self.catalog = ServedCatalog(context, request, report)
            opened.callback(self.catalog.close)
            self.committed = CommittedStore(*self._commits(context, options, report), report, self.catalog.decoding)
            opened.callback(self.committed.close)
            broker = Broker(
                self.catalog, GroupCoordinator(context.clock),
                ConsumerGroupCoordinator(context.clock, self.catalog.assignable), self.committed,
                TransactionalIds(self.catalog.log_dirs, report, self.catalog.decoding), context.now_ms, Event(),
            )  # fmt: skip
            listeners: list[tuple[int, Dialect]] = [(options.port, of_today)]
            if options.old_clients_port is not None:
                listeners.append((options.old_clients_port, of_old_clients))
            self.server = Server(options.host, listeners, broker, options.limits, context.clock, report)
            self.committed.start()
            largest = max(self.catalog.partitions, key=lambda one: one.segments[0].log.size_bytes)
            warming = Thread(target=largest.warm_up, name="kafkalog-warm-up", daemon=True)
            opened.callback(warming.join)
            warming.start()
            self._opened = opened.pop_all()

    def _commits(
        self, context: Context, options: ServeOptions, report: Callable[[Note], None]
    ) -> tuple[LogDirs, CommitPlace | None]:
        """Return the log directories with the committed offsets, and the place for new commits."""
        path, log_dirs = options.commit_to, self.catalog.log_dirs
        if path is None:
            return log_dirs, None
        status = context.fs.status(path)
        if status is None or not status.is_directory:
            return log_dirs, CommitFile(context.fs, path)
        from kafkalog_cli.ops.serve.commit_copy import CommitCopy, check_outside_of  # a fifth of the start

        check_outside_of(log_dirs, path)
        copy = CommitCopy(context, path, options.broker_config)
        return copy.log_dirs, copy

    @property
    def bootstrap(self) -> str:
        """The address for bootstrap.servers."""
        return _text(*self.server.address)

    @property
    def old_clients_address(self) -> str | None:
        """The address for clients of Kafka 0.7 and 0.8, None without a listener for them."""
        return next((_text(*address) for address in self.server.addresses[1:]), None)

    def run(self) -> None:
        """Serve until `stop` is called, or until the calling thread is interrupted."""
        self.server.run()

    def stop(self) -> None:
        """End `run`; any thread may call this."""
        self.server.stop()

    def __enter__(self) -> Serving:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self._opened.close()


def _text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
