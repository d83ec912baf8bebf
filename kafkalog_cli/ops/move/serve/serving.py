"""Opens everything that a server needs, in order, and closes it: the view, the offsets, the socket."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from threading import Event, Thread
from typing import Annotated, ClassVar

from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.call.options import Context
from kafkalog_cli.ops.move.serve.broker import Broker
from kafkalog_cli.ops.move.serve.catalog import ServedCatalog
from kafkalog_cli.ops.move.serve.committed import CommittedStore
from kafkalog_cli.ops.move.serve.consumer_groups import ConsumerGroupCoordinator
from kafkalog_cli.ops.move.serve.dialects import Dialect, of_old_clients, of_today
from kafkalog_cli.ops.move.serve.groups import GroupCoordinator
from kafkalog_cli.ops.move.serve.options import ServeOptions
from kafkalog_cli.ops.move.serve.server import Server
from kafkalog_cli.results import Count, of, result


@result("kafkalog.serving/1")
class Serving:
    """The server accepts connections from now on.

    `report` is called from several threads. Raises as `ServedCatalog` and `Server`.
    """

    bootstrap: ClassVar[Annotated[str, "the address for bootstrap.servers"]] = of(
        lambda serving: _text(*serving.server.address)
    )
    old_clients: ClassVar[Annotated[str | None, "the address for clients of Kafka 0.7 and 0.8 (--old-clients)"]] = of(
        lambda serving: next((_text(*address) for address in serving.server.addresses[1:]), None)
    )
    cluster_id: ClassVar[Annotated[str | None, "from meta.properties"]] = of("catalog.cluster_id")
    node_id: ClassVar[Annotated[int, "from meta.properties; 1 if no file has it"]] = of("catalog.node_id")
    topics: ClassVar[Count] = of("catalog.topic_count")
    partitions: ClassVar[Count] = of(lambda serving: len(serving.catalog.partitions))
    segments: ClassVar[Annotated[Count, "segments that stay open while they are served"]] = of(
        lambda serving: sum(len(partition.segments) for partition in serving.catalog.partitions)
    )

    def __init__(self, context: Context, options: ServeOptions, report: Callable[[Note], None]) -> None:
        with ExitStack() as opened:
            self.catalog = ServedCatalog(context, options, report)
            opened.callback(self.catalog.close)
            self.committed = CommittedStore(self.catalog.log_dirs, report, self.catalog.decoding)
            broker = Broker(
                self.catalog, GroupCoordinator(context.clock),
                ConsumerGroupCoordinator(context.clock, self.catalog.assignable), self.committed, context.now_ms,
                Event(),
            )  # fmt: skip
            listeners: list[tuple[int, Dialect]] = [(options.port, of_today)]
            if options.old_clients_port is not None:
                listeners.append((options.old_clients_port, of_old_clients))
            self.server = Server(options.host, listeners, broker, options.limits, context.clock, report)
            self.committed.loading.start()
            largest = max(self.catalog.partitions, key=lambda partition: partition.segments[0].log.size_bytes)
            warming = Thread(target=largest.warm_up, name="kafkalog-warm-up", daemon=True)
            opened.callback(warming.join)
            warming.start()
            self._opened = opened.pop_all()

    def run(self) -> None:
        """Serve until `stop` is called, or until the calling thread is interrupted."""
        self.server.run()

    def stop(self) -> None:
        """End `run`; any thread may call this."""
        self.server.stop()

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()


def _text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
