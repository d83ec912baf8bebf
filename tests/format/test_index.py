"""Offset and time indexes: real files, zero tails, look-ups, faults, round trips."""

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_cli.format import index
from kafkalog_cli.format.columns import MANY_ROWS
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.index import OffsetIndex, OffsetIndexEntry, TimeIndex, TimeIndexEntry, length_faults

FIXTURES = Path(__file__).parents[1] / "fixtures" / "sidecars"
PREALLOCATED = 10 * 1024 * 1024
ENTRIES = [OffsetIndexEntry(120, 4096), OffsetIndexEntry(140, 9000), OffsetIndexEntry(199, 13000)]
TIMES = [TimeIndexEntry(1000, 120), TimeIndexEntry(2000, 150), TimeIndexEntry(2001, 150)]

offsets = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)


def real_file(name):
    return (FIXTURES / "kraft" / "tx-0" / name).read_bytes()


def printed(name):
    return (FIXTURES / "expected" / f"{name}.out").read_text().splitlines()[1:]


def decoded(kind, data, base_offset):
    """The entries in use, and the faults of the length."""
    whole = kind(data, base_offset)
    used = whole.in_use()
    return used, list(length_faults(whole, len(used)))


def test_real_offset_index_reads_as_the_dump_tool_prints_it():
    entries, faults = decoded(OffsetIndex, real_file("00000000000000000020.index"), 20)
    assert [f"offset: {e.offset} position: {e.position}" for e in entries] == printed("00000000000000000020.index")
    assert faults == []
    assert len(entries) == 7


def test_real_time_index_reads_as_the_dump_tool_prints_it():
    entries, faults = decoded(TimeIndex, real_file("00000000000000000020.timeindex"), 20)
    lines = [f"timestamp: {e.timestamp} offset: {e.offset}" for e in entries]
    assert lines == printed("00000000000000000020.timeindex")
    assert faults == []


@settings(deadline=None)
@given(base=longs, relative=st.lists(st.tuples(offsets, offsets)))
def test_any_offset_index_comes_back_as_it_was_written(base, relative):
    pairs = [(base + offset, position) for offset, position in relative]
    data = index.encode(pairs, base)
    entries = OffsetIndex(data, base)
    assert index.encode([(base + offset, position) for offset, position in entries.stored()], base) == data
    if all(-(2**63) <= offset < 2**63 for offset, _ in pairs):
        assert list(entries) == pairs


@settings(deadline=None)
@given(relative=st.lists(st.tuples(longs, offsets)))
def test_any_time_index_comes_back_as_it_was_written(relative):
    pairs = [(timestamp, 77 + offset) for timestamp, offset in relative]
    assert list(TimeIndex(index.encode_times(pairs, 77), 77)) == pairs


@settings(deadline=None)
@given(keys=st.sets(st.integers(0, 5000), max_size=2500), target=st.integers(-5, 5005))
def test_lookup_in_a_sorted_index_is_the_floor(keys, target):
    pairs = [(100 + key, key * 7) for key in sorted(keys)]
    floor = max((pair for pair in pairs if pair[0] <= target + 100), default=(100, 0))
    assert OffsetIndex(index.encode(pairs, 100), 100).lookup(target + 100) == floor
    times = [(key, 100 + key) for key in sorted(keys)]
    floor = max((pair for pair in times if pair[0] <= target), default=(-1, 100))
    assert TimeIndex(index.encode_times(times, 100), 100).lookup(target) == floor


@pytest.mark.parametrize("entry_count", [0, 1, 3])
def test_a_preallocated_index_is_in_use_up_to_its_zero_tail(entry_count):
    used = index.encode(ENTRIES[:entry_count], 100)
    data = used + bytes(PREALLOCATED - len(used))
    entries, faults = decoded(OffsetIndex, data, 100)
    assert faults == []
    # A file without entries shows one, (base offset, 0): the real tool's rule skips entry 0.
    assert list(entries) == (ENTRIES[:entry_count] or [(100, 0)])
    assert len(OffsetIndex(data, 100)) == PREALLOCATED // 8
    assert OffsetIndex(data, 100).last_entry == (100, 0)


def test_a_preallocated_time_index_is_in_use_up_to_its_zero_tail():
    used = index.encode_times(TIMES, 100)
    data = used + bytes(PREALLOCATED // 12 * 12 - len(used))
    entries, faults = decoded(TimeIndex, data, 100)
    assert (list(entries), faults) == (TIMES, [])
    assert len(TimeIndex(data, 100)) == PREALLOCATED // 12


def test_zeros_across_fields_are_not_the_zero_tail():
    pairs = [(101, 0x00010000), (256, 0), (257, 256), (65636, 1)]
    entries, _ = decoded(OffsetIndex, index.encode(pairs, 0), 0)
    assert list(entries) == pairs
    times = [(0, 1), (1 << 32, 1 << 24), (1 << 33, (1 << 24) + 1)]
    entries, faults = decoded(TimeIndex, index.encode_times(times, 0), 0)
    assert (list(entries), faults) == (times, [])


def test_lookup_with_the_zero_tail_goes_where_the_real_tool_goes():
    data = index.encode(ENTRIES, 100) + bytes(PREALLOCATED)
    assert OffsetIndex(data, 100).lookup(150) == (100, 0)
    assert OffsetIndex(data, 100).in_use().lookup(150) == (140, 9000)


def test_an_entry_after_the_zero_tail_is_a_fault():
    data = index.encode(ENTRIES, 100) + bytes(16) + struct.pack(">ii", 0, 1) + bytes(800)
    entries, faults = decoded(OffsetIndex, data, 100)
    assert list(entries) == ENTRIES
    assert [(f.kind, f.position, f.size_bytes) for f in faults] == [(FaultKind.INVALID_ENTRY, 24, 824)]


def test_sanity_messages_are_kafkas():
    assert OffsetIndex(b"", 5).sanity_message("/d/5.index") is None
    assert OffsetIndex(bytes(9), 5).sanity_message("/d/5.index") == (
        "Index file /d/5.index is corrupt, found 9 bytes which is neither positive nor a multiple of 8"
    )
    assert OffsetIndex(struct.pack(">ii", -2, 0), 5).sanity_message("/d/5.index") == (
        "Corrupt index found, index file /d/5.index has non-zero size but the last offset is 3 "
        "which is less than the base offset 5"
    )
    times = struct.pack(">qiqi", 9, 1, 8, 2)
    assert TimeIndex(times, 5).sanity_message("/d/5.timeindex") == (
        "Corrupt time index found, time index file (/d/5.timeindex) has non-zero size but the last timestamp is 8 "
        "which is less than the first timestamp 9"
    )


def test_an_index_is_a_sequence():
    entries = OffsetIndex(index.encode(ENTRIES, 100), 100)
    assert entries[-1] == ENTRIES[-1] == entries[2]
    assert entries[1:] == ENTRIES[1:]
    assert ENTRIES[1] in entries
    with pytest.raises(IndexError):
        entries[3]


@pytest.mark.parametrize("offset", [100 + 2**31, 99 - 2**31])
def test_offsets_that_do_not_fit_are_not_written(offset):
    with pytest.raises(struct.error):
        index.encode([(offset, 0)], 100)
    with pytest.raises(struct.error):
        index.encode_times([(0, offset)], 100)


@pytest.mark.parametrize("many_rows", [0, MANY_ROWS])
@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from([0, 5, 123_456_789_012, (1 << 63) - 5]))
def test_columns_are_the_entries(many_rows, data, base_offset):
    for kind in (OffsetIndex, TimeIndex):
        found = kind(data, base_offset)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(index, "MANY_ROWS", many_rows)
            columns = found.columns()
        assert [column.typecode for column in columns] == ["q", "q"]
        assert list(zip(*columns, strict=True)) == [tuple(entry) for entry in found]


def test_the_search_begins_in_the_last_8_kib_only_where_they_begin_below_the_target():
    """AbstractIndex.indexSlotRangeFor: of 2,000 equal entries, the middle one before the last 1,024 is found."""
    equal = OffsetIndex(struct.pack(">ii", 7, 0) * 2000, 0)
    assert equal.floor_slot(7) == (2000 - 1 - 1024 + 1) // 2
