"""One run of `kafkalog recover`: each partition planned, changed under its lock, and shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import NamedTuple

from kafkalog_cli.actions.apply_changes import MARKER_STAYS_AWAY, Applied, Marker
from kafkalog_cli.actions.cut_off import cut_off_run
from kafkalog_cli.actions.partition_facts import gather_facts
from kafkalog_cli.actions.recover.plan import RecoverMode, RecoverPlan
from kafkalog_cli.actions.recover.recover import RecoverRequest, apply_recovery, plan_recovery
from kafkalog_cli.actions.recover.topic_identity import path_of_stray
from kafkalog_cli.actions.refusals import Action, Intent, judge, raise_refusals
from kafkalog_cli.actions.reports.index_verdict import counted
from kafkalog_cli.actions.root_state import Roots
from kafkalog_cli.actions.settings import SettingsSource
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.partition_run import Work, of_the_system
from kafkalog_cli.cli.partition_writer import PartitionWriter, WriterOptions, learn_roots
from kafkalog_cli.errors import ExitCode, KafkalogError, Refused
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.output.recover_json import RECOVERY, plan_object
from kafkalog_cli.output.recover_text import plan_lines, plan_words
from kafkalog_cli.output.stream import printable
from kafkalog_cli.storage.changing.changes import Cut
from kafkalog_cli.storage.changing.durable import rename_directory
from kafkalog_cli.storage.changing.lock import log_dir_of
from kafkalog_cli.storage.checkpoints import Rebuilt, rebuild_damaged
from kafkalog_cli.storage.names import DirectoryKind
from kafkalog_cli.storage.partition import Partition
from kafkalog_cli.storage.settings.topic_config import parse_topic_settings, read_broker_properties


@dataclass(frozen=True, slots=True)
class RecoverOptions(WriterOptions):
    """The command line of recover, as it is."""

    like_broker: bool
    indexes_only: bool
    since_recovery_point: bool
    discard: bool
    config: Sequence[str]
    broker_config: str | None
    metadata: str | None

    @property
    def mode(self) -> RecoverMode:
        """The rules that are wanted."""
        if self.like_broker:
            return RecoverMode.LIKE_BROKER
        return RecoverMode.INDEXES_ONLY if self.indexes_only else RecoverMode.REPAIR

    def request(self, environment: Environment, now_ms: int, partitions: Sequence[Partition]) -> RecoverRequest:
        """How to recover: the settings named, and those of metadata logs beside the partitions. Raises UsageError."""
        fs = environment.fs
        log_dirs = (log_dir_of(fs, partition.path) for partition in partitions)
        source = SettingsSource(
            fs,
            parse_topic_settings(self.config),
            {} if self.broker_config is None else read_broker_properties(fs, self.broker_config),
            metadata_path=self.metadata,
            log_dirs=list(dict.fromkeys(log_dir for log_dir in log_dirs if log_dir is not None)),
            kernels=environment.kernels,
        )
        return RecoverRequest(
            now_ms,
            source,
            kernels=environment.kernels,
            mode=self.mode,
            since_recovery_point=self.since_recovery_point,
            discard=self.discard,
        )


class Recovered(NamedTuple):
    """What there is to say of one partition; `done` None: nothing was changed."""

    plan: RecoverPlan
    done: Applied | None
    live_path: str | None = None
    """The directory's new name, where it was `-stray`."""


def rebuilt_words(rebuilt: Rebuilt) -> str:
    """What was wrong with a checkpoint, what was done, and how to undo it."""
    fault = rebuilt.fault
    problem = "it has a partition twice" if fault is None else f"a broker cannot read it ({fault.message})"
    return (
        f"{problem}: rebuilt from {counted(rebuilt.lines, 'line', 'lines')};"
        f" undo: mv {quote(rebuilt.kept_as)} {quote(rebuilt.path)}"
    )


class RecoverRun(PartitionWriter[Recovered]):
    """Recovers partitions. One in which there is nothing to do is not even locked."""

    verb = "recover"

    def __init__(self, environment: Environment, options: RecoverOptions) -> None:
        super().__init__(environment, options)
        self._recovery = options
        self._roots = Roots(environment.fs)
        self._changed = 0
        self._without_marker: set[str | None] = set()

    def run(self, paths: list[str]) -> int:
        """Recover what `paths` name; the exit code."""
        partitions = self._without_strays(self.ours(paths))
        if self._recovery.dry_run and self._recovery.mode is RecoverMode.REPAIR:
            self._tell_damaged_checkpoints(partitions)
        self._request = self._recovery.request(self._environment, self._clock.now_ms, partitions)
        code = self.work(partitions)
        self.summary(code, partitions=len(partitions), changed=self._changed)
        return code

    def _lock(self, log_dir: str) -> KafkalogError | None:
        """See PartitionWriter. What the checkpoints say beside damaged lines is noted before they are rebuilt."""
        error = super()._lock(log_dir)
        if error is not None or self._recovery.mode is not RecoverMode.REPAIR:
            return error
        self._roots.checkpoints(log_dir)
        try:
            for one in rebuild_damaged(self._fs, log_dir, self._run_id):
                self._messages.tell("checkpoint-rebuilt", rebuilt_words(one), path=one.path)
        except KafkalogError as failure:
            return failure
        except OSError as failure:
            return of_the_system(log_dir, failure)
        return None

    def _rebuild_like_broker(self, work: Work, plan: RecoverPlan) -> None:
        """A checkpoint of which a broker takes no line is written by its clean stop."""
        if self._recovery.mode is RecoverMode.LIKE_BROKER and work.log_dir is not None and not plan.is_refused:
            for one in rebuild_damaged(work.fs, work.log_dir, self._run_id, like_broker=True):
                work.tell("checkpoint-rebuilt", rebuilt_words(one), one.path)

    def learn(self, partitions: Sequence[Partition]) -> None:
        """See PartitionRun: a marker that a task has taken away for a while is no unclean stop."""
        learn_roots(self._fs, partitions, self._roots, self._request.settings)

    def locks_first(self, partition: Partition) -> bool:
        """See PartitionWriter."""
        del partition
        return False

    def partition(self, work: Work) -> Recovered:
        """See PartitionRun."""
        root = self._roots.state(work.log_dir, work.partition)
        live = self._path_of_stray(work)
        plan = plan_recovery(work.fs, work.partition, root, self._request)
        try:
            self._check(work, plan)
        except Refused:
            self._tell_cut_off(work)
            raise
        if live is not None and self._recovery.dry_run:
            work.tell("stray", f"would be renamed to {live}", work.partition.path)
        if self._recovery.dry_run:
            return Recovered(plan, None)
        self._rebuild_like_broker(work, plan)
        if live is not None and not plan.is_refused:
            return self._bring_back(work, plan, live)
        if not plan.has_work:
            return Recovered(plan, None)
        if plan.drops_valid:
            self.confirm(work, plan_words(plan))
        with self.locked(work):
            run = self.run_info(plan.settings)
            return Recovered(plan, apply_recovery(work.fs, plan, run, self._request, held=work.lock))

    def _without_strays(self, partitions: Sequence[Partition]) -> list[Partition]:
        """Leave out `-stray` directories that were not named: one of them is brought back only by its own path."""
        kept = []
        for partition in partitions:
            is_stray = partition.directory.kind is DirectoryKind.STRAY
            if is_stray and partition.path not in self._named:
                step = f"kafkalog recover {quote(partition.path)} --metadata DIR"
                message = f"skipped: a broker set it aside; to bring it back: {step}"
                self._messages.tell("skipped", message, path=partition.path)
            else:
                kept.append(partition)
        return kept

    def _path_of_stray(self, work: Work) -> str | None:
        """The name that a `-stray` directory gets back, None for any other. Raises Refused."""
        is_stray = work.partition.directory.kind is DirectoryKind.STRAY
        if not is_stray or self._recovery.mode is not RecoverMode.REPAIR:
            return None
        return path_of_stray(work.fs, work.partition, work.log_dir, self._request.settings)

    def _bring_back(self, work: Work, plan: RecoverPlan, live: str) -> Recovered:
        """Repair a `-stray` directory, then rename it: after a crash in between the command can be repeated."""
        stray = work.partition.path
        if plan.drops_valid:
            self.confirm(work, plan_words(plan))
        with self.locked(work):
            run = self.run_info(plan.settings)
            done = apply_recovery(work.fs, plan, run, self._request, held=work.lock) if plan.has_work else None
            rename_directory(work.fs, stray, live)
        work.tell("stray", f"renamed to {live}; undo: mv {quote(live)} {quote(stray)}", stray)
        return Recovered(plan, done, live)

    def _tell_damaged_checkpoints(self, partitions: Sequence[Partition]) -> None:
        """Say which checkpoints would be rebuilt."""
        log_dirs = (log_dir_of(self._fs, partition.path) for partition in partitions)
        for log_dir in dict.fromkeys(log_dirs):
            checkpoints = self._roots.checkpoints(log_dir)
            for path, fault in () if checkpoints is None else checkpoints.faults:
                if fault.kind is not FaultKind.UNREADABLE:
                    message = (
                        f"a broker cannot read it ({fault.message}): would be rebuilt from the lines that can be read"
                    )
                    self._messages.tell("checkpoint-damaged", message, path=path)

    def _tell_cut_off(self, work: Work) -> None:
        """What keeps a partition from being recovered may be what an earlier run keeps of it."""
        path, run_id = work.partition.path, cut_off_run(work.fs, work.partition)
        if run_id is not None:
            message = f"run {run_id} was cut off half way; `kafkalog undo {path} {run_id}` puts back what was"
            work.tell("cut-off", message, path)

    def show(self, result: Recovered) -> ExitCode:
        """See PartitionRun."""
        plan, done, live = result
        self._print(plan if live is None else replace(plan, path=live), done)
        if self._recovery.dry_run:
            return plan.exit_code
        self._changed += done is not None or live is not None
        if done is not None and done.marker is Marker.AWAY and plan.log_dir not in self._without_marker:
            self._without_marker.add(plan.log_dir)
            self._messages.warn("marker", MARKER_STAYS_AWAY, path=plan.log_dir)
        return ExitCode.REFUSED if plan.is_refused else ExitCode.OK

    def _check(self, work: Work, plan: RecoverPlan) -> None:
        """Warn of what the table of refusals warns of. Raises Refused, UnsupportedFormat."""
        settings = self._request.settings
        facts = gather_facts(work.fs, work.partition, plan.log_dir, settings, places=self._places)
        in_place = frozenset(change.name for change in plan.changes if isinstance(change, Cut))
        intent = Intent(Action.RECOVER, self._clock.now_ms, self._clock.is_given, in_place=in_place)
        verdicts = judge(facts, intent)
        raise_refusals(verdicts)
        work.warn(verdicts)

    def _print(self, plan: RecoverPlan, done: Applied | None) -> None:
        if self._json is not None:
            run_id = None if done is None else done.manifest.run.run_id
            self._json.object(RECOVERY, "recovery", plan_object(plan, run_id=run_id))
            return
        if self._options.quiet and not plan.has_work and not plan.remarks:
            return
        for line in plan_lines(plan, with_changes=self._recovery.dry_run):
            self._out.write(line + "\n")
        if done is not None:
            undo = f"undo: kafkalog undo {printable(plan.path)} {done.manifest.run.run_id}"
            self._out.write("  cannot be undone (--discard)\n" if done.manifest.discard else f"  {undo}\n")
