"""Checks of names and sizes in a partition directory: leftovers, orphans, missing and unknown files."""

from collections.abc import Iterator
from itertools import product

from kafkalog_cli.change.new_partitions import is_staged
from kafkalog_cli.change.runs import odd_entries
from kafkalog_cli.disk.directory_contents import holds_partition
from kafkalog_cli.disk.fs import FileStatus, Filesystem
from kafkalog_cli.disk.lock import log_dir_of
from kafkalog_cli.disk.names import (
    SEGMENT_KINDS,
    DirectoryKind,
    FileKind,
    WorkState,
    classify_file,
    offset_of_file_name,
    segment_file_name,
)
from kafkalog_cli.errors import KafkalogError, Unreadable
from kafkalog_cli.format.index import OffsetIndex, TimeIndex
from kafkalog_cli.log.log_end import is_index_missing
from kafkalog_cli.log.partition import Partition, is_passed_over, unusable_files
from kafkalog_cli.log.reading.header import Headers
from kafkalog_cli.ops.check.checks.diagnose import Finding, finding
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.steps import MOVE_ASIDE, Step, Word, nothing

_MARKED = {
    DirectoryKind.DELETE: (
        "marked for deletion: the topic was deleted, or the replica moved to another log directory or broker",
        "a broker that starts deletes the directory",
    ),
    DirectoryKind.FUTURE: (
        "it is being copied from another log directory",
        "a broker that starts goes on copying",
    ),
}


_READ_07 = (
    nothing(end="; "),
    Step("", ("kafkalog", "dump-log", Word.FILE, "--print-data-log"), "prints its records"),
)
_NOTHING_REMAINS = (
    Step("find out who made it", end="; "),
    Step("", MOVE_ASIDE, "moves it away"),
    Step("The directory then has no file of Kafka: a broker starts an empty partition in it"),
)


def file_findings(fs: Filesystem, partition: Partition) -> Iterator[Finding]:
    """Yield the findings from file names; a log is read only to find which segments a swap file replaces."""
    kind = partition.directory.kind
    if kind in _MARKED:  # -stray directories are reported with the facts of the metadata log
        message, effect = _MARKED[kind]
        if is_staged(partition.directory.name):
            message = "an import built it, but has not moved it to its place"
        yield finding(FindingKind.MARKED_DIRECTORY, partition.path, message, broker_effect=effect)
    yield from _leftovers(fs, partition)
    for orphan in partition.orphans:
        if orphan.name.offset is None:  # see `bad_names`; ._X.index is no index of a log X
            continue
        message = f"there is no log beside it: {segment_file_name(orphan.name.offset, FileKind.LOG)} is missing"
        yield finding(FindingKind.ORPHAN_INDEX, orphan.status.path, message)
    yield from _others(fs, partition)
    for entry in partition.entries if partition.directory.is_metadata_log else ():
        name = classify_file(entry.name)
        if name.kind is FileKind.METADATA_SNAPSHOT and name.offset is None:  # Snapshots.parse throws
            message = "a node takes it for a snapshot, whose name must begin with end offset and epoch"
            yield finding(FindingKind.BAD_NAME, entry.path, message)
    yield from _of_runs(fs, partition)
    for segment in partition.segments:
        if not segment.log.size_bytes and segment is not partition.segments[-1]:
            yield finding(FindingKind.EMPTY_SEGMENT, segment.log.path, "empty, and not the last segment")


def _of_runs(fs: Filesystem, partition: Partition) -> Iterator[Finding]:
    """Yield the findings about `.kafkalog`."""
    try:
        unexpected = odd_entries(fs, partition.path, partition.entries)
    except Unreadable as error:
        unexpected = []
        yield finding(FindingKind.NOT_READ, str(error.details["path"]), str(error.details["reason"]))
    for path, what in unexpected:
        yield finding(FindingKind.ODD_ENTRY, path, f"{what}, which kafkalog did not make")


def _others(fs: Filesystem, partition: Partition) -> Iterator[Finding]:
    """Yield the findings about entries that do not belong to this log, whatever their names promise."""
    for other in partition.others:
        # A metadata log also has a file of FileKind.QUORUM_STATE.
        if other.name.kind is FileKind.OTHER:
            yield finding(FindingKind.UNKNOWN_FILE, other.status.path, "no file of Kafka has such a name")
        elif other.name.kind is FileKind.SEVEN_LOG:
            message = "a segment of Kafka 0.7 beside segments of later versions: its records do not belong to this log"
            yield finding(FindingKind.UNKNOWN_FILE, other.status.path, message, steps=_READ_07)
    for link in filter(is_passed_over, partition.entries):
        message = "a symbolic link with the name of a deleted or temporary file: kafkalog does not touch it"
        yield finding(FindingKind.UNKNOWN_FILE, link.path, message)
    unusable = [*unusable_files(fs, partition.entries)]
    steps = _NOTHING_REMAINS if unusable and _is_nothing_else(fs, partition, {file.path for file in unusable}) else ()
    for file in unusable:
        message = f"{file.what}, with the name of a file of Kafka"
        yield finding(FindingKind.ODD_FILE, file.path, message, steps=steps)


def _is_nothing_else(fs: Filesystem, partition: Partition, unusable: set[str]) -> bool:
    """Whether the directory no longer looks like a partition once the `unusable` files are moved away."""
    if partition.directory.topic is not None and log_dir_of(fs, partition.path) is not None:
        return False
    return not holds_partition(fs, [entry for entry in partition.entries if entry.path not in unusable])


# ---- leftovers of cleaning, splitting and deleting


def _leftovers(fs: Filesystem, partition: Partition) -> Iterator[Finding]:
    """Yield the findings about files with a work suffix, with what a broker does at start (LogLoader.load)."""
    cleaned = (left.name.offset for left in partition.leftovers if left.name.state is WorkState.CLEANED)
    bound = min((offset for offset in cleaned if offset is not None), default=None)
    replaced = _replaced(fs, partition, bound)
    for left in partition.leftovers:
        path, state, offset = left.status.path, left.name.state, left.name.offset
        if left.status.is_symlink:  # see `unusable_files`
            continue
        if state in (WorkState.CLEANED, WorkState.SWAP) and offset_of_file_name(left.name.name) is None:
            yield finding(FindingKind.BAD_NAME, path, NO_OFFSET_IN_NAME)
        elif state is WorkState.DELETED:
            yield finding(FindingKind.LEFTOVER_DELETED, path, "deleted, and not yet removed from the disk")
        elif state is WorkState.CLEANED:
            message = "left by an unfinished cleaning or split"
            yield finding(FindingKind.LEFTOVER_CLEANED, path, message, broker_effect="a broker that starts deletes it")
        elif state is WorkState.SWAP:
            is_deleted = bound is not None and offset is not None and offset >= bound
            effect = "a broker that starts deletes it: the cleaning was interrupted before its end"
            if not is_deleted:
                effect = "a broker that starts puts it in place" + (replaced and f", and deletes what it {replaced}")
            message = "left by a finished cleaning or split, and not yet in its place"
            yield finding(FindingKind.LEFTOVER_SWAP, path, message, broker_effect=effect)
        else:
            yield finding(FindingKind.LEFTOVER_TEMPORARY, path, "an unfinished temporary file")


def _replaced(fs: Filesystem, partition: Partition, bound: int | None) -> str:
    """Return which segments the swap files replace, in words; "" if a broker would put no swap file in place."""
    swaps = [
        left
        for left in partition.leftovers
        if left.name.state is WorkState.SWAP and left.name.kind is FileKind.LOG and left.name.offset is not None
    ]
    swaps = [left for left in swaps if bound is None or (left.name.offset or 0) < bound]
    if not swaps:
        return ""
    first = min(left.name.offset or 0 for left in swaps)
    try:
        end = max(_end_of(fs, left.status, left.name.offset or 0) for left in swaps)
    except (KafkalogError, OSError):
        return "replaces"
    gone = [s for s in partition.segments if first <= s.base_offset < end]
    names = ", ".join(segment.log.path.rpartition("/")[2] for segment in gone[:3])
    more = f" and {len(gone) - 3} more segments" if len(gone) > 3 else ""
    return f"replaces ({names}{more})" if gone else ""


def _end_of(fs: Filesystem, log: FileStatus, base_offset: int) -> int:
    with fs.open_read(log.path) as file:
        return max((batch.last_offset + 1 for batch in Headers(file)), default=base_offset)


# ---- sizes and missing files, for a level that does not read indexes


_SIZED = (
    (FileKind.OFFSET_INDEX, OffsetIndex.layout.size, FindingKind.INDEX_MISSING, FindingKind.INDEX_INEXACT),
    (FileKind.TIME_INDEX, TimeIndex.layout.size, FindingKind.TIME_INDEX_MISSING, FindingKind.TIME_INDEX_INEXACT),
)


def size_findings(fs: Filesystem, partition: Partition) -> Iterator[Finding]:
    """Yield a finding per index that is missing or whose length is not a whole number of entries."""
    for segment, (kind, entry_bytes, missing, inexact) in product(partition.segments, _SIZED):
        status = segment.offset_index if kind is FileKind.OFFSET_INDEX else segment.time_index
        if is_index_missing(fs, segment, kind):
            path = segment.log.path.removesuffix(FileKind.LOG.value) + kind.value
            yield finding(missing, path, "missing")
        elif status is not None and status.size_bytes % entry_bytes:
            message = f"{status.size_bytes} bytes are not a multiple of {entry_bytes}"
            expected, got = f"a multiple of {entry_bytes} bytes", f"{status.size_bytes} bytes"
            yield finding(inexact, status.path, message, expected=expected, got=got)


def bad_names(partition: Partition) -> Iterator[Finding]:
    """Yield a finding per segment file or snapshot in place whose name does not begin with an offset."""
    for entry in partition.entries:
        name = classify_file(entry.path.rpartition("/")[2])
        is_in_place = entry.is_file and name.state is WorkState.IN_PLACE
        if is_in_place and name.kind in (*SEGMENT_KINDS, FileKind.PRODUCER_SNAPSHOT) and name.offset is None:
            yield finding(FindingKind.BAD_NAME, entry.path, NO_OFFSET_IN_NAME)


NO_OFFSET_IN_NAME = "the name does not begin with an offset"
