"""What stays of a log is what a dictionary says: every key's last record, whatever the memory."""

import random
import struct
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkalog_cli.broker.cleaning.cleaner import Cleaner, CleaningRequest
from kafkalog_cli.broker.cleaning.key_table import KeySlice, KeyTable, SoughtKeys
from kafkalog_cli.broker.cleaning.log import CleanableLog, Damaged
from kafkalog_cli.broker.cleaning.marking import MarkingRequest, mark, mark_erased
from kafkalog_cli.broker.cleaning.marks import GONE, TOMBSTONE, Causes, Marks
from kafkalog_cli.broker.cleaning.output import IndexLimits
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.log.reading.records import RecordReader
from kafkalog_cli.log.reading.scan import Scan
from tests.support.logs import BASE_TIME_MS, R, aborted_txns, batch_v2, end_marker, message, message_set
from tests.support.memory_fs import MemoryFilesystem
from tests.support.naive_reader import read_batches, read_records

NOW_MS = BASE_TIME_MS + 10_000
RETENTION_MS = 1000
DIRECTORY = "/log/t-0"
GROUP_BYTES = 900


class Files:
    """Where the cleaner writes."""

    def __init__(self):
        self.fs = MemoryFilesystem()
        self.fs.make_directory("/made")
        self.mtimes_ms, self.sizes = {}, {}

    def create(self, name):
        self.sizes[name] = 0
        self.fs.create(f"/made/{name}").close()

    def write(self, name, data):
        with self.fs.open_write(f"/made/{name}") as file:
            file.write(self.sizes[name], data)
        self.sizes[name] += len(data)

    def finish(self, name, mtime_ms):
        self.mtimes_ms[name] = mtime_ms

    @property
    def made(self):
        found = self.fs.walk("/made")
        return {path.rpartition("/")[2]: inode.content for path, inode in found if not inode.is_directory}


keys = st.sampled_from([b"a", b"b", b"c", b"d" * 40, b"e" * 9, b"", None])
values = st.sampled_from([b"one", b"two" * 20, None])


@st.composite
def logs_and_cuts(draw):
    """Segments of batches, each (magic, codec, horizon, records); the first dirty offset, the segment where it ends."""
    segments, offset = [], 0
    for _ in range(draw(st.integers(2, 4))):
        base, batches = offset, []
        for _ in range(draw(st.integers(1, 4))):
            records = []
            for _ in range(draw(st.integers(1, 5))):
                records.append(R(offset, BASE_TIME_MS + draw(st.integers(0, 9)), draw(keys), draw(values)))
                offset += draw(st.sampled_from([1, 1, 1, 3]))
            kind = draw(st.sampled_from(["v2", "v2", "v2", "v1", "v0", "horizon", "passed"]))
            batches.append((kind, draw(st.sampled_from([0, 0, 3, 4])), records))
        segments.append((base, batches))
    first_dirty = draw(st.just(0) | st.integers(0, segments[-1][0]))
    return segments, first_dirty


def encoded(kind, codec, records):
    if kind in ("v0", "v1"):
        magic = int(kind[1])
        records = [r._replace(timestamp=r.timestamp if magic else -1) for r in records]
        return message_set(records, magic, 1) if codec else b"".join(message(r, magic) for r in records)
    horizon = {"horizon": NOW_MS + 5, "passed": NOW_MS - 5}.get(kind)
    return batch_v2(records, codec, horizon=horizon)


def disk_of(segments):
    fs = MemoryFilesystem()
    for base, batches in [*segments, (10**6, [])]:
        data = b"".join(encoded(*batch) for batch in batches)
        fs.add(f"{DIRECTORY}/{base:020d}.log", data)
        for kind in ("index", "timeindex"):
            fs.add(f"{DIRECTORY}/{base:020d}.{kind}", b"")
    return fs


def cleaned(segments, first_dirty, *, memory_bytes=1 << 20, group_bytes=GROUP_BYTES, erased=None):
    fs = disk_of(segments)
    partition = open_partition(fs, DIRECTORY)
    log = CleanableLog(fs, partition.segments)
    marks = mark(log, MarkingRequest(first_dirty, 10**6, NOW_MS, memory_bytes=memory_bytes, erased=erased))
    files = Files()
    request = CleaningRequest(NOW_MS, RETENTION_MS, 10**6, group_bytes, IndexLimits(50, 4096), {}, 10**6)
    cleaner = Cleaner(log, marks, request, files)
    groups = list(cleaner.groups())
    return marks, cleaner, groups, files


@given(case=logs_and_cuts(), erased=st.lists(st.sampled_from([b"a", b"b", b"d" * 40, b"", b"none"]), min_size=1))
def test_an_erasure_without_compaction_removes_the_records_of_the_keys_only(case, erased):
    """Tombstones, duplicates and records without a key stay, and a batch without the keys stays byte for byte."""
    segments, _ = case
    fs, files = disk_of(segments), Files()
    log = CleanableLog(fs, open_partition(fs, DIRECTORY).segments)
    marks = mark_erased(log, MarkingRequest(0, 10**6, NOW_MS, erased=SoughtKeys(erased)))
    request = CleaningRequest(NOW_MS, 0, 10**6, 1 << 30, IndexLimits(50, 4096), {}, -1, only_erases=True)
    cleaner = Cleaner(log, marks, request, files)
    groups = list(cleaner.groups())
    records = [r for _, batches in segments for _, _, records in batches for r in records]
    stays = [(r.offset, r.key, r.value) for r in records if r.key not in erased]
    assert [record for _, found in written(files) for record in found] == stays
    assert cleaner.counts.causes == Causes(erased=len(records) - len(stays))
    assert [group.sources for group in groups] == [(base,) for base, _ in segments]
    for base, batches in segments:
        data = files.made[f"{base:020d}.log.cleaned"]
        for kind, codec, of_batch in batches:
            if kind in ("v0", "v1") and not codec:
                continue  # every message is a batch
            assert (encoded(kind, codec, of_batch) in data) == all(r.key not in erased for r in of_batch)


def expected(segments, first_dirty, erased=()):
    """(offset, key, value) of what stays."""
    last = {}
    for _, batches in segments:
        for _, _, records in batches:
            last.update((r.key, r.offset) for r in records if r.key is not None and r.offset >= first_dirty)
    found = []
    for _, batches in segments:
        for kind, _, records in batches:
            for r in records:
                is_last = r.key is not None and r.offset >= last.get(r.key, -1)
                if is_last and r.key not in erased and not (r.value is None and kind == "passed"):
                    found.append((r.offset, r.key, r.value))
    return found


def written(files):
    for _, data in sorted((name, data) for name, data in files.made.items() if ".log" in name):
        for batch in read_batches(data):
            assert batch.valid
            yield batch, [(r.offset, r.key, r.value) for r in read_records(data, batch)]


@given(case=logs_and_cuts(), memory_bytes=st.sampled_from([1 << 20, 500]))
@example(
    case=(
        [(0, [("v2", 0, [R(0, BASE_TIME_MS, b"a", b"")])]), (1, [("passed", 0, [R(1, BASE_TIME_MS, b"a", None)])])],
        0,
    ),
    memory_bytes=500,
)
def test_cleaning_keeps_the_records_that_a_dictionary_of_keys_keeps(case, memory_bytes):
    segments, first_dirty = case
    marks, cleaner, groups, files = cleaned(segments, first_dirty, memory_bytes=memory_bytes)
    want = expected(segments, first_dirty)
    found = list(written(files))
    assert [record for _, records in found for record in records] == want
    assert marks.end_offset == 10**6
    assert cleaner.counts.records_kept == len(want)
    assert cleaner.counts.records_read == sum(len(records) for _, batches in segments for _, _, records in batches)
    assert [base for group in groups for base in group.sources] == [base for base, _ in segments]
    for batch, records in found:
        assert batch.magic == 2
        assert batch.base_offset <= records[0][0] <= records[-1][0] <= batch.last_offset
        if any(value is None for _, _, value in records):
            assert batch.attributes & 0x40, "a tombstone without a horizon"


@given(
    case=logs_and_cuts(),
    erased=st.lists(st.sampled_from([b"a", b"b", b"d" * 40, b"", b"none"]), min_size=1),
    memory_bytes=st.sampled_from([1 << 20, 500]),
)
def test_erased_keys_are_gone_and_no_other(case, erased, memory_bytes):
    segments, first_dirty = case
    options = {"memory_bytes": memory_bytes, "erased": SoughtKeys(erased)}
    marks, cleaner, _, files = cleaned(segments, first_dirty, **options)
    want = expected(segments, first_dirty, erased)
    assert [record for _, records in written(files) for record in records] == want
    assert (marks.end_offset, cleaner.counts.records_kept) == (10**6, len(want))


def test_the_last_record_of_each_of_many_keys_stays():
    chosen, data = keyed_log(3000, 900, 30)
    wanted = [b"user-%d" % at if at % 2 else chosen[at] for at in range(0, 900, 3)]
    wanted += wanted[:5]
    sought, found, at = SoughtKeys(wanted), [], 0
    finder = sought.finder()
    for block in blocks(data):
        rows = finder.rows(block)
        assert all(wanted[finder.number_of(block, row)] == chosen[at + row] for row in rows)
        assert all(finder.number_of(block, row) < len(wanted) - 5 for row in rows)
        found += [at + row for row in rows]
        at += block.record_count
    assert found == [at for at, key in enumerate(chosen) if key in wanted]
    assert 0 < len(found) < len(chosen)
    assert len(sought) == len(set(wanted))


@pytest.mark.slow
def test_threads_find_keys_side_by_side():
    """As partitions are erased with --jobs: each thread has a finder of its own."""
    chosen, data = keyed_log(20_000, 900, 30)
    sought = SoughtKeys(chosen[:300])
    reading = [blocks(data), blocks(data[: len(data) // 20])]
    block, other = map(next, reading)
    wanted = set(chosen[:300])
    want = [at for at, key in enumerate(chosen[: block.record_count]) if key in wanted]
    assert 0 < other.record_count < block.record_count

    def find(its_block):
        finder = sought.finder()
        return {tuple(finder.rows(its_block)) for _ in range(200)}

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(find, [block, other, block, other]))
    assert found[0] == found[2] == {tuple(want)}
    assert found[1] == found[3] == {tuple(at for at in want if at < other.record_count)}


def blocks(data):
    from tests.support.faulty_fs import BytesFile

    reader = RecordReader()
    for chunk in Scan(BytesFile(data)):
        yield from reader.blocks(chunk)


def keyed_log(count, distinct, size, seed=1):
    chance = random.Random(seed)
    chosen = [b"%0*d" % (chance.randrange(1, size), chance.randrange(distinct)) for _ in range(count)]
    data = b"".join(
        batch_v2([R(at + n, BASE_TIME_MS, key, b"v") for n, key in enumerate(chosen[at : at + 50])])
        for at in range(0, count, 50)
    )
    return chosen, data


@pytest.mark.parametrize("bits", [0, 2])
def test_a_table_of_keys_has_what_a_dictionary_has(bits):
    """Marked is what has a later record with its key; all slices together mark what one does."""
    chosen, data = keyed_log(20_000, 4000, 30)
    marks = Marks()
    marks.reach(len(chosen))
    for part in KeySlice().split(bits) if bits else [KeySlice()]:
        table, at = KeyTable(marks, 1 << 24, part), 0
        for block in blocks(data):
            assert table.put(block, 0, block.record_count, at) == block.record_count
            at += block.record_count
        assert not table.is_full
    last = {key: at for at, key in enumerate(chosen)}
    assert [bool(flag & GONE) for flag in marks.flags] == [last[key] != at for at, key in enumerate(chosen)]


def test_records_before_the_dirty_part_go_by_the_keys_of_the_dirty_part():
    before, older = keyed_log(1000, 300, 4, seed=2)
    after, data = keyed_log(1000, 300, 4, seed=3)
    marks, at = Marks(), 1000
    marks.reach(2000)
    table = KeyTable(marks, 1 << 20, KeySlice())
    for block in blocks(data):
        table.put(block, 0, block.record_count, at)
        at += block.record_count
    at = 0
    for block in blocks(older):
        table.mark_older(block, 0, block.record_count, at)
        at += block.record_count
    assert [bool(flag & GONE) for flag in marks.flags[:1000]] == [key in after for key in before]


def test_a_table_takes_no_more_memory_than_it_may():
    chosen, data = keyed_log(30_000, 10**9, 40)
    marks = Marks()
    marks.reach(len(chosen))
    table, at = KeyTable(marks, 1 << 20, KeySlice()), 0
    for block in blocks(data):
        at += table.put(block, 0, block.record_count, at)
        if table.is_full:
            break
    assert table.is_full
    assert 2000 < at < 30_000
    assert table._table.size_bytes <= 1 << 20


def test_a_key_larger_than_all_memory_is_refused():
    segments = [(0, [("v2", 0, [R(0, BASE_TIME_MS, b"k" * 500_000, b"")])])]
    with pytest.raises(KafkalogError, match="larger than the memory for keys, 200000 bytes"):
        cleaned(segments, 0, memory_bytes=200_000)


def test_marks_count_what_is_gone_and_what_is_a_tombstone():
    marks = Marks()
    assert marks.reach(5)
    assert not marks.reach(3)
    marks.flags[0] |= GONE
    marks.flags[1] |= TOMBSTONE
    marks.flags[2] |= GONE | TOMBSTONE
    assert marks.kept(0, 5) == (3, 1)
    marks.expire(0, 5)
    assert marks.kept(0, 5) == (2, 0)


def test_damage_ends_a_cleaning():
    segments = [(0, [("v2", 0, [R(at, BASE_TIME_MS, b"k", b"v") for at in range(9)])])]
    fs = disk_of(segments)
    path = f"{DIRECTORY}/{0:020d}.log"
    data = bytearray(dict(fs.walk())[path].content)
    data[-1] ^= 1
    fs.add(path, bytes(data))
    log = CleanableLog(fs, open_partition(fs, DIRECTORY).segments)
    with pytest.raises(Damaged, match="CRC"):
        mark(log, MarkingRequest(0, 10**6, NOW_MS))


def test_a_tombstone_counts_though_its_producer_aborted_before():
    """Where the first dirty offset lies behind the end of an aborted transaction in the same segment, a broker takes it
    for one that goes on (LocalLog.collectAbortedTransactions looks from the log's start on): the tombstone that the
    producer commits next is not in its table, the value before stays, and when the tombstone goes the key is back."""
    producer = (7, 0)

    def data(offset, key, value, sequence):
        return batch_v2([R(offset, BASE_TIME_MS, key, value)], producer=(*producer, sequence), bits=0x10)

    def end(offset, commits):
        return end_marker(offset, BASE_TIME_MS, producer, commits)

    def survivors(aborted_from):
        fs = MemoryFilesystem()
        log = b"".join([
            batch_v2([R(0, BASE_TIME_MS, b"k", b"old")]), data(1, b"a", b"x", 0), end(2, 0),
            data(3, b"k", None, 1), end(4, 1), batch_v2([R(5, BASE_TIME_MS, b"z", b"z")]),
        ])  # fmt: skip
        # A sparse index entry leads to offset 3, behind the marker.
        position = sum(
            len(part) for part in (batch_v2([R(0, BASE_TIME_MS, b"k", b"old")]), data(1, b"a", b"x", 0), end(2, 0))
        )
        fs.add(f"{DIRECTORY}/{0:020d}.log", log)
        fs.add(f"{DIRECTORY}/{0:020d}.index", struct.pack(">ii", 3, position))
        fs.add(f"{DIRECTORY}/{0:020d}.timeindex", b"")
        fs.add(f"{DIRECTORY}/{0:020d}.txnindex", aborted_txns([(7, 1, 2, 3)]))
        fs.add(f"{DIRECTORY}/{6:020d}.log", b"")
        fs.add(f"{DIRECTORY}/{6:020d}.index", b"")
        fs.add(f"{DIRECTORY}/{6:020d}.timeindex", b"")
        log = CleanableLog(fs, open_partition(fs, DIRECTORY).segments)
        with mock.patch.object(CleanableLog, "aborted_from", aborted_from):
            marks = mark(log, MarkingRequest(3, 6, NOW_MS))
        files = Files()
        request = CleaningRequest(NOW_MS, RETENTION_MS, 6, GROUP_BYTES, IndexLimits(50, 4096), {}, 6)
        list(Cleaner(log, marks, request, files).groups())
        return [record for _, records in written(files) for record in records if record[1] == b"k"]

    from_there = CleanableLog.aborted_from
    assert survivors(from_there) == [(3, b"k", None)]
    assert survivors(lambda log, _: from_there(log, 0)) == [(0, b"k", b"old"), (3, b"k", None)]
