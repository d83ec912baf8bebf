"""Producer snapshots: a real file, the messages of a corrupt one, round trips."""

import struct
from itertools import product
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_cli.format.crc import crc32c
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.producer_snapshot import ProducerEntry, decode, encode

FIXTURES = Path(__file__).parents[1] / "fixtures" / "sidecars"
NAME = "00000000000000000092.snapshot"

shorts, ints, longs = (st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (16, 32, 64))
producers = st.builds(ProducerEntry, longs, shorts, ints, longs, ints, longs, ints, longs)


def real_bytes():
    return (FIXTURES / "kraft" / "tx-0" / NAME).read_bytes()


def test_an_empty_snapshot_has_the_ten_bytes_of_kafka():
    assert encode([]) == bytes.fromhex("000148674bc700000000")
    assert decode(encode([])) == ([], [])


@settings(deadline=None)
@given(st.lists(producers))
def test_entries_come_back_as_they_were_written(entries):
    assert decode(encode(entries)) == (entries, [])


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_snapshot_or_a_fault(data):
    entries, faults = decode(data)
    assert entries == []
    assert len(faults) == 1


def test_error_messages_of_producer_snapshots_are_kafkas():
    data = real_bytes()
    message = decode(data[:-1] + b"\x01")[1][0].message
    stored, computed = struct.unpack(">I", data[2:6])[0], crc32c(data[6:-1] + b"\x01")
    assert message == f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}. Computed crc: {computed}"
    prefix = "Snapshot failed schema validation: "
    expected = {
        b"": "null",
        b"\x00": "null",
        b"\x00\x01\x00": "null",
        data[:-1]: "null",
        b"\x00\x02": "Snapshot contained an unknown file version 2",
        b"\xff\xff": "Snapshot contained an unknown file version -1",
        b"\x00\x01" + bytes(4) + b"\xff\xff\xff\xff": "non-nullable field producerEntries was serialized as null",
        b"\x00\x01" + bytes(4) + b"\x00\x00\x00\x09abc": (
            "Tried to allocate a collection of size 9, but there are only 3 bytes remaining."
        ),
    }
    assert {bad: decode(bad)[1][0].message for bad in expected} == {k: prefix + v for k, v in expected.items()}


def test_bytes_after_the_entries_of_a_snapshot_are_a_fault_and_the_entries_kept():
    body = real_bytes()[6:] + b"more"
    entries, faults = decode(b"\x00\x01" + struct.pack(">I", crc32c(body)) + body)
    assert len(entries) == 3
    assert [(f.kind, f.position, f.size_bytes) for f in faults] == [(FaultKind.TRAILING_BYTES, len(real_bytes()), 4)]


def test_first_sequence_wraps_at_31_bits():
    assert ProducerEntry(1, 0, 1, 9, 3, 0, -1, -1).first_sequence == 2**31 - 2
    assert ProducerEntry(1, 0, 3, 9, 3, 0, -1, -1).first_sequence == 0
    assert ProducerEntry(1, 0, 3, 9, 3, 0, -1, -1).first_offset == 6


def test_offset_0_is_an_offset():
    """A batch, and a transaction, may begin with a log: only a negative number says that there is none."""
    for batch, transaction in product((-2, -1, 0, 1), repeat=2):
        entry = ProducerEntry(1, 0, 3, batch, 0, 0, -1, transaction)
        assert entry.has_batch == (batch >= 0)
        assert entry.open_txn_first_offset == (transaction if transaction >= 0 else None)


@given(last=st.integers(0, 2**31 - 1), delta=st.integers(0, 2**31 - 1))
def test_sequences_count_to_the_largest_int_and_begin_again(last, delta):
    """DefaultRecordBatch.incrementSequence of the first sequence, by the delta, is the last."""
    first = ProducerEntry(1, 0, last, 9, delta, 0, -1, -1).first_sequence
    assert 0 <= first < 2**31
    assert (first + delta) % 2**31 == last
