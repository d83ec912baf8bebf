"""Lengths, counts, offsets and index entries that lie, as `verify` sees them: a finding of the kind that a table says."""

from __future__ import annotations

import struct
import tracemalloc

import pytest

from tests.damage.makers import (
    CONTROL,
    GZIP,
    NONE,
    PACK,
    START_MS,
    TRANSACTIONAL,
    ZSTD,
    batch,
    message,
    record,
    varint,
    wrapper,
)
from tests.damage.reading import deadline
from tests.damage.test_lying_lengths import INT32, LIES, counted  # noqa: F401 counts its tests too
from tests.damage.verifying import LEVELS, Finding, verified

LOG, INDEX, TIME_INDEX = (f"{0:020}{suffix}" for suffix in (".log", ".index", ".timeindex"))
EPOCHS = {"leader-epoch-checkpoint": b"0\n1\n3 0\n"}


def good(offset: int, **options: object) -> bytes:
    return batch(offset, [record(0, b"k", b"v")], max_ms=START_MS, **options)  # type: ignore[arg-type]


FIRST, SECOND, THIRD = good(0), good(1), good(2)
WHOLE = FIRST + SECOND + THIRD
BESIDE = {
    INDEX: struct.pack(">iiii", 1, len(FIRST), 2, 2 * len(FIRST)),
    TIME_INDEX: struct.pack(">qi", START_MS, 0),
    **EPOCHS,
}


@pytest.fixture(scope="module", autouse=True)
def _what_damage_needs_is_imported():
    for level in LEVELS:
        verified({LOG: FIRST + b"x" * 100 + SECOND}, level)
        verified({LOG: WHOLE, **BESIDE}, level)


def found_in(files: dict[str, bytes], level: str = "deep", spare_bytes: int = 12 << 20) -> list[Finding]:
    """The findings from a warning on; in 10 seconds, with little memory."""
    tracemalloc.start()
    try:
        with deadline(10):
            findings = verified(files, level)
        assert tracemalloc.get_traced_memory()[1] < spare_bytes
    finally:
        tracemalloc.stop()
    return [one for one in findings if one.severity != "info"]


def kinds_in(log: bytes, **beside: bytes) -> set[str]:
    """The kinds of findings about the log itself."""
    return {one.kind for one in found_in({LOG: log, **beside}) if one.path.endswith(LOG)}


def test_the_log_without_lies_has_no_finding():
    for level in LEVELS:
        assert found_in({LOG: WHOLE, **BESIDE}, level) == []


# -- the length of a batch


def with_size(data: bytes, size: int) -> bytes:
    return data[:8] + struct.pack(">i", size) + data[12:]


@pytest.mark.parametrize(
    "size", [-(1 << 31), -1, 0, 1, 13, 14, 20, 48, 49, len(SECOND) - 13, len(SECOND) - 11, INT32 - 12, INT32]
)
def test_verify_finds_a_wrong_length_of_a_batch(size):
    """Before other batches it is corruption, in the last batch a tail."""
    middle = found_in({LOG: FIRST + with_size(SECOND, size) + THIRD, **BESIDE})
    of_log = [one for one in middle if one.path.endswith(LOG) and one.position is not None]
    assert min(one.position or 0 for one in of_log) == len(FIRST)
    assert {one.severity for one in of_log} == {"corruption"}
    last = found_in({LOG: FIRST + SECOND + with_size(THIRD, size), **BESIDE})
    of_log = [one for one in last if one.path.endswith(LOG) and one.position is not None]
    assert min(one.position or 0 for one in of_log) == 2 * len(FIRST)
    assert {one.kind for one in of_log} <= {"torn-tail", "bad-tail-batch"}


# -- counts and records


@pytest.mark.parametrize("codec", [NONE, GZIP, ZSTD])
@pytest.mark.parametrize("count", [-(1 << 31), -1, 1, 2, 4, 1_000_001, INT32])
def test_verify_finds_a_wrong_record_count(codec, count):
    records = [record(i, b"key", b"value") for i in range(3)]
    lying = batch(1, records, codec=codec, count=count, max_ms=START_MS)
    assert kinds_in(FIRST + lying + good(4), **EPOCHS) & {"record-count", "invalid-record"}


@pytest.mark.parametrize("codec", [NONE, ZSTD])
@pytest.mark.parametrize("lie", LIES)
def test_verify_finds_a_record_with_wrong_lengths(lie, codec):
    lying = batch(1, [record(0, b"a", b"b"), LIES[lie]], codec=codec, max_ms=START_MS)
    assert kinds_in(FIRST + lying + good(3), **EPOCHS) == {"invalid-record"}


def test_records_outside_of_their_batch_or_out_of_order_are_found():
    for deltas, delta in (((0, 5), 1), ((1, 0), 1), ((0, 0), 1), ((-1, 0), 1), ((0, 1 << 30), 1)):
        lying = batch(1, [record(at, b"k", b"v") for at in deltas], delta=delta, max_ms=START_MS)
        assert kinds_in(FIRST + lying + good(3), **EPOCHS) == {"record-offset"}, deltas


@pytest.mark.parametrize(
    ("offsets", "kind"),
    [
        ((0, 5, 3), "offsets-not-ascending"),
        ((0, 1, 1), "offsets-not-ascending"),
        ((0, 1, -1), "offsets-not-ascending"),
        ((0, 1, 1 << 31), "offset-outside-segment"),
        ((0, 1, 1 << 62), "offset-outside-segment"),
    ],
)
def test_verify_finds_offsets_that_do_not_ascend(offsets, kind):
    assert kind in kinds_in(b"".join(map(good, offsets)), **EPOCHS)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("base", [-1, -2, -10, -(1 << 63)])
@pytest.mark.parametrize("before", [[], [0]])
def test_verify_finds_a_batch_with_a_negative_base_offset(level, base, before):
    """No CRC covers the base offset. Batches before it leave room for its last offset, which is above theirs."""
    records = [record(at, b"k", b"v") for at in range(20)]
    log = b"".join(map(good, before)) + batch(base, records, max_ms=START_MS) + good(20)
    found = [one for one in found_in({f"{0:020}.log": log, **EPOCHS}, level) if one.path.endswith(LOG)]
    assert [one.position for one in found if one.severity == "corruption"] == [len(before) * len(FIRST)]


def test_offsets_below_the_base_offset_of_a_segment_are_found():
    name = f"{10:020}.log"
    found = found_in({name: good(5) + good(11), **EPOCHS})
    assert "offset-outside-segment" in {one.kind for one in found}


def test_a_last_offset_that_overflows_32_bits_is_found():
    for delta in (INT32, -1, -(1 << 31)):
        lying = batch(1, [record(0, b"k", b"v")], delta=delta, max_ms=START_MS)
        assert kinds_in(FIRST + lying, **EPOCHS), delta


# -- messages v0 and v1


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("key_size", [INT32, 9])
def test_verify_finds_a_message_with_a_wrong_key_length(magic, key_size):
    lying = message(1, b"key", b"value", magic=magic, key_size=key_size)
    log = message(0, b"k", b"v", magic=magic) + lying + message(2, b"k", b"v", magic=magic)
    assert "invalid-record" in kinds_in(log)


@pytest.mark.parametrize("magic", [0, 1])
def test_verify_finds_an_inner_message_with_a_wrong_crc_or_size(magic):
    for options in ({"crc": 7}, {"size": 13}, {"size": 0}, {"size": -1}):
        inner = message(0, None, b"one", magic=magic, **options) + message(1, None, b"two", magic=magic)
        lying = message(1, None, PACK[GZIP](inner), magic=magic, attributes=GZIP)
        behind = wrapper(2, [(None, b"v")], magic=magic, codec=GZIP)
        assert kinds_in(lying + behind) == {"invalid-inner-message"}, options


# -- indexes


def index(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def time_index(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">qi", *entry) for entry in entries)


SIZE = len(FIRST)
WRONG, INEXACT = "offset-index-wrong", "offset-index-inexact"


@pytest.mark.parametrize(
    ("data", "kinds"),
    [
        (index((1, SIZE + 1)), {WRONG}),
        (index((2, SIZE)), {INEXACT}),  # by the rule of an append call, but the next entry is missing: see below
        (index((1, 2 * SIZE)), {WRONG}),
        (index((1, 3 * SIZE)), {WRONG}),
        (index((1, INT32)), {WRONG}),
        (index((1, -1)), {WRONG}),
        (index((-1, SIZE)), {WRONG}),
        (index((3, SIZE)), {WRONG}),
        (index((INT32, SIZE)), {WRONG}),
        (index((2, 2 * SIZE), (1, SIZE)), {WRONG}),
        (index((1, SIZE), (1, SIZE)), {WRONG}),
        (index((1, SIZE)) + b"\0\0\0", {INEXACT}),
        (index((1, SIZE), (0, 0), (2, 2 * SIZE)), {WRONG}),
        (b"\xff" * 64, {WRONG}),
    ],
)
def test_verify_finds_a_wrong_entry_of_an_offset_index(data, kinds):
    found = found_in({LOG: WHOLE, **BESIDE, INDEX: data})
    of_index = {one.kind for one in found if one.path.endswith(INDEX)}
    if data == index((2, SIZE)):  # brokers of 2.0 to 4.0 wrote that for two batches in one call
        assert of_index == set()
    else:
        assert of_index == kinds


@pytest.mark.parametrize(
    "data",
    [
        time_index((START_MS + 1, 0)),
        time_index((START_MS, 3)),
        time_index((START_MS, -1)),
        time_index((START_MS, INT32)),
        time_index((START_MS, 1)),
        time_index((START_MS, 0), (START_MS, 1)),
        time_index((START_MS, 0), (START_MS - 1, 1)),
        time_index((START_MS, 0)) + b"\0\0",
        b"\xff" * 60,
    ],
)
def test_verify_finds_a_wrong_entry_of_a_time_index(data):
    found = found_in({LOG: WHOLE, **BESIDE, TIME_INDEX: data})
    kinds = {one.kind for one in found if one.path.endswith(TIME_INDEX)}
    assert kinds
    assert kinds <= {"time-index-wrong", "time-index-inexact"}


@pytest.mark.parametrize(
    "data",
    [b"0\n2\n3 0\n", b"0\n-1\n", b"0\n99999999999999999999\n3 0\n", b"7\n1\n3 0\n", b"0\n1\n3\n", b"0\n1\n3 -1\n", b"0\n1\n4 0\n",
     b"0\n1\n3 9\n", b"0\n2\n3 0\n2 1\n", b"\xff\xfe", b"0\n1\n3 0"[:3]],
)  # fmt: skip
def test_verify_finds_leader_epochs_that_contradict_the_log(data):
    found = found_in({LOG: WHOLE, **BESIDE, "leader-epoch-checkpoint": data})
    assert {one.kind for one in found} & {"leader-epochs-wrong"}


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\0\1", b"\0\1\0\0\0\0\x7f\xff\xff\xff", b"\0\2" + bytes(8), b"\xff" * 200]
)
def test_verify_finds_a_producer_snapshot_that_contradicts_the_log(data):
    found = found_in({LOG: WHOLE, **BESIDE, f"{3:020}.snapshot": data})
    assert {one.kind for one in found} <= {"producer-snapshot-wrong", "producer-snapshot-inexact"}
    assert found


def test_large_garbage_is_looked_at_in_linear_time():
    """A megabyte that could be anything: candidates for headers everywhere; a window of it at a time is looked at."""
    for filler in (b"\0", b"\xff", b"\2", bytes(8) + struct.pack(">iiB", 64, 3, 2)):
        junk = (filler * (1 << 20))[: 1 << 20]
        found = found_in({LOG: FIRST + junk + SECOND, **EPOCHS}, spare_bytes=64 << 20)
        assert "corruption" in {one.severity for one in found if one.path.endswith(LOG)}


@pytest.mark.parametrize("codec", [NONE, ZSTD])
@pytest.mark.parametrize(("place", "size"), [("key", -2), ("value", -7)])
def test_verify_finds_a_length_below_minus_1(place: str, size: int, codec: int) -> None:
    """Java's consumer takes it as null, so no record is lost. One of several such records of a batch is reported."""
    key_and_value = varint(size) + b"\x02v" if place == "key" else b"\x02k" + varint(size)
    odd = b"\0" + varint(0) + b"%c" + key_and_value + b"\0"
    records = [record(0, b"a", b"b"), *(varint(len(odd) - 1) + odd % (2 * at) for at in (1, 2)), record(3, None, None)]
    lying = batch(1, records, codec=codec, max_ms=START_MS)
    found = verified({LOG: FIRST + lying + good(5), **EPOCHS})
    [told] = [one for one in found if one.path.endswith(LOG)]
    assert (told.kind, told.severity, told.position) == ("negative-length", "warning", len(FIRST))
    assert told.message == f"at offset 2 the length of the {place} is {size}"


@pytest.mark.parametrize("codec", [NONE, ZSTD])
@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        (varint(1) + b"h" + varint(-1), {}),
        (varint(1) + b"h" + varint(-2), {"negative-length": "at offset 2 the length of the value of a header is below -1"}),
        (varint(1) + b"h" + varint(-70), {"negative-length": "at offset 2 the length of the value of a header is below -1"}),
        (varint(-1) + varint(0), {"invalid-record": "record 1 of 4: Invalid negative header key size -1"}),
        (varint(-2) + varint(0), {"invalid-record": "record 1 of 4: Invalid negative header key size -2"}),
    ],
)  # fmt: skip
def test_negative_lengths_in_headers_are_reported_as_javas_consumer_takes_them(
    sizes: bytes, told: dict[str, str], codec: int
) -> None:
    """Java's consumer takes the value of a header as null, and refuses a header without a key."""
    odd = b"\0" + varint(0) + b"%c\x02k\x02v" + varint(2) + b"\x02a\x02b" + sizes
    records = [record(0, b"a", b"b"), *(varint(len(odd) - 1) + odd % (2 * at) for at in (1, 2)), record(3, None, None)]
    lying = batch(1, records, codec=codec, max_ms=START_MS)
    found = verified({LOG: FIRST + lying + good(5), **EPOCHS})
    assert {one.kind: one.message for one in found if one.path.endswith(LOG)} == told
    assert {one.position for one in found if one.path.endswith(LOG)} <= {len(FIRST)}


PRODUCERS = {
    "an epoch below 0": {"producer": (7, -2, 0)},
    "no sequence": {"producer": (7, 0, -1)},
    "a negative producer id": {"producer": (-5, -1, -1)},
    "a transaction without a producer": {"attributes": TRANSACTIONAL},
}


@pytest.mark.parametrize("what", PRODUCERS)
def test_fields_of_a_producer_that_no_client_writes(what: str) -> None:
    log = FIRST + good(1, **PRODUCERS[what]) + good(2, producer=(7, 0, 3))
    found = verified({LOG: log, **EPOCHS}, "normal")
    [told] = [one for one in found if one.path.endswith(LOG)]
    assert (told.kind, told.severity, told.position) == ("producer-fields", "warning", len(FIRST))


def test_batches_of_producers_and_markers_are_sound() -> None:
    """A marker has no sequence, and a batch without a producer may have a sequence: sarama writes 0."""
    data = good(1, producer=(7, 0, 0), attributes=TRANSACTIONAL)
    marker = batch(
        2, [record(0, b"\0\0\0\1", b"\0\0\0\0\0\5")], producer=(7, 0, -1), attributes=TRANSACTIONAL | CONTROL
    )
    log = FIRST + data + marker + batch(3, [record(0, b"k", b"v")], producer=(-1, -1, 0), max_ms=START_MS)
    assert "producer-fields" not in kinds_in(log, **EPOCHS)
