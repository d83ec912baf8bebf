"""Ranges of records as options: the rows are those that the same filters leave of all rows."""

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spark.spark_reading import filters, rows, source, subset, tasks
from tests.support.logs import BASE_TIME_MS, LOG_APPEND_TIME, R, batch_v2, message_set, write_segment
from tests.support.product import UsageError
from tests.support.product_spark import replace_point

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
TOPICS = ("a", "b")
PARTITIONS = (0, 3)
BATCHES, OF_BATCH = 12, 3
SEGMENTS = 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Logs with times that go back and forth, several segments and formats, indexes with an entry every few batches."""
    made = tmp_path_factory.mktemp("logs")
    for number, name in enumerate(f"{topic}-{partition}" for topic in TOPICS for partition in PARTITIONS):
        (made / name).mkdir()
        for segment in range(SEGMENTS):
            parts = [batch(number, segment * BATCHES + at) for at in range(BATCHES)]
            write_segment(made / name, segment * BATCHES * OF_BATCH, parts, interval=300)
    return made


def batch(log, at):
    base = at * OF_BATCH
    records = [
        R(base + i, time_of(log, base + i), None if (base + i) % 5 == 0 else b"key-%d" % ((base + i) % 7), b"v" * 20)
        for i in range(OF_BATCH)
    ]
    largest = max(record.timestamp for record in records)
    if (log + at) % 4 == 1:
        return message_set(records, 1, 1), base + OF_BATCH - 1, largest
    if (log + at) % 4 == 2:
        return batch_v2(records, bits=LOG_APPEND_TIME, max_timestamp=largest), base + OF_BATCH - 1, largest
    return batch_v2(records, codec=(log + at) % 5), base + OF_BATCH - 1, largest


def time_of(log, offset):
    if (log + offset) % 17 == 0:
        return -1
    return BASE_TIME_MS + offset * 10 + (-150 if offset % 11 == 0 else 0) + (400 if (offset + log) % 23 == 0 else 0)


ALL = {}


def everything(folder):
    if not ALL:
        ALL["rows"] = rows(folder).to_pylist()
    return ALL["rows"]


last = SEGMENTS * BATCHES * OF_BATCH
offsets = st.none() | st.integers(0, last + 5)
times = st.none() | st.integers(-20, last + 60).map(lambda at: BASE_TIME_MS + at * 10) | st.sampled_from([-1, 0, 1])


@given(first=offsets, end=offsets, since=times, until=times, mode=st.sampled_from(["failfast", "permissive"]))
def test_the_rows_are_those_of_the_same_filters(folder, first, end, since, until, mode):
    given = {"fromOffset": first, "toOffset": end, "since": since, "until": until}
    options = {name: str(value) for name, value in given.items() if value is not None}
    got = rows(folder, mode=mode, **options).to_pylist()
    wanted = [
        row
        for row in everything(folder)
        if (first is None or row["offset"] >= first)
        and (end is None or row["offset"] < end)
        and (since is None or row["timestamp"] >= since * 1000)
        and (until is None or row["timestamp"] < until * 1000)
    ]
    assert [{name: value for name, value in row.items() if name != "_fault"} for row in got] == wanted
    assert rows(folder, subset("offset"), **options).column("offset").to_pylist() == [row["offset"] for row in wanted]


def test_a_time_in_words_is_that_in_numbers(folder):
    iso = datetime.fromtimestamp((BASE_TIME_MS + 100) / 1000, timezone.utc).isoformat()
    for name in ("since", "until"):
        assert rows(folder, **{name: iso}) == rows(folder, **{name: str(BASE_TIME_MS + 100)})


def test_a_time_moves_the_start(folder):
    """To the first record that is so late: nothing before it is opened."""
    since = BASE_TIME_MS + 300
    _, (part,) = tasks(folder / "a-0", since=str(since))
    first = next(offset for offset in range(last) if time_of(0, offset) >= since)
    assert part.value[0].first == first > 0


def test_little_is_read_for_little(folder, monkeypatch):
    """Neither partitions nor segments that cannot have anything are opened."""
    opened = []

    def counted(open_read):
        return lambda fs, path: (opened.append(path), open_read(fs, path))[1]

    replace_point(monkeypatch, "opening of a file", counted)
    some = {"assign": '{"a":[3]}', "fromOffset": "50"}
    assert rows(folder, **some).num_rows == last - 50
    assert {path.split("/")[-2] for path in opened} == {"a-3"}
    reader, (part,) = tasks(folder, toOffset="60", **some)
    opened.clear()
    assert sum(found.num_rows for found in reader.read(part)) == 10
    assert not [path for path in opened if path.endswith(f"{0:020d}.log")]
    late = str(BASE_TIME_MS + 10**9)
    for nothing in ({"since": late}, {"fromOffset": str(last)}, {"toOffset": "0"}, {"since": "7", "until": "7"}):
        assert tasks(folder, **nothing)[1] == []


def test_no_reader_takes_filters(folder):
    """Until a Spark version passes test_sql_fuzz.py with them: see `kafkalog_cli/ops/scans/offset_limits.py`."""
    for says in ("true", "false"):
        made = source(folder, pushdown=says)  # jobs have it: it is taken, and does nothing
        assert type(made.reader(made.schema())).pushFilters is filters.DataSourceReader.pushFilters


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fromOffset": "-1"}, "fromOffset is an offset, a number from 0 on, not -1"),
        ({"toOffset": "soon"}, "toOffset is an offset, a number from 0 on, not soon"),
        ({"since": "-15m"}, "since is a time in epoch ms or ISO 8601, not -15m"),
        ({"until": "yesterday"}, "'yesterday' is not a time"),
    ],
)
def test_the_data_source_refuses_wrong_record_ranges(folder, options, message):
    with pytest.raises(UsageError, match=message):
        tasks(folder, **options)
