"""What changes of logs share: whose settings count, refusals, runs that were cut off, counts and metrics."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kafkalog_cli.actions.cut_off import cut_off_run, take_back
from kafkalog_cli.actions.partition_facts import PartitionFacts, gather_facts
from kafkalog_cli.actions.refusals import Action, Intent, judge, raise_refusals
from kafkalog_cli.actions.root_state import Roots, RootState
from kafkalog_cli.actions.settings import SettingsSource
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.partition_run import Outcome, ResultT, Work
from kafkalog_cli.cli.partition_writer import PartitionWriter, WriterOptions, learn_roots
from kafkalog_cli.errors import ExitCode, KafkalogError, Refused, UsageError
from kafkalog_cli.storage.changing.lock import log_dir_of
from kafkalog_cli.storage.fs import FileAttributes
from kafkalog_cli.storage.named_places import check_named_file
from kafkalog_cli.storage.partition import Partition, open_partition
from kafkalog_cli.storage.settings.topic_config import parse_topic_settings, read_broker_properties


@dataclass(frozen=True, slots=True)
class LogRunOptions(WriterOptions):
    """The options that these commands share."""

    config: Sequence[str] = field(default=(), kw_only=True)
    broker_config: str | None = field(default=None, kw_only=True)
    metadata: str | None = field(default=None, kw_only=True)
    metrics: str | None = field(default=None, kw_only=True)
    single_replica: bool = field(default=False, kw_only=True)


class LogRun(PartitionWriter[ResultT]):
    """A PartitionWriter of logs, which knows the settings that count for each. One without work is not even locked."""

    action: ClassVar[Action]
    schema: ClassVar[str]

    def __init__(self, environment: Environment, options: LogRunOptions) -> None:
        super().__init__(environment, options)
        self._log_options = options
        self._roots = Roots(environment.fs)
        self._settings: SettingsSource
        self._named_topics: frozenset[str] = frozenset()
        self.counts: dict[str, int] = {"partitions": 0, "changed": 0}
        self._failed = 0

    def run(self, paths: list[str]) -> int:
        """Change what `paths` name; the exit code."""
        if not paths:
            raise UsageError(reason=f"{self.verb} needs a PATH; see kafkalog {self.verb} --help")
        return self.run_on(self.ours(paths))

    def run_on(self, partitions: list[Partition]) -> int:
        """Change these; the exit code."""
        if self._log_options.metrics is not None and not self._writing.dry_run:
            check_named_file(self._fs, self._log_options.metrics)
        self._settings = self._source(partitions)
        selected = self._options.selection
        named = selected.topics if selected is not None and selected.topics else ()
        self._named_topics = frozenset(named or (p.topic for p in partitions if p.path in self._named))
        self.counts["partitions"] = len(partitions)
        code = self.after_all(self.work(partitions))
        self._write_metrics(code)
        self.summary(code, **self.counts)
        return code

    def after_all(self, code: ExitCode) -> ExitCode:
        """What is left to do when all partitions were looked at; the exit code."""
        return code

    def one(self, path: str) -> list[Partition]:
        """The one partition that a path and the selection name. Raises UsageError for several, and as `ours`."""
        found = self.ours([path])
        if len(found) > 1:
            names = ", ".join(partition.path.rpartition("/")[2] for partition in found[:3])
            reason = f"{self.verb} takes one partition, {path} has {len(found)} ({names}, ...)"
            raise UsageError(reason=f"{reason}: name one, or choose it with --topic and --partition")
        return found

    def learn(self, partitions: Sequence[Partition]) -> None:
        """See PartitionRun."""
        learn_roots(self._fs, partitions, self._roots, self._settings)

    def locks_first(self, partition: Partition) -> bool:
        """See PartitionWriter."""
        del partition
        return False

    def begin(self, work: Work) -> RootState:
        """Take back what was cut off half way; what the log directory says then. Raises KafkalogError."""
        run_id = cut_off_run(work.fs, work.partition)
        if run_id is None:
            return self._roots.state(work.log_dir, work.partition)
        if self._writing.dry_run:
            message = f"run {run_id} was cut off half way, and would be taken back first"
            work.tell("cut-off", message, work.partition.path)
            return self._roots.state(work.log_dir, work.partition)
        with self.locked(work):
            try:
                take_back(work.fs, work.partition, run_id, self._clock, self._places)
                work.tell("cut-off", f"run {run_id} was cut off half way, and is taken back", work.partition.path)
            except Refused as refused:
                message = f"run {run_id} was cut off half way, and cannot be taken back: {refused}"
                work.tell("cut-off", message, work.partition.path)
        work.partition = open_partition(work.fs, work.partition.path)
        return Roots(work.fs).state(work.log_dir, work.partition)

    def check(
        self, work: Work, action: Action | None = None, *, facts: PartitionFacts | None = None, **what: Any
    ) -> PartitionFacts:
        """Warn of what the table of refusals warns of; `facts` None: they are gathered.

        Raises Refused, UnsupportedFormat.
        """
        partition = work.partition
        facts = facts or gather_facts(
            work.fs,
            partition,
            work.log_dir,
            self._settings,
            checkpoints=self._roots.checkpoints(work.log_dir),
            places=self._places,
        )
        selected, is_alone = self._options.selection, self._named_topics == {partition.topic}
        intent = Intent(
            action or self.action,
            self._clock.now_ms,
            self._clock.is_given,
            single_replica=self._log_options.single_replica,
            is_named=is_alone or (selected is not None and partition.topic in selected.topics),
            is_named_alone=is_alone,
            **what,
        )
        verdicts = judge(facts, intent)
        raise_refusals(verdicts)
        work.warn(verdicts)
        return facts

    def _take(self, outcome: Outcome[ResultT]) -> None:
        super()._take(outcome)
        self._failed += outcome.error is not None

    def _source(self, partitions: Sequence[Partition]) -> SettingsSource:
        """The settings named, and those of metadata logs beside the partitions. Raises UsageError."""
        fs, options = self._environment.fs, self._log_options
        log_dirs = (log_dir_of(fs, partition.path) for partition in partitions)
        return SettingsSource(
            fs,
            parse_topic_settings(options.config),
            {} if options.broker_config is None else read_broker_properties(fs, options.broker_config),
            metadata_path=options.metadata,
            log_dirs=list(dict.fromkeys(log_dir for log_dir in log_dirs if log_dir is not None)),
            kernels=self._environment.kernels,
        )

    def _write_metrics(self, code: ExitCode) -> None:
        path = self._log_options.metrics
        if path is None or self._writing.dry_run:
            return
        from kafkalog_cli.output.metrics import RunMetrics, metrics_text
        from kafkalog_cli.storage.changing.durable import replace_file

        counts = {**self.counts, "failed_partitions": self._failed, "partitions_not_done": len(self.not_done)}
        seconds = self._environment.clock() - self._begun
        text = metrics_text(RunMetrics(self.action.value, self._environment.now_ms(), seconds, int(code), counts))
        full_path = os.path.abspath(path)  # noqa: PTH100
        try:
            # Who collects it is another user; a file that is there keeps its mode.
            is_there = self._fs.status(full_path) is not None
            readable = FileAttributes(0o644, os.geteuid(), os.getegid(), self._environment.now_ms() * 1_000_000)
            replace_file(self._fs, full_path, text.encode(), None if is_there else readable)
        except OSError as error:
            raise KafkalogError(reason=f"{path}: the metrics cannot be written: {error.strerror}") from error
