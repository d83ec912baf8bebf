"""Checks transaction indexes, producer snapshots, leader epochs and checkpoints against the log that they describe."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.format import meta_properties, partition_metadata
from kafkalog_cli.format.checkpoint import EpochEntry, PartitionOffset
from kafkalog_cli.format.control import ABORT, COMMIT
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.json_files import decode_clean_shutdown, decode_quorum_state
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.format.txnindex import AbortedTxn
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.ops.check.checks.file_report import Entry, FileNote, Verdict, fault_note
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.check.checks.log_questions import Ask, LogQuestions
from kafkalog_cli.ops.check.checks.producers import RIGHT, Judgement

MarkerAt = Callable[[int], int | None]


# ---- transaction index


def txn_offsets(entries: Iterable[AbortedTxn], log: LogBounds) -> Iterator[int]:
    """Yield the offsets that `check_aborted_txns` requires."""
    for entry in entries:
        for offset in (entry.first_offset, entry.last_offset, entry.last_stable_offset):
            if log.start <= offset < log.end:
                yield offset


def check_aborted_txns(
    entries: Sequence[AbortedTxn], base_offset: int, marker_at: MarkerAt | None, questions: LogQuestions
) -> Iterator[Entry]:
    """Check each aborted transaction against the transaction that ended at its last offset.

    `marker_at` returns the control type of the batch at a position; None: there is no log.
    """
    before: AbortedTxn | None = None
    for number, entry in enumerate(entries):
        verdict, detail = _aborted_txn(entry, before, base_offset, marker_at, questions)
        yield Entry(number, entry, verdict, detail, is_tolerable=False)
        if verdict in (Verdict.RIGHT, Verdict.UNVERIFIED):
            before = entry


def _aborted_txn(
    entry: AbortedTxn, before: AbortedTxn | None, base_offset: int, marker_at: MarkerAt | None, questions: LogQuestions
) -> Judgement:
    if entry.last_offset >= questions.log.end:
        return Verdict.BEYOND_END, "the marker's offset is not in the log yet"
    if entry.last_offset < base_offset:
        return Verdict.OUT_OF_ORDER, "the marker's offset is below the base offset"
    if before is not None and entry.last_offset <= before.last_offset:
        return Verdict.OUT_OF_ORDER, "last offset not above that of an entry before it"
    if entry.first_offset > entry.last_offset or entry.first_offset < 0:
        return Verdict.OUT_OF_ORDER, "the first offset is above the last, or negative"
    if marker_at is None:
        return Verdict.UNVERIFIED, "there is no log to check it against"
    if questions.answer(entry.last_offset).is_damaged:
        return Verdict.UNVERIFIED, "the log is damaged where the marker is"
    problem = _txn_problem(entry, before, marker_at, questions)
    return (Verdict.STALE, problem) if problem else RIGHT


def _txn_problem(entry: AbortedTxn, before: AbortedTxn | None, marker_at: MarkerAt, questions: LogQuestions) -> str:
    ended = questions.trail.ended.get(entry.last_offset)
    if ended is None:
        return "no transaction marker is at the last offset"
    if ended.producer_id != entry.producer_id:
        return f"the marker at the last offset is of producer {ended.producer_id}"
    kind = marker_at(ended.position)
    if kind != ABORT:
        return f"the marker at the last offset is {'COMMIT' if kind == COMMIT else 'OTHER'}, not ABORT"
    if not _may_begin(entry.first_offset, ended.first_offset, questions.answer):
        begins = ended.first_offset
        return (
            "no batch of it is at the first offset" if begins is None else f"the transaction began with offset {begins}"
        )
    stable = entry.last_stable_offset
    if stable > entry.last_offset + 1:
        return "the last stable offset is after the marker"
    if before is not None and stable < before.last_stable_offset:
        return "the last stable offset is below that of an entry before it"
    if stable < 0:
        return "the last stable offset is negative"
    if stable > ended.last_stable_offset:
        return f"a transaction was open since offset {ended.last_stable_offset}"
    if stable < ended.last_stable_offset and questions.answer(stable).holds:
        return "no transaction of another producer begins at the last stable offset"
    return ""


def _may_begin(offset: int, begins: int | None, ask: Ask) -> bool:
    """Whether a transaction whose first batch in the log is at `begins` (None: there is none) may begin at `offset`.

    Deletion and compaction remove batches, so the log may show less of a transaction than the entry of a file.
    """
    return offset == begins or ((begins is None or offset < begins) and not ask(offset).holds)


# ---- producer snapshot


def snapshot_offsets(entries: Iterable[ProducerEntry], log: LogBounds) -> Iterator[int]:
    """Yield the offsets that `check_producers` requires."""
    for entry in entries:
        for offset in (entry.last_offset, entry.current_txn_first_offset):
            if log.start <= offset < log.end:
                yield offset


def check_producers(
    entries: Iterable[ProducerEntry], path: str, snapshot_offset: int, questions: LogQuestions
) -> Iterator[Entry]:
    """Check each producer of the snapshot at `path` against what was followed below the snapshot's offset."""
    judged = questions.trail.judged.get(path, {})
    for number, entry in enumerate(entries):
        followed = judged.get(entry.producer_id, RIGHT)
        verdict, detail = _producer(entry, snapshot_offset, questions.log, followed)
        yield Entry(number, entry, verdict, detail, is_tolerable=False)


def _producer(entry: ProducerEntry, snapshot_offset: int, log: LogBounds, followed: Judgement) -> Judgement:
    largest = max(entry.last_offset, entry.current_txn_first_offset)
    if largest >= log.end:
        return Verdict.BEYOND_END, f"offset {largest} is not in the log yet"
    if largest >= snapshot_offset:
        return Verdict.OUT_OF_ORDER, f"offset {largest} is not below the snapshot's"
    if entry.has_batch and entry.last_offset < log.start and followed[0] is not Verdict.STALE:
        return Verdict.GONE, "the producer's last batch was deleted"
    return followed


# ---- leader epochs


def epoch_offsets(entries: Iterable[EpochEntry], log: LogBounds) -> Iterator[int]:
    """Yield the offsets that `check_epochs` requires."""
    return (entry.start_offset for entry in entries if 0 <= entry.start_offset < log.end)


def check_epochs(entries: Sequence[EpochEntry], questions: LogQuestions) -> Iterator[Entry]:
    """Check each leader epoch against the first batch at or after its start offset."""
    log, before = questions.log, None
    for number, entry in enumerate(entries):
        following = entries[number + 1].start_offset if number + 1 < len(entries) else log.end
        end = following if following > entry.start_offset else log.end
        verdict, detail = _epoch(entry, before, end, log, questions.answer)
        yield Entry(number, entry, verdict, detail, is_tolerable=False)
        if verdict in (Verdict.RIGHT, Verdict.GONE, Verdict.UNVERIFIED):
            before = entry


def _epoch(entry: EpochEntry, before: EpochEntry | None, end: int, log: LogBounds, ask: Ask) -> Judgement:
    if entry.start_offset > log.end:
        return Verdict.BEYOND_END, f"the log ends at {log.end}"
    if entry.epoch < 0 or entry.start_offset < 0:
        return Verdict.OUT_OF_ORDER, "negative"
    if before is not None and (entry.epoch <= before.epoch or entry.start_offset <= before.start_offset):
        return Verdict.OUT_OF_ORDER, "epoch or start offset not above that of an entry before it"
    if entry.start_offset == log.end:
        return Verdict.RIGHT, "nothing was written in it yet"
    answer = ask(entry.start_offset)
    if answer.is_damaged:
        return Verdict.UNVERIFIED, "the log is damaged there"
    batch = answer.batch
    if batch is None or max(batch.base_offset, entry.start_offset) >= end:
        return Verdict.GONE, "no batch of it is left"
    if batch.magic < 2:
        return RIGHT  # the batch has no epoch: the broker stored its own, as Kafka 0.11 to 2.0 did
    if batch.leader_epoch != entry.epoch:
        return Verdict.STALE, f"the batch with offset {batch.last_offset} has leader epoch {batch.leader_epoch}"
    return RIGHT


def missing_epochs(entries: Sequence[EpochEntry], runs: Iterable[tuple[int, int]]) -> Iterator[FileNote]:
    """Yield a note per leader epoch of the batches, as (epoch, base offset), that the checkpoint lacks.

    Epochs before the first entry are not missing: deleting records drops them.
    """
    starts = [entry.start_offset for entry in entries]
    for epoch, base_offset in runs:
        number = bisect_right(starts, base_offset) - 1
        if number >= 0 and entries[number].epoch != epoch:
            recorded = entries[number].epoch
            message = f"the batch at offset {base_offset} has leader epoch {epoch}, the checkpoint says {recorded}"
            offsets, expected = (base_offset, base_offset), f"leader epoch {epoch}"
            yield FileNote(message, ExitCode.CORRUPTION, FindingKind.EPOCHS_WRONG, expected, str(recorded), offsets)


RangeOf = Callable[[str, int], LogBounds | None]
"""Returns the log range of a topic's partition, None if it has no directory or no segment."""

_BEYOND = {
    FileKind.RECOVERY_POINT_CHECKPOINT: "a broker recovers from the end on",
    FileKind.REPLICATION_CHECKPOINT: "records that were replicated are lost",
    FileKind.LOG_START_CHECKPOINT: "a broker deletes every segment",
    FileKind.CLEANER_CHECKPOINT: "a cleaner starts again at the log start",
}


def check_offsets(entries: Iterable[PartitionOffset], kind: FileKind, range_of: RangeOf) -> Iterator[Entry]:
    """Check each line of one of the four offset checkpoints against its partition's first and end offset."""
    names: set[tuple[str, int]] = set()
    for number, entry in enumerate(entries):
        name = (entry.topic, entry.partition)
        if name in names:
            yield Entry(number, entry, Verdict.STALE, "a second line about the partition: a broker takes it")
            continue
        names.add(name)
        try:
            verdict, detail = _checkpoint_offset(entry.offset, kind, range_of(*name))
        except KafkalogError as error:
            verdict, detail = Verdict.UNVERIFIED, str(error)
        yield Entry(number, entry, verdict, detail, is_tolerable=False)


def _checkpoint_offset(offset: int, kind: FileKind, log: LogBounds | None) -> tuple[Verdict, str]:
    if offset < 0:
        return Verdict.OUT_OF_ORDER, "negative"
    if log is None:
        return Verdict.NO_DIRECTORY, ""
    if offset > log.end:
        return Verdict.BEYOND_END, f"the log ends at {log.end}: {_BEYOND[kind]}"
    if offset < log.start:
        return Verdict.RIGHT, f"below the first segment: a broker uses {log.start}"
    return Verdict.RIGHT, ""


_DECODERS: dict[FileKind, Callable[[bytes], tuple[Any, list[Fault]]]] = {
    FileKind.META_PROPERTIES: meta_properties.decode,
    FileKind.PARTITION_METADATA: partition_metadata.decode,
    FileKind.QUORUM_STATE: decode_quorum_state,
    FileKind.CLEAN_SHUTDOWN: decode_clean_shutdown,
}


def read_metadata_file(kind: FileKind, data: bytes) -> tuple[list[Entry], list[FileNote]]:
    """Read `meta.properties`, `partition.metadata`, `.kafka_cleanshutdown` or `quorum-state`: its fields and faults."""
    found, faults = _DECODERS[kind](data)
    is_marker = kind is FileKind.CLEAN_SHUTDOWN  # a broker still starts as after a clean shutdown
    notes = [FileNote("empty, as brokers up to 3.6 wrote it")] if is_marker and not data else []
    for fault in faults:
        is_accepted = is_marker or fault.is_accepted
        notes.append(fault_note(kind, fault, ExitCode.WARNINGS if is_accepted else ExitCode.CORRUPTION))
    return [] if found is None else [Entry(0, found, Verdict.RIGHT)], notes
