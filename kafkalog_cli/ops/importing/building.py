"""Build one new partition from its rows, in a directory that no broker reads yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, cast

from kafkalog_cli.broker.appended_log import AppendedLog, AppendTarget
from kafkalog_cli.broker.load_error import InvalidOffset, LoadFailed, SegmentOverflow
from kafkalog_cli.broker.open_log import OpenLog, RollLimits
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.change.growing_run import UnseenGrowth
from kafkalog_cli.change.new_partition import make_partition
from kafkalog_cli.disk.durable import attributes_in, sync_directory
from kafkalog_cli.disk.fs import WritableFilesystem
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import BadInput
from kafkalog_cli.format import partition_metadata
from kafkalog_cli.format.batch import NO_TIMESTAMP
from kafkalog_cli.format.partition_metadata import PartitionMetadata
from kafkalog_cli.log.settings.source import SettingsSource
from kafkalog_cli.log.settings.topic_config import Setting, Settings
from kafkalog_cli.ops.append.append import AppendCounts, append_time_of, codec_of, is_codec_forced
from kafkalog_cli.ops.append.arrow import ArrowReader
from kafkalog_cli.ops.append.batching import BatchMaker, BatchStyle, Writing, blocks
from kafkalog_cli.ops.append.checks import Checks, OddTime
from kafkalog_cli.ops.append.columns import Arriving
from kafkalog_cli.ops.plans import load_settings_of, used_settings


@dataclass(frozen=True, slots=True)
class TopicStyle:
    """How the partitions of a topic are made; every worker gets a copy.

    `keeps_codecs`: batches keep the codec of the batches that their records come from; else `writing` decides.
    `keeps_epochs`: the leader epochs of the input are kept, because they were assigned in this same topic; else all are
    0.
    """

    topic: str
    config: Settings
    used: tuple[Setting, ...]
    writing: Writing
    now_ms: int
    topic_id: str | None = None
    keeps_codecs: bool = False
    keeps_epochs: bool = False
    partitions: int | None = None
    """The number of partitions by which producers look for keys; None: not known, or the rows were sorted by it."""

    @classmethod
    def of(cls, source: SettingsSource, log_dir: str, topic: str, writing: Writing, now_ms: int) -> TopicStyle:
        """Return the style with the topic's settings there. Raises as `SettingsSource.metadata` does."""
        config = source.topic_config(log_dir, topic)
        return cls(topic, config, used_settings(source, log_dir, topic), writing, now_ms)

    @property
    def batches(self) -> BatchStyle:
        """The style of the batches."""
        config, writing = self.config, self.writing
        most_bytes = min(cast("int", config["max.message.bytes"].value), config.segment_bytes)
        return BatchStyle(
            *codec_of(config, writing), min(writing.batch_bytes, most_bytes),
            append_time_ms=append_time_of(config, writing, self.now_ms),
            keeps_offsets=writing.keep_offsets, keeps_codecs=self.keeps_codecs and not is_codec_forced(config),
        )  # fmt: skip

    @property
    def ignored_columns(self) -> frozenset[str]:
        """The columns of an input that are ignored."""
        keeps_offsets = self.writing.keep_offsets
        told = {
            **dict.fromkeys(("offset", "timestamp_type", "timestampType"), keeps_offsets),
            "codec": self.keeps_codecs and not is_codec_forced(self.config),
            "leader_epoch": keeps_offsets and self.keeps_epochs,
        }
        return frozenset(name for name, counts in told.items() if not counts)


class Built(NamedTuple):
    """A partition that has been written to the disk.

    `transactional` counts records that were in transactions and are now outside of them. `newest_ms` is the largest
    timestamp, -1 for none. `odd_time` is the first timestamp in another unit than milliseconds.
    """

    first_offset: int
    end_offset: int
    records: int
    batches: int
    size_bytes: int
    segments: int
    transactional: int
    newest_ms: int
    odd_time: OddTime | None = None


def build(fs: WritableFilesystem, path: str, parts: Iterable[Any], style: TopicStyle) -> Built:
    """Build the partition directory `path` from RecordBatches, in their order, and write all of it to the disk.

    Raises BadInput for records that a broker would refuse, and UsageError for columns that records do not have. Raises
    NotChanged, NoSpace, OSError, SyncFailed. After an error the incomplete directory is left there, and may be removed.
    """
    return _Build(fs, path, style).run(parts)


class _Build:
    """One call of `build`."""

    def __init__(self, fs: WritableFilesystem, path: str, style: TopicStyle) -> None:
        self._fs, self._path, self._style = fs, path, style
        self._transactional = 0
        self._newest_ms = NO_TIMESTAMP

    def run(self, parts: Iterable[Any]) -> Built:
        style, batches = self._style, self._style.batches
        rows = self._rows(parts)
        first = next(rows, None)
        base_offset = 0
        if style.writing.keep_offsets and first is not None:
            base_offset = max(first.column("offset")[0].as_py() or 0, 0)
        make_partition(self._fs, self._path, None, style.now_ms, base_offset)
        attributes = attributes_in(self._fs, self._path)
        rows = chain(() if first is None else (first,), rows)
        records = ArrowReader(style.now_ms, with_origin=batches.follows_origins).records(rows)
        with closing(UnseenGrowth(self._fs, self._path, attributes)) as growth:
            try:
                built = self._append(records, batches, growth, base_offset)
            except (LoadFailed, InvalidOffset, SegmentOverflow) as error:
                raise BadInput(path=self._path, reason=f"a broker would not take it: {error}") from error
            if style.topic_id is not None:
                found = PartitionMetadata(partition_metadata.VERSION, style.topic_id)
                growth.put(FileKind.PARTITION_METADATA.value, partition_metadata.encode(found))
        sync_directory(self._fs, self._path)
        return built

    def _append(self, records: Arriving, style: BatchStyle, growth: UnseenGrowth, base_offset: int) -> Built:
        config, now_ms = self._style.config, self._style.now_ms
        settings = load_settings_of(now_ms, self._style.used)
        target = AppendTarget(OpenLog(Draft(self._fs, self._path), settings, 0, base_offset, is_clean=True))
        limits = RollLimits(config.segment_bytes, config.max_segment_ms, config.segment_index_bytes)
        log = AppendedLog(target, growth, limits, now_ms)
        checks, maker = Checks(config, style, now_ms, base_offset), BatchMaker(style)
        counts = AppendCounts(base_offset, base_offset)
        for block in blocks(checks.records(records), style, now_ms):
            made = maker.encode(block, log.end_offset)
            checks.batches(made)
            log.append(made)
            counts = counts.plus(made)
            self._newest_ms = max(self._newest_ms, *map(int, made.batches.max_timestamp))
        log.close()
        return Built(
            *(counts.first_offset, log.end_offset, counts.records, counts.batches, counts.size_bytes),
            len(log.rolled) + 1,
            self._transactional,
            self._newest_ms,
            checks.odd_time,
        )

    def _rows(self, parts: Iterable[Any]) -> Iterator[Any]:
        """Yield the parts that have rows, without ignored columns."""
        ignored = self._style.ignored_columns
        for part in parts:
            if not part.num_rows:
                continue
            self._transactional += _transactional(part)
            yield part.select([name for name in part.schema.names if name not in ignored])


def _transactional(part: Any) -> int:
    """Return the number of records in transactions, without markers."""
    import pyarrow.compute as pc

    if "transactional" not in part.schema.names:
        return 0
    found = part.column("transactional").fill_null(fill_value=False)
    if "control" in part.schema.names:
        found = pc.and_(found, pc.invert(part.column("control").fill_null(fill_value=False)))
    return int(found.true_count)
