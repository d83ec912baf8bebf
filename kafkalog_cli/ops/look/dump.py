"""Read a segment for dump-log, and collect data for its final reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.disk.spooled_pairs import SpooledPairs
from kafkalog_cli.format.batch import NO_OFFSET, BatchColumns
from kafkalog_cli.format.columns import rows_before_gaps
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.reading.records import ChunkBlocks, Work, records
from kafkalog_cli.log.reading.scan import Chunk, DamagePolicy, Scan
from kafkalog_cli.ops.damage import DamageSeen

if TYPE_CHECKING:
    from kafkalog_cli.ops.ranges import Range


MAX_INT32 = (1 << 31) - 1


class DumpOptions(NamedTuple):
    """Options that decide what is read; sizes and positions are in bytes.

    `start` and `end` limit the segment to batches that were found through its indexes. `v07_base_offset` is set for a
    0.7 file. `resync`: continue after damage. `wanted` and `max_records` limit what is shown. `is_gap_before_first`:
    the first record counts as following offset -1. So a gap is reported unless its offset is 0, as kafka-dump-log 4.3
    does; earlier versions report no gap before the first record. `knows_brokers`: the zeros that a running broker has
    preallocated are not damage, where kafka-dump-log ends with an error.
    """

    deep: bool = False
    start: int = 0
    end: int = MAX_INT32
    limits: Limits = DEFAULT_LIMITS
    resync: bool = False
    v07_base_offset: int | None = None
    wanted: Range | None = None
    max_records: int | None = None
    is_gap_before_first: bool = False
    knows_brokers: bool = False


class SegmentDump:
    """One pass over a segment: chunks or, in a deep iteration, blocks of records.

    A `Fault` between them stands for damage that was skipped (`resync`); `fault` is what ended the pass. `gaps`
    receives the pairs of offsets that do not follow each other (only in a deep iteration).
    """

    def __init__(
        self,
        file: ReadableFile,
        options: DumpOptions,
        gaps: SpooledPairs | None = None,
    ) -> None:
        self.file = file
        self.fault: Fault | None = None
        self.valid_bytes = options.start
        self._gaps = gaps
        self.damage = DamageSeen()
        self._options = options
        self._last_offset = NO_OFFSET
        self._shows_batch = False
        self.shown_records = 0

    def _chunks(self, work: Work | None = None) -> Iterator[ChunkBlocks | Fault]:
        options = self._options
        reader = Scan(
            self.file,
            DamagePolicy.RESYNC if options.resync else DamagePolicy.STOP,
            start=options.start,
            end=options.end,
            limits=options.limits,
            v07_base_offset=options.v07_base_offset,
            knows_brokers=options.knows_brokers,
        )
        chunks = (
            records(reader, self._rows, work) if options.deep else ((chunk, iter(())) for chunk in reader.columns())
        )
        for chunk, blocks in chunks:
            if chunk.damage is not None:
                self.damage.fault(chunk.damage.fault)
                yield chunk.damage.skipped
            self.damage.batches(chunk.batches)
            yield chunk, blocks
        self.valid_bytes, self.fault = reader.end_position, reader.damage
        if self.fault is not None:
            self.damage.fault(self.fault)

    def batches(self) -> Iterator[BatchColumns | Fault]:
        """Yield the batches without records."""
        for item in self._chunks():
            if isinstance(item, Fault):
                yield item
                continue
            chunk = item[0]
            for first, end in self._rows(chunk):
                count = self._up_to_the_limit(chunk.batches.records_count[first:end])
                yield chunk.batches.part(first, first + count) if count < len(chunk.batches) else chunk.batches
                if self._is_enough():
                    return

    def _up_to_the_limit(self, counts: Sequence[int]) -> int:
        """Count the records of batches as shown; return how many batches it takes to the limit."""
        if self._options.max_records is None:
            return len(counts)
        for number, count in enumerate(counts, 1):
            self.shown_records += max(int(count), 0)
            if self._is_enough():
                return number
        return len(counts)

    def blocks(self, work: Work | None = None) -> Iterator[RecordBlock | Fault]:
        """Yield the batches with their records.

        `work` is done on blocks in the reading thread, unless they must be cut.
        """
        is_whole = self._options.wanted is None and self._options.max_records is None
        for chunk in self._chunks(work if is_whole else None):
            if isinstance(chunk, Fault):
                yield chunk
                continue
            for block in chunk[1]:
                yield from self._shown(block)
                if self._is_enough():
                    return

    def _rows(self, chunk: Chunk) -> list[tuple[int, int]]:
        wanted = self._options.wanted
        if wanted is None:
            return [(0, len(chunk.batches))]
        from kafkalog_cli.ops.ranges import rows_in_range

        return rows_in_range(chunk.batches, wanted)

    def _shown(self, block: RecordBlock) -> Iterator[RecordBlock]:
        options = self._options
        most = None if options.max_records is None else options.max_records - self.shown_records
        self._remember_gaps(block, most)
        for fault in block.faults.values():
            self.damage.fault(fault)
        if options.wanted is None and options.max_records is None:
            yield block
            return
        from kafkalog_cli.ops.ranges import Range, cut, with_records

        block = cut(block, options.wanted or Range(), most)
        self.shown_records += len(block.records)
        if (options.wanted is None or options.wanted.key is None) and most is None:
            yield block
            return
        if block.begun and self._shows_batch:
            yield block
            return
        self._shows_batch = len(block.records) > 0
        # Nothing has been shown of a batch that continues here, so its own line is still to come.
        yield from with_records(replace(block, begun=0))

    def _is_enough(self) -> bool:
        most = self._options.max_records
        return most is not None and self.shown_records >= most

    def _remember_gaps(self, block: RecordBlock, most: int | None) -> None:
        """Remember the gaps between records, up to the batch in which the last of `most` records is."""
        offsets = block.records.offset
        if most is not None and most < len(offsets):
            offsets = offsets[: next(end for end in block.record_ends if end >= most)]
        # Offsets of 0.7 are byte positions, so they never follow each other.
        if self._gaps is None or not len(offsets) or self._options.v07_base_offset is not None:
            return
        rows = rows_before_gaps(offsets, offsets)
        pairs = [(self._last_offset, offsets[0])] if self._last_offset != offsets[0] - 1 else []
        pairs += [(offsets[row], offsets[row + 1]) for row in rows]
        if not self._options.is_gap_before_first:
            pairs = [pair for pair in pairs if pair[0] != NO_OFFSET]
        self._gaps.extend(pairs)
        self._last_offset = offsets[-1]
