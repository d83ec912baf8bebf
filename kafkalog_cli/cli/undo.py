"""`kafkalog undo`: restore the state before a run."""

from collections.abc import Iterator
from typing import Annotated

from typer import Argument, Context

from kafkalog_cli.cli.changes import Changes
from kafkalog_cli.cli.exit_codes import CHANGE
from kafkalog_cli.cli.options import Printing, Safety, Topics
from kafkalog_cli.errors import shell_word
from kafkalog_cli.ops.change.policy_rules import Action
from kafkalog_cli.ops.change.undo.plan import Undo, UndoStep
from kafkalog_cli.ops.change.undo.verb import undo as undo_run
from kafkalog_cli.output.changes import Sums
from kafkalog_cli.output.stream import printable

EXAMPLES = {
    "See what undoing a run would restore": (
        "kafkalog undo /var/lib/kafka/orders-0 20261121T131034.088Z-recover-91ac --dry-run"
    ),
    "Undo a run in all partitions of a log directory": (
        "kafkalog undo /var/lib/kafka 20261121T131034.088Z-recover-91ac"
    ),
}
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


def _lines(done: Undo) -> Iterator[str]:
    """Return the line of an undone run, and its steps."""
    run = f"{printable(done.path)}: run {printable(done.run_id)}"
    if done.manifest is None:
        yield f"{run}: had changed nothing" + ("" if done.dry_run else ", its leftovers are removed")
        return
    if not done.needs_undo:
        yield f"{run}: was undone before"
        return
    yield f"{run} ({done.action}) {'would be' if done.dry_run else 'is'} undone"
    for step in done.steps:
        yield f"  {_sentence(step)}"
    if done.moves_marker:
        yield f"  {_marker_sentence(done)}"
    if not done.dry_run:
        action = done.manifest.run.action
        again = f"`kafkalog recover {shell_word(done.path)}`" if action == Action.RECOVER.value else printable(action)
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


def _marker_sentence(done: Undo) -> str:
    if done.dry_run:
        return ".kafka_cleanshutdown: comes back if no other run is waited for"
    is_back = done.clean_shutdown_marker
    return f".kafka_cleanshutdown: {'is there again' if is_back else 'stays away: another run is waited for'}"
