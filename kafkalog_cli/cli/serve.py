"""`kafkalog serve`: a read-only Kafka broker over log directories."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock, current_thread, main_thread
from typing import Annotated

from typer import Context, Option

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.exit_codes import PATHS, exit_codes
from kafkalog_cli.cli.options import (
    BrokerConfigOption,
    Format,
    LogDirPaths,
    MetadataOption,
    TopicOption,
    TopicPatternOption,
    limits_option,
    selection_option,
)
from kafkalog_cli.cli.run import Run
from kafkalog_cli.errors import ExitCode, counted
from kafkalog_cli.ops.call.observer import LockWarnings, Note
from kafkalog_cli.ops.choices import DamageAnswer
from kafkalog_cli.ops.move.serve.options import ServeOptions, ServerLimits
from kafkalog_cli.ops.move.serve.serving import Serving
from kafkalog_cli.ops.selection import selection_of

EXAMPLES = {
    "Let Kafka clients read a dead broker's disk at 127.0.0.1:9092": "kafkalog serve /var/lib/kafka",
    "Serve one topic from two brokers' disks": "kafkalog serve /var/lib/kafka /mnt/backup --topic orders",
    "Skip damaged batches, and take a free port": "kafkalog serve /var/lib/kafka --port 0 --on-damage skip",
}
EXIT_CODES = (
    PATHS
    | exit_codes(ExitCode.REFUSED)
    | {
        ExitCode.OK: "stopped by Ctrl-C or SIGTERM",
        ExitCode.CORRUPTION: "stopped, after clients asked for damaged batches",
        ExitCode.PARTIAL: "stopped, and some partitions were not served",
        ExitCode.INTERRUPTED: "interrupted before clients could connect",
    }
)

_server_option = partial(Option, rich_help_panel="Server")


def serve(  # noqa: PLR0913, PLR0917 options
    context: Context,
    paths: LogDirPaths,
    listen: Annotated[str, _server_option("--listen", metavar="HOST",
        help="Address to listen on. There is no authentication: whoever can connect can read all"
        " records.")] = "127.0.0.1",
    port: Annotated[int, _server_option("--port", metavar="PORT", min=0, max=65535,
        help="Port to listen on. 0 takes a free port.")] = 9092,
    old_clients: Annotated[int | None, _server_option("--old-clients", metavar="PORT", min=0, max=65535,
        help="Also listen on PORT for clients of Kafka 0.7 and 0.8; 0 is any free port.", show_default=False)] = None,
    on_damage: Annotated[DamageAnswer, _server_option("--on-damage",
        help="Where a batch is damaged: return an error (stop), or continue with the next good batch"
        " (skip).")] = DamageAnswer.STOP,
    at: Annotated[str | None, selection_option("--at", metavar="TIME",
        help="Serve the logs as of TIME: epoch ms, ISO 8601, or -2h before now.", show_default=False)] = None,
    topic: TopicOption = None,
    topic_pattern: TopicPatternOption = None,
    max_connections: Annotated[int, limits_option("--max-connections", metavar="N", min=1, max=10_000,
        help="Most connections at a time.")] = 100,
    idle: Annotated[float, limits_option("--idle", metavar="SECONDS", min=1, max=31_536_000,
        help="Close a connection after SECONDS without a request.")] = 600.0,
    broker_config: BrokerConfigOption = None,
    metadata: MetadataOption = None,
    output: Format = "text",
) -> int:  # fmt: skip
    """Serve log directories to Kafka clients, read-only.

    kafkalog speaks Kafka's protocol as a broker that leads all partitions. Consumers fetch the batches as they are on
    the disk, and consumer groups work. Committed offsets come from __consumer_offsets. Nothing on the disk is changed:
    commits stay in memory, and end with the server. Producing is refused.

    Each segment is read and its CRCs are checked before its first batch is sent. A damaged batch is never sent.

    --old-clients serves the logs of Kafka 0.7 to clients of 0.7, and message formats 0 and 1 to clients of 0.8 to 0.10.
    Nothing is converted: such a client gets an error for records of a newer format.

    --at ends each log before the first batch with a timestamp after TIME, also the log of committed offsets. The end of
    the log is then the high watermark, and transactions without a marker before it are open. Records that were removed
    since, by retention or compaction, are missing.

    The logs are served as they are at the start. Later changes are not seen, and the segment files stay open. Several
    log directories may have copies of a partition: the copy with the last leader epoch, and of these the longest, is
    served. Where it is damaged, a copy with the same leader epochs stands in.
    """
    environment: Environment = context.obj
    options = ServeOptions(
        paths, selection_of(topic, None, topic_pattern), listen, port, on_damage, environment.time_ms(at, None),
        metadata, broker_config, ServerLimits(max_connections, idle), old_clients,
    )  # fmt: skip
    run, writing = Run(context, output), Lock()
    run.codes.append(ExitCode.OK)

    def report(note: Note) -> None:
        with writing:
            run.messages.report(note)
            if note.exit_code is not None:
                run.codes.append(note.exit_code)

    with Serving(run.call_context, options, report) as serving:
        LockWarnings(run.fs, report).about(*serving.catalog.log_dirs.log_dirs)
        with _stopped_by_signals(serving):  # before the line, whose reader may interrupt at once
            run.show(serving, serving_line)
            run.out.flush()
            serving.run()
        counts = {"topics": serving.catalog.topic_count, "partitions": len(serving.catalog.partitions)}
    return run.end(**counts)


@contextmanager
def _stopped_by_signals(serving: Serving) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the server as it usually ends: all connections are closed."""
    defaults = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    if current_thread() is not main_thread():
        defaults = {}
    replaced = {number: default for number, default in defaults.items() if signal.getsignal(number) is default}
    for number in replaced:
        signal.signal(number, lambda *_: serving.stop())
    try:
        yield
    finally:
        for number, default in replaced.items():
            signal.signal(number, default)


def serving_line(serving: Serving) -> str:
    """Return the line about a server, which begins with its address."""
    counts = f"{counted(serving.topics, 'topic')}, {counted(serving.partitions, 'partition')}"
    address = serving.old_clients
    old = "" if address is None else f" Clients of Kafka 0.7 and 0.8 connect to {address}."
    return f"{serving.bootstrap} serves {counts}, read-only.{old} Ctrl-C stops it.\n"
