"""`kafkalog demo`: make a small damaged log directory to try the commands on."""

from typing import Annotated

from kafkalog_cli.cli.declared import Argument, Command, CommandContext, Option
from kafkalog_cli.cli.environment import now_of
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.output.stream import ResultStream


def demo(
    context: CommandContext,
    directory: Annotated[str, Argument(metavar="DIR", help="A directory that does not exist yet, or is empty.")],
    now: Annotated[str | None, Option(metavar="TIME",
        help="The time of the newest records; the current time without it.")] = None,
) -> int:  # fmt: skip
    """Make a small damaged log directory to try the commands on.

    It holds three days of a web shop: orders, a compacted topic of customers, payments in transactions, and a consumer
    group's offsets. The broker was killed, a partition ends in half a batch, and another has a flipped bit.
    """
    from kafkalog_cli.ops.demo import demo_lines, make_demo

    environment = context.environment
    now_ms = environment.now_ms() if now is None else now_of(environment, now)
    made = make_demo(environment.context, directory.rstrip("/") or "/", now_ms)
    out = ResultStream(environment.stdout)
    for line in demo_lines(made):
        out.write(f"{line}\n")
    out.flush()
    return ExitCode.OK


command = Command(demo)
