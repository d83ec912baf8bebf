"""The copies of partitions in several log directories: which copy is the best, and where its log starts and ends."""

import os
from collections.abc import Callable, Sequence

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.names import is_topic_name, partition_directory_name
from kafkalog_cli.errors import KafkalogError, NothingSelected
from kafkalog_cli.format.fault import unreadable
from kafkalog_cli.log.log_dir import LogDirs
from kafkalog_cli.log.partition import Partition, open_partition

Report = Callable[[str, str], None]
"""Called with the path of a copy that cannot be read, and the reason."""


def rank(copy: Partition) -> tuple[int, int]:
    """Return the last leader epoch, then the end of the log: the larger, the better, as in an election of a leader."""
    return copy.last_epoch, copy.bounds.next_offset


class Replicas:
    """The copies of partitions in some log directories, each looked up by name and once."""

    def __init__(self, fs: Filesystem, log_dirs: Sequence[str], report: Report) -> None:
        self._fs = fs
        self.log_dirs = list({os.path.realpath(path): path.rstrip("/") or "/" for path in log_dirs}.values())
        self._report = report
        self._of_run = LogDirs(fs)
        self._found: dict[tuple[str, int], tuple[Partition, ...]] = {}

    def copies(self, topic: str, number: int) -> tuple[Partition, ...]:
        """Return the copies of a partition, the best first, and of equal copies the copy that starts first.

        A copy that cannot be read is reported and left out.
        """
        key = (topic, number)
        if key not in self._found:
            found = [self._copy(log_dir, topic, number) for log_dir in self.log_dirs] if is_topic_name(topic) else []
            copies = sorted((copy for copy in found if copy), key=lambda copy: copy.bounds.start)
            self._found[key] = tuple(sorted(copies, key=rank, reverse=True))
        return self._found[key]

    def best(self, topic: str, number: int) -> Partition | None:
        """Return the best copy of a partition, None if no log directory has it."""
        return next(iter(self.copies(topic, number)), None)

    def _copy(self, log_dir: str, topic: str, number: int) -> Partition | None:
        path = f"{log_dir.rstrip('/')}/{partition_directory_name(topic, number)}"
        status = self._fs.status(path)
        if status is None or not (status.is_directory or status.is_symlink):
            return None
        try:
            partition = open_partition(self._fs, path, self._of_run)
            rank(partition)  # reads what may fail
        except NothingSelected:
            return None
        except (KafkalogError, OSError) as error:
            self._report(path, unreadable(error).message)
            return None
        return partition
