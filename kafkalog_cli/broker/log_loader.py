"""Loads a partition as a broker does, on a draft of its files (Kafka's LogLoader, and UnifiedLog around it).

A segment whose offsets its indexes cannot express is split (KAFKA-6264; LocalLog.splitOverflowedSegment).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Annotated, NamedTuple, TypeVar

from kafkalog_cli.broker.leader_epochs import LeaderEpochs
from kafkalog_cli.broker.load_error import InvalidOffset, LoadFailed, SegmentOverflow
from kafkalog_cli.broker.loaded_segment import LoadedSegment, LoadSettings
from kafkalog_cli.broker.producer_snapshots import ProducerSnapshots, segments_between
from kafkalog_cli.broker.segment_writer import GrowingIndexes
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.disk.names import SEGMENT_KINDS, FileKind, WorkState, offset_of_file_name, segment_file_name
from kafkalog_cli.format import partition_metadata
from kafkalog_cli.format.batch import Batch, BatchColumns
from kafkalog_cli.log.log_dir import StartState
from kafkalog_cli.log.reading.header import Headers
from kafkalog_cli.results import Count

MAX_MAGIC = 2


_GROUP_BATCHES = 4096
"""Batches whose headers are in memory at a time: a segment may have many millions."""


class _Part(NamedTuple):
    """A new segment: `size_bytes` of the old segment's log from byte `position` on, and the bytes of its indexes."""

    base_offset: int
    position: int
    size_bytes: int
    offset_index: bytes
    time_index: bytes


def split_segment(
    segment: LoadedSegment, draft: Draft, settings: LoadSettings, *, keep_old: bool
) -> list[LoadedSegment]:
    """Split a segment into several segments whose indexes can express their offsets.

    The old files become `.deleted` if `keep_old`. Raises LoadFailed where the broker fails, for example if the last
    offset is not the offset that overflows.
    """
    if not segment.has_overflow():
        reason = f"Split operation is only permitted for segments with overflow, not for {segment.log_name}"
        raise LoadFailed("IllegalArgumentException", reason)
    parts = list(_parts(segment, draft, settings))
    if len({part.base_offset for part in parts}) < len(parts):
        # The files of one part would replace those of the other, and the broker would not find them.
        raise LoadFailed("NoSuchFileException", f"two parts of {segment.log_name} begin with the same offset")
    source = segment.log_name
    if keep_old:
        source += WorkState.DELETED.value
        segment.change_suffix(WorkState.DELETED)
    # The first part may have the same name as the source, so it is written last.
    return [_write(part, source, draft, settings) for part in reversed(parts)]


def _write(part: _Part, source: str, draft: Draft, settings: LoadSettings) -> LoadedSegment:
    log_name, index_name, time_index_name = (
        segment_file_name(part.base_offset, kind) for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
    )
    draft.slice(log_name, source, part.position, part.size_bytes)
    draft.put(index_name, part.offset_index)
    draft.put(time_index_name, part.time_index)
    return LoadedSegment(draft, part.base_offset, settings, is_new=True)


def _parts(segment: LoadedSegment, draft: Draft, settings: LoadSettings) -> Iterator[_Part]:
    with draft.reader(segment.log_name) as log:
        whole = Headers(log)
        deque(whole, maxlen=0)
        if whole.fault is not None:
            raise LoadFailed("CorruptRecordException", f"{segment.log_name}: {whole.fault.message}")
        growing: _GrowingPart | None = None
        batches = Headers(log)
        while group := list(islice(batches, _GROUP_BATCHES)):
            while group:
                if growing is None:
                    growing = _GrowingPart(segment.first_offset(log, group[0]), group[0].position, settings)
                done, is_full = growing.add(group)
                del group[:done]
                if is_full:
                    yield growing.close(segment.log_name)
                    growing = None
        if growing is not None:
            yield growing.close(segment.log_name)


class _GrowingPart:
    """A new segment from byte `position` of the old log on, to which batches are added. Methods raise LoadFailed."""

    def __init__(self, base_offset: int, position: int, settings: LoadSettings) -> None:
        self._base_offset = base_offset
        self._position = self._end = position
        self._indexes = GrowingIndexes(base_offset, settings.index_interval_bytes, settings.segment_index_bytes)
        self._odd_magic: int | None = None

    def add(self, batches: Sequence[Batch]) -> tuple[int, bool]:
        """Add the batches up to an offset that the indexes cannot express: (batches added, whether one is left out)."""
        # Positions in the indexes count from the start of the new file.
        moved = [batch._replace(position=batch.position - self._position) for batch in batches]
        done, error = self._indexes.add(BatchColumns.from_rows(moved), len(moved))
        if error is not None and not isinstance(error, SegmentOverflow):
            raise _failure(error)
        if self._odd_magic is None:
            self._odd_magic = next((batch.magic for batch in moved[:done] if batch.magic > MAX_MAGIC), None)
        if done:
            self._end = batches[done - 1].position + batches[done - 1].size_bytes
        return done, error is not None

    def close(self, log_name: str) -> _Part:
        """Return the part."""
        if self._odd_magic is not None:
            raise LoadFailed("CorruptRecordException", f"Invalid magic found in record: {self._odd_magic}")
        size_bytes = self._end - self._position
        if not size_bytes:
            reason = f"Failed to append records from position {self._position} in {log_name}"
            raise LoadFailed("IllegalStateException", reason)
        indexes = self._indexes
        if (failed := indexes.close()) is not None:
            raise _failure(failed)
        return _Part(self._base_offset, self._position, size_bytes, indexes.offset_index, indexes.time_index)


def _failure(error: InvalidOffset | LoadFailed) -> LoadFailed:
    return error if isinstance(error, LoadFailed) else LoadFailed("InvalidOffsetException", str(error))


ResultT = TypeVar("ResultT")

_LONG_MAX = (1 << 63) - 1
_INDEX_SUFFIXES = tuple(kind.value for kind in SEGMENT_KINDS - {FileKind.LOG})


class CutSegment(NamedTuple):
    """The removed end of a segment's log."""

    base_offset: Annotated[int, "of the segment"]
    position: Annotated[Count, "the first removed byte"]
    size_bytes: Count


class LoadedLog(NamedTuple):
    """The state of a broker that has loaded the partition.

    `recovered` has the base offsets of the segments that were checked and whose indexes were rebuilt, `cut` the
    bytes that this cut off. `removed` has the base offsets of the segments that are now `.deleted`.
    """

    log_start_offset: int
    log_end_offset: int
    first_base_offset: int
    recovery_point: int
    first_unstable_offset: int | None
    recovered: tuple[int, ...] = ()
    cut: tuple[CutSegment, ...] = ()
    removed: tuple[int, ...] = ()


class LogLoader:
    """Loads the partition of `draft` as Kafka does, up to the state after the broker's next clean stop."""

    def __init__(self, draft: Draft, start: StartState, settings: LoadSettings) -> None:
        self._draft = draft
        self._start = start
        self._settings = settings
        self._segments: dict[int, LoadedSegment] = {}
        self._epochs = LeaderEpochs()
        self._snapshots = ProducerSnapshots(draft, settings)
        self._recovered: list[int] = []
        self._cut: list[CutSegment] = []
        self._removed: list[int] = []

    @property
    def last_epoch(self) -> int | None:
        """The newest leader epoch of the loaded log (LeaderEpochFileCache.latestEpoch), None if it has none."""
        return self._epochs.latest_epoch

    def load(self) -> LoadedLog:
        """Load the partition. Raises LoadFailed if the broker cannot; the draft keeps the changes made until then."""
        self._epochs = self._read_epochs()
        drop_deleted(self._draft)
        complete_swaps(self._draft, self._settings)
        self._retry_after_splits(self._open_segments)
        recovery_point, end_offset = self._retry_after_splits(self._recover)
        self._active().make_room()
        self._epochs.truncate_from_end(end_offset)
        log_start_offset = self._start.log_start_offset
        if not self._settings.is_tiered:
            log_start_offset = max(log_start_offset, min(self._segments))
        # A broker truncates at the checkpoint's offset here, even if the first base offset is larger: when the first
        # segment is missing, the first epoch keeps its start.
        self._epochs.truncate_from_start(self._start.log_start_offset)
        self._snapshots.remove_strays(tuple(self._segments))
        self._snapshots.rebuild(self._ascending(), log_start_offset, end_offset, from_clean_stop=self._start.is_clean)
        unstable = self._look_up_first_unstable(log_start_offset, end_offset)
        recovery_point = max(recovery_point, log_start_offset, min(self._segments))
        self._check_partition_metadata()
        self._stop_cleanly(recovery_point, end_offset)
        return LoadedLog(
            log_start_offset,
            end_offset,
            min(self._segments),
            recovery_point,
            unstable,
            tuple(dict.fromkeys(self._recovered)),
            tuple(self._cut),
            tuple(self._removed),
        )

    # -- segments

    def _ascending(self) -> list[LoadedSegment]:
        return [self._segments[base_offset] for base_offset in sorted(self._segments)]

    def _active(self) -> LoadedSegment:
        return self._segments[max(self._segments)]

    def _read_epochs(self) -> LeaderEpochs:
        name = FileKind.LEADER_EPOCH_CHECKPOINT.value
        if name not in self._draft:
            self._draft.put(name, b"")
        data = self._draft.read(name)
        return LeaderEpochs.from_file(data) if data else LeaderEpochs()

    def _retry_after_splits(self, step: Callable[[], ResultT]) -> ResultT:
        while True:
            try:
                return step()
            except SegmentOverflow as overflow:
                self._split(overflow.base_offset)

    def _split(self, base_offset: int) -> None:
        """Split a segment. Its old files are not kept if it was still being opened, because it is not known yet."""
        is_known = base_offset in self._segments
        segment = self._segments.pop(base_offset, None) or LoadedSegment(self._draft, base_offset, self._settings)
        parts = split_segment(segment, self._draft, self._settings, keep_old=is_known)
        bases = {part.base_offset for part in parts}
        self._segments.update({part.base_offset: part for part in parts})
        if not is_known:
            return
        if base_offset != min(bases):
            # LocalLog.replaceSegments compares only the first new segment with the old segment, and so forgets a later
            # part that has the old base offset.
            self._segments.pop(base_offset, None)
        if base_offset not in bases:
            self._snapshots.mark_deleted([base_offset])
        self._removed.append(base_offset)

    def _open_segments(self) -> None:
        self._segments.clear()
        for name in self._draft.names():
            if name.endswith(_INDEX_SUFFIXES):
                offset = _offset(name)
                if segment_file_name(offset, FileKind.LOG) not in self._draft:
                    self._draft.drop(name)
            elif name.endswith(FileKind.LOG.value):
                segment = LoadedSegment(self._draft, _offset(name), self._settings)
                if segment.check_opened():
                    self._recover_opened(segment)
                self._segments[segment.base_offset] = segment

    def _recover_opened(self, segment: LoadedSegment) -> None:
        """Recover a segment whose indexes are missing or bad; later segments stay even if this cuts the segment."""
        try:
            self._recover_segment(segment)
        except InvalidOffset as error:
            raise LoadFailed("InvalidOffsetException", str(error)) from error

    def _recover_segment(self, segment: LoadedSegment) -> int:
        """Rebuild the producer state up to a segment and recover the segment; return the number of bytes cut."""
        snapshots = ProducerSnapshots(self._draft, self._settings)
        snapshots.rebuild(self._ascending(), self._start.log_start_offset, segment.base_offset, from_clean_stop=False)
        before = segment.size_bytes
        cut_bytes, end_offset = segment.recover(snapshots.state, self._epochs)
        self._recovered.append(segment.base_offset)
        if cut_bytes:
            self._cut.append(CutSegment(segment.base_offset, before - cut_bytes, cut_bytes))
        snapshots.end_offset = snapshots.end_offset if end_offset is None else end_offset
        snapshots.take()
        return cut_bytes

    def _recover(self) -> tuple[int, int]:
        """Recover the segments that were not flushed; return the recovery point and the log's end."""
        if not self._start.is_clean:
            self._recover_unflushed()
        end_offset = self._end_offset_if_above_start()
        if not self._segments:
            self._create_segment(self._start.log_start_offset)
        if self._start.is_clean and end_offset is not None:
            return end_offset, end_offset
        if end_offset is None:
            end_offset = self._active().next_offset()
        return min(self._start.recovery_point, end_offset), end_offset

    def _recover_unflushed(self) -> None:
        # A recovery point of 2^63-1 recovers nothing, not even the active segment.
        unflushed = segments_between(self._ascending(), self._start.recovery_point, _LONG_MAX)
        for position, segment in enumerate(unflushed):
            try:
                cut_bytes = self._recover_segment(segment)
            except InvalidOffset:
                before = segment.size_bytes
                cut_bytes = segment.empty()
                if cut_bytes:
                    self._cut.append(CutSegment(segment.base_offset, before - cut_bytes, cut_bytes))
            if cut_bytes:
                segment.next_offset()  # the broker logs this offset, and fails if it cannot determine it
                removed = unflushed[position + 1 :]
                self._remove(removed)
                self._snapshots.mark_deleted([segment.base_offset for segment in removed])
                return

    def _end_offset_if_above_start(self) -> int | None:
        """Return the log's end; None if there are no segments.

        A log that ends below its log start offset is removed; this returns None too.
        """
        if not self._segments:
            return None
        end_offset = self._active().next_offset()
        if end_offset >= self._start.log_start_offset:
            return end_offset
        self._remove(self._ascending())  # without `.deleted` snapshots: truncate_fully removes all snapshots
        self._epochs.clear()
        self._snapshots.truncate_fully(self._start.log_start_offset)
        return None

    def _remove(self, segments: Iterable[LoadedSegment]) -> None:
        base_offsets = [segment.base_offset for segment in segments]
        for base_offset in base_offsets:
            self._segments.pop(base_offset).change_suffix(WorkState.DELETED)
        self._removed += base_offsets

    def _create_segment(self, base_offset: int) -> None:
        for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
            self._draft.put(segment_file_name(base_offset, kind), b"")
        self._segments[base_offset] = LoadedSegment(self._draft, base_offset, self._settings)

    # -- the end

    def _look_up_first_unstable(self, log_start_offset: int, end_offset: int) -> int | None:
        """Return the first unstable offset, None if there is none.

        The broker looks the offset up in the log, and gets the first offset of its batch. Raises LoadFailed.
        """
        unstable = self._snapshots.state.first_unstable_offset
        if unstable is None:
            return None
        offset = max(unstable, log_start_offset)
        if offset >= end_offset:
            return offset
        if offset < min(self._segments):  # it is in tiered storage
            return offset
        for segment in segments_between(self._ascending(), offset, None):
            found = segment.find_first(offset)
            if found is not None:
                return found  # the first offset of the batch, which may differ from `offset`
        return end_offset

    def _check_partition_metadata(self) -> None:
        name = FileKind.PARTITION_METADATA.value
        if name in self._draft:
            _, faults = partition_metadata.decode(self._draft.read(name))
            if faults:
                raise LoadFailed("KafkaStorageException", f"{name}: {faults[0].message}")

    def _stop_cleanly(self, recovery_point: int, end_offset: int) -> None:
        """Write the files that a clean stop writes; its flush opens the indexes of all segments not yet flushed."""
        for segment in segments_between(self._ascending(), recovery_point, end_offset + 1):
            segment.offset_index()
            segment.time_index()
        for segment in self._ascending():
            segment.stop_cleanly()
        if self._epochs.is_changed:
            name = FileKind.LEADER_EPOCH_CHECKPOINT.value
            self._draft.put(name, self._epochs.encode())
            self._draft.drop(name + WorkState.TEMPORARY.value)  # the broker writes this file and renames it


def drop_deleted(draft: Draft) -> None:
    """Remove the files marked `.deleted`, except snapshots of the metadata log."""
    for name in draft.names():
        if name.endswith(WorkState.DELETED.value) and not name.endswith(_SNAPSHOT_DELETED):
            draft.drop(name)


def complete_swaps(draft: Draft, settings: LoadSettings) -> None:
    """Undo or complete an interrupted cleaning or split of segments (the first three passes of LogLoader)."""
    cleaned, swaps = [], []
    for name in draft.names():
        if name.endswith(WorkState.CLEANED.value):
            cleaned.append((_offset(name), name))
        elif name.endswith(WorkState.SWAP.value):
            swaps.append(name)
    first_cleaned = min(cleaned, default=None)
    for name in swaps:
        offset = _offset(name)
        if first_cleaned is not None and offset >= first_cleaned[0]:
            draft.drop(name)
    for _, name in cleaned:
        draft.drop(name)
    _swap_in(draft, settings, [name for name in swaps if name in draft])


def _swap_in(draft: Draft, settings: LoadSettings, swaps: list[str]) -> None:
    log_suffix = FileKind.LOG.value + WorkState.SWAP.value
    segments = [
        LoadedSegment(draft, _offset(name), settings, WorkState.SWAP) for name in swaps if name.endswith(log_suffix)
    ]
    if segments:
        first, end = min(s.base_offset for s in segments), max(s.next_offset() for s in segments)
        for name in draft.names():
            offset = offset_of_file_name(name)
            if not name.endswith(WorkState.SWAP.value) and offset is not None and first <= offset < end:
                draft.drop(name)
    for name in draft.names():
        if name.endswith(WorkState.SWAP.value):
            draft.move(name, name.removesuffix(WorkState.SWAP.value))


_SNAPSHOT_DELETED = FileKind.METADATA_SNAPSHOT.value + WorkState.DELETED.value


def _offset(name: str) -> int:
    offset = offset_of_file_name(name)
    if offset is None:
        raise LoadFailed("NumberFormatException", f"{name} has no offset in its name")
    return offset
