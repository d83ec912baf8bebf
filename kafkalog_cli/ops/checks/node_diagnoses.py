"""The diagnoses of a KRaft node's metadata log, which the checks of `ops.verify.metadata_log` complete."""

from kafkalog_cli.ops.checks.finding_kinds import FindingKind, Severity, StartAction, row
from kafkalog_cli.ops.steps import AS_A_NODE

_CORRUPTION = Severity.CORRUPTION

NODE_DIAGNOSES = {
    FindingKind.METADATA_LOG: row(
        _CORRUPTION,
        "the node does not start, or cuts its metadata log: records are lost",
        *AS_A_NODE,
        at_start=StartAction.DOES_NOT_START,
    ),
    FindingKind.METADATA_SNAPSHOT: row(
        _CORRUPTION,
        "if it is the newest snapshot, the node does not start, or takes what it can read for the whole state",
        *AS_A_NODE,
    ),
    FindingKind.METADATA_SNAPSHOT_MISSING: row(
        _CORRUPTION,
        "the node does not start: Inconsistent snapshot state",
        *AS_A_NODE,
        at_start=StartAction.DOES_NOT_START,
    ),
    FindingKind.METADATA_RECORD: row(
        _CORRUPTION,
        "the node does not start: its controller ends at this record",
        *AS_A_NODE,
        at_start=StartAction.DOES_NOT_START,
    ),
    FindingKind.METADATA_NEWER: row(
        _CORRUPTION,
        "the node does not start: its Kafka must be as new as the record",
        *AS_A_NODE,
        at_start=StartAction.DOES_NOT_START,
    ),
}
