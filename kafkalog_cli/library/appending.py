"""Appends Arrow columns to a partition for Python programs, with the plan, locks, refusals and journal of `append`."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from kafkalog_cli import __version__
from kafkalog_cli.actions.append.append import AppendPlan, AppendRequest, AppendResult, apply_append, plan_append
from kafkalog_cli.actions.append.arrow import ArrowReader
from kafkalog_cli.actions.append.making import is_topic_id, made_partition, partition_to_make, topic_id_for
from kafkalog_cli.actions.append.writing import Writing
from kafkalog_cli.actions.apply_changes import MARKER_STAYS_AWAY, MarkerState
from kafkalog_cli.actions.cut_off import cut_off_run, take_back
from kafkalog_cli.actions.partition_facts import gather_facts, places_of_partitions, topic_id_of
from kafkalog_cli.actions.refusals import Action, Intent, judge, raise_refusals
from kafkalog_cli.actions.root_state import Roots
from kafkalog_cli.actions.runs import Clock
from kafkalog_cli.actions.settings import SettingsSource
from kafkalog_cli.errors import Refused, UsageError
from kafkalog_cli.library.warning import LogWarning
from kafkalog_cli.storage.changing.lock import LockPolicy, lock_log_dir, lock_partition, log_dir_of
from kafkalog_cli.storage.changing.manifest import RunInfo, new_run_id
from kafkalog_cli.storage.fs import LockHandle, WritableFilesystem
from kafkalog_cli.storage.kernels import KernelChoice
from kafkalog_cli.storage.names import FileKind, segment_file_name
from kafkalog_cli.storage.partition import Partition, open_partition
from kafkalog_cli.storage.settings.topic_config import parse_topic_settings, read_broker_properties

CodecName = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Ending = Literal["commit", "abort", "open"]


class Appended(NamedTuple):
    """The offsets of an append: `first_offset` (inclusive) to `end_offset` (exclusive, after a transaction's marker).

    `run` is the id for `kafkalog undo PATH RUN`; None if nothing was appended.
    """

    first_offset: int
    end_offset: int
    records: int
    batches: int
    run: str | None


@dataclass(frozen=True, slots=True)
class AppendCall:
    """The options of an append that do not say how records are written; see PartitionLog.append."""

    config: Mapping[str, object] = field(default_factory=dict)
    broker_config: str | None = None
    metadata: str | None = None
    single_replica: bool = False
    now_ms: int | None = None
    wait_seconds: float = 0


class NewPartition(NamedTuple):
    """A partition that does not exist yet. `topic_id` is None if the metadata log has the topic's id."""

    partition: Partition
    topic_id: str | None


def new_partition(fs: WritableFilesystem, path: str, topic_id: str | None) -> NewPartition:
    """Return the partition that the first append will create. Raises UsageError if it exists or cannot be created."""
    if topic_id is not None and not is_topic_id(topic_id):
        raise UsageError(reason=f"topic_id {topic_id!r} is no topic id")
    found = partition_to_make(fs, path)
    if found is None:
        reason = "it is there already, it is no name of a partition, or there is no directory for it"
        raise UsageError(reason=f"{path} cannot be made: {reason}")
    return NewPartition(found, topic_id)


def append_arrow(
    fs: WritableFilesystem, target: Partition | NewPartition, data: Any, writing: Writing, options: AppendCall
) -> tuple[Appended, Partition]:
    """Append the records and return the partition as it is afterwards too; see PartitionLog.append."""
    writing.check()
    append = _Append(fs, target, writing, options)
    with lock_log_dir(fs, append.log_dir, append.policy) if append.log_dir else nullcontext():
        return append.run(_parts(data)), open_partition(fs, append.partition.path)


def _parts(data: Any) -> Any:
    import pyarrow as pa

    if isinstance(data, pa.Table):
        whole: list[Any] = data.combine_chunks().to_batches()  # few batches: the append plans per part
        return whole
    return [data] if isinstance(data, pa.RecordBatch) else data


class _Append:
    """One call of `append_arrow`."""

    def __init__(
        self, fs: WritableFilesystem, target: Partition | NewPartition, writing: Writing, options: AppendCall
    ) -> None:
        now_ms = time.time_ns() // 1_000_000
        self._new = target if isinstance(target, NewPartition) else None
        self.partition = target.partition if isinstance(target, NewPartition) else target
        self._fs, self._writing, self._options = fs, writing, options
        self._run_id = new_run_id(Action.APPEND.value, now_ms)
        self._clock = Clock(now_ms if options.now_ms is None else options.now_ms, options.now_ms is not None)
        self._kernels = KernelChoice()
        self.policy = LockPolicy(int(options.wait_seconds * 1000))
        self.log_dir = log_dir_of(fs, self.partition.path)
        log_dirs = [] if self.log_dir is None else [self.log_dir]
        self._places = places_of_partitions(fs, log_dirs)
        self._settings = SettingsSource(
            fs,
            parse_topic_settings([f"{name}={value}" for name, value in options.config.items()]),
            {} if options.broker_config is None else read_broker_properties(fs, options.broker_config),
            metadata_path=options.metadata,
            log_dirs=log_dirs,
            kernels=self._kernels,
        )

    def run(self, parts: Iterable[Any]) -> Appended:
        path = self.partition.path
        with (
            self._made() if self._new is not None else nullcontext(),
            lock_partition(self._fs, path, self.policy) as lock,
        ):
            result = self._append(parts, lock)
        if result.done is not None and result.done.marker is MarkerState.AWAY:
            warnings.warn(f"{self.log_dir}: {MARKER_STAYS_AWAY}", LogWarning, stacklevel=4)
        first, end, count, batches, *_ = result.appended
        return Appended(first, end, count, batches, None if result.done is None else self._run_id)

    def _made(self) -> AbstractContextManager[Partition]:
        assert self._new is not None
        topic_id = topic_id_for(self.partition, self._new.topic_id, self._settings, self.log_dir)
        return made_partition(self._fs, self.partition.path, topic_id, self._clock.now_ms)

    def _append(self, parts: Iterable[Any], lock: LockHandle | None) -> AppendResult:
        run_id = cut_off_run(self._fs, self.partition)
        if run_id is not None:
            take_back(self._fs, self.partition, run_id, self._clock, self._places)
        self.partition = open_partition(self._fs, self.partition.path)
        plan, request = self._plan(), self._request()
        records = ArrowReader(self._kernels, self._clock.now_ms).records(parts)
        return apply_append(self._fs, plan, records, self._info(plan), request, held=lock)

    def _plan(self) -> AppendPlan:
        roots, partition = Roots(self._fs), self.partition
        plan = plan_append(self._fs, partition, roots.state(self.log_dir, partition), self._request())
        facts = gather_facts(
            self._fs, partition, self.log_dir, self._settings,
            checkpoints=roots.checkpoints(self.log_dir), places=self._places,
        )  # fmt: skip
        last = partition.segments[-1].base_offset if partition.segments else 0
        intent = Intent(
            Action.APPEND,
            self._clock.now_ms,
            self._clock.is_given,
            single_replica=self._options.single_replica,
            is_named=True,
            in_place=frozenset({segment_file_name(last, FileKind.LOG)}),
            makes_directory=self._new is not None,
            topic_id=topic_id_of(self._fs, partition),
        )
        verdicts = judge(facts, intent)
        raise_refusals(verdicts)
        for verdict in verdicts:
            warnings.warn(f"{verdict.path}: {verdict.message}", LogWarning, stacklevel=6)
        if plan.is_refused:
            remark = plan.remarks[0]
            raise Refused(path=remark.path, reason=remark.message)
        return plan

    def _request(self) -> AppendRequest:
        return AppendRequest(
            self._clock.now_ms,
            self._settings,
            kernels=self._kernels,
            writing=self._writing,
            clock=lambda: time.time_ns() // 1_000_000,
        )

    def _info(self, plan: AppendPlan) -> RunInfo:
        explained = {setting.name: setting.explanation for setting in plan.settings}
        verb, is_new = Action.APPEND.value, self._new is not None
        return RunInfo(
            *(self._run_id, verb, ("kafkalog_cli", verb), self._clock.now_ms, explained, __version__),
            makes_directory=is_new,
        )
