"""Transaction indexes: a real file, faults, round trips."""

from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.txnindex import AbortedTxn, decode, encode

FIXTURES = Path(__file__).parents[1] / "fixtures" / "sidecars"
NAME = "00000000000000000094.txnindex"

longs = st.integers(-(2**63), 2**63 - 1)
entries_of_any_kind = st.lists(st.builds(AbortedTxn, st.just(0), longs, longs, longs, longs))


def real_bytes():
    return (FIXTURES / "kraft" / "tx-0" / NAME).read_bytes()


def test_real_file_reads_as_the_dump_tool_prints_it():
    entries, faults = decode(real_bytes(), 94)
    lines = [
        f"version: {e.version} producerId: {e.producer_id} firstOffset: {e.first_offset} "
        f"lastOffset: {e.last_offset} lastStableOffset: {e.last_stable_offset}"
        for e in entries
    ]
    assert lines == (FIXTURES / "expected" / f"{NAME}.out").read_text().splitlines()[1:]
    assert faults == []
    assert encode(entries) == real_bytes()


@settings(deadline=None)
@given(entries_of_any_kind)
def test_entries_come_back_as_they_were_written(entries):
    assert decode(encode(entries), 0)[0] == entries


@settings(deadline=None)
@given(st.binary(max_size=200), longs)
def test_any_bytes_decode_to_entries_and_faults(data, base):
    entries, faults = decode(data, base)
    stopped = any(fault.kind is FaultKind.INVALID_VERSION for fault in faults)
    assert stopped or len(entries) == len(data) // 34
    assert any(fault.kind is FaultKind.INVALID_LENGTH for fault in faults) == (len(data) % 34 > 0)


def test_a_cut_off_entry_is_ignored_and_told():
    entries, faults = decode(real_bytes()[:-1], 94)
    assert entries == decode(real_bytes(), 94)[0][:1]
    assert [(f.kind, f.position, f.size_bytes) for f in faults] == [(FaultKind.INVALID_LENGTH, 34, 33)]


def test_before_4_4_only_the_first_byte_of_the_version_counts():
    data = bytearray(real_bytes())
    data[1] = 7
    assert decode(data, 94, is_version_a_byte=True) == decode(real_bytes(), 94, is_version_a_byte=True)
    assert [(f.kind, f.position, f.got) for f in decode(data, 94)[1]] == [(FaultKind.INVALID_VERSION, 0, "7")]
    data = bytearray(real_bytes())
    data[34:36] = b"\1\0"
    entries, faults = decode(data, 94, is_version_a_byte=True)
    assert (len(entries), faults[0].got) == (1, "1")
    data[34:36] = b"\0\1"
    entries, faults = decode(data, 94)
    assert len(entries) == 1
    assert [(f.kind, f.position, f.got) for f in faults] == [(FaultKind.INVALID_VERSION, 34, "1")]
    for version, byte in ((b"\xff\0", -1), (b"\0\1", 0), (b"\xff\xff", -1)):  # Kafka reads on before 4.4
        data[34:36] = version
        assert decode(data, 94, is_version_a_byte=True)[0][1].version == byte
        entries, faults = decode(data, 94)
        number = int.from_bytes(version, "big", signed=True)
        assert (len(entries), [(f.kind, f.position, f.got) for f in faults]) == (
            1, [(FaultKind.INVALID_VERSION, 34, str(number))],
        )  # fmt: skip


def test_offsets_that_cannot_be():
    txns = [AbortedTxn(0, 1, 50, 60, 61), AbortedTxn(0, 2, 70, 60, 61)]
    _, faults = decode(encode(txns), 61)
    assert [(f.position, f.message) for f in faults] == [
        (0, "entry 0: last offset below the base offset"),
        (34, "entry 1: last offset below the base offset"),
        (34, "entry 1: last offset not above that of the entry before"),
        (34, "entry 1: first offset above the last offset"),
    ]


def test_a_large_damaged_file_gives_few_faults():
    assert len(decode(b"\x80" * 340_000, 0)[1]) <= 102


def test_unknown_versions_are_not_written():
    with pytest.raises(ValueError, match="version 1"):
        encode([AbortedTxn(1, 0, 0, 0, 0)])


def test_every_small_entry_by_the_rules():
    """Offsets that are equal, and those one beside: a last offset at the base passes, one of the entry before does not."""
    small = range(-1, 3)
    for base, before, first, last in product(small, repeat=4):
        entry = AbortedTxn(0, 1, first, last, 5)
        found = [f.message for f in decode(encode([AbortedTxn(0, 1, before, before, 5), entry]), base)[1]]
        wanted = {
            "entry 0: last offset below the base offset": before < base,
            "entry 1: last offset below the base offset": last < base,
            "entry 1: last offset not above that of the entry before": last <= before,
            "entry 1: first offset above the last offset": first > last,
        }
        assert found == [message for message, is_so in wanted.items() if is_so]


def test_a_hundred_faults_and_those_of_an_entry_are_told():
    """Whoever adds an entry to a damaged file hears no more of it once 100 faults are told."""
    bad = AbortedTxn(
        0, 1, 0, -1, 5
    )  # below the base, and first above last: two faults, and a third by the entry before
    told = [len(decode(encode([bad] * count), 0)[1]) for count in range(1, 60)]
    assert told == [2 + 3 * min(count - 1, 33) for count in range(1, 60)]
    one = [AbortedTxn(0, 1, last, last, 5) for last in range(300, 100, -1)]  # one fault each, but for the first entry
    assert len(decode(encode(one), 0)[1]) == 100
