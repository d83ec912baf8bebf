"""New records of a topic fit the partitions that the metadata log has: their number, and this broker's own."""

import json
import zlib

import pytest
from kafka.partitioner.default import murmur2

from tests.support.commands import kafkalog
from tests.support.metadata_logs import batches, partition, topic_id, value

COUNT = 6
ID, OTHER_ID = topic_id(1), topic_id(2)
KEYS = [f"key-{number}" for number in range(40)]
LINES = "".join(json.dumps({"key": key, "value": "v"}) + "\n" for key in KEYS)


def of_key(key, count=COUNT):
    return (murmur2(key.encode()) & 0x7FFFFFFF) % count


@pytest.fixture
def root(tmp_path):
    """A log directory of broker 1, whose metadata log has the topic `orders` of six partitions."""
    log_dir = tmp_path / "data"
    (log_dir / "__cluster_metadata-0").mkdir(parents=True)
    records = [value("TopicRecord", name="orders", topicId=ID), *(partition(ID, at) for at in range(COUNT))]
    (log_dir / "__cluster_metadata-0" / f"{0:020d}.log").write_bytes(batches([records])[0])
    broker_is(log_dir, 1)
    (tmp_path / "rows.ndjson").write_text(LINES)
    return log_dir


def broker_is(log_dir, node_id):
    (log_dir / "meta.properties").write_text(f"version=1\ncluster.id=c\nnode.id={node_id}\n")


def imported(root, *options, topic="orders"):
    return kafkalog("import", root.parent / "rows.ndjson", "--log-dir", root, "--topic", topic, *options)


def partitions(root):
    return sorted(path.name for path in root.glob("*-*") if not path.name.startswith("__"))


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
@pytest.mark.parametrize("count", [1, 4, 8])
def test_import_refuses_another_number_of_partitions_and_names_the_right_one(root, count, dry_run):
    code, _, err = imported(root, "--partitions", count, *dry_run)
    assert (code, partitions(root)) == (14, [])
    assert "has 6 partitions" in err
    assert "--partitions 6" in err


def test_import_by_keys_goes_where_producers_look(root):
    code, _, err = imported(root, "--partitions", COUNT)
    assert code == 0, err
    assert "-stray" not in err
    for number in range(COUNT):
        _, out, _ = kafkalog("read", root / f"orders-{number}", "--format", "json")
        found = [one for one in map(json.loads, out.splitlines()) if one["type"] == "record"]
        assert [one["key"]["data"] for one in found] == [key for key in KEYS if of_key(key) == number]


def test_import_refuses_a_partition_that_its_input_names_and_the_topic_does_not_have(root):
    (root.parent / "rows.ndjson").write_text('{"key":"a","partition":6,"offset":0}\n')
    code, _, err = imported(root)
    assert (code, partitions(root)) == (14, [])
    assert "no partition 6 of orders: it has 6 partitions, 0 to 5" in err


@pytest.mark.parametrize("hash_of", [of_key, lambda key, count: zlib.crc32(key.encode()) % count])
@pytest.mark.parametrize("count", [4, COUNT])
def test_keys_of_a_topic_with_another_number_of_partitions_are_said(root, hash_of, count):
    """As an export of a topic of four partitions names them."""
    rows = [{"key": key, "partition": hash_of(key, count), "offset": at} for at, key in enumerate(KEYS)]
    (root.parent / "rows.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, _, err = imported(root)
    assert code == 0, err
    assert ("do not fit the keys of" in err) == (count == 4)
    assert ("--partitions N places" in err) == (count == 4)


def test_import_refuses_a_number_below_the_partitions_that_are_there(root):
    (root / "plain-5").mkdir()
    code, _, err = imported(root, "--partitions", 4, topic="plain")
    assert (code, partitions(root)) == (14, ["plain-5"])
    assert "--partitions 6" in err


@pytest.mark.parametrize("command", ["append", "import"])
def test_a_broker_that_is_no_replica_gets_no_records(root, command):
    broker_is(root, 3)
    if command == "import":
        code, _, err = imported(root, "--partitions", COUNT, "--single-replica")
    else:
        code, _, err = kafkalog("append", root / "orders-1", "--single-replica", stdin=LINES.encode())
    assert (code, partitions(root)) == (14, [])
    assert "broker 3 is none of the replicas (1) of orders-" in err
    assert "-stray" in err


def test_append_refuses_to_make_a_partition_that_the_topic_does_not_have(root):
    code, _, err = kafkalog("append", root / "orders-6", "--single-replica", stdin=LINES.encode())
    assert (code, partitions(root)) == (14, [])
    assert "it has 6 partitions, 0 to 5" in err


@pytest.mark.parametrize("command", ["append", "import"])
def test_another_topic_id_than_the_metadata_log_has_is_refused(root, command):
    if command == "import":
        code, _, err = imported(root, "--partitions", COUNT, "--topic-id", OTHER_ID)
    else:
        code, _, err = kafkalog("append", root / "orders-1", "--topic-id", OTHER_ID, stdin=LINES.encode())
    assert (code, partitions(root)) == (2, [])
    assert ID in err
    assert "leave --topic-id out" in err
