"""The logs that a salvage copies, in the order of their offsets, also where a file has a wrong name."""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from kafkalog_cli.broker.loaded_segment import LoadSettings
from kafkalog_cli.disk.fs import Filesystem, ReadableFile
from kafkalog_cli.disk.names import FileKind, WorkState
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.batch import NO_OFFSET, Batch
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.log.reading.header import header_at
from kafkalog_cli.ops.check.checks.segment_walk import BatchRun, SegmentWalk, record_offsets

BEYOND_OFFSETS = 1 << 63


class SalvageSource(NamedTuple):
    """A log to copy. Its offsets are from `begins` up to `next_offset` (exclusive; None: there is no next log).

    `begins` is the number in the file name, unless no batch fits it. `end_offset` is set for a `.swap` log: its batches
    below that offset are copied.
    """

    segment: Segment
    begins: int
    next_offset: int | None = None
    end_offset: int | None = None


def sources_of(fs: Filesystem, partition: Partition, settings: LoadSettings) -> list[SalvageSource]:
    """Return the logs to copy. A `.swap` log is one of them where its segment is missing.

    A cleaning or a split that was cut off may have removed segments before it put its output in their place.
    """
    sources = _in_place(fs, partition.segments, settings)
    bases = [segment.base_offset for segment in partition.segments]
    for left in partition.leftovers:
        offset, is_swap = left.name.offset, left.name.state is WorkState.SWAP
        if is_swap and left.name.kind is FileKind.LOG and offset is not None and offset not in bases:
            following = min((base for base in bases if base > offset), default=BEYOND_OFFSETS)
            sources.append(SalvageSource(Segment(offset, left.status), offset, end_offset=following))
    return sorted(sources, key=lambda source: source.begins)


def _in_place(fs: Filesystem, segments: Sequence[Segment], settings: LoadSettings) -> list[SalvageSource]:
    """Return the segments in the order of their batches. All are walked only if one begins outside its name's range."""
    following = [*[segment.base_offset for segment in segments[1:]], None][: len(segments)]
    if all(_fits_name(fs, one, below) for one, below in zip(segments, following, strict=True)):
        return [SalvageSource(one, one.base_offset, below) for one, below in zip(segments, following, strict=True)]
    contents = sorted((_content(fs, segment, settings) for segment in segments), key=lambda one: one.middle)
    begins = [one.begins(before) for one, before in zip(contents, [None, *contents], strict=False)]
    nexts = [*begins[1:], None]
    return [SalvageSource(one.segment, at, below) for one, at, below in zip(contents, begins, nexts, strict=True)]


class _Content(NamedTuple):
    """The offsets of the batches with right CRCs in a segment: the first, the `middle` and all last offsets.

    A wrong base offset of one batch does not change the middle much.
    """

    segment: Segment
    first: int
    middle: int
    lasts: tuple[int, ...] = ()

    def begins(self, before: "_Content | None") -> int:
        """Return the number in the name; the first offset if the name cannot be right after the segment `before`."""
        named = self.segment.base_offset
        is_after = before is None or before.middle < named
        # One batch alone does not decide: no CRC covers its base offset.
        fits = is_after and sum(last < named for last in self.lasts) <= 1
        return named if fits or len(self.lasts) < 2 else self.first


def _fits_name(fs: Filesystem, segment: Segment, next_offset: int | None) -> bool:
    """Whether the first batch ends in the range that the names give; also if it cannot be read."""
    with suppress(KafkalogError, OSError), fs.open_read(segment.log.path) as file:
        first = header_at(file, 0)
        if isinstance(first, Batch):
            return segment.base_offset <= first.last_offset < (BEYOND_OFFSETS if next_offset is None else next_offset)
    return True


def _content(fs: Filesystem, segment: Segment, settings: LoadSettings) -> _Content:
    with suppress(KafkalogError, OSError), fs.open_read(segment.log.path) as file:
        lasts, first = _walked(file, settings)
        if lasts and first is not None:
            return _Content(segment, first, sorted(lasts)[len(lasts) // 2], tuple(lasts))
    return _Content(segment, segment.base_offset, segment.base_offset)


def _walked(file: ReadableFile, settings: LoadSettings) -> tuple[list[int], int | None]:
    """Return the last offsets of the batches with right CRCs, and the least first offset."""
    walk = SegmentWalk(file, settings.limits)
    lasts: list[int] = []
    firsts: list[int] = []
    for batch_run in walk:
        for row, valid in enumerate(batch_run.batches.valid):
            if valid:
                lasts.append(batch_run.last_offset[row])
                firsts.append(_first_of(file, batch_run, row, settings))
    return lasts, min(firsts, default=None)


def _first_of(file: ReadableFile, batch_run: BatchRun, row: int, settings: LoadSettings) -> int:
    """Return the first offset of a batch; that of a compressed message set is read from its records."""
    base = int(batch_run.base_offset[row])
    if base != NO_OFFSET:
        return base
    offsets = record_offsets(file, batch_run.batches.row(row), settings.limits)
    return int(batch_run.last_offset[row]) if offsets is None else offsets[0]
