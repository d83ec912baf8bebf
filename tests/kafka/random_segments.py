"""Random segments with their index files, well formed or damaged, for the real tool and ours to agree on."""

import struct

from tests.support.logs import (
    BASE_TIME_MS,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    R,
    aborted_txns,
    batch_v2,
    end_marker,
    indexes,
    message,
    message_set,
    producer_snapshot,
)

TEXTS = [b"", b"a", b"plain", "größe".encode(), b"tab\tline\nnext", "\U0001f600".encode(), b"x" * 500, None]
MALFORMED = [
    b"\xff", b"\xc0\x80", b"\xc2", b"\xe2\x82", b"\xed\xa0\x80", b"\xed\xbf\xbf!", b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80",
    b"\xf5\x80\x80\x80", b"\xf0\x9f\x98", b"\xe0\x80\x80", b"\xe1\x80\xe1\x80", b"\xf0\x90\x80(", b"\xfe\xfe\xff\xff", b"a\x80b",
]  # fmt: skip
CONTROL_RECORDS = [
    # type, value as KIP-595, KIP-630 and KIP-853 have it
    (2, struct.pack(">hi", 0, 3) + b"\x03" + struct.pack(">ibib", 3, 0, 4, 0) + b"\x01\x00"),
    (3, struct.pack(">hq", 0, BASE_TIME_MS) + b"\x00"),
    (4, struct.pack(">h", 0) + b"\x00"),
    (5, struct.pack(">hh", 0, 1) + b"\x00"),
    (6, struct.pack(">h", 0) + b"\x02" + struct.pack(">i", 3) + bytes(range(16)) + b"\x02\x02A\x02h"
        + struct.pack(">H", 9093) + b"\x00" + struct.pack(">hh", 0, 1) + b"\x00\x00\x00"),
    (9, b""),
]  # fmt: skip


def random_records(chance, offset):
    texts = TEXTS + chance.sample(MALFORMED, 3)
    made = []
    for _ in range(chance.randrange(1, 6)):
        names = [b"h", b"", b"\xff", "ключ".encode()]
        headers = [(chance.choice(names), chance.choice(TEXTS)) for _ in range(chance.choice([0, 0, 0, 2]))]
        timestamp = BASE_TIME_MS + chance.randrange(-5, 5000)
        made.append(R(offset, timestamp, chance.choice(texts), chance.choice(texts), tuple(headers)))
        offset += chance.choice([1, 1, 1, 3])
    return made


def message_sets(chance, records, magic):
    clock = chance.choice([None, None, BASE_TIME_MS + 77]) if magic else None
    latest = -1 if not magic else max(r.timestamp for r in records) if clock is None else clock
    codec = chance.randrange(4)
    if codec:
        yield message_set(records, magic, codec, append_time=clock), records[-1].offset, latest
        return
    for r in records if clock is None else [r._replace(timestamp=clock) for r in records]:
        yield message(r, magic, timestamp_type=clock is not None), r.offset, r.timestamp if magic else -1


def control_batch(chance, offset):
    if chance.random() < 0.6:
        return end_marker(offset, BASE_TIME_MS + 9, (5, 1), chance.randrange(2), 4)
    kind, value = chance.choice(CONTROL_RECORDS)
    return batch_v2([R(offset, BASE_TIME_MS + 9, struct.pack(">hh", 0, kind), value)], bits=CONTROL)


def random_batch(chance, records):
    producer = chance.choice([(-1, -1, -1), (5, 1, 10), (5, 1, 2**31 - 2)])
    bits = chance.choice([0, 0, 0, LOG_APPEND_TIME, TRANSACTIONAL, TRANSACTIONAL | LOG_APPEND_TIME])
    last = records[-1].offset + chance.choice([0, 0, 0, 2])
    horizon = chance.choice([None, None, None, BASE_TIME_MS + 86_400_000])
    data = batch_v2(records, chance.randrange(5), None, last, producer, chance.choice([0, 0, 7]), bits, horizon=horizon)
    return data, last, max(r.timestamp for r in records)


def random_batches(chance, offset, most=9):
    """(bytes, last offset, max timestamp) of entries of every magic, codec and attribute, with gaps between them."""
    made = []
    for _ in range(chance.randrange(1, most)):
        kind, magic = chance.randrange(12), chance.choice([2, 2, 2, 1, 0])
        records = random_records(chance, offset)
        if magic < 2:
            made += message_sets(chance, [r._replace(headers=()) for r in records], magic)
        elif kind == 0:
            bits = chance.choice([0, TRANSACTIONAL, DELETE_HORIZON])
            made.append((batch_v2([], 0, offset, offset + 3, (5, 1, 9), bits=bits), offset + 3, -1))
        elif kind < 3:
            made.append((control_batch(chance, offset), offset, BASE_TIME_MS + 9))
        else:
            made.append(random_batch(chance, records))
        offset = made[-1][1] + chance.choice([1, 1, 1, 4])
    return made


def random_log(chance):
    return b"".join(batch[0] for batch in random_batches(chance, chance.choice([0, 7])))


def random_files(chance, base):
    """Suffix to bytes of the files of a segment."""
    batches = random_batches(chance, base, 14)
    index, time_index = indexes(batches, base, chance.choice([0, 200, 500]))
    txns = [(5, base + i, base + i + 2, base + i) for i in range(chance.randrange(4))]
    producers = [
        (i, chance.randrange(3), chance.choice([-1, 10]), chance.choice([-1, base + i]), chance.randrange(4), BASE_TIME_MS,
         chance.randrange(-1, 3), chance.choice([-1, base]))
        for i in range(chance.randrange(4))
    ]  # fmt: skip
    return {
        ".log": b"".join(batch[0] for batch in batches),
        ".index": index,
        ".timeindex": time_index,
        ".txnindex": aborted_txns(txns),
        ".snapshot": producer_snapshot(producers),
    }


def damaged(log, chance):
    data = bytearray(log)
    for _ in range(chance.choice([1, 1, 2])):
        at, kind = chance.randrange(max(len(data), 1)), chance.randrange(7)
        if kind < 3 and data:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 3:
            del data[at:]
        elif kind == 4:
            data[at : at + 30] = bytes(len(data[at : at + 30]))
        elif kind == 5:
            data += chance.choice(
                [chance.randbytes(chance.randrange(1, 60)), bytes(chance.choice([1, 7, 8, 12, 17, 18, 48]))]
            )
        elif data:
            size = chance.choice(
                [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0", b"\0\0\0\x0e", b"\0\0\0\x31"]
            )
            data[at : at + 4] = size
    return bytes(data)
