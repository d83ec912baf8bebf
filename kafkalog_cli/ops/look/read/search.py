"""Searches partitions in parallel: their matching records in the order of their offsets, and what is damaged."""

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar, NamedTuple

from kafkalog_cli.disk.fs import Filesystem, WritableFilesystem
from kafkalog_cli.disk.metered_fs import MeteredFilesystem
from kafkalog_cli.errors import ExitCode, KafkalogError, NothingSelected, OffsetOutOfRange, worst_exit_code
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.look.read.conditions import FindRequest, Matcher
from kafkalog_cli.ops.look.read.context import FoundBlock, SurroundingRecords, chosen_records
from kafkalog_cli.ops.look.read.events import FoundRecords, NotRead, ReadEvent, read_events
from kafkalog_cli.ops.look.read.log_read import LogRead, SegmentRead
from kafkalog_cli.ops.look.read.request import NO_END, first_in_log
from kafkalog_cli.ops.map_each import Advance, Item, do_not_report, map_each
from kafkalog_cli.results import Count, Hidden, Named, PathName, of, result


@result("kafkalog.match-count/1")
@dataclass(slots=True)
class SearchedPartition:
    """The number of matching records of a partition, with `find --count`.

    `code` is its exit code without regard to the matches.
    """

    partition: Hidden[Partition]
    topic: ClassVar[PathName] = of("partition.topic")
    number: ClassVar[Annotated[int, Named("partition"), "-1: the directory's name has no number"]] = of(
        "partition.number"
    )
    path: ClassVar[PathName] = of("partition.path")
    matches: Count = 0
    code: Hidden[ExitCode] = ExitCode.OK


class _Match(NamedTuple):
    """A matching record, and the number of records before it in its segment."""

    offset: int
    records_before: int


class PartitionSearch:
    """One search of a partition. Iterate over `events` to the end; then `result` has the outcome.

    Records of an event are valid until the next event, unless they are copied.
    """

    def __init__(self, fs: Filesystem, partition: Partition, request: FindRequest) -> None:
        self.result = SearchedPartition(partition)
        self._fs = fs
        self._partition = partition
        self._request = request
        self._matcher = Matcher(request.conditions, partition.topic, request.decoder)
        self._context = SurroundingRecords(request.before, request.after)
        self._codes: set[ExitCode] = set()
        self._first_match = 0
        """Of the last matches, the first: earlier records count as no matches."""

    def events(self, *, copies: bool = False) -> Generator[ReadEvent, None, None]:
        """Yield the records to show, the damage, and the remarks about what was read, in order.

        `copies`: records stay valid after the next event, except those of blocks of more than 16 MiB.
        """
        try:
            start = first_in_log(self._fs, self._partition, self._request.read)
            if start is not None and self._request.last is not None:
                start = self._start_of_last(start)
            if start is not None:
                self._matcher.undecoded.failures()  # the search for the last matches met them already
                log = self._log(start)
                yield from read_events(log, partial(self._found, log, copies=copies), lambda: self._is_enough)
                self._codes.update(log.codes)
            for failures in self._matcher.undecoded.failures():
                self._codes.add(ExitCode.WARNINGS)
                yield Note("undecoded", failures.message, self._partition.path)
        except BrokenPipeError:
            raise
        except (NothingSelected, OffsetOutOfRange):  # a partition without segments, or changed by a broker meanwhile
            pass
        except (KafkalogError, OSError) as error:
            self._codes.add(error.exit_code if isinstance(error, KafkalogError) else ExitCode.FAILURE)
            yield NotRead(self._partition.path, error)
        self.result.code = worst_exit_code(self._codes)

    def _log(self, start: int, to_offset: int | None = None) -> LogRead:
        read = self._request.read._replace(start=start, from_time_ms=None)
        read = read if to_offset is None else read._replace(to_offset=to_offset)
        # The records around a match are of any batch.
        rows_to_read = None if self._request.has_context else self._matcher.rows_to_read
        return LogRead(self._fs, self._partition, read, rows_to_read=rows_to_read)

    def _start_of_last(self, start: int) -> int | None:
        """Return the offset from which on to read for the last matches, None if there is no match and no damage.

        The segments are searched from the last to the first, until there are enough matches, and records before them.
        """
        request, segments = self._request, self._partition.segments
        assert request.last is not None
        limit = NO_END if request.read.to_offset is None else request.read.to_offset
        known: list[_Match] = []
        before, is_damaged = 0, False
        for number in range(len(segments) - 1, -1, -1):
            base = max(start, segments[number].base_offset)
            end = min(limit, segments[number + 1].base_offset if number + 1 < len(segments) else limit)
            if base >= end:
                continue
            is_enough = len(known) == request.last
            matches, records, has_damage = self._matches_of(base, end)
            is_damaged |= has_damage
            if is_enough:
                before += records
            else:
                known = [*matches, *known][-request.last :]
                before = known[0].records_before if known else 0
            self._first_match = known[0].offset if known else 0
            if len(known) == request.last and before >= request.before:
                return base
        return start if known or is_damaged else None

    def _matches_of(self, base: int, end: int) -> tuple[deque[_Match], int, bool]:
        """Return the last matches between two offsets, which are those of one segment.

        With them comes the number of records that were decoded, and whether there is damage.
        """
        matches: deque[_Match] = deque(maxlen=self._request.last)
        records, is_damaged = 0, False
        try:
            log = self._log(base, end)
        except OffsetOutOfRange:  # the log ends at damage before this segment
            return matches, 0, True
        with closing(log.segments()) as segments:
            for segment in segments:
                for block in segment.blocks():
                    if isinstance(block, Fault):
                        is_damaged = True
                        continue
                    rows = self._matcher.rows(block)
                    matches.extend(_Match(int(block.records.offset[row]), records + row) for row in rows)
                    records += len(block.records)
        return matches, records, is_damaged

    def _found(
        self, log: LogRead, segment: SegmentRead, *, copies: bool
    ) -> Generator[FoundBlock | Fault | None, None, None]:
        """Yield the records of a segment to show, and its faults, until there are enough matches."""
        is_damaged = False
        with closing(segment.blocks()) as blocks:
            for block in blocks:
                if isinstance(block, Fault):
                    is_damaged = True
                    yield block
                else:
                    if len(block.records):
                        yield from self._found_records(block, copies=copies)
                    yield None
                if self._is_enough:
                    if is_damaged:  # a good record follows the damage, so a broker does not cut it off
                        log.codes.append(ExitCode.CORRUPTION)
                    return

    @property
    def _is_enough(self) -> bool:
        return self._request.first is not None and self.result.matches >= self._request.first and self._context.is_over

    def _found_records(self, block: RecordBlock, *, copies: bool) -> Iterator[FoundBlock]:
        """Yield the records of a block to show, and count the matches."""
        request = self._request
        rows = self._matcher.rows(block)
        if self._first_match:
            rows = [row for row in rows if block.records.offset[row] >= self._first_match]
        if request.first is not None:
            rows = rows[: request.first - self.result.matches]
        self.result.matches += len(rows)
        if request.only_counts:
            return
        if request.has_context:
            yield from self._context.to_print(block, rows)
        elif rows and len(rows) == len(block.records) and not copies:
            yield FoundBlock(replace(block, faults={}))
        else:
            yield from map(FoundBlock, chosen_records(block, rows))


KEPT_BYTES = 4 << 20
"""Most bytes of records that are kept of a partition before its turn. A partition with more is searched at its turn."""
_BYTES_PER_RECORD = 500
"""About what a copied record takes besides its contents."""


def find_records(
    fs: WritableFilesystem,
    partitions: Sequence[Partition],
    request: FindRequest,
    *,
    jobs: int = 1,
    advance: Advance = do_not_report,
) -> Generator[ReadEvent | SearchedPartition, None, None]:
    """Yield what is found in each partition, in order; a SearchedPartition ends each.

    Records are valid until the next event. A regular expression may take very long for a single record, and only the
    main thread can be interrupted then. So with a regular expression or a single job, nothing runs in other threads but
    the decoding.
    """

    def search(partition: Partition, advance: Advance) -> PartitionSearch:
        metered = MeteredFilesystem(fs, lambda path, size_bytes: advance(size_bytes, path))
        return PartitionSearch(metered, partition, request)

    def in_turn(partition: Partition) -> Iterator[ReadEvent | SearchedPartition]:
        at_its_turn = search(partition, advance)
        yield from at_its_turn.events()
        yield at_its_turn.result

    if jobs <= 1 or request.conditions.pattern is not None or len(partitions) == 1:
        for partition in partitions:
            yield from in_turn(partition)
        return
    searched = map_each(
        map(Item, partitions),
        lambda partition, advance: _ahead(search(partition, advance)),
        jobs=jobs, name="kafkalog-find", advance=advance,
    )  # fmt: skip
    with closing(searched):
        for result, events in searched:
            if events is None:
                yield from in_turn(result.partition)
            else:
                yield from events
                yield result


def _ahead(search: PartitionSearch) -> tuple[SearchedPartition, list[ReadEvent] | None]:
    """Search a partition before its turn; return None for the events if they are too many to keep."""
    events: list[ReadEvent] = []
    size_bytes = 0
    with closing(search.events(copies=True)) as event_stream:
        for event in event_stream:
            events.append(event)
            size_bytes += _BYTES_PER_RECORD
            if isinstance(event, FoundRecords):
                block = event.found.block
                size_bytes += len(block.buffer) + _BYTES_PER_RECORD * len(block.records)
            if size_bytes > KEPT_BYTES:
                return search.result, None
    return search.result, events
