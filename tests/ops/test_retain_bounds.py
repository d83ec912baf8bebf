"""What retention, deletion and truncation decide exactly at a limit: Kafka's rules on small logs."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from kafkalog_cli.broker.retention import RetainedSegment, RetentionBounds, RetentionLimits, RetentionPass
from kafkalog_cli.broker.retention import retain as retention_of
from kafkalog_cli.change.new_partitions import staged_name
from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import ExitCode, OffsetOutOfRange
from kafkalog_cli.log.log_end import LargestTimestamp, TimestampOrigin
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.ops import delete_records, purge, truncate
from kafkalog_cli.ops.delete_records import DeleteRecordsRequest, plan_delete_records
from kafkalog_cli.ops.partition_state import PartitionState, Roots
from kafkalog_cli.ops.retain import free, retain
from kafkalog_cli.ops.retain.free import FreeRequest, FreeSegment, oldest_first, plan_free
from kafkalog_cli.ops.retain.freeing import Freeing
from kafkalog_cli.ops.retain.plan import Retained, RetainRequest, Stay, fates_of
from kafkalog_cli.ops.retain.retain import line_edits, plan_retain
from kafkalog_cli.ops.roll import RollRequest, plan_roll
from kafkalog_cli.ops.settings import SettingsSource
from kafkalog_cli.ops.timestamp_units import TimestampOddity
from kafkalog_cli.ops.truncate import TruncateRequest, plan_truncate
from kafkalog_cli.ops.undo import verb as undo_verb
from kafkalog_cli.ops.verify.gaps import missing_start
from tests.support.logs import BASE_TIME_MS, R, batch_v2, write_segment
from tests.support.plain_changes import files, make

FS = RealFilesystem()
NOW_MS = BASE_TIME_MS + 1000
LOG_START, HIGH_WATERMARK = FileKind.LOG_START_CHECKPOINT, FileKind.REPLICATION_CHECKPOINT
DELETE = {"cleanup.policy": "delete"}

# -- retain --explain


def fates(limits, ages=(30, 20, 10), sizes=(10, 10, 10), watermark=12):
    """Segments at 0, 5 and 9 of a log that ends at 12; `ages` in ms."""
    bases, bounds = (0, 5, 9), RetentionBounds(0, 12, watermark)
    segments = [
        SimpleNamespace(base_offset=base, log=SimpleNamespace(size_bytes=size))
        for base, size in zip(bases, sizes, strict=True)
    ]
    times = [NOW_MS - age for age in ages]
    gone = retention_of(list(map(RetainedSegment, bases, sizes)), bounds, limits, NOW_MS, times.__getitem__)
    found = {at: LargestTimestamp(time, next(iter(TimestampOrigin)), time) for at, time in enumerate(times)}
    names = {name: name for name in ("retention.ms", "retention.bytes", "cleanup.policy")}
    return list(fates_of(Retained(segments, bounds, limits, gone, found, NOW_MS), names))


def stays(*args, **more):
    return [fate.stays for fate in fates(*args, **more)]


def test_each_segment_ends_where_the_next_begins():
    assert [(fate.base_offset, fate.next_offset) for fate in fates(RetentionLimits())] == [(0, 5), (5, 9), (9, 12)]


@pytest.mark.parametrize("retention_ms", [0, 1, 19, 20, 21])
def test_a_segment_is_due_at_the_first_time_at_which_a_broker_takes_it(retention_ms):
    """UnifiedLog.deleteRetentionMsBreachedSegments: now - largestTimestamp > retention.ms, the segments before gone too."""
    ages = (5, 25, 10)
    for at, fate in enumerate(fates(RetentionLimits(retention_ms=retention_ms), ages)):
        clock = range(NOW_MS - 30, NOW_MS + 30)
        first = next(now for now in clock if all(now - (NOW_MS - age) > retention_ms for age in ages[: at + 1]))
        assert fate.due_ms == first
    assert {fate.due_ms for fate in fates(RetentionLimits(retention_ms=-1))} == {None}


@pytest.mark.parametrize("retention_bytes", [0, 1, 10, 19, 20, 29, 30, 31])
def test_a_segment_is_due_after_so_many_bytes(retention_bytes):
    """UnifiedLog.deleteRetentionSizeBreachedSegments: what is left behind it, with what is appended, is no less than the limit."""
    for at, fate in enumerate(fates(RetentionLimits(retention_bytes=retention_bytes))):
        behind = 30 - 10 * (at + 1)
        assert fate.due_after_bytes == next(more for more in range(100) if behind + more >= retention_bytes)
    assert {fate.due_after_bytes for fate in fates(RetentionLimits(retention_bytes=-1))} == {None}


def test_why_a_segment_stays_at_the_limits_of_time():
    assert stays(RetentionLimits(retention_ms=9)) == [None, None, None]
    assert stays(RetentionLimits(retention_ms=10)) == [None, None, Stay.LIMITS]
    assert stays(RetentionLimits(retention_ms=10), ages=(10, 11, 10)) == [Stay.LIMITS, Stay.BEHIND, Stay.LIMITS]
    assert stays(RetentionLimits(retention_ms=0), ages=(0, 1, 0)) == [Stay.LIMITS, Stay.BEHIND, Stay.LIMITS]
    assert stays(RetentionLimits(retention_ms=0)) == [None, None, None]
    assert stays(RetentionLimits()) == [Stay.NO_LIMIT] * 3


def test_why_a_segment_stays_at_the_limits_of_size():
    assert stays(RetentionLimits(retention_bytes=11)) == [None, Stay.LIMITS, Stay.LIMITS]
    assert stays(RetentionLimits(retention_bytes=10)) == [None, None, Stay.LIMITS]
    assert stays(RetentionLimits(retention_bytes=0)) == [None, None, None]
    assert stays(RetentionLimits(retention_bytes=0), sizes=(10, 10, 0)) == [None, None, Stay.EMPTY]
    assert stays(RetentionLimits(retention_bytes=10), watermark=4) == [
        Stay.NOT_REPLICATED,
        Stay.NOT_REPLICATED,
        Stay.LIMITS,
    ]


def test_why_a_segment_stays_at_the_high_watermark():
    assert stays(RetentionLimits(retention_bytes=0), watermark=4) == [Stay.NOT_REPLICATED] * 3
    assert stays(RetentionLimits(retention_ms=0), watermark=4) == [Stay.NOT_REPLICATED] * 3
    assert stays(RetentionLimits(retention_ms=0), watermark=5) == [None, Stay.NOT_REPLICATED, Stay.NOT_REPLICATED]
    found = stays(RetentionLimits(retention_ms=0), ages=(0, 1, 1), watermark=9)
    assert found == [Stay.LIMITS, Stay.BEHIND, Stay.NOT_REPLICATED]


def test_the_setting_that_keeps_a_segment():
    def setting(limits):
        return [fate.setting for fate in fates(limits, ages=(0, 0, 0))]

    assert setting(RetentionLimits(retention_ms=0)) == ["retention.ms"] * 3
    assert setting(RetentionLimits(retention_bytes=40)) == ["retention.bytes"] * 3
    assert setting(RetentionLimits()) == ["retention.ms"] * 3


@pytest.mark.parametrize(("retention_ms", "why"), [(-1, Stay.NO_LIMIT), (0, Stay.UNIT), (1, Stay.UNIT)])
def test_microseconds_keep_a_segment_wherever_a_time_limit_is_set(retention_ms, why):
    ages = (NOW_MS - NOW_MS * 1000,) * 3
    assert stays(RetentionLimits(retention_ms=retention_ms), ages=ages) == [why] * 3
    assert {fate.odd for fate in fates(RetentionLimits(retention_ms=retention_ms), ages=ages)} == {
        TimestampOddity.MICROSECONDS
    }


# -- plans on a disk


def batch(first, last, timestamp=BASE_TIME_MS):
    return batch_v2([R(first, timestamp), R(last, timestamp)]), last, timestamp


@pytest.fixture
def log_dir(tmp_path):
    """Segments at 3, 5 and 9 of a log that ends at 12, with their snapshots."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    for base, last, timestamp in ((3, 4, BASE_TIME_MS), (5, 8, NOW_MS - 10), (9, 11, NOW_MS)):
        write_segment(folder, base, [batch(base, last, timestamp)])
    for offset in (3, 5, 9, 12):
        (folder / f"{offset:020d}.snapshot").write_bytes(b"\0\1\x48\x67\x4b\xc7\0\0\0\0")
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 3\n")
    return tmp_path


def said(log_dir, **lines):
    """Each checkpoint with the partition's line."""
    for name, offset in lines.items():
        (log_dir / f"{name.replace('_', '-')}-checkpoint").write_text(f"0\n1\nt 0 {offset}\n")
    return open_partition(FS, str(log_dir / "t-0"))


def state(log_dir, partition):
    return Roots(FS).state(str(log_dir), partition)


def settings(**config):
    return SettingsSource(
        FS, {**DELETE, **{name.replace("_", "."): str(value) for name, value in config.items()}}, None
    )


def edited(edits):
    return {edit.kind: edit.offset for edit in edits}


@pytest.mark.parametrize(("log_start", "line"), [(4, None), (5, None), (6, 6)])
def test_a_log_start_has_a_line_only_above_the_first_segment(log_start, line):
    """LogManager.checkpointLogStartOffsetsInDir: logStartOffset > logSegments.head.baseOffset."""
    root = PartitionState("/logs", "t", 0, lines=((LOG_START, 2),))
    assert edited(line_edits(root, log_start, 5)) == {LOG_START: line}
    truncated = SimpleNamespace(log_start_offset=log_start, log_end_offset=9, removed={9})
    assert edited(truncate._line_edits(root, truncated, [5, 7])) == ({LOG_START: None} if line is None else {})


def test_retention_of_a_log_that_starts_at_its_end(log_dir):
    """As delete-records up to the high watermark leaves it: all segments but the last are below the log start."""
    partition = said(log_dir, log_start_offset=12, replication_offset=12)
    plan = plan_retain(FS, partition, state(log_dir, partition), RetainRequest(NOW_MS, settings(retention_ms=-1)))
    assert not plan.is_refused
    assert [fate.goes for fate in plan.fates] == [RetentionPass.LOG_START] * 2 + [None]
    partition = said(log_dir, log_start_offset=13)
    assert plan_retain(FS, partition, state(log_dir, partition), RetainRequest(NOW_MS, settings())).is_refused


@pytest.mark.parametrize(("retention_ms", "enough_ms"), [(0, NOW_MS), (7, NOW_MS - 7)])
def test_no_header_is_read_behind_one_that_is_young_enough(log_dir, monkeypatch, retention_ms, enough_ms):
    asked = []

    def largest(fs, segment, enough):
        asked.append(enough)
        return LargestTimestamp(NOW_MS, next(iter(TimestampOrigin)), NOW_MS)

    monkeypatch.setattr(retain, "largest_timestamp", largest)
    partition = said(log_dir, replication_offset=12)
    plan_retain(FS, partition, state(log_dir, partition), RetainRequest(NOW_MS, settings(retention_ms=retention_ms)))
    assert asked == [enough_ms]


@pytest.mark.parametrize(("is_clean", "disputable"), [(True, [True] * 3), (False, [True, True, False])])
def test_of_the_last_segment_alone_a_broker_makes_the_time_index_anew(is_clean, disputable):
    """LogLoader.recoverLog, with a recovery point in the last segment: only that is recovered."""
    planning = object.__new__(retain._Planning)
    planning._log = SimpleNamespace(root=SimpleNamespace(is_clean=is_clean))
    planning._segments = (None,) * 3
    assert list(map(planning._is_disputable, range(3))) == disputable


def test_a_snapshot_of_the_first_segment_is_not_left_over(log_dir):
    """Only what lies below the first segment is: indexes and snapshots of segments that went."""
    for name in (f"{2:020d}.snapshot", f"{0:020d}.index"):
        (log_dir / "t-0" / name).write_bytes(b"")
    partition = said(log_dir, replication_offset=12)
    plan = plan_free(FS, partition, state(log_dir, partition), FreeRequest(NOW_MS, settings()))
    assert {file.path.rpartition("/")[2] for file in plan.leftovers} == {f"{2:020d}.snapshot", f"{0:020d}.index"}
    assert [each.segment.base_offset for each in plan.segments] == [3, 5]


def freed(log_dir, *, watermark=12, keep_bytes=0):
    partition = said(log_dir, replication_offset=watermark)
    plan = plan_free(FS, partition, state(log_dir, partition), FreeRequest(NOW_MS, settings(), keep_bytes=keep_bytes))
    return [each.segment.base_offset for each in plan.segments]


def test_room_is_made_up_to_the_high_watermark_and_the_floor(log_dir):
    """A segment goes where the next one begins at the high watermark or below, and the rest is no less than the floor."""
    assert [freed(log_dir, watermark=offset) for offset in (4, 5, 8, 9)] == [[], [3], [3], [3, 5]]
    sizes = [(log_dir / "t-0" / f"{base:020d}.log").stat().st_size for base in (3, 5, 9)]
    for keep_bytes, goes in ((sizes[2], [3, 5]), (sizes[2] + 1, [3]), (sum(sizes[1:]), [3]), (sum(sizes[1:]) + 1, [])):
        assert freed(log_dir, keep_bytes=keep_bytes) == goes


@pytest.mark.parametrize(
    ("keep_ms", "ages", "goes"),
    [
        (0, (0, -5, 3), [1, 0, 2]),  # no floor: also what is of this moment, or of a time to come
        (3, (3, 4, 2), [1]),
        (4, (3, 5, 9), [2, 1]),
    ],
)
def test_what_is_no_older_than_the_floor_stays(monkeypatch, keep_ms, ages, goes):
    """One segment in each of three partitions; the oldest goes first."""

    def largest(fs, segment, enough_ms):
        return LargestTimestamp(NOW_MS - ages[segment], next(iter(TimestampOrigin)), 0)

    monkeypatch.setattr(free, "largest_timestamp", largest)
    plans = [SimpleNamespace(segments=(FreeSegment(at, 5, ()),)) for at in range(3)]
    request = FreeRequest(NOW_MS, settings(), keep_ms=keep_ms)
    order = [segment.segment for _, segment in oldest_first(FS, plans, request, pytest.fail)]
    assert order == sorted((at for at in range(3) if not keep_ms or ages[at] > keep_ms), key=lambda at: -ages[at])
    assert sorted(order) == sorted(goes)


def deleting(offset):
    return DeleteRecordsRequest(NOW_MS, settings(), before_offset=offset)


def test_records_are_deleted_before_any_offset_from_0_to_the_high_watermark(log_dir):
    """Partition.deleteRecordsOnLeader: below 0 and above the high watermark is OFFSET_OUT_OF_RANGE."""
    partition = said(log_dir, replication_offset=9)
    root = state(log_dir, partition)
    for offset, start, removed in ((0, 3, ()), (3, 3, ()), (4, 4, ()), (5, 5, (3,)), (9, 9, (3, 5))):
        plan = plan_delete_records(FS, partition, root, deleting(offset))
        assert (plan.log_start_offset, plan.removed) == (start, removed), offset
    assert delete_records.HIGH_WATERMARK == -1
    for offset in (-2, 10):
        with pytest.raises(OffsetOutOfRange):
            plan_delete_records(FS, partition, root, deleting(offset))


@pytest.mark.parametrize(("offset", "is_refused"), [(4, True), (5, False)])
def test_outside_a_log_directory_only_segments_can_tell_the_log_start(log_dir, offset, is_refused):
    partition = said(log_dir)
    plan = plan_delete_records(FS, partition, Roots(FS).state(None, partition), deleting(offset))
    assert plan.is_refused == is_refused


def test_a_log_is_truncated_at_any_offset_from_its_start_to_its_end(log_dir):
    partition = said(log_dir, replication_offset=12)
    root, before = state(log_dir, partition), files(log_dir / "t-0")
    request = TruncateRequest(NOW_MS, settings())
    for offset, end in ((3, 3), (5, 5), (9, 9), (12, 12)):
        plan = plan_truncate(FS, partition, root, replace(request, target_offset=offset))
        assert (plan.log_start_offset, plan.log_end_offset) == (3, end)
        assert plan.drops_records == (offset < 12)
    for offset in (2, 13):
        with pytest.raises(OffsetOutOfRange):
            plan_truncate(FS, partition, root, replace(request, target_offset=offset))
    assert files(log_dir / "t-0") == before


def test_epochs_begin_with_the_log_though_it_began_there_before(log_dir):
    """LogLoader.load: truncateFromStart(logStartOffset), at each start of a broker. An entry below the first segment says that it is lost."""
    partition = said(log_dir, log_start_offset=5, replication_offset=12)
    root = state(log_dir, partition)
    plan = plan_retain(FS, partition, root, RetainRequest(NOW_MS, settings(retention_ms=-1)))
    assert [fate.goes for fate in plan.fates] == [RetentionPass.LOG_START, None, None]
    make(log_dir / "t-0", plan.changes)
    for name in FileKind.LOG_START_CHECKPOINT.value, ".kafka_cleanshutdown":
        (log_dir / name).unlink(missing_ok=True)
    left = open_partition(FS, str(log_dir / "t-0"))
    facts = SimpleNamespace(is_compacted=False, is_in_cleaner_checkpoint=False, is_tiered=False)
    assert [*missing_start(FS, left._replace(leftovers=()), None, facts)] == []


def test_the_leftover_of_an_import_goes_when_the_delay_is_over(tmp_path):
    left = tmp_path / staged_name("t", 0, "run", "0")
    left.mkdir()
    (left / f"{0:020d}.log").write_bytes(b"x")
    newest_ms = max(path.stat().st_ctime_ns for path in (left, *left.iterdir())) // 1_000_000
    partition = open_partition(FS, str(left))
    for now_ms, is_due in ((59_999, False), (60_000, True), (60_001, True)):
        plan = purge._plan_leftover(FS, partition, newest_ms + now_ms)
        assert (plan.leftover is not None, plan.waiting) == (is_due, int(not is_due))


@pytest.mark.parametrize(("age_ms", "young"), [(9, 0), (10, 0), (11, 1)])
def test_a_run_is_old_from_its_age_on(tmp_path, monkeypatch, age_ms, young):
    runs = object.__new__(purge._Runs)
    runs._fs, runs._path, runs._unreadable, runs.cut_off = FS, str(tmp_path), {}, None
    runs.manifests = {"run": SimpleNamespace(state=None)}
    (tmp_path / ".kafkalog" / "run").mkdir(parents=True)
    monkeypatch.setattr(purge, "_ended_ms", lambda manifest, clock: NOW_MS - 10)
    old, kept, count = runs.older_than(age_ms, SimpleNamespace(now_ms=NOW_MS))
    assert (len(old), kept, count) == (1 - young, [], young)


@pytest.mark.parametrize(
    ("wanted_bytes", "removed", "is_short"),
    [(0, 0, False), (5, 0, False), (6, 1, False), (15, 1, False), (16, 2, False), (25, 2, False), (26, 2, True)],
)
def test_room_is_made_until_there_is_as_much_as_is_wanted(monkeypatch, wanted_bytes, removed, is_short):
    """5 bytes are free, and two segments have 10 bytes each."""
    fs = SimpleNamespace(room=lambda path: SimpleNamespace(free_bytes=5))
    session = SimpleNamespace(context=SimpleNamespace(fs=fs), interruptions=SimpleNamespace(are_asked_for=False))
    freeing = Freeing(session, None, wanted_bytes, dry_run=True)
    plan, gone = SimpleNamespace(path="/logs/t-0", log_dir="/logs", device=1), []
    freeing.plans.append(plan)
    monkeypatch.setattr(Freeing, "_candidates", lambda self, plans: ((plan, number) for number in range(2)))
    monkeypatch.setattr(Freeing, "_unlink", lambda self, plan, segment: gone.append(segment) or 10)
    monkeypatch.setattr(Freeing, "_report", lambda *_, **__: None)
    freeing._free_on(1)
    assert (len(gone), freeing._failures) == (removed, [ExitCode.NO_SPACE] if is_short else [])


@pytest.mark.parametrize("timestamp", [-1, 0, 1, NOW_MS])
def test_a_segment_is_due_at_the_first_time_at_which_a_broker_rolls_it(tmp_path, timestamp):
    """LogSegment.shouldRoll: time waited > segment.ms; without a timestamp, it waits from now on."""
    (tmp_path / "t-0").mkdir()
    write_segment(tmp_path / "t-0", 0, [batch(0, 1, timestamp)])
    partition = open_partition(FS, str(tmp_path / "t-0"))

    def planned(now_ms):
        request = RollRequest(now_ms, settings(segment_ms=10))
        return plan_roll(FS, partition, Roots(FS).state(None, partition), request)

    due_ms = planned(timestamp + 1).due_ms
    assert due_ms == (None if timestamp < 0 else timestamp + 11)
    if due_ms is not None:
        assert [planned(now_ms).cause is None for now_ms in (due_ms - 1, due_ms)] == [True, False]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_the_newest_runs_are_named(monkeypatch, count):
    monkeypatch.setattr(undo_verb, "MOST_RUNS", 3)
    told = undo_verb._runs_under("/logs", [SimpleNamespace(runs=[f"r{at}" for at in range(count)])])
    assert sum(f"r{at} (1 partition)" in told for at in range(count)) == min(count, 3)
    assert (f" and {count - 3} older runs" in told) == (count > 3)
    assert ("older" in told) == (count > 3)
