"""Partitions by key: Kafka's murmur2, asked for; where producers hash otherwise, nothing may be pruned."""

import json
import zlib

import pytest

from kafkalog_cli.errors import UsageError
from kafkalog_cli.ops.append.partitioning import partition_of_key
from tests.spark.spark_reading import rows, subset, tasks
from tests.support.logs import BASE_TIME_MS, R, batch_v2

KEYS = [f"key-{number}".encode() for number in range(40)]
COUNT = 6


def topic(folder, partition_for):
    """A topic of COUNT partitions with a record for each key."""
    for number in range(COUNT):
        (folder / f"orders-{number}").mkdir()
        found = [key for key in KEYS if partition_for(key) == number]
        made = [R(offset, BASE_TIME_MS, key, b"v") for offset, key in enumerate(found)]
        (folder / f"orders-{number}" / f"{0:020d}.log").write_bytes(batch_v2(made) if made else b"")
    return folder


def librdkafka(key):
    """Its default, consistent_random: CRC-32 of the key."""
    return zlib.crc32(key) % COUNT


def keys(folder, *wanted, **options):
    """The keys that are read and wanted, and how many partitions are read."""
    _, parts = tasks(folder, subset("key"), **options)
    found = rows(folder, subset("key"), **options).column("key").to_pylist()
    return [key for key in found if key in wanted], sum(len(part.value) for part in parts)


def murmur2_of(*wanted):
    texts = json.dumps([key.decode() for key in wanted])
    return {"keys": texts, "partitioner": "murmur2", "numPartitions": str(COUNT)}


def test_only_the_partition_of_a_key_is_read(tmp_path):
    topic(tmp_path, lambda key: partition_of_key(key, COUNT))
    for key in KEYS[:10]:
        assert keys(tmp_path, key, **murmur2_of(key)) == ([key], 1)
        assert keys(tmp_path, key) == ([key], COUNT)
        assert keys(tmp_path, key, partitioner="murmur2") == ([key], COUNT)
    some = KEYS[:2]
    found, read = keys(tmp_path, *some, **murmur2_of(*some))
    assert (sorted(found), read) == (some, len({partition_of_key(key, COUNT) for key in some}))


def test_a_topic_of_librdkafka_is_not_pruned_by_default(tmp_path):
    topic(tmp_path, librdkafka)
    elsewhere = [key for key in KEYS if librdkafka(key) != partition_of_key(key, COUNT)]
    assert len(elsewhere) > 20
    for key in elsewhere[:10]:
        assert keys(tmp_path, key) == ([key], COUNT)
        # What somebody would lose who says murmur2 of such a topic.
        assert keys(tmp_path, key, **murmur2_of(key)) == ([], 1)
    with pytest.raises(UsageError, match="nothing says how producers chose them: add option"):
        tasks(tmp_path, keys='["key-1"]')


@pytest.mark.parametrize("name", ["crc32", "consistent", "consistent_random"])
def test_only_the_partition_of_a_key_of_librdkafka_is_read(tmp_path, name):
    topic(tmp_path, librdkafka)
    for key in KEYS[:10]:
        assert keys(tmp_path, key, **{**murmur2_of(key), "partitioner": name}) == ([key], 1)
    read = 1 if name == "consistent" else COUNT  # else librdkafka puts records with an empty key anywhere
    assert keys(tmp_path, b"", **{**murmur2_of(b""), "partitioner": name})[1] == read


def test_how_many_partitions_there_are(tmp_path):
    topic(tmp_path, lambda key: partition_of_key(key, COUNT))
    with pytest.raises(UsageError, match=r"how many partitions orders has is in no metadata beside it; give option"):
        tasks(tmp_path, keys='["key-0"]', partitioner="murmur2")
    with pytest.raises(UsageError, match="orders-3 is there, but orders is said to have 3 partitions"):
        tasks(tmp_path, keys='["key-0"]', partitioner="murmur2", numPartitions="3")
    assert tasks(tmp_path, partitioner="murmur2")[1]  # without keys nobody asks


@pytest.mark.parametrize("text", ["key-0", "[]", "[7]", '{"a":1}'])
def test_keys_that_are_no_list_of_texts(tmp_path, text):
    with pytest.raises(UsageError, match="keys is a JSON list of texts"):
        tasks(topic(tmp_path, librdkafka), keys=text, partitioner="murmur2")


def test_as_many_as_the_metadata_says(corpus):
    log_dir = next(path.parent for path in sorted(corpus.rglob("__cluster_metadata-0")) if list(path.glob("*.log")))
    topics = {path.name.rpartition("-")[0] for path in log_dir.iterdir() if path.is_dir() and path.name[0] != "_"}
    assert topics
    name = min(topics)
    _, parts = tasks(log_dir, keys='["k"]', subscribe=name, partitioner="murmur2")
    assert sum(len(part.value) for part in parts) <= 1
