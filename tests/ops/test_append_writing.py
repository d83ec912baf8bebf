"""How records are written: what no batch can hold, or contradicts itself, is refused the same way to all who append."""

import struct

import pytest

from kafkalog_cli.errors import UsageError
from kafkalog_cli.ops.append.batching import BatchMaker, BatchStyle, Writing, blocks
from kafkalog_cli.ops.append.reading import NewRecord

LARGEST = {
    "batch_bytes": 2**31 - 1,
    "leader_epoch": 2**31 - 1,
    "producer_id": 2**63 - 1,
    "producer_epoch": 2**15 - 1,
    "first_sequence": 2**31 - 1,
    "coordinator_epoch": 2**31 - 1,
}
HEADER = struct.Struct(">qiibIhiqqqhii")


def option(name):
    return f"--{name}"


@pytest.mark.parametrize("name", LARGEST)
def test_what_a_batch_can_hold(name):
    producer = {} if name == "producer_id" else {"producer_id": 1}
    Writing(**producer, **{name: LARGEST[name]}).check()
    for number in (LARGEST[name] + 1, -1):
        with pytest.raises(UsageError, match=f"--{name} {number} is not from"):
            Writing(**producer, **{name: number}).check(option)


def test_the_largest_are_written_as_they_are():
    style = BatchStyle(
        leader_epoch=LARGEST["leader_epoch"],
        producer_id=LARGEST["producer_id"],
        producer_epoch=LARGEST["producer_epoch"],
        batch_bytes=LARGEST["batch_bytes"],
    )
    maker = BatchMaker(style, LARGEST["first_sequence"])
    (block,) = blocks([NewRecord(None, b"v"), NewRecord(None, b"w")], style, 5)
    found = HEADER.unpack_from(maker.encode(block, 7).data)
    assert (found[2], found[9], found[10], found[11]) == (
        LARGEST["leader_epoch"],
        LARGEST["producer_id"],
        LARGEST["producer_epoch"],
        LARGEST["first_sequence"],
    )
    assert maker.next_sequence == 1  # behind the largest comes 0


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"codec": "zip"}, "--codec 'zip': choose one of none, gzip, snappy, lz4, zstd"),
        ({"codec": "gzip", "compression_level": 99}, "--compression_level: "),
        ({"producer_id": 1, "transaction": "end"}, "--transaction 'end': choose one of commit, abort, open"),
        ({"transaction": "commit"}, "--transaction needs a --producer_id"),
        ({"first_sequence": 0}, "--first_sequence needs a --producer_id"),
        (
            {"keep_offsets": True, "producer_id": 1},
            "--keep_offsets cannot be combined with --producer_id or --leader_epoch",
        ),
        (
            {"keep_offsets": True, "leader_epoch": 1},
            "--keep_offsets cannot be combined with --producer_id or --leader_epoch",
        ),
    ],
)
def test_what_does_not_go(given, told):
    with pytest.raises(UsageError) as raised:
        Writing(**given).check(option)
    assert told in str(raised.value)
