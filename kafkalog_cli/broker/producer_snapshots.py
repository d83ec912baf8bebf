"""Reads, writes and removes the producer snapshots of a partition that is being loaded (ProducerStateManager)."""

from collections.abc import Iterable, Sequence
from functools import partial

from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.broker.loaded_segment import LoadedSegment, LoadSettings
from kafkalog_cli.broker.producer_state import ProducerState, is_expired
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.disk.names import FileKind, WorkState, offset_of_file_name, segment_file_name
from kafkalog_cli.format import producer_snapshot
from kafkalog_cli.format.fault import FaultKind


class ProducerSnapshots:
    """The producer state up to `end_offset`, and the snapshot files by offset as they were last listed.

    A broker lists the files when it creates a ProducerStateManager, and then trusts its list. `without_producers` has
    the base offsets of segments that need not be read: it is known that none of their batches has a producer id.
    """

    def __init__(self, draft: Draft, settings: LoadSettings) -> None:
        self.state = ProducerState(draft.directory)
        self.end_offset = 0
        self.without_producers: frozenset[int] = frozenset()
        self._draft = draft
        self._settings = settings
        self._last_snapshot_offset = 0
        self._names = self._listed()

    def _listed(self) -> dict[int, str]:
        found: dict[int, str] = {}
        for name in self._draft.names():
            if name.endswith(FileKind.PRODUCER_SNAPSHOT.value):
                offset = offset_of_file_name(name)
                if offset is None:
                    raise LoadFailed("NumberFormatException", f"{name} has no offset in its name")
                found[offset] = name
        return found

    def remove_strays(self, base_offsets: Sequence[int]) -> None:
        """Remove the snapshots that belong to no segment, except the last if it is above all segments' base offsets."""
        self._names = self._listed()
        strays = sorted(offset for offset in self._names if offset not in base_offsets)
        for offset in strays[:-1]:
            self._remove(offset)
        if strays and base_offsets and strays[-1] < max(base_offsets):
            self._remove(strays[-1])

    def mark_deleted(self, base_offsets: Iterable[int]) -> None:
        """Rename the snapshots of removed segments to `.deleted`, if they were listed and still exist."""
        for offset in base_offsets:
            name = self._names.pop(offset, None)
            if name is not None:
                self._draft.move(name, name + WorkState.DELETED.value)

    def truncate_fully(self, end_offset: int) -> None:
        """Clear the state, remove all snapshots, and continue at `end_offset`."""
        self.state.clear()
        for offset in list(self._names):
            self._remove(offset)
        self._last_snapshot_offset = 0
        self.end_offset = end_offset

    def rebuild(
        self, segments: Sequence[LoadedSegment], log_start_offset: int, last_offset: int, *, from_clean_stop: bool
    ) -> None:
        """Bring the state up to `last_offset`, starting at the newest snapshot (UnifiedLog.rebuildProducerState).

        `segments` are in ascending order. If there is no snapshot after a clean stop, the log is not read: the broker
        assumes that there were no producers. Raises LoadFailed.
        """
        bases = [segment.base_offset for segment in segments]
        if not self._names and from_clean_stop:
            for offset in (*bases[-2:], last_offset):
                self.end_offset = offset
                self.take()
            return
        had_nothing = not self.state.producers and not self.state.completed and self.end_offset >= last_offset
        self._truncate_and_reload(log_start_offset, last_offset)
        if last_offset > self.end_offset and not had_nothing:
            self._replay(segments, log_start_offset, last_offset, frozenset(bases[-2:]))
        self.end_offset = last_offset
        self.take()

    def take(self) -> None:
        """Write a snapshot at `end_offset` if that is above the offset of the last snapshot."""
        if self.end_offset <= self._last_snapshot_offset:
            return
        name = segment_file_name(self.end_offset, FileKind.PRODUCER_SNAPSHOT)
        producers = self.state.producers
        self._draft.put_pieces(name, producer_snapshot.encode_packed(len(producers), producers.in_snapshot_order()))
        self._names[self.end_offset] = name
        self._last_snapshot_offset = self.end_offset

    def _truncate_and_reload(self, log_start_offset: int, last_offset: int) -> None:
        for offset in list(self._names):
            if offset > last_offset or offset <= log_start_offset:
                self._remove(offset)
        if last_offset != self.end_offset:
            self.state.clear()
            self._load(log_start_offset)
        else:
            self.end_offset = max(self.end_offset, log_start_offset)
            self._last_snapshot_offset = max(self._names, default=log_start_offset)

    def _load(self, log_start_offset: int) -> None:
        """Load the newest readable snapshot, if there is one; unreadable snapshots above it are removed."""
        settings = self._settings
        while self._names:
            offset = max(self._names)
            pieces = partial(self._draft.pieces, self._names[offset])
            count, faults = producer_snapshot.check(self._draft.size_bytes(self._names[offset]), pieces)
            if any(fault.kind is not FaultKind.TRAILING_BYTES for fault in faults):
                self._remove(offset)
                continue
            entries = producer_snapshot.entries_of(count, pieces())
            self.state.load(
                entry for entry in entries if not is_expired(entry, settings.now_ms, settings.producer_id_expiration_ms)
            )
            self._last_snapshot_offset = self.end_offset = offset
            return
        self._last_snapshot_offset = self.end_offset = log_start_offset

    def _replay(
        self, segments: Sequence[LoadedSegment], log_start_offset: int, last_offset: int, snapshot_at: frozenset[int]
    ) -> None:
        holder = max((s.base_offset for s in segments if s.base_offset <= last_offset), default=None)
        for segment in segments_between(segments, self.end_offset, last_offset):
            self.end_offset = max(segment.base_offset, self.end_offset, log_start_offset)
            if segment.base_offset in snapshot_at:
                self.take()
            end_position = segment.size_bytes
            if segment.base_offset == holder:
                last = segment.find(last_offset)
                end_position = end_position if last is None else last.position
            if segment.base_offset not in self.without_producers:
                segment.replay(self.state, self.end_offset, end_position)

    def _remove(self, offset: int) -> None:
        self._draft.drop(self._names.pop(offset))


def segments_between(segments: Sequence[LoadedSegment], from_offset: int, to_offset: int | None) -> list[LoadedSegment]:
    """Return the segments from the segment with `from_offset` to the last based below `to_offset` (LogSegments.values).

    `to_offset` None means up to the last segment.
    """
    if from_offset == to_offset:
        return []
    first = max((s.base_offset for s in segments if s.base_offset <= from_offset), default=None)
    return [
        segment
        for segment in segments
        if (first is None or segment.base_offset >= first) and (to_offset is None or segment.base_offset < to_offset)
    ]
