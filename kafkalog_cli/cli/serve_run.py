"""One run of `kafkalog serve`: opens the logs, prints the address, serves until it is stopped."""

import signal
from contextlib import suppress
from threading import Lock, current_thread, main_thread

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.errors import ExitCode, combined_exit_code
from kafkalog_cli.ops.serve.options import ServeOptions
from kafkalog_cli.ops.serve.serving import Serving
from kafkalog_cli.ops.session.observer import LockWarnings, Note
from kafkalog_cli.output.messages import Messages
from kafkalog_cli.output.ndjson import JsonLines
from kafkalog_cli.output.serve_view import SERVING, serving_line, serving_object
from kafkalog_cli.output.stream import ResultStream


def run_server(environment: Environment, options: ServeOptions, *, is_json: bool) -> int:
    """Serve until Ctrl-C or SIGTERM; return the exit code. Raises as `Serving`."""
    out, messages = ResultStream(environment.stdout), Messages(environment.stderr, as_json=is_json)
    writing, codes = Lock(), [ExitCode.OK]

    def report(note: Note) -> None:
        with writing:
            messages.report(note)
            if note.exit_code is not None:
                codes.append(note.exit_code)

    lines = JsonLines(out) if is_json else None
    with Serving(environment.context, options, report) as serving:
        LockWarnings(environment.fs, report).about(*serving.catalog.log_dirs.replicas.log_dirs)
        if current_thread() is main_thread():
            signal.signal(signal.SIGTERM, lambda *_: serving.stop())
        if lines is None:
            out.write(serving_line(serving))
        else:
            lines.object(SERVING, serving_object(serving))
        out.flush()
        with suppress(KeyboardInterrupt):  # the usual end: all connections are closed
            serving.run()
        counts = {"topics": serving.catalog.topic_count, "partitions": len(serving.catalog.partitions)}
    code = combined_exit_code(codes)
    if lines is not None:
        lines.summary(code, **counts)
    out.flush()
    return code
