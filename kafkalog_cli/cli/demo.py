"""`kafkalog demo`: make a small damaged log directory to try the commands on."""

from typing import Annotated

from typer import Argument, Context

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.exit_codes import ANY, exit_codes
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.output.stream import ResultStream

EXAMPLES = {
    "Make a log directory, and print commands to try on it": "kafkalog demo shop",
}
EXIT_CODES = ANY | exit_codes(ExitCode.REFUSED)


def demo(
    context: Context,
    directory: Annotated[str, Argument(metavar="DIR", help="A directory that does not exist yet, or is empty.")],
) -> int:  # fmt: skip
    """Make a small damaged log directory to try the commands on.

    It holds three days of a web shop in November 2026: orders, a compacted topic of customers, payments in
    transactions, and a consumer group's offsets. The broker was killed, a partition ends in half a batch, and another
    has a flipped bit.
    """
    from kafkalog_cli.ops.demo import demo_lines, make_demo

    environment: Environment = context.obj
    made = make_demo(environment.fs, directory.rstrip("/") or "/")
    out = ResultStream(environment.stdout)
    for line in demo_lines(made):
        out.write(f"{line}\n")
    out.flush()
    return ExitCode.OK
