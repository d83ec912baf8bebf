"""Each field of good logs of every format and codec damaged in turn, the CRCs mended: deep verify has a finding wherever
a naive reader gets other records than before, or none."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from itertools import product

import pytest
from crc32c import crc32c

from tests.damage.makers import START_MS
from tests.damage.verifying import verified
from tests.support.logs import COMPRESS, R, batch_v2, lz4_frame_of_old, message, message_set, zigzag
from tests.support.naive_reader import read_batches, read_records, read_seven, seven_payloads

LOG, SEVEN_LOG = f"{0:020}.log", f"{0:020}.kafka"
RECORDS = [R(at, START_MS + at, b"key%d" % at, b"value %d" % at) for at in range(4)]
INT32 = (-(1 << 31), -2, -1, 0, 1, 5, 1 << 20, (1 << 31) - 1)
OFFSETS = (-5, 0, 1, 2, 7, 1 << 40)
MAGICS = (0, 1, 2, 5, -1)
ATTRIBUTES = (0, 1, 2, 3, 4, 5, 7)


def mended(entry: bytes) -> bytes:
    """The entry v0 or v1 with the CRC of its bytes."""
    return entry[:12] + struct.pack(">I", zlib.crc32(entry[16:])) + entry[16:]


def put(data: bytes, at: int, code: str, value: int) -> bytes:
    packed = struct.pack(code, value)
    return data[:at] + packed + data[at + len(packed) :]


def fields(entry: bytes, magic: int) -> list[tuple[str, int, str, tuple[int, ...]]]:
    """(name, position, struct code, values to try) of the fields of a message that say how to read it."""
    key_at = 26 if magic else 18
    key_size = struct.unpack_from(">i", entry, key_at)[0]
    value_at = key_at + 4 + max(key_size, 0)
    value_size = struct.unpack_from(">i", entry, value_at)[0]
    near = tuple(size + step for size in (key_size, value_size) for step in (-2, -1, 1, 2))
    return [
        ("magic", 16, ">b", MAGICS),
        ("attributes", 17, ">b", ATTRIBUTES),
        ("key length", key_at, ">i", INT32 + near),
        ("value length", value_at, ">i", INT32 + near),
    ]


def of_messages(magic: int) -> Iterator[tuple[str, bytes]]:
    """Logs of messages of their own, the middle one damaged."""
    entries = [message(one, magic) for one in RECORDS]
    for name, at, code, values in fields(entries[1], magic):
        for value in values:
            yield f"{name} {value}", entries[0] + mended(put(entries[1], at, code, value)) + entries[2]


def inner_sets(magic: int) -> Iterator[tuple[str, bytes]]:
    """Decompressed sets that are not as they should be; the wrapper ends with offset 3."""
    entries = [message(one, magic) for one in RECORDS]
    whole = b"".join(entries)
    for at, entry in enumerate(entries):
        before, behind = b"".join(entries[:at]), b"".join(entries[at + 1 :])
        for name, where, code, values in fields(entry, magic):
            for value in values:
                yield f"message {at}: {name} {value}", before + mended(put(entry, where, code, value)) + behind
        for value in OFFSETS:
            yield f"message {at}: offset {value}", before + put(entry, 0, ">q", value) + behind
        size = len(entry) - 12
        for value in (*INT32, 13, 14, size - 1, size + 1, size + 40):
            yield f"message {at}: size {value}", before + put(entry, 8, ">i", value) + behind
        yield f"message {at}: CRC", before + put(entry, 12, ">I", zlib.crc32(entry[16:]) ^ 1) + behind
        yield f"message {at} is there twice", before + entry + entry + behind
        yield f"message {at} is missing", before + behind
    for cut in range(1, len(entries[-1]) + 13):
        yield f"{cut} bytes are cut off", whole[:-cut]
    for more in (b"\0", b"\0" * 11, b"\0" * 12, b"\0" * 40, b"\xff" * 30, entries[0][:20]):
        yield f"{len(more)} bytes more", whole + more


def wrapped(inner: bytes, magic: int, codec: int, **how: int) -> bytes:
    packed = lz4_frame_of_old(inner) if (magic, codec) == (0, 3) else COMPRESS[codec](inner)
    return message(R(3, START_MS + 3, None, packed), magic, codec, **how)


def of_sets(magic: int, codec: int) -> Iterator[tuple[str, bytes]]:
    """Logs of a set and a message behind it."""
    behind = message(R(9, START_MS + 9, b"k", b"v"), magic)
    for name, inner in inner_sets(magic):
        yield name, wrapped(inner, magic, codec) + behind
    good = message_set(RECORDS, magic, codec)
    for name, at, code, values in fields(good, magic):
        for value in values:
            yield f"wrapper: {name} {value}", mended(put(good, at, code, value)) + behind


def of_batches(codec: int) -> Iterator[tuple[str, bytes]]:
    """Logs of a batch v2 and one behind it."""
    good = batch_v2(RECORDS, codec)
    behind = batch_v2([R(9, START_MS + 9, b"k", b"v")])

    def crc(data: bytes) -> bytes:
        return put(data, 17, ">I", crc32c(data[21:]))

    for value in ATTRIBUTES:
        yield f"attributes {value}", crc(put(good, 21, ">h", value)) + behind
    for value in (*INT32, 2, 3):
        yield f"last offset delta {value}", crc(put(good, 23, ">i", value)) + behind
        yield f"records count {value}", crc(put(good, 57, ">i", value)) + behind
    for value in (-1, 0, START_MS - 1, START_MS + 1):
        yield f"base timestamp {value}", crc(put(good, 27, ">q", value)) + behind
        yield f"max timestamp {value}", crc(put(good, 35, ">q", value)) + behind
    plain = batch_v2(RECORDS)[61:]
    bodies = [(f"{cut} bytes are cut off", plain[:-cut]) for cut in range(1, 24)]
    bodies += [(f"{len(more)} bytes more", plain + more) for more in (b"\0", b"\1", b"\0" * 9, plain[:20], plain)]
    at = 0
    for number in range(len(RECORDS)):
        size = plain[at] >> 1  # all lengths here are of one byte
        for where, step in product(range(1 + size), (1, 2, 3, 4, 255)):
            if not (
                where == 1 or (number * size and where == 2)
            ):  # attributes of a record mean nothing; its time is free
                changed = bytearray(plain)
                changed[at + where] = (changed[at + where] + step) & 0x7F
                bodies.append((f"record {number}: byte {where} + {step}", bytes(changed)))
        at += 1 + size
    assert at == len(plain)
    assert zigzag(-1) == b"\1"
    for name, body in bodies:
        packed = COMPRESS[codec](body) if codec else body
        data = good[:61] + packed
        yield name, crc(put(data, 8, ">i", len(data) - 12)) + behind


def records_in(data: bytes) -> list[tuple[object, ...]] | None:
    """What a naive reader gets, without what a damaged field can never tell; None if it fails."""
    try:
        batches = list(read_batches(data))
        if sum(batch.size_bytes for batch in batches) != len(data) or any(batch.magic > 2 for batch in batches):
            return None
        found = [record for batch in batches for record in read_records(data, batch)]
    except Exception:  # whatever struct and the codecs raise
        return None
    return [(one.offset, one.key, one.value, one.headers, one.valid) for one in found]


def contents_changed(before: list[tuple[object, ...]], after: list[tuple[object, ...]]) -> bool:
    """Whether keys and values are others at the same offsets, with as many bytes: nothing in a log tells of that."""

    def shape(one: tuple[object, ...]) -> tuple[object, ...]:
        _, key, value, headers, valid = one
        sizes = (None if part is None else len(part) for part in (key, value))  # type: ignore[arg-type]
        return (*sizes, len(headers), valid)  # type: ignore[arg-type]

    offsets = [one[0] for one in after]
    same_offsets = offsets == [one[0] for one in before]
    return same_offsets and [shape(one) for one in before] == [shape(one) for one in after]


def check(good: bytes, cases: Iterator[tuple[str, bytes]]) -> tuple[int, list[str]]:
    """(how many damages change the records, the names of those that deep verify is silent about)."""
    before = records_in(good)
    assert before is not None
    assert findings_in({LOG: good}) == []
    changed, silent = 0, []
    for name, data in cases:
        after = records_in(data)
        if after is not None and (after == before or contents_changed(before, after)):
            continue
        changed += 1
        found = findings_in({LOG: data})
        assert all(position is None or 0 <= position <= len(data) for _, position in found), name
        if not found:
            silent.append(name)
    return changed, silent


def findings_in(files: dict[str, bytes]) -> list[tuple[str, int | None]]:
    found = verified(files)
    log = (one for one in found if one.path.endswith((".log", ".kafka")) and one.severity != "info")
    return [(one.kind, one.position) for one in log]


def test_verify_reports_wrong_timestamps_of_records_beside_those_of_batches() -> None:
    """Of one kind, in other batches; those of a batch that is told itself are not told again."""
    far = START_MS * 1000
    odd = [RECORDS[0]._replace(timestamp=far)]
    hidden = batch_v2([R(5, START_MS, b"k", b"v"), R(6, -7, b"k", b"v")])
    negative = batch_v2([R(8, -9, b"k", b"v")])
    log = batch_v2(odd) + hidden + negative
    found = [one for one in verified({LOG: log}) if one.kind.endswith(("timestamp", "timestamp-unit"))]
    told = {(one.kind, one.first_offset, one.got) for one in found}
    assert told == {("timestamp-unit", 0, str(far)), ("negative-timestamp", 8, "-9"), ("negative-timestamp", 6, "-7")}


@pytest.mark.parametrize("magic", [0, 1])
def test_verify_finds_every_change_of_a_message_that_keeps_its_crc_right(magic: int) -> None:
    good = b"".join(message(one, magic) for one in RECORDS[:3])
    changed, silent = check(good, of_messages(magic))
    assert (changed > 20, silent) == (True, [])


@pytest.mark.exhaustive
@pytest.mark.parametrize(("magic", "codec"), [*product((0, 1), (1, 2, 3))])
def test_verify_finds_every_change_inside_a_compressed_set_with_right_crcs(magic: int, codec: int) -> None:
    good = message_set(RECORDS, magic, codec) + message(R(9, START_MS + 9, b"k", b"v"), magic)
    changed, silent = check(good, of_sets(magic, codec))
    assert (changed > 150, silent) == (True, [])


@pytest.mark.parametrize("codec", range(5))
def test_verify_finds_every_change_of_a_batch_with_a_right_crc(codec: int) -> None:
    good = batch_v2(RECORDS, codec) + batch_v2([R(9, START_MS + 9, b"k", b"v")])
    changed, silent = check(good, of_batches(codec))
    assert (changed > 100, silent) == (True, [])


def seven(payload: bytes, codec: int = 0) -> bytes:
    return struct.pack(">ibBI", len(payload) + 6, 1, codec, zlib.crc32(payload)) + payload


@pytest.mark.parametrize("codec", [1, 2])
def test_verify_finds_every_cut_of_a_compressed_set_of_0_7(codec: int) -> None:
    entries = [seven(b"value %d" % at) for at in range(4)]
    whole = b"".join(entries)
    bodies = [whole[:-cut] for cut in range(1, len(whole) + 1)]
    bodies += [whole + more for more in (b"\0", b"\0" * 3, b"\0" * 4, b"\0" * 20, entries[0][:9])]
    bodies += [put(whole, len(entries[0]), ">i", size) for size in INT32]
    before = [one for found in read_seven(seven(COMPRESS[codec](whole), codec)) for one in seven_payloads(found)]
    assert len(before) == 4
    assert findings_in({SEVEN_LOG: seven(COMPRESS[codec](whole), codec)}) == []
    for body in bodies:
        if body in (b"".join(entries[:count]) for count in range(1, 5)):
            continue  # whole messages: nothing tells that there were more
        assert findings_in({SEVEN_LOG: seven(COMPRESS[codec](body), codec)}), body


@pytest.mark.parametrize(("magic", "codec"), [*product((0, 1), (1, 2, 3))])
def test_a_set_whose_codec_is_cleared_may_end_with_the_smallest_message(magic: int, codec: int) -> None:
    """It has neither a key nor a value: 14 bytes behind offset and size (LegacyRecord.RECORD_OVERHEAD_V0)."""
    whole = message_set([RECORDS[0], R(1, START_MS, None, None)], magic, codec)
    assert findings_in({LOG: mended(put(whole, 17, ">b", 0))}) == [("packed-value", 0)]


@pytest.mark.parametrize("missing", [0, 1, 9])
def test_positions_that_no_segment_of_seven_holds(missing: int) -> None:
    """An offset of 0.7 is a position in bytes: the next segment begins where the segment before it ends."""
    end = len(first := seven(b"value"))
    found = verified({SEVEN_LOG: first, f"{end + missing:020}.kafka": seven(b"more")})
    told = [one.message for one in found if one.severity != "info"]
    assert told == [f"no segment holds positions {end} to {end + missing - 1}"] * bool(missing)
