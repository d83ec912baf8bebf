"""`kafkalog replay` on the command line: text, objects, exit codes; the cluster is in memory."""

import pytest

from tests.support.commands import kafkalog
from tests.support.product import replace_point
from tests.support.recording_cluster import RecordingCluster
from tests.support.schemas import check
from tests.unit.test_replay import check_complete, disk, sent, wanted  # noqa: F401 fixture


@pytest.fixture
def cluster(monkeypatch):
    one = RecordingCluster()
    replace_point(monkeypatch, "cluster that replay sends to", lambda _: lambda address, settings: one)
    return one


def words(disk, *more):  # noqa: F811
    return ("replay", disk, "--to", "kafka:9092", "--state", disk.parent / "replay.state", *more)


def test_the_plan_and_the_outcomes_as_text(disk, cluster):  # noqa: F811
    code, out, err = kafkalog(*words(disk, "--create", "--groups", "--dry-run", "--rename", "payments=paid"))
    assert code == 0
    assert out.splitlines() == [
        "create topic orders: 2 partitions",
        "create topic paid: 1 partition",
        f"send {disk}/orders-0 to orders-0: from offset 0, 568 bytes",
        f"send {disk}/orders-1 to orders-1: from offset 0, 104 bytes",
        f"send {disk}/payments-0 to paid-0: from offset 5, 138 bytes",
        "then commit 5 offsets of groups",
    ]
    assert err.count("is created with the cluster's settings") == 2
    assert not cluster.logs
    code, out, err = kafkalog(*words(disk, "--create", "--groups"))
    assert code == 0
    assert out.splitlines() == [
        f"{disk}/orders-0 to orders-0: 6 records sent, acknowledged up to offset 11",
        f"{disk}/orders-1 to orders-1: 2 records sent, acknowledged up to offset 2",
        f"{disk}/payments-0 to payments-0: 3 records sent, acknowledged up to offset 8",
        "group a, orders-0: offset 3 is 3 in the cluster",
        "group a, orders-1: offset 2 is 2 in the cluster",
        "group b, orders-0: offset 8 is 4 in the cluster",
        "group b, payments-0: offset 0 is 0 in the cluster",
        "group d, orders-0: offset 6 is 3 in the cluster",
    ]
    check_complete(cluster)
    code, out, _ = kafkalog(*words(disk, "--create", "--groups"))
    assert (code, out.count("0 records sent"), out.count("which stays")) == (0, 3, 5)


def test_a_partitioner_puts_keys_where_producers_look(disk, cluster):  # noqa: F811
    cluster.create_topic("orders", 6, {})
    more = ("--topic", "orders")
    code, _, err = kafkalog(*words(disk, *more, "--dry-run"))
    assert code == 0
    assert "With --partitioner murmur2_random (or the hash of the producers) they go where producers look" in err
    more = (*more, "--partitioner", "murmur2_random")
    code, out, err = kafkalog(*words(disk, *more, "--dry-run"))
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == f"send {disk}/orders-0 to 6 partitions of orders: from offset 0, 568 bytes"
    code, out, _ = kafkalog(*words(disk, *more, "--dry-run", "--format", "json"))
    assert (code, check(out.splitlines())) == (0, {"kafkalog.planned-replay/1", "kafkalog.summary/1"})
    code, out, _ = kafkalog(*words(disk, *more))
    assert code == 0
    assert f"{disk}/orders-1 to 6 partitions of orders: 2 records sent, acknowledged up to offset 2" in out
    places = {one.key: number for (_, number), log in cluster.logs.items() for one in log if one.key is not None}
    assert places == {b"k0": 5, b"k1": 5, b"k2": 3}  # Utils.murmur2 of kafka-clients 4.4.0
    code, out, _ = kafkalog(*words(disk, *more, "--format", "json"))
    assert (code, check(out.splitlines())) == (0, {"kafkalog.replayed/1", "kafkalog.summary/1"})


def test_replay_stops_a_partition_at_a_record_that_the_cluster_refuses(disk, cluster):  # noqa: F811
    cluster.refuses = lambda one: one == sent(6)
    code, out, err = kafkalog(*words(disk, "--create", "--topic", "orders", "--partition", "0"))
    assert code == 1
    assert out == f"{disk}/orders-0 to orders-0: 3 records sent, acknowledged up to offset 3, not complete\n"
    assert "the record of offset 6 was not acknowledged by recording: refused" in err
    assert cluster.logs["orders", 0] == wanted("orders", 0, [0, 1, 2])


def test_a_partition_that_waits_for_a_refused_record(disk, cluster):  # noqa: F811
    cluster.refuses = lambda one: one == sent(6)
    more = ("--create", "--topic", "orders", "--partitioner", "crc32", "--format", "json")
    code, out, err = kafkalog(*words(disk, *more))
    assert (code, check(out.splitlines())) == (5, {"kafkalog.replayed/1", "kafkalog.summary/1"})
    assert "it is sent after orders-0, which is not complete in the cluster: repeat the command when the cause" in err


@pytest.mark.parametrize(
    ("more", "code", "text"),
    [
        (("--rename", "orders"), 2, "--rename orders: OLD=NEW"),
        (("--from", "3", "--from-time", "-2h"), 2, "one of --from and --from-time"),
        (("--bytes-per-s", "x"), 2, "is not a size"),
        ((), 14, "--create creates it"),
        (("--topic", "nothing"), 10, "Topics here"),
    ],
)
def test_replay_refuses_wrong_options_before_it_sends(disk, cluster, more, code, text):  # noqa: F811
    found, out, err = kafkalog(*words(disk, *more))
    assert (found, out) == (code, "")
    assert text in err
    assert not cluster.logs
