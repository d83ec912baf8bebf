"""Choose the next steps of a partition's findings by its replicas, and by what `recover` can repair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.next_steps import SALVAGE, chosen
from kafkalog_cli.ops.verify.diagnose import Finding, with_path
from kafkalog_cli.ops.verify.finding_kinds import FindingKind
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


_NODE_RECOVERS = (
    "a node recovers the whole metadata log each time it starts: damage at its end is cut off, indexes are rebuilt"
)
"""KafkaRaftLog opens its UnifiedLog with lastShutdownClean=false and recoveryPoint=0."""


def advised(found: Iterable[Finding], partition: Partition, facts: TopicFacts) -> Iterator[Finding]:
    """Yield the findings about a partition, with next steps that are ready to paste."""
    findings = [*found]
    if partition.directory.is_metadata_log:  # recover leaves it to its controllers
        findings = [_left_to_the_node(one) if _is_repair(one.next_step) else one for one in findings]
    is_blocked = any(one.kind in _NOT_REPAIRED and SALVAGE.text in one.next_step for one in findings)
    for one in findings:
        step = _BLOCKED if is_blocked and _is_repair(one.next_step) else one.next_step
        yield with_path(replace(one, next_step=chosen(step, facts.replication)), partition.path, facts.metadata_option)


def _left_to_the_node(one: Finding) -> Finding:
    return replace(one, broker_effect=_NODE_RECOVERS, next_step="nothing has to be done")


def _is_repair(step: str) -> bool:
    return "`kafkalog recover " in step and "--salvage" not in step
