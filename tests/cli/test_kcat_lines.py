"""Lines of `kcat -J` as input of append and import, and partitions by librdkafka's hashes of the key."""

import base64
import json
import zlib

import pytest

from tests.support.commands import kafkalog
from tests.support.product import Hashing, partition_of_key

COUNT = 6
TS = 1_700_000_000_000
KEYS = [f"key-{number}" for number in range(30)]


def line(key, payload=b"v", offset=0, partition=0, **more):
    """A line as kcat writes it: JSON in which keys and payloads are their raw bytes."""

    def quoted(data):
        if data is None:
            return b"null"
        text = data.decode("utf-8", "surrogateescape")
        return json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogateescape")

    fields = {
        "topic": "orders",
        "partition": partition,
        "offset": offset,
        "tstype": "create",
        "ts": TS + offset,
        "broker": 1,
        **more,
    }
    fields = {name: value for name, value in fields.items() if value is not None}
    return json.dumps(fields).encode()[:-1] + b',"key":' + quoted(key) + b',"payload":' + quoted(payload) + b"}\n"


def records(path):
    code, out, err = kafkalog("read", path, "--format", "json")
    assert code == 0, err
    return [one for one in map(json.loads, out.splitlines()) if one["type"] == "record"]


def octets(field):
    if field is None:
        return None
    return base64.b64decode(field["data"]) if field["encoding"] == "base64" else field["data"].encode()


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def appended(path, *options, stdin):
    return kafkalog("append", path, "--single-replica", *options, stdin=stdin)


BYTES = [b"plain", "größe".encode(), b"\xff\xfe\x00\x80", b"", None, b'a"b\\c\n']


@pytest.mark.parametrize("command", ["append", "import"])
def test_keys_payloads_and_headers_arrive_as_their_bytes(root, command):
    headers = [["h", "1", "h", None], [], None, {"a": ["1", "2"], "b": [None]}, None, None]
    lines = [
        line(key, payload, at, 2, headers=of)
        for at, (key, payload, of) in enumerate(zip(BYTES, BYTES[::-1], headers, strict=True))
    ]
    if command == "append":
        code, _, err = appended(root / "orders-2", "--input", "kcat", stdin=b"".join(lines))
    else:
        (root.parent / "orders.txt").write_bytes(b"".join(lines))
        code, _, err = kafkalog("import", root.parent / "orders.txt", "--log-dir", root, "--input", "kcat", "--prove")
    assert code == 0, err
    found = records(root / "orders-2")
    assert [(octets(one["key"]), octets(one["value"])) for one in found] == list(zip(BYTES, BYTES[::-1], strict=True))
    assert [one["timestamp_ms"] for one in found] == [TS + at for at in range(6)]
    assert [[(octets(h["key"]), octets(h["value"])) for h in one["headers"]] for one in found[:4]] == [
        [(b"h", b"1"), (b"h", None)], [], [], [(b"a", b"1"), (b"a", b"2"), (b"b", None)],
    ]  # fmt: skip


def test_import_knows_lines_of_kcat_and_keeps_their_offsets(root):
    """As kcat prints them, without an option."""
    data = b"".join(line(b"k", b"v%d" % at, 10 + 2 * at, at % 2) for at in range(6))
    (root.parent / "orders.json").write_bytes(data + line(b"\xff", b"\xff", 30, 1, tstype="logappend"))
    code, _, err = kafkalog("import", root.parent / "orders.json", "--log-dir", root)
    assert code == 0, err
    assert [one["offset"] for one in records(root / "orders-0")] == [10, 14, 18]
    assert [one["offset"] for one in records(root / "orders-1")] == [12, 16, 20, 30]
    assert records(root / "orders-1")[-1]["timestamp_type"] == "LogAppendTime"


def test_import_of_a_file_with_another_name_names_the_option(root):
    (root.parent / "lines.txt").write_text("{}\n")
    code, _, err = kafkalog("import", root.parent / "lines.txt", "--log-dir", root)
    assert code == 2
    assert "--input kcat" in err


def test_append_of_such_lines_without_the_option_names_it(root):
    for data in (line(b"k"), line(b"k", b"\xff")):
        code, _, err = appended(root / "orders-0", stdin=data)
        assert code in (1, 2)
        assert "--input kcat" in err
        assert "--input lines" not in err
        assert not (root / "orders-0").exists()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"key":{"id":1},"key_schema_id":3,"payload":"v"}', "-s avro"),
        (b'{"key":null,"payload":{"id":1}}', "-s avro"),
        (b'{"key":null,"payload":null,"payload_error":"x"}', "-s avro"),
        (b'{"key":null,"payload":"v","colour":1}', "colour"),
        (b'{"key":null,"payload":"v","headers":["a"]}', "headers"),
        (b'{"key":1,"payload":"v"}', "key"),
        (b'{"key":null,"payload":"v","ts":"x"}', "timestamp_ms"),
        (b'{"key":"a"}', "payload"),
        (b"plain", "no JSON"),
    ],
)
def test_lines_that_kcat_did_not_write_are_refused(root, data, said):
    code, _, err = appended(root / "orders-0", "--input", "kcat", stdin=data + b"\n")
    assert code in (1, 2)
    assert said in err
    assert not (root / "orders-0").exists()


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


def test_a_partitioner_without_partitions_to_choose_is_refused(root):
    (root.parent / "orders.json").write_bytes(line(b"k"))
    code, _, err = kafkalog("import", root.parent / "orders.json", "--log-dir", root, "--partitioner", "crc32")
    assert code == 2
    assert "--partitioner needs --partitions" in err
