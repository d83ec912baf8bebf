"""Damage to the log of a segment: bits, bytes, header fields, batches. See damage.py for what a kind is."""

import struct

import crc32c

from tests.support.logs import BASE_TIME_MS, CONTROL, TRANSACTIONAL, R, batch_v2, end_marker, message_set

V2_HEADER_BYTES = 61
OFFSETS = (
    0,
    1,
    5,
    40,
    60,
    99,
    100,
    130,
    1000,
    10**6,
    2**31 - 2,
    2**31,
    2**31 + 500,
    2**32,
    2**40,
    2**63 - 1,
    -1,
    -(2**63),
)
LENGTHS = (2**31 - 1, 1 << 20, 1 << 30, -1, 0, 13, 14, 17, 20, 48, 49, 50, -(2**31))
ATTRIBUTES = (0, 0x10, 0x20, 0x30, 8, 0x40, 5, 7, 1, 4, 0x7FF0, -1, 0x31, 0x32, 0x33, 0x34, 0x35, 0x21)
CONTROL_KEYS = (
    None,
    b"",
    b"\0\0",
    *(struct.pack(">hh", *key) for key in ((-1, 0), (0, 9), (0, 2), (1, 1), (0, 0))),
    b"\0\0\0\1x",
)
CONTROL_VALUES = (
    None,
    b"",
    b"\0\0",
    struct.pack(">hi", 0, 3),
    struct.pack(">hi", -1, 3),
    struct.pack(">hi", 2, 3) + b"more",
)
CODECS = (0, 2, 3, 4)
"""Not gzip, whose header has the time: a case is made more than once."""


def name_of(offset, suffix):
    return f"{offset:020d}{suffix}"


def bases(files):
    return sorted({int(name.split(".")[0]) for name in files if name.endswith(".log") and name.split(".")[0].isdigit()})


def pick(chance, files, *suffixes):
    found = [name for name in sorted(files) if name.endswith(suffixes)]
    return chance.choice(found) if found else None


def batch_ends(log):
    """Where the batches of a log that is well formed so far begin, and the last of them ends."""
    found = [0]
    while found[-1] + 17 < len(log):
        (size,) = struct.unpack_from(">i", log, found[-1] + 8)
        if size < 14 or found[-1] + 12 + size > len(log):
            break
        found.append(found[-1] + 12 + size)
    return found


def in_a_batch(change):
    """A kind that changes one batch: `change` gets the log as a bytearray, where the batch begins, and where it ends."""

    def kind(chance, files):
        name = pick(chance, files, ".log")
        log = bytearray(files[name]) if name else b""
        if len(log) < V2_HEADER_BYTES:
            return
        ends = batch_ends(log)
        at = chance.randrange(max(1, len(ends) - 1))
        if chance.random() < 0.25:
            at = max(0, len(ends) - 2)
        start, end = ends[at], ends[at + 1] if at + 1 < len(ends) else len(log)
        if end - start >= 18:
            change(chance, log, start, end)
            files[name] = bytes(log)

    return kind


def in_a_header(change):
    """A kind that changes fields of a v2 header that the CRC covers, which is then right again."""

    def kind(chance, log, start, end):
        if end - start >= V2_HEADER_BYTES and log[start + 16] >= 2:
            change(chance, log, start)
            struct.pack_into(">I", log, start + 17, crc32c.crc32c(bytes(log[start + 21 : end])))

    return in_a_batch(kind)


def in_the_whole_log(change):
    """A kind that changes a log as a whole."""

    def kind(chance, files):
        name = pick(chance, files, ".log")
        if name:
            log = bytearray(files[name])
            change(chance, log)
            files[name] = bytes(log)

    return kind


# -- logs


def flip(chance, log):
    if log:
        log[chance.randrange(len(log))] ^= 1 << chance.randrange(8)


def flip_in_header(chance, log, start, end):
    log[min(end - 1, start + chance.randrange(V2_HEADER_BYTES))] ^= 1 << chance.randrange(8)


def cut(chance, log):
    del log[chance.randrange(len(log) + 1) :]


def cut_in_header(chance, log, start, end):
    del log[start + chance.choice([0, 1, 8, 11, 12, 16, 17, 18, 60, 61, end - start - 1]) :]


def add_zeros(chance, log):
    log += bytes(chance.choice([1, 5, 11, 12, 16, 17, 18, 19, 61, 100, 4096]))


def add_garbage(chance, log):
    log += chance.randbytes(chance.choice([3, 17, 18, 40, 200]))


def zeros_inside(chance, log):
    at = chance.randrange(len(log) + 1)
    size = min(len(log) - at, chance.choice([1, 8, 30, 512]))
    log[at : at + size] = bytes(size)


def length(chance, log, start, end):
    rest = len(log) - start - 12
    struct.pack_into(">i", log, start + 8, chance.choice([*LENGTHS, rest, rest + 1, rest - 1, end - start - 13]))


def magic(chance, log, start, end):
    log[start + 16] = chance.choice([0, 1, 2, 3, 9, 127, 128, 255])


def base_offset(chance, log, start, end):
    (now,) = struct.unpack_from(">q", log, start)
    struct.pack_into(
        ">q",
        log,
        start,
        chance.choice([*OFFSETS, min(now + chance.randrange(1, 9), 2**63 - 1), now - 1 - chance.randrange(9)]),
    )


def leader_epoch(chance, log, start, end):
    struct.pack_into(">i", log, start + 12, chance.choice([-1, 0, 1, 2, 5, 77, 2**31 - 1, -(2**31)]))


def drop_batch(chance, log, start, end):
    del log[start:end]


def repeat_batch(chance, log, start, end):
    log += log[start:end]


def move_batch(chance, log, start, end):
    taken = log[start:end]
    del log[start:end]
    at = chance.choice(batch_ends(log))
    log[at:at] = taken


def last_beyond(chance, log):
    """The last batch has an offset that a segment's indexes may not be able to express."""
    ends = batch_ends(log)
    if len(ends) > 1:
        (first,) = struct.unpack_from(">q", log, 0)
        step = chance.choice([2**31 - 1, 2**31, 2**31 + 500, 2**31 + 100_000, 2**32, 2**33])
        struct.pack_into(">q", log, ends[-2], min(max(first, 0) + step, 2**63 - 1))


def end_beyond(chance, log):
    """As `last_beyond`, from a batch in the middle on, and perhaps once more behind it."""
    ends = batch_ends(log)[:-1]
    if ends:
        offset = max(struct.unpack_from(">q", log, 0)[0], 0) + chance.choice([2**31 - 30, 2**31 + 500, 2**32])
        for start in ends[chance.randrange(len(ends)) :]:
            offset += chance.choice([20, 20, 1000, 2**31])
            struct.pack_into(">q", log, start, min(offset, 2**63 - 1))


def last_offset_delta(chance, log, start):
    struct.pack_into(">i", log, start + 23, chance.choice([0, 1, 2, 100, -1, 2**31 - 1, -(2**31)]))


def producer(chance, log, start):
    producer_id, epoch = chance.choice([-1, 5, 10**12, -7]), chance.choice([-1, 0, 3, 32767])
    struct.pack_into(">qhi", log, start + 43, producer_id, epoch, chance.choice([-1, 0, 9, 2**31 - 1]))


def producer_epoch(chance, log, start):
    struct.pack_into(">h", log, start + 51, chance.choice([-1, 0, 1, 9, 32767]))


def sequence(chance, log, start):
    struct.pack_into(">i", log, start + 53, chance.choice([-1, 0, 1, 9, 2**31 - 1, -(2**31)]))


def attributes(chance, log, start):
    struct.pack_into(">h", log, start + 21, chance.choice(ATTRIBUTES))


def timestamps(chance, log, start):
    struct.pack_into(
        ">qq",
        log,
        start + 27,
        *(chance.choice([-1, 0, BASE_TIME_MS, BASE_TIME_MS + 10**7, 2**63 - 1, -(2**63)]) for _ in "bm"),
    )


def record_count(chance, log, start):
    struct.pack_into(">i", log, start + 57, chance.choice([0, 1, -1, 1000, 2**31 - 1, -(2**31)]))


def records(chance, log, start, end):
    """Other bytes in place of a batch's records, under a CRC that is right."""
    if end - start > V2_HEADER_BYTES and log[start + 16] >= 2:
        at = start + V2_HEADER_BYTES + chance.randrange(end - start - V2_HEADER_BYTES)
        log[at : min(at + 6, end)] = chance.randbytes(min(6, end - at))
        struct.pack_into(">I", log, start + 17, crc32c.crc32c(bytes(log[start + 21 : end])))


def add_batches(chance, files):
    """More batches at the end of a log: transactions, markers with and without one, empty batches, old magics."""
    name = pick(chance, files, ".log")
    if name is None or not name.split(".")[0].isdigit():
        return
    offset = max(int(name.split(".")[0]), 0) + chance.choice([0, 7, 60, 120, 500])
    added, producer_id = b"", chance.choice([1, 5, 4000])
    for _ in range(chance.randrange(1, 6)):
        added += one_batch(chance, offset, producer_id)
        offset += chance.choice([1, 3, 3, 3, 50])
    files[name] += added


def one_batch(chance, offset, producer_id):
    kind = chance.randrange(9)
    when, epoch = BASE_TIME_MS + chance.randrange(10**6), chance.choice([0, 0, 1, 4])
    rows = [R(offset + at, when, b"k", b"v" * chance.randrange(40)) for at in range(2)]
    identity = (producer_id, chance.choice([0, 0, 1]), chance.choice([0, 2, 2**31 - 1]))
    if kind == 0:
        return end_marker(offset, when, identity[:2], chance.randrange(2), chance.choice([0, 3]))
    if kind == 1:
        return batch_v2([], 0, offset, offset + 1, identity, epoch)
    if kind == 6:  # as the cleaner leaves a marker whose transaction has gone
        return batch_v2([], 0, offset, offset, (*identity[:2], -1), epoch, TRANSACTIONAL | CONTROL)
    if kind == 7:
        key, value = chance.choice(CONTROL_KEYS), chance.choice(CONTROL_VALUES)
        return batch_v2([R(offset, when, key, value)], 0, producer=(*identity[:2], -1), bits=TRANSACTIONAL | CONTROL)
    if kind == 2:
        return message_set(rows, chance.randrange(2), chance.choice(CODECS[:3]))
    if kind == 3:
        return batch_v2(rows, chance.choice(CODECS), epoch=epoch)
    return batch_v2(rows, 0, producer=identity, epoch=epoch, bits=chance.choice([0, TRANSACTIONAL, TRANSACTIONAL]))


def batches_of_another(chance, files):
    """The end of one log behind another's."""
    source, target = pick(chance, files, ".log"), pick(chance, files, ".log")
    if source:
        start = chance.choice(batch_ends(files[source]))
        files[target] += files[source][start:]


LOG_KINDS = {kind.__name__: kind for kind in (add_batches, batches_of_another)}
LOG_KINDS |= {
    kind.__name__: in_the_whole_log(kind)
    for kind in (flip, cut, add_zeros, add_garbage, zeros_inside, last_beyond, end_beyond)
}
LOG_KINDS |= {
    kind.__name__: in_a_batch(kind)
    for kind in (
        flip_in_header, cut_in_header, length, magic, base_offset, leader_epoch, drop_batch, repeat_batch, move_batch, records,
    )
}  # fmt: skip
LOG_KINDS |= {
    kind.__name__: in_a_header(kind)
    for kind in (last_offset_delta, producer, producer_epoch, sequence, attributes, timestamps, record_count)
}
