"""Filters handed down: whatever they are, the rows are those of the same filters without."""

import operator
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import BASE_TIME_MS, LOG_APPEND_TIME, R, batch_v2, message_set, write_segment
from spark_reading import filters as f
from spark_reading import rows, rows_of, source, subset, tasks

from kafkalog_cli.spark.options import Mode
from kafkalog_cli.spark.pushdown import push

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
TOPICS = ("a", "b")
PARTITIONS = (0, 3)
BATCHES, OF_BATCH = 12, 3
SEGMENTS = 2
COMPARE = {
    f.EqualTo: operator.eq,
    f.EqualNullSafe: operator.eq,
    f.GreaterThan: operator.gt,
    f.GreaterThanOrEqual: operator.ge,
    f.LessThan: operator.lt,
    f.LessThanOrEqual: operator.le,
}


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
        ALL["rows"] = rows(folder, pushdown="false").to_pylist()
    return ALL["rows"]


def as_datetime(micros):
    return EPOCH + timedelta(microseconds=micros)


last = SEGMENTS * BATCHES * OF_BATCH
values = {
    "topic": st.sampled_from([*TOPICS, "c"]),
    "partition": st.integers(-1, 4),
    "offset": st.integers(-5, last + 5),
    "timestamp": st.builds(
        lambda offset, more: as_datetime((BASE_TIME_MS + offset * 10) * 1000 + more),
        st.integers(-20, last + 60),
        st.integers(-3, 3) | st.integers(-20_000, 20_000),
    )
    | st.sampled_from([as_datetime(-1000), as_datetime(0)]),
    "key": st.sampled_from([b"key-0", b"key-3", b"", b"nobody"]).map(bytearray),
    "timestampType": st.integers(-1, 1),
}


@st.composite
def any_filters(draw):
    column = draw(st.sampled_from(list(values)))
    value = values[column]
    kind = draw(st.sampled_from([*COMPARE, f.In, f.IsNotNull, f.IsNull, f.Not]))
    if kind is f.In:
        return f.In((column,), tuple(draw(st.lists(value, min_size=1, max_size=3))))
    if kind in (f.IsNotNull, f.IsNull):
        return kind((column,))
    if kind is f.Not:
        return f.Not(f.EqualTo((column,), draw(value)))
    return kind((column,), draw(value))


def holds(one, row):
    if isinstance(one, f.Not):
        return row[one.child.attribute[0]] is not None and not holds(one.child, row)
    found = row[one.attribute[0]]
    if isinstance(one, f.IsNull):
        return found is None
    if isinstance(one, f.IsNotNull):
        return found is not None
    if found is None:
        return False
    if one.attribute[0] == "timestamp":
        found = as_datetime(found)
    return found in one.value if isinstance(one, f.In) else COMPARE[type(one)](found, one.value)


@given(some=st.lists(any_filters(), min_size=1, max_size=4), permissive=st.booleans())
def test_the_rows_are_those_without(folder, some, permissive):
    mode = "permissive" if permissive else "failfast"
    reader, parts, left = tasks(folder, where=some, mode=mode)
    assert all(one in some for one in left)
    got = [row for row in rows_of(reader, parts).to_pylist() if all(holds(one, row) for one in left)]
    if permissive:
        assert left == some
        got = [{name: value for name, value in row.items() if name != "_fault"} for row in got]
    assert got == [row for row in everything(folder) if all(holds(one, row) for one in some)]


TIME_COMPARISONS = (f.EqualTo, f.GreaterThan, f.GreaterThanOrEqual, f.LessThan, f.LessThanOrEqual)


@pytest.mark.parametrize("kind", TIME_COMPARISONS)
def test_times_to_the_microsecond(folder, kind):
    """At, just before and just behind the time of each record, also where no column needs the times."""
    log = folder / "a-0"
    everything = rows(log, pushdown="false").to_pylist()
    for at in sorted({row["timestamp"] for row in everything})[::5]:
        for micros in (at - 1, at, at + 1):
            where = [kind(("timestamp",), as_datetime(micros))]
            wanted = [row["offset"] for row in everything if COMPARE[kind](row["timestamp"], micros)]
            assert rows(log, where=where).column("offset").to_pylist() == wanted
            assert rows(log, subset("offset"), where).column("offset").to_pylist() == wanted


def test_a_time_moves_the_start(folder):
    """To the first record that is so late: nothing before it is opened."""
    since = BASE_TIME_MS + 300
    _, (part,), _ = tasks(folder / "a-0", where=[f.GreaterThanOrEqual(("timestamp",), as_datetime(since * 1000))])
    first = next(offset for offset in range(last) if time_of(0, offset) >= since)
    assert part.value[0].first == first > 0


def read_offsets(folder, *some):
    return rows(folder, where=some, subscribe="a").column("offset").to_pylist()


def test_what_is_taken_to_the_last_record(folder):
    since, until = as_datetime((BASE_TIME_MS + 100) * 1000), as_datetime((BASE_TIME_MS + 110) * 1000 + 1)
    exact = [
        f.EqualTo(("topic",), "a"), f.In(("topic",), ("a", "b")), f.EqualTo(("partition",), 1), f.In(("partition",), (0, 3)),
        f.GreaterThan(("offset",), 7), f.LessThanOrEqual(("offset",), 90), f.GreaterThanOrEqual(("timestamp",), since),
        f.LessThan(("timestamp",), until), f.IsNotNull(("offset",)), f.IsNotNull(("timestamp",)), f.In(("offset",), (8,)),
    ]  # fmt: skip
    left = [
        f.EqualTo(("key",), bytearray(b"k")), f.In(("offset",), (1, 9)), f.Not(f.EqualTo(("partition",), 0)),
        f.IsNotNull(("key",)), f.IsNull(("offset",)), f.StringStartsWith(("topic",), "a"), f.EqualTo(("headers", "key"), "k"),
        f.EqualTo(("timestampType",), 1), f.GreaterThan(("topic",), "a"), f.EqualTo(("offset",), None),
    ]  # fmt: skip
    assert push([*exact, *left], Mode.FAILFAST)[1] == left
    assert push([*exact, *left], Mode.PERMISSIVE)[1] == [*exact, *left]


def test_little_is_read_for_little(folder, monkeypatch):
    """Neither partitions nor batches that cannot have anything are opened."""
    opened = []
    from kafkalog_cli.storage import fs

    original = fs.RealFilesystem.open_read

    def counted(self, path):
        opened.append(path)
        return original(self, path)

    monkeypatch.setattr(fs.RealFilesystem, "open_read", counted)
    some = [f.EqualTo(("topic",), "a"), f.EqualTo(("partition",), 3), f.GreaterThanOrEqual(("offset",), 50)]
    assert rows(folder, where=some).num_rows == last - 50
    assert {path.split("/")[-2] for path in opened} == {"a-3"}
    reader, (part,), _ = tasks(folder, where=[*some, f.LessThan(("offset",), 60)])
    opened.clear()
    assert sum(found.num_rows for found in reader.read(part)) == 10
    assert not [path for path in opened if path.endswith(f"{0:020d}.log")]
    nothing = [f.EqualTo(("topic",), "a"), f.EqualTo(("topic",), "b")]
    assert tasks(folder, where=nothing)[1] == []
    late = [f.GreaterThan(("timestamp",), as_datetime((BASE_TIME_MS + 10**9) * 1000))]
    assert tasks(folder, where=late)[1] == []


def test_a_reader_that_takes_none(folder):
    for says, takes in (("true", True), ("false", False)):
        made = source(folder, pushdown=says)
        reader = made.reader(made.schema())
        assert (type(reader).pushFilters is not f.DataSourceReader.pushFilters) == takes
    assert read_offsets(folder, f.LessThan(("offset",), 2)) == [0, 1] * 2
