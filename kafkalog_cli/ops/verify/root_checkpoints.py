"""Findings about damaged offset checkpoints at the root of a log directory."""

from __future__ import annotations

from kafkalog_cli.disk.fs import Filesystem, read_all
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import KafkalogError, shell_word
from kafkalog_cli.format.checkpoint import BrokerReading, broker_reading
from kafkalog_cli.ops.listing.reads import LocatedFault
from kafkalog_cli.ops.verify.diagnose import Finding, finding
from kafkalog_cli.ops.verify.finding_kinds import FindingKind

_FAILS = {
    FileKind.RECOVERY_POINT_CHECKPOINT: (
        "a broker takes the whole log directory offline when it starts, and stops if it has no other"
    ),
    FileKind.LOG_START_CHECKPOINT: (
        "a broker takes the whole log directory offline when it starts, and stops if it has no other"
    ),
    FileKind.REPLICATION_CHECKPOINT: (
        "a broker takes the whole log directory offline when it begins to lead or follow a partition of it,"
        " and stops if it has no other"
    ),
    FileKind.CLEANER_CHECKPOINT: (
        "a broker takes the whole log directory offline when its cleaner first looks for work, and stops if it has"
        " no other"
    ),
}
_THROWS = {
    FileKind.RECOVERY_POINT_CHECKPOINT: (
        "a broker takes 0 for every partition in the file: after an unclean stop it recovers all logs from their start"
    ),
    FileKind.LOG_START_CHECKPOINT: (
        "a broker takes 0 for every partition in the file: deleted records that are still on the disk come back"
    ),
    FileKind.REPLICATION_CHECKPOINT: (
        "a broker starts, but can lead or follow none of the partitions in the log directory: clients get no leader"
    ),
    FileKind.CLEANER_CHECKPOINT: "the cleaner threads of a broker end: compacted topics are no longer cleaned",
}
_OUT_OF_MEMORY = "a broker runs out of memory when it reads this file: with the usual heap of 1 GiB it does not start"


def damaged_checkpoint_finding(fs: Filesystem, log_dir: str, kind: FileKind, located: LocatedFault) -> Finding:
    """Return a finding about one fault in a checkpoint; its severity depends on how a broker reads the whole file."""
    try:
        reading = broker_reading(read_all(fs, located.path))
    except (KafkalogError, OSError):
        reading = BrokerReading.FAILS
    is_silent = reading in (BrokerReading.ENTRIES, BrokerReading.THROWS) and kind is not FileKind.REPLICATION_CHECKPOINT
    effect = _OUT_OF_MEMORY
    if reading is BrokerReading.FAILS:
        effect = _FAILS[kind]
    elif reading is BrokerReading.THROWS:
        effect = _THROWS[kind]
    return finding(
        FindingKind.CHECKPOINT_DAMAGED if is_silent else FindingKind.CHECKPOINT_MALFORMED,
        located.path,
        located.fault.message,
        position=located.fault.position,
        expected=located.fault.expected,
        got=located.fault.got,
        broker_effect=effect,
        next_step=f"`kafkalog recover {shell_word(log_dir)}` rebuilds the file from the lines that can be read",
    )
