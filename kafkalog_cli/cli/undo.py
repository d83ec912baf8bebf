"""`kafkalog undo`: restore the state before a run."""

from collections.abc import Iterator
from typing import Annotated

from typer import Argument, Context

from kafkalog_cli.cli.call_groups import Printing, Safety
from kafkalog_cli.cli.changes import Changes
from kafkalog_cli.cli.exit_codes import CHANGE
from kafkalog_cli.cli.option_groups import Topics
from kafkalog_cli.errors import shell_word
from kafkalog_cli.ops.change.policy_rules import Action
from kafkalog_cli.ops.change.undo.plan import UndoResult, UndoStep
from kafkalog_cli.ops.change.undo.verb import Undone
from kafkalog_cli.ops.change.undo.verb import undo as undo_run
from kafkalog_cli.output.changes import Sums
from kafkalog_cli.output.stream import printable

EXAMPLES = (
    (
        "See what undoing a run would restore",
        "kafkalog undo /var/lib/kafka/orders-0 20261121T131034.088Z-recover-91ac --dry-run",
    ),
    (
        "Undo a run in all partitions of a log directory",
        "kafkalog undo /var/lib/kafka 20261121T131034.088Z-recover-91ac",
    ),
)
EXIT_CODES = CHANGE


def undo(  # noqa: PLR0913
    context: Context,
    *,
    path: Annotated[str, Argument(metavar="PATH", help="A partition directory, or the log directory.")],
    run: Annotated[str, Argument(metavar="RUN",
        help="The run, as the command printed it at its end. ls lists runs.")] = "",
    topics: Topics,
    safety: Safety,
    printing: Printing,
) -> int:  # fmt: skip
    """Restore the files from before a run.

    Contents, names, modes, owners, times and lines of checkpoints are restored. An undo is refused (exit code 14) if a
    partition has changed since the run, for example because a broker has started on it. A run that was interrupted can
    be undone too, and so can an undo.
    """
    changes = Changes(context, printing, _lines, _SUMS, is_dry_run=safety.dry_run)
    return changes.finish(undo_run(path, run, **changes.options(topics, safety)))


_SUMS: Sums = {"undone": lambda done: int(done.undone)}


def _lines(done: Undone) -> Iterator[str]:
    """Return the line of an undone run, and its steps."""
    plan, result = done.plan, done.result
    run = f"{printable(plan.path)}: run {printable(plan.run_id)}"
    if plan.manifest is None:
        yield f"{run}: had changed nothing" + (", its leftovers are removed" if result is not None else "")
        return
    if not plan.has_work:
        yield f"{run}: was undone before"
        return
    yield f"{run} ({plan.manifest.run.action}) {'would be' if result is None else 'is'} undone"
    for step in plan.steps:
        yield f"  {_sentence(step)}"
    if plan.moves_marker:
        yield f"  {_marker_sentence(result)}"
    if result is not None:
        action = plan.manifest.run.action
        again = f"`kafkalog recover {shell_word(plan.path)}`" if action == Action.RECOVER.value else printable(action)
        yield f"  an undo cannot be undone; {again} makes such changes again"


def _sentence(step: UndoStep) -> str:
    name = printable(step.name)
    if step.what == "restore":
        return f"{name}: {'as it was' if step.size_bytes is None else f'{step.size_bytes} bytes back'}"
    if step.what == "cut":
        return f"{name}: cut to its {step.size_bytes} bytes of before"
    if step.what == "rename":
        return f"{name}: named {printable(step.to or '')} again"
    if step.what == "remove":
        return f"{name}: removed, it was new"
    return f"{name}: {'no line' if step.to is None else f'line {printable(step.to)}'}"


def _marker_sentence(result: UndoResult | None) -> str:
    if result is None:
        return ".kafka_cleanshutdown: comes back if no other run is waited for"
    return f".kafka_cleanshutdown: {'is there again' if result.marker else 'stays away: another run is waited for'}"
