"""Partitions by librdkafka's hashes of the key, of lines of `kcat -J` (what is read and refused of them: kcat.md)."""

import json
import zlib

import pytest

from tests.support.commands import kafkalog
from tests.support.product import Hashing, partition_of_key

COUNT = 6
TS = 1_700_000_000_000
KEYS = [f"key-{number}" for number in range(30)]


def line(key, payload=b"v", offset=0, partition=0):
    """A line as kcat writes it."""
    fields = {"topic": "orders", "partition": partition, "offset": offset, "tstype": "create", "ts": TS + offset}
    text = None if key is None else key.decode()
    return json.dumps({**fields, "broker": 1, "key": text, "payload": payload.decode()}).encode() + b"\n"


def records(path):
    code, out, err = kafkalog("read", path, "--format", "json")
    assert code == 0, err
    return [one for one in map(json.loads, out.splitlines()) if one["type"] == "record"]


def octets(field):
    return None if field is None else field["data"].encode()


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def appended(path, *options, stdin):
    return kafkalog("append", path, "--single-replica", *options, stdin=stdin)


def librdkafka(key, name):
    """rd_kafka_msg_partitioner_consistent and _fnv1a, written from their description."""
    if name in ("crc32", "consistent", "consistent_random"):
        return zlib.crc32(key) % COUNT
    found = 0x811C9DC5
    for byte in key:
        found = (found ^ byte) * 16777619 % 2**32
    return (found if found < 2**31 else 2**32 - found) % COUNT


@pytest.mark.parametrize("name", ["crc32", "consistent", "consistent_random", "fnv1a", "fnv1a_random"])
@pytest.mark.parametrize("command", ["append", "import"])
def test_keys_go_where_producers_of_librdkafka_put_them(root, command, name):
    data = b"".join(line(key.encode(), offset=at) for at, key in enumerate(KEYS))
    if command == "append":
        for number in range(COUNT):
            assert appended(root / f"orders-{number}", stdin=b'{"value":null}\n')[0] == 0
        argv = [root / f"orders-{number}" for number in range(1, COUNT)]
        code, _, err = appended(root / "orders-0", *argv, "--input", "kcat", "--partitioner", name, stdin=data)
    else:
        (root.parent / "orders.json").write_bytes(data)
        code, _, err = kafkalog(
            "import", root.parent / "orders.json", "--log-dir", root, "--partitions", COUNT, "--partitioner", name
        )
    assert code == 0, err
    for number in range(COUNT):
        wanted = [key.encode() for key in KEYS if librdkafka(key.encode(), name) == number]
        path = root / f"orders-{number}"
        found = [octets(one["key"]) for one in records(path)] if path.exists() else []
        assert [key for key in found if key is not None] == wanted


@pytest.mark.parametrize(
    ("name", "null", "empty"),
    [
        ("murmur2_random", True, False), ("murmur2", False, False), ("consistent", False, False),
        ("consistent_random", True, True), ("crc32", True, True), ("fnv1a", False, False), ("fnv1a_random", True, False),
    ],
)  # fmt: skip
def test_records_without_a_key_are_spread_as_librdkafka_spreads_them(root, name, null, empty):
    """Spread records stay in the partition that the input names, others go where the hash of an empty key is."""
    of_empty = partition_of_key(b"", COUNT, Hashing(name))
    own = (of_empty + 1) % COUNT
    (root.parent / "orders.json").write_bytes(line(None, b"null", 0, own) + line(b"", b"empty", 1, own))
    code, _, err = kafkalog(
        "import", root.parent / "orders.json", "--log-dir", root, "--partitions", COUNT, "--partitioner", name
    )
    assert code == 0, err
    found = {
        octets(one["value"]): number
        for number in range(COUNT)
        if (root / f"orders-{number}").exists()
        for one in records(root / f"orders-{number}")
    }
    assert found == {b"null": own if null else of_empty, b"empty": own if empty else of_empty}


@pytest.mark.parametrize(
    "name", ["murmur2", "murmur2_random", "consistent", "consistent_random", "fnv1a", "fnv1a_random"]
)
def test_the_hashes_are_those_of_librdkafka_itself(name):
    """Against its own mock of a cluster, whose topics have four partitions."""
    kafka = pytest.importorskip("confluent_kafka")
    producer = kafka.Producer(
        {"test.mock.num.brokers": 1, "bootstrap.servers": "x", "partitioner": name, "log_level": 0}
    )
    found = {}
    count = len(producer.list_topics("t", timeout=20).topics["t"].partitions)
    keys = [*map(str.encode, KEYS), b"\xff\x80", *([b""] if name != "consistent_random" else [])]
    for key in keys:
        producer.produce(
            "t", b"v", key, on_delivery=lambda _, message: found.update({message.key() or b"": message.partition()})
        )
    producer.flush(20)
    assert found == {key: partition_of_key(key, count, Hashing(name)) for key in keys}
