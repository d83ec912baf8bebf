"""Small log directories for the crash and fault tests: twelve with something to repair, five sound; what is told of them.

They are made with struct alone, and what is told of them is read with the naive reader: no code under test.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from functools import cache

from tests.support.archives import CORPUS
from tests.support.logs import (
    BASE_TIME_MS,
    R,
    aborted_txns,
    batch_v2,
    end_marker,
    indexes,
    message,
    message_set,
    producer_snapshot,
)
from tests.support.memory_fs import DEFAULT, START_NS, MemoryFilesystem
from tests.support.naive_reader import read_batches, read_records
from tests.support.product import FileAttributes

ROOT = "/log"
PARTITION = f"{ROOT}/t-0"
OWN = f"{PARTITION}/.kafkalog"
MARKER = f"{ROOT}/.kafka_cleanshutdown"
RECOVERY_POINT = f"{ROOT}/recovery-point-offset-checkpoint"
INTERVAL_BYTES = 100
END = 22
MARKER_BYTES = b'{"version":0,"brokerEpoch":7}'
METADATA = b"version: 0\ntopic_id: kFQ3lUTFSsWWjXbfvbOpDw\n"

Batches = list[tuple[bytes, int, int]]  # bytes, last offset, largest timestamp
Files = dict[str, bytes]


def batch(first: int, count: int = 2, **more: object) -> tuple[bytes, int, int]:
    """A batch of records with keys and values that tell their offset."""
    records = [R(at, BASE_TIME_MS + at, b"k%d" % at, b"value of %d" % at) for at in range(first, first + count)]
    return batch_v2(records, **more), records[-1].offset, records[-1].timestamp


def segment(base: int, batches: Batches, suffix: str = "") -> Files:
    """A segment with its indexes, as a broker that stopped cleanly leaves it."""
    index, times = indexes(batches, base, INTERVAL_BYTES)
    log = b"".join(data for data, _, _ in batches)
    return {
        f"{base:020d}.log{suffix}": log,
        f"{base:020d}.index{suffix}": index,
        f"{base:020d}.timeindex{suffix}": times,
    }


def segments(*sizes: int, epochs: bool = True) -> Files:
    """Segments of so many batches of two records, with the epochs' file and the snapshot at the end."""
    found: Files = {"partition.metadata": METADATA}
    offset = 0
    for size in sizes:
        found |= segment(offset, [batch(offset + 2 * at) for at in range(size)])
        offset += 2 * size
    if epochs:
        found["leader-epoch-checkpoint"] = b"0\n1\n0 0\n"
    found[f"{offset:020d}.snapshot"] = producer_snapshot([])
    return found


def _name(base: int, kind: str) -> str:
    return f"{base:020d}.{kind}"


def one() -> Files:
    found = segments(5)
    del found[_name(0, "index")]
    return found


def three() -> Files:
    found = segments(4, 3, 4)
    found[_name(0, "index")] = b"\xff" * 24
    del found[_name(8, "timeindex")]
    return found


def five() -> Files:
    found = segments(2, 3, 2, 3, 4)
    found[_name(20, "log")] += batch(28)[0][:-9]
    del found["leader-epoch-checkpoint"]
    found[_name(4, "timeindex")] = b"\x01" * 12
    return found


def transactions() -> Files:
    """A committed transaction, an aborted one whose index is missing, an open one; a snapshot that is damaged."""

    def part(first: int, sequence: int) -> tuple[bytes, int, int]:
        return batch(first, producer=(9, 0, sequence), bits=0x10)

    commit = (end_marker(2, BASE_TIME_MS + 2, (9, 0), 1), 2, BASE_TIME_MS + 2)
    abort = (end_marker(5, BASE_TIME_MS + 5, (9, 0), 0), 5, BASE_TIME_MS + 5)
    found = segment(0, [part(0, 0), commit, part(3, 2), abort])
    found |= segment(6, [part(6, 4), batch(8)])
    entry = (9, 5, 4, 5, 0, BASE_TIME_MS + 5, 0, -1)
    found[_name(6, "snapshot")] = producer_snapshot([entry])[:-3]
    found[_name(10, "snapshot")] = b"no snapshot"
    found["leader-epoch-checkpoint"] = b"0\n1\n0 0\n"
    found["partition.metadata"] = METADATA
    found[_name(6, "txnindex")] = aborted_txns([(9, 3, 5, 6)])
    del found[_name(6, "index")]
    return found


def tombstones() -> Files:
    """As a cleaner leaves it: gaps, null values, a batch without records; an index of another segment."""

    def kept(offsets: list[int], base: int, last: int) -> tuple[bytes, int, int]:
        records = [R(at, BASE_TIME_MS + at, b"k%d" % at, None if at % 2 else b"v" * 30) for at in offsets]
        horizon = BASE_TIME_MS + 10**9 if records else None
        largest = max((r.timestamp for r in records), default=-1)
        return batch_v2(records, base=base, last=last, horizon=horizon, max_timestamp=largest), last, largest

    found = segment(0, [kept([1, 3], 0, 4), kept([5], 5, 9), kept([12, 15], 10, 15)])
    found |= segment(16, [kept([16, 17], 16, 17), kept([], 18, 19), kept([22], 22, 22)])
    found |= {"leader-epoch-checkpoint": b"0\n1\n0 0\n", _name(23, "snapshot"): producer_snapshot([])}
    found[_name(16, "index")] = b"\0\0\0\x07\0\0\0\x09" * 2
    found["partition.metadata"] = METADATA
    return found


def _old(base: int, count: int, magic: int, codec: int) -> Batches:
    made = []
    for at in range(base, base + 2 * count, 2):
        records = [R(n, BASE_TIME_MS + n if magic else -1, b"k%d" % n, b"value of %d" % n) for n in (at, at + 1)]
        if codec:
            made.append((message_set(records, magic, codec), at + 1, records[-1].timestamp))
        else:
            made += [(message(r, magic), r.offset, r.timestamp) for r in records]
    return made


def legacy_v0() -> Files:
    found = segment(0, _old(0, 4, 0, 0)) | segment(8, _old(8, 3, 0, 2))
    found["leader-epoch-checkpoint"] = b"0\n0\n"
    found[_name(14, "snapshot")] = producer_snapshot([])
    found[_name(8, "log")] += b"\0" * 9
    found[_name(0, "index")] = b"\x7f" * 16
    return found


def legacy_v1() -> Files:
    found = segment(0, _old(0, 4, 1, 0)) | segment(8, _old(8, 3, 1, 2))
    found["leader-epoch-checkpoint"] = b"0\n0\n"
    found[_name(14, "snapshot")] = producer_snapshot([])
    del found[_name(8, "timeindex")], found[_name(0, "index")]
    return found


def empty() -> Files:
    return {_name(0, "log"): b"", _name(0, "timeindex"): b"\x05" * 24, "partition.metadata": METADATA}


def torn() -> Files:
    found = segments(3, 4)
    found[_name(6, "log")] += batch(14)[0][:70]
    found[_name(6, "index")] = b"\x22" * 8
    return found


def cleaned() -> Files:
    """A cleaner was writing what was to replace the first two segments."""
    found = segments(3, 2, 3)
    found |= segment(0, [batch(0), batch(4)], ".cleaned")
    found[_name(10, "index")] = b"\x33" * 8
    return found


def swap() -> Files:
    """A cleaner had written what replaces the first two segments, and was about to put it in place."""
    found = segments(3, 2, 3)
    found |= segment(0, [batch(0), batch(4), batch(8)], ".swap")
    del found[_name(0, "index")], found[_name(10, "timeindex")]
    return found


def deleted() -> Files:
    """Stopped cleanly, with files that wait for their end."""
    found = segments(3, 4)
    found |= {name + ".deleted": data for name, data in segment(100, [batch(100)]).items()}
    found[_name(6, "index")] = b"\x44" * 8
    del found[_name(0, "timeindex")]
    return found


FIXTURES: dict[str, Callable[[], Files]] = {
    maker.__name__: maker
    for maker in (
        *(one, three, five, transactions, tombstones, legacy_v0, legacy_v1, empty, torn, cleaned, swap, deleted),
    )
}
# -- with nothing to repair, for those who change logs: three segments, which end at END


def sound() -> Files:
    found = segments(4, 3, 4)
    found["leader-epoch-checkpoint"] = b"0\n3\n0 0\n2 10\n3 16\n"
    for base in (8, 14):
        found[_name(base, "snapshot")] = producer_snapshot([])
    return found


def committed() -> Files:
    """Transactions, committed and aborted, over the borders of segments."""

    def part(first: int, sequence: int) -> tuple[bytes, int, int]:
        return batch(first, producer=(9, 0, sequence), bits=0x10)

    def mark(at: int, kind: int) -> tuple[bytes, int, int]:
        return end_marker(at, BASE_TIME_MS + at, (9, 0), kind), at, BASE_TIME_MS + at

    found = segment(0, [part(0, 0), mark(2, 1), part(3, 2), mark(5, 0)])
    found |= segment(6, [part(6, 4), mark(8, 0), batch(9), batch(11)])
    found |= segment(13, [batch(13), part(15, 6), mark(17, 1), batch(18), batch(20)])
    found[_name(0, "txnindex")] = aborted_txns([(9, 3, 5, 6)])
    found[_name(6, "txnindex")] = aborted_txns([(9, 6, 8, 9)])
    for base, last, at in ((6, 3, 5), (13, 5, 8), (END, 7, 17)):
        state = (9, last, at - 1, 1, 0, BASE_TIME_MS + at, 0, -1)
        found[_name(base, "snapshot")] = producer_snapshot([state])
    return found | {"leader-epoch-checkpoint": b"0\n2\n0 0\n1 13\n", "partition.metadata": METADATA}


def compacted() -> Files:
    """After a cleaner, with gaps; the log starts in a segment, as its checkpoint says; files wait for their end."""

    def kept(offsets: list[int], base: int, last: int) -> tuple[bytes, int, int]:
        records = [R(at, BASE_TIME_MS + at, b"k%d" % at, None if at % 2 else b"v" * 30) for at in offsets]
        largest = max((r.timestamp for r in records), default=-1)
        return batch_v2(records, base=base, last=last, max_timestamp=largest), last, largest

    found = segment(0, [kept([1, 3], 0, 4), kept([5], 5, 9)]) | segment(10, [kept([12, 15], 10, 15)])
    found |= segment(16, [kept([16, 17], 16, 17), kept([], 18, 19), kept([21], 20, 21)])
    found |= {"leader-epoch-checkpoint": b"0\n1\n0 3\n", _name(END, "snapshot"): producer_snapshot([])}
    found |= {name + ".deleted": data for name, data in segment(100, [batch(100)]).items()}
    return found | {"partition.metadata": METADATA}


def old() -> Files:
    """A segment of message sets without times, two of such with them."""
    found = segment(0, _old(0, 4, 0, 0)) | segment(8, _old(8, 3, 1, 0)) | segment(14, _old(14, 4, 1, 2))
    return found | {"leader-epoch-checkpoint": b"0\n0\n", _name(END, "snapshot"): producer_snapshot([])}


def killed() -> Files:
    """A broker was killed, and lost nothing: the last indexes have their full length, there is no snapshot."""
    found = segments(3, 4, 4)
    del found[_name(END, "snapshot")]
    found[_name(14, "snapshot")] = producer_snapshot([])
    found[_name(14, "index")] = found[_name(14, "index")].ljust(4096, b"\0")
    found[_name(14, "timeindex")] = found[_name(14, "timeindex")][:12].ljust(4092, b"\0")
    return found


def keyed() -> Files:
    """Keys that come again, in five segments: tombstones, a transaction that was aborted, one that was committed."""

    def some(first: int, keys: str, values: str = "vv", **more: object) -> tuple[bytes, int, int]:
        records = [
            R(first + at, BASE_TIME_MS + first + at, key.encode(), None if value == "0" else b"%d" % (first + at))
            for at, (key, value) in enumerate(zip(keys, values, strict=True))
        ]
        return batch_v2(records, **more), records[-1].offset, records[-1].timestamp

    def part(first: int, keys: str, sequence: int) -> tuple[bytes, int, int]:
        return some(first, keys, producer=(9, 0, sequence), bits=0x10)

    def mark(at: int, kind: int) -> tuple[bytes, int, int]:
        return end_marker(at, BASE_TIME_MS + at, (9, 0), kind), at, BASE_TIME_MS + at

    found = segment(0, [some(0, "ab"), some(2, "ac", "0v")]) | segment(4, [some(4, "bd"), some(6, "ef")])
    found |= segment(8, [part(8, "bc", 0), mark(10, 0), some(11, "cd")])
    found |= segment(13, [part(13, "ef", 2), mark(15, 1), some(16, "eg", "v0")]) | segment(18, [some(18, "ab")])
    found |= segment(20, [some(20, "xy")])
    found[_name(8, "txnindex")] = aborted_txns([(9, 8, 10, 11)])
    for base, last, at in ((8, -1, 0), (13, 1, 10), (18, 3, 15), (20, 3, 15), (END, 3, 15)):
        state = (9, last, at - 1, 1, 0, BASE_TIME_MS + at, 0, -1)
        found[_name(base, "snapshot")] = producer_snapshot([state] if at else [])
    return found | {"leader-epoch-checkpoint": b"0\n1\n0 0\n", "partition.metadata": METADATA}


def tiered() -> Files:
    """Of a tiered topic: what lies below offset 14 is in remote storage, and the log starts at 3. A torn end."""
    parts = [batch(at, epoch=2 if at < 18 else 3) for at in range(14, 22, 2)]
    found = segment(14, parts[:2]) | segment(18, parts[2:])
    found[_name(18, "log")] += batch(22, epoch=3)[0][:-9]
    found[_name(14, "index")] = b"\x55" * 8
    for base in (14, 18, END):
        found[_name(base, "snapshot")] = producer_snapshot([])
    return found | {"leader-epoch-checkpoint": b"0\n4\n0 3\n1 8\n2 14\n3 18\n", "partition.metadata": METADATA}


def tiered_sound() -> Files:
    """The same, stopped cleanly."""
    last = [batch(18, epoch=3), batch(20, epoch=3)]
    return tiered() | segment(14, [batch(14, epoch=2), batch(16, epoch=2)]) | segment(18, last)


def remote_only() -> Files:
    """Of a tiered topic: all records are in remote storage."""
    found = segment(END, []) | {_name(END, "snapshot"): producer_snapshot([]), "partition.metadata": METADATA}
    return found | {"leader-epoch-checkpoint": b"0\n3\n0 3\n1 8\n2 14\n"}


@cache
def _of_a_broker() -> Files:
    """What Kafka 4.2.0 left of a tiered topic: the log starts at 124, and its first segment here at 169."""
    folder = "corpus/remote/data/tiered-0/"
    with tarfile.open(CORPUS) as archive:
        found = [one for one in archive if one.isfile() and one.name.startswith(folder)]
        return {one.name.removeprefix(folder): archive.extractfile(one).read() for one in found}


def broker_tiered() -> Files:
    """A broker's, stopped cleanly."""
    return dict(_of_a_broker())


def broker_tiered_torn() -> Files:
    """The same with a torn end, and an index that is wrong."""
    found = broker_tiered()
    found[_name(169, "log")] += found[_name(169, "log")][:70]
    found[_name(169, "index")] = b"\x55" * 8
    return found


BROKER_TIERED: dict[str, Callable[[], Files]] = {maker.__name__: maker for maker in (broker_tiered, broker_tiered_torn)}
BROKER_END = 210
TIERED: dict[str, Callable[[], Files]] = {
    **{maker.__name__: maker for maker in (tiered, tiered_sound, remote_only)},
    **BROKER_TIERED,
}
"""Logs that start below their first segment here."""
KEYED: dict[str, Callable[[], Files]] = {"keyed": keyed}
"""The same, where a cleaner finds much to do."""
SOUND: dict[str, Callable[[], Files]] = {maker.__name__: maker for maker in (sound, committed, compacted, old, killed)}
TIMELESS = ("/lock", "/.lock", "/manifest.json", ".kafkalog.tmp")
WITH_MARKER = ("deleted", "torn", "three", "sound", "committed", "old", "keyed", "tiered_sound", "remote_only")
WITH_MARKER += ("broker_tiered",)
"""The log directories that a broker stopped cleanly, as their marker says."""


def log_directory(name: str) -> MemoryFilesystem:
    """One of FIXTURES or SOUND as partition t-0 of a log directory in memory, on the disk, with odd attributes."""
    fs = MemoryFilesystem()
    fs.add(f"{ROOT}/meta.properties", b"version=1\nnode.id=1\n")
    fs.add(f"{ROOT}/.lock", b"")
    recovered, replicated = (END, END) if name in SOUND or name in KEYED or name in TIERED else (900, 4)
    recovered = 14 if name in ("killed", "tiered") else recovered
    if name in BROKER_TIERED:
        recovered = replicated = BROKER_END
    fs.add(RECOVERY_POINT, b"0\n2\nother 3 44\nt 0 %d\n" % recovered, FileAttributes(0o640, 5, 6, START_NS + 3))
    starts = b"0\n1\nt 0 3\n" if name == "compacted" or name in TIERED else b"0\n0\n"
    fs.add(f"{ROOT}/log-start-offset-checkpoint", b"0\n1\nt 0 124\n" if name in BROKER_TIERED else starts)
    fs.add(f"{ROOT}/replication-offset-checkpoint", b"0\n1\nt 0 %d\n" % replicated)
    if name in SOUND or name in KEYED:
        fs.add(f"{ROOT}/cleaner-offset-checkpoint", b"0\n1\nt 0 6\n")
    if name in WITH_MARKER:
        fs.add(MARKER, MARKER_BYTES, FileAttributes(0o604, 7, 8, START_NS + 1_000_000_003))
    for at, (file, data) in enumerate((FIXTURES | SOUND | KEYED | TIERED)[name]().items()):
        xattrs = (("user.x", b"%d" % at),) * (at % 2)
        fs.add(f"{PARTITION}/{file}", data, FileAttributes(0o600 + at % 60, 100 + at, 200, START_NS + at, xattrs))
    for path in (ROOT, PARTITION):
        fs.set_attributes(path, FileAttributes(0o750, DEFAULT.owner_id, DEFAULT.group_id, START_NS + 77))
    fs.settle()
    return fs


# -- what is told of a disk


def contents(fs: MemoryFilesystem) -> Files:
    """The files of the log directory; not what we keep, and not `.lock`."""
    return {
        path: inode.content
        for path, inode in fs.walk(ROOT)
        if not inode.is_directory and "/.kafkalog" not in path and path != f"{ROOT}/.lock"
    }


def logs(fs: MemoryFilesystem) -> Files:
    """The partition's `.log` files."""
    return {path: data for path, data in contents(fs).items() if path.startswith(PARTITION) and path.endswith(".log")}


def records(fs: MemoryFilesystem) -> list[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of all valid records, in the order in which they lie."""
    return [record for _, data in sorted(logs(fs).items()) for record in records_of(data)]


@cache
def records_of(data: bytes) -> tuple[tuple[int, bytes | None, bytes | None], ...]:
    """The records of one log, up to what is no batch."""
    valid = (found for found in read_batches(data) if found.valid)
    return tuple((r.offset, r.key, r.value) for found in valid for r in read_records(data, found))


def identity(fs: MemoryFilesystem, *, exact: bool) -> tuple[object, ...]:
    """What a command can see of a disk: two disks alike in this are one.

    Not `exact`: without the times of directories and of our own locks and manifests, by which nobody goes.
    """
    found = []
    for path, inode in fs.walk():
        a = inode.attributes
        is_timeless = not exact and (inode.is_directory or path.endswith(TIMELESS))
        facts = (a.mode, a.owner_id, a.group_id, a.xattrs, None if is_timeless else a.mtime_ns)
        found.append((path, None if inode.is_directory else (inode.number, inode.content), facts))
    return tuple(found)
