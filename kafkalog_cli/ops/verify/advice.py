"""Rate findings by what the broker had acknowledged, and choose their next steps by replicas and possible repairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kafkalog_cli.disk.names import DirectoryKind
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.checks.diagnose import Finding, finding, with_path
from kafkalog_cli.ops.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.listing.root import LogDirRoot, Shutdown
from kafkalog_cli.ops.next_steps import CUT_ACKNOWLEDGED, EPOCHS_STAY, SALVAGE, chosen
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


_NODE_RECOVERS = (
    "a node recovers the whole metadata log each time it starts: damage at its end is cut off, indexes are rebuilt"
)
"""KafkaRaftLog opens its UnifiedLog with lastShutdownClean=false and recoveryPoint=0."""


def advised(found: Iterable[Finding], partition: Partition, facts: TopicFacts) -> Iterator[Finding]:
    """Yield the findings about a partition, with next steps that are ready to paste."""
    findings = [*found]
    odd = {one.path: one for one in findings if one.kind is FindingKind.ODD_FILE}
    # Nothing else is true of such an entry, and no command repairs the partition while it is there.
    findings = [one for one in findings if one.kind is FindingKind.ODD_FILE or one.path not in odd]
    if odd:
        first = with_path(next(iter(odd.values())), partition.path).next_step
        findings = [replace(one, next_step=first) if _is_repair(one.next_step) else one for one in findings]
    if partition.directory.is_metadata_log:  # recover leaves it to its controllers
        findings = [_left_to_the_node(one) if _is_repair(one.next_step) else one for one in findings]
    left = _LEFT_TO_THE_BROKER.get(partition.directory.kind)
    if left is not None:
        findings = [replace(one, next_step=left) if _names_recover(one.next_step) else one for one in findings]
    is_blocked = any(one.kind in _NOT_REPAIRED and SALVAGE.text in one.next_step for one in findings)
    goes_back = any(one.kind is FindingKind.EPOCH_GOES_BACK for one in findings)
    for one in findings:
        step = _BLOCKED if is_blocked and _is_repair(one.next_step) else one.next_step
        if goes_back and one.kind is FindingKind.EPOCHS_WRONG and one.first_offset is not None:
            step = EPOCHS_STAY.text  # no file fits the batches, and a broker can read this file
        yield with_path(replace(one, next_step=chosen(step, facts.replication)), partition.path, facts.metadata_option)


def _left_to_the_node(one: Finding) -> Finding:
    return replace(one, broker_effect=_NODE_RECOVERS, next_step="nothing has to be done")


def _names_recover(step: str) -> bool:
    return "`kafkalog recover " in step


def _is_repair(step: str) -> bool:
    return "`kafkalog recover " in step and "--salvage" not in step


_EFFECT = "after the clean stop a broker keeps it: consumers fail at it, and followers that fetch it stop"


def with_acknowledged(
    findings: Iterable[Finding], root: LogDirRoot | None, topic: str, partition: int | None
) -> Iterator[Finding]:
    """Yield the findings; a bad last batch below the high watermark of a clean stop becomes corruption."""
    watermark = None
    if root is not None and partition is not None and root.shutdown is Shutdown.CLEAN:
        watermark = root.offsets_of(topic, partition).high_watermark
    for one in findings:
        is_tail = one.kind is FindingKind.BAD_TAIL_BATCH and one.first_offset is not None
        if not is_tail or watermark is None or one.first_offset is None or one.first_offset >= watermark:
            yield one
            continue
        yield finding(
            FindingKind.CRC_MISMATCH,
            one.path,
            f"{one.message}, and the broker stopped cleanly with the high watermark {watermark}: it was whole then",
            position=one.position,
            expected=one.expected,
            got=one.got,
            offsets=(one.first_offset, one.last_offset if one.last_offset is not None else one.first_offset),
            broker_effect=_EFFECT,
            next_step=CUT_ACKNOWLEDGED.text,
        )
