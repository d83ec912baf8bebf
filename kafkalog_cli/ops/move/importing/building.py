"""Build one new partition from its records, in a directory that no broker reads yet."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass

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
from kafkalog_cli.format.partition_metadata import PartitionMetadata
from kafkalog_cli.log.settings.topic_config import Setting, Settings
from kafkalog_cli.ops.change.append.append import AppendCounts
from kafkalog_cli.ops.change.append.batching import BatchMaker, BatchStyle, blocks
from kafkalog_cli.ops.change.append.checks import Checks
from kafkalog_cli.ops.change.append.records import NewRecords
from kafkalog_cli.ops.change.plans import load_settings_of


@dataclass(frozen=True, slots=True)
class TopicStyle:
    """How the partitions of a topic are made; every worker gets a copy.

    `partitions` is the number by which producers look for keys. None: not known, or the records were sorted by it.
    """

    config: Settings
    used: tuple[Setting, ...]
    batches: BatchStyle
    now_ms: int
    topic_id: str | None = None
    partitions: int | None = None


def build(
    fs: WritableFilesystem, path: str, records: Iterable[NewRecords], style: TopicStyle, base_offset: int
) -> AppendCounts:  # fmt: skip
    """Build the partition directory `path` from records, in their order, and write all of it to the disk.

    `base_offset` is that of the first segment. Raises BadInput for records that a broker would refuse. Raises
    NotChanged, NoSpace, OSError, SyncFailed. After an error the incomplete directory is left there, and may be removed.
    """
    make_partition(fs, path, None, style.now_ms, base_offset)
    with closing(UnseenGrowth(fs, path, attributes_in(fs, path))) as growth:
        try:
            built = _append(fs, path, records, style, growth, base_offset)
        except (LoadFailed, InvalidOffset, SegmentOverflow) as error:
            raise BadInput(path=path, reason=f"a broker would not take it: {error}") from error
        if style.topic_id is not None:
            found = PartitionMetadata(partition_metadata.VERSION, style.topic_id)
            growth.put(FileKind.PARTITION_METADATA.value, partition_metadata.encode(found))
    sync_directory(fs, path)
    return built


def _append(  # noqa: PLR0913, PLR0917
    fs: WritableFilesystem,
    path: str,
    records: Iterable[NewRecords],
    style: TopicStyle,
    growth: UnseenGrowth,
    base_offset: int,
) -> AppendCounts:
    config, now_ms, batches = style.config, style.now_ms, style.batches
    settings = load_settings_of(now_ms, style.used)
    target = AppendTarget(OpenLog(Draft(fs, path), settings, 0, base_offset, is_clean=True))
    limits = RollLimits(config.segment_bytes, config.max_segment_ms, config.segment_index_bytes)
    log = AppendedLog(target, growth, limits, now_ms)
    checks, maker = Checks(config, batches, now_ms, base_offset), BatchMaker(batches)
    counts = AppendCounts(base_offset, base_offset)
    for block in blocks(checks.records(records), batches):
        made = maker.encode(block, log.end_offset)
        checks.batches(made)
        log.append(made)
        counts = counts.plus(made, block)
    log.close()
    return counts.at_end(log, checks)
