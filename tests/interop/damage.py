"""Damage to the files of a partition (name to bytes), of every kind that a disk, a crash or a hand leaves.

Each kind is a function of a Random and the files, which it changes in place; it does nothing where there is nothing
to damage. `KINDS` has them by name, so that a case is a list of (name, seed) and can be made smaller.
"""

import struct
from random import Random

import crc32c
from logs import BASE_TIME_MS, TRANSACTIONAL, R, batch_v2, end_marker, message_set, producer_snapshot

V2_HEADER_BYTES = 61
EPOCHS = "leader-epoch-checkpoint"
INDEX_SUFFIXES = (".index", ".timeindex", ".txnindex")
SEGMENT_SUFFIXES = (".log", *INDEX_SUFFIXES)
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
EPOCH_FILES = (
    b"", b"0\n0\n", b"0\n1\n0 0\n", b"0\n2\n0 0\n3 50\n", b"0\n2\n3 50\n0 60\n", b"0\n1\nx\n", b"1\n0\n", b"0\n1\n5 999999\n",
    b"0\n3\n0 0\n1 5\n2 100\n", b"0\n2\n0 0\n", b"0\r\n1\r\n0 0\r\n", b"0\n1\n0  0", b"0\n1\n0 0 0\n", b"0\n2\n0 0\n0 10\n",
    b"0\n2\n1 10\n2 10\n", b"0\n1\n-1 0\n", b"0\n1\n2147483648 0\n", b"0\n1\n0 -5\n", b"0\n3\n0 9\n1 20\n2 15\n", b"\n", b"0\n-1\n",
    b"0\n1\n2147483647 1\n", b"0\n4\n0 0\n1 0\n2 0\n7 1\n", b"\xff\xfe", b"0\n0\n0 0\n", b"0\n1\n\n",
)  # fmt: skip
PARTITION_METADATA = (
    b"", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", b"version: 0\ntopic_id: 8Cy_xF2SQQ2u1pVgY0WmCA", b"version: 1\n",
    b"version: 0\ntopic_id: x", b"topic_id: 8Cy_xF2SQQ2u1pVgY0WmCA\nversion: 0", b"version: 5\ntopic_id: 8Cy_xF2SQQ2u1pVgY0WmCA\n",
)  # fmt: skip
OTHER_NAMES = (
    "foo", "x.tmp", f"{EPOCHS}.tmp", "00000000000000000000.checkpoint.deleted", "00000000000000000010.kafka", ".lock",
    "partition.metadata.tmp", "00000000000000000007-0000000003.checkpoint", "0.log.tmp", "foo.deleted", "0.index.cleaned.deleted",
    "5.snapshot", "00000000000000000020.snapshot.tmp", "recovery-point-offset-checkpoint", "00000000000000000000.log.bak",
)  # fmt: skip
ODD_NAMES = (
    "x.log",
    "x.index",
    "foo.snapshot",
    "-5.log",
    "5.log",
    "x.swap",
    "x.cleaned",
    "+7.log",
    "0x.log.swap",
    ".log",
    "12.txnindex",
)


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
    struct.pack_into(">h", log, start + 21, chance.choice([0, 0x10, 0x20, 0x30, 8, 0x40, 5, 7, 1, 4, 0x7FF0, -1]))


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
    kind = chance.randrange(6)
    when, epoch = BASE_TIME_MS + chance.randrange(10**6), chance.choice([0, 0, 1, 4])
    rows = [R(offset + at, when, b"k", b"v" * chance.randrange(40)) for at in range(2)]
    identity = (producer_id, chance.choice([0, 0, 1]), chance.choice([0, 2, 2**31 - 1]))
    if kind == 0:
        return end_marker(offset, when, identity[:2], chance.randrange(2), chance.choice([0, 3]))
    if kind == 1:
        return batch_v2([], 0, offset, offset + 1, identity, epoch)
    if kind == 2:
        return message_set(rows, chance.randrange(2), chance.randrange(4))
    if kind == 3:
        return batch_v2(rows, chance.randrange(5), epoch=epoch)
    return batch_v2(rows, 0, producer=identity, epoch=epoch, bits=chance.choice([0, TRANSACTIONAL, TRANSACTIONAL]))


def batches_of_another(chance, files):
    """The end of one log behind another's."""
    source, target = pick(chance, files, ".log"), pick(chance, files, ".log")
    if source:
        start = chance.choice(batch_ends(files[source]))
        files[target] += files[source][start:]


# -- indexes


def garbage_index(chance, files):
    name = pick(chance, files, *INDEX_SUFFIXES)
    if name:
        files[name] = chance.randbytes(chance.choice([8, 12, 24, 34, 68, 96, 100]))


def resize_index(chance, files):
    name = pick(chance, files, *INDEX_SUFFIXES)
    if name:
        data, kind = files[name], chance.randrange(4)
        more = bytes(chance.choice([1, 3, 7, 8, 12, 34])) if kind == 0 else bytes(max(0, 4096 - len(data)))
        files[name] = (
            data[: chance.randrange(len(data) + 1)] if kind == 1 else bytes(len(data)) if kind == 2 else data + more
        )


def wrong_entry(chance, files):
    """An entry that could be one: another position or offset, of another time, the same twice."""
    name = pick(chance, files, *INDEX_SUFFIXES)
    size = {".index": 8, ".timeindex": 12, ".txnindex": 34}[name[name.rindex(".") :]] if name else 0
    if not name or len(files[name]) < size:
        return
    data = bytearray(files[name])
    at = chance.randrange(len(data) // size) * size
    if size == 8:
        offset, position = struct.unpack_from(">ii", data, at)
        change = chance.choice([-1, 1, 61, -100, 10**6])
        struct.pack_into(
            ">ii",
            data,
            at,
            *chance.choice([(offset, position + change), (offset + change, position), (-5, 0), (0, -5)]),
        )
    elif size == 12:
        time, offset = struct.unpack_from(">qi", data, at)
        struct.pack_into(
            ">qi",
            data,
            at,
            *chance.choice([(time + 10**7, offset), (-1, offset), (0, 0), (time, offset + 50), (time, -3)]),
        )
    else:
        fields = list(struct.unpack_from(">hqqqq", data, at))
        fields[chance.randrange(5)] = chance.choice([0, -1, 3, 10**6])
        struct.pack_into(">hqqqq", data, at, *fields)
    if chance.random() < 0.2:
        data += data[at : at + size]
    files[name] = bytes(data)


def swap_indexes(chance, files):
    suffix = chance.choice(INDEX_SUFFIXES)
    one, other = pick(chance, files, suffix), pick(chance, files, suffix)
    if one:
        files[one], files[other] = files[other], files[one]


def txn_index(chance, files):
    for base in bases(files):
        if chance.random() < 0.5:
            rows = [
                (0, 5, base + chance.choice([-9, 0, at]), base + chance.choice([-1, 5, at + 1]), base + at)
                for at in range(3)
            ]
            rows[-1] = (chance.choice([0, 0, 1, 256, -1]), *rows[-1][1:])
            files[name_of(base, ".txnindex")] = b"".join(struct.pack(">hqqqq", *row) for row in rows)[
                : chance.choice([34, 102, 50, 102])
            ]


# -- producer snapshots


def spoil_snapshot(chance, files):
    name = pick(chance, files, ".snapshot")
    if name:
        data = files[name]
        files[name] = chance.choice(
            [b"", b"x", bytes(30), data[:-3], data + b"abc", b"\0\2" + data[2:], data[:6] + b"\x7f" + data[7:]]
        )


def random_snapshot(chance, files):
    entries = []
    for _ in range(chance.randrange(4)):
        last = chance.choice([-1, 0, 10, 60, 10**6])
        entries.append((chance.choice([1, 5, 4000, -3]), chance.randrange(-1, 4), chance.choice([-1, 0, 7, 2**31 - 1]), last, chance.choice([0, 2, -1]),
                        chance.choice([-1, BASE_TIME_MS, 1_794_999_000_000, 2**62]), chance.randrange(-1, 3), chance.choice([-1, -1, 0, 30, 99, 10**6])))  # fmt: skip
    there = [int(name.split(".")[0]) for name in files if name.endswith(".snapshot") and name.split(".")[0].isdigit()]
    offset = chance.choice([*there, *there, 0, 1, 30, 60, 99, 131, 500, 10**6, 2**40])
    files[name_of(offset, ".snapshot")] = producer_snapshot(entries) if chance.random() < 0.8 else b"zz"


def lose_snapshots(chance, files):
    names = [name for name in sorted(files) if name.endswith(".snapshot")]
    for name in names if chance.random() < 0.5 else names[: chance.randrange(len(names) + 1)]:
        del files[name]


def rename_snapshot(chance, files):
    name = pick(chance, files, ".snapshot")
    if name:
        data = files.pop(name)
        files[name_of(chance.choice([0, 7, 50, 130, 2**31]), ".snapshot")] = data


# -- which files there are


def lose_file(chance, files):
    name = pick(chance, files, *SEGMENT_SUFFIXES, ".snapshot", EPOCHS, "partition.metadata")
    if name:
        del files[name]


def lose_index(chance, files):
    name = pick(chance, files, *INDEX_SUFFIXES)
    if name:
        del files[name]


def lose_segment(chance, files):
    found = bases(files)
    if found:
        base = chance.choice(found)
        for suffix in SEGMENT_SUFFIXES:
            files.pop(name_of(base, suffix), None)


def lose_all_logs(chance, files):
    if chance.random() < 0.3:
        for name in [name for name in files if name.endswith(".log")]:
            del files[name]


def empty_file(chance, files):
    name = pick(chance, files, ".log", *INDEX_SUFFIXES, EPOCHS, ".snapshot")
    if name:
        files[name] = b""


def flip_anywhere(chance, files):
    name = pick(chance, files, *INDEX_SUFFIXES, ".snapshot", EPOCHS, "partition.metadata")
    if name and files[name]:
        data = bytearray(files[name])
        flip(chance, data)
        files[name] = bytes(data)


def exchange_files(chance, files):
    suffix = chance.choice([".log", ".log", ".snapshot"])
    one, other = pick(chance, files, suffix), pick(chance, files, suffix)
    if one:
        files[one], files[other] = files[other], files[one]


def rename_segment(chance, files):
    """Another base offset for a segment, over what has it."""
    found = bases(files)
    if found:
        base, to = chance.choice(found), chance.choice([0, 1, 30, 77, 200, 2**31 + 9, 2**40])
        for suffix in SEGMENT_SUFFIXES:
            if name_of(base, suffix) in files:
                files[name_of(to, suffix)] = files.pop(name_of(base, suffix))


def epochs(chance, files):
    files[EPOCHS] = chance.choice(EPOCH_FILES)


def partition_metadata(chance, files):
    files["partition.metadata"] = chance.choice(PARTITION_METADATA)


def orphan(chance, files):
    files[name_of(chance.choice([3, 77, 99_999]), chance.choice(INDEX_SUFFIXES))] = bytes(chance.choice([0, 8, 34]))


def other_file(chance, files):
    files[chance.choice(OTHER_NAMES)] = b"abc"


def odd_name(chance, files):
    log = pick(chance, files, ".log")
    files[chance.choice(ODD_NAMES)] = files[log] if log else b""


# -- what a cleaner, a split or a deletion leaves


def leftover(chance, files):
    """A segment's files with a work suffix, all or some of them, beside the segment or in its place."""
    found = bases(files)
    if not found:
        return
    base, suffix = chance.choice(found), chance.choice([".swap", ".swap", ".swap", ".cleaned", ".deleted"])
    new_base = base if chance.random() < 0.8 else chance.choice([0, base + 1, base + 7])
    which = chance.choice([SEGMENT_SUFFIXES, SEGMENT_SUFFIXES, (".log",), INDEX_SUFFIXES, (".log", ".index")])
    takes_away = chance.random() < 0.3
    for kind in (*which, *((".snapshot",) if chance.random() < 0.2 else ())):
        if name_of(base, kind) in files:
            files[name_of(new_base, kind + suffix)] = files[name_of(base, kind)]
            if takes_away:
                del files[name_of(base, kind)]


def cleaned_of_several(chance, files):
    """What a cleaner writes: several segments as one, with `.cleaned` of others about."""
    found = bases(files)
    if not found:
        return
    at = chance.randrange(len(found))
    group = found[at : at + chance.randrange(1, 4)]
    log = b"".join(files[name_of(base, ".log")] for base in group if name_of(base, ".log") in files)
    ends = batch_ends(log)
    for _ in range(chance.randrange(3)):
        if len(ends) > 2:
            at = chance.randrange(len(ends) - 1)
            log = log[: ends[at]] + log[ends[at + 1] :]
            ends = batch_ends(log)
    files[name_of(group[0], ".log.swap")] = log
    if chance.random() < 0.5:
        files[name_of(group[0], ".index.swap")] = b""
        files[name_of(group[0], ".timeindex.swap")] = b""
    if chance.random() < 0.2:
        files[name_of(chance.choice(found), chance.choice([".log.cleaned", ".index.cleaned"]))] = b""


KINDS = {
    kind.__name__: kind
    for kind in (
        spoil_snapshot, random_snapshot, lose_snapshots, rename_snapshot, lose_file, lose_index, lose_segment, lose_all_logs, empty_file,
        flip_anywhere, exchange_files, rename_segment, epochs, partition_metadata, orphan, other_file, odd_name, leftover,
        cleaned_of_several, garbage_index, resize_index, wrong_entry, swap_indexes, txn_index, add_batches, batches_of_another,
    )
}  # fmt: skip
KINDS |= {
    kind.__name__: in_the_whole_log(kind)
    for kind in (flip, cut, add_zeros, add_garbage, zeros_inside, last_beyond, end_beyond)
}
KINDS |= {
    kind.__name__: in_a_batch(kind)
    for kind in (
        flip_in_header, cut_in_header, length, magic, base_offset, leader_epoch, drop_batch, repeat_batch, move_batch, records,
    )
}  # fmt: skip
KINDS |= {
    kind.__name__: in_a_header(kind)
    for kind in (
        last_offset_delta, producer, producer_epoch, sequence, attributes, timestamps, record_count,
    )
}  # fmt: skip

OFTEN = (
    "flip",
    "flip_in_header",
    "cut",
    "lose_index",
    "leftover",
    "base_offset",
    "end_beyond",
    "resize_index",
    "add_batches",
)
RARELY = {"odd_name": 0.2, "partition_metadata": 0.2, "lose_all_logs": 0.5, "last_offset_delta": 0.6}


def choose(chance):
    """None to four damages, as (kind, seed)."""
    names = [*KINDS, *OFTEN]
    chosen = []
    for _ in range(chance.choice([0, 1, 1, 1, 2, 2, 3, 4])):
        name = chance.choice(names)
        if chance.random() < RARELY.get(name, 1):
            chosen.append((name, chance.randrange(1 << 32)))
    return chosen


def apply(files, damages):
    """The files after the damages."""
    files = dict(files)
    for name, seed in damages:
        KINDS[name](Random(seed), files)
    return files
