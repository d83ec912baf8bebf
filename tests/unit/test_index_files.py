"""Offset, time and transaction indexes, and damaged files beside a segment, against real ones and Kafka's own classes."""

import json
import struct
from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_cli.format import (
    checkpoint,
    index,
    json_files,
    meta_properties,
    partition_metadata,
    producer_snapshot,
    txnindex,
)
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.index import OffsetIndex, OffsetIndexEntry, TimeIndex, TimeIndexEntry, length_faults
from kafkalog_cli.format.java_text import parse_properties
from kafkalog_cli.format.txnindex import AbortedTxn, decode, encode
from tests.support.logs import offset_index, time_index

# -- Offset and time indexes: real files, zero tails, look-ups, faults, round trips


FIXTURES = Path(__file__).parents[1] / "fixtures" / "sidecars"
PREALLOCATED = 10 * 1024 * 1024
ENTRIES = [OffsetIndexEntry(120, 4096), OffsetIndexEntry(140, 9000), OffsetIndexEntry(199, 13000)]
TIMES = [TimeIndexEntry(1000, 120), TimeIndexEntry(2000, 150), TimeIndexEntry(2001, 150)]

offsets = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)


def decoded(kind, data, base_offset):
    """The entries in use, and the faults of the length."""
    whole = kind(data, base_offset)
    used = whole.in_use()
    return used, list(length_faults(whole, len(used)))


@settings(deadline=None)
@given(base=longs, relative=st.lists(st.tuples(offsets, offsets)))
def test_any_offset_index_comes_back_as_it_was_written(base, relative):
    pairs = [(base + offset, position) for offset, position in relative]
    data = offset_index(pairs, base)
    entries = OffsetIndex(data, base)
    assert offset_index([(base + offset, position) for offset, position in entries.stored()], base) == data
    if all(-(2**63) <= offset < 2**63 for offset, _ in pairs):
        assert list(entries) == pairs


@settings(deadline=None)
@given(relative=st.lists(st.tuples(longs, offsets)))
def test_any_time_index_comes_back_as_it_was_written(relative):
    pairs = [(timestamp, 77 + offset) for timestamp, offset in relative]
    assert list(TimeIndex(time_index(pairs, 77), 77)) == pairs


@settings(deadline=None)
@given(keys=st.sets(st.integers(0, 5000), max_size=2500), target=st.integers(-5, 5005))
def test_lookup_in_a_sorted_index_is_the_floor(keys, target):
    pairs = [(100 + key, key * 7) for key in sorted(keys)]
    floor = max((pair for pair in pairs if pair[0] <= target + 100), default=(100, 0))
    assert OffsetIndex(offset_index(pairs, 100), 100).lookup(target + 100) == floor
    times = [(key, 100 + key) for key in sorted(keys)]
    floor = max((pair for pair in times if pair[0] <= target), default=(-1, 100))
    assert TimeIndex(time_index(times, 100), 100).lookup(target) == floor


@pytest.mark.parametrize("entry_count", [0, 1, 3])
def test_a_preallocated_index_is_in_use_up_to_its_zero_tail(entry_count):
    used = offset_index(ENTRIES[:entry_count], 100)
    data = used + bytes(PREALLOCATED - len(used))
    entries, faults = decoded(OffsetIndex, data, 100)
    assert faults == []
    # A file without entries shows one, (base offset, 0): the real tool's rule skips entry 0.
    assert list(entries) == (ENTRIES[:entry_count] or [(100, 0)])
    assert len(OffsetIndex(data, 100)) == PREALLOCATED // 8
    assert OffsetIndex(data, 100).last_entry == (100, 0)


def test_a_preallocated_time_index_is_in_use_up_to_its_zero_tail():
    used = time_index(TIMES, 100)
    data = used + bytes(PREALLOCATED // 12 * 12 - len(used))
    entries, faults = decoded(TimeIndex, data, 100)
    assert (list(entries), faults) == (TIMES, [])
    assert len(TimeIndex(data, 100)) == PREALLOCATED // 12


def test_zeros_across_fields_are_not_the_zero_tail():
    pairs = [(101, 0x00010000), (256, 0), (257, 256), (65636, 1)]
    entries, _ = decoded(OffsetIndex, offset_index(pairs, 0), 0)
    assert list(entries) == pairs
    times = [(0, 1), (1 << 32, 1 << 24), (1 << 33, (1 << 24) + 1)]
    entries, faults = decoded(TimeIndex, time_index(times, 0), 0)
    assert (list(entries), faults) == (times, [])


def test_lookup_with_the_zero_tail_goes_where_the_real_tool_goes():
    data = offset_index(ENTRIES, 100) + bytes(PREALLOCATED)
    assert OffsetIndex(data, 100).lookup(150) == (100, 0)
    assert OffsetIndex(data, 100).in_use().lookup(150) == (140, 9000)


def test_an_entry_after_the_zero_tail_is_a_fault():
    data = offset_index(ENTRIES, 100) + bytes(16) + struct.pack(">ii", 0, 1) + bytes(800)
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
    entries = OffsetIndex(offset_index(ENTRIES, 100), 100)
    assert entries[-1] == ENTRIES[-1] == entries[2]
    assert entries[1:] == ENTRIES[1:]
    assert ENTRIES[1] in entries
    with pytest.raises(IndexError):
        entries[3]


@given(st.binary(max_size=200), st.sampled_from([0, 5, 123_456_789_012, (1 << 63) - 5]))
def test_columns_are_the_entries(data, base_offset):
    for kind in (OffsetIndex, TimeIndex):
        found = kind(data, base_offset)
        first, second, *rises = found.columns(len(found))
        assert list(zip(first, second, strict=True)) == [tuple(entry) for entry in found]
        for column, rise in zip((first, second), rises, strict=True):
            assert rise == min((sign(after - before) for before, after in pairwise(column)), default=1)


def sign(step):
    return (step > 0) - (step < 0)


def test_the_search_begins_in_the_last_8_kib_only_where_they_begin_below_the_target():
    """AbstractIndex.indexSlotRangeFor: of 2,000 equal entries, the middle one before the last 1,024 is found."""
    equal = OffsetIndex(struct.pack(">ii", 7, 0) * 2000, 0)
    assert equal.floor_slot(7) == (2000 - 1 - 1024 + 1) // 2


# -- Transaction indexes: a real file, faults, round trips


NAME = "00000000000000000094.txnindex"

entries_of_any_kind = st.lists(st.builds(AbortedTxn, st.just(0), longs, longs, longs, longs))


def real_bytes():
    return (FIXTURES / "kraft" / "tx-0" / NAME).read_bytes()


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


def test_a_cut_off_entry_is_ignored_and_a_fault():
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


def test_unknown_versions_are_not_written():
    with pytest.raises(ValueError, match="version 1"):
        encode([AbortedTxn(1, 0, 0, 0, 0)])


def test_every_small_transaction_entry_is_judged_by_kafkas_rules():
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


def test_faults_of_a_damaged_index_end_after_a_hundred():
    """Whoever adds an entry to a damaged file hears no more of it once 100 faults are told."""
    bad = AbortedTxn(
        0, 1, 0, -1, 5
    )  # below the base, and first above last: two faults, and a third by the entry before
    told = [len(decode(encode([bad] * count), 0)[1]) for count in range(1, 60)]
    assert told == [2 + 3 * min(count - 1, 33) for count in range(1, 60)]
    one = [AbortedTxn(0, 1, last, last, 5) for last in range(300, 100, -1)]  # one fault each, but for the first entry
    assert len(decode(encode(one), 0)[1]) == 100


# -- Damaged sidecar files: our decoders against the answers of Kafka's own classes (fixtures/sidecars/README.md)


ANSWERS = [json.loads(line) for line in (FIXTURES / "answers.jsonl").read_text().splitlines()]


def optional(value, kind="OptionalLong"):
    return f"{kind}.empty" if value is None else f"{kind}[{value}]"


def colons(pairs):
    return "".join(f" {first}:{second}" for first, second in pairs)


def answer_idx(data, base, *targets):
    entries = index.OffsetIndex(data, int(base))
    lookups = colons(entries.lookup(int(target)) for target in targets)
    sanity = entries.sanity_message("$D/x.index") or "-"
    return f"{len(entries)} {entries.last_entry.offset}{colons(list(entries)[:50])} |{lookups} | {sanity}"


def answer_tidx(data, base, *targets):
    entries = index.TimeIndex(data, int(base))
    lookups = colons(entries.lookup(int(target)) for target in targets)
    sanity = entries.sanity_message("$D/x.timeindex") or "-"
    return f"{len(entries)}{colons([entries.last_entry, *list(entries)[:50]])} |{lookups} | {sanity}"


def answer_txn(data, base):
    entries, faults = txnindex.decode(data, int(base), is_version_a_byte=True)  # the answers are those of 4.2.0
    path = "$D/x.txnindex"
    unknown = [fault.got for fault in faults if fault.kind is FaultKind.INVALID_VERSION]
    refusal = unknown and (
        f"Unexpected aborted transaction version {unknown[0]} in transaction index {path}, current version is 0"
    )
    below = (txn_text(entry) for entry in entries if entry.last_offset < int(base))
    problems = (
        f"Last offset of aborted transaction {text} in index {path} is less than start offset {base}" for text in below
    )
    return f"{refusal or ';'.join(map(txn_text, entries))} | {next(problems, refusal or '-')}"


def txn_text(entry):
    version, producer_id, first, last, stable = entry
    return f"AbortedTxn(version={version}, producerId={producer_id}, firstOffset={first}, lastOffset={last}, lastStableOffset={stable})"


def answer_psnap(data):
    entries, faults = producer_snapshot.decode(data)
    if faults and faults[0].kind is not FaultKind.TRAILING_BYTES:
        return f"! {faults[0].message}"
    return ";".join(map(producer_text, entries))


def producer_text(entry):
    batch = (entry.first_sequence, entry.last_sequence, entry.first_offset, entry.last_offset, entry.offset_delta)
    words = (entry.producer_id, entry.producer_epoch, entry.coordinator_epoch, optional(entry.open_txn_first_offset))
    tail = (*batch, entry.timestamp) if entry.has_batch else ("-",)
    return " ".join(map(str, (*words, entry.timestamp, *tail)))


def answer_offsets(data):
    entries, faults = checkpoint.decode_offsets(data)
    last = {(topic, partition): offset for topic, partition, offset in entries}
    return None if faults else ";".join(sorted(f"{topic} {part} {offset}" for (topic, part), offset in last.items()))


def answer_epochs(data):
    entries, faults = checkpoint.decode_leader_epochs(data)
    return None if faults else ";".join(f"{epoch} {start}" for epoch, start in entries)


def answer_props(data):
    try:
        return "\x02".join(f"{key}\x01{value}" for key, value in sorted(parse_properties(data).items()))
    except ValueError:
        return None


def answer_meta(data):
    meta, faults = meta_properties.decode(data)
    accepted = ("cluster.id is not one that Kafka generates", "directory.id is reserved")
    if [fault for fault in faults if fault.message not in accepted]:
        return None
    optionals = (optional(meta.cluster_id, "Optional"), optional(meta.node_id, "OptionalInt"))
    return " ".join([str(meta.version), *optionals, optional(meta.directory_id, "Optional")])


def answer_pm(data):
    metadata, faults = partition_metadata.decode(data)
    return None if faults else f"{metadata.version} {metadata.topic_id}"


def answer_cs(data):
    content, _ = json_files.decode_clean_shutdown(data)
    return optional(content.broker_epoch if content else None)


def answer_qs(data):
    state, faults = json_files.decode_quorum_state(data)
    if faults:
        return None
    return f"{state.leader_epoch} {optional(None if state.leader_id == -1 else state.leader_id, 'OptionalInt')}"


OPERATIONS = {name.removeprefix("answer_"): function for name, function in globals().items() if name[:7] == "answer_"}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_damaged_files_read_as_kafka_reads_them(operation):
    rows = [row for row in ANSWERS if row[0] == operation]
    assert len(rows) >= 12
    for _, data, *arguments, expected in rows:
        answer = OPERATIONS[operation](bytes.fromhex(data), *arguments)
        if operation == "qs" and expected:
            assert expected.startswith(f"{answer} "), data  # the vote, which follows, is not compared
        else:
            assert answer == expected, data


def shuffled_index(operation, zero_entries):
    pairs = [((i * 7919) % 3001 - 20, i * 50) for i in range(1500)]
    code = ">ii" if operation == "formula_idx" else ">qi"
    return b"".join(struct.pack(code, *pair) for pair in pairs) + bytes(struct.calcsize(code) * zero_entries)


@pytest.mark.parametrize("row", [row for row in ANSWERS if row[0].startswith("formula")], ids=lambda row: str(row[:2]))
def test_lookups_in_a_large_unsorted_index_take_the_steps_of_kafka(row):
    operation, zero_entries, targets, expected = row
    data = shuffled_index(operation, zero_entries)
    if operation == "formula_idx":
        found = [index.OffsetIndex(data, 1000).lookup(target + 1000) for target in targets]
    else:
        found = [index.TimeIndex(data, 1000).lookup(target) for target in targets]
    assert [f"{first}:{second}" for first, second in found] == expected
