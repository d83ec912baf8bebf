"""`kafkalog serve`: a read-only Kafka broker over log directories."""

from enum import Enum
from typing import Annotated

import typer

from kafkalog_cli.cli.environment import environment_of
from kafkalog_cli.cli.options import (
    LIMITS_PANEL,
    BrokerConfigOption,
    Format,
    LogDirs,
    MetadataOption,
    OutputFormat,
    TopicOption,
    TopicPatternOption,
    selection_of,
)

command = typer.Typer(add_completion=False)

_SERVER_PANEL = "Server"


class OnDamageOption(Enum):
    """What a fetch does at damaged bytes."""

    STOP = "stop"
    SKIP = "skip"


@command.command("serve")
def serve(  # noqa: PLR0913, PLR0917 options
    context: typer.Context,
    paths: LogDirs,
    listen: Annotated[str, typer.Option("--listen", metavar="HOST", rich_help_panel=_SERVER_PANEL,
        help="Address to listen on. There is no authentication: other machines reach all records.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="PORT", min=0, max=65535, rich_help_panel=_SERVER_PANEL,
        help="Port to listen on. 0 takes a free port.")] = 9092,
    commit_to: Annotated[str | None, typer.Option("--commit-to", metavar="FILE", rich_help_panel=_SERVER_PANEL,
        help="Keep commits of consumers in FILE, a line per commit. Default: in memory.", show_default=False)] = None,
    on_damage: Annotated[OnDamageOption, typer.Option("--on-damage", rich_help_panel=_SERVER_PANEL,
        help="At damage, answer an error (stop), or continue with the next good batch (skip).")] = OnDamageOption.STOP,
    topic: TopicOption = None,
    topic_pattern: TopicPatternOption = None,
    max_connections: Annotated[int, typer.Option("--max-connections", metavar="N", min=1, max=10_000,
        rich_help_panel=LIMITS_PANEL, help="Connections at a time.")] = 100,
    idle: Annotated[float, typer.Option("--idle", metavar="SECONDS", min=1, rich_help_panel=LIMITS_PANEL,
        help="Close a connection after SECONDS without a request.")] = 600.0,
    broker_config: BrokerConfigOption = None,
    metadata: MetadataOption = None,
    output: Format = OutputFormat.TEXT,
) -> int:  # fmt: skip
    """Serve log directories to Kafka clients, read-only.

    kafkalog speaks Kafka's protocol as a broker that leads all partitions. Consumers fetch the batches as they are on
    the disk, and consumer groups work. Committed offsets come from __consumer_offsets. Nothing on the disk is changed:
    commits stay in memory, or in the file of --commit-to. Producing is refused.

    Each segment is read and its CRCs are checked before its first batch is sent. A damaged batch is never sent.

    The logs are those of the start: later changes by other commands are not seen. The segment files stay open. Several
    log directories may have copies of a partition: the copy with the last leader epoch, and of these the longest, is
    served.
    """
    import signal
    from contextlib import suppress
    from threading import Lock, current_thread, main_thread

    from kafkalog_cli.errors import ExitCode, combined_exit_code
    from kafkalog_cli.ops.selection import Selection
    from kafkalog_cli.ops.serve.served_partition import OnDamage
    from kafkalog_cli.ops.serve.server import Limits
    from kafkalog_cli.ops.serve.serving import ServeOptions, Serving
    from kafkalog_cli.ops.session.lock_warnings import LockWarnings
    from kafkalog_cli.ops.session.observer import Note
    from kafkalog_cli.output.messages import Messages
    from kafkalog_cli.output.ndjson import JsonLines
    from kafkalog_cli.output.serve_view import SERVING, serving_line, serving_object
    from kafkalog_cli.output.stream import ResultStream

    environment = environment_of(context)
    out, messages = ResultStream(environment.stdout), Messages(environment.stderr, as_json=output.is_json)
    writing, codes = Lock(), [ExitCode.OK]

    def report(note: Note) -> None:
        with writing:
            messages.report(note)
            if note.exit_code is not None:
                codes.append(note.exit_code)

    options = ServeOptions(
        paths, selection_of(topic, None, topic_pattern) or Selection(), listen, port, commit_to,
        OnDamage(on_damage.value), metadata, broker_config, Limits(max_connections, idle),
    )  # fmt: skip
    lines = JsonLines(out) if output.is_json else None
    with Serving(environment.context, options, report) as serving:
        locks = LockWarnings(environment.fs, report)
        for log_dir in serving.catalog.log_dirs.replicas.log_dirs:
            locks.about(log_dir)
        if current_thread() is main_thread():
            signal.signal(signal.SIGTERM, lambda *_: serving.stop())
        if lines is None:
            out.write(serving_line(serving))
        else:
            lines.object(SERVING, serving_object(serving))
        out.flush()
        with suppress(KeyboardInterrupt):  # the usual end: all connections are closed
            serving.run()
        counts = {"topics": len(serving.catalog.topics), "partitions": len(serving.catalog.partitions)}
    code = combined_exit_code(codes)
    if lines is not None:
        lines.summary(code, **counts)
    out.flush()
    return code
