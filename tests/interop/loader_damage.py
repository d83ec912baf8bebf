"""Partition directories for the loader: made at random, and damaged in every way that a disk or a crash knows."""

import shutil
import struct

import crc32c
from logs import BASE_TIME_MS, TRANSACTIONAL, R, batch_v2, end_marker, message_set, producer_snapshot, write_segment

HEADER_BYTES = 61
SIDE_SUFFIXES = (".index", ".timeindex", ".txnindex", ".snapshot")
BASE_OFFSETS = (0, 1, 5, 40, 60, 100, 130, 1000, 2**31, 2**31 + 500, 2**40, -1, -(2**63))
LENGTHS = (2**31 - 1, 1 << 20, 1 << 30, -1, 0, 13, 14, -(2**31), 20)
EPOCH_FILES = (
    b"", b"0\n0\n", b"0\n1\n0 0\n", b"0\n2\n0 0\n3 50\n", b"0\n2\n3 50\n0 60\n", b"0\n1\nx\n", b"1\n0\n",
    b"0\n1\n5 999999\n", b"0\n3\n0 0\n1 5\n2 100\n", b"0\n2\n0 0\n",
)  # fmt: skip
OTHER_FILES = (
    "foo",
    "x.tmp",
    "leader-epoch-checkpoint.tmp",
    "00000000000000000000.checkpoint.deleted",
    "00000000000000000010.kafka",
)


def random_partition(chance, directory):
    """One to four segments with producers, transactions and leader epochs, as a broker leaves them, or nearly so."""
    directory.mkdir()
    offset, epoch, opened = chance.choice([0, 0, 40]), 0, {}
    interval = chance.choice([100, 300, 4096])
    for _ in range(chance.randrange(1, 5)):
        base, batches = offset, []
        for _ in range(chance.randrange(0, 8)):
            epoch += chance.random() < 0.05
            data, offset, timestamp = random_batch(chance, offset, epoch, opened)
            batches.append((data, offset - 1, timestamp))
            offset += chance.choice([0, 0, 0, 3])
        write_segment(directory, base, batches, interval)
        if chance.random() < 0.3:
            (directory / f"{base:020d}.snapshot").write_bytes(producer_snapshot([]))
        if not batches:
            offset += 1
    (directory / "leader-epoch-checkpoint").write_bytes(b"0\n1\n0 0\n")


def random_batch(chance, offset, epoch, opened):
    """(bytes, next offset, largest timestamp); `opened` are transactions by producer."""
    timestamp = BASE_TIME_MS + chance.randrange(10_000)
    kind = chance.choice(["plain", "plain", "idempotent", "transactional", "marker", "legacy"])
    records = [R(offset + i, timestamp + i, b"k", b"v" * chance.randrange(60)) for i in range(chance.randrange(1, 5))]
    following, largest = records[-1].offset + 1, records[-1].timestamp
    if kind == "marker" and opened:
        producer = chance.choice(sorted(opened))
        marker = end_marker(offset, timestamp, (producer, opened.pop(producer)), chance.random() < 0.5, 3)
        return marker, offset + 1, timestamp
    if kind == "legacy":
        return message_set(records, 1, chance.choice([1, 2, 3])), following, largest
    producer, bits = (-1, -1, -1), 0
    if kind == "idempotent":
        producer = (chance.randrange(7, 10), 0, chance.randrange(100))
    elif kind == "transactional":
        producer, bits = (chance.randrange(20, 23), chance.randrange(2), chance.randrange(100)), TRANSACTIONAL
        opened[producer[0]] = producer[1]
    codec = chance.choice([0, 0, 1, 3, 4])
    return batch_v2(records, codec, producer=producer, epoch=epoch, bits=bits), following, largest


# -- damage to a log: a function takes the bytes, where batches start, and where one that is chosen does


def flip(chance, log, starts, at):
    log[chance.randrange(len(log))] ^= 1 << chance.randrange(8)


def flip_in_header(chance, log, starts, at):
    log[min(len(log) - 1, at + chance.randrange(HEADER_BYTES))] ^= 1 << chance.randrange(8)


def cut(chance, log, starts, at):
    del log[chance.randrange(len(log)) :]


def zero_tail(chance, log, starts, at):
    log += bytes(chance.choice([1, 5, 11, 12, 16, 17, 18, 19, 61, 100, 4096]))


def garbage_tail(chance, log, starts, at):
    log += chance.randbytes(chance.choice([3, 17, 18, 40, 200]))


def length(chance, log, starts, at):
    rest = len(log) - at - 12
    struct.pack_into(">i", log, at + 8, chance.choice([*LENGTHS, rest, rest + 1]))


def magic(chance, log, starts, at):
    log[at + 16] = chance.choice([0, 1, 2, 3, 9, 127, 128, 255])


def base_offset(chance, log, starts, at):
    struct.pack_into(">q", log, at, chance.choice(BASE_OFFSETS))


def leader_epoch(chance, log, starts, at):
    struct.pack_into(">i", log, at + 12, chance.choice([-1, 0, 1, 5, 77, 2**31 - 1]))


def last_overflows(chance, log, starts, at):
    struct.pack_into(">q", log, starts[-1], chance.choice([2**31 + 500, 2**31 + 100_000, 2**32]))


def second_half_overflows(chance, log, starts, at):
    for number, start in enumerate(starts[len(starts) // 2 :]):
        struct.pack_into(">q", log, start, 2**31 + 500 + number * 1000)


def drop_batch(chance, log, starts, at):
    del log[at : end_of(log, at)]


def repeat_batch(chance, log, starts, at):
    log += log[at : end_of(log, at)]


def exchange_batches(chance, log, starts, at):
    middle = end_of(log, at)
    if middle < len(log):
        end = end_of(log, middle)
        log[at:end] = log[middle:end] + log[at:middle]


def with_good_crc(change):
    """The damage of a writer, not of a disk: the CRC holds."""

    def damage(chance, log, starts, at):
        if len(log) >= at + HEADER_BYTES and log[at + 16] >= 2:
            change(chance, log, at)
            struct.pack_into(">I", log, at + 17, crc32c.crc32c(bytes(log[at + 21 : end_of(log, at)])))

    return damage


def last_delta(chance, log, at):
    struct.pack_into(">i", log, at + 23, chance.choice([0, 1, 100, -1, 2**31 - 1]))


def producer(chance, log, at):
    fields = chance.choice([-1, 5, 10**12]), chance.choice([-1, 0, 3]), chance.choice([-1, 0, 9])
    struct.pack_into(">qhi", log, at + 43, *fields)


def attributes(chance, log, at):
    struct.pack_into(">h", log, at + 21, chance.choice([0, 0x10, 0x20, 0x30, 8, 0x40, 5, 7]))


LOG_DAMAGES = [
    flip, flip, flip_in_header, flip_in_header, cut, cut, zero_tail, garbage_tail, length, magic, base_offset,
    leader_epoch, last_overflows, second_half_overflows, drop_batch, repeat_batch, exchange_batches,
    with_good_crc(last_delta), with_good_crc(producer), with_good_crc(attributes),
]  # fmt: skip


def end_of(log, at):
    if at + 12 > len(log):
        return len(log)
    return min(len(log), at + 12 + max(0, struct.unpack_from(">i", log, at + 8)[0]))


def batch_starts(log):
    starts = [0]
    while (end := end_of(log, starts[-1])) + 17 < len(log) and end > starts[-1] + 12:
        starts.append(end)
    return starts


def damage_log(chance, directory):
    """One of the damages to one of the logs."""
    path = one(chance, directory, ".log")
    if path is None or path.stat().st_size < HEADER_BYTES + 1:
        return
    log = bytearray(path.read_bytes())
    starts = batch_starts(log)
    chance.choice(LOG_DAMAGES)(chance, log, starts, chance.choice(starts))
    path.write_bytes(log)


# -- damage to the files around it


def one(chance, directory, *suffixes):
    found = sorted(path for path in directory.iterdir() if path.name.endswith(suffixes))
    return chance.choice(found) if found else None


def lose_file(chance, directory):
    path = one(chance, directory, chance.choice([".log", *SIDE_SUFFIXES, ".index", "checkpoint"]))
    if path is not None:
        path.unlink()


def lose_snapshots(chance, directory):
    for path in directory.glob("*.snapshot"):
        path.unlink()


def spoil_index(chance, directory):
    path = one(chance, directory, ".index", ".timeindex")
    if path is None:
        return
    data = path.read_bytes()
    garbage = chance.randbytes(chance.choice([8, 12, 24, 96, 100]))
    full = data + bytes(max(0, 4096 // 12 * 12 - len(data)))
    odd = data + bytes(chance.choice([1, 3, 7]))
    path.write_bytes(chance.choice([garbage, odd, bytes(len(data)), data[: chance.randrange(len(data) + 1)], full]))


def flip_in_sidecar(chance, directory):
    path = one(chance, directory, *SIDE_SUFFIXES)
    if path is not None and path.stat().st_size:
        data = bytearray(path.read_bytes())
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)


def spoil_snapshot(chance, directory):
    path = one(chance, directory, ".snapshot")
    if path is not None:
        data = path.read_bytes()
        path.write_bytes(chance.choice([b"", b"x", bytes(30), data[:-3], data + b"abc"]))


def add_snapshot(chance, directory):
    offset = chance.choice([0, 1, 30, 60, 99, 131, 500, 10**6])
    data = chance.choice([producer_snapshot([]), producer_snapshot([]), b"zz"])
    (directory / f"{offset:020d}.snapshot").write_bytes(data)


def write_epochs(chance, directory):
    (directory / "leader-epoch-checkpoint").write_bytes(chance.choice(EPOCH_FILES))


def add_leftover(chance, directory):
    """What a cleaner, a split or a deletion leaves that was cut off."""
    path = one(chance, directory, ".log")
    if path is None:
        return
    suffix = chance.choice([".swap", ".swap", ".cleaned", ".deleted"])
    with_indexes, takes_away = chance.random() < 0.6, chance.random() < 0.3
    for kind in (".log", *(SIDE_SUFFIXES[:3] if with_indexes else ())):
        source = path.with_suffix(kind)
        if source.exists():
            shutil.copy(source, f"{source}{suffix}")
            if takes_away:
                source.unlink()
    if suffix == ".swap" and chance.random() < 0.3:
        other = one(chance, directory, ".log")
        if other is not None:
            shutil.copy(other, f"{other}.cleaned")


def add_orphan(chance, directory):
    offset, suffix = chance.choice([3, 77, 99_999]), chance.choice(SIDE_SUFFIXES[:3])
    (directory / f"{offset:020d}{suffix}").write_bytes(bytes(8))


def empty_log(chance, directory):
    path = one(chance, directory, ".log")
    if path is not None:
        path.write_bytes(b"")


def add_other(chance, directory):
    (directory / chance.choice(OTHER_FILES)).write_bytes(b"abc")


DAMAGES = [
    *[damage_log] * 20, lose_file, lose_file, lose_file, lose_snapshots, spoil_index, spoil_index, spoil_index,
    flip_in_sidecar, spoil_snapshot, add_snapshot, write_epochs, add_leftover, add_leftover, add_leftover, add_orphan,
    empty_log, add_other,
]  # fmt: skip


def damage(chance, directory):
    """None to four damages, in order."""
    for _ in range(chance.choice([0, 1, 1, 1, 2, 2, 3, 4])):
        chance.choice(DAMAGES)(chance, directory)
