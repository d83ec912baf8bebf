"""A segment while a broker loads its partition: the log and the opened indexes (Kafka's LogSegment)."""

from collections.abc import Iterator
from typing import NamedTuple

from kafkalog_cli.broker.leader_epochs import LeaderEpochs
from kafkalog_cli.broker.load_error import InvalidOffset, LoadFailed, Rebuilt, SegmentOverflow, cannot_read
from kafkalog_cli.broker.producer_state import AbortedTransactions, CompletedTxn, ProducerReplay, ProducerState
from kafkalog_cli.broker.segment_writer import GrowingIndexes
from kafkalog_cli.broker.valid_rows import assign_epochs, end_position, is_large_batch_valid, valid_rows
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.disk.names import FileKind, WorkState, segment_file_name
from kafkalog_cli.format import txnindex
from kafkalog_cli.format.batch import NO_OFFSET, Batch, BatchColumns, wrap_int64
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.index import MAX_RELATIVE_OFFSET, OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY, OffsetIndex, TimeIndex
from kafkalog_cli.format.layout import Layout
from kafkalog_cli.format.limits import DEFAULT_LIMITS, MOST_INDEX_BYTES, Limits
from kafkalog_cli.log.partition import MAX_SEGMENT_BYTES
from kafkalog_cli.log.reading.header import Headers, header_at, of_negative_magic
from kafkalog_cli.log.reading.scan import Chunk, Scan

_READ_BEYOND = (FaultKind.UNREADABLE, FaultKind.INVALID_MAGIC)
"""Faults of a header after which a broker still reads the bytes of the batch."""


class LoadSettings(NamedTuple):
    """Settings of loading: topic settings in bytes, the current time and the expiration of producer ids in ms."""

    now_ms: int
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    producer_id_expiration_ms: int = 86_400_000
    limits: Limits = DEFAULT_LIMITS
    is_tiered: bool = False
    """Whether older segments are in tiered storage: the log then starts at the checkpoint's log start offset."""
    is_version_a_byte: bool = False
    """Whether the broker is one before Kafka 4.4, which accepts a negative version in a transaction index."""


class SegmentRecovery(NamedTuple):
    """Result of a segment's recovery; `end_offset` is the offset after the last v2 batch, None if there is none."""

    cut_bytes: int
    end_offset: int | None


class LoadedSegment:
    """A segment that is read as a broker reads it, with the same checks and no others; changes go to the draft.

    Opening an index creates its file if it is missing. The file is cut to its entries when the broker stops cleanly.
    `is_new`: a split has just created the segment. Raises LoadFailed if the log is larger than a broker can open.
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
            # The log was found under a name with fewer digits; the broker creates the file with the full name.
            draft.put(self.log_name, b"")
        if self.size_bytes > MAX_SEGMENT_BYTES:
            raise LoadFailed("KafkaException", f"the size of {self.log_name} is over {MAX_SEGMENT_BYTES} bytes")

    @property
    def size_bytes(self) -> int:
        """Size of the log file."""
        return self.draft.size_bytes(self.log_name)

    # -- indexes

    def offset_index(self) -> OffsetIndex:
        """Return the offset index as it was when it was first opened; a missing index is created."""
        if self._offset_index is None:
            data = self._opened(self.index_name, OFFSET_INDEX_ENTRY)
            self._offset_index = OffsetIndex(data, self.base_offset)
        return self._offset_index

    def time_index(self) -> TimeIndex:
        """Return the time index as it was when it was first opened; a missing index is created."""
        if self._time_index is None:
            self._time_index = TimeIndex(self._opened(self.time_index_name, TIME_INDEX_ENTRY), self.base_offset)
        return self._time_index

    def _opened(self, name: str, layout: Layout) -> bytes:
        if name in self.draft:
            return self.draft.read(name)
        # A new index is a file of zeros at full length. It has no entries: a broker writes from its start on.
        self.draft.put(name, b"", zeros=self._full_bytes(layout))
        return b""

    def check_opened(self) -> bool:
        """Check the indexes as a broker does when it finds a segment; return whether the segment must be recovered.

        Mirrors LogSegment.sanityCheck: the offset index need only exist, a missing time index is created empty.
        Raises LoadFailed if an entry of the transaction index has an unknown version.
        """
        if self.index_name not in self.draft:
            return True
        if self.time_index_name not in self.draft:
            self.draft.put(self.time_index_name, b"")
            self._time_index = TimeIndex(b"", self.base_offset)
        if self.txn_index_name not in self.draft:
            return False
        entries, faults = txnindex.decode(
            self.draft.read(self.txn_index_name),
            self.base_offset,
            is_version_a_byte=self._settings.is_version_a_byte,
        )
        # A broker checks the entries in order. It stops at an entry below the base offset, before it reads an entry
        # with an unknown version.
        if any(entry.last_offset < self.base_offset for entry in entries):
            return True
        for fault in faults:
            if fault.kind is FaultKind.INVALID_VERSION:
                raise LoadFailed("KafkaException", fault.message)
        return False

    # -- reads

    def find(self, offset: int) -> Batch | None:
        """Return the first batch of a read from `offset` (FileRecords.searchForOffsetFromPosition), None if none.

        The search begins at the position from the offset index. It finds the batch that begins with `offset`, else
        the last batch that begins below it if that contains `offset`, else the first batch that begins above it.
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
        """Return the first offset of the batch that `find` returns for `offset`, None if there is none."""
        found = self.find(offset)
        if found is None:
            return None
        with self.draft.reader(self.log_name) as log:
            return self.first_offset(log, found)

    def next_offset(self) -> int:
        """Return the offset after the last batch (LogSegment.readNextOffset).

        It is the base offset if the log is empty, or if no batch is found for the last entry of the offset index.
        """
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
        """Whether the last offset is too far above the base offset for the indexes to express it."""
        return self.next_offset() - 1 - self.base_offset > MAX_RELATIVE_OFFSET

    def replay(self, state: ProducerState, from_offset: int, end_position: int) -> None:
        """Apply the batches from the batch with `from_offset` up to byte `end_position` to the producer state."""
        first = self.find(from_offset)
        if first is None:
            return
        producers = ProducerReplay(state, self._settings.limits)
        position: int | None = first.position
        with self.draft.reader(self.log_name) as log:
            while position is not None:
                reader = self._reader(log, position, end_position)
                for chunk in reader:
                    producers.apply(chunk)
                position = self._behind_odd_batch(log, reader, producers)
        producers.finish()

    def _behind_odd_batch(self, log: ReadableFile, reader: Scan, producers: ProducerReplay) -> int | None:
        """Apply the batch at which a reader stopped and return the byte after it, None at the end of the log.

        A broker reads only headers here, so it accepts batches that the reader rejects.
        """
        fault = reader.fault
        if fault is None or fault.kind is FaultKind.TRAILING_BYTES:
            return None
        # An unreadable range may begin inside a batch, so the batch is read from its start.
        position = reader.end_position if fault.kind is FaultKind.UNREADABLE else fault.position
        odd = next(self._chain(log, position), None)
        if odd is None:
            return None
        alone = Chunk(memoryview(b""), odd.position, BatchColumns.from_rows([odd]))
        producers.apply(alone)
        return odd.position + odd.size_bytes

    def _reader(self, log: ReadableFile, start: int, end: int | None = None) -> Scan:
        settings = self._settings
        return Scan(log, start=start, end=end, limits=settings.limits)

    def _chain(self, log: ReadableFile, position: int) -> Iterator[Batch]:
        """Yield batches by their headers, also with a negative magic, which the broker treats as an old message set.

        Raises LoadFailed where the broker throws.
        """
        while True:
            reader = Headers(log, start=position)
            yield from reader
            fault = reader.fault
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
        """Return the first offset of a batch; for a compressed message set without a base offset it is in the records.

        Raises LoadFailed if the message set cannot be decompressed.
        """
        if batch.base_offset != NO_OFFSET or batch.magic >= 2:
            return batch.base_offset
        reader = Scan.of_batch(log, batch, self._settings.limits)
        first: int | None = None
        for block in reader.blocks(timestamps_only=True):
            for fault in block.faults.values():
                raise LoadFailed("InvalidRecordException", fault.message)
            if len(block.records) and first is None:
                first = int(block.records.offset[0])
        if first is not None:
            return first
        if reader.fault is not None:
            raise LoadFailed("InvalidRecordException", f"{self.log_name}: {reader.fault.message}")
        return batch.last_offset

    # -- recovery

    def recover(self, state: ProducerState, epochs: LeaderEpochs) -> SegmentRecovery:
        """Cut the log after its last valid batch and rebuild the indexes (LogSegment.recover).

        `state` is the producer state at the base offset; it is updated to the new end. Raises InvalidOffset,
        SegmentOverflow, LoadFailed.
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
        return SegmentRecovery(cut_bytes, rebuilt.end_offset)

    def _take(self, rebuilt: Rebuilt) -> None:
        self._offset_index = OffsetIndex(rebuilt.offset_index, self.base_offset)
        self._time_index = TimeIndex(rebuilt.time_index, self.base_offset)
        name = self.txn_index_name
        # If the transaction index did not exist when this object was created, a file found now is not emptied:
        # the broker appends to it.
        found = self.draft.read(name) if name in self.draft and not self._has_txn_index else b""
        if rebuilt.txn_index or self._has_txn_index:
            self.draft.put(name, found + rebuilt.txn_index)
            self._has_txn_index = True

    def _leave_unfinished(self, stop: InvalidOffset | SegmentOverflow) -> None:
        """Write the files as an interrupted recovery leaves them: full-length indexes, old bytes after new entries."""
        rebuilt, is_at_close = stop.rebuilt, isinstance(stop, InvalidOffset) and stop.is_at_close
        if is_at_close:
            self.draft.cut(self.log_name, rebuilt.valid_bytes)
        self._take(rebuilt)
        for name, data, layout in (
            (self.index_name, rebuilt.offset_index, OFFSET_INDEX_ENTRY),
            (self.time_index_name, rebuilt.time_index, TIME_INDEX_ENTRY),
        ):
            was_trimmed = is_at_close and name == self.index_name
            full_bytes = self._full_bytes(layout)
            old = self.draft.read(name, full_bytes) if name in self.draft and not was_trimmed else b""
            left = data + old[len(data) :]
            self.draft.put(name, left, zeros=full_bytes - len(left))

    def _full_bytes(self, layout: Layout) -> int:
        return self._settings.segment_index_bytes // layout.size * layout.size

    def rebuild(self, state: ProducerState, epochs: LeaderEpochs) -> Rebuilt:
        """Return the indexes that recovery rebuilds from the log up to its first invalid batch.

        No file is changed; `state` and `epochs` are. Raises InvalidOffset and SegmentOverflow with the contents
        rebuilt until then, and LoadFailed.
        """
        settings = self._settings
        indexes = GrowingIndexes(self.base_offset, settings.index_interval_bytes, settings.segment_index_bytes)
        aborted = AbortedTransactions(self.draft.path(self.txn_index_name))

        def note(transaction: CompletedTxn) -> None:
            if transaction.is_aborted:
                aborted.add(transaction, state.last_stable_offset(transaction))

        producers = ProducerReplay(state, settings.limits, note)
        with self.draft.reader(self.log_name) as log:
            error: InvalidOffset | SegmentOverflow | None
            valid_bytes, error = self._read_valid(log, indexes, producers, epochs)
        if error is None and isinstance(failed := indexes.close(), InvalidOffset):
            error = failed
            error.is_at_close = True
        rebuilt = Rebuilt(
            valid_bytes, producers.end_offset, indexes.offset_index, indexes.time_index, aborted.txn_index
        )
        if error is not None:
            error.rebuilt = rebuilt
            raise error
        return rebuilt

    def _read_valid(
        self, log: ReadableFile, indexes: GrowingIndexes, producers: ProducerReplay, epochs: LeaderEpochs
    ) -> tuple[int, InvalidOffset | SegmentOverflow | None]:
        """Process batches up to the first that is invalid or that the indexes refuse.

        Returns the position of that batch, and the error of the indexes or None.
        """
        reader = self._reader(log, 0)
        for chunk in reader:
            stop = self._take_valid(chunk, indexes, producers, epochs)
            if stop is not None:
                return stop
        self._check_end(log, reader)
        return reader.end_position, None

    def _take_valid(
        self, chunk: Chunk, indexes: GrowingIndexes, producers: ProducerReplay, epochs: LeaderEpochs
    ) -> tuple[int, InvalidOffset | SegmentOverflow | None] | None:
        """Process the valid batches of a chunk; None if that is all of them.

        Else returns the position where the valid log ends, and the error of the indexes or None.
        """
        valid = valid_rows(chunk)
        unreadable = producers.first_unreadable(chunk, valid)
        done, error = indexes.add(chunk.batches, valid if unreadable is None else unreadable + 1)
        assign_epochs(chunk, done, epochs)
        # An unreadable control batch still belongs to the valid log and gets index entries; recovery ends after it.
        producers.apply(chunk, 0, done if unreadable is None else min(done, unreadable))
        if isinstance(error, LoadFailed):
            raise error
        if error is not None or done < len(chunk.batches) or unreadable is not None:
            return end_position(chunk, done), error
        return None

    def _check_end(self, log: ReadableFile, reader: Scan) -> None:
        """Raise LoadFailed if a broker would read a batch where the reader stopped."""
        fault = reader.fault
        if fault is not None and fault.kind is FaultKind.UNREADABLE:
            header = header_at(log, reader.end_position)
            # If the header is wrong or the batch incomplete, a broker does not read the bytes of the batch.
            if isinstance(header, Batch) or (header is not None and header.kind in _READ_BEYOND):
                raise cannot_read(self.log_name, fault)
        if fault is not None and fault.kind is FaultKind.BATCH_TOO_LARGE and is_large_batch_valid(log, fault.position):
            raise LoadFailed("KafkaStorageException", f"{self.log_name}: a valid {fault.message}")

    def empty(self) -> int:
        """Cut the log at its base offset after InvalidOffset in recovery; return the number of bytes cut.

        Mirrors LogSegment.truncateTo: batches below the base offset, if there are any, stay. The entries of the
        indexes no longer count, and are cut off when the broker stops cleanly.
        """
        first = self.find(self.base_offset)  # by the index that was rebuilt so far
        self._offset_index = OffsetIndex(b"", self.base_offset)
        self._time_index = TimeIndex(b"", self.base_offset)
        before = self.size_bytes
        if first is not None:
            self.draft.cut(self.log_name, first.position)
        if self.txn_index_name in self.draft:
            self.draft.put(self.txn_index_name, b"")
        return before - self.size_bytes

    # -- the end

    def make_room(self) -> None:
        """Open the indexes and check that they fit the full length of an active segment's (LogSegment.resizeIndexes).

        The files are not lengthened, because the broker cuts them again when it stops. Raises LoadFailed if there
        are more entries than fit.
        """
        for name, layout in ((self.index_name, OFFSET_INDEX_ENTRY), (self.time_index_name, TIME_INDEX_ENTRY)):
            if name in self.draft and self.draft.size_bytes(name) > MOST_INDEX_BYTES:
                self._check_room(self.draft.size_bytes(name) // layout.size, layout)  # it cannot be opened here
        for opened in (self.offset_index(), self.time_index()):
            self._check_room(len(opened), opened.layout)

    def _check_room(self, entries: int, layout: Layout) -> None:
        used_bytes, full_bytes = entries * layout.size, self._full_bytes(layout)
        if used_bytes > full_bytes:
            raise LoadFailed("IllegalArgumentException", f"newPosition > limit: ({used_bytes} > {full_bytes})")

    def change_suffix(self, new_state: WorkState) -> None:
        """Rename all four files to another work suffix (LogSegment.changeFileSuffixes)."""
        for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX):
            name = segment_file_name(self.base_offset, kind)
            self.draft.move(name, segment_file_name(self.base_offset, kind, new_state))

    def stop_cleanly(self) -> None:
        """Cut the opened indexes to their entries, as a broker does when it stops cleanly."""
        for name, opened in ((self.index_name, self._offset_index), (self.time_index_name, self._time_index)):
            if opened is not None:
                self.draft.cut(name, len(opened) * opened.layout.size)
