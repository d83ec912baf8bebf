"""Hypothesis strategies: well-formed logs of every generation, each with what was put into it."""

import struct
from typing import NamedTuple

from hypothesis import strategies as st

from tests.support.logs import (
    BASE_TIME_MS,
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    R,
    batch_v2,
    end_marker,
    message,
    message_set,
)

MAX_INT31 = (1 << 31) - 1
MAX_INT62 = (1 << 62) - 1

contents = (
    st.none()
    | st.binary(max_size=40)
    | st.sampled_from([b"", b"v" * 300, "größe ключ \U0001f600".encode(), b"\xed\xa0\x80"])
)
headers = st.lists(st.tuples(st.binary(max_size=8), st.none() | st.binary(max_size=12)), max_size=3).map(tuple)
timestamps = st.integers(BASE_TIME_MS - 5, BASE_TIME_MS + 10_000) | st.integers(-1, MAX_INT62)
producers = st.just((-1, -1, -1)) | st.tuples(
    st.integers(0, MAX_INT62),
    st.integers(0, 32767),
    st.sampled_from([0, 7, MAX_INT31 - 1, MAX_INT31]) | st.integers(0, MAX_INT31),
)


class Wanted(NamedTuple):
    """A record as a reader has to give it."""

    offset: int
    timestamp: int
    sequence: int
    key: bytes | None
    value: bytes | None
    headers: tuple


class Made(NamedTuple):
    """A log: its bytes, batch by batch the records that are in it, and the offset that its segment is named after."""

    data: bytes
    batches: list[list[Wanted]]
    base_offset: int


@st.composite
def records(draw, base, with_headers=True):
    """Records with rising offsets from `base` on, with the gaps that compaction leaves."""
    made, offset = [], base + draw(st.integers(0, 3))
    for _ in range(draw(st.integers(1, 5))):
        made.append(R(offset, draw(timestamps), draw(contents), draw(contents), draw(headers) if with_headers else ()))
        offset += draw(st.sampled_from([1, 1, 1, 2, 70_000]))
    return made


@st.composite
def batches_v2(draw, base):
    """(bytes, offset after, records) of a v2 batch: any codec, attribute bits, an empty one among them."""
    made = [] if draw(st.integers(0, 9)) == 9 else draw(records(base))
    codec, producer = draw(st.integers(0, 4)), draw(producers)
    append_time = draw(st.booleans())
    bits = draw(st.sampled_from([0, TRANSACTIONAL])) | (LOG_APPEND_TIME if append_time else 0)
    horizon = draw(st.none() | st.integers(BASE_TIME_MS, BASE_TIME_MS + 10**10))
    last = (made[-1].offset if made else base) + draw(st.integers(0, 3))
    clock = draw(timestamps) if append_time else None
    data = batch_v2(
        made, codec, base, last, producer, draw(st.integers(-1, 9)), bits, max_timestamp=clock, horizon=horizon
    )
    wanted = [
        Wanted(
            r.offset,
            r.timestamp if clock is None else clock,
            -1 if producer[2] < 0 else (producer[2] + r.offset - base) & MAX_INT31,
            r.key,
            r.value,
            r.headers,
        )
        for r in made
    ]
    return data, last + 1, [wanted]


@st.composite
def control_batches(draw, base):
    """(bytes, offset after, records) of an end of a transaction, or another control record."""
    timestamp = draw(timestamps)
    if draw(st.booleans()):
        key, value = struct.pack(">hh", 0, draw(st.integers(0, 1))), struct.pack(">hi", 0, draw(st.integers(0, 99)))
        data = end_marker(base, timestamp, (5, 3), key[3], struct.unpack(">hi", value)[1])
    else:
        key, value = struct.pack(">hh", 0, draw(st.integers(2, 9))), draw(st.binary(max_size=20))
        data = batch_v2([R(base, timestamp, key, value)], bits=CONTROL)
    return data, base + 1, [[Wanted(base, timestamp, -1, key, value, ())]]


@st.composite
def message_sets(draw, base, magics=(0, 1)):
    """(bytes, offset after, records) of messages v0 or v1, plain or in a compressed set."""
    magic, codec = draw(st.sampled_from(magics)), draw(st.integers(0, 3))
    made = draw(records(base, with_headers=False))
    clock = draw(st.none() | timestamps) if magic else None
    if codec:
        parts = [message_set(made, magic, codec, append_time=clock)]
    else:
        made = [r if clock is None else r._replace(timestamp=clock) for r in made]
        parts = [message(r, magic, timestamp_type=clock is not None) for r in made]
    wanted = []
    for r in made:
        timestamp = -1 if magic == 0 else r.timestamp if clock is None else clock
        wanted.append(Wanted(r.offset, timestamp, -1, r.key, r.value, ()))
    return b"".join(parts), made[-1].offset + 1, [wanted] if codec else [[r] for r in wanted]


@st.composite
def logs(draw, kinds=(batches_v2, batches_v2, control_batches, message_sets)):
    """A segment of up to six entries of the given kinds."""
    base_offset = offset = draw(st.sampled_from([0, 7, 1 << 33]) | st.integers(0, MAX_INT62))
    data, batches = b"", []
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=6)):
        part, offset, found = draw(kind(offset))
        data += part
        batches += found
    return Made(data, batches, base_offset)
