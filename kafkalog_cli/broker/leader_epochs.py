"""The leader epochs of a partition and their start offsets (Kafka's LeaderEpochFileCache)."""

from __future__ import annotations

from collections.abc import Iterable

from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.format.checkpoint import EpochEntry, decode_leader_epochs, encode_leader_epochs


class LeaderEpochs:
    """The leader epochs in ascending order; `is_changed` means that the checkpoint file must be rewritten.

    The entries of the file are assigned one by one, so an entry that does not ascend drops the conflicting entries
    before it. The file keeps them until another change.
    """

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._by_epoch: dict[int, EpochEntry] = {}
        self.is_changed = False
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)
        self.is_changed = False

    @classmethod
    def from_file(cls, data: bytes) -> LeaderEpochs:
        """Decode a `leader-epoch-checkpoint` file. Raises LoadFailed where a broker cannot read the file."""
        entries, faults = decode_leader_epochs(data)
        if faults:
            raise LoadFailed("KafkaStorageException", f"leader-epoch-checkpoint: {faults[0].message}")
        return cls(entries)

    def encode(self) -> bytes:
        """Return the bytes of the checkpoint file."""
        return encode_leader_epochs(self.entries)

    @property
    def entries(self) -> list[EpochEntry]:
        """The entries, sorted by epoch."""
        return sorted(self._by_epoch.values())

    @property
    def latest_epoch(self) -> int | None:
        """The largest epoch, None if there are none."""
        return max(self._by_epoch, default=None)

    def epoch_of(self, offset: int) -> int | None:
        """Return the epoch of the record at an offset, None if it is not known (epochForOffset)."""
        return max((entry.epoch for entry in self.entries if entry.start_offset <= offset), default=None)

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int] | None:
        """Return the largest epoch up to `epoch`, and the offset after its last record (endOffsetFor).

        None if it is not known. An epoch before the first one ends where the first one starts.
        """
        if epoch == self.latest_epoch:
            return epoch, log_end
        following = next((entry for entry in self.entries if entry.epoch > epoch), None)
        if epoch < 0 or following is None:
            return None
        known = max((one for one in self._by_epoch if one <= epoch), default=epoch)
        return known, following.start_offset

    def assign(self, epoch: int, start_offset: int) -> None:
        """Set the start offset of `epoch`, unless it is the latest epoch and starts at or below `start_offset`.

        Other entries stay if both their epoch and their start offset are lower. Raises LoadFailed if a number is
        negative.
        """
        if epoch < 0 or start_offset < 0:
            raise LoadFailed("IllegalArgumentException", f"invalid leader epoch {epoch} at offset {start_offset}")
        latest = self._latest()
        if latest is not None and latest.epoch == epoch and start_offset >= latest.start_offset:
            return
        while (latest := self._latest()) and (latest.epoch >= epoch or latest.start_offset >= start_offset):
            del self._by_epoch[latest.epoch]
        self._by_epoch[epoch] = EpochEntry(epoch, start_offset)
        self.is_changed = True

    def assign_later(self, entries: Iterable[EpochEntry]) -> None:
        """Assign the epochs of later batches that are above the latest epoch, as a recovery does."""
        for entry in entries:
            if self.latest_epoch is None or entry.epoch > self.latest_epoch:
                self.assign(entry.epoch, entry.start_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the epochs that start at `end_offset` or above."""
        while end_offset >= 0 and (latest := self._latest()) and latest.start_offset >= end_offset:
            del self._by_epoch[latest.epoch]
            self.is_changed = True

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop the epochs that end at or below `start_offset`; the epoch that contains it starts there from now on."""
        last: EpochEntry | None = None
        for entry in self.entries:
            if entry.start_offset > start_offset:
                break
            last = self._by_epoch.pop(entry.epoch)
        if last is not None:
            self._by_epoch[last.epoch] = EpochEntry(last.epoch, start_offset)
            # The broker writes the file even if this changes nothing.
            self.is_changed = True

    def clear(self) -> None:
        """Drop all epochs."""
        self._by_epoch.clear()
        self.is_changed = True

    def _latest(self) -> EpochEntry | None:
        latest = self.latest_epoch
        return None if latest is None else self._by_epoch[latest]


def truncation_offset(follower: LeaderEpochs, end_offset: int, leader: LeaderEpochs, leader_end: int) -> int | None:
    """Return the offset at which a follower cuts its log off before it fetches from the leader.

    As AbstractFetcherThread.getOffsetTruncationState (KIP-101, KIP-279). None if the leader does not know where the
    follower's epoch ends: the follower then goes back to its high watermark.
    """
    own = LeaderEpochs(follower.entries)
    while (epoch := own.latest_epoch) is not None:
        known = leader.end_of(epoch, leader_end)
        if known is None:
            return None
        leader_epoch, leader_epoch_end = known
        own_epoch, own_epoch_end = own.end_of(leader_epoch, end_offset) or (leader_epoch, end_offset)
        if own_epoch == leader_epoch:
            return min(own_epoch_end, leader_epoch_end, end_offset)
        # The leader's answer is an epoch that the follower does not know: it asks again about the epoch before.
        end_offset = min(own_epoch_end, end_offset)
        own.truncate_from_end(end_offset)
    return None
