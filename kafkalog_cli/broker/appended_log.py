"""Appends batches to a log as a broker does: rolls, writes, indexes, updates producers (UnifiedLog.append)."""

from collections.abc import Iterable
from typing import Annotated, NamedTuple, Protocol

from kafkalog_cli.broker.leader_epochs import LeaderEpochs
from kafkalog_cli.broker.loaded_segment import LoadedSegment
from kafkalog_cli.broker.open_log import ActiveSegment, Arriving, OpenLog, RollCause, RollLimits, roll_cause
from kafkalog_cli.broker.producer_state import CompletedTxn, ProducerReplay
from kafkalog_cli.broker.segment_writer import GrowingIndexes
from kafkalog_cli.disk.durable import Content
from kafkalog_cli.disk.names import FileKind, segment_file_name
from kafkalog_cli.format import txnindex
from kafkalog_cli.format.batch import NO_TIMESTAMP, Batch
from kafkalog_cli.format.batch_encoder import EncodedBatches
from kafkalog_cli.log.reading.header import first_timestamp
from kafkalog_cli.log.reading.scan import Chunk

_FILES = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
EPOCHS = FileKind.LEADER_EPOCH_CHECKPOINT.value


class Growth(Protocol):
    """Writes the files of a log: in a run (GrowingRun), in a hidden directory (UnseenGrowth), nowhere (NoGrowth)."""

    def open_file(self, name: str) -> None:
        """Open a file that grows; create the file if it was announced and does not exist."""

    def write(self, name: str, position: int, data: bytes | memoryview) -> None:
        """Write into an open file."""

    def announce(self, names: Iterable[str]) -> None:
        """Record that these files are about to be created, or replaced if they exist."""

    def put(self, name: str, data: bytes | Content) -> None:
        """Create or replace a file with `data`."""

    def sync(self, name: str) -> None:
        """Sync the written bytes of an open file to the disk."""


class Rolled(NamedTuple):
    """A segment that an append started."""

    base_offset: int
    cause: Annotated[RollCause, "why the segment before it ended"]


class AppendTarget:
    """A log before an append; it is only read, and nothing on the disk changes. Raises LoadFailed."""

    def __init__(self, log: OpenLog) -> None:
        self.log = log
        self.base_offset = log.base_offsets[-1]
        self.end_offset = log.log_end_offset
        draft, settings = log.draft, log.settings
        segment = LoadedSegment(draft, self.base_offset, settings)
        self.size_bytes = segment.size_bytes
        # A broker that was killed may not have created the indexes of an empty segment.
        has_indexes = self.size_bytes > 0 or segment.index_name in draft
        segment = log.active() if has_indexes else segment
        with draft.reader(segment.log_name) as file:
            self.first_timestamp = first_timestamp(file)
        self.indexes = GrowingIndexes(
            self.base_offset, settings.index_interval_bytes, settings.segment_index_bytes, self.size_bytes
        )
        if has_indexes:
            if not log.is_clean and self.size_bytes:
                log.close_time_index(segment)
                segment = log.active()
            offsets, times = segment.offset_index(), segment.time_index()
            self.indexes.resume(offsets, times, times.last_entry)
        self.txn_index = draft.read(segment.txn_index_name) if segment.txn_index_name in draft else b""
        epochs = draft.read(EPOCHS) if EPOCHS in draft else b""
        self.epochs = LeaderEpochs.from_file(epochs) if epochs else LeaderEpochs()
        self.keeps_epochs = EPOCHS in draft
        self.producers_draft = draft.fork()
        self.producers = log.producers_at_end(self.producers_draft)

    @property
    def log_name(self) -> str:
        """The name of the active segment's log, which grows."""
        return segment_file_name(self.base_offset, FileKind.LOG)


class AppendedLog:
    """Appends batches that have their offsets; for a broker each batch is a separate append.

    `rolled` lists the new segments. Batches appended after the last `flush` may not be on the disk until `close`.
    Raises LoadFailed, InvalidOffset and SegmentOverflow where a broker throws, and OSError and SyncFailed.
    """

    def __init__(self, target: AppendTarget, run: Growth, limits: RollLimits, now_ms: int) -> None:
        self.end_offset = target.end_offset
        self.rolled: list[Rolled] = []
        self._run = run
        self._limits = limits
        self._now_ms = now_ms
        self._settings = target.log.settings
        self._base_offset = target.base_offset
        self._size_bytes = target.size_bytes
        self._first_timestamp = target.first_timestamp
        self._indexes = target.indexes
        self._txn_index = target.txn_index
        self._aborted: list[txnindex.AbortedTxn] = []
        self._epochs = target.epochs
        self._keeps_epochs = target.keeps_epochs
        self._draft = target.producers_draft
        self._producers = target.producers
        self._replay = ProducerReplay(self._producers.state, self._settings.limits, self._note_completed)
        self._log_name = target.log_name
        run.open_file(self._log_name)

    def append(self, made: EncodedBatches) -> None:
        """Append batches; the first must begin at the log's end or above."""
        first = 0
        rows = list(made.batches.rows())
        for at, batch in enumerate(rows):
            arriving = Arriving(batch.size_bytes, batch.max_timestamp, batch.last_offset)
            cause = roll_cause(self._active(), arriving, self._limits, self._now_ms)
            if cause is not None:
                self._write(made, rows, first, at)
                self._roll(max(self.end_offset, batch.base_offset), cause)
                first = at
            self._take(batch)
        self._write(made, rows, first, len(rows))

    def flush(self) -> None:
        """Sync the appended batches and the leader epochs to the disk."""
        self._put_epochs()
        self._run.sync(self._log_name)

    def close(self) -> None:
        """Write the files that a broker writes when it stops cleanly."""
        self._close_segment()
        self._put_epochs()
        self._take_snapshot()

    def _active(self) -> ActiveSegment:
        return ActiveSegment(
            self._base_offset,
            self._size_bytes,
            self._first_timestamp,
            self._now_ms,
            *self._indexes.entries,
        )

    def _take(self, batch: Batch) -> None:
        """Add a batch that is about to be written to the indexes and the size (LogSegment.append)."""
        if not self._size_bytes:
            self._first_timestamp = batch.max_timestamp
        failed = self._indexes.add_one(self._size_bytes, batch.last_offset, batch.max_timestamp)
        if failed is not None:
            raise failed
        self._size_bytes += batch.size_bytes
        self.end_offset = batch.last_offset + 1

    def _write(self, made: EncodedBatches, rows: list[Batch], first: int, end: int) -> None:
        if first == end:
            return
        start, last = rows[first].position - rows[0].position, rows[end - 1]
        data = made.data[start : last.position - rows[0].position + last.size_bytes]
        at = self._size_bytes - len(data)
        self._run.write(self._log_name, at, data)
        for batch in rows[first:end]:
            if batch.leader_epoch >= 0:
                self._epochs.assign(batch.leader_epoch, batch.base_offset)
        chunk = Chunk(made.data, rows[0].position, made.batches)
        self._replay.apply(chunk, first, end)

    def _note_completed(self, transaction: CompletedTxn) -> None:
        if transaction.is_aborted:
            stable = self._producers.state.last_stable_offset(transaction)
            producer_id, first, last, _ = transaction
            self._aborted.append(txnindex.AbortedTxn(txnindex.CURRENT_VERSION, producer_id, first, last, stable))

    def _roll(self, base_offset: int, cause: RollCause) -> None:
        """Close the active segment and create a new one at `base_offset` (LocalLog.roll)."""
        self._close_segment()
        self._put_epochs()
        names = [segment_file_name(base_offset, kind) for kind in _FILES]
        self._run.announce(names)
        stray = segment_file_name(base_offset, FileKind.TXN_INDEX)
        if stray in self._draft:  # a broker would use this stray index for the new segment
            self._run.put(stray, b"")
        self.end_offset = base_offset
        self._take_snapshot()
        settings = self._settings
        self._base_offset, self._size_bytes, self._first_timestamp = base_offset, 0, NO_TIMESTAMP
        self._indexes = GrowingIndexes(base_offset, settings.index_interval_bytes, settings.segment_index_bytes)
        self._txn_index = b""
        self._log_name = names[0]
        self._run.open_file(self._log_name)
        self.rolled.append(Rolled(base_offset, cause))

    def _close_segment(self) -> None:
        self._run.sync(self._log_name)
        failed = self._indexes.close()
        if failed is not None:
            raise failed
        contents = {FileKind.OFFSET_INDEX: self._indexes.offset_index, FileKind.TIME_INDEX: self._indexes.time_index}
        if self._aborted:
            contents[FileKind.TXN_INDEX] = self._txn_index + txnindex.encode(self._aborted)
            self._aborted.clear()
        files = {segment_file_name(self._base_offset, kind): data for kind, data in contents.items()}
        self._run.announce(files)
        for name, data in files.items():
            self._run.put(name, data)

    def _put_epochs(self) -> None:
        if self._epochs.is_changed and self._keeps_epochs:
            self._run.put(EPOCHS, self._epochs.encode())
            self._epochs.is_changed = False

    def _take_snapshot(self) -> None:
        """Write a producer snapshot at the log's end, unless there is one at this offset or above."""
        name = segment_file_name(self.end_offset, FileKind.PRODUCER_SNAPSHOT)
        was_there = name in self._draft
        self._producers.end_offset = self.end_offset
        self._producers.take()
        if name in self._draft and not was_there:
            self._run.put(name, self._draft.content(name))
