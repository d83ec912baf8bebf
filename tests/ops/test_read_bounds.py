"""What reading and dumping do exactly at a limit: merging by time, fetches, ends of logs and of sets, index entries."""

import random
import struct
from itertools import pairwise, product
from types import SimpleNamespace

import numpy as np
import pytest

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.errors import KafkalogError, OffsetOutOfRange
from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.log.reading.segment_reader import SegmentReader
from kafkalog_cli.ops.dump import _gaps, _gaps_of_array
from kafkalog_cli.ops.dump_indexes import (
    BatchChain,
    GivesUp,
    _batch_at,
    _first_batch_ending_at,
    _timestamp_of_negative_magic,
)
from kafkalog_cli.ops.listing.listing import _first_record
from kafkalog_cli.ops.read import log_read, visible
from kafkalog_cli.ops.read.log_read import Fetch, LogRead, _ends_incomplete, fetches
from kafkalog_cli.ops.read.request import Isolation, ReadRequest, _held_bytes, growing_end, merged_by_time, read_range
from tests.ops.test_range_bounds import block_of
from tests.support.faulty_fs import BytesFile, FaultyFilesystem
from tests.support.logs import (
    BASE_TIME_MS,
    COMPRESS,
    TRANSACTIONAL,
    R,
    batch_v2,
    end_marker,
    message,
    message_set,
    write_segment,
)
from tests.support.naive_consumer import COMMIT

FS = RealFilesystem()

# -- records of several partitions by time


def sources(seed):
    """Blocks of up to three partitions, and the timestamps in them."""
    chance = random.Random(seed)
    return [
        [[chance.randrange(4) for _ in range(chance.randrange(3))] for _ in range(chance.randrange(4))]
        for _ in range(chance.randrange(1, 4))
    ]


@pytest.mark.parametrize("seed", range(40))
def test_the_oldest_next_record_is_next(seed):
    """Of equal timestamps that of the earlier partition; each partition's records stay in their order."""
    parts = sources(seed)
    waiting = [[time for block in blocks for time in block] for blocks in parts]
    count, wanted = [0] * len(parts), []
    while any(waiting):
        _, number = min((times[0], number) for number, times in enumerate(waiting) if times)
        wanted.append((number, waiting[number].pop(0)))
        count[number] += 1
    for most in (None, 0, 1, 2, len(wanted), len(wanted) + 1):
        made = [
            iter([block_of(list(range(len(times))), (len(times),), times=times) for times in blocks])
            for blocks in parts
        ]
        found = [
            (number, int(time)) for number, block in merged_by_time(made, most) for time in block.records.timestamp
        ]
        assert found == wanted[:most]


def test_blocks_that_are_merged_take_no_more_memory_than_the_limit():
    def merged(most_bytes):
        return list(merged_by_time([iter([block_of([5], (1,))]) for _ in range(2)], None, most_bytes))

    held = 2 * _held_bytes(block_of([5], (1,)))
    assert len(merged(held)) == 2
    with pytest.raises(KafkalogError):
        merged(held - 1)


# -- fetches


def expected_fetches(sizes, chunk_bytes, most_bytes):
    """The sizes of the batches of each fetch: a first one that does not fit makes the room larger."""
    found, room = [], 0
    for size in sizes:
        if not found or sum(found[-1]) + size > room:
            room = chunk_bytes
            while room < size:
                room *= 2
            room = min(room, max(most_bytes, size))
            found.append([])
        found[-1].append(size)
    return found


@pytest.mark.parametrize("chunk_bytes", [4, 5])
def test_a_fetch_has_as_many_batches_as_fit(monkeypatch, chunk_bytes):
    monkeypatch.setattr(log_read, "_batches", iter)
    request = SimpleNamespace(chunk_bytes=chunk_bytes, limits=SimpleNamespace(max_batch_bytes=9))
    for sizes in product((1, 2, 4, 5, 8, 12), repeat=3):
        chunks = [[memoryview(bytes(size)) for size in sizes[:1]], [memoryview(bytes(size)) for size in sizes[1:]]]
        segment = SimpleNamespace(chunks=lambda chunks=chunks: iter(chunks))
        found = [(each.batches, each.size_bytes, sum(map(len, each.parts))) for each in fetches(request, segment)]
        wanted = expected_fetches(sizes, chunk_bytes, 9)
        assert found == [(len(each), sum(each), sum(each)) for each in wanted], sizes


def test_batches_are_copied_once():
    fetch, buffer = Fetch(), bytearray(b"abcd")
    fetch.add(memoryview(buffer)[:2])
    fetch.keep()
    fetch.keep()
    buffer[:] = b"wxyz"
    fetch.add(memoryview(buffer)[2:])
    assert list(map(bytes, fetch.parts)) == [b"ab", b"yz"]


# -- ends


def segment(folder, base, *batches):
    folder.mkdir(exist_ok=True)
    made = [[R(offset, BASE_TIME_MS + offset) for offset in offsets] for offsets in batches]
    write_segment(folder, base, [(batch_v2(one), one[-1].offset, one[-1].timestamp) for one in made], interval=0)
    return open_partition(FS, str(folder))


def test_a_log_grows_from_the_end_of_its_last_whole_batch(tmp_path):
    assert growing_end(FS, segment(tmp_path / "t-0", 5, [5, 6], [7])) == 8
    path = tmp_path / "t-0" / f"{5:020d}.log"
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    assert growing_end(FS, open_partition(FS, str(tmp_path / "t-0"))) == 7
    path.write_bytes(data[:-1] + bytes((data[-1] ^ 1,)))
    assert growing_end(FS, open_partition(FS, str(tmp_path / "t-0"))) == 7
    path.write_bytes(b"")
    assert growing_end(FS, open_partition(FS, str(tmp_path / "t-0"))) == 5


def test_a_log_is_read_from_any_offset_up_to_its_end(tmp_path):
    partition = segment(tmp_path / "t-0", 5, [5, 6], [7])
    for start in range(4, 10):
        if 5 <= start <= 8:
            assert read_range(FS, partition, ReadRequest(start)).first == start
        else:
            with pytest.raises(OffsetOutOfRange):
                read_range(FS, partition, ReadRequest(start))
    assert read_range(FS, partition, ReadRequest(5)).end == 2**63 - 1


@pytest.mark.parametrize(
    ("broker_end", "watermark", "end", "kind"),
    [
        (7, None, 7, None), (7, None, 8, "broker-end"), (None, 7, 7, None), (None, 7, 8, "high-watermark"),
        (None, 8, 9, None), (None, 7, 99, "high-watermark"), (8, 7, 8, "high-watermark"),
    ],
)  # fmt: skip
def test_a_note_says_which_records_a_broker_does_not_show(broker_end, watermark, end, kind):
    log = object.__new__(LogRead)
    log.range = SimpleNamespace(bounds=LogBounds(0, 8, watermark, broker_end), end=end)
    log.partition, log.notes = SimpleNamespace(path="p"), []
    log._note_bounds()
    assert [note.kind for note in log.notes] == ([] if kind is None else [kind])


@pytest.mark.parametrize("last", [b"", b"v", None])
@pytest.mark.parametrize("magic", [0, 1])
def test_a_set_that_ends_within_a_message(magic, last):
    """Kafka's iterator ends quietly there; a null or empty value ends a whole message."""
    records = [R(0, 5, b"k", b"value"), R(1, 5, b"k", last)]
    inner = b"".join(message(record, magic) for record in records)
    for cut in range(len(inner) - len(message(records[1], magic)) + 1):
        kept = inner[: len(inner) - cut] if cut else inner
        data = message(R(1, 5, None, COMPRESS[1](kept)), magic, 1)
        (block,) = SegmentReader(BytesFile(data), kernels=KernelChoice(forced=False)).blocks()
        if len(block.records):
            assert _ends_incomplete(block) == (len(block.records) < 2 and len(kept) > len(message(records[0], magic)))
    (block,) = SegmentReader(BytesFile(batch_v2(records, 1)), kernels=KernelChoice(forced=False)).blocks()
    assert not _ends_incomplete(block)


def test_the_first_offset_of_a_batch_without_records_is_that_of_its_header():
    for data, wanted in (
        (batch_v2([], base=5, last=9), (5, None)), (batch_v2([R(5, 7)]), (5, 7)),
        (message_set([R(5, 7), R(6, 8)], 1, 1), (5, 7)),
    ):  # fmt: skip
        header = next(SegmentReader(BytesFile(data)).headers())
        assert _first_record(BytesFile(data), header) == wanted
    bad = message(R(9, 7, None, b"no gzip"), 1, 1)
    assert _first_record(BytesFile(bad), next(SegmentReader(BytesFile(bad)).headers())) == (None, None)


# -- the texts of kafka-dump-log


def test_gaps_of_plain_numbers_and_of_arrays():
    for offsets in product(range(-1, 4), repeat=4):
        for after_none in (False, True):
            wanted = [
                (before, at) for before, at in pairwise(offsets) if at - before != 1 and (after_none or before != -1)
            ]
            assert _gaps(offsets[0], offsets[1:], after_none=after_none) == wanted
            packed = _gaps_of_array(np.array(offsets), after_none=after_none)
            assert list(struct.iter_unpack("=qq", packed)) == wanted


def test_an_entry_points_at_a_batch_within_the_segment():
    one, other = batch_v2([R(0, 5), R(1, 5)]), batch_v2([R(2, 5)])
    file = BytesFile(one + other)
    size = file.size_bytes
    for position, most in product((-1, 0, 1, len(one), size - 1, size, size + 1), (-1, 0, 1000)):
        found = _batch_at(file, position, most)
        if most < 0:
            assert found.message == "Invalid size: -1"
        elif not 0 <= position <= size:
            assert found.message == "the index points outside the segment"
        elif position in (0, len(one)) and most:
            assert found.base_offset == (0 if position == 0 else 2)
        else:
            assert isinstance(found, GivesUp)
            assert found.message not in ("the index points outside the segment", "Invalid size: 0")
    for offset, position in product(range(-1, 4), (-1, 0, len(one), size, size + 1)):
        found = _first_batch_ending_at(file, position, offset, None)
        if not 0 <= position <= size:
            assert isinstance(found, GivesUp)
        else:
            reached = [last for last, at in ((1, 0), (2, len(one))) if at >= position and last >= offset]
            assert (found and found.last_offset) == (reached[0] if reached else None)


@pytest.mark.parametrize("buffer_bytes", [17, 18, 40, 1000])
def test_a_chain_is_followed_from_any_batch_to_its_end(monkeypatch, buffer_bytes):
    from kafkalog_cli.ops import dump_indexes

    monkeypatch.setattr(dump_indexes, "_PIECE_BYTES", buffer_bytes)
    parts = [message(R(at, 5, None, bytes(at)), 1) for at in range(4)]
    positions = [sum(map(len, parts[:at])) for at in range(5)]
    whole = b"".join(parts)
    for end in (*range(positions[3], positions[4]), positions[4]):
        for start in range(4):
            fault = BatchChain(BytesFile(whole[:end])).fault_from(positions[start])
            assert fault is None
    for more, is_read in ((16, False), (17, False), (18, True)):  # FileLogInputStream.nextBatch asks for one byte more
        chain = BatchChain(BytesFile(whole + bytes(more)))
        assert (chain.fault_from(0) is not None) == is_read
    for size in (-1, 0, 13, 14):
        data = whole + struct.pack(">qi", 4, size) + bytes(30)
        for start in range(4):
            found = BatchChain(BytesFile(data)).fault_from(positions[start])
            assert (found is not None) == (size < 14), (size, start)
            assert found is None or (isinstance(found, Fault) and found.position == positions[4])


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_the_timestamp_of_a_message_of_negative_magic(more):
    """The tool looks for it where a message v1 has it: it must lie in the message."""
    size = 26 + more
    data = struct.pack(">qiIbbq", 5, size - 12, 0, -1, 0, 77) + bytes(30)
    batch = Batch(0, size, 5, 5, -1, -1, 0, 0, -1, -1, -1, -1, -1, 1, 1)
    found = _timestamp_of_negative_magic(BytesFile(data), batch)
    assert (found == 77) == (more >= 0)
    assert isinstance(found, GivesUp) == (more < 0)


# -- what a consumer gets


def log_of(*batches, offset=0):
    """A log directory in memory, whose segment has the batches; the offset is that of the segment."""
    return FaultyFilesystem({f"/logs/t-0/{offset:020d}.log": b"".join(batches)})


def told_of(fs, request):
    """The offsets, and the messages of faults and remarks, of a reading; and the reading."""
    log, offsets, told = LogRead(fs, open_partition(fs, "/logs/t-0"), request, KernelChoice(forced=False)), [], []
    for part in log.segments():
        for found in part.blocks():
            if isinstance(found, Fault):
                told.append(found.message)
            else:
                offsets += [int(offset) for offset in found.records.offset]
    return offsets, told + [note.message for note in log.notes], log


@pytest.mark.parametrize("most", range(5))
def test_a_consumer_goes_on_behind_the_last_record_that_was_shown(most):
    fs = log_of(batch_v2([R(5, 1), R(7, 1)]), batch_v2([R(9, 1)]), offset=5)
    offsets, _, log = told_of(fs, ReadRequest(max_records=most))
    assert offsets == [5, 7, 9][:most]
    assert log.next_offset == [5, 6, 8, 10, 10][most]


@pytest.mark.parametrize("end", range(1, 7))
def test_a_bad_batch_is_told_if_it_has_offsets_of_the_range(end):
    """Compaction removed offset 2, so the bad batch is the first that reaches it."""
    bad = bytearray(batch_v2([R(3, 1), R(4, 1)]))
    bad[-1] ^= 1
    fs = log_of(batch_v2([R(0, 1), R(1, 1)]), bytes(bad), batch_v2([R(5, 1)]))
    for start in range(end):
        offsets, told, _ = told_of(fs, ReadRequest(start, to_offset=end))
        assert offsets == [at for at in (0, 1, 5) if start <= at < end]
        assert bool(told) == any(start <= at < end for at in (3, 4))


def test_a_marker_before_the_start_ends_no_later_transaction():
    """The index leads into the middle of the segment, and the producer had a transaction before."""
    records = [R(at, BASE_TIME_MS + at) for at in (0, 2)]
    parts = [batch_v2([one], producer=(7, 0, at), bits=TRANSACTIONAL) for at, one in enumerate(records)]
    parts.insert(1, end_marker(1, BASE_TIME_MS, (7, 0), COMMIT))
    fs = FaultyFilesystem({
        f"/logs/t-0/{0:020d}.log": b"".join(parts),
        f"/logs/t-0/{0:020d}.index": struct.pack(">ii", 2, len(parts[0] + parts[1])),
    })  # fmt: skip
    for start, wanted in ((0, [0]), (1, []), (2, [])):
        offsets, _, log = told_of(fs, ReadRequest(start, isolation=Isolation.READ_COMMITTED))
        assert (offsets, log.last_stable_offset) == (wanted, 2)


def test_a_set_without_its_last_bad_message_ends_with_a_whole_one():
    bad = bytearray(message(R(1, 5, b"k", b"value"), 1))
    bad[-1] ^= 1
    inner = message(R(0, 5, b"k", b"value"), 1) + bytes(bad)
    fs = log_of(message(R(1, 5, None, COMPRESS[1](inner)), 1, 1))
    offsets, told, _ = told_of(fs, ReadRequest())
    assert offsets == [0]
    assert [one for one in told if "incomplete" in one] == []
    assert len(told) == 1


@pytest.mark.parametrize("most", [1, 2, 3])
def test_so_many_transactions_without_a_marker_are_told(monkeypatch, most):
    """Each producer once. With the last message it is said that more follow."""
    monkeypatch.setattr(visible, "_MOST_TOLD_OF", most)
    committed = object.__new__(visible.Committed)
    committed._at_end, committed._told_of, committed._notes = (9, {5: object()}), set(), []
    committed._partition = SimpleNamespace(path="p")
    for producer in (1, 1, 2, 3, 4):
        assert not committed._stays_open(producer, 8)
        assert committed._stays_open(producer, 9)  # the snapshot says nothing of later transactions
    assert committed._stays_open(5, 8)
    assert ["not reported" in note.message for note in committed._notes] == [False] * (most - 1) + [True]
