"""One parser for all times: ISO 8601 in both formats, dates of digits, datetimes, and numbers in another unit."""

import json
from datetime import date, datetime, timedelta, timezone

import numpy as np
import pytest

import kafkalog_cli as kl
from tests.support.commands import kafkalog
from tests.support.logs import R, batch_v2, write_segment
from tests.support.metadata_logs import batches, topic_id, value
from tests.support.product import KafkalogError, UsageError

NOON_MS = 1_795_694_400_000
"""2026-11-26T12:00:00Z"""
HOUR_MS = 3_600_000


@pytest.fixture
def log(tmp_path):
    """A record at each hour from 9 to 14 of the day, at the offsets 0 to 5."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    times = [NOON_MS + (hour - 12) * HOUR_MS for hour in range(9, 15)]
    batches = [(batch_v2([R(at, time, b"k", b"v")]), at, time) for at, time in enumerate(times)]
    write_segment(folder, 0, batches)
    return folder


def offsets(parts):
    return [offset for part in parts for offset in part.column("offset").to_pylist()]


@pytest.mark.parametrize(
    "noon",
    [
        NOON_MS, np.int64(NOON_MS), str(NOON_MS), "2026-11-26T12:00", "20261126T12",
        datetime(2026, 11, 26, 12), datetime(2026, 11, 26, 14, tzinfo=timezone(timedelta(hours=2))),
    ],
)  # fmt: skip
def test_the_library_takes_numbers_texts_and_datetimes(log, noon):
    one = kl.open_partition(log)
    assert offsets(one.records(from_time=noon)) == [3, 4, 5]
    assert offsets(one.records(until=noon)) == [0, 1, 2]
    assert [found.offset for found in kl.find(log, from_time=noon, key=b"k")] == [3, 4, 5]
    with kl.serve(log.parent, at=noon):
        pass


def test_the_library_takes_a_day_and_a_time_before_now(log):
    one = kl.open_partition(log)
    for day in (date(2026, 11, 26), "20261126", 20261126):
        assert offsets(one.records(until=day)) == []
        assert offsets(one.records(from_time=day)) == [0, 1, 2, 3, 4, 5]
    with pytest.raises(KafkalogError, match="no record is at or after"):
        offsets(one.records(from_time="-1s"))


@pytest.mark.parametrize("time", [1.5, True, b"2026-11-26", "yesterday", [NOON_MS], timedelta(1)])
def test_the_library_refuses_what_is_no_time(log, time):
    one = kl.open_partition(log)
    for name in ("from_time", "until"):
        with pytest.raises(UsageError, match="is not a time"):
            list(one.records(**{name: time}))
    with pytest.raises(UsageError, match="is not a time"):
        kl.retain(log, now=time)


@pytest.mark.parametrize(("scale", "unit"), [(1000, "in seconds"), (1 / 1000, "in microseconds")])
def test_another_unit_is_not_taken_silently(log, scale, unit):
    number = int(NOON_MS / scale)
    one = kl.open_partition(log)
    with pytest.warns(kl.LogWarning, match=f"{unit}.*write {NOON_MS}"):
        list(one.records(until=number))
    with pytest.raises(UsageError, match=f"{unit}.*write {NOON_MS}"):
        kl.retain(log, now=number)


def test_a_date_is_no_offset_of_the_metadata_log(tmp_path):
    """`cluster --at` takes offsets and times: 20200101 is a day before all records."""
    (tmp_path / "__cluster_metadata-0").mkdir()
    content = batches([[value("TopicRecord", name="orders", topicId=topic_id(1))]])[0]
    (tmp_path / "__cluster_metadata-0" / f"{0:020d}.log").write_bytes(content)
    ends = [
        json.loads(kafkalog("cluster", tmp_path, "--at", at, "--format", "json")[1].splitlines()[0])["end_offset"]
        for at in ("20200101", "20991231", "0", "1")
    ]
    assert ends == [0, 1, 0, 1]
    assert [kl.cluster(tmp_path, at=at).metadata.end_offset for at in (20200101, "20991231", 0, "1")] == ends
