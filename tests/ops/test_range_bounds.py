"""Ranges and look-ups exactly at their limits: each rule against a loop over small cases, plain and by columns."""

import struct
import zlib
from dataclasses import replace
from itertools import pairwise, product
from types import SimpleNamespace

import numpy as np
import pytest

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.errors import AfterLastTime, ExitCode, OffsetOutOfRange
from kafkalog_cli.format.batch import Batch, BatchColumns
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.limits import DEFAULT_LIMITS
from kafkalog_cli.format.records import RecordBlock, RecordColumns
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.log.reading import resync
from kafkalog_cli.log.reading.segment_reader import SegmentReader
from kafkalog_cli.ops import lookup_time as by_time
from kafkalog_cli.ops.damage import DamageSeen, refused_by_clients
from kafkalog_cli.ops.keys import WantedKey
from kafkalog_cli.ops.lookup_offset import Found, largest_timestamp_in, lookup_offset, with_remarks
from kafkalog_cli.ops.lookup_time import BrokerSearch, TimeSearch, joined_errors, lookup_max_timestamp
from kafkalog_cli.ops.partition_state import broker_view
from kafkalog_cli.ops.ranges import Range, cut, part_of, rows_in_range, segments_in_range, window, with_records
from tests.support.logs import BASE_TIME_MS, R, batch_v2, write_segment

FS = RealFilesystem()
APPEND_TIME = 8
BOTH_KINDS = pytest.mark.parametrize("as_arrays", [False, True])


def batch(base=0, last=0, max_timestamp=0, magic=2, attributes=0, position=0):
    return Batch(position, 0, base, last, 0, magic, 0, attributes, 0, max_timestamp, -1, -1, -1, 1, 1)


def batches_of(rows, *, as_arrays):
    return BatchColumns.from_matrix(np.array(rows, np.int64).T) if as_arrays else BatchColumns.from_rows(rows)


# -- ranges


@BOTH_KINDS
def test_a_batch_is_in_a_range_if_it_may_hold_a_record_of_it(as_arrays):
    """An unknown first offset of a set may be any; the timestamps of one on the broker's clock are all the largest."""
    rows = [
        batch(base, last, time, magic, bits)
        for (base, last), time, magic, bits in product(
            [(3, 3), (3, 5), (5, 5), (-1, 5)], (3, 4, 5), (0, 1, 2), (0, APPEND_TIME)
        )
    ]
    for low, high, since, until in product((None, 3, 4, 5, 6), repeat=4):
        wanted = Range(low, high, since, until)
        found = {
            at
            for first, end in rows_in_range(batches_of(rows, as_arrays=as_arrays), wanted)
            for at in range(first, end)
        }
        for at, one in enumerate(rows):
            is_set, is_append_time = one.base_offset < 0, bool(one.magic and one.attributes)
            offsets = range(0 if is_set else one.base_offset, one.last_offset + 1)
            times = [one.max_timestamp] if is_append_time else range(one.max_timestamp + 1)
            if low is not None and high is not None and low >= high:
                continue  # nothing is in it: then only one of its limits decides
            may_hold = any(
                (low is None or offset >= low) and (high is None or offset < high or is_set) for offset in offsets
            ) and any(since is None or time >= since for time in times)
            if is_append_time:
                may_hold &= until is None or one.max_timestamp < until
            assert (at in found) == may_hold, (one, wanted)


def block_of(offsets, ends, *, as_arrays=False, times=None, keys=None):
    """A block with records of one byte of key: by default all have the key of their offset."""
    buffer = bytes(range(256))
    rows = [
        (
            offset,
            offset if times is None else times[at],
            -1,
            offset if keys is None else keys[at],
            1,
            -1,
            -1,
            0,
            0,
            -1,
            1,
        )
        for at, offset in enumerate(offsets)
    ]
    records = RecordColumns.from_rows(rows)
    batches = BatchColumns.from_rows([batch(position=at) for at in range(len(ends) + 1)])
    ends = np.array(ends, np.int64) if as_arrays else tuple(ends)
    return RecordBlock(memoryview(buffer), batches, 1, len(ends) + 1, ends, records.arrays() if as_arrays else records)


def described(block):
    """The offsets of the records of each batch, by the position of the batch."""
    bounds = pairwise([0, *map(int, block.record_ends)])
    offsets = [int(offset) for offset in block.records.offset]
    return {
        block.batches.row(row).position: offsets[begin:end]
        for row, (begin, end) in zip(range(block.first_row, block.end_row), bounds, strict=True)
    }


@BOTH_KINDS
def test_records_of_a_range(as_arrays):
    offsets, times, keys = [2, 3, 4, 6, 7], [5, 3, 4, 4, 6], [1, 2, 1, 1, 2]
    block = block_of(offsets, (2, 2, 3, 5), as_arrays=as_arrays, times=times, keys=keys)
    batches = [[0, 1], [], [2], [3, 4]]
    for low, high, since, until in product((None, 3, 4, 5), (None, 4, 6, 7), (None, 3, 4, 5), (None, 4, 5, 6)):
        for key, most in product((None, 1), (None, 0, 1, 2, 5)):
            wanted = Range(low, high, since, until, None if key is None else WantedKey.of_bytes(bytes([key])))
            fits = [
                at
                for at, (offset, time) in enumerate(zip(offsets, times, strict=True))
                if (low is None or offset >= low)
                and (high is None or offset < high)
                and (since is None or time >= since)
                and (until is None or time < until)
                and (key is None or keys[at] == key)
            ][:most]
            shown = described(cut(block, wanted, most))
            assert shown == {at + 1: [offsets[n] for n in rows if n in fits] for at, rows in enumerate(batches)}


@BOTH_KINDS
def test_batches_without_records_are_left_out(as_arrays):
    """And their faults with them; the fault of a batch that has records stays."""
    fault = Fault(FaultKind.CRC_MISMATCH, 0, "")
    for ends in product((0, 1, 2), (0, 1, 2, 3), (3,)):
        if list(ends) == sorted(ends):
            block = block_of([5, 6, 7], ends, as_arrays=as_arrays)
            parts = with_records(replace(block, faults=dict.fromkeys((1, 2, 3), fault)))
            found = [(at, offsets) for part in parts for at, offsets in described(part).items()]
            assert found == [(at, offsets) for at, offsets in described(block).items() if offsets]
            assert {row for part in parts for row in part.faults} == {at for at, _ in found}


@BOTH_KINDS
def test_a_part_of_a_block_has_the_batches_of_its_records(as_arrays):
    offsets, ends = list(range(20)), (0, 3, 3, 4, 19, 20)
    block = block_of(offsets, ends, as_arrays=as_arrays)
    for first, end in product(range(20), range(1, 21)):
        if first < end:
            part = part_of(block, first, end)
            assert [at for batch in described(part).values() for at in batch] == offsets[first:end]
            for at, own in described(part).items():
                assert set(own) <= set(described(block)[at])
            assert part.first_row == next(row for row, rows in described(block).items() if first in rows)
            assert part.end_row - 1 == next(row for row, rows in described(block).items() if end - 1 in rows)


def segment(folder, base, *batches, interval=0):
    """Batches as lists of offsets; timestamps are BASE_TIME_MS and the offset, unless (offset, timestamp) are given."""
    made = []
    for offsets in batches:
        records = [R(*one) if isinstance(one, tuple) else R(one, BASE_TIME_MS + one) for one in offsets]
        made.append((batch_v2(records), records[-1].offset, max(record.timestamp for record in records)))
    write_segment(folder, base, made, interval)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "t-0").mkdir()
    return tmp_path / "t-0"


@pytest.mark.parametrize("interval", [0, 1 << 20])
def test_the_bytes_of_a_range_are_those_of_its_batches(folder, interval):
    """From the first batch that reaches the range up to the one in which the offset before its end lies."""
    batches = [[5, 6], [7], [9, 10], [11], [12]]
    segment(folder, 5, *batches, interval=interval)
    one = open_partition(FS, str(folder)).segments[0]
    with FS.open_read(one.log.path) as log:
        headers = list(SegmentReader(log).headers())
        for low, high in product((None, *range(4, 14)), repeat=2):
            if low is not None and high is not None and high < low:
                continue
            found = window(FS, one, log, Range(low, high))
            reached = [header for header in headers if low is None or header.last_offset >= low]
            until = next((header for header in headers if high is not None and header.last_offset >= high - 1), None)
            if not reached or (high is not None and high <= 5):
                assert found is None
            else:
                end = log.size_bytes if until is None else until.position + until.size_bytes
                assert found == (reached[0].position, max(end, reached[0].position + reached[0].size_bytes)), (
                    low,
                    high,
                )


def test_the_bytes_from_a_time_on_begin_where_the_time_index_says(folder):
    segment(folder, 5, [5], [6], [7], [8])
    one = open_partition(FS, str(folder)).segments[0]
    with FS.open_read(one.log.path) as log:
        headers = list(SegmentReader(log).headers())
        for header in headers[2:]:
            found = window(FS, one, log, Range(since_ms=header.max_timestamp))
            assert found == (header.position, log.size_bytes)


def test_segments_of_a_range(folder):
    """Each but the last ends where the next begins; one that is named above the range may begin in it."""
    batches = {0: [0, 3], 4: [4, 6], 7: [7, 8], 9: [9]}
    for base, offsets in batches.items():
        segment(folder, base, offsets)
    files = [str(folder / f"{base:020d}.log") for base in batches]
    for low, high in product((None, *range(11)), repeat=2):
        wanted = [
            base
            for base, end in pairwise([*batches, 1 << 63])
            if (low is None or end > low) and (high is None or base < high)
        ]
        found = segments_in_range(FS, files, Range(low, high))
        assert [int(path.rpartition("/")[2].removesuffix(".log")) for path in found] == wanted
    segment(folder, 7, [5, 6, 7, 8])
    for high, is_kept in ((5, False), (6, True), (7, True)):
        assert (files[2] in segments_in_range(FS, files, Range(0, high))) == is_kept


# -- look-ups by offset


def test_the_end_of_the_log_is_outside(folder):
    segment(folder, 5, [5, 6])
    partition = open_partition(FS, str(folder))
    assert [lookup_offset(FS, partition, offset).record_offset for offset in (5, 6)] == [5, 6]
    for offset in (4, 7):
        with pytest.raises(OffsetOutOfRange) as error:
            lookup_offset(FS, partition, offset)
        assert {name: error.value.details[name] for name in ("what", "first", "last")} == {
            "what": f"offset {offset}",
            "first": 5,
            "last": 6,
        }
    (folder / f"{5:020d}.log").write_bytes(b"")
    with pytest.raises(OffsetOutOfRange, match="the log is empty"):
        lookup_offset(FS, open_partition(FS, str(folder)), 5)


def test_the_base_offset_of_a_segment_is_not_looked_for_in_the_one_before(folder):
    segment(folder, 0, [0, 1])
    segment(folder, 2, [2])
    with (folder / f"{0:020d}.log").open("ab") as log:
        log.write(bytes(5))
    found = lookup_offset(FS, open_partition(FS, str(folder)), 2)
    assert (found.record_offset, found.notes) == (2, ())


@pytest.mark.parametrize(
    ("offset", "broker_end", "watermark", "note"),
    [
        (6, 7, None, ""), (7, 7, None, "a broker uses 7 as the end"), (6, None, 7, ""),
        (7, None, 7, "at or above the high watermark 7"), (7, 8, 7, "at or above the high watermark 7"),
    ],
)  # fmt: skip
def test_who_sees_the_record_is_said_from_the_limit_on(offset, broker_end, watermark, note):
    found = Found(None, None, batch(offset, offset), block_of([offset], (1,)))
    notes = with_remarks(found, SimpleNamespace(leftovers=()), LogBounds(0, 9, watermark, broker_end)).notes
    assert len(notes) == bool(note)
    assert all(one.startswith(note) for one in notes)


def seven(folder, base, *payloads):
    """A segment of 0.7 with messages of magic 1, and their offsets, which are byte positions."""
    data, offsets = b"", []
    for payload in payloads:
        offsets.append(base + len(data))
        data += struct.pack(">ibbI", len(payload) + 6, 1, 0, zlib.crc32(payload)) + payload
    (folder / f"{base:020d}.kafka").write_bytes(data)
    return offsets, base + len(data)


def test_a_message_of_seven_is_found_by_its_byte(folder):
    offsets, end = seven(folder, 0, b"a", b"bcd", b"e")
    more, end = seven(folder, end, b"fg")
    partition, offsets = open_partition(FS, str(folder)), [*offsets, *more]
    for offset in range(end):
        wanted = next((one for one in offsets if one >= offset), None)
        if wanted is not None:
            assert lookup_offset(FS, partition, offset).record_offset == wanted
        else:
            with pytest.raises(OffsetOutOfRange):
                lookup_offset(FS, partition, offset)


# -- look-ups by time


def test_records_up_to_the_entry_of_a_time_index_are_not_read(folder):
    segment(folder, 5, [5], [6], [7], [8])
    partition = open_partition(FS, str(folder))
    for offset in (7, 8):
        found = by_time.lookup_time(FS, partition, BASE_TIME_MS + offset).found
        assert (found.record_offset, found.start.entry and found.start.entry.offset) == (offset, offset)


def lying(base, *times, says):
    """A batch whose header says a larger timestamp than its records have."""
    made = [R(base + at, time) for at, time in enumerate(times)]
    return batch_v2(made, max_timestamp=says), made[-1].offset, says


def test_of_equal_largest_timestamps_the_first_record_is_the_answer(folder):
    """Where the header of a later batch says more than its records have."""
    segment(folder, 0, [(0, 50), (1, 50)], [(2, 40), (3, 50)])
    write_segment(folder, 4, [lying(4, 50, says=60)])
    segment(folder, 5, [(5, 50)])
    assert lookup_max_timestamp(FS, open_partition(FS, str(folder))).offset == 0


def test_a_timestamp_of_0_is_one(folder):
    segment(folder, 0, [(0, 0), (1, 0)])
    partition = open_partition(FS, str(folder))
    assert lookup_max_timestamp(FS, partition).offset == 0
    search = BrokerSearch(FS, partition, broker_view(FS, partition), TimeSearch(FS, DEFAULT_LIMITS))
    assert search.first(1, 0, DEFAULT_LIMITS).reason == "by its time indexes no segment goes up to that time"
    answer = search.first(0, 0, DEFAULT_LIMITS)
    assert answer.offset == 0
    assert "as its time index goes up to 0" in answer.reason


@pytest.mark.parametrize("at_once", [1, 2, 3, 4, 5, 9])
def test_batches_by_their_timestamps(folder, monkeypatch, at_once):
    """The largest first, of equal ones the first; a batch without a timestamp is none of them."""
    monkeypatch.setattr(by_time, "_BATCHES_AT_ONCE", at_once)
    times = [3, 0, 3, -1, 5]
    segment(folder, 0, *([(at, time)] for at, time in enumerate(times)))
    with FS.open_read(str(folder / f"{0:020d}.log")) as log:
        assert [header.last_offset for header in by_time._by_timestamp(log)] == [4, 0, 2, 1]


def test_without_a_record_of_the_largest_timestamp_batches_are_read_as_long_as_they_may_have_a_later_one(
    folder, monkeypatch
):
    write_segment(
        folder, 0, [lying(0, 40, says=60), lying(1, 50, 45, says=60), lying(3, 50, says=55), lying(4, 50, says=50)]
    )
    read, whole = [], largest_timestamp_in

    def counted(log, header, limits):
        read.append(header.base_offset)
        return whole(log, header, limits)

    monkeypatch.setattr(by_time, "largest_timestamp_in", counted)
    found = TimeSearch(FS, DEFAULT_LIMITS).latest(open_partition(FS, str(folder)).segments[0])
    assert (found.record_offset, read) == (1, [0, 1, 3])


def test_partitions_without_such_a_record_share_an_error():
    def error(partition, last):
        return AfterLastTime(
            path=f"/d/{partition}", what="T", damage="", first="any time", last=last, newest=str(last)
        )  # fmt: skip

    assert [one.details["path"] for one in joined_errors([error("t-0", 5)])] == ["/d/t-0"]
    (joined,) = joined_errors([error("t-0", 5), error("t-1", 7)])
    assert {name: joined.details[name] for name in ("path", "last", "what")} == {
        "path": "/d",
        "last": 7,
        "what": "T in 2 partitions",
    }


# -- damage that a reader has seen


@pytest.mark.parametrize(("magic", "kind"), [(2, FaultKind.CRC_MISMATCH), (3, FaultKind.INVALID_MAGIC)])
def test_clients_know_the_magics_up_to_2(magic, kind):
    assert refused_by_clients(batch(magic=magic), "left out").kind is kind


def seen(folder, *faults, damaged=None):
    """DamageSeen of three batches of a file, the CRC of one of them damaged, with faults at these bytes."""
    batches = [batch_v2([R(at, BASE_TIME_MS)]) for at in range(3)]
    size = len(batches[0])
    assert {len(one) for one in batches} == {size}
    data = bytearray(b"".join(batches))
    if damaged is not None:
        data[size * (damaged + 1) - 1] ^= 1
    path = folder / f"{0:020d}.log"
    path.write_bytes(data)
    found = DamageSeen()
    with FS.open_read(str(path)) as log:
        for chunk in SegmentReader(log).batches():
            found.batches(chunk)
        for position in faults:
            found.fault(Fault(FaultKind.INVALID_RECORD, round(position * size), ""))
        return found.exit_code(FS, log, len(data), DEFAULT_LIMITS)


def test_a_length_that_leads_astray_hides_no_good_batch(folder):
    """Nothing from the damaged length to the end of the file was read as batches."""
    size = len(batch_v2([R(0, BASE_TIME_MS)]))
    path = folder / f"{0:020d}.log"
    for number, code in ((1, ExitCode.CORRUPTION), (2, ExitCode.WARNINGS)):
        segment(folder, 0, [0], [1], [2])
        data = bytearray(path.read_bytes())
        data[size * number + 8 : size * number + 12] = struct.pack(">i", 1000)
        path.write_bytes(data)
        found = DamageSeen()
        with FS.open_read(str(path)) as log:
            reader = SegmentReader(log)
            for chunk in reader.batches():
                found.batches(chunk)
            assert reader.fault.position == size * number
            found.fault(reader.fault)
            assert found.exit_code(FS, log, len(data), DEFAULT_LIMITS) is code


def test_damage_is_a_tail_if_no_good_batch_follows_it(folder):
    """Whether it is a bad CRC, a record of a good batch, or where the chain of batches ends."""
    assert seen(folder) is ExitCode.OK
    for damaged, code in ((0, ExitCode.CORRUPTION), (1, ExitCode.CORRUPTION), (2, ExitCode.WARNINGS)):
        assert seen(folder, damaged=damaged) is code
        assert seen(folder, damaged) is code
        assert seen(folder, damaged, 3) is code
    assert seen(folder, 3) is ExitCode.WARNINGS
    (folder / f"{3:020d}.log").write_bytes(b"x")
    assert seen(folder, damaged=2) is ExitCode.CORRUPTION


@pytest.mark.parametrize(
    ("faults", "damaged", "is_asked"),
    [((3,), None, True), ((2,), None, False), ((2,), 2, True), ((), 2, True), ((2.5,), None, False)],
)
def test_a_record_of_a_good_batch_is_not_what_a_broker_was_writing(folder, monkeypatch, faults, damaged, is_asked):
    """All other damage may be: then it is asked whether a broker has overwritten it since."""
    asked = []
    monkeypatch.setattr(resync, "is_overtaken", lambda *_, **__: asked.append(1))
    seen(folder, *faults, damaged=damaged)
    assert bool(asked) == is_asked
