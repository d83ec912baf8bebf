"""Tables of what log directories hold besides records: coordinators' state, cluster metadata, batches, segments."""

import shutil
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.errors import DamagedLog
from kafkalog_cli.format.internal_topics.records import CoordinatorRecord
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.ops.tables import cluster
from kafkalog_cli.ops.tables.batches import batches, segments
from kafkalog_cli.ops.tables.coordinator_log import (
    CoordinatorEntry,
    TransactionPartitions,
    committed_offsets,
    coordinator_entries,
    offset_commits,
    transactions,
)
from kafkalog_cli.ops.tables.groups import Assigned, group_members, groups
from tests.support.coordinator_logs import commit, commit_key, value
from tests.support.logs import BASE_TIME_MS, TRANSACTIONAL, R, batch_v2, end_marker, message_set
from tests.support.product import RealFilesystem

FS = RealFilesystem()


def fail(damage):
    raise damage


def log(folder, data, topic="__consumer_offsets", partition=3):
    (folder / f"{topic}-{partition}").mkdir(parents=True)
    (folder / f"{topic}-{partition}" / f"{0:020d}.log").write_bytes(data)
    return open_partition(FS, str(folder / f"{topic}-{partition}"))


def entry(at, producer, record):
    return CoordinatorEntry(at, -1, producer, 0, record)


def marker(at, producer, *, commits):
    return CoordinatorEntry(at, -1, producer, 0, None, commits)


def written(at, topic, offset, producer=-1):
    message = None if offset is None else {"offset": offset, "metadata": "", "commitTimestamp": -1}
    found = CoordinatorRecord(1, "OffsetCommit", {"group": "g", "topic": topic, "partition": 0}, 1, message)
    return entry(at, producer, found)


def held(*entries):
    return {one.topic: one.offset for one in committed_offsets(entries, 0)}


def test_offsets_of_transactions_count_from_their_commit_on():
    assert held(written(0, "a", 1, 7)) == {}
    assert held(written(0, "a", 1, 7), marker(1, 7, commits=False)) == {}
    assert held(written(0, "a", 1, 7), marker(1, 8, commits=True)) == {}
    assert held(written(0, "a", 1, 7), marker(1, 7, commits=True)) == {"a": 1}
    assert held(written(0, "a", 1, 7), written(1, "a", 2, 7), marker(2, 7, commits=True)) == {"a": 2}
    # A later commit stays, though the transaction ends behind it.
    assert held(written(0, "a", 1, 7), written(1, "a", 2), marker(2, 7, commits=True)) == {"a": 2}
    assert held(written(0, "a", 2), written(1, "a", 1, 7), marker(2, 7, commits=True)) == {"a": 1}


def test_tombstones_take_offsets_away_pending_ones_too():
    assert held(written(0, "a", 1), written(1, "b", 2), written(2, "a", None)) == {"b": 2}
    assert held(written(0, "a", 1, 7), written(1, "a", None), marker(2, 7, commits=True)) == {}
    assert held(written(0, "a", 1), written(1, "a", None), written(2, "a", 3)) == {"a": 3}


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from("ab"), st.none() | st.integers(0, 9), st.sampled_from([-1, 1, 2])),
            st.tuples(st.sampled_from([1, 2]), st.booleans()),
        ),
        max_size=12,
    )
)
def test_they_are_those_of_a_slow_reading(steps):
    """Without tombstones: the last by offset of what is of no transaction, or of a committed one."""
    steps = [one for one in steps if one[1] is not None]
    entries = [
        marker(at, one[0], commits=one[1]) if len(one) == 2 else written(at, one[0], one[1], one[2])
        for at, one in enumerate(steps)
    ]
    wanted = {}
    for at, one in enumerate(steps):
        if len(one) == 2:
            continue
        ends = (later[1] for later in steps[at:] if len(later) == 2 and later[0] == one[2])
        if one[2] == -1 or next(ends, False):
            wanted[one[0]] = one[1]
    assert held(*entries) == wanted


def test_commits_from_the_bytes_on(tmp_path):
    old = value(1, "OffsetCommitValue", offset=4, metadata="", commitTimestamp=5, expireTimestamp=6)
    data = batch_v2([R(0, BASE_TIME_MS, commit_key("g"), commit(1)), R(1, BASE_TIME_MS, commit_key("old"), old)])
    data += batch_v2([R(2, -1, commit_key("t"), commit(9))], producer=(7, 0, 0), bits=TRANSACTIONAL)
    data += batch_v2([R(3, BASE_TIME_MS, commit_key("g"), None), R(4, 0, struct.pack(">h", 99), b"of a newer Kafka")])
    data += end_marker(5, BASE_TIME_MS, (7, 0), 1)
    partition = log(tmp_path, data)
    found = list(committed_offsets(coordinator_entries(FS, partition, fail), 3))
    assert [tuple(one) for one in found] == [
        ("old", "orders", 0, 4, None, "", 5, 6, None, 3, 1),
        ("t", "orders", 0, 9, 5, "m", 77, None, None, 3, 2),
    ]
    commits = list(offset_commits(coordinator_entries(FS, partition, fail), 3))
    assert [(one.group_id, one.offset, one.is_tombstone, one.producer_id, one.timestamp) for one in commits] == [
        ("g", 1, False, None, BASE_TIME_MS),
        ("old", 4, False, None, BASE_TIME_MS),
        ("t", 9, False, 7, None),
        ("g", None, True, None, BASE_TIME_MS),
    ]


def test_what_cannot_be_decoded_is_damage(tmp_path):
    good = batch_v2([R(0, 0, commit_key("g"), commit(1))])
    data = good + batch_v2([R(1, 0, commit_key("g"), b"\0\3short")]) + batch_v2([R(2, 0, None, b"v")])
    partition = log(tmp_path, data)
    with pytest.raises(DamagedLog, match=rf"\.log: at byte {len(good)}: the record of offset 1: Could not read record"):
        list(coordinator_entries(FS, partition, fail))
    told = []
    assert [one.offset for one in coordinator_entries(FS, partition, told.append)] == [0]
    assert [one.details["first_offset"] for one in told] == [1, 2]


def test_the_state_of_a_real_broker(corpus):
    """What the clients did there is in the case's how.txt."""
    data = corpus / "internal" / "data"

    def entries(topic):
        return coordinator_entries(FS, open_partition(FS, str(data / f"{topic}-0")), fail)

    offsets = {
        (one.group_id, one.topic, one.partition): one for one in committed_offsets(entries("__consumer_offsets"), 0)
    }
    assert {at: one.offset for at, one in offsets.items()} == {
        ("g-classic", "in-a", 0): 25, ("g-classic", "in-a", 1): 0, ("g-static", "in-a", 0): 20,
        ("g-static", "in-a", 1): 0, ("g-new", "in-b", 0): 30, ("g-new2", "in-a", 0): 50, ("g-new2", "in-a", 1): 0,
        ("g-new2", "in-b", 0): 0, ("g-tx", "in-a", 0): 5,
    }  # fmt: skip
    found = {one.group_id: one for one in groups(entries("__consumer_offsets"), 0)}
    assert {name: (one.group_type, one.members) for name, one in found.items()} == {
        "g-classic": ("classic", 0), "g-static": ("classic", 1), "g-new": ("consumer", 0), "g-new2": ("consumer", 1),
        "sg-1": ("share", 0), "sg-2": ("share", 0),
    }  # fmt: skip
    assert (found["g-static"].protocol, found["g-static"].epoch, found["g-new"].epoch) == ("range", 1, 2)
    static, new = sorted(group_members(entries("__consumer_offsets"), 0), key=lambda one: one.group_type, reverse=False)
    assert (static.group_instance_id, static.assignment) == ("inst-1", (Assigned("in-a", None, (0, 1)),))
    assert (new.group_instance_id, new.member_state, new.subscribed_topics) == ("inst-2", "STABLE", ("in-a", "in-b"))
    metadata = cluster.furthest_metadata(FS, [str(data / "__cluster_metadata-0")], fail)
    ids = {one.topic_id: one.topic for one in cluster.topics(metadata)}
    assert {ids[one.topic_id]: one.partitions for one in new.assignment} == {"in-a": (0, 1), "in-b": (0,)}
    states = {one.transactional_id: one for one in transactions(entries("__transaction_state"), 0)}
    assert {name: (one.state, one.partitions) for name, one in states.items()} == {
        "tx-1": ("CompleteAbort", ()), "tx-2": ("CompleteCommit", ()),
        "tx-open": ("Ongoing", (TransactionPartitions("in-b", (0,)),)),
    }  # fmt: skip


def test_the_cluster_of_a_real_broker(corpus, tmp_path):
    path = corpus / "internal" / "data" / "__cluster_metadata-0"
    metadata = cluster.furthest_metadata(FS, [str(path)], fail)
    topics = {one.topic: one.partitions for one in cluster.topics(metadata)}
    assert topics == {
        "__consumer_offsets": 1, "__share_group_state": 1, "__transaction_state": 1, "in-a": 2, "in-b": 1,
    }  # fmt: skip
    settings = {(one.resource_type, one.resource_name, one.name): one.value for one in cluster.configs(metadata)}
    assert settings["TOPIC", "in-a", "retention.ms"] == "100000000"
    assert settings["GROUP", "sg-1", "share.auto.offset.reset"] == "earliest"
    assert [(one.topic, one.partition) for one in cluster.partitions(metadata)][-3:] == [
        ("in-a", 0),
        ("in-a", 1),
        ("in-b", 0),
    ]
    assert [one.broker_id for one in cluster.brokers(metadata)] == [1]
    assert {one.name: one.level for one in cluster.features(metadata)}["transaction.version"] == 2
    # A replica whose log was cut away: the snapshot has the state; one that is further counts.
    (tmp_path / "cut").mkdir()
    only_snapshot = tmp_path / "cut" / "__cluster_metadata-0"
    shutil.copytree(path, only_snapshot)
    for one in only_snapshot.glob("*.log"):
        one.unlink()
    (only_snapshot / f"{90:020d}.log").write_bytes(b"")
    of_snapshot = cluster.furthest_metadata(FS, [str(only_snapshot)], fail)
    assert {one.topic for one in cluster.topics(of_snapshot)} >= {"in-a", "in-b", "__consumer_offsets"}
    assert of_snapshot.end_offset == 90
    assert cluster.furthest_metadata(FS, [str(only_snapshot), str(path)], fail).end_offset == metadata.end_offset
    assert cluster.furthest_metadata(FS, [], fail) is None
    (log_file,) = path.glob("*.log")
    broken = bytearray(log_file.read_bytes())
    broken[300] ^= 1
    (only_snapshot / f"{90:020d}.log").unlink()
    next(only_snapshot.glob("*.checkpoint")).unlink()
    (only_snapshot / log_file.name).write_bytes(broken)
    with pytest.raises(DamagedLog, match="at byte"):
        cluster.furthest_metadata(FS, [str(only_snapshot)], fail)


def test_batches_good_and_bad(tmp_path):
    parts = [
        message_set([R(0, 5, b"k", b"v"), R(1, 6, b"k", b"v")], 1, 1),
        batch_v2([R(2, 7, b"k", b"v" * 40)]),
        end_marker(3, BASE_TIME_MS, (7, 2), 1),
        batch_v2([R(4, 7, b"k", b"v"), R(5, 7, b"k", b"v")], 4, producer=(7, 2, 11), bits=TRANSACTIONAL, epoch=5),
        batch_v2([R(6, 7, b"k", b"v")]),
    ]
    parts[1] = parts[1][:-3] + b"xyz"
    found = list(batches(FS, log(tmp_path, b"".join(parts), "orders", 2), fail))
    names = (
        "position",
        "base_offset",
        "last_offset",
        "records",
        "magic",
        "codec",
        "producer_id",
        "control",
        "crc_valid",
    )
    sizes = [sum(map(len, parts[:at])) for at in range(5)]
    assert [tuple(getattr(one, name) for name in names) for one in found] == [
        (sizes[0], None, 1, None, 1, "gzip", None, False, True),
        (sizes[1], 2, 2, 1, 2, "none", None, False, False),
        (sizes[2], 3, 3, 1, 2, "none", 7, True, True),
        (sizes[3], 4, 5, 2, 2, "zstd", 7, False, True),
        (sizes[4], 6, 6, 1, 2, "none", None, False, True),
    ]
    assert {(one.topic, one.partition, one.log_dir) for one in found} == {("orders", 2, str(tmp_path))}
    assert (found[2].max_timestamp, found[3].base_sequence, found[3].leader_epoch) == (BASE_TIME_MS, 11, 5)
    torn = log(tmp_path / "torn", parts[2] + b"\0" * 40 + parts[4] + parts[4][:20], "orders", 2)
    with pytest.raises(DamagedLog, match=f"at byte {len(parts[2])}: "):
        list(batches(FS, torn, fail))
    told = []
    assert [one.base_offset for one in batches(FS, torn, told.append)] == [3, 6]
    assert [one.details["position"] for one in told] == [len(parts[2]), len(parts[2]) + 40 + len(parts[4])]


def test_segments(corpus, tmp_path):
    partition = log(
        tmp_path, batch_v2([R(0, BASE_TIME_MS, b"k", b"v"), R(4, BASE_TIME_MS + 9, b"k", b"v")]), "orders", 2
    )
    (one,) = segments(FS, partition)
    assert (one.first_offset, one.next_offset, one.first_timestamp, one.max_timestamp) == (
        0, 5, BASE_TIME_MS, BASE_TIME_MS + 9,
    )  # fmt: skip
    assert (one.offset_index_bytes, one.is_active, one.format, one.log_dir) == (None, True, "v2", str(tmp_path))
    for folder in sorted((corpus / "internal" / "data").glob("in-*-[0-9]")):
        for row in segments(FS, open_partition(FS, str(folder))):
            assert row.size_bytes == (folder / row.segment).stat().st_size
            index = folder / row.segment.replace(".log", ".index")
            assert row.offset_index_bytes == index.stat().st_size
            assert row.problems == 0
