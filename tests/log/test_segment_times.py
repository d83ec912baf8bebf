"""The largest timestamp of a segment: by its headers, whatever the time index says (KAFKA-10207)."""

import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.log.log_end import TimestampOrigin, largest_timestamp
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.log.reading.segment_reader import SegmentReader
from tests.support.logs import R, batch_v2, indexes

FS = RealFilesystem()
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
def test_it_is_the_largest_of_all_batches(tmp_path_factory, timestamps, enough):
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
        reader = SegmentReader(log)
        expected = max((batch.max_timestamp for batch in reader.headers()), default=-1)
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
def test_a_time_index_that_lies(tmp_path, times, believed_ms):
    made = segment(tmp_path, [FIRST_MS + 100 * at for at in range(10)], times=times)
    for enough_ms in (None, FIRST_MS + 500, LAST_MS + 1, LAST_MS + 5000):
        found = largest_timestamp(FS, made, enough_ms)
        assert found.timestamp_ms == LAST_MS
        assert found.believed_ms == believed_ms
        assert found.is_disputed


def test_records_without_timestamps_are_as_old_as_their_file(tmp_path):
    found = largest_timestamp(FS, segment(tmp_path, [-1, -1], times=b""))
    assert (found.timestamp_ms, found.origin, found.is_disputed) == (MTIME_MS, TimestampOrigin.MTIME, False)


def test_records_of_1970_have_timestamps(tmp_path):
    """LogSegment.largestTimestamp takes the file's time only below 0."""
    found = largest_timestamp(FS, segment(tmp_path, [-1, 0], times=entries((0, 1))))
    assert found == (0, TimestampOrigin.BATCHES, 0, None, None)


def test_what_cannot_be_read_is_told_and_the_index_counts_too(tmp_path):
    made = segment(tmp_path, [FIRST_MS + 100 * at for at in range(10)])
    with open(made.log.path, "r+b") as file:  # noqa: PTH123
        file.seek(200)
        file.write(b"\xff" * 100)
    found = largest_timestamp(FS, made)
    assert found.fault is not None
    assert found.timestamp_ms == LAST_MS
