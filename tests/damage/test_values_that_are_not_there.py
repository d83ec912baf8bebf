"""Messages v0 and v1 that are shorter than the length of their value: no command takes the value for an empty one.

A consumer and Kafka's cleaner throw (LegacyRecord.value: Utils.sizeDelimited). The checksum of the message is right.
"""

import gzip
import json
import struct
import zlib

import pytest

import kafkalog_cli as kl
from tests.support.commands import kafkalog

T0 = 1_700_000_000_000


def message(offset, magic, key, value, *, claims=None, codec=0):
    content = bytes((magic, codec)) + (struct.pack(">q", T0) if magic else b"")
    content += struct.pack(">i", -1 if key is None else len(key)) + (key or b"")
    content += struct.pack(">i", len(value) if claims is None else claims) + value
    content = struct.pack(">I", zlib.crc32(content)) + content
    return struct.pack(">qi", offset, len(content)) + content


@pytest.fixture(params=[(magic, packed, claims) for magic in (0, 1) for packed in (0, 1) for claims in (6, 1 << 30)])
def partition(request, tmp_path):
    """Offsets 0 to 2, of which 1 has a value of 5 bytes that claims more, and two more segments."""
    magic, is_packed, claims = request.param
    messages = [
        message(offset, magic, b"k%d" % offset, b"value", claims=claims * (offset == 1) or None) for offset in range(3)
    ]
    data = b"".join(messages)
    if is_packed:
        data = message(2, magic, None, gzip.compress(data), codec=1)
    directory = tmp_path / "logs" / "t-0"
    directory.mkdir(parents=True)
    (directory / f"{0:020}.log").write_bytes(data)
    for offset in (3, 4):
        (directory / f"{offset:020}.log").write_bytes(message(offset, magic, b"k0", b"later"))
    return directory


def shown(out):
    return [line for line in map(json.loads, out.splitlines()) if line["type"] == "record"]


def test_read_leaves_out_a_record_with_a_missing_value_and_reports_it(partition):
    code, out, err = kafkalog("read", partition, "--format", "ndjson")
    assert (code, [line["offset"] for line in shown(out)]) == (4, [0, 2, 3, 4])
    assert "a message is shorter than the length of its value: offset 1 is left out" in err
    code, out, err = kafkalog("read", partition)
    assert (code, out.split(), "offset 1 is left out" in err) == (4, ["value", "value", "later", "later"], True)
    code, out, _ = kafkalog("read", partition, "-f", "%o %S\\n", "--key", "k1")
    assert (code, out) == (4, "")


def test_lookups_show_no_empty_value(partition):
    for command in (("lookup-offset", partition, 1), ("lookup-time", partition, T0)):
        _, out, err = kafkalog(*command)
        assert "value:  (0 bytes)" not in out, out
    code, out, err = kafkalog("lookup-offset", partition, 1)
    assert "shorter than the length of its value" in out + err


def test_the_library_raises_or_leaves_out_a_record_with_a_missing_value(partition):
    log = kl.open_partition(partition)
    with pytest.raises(kl.DamagedLog, match="offset 1 is left out"):
        list(log.records())
    told = []
    batches = log.records(columns=["offset"], on_damage=told.append)
    assert [offset for batch in batches for offset in batch.column(0).to_pylist()] == [0, 2, 3, 4]
    assert len(told) == 1


def test_compact_does_not_write_an_empty_value(partition):
    before = {path.name: path.read_bytes() for path in partition.iterdir()}
    code, out, err = kafkalog("compact", partition, "--config", "cleanup.policy=compact", "--force")
    assert (code, "the message of offset 1 is shorter than the length of its value" in out + err) == (4, True), err
    assert before == {path.name: path.read_bytes() for path in partition.iterdir() if path.suffix == ".log"}


def test_compact_may_drop_a_record_with_a_missing_value_as_a_broker_does(partition):
    """A newer record of its key is known: nothing asks for the value."""
    magic = (partition / f"{3:020}.log").read_bytes()[16]
    (partition / f"{3:020}.log").write_bytes(message(3, magic, b"k1", b"later"))
    code, _, err = kafkalog("compact", partition, "--config", "cleanup.policy=compact", "--force")
    assert code == 0, err
    assert [line["offset"] for line in shown(kafkalog("read", partition, "--format", "ndjson")[1])] == [0, 2, 3, 4]
