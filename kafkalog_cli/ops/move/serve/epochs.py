"""The leader epochs of a log, and the answers of a leader to questions about them (LeaderEpochFileCache)."""

from bisect import bisect_right
from collections.abc import Sequence

from kafkalog_cli.broker.leader_epochs import LeaderEpochs
from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.format.checkpoint import EpochEntry
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.log.partition import Partition, read_leader_epochs

NO_EPOCH = -1
NO_OFFSET = -1


class EpochHistory:
    """Leader epochs with ascending numbers and offsets."""

    def __init__(self, entries: Sequence[EpochEntry]) -> None:
        self._epochs = [entry.epoch for entry in entries]
        self._starts = [entry.start_offset for entry in entries]

    @property
    def latest(self) -> int:
        """The last epoch, -1 without any."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    @property
    def of_leader(self) -> int:
        """The epoch of the leader. 0 for a log without epochs: librdkafka reads from no leader without an epoch."""
        return max(self.latest, 0)

    def of(self, offset: int) -> int:
        """Return the epoch of the record at an offset, -1 if it is not known."""
        place = bisect_right(self._starts, offset) - 1
        return self._epochs[place] if place >= 0 else NO_EPOCH

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """Return the largest epoch up to `epoch`, and the offset after its last record; -1 if it is not known."""
        if not self._epochs or epoch == NO_EPOCH or epoch > self.latest:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end
        place = bisect_right(self._epochs, epoch)
        return self._epochs[place - 1] if place else epoch, self._starts[place]


def leader_epochs_of(fs: Filesystem, partition: Partition, bounds: LogBounds) -> EpochHistory:
    """Return the epochs that a broker has after it loaded a partition. A file that it refuses gives no epochs.

    Epochs that begin after the end of the log are left out. Raises as `open_read`.
    """
    entries, faults = read_leader_epochs(fs, partition)
    try:
        known = LeaderEpochs(() if faults else entries)
    except LoadFailed:
        return EpochHistory(())
    known.truncate_from_end(bounds.next_offset + 1)
    known.truncate_from_start(bounds.start)
    return EpochHistory(known.entries)
