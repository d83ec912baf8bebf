"""Damage to what lies beside the logs, and to which files there are. See damage.py for what a kind is."""

import struct

from tests.kafka.log_damage import bases, batch_ends, flip, name_of, pick
from tests.support.logs import BASE_TIME_MS, producer_snapshot

EPOCHS = "leader-epoch-checkpoint"
INDEX_SUFFIXES = (".index", ".timeindex", ".txnindex")
SEGMENT_SUFFIXES = (".log", *INDEX_SUFFIXES)
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
        which = chance.randrange(5)
        fields[which] = chance.choice([0, -1, 3, 10**6 if which else 256])
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


def name_inside_wrapper(chance, files):
    """A segment named after an offset inside a batch or wrapper of it, as old cleaners and splits left segments."""
    found = [base for base in bases(files) if len(files.get(name_of(base, ".log"), b"")) > 30]
    if not found:
        return
    base = chance.choice(found)
    log = files[name_of(base, ".log")]
    first, magic = struct.unpack_from(">q", log)[0], log[16]
    last = first + struct.unpack_from(">i", log, 23)[0] if magic == 2 else first
    offsets = [offset for offset in range(max(0, base - 2), min(last, base + 40) + 2) if offset != base]
    if not offsets:
        return
    to = chance.choice(offsets)
    for suffix in SEGMENT_SUFFIXES:
        if name_of(base, suffix) in files:
            files[name_of(to, suffix)] = files.pop(name_of(base, suffix))


def keep_only_orphans(chance, files):
    """Indexes and snapshots without their logs, of every segment or of all but the last."""
    for base in bases(files)[: None if chance.random() < 0.3 else -1]:
        files.pop(name_of(base, ".log"), None)


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


FILE_KINDS = {
    kind.__name__: kind
    for kind in (
        spoil_snapshot, random_snapshot, lose_snapshots, rename_snapshot, lose_file, lose_index, lose_segment, lose_all_logs, empty_file,
        flip_anywhere, exchange_files, rename_segment, name_inside_wrapper, keep_only_orphans, epochs, partition_metadata, orphan, other_file, odd_name, leftover,
        cleaned_of_several, garbage_index, resize_index, wrong_entry, swap_indexes, txn_index,
    )
}  # fmt: skip
