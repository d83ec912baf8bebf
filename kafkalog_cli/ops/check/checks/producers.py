"""Follows producers and their transactions through a log once, for the snapshots and transaction indexes beside it."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem, ReadableFile, read_all
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format import txnindex
from kafkalog_cli.format.batch import CONTROL_MASK, NO_OFFSET, TRANSACTIONAL_MASK, Batch, BatchColumns
from kafkalog_cli.format.columns import as_array, is_many, least_and_largest, rows_where
from kafkalog_cli.format.control import ABORT, ControlRecord
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.log.open_transactions import transaction_steps
from kafkalog_cli.log.reading.header import control_record_at
from kafkalog_cli.ops.check.checks.diagnose import Finding, finding
from kafkalog_cli.ops.check.checks.file_report import Verdict
from kafkalog_cli.ops.check.checks.finding_kinds import MAX_FINDINGS, FindingKind
from kafkalog_cli.ops.check.checks.log_questions import Ask
from kafkalog_cli.ops.check.checks.segment_walk import BatchRun

NO_MARKER = "control batch has no transaction marker (IllegalArgumentException)"

Judgement = tuple[Verdict, str]
RIGHT: Judgement = (Verdict.RIGHT, "")

ReadProducers = Callable[[], Iterable[ProducerEntry]]
"""A function that reads a snapshot."""


class EndedTxn(NamedTuple):
    """A transaction that ended at a marker, and the last stable offset at that time.

    `position` is that of the marker. `first_offset` is None if no batch of the transaction is left.
    """

    position: int
    producer_id: int
    first_offset: int | None
    last_stable_offset: int


class ProducerTrail:
    """Follows producers and their transactions through a log, to find errors in snapshots and indexes.

    `snapshots` maps paths to snapshot offsets and readers, `markers` are the offsets of the ABORT markers to note, and
    `ask` has an answer for each offset of their entries. `judged` has the entries of each snapshot, by producer id,
    that the batches below its offset do not confirm. `ended` contains the transactions that ended with the markers.

    With `lists_markers`, call `findings` after each segment. `has_marker`: the segment has a marker of a transaction.
    """

    def __init__(
        self,
        snapshots: Mapping[str, tuple[int, ReadProducers]],
        markers: frozenset[int],
        ask: Ask,
        *,
        lists_markers: bool = False,
    ) -> None:
        self.judged: dict[str, dict[int, Judgement]] = {}
        self.ended: dict[int, EndedTxn] = {}
        self.has_marker = False
        self._snapshots = snapshots
        self._markers = markers
        self._ask = ask
        self._lists_markers = lists_markers
        self._producers: set[int] = set()
        # Whether a batch begins where a snapshot has the beginning of an open transaction
        self._begins: dict[tuple[int, int], bool] = {}
        for entry in (entry for _, read in snapshots.values() for entry in read()):
            self._producers.add(entry.producer_id)
            if entry.open_txn_first_offset is not None:
                self._begins[entry.producer_id, entry.open_txn_first_offset] = False
        self._last_data: dict[int, Batch] = {}
        self._last_marker: dict[int, int] = {}
        self._open: dict[int, int] = {}
        self._open_records: dict[int, int] = {}  # from the first batch with a right CRC that the cleaner did not empty
        self._due = sorted((offset, path) for path, (offset, _) in snapshots.items())
        # Of each valid marker its position in bytes, its producer id, and the first and last offset of the transaction
        # that it ends; packed, since a segment of a gigabyte may have millions.
        self._ended_here = array("q")

    def see(self, batch_run: BatchRun) -> None:
        """Note the batches of producers."""
        batches, first = batch_run.batches, 0
        last_offset = batches.last_offset
        while self._due and least_and_largest(last_offset[first:])[1] >= (due := self._due[0][0]):
            end = first + rows_where(lambda last, due=due: last >= due, last_offset[first:])[0]
            self._follow(batches.part(first, end))
            self.reach(due)
            first = end
        self._follow(batches.part(first, len(batches)) if first else batches)

    def reach(self, offset: int) -> None:
        """Compare the snapshots up to `offset`: all batches below it were seen."""
        while self._due and self._due[0][0] <= offset:
            _, path = self._due.pop(0)
            judged = self.judged[path] = {}
            for entry in self._snapshots[path][1]():
                judgement = self._judge(entry)
                if judgement is not RIGHT:
                    judged[entry.producer_id] = judgement

    def _follow(self, batches: BatchColumns) -> None:
        """Note batches between which no snapshot lies."""
        if self._producers:
            rows = _last_data(batches)
            self._last_data.update((one, batches.row(rows[one])) for one in self._producers & rows.keys())
        if not batches or batches.survey.largest.attributes < TRANSACTIONAL_MASK:
            return
        for batch, is_end in transaction_steps(batches.of_transactions()):
            producer, is_valid = batch.producer_id, bool(batch.valid)
            if not is_end:
                self._begin(batch)
                continue
            first, last = self._open.pop(producer, None), batch.last_offset
            if last in self._markers:
                stable = min(self._open.values(), default=last + 1)
                self.ended[last] = EndedTxn(batch.position, producer, first, stable)
            if producer in self._producers:
                self._last_marker[producer] = last
            records = self._open_records.pop(producer, NO_OFFSET)
            if is_valid and self._lists_markers:
                self.has_marker = True
                if not batch.codec or records != NO_OFFSET:
                    self._ended_here.extend((batch.position, producer, records, last))

    def _begin(self, batch: Batch) -> None:
        """Note a batch of a transaction, which may be its first."""
        producer, first = batch.producer_id, batch.base_offset
        self._open.setdefault(producer, first)
        if batch.valid and batch.records_count > 0:
            self._open_records.setdefault(producer, first)
        if (producer, first) in self._begins:
            self._begins[producer, first] = True

    def _judge(self, entry: ProducerEntry) -> Judgement:
        """Compare an entry with the batches below the snapshot's offset; GONE if the log no longer has its batch."""
        producer, data = entry.producer_id, self._last_data.get(entry.producer_id)
        last, marker = NO_OFFSET if data is None else data.last_offset, self._last_marker.get(producer, NO_OFFSET)
        if entry.has_batch and last > entry.last_offset:
            return Verdict.STALE, f"a newer batch of the producer ends with offset {last}"
        began, is_open_since = entry.open_txn_first_offset, self._open.get(producer)
        if began is None and is_open_since is not None:
            return Verdict.STALE, f"a transaction of the producer is open since offset {is_open_since}"
        if began is not None and marker > began:
            return Verdict.STALE, f"its transaction ended with the marker at offset {marker}"
        # A cleaner may have removed the batch, or the marker of the transaction before, which seems open since then
        if began is not None and not self._begins[producer, began] and self._ask(began).holds:
            return Verdict.STALE, f"no transaction of the producer begins at offset {began}"
        # Kafka 0.11 stores the offset of the marker, with sequence and epoch of the data before it or after it.
        if not entry.has_batch or marker == entry.last_offset:
            return RIGHT
        if data is not None and last == entry.last_offset:
            problem = _batch_problem(entry, data)
            return (Verdict.STALE, problem) if problem else RIGHT
        answer = self._ask(entry.last_offset)
        if answer.is_damaged:
            return Verdict.UNVERIFIED, "the log is damaged where the producer's last batch is"
        if answer.holds:
            return Verdict.STALE, "no batch of the producer ends with its last offset"
        return Verdict.GONE, "the producer's last batch was compacted away, or its segment is missing"

    def findings(self, fs: Filesystem, log: ReadableFile, *, with_markers: bool) -> Iterator[Finding]:
        """Yield a finding if the index of the segment `log`, which was just followed, lacks aborted transactions.

        A transaction without records in the log (compacted away) needs no entry. With `with_markers` also a finding per
        control batch at which a broker fails that replays it.
        """
        ended, self._ended_here, self.has_marker = iter(self._ended_here), array("q"), False
        aborted, invalid = array("q"), 0
        for position, producer, first, last in zip(ended, ended, ended, ended, strict=True):
            if first == NO_OFFSET and not with_markers:
                continue
            record = control_record_at(log, position)
            if isinstance(record, ControlRecord) and record.is_marker:
                if record.type_id == ABORT and first != NO_OFFSET:
                    aborted.extend((producer, first, last))
                continue
            invalid += 1
            if with_markers and invalid <= MAX_FINDINGS:
                message = record.message if isinstance(record, Fault) else f"a producer's {NO_MARKER}"
                yield finding(FindingKind.CONTROL_RECORD, log.path, message, position=position, offsets=(last, last))
        if with_markers and invalid > MAX_FINDINGS:
            message = f"{invalid - MAX_FINDINGS} more batches of the same kind"
            yield finding(FindingKind.CONTROL_RECORD, log.path, message)
        if aborted:
            yield from _lacking(fs, log, aborted)


def _lacking(fs: Filesystem, log: ReadableFile, aborted: "array[int]") -> Iterator[Finding]:
    """Yield a finding if the index beside `log` lacks `aborted` transactions: producer id, first and last offset."""
    path = log.path.removesuffix(FileKind.LOG.value) + FileKind.TXN_INDEX.value
    known = _indexed(fs, path)
    if known is None:
        return
    numbers = iter(aborted)
    missing = (one for one in zip(numbers, numbers, numbers, strict=True) if (one[0], one[2]) not in known)
    for producer, first, last in missing:
        more = sum(1 for _ in missing)
        message = f"no entry for an aborted transaction of producer {producer}, offsets {first} to {last}"
        if more:
            message += f"; {more} more are missing"
        yield finding(FindingKind.TXN_INDEX_WRONG, path, message, offsets=(first, last))


def _batch_problem(entry: ProducerEntry, batch: Batch) -> str:
    if batch.last_sequence != entry.last_sequence:
        return f"the batch at its last offset ends with sequence {batch.last_sequence}"
    if batch.last_offset - batch.base_offset != entry.offset_delta:
        return f"the batch at its last offset begins with offset {batch.base_offset}"
    if batch.producer_epoch != entry.producer_epoch:  # after a marker that raises the epoch, a broker forgets the batch
        return f"the batch at its last offset has producer epoch {batch.producer_epoch}"
    return ""


def _last_data(batches: BatchColumns) -> dict[int, int]:
    """Return the row of the last data batch per producer id."""
    if not is_many(len(batches)):
        columns = enumerate(zip(batches.producer_id, batches.attributes, strict=True))
        return {producer: row for row, (producer, bits) in columns if producer >= 0 and not bits & CONTROL_MASK}
    import numpy as np

    producer_id, attributes = map(as_array, (batches.producer_id, batches.attributes))
    rows = ((producer_id >= 0) & (attributes & CONTROL_MASK == 0)).nonzero()[0][::-1]
    producers, at = np.unique(producer_id[rows], return_index=True)
    return dict(zip(producers.tolist(), rows[at].tolist(), strict=True))


def _indexed(fs: Filesystem, path: str) -> set[tuple[int, int]] | None:
    """Return the producer id and last offset of each entry.

    None if the file cannot be read, which another check reports.
    """
    try:
        if fs.status(path) is None:
            return set()
        entries, _ = txnindex.decode(read_all(fs, path), 0)
    except (KafkalogError, OSError):
        return None
    return {(entry.producer_id, entry.last_offset) for entry in entries}
