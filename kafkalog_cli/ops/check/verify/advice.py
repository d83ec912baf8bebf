"""Next steps of the findings about a partition that are ready to paste, as the whole partition allows them."""

from collections.abc import Iterable, Iterator
from functools import partial

from kafkalog_cli.disk.names import OWN_DIRECTORY, DirectoryKind
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.check.checks.diagnose import Finding, with_path
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.check.verify.places import TopicFacts
from kafkalog_cli.ops.steps import (
    CUT_ACKNOWLEDGED,
    EPOCHS_STAY,
    MOVE_AWAY,
    NO_COPY_OF_07,
    SALVAGE,
    Step,
    Steps,
    flat,
    for_replicas,
    nothing,
    together,
)

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

_BLOCKED = (Step("recover cannot repair it while valid batches follow damage in the log", end=": "), SALVAGE)

_LEFT_TO_THE_BROKER: dict[DirectoryKind, Steps] = {
    DirectoryKind.DELETE: (nothing(": a broker that starts removes the directory"),),
    DirectoryKind.FUTURE: (
        together(
            [MOVE_AWAY],
            "moves it away, and the broker makes a new copy when it is asked again",
            "if the partition is in another log directory, nothing can be done to this copy: with the broker stopped",
        ),
        Step("Else, it is the only copy: give it the partition's name, and verify it again"),
    ),
}
"""Next steps for directories that `recover` refuses."""


def add_next_steps(
    found: Iterable[Finding], partition: Partition, facts: TopicFacts, at_root: Finding | None
) -> Iterator[Finding]:
    """Yield the findings about a partition, with next steps that are ready to paste.

    `at_root` is a finding at the root of the log directory, without which no command changes a partition.
    """
    findings = [*found]
    if not findings:
        return
    unusable = {one.path: one for one in findings if one.kind is FindingKind.ODD_FILE}
    # Nothing else is true of such an entry, and no command repairs the partition while it is there.
    findings = [one for one in findings if one.kind is FindingKind.ODD_FILE or one.path not in unusable]
    in_the_way = next(filter(partial(_is_in_the_way, partition), findings), at_root)
    if in_the_way is not None:
        place = in_the_way.path.rpartition("/")[0] if in_the_way is at_root else partition.path
        first = with_path(in_the_way, place).steps
        findings = [one._replace(steps=first) if _is_repair(one) else one for one in findings]
    if partition.directory.kind is DirectoryKind.DELETE:  # a broker leaves no snapshot in a replica that it moved
        findings = [one for one in findings if one.kind is not FindingKind.SNAPSHOTS_MISSING]
    left = _LEFT_TO_THE_BROKER.get(partition.directory.kind)
    marked = [one for one in findings if one.kind is FindingKind.MARKED_DIRECTORY and one.steps]
    if partition.directory.kind is DirectoryKind.STRAY and marked and not _names_recover(marked[0]):
        left = marked[0].steps  # recover refuses it, as the partition is in its place again
    if left is not None:
        findings = [one._replace(steps=left) if _names_recover(one) else one for one in findings]
    is_blocked = any(one.kind in _NOT_REPAIRED and SALVAGE in one.steps for one in findings)
    goes_back = any(one.kind is FindingKind.EPOCH_GOES_BACK for one in findings)
    for one in findings:
        steps = _BLOCKED if is_blocked and _is_repair(one) else one.steps
        if SALVAGE in steps and any(segment.is_v07 for segment in partition.segments):
            steps = NO_COPY_OF_07
        if goes_back and one.kind is FindingKind.EPOCHS_WRONG and one.first_offset is not None:
            steps = (EPOCHS_STAY,)  # no file fits the batches, and a broker can read this file
        decided = one._replace(steps=for_replicas(steps, facts.replication))
        yield with_path(decided, partition.path, facts.metadata_option)


def _is_in_the_way(partition: Partition, one: Finding) -> bool:
    """Whether no command repairs the partition before the step of this finding."""
    is_own = one.kind is FindingKind.ODD_ENTRY and one.path == f"{partition.path.rstrip('/')}/{OWN_DIRECTORY}"
    return is_own or one.kind in {FindingKind.ODD_FILE, FindingKind.BAD_NAME}


def _names_recover(one: Finding) -> bool:
    return any(step.recovers for step in flat(one.steps))


def _is_repair(one: Finding) -> bool:
    steps = [step for step in flat(one.steps) if step.recovers]
    return bool(steps) and all(step.repairs for step in steps)


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
        yield one._replace(
            kind=FindingKind.CRC_MISMATCH, message=message, broker_effect=_EFFECT, steps=(CUT_ACKNOWLEDGED,)
        )
