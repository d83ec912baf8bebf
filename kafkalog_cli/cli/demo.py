"""`kafkalog demo`: make a small damaged log directory to try the commands on."""

from typing import Annotated

from typer import Argument, Context, Option

from kafkalog_cli.cli.environment import Environment, now_of
from kafkalog_cli.cli.exit_codes import ANY, exit_codes
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.output.stream import ResultStream

EXAMPLES = (
    ("Make a log directory, and print commands to try on it", "kafkalog demo shop"),
    (
        "Make the same log directory again, with the same times",
        "kafkalog demo shop2 --now 2026-11-23T14:00:00Z",
    ),
)
EXIT_CODES = ANY | exit_codes(ExitCode.REFUSED)


def demo(
    context: Context,
    directory: Annotated[str, Argument(metavar="DIR", help="A directory that does not exist yet, or is empty.")],
    now: Annotated[str | None, Option(metavar="TIME",
        help="The time of the newest records; the current time without it.")] = None,
) -> int:  # fmt: skip
    """Make a small damaged log directory to try the commands on.

    It holds three days of a web shop: orders, a compacted topic of customers, payments in transactions, and a consumer
    group's offsets. The broker was killed, a partition ends in half a batch, and another has a flipped bit.
    """
    from kafkalog_cli.ops.demo import demo_lines, make_demo

    environment: Environment = context.obj
    now_ms = environment.now_ms() if now is None else now_of(environment, now)
    made = make_demo(environment.context, directory.rstrip("/") or "/", now_ms)
    out = ResultStream(environment.stdout)
    for line in demo_lines(made):
        out.write(f"{line}\n")
    out.flush()
    return ExitCode.OK
