"""Gaps in offsets between batches, inside them and at the start of a log: losses, or traces of compaction."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.names import DirectoryKind, FileKind, WorkState
from kafkalog_cli.errors import counted
from kafkalog_cli.format.batch import (
    DELETE_HORIZON_MASK,
    NO_OFFSET,
    RECORD_BATCH,
    RECORD_BATCH_MAGIC,
    Batch,
    BatchColumns,
)
from kafkalog_cli.format.columns import any_row, rows_before_gaps
from kafkalog_cli.log.log_dir import Shutdown
from kafkalog_cli.log.partition import Partition, try_leader_epochs
from kafkalog_cli.ops.check.checks.diagnose import Finding, finding
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.check.checks.segment_walk import BatchRun
from kafkalog_cli.ops.check.verify.places import TopicFacts
from kafkalog_cli.ops.look.listing.root import LogDirRoot
from kafkalog_cli.ops.steps import VERIFY, Step

if TYPE_CHECKING:
    from kafkalog_cli.format.records import RecordBlock

_EMPTY_BYTES = RECORD_BATCH.size
NO_BATCH, NO_RECORD = "no batch covers offsets", "no record holds offsets"


@dataclass(slots=True)
class Gaps:
    """Counts of gaps inside segments and of the offsets missing in them, with the place of the first gap."""

    count: int = 0
    offsets: int = 0
    path: str = ""
    position: int = 0
    first: int = 0
    last: int = 0

    def add(self, path: str, position: int, offsets: tuple[int, int]) -> None:
        """Add a gap: `offsets` are its first and last missing offset."""
        first, last = offsets
        if not self.count:
            self.path, self.position, self.first, self.last = path, position, first, last
        self.count += 1
        self.offsets += last - first + 1

    @property
    def in_all(self) -> str:
        """The words about all gaps, if there are several."""
        return f"; {self.count} gaps of {self.offsets} offsets in all" if self.count > 1 else ""

    def finding(self, words: str) -> Iterator[Finding]:
        """Yield one finding about all gaps, if there are any; its message begins with `words`."""
        if self.count:
            message, offsets = f"{words} {self.first} to {self.last}{self.in_all}", (self.first, self.last)
            yield finding(FindingKind.OFFSET_GAP, self.path, message, position=self.position, offsets=offsets)


def cleaner_wrote(batches: BatchColumns) -> bool:
    """Whether a batch has a mark that only the cleaner leaves: a delete horizon, or fewer records than offsets.

    Producers number the records of a v2 batch without gaps. Headers of older formats have no such mark. A batch whose
    header says 0 records but which contains record bytes is damaged, not cleaned.
    """
    return any_row(
        lambda magic, valid, count, base, last, bits, size: (
            (magic >= RECORD_BATCH_MAGIC)
            & (valid != 0)
            & (
                (bits & DELETE_HORIZON_MASK != 0)
                | ((count < last - base + 1) & ((count > 0) | (size == _EMPTY_BYTES)))
            )
        ),
        batches.magic, batches.valid, batches.records_count, batches.base_offset, batches.last_offset,
        batches.attributes, batches.size_bytes,
    )  # fmt: skip


def rows_behind_gaps(batch_run: BatchRun) -> list[int]:
    """Return the rows, except the first, whose offsets do not directly follow those of the previous row."""
    batches = batch_run.batches
    if not batches.survey.gaps:
        return []
    return [row + 1 for row in rows_before_gaps(batches.base_offset, batches.last_offset)]


def cleaned_to(batch_run: BatchRun) -> int:
    """Return the offset after the last trace of the cleaner, a mark or an offset gap between two batches; 0 if none."""
    batches, rows = batch_run.batches, rows_behind_gaps(batch_run) if batch_run.is_ordered else []
    base, last = batch_run.base_offset, batch_run.last_offset
    end = max((base[row] for row in rows if base[row] > last[row - 1] + 1), default=0)
    if cleaner_wrote(batches):
        rows_in_all = len(batches)
        unmarked = bisect_left(
            range(rows_in_all), True, key=lambda row: not cleaner_wrote(batches.part(row, rows_in_all))
        )
        end = max(end, last[unmarked - 1] + 1)
    return end


def _missing(first: int, last: int) -> str:
    many = counted(last - first + 1, "offset", "offsets")
    return f"offsets {first} to {last} ({many}) are missing" if last > first else f"offset {first} is missing"


class GapCauses(NamedTuple):
    """The meaning of gaps in one partition.

    `is_compacted` says whether the topic's cleanup.policy includes compaction, None if no source knows the policy.
    `was_cleaned`: the log or the cleaner's checkpoint shows that the cleaner has run. `log_start`: records below this
    offset were deleted. `is_thinned`: the log has so many marks of the cleaner that gaps inside batches may also come
    from it.
    """

    partition: Partition
    is_compacted: bool | None
    was_cleaned: bool = False
    log_start: int | None = None
    is_thinned: bool = False

    def explain(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Yield the findings; one about a gap between segments becomes a warning if nothing explains the gap."""
        for one in findings:
            offsets = one.first_offset, one.last_offset
            is_gap = one.kind is FindingKind.OFFSET_GAP and None not in offsets
            yield (self._missing(cast("tuple[int, int]", offsets), "segment", one.path) if is_gap else None) or one

    def of_batches(self, gaps: Gaps) -> Iterator[Finding]:
        """Yield the finding about offsets that no batch covers."""
        lost = self._of(gaps, "batch")
        yield from gaps.finding(NO_BATCH) if lost is None else (lost,)

    def of_records(self, gaps: Gaps) -> Iterator[Finding]:
        """Yield the finding about offsets inside batches that no record has, unless something explains the gaps."""
        lost = self._of(gaps, "record")
        yield from () if lost is None else (lost,)

    def _of(self, gaps: Gaps, what: str) -> Finding | None:
        offsets = (gaps.first, gaps.last)
        return self._missing(offsets, what, gaps.path, gaps.position, gaps.in_all) if gaps.count else None

    def _missing(
        self, offsets: tuple[int, int], what: str, path: str, position: int | None = None, more: str = ""
    ) -> Finding | None:
        """Return the warning about a gap; None if compaction or deletion explains it."""
        if not self._is_loss(offsets, what):
            return None
        first, last = max(offsets[0], self.log_start or 0), offsets[1]
        known = "this topic is not compacted"
        why = known if self.is_compacted is False else "no source says whether this topic is compacted"
        covers = "it" if last == first else "them"
        return finding(
            FindingKind.MISSING_OFFSETS,
            path,
            f"{_missing(first, last)}: no {what} covers {covers}, and {why}{more}",
            position=position,
            expected=f"a {what} from offset {first} on",
            got=f"offset {last + 1}",
            offsets=(first, last),
        )

    def _is_loss(self, offsets: tuple[int, int], what: str) -> bool:
        first, last = offsets
        if self.is_compacted or self.partition.directory.kind not in (DirectoryKind.PARTITION, DirectoryKind.OTHER):
            return False
        if self.log_start is not None and last < self.log_start:
            return False
        if self.is_compacted is False:
            return True
        if what == "record":
            return not self.is_thinned
        return what == "segment" and not self.was_cleaned and not _has_deleted(self.partition, first, last + 1)


# ---- gaps inside batches


class InnerGaps:
    """Checks the records of one segment, block by block, and adds missing offsets to `gaps`.

    A producer numbers the records of a batch without gaps, and a broker does so with the messages of a set. The header
    of a v0 or v1 message set does not contain its first offset. Missing offsets between the previous batch and the
    first record of a compressed set therefore count as a gap here.
    """

    def __init__(self, gaps: Gaps, path: str, base_offset: int) -> None:
        self._gaps = gaps
        self._path = path
        self._next_offset = base_offset
        self._next_position = 0

    def see(self, block: RecordBlock) -> None:
        """Check the records of several batches, or a part of the records of one batch."""
        batches, last_row = block.batches, block.end_row - 1
        if not block.begun and int(batches.position[block.first_row]) != self._next_position:
            self._next_offset = NO_OFFSET  # damage lies before this batch, and its offsets are unknown
        if len(block.records) and not block.faults and not _is_dense(block):
            begin = 0
            for batch, end in zip(
                batches.rows(block.first_row, block.end_row), map(int, block.record_ends), strict=True
            ):
                if end > begin:
                    self._look_into(block, batch, begin, end)
                self._next_offset = batch.last_offset + 1
                begin = end
        self._next_position = int(batches.position[last_row]) + int(batches.size_bytes[last_row])
        self._next_offset = int(batches.last_offset[last_row]) + 1
        if block.goes_on and len(block.records):
            self._next_offset = int(block.records.offset[len(block.records) - 1]) + 1

    def _look_into(self, block: RecordBlock, batch: Batch, begin: int, end: int) -> None:
        offsets = block.records.offset
        first, last = int(offsets[begin]), int(offsets[end - 1])
        is_new_format = batch.magic >= RECORD_BATCH_MAGIC
        lowest = batch.base_offset if is_new_format and not block.begun else self._next_offset
        if lowest == NO_OFFSET or (not is_new_format and not batch.codec):
            lowest = first
        highest = batch.last_offset if is_new_format and not block.goes_on else last
        if first < lowest or last > highest or highest - lowest + 1 <= end - begin:
            return  # nothing is missing, or the offsets are wrong, which another finding reports
        expected = lowest
        for offset in map(int, offsets[begin:end]):
            if offset > expected:
                self._gaps.add(self._path, batch.position, (expected, offset - 1))
            expected = max(expected, offset + 1)
        if expected <= highest:
            self._gaps.add(self._path, batch.position, (expected, highest))


def _is_dense(block: RecordBlock) -> bool:
    """Whether all batches have as many records as offsets; most logs are like this."""
    return block.is_usual and not (block.begun or block.goes_on or block.batches.survey.uneven)


def missing_start(
    fs: Filesystem, partition: Partition, root: LogDirRoot | None, facts: TopicFacts
) -> Iterator[Finding]:
    """Yield a finding about offsets before the first segment that a broker had and did not delete.

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
        return
    if not partition.segments or partition.segments[0].is_v07:
        return
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
    if sources and start < first and not _has_deleted(partition, start, first):
        yield _finding(partition, (start, first - 1), sources, facts)


def _finding(partition: Partition, offsets: tuple[int, int], sources: list[str], facts: TopicFacts) -> Finding:
    start, last = offsets
    tiered = "" if facts.is_tiered is False else ". In a tiered topic they may be in the remote storage"
    steps = [Step("compare with another replica or a backup (--against)", end="; ")]
    if facts.is_tiered is None:
        as_tiered = (*VERIFY, "--config", "remote.storage.enable=true")
        steps.append(Step("if the topic is tiered, that explains it", as_tiered))
    return finding(
        FindingKind.MISSING_OFFSETS,
        partition.segments[0].log.path,
        f"{_missing(start, last)}: the log begins at {last + 1}, {' and '.join(sources)}"
        f" remember{'s' * (len(sources) == 1)} earlier records, and this topic is not compacted{tiered}",
        expected=f"a segment from offset {start} on",
        got=f"offset {last + 1}",
        offsets=offsets,
        broker_effect=f"a broker starts the log at {last + 1}: consumers do not get the earlier records. A broker that"
        " crashed while it deleted old segments leaves the same traces",
        steps=tuple(steps),
    )


def _first_epoch_offset(fs: Filesystem, partition: Partition) -> int | None:
    """Return the start offset of the first leader epoch, None if the file is missing, empty, damaged or unreadable."""
    entries, faults = try_leader_epochs(fs, partition)
    return None if faults or not entries else entries[0].start_offset


def _has_deleted(partition: Partition, start: int, end: int) -> bool:
    """Whether a segment from offset `start` on, below `end`, still exists as .deleted.

    A broker renames segments before it deletes them, and writes its checkpoints later. The cleaner leaves replaced
    segments in this state.
    """
    return any(
        left.name.kind is FileKind.LOG
        and left.name.state is WorkState.DELETED
        and left.name.offset is not None
        and start <= left.name.offset < end
        for left in partition.leftovers
    )
