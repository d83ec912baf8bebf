"""Append records to a partition as its leader would: the plan, and applying it to the records as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, NamedTuple, cast

from kafkalog_cli.broker.appended_log import AppendedLog, AppendTarget, Growth, Rolled
from kafkalog_cli.broker.load_error import InvalidOffset, LoadFailed, SegmentOverflow
from kafkalog_cli.broker.open_log import RollLimits
from kafkalog_cli.broker.producer_state import ProducerState
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.change.growing_run import GrowingRun, NoGrowth
from kafkalog_cli.change.manifest import Manifest, RunInfo
from kafkalog_cli.disk.fs import Filesystem, WritableFilesystem
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import BadInput, ExitCode, NotChanged
from kafkalog_cli.format.batch import NO_SEQUENCE, NO_TIMESTAMP, Batch, BatchColumns, increment_sequence
from kafkalog_cli.format.batch_encoder import EncodedBatches, encode_end_marker
from kafkalog_cli.format.compression import Codec, codec_name
from kafkalog_cli.log.log_dir import LineEdit
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.log.settings.topic_config import Setting, Settings
from kafkalog_cli.ops.change.append.batching import BLOCK_RECORDS, ENDS, BatchMaker, BatchStyle, Block, Writing, blocks
from kafkalog_cli.ops.change.append.checks import Checks, TimeInOtherUnit
from kafkalog_cli.ops.change.append.records import Arriving
from kafkalog_cli.ops.change.apply_changes import Applied, marker_away, put_marker_back
from kafkalog_cli.ops.change.plans import (
    LogPlan,
    Unready,
    check_logs,
    check_unchanged,
    fingerprints_of,
    load_settings,
    open_log,
    refused,
    whole_end_of,
)
from kafkalog_cli.ops.words import CodecWord
from kafkalog_cli.results import NULL_IS_ZERO, Hidden, Named, of, result

_RECOVERY_POINT = FileKind.RECOVERY_POINT_CHECKPOINT
_LEVELS = {
    Codec.GZIP: "compression.gzip.level",
    Codec.LZ4: "compression.lz4.level",
    Codec.ZSTD: "compression.zstd.level",
}


class AppendCounts(NamedTuple):
    """The counts of an append: records, batches and bytes (a marker is one record and one batch), and new segments.

    `end_offset` is the end of the log after the append. `markers` counts the records that end a transaction and so came
    from no input, `transactional` those of the input that were in transactions. `newest_ms` is the largest timestamp,
    -1 for none. `time_in_other_unit` is the first timestamp that seems to be in another unit than milliseconds.
    """

    first_offset: int
    end_offset: int
    records: int = 0
    batches: int = 0
    size_bytes: int = 0
    rolled: tuple[Rolled, ...] = ()
    markers: int = 0
    time_in_other_unit: TimeInOtherUnit | None = None
    transactional: int = 0
    newest_ms: int = NO_TIMESTAMP

    @property
    def segments(self) -> int:
        """The segments of a log that was empty before."""
        return len(self.rolled) + 1

    def at_end(self, log: AppendedLog, checks: Checks) -> AppendCounts:
        """Return the counts after the last block was appended."""
        time_in_other_unit = checks.time_in_other_unit
        return self._replace(end_offset=log.end_offset, rolled=tuple(log.rolled), time_in_other_unit=time_in_other_unit)

    def plus(self, made: EncodedBatches, block: Block | None = None) -> AppendCounts:
        """Return the counts with the batches that were made of a further block; None: of no input."""
        of_block = [] if block is None else block.records.columns.is_transactional.tolist()
        return self._replace(
            first_offset=self.first_offset if self.batches else made.batches.row(0).base_offset,
            end_offset=made.batches.row(len(made.batches) - 1).last_offset + 1,
            records=self.records + int(sum(made.batches.records_count)),
            batches=self.batches + len(made.batches),
            size_bytes=self.size_bytes + len(made.data),
            transactional=self.transactional + of_block.count(1),
            newest_ms=max(self.newest_ms, *map(int, made.batches.max_timestamp)),
        )


@result("kafkalog.appended/1")
@dataclass(frozen=True, slots=True)
class AppendPlan(LogPlan):
    """The result of append for a partition, or of its dry run.

    Records are appended as `writing` says, at `now_ms`. `is_cut_short`: the run was interrupted, and only the records
    that had come by then were appended.
    """

    view: Hidden[Partition | None] = None
    now_ms: Hidden[int] = 0
    writing: Hidden[Writing] = field(default=Writing())
    style: Hidden[BatchStyle] = field(default=BatchStyle())
    appended: Hidden[AppendCounts | None] = None
    first_offset: ClassVar[Annotated[int | None, "of the first record; null if nothing is appended"]] = of(
        "appended.first_offset"
    )
    records: ClassVar[Annotated[int, NULL_IS_ZERO, "with the marker of a transaction"]] = of("appended.records")
    batches: ClassVar[Annotated[int, NULL_IS_ZERO]] = of("appended.batches")
    size_bytes: ClassVar[Annotated[int, NULL_IS_ZERO, "of the batches"]] = of("appended.size_bytes")
    segments: ClassVar[Annotated[tuple[Rolled, ...], "the segments that were started"]] = of(
        lambda plan: () if plan.appended is None else plan.appended.rolled
    )
    codec: ClassVar[CodecWord] = of(lambda plan: codec_name(plan.style.codec))
    leader_epoch: ClassVar[int] = of("style.leader_epoch")
    producer_id: ClassVar[Annotated[int, "-1: none"]] = of("style.producer_id")
    producer_epoch: ClassVar[Annotated[int, "-1: none"]] = of("style.producer_epoch")
    transactional: ClassVar[bool] = of("style.is_transactional")
    is_cut_short: Annotated[bool, Named("interrupted"), "the input may have more records"] = False

    @property
    def has_work(self) -> bool:
        """Whether there is work. Before the append this is True unless refused, since the records are not known yet."""
        return not self.is_refused and (self.appended is None or self.appended.records > 0)

    @property
    def exit_code(self) -> ExitCode:
        """See ChangePlan; INTERRUPTED if more records may have been waiting."""
        return ExitCode.INTERRUPTED if self.is_cut_short else LogPlan.exit_code.__get__(self)

    def after(self, appended: AppendCounts, *, is_cut_short: bool = False) -> AppendPlan:
        """Return the plan after the append."""
        return replace(self, appended=appended, log_end_offset=appended.end_offset, is_cut_short=is_cut_short)


def plan_append(fs: Filesystem, partition: Partition, now_ms: int, writing: Writing) -> AppendPlan:
    """Plan where and how records are appended; reads headers, the ends of indexes, and the producers' state.

    Raises UnsupportedFormat for 0.7. Raises BadInput for a producer that a broker would refuse, or for a leader epoch
    older than the log's. Raises as `SettingsSource.metadata` does, and as opening the files does.
    """
    config, prints = partition.config, fingerprints_of(fs, partition.path)
    plan = AppendPlan.of(
        partition, fingerprints=prints, settings=_used(config), view=partition, now_ms=now_ms, writing=writing
    )
    try:
        check_logs(partition)
        end_offset = whole_end_of(fs, partition)
        plan = replace(plan, log_end_offset=end_offset)
        target = AppendTarget(
            open_log(Draft(fs, partition.path), partition, load_settings(partition, now_ms), end_offset)
        )
        next_sequence(target.producers.state, writing)
        return replace(
            plan,
            log_start_offset=target.log.log_start_offset,
            high_watermark=partition.high_watermark(end_offset),
            style=_style(config, target, now_ms, writing),
        )
    except (Unready, LoadFailed) as error:
        return refused(plan, error)


def _used(config: Settings) -> tuple[Setting, ...]:
    names = ("segment.index.bytes", "index.interval.bytes", "max.message.bytes", "message.timestamp.type")
    return (config.segment_size, config["segment.ms"], *(config[name] for name in names), config["compression.type"])


def is_codec_forced(config: Settings) -> bool:
    """Whether the topic's compression.type does not leave the choice to the producer."""
    return config["compression.type"].text != "producer"


def codec_of(config: Settings, writing: Writing) -> tuple[Codec, int | None]:
    """Return the codec and the level of an append: the topic's, or the caller's if the topic leaves the choice."""
    if not is_codec_forced(config):
        return writing.codec_id, writing.compression_level
    name = config["compression.type"].text.replace("uncompressed", "none")
    codec = next(known for known in Codec if codec_name(known) == name)
    return codec, cast("int", config[_LEVELS[codec]].value) if codec in _LEVELS else None


def append_time_of(config: Settings, writing: Writing, now_ms: int) -> int | None:
    """Return the time of all records if the topic has LogAppendTime, None if they keep their own."""
    is_append_time = config["message.timestamp.type"].value == "LogAppendTime"
    return now_ms if is_append_time and not writing.keep_offsets else None


def _style(config: Settings, target: AppendTarget, now_ms: int, writing: Writing) -> BatchStyle:
    latest = target.epochs.latest_epoch
    epoch = latest if writing.leader_epoch is None else writing.leader_epoch
    if epoch is not None and latest is not None and epoch < latest:
        raise BadInput(path="leader epoch", reason=f"{epoch} is that of an older leader: the log has {latest}")
    return BatchStyle(
        *codec_of(config, writing),
        writing.batch_bytes,
        0 if epoch is None else epoch,
        append_time_of(config, writing, now_ms),
        -1 if writing.producer_id is None else writing.producer_id,
        -1 if writing.producer_id is None else writing.producer_epoch,
        writing.transaction is not None,
        keeps_offsets=writing.keep_offsets,
        keeps_epochs=writing.keep_offsets,
    )


def next_sequence(state: ProducerState, writing: Writing) -> int:
    """Return the sequence of the producer's next record. Raises BadInput if a broker would refuse it.

    The checks are those of ProducerAppendInfo, with one difference. A broker answers a batch that it already has as a
    retry; here such a sequence is out of order.
    """
    producer, given, epoch = writing.producer_id, writing.first_sequence, writing.producer_epoch
    if producer is None:
        return NO_SEQUENCE
    known = state.producers.get(producer)
    if known is None:  # the producer is new, or all of its records were deleted
        return 0 if given is None else given
    if known.producer_epoch > epoch:
        reason = f"producer {producer} has epoch {known.producer_epoch}, {epoch} is fenced"
        raise BadInput(path="producer epoch", reason=reason)
    goes_on = known.producer_epoch == epoch and known.has_batch
    sequence = increment_sequence(known.last_sequence, 1) if goes_on else 0
    if given not in (None, sequence):
        reason = f"producer {producer} goes on with {sequence}, {given} is out of order"
        raise BadInput(path="first sequence", reason=reason)
    return sequence


# ---- the append


def rehearse(fs: Filesystem, plan: AppendPlan, records: Arriving) -> AppendPlan:
    """Return the plan after an append of which nothing is written. Raises BadInput and NotChanged as an append."""
    return _append_of(fs, plan).rehearse(records)


def apply_append(  # noqa: PLR0913
    fs: WritableFilesystem,
    plan: AppendPlan,
    records: Arriving,
    run: RunInfo,
    *,
    flush_clock: Callable[[], int] = lambda: 0,
    may_go_on: Callable[[], bool] = lambda: True,
) -> tuple[AppendPlan, Applied | None]:
    """Append all records, or only those that come before `may_go_on` returns False. Return the plan with what was done.

    The second result is None if no record came. `flush_clock` returns the time in ms, for flush.ms.
    The caller holds the partition's lock. Raises Refused if the partition has changed since the plan was made, BadInput
    for records that a broker would refuse, and as GrowingRun does. Nothing is changed then.
    """
    check_unchanged(fs, plan)
    return _append_of(fs, plan, flush_clock).run(fs, records, run, may_go_on)


def _append_of(fs: Filesystem, plan: AppendPlan, flush_clock: Callable[[], int] = lambda: 0) -> _Append:
    try:
        return _Append(fs, plan, flush_clock)
    except LoadFailed as failure:
        raise NotChanged(path=plan.path, reason=str(failure)) from failure


class _Append:
    """One call of `apply_append` or `rehearse`."""

    def __init__(self, fs: Filesystem, plan: AppendPlan, flush_clock: Callable[[], int]) -> None:
        self._plan = plan
        assert plan.log_end_offset is not None
        assert plan.view is not None
        self._partition = plan.view
        self._config = self._partition.config
        self._settings = load_settings(self._partition, plan.now_ms)  # now: reading the metadata log may fail
        self._target = AppendTarget(
            open_log(Draft(fs, plan.path), self._partition, self._settings, plan.log_end_offset)
        )
        self._checks = Checks(self._config, plan.style, plan.now_ms, self._target.end_offset)
        sequence = next_sequence(self._target.producers.state, plan.writing)
        self._maker = BatchMaker(plan.style, sequence)
        self._counts = AppendCounts(self._target.end_offset, self._target.end_offset)
        self._flusher = _Flusher(self._config, flush_clock)
        self._is_whole = False

    def rehearse(self, records: Arriving) -> AppendPlan:
        growth = NoGrowth()
        try:
            log = self._log(growth)
            for block in blocks(self._checks.records(records), self._plan.style, most_records=self._most_records):
                self._append(log, growth, self._maker.encode(block, log.end_offset))
            self._end_transaction(log, growth)
            log.close()
        except (LoadFailed, InvalidOffset, SegmentOverflow) as error:
            raise self._refusal(error) from error
        return self._plan.after(self._counts.at_end(log, self._checks))

    @property
    def _most_records(self) -> int:
        return min(BLOCK_RECORDS, self._flusher.messages)

    def _log(self, growth: Growth) -> AppendedLog:
        config = self._config
        limits = RollLimits(config.segment_bytes, config.max_segment_ms, config.segment_index_bytes)
        return AppendedLog(self._target, growth, limits, self._plan.now_ms)

    def _refusal(self, error: Exception) -> BadInput:
        return BadInput(path=self._plan.path, reason=f"a broker would not take it: {error}")

    def run(
        self, fs: WritableFilesystem, records: Arriving, info: RunInfo, may_go_on: Callable[[], bool]
    ) -> tuple[AppendPlan, Applied | None]:
        plan = self._plan
        made = blocks(
            self._checks.records(records),
            plan.style,
            most_records=self._most_records,
            is_due=self._flusher.is_late,
        )
        first = next(made, None)
        if first is None and self._end_type(has_records=False) is None:
            return plan.after(self._counts, is_cut_short=not may_go_on()), None
        with marker_away(fs, plan, info.run_id) as is_held:
            info = replace(info, holds_marker=is_held, keeps_records=True)
            manifest, appended = self._grow(fs, info, first, made, may_go_on)
        since = self._target.base_offset
        is_away = is_held and not put_marker_back(fs, plan, manifest, self._settings, since=since)
        return plan.after(appended, is_cut_short=not self._is_whole), Applied(manifest, is_away)

    def _grow(
        self,
        fs: WritableFilesystem,
        info: RunInfo,
        first: Block | None,
        made: Iterator[Block],
        may_go_on: Callable[[], bool],
    ) -> tuple[Manifest, AppendCounts]:
        target, plan = self._target, self._plan
        run = GrowingRun(
            fs,
            plan.path,
            run=info,
            grows=[target.log_name],
            log_dir=plan.log_dir,
            edits=self._recovery_point(target.end_offset),
        )
        try:
            log = self._log(run)
            if first is not None:
                self._append(log, run, self._maker.encode(first, log.end_offset))
            while may_go_on() and (block := next(made, None)) is not None:
                self._append(log, run, self._maker.encode(block, log.end_offset))
            self._is_whole = may_go_on()
            if self._is_whole:  # else the transaction stays open, as after a crash
                self._end_transaction(log, run)
            log.close()
            appended = self._counts.at_end(log, self._checks)
            facts = {name: getattr(appended, name) for name in ("first_offset", "end_offset", "records")}
            return run.finish(facts, self._recovery_point(log.end_offset)), appended
        except (LoadFailed, InvalidOffset, SegmentOverflow) as error:
            run.take_back(error)
            raise self._refusal(error) from error
        except BaseException as error:
            failure = run.take_back(error)
            if failure is not None:
                raise failure from error
            raise

    def _append(self, log: AppendedLog, run: GrowingRun | NoGrowth, made: EncodedBatches) -> None:
        before = self._counts
        self._checks.batches(made)
        log.append(made)
        self._counts = before.plus(made)
        if self._flusher.is_due(self._counts.records - before.records):
            log.flush()
            run.change_lines(self._recovery_point(log.end_offset))

    def _end_type(self, *, has_records: bool) -> int | None:
        """Return the type of the marker for an open transaction (of this or an earlier run), None if none is due."""
        writing = self._plan.writing
        is_open = has_records or writing.producer_id in self._target.producers.state.ongoing.values()
        return ENDS.get(writing.transaction or "open") if is_open else None

    def _end_transaction(self, log: AppendedLog, run: GrowingRun | NoGrowth) -> None:
        plan, style = self._plan, self._plan.style
        marker = self._end_type(has_records=self._counts.records > 0)
        if marker is None:
            return
        header = Batch(
            *(0, 0, log.end_offset, 0, style.leader_epoch, 2, 0, style.attributes, -1, -1),
            *(style.producer_id, style.producer_epoch, NO_SEQUENCE, 0, 1),
        )
        batch, data = encode_end_marker(marker, plan.writing.coordinator_epoch, plan.now_ms, header)
        self._append(log, run, EncodedBatches(memoryview(data), BatchColumns.from_rows([batch])))
        self._counts = self._counts._replace(markers=self._counts.markers + 1)

    def _recovery_point(self, end_offset: int) -> tuple[LineEdit, ...]:
        """Return the edit that moves the recovery point to the end of the log, () if the line must stay.

        A broker does not check records below the recovery point. So the line moves only if it was at the log's end
        before, or if the broker stopped cleanly.
        """
        line, was = self._partition.line(_RECOVERY_POINT) or 0, self._target.end_offset
        if self._plan.log_dir is None or (line < was and not self._partition.is_clean):
            return ()
        return (LineEdit(_RECOVERY_POINT, self._plan.topic, self._plan.partition, end_offset),)


class _Flusher:
    """Decides when appended records are synced: after flush.messages records, or after flush.ms."""

    def __init__(self, config: Settings, clock: Callable[[], int]) -> None:
        self.messages = cast("int", config["flush.messages"].value)
        self._ms = cast("int", config["flush.ms"].value)
        self._clock = clock
        self._since = 0
        self._last_ms = clock()

    def is_due(self, records: int) -> bool:
        """Whether a sync is due after `records` more records; if it is, counting starts again."""
        self._since += records
        is_due = self._since >= self.messages or self.is_late()
        if is_due:
            self._since, self._last_ms = 0, self._clock()
        return is_due

    def is_late(self) -> bool:
        """Whether flush.ms has passed since the last sync."""
        return self._clock() - self._last_ms >= self._ms
