"""Appends Arrow columns to a partition for Python programs, as `append` does: plan, locks, refusals, journal."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from kafkalog_cli import __version__
from kafkalog_cli.actions.append.append import ENDS, AppendPlan, AppendRequest, apply_append, plan_append
from kafkalog_cli.actions.append.arrow import ArrowReader
from kafkalog_cli.actions.apply_changes import MARKER_STAYS_AWAY, Marker
from kafkalog_cli.actions.cut_off import cut_off_run, take_back
from kafkalog_cli.actions.partition_facts import gather_facts, places_of_partitions, topic_id_of
from kafkalog_cli.actions.refusals import Action, Intent, judge, raise_refusals
from kafkalog_cli.actions.root_state import Roots
from kafkalog_cli.actions.runs import Clock
from kafkalog_cli.actions.settings import SettingsSource
from kafkalog_cli.errors import Refused, UsageError
from kafkalog_cli.format.compression import Codec, compress
from kafkalog_cli.library.warning import LogWarning
from kafkalog_cli.storage.fs import LockHandle, WritableFilesystem
from kafkalog_cli.storage.kernels import KernelChoice
from kafkalog_cli.storage.lock import LockPolicy, lock_log_dir, lock_partition, log_dir_of
from kafkalog_cli.storage.manifest import RunInfo, new_run_id
from kafkalog_cli.storage.names import FileKind, segment_file_name
from kafkalog_cli.storage.partition import Partition, open_partition
from kafkalog_cli.storage.topic_config import parse_topic_settings, read_broker_properties

CodecName = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Ending = Literal["commit", "abort", "open"]


class Appended(NamedTuple):
    """What was appended: from `first_offset` (inclusive) to `end_offset` (exclusive), with the marker of a transaction.

    `run`: what `kafkalog undo PATH RUN` takes back; None where nothing came.
    """

    first_offset: int
    end_offset: int
    records: int
    batches: int
    run: str | None


@dataclass(frozen=True, slots=True)
class AppendOptions:
    """The options of `kafkalog append` that a program gives, under the same names; see PartitionLog.append."""

    codec: CodecName = "none"
    compression_level: int | None = None
    batch_bytes: int = 16_384
    leader_epoch: int | None = None
    producer_id: int | None = None
    producer_epoch: int = 0
    first_sequence: int | None = None
    transaction: Ending | None = None
    coordinator_epoch: int = 0
    config: Mapping[str, object] = field(default_factory=dict)
    broker_config: str | None = None
    metadata: str | None = None
    single_replica: bool = False
    now_ms: int | None = None
    wait_seconds: float = 0

    def check(self) -> None:
        """Raises UsageError for what contradicts itself."""
        if self.codec.upper() not in Codec.__members__:
            raise UsageError(reason=f"codec {self.codec!r} is none of {', '.join(CodecName.__args__)}")  # type: ignore[attr-defined]
        if self.transaction is not None and self.transaction not in ENDS:
            raise UsageError(reason=f"transaction {self.transaction!r} is none of {', '.join(ENDS)}")
        if self.producer_id is None and (self.transaction is not None or self.first_sequence is not None):
            raise UsageError(reason="transaction and first_sequence need a producer_id")
        try:
            compress(Codec[self.codec.upper()], b"", level=self.compression_level)
        except ValueError as error:
            raise UsageError(reason=f"compression_level: {error}") from error


def append_arrow(
    fs: WritableFilesystem, partition: Partition, data: Any, options: AppendOptions
) -> tuple[Appended, Partition]:
    """Append the records; see PartitionLog.append. The partition as it is then comes with it."""
    options.check()
    append = _Append(fs, partition, options)
    with ExitStack() as locks:
        if append.log_dir is not None:
            append.enter(locks, lock_log_dir(fs, append.log_dir, append.policy))
        appended = append.run(_parts(data), locks)
        return appended, open_partition(fs, partition.path)


def _parts(data: Any) -> Any:
    import pyarrow as pa

    if isinstance(data, pa.Table):
        whole: list[Any] = data.combine_chunks().to_batches()  # few parts, as what is to come is known by part
        return whole
    return [data] if isinstance(data, pa.RecordBatch) else data


class _Append:
    """One call."""

    def __init__(self, fs: WritableFilesystem, partition: Partition, options: AppendOptions) -> None:
        now_ms = time.time_ns() // 1_000_000
        self._fs, self._partition, self._options = fs, partition, options
        self._run_id = new_run_id(Action.APPEND.value, now_ms)
        self._clock = Clock(now_ms if options.now_ms is None else options.now_ms, options.now_ms is not None)
        self._kernels = KernelChoice()
        self.policy = LockPolicy(int(options.wait_seconds * 1000))
        self.log_dir = log_dir_of(fs, partition.path)
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

    @staticmethod
    def enter(locks: ExitStack, lock: LockHandle | None) -> LockHandle | None:
        """Have a lock until the end of the call."""
        return None if lock is None else locks.enter_context(lock)

    def run(self, parts: Iterable[Any], locks: ExitStack) -> Appended:
        lock = self.enter(locks, lock_partition(self._fs, self._partition.path, self.policy))
        run_id = cut_off_run(self._fs, self._partition)
        if run_id is not None:
            take_back(self._fs, self._partition, run_id, self._clock, self._places)
        self._partition = open_partition(self._fs, self._partition.path)
        plan, request = self._plan(), self._request()
        records = ArrowReader(self._kernels, self._clock.now_ms).records(parts)
        result = apply_append(self._fs, plan, records, self._info(plan), request, held=lock)
        if result.done is not None and result.done.marker is Marker.AWAY:
            warnings.warn(f"{self.log_dir}: {MARKER_STAYS_AWAY}", LogWarning, stacklevel=5)
        first, end, count, batches, *_ = result.appended
        return Appended(first, end, count, batches, None if result.done is None else self._run_id)

    def _plan(self) -> AppendPlan:
        roots, partition = Roots(self._fs), self._partition
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
        options = self._options
        return AppendRequest(
            self._clock.now_ms,
            self._settings,
            kernels=self._kernels,
            codec=Codec[options.codec.upper()],
            level=options.compression_level,
            batch_bytes=options.batch_bytes,
            leader_epoch=options.leader_epoch,
            producer_id=options.producer_id,
            producer_epoch=options.producer_epoch,
            first_sequence=options.first_sequence,
            transaction=options.transaction,
            coordinator_epoch=options.coordinator_epoch,
            clock=lambda: time.time_ns() // 1_000_000,
        )

    def _info(self, plan: AppendPlan) -> RunInfo:
        explained = {setting.name: setting.explanation for setting in plan.settings}
        verb = Action.APPEND.value
        return RunInfo(self._run_id, verb, ("kafkalog_cli", verb), self._clock.now_ms, explained, __version__)
