"""Cutting a log at its end (UnifiedLog.truncateTo, truncateFullyAndStartAt), on a draft of its files."""

from __future__ import annotations

from typing import NamedTuple

from kafkalog_cli.format import txnindex
from kafkalog_cli.storage.log.loaded_segment import LoadedSegment
from kafkalog_cli.storage.log.open_log import OpenLog, changed_epochs
from kafkalog_cli.storage.log.producer_snapshots import ProducerSnapshots
from kafkalog_cli.storage.names import FileKind


class CutBatch(NamedTuple):
    """The batch that the target lies in, which goes whole."""

    base_offset: int
    last_offset: int
    position: int


class Truncated(NamedTuple):
    """What a truncation did: where the log starts and ends now, base offsets of segments that went.

    `cut_batch` is that with records below the target, if there is one; `cut_bytes` are those of the segment that
    is the last now.
    """

    log_start_offset: int
    log_end_offset: int
    removed: tuple[int, ...] = ()
    cut_batch: CutBatch | None = None
    cut_bytes: int = 0


def truncate_to(log: OpenLog, target_offset: int) -> Truncated:
    """Take away all records from `target_offset` on, in whole batches; left is what a broker finds when it starts next.

    Until it stops, a broker has the target for the log's end even if that lay in a batch. A log that then ends
    below its start begins anew there, as it does at that start. Raises LoadFailed.
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
    """Take all records away; the log goes on, empty, at `new_offset`."""
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
    """Mirrors LogSegment.truncateTo, and the closing of the segment when the broker stops."""
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
    """Epochs and producers, as they were at `end_offset`; at the start that finds it so if the target is in a batch."""
    with changed_epochs(log.draft) as epochs:
        epochs.truncate_from_end(end_offset)
    snapshots = ProducerSnapshots(log.draft, log.settings)
    snapshots.state, snapshots.end_offset = producers.state, producers.end_offset
    snapshots.rebuild(log.segments(), log.log_start_offset, target_offset, from_clean_stop=False)
    if target_offset != end_offset:
        started = ProducerSnapshots(log.draft, log.settings)
        started.rebuild(log.segments(), log.log_start_offset, end_offset, from_clean_stop=log.is_clean)
