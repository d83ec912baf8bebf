"""Next steps of the findings about a partition that are ready to paste, as the whole partition allows them."""

from collections.abc import Iterable, Iterator
from functools import partial

from kafkalog_cli.disk.names import OWN_DIRECTORY, DirectoryKind
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.checks.diagnose import Finding, with_path
from kafkalog_cli.ops.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.next_steps import CUT_ACKNOWLEDGED, EPOCHS_STAY, NO_COPY_OF_SEVEN, SALVAGE, chosen
from kafkalog_cli.ops.verify.places import TopicFacts

_NOT_REPAIRED = frozenset(
    {
        FindingKind.DAMAGED_RANGE,
        FindingKind.ZEROED_RANGE,
        FindingKind.CRC_MISMATCH,
        FindingKind.UNREADABLE_RANGE,
        FindingKind.BATCH_TOO_LARGE,
        FindingKind.UNKNOWN_MAGIC,
        FindingKind.OFFSETS_NOT_ASCENDING,
        FindingKind.OFFSET_OUTSIDE_SEGMENT,
        FindingKind.SEGMENT_TOO_LARGE,
        FindingKind.CONTROL_RECORD,
    }
)
"""Damage in a log that `recover` refuses, or may refuse, to repair."""

_BLOCKED = f"recover cannot repair it while valid batches follow damage in the log: {SALVAGE.text}"


_LEFT_TO_THE_BROKER = {
    DirectoryKind.DELETE: "nothing has to be done: a broker that starts removes the directory",
    DirectoryKind.FUTURE: "if the partition is in another log directory, nothing can be done to this copy: with the"
    " broker stopped, `mv -nT PATH PATH_AWAY` moves it away, and the broker makes a new copy when it is asked again."
    " Else, it is the only copy: give it the partition's name, and verify it again",
}
"""Next steps for directories that `recover` refuses."""


def advised(
    found: Iterable[Finding], partition: Partition, facts: TopicFacts, at_root: Finding | None
) -> Iterator[Finding]:
    """Yield the findings about a partition, with next steps that are ready to paste.

    `at_root` is a finding at the root of the log directory, without which no command changes a partition.
    """
    findings = [*found]
    odd = {one.path: one for one in findings if one.kind is FindingKind.ODD_FILE}
    # Nothing else is true of such an entry, and no command repairs the partition while it is there.
    findings = [one for one in findings if one.kind is FindingKind.ODD_FILE or one.path not in odd]
    in_the_way = next(filter(partial(_is_in_the_way, partition), findings), at_root)
    if in_the_way is not None:
        place = in_the_way.path.rpartition("/")[0] if in_the_way is at_root else partition.path
        first = with_path(in_the_way, place).next_step
        findings = [one._replace(next_step=first) if _is_repair(one.next_step) else one for one in findings]
    if partition.directory.kind is DirectoryKind.DELETE:  # a broker leaves no snapshot in a replica that it moved
        findings = [one for one in findings if one.kind is not FindingKind.SNAPSHOTS_MISSING]
    left = _LEFT_TO_THE_BROKER.get(partition.directory.kind)
    marked = [one.next_step for one in findings if one.kind is FindingKind.MARKED_DIRECTORY]
    if partition.directory.kind is DirectoryKind.STRAY and marked and not _names_recover(marked[0]):
        left = marked[0]  # recover refuses it, as the partition is in its place again
    if left is not None:
        findings = [one._replace(next_step=left) if _names_recover(one.next_step) else one for one in findings]
    is_blocked = any(one.kind in _NOT_REPAIRED and SALVAGE.text in one.next_step for one in findings)
    goes_back = any(one.kind is FindingKind.EPOCH_GOES_BACK for one in findings)
    for one in findings:
        step = _BLOCKED if is_blocked and _is_repair(one.next_step) else one.next_step
        if SALVAGE.text in step and any(segment.is_seven for segment in partition.segments):
            step = NO_COPY_OF_SEVEN
        if goes_back and one.kind is FindingKind.EPOCHS_WRONG and one.first_offset is not None:
            step = EPOCHS_STAY.text  # no file fits the batches, and a broker can read this file
        yield with_path(one._replace(next_step=chosen(step, facts.replication)), partition.path, facts.metadata_option)


def _is_in_the_way(partition: Partition, one: Finding) -> bool:
    """Whether no command repairs the partition before the step of this finding."""
    is_own = one.kind is FindingKind.ODD_ENTRY and one.path == f"{partition.path.rstrip('/')}/{OWN_DIRECTORY}"
    return is_own or one.kind in {FindingKind.ODD_FILE, FindingKind.BAD_NAME}


def _names_recover(step: str) -> bool:
    return "`kafkalog recover " in step


def _is_repair(step: str) -> bool:
    return "`kafkalog recover " in step and "--salvage" not in step


_EFFECT = "after the clean stop a broker keeps it: consumers fail at it, and followers that fetch it stop"


def with_acknowledged(findings: Iterable[Finding], watermark: int | None) -> Iterator[Finding]:
    """Yield the findings; a bad last batch below the high watermark of a clean stop becomes corruption."""
    for one in findings:
        first = one.first_offset if one.kind is FindingKind.BAD_TAIL_BATCH else None
        if first is None or watermark is None or first >= watermark:
            yield one
            continue
        stop = f"the broker stopped cleanly with the high watermark {watermark}"
        message = f"{one.message}, and {stop}: it was whole then"
        kind, step = FindingKind.CRC_MISMATCH, CUT_ACKNOWLEDGED.text
        yield one._replace(kind=kind, message=message, broker_effect=_EFFECT, next_step=step)
