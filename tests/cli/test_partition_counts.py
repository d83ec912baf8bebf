"""Keys of new records go by the number of partitions that the metadata log has (what is refused: partitions.md)."""

import json
import zlib

import pytest
from kafka.partitioner.default import murmur2

from tests.support.commands import kafkalog
from tests.support.metadata_logs import batches, partition, topic_id, value

COUNT = 6
ID = topic_id(1)
KEYS = [str(number) * (1 + number % 5) for number in range(40)]  # of 1 to 10 bytes, as murmur2 takes 4 at a time
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
    (log_dir / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    (tmp_path / "rows.ndjson").write_text(LINES)
    return log_dir


def imported(root, *options):
    return kafkalog("import", root.parent / "rows.ndjson", "--log-dir", root, "--topic", "orders", *options)


def test_import_by_keys_goes_where_producers_look(root):
    code, _, err = imported(root, "--partitions", COUNT)
    assert code == 0, err
    assert "-stray" not in err
    for number in range(COUNT):
        _, out, _ = kafkalog("read", root / f"orders-{number}", "--format", "json")
        found = [one for one in map(json.loads, out.splitlines()) if one["type"] == "record"]
        assert [one["key"]["data"] for one in found] == [key for key in KEYS if of_key(key) == number]


@pytest.mark.parametrize("hash_of", [of_key, lambda key, count: zlib.crc32(key.encode()) % count])
@pytest.mark.parametrize("count", [4, COUNT])
def test_import_warns_of_keys_placed_for_another_number_of_partitions(root, hash_of, count):
    """As an export of a topic of four partitions names them."""
    rows = [{"key": key, "partition": hash_of(key, count), "offset": at} for at, key in enumerate(KEYS)]
    (root.parent / "rows.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, _, err = imported(root)
    assert code == 0, err
    assert ("do not fit the keys of" in err) == (count == 4)
    assert ("--partitions N places" in err) == (count == 4)
