"""One run of `kafkalog serve`: opens the logs, prints the address, serves until it is stopped."""

import signal
from contextlib import suppress
from threading import Lock, current_thread, main_thread

from kafkalog_cli.cli.command_output import CommandOutput
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.errors import ExitCode, combined_exit_code
from kafkalog_cli.ops.serve.options import ServeOptions
from kafkalog_cli.ops.serve.serving import Serving
from kafkalog_cli.ops.session.observer import LockWarnings, Note
from kafkalog_cli.output.serve_view import SERVING, serving_line


def run_server(environment: Environment, options: ServeOptions, *, is_json: bool) -> int:
    """Serve until Ctrl-C or SIGTERM; return the exit code. Raises as `Serving`."""
    output = CommandOutput(environment, as_json=is_json)
    writing, codes = Lock(), [ExitCode.OK]

    def report(note: Note) -> None:
        with writing:
            output.messages.report(note)
            if note.exit_code is not None:
                codes.append(note.exit_code)

    with Serving(environment.context, options, report) as serving:
        LockWarnings(environment.fs, report).about(*serving.catalog.log_dirs.replicas.log_dirs)
        if current_thread() is main_thread():
            signal.signal(signal.SIGTERM, lambda *_: serving.stop())
        output.show(SERVING, serving, serving_line)
        output.out.flush()
        with suppress(KeyboardInterrupt):  # the usual end: all connections are closed
            serving.run()
        counts = {"topics": serving.catalog.topic_count, "partitions": len(serving.catalog.partitions)}
    return output.end(combined_exit_code(codes), **counts)
