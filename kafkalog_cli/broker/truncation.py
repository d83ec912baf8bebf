"""Truncates a log at its end (UnifiedLog.truncateTo, truncateFullyAndStartAt), on a draft of its files."""

from __future__ import annotations

from typing import NamedTuple

from kafkalog_cli.broker.loaded_segment import LoadedSegment
from kafkalog_cli.broker.open_log import OpenLog, changed_epochs
from kafkalog_cli.broker.producer_snapshots import ProducerSnapshots
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.format import txnindex


class CutBatch(NamedTuple):
    """The batch that contains the target offset; it is removed as a whole."""

    base_offset: int
    last_offset: int
    position: int


class Truncated(NamedTuple):
    """Result of a truncation: the new start and end of the log, and the base offsets of the removed segments.

    `cut_batch` is the removed batch that also had records below the target, None if there is none. `cut_bytes` is
    the number of bytes cut from the segment that is now the last.
    """

    log_start_offset: int
    log_end_offset: int
    removed: tuple[int, ...] = ()
    cut_batch: CutBatch | None = None
    cut_bytes: int = 0


def truncate_to(log: OpenLog, target_offset: int) -> Truncated:
    """Remove all records from `target_offset` on, in whole batches; the draft is the log at the broker's next start.

    Until it stops, a broker uses the target as the log's end, even if it lies within a batch. A log that would end
    below its log start offset is emptied and starts there, as at the broker's next start. Raises LoadFailed.
    """
    if target_offset >= log.log_end_offset:
        with changed_epochs(log.draft) as epochs:
            epochs.truncate_from_end(log.log_end_offset)
        return Truncated(log.log_start_offset, log.log_end_offset)
    if log.base_offsets[0] > target_offset:
        return truncate_fully_and_start_at(log, target_offset)
    producers = log.producers_at_end(log.draft.fork())
    removed = [base_offset for base_offset in log.base_offsets if base_offset > target_offset]
    log.drop_segments(removed)
    cut_batch, cut_bytes = _truncate_segment(log, log.active(), target_offset)
    end_offset = log.active().next_offset()
    if end_offset < log.log_start_offset:
        started = truncate_fully_and_start_at(log, log.log_start_offset)
        return started._replace(removed=(*started.removed, *removed), cut_batch=cut_batch)
    _forget_after(log, producers, target_offset, end_offset)
    log.log_end_offset = end_offset
    return Truncated(log.log_start_offset, end_offset, tuple(removed), cut_batch, cut_bytes)


def truncate_fully_and_start_at(log: OpenLog, new_offset: int) -> Truncated:
    """Remove all records; the log continues, empty, at `new_offset`."""
    removed = list(log.base_offsets)
    log.drop_segments(removed)
    for name in log.draft.names():
        if name.endswith(FileKind.PRODUCER_SNAPSHOT.value):
            log.draft.drop(name)
    log.create_segment(new_offset)
    with changed_epochs(log.draft) as epochs:
        epochs.clear()
    log.log_start_offset = log.log_end_offset = new_offset
    return Truncated(new_offset, new_offset, tuple(removed))


def _truncate_segment(log: OpenLog, segment: LoadedSegment, target_offset: int) -> tuple[CutBatch | None, int]:
    """Cut the segment (LogSegment.truncateTo) and close it, as a broker does when it stops.

    Returns the removed batch that also had records below the target (None if there is none), and the bytes cut.
    """
    found = segment.find(target_offset)
    before = segment.size_bytes
    draft, knows_times = log.draft, log.knows_times(segment)
    offsets, times = segment.offset_index(), segment.time_index()
    slot = offsets.floor_slot(target_offset)
    kept = slot if slot >= 0 and offsets[slot].offset == target_offset else slot + 1
    draft.cut(segment.index_name, kept * offsets.layout.size)
    slot = times.floor_slot(target_offset, field=1)
    kept = slot if slot >= 0 and times[slot].offset == target_offset else slot + 1
    draft.cut(segment.time_index_name, kept * times.layout.size)
    if segment.txn_index_name in draft:
        entries, _ = txnindex.decode(draft.read(segment.txn_index_name), segment.base_offset)
        kept = next((at for at, entry in enumerate(entries) if entry.last_offset >= target_offset), len(entries))
        if kept < len(entries):
            draft.cut(segment.txn_index_name, kept * txnindex.ABORTED_TXN.size)
    if found is None:
        return None, 0
    with draft.reader(segment.log_name) as reader:
        first_offset = segment.first_offset(reader, found)
    draft.cut(segment.log_name, found.position)
    if knows_times:
        log.close_time_index(log.active())
    cut_batch = CutBatch(first_offset, found.last_offset, found.position) if first_offset < target_offset else None
    return cut_batch, before - found.position


def _forget_after(log: OpenLog, producers: ProducerSnapshots, target_offset: int, end_offset: int) -> None:
    """Truncate the leader epochs to `end_offset`, and rebuild the producer state and snapshots.

    If the target lies within a batch, the broker's next start finds a lower end and rebuilds them once more.
    """
    with changed_epochs(log.draft) as epochs:
        epochs.truncate_from_end(end_offset)
    snapshots = ProducerSnapshots(log.draft, log.settings)
    snapshots.state, snapshots.end_offset = producers.state, producers.end_offset
    snapshots.rebuild(log.segments(), log.log_start_offset, target_offset, from_clean_stop=False)
    if target_offset != end_offset:
        started = ProducerSnapshots(log.draft, log.settings)
        started.rebuild(log.segments(), log.log_start_offset, end_offset, from_clean_stop=log.is_clean)
