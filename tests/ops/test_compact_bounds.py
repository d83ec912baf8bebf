"""What compact decides exactly at a limit: of time, of the dirty ratio, of offsets. Kafka's rules on small logs."""

import json
import struct
from types import SimpleNamespace

import pytest

from kafkalog_cli.broker.cleaning.choosing import CheckpointState, Dirt, UpTo
from kafkalog_cli.broker.cleaning.cleaner import Cleaner, CleaningRequest
from kafkalog_cli.broker.cleaning.log import CleanableLog
from kafkalog_cli.broker.cleaning.output import IndexLimits
from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.ops.compact import plan as planning_module
from kafkalog_cli.ops.compact import verb
from kafkalog_cli.ops.compact.erasing import ErasureProof, _place_of, replication_words
from kafkalog_cli.ops.compact.passes import Passes, marking_request
from kafkalog_cli.ops.compact.plan import MOST_OFFSETS, Choice, CompactRequest, RecordPlace, plan_compact
from kafkalog_cli.ops.partition_facts import Replication
from kafkalog_cli.ops.partition_state import Roots
from kafkalog_cli.ops.settings import SettingsSource
from tests.support.commands import kafkalog
from tests.support.logs import BASE_TIME_MS, CONTROL, TRANSACTIONAL, R, batch_v2, write_segment

FS = RealFilesystem()
LAG_MS = 500
NOW_MS = BASE_TIME_MS + 1000
OLD_MS = NOW_MS - LAG_MS
"""The largest timestamp that min.compaction.lag.ms does not keep."""


def plan(tmp_path, timestamps, *, lags=False, **config):
    """Of a log with a segment for each two timestamps, a batch each, and an active segment.

    `lags`: the time indexes know of the first batch only.
    """
    folder = tmp_path / "t-0"
    folder.mkdir()
    base = 0
    for first, second in (*timestamps, (NOW_MS, NOW_MS)):
        made = [
            (batch_v2([R(base + at, time, b"k", b"v")]), base + at, time) for at, time in enumerate((first, second))
        ]
        write_segment(folder, base, made, interval=1)
        if lags:
            (folder / f"{base:020d}.timeindex").write_bytes(struct.pack(">qi", first, 0))
        base += 2
    (tmp_path / "replication-offset-checkpoint").write_text(f"0\n1\nt 0 {base}\n")
    settings = SettingsSource(FS, {"cleanup.policy": "compact", **config}, None)
    partition = open_partition(FS, str(folder))
    return plan_compact(FS, partition, Roots(FS).state(str(tmp_path), partition), CompactRequest(NOW_MS, settings))


@pytest.mark.parametrize("lags", [False, True])
@pytest.mark.parametrize(
    ("times", "first_uncleanable"),
    [
        ((OLD_MS, OLD_MS), 4),
        ((OLD_MS, OLD_MS + 1), 2),  # the second batch counts, though the first is at the limit
        ((OLD_MS + 1, OLD_MS), 2),
    ],
)
def test_a_segment_with_a_timestamp_within_the_lag_is_not_cleaned(tmp_path, times, first_uncleanable, lags):
    """LogCleanerManager.findFirstUncleanableSegment: largestTimestamp > now - min.compaction.lag.ms."""
    found = plan(tmp_path, [(OLD_MS, OLD_MS), times], lags=lags, **{"min.compaction.lag.ms": str(LAG_MS)})
    assert found.dirt.first_uncleanable == first_uncleanable
    assert found.dirt.up_to is (UpTo.ACTIVE_SEGMENT if first_uncleanable == 4 else UpTo.MIN_COMPACTION_LAG)
    assert [base for group in found.groups for base in group] == list(range(0, first_uncleanable, 2))


@pytest.mark.parametrize(("version", "kept"), [("4.2", [0, 3, 4, 5]), ("4.3", [0, 3, 4, 5]), ("4.4", [0, 3, 5])])
def test_the_end_of_a_round_stays_as_an_empty_batch_before_4_4(tmp_path, version, kept):
    """Cleaner.cleanInto: batch.nextOffset() is the end of the round until 4.3, the high watermark from 4.4 on."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    batches = [batch_v2([R(at, OLD_MS, (b"j", b"k", b"k", b"k", None, b"k")[at], b"v")]) for at in range(6)]
    for first, end in ((0, 4), (4, 5), (5, 6)):
        write_segment(folder, first, [(batches[at], at, OLD_MS) for at in range(first, end)], interval=1)
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nt 0 6\n")
    code, out, err = kafkalog(
        "compact", folder, "--config", "cleanup.policy=compact", "--config", "min.compaction.lag.ms=0",
        "--now", NOW_MS, "--kafka-version", version,
    )  # fmt: skip
    assert code == 0, err
    code, out, _ = kafkalog("dump-log", folder, "--format", "json")
    found = [json.loads(line) for line in out.splitlines()]
    assert [one["last_offset"] for one in found if one["type"] == "batch"] == kept


def choice(dirt, *, first_base=0, **request):
    planning = object.__new__(planning_module._CleanedLog)
    lags = {"min_compaction_lag_ms": 0, "max_compaction_lag_ms": 100}
    planning.__dict__["config"] = SimpleNamespace(min_cleanable_dirty_ratio=0.5, **lags)
    planning.__dict__["request"] = SimpleNamespace(**{"is_forced": False, "erased": None} | request)
    return planning._choice(dirt, first_base)


HALF = Dirt(0, 9, 50, 50, UpTo.ACTIVE_SEGMENT, CheckpointState.NONE)


def test_a_log_at_the_ratio_is_cleaned_only_when_it_is_overdue():
    """LogCleanerManager.grabFilthiestCompactedLog: cleanableRatio > minCleanableRatio, or needCompactionNow."""
    assert choice(HALF) is Choice.NOT_DIRTY_ENOUGH
    assert choice(HALF._replace(delay_ms=1)) is Choice.OVERDUE
    assert choice(HALF._replace(cleanable_bytes=51, delay_ms=1)) is Choice.DIRTY


@pytest.mark.parametrize("request_of", [{"is_forced": True}, {"erased": object()}])
def test_without_a_closed_segment_nothing_is_cleaned_by_force(request_of):
    nothing = HALF._replace(cleanable_bytes=0)
    forced = Choice.FORCED if "is_forced" in request_of else Choice.ERASING
    assert choice(nothing, first_base=9, **request_of) is Choice.NOTHING_DIRTY
    assert choice(nothing, first_base=8, **request_of) is forced


def test_a_producers_last_offset_may_be_0():
    """UnifiedLog.lastRecordsOfActiveProducers: lastDataOffset >= 0; without one, the last batch is a marker."""
    entries = {one: ProducerEntry(one, 3, 0, offset, 0, 0, -1, -1) for one, offset in ((7, -1), (8, 0), (9, 1))}
    request = CleaningRequest(0, 0, 9, 0, IndexLimits(0, 0), entries, retained_end=9)
    cleaner = Cleaner(CleanableLog(None, ()), None, request, None)
    batch = Batch(0, 61, 0, 0, 0, 2, 0, TRANSACTIONAL, 0, 0, 7, 3, 0, 1, 1)

    def is_retained(producer_id, attributes):
        return cleaner._is_retained(batch._replace(producer_id=producer_id, attributes=attributes))

    assert [is_retained(one, TRANSACTIONAL) for one in (7, 8, 9, 10)] == [False, True, False, False]
    assert [is_retained(one, TRANSACTIONAL | CONTROL) for one in (7, 8, 9, 10)] == [True, True, False, False]


@pytest.mark.parametrize(
    ("first_dirty", "modified_ms"), [(0, None), (1, 1000), (5, 1000), (6, 2000), (9, 2000), (10, 3000)]
)
def test_tombstones_of_old_formats_go_by_the_last_segment_below_the_dirty_part(first_dirty, modified_ms):
    """Cleaner.doClean: logSegments(0, firstDirtyOffset), the last one's lastModified less delete.retention.ms; 0 without any."""
    segments = [
        SimpleNamespace(base_offset=base, log=SimpleNamespace(mtime_ms=modified))
        for base, modified in ((0, 1000), (5, 2000), (9, 3000))
    ]
    wanted = SimpleNamespace(first_dirty=first_dirty, dirt=HALF, number_of={"delete.retention.ms": 400}.__getitem__)
    found = marking_request(segments, wanted, CompactRequest(NOW_MS, None))
    assert found.legacy_horizon_ms == (0 if modified_ms is None else modified_ms - 400)


@pytest.mark.parametrize(
    ("base", "place"), [(8, RecordPlace.CLEANED), (9, RecordPlace.UNCLEANABLE), (12, RecordPlace.ACTIVE)]
)
def test_a_segment_is_cleaned_below_the_first_uncleanable_offset(base, place):
    assert _place_of(SimpleNamespace(choice=Choice.DIRTY, dirt=HALF), base, 12) is place


@pytest.mark.parametrize(
    ("replicas", "told"), [((), "no other replica"), ((1,), "no other replica"), ((1, 2), "other replicas hold")]
)
def test_a_partition_has_other_replicas_from_two_on(replicas, told):
    assert told in replication_words(Replication(replicas, replicas, 1, 1), "")


def test_the_first_offsets_of_a_key_are_kept_and_all_are_counted():
    proof = object.__new__(ErasureProof)
    proof._tallies = {}
    for offset in range(MOST_OFFSETS + 2):
        proof._note(0, offset)
    tally = proof._tallies[0]
    assert list(tally.offsets) == list(range(MOST_OFFSETS))
    assert (tally.records, tally.last_offset) == (MOST_OFFSETS + 2, MOST_OFFSETS + 1)


@pytest.mark.parametrize(("end", "rest"), [(3, [4, 6]), (4, [4, 6]), (5, [6]), (6, [6])])
def test_the_next_pass_has_the_segments_from_the_end_of_the_first_on(end, rest):
    passes = object.__new__(Passes)
    passes._units, passes.end_offset = [], end
    passes._log = CleanableLog(FS, [SimpleNamespace(base_offset=base) for base in (0, 2, 4, 6)])
    assert [segment.base_offset for segment in passes._log_of(None).segments] == rest


@pytest.mark.parametrize("ratios", [(), (0.5,), (0.1, 0.9), (0.9, 0.1), (0.1, 0.9, 0.1, 0.5)])
def test_the_dirtiest_log_is_cleaned_first(monkeypatch, ratios):
    """LogCleanerManager.grabFilthiestCompactedLog; of equally dirty logs the first."""
    monkeypatch.setattr(verb, "_ratio", lambda _, partition, __: ratios[partition.path])
    partitions = [SimpleNamespace(path=at) for at in range(len(ratios))]
    order = [one.path for one in verb.dirtiest_first(None, partitions, None)]
    assert order == sorted(range(len(ratios)), key=lambda at: (-ratios[at], at))
