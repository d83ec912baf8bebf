"""`kafkalog recover`: repair partitions, optionally exactly as a broker would at start-up."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Annotated

from typer import Context, Option

from kafkalog_cli.cli.changes import Changes
from kafkalog_cli.cli.exit_codes import CHANGE_DAMAGED
from kafkalog_cli.cli.options import Pacing, PartitionPaths, Printing, Safety, Topics, WriterSettings
from kafkalog_cli.errors import UsageError, counted, shell_word
from kafkalog_cli.format.kafka_version import NEWEST
from kafkalog_cli.ops.change.plans import Remark
from kafkalog_cli.ops.check.recover.plan import RecoverMode, RecoverPlan
from kafkalog_cli.ops.check.recover.recover import Recovered
from kafkalog_cli.ops.check.recover.recover import recover as repair
from kafkalog_cli.ops.check.recover.salvage import LostOffsets, Salvage, salvage_to
from kafkalog_cli.ops.steps import command_line, text_of
from kafkalog_cli.output.changes import CHANGED, Detail, Sums, change_details, remark_lines
from kafkalog_cli.output.human import setting_words
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import printable

EXAMPLES = {
    "See what a repair would do": "kafkalog recover /var/lib/kafka --dry-run",
    "Repair a log directory": "kafkalog recover /var/lib/kafka",
    "Copy all valid batches of a damaged partition": (
        "kafkalog recover /var/lib/kafka/orders-0 --salvage /mnt/salvaged"
    ),
}
EXIT_CODES = CHANGE_DAMAGED

_rule = partial(Option, rich_help_panel="Rules")


def recover(  # noqa: PLR0913
    context: Context,
    *,
    paths: PartitionPaths,
    topics: Topics,
    like_broker: Annotated[bool, _rule("--like-broker",
        help="Repair exactly as a broker would at start-up, honouring .kafka_cleanshutdown, followed by a clean"
        " stop.")] = False,
    indexes_only: Annotated[bool, _rule("--indexes-only",
        help="Rebuild missing and wrong indexes, and nothing else.")] = False,
    salvage: Annotated[str | None, _rule(metavar="OUT",
        help="Copy all valid batches, also after damage, into new partition directories in OUT.")] = None,
    since_recovery_point: Annotated[bool, _rule("--since-recovery-point",
        help="Check only segments from the recovery point on, as a broker does.")] = False,
    kafka_version: Annotated[str, _rule(metavar="VERSION", envvar="KAFKALOG_KAFKA_VERSION",
        help="With --like-broker: load as a broker of Kafka 4.2, 4.3 or 4.4 does. 4.4 refuses more transaction"
        " indexes.")] = NEWEST.value,
    discard: Annotated[bool, _rule("--discard",
        help="Keep no copy of removed bytes. The run cannot be undone.")] = False,
    settings: WriterSettings,
    safety: Safety,
    pacing: Pacing,
    printing: Printing,
) -> int:  # fmt: skip
    """Repair damaged partitions, and keep what is cut off for undo.

    Torn tails are cut, interrupted swaps of files are finished or undone, and missing or wrong indexes are rebuilt.
    All segments are checked, also after a clean shutdown. A partition with valid batches after damage stays as it
    is (exit code 14): --salvage copies its valid batches.

    If the disk reports errors, nothing is cut that could not be read, and --salvage reads the rest. Ctrl-C and
    SIGTERM end the run after the partitions in progress. The remaining partitions are listed (exit code 130).
    """
    if sum((like_broker, indexes_only, salvage is not None)) > 1:
        raise UsageError(reason="--like-broker, --indexes-only and --salvage exclude each other")
    if since_recovery_point and (like_broker or salvage is not None):
        raise UsageError(reason="--since-recovery-point needs plain recovery or --indexes-only")
    if not like_broker and getattr(context.get_parameter_source("kafka_version"), "name", "") == "COMMANDLINE":
        raise UsageError(reason="--kafka-version needs --like-broker: other repairs suit every version")
    if salvage is not None and (safety.dry_run or discard):
        raise UsageError(reason="--salvage changes nothing, and cannot be combined with --dry-run or --discard")
    if salvage is not None:
        copies = Changes(context, printing, _salvage_lines, {}, only_copies=True)
        options = copies.options(topics, safety, settings=settings, pacing=pacing)
        return copies.finish(salvage_to(paths, salvage, **options))
    mode = RecoverMode.INDEXES_ONLY if indexes_only else RecoverMode.REPAIR
    mode = RecoverMode.LIKE_BROKER if like_broker else mode
    changes = Changes(
        context, printing, _lines, CHANGED, question=_question, amounts=_AMOUNTS, is_dry_run=safety.dry_run
    )  # fmt: skip
    options = changes.options(topics, safety, settings=settings, pacing=pacing)
    return changes.finish(repair(
        paths, mode=mode, since_recovery_point=since_recovery_point, discard=discard,
        kafka_version=kafka_version if like_broker else None, **options,
    ))  # fmt: skip


# ---- recoveries as text


def _lines(recovered: Recovered) -> Iterable[str]:
    """Yield a line for the partition, its remarks, how to undo it, and in a dry run each setting and change."""
    plan, done = recovered.plan, recovered.done
    if recovered.live_path is not None:
        plan = replace(plan, path=recovered.live_path)
    would = "would be recovered: " if recovered.is_dry_run and plan.has_work else ""
    yield f"{printable(plan.path)}: {would}{_plan_words(plan)}"
    for remark, number in _grouped(plan.remarks):
        yield from remark_lines(plan.path, remark, number)
    if recovered.is_dry_run:
        for setting in plan.settings if plan.has_work else ():
            yield Detail(f"  {setting_words(setting)}")
        yield from change_details(plan.changes, plan.line_edits)
    if done is not None:
        undo = f"undo: kafkalog undo {shell_word(plan.path)} {done.manifest.run.run_id}"
        yield "  cannot be undone (--discard)" if done.manifest.discard else f"  {undo}"


_AMOUNTS: Sums = {"cut_bytes": lambda recovered: _cut_bytes(recovered.plan)}


def _cut_bytes(plan: RecoverPlan) -> int:
    return sum(cut.size_bytes for cut in plan.cut)


def _question(plan: RecoverPlan) -> str:
    """Return the question before valid records are removed."""
    done = [f"cut {sized(_cut_bytes(plan))}"] if plan.cut else []
    done += [f"remove {counted(len(plan.removed), 'segment')}"] if plan.removed else []
    what = " and ".join(done) or _plan_words(plan)
    return f"{what[:1].upper()}{what[1:]} in {printable(plan.path)}"


def _plan_words(plan: RecoverPlan) -> str:
    """Return what is done to the partition, in words."""
    if plan.is_refused:
        return "not recovered, nothing was changed"
    where = f"offsets {plan.log_start_offset} to {plan.log_end_offset}"
    if not plan.has_work:
        return f"nothing to do, {where}"
    done = []
    if plan.cut:
        done.append(f"{sized(_cut_bytes(plan))} cut")
    if plan.removed:
        done.append(f"{counted(len(plan.removed), 'segment')} removed")
    if plan.changes:
        done.append(f"{counted(len({change.name for change in plan.changes}), 'file')} changed")
    if not done:
        done.append(f"{counted(len(plan.line_edits), 'checkpoint line')} changed")
    return ", ".join([*done, where])


_MOST_ALIKE = 3
"""The most files with the same remark that are listed one by one."""


def _grouped(remarks: Sequence[Remark]) -> Iterator[tuple[Remark, int]]:
    """Yield the remarks with the number of files that have the same remark: more than 3 in a row are yielded once."""
    for _, group in groupby(remarks, lambda remark: (remark.message, remark.position, remark.next_step)):
        same = list(group)
        if len(same) > _MOST_ALIKE:
            yield same[0], len(same)
        else:
            yield from ((remark, 1) for remark in same)


# ---- copies as text


def _salvage_lines(salvaged: Salvage) -> Iterator[str]:
    """Yield lines for what was copied, and what is lost."""
    source, end_offset = salvaged.path, salvaged.end_offset
    offsets = "no offsets" if end_offset is None else f"offsets {salvaged.first_offset} to {end_offset}"
    segments = counted(salvaged.segments, "segment")
    batches = f"{counted(salvaged.batches, 'batch', 'batches')}, {sized(salvaged.bytes)} in {segments}"
    yield f"{printable(source)}: {batches} written to {printable(salvaged.out)}, {offsets}"
    for lost in salvaged.lost:
        yield f"  lost: {_lost(lost)}"
    for path, reason in salvaged.unreadable:
        yield f"  not read: {printable(path)}: {printable(reason)}"
    if salvaged.skipped:
        yield f"  left out: {salvaged.skipped} batches with a correct CRC, but wrong offsets or an unknown magic"
    if salvaged.next_step:
        then = ". With the broker stopped, put it in the place of the damaged log:" if salvaged.replacing else ""
        yield f"  next: {printable(text_of(salvaged.checking))}{then}"
        yield from (f"    {printable(command_line(argv))}" for argv in salvaged.replacing)


def _lost(lost: LostOffsets) -> str:
    where = f"{printable(lost.path.rpartition('/')[2])}, bytes {lost.start} to {lost.end}"
    if lost.unreadable_bytes:
        where += f", of which {lost.unreadable_bytes} cannot be read"
    if lost.last is None:
        return f"whatever there was from offset {lost.first} on ({where})"
    return f"offsets {lost.first} to {lost.last} ({where})"
