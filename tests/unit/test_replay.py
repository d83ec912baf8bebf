"""Replay into a cluster in memory: which records are sent, in which order, and how a killed run continues."""

import errno
import itertools
import json
from dataclasses import replace

import pytest

import kafkalog_cli as kl
from kafkalog_cli.errors import NotSent
from kafkalog_cli.format.records import Header
from kafkalog_cli.ops.change.append.partitioning import partition_of_key
from kafkalog_cli.ops.choices import Hashing, Isolation
from kafkalog_cli.ops.look.read.request import ReadRequest
from kafkalog_cli.ops.move.replay.kafka_cluster import SentRecord
from kafkalog_cli.ops.move.replay.plan import ReplayRequest
from kafkalog_cli.ops.move.replay.sending import Replay, ReplayedOffset, ReplayedPartition
from kafkalog_cli.ops.move.replay.state import ReplayState
from kafkalog_cli.ops.selection import Selection
from tests.support.coordinator_logs import commit, commit_key, commits, coordinator_partition_at
from tests.support.logs import BASE_TIME_MS, TRANSACTIONAL, R, aborted_txns, batch_v2, end_marker, write_segment
from tests.support.metadata_logs import batches, partition, topic_id, value
from tests.support.product import BadInput, Context, ExitCode, Locked, RealFilesystem, Refused, UsageError
from tests.support.recording_cluster import Killed, Life, MortalFilesystem, RecordingCluster
from tests.support.serving import read_records

T = BASE_TIME_MS
NOW_MS = T + 60_000
COMMITTED = {"orders": {0: [0, 1, 2, 6, 9, 10], 1: [0, 1]}, "payments": {0: [5, 6, 7]}}
"""The offsets of committed records in the log directory of `disk`."""


def record(offset, topic="orders", number=0):
    headers = ((b"h", b"1"), (b"h", None)) if offset % 2 else ()
    found = None if offset == 2 else f"{topic} {number} {offset}".encode()
    return R(offset, T + offset, None if offset == 1 else b"k%d" % (offset % 3), found, headers)


def sent(offset, topic="orders", number=0):
    one = record(offset, topic, number)
    return SentRecord(one.key, one.value, tuple(Header(*header) for header in one.headers), one.timestamp)


def wanted(topic, number, offsets=None):
    return [sent(offset, topic, number) for offset in offsets or COMMITTED[topic][number]]


def write(folder, *parts):
    folder.mkdir(parents=True, exist_ok=True)
    write_segment(folder, parts[0][1], [(data, last, T + last) for data, _, last in parts])


def plain(offsets, topic="orders", number=0, **options):
    records = [record(offset, topic, number) for offset in offsets]
    return batch_v2(records, **options), records[0].offset, records[-1].offset


@pytest.fixture
def disk(tmp_path):
    """orders-0 has a committed and an aborted transaction, and a gap as after compaction; groups have offsets."""
    log_dir = tmp_path / "disk"
    of = {"producer": (7, 0, 0), "bits": TRANSACTIONAL}
    write(
        log_dir / "orders-0", plain([0, 1, 2], codec=4), plain([3, 4], **of), (end_marker(5, T + 5, (7, 0), 0), 5, 5),
        plain([6], **of), (end_marker(7, T + 7, (7, 0), 1), 7, 7), plain([9, 10]),
    )  # fmt: skip
    (log_dir / "orders-0" / "00000000000000000000.txnindex").write_bytes(aborted_txns([(7, 3, 5, 6)]))
    write(log_dir / "orders-1", plain([0, 1], number=1))
    write(log_dir / "payments-0", plain([5, 6, 7], "payments"))
    coordinator_partition_at(
        log_dir, 0,
        commits(
            (commit_key("a"), commit(3)), (commit_key("a", partition=1), commit(2)), (commit_key("b"), commit(8)),
            (commit_key("b", "payments"), commit(0)), (commit_key("c", "elsewhere"), commit(1)),
            (commit_key("d"), commit(6)),
        ),
    )  # fmt: skip
    return log_dir


TRANSLATED = {
    ("a", "orders", 0, 3, 3),  # the next record, 6, has the fourth place
    ("a", "orders", 1, 2, 2),
    ("b", "orders", 0, 8, 4),
    ("b", "payments", 0, 0, 0),
    ("d", "orders", 0, 6, 3),  # that record itself
}


def metadata_log(log_dir):
    orders = topic_id(1)
    log, _ = batches([[
        value("TopicRecord", name="orders", topicId=orders), *(partition(orders, number) for number in range(4)),
        value("ConfigRecord", resourceType=2, resourceName="orders", name="cleanup.policy", value="compact"),
    ]])  # fmt: skip
    (log_dir / "__cluster_metadata-0").mkdir()
    (log_dir / "__cluster_metadata-0" / "00000000000000000000.log").write_bytes(log)


def request(disk, *more, **options):
    paths = [str(path) for path in (disk, *more)]
    return ReplayRequest(paths, str(disk.parent / "replay.state"), **{"creates": True, **options})


def context(fs=None, seconds=0):
    """`seconds` pass between two looks at the clock: from 1 on, the state is saved after each record."""
    clock = itertools.count(0, seconds)
    return Context(fs or RealFilesystem(), now_ms=lambda: NOW_MS, sleep=lambda seconds: None, clock=lambda: next(clock))


def run(asked, cluster, fs=None, notes=None, seconds=0):
    notes = [] if notes is None else notes
    one = Replay(context(fs, seconds), asked, cluster, notes.append)
    notes += one.notes
    return list(one.run())


def of_type(kind, outcomes):
    return [one for one in outcomes if isinstance(one, kind)]


def check_complete(cluster):
    assert cluster.logs == {
        (topic, number): wanted(topic, number) for topic, numbers in COMMITTED.items() for number in numbers
    }


def test_committed_records_arrive_in_order_as_they_were(disk):
    cluster = RecordingCluster()
    outcomes = of_type(ReplayedPartition, run(request(disk), cluster))
    check_complete(cluster)
    assert [(one.sent, one.recognised, one.code, one.error) for one in outcomes] == [
        (6, 0, ExitCode.OK, None), (2, 0, ExitCode.OK, None), (3, 0, ExitCode.OK, None),
    ]  # fmt: skip
    assert [one.progress.next_offset for one in outcomes] == [11, 2, 8]


def test_replay_sends_aborted_records_with_read_uncommitted(disk):
    cluster = RecordingCluster()
    read = ReadRequest(isolation=Isolation.READ_UNCOMMITTED)
    run(request(disk, selection=Selection(frozenset({"orders"}), frozenset({0})), read=read), cluster)
    assert cluster.logs == {("orders", 0): wanted("orders", 0, [0, 1, 2, 3, 4, 6, 9, 10])}


def test_ranges_selections_and_names(disk):
    cluster = RecordingCluster()
    read = ReadRequest(2, to_offset=10, isolation=Isolation.READ_COMMITTED)
    run(request(disk, renames={"orders": "again"}, read=read), cluster)
    assert cluster.logs == {
        ("again", 0): wanted("orders", 0, [2, 6, 9]), ("again", 1): [], ("payments", 0): wanted("payments", 0)
    }  # fmt: skip


def test_replay_of_a_time_range_sends_its_records(disk):
    cluster = RecordingCluster()
    read = ReadRequest(from_time_ms=T + 6, until_ms=T + 10, isolation=Isolation.READ_COMMITTED)
    run(request(disk, read=read), cluster)
    assert cluster.logs == {
        ("orders", 0): wanted("orders", 0, [6, 9]), ("orders", 1): [],
        ("payments", 0): wanted("payments", 0, [6, 7]),
    }  # fmt: skip


def test_topics_get_the_partitions_and_settings_of_the_metadata_log(disk):
    metadata_log(disk)
    cluster, notes = RecordingCluster(), []
    run(request(disk), cluster, notes=notes)
    assert cluster.settings == {"orders": {"cleanup.policy": "compact"}, "payments": {}}
    assert [number for topic, number in cluster.logs if topic == "orders"] == [0, 1, 2, 3]
    assert [note.kind for note in notes] == []


def test_the_best_copy_is_sent(disk, tmp_path):
    other = tmp_path / "other"
    write(other / "orders-1", plain([0, 1, 2], number=1))
    cluster = RecordingCluster()
    run(request(disk, other), cluster)
    assert cluster.logs["orders", 1] == wanted("orders", 1, [0, 1, 2])


def test_offsets_of_groups_are_translated(disk):
    cluster = RecordingCluster()
    found = of_type(ReplayedOffset, run(request(disk, with_groups=True), cluster))
    rows = {(one.committed.group_id, one.target_topic, one.committed.partition, one.committed.offset,
             one.target_offset) for one in found}  # fmt: skip
    assert rows == TRANSLATED
    assert cluster.groups == {
        "a": {("orders", 0): (3, "m"), ("orders", 1): (2, "m")},
        "b": {("orders", 0): (4, "m"), ("payments", 0): (0, "m")},
        "d": {("orders", 0): (3, "m")},
    }


def test_an_offset_in_the_cluster_stays(disk):
    cluster = RecordingCluster()
    cluster.groups = {"a": {("orders", 0): (1, "")}}
    found = of_type(ReplayedOffset, run(request(disk, with_groups=True), cluster))
    assert [one.kept_offset for one in found if one.committed.group_id == "a"] == [1, None]
    assert cluster.groups["a"] == {("orders", 0): (1, ""), ("orders", 1): (2, "m")}


def test_the_state_is_saved_once_a_second(disk, monkeypatch):
    saved = []
    monkeypatch.setattr(ReplayState, "save", lambda _: saved.append(1))
    for seconds, of_records in ((0, 1), (0.5, 6), (1, 11)):
        saved.clear()
        run(request(disk), RecordingCluster(), seconds=seconds)
        assert len(saved) == of_records + 3 * 3  # before the first record of each partition, after the last, at its end


def test_a_first_run_reads_nothing_back(disk, monkeypatch):
    monkeypatch.setattr(RecordingCluster, "records", None)
    run(request(disk), cluster := RecordingCluster())
    check_complete(cluster)


def runs_until_done(disk, asked, end, seconds, cluster=None):
    """Run with a life that ends at call `end`, then without an end; return the cluster and whether it was killed."""
    cluster = cluster or RecordingCluster()
    cluster.life = Life(end)
    is_killed = False
    try:
        run(asked, cluster, MortalFilesystem(RealFilesystem(), cluster.life), seconds=seconds)
    except Killed:
        is_killed = True
        for path in disk.parent.glob("*.kafkalog"):  # a killed process leaves its temporary file
            path.unlink()
    cluster.life = Life()
    run(asked, cluster)
    return cluster, is_killed


@pytest.mark.exhaustive
@pytest.mark.parametrize("seconds", [0, 1])
def test_a_kill_at_any_call_loses_and_doubles_nothing(disk, evidence, seconds):
    """At each acknowledgement, each record that is sent, each system call of the state, each request of the cluster."""
    end = 0
    asked = request(disk, with_groups=True)
    is_killed = True
    while is_killed:
        end += 1
        (disk.parent / "replay.state").unlink(missing_ok=True)
        cluster, is_killed = runs_until_done(disk, asked, end, seconds)
        check_complete(cluster)
        assert cluster.groups["a"] == {("orders", 0): (3, "m"), ("orders", 1): (2, "m")}, end
        assert cluster.groups["b"] == {("orders", 0): (4, "m"), ("payments", 0): (0, "m")}, end
    evidence("R61", end - 1, 2)


def test_replay_killed_again_and_again_loses_and_doubles_nothing(disk):
    asked = request(disk, with_groups=True)
    for step in (5, 7, 11):
        (disk.parent / "replay.state").unlink(missing_ok=True)
        cluster, kills = RecordingCluster(), 0
        while True:
            cluster.life = Life(step + kills)
            try:
                run(asked, cluster, MortalFilesystem(RealFilesystem(), cluster.life))
                break
            except Killed:
                kills += 1
        assert kills > 3
        check_complete(cluster)


@pytest.fixture
def alike(tmp_path):
    """Both partitions have the same records of the same time: five keys, and two records in a row without a key."""
    keys = [b"a", b"b", None, None, b"c", b"a", b"d", b"a", b"e", b"b"]
    for number in (0, 1):
        records = [R(at, T, key, b"v" if key is None else b"%d" % at) for at, key in enumerate(keys)]
        write(tmp_path / "disk" / f"t-{number}", (batch_v2(records[:6]), 0, 5), (batch_v2(records[6:]), 6, 9))
    return tmp_path / "disk"


def by_key(log_dir, count, hashing):
    """The contents of each partition of the cluster. Records without a key keep their partition."""
    found = {("t", number): [] for number in range(count)}
    for source in (0, 1):
        for _, key, content in read_records(log_dir, "t")[source]:
            number = source % count if key is None else partition_of_key(key, count, hashing)
            found["t", number].append(SentRecord(key, content, (), T))
    return found


@pytest.mark.parametrize("hashing", [Hashing.MURMUR2_RANDOM, Hashing.CRC32])
@pytest.mark.parametrize("count", [1, 2, 6])
def test_a_partitioner_sends_records_to_the_partitions_of_their_keys(alike, count, hashing):
    cluster, notes = RecordingCluster({"t": count}), []
    done = of_type(ReplayedPartition, run(request(alike, partitioner=hashing), cluster, notes=notes))
    assert cluster.logs == by_key(alike, count, hashing)
    assert [one.sent for one in done] == [10, 10]
    assert notes == []
    again = of_type(ReplayedPartition, run(request(alike, partitioner=hashing), cluster))
    assert [one.sent for one in again] == [0, 0]


def test_records_without_a_key_go_to_the_partition_of_an_empty_key_if_the_partitioner_says_so(alike):
    cluster = RecordingCluster({"t": 6})
    run(request(alike, partitioner=Hashing.MURMUR2), cluster)
    number = partition_of_key(b"", 6, Hashing.MURMUR2)
    assert [one.key for one in cluster.logs["t", number]].count(None) == 4


@pytest.mark.exhaustive
@pytest.mark.parametrize("seconds", [0, 1])
@pytest.mark.parametrize("count", [1, 4])
def test_a_kill_at_any_call_of_a_partitioned_replay_loses_and_doubles_nothing(alike, count, seconds):
    asked = request(alike, partitioner=Hashing.MURMUR2_RANDOM)
    wanted_logs, end, is_killed = by_key(alike, count, Hashing.MURMUR2_RANDOM), 0, True
    while is_killed:
        end += 1
        (alike.parent / "replay.state").unlink(missing_ok=True)
        cluster = RecordingCluster({"t": count})
        cluster, is_killed = runs_until_done(alike, asked, end, seconds, cluster)
        assert cluster.logs == wanted_logs, end
    assert end > 30


def test_a_partitioned_replay_killed_again_and_again_loses_and_doubles_nothing(alike):
    asked = request(alike, partitioner=Hashing.MURMUR2_RANDOM)
    cluster, kills = RecordingCluster({"t": 3}), 0
    while True:
        cluster.life = Life(9 + kills)
        try:
            run(asked, cluster, MortalFilesystem(RealFilesystem(), cluster.life))
            break
        except Killed:
            kills += 1
    assert kills > 3
    assert cluster.logs == by_key(alike, 3, Hashing.MURMUR2_RANDOM)


def test_replay_stops_partitions_that_share_target_partitions_with_a_failed_one(alike):
    """Their records are equal: the second run would take those of t-1 for those of t-0."""
    asked = request(alike, partitioner=Hashing.MURMUR2_RANDOM)
    cluster = RecordingCluster({"t": 3}, refuses=lambda one: one.value == b"7")
    first, second = of_type(ReplayedPartition, run(asked, cluster))
    assert isinstance(first.error, NotSent)
    assert "it is sent after t-0, which is not complete in the cluster" in str(second.error)
    assert (first.sent, second.sent) == (7, 0)
    cluster.refuses = lambda one: False
    assert [one.code for one in of_type(ReplayedPartition, run(asked, cluster))] == [ExitCode.OK] * 2
    assert cluster.logs == by_key(alike, 3, Hashing.MURMUR2_RANDOM)


def test_a_partitioned_replay_refuses_a_topic_that_got_more_partitions(alike):
    asked = request(alike, partitioner=Hashing.MURMUR2_RANDOM)
    cluster = RecordingCluster({"t": 3})
    run(asked, cluster)
    cluster.logs["t", 3] = []
    with pytest.raises(Refused, match="t has 4 partitions in the cluster, and had 3 when the replay began"):
        run(asked, cluster)
    with pytest.raises(Refused, match="another partitioner"):
        run(replace(asked, partitioner=Hashing.CRC32), cluster)


def test_records_of_others_in_between_do_not_matter(disk):
    asked, cluster = request(disk), RecordingCluster({"orders": 2, "payments": 1})
    foreign = SentRecord(b"x", b"foreign", (), T)
    cluster.logs["orders", 0].append(foreign)
    cluster.life = Life(11)
    with pytest.raises(Killed):
        run(asked, cluster, MortalFilesystem(RealFilesystem(), cluster.life))
    assert foreign.value in [one.value for one in cluster.logs["orders", 0]]
    cluster.logs["orders", 0].insert(2, foreign)
    cluster.logs["orders", 0].append(foreign)
    cluster.life = Life()
    (first, *_) = of_type(ReplayedPartition, run(asked, cluster))
    assert first.recognised > 0
    assert [one for one in cluster.logs["orders", 0] if one != foreign] == wanted("orders", 0)


def test_a_second_run_sends_nothing(disk):
    cluster = RecordingCluster()
    run(request(disk), cluster)
    assert [one.sent for one in of_type(ReplayedPartition, run(request(disk), cluster))] == [0, 0, 0]
    check_complete(cluster)


def test_a_refused_record_stops_its_partition_and_no_other(disk):
    cluster = RecordingCluster(refuses=lambda one: one == sent(6))
    outcomes = run(request(disk, with_groups=True), cluster)
    first, *rest = of_type(ReplayedPartition, outcomes)
    assert isinstance(first.error, NotSent)
    assert "offset 6" in str(first.error)
    assert [one.code for one in rest] == [ExitCode.OK, ExitCode.OK]
    assert cluster.logs["orders", 0] == wanted("orders", 0, [0, 1, 2])
    assert "orders" in {topic for topic, _ in cluster.groups["a"]}
    assert ("orders", 0) not in cluster.groups["a"]
    cluster.refuses = lambda one: False
    run(request(disk, with_groups=True), cluster)
    check_complete(cluster)
    assert cluster.groups["a"] == {("orders", 0): (3, "m"), ("orders", 1): (2, "m")}


def test_damage_is_left_out_and_reported(disk):
    log = disk / "orders-1" / "00000000000000000000.log"
    damaged = bytearray(batch_v2([record(0, number=1)]))
    damaged[-1] ^= 1
    log.write_bytes(bytes(damaged) + batch_v2([record(1, number=1)]))
    cluster, notes = RecordingCluster(), []
    outcomes = of_type(ReplayedPartition, run(request(disk), cluster, notes=notes))
    assert outcomes[1].code is ExitCode.CORRUPTION
    assert cluster.logs["orders", 1] == wanted("orders", 1, [1])
    assert [note.path for note in notes if note.kind == "crc-mismatch"] == [str(log)]


def test_the_timestamp_0_is_reported(disk):
    write(disk / "zero-0", (batch_v2([R(0, 0, b"k", b"v")]), 0, 0))
    cluster, notes = RecordingCluster(), []
    run(request(disk), cluster, notes=notes)
    assert cluster.logs["zero", 0] == [SentRecord(b"k", b"v", (), 1)]
    assert "timestamp" in [note.kind for note in notes]


@pytest.mark.parametrize(
    ("options", "topics", "error", "text"),
    [
        ({"creates": False}, {}, Refused, "--create creates it"),
        ({}, {"orders": 1}, Refused, "--alter --topic orders --partitions 2"),
        ({"with_groups": True, "partitioner": Hashing.CRC32}, {}, UsageError, "--groups cannot be combined with"),
        ({"renames": {"orders": "payments"}}, {}, UsageError, "orders and payments would become one topic"),
        ({"renames": {"order": "x"}}, {}, UsageError, "no topic order is sent"),
        ({"renames": {"orders": "a/b"}}, {}, UsageError, "not a valid name"),
        ({"selection": Selection(frozenset({"__consumer_offsets"}))}, {}, UsageError, "only brokers write"),
    ],
)
def test_refusals_before_anything_is_sent(disk, options, topics, error, text):
    cluster = RecordingCluster(topics)
    with pytest.raises(error, match=text):
        run(request(disk, **options), cluster)
    assert not any(cluster.logs.values())
    assert not (disk.parent / "replay.state").exists()


@pytest.mark.parametrize(
    ("here", "there", "kinds"), [(4, 6, ["partitions"]), (4, 4, []), (2, 2, []), (2, 3, ["partitions"])]
)
def test_replay_warns_of_a_topic_with_another_number_of_partitions(disk, here, there, kinds):
    if here == 4:  # else there is no metadata log, and the directories count
        metadata_log(disk)
    notes = []
    run(request(disk), RecordingCluster({"orders": there, "payments": 1}), notes=notes)
    assert [note.kind for note in notes] == kinds


def test_notes_about_the_cluster(disk):
    cluster, notes = RecordingCluster({"orders": 2, "payments": 1}), []
    cluster.settings["orders"] = {"message.timestamp.type": "LogAppendTime"}
    cluster.settings["payments"] = {"retention.ms": "59995", "cleanup.policy": "delete"}
    run(request(disk), cluster, notes=notes)
    assert [note.kind for note in notes] == ["timestamps"]  # the first record of payments is old enough to the ms
    cluster.settings["payments"]["retention.ms"] = "59994"
    notes.clear()
    run(request(disk), cluster, notes=notes)
    assert [note.kind for note in notes] == ["timestamps", "retention"]
    cluster.settings["payments"]["retention.ms"] = "0"  # nothing is kept, and only a negative number is no limit
    notes.clear()
    run(request(disk), cluster, notes=notes)
    assert [note.kind for note in notes] == ["timestamps", "retention"]


def test_the_state_belongs_to_one_replay(disk):
    asked, cluster = request(disk), RecordingCluster()
    run(asked, cluster)
    with pytest.raises(Refused, match="another groups"):
        run(replace(asked, with_groups=True), cluster)
    cluster.cluster_id = "another"
    with pytest.raises(Refused, match="another cluster"):
        run(asked, cluster)
    cluster.cluster_id = "recording"
    cluster.logs["orders", 0].clear()
    with pytest.raises(Refused, match="deleted or truncated"):
        run(asked, cluster)
    with ReplayState(RealFilesystem(), asked.state_path, asked.identity("recording")), pytest.raises(Locked):
        list(Replay(context(), replace(asked, paths=[str(disk / "payments-0")]), cluster, print).run())


@pytest.mark.parametrize("change", ["cut", "format", "negative", "translated", "number"])
def test_other_files_are_no_states(disk, change):
    asked, cluster = request(disk), RecordingCluster()
    run(asked, cluster)
    path = disk.parent / "replay.state"
    document = json.loads(path.read_bytes())
    if change == "format":
        document["format"] = "kafkalog.replay-state/2"
    elif change == "negative":
        document["partitions"][0]["next_offset"] = -1
    elif change == "translated":
        document["partitions"][0]["translated"] = [[1, 2, 3]]
    elif change == "number":
        document["partitions"][0]["partition"] = 1 << 31
    text = json.dumps(document)
    path.write_text(text[:-3] if change == "cut" else text)
    with pytest.raises(BadInput, match="not a state of kafkalog replay"):
        run(asked, cluster)


def test_the_state_is_no_file_of_a_broker(disk):
    (disk / "meta.properties").write_text("version=1\n")
    with pytest.raises(Refused, match="which is a broker's"):
        run(replace(request(disk), state_path=str(disk / "replay.state")), RecordingCluster())


def test_replay_waits_for_its_limit_of_bytes_per_second(disk):
    waits = []
    clock = iter(range(1000))
    here = Context(RealFilesystem(), now_ms=lambda: NOW_MS, clock=lambda: next(clock) / 1e6, sleep=waits.append)
    cluster = RecordingCluster()
    list(Replay(here, request(disk, bytes_per_second=100), cluster, print).run())
    contents = [len(one.key or b"") + len(one.value or b"") for log in cluster.logs.values() for one in log]
    assert sum(contents) / 100 == pytest.approx(sum(waits[-1:]), abs=0.01)


def test_the_library_returns_what_was_sent(disk):
    cluster = RecordingCluster()
    state = disk.parent / "replay.state"
    with pytest.warns(kl.LogWarning, match="unknown without a metadata log"):
        done = kl.replay(disk, to=cluster, state=state, create=True, groups=True, topics=["orders"])
    assert done.exit_code is ExitCode.OK
    assert [one.sent for one in done.results if isinstance(one, ReplayedPartition)] == [6, 2]
    assert cluster.groups["a"] == {("orders", 0): (3, "m"), ("orders", 1): (2, "m")}


def test_the_library_takes_a_partitioner(alike):
    cluster = RecordingCluster({"t": 6})
    done = kl.replay(alike, to=cluster, state=alike.parent / "replay.state", partitioner="crc32")
    assert done.exit_code is ExitCode.OK
    assert cluster.logs == by_key(alike, 6, Hashing.CRC32)


def test_replay_sends_the_messages_of_a_log_of_kafka_07(corpus, tmp_path):
    cluster = RecordingCluster()
    log_dir = corpus / "format-0.7" / "data"
    asked = ReplayRequest([str(log_dir / "mixed-0")], str(tmp_path / "state"), creates=True)
    (done,) = run(asked, cluster)
    assert list(cluster.logs) == [("mixed", 0)]
    assert [one.value for one in cluster.logs["mixed", 0]] == [
        value for _, _, value in read_records(log_dir, "mixed")[0]
    ]
    assert {one.timestamp_ms for one in cluster.logs["mixed", 0]} == {-1}
    assert done.sent == len(cluster.logs["mixed", 0]) > 0


class FullDisk:
    """In place of a life: each call that changes the disk fails."""

    def step(self):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_without_a_state_on_the_disk_nothing_is_sent(disk):
    cluster = RecordingCluster()
    outcomes = of_type(ReplayedPartition, run(request(disk), cluster, MortalFilesystem(RealFilesystem(), FullDisk())))
    assert {one.code for one in outcomes} == {ExitCode.NO_SPACE}
    assert str(disk.parent / "replay.state") in str(outcomes[0].error)
    assert not any(cluster.logs.values())
