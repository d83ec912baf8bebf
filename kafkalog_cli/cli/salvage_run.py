"""One run of `kafkalog recover --salvage`: valid batches of each partition copied, and told what is lost."""

from __future__ import annotations

import os

from kafkalog_cli.actions.recover import RecoverRequest, load_settings, used_settings
from kafkalog_cli.actions.salvage import salvage
from kafkalog_cli.actions.selection import Selection, select_partitions
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.options import time_of
from kafkalog_cli.cli.recover_run import RecoverOptions
from kafkalog_cli.errors import ExitCode, KafkalogError, combined_exit_code
from kafkalog_cli.output.messages import Messages
from kafkalog_cli.output.ndjson import JsonLines
from kafkalog_cli.output.recover_json import SALVAGE, salvage_object
from kafkalog_cli.output.recover_text import salvage_lines
from kafkalog_cli.output.stream import ResultStream
from kafkalog_cli.storage.lock import log_dir_of
from kafkalog_cli.storage.partition import Partition


class SalvageRun:
    """Copies partitions in order; the source is only read, and no lock is taken on it."""

    def __init__(self, environment: Environment, options: RecoverOptions, out: str) -> None:
        self._environment = environment
        self._fs = environment.fs
        self._options = options
        self._target = out
        self._out = ResultStream(environment.stdout)
        self._messages = Messages(environment.stderr, as_json=options.json)
        self._json = JsonLines(self._out) if options.json else None

    def run(self, paths: list[str]) -> int:
        """Copy what `paths` name; the exit code."""
        environment, options = self._environment, self._options
        partitions = select_partitions(self._fs, paths, options.selection or Selection())
        now_ms = environment.now_ms() if options.now is None else time_of(environment, options.now, None)
        request = options.request(environment, now_ms, partitions)
        if self._fs.status(self._target) is None:
            self._fs.make_directory(self._target)
        code = combined_exit_code([self._partition(partition, request) for partition in partitions])
        if self._json is not None:
            self._json.summary(code, partitions=len(partitions))
        self._out.flush()
        return code

    def _partition(self, partition: Partition, request: RecoverRequest) -> ExitCode:
        used = used_settings(partition.topic, log_dir_of(self._fs, partition.path), request.settings)
        target = os.path.join(self._target, partition.name)  # noqa: PTH118  (paths are text)
        try:
            result = salvage(self._fs, partition, target, load_settings(used, request))
        except KafkalogError as error:
            self._messages.exception(error)
            return error.exit_code
        if self._json is not None:
            fields = salvage_object(partition.path, partition.topic, partition.number, result)
            self._json.object(SALVAGE, "salvage", fields)
        else:
            for line in salvage_lines(partition.path, result):
                self._out.write(line + "\n")
        return ExitCode.CORRUPTION if result.lost or result.unreadable else ExitCode.OK
