"""One run of `kafkalog recover`: log directory by log directory under its lock, each partition planned and changed."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby

from kafkalog_cli import __version__
from kafkalog_cli.actions.partition_facts import Places, gather_facts, places_of_partitions
from kafkalog_cli.actions.recover import (
    MARKER_STAYS_AWAY,
    Marker,
    RecoverRequest,
    apply_recovery,
    load_settings,
    plan_recovery,
    start_states,
    used_settings,
)
from kafkalog_cli.actions.recover_plan import RecoverMode, RecoverPlan
from kafkalog_cli.actions.refusals import Action, Intent, judge, raise_refusals
from kafkalog_cli.actions.salvage import salvage
from kafkalog_cli.actions.selection import Selection, select_partitions
from kafkalog_cli.actions.settings import SettingsSource
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.options import time_of
from kafkalog_cli.errors import ExitCode, KafkalogError, NothingSelected, UsageError, combined_exit_code
from kafkalog_cli.output.messages import Messages
from kafkalog_cli.output.ndjson import JsonLines
from kafkalog_cli.output.recover_json import RECOVERY, SALVAGE, plan_object, salvage_object
from kafkalog_cli.output.recover_text import plan_lines, salvage_lines
from kafkalog_cli.output.stream import ResultStream, printable
from kafkalog_cli.storage.changes import Cut
from kafkalog_cli.storage.lock import LockPolicy, lock_log_dir, lock_partition, log_dir_of
from kafkalog_cli.storage.log_loader import StartState
from kafkalog_cli.storage.manifest import Manifest, RunInfo, new_run_id
from kafkalog_cli.storage.names import DirectoryKind
from kafkalog_cli.storage.partition import Partition
from kafkalog_cli.storage.topic_config import parse_topic_settings, read_broker_properties


@dataclass(frozen=True, slots=True)
class RecoverOptions:
    """The command line, as it is."""

    selection: Selection | None
    like_broker: bool
    indexes_only: bool
    salvage: str | None
    since_recovery_point: bool
    discard: bool
    config: tuple[str, ...]
    broker_config: str | None
    metadata: str | None
    now: str | None
    dry_run: bool
    wait_seconds: float
    assume_offline: bool
    quiet: bool
    json: bool

    @property
    def mode(self) -> RecoverMode:
        """The rules that are wanted."""
        if self.like_broker:
            return RecoverMode.LIKE_BROKER
        return RecoverMode.INDEXES_ONLY if self.indexes_only else RecoverMode.REPAIR


class RecoverRun:
    """Recovers partitions in order; what fails ends only its partition or its log directory."""

    def __init__(self, environment: Environment, options: RecoverOptions) -> None:
        self._environment = environment
        self._fs = environment.fs
        self._options = options
        self._out = ResultStream(environment.stdout)
        self._messages = Messages(environment.stderr, as_json=options.json)
        self._json = JsonLines(self._out) if options.json else None
        self._codes: list[ExitCode] = []
        self._changed = 0
        self._policy = LockPolicy(int(options.wait_seconds * 1000), options.assume_offline)
        self._run_id = ""
        self._places: Places = {}

    def run(self, paths: list[str]) -> int:
        """Recover what `paths` name; the exit code."""
        if not paths:
            raise UsageError(reason="recover needs a PATH; see kafkalog recover --help")
        options, environment = self._options, self._environment
        now_ms = environment.now_ms() if options.now is None else time_of(environment, options.now, None)
        properties = {} if options.broker_config is None else read_broker_properties(self._fs, options.broker_config)
        self._run_id = new_run_id("recover", environment.now_ms())
        partitions = self._ours(select_partitions(self._fs, paths, options.selection or Selection()), paths)
        groups = [
            (log_dir, list(group))
            for log_dir, group in groupby(partitions, lambda partition: log_dir_of(self._fs, partition.path))
        ]
        settings = SettingsSource(
            self._fs,
            parse_topic_settings(options.config),
            properties,
            metadata_path=options.metadata,
            log_dirs=[log_dir for log_dir, _ in groups if log_dir is not None],
            kernels=environment.kernels,
        )
        self._places = places_of_partitions(self._fs, [log_dir for log_dir, _ in groups if log_dir is not None])
        request = RecoverRequest(
            options.mode, now_ms, settings, options.since_recovery_point, options.discard, kernels=environment.kernels
        )
        for log_dir, group in groups:
            self._log_dir(log_dir, group, request)
        code = combined_exit_code(self._codes)
        if self._json is not None:
            self._json.summary(code, partitions=len(partitions), changed=self._changed)
        self._out.flush()
        return code

    def _ours(self, partitions: list[Partition], paths: list[str]) -> list[Partition]:
        """Leave out what nobody but its owner changes, where it was not asked for by its own path."""
        if self._options.salvage is not None:
            return partitions
        named = {path.rstrip("/") for path in paths}
        kept = []
        for partition in partitions:
            kind = partition.directory.kind
            is_foreign = partition.directory.is_metadata_log or kind in (DirectoryKind.DELETE, DirectoryKind.FUTURE)
            if is_foreign and partition.path not in named:
                self._messages.tell("skipped", "left alone: it is no partition of a topic's", path=partition.path)
            else:
                kept.append(partition)
        if not kept:
            raise NothingSelected(reason="no partition that may be changed")
        return kept

    def _log_dir(self, path: str | None, partitions: list[Partition], request: RecoverRequest) -> None:
        try:
            with ExitStack() as stack:
                if path is not None and self._writes:
                    handle = lock_log_dir(self._fs, path, self._policy)
                    if handle is not None:
                        stack.enter_context(handle)
                for partition, start in zip(partitions, start_states(self._fs, path, partitions), strict=True):
                    self._partition(partition, path, start, request)
        except KafkalogError as error:
            self._fail(error, len(partitions))

    @property
    def _writes(self) -> bool:
        """Whether the partitions themselves are changed."""
        return not self._options.dry_run and self._options.salvage is None

    def _partition(self, partition: Partition, log_dir: str | None, start: StartState, request: RecoverRequest) -> None:
        try:
            if self._options.salvage is not None:
                self._salvage(partition, log_dir, request)
            else:
                self._recover(partition, log_dir, start, request)
        except KafkalogError as error:
            self._fail(error, 1)

    def _fail(self, error: KafkalogError, partitions: int) -> None:
        self._codes += [error.exit_code] * partitions
        self._messages.exception(error)

    # -- one partition

    def _recover(self, partition: Partition, log_dir: str | None, start: StartState, request: RecoverRequest) -> None:
        options = self._options
        if options.dry_run:
            plan = plan_recovery(self._fs, partition, log_dir, start, request)
            self._check(partition, log_dir, plan, request)
            self._show(plan, None)
            self._codes.append(plan.exit_code)
            return
        with ExitStack() as stack:
            held = lock_partition(self._fs, partition.path, self._policy)
            if held is not None:
                stack.enter_context(held)
            plan = plan_recovery(self._fs, partition, log_dir, start, request)
            self._check(partition, log_dir, plan, request)
            settings = {setting.name: setting.text for setting in plan.settings}
            info = RunInfo(self._run_id, "recover", tuple(sys.argv[1:]), request.now_ms, settings, __version__)
            done = apply_recovery(self._fs, plan, info, request, held=held)
        self._changed += done is not None
        self._show(plan, None if done is None else done.manifest)
        if done is not None and done.marker is Marker.AWAY:
            self._messages.tell("marker", MARKER_STAYS_AWAY, path=log_dir)
        self._codes.append(ExitCode.REFUSED if plan.is_refused else ExitCode.OK)

    def _check(self, partition: Partition, log_dir: str | None, plan: RecoverPlan, request: RecoverRequest) -> None:
        """Warn of what the table of refusals warns of. Raises Refused, UnsupportedFormat."""
        facts = gather_facts(self._fs, partition, log_dir, request.settings, places=self._places)
        in_place = frozenset(change.name for change in plan.changes if isinstance(change, Cut))
        intent = Intent(Action.RECOVER, request.now_ms, self._options.now is not None, in_place=in_place)
        verdicts = judge(facts, intent)
        raise_refusals(verdicts)
        for verdict in verdicts:
            self._messages.tell(verdict.rule.name, verdict.message, path=verdict.path)

    def _show(self, plan: RecoverPlan, done: Manifest | None) -> None:
        if self._json is not None:
            self._json.object(RECOVERY, "recovery", plan_object(plan, run_id=None if done is None else done.run.run_id))
            return
        if self._options.quiet and not plan.has_work and not plan.remarks:
            return
        for line in plan_lines(plan, with_changes=self._options.dry_run):
            self._out.write(line + "\n")
        if done is not None:
            undo = f"undo: kafkalog undo {printable(plan.path)} {done.run.run_id}"
            self._out.write("  cannot be undone (--discard)\n" if done.discard else f"  {undo}\n")

    def _salvage(self, partition: Partition, log_dir: str | None, request: RecoverRequest) -> None:
        out = self._options.salvage
        assert out is not None
        if self._fs.status(out) is None:
            self._fs.make_directory(out)
        target = os.path.join(out, partition.name)  # noqa: PTH118  (paths are text)
        settings = load_settings(used_settings(partition.topic, log_dir, request.settings), request)
        result = salvage(self._fs, partition, target, settings)
        if self._json is not None:
            fields = salvage_object(partition.path, partition.topic, partition.number, result)
            self._json.object(SALVAGE, "salvage", fields)
        else:
            for line in salvage_lines(partition.path, result):
                self._out.write(line + "\n")
        self._changed += 1
        self._codes.append(ExitCode.CORRUPTION if result.lost or result.unreadable else ExitCode.OK)
