"""The offset checkpoints of a log directory, and the leader epochs of a partition.

`change.checkpoint_lines` changes the lines of offset checkpoints.
"""

import os
from enum import Enum, unique
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem, read_all
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import KafkalogError, PathNotFound
from kafkalog_cli.format import checkpoint
from kafkalog_cli.format.checkpoint import BrokerReading, EpochEntry
from kafkalog_cli.format.fault import Fault, unreadable
from kafkalog_cli.log.partition import OFFSET_CHECKPOINTS, Partition


class RootCheckpoints(NamedTuple):
    """The four offset checkpoints of a log directory.

    `offsets` are by (topic, partition). A damaged file contributes the lines that can be read, though a broker reads
    none of them. `faults` are pairs of path and fault.
    """

    log_dir: str
    offsets: dict[FileKind, dict[tuple[str, int], int]]
    faults: tuple[tuple[str, Fault], ...] = ()
    readings: tuple[tuple[FileKind, BrokerReading], ...] = ()
    """How a broker reacts to each damaged file."""
    repeated: frozenset[FileKind] = frozenset()
    """The files with several lines for one partition."""
    cleaned_topics: frozenset[str] = frozenset()
    """The topics with a line in cleaner-offset-checkpoint. The policy of one partition is that of all of the topic."""

    def needs_rebuild(self, kind: FileKind) -> bool:
        """Whether a broker cannot read the file, or it has several lines for one partition."""
        return kind in self.repeated or any(kind is damaged for damaged, _ in self.readings)

    def offset(self, kind: FileKind, topic: str, partition: int) -> int | None:
        """Return the offset in a partition's line; None if there is no line."""
        return self.offsets.get(kind, {}).get((topic, partition))


@unique
class HighWatermarkOrigin(Enum):
    """The source of a high watermark. The value is its word in JSON output."""

    CHECKPOINT = FileKind.REPLICATION_CHECKPOINT.value
    LOG_END = "log-end"


class HighWatermark(NamedTuple):
    """The offset below which every in-sync replica has the records, as far as the disk shows."""

    offset: int
    origin: HighWatermarkOrigin


def high_watermark(log_end: int, checkpointed: int | None) -> HighWatermark:
    """Return the smaller of the log end and `checkpointed`, the partition's line in replication-offset-checkpoint.

    `checkpointed` None: there is no line, and the high watermark is the log end.
    """
    if checkpointed is None or checkpointed > log_end:
        return HighWatermark(log_end, HighWatermarkOrigin.LOG_END)
    return HighWatermark(checkpointed, HighWatermarkOrigin.CHECKPOINT)


def read_root_checkpoints(fs: Filesystem, log_dir: str) -> RootCheckpoints:
    """Return the offset checkpoints of a log directory. A missing file has no lines, and a damaged file has faults.

    Never raises.
    """
    offsets: dict[FileKind, dict[tuple[str, int], int]] = {}
    faults: list[tuple[str, Fault]] = []
    readings: list[tuple[FileKind, BrokerReading]] = []
    repeated: set[FileKind] = set()
    for kind in OFFSET_CHECKPOINTS:
        path = checkpoint_path(log_dir, kind)
        try:
            data = read_all(fs, path)
            entries, found = checkpoint.decode_offsets(data)
        except PathNotFound:
            continue
        except (KafkalogError, OSError) as error:
            faults.append((path, unreadable(error)))
            continue
        offsets[kind] = {(entry.topic, entry.partition): entry.offset for entry in entries}
        faults += [(path, fault) for fault in found]
        if found:
            readings.append((kind, checkpoint.broker_reading(data)))
        if len(offsets[kind]) < len(entries):
            repeated.add(kind)
    cleaned = frozenset(topic for topic, _ in offsets.get(FileKind.CLEANER_CHECKPOINT, {}))
    return RootCheckpoints(log_dir, offsets, tuple(faults), tuple(readings), frozenset(repeated), cleaned)


def checkpoint_path(log_dir: str, kind: FileKind) -> str:
    """Return the path of an offset checkpoint."""
    return os.path.join(log_dir, kind.value)  # noqa: PTH118 (paths are text)


def read_leader_epochs(fs: Filesystem, partition: Partition) -> tuple[list[EpochEntry], list[Fault]]:
    """Return the readable lines of a partition's leader-epoch-checkpoint, and its faults; nothing without the file.

    Raises as `open_read`.
    """
    if partition.leader_epochs is None:
        return [], []
    return checkpoint.decode_leader_epochs(read_all(fs, partition.leader_epochs.path))


def try_leader_epochs(fs: Filesystem, partition: Partition) -> tuple[list[EpochEntry], list[Fault]]:
    """Return what `read_leader_epochs` returns; a file that cannot be read is one fault of the kind UNREADABLE."""
    try:
        return read_leader_epochs(fs, partition)
    except (KafkalogError, OSError) as error:
        return [], [unreadable(error)]
