"""One run of `kafkalog recover --salvage`: valid batches of each partition copied, and told what is lost."""

from __future__ import annotations

import os
from typing import NamedTuple

from kafkalog_cli.actions.recover.salvage import LostOffsets, Salvaged, salvage, sync_parent
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.partition_run import PartitionRun, Work, of_the_system
from kafkalog_cli.cli.recover_run import RecoverOptions
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.output.recover_json import SALVAGE, salvage_object
from kafkalog_cli.output.recover_text import salvage_lines
from kafkalog_cli.storage.named_places import check_named_directory
from kafkalog_cli.storage.partition import Partition


class _Copied(NamedTuple):
    partition: Partition
    salvaged: Salvaged


class SalvageRun(PartitionRun[_Copied]):
    """Copies partitions; the source is only read, and no lock is taken on it."""

    verb = "salvage"

    def __init__(self, environment: Environment, options: RecoverOptions, out: str) -> None:
        super().__init__(environment, options)
        self._recovery = options
        self._target = out

    def run(self, paths: list[str]) -> int:
        """Copy what `paths` name; the exit code."""
        partitions = self.partitions(paths)
        self._request = self._recovery.request(self._environment, self._clock.now_ms, partitions)
        check_named_directory(self._fs, self._target)
        try:
            if self._fs.status(self._target) is None:
                self._fs.make_directory(self._target)
                sync_parent(self._fs, self._target.rstrip("/"))
        except OSError as error:
            raise of_the_system(self._target, error) from error
        code = self.work(partitions)
        self.summary(code, partitions=len(partitions))
        return code

    def partition(self, work: Work) -> _Copied:
        """See PartitionRun."""
        partition = work.partition
        settings = self._request.load_settings(work.log_dir, partition.topic)
        target = os.path.join(self._target, partition.name)  # noqa: PTH118  (paths are text)
        try:
            return _Copied(partition, salvage(work.fs, partition, target, settings))
        except OSError as error:
            raise of_the_system(target, error) from error

    def show(self, result: _Copied) -> ExitCode:
        """See PartitionRun."""
        partition, salvaged = result
        if self._json is not None:
            fields = salvage_object(partition.path, partition.topic, partition.number, salvaged)
            self._json.object(SALVAGE, "salvage", fields)
        else:
            for line in salvage_lines(partition.path, salvaged):
                self._out.write(line + "\n")
        if salvaged.unreadable or not all(_is_torn_tail(partition, lost) for lost in salvaged.lost):
            return ExitCode.CORRUPTION
        return ExitCode.WARNINGS if salvaged.lost else ExitCode.OK


def _is_torn_tail(partition: Partition, lost: LostOffsets) -> bool:
    """Whether nothing is lost but what a crash may have left at the log's end; it makes no bad sectors."""
    return lost.last is None and lost.path == partition.segments[-1].log.path and not lost.unreadable_bytes
