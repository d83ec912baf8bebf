"""The copies of partitions in several log directories: which copy is the best, and where its log starts and ends."""

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.names import FileKind, is_topic_name, partition_directory_name
from kafkalog_cli.errors import KafkalogError, NothingSelected
from kafkalog_cli.format.fault import unreadable
from kafkalog_cli.log.checkpoints import read_leader_epochs
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.log.partition import Partition, open_partition
from kafkalog_cli.ops.listing.root import Shutdown
from kafkalog_cli.ops.partition_state import BrokerViews, log_bounds

Report = Callable[[str, str], None]
"""Called with the path of a copy that cannot be read, and the reason."""


class Copy(NamedTuple):
    """A partition in one log directory; `leader_epoch` is the last in its leader-epoch-checkpoint, -1 without any.

    `was_cleaned`: cleaner-offset-checkpoint has a line of the partition.
    """

    partition: Partition
    leader_epoch: int
    bounds: LogBounds
    shutdown: Shutdown
    was_cleaned: bool

    @property
    def rank(self) -> tuple[int, int]:
        """The larger, the better: the last leader epoch, then the end of the log, as in an election of a leader."""
        return self.leader_epoch, self.bounds.next_offset

    @property
    def latest_offset(self) -> int:
        """The offset that a leader gives as the latest (ListOffsets): its high watermark.

        After a clean shutdown that is the checkpoint's line. Otherwise the line may be some seconds old, and the end of
        the log is closer.
        """
        watermark = self.bounds.high_watermark
        return self.bounds.next_offset if watermark is None or self.shutdown is not Shutdown.CLEAN else watermark


class Replicas:
    """The copies of partitions in some log directories, each looked up by name and once."""

    def __init__(self, fs: Filesystem, log_dirs: Sequence[str], report: Report) -> None:
        self._fs = fs
        self.log_dirs = list({os.path.realpath(path): path.rstrip("/") or "/" for path in log_dirs}.values())
        self._report = report
        self._views = BrokerViews(fs)
        self._found: dict[tuple[str, int], tuple[Copy, ...]] = {}

    def copies(self, topic: str, number: int) -> tuple[Copy, ...]:
        """Return the copies of a partition, the best first, and of equal copies the copy that starts first.

        A copy that cannot be read is reported and left out.
        """
        key = (topic, number)
        if key not in self._found:
            found = [self._copy(log_dir, topic, number) for log_dir in self.log_dirs] if is_topic_name(topic) else []
            copies = sorted((copy for copy in found if copy), key=lambda copy: copy.bounds.start)
            self._found[key] = tuple(sorted(copies, key=lambda copy: copy.rank, reverse=True))
        return self._found[key]

    def best(self, topic: str, number: int) -> Copy | None:
        """Return the best copy of a partition, None if no log directory has it."""
        return next(iter(self.copies(topic, number)), None)

    def _copy(self, log_dir: str, topic: str, number: int) -> Copy | None:
        path = f"{log_dir.rstrip('/')}/{partition_directory_name(topic, number)}"
        status = self._fs.status(path)
        if status is None or not (status.is_directory or status.is_symlink):
            return None
        try:
            partition = open_partition(self._fs, path)
            view = self._views.of(partition)
            bounds = log_bounds(self._fs, partition, view)
            was_cleaned = view.line(FileKind.CLEANER_CHECKPOINT) is not None
            return Copy(partition, self._last_epoch(partition), bounds, view.shutdown, was_cleaned)
        except NothingSelected:
            return None
        except (KafkalogError, OSError) as error:
            self._report(path, unreadable(error).message)
            return None

    def _last_epoch(self, partition: Partition) -> int:
        entries, _ = read_leader_epochs(self._fs, partition)
        return max((entry.epoch for entry in entries), default=-1)
