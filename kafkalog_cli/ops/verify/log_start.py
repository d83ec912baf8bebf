"""Segments missing at the start of a log: no batch shows the gap, but other files show that it existed."""

from __future__ import annotations

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.names import DirectoryKind, FileKind, WorkState
from kafkalog_cli.errors import counted
from kafkalog_cli.log.checkpoints import read_leader_epochs
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.checks.diagnose import Finding, finding
from kafkalog_cli.ops.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.listing.root import LogDirRoot, Shutdown
from kafkalog_cli.ops.verify.places import TopicFacts


def missing_start(fs: Filesystem, partition: Partition, root: LogDirRoot | None, facts: TopicFacts) -> Finding | None:
    """Return a finding about offsets before the first segment that a broker had and did not delete, None if none.

    Whenever a broker moves the start of a log (retention, delete-records, a new replica), it also moves the first entry
    of leader-epoch-checkpoint (LeaderEpochFileCache.truncateFromStart). On a clean stop it writes a line of
    log-start-offset-checkpoint only if the log starts after the base offset of the first segment
    (LogManager.checkpointLogStartOffsetsInDir). For a tiered topic it always writes the line.

    There is a finding only if the topic is known not to be compacted. A broker that crashed while it deleted segments,
    and was started again, does not move the first entry. So the entry proves nothing for a topic of which nothing is
    known.
    """
    is_ordinary = partition.directory.kind in (DirectoryKind.PARTITION, DirectoryKind.OTHER)
    may_tell = is_ordinary and not partition.directory.is_metadata_log and not facts.is_tiered
    if facts.is_compacted is not False or facts.is_in_cleaner_checkpoint or not may_tell:
        return None
    if not partition.segments or partition.segments[0].is_seven:
        return None
    first = partition.segments[0].base_offset
    line = None if root is None else root.offsets_of(partition.topic, partition.number).log_start
    epochs = _first_epoch_offset(fs, partition)
    is_final = root is not None and root.shutdown is Shutdown.CLEAN
    sources = []
    if epochs is not None and epochs < first:
        sources.append("leader-epoch-checkpoint")
    if line is not None and line < first and is_final:
        sources.append("log-start-offset-checkpoint")
    start = max(epochs if epochs is not None and epochs < first else 0, line or 0, 0)
    if not sources or start >= first or _is_being_deleted(partition, start, first):
        return None
    return _finding(partition, (start, first - 1), sources, facts)


def _finding(partition: Partition, offsets: tuple[int, int], sources: list[str], facts: TopicFacts) -> Finding:
    start, last = offsets
    many = counted(last - start + 1, "offset", "offsets")
    lost = f"offsets {start} to {last} ({many}) are missing" if last > start else f"offset {start} is missing"
    tiered = "" if facts.is_tiered is False else ". In a tiered topic they may be in the remote storage"
    step = "compare with another replica or a backup (--against)"
    if facts.is_tiered is None:
        step += "; if the topic is tiered, that explains it: `kafkalog verify PATH --config remote.storage.enable=true`"
    return finding(
        FindingKind.MISSING_OFFSETS,
        partition.segments[0].log.path,
        f"{lost}: the log begins at {last + 1}, {' and '.join(sources)} remember{'s' * (len(sources) == 1)} earlier"
        f" records, and this topic is not compacted{tiered}",
        expected=f"a segment from offset {start} on",
        got=f"offset {last + 1}",
        offsets=offsets,
        broker_effect=f"a broker starts the log at {last + 1}: consumers do not get the earlier records. A broker that"
        " crashed while it deleted old segments leaves the same traces",
        next_step=step,
    )


def _first_epoch_offset(fs: Filesystem, partition: Partition) -> int | None:
    """Return the start offset of the first leader epoch, None if the file is missing, empty, damaged or unreadable."""
    entries, faults = read_leader_epochs(fs, partition)
    return None if faults or not entries else entries[0].start_offset


def _is_being_deleted(partition: Partition, start: int, first: int) -> bool:
    """Whether a broker was deleting these segments: it renames them first, and writes its checkpoints later."""
    return any(
        left.name.kind is FileKind.LOG
        and left.name.state is WorkState.DELETED
        and left.name.offset is not None
        and start <= left.name.offset < first
        for left in partition.leftovers
    )
