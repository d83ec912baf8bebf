"""Leader epochs of a partition and where each starts (LeaderEpochFileCache)."""

from __future__ import annotations

from collections.abc import Iterable

from kafkalog_cli.format.checkpoint import EpochEntry, decode_leader_epochs, encode_leader_epochs
from kafkalog_cli.storage.log.load_error import LoadFailed


class LeaderEpochs:
    """Epochs in ascending order, and whether the file must be written (`is_changed`).

    What is read is assigned entry by entry, so entries that do not ascend drop those before them; the file
    keeps them until something is changed.
    """

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._by_epoch: dict[int, EpochEntry] = {}
        self.is_changed = False
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)
        self.is_changed = False

    @classmethod
    def from_file(cls, data: bytes) -> LeaderEpochs:
        """The epochs of a `leader-epoch-checkpoint`. Raises LoadFailed where a broker cannot read the file."""
        entries, faults = decode_leader_epochs(data)
        if faults:
            raise LoadFailed("KafkaStorageException", f"leader-epoch-checkpoint: {faults[0].message}")
        return cls(entries)

    def encode(self) -> bytes:
        """The bytes of the file."""
        return encode_leader_epochs(self.entries)

    @property
    def entries(self) -> list[EpochEntry]:
        """The entries, by epoch."""
        return sorted(self._by_epoch.values())

    @property
    def latest_epoch(self) -> int | None:
        """The largest epoch, None if there are none."""
        return max(self._by_epoch, default=None)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that `epoch` starts at `start_offset`, unless that is known; drops what does not fit before it."""
        if epoch < 0 or start_offset < 0:
            raise LoadFailed("IllegalArgumentException", f"invalid leader epoch {epoch} at offset {start_offset}")
        latest = self._latest()
        if latest is not None and latest.epoch == epoch and start_offset >= latest.start_offset:
            return
        while (latest := self._latest()) and (latest.epoch >= epoch or latest.start_offset >= start_offset):
            del self._by_epoch[latest.epoch]
        self._by_epoch[epoch] = EpochEntry(epoch, start_offset)
        self.is_changed = True

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the epochs that start at `end_offset` or above."""
        while end_offset >= 0 and (latest := self._latest()) and latest.start_offset >= end_offset:
            del self._by_epoch[latest.epoch]
            self.is_changed = True

    def truncate_from_start(self, start_offset: int) -> None:
        """Let the log begin at `start_offset`: of the epochs that start up to there the last remains, from there on."""
        last: EpochEntry | None = None
        for entry in self.entries:
            if entry.start_offset > start_offset:
                break
            last = self._by_epoch.pop(entry.epoch)
        if last is not None:
            self._by_epoch[last.epoch] = EpochEntry(last.epoch, start_offset)
            # Written even where nothing differs, as the broker does.
            self.is_changed = True

    def clear(self) -> None:
        """Drop all."""
        self._by_epoch.clear()
        self.is_changed = True

    def _latest(self) -> EpochEntry | None:
        latest = self.latest_epoch
        return None if latest is None else self._by_epoch[latest]
