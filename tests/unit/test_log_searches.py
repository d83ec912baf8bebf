"""Searches of a log by offset and time: indexes are believed where the log bears them out, exactly at each entry."""

import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.log.log_end import TimestampOrigin, largest_timestamp
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.log.reading.header import Headers
from kafkalog_cli.log.segment_search import SegmentIndexes, first_batch_reaching
from tests.support.logs import BASE_TIME_MS, R, batch_v2, indexes, message, message_set, write_segment

# -- Indexes are believed where the log bears them out, and nowhere else


FS = RealFilesystem()
BASE = 100


def write(tmp_path, batches, interval=0):
    folder = tmp_path / "t-0"
    folder.mkdir(exist_ok=True)
    write_segment(folder, BASE, batches, interval)
    return folder


def search(folder):
    segment = open_partition(FS, str(folder)).segments[0]
    return SegmentIndexes(FS, segment), FS.open_read(segment.log.path)


def before_offset(folder, offset):
    indexes, log = search(folder)
    with log:
        return indexes.before_offset(log, offset)


def reaching(folder, offset):
    indexes, log = search(folder)
    with log:
        return first_batch_reaching(log, indexes.before_offset(log, offset).position, offset)


def index(folder, *entries):
    data = b"".join(struct.pack(">ii", offset - BASE, position) for offset, position in entries)
    (folder / f"{BASE:020d}.index").write_bytes(data)


def time_index(folder, *entries):
    data = b"".join(struct.pack(">qi", time, offset - BASE) for time, offset in entries)
    (folder / f"{BASE:020d}.timeindex").write_bytes(data)


def ones(times, first=BASE, value=b""):
    made = [R(first + i, BASE_TIME_MS + time, None, value) for i, time in enumerate(times)]
    return [(batch_v2([r]), r.offset, r.timestamp) for r in made]


def test_a_search_starts_at_the_index_entry_before_the_offset(tmp_path):
    batches = ones(range(5))
    size = len(batches[0][0])
    folder = write(tmp_path, batches)
    assert before_offset(folder, 103) == (3 * size, (103, 3 * size), "")
    assert before_offset(folder, 100) == (0, None, "")
    index(folder, (102, 2 * size))
    assert before_offset(folder, 103) == (2 * size, (102, 2 * size), "")
    assert before_offset(folder, 101) == (0, None, "")


@pytest.mark.parametrize("position", [-1, 1, 12, 61, 10_000, 2**31 - 1])
def test_a_position_where_no_batch_starts_is_not_used(tmp_path, position):
    folder = write(tmp_path, ones(range(5), value=bytes(50)))
    index(folder, (101, position))
    start = before_offset(folder, 103)
    assert start[:2] == (0, None)
    assert start.doubt == f"the offset index lies: entry 101 at {position}"
    assert reaching(folder, 103).base_offset == 103


def test_a_batch_that_begins_behind_the_offset_is_not_used(tmp_path):
    batches = ones(range(5))
    folder = write(tmp_path, batches)
    index(folder, (101, 4 * len(batches[0][0])))
    assert "lies" in before_offset(folder, 103).doubt
    assert reaching(folder, 103).base_offset == 103
    assert before_offset(folder, 104).doubt == ""


def test_a_header_in_a_value_is_no_batch(tmp_path):
    inner = bytearray(batch_v2([R(BASE, 7)]))
    inner[-1] ^= 1  # its CRC does not hold
    batches = [*ones([0]), *ones([1, 2], first=BASE + 1, value=bytes(inner))]
    folder = write(tmp_path, batches)
    at = b"".join(b[0] for b in batches).index(bytes(inner))
    index(folder, (101, at))
    assert "lies" in before_offset(folder, 102).doubt
    assert reaching(folder, 102).base_offset == 102


def test_a_batch_with_a_bad_crc_still_starts_where_it_does(tmp_path):
    batches = ones(range(5))
    size = len(batches[0][0])
    folder = write(tmp_path, batches)
    log = folder / f"{BASE:020d}.log"
    data = bytearray(log.read_bytes())
    data[3 * size - 1] ^= 1
    log.write_bytes(data)
    index(folder, (102, 2 * size))
    assert before_offset(folder, 104) == (2 * size, (102, 2 * size), "")


def test_a_search_doubts_an_entry_inside_a_compressed_set(tmp_path):
    made = [[R(BASE + i, BASE_TIME_MS + i) for i in range(first, first + 4)] for first in (0, 4, 8)]
    sets = [(message_set(records, 1, 1), records[-1].offset, records[-1].timestamp) for records in made]
    folder = write(tmp_path, sets)
    position = len(sets[0][0])
    index(folder, (104, position))  # as brokers before 2.0 did: the first offset of the set
    assert before_offset(folder, 105) == (position, (104, position), "")
    index(folder, (101, position))
    assert "lies" in before_offset(folder, 103).doubt


def before_time(folder, time):
    indexes, log = search(folder)
    with log:
        return *indexes.before_time(log, BASE_TIME_MS + time), indexes.time_doubt


def test_up_to_a_time_entry_everything_is_older(tmp_path):
    folder = write(tmp_path, ones([0, 10, 5, 20, 30]))
    assert before_time(folder, 15) == (101, (BASE_TIME_MS + 10, 101), "")
    assert before_time(folder, 10) == (99, None, "")  # the first batch has no entry
    assert before_time(folder, 31) == (104, (BASE_TIME_MS + 30, 104), "")


def test_a_time_entry_that_its_batch_does_not_bear_out_is_not_used(tmp_path):
    folder = write(tmp_path, ones([0, 10, 5, 20, 30]))
    time_index(folder, (BASE_TIME_MS + 10, 101), (BASE_TIME_MS + 12, 103))
    older, entry, doubt = before_time(folder, 15)
    assert (older, entry) == (99, None)
    assert doubt == f"the time index lies: entry {BASE_TIME_MS + 12} at offset 103"


def test_a_time_index_that_lost_its_head_is_not_used(tmp_path):
    # A broker makes a missing time index anew, empty: the entries that follow know nothing of the batches before.
    folder = write(tmp_path, ones([0, 90, 5, 20, 30]))
    time_index(folder, (BASE_TIME_MS + 20, 103), (BASE_TIME_MS + 30, 104))
    assert before_time(folder, 25)[:2] == (99, None)
    indexes, log = search(folder)
    with log:
        assert indexes.largest_timestamp(log) == BASE_TIME_MS + 90


def test_a_time_index_that_begins_late_because_there_were_no_timestamps_is_used(tmp_path):
    old = [R(BASE + i, -1) for i in range(3)]
    batches = [(message(r, 0), r.offset, -1) for r in old] + ones([0, 10, 20], first=BASE + 3)
    folder = write(tmp_path, batches)
    assert before_time(folder, 15) == (104, (BASE_TIME_MS + 10, 104), "")


@pytest.mark.parametrize("times", [[0, 10, 20], [20, 10, 0], [0, 90, 5, 20, 30]])
@pytest.mark.parametrize("kept", range(4))
def test_the_largest_timestamp_needs_no_whole_index(tmp_path, times, kept):
    folder = write(tmp_path, ones(times))
    path = folder / f"{BASE:020d}.timeindex"
    path.write_bytes(path.read_bytes()[: 12 * kept])
    indexes, log = search(folder)
    with log:
        assert indexes.largest_timestamp(log) == BASE_TIME_MS + max(times)


def test_an_index_that_was_never_written_to_is_no_lie(tmp_path):
    folder = write(tmp_path, ones([0]))
    for suffix in (".index", ".timeindex"):
        (folder / f"{BASE:020d}{suffix}").write_bytes(bytes(240))
    assert before_time(folder, 1) == (99, None, "")
    assert before_offset(folder, 100) == (0, None, "")


def test_a_search_reports_missing_indexes(tmp_path):
    folder = write(tmp_path, ones([0, 1]))
    for suffix in (".index", ".timeindex"):
        (folder / f"{BASE:020d}{suffix}").unlink()
    assert before_offset(folder, 101) == (0, None, "the offset index is missing")
    assert before_time(folder, 1)[2] == "the time index is missing"


# -- The largest timestamp of a segment: by its headers, whatever the time index says (KAFKA-10207)


MTIME_MS = 1_600_000_000_000
FIRST_MS = 1_700_000_000_000


def segment(folder, timestamps, *, times=None, interval_bytes=100):
    """A segment with a batch of one record for each timestamp; `times` instead of the right time index."""
    directory = folder / "t-0"
    directory.mkdir(exist_ok=True)
    batches = [(batch_v2([R(at, t, b"k", b"v")]), at, t) for at, t in enumerate(timestamps)]
    index, right = indexes(batches, 0, interval_bytes)
    log = directory / f"{0:020d}.log"
    log.write_bytes(b"".join(data for data, _, _ in batches))
    (directory / f"{0:020d}.index").write_bytes(index)
    (directory / f"{0:020d}.timeindex").write_bytes(right if times is None else times)
    os.utime(log, ns=(MTIME_MS * 1_000_000, MTIME_MS * 1_000_000))
    return open_partition(FS, str(directory)).segments[0]


def entries(*pairs):
    return b"".join(struct.pack(">qi", *pair) for pair in pairs)


@given(timestamps=st.lists(st.integers(FIRST_MS, FIRST_MS + 50), min_size=1, max_size=9), enough=st.integers(-2, 52))
def test_the_largest_timestamp_is_that_of_all_batches(tmp_path_factory, timestamps, enough):
    made = segment(tmp_path_factory.mktemp("times"), timestamps)
    found = largest_timestamp(FS, made)
    assert (found.timestamp_ms, found.origin) == (max(timestamps), TimestampOrigin.BATCHES)
    assert not found.is_disputed
    # With a question that the time index answers no batch but one is read; the answer to the question is the same.
    quick = largest_timestamp(FS, made, FIRST_MS + enough)
    assert (quick.timestamp_ms >= FIRST_MS + enough) == (max(timestamps) >= FIRST_MS + enough)


def test_a_time_that_the_index_has_is_answered_by_it(tmp_path):
    """An entry names the last offset of its batch (LogSegment.append): that batch is the one to be looked at."""
    made = segment(tmp_path, [FIRST_MS + 100 * at for at in range(10)])
    assert largest_timestamp(FS, made, LAST_MS) == (LAST_MS, TimestampOrigin.TIME_INDEX, LAST_MS, None, None)
    assert largest_timestamp(FS, made, LAST_MS + 1).origin is TimestampOrigin.BATCHES


@given(
    sizes=st.lists(st.sampled_from([0, 50, 3000, 5000, 70_000]), min_size=1, max_size=8),
    cut=st.integers(0, 300),
    magic=st.none() | st.integers(0, 7),
)
def test_headers_are_found_wherever_they_lie(tmp_path_factory, sizes, cut, magic):
    """Many in a piece or one in several; up to a tear, and past a batch of another magic as the chain goes."""
    directory = tmp_path_factory.mktemp("sizes") / "t-0"
    directory.mkdir()
    batches = [batch_v2([R(at, FIRST_MS - at, b"k", b"x" * size)]) for at, size in enumerate(sizes)]
    if magic is not None and magic < len(batches):
        batches[magic] = batches[magic][:16] + b"\x09" + batches[magic][17:]
    (directory / f"{0:020d}.log").write_bytes(b"".join(batches)[: sum(map(len, batches)) - cut])
    segment = open_partition(FS, str(directory)).segments[0]
    with FS.open_read(segment.log.path) as log:
        reader = Headers(log)
        expected = max((batch.max_timestamp for batch in reader), default=-1)
    found = largest_timestamp(FS, segment)
    assert found.fault == reader.fault
    assert found.timestamp_ms == (expected if expected >= 0 else segment.log.mtime_ms)


LAST_MS = FIRST_MS + 900


@pytest.mark.parametrize(
    ("times", "believed_ms"),
    [
        (b"", MTIME_MS),
        (entries((FIRST_MS, 0)), FIRST_MS),
        (entries((LAST_MS + 5000, 9)), LAST_MS + 5000),
        (entries((FIRST_MS, 0), (0, 0)), FIRST_MS),
    ],
    ids=["empty", "without its tail", "ahead of the log", "preallocated"],
)
def test_the_largest_timestamp_is_right_beside_a_time_index_that_lies(tmp_path, times, believed_ms):
    made = segment(tmp_path, [FIRST_MS + 100 * at for at in range(10)], times=times)
    for enough_ms in (None, FIRST_MS + 500, LAST_MS + 1, LAST_MS + 5000):
        found = largest_timestamp(FS, made, enough_ms)
        assert found.timestamp_ms == LAST_MS
        assert found.believed_ms == believed_ms
        assert found.is_disputed


def test_records_without_timestamps_are_as_old_as_their_file(tmp_path):
    found = largest_timestamp(FS, segment(tmp_path, [-1, -1], times=b""))
    assert (found.timestamp_ms, found.origin, found.is_disputed) == (MTIME_MS, TimestampOrigin.MTIME, False)


def test_the_largest_timestamp_of_a_damaged_log_counts_its_index(tmp_path):
    made = segment(tmp_path, [FIRST_MS + 100 * at for at in range(10)])
    with open(made.log.path, "r+b") as file:  # noqa: PTH123
        file.seek(200)
        file.write(b"\xff" * 100)
    found = largest_timestamp(FS, made)
    assert found.fault is not None
    assert found.timestamp_ms == LAST_MS
