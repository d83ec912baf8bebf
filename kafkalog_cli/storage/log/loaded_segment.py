"""A segment as a broker holds it while it loads a partition: its log and the indexes that it opened (LogSegment)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kafkalog_cli.format import txnindex
from kafkalog_cli.format.batch import NO_OFFSET, Batch, BatchColumns, wrap_int64
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.index import OFFSET_INDEX_ENTRY, OffsetIndex
from kafkalog_cli.format.layout import Layout
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.timeindex import TIME_INDEX_ENTRY, TimeIndex
from kafkalog_cli.storage.fs import ReadableFile
from kafkalog_cli.storage.kernels import KernelChoice
from kafkalog_cli.storage.log.draft import Draft
from kafkalog_cli.storage.log.leader_epochs import LeaderEpochs
from kafkalog_cli.storage.log.load_error import InvalidOffset, LoadFailed, Rebuilt, SegmentOverflow, cannot_read
from kafkalog_cli.storage.log.producer_state import CompletedTxn, ProducerReplay, ProducerState
from kafkalog_cli.storage.log.valid_rows import assign_epochs, end_position, valid_rows
from kafkalog_cli.storage.names import FileKind, WorkState, segment_file_name
from kafkalog_cli.storage.partition import MAX_SEGMENT_BYTES
from kafkalog_cli.storage.reading.header import checked_negative_magic, header_at, of_negative_magic
from kafkalog_cli.storage.reading.large_batch import is_large_batch_valid
from kafkalog_cli.storage.reading.read import BatchRecords
from kafkalog_cli.storage.reading.scan import Chunk, Scan
from kafkalog_cli.storage.segments.log_end import HeaderChain
from kafkalog_cli.storage.segments.segment_writer import MAX_RELATIVE_OFFSET, SegmentIndexes

_READ_BEYOND = (FaultKind.UNREADABLE, FaultKind.INVALID_MAGIC)
"""Faults of a header that do not keep a broker from reading what should be the batch."""


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """What decides how a broker loads: topic settings in bytes, the clock and the expiry of producers in ms."""

    now_ms: int
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    producer_id_expiration_ms: int = 86_400_000
    limits: Limits = DEFAULT_LIMITS
    kernels: KernelChoice | None = None
    is_tiered: bool = False
    """Whether a broker keeps older segments elsewhere: the log then starts where the checkpoint says."""


class Recovered(NamedTuple):
    """What the recovery of a segment did: `end_offset` is that behind its last v2 batch, None without one."""

    cut_bytes: int
    end_offset: int | None


class LoadedSegment:
    """Reads as the broker does, believing what it believes; changes go to the draft.

    An index that is opened exists from then on, and is cut to whole entries when the broker stops cleanly.
    `is_new`: a split has just made it.
    """

    def __init__(
        self,
        draft: Draft,
        base_offset: int,
        settings: LoadSettings,
        state: WorkState = WorkState.IN_PLACE,
        *,
        is_new: bool = False,
    ) -> None:
        self.base_offset = base_offset
        self.draft = draft
        self.log_name, self.index_name, self.time_index_name, self.txn_index_name = (
            segment_file_name(base_offset, kind, state)
            for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
        )
        self._settings = settings
        self._has_txn_index = self.txn_index_name in draft and not is_new
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        if self.log_name not in draft:
            draft.put(self.log_name, b"")  # it was found under a name with fewer digits, which nobody opens
        if self.size_bytes > MAX_SEGMENT_BYTES:
            raise LoadFailed("KafkaException", f"the size of {self.log_name} is over {MAX_SEGMENT_BYTES} bytes")

    @property
    def size_bytes(self) -> int:
        """The size of the log file."""
        return self.draft.size_bytes(self.log_name)

    # -- indexes

    def offset_index(self) -> OffsetIndex:
        """The offset index as the broker took it in when it first asked for it; made where it is missing."""
        if self._offset_index is None:
            data = self._opened(self.index_name, OFFSET_INDEX_ENTRY)
            self._offset_index = OffsetIndex(data, self.base_offset)
        return self._offset_index

    def time_index(self) -> TimeIndex:
        """The time index, likewise."""
        if self._time_index is None:
            self._time_index = TimeIndex(self._opened(self.time_index_name, TIME_INDEX_ENTRY), self.base_offset)
        return self._time_index

    def _opened(self, name: str, layout: Layout) -> bytes:
        if name in self.draft:
            return self.draft.read(name)
        # Made at full length, and its zeros taken for unused space: the position stays at the start.
        self.draft.put(name, b"", zeros=self._full_bytes(layout))
        return b""

    def check_opened(self) -> bool:
        """The broker's look at the indexes of a segment that it found; whether the segment must be recovered.

        Mirrors LogSegment.sanityCheck: an offset index is not looked into, a missing time index is made empty.
        """
        if self.index_name not in self.draft:
            return True
        if self.time_index_name not in self.draft:
            self.draft.put(self.time_index_name, b"")
            self._time_index = TimeIndex(b"", self.base_offset)
        if self.txn_index_name not in self.draft:
            return False
        entries, faults = txnindex.decode(self.draft.read(self.txn_index_name), self.base_offset)
        # In their order: a broker that meets one of the wrong place does not come to one of an unknown version.
        if any(entry.last_offset < self.base_offset for entry in entries):
            return True
        for fault in faults:
            if fault.kind is FaultKind.INVALID_VERSION:
                raise LoadFailed("KafkaException", fault.message)
        return False

    # -- reads

    def find(self, offset: int) -> Batch | None:
        """The batch that a read from `offset` begins with (FileRecords.searchForOffsetFromPosition), None if none.

        From the place that the index gives: the batch that begins with `offset`, or the last that begins before it
        if it reaches so far, or the first that begins behind it.
        """
        position = max(0, self.offset_index().lookup(offset).position)
        before: Batch | None = None
        with self.draft.reader(self.log_name) as log:
            for batch in self._chain(log, position):
                base = self.first_offset(log, batch)
                if base > offset and before is not None and before.last_offset >= offset:
                    return before
                if base >= offset:
                    return batch
                before = batch
        return before if before is not None and before.last_offset >= offset else None

    def find_first(self, offset: int) -> int | None:
        """The offset with which the batch begins that a read from `offset` begins with, None if there is none."""
        found = self.find(offset)
        if found is None:
            return None
        with self.draft.reader(self.log_name) as log:
            return self.first_offset(log, found)

    def next_offset(self) -> int:
        """The offset behind the last batch (LogSegment.readNextOffset): where the index lies, the base offset."""
        index = self.offset_index()
        first = self.find(index[-1].offset if len(index) else self.base_offset)
        if first is None:
            return self.base_offset
        last = first
        with self.draft.reader(self.log_name) as log:
            for last in self._chain(log, first.position):  # noqa: B007
                pass
        return wrap_int64(last.last_offset + 1)

    def has_overflow(self) -> bool:
        """Whether the last offset is one that the indexes cannot express."""
        next_offset = self.next_offset()
        return next_offset > self.base_offset and next_offset - 1 - self.base_offset > MAX_RELATIVE_OFFSET

    def replay(self, state: ProducerState, from_offset: int, end_position: int) -> None:
        """Apply the batches from the one with `from_offset` on, up to byte `end_position`, to the producers' state."""
        first = self.find(from_offset)
        if first is None:
            return
        settings = self._settings
        producers = ProducerReplay(state, settings.limits)
        position: int | None = first.position
        with self.draft.reader(self.log_name) as log:
            while position is not None:
                scan = Scan(log, start=position, end=end_position, limits=settings.limits, choice=settings.kernels)
                for chunk in scan:
                    producers.apply(chunk)
                position = self._behind_odd_batch(log, scan, producers)
        producers.finish()

    def _behind_odd_batch(self, log: ReadableFile, scan: Scan, producers: ProducerReplay) -> int | None:
        """Where a reader goes on that looks at headers only, and so passes batches that a scan does not take."""
        fault = scan.fault
        if fault is None or fault.kind is FaultKind.TRAILING_BYTES:
            return None
        # A range that cannot be read begins somewhere in a batch.
        position = scan.valid_bytes if fault.kind is FaultKind.UNREADABLE else fault.position
        odd = next(self._chain(log, position), None)
        if odd is None:
            return None
        alone = Chunk(memoryview(b""), odd.position, BatchColumns.from_rows([odd]), scan.generation)
        producers.apply(alone)
        return odd.position + odd.size_bytes

    def _chain(self, log: ReadableFile, position: int) -> Iterator[Batch]:
        """Batches by their headers, also those with a negative magic, which the broker takes for old messages."""
        while True:
            chain = HeaderChain(log, position)
            yield from chain
            fault = chain.fault
            if fault is None or fault.kind is FaultKind.TRAILING_BYTES:
                return
            if fault.kind is FaultKind.UNREADABLE:
                raise cannot_read(self.log_name, fault)
            if fault.kind is not FaultKind.INVALID_MAGIC:
                reason = f"{self.log_name} at position {fault.position}: {fault.message}"
                raise LoadFailed("CorruptRecordException", reason)
            yield of_negative_magic(log, fault.position)
            position = fault.position + of_negative_magic(log, fault.position).size_bytes

    def first_offset(self, log: ReadableFile, batch: Batch) -> int:
        """The offset with which a batch begins; of a compressed message set only the set itself tells."""
        if batch.base_offset != NO_OFFSET or batch.magic >= 2:
            return batch.base_offset
        blocks = BatchRecords(log, batch, self._settings.limits, timestamps_only=True)
        first: int | None = None
        for block in blocks:
            for fault in block.faults.values():
                raise LoadFailed("InvalidRecordException", fault.message)
            if len(block.records) and first is None:
                first = int(block.records.offset[0])
        if first is not None:
            return first
        if blocks.fault is not None:
            raise LoadFailed("InvalidRecordException", f"{self.log_name}: {blocks.fault.message}")
        return batch.last_offset

    # -- recovery

    def recover(self, state: ProducerState, epochs: LeaderEpochs) -> Recovered:
        """Cut the log behind its last valid batch, rebuild the indexes (LogSegment.recover).

        `state` is that of the producers at the base offset, and follows. Raises InvalidOffset, SegmentOverflow.
        """
        try:
            rebuilt = self.rebuild(state, epochs)
        except (InvalidOffset, SegmentOverflow) as stop:
            self._leave_unfinished(stop)
            raise
        cut_bytes = self.size_bytes - rebuilt.valid_bytes
        self.draft.cut(self.log_name, rebuilt.valid_bytes)
        self._take(rebuilt)
        self.draft.put(self.index_name, rebuilt.offset_index)
        self.draft.put(self.time_index_name, rebuilt.time_index)
        return Recovered(cut_bytes, rebuilt.end_offset)

    def _take(self, rebuilt: Rebuilt) -> None:
        self._offset_index = OffsetIndex(rebuilt.offset_index, self.base_offset)
        self._time_index = TimeIndex(rebuilt.time_index, self.base_offset)
        name = self.txn_index_name
        # One that was not there when the segment was made is not emptied: entries go behind what is found then.
        found = self.draft.read(name) if name in self.draft and not self._has_txn_index else b""
        if rebuilt.txn_index or self._has_txn_index:
            self.draft.put(name, found + rebuilt.txn_index)
            self._has_txn_index = True

    def _leave_unfinished(self, stop: InvalidOffset | SegmentOverflow) -> None:
        """The files as a recovery leaves them that ends early: full indexes, with old bytes behind the new ones."""
        rebuilt, is_at_close = stop.rebuilt, isinstance(stop, InvalidOffset) and stop.is_at_close
        if is_at_close:
            self.draft.cut(self.log_name, rebuilt.valid_bytes)
        self._take(rebuilt)
        for name, data, layout in (
            (self.index_name, rebuilt.offset_index, OFFSET_INDEX_ENTRY),
            (self.time_index_name, rebuilt.time_index, TIME_INDEX_ENTRY),
        ):
            was_trimmed = is_at_close and name == self.index_name
            old = self.draft.read(name) if name in self.draft and not was_trimmed else b""
            full_bytes = self._full_bytes(layout)
            left = data + old[len(data) : full_bytes]
            self.draft.put(name, left, zeros=full_bytes - len(left))

    def _full_bytes(self, layout: Layout) -> int:
        return self._settings.segment_index_bytes // layout.size * layout.size

    def rebuild(self, state: ProducerState, epochs: LeaderEpochs) -> Rebuilt:
        """What recovery makes of the log, which is read up to the first batch that is not valid; nothing is changed.

        Raises InvalidOffset and SegmentOverflow with what there is until then.
        """
        settings = self._settings
        indexes = SegmentIndexes(self.base_offset, settings.index_interval_bytes, settings.segment_index_bytes)
        aborted: list[txnindex.AbortedTxn] = []

        def note(transaction: CompletedTxn) -> None:
            if transaction.is_aborted:
                stable = state.last_stable_offset(transaction)
                producer_id, first, last, _ = transaction
                if aborted and last <= aborted[-1].last_offset:
                    reason = f"the abort at {last} is not behind that at {aborted[-1].last_offset}"
                    raise LoadFailed("IllegalArgumentException", f"{self.txn_index_name}: {reason}")
                aborted.append(txnindex.AbortedTxn(txnindex.CURRENT_VERSION, producer_id, first, last, stable))

        producers = ProducerReplay(state, settings.limits, note)
        with self.draft.reader(self.log_name) as log:
            error: InvalidOffset | SegmentOverflow | None
            valid_bytes, error = self._read_valid(log, indexes, producers, epochs)
        if error is None and isinstance(failed := indexes.close(), InvalidOffset):
            error = failed
            error.is_at_close = True
        txn_index = txnindex.encode(aborted)
        rebuilt = Rebuilt(valid_bytes, producers.end_offset, indexes.offset_index, indexes.time_index, txn_index)
        if error is not None:
            error.rebuilt = rebuilt
            raise error
        return rebuilt

    def _read_valid(
        self, log: ReadableFile, indexes: SegmentIndexes, producers: ProducerReplay, epochs: LeaderEpochs
    ) -> tuple[int, InvalidOffset | SegmentOverflow | None]:
        """Take in batches up to the first that is not valid, where that begins, or that the indexes do not take."""
        settings = self._settings
        position = 0
        while True:
            scan = Scan(log, start=position, limits=settings.limits, choice=settings.kernels)
            for chunk in scan:
                stop = self._take_valid(chunk, indexes, producers, epochs)
                if stop is not None:
                    return stop
            odd = self._valid_odd_batch(log, scan)
            if odd is None:
                return scan.valid_bytes, None
            stop = self._take_valid(odd, indexes, producers, epochs)
            if stop is not None:
                return stop
            position = end_position(odd, 1)

    def _take_valid(
        self, chunk: Chunk, indexes: SegmentIndexes, producers: ProducerReplay, epochs: LeaderEpochs
    ) -> tuple[int, InvalidOffset | SegmentOverflow | None] | None:
        """Take in the batches of a chunk; where it ends and why, if it does before the end of the chunk."""
        valid = valid_rows(chunk)
        unreadable = producers.first_unreadable(chunk, valid)
        done, error = indexes.add(chunk.batches, valid if unreadable is None else unreadable + 1)
        assign_epochs(chunk, done, epochs)
        # One that is not readable is counted and gets its entries; then it ends the recovery.
        producers.apply(chunk, 0, done if unreadable is None else min(done, unreadable))
        if isinstance(error, LoadFailed):
            raise error
        if error is not None or done < len(chunk.batches) or unreadable is not None:
            return end_position(chunk, done), error
        return None

    def _valid_odd_batch(self, log: ReadableFile, scan: Scan) -> Chunk | None:
        """The batch with which a scan ended, if a broker takes it for a valid one all the same. Raises LoadFailed."""
        fault = scan.fault
        if fault is None:
            return None
        if fault.kind is FaultKind.UNREADABLE:
            header = header_at(log, scan.valid_bytes)
            # Where the header lies, or no whole batch follows, nothing more is read.
            if isinstance(header, Batch) or (header is not None and header.kind in _READ_BEYOND):
                raise cannot_read(self.log_name, fault)
        if fault.kind is FaultKind.BATCH_TOO_LARGE and is_large_batch_valid(log, fault.position):
            raise LoadFailed("KafkaStorageException", f"{self.log_name}: a valid {fault.message}")
        if fault.kind is not FaultKind.INVALID_MAGIC:
            return None
        odd = checked_negative_magic(log, fault.position)
        if odd is None:
            return None
        return Chunk(memoryview(b""), odd.position, BatchColumns.from_rows([odd]), scan.generation)

    def empty(self) -> int:
        """Cut the log at its base offset, when recovery met an offset that does not go up; the bytes cut.

        Mirrors LogSegment.truncateTo: batches below the base offset, if there are any, stay. The entries of the
        indexes no longer count, and go when the broker stops cleanly.
        """
        self._offset_index = OffsetIndex(b"", self.base_offset)
        self._time_index = TimeIndex(b"", self.base_offset)
        first = self.find(self.base_offset)
        before = self.size_bytes
        if first is not None:
            self.draft.cut(self.log_name, first.position)
        if self.txn_index_name in self.draft:
            self.draft.put(self.txn_index_name, b"")
        return before - self.size_bytes

    # -- the end

    def make_room(self) -> None:
        """Have the indexes at full length, as those of the active segment are (LogSegment.resizeIndexes).

        They are cut again when the broker stops. Raises LoadFailed if there are more entries than fit.
        """
        for opened in (self.offset_index(), self.time_index()):
            used_bytes, full_bytes = len(opened) * opened.layout.size, self._full_bytes(opened.layout)
            if used_bytes > full_bytes:
                raise LoadFailed("IllegalArgumentException", f"newPosition > limit: ({used_bytes} > {full_bytes})")

    def change_suffix(self, new_state: WorkState) -> None:
        """Give all four files another work suffix (LogSegment.changeFileSuffixes)."""
        for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX):
            name = segment_file_name(self.base_offset, kind)
            self.draft.move(name, segment_file_name(self.base_offset, kind, new_state))

    def stop_cleanly(self) -> None:
        """Cut the indexes that were opened to whole entries, as a broker's clean stop does."""
        for name, opened in ((self.index_name, self._offset_index), (self.time_index_name, self._time_index)):
            if opened is not None:
                self.draft.cut(name, len(opened) * opened.layout.size)
