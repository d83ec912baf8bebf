"""Where the damage of a log starts, and whether the log may be cut there without losing a valid batch."""

from __future__ import annotations

from contextlib import suppress

from kafkalog_cli.broker.loaded_segment import LoadSettings
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.disk.names import FileKind, FileName, classify_file
from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.log.partition import Segment
from kafkalog_cli.log.reading.scan import unreadable_ranges
from kafkalog_cli.log.reading.segment_reader import SegmentReader
from kafkalog_cli.ops.change_plan import Remark
from kafkalog_cli.ops.checks.segment_walk import SegmentWalk, good_start
from kafkalog_cli.ops.damage import DamageSeen
from kafkalog_cli.ops.next_steps import SALVAGE

SALVAGE_STEP = SALVAGE.text


UNREADABLE_STEP = f"work on another disk from now on; {SALVAGE_STEP}"


class Impossible(Exception):
    """The partition cannot be repaired without loss. The remark says why."""

    def __init__(self, remark: Remark) -> None:
        self.remark = remark
        super().__init__(remark.message)


def torn_at(draft: Draft, name: str, settings: LoadSettings) -> int | None:
    """Return the position of the first torn byte of a log, None if the log is sound.

    Raises Impossible if valid batches follow the damage, or if bad sectors hide whether any follow.
    """
    path = draft.path(name)
    with draft.reader(name) as log:
        bad, code = _damage(draft, log, classify_file(name), settings)
        unreadable = None if bad is None else next(unreadable_ranges(log, bad, log.size_bytes), None)
    if unreadable is not None:
        raise Impossible(_of_bad_sectors(path, unreadable))
    if code is ExitCode.CORRUPTION:
        message = "damaged, and valid batches follow"
        raise Impossible(Remark(path, message, ExitCode.REFUSED, bad, SALVAGE_STEP))
    return bad


def torn_near_end(draft: Draft, segment: Segment, settings: LoadSettings) -> int | None:
    """Return the same for the last segment, read only from its last index entries; None also for worse damage."""
    with suppress(KafkalogError, OSError), draft.reader(segment.log.path.rpartition("/")[2]) as log:
        walk = SegmentWalk(
            log, settings.limits, settings.kernels, start=good_start(draft, log, segment, settings.limits)
        )
        walk.run()
        bad = walk.first_bad
        if bad is None or walk.exit_code(draft) is not ExitCode.WARNINGS:
            return None
        return bad if next(unreadable_ranges(log, bad, log.size_bytes), None) is None else None
    return None


def _damage(draft: Draft, log: ReadableFile, name: FileName, settings: LoadSettings) -> tuple[int | None, ExitCode]:
    """Return the position of a log's first damage, and WARNINGS for a torn tail or CORRUPTION."""
    if name.kind is not FileKind.SEVEN_LOG:
        bases = (classify_file(one) for one in draft.names() if one.endswith(FileKind.LOG.value))
        later = [one.offset for one in bases if one.offset is not None and one.offset > (name.offset or 0)]
        walk = SegmentWalk(log, settings.limits, settings.kernels, next_offset=min(later, default=None))
        walk.run()
        return walk.first_bad, walk.exit_code(draft)
    seen = DamageSeen()
    reader = SegmentReader(log, limits=settings.limits, seven_base_offset=name.offset or 0)
    for batches in reader.batches():
        seen.batches(batches)
    if reader.fault is not None:
        seen.fault(reader.fault)
    return seen.first_bad, seen.exit_code(draft, log, reader.end_position, settings.limits)


def _of_bad_sectors(path: str, unreadable: Fault) -> Remark:
    """The contents of bad sectors are not known, so they must not be cut."""
    end = unreadable.position + (unreadable.size_bytes or 0)
    message = f"{unreadable.message} (to byte {end}); nothing was changed"
    return Remark(path, message, ExitCode.REFUSED, unreadable.position, UNREADABLE_STEP)
