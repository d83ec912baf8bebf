"""Files as other programs write them: what is imported exactly, and what is refused with a word of what to do."""

import datetime as dt
import decimal

import pytest

from tests.spark.exporting import pa, pq
from tests.spark.importing import NOW_MS, import_into, new_log_dir, records, seen
from tests.support.product import BadInput, ExitCode, KafkalogError, NothingSelected, PathNotFound, UsageError

VALUES = pa.array([b"x", b"y"])
PLACES = pa.array([0, 0], pa.int32())
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SECONDS = [1_600_000_000, 1_600_000_001]


def write(path, columns):
    """An Arrow file, as Parquet has fewer types."""
    path.parent.mkdir(exist_ok=True, parents=True)
    table = pa.table({"value": VALUES, "partition": PLACES, **columns})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table)
    return path


def times(unit, factor, zone):
    return {"timestamp": pa.array([at * factor + factor // 2 for at in SECONDS], pa.timestamp(unit, zone))}


TIMES = {
    f"{unit} {zone}": (
        times(unit, factor, zone),
        "timestamp",
        [at * 1000 + (500 if factor > 1 else 0) for at in SECONDS],
    )
    for unit, factor in (("s", 1), ("ms", 1000), ("us", 10**6), ("ns", 10**9))
    for zone in (None, "UTC", "Europe/Berlin")
}
TAKEN = {
    **TIMES,
    "times of pandas that are all missing": ({"timestamp": pa.nulls(2)}, "timestamp", [None, None]),
    "large": ({"key": pa.array([b"a", b"b"], pa.large_binary())}, "key", [b"a", b"b"]),
    "large text": ({"key": pa.array(["a", "ö"], pa.large_string())}, "key", [b"a", "ö".encode()]),
    "views": ({"key": pa.array([b"a", None]).cast(pa.binary_view())}, "key", [b"a", None]),
    "views of text": ({"key": pa.array(["a", "x" * 30]).cast(pa.string_view())}, "key", [b"a", b"x" * 30]),
    "fixed": ({"key": pa.array([b"abcd", None], pa.binary(4))}, "key", [b"abcd", None]),
    "categories": ({"key": pa.array(["a", "a"]).dictionary_encode()}, "key", [b"a", b"a"]),
    "no type": ({"key": pa.nulls(2)}, "key", [None, None]),
    "no headers": ({"headers": pa.nulls(2)}, "headers", [[], []]),
    "some headers": (
        {"headers": pa.array([None, [{"key": "h", "value": None}] * 2], HEADERS)},
        "headers", [[], [{"key": b"h", "value": None}] * 2],
    ),
    "small offsets": ({"offset": pa.array([3, 9], pa.int16())}, "offset", [3, 9]),
    "unsigned offsets": ({"offset": pa.array([3, 1 << 62], pa.uint64())}, "offset", [3, 1 << 62]),
    "descending": ({"offset": [9, 3]}, "offset", [3, 9]),
    "large numbers": ({"partition": pa.array([0, 0], pa.uint64())}, "offset", [0, 1]),
    "codecs by number": ({"codec": [4, None], "offset": [1, 2]}, "offset", [1, 2]),
}  # fmt: skip
REFUSED = {
    "numbers": ({"key": [1, 2]}, UsageError, "column key is int64, not binary or string"),
    "structs": ({"value": [{"a": 1}] * 2}, UsageError, "column value is struct<a: int64>, not binary or string"),
    "text as offsets": ({"offset": ["1", "2"]}, UsageError, "column offset is string, not of integers"),
    "fractions": ({"offset": [1.5, 2.0]}, UsageError, "column offset is double, not of integers"),
    "text as partition": ({"partition": ["0", "x"]}, UsageError, "column partition is string, not of integers"),
    "text as epoch": ({"leader_epoch": ["a", "b"]}, UsageError, "column leader_epoch is string, not of integers"),
    "text as kind": ({"timestampType": ["a", "b"]}, UsageError, "column timestampType is string, not of integers"),
    "numbers as topic": ({"topic": [1, 2]}, UsageError, "column topic is int64, not string"),
    "numbers as bits": ({"transactional": [0, 1]}, UsageError, "column transactional is int64, not boolean"),
    "bits as codec": ({"codec": [True, False]}, UsageError, "column codec is bool, not string"),
    "decimals": ({"timestamp": [decimal.Decimal(1)] * 2}, UsageError, "is decimal128.*, not a timestamp or int64 of mil"),
    "dates": ({"timestamp": [dt.date(2026, 1, 1)] * 2}, UsageError, "is date32.*, not a timestamp or int64 of mil"),
    "text as time": ({"timestamp": ["now", "then"]}, UsageError, "column timestamp is string, not a timestamp"),
    "maps": (
        {"headers": pa.array([[("a", b"1")], None], pa.map_(pa.string(), pa.binary()))},
        UsageError, "column headers is map.*, not a list of structs of key and value",
    ),
    "headers without key": (
        {"headers": pa.array([[{"key": None, "value": b""}], None], HEADERS)}, BadInput, "a header's key is null",
    ),
    "too large": ({"offset": pa.array([1, 1 << 63], pa.uint64())}, BadInput, "a value is not possible in a record"),
    "no log ends behind it": ({"offset": [1, (1 << 63) - 1]}, BadInput, "offset 9223372036854775807 is not possible in a record: at most"),
    "twice": ({"offset": [5, 5]}, BadInput, "record 2: offset 5 is too low: the log already ends at 6"),
    "negative": ({"offset": [-5, 1]}, BadInput, "record 1: offset -5"),
    "some offsets": ({"offset": [1, None]}, BadInput, "a row has no offset.*: --new-offsets gives all records new offsets"),
    "another codec": ({"codec": [9, 0], "offset": [1, 2]}, BadInput, "codec 9 is not possible in a record: at most 4"),
    "another name": ({"codec": ["zip", "none"], "offset": [1, 2]}, BadInput, "'zip' is not a codec of Kafka"),
    "no such partition": ({"partition": [0, 1 << 40]}, BadInput, "0 to 1099511627776 are not partition numbers"),
    "beyond any time": (
        {"timestamp": pa.array([1 << 62, 1], pa.timestamp("s"))}, BadInput, "a time that no record can have",
    ),
    "before any time": ({"timestamp": [-5, 1]}, BadInput, "timestamp -5 is not possible in a record"),
}  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", TAKEN)
def test_import_takes_columns_of_every_suitable_arrow_type(tmp_path, monkeypatch, name):
    columns, column, wanted = TAKEN[name]
    path = write(tmp_path / "in" / "a.arrow", columns)
    new = new_log_dir(tmp_path / "new")
    result = import_into(new, path, topic="t", prove=True)
    found = records(new / "t-0")
    assert [row[column] for row in found] == wanted
    assert sorted(row["value"] for row in found) == [b"x", b"y"]
    assert result.done[0].proof.records == 2


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", REFUSED)
def test_import_refuses_columns_of_unsuitable_arrow_types(tmp_path, name):
    columns, kind, message = REFUSED[name]
    path = write(tmp_path / "in" / "a.arrow", columns)
    new = new_log_dir(tmp_path / "new")
    topic = {} if "topic" in columns else {"topic": "t"}
    with pytest.raises(KafkalogError, match=message) as caught:
        import_into(new, path, **topic)
    assert type(caught.value) is kind
    assert seen(new) == []


def test_import_refuses_column_names_but_takes_metadata_that_is_no_utf_8(tmp_path):
    """Of a column, which pyarrow then cannot name; of metadata, which need not be text."""
    path, new = write(tmp_path / "in" / "a.arrow", {"extra": [1, 2]}), new_log_dir(tmp_path / "new")
    path.write_bytes(path.read_bytes().replace(b"extra", b"\xff\xfetra"))
    with pytest.raises(BadInput, match="it cannot be read as arrow: 'utf-8' codec"):
        import_into(new, path, topic="t")
    table = pa.table({"value": VALUES, "partition": PLACES}).replace_schema_metadata({b"\xff": b"x"})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table)
    import_into(new, path, topic="t")
    assert len(records(new / "t-0")) == 2


def test_import_refuses_a_column_that_a_file_has_twice(tmp_path):
    pq.write_table(
        pa.Table.from_arrays([VALUES, VALUES, PLACES], ["value", "value", "partition"]), tmp_path / "a.parquet"
    )
    with pytest.raises(UsageError, match="there are several columns value: leave all but one out"):
        import_into(new_log_dir(tmp_path / "new"), tmp_path / "a.parquet", topic="t")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"key":"a","partition":0,"topic":5}', "line 1: topic must be a string"),
        ('{"key":"a","partition":0,"codec":5}', "line 1: codec must be a string"),
        ('{"key":"a","partition":"0"}', "line 1: partition must be a number"),
        ('{"key":"a","partition":0}', "a row has no offset.*: --new-offsets gives all records new offsets"),
    ],
)
def test_import_refuses_malformed_json_lines(tmp_path, line, message):
    (tmp_path / "a.ndjson").write_text(line + "\n")
    new = new_log_dir(tmp_path / "new")
    with pytest.raises(BadInput, match=message):
        import_into(new, tmp_path / "a.ndjson", topic="t")
    assert seen(new) == []


def test_import_takes_tables_without_rows_beside_others(tmp_path):
    """An empty table, and one without a row group."""
    empty = pa.schema({"value": pa.binary(), "partition": pa.int32()})
    pq.write_table(empty.empty_table(), tmp_path / "a.parquet")
    pq.ParquetWriter(tmp_path / "b.parquet", empty).close()
    new = new_log_dir(tmp_path / "new")
    for name in ("a", "b"):
        with pytest.raises(NothingSelected, match="the input has no records") as caught:
            import_into(new, tmp_path / f"{name}.parquet", topic="t")
        assert caught.value.exit_code is ExitCode.NOT_FOUND
    pq.write_table(pa.table({"value": VALUES, "partition": PLACES}), tmp_path / "c.parquet")
    import_into(new, *(tmp_path / f"{name}.parquet" for name in "abc"), topic="t")
    assert len(records(new / "t-0")) == 2


def test_import_takes_parquet_files_of_several_programs(tmp_path):
    """Other types of the same columns, columns that only one has; marks and hidden files beside them."""
    folder = tmp_path / "in"
    write(folder / "a.arrow", {"key": pa.array(["k", None]).dictionary_encode(), "timestamp": [5, None]})
    write(folder / "b.arrow", {"partition": pa.array([0, 1], pa.int64()), "other": [1, 2]})
    for name in ("_SUCCESS", "_metadata", ".a.arrow.crc", "readme.txt"):
        (folder / name).write_bytes(b"no records")
    new = new_log_dir(tmp_path / "new")
    result = import_into(new, folder, topic="t", prove=True)
    found = [(row["key"], row["timestamp"]) for row in records(new / "t-0")]
    assert found == [(b"k", 5), (None, None), (None, NOW_MS)]
    assert [note.message for note in result.notes if note.kind == "columns"] == ["left out: no record has other"]


def test_files_of_other_columns_are_merged_by_their_overlapping_offsets(tmp_path):
    """What a file has no column for is not known of its records."""
    write(tmp_path / "in" / "a.arrow", {"offset": [1, 3], "timestamp": [5, None]})
    write(tmp_path / "in" / "b.arrow", {"offset": pa.array([2, 4], pa.uint32()), "key": [b"k", None]})
    new = new_log_dir(tmp_path / "new")
    import_into(new, tmp_path / "in", topic="t", prove=True)
    found = [(row["offset"], row["timestamp"], row["key"]) for row in records(new / "t-0")]
    assert found == [(1, 5, None), (2, NOW_MS, b"k"), (3, None, None), (4, NOW_MS, None)]


def test_import_refuses_log_directories_and_topic_names_that_are_none(tmp_path):
    path = write(tmp_path / "in" / "a.arrow", {})
    (tmp_path / "file").write_bytes(b"")
    for place in (tmp_path / "nowhere", tmp_path / "file"):
        with pytest.raises(PathNotFound):
            import_into(place, path, topic="t")
    new = new_log_dir(tmp_path / "new")
    for topic in ("", ".", "..", "a/b", "a b", "ö", "t" * 250):
        with pytest.raises(UsageError, match="is not a topic name"):
            import_into(new, path, topic=topic)
    assert seen(new) == []


def test_import_takes_keys_that_are_all_null(tmp_path):
    path = write(tmp_path / "in" / "a.arrow", {"key": pa.nulls(2)})
    new = new_log_dir(tmp_path / "new")
    import_into(new, path, topic="t", partitions=3, prove=True)
    assert sum(len(records(new / name)) for name in seen(new)) == 2


@pytest.mark.xdist_group("spark")
@pytest.mark.spark
@pytest.mark.exhaustive
@pytest.mark.parametrize("times", ["INT96", "TIMESTAMP_MICROS"])
def test_import_takes_parquet_that_spark_wrote_of_its_kafka_source(spark, tmp_path, times):
    """The columns of that source, as Spark's Parquet has them, and its marks in the directory."""
    spark.conf.set("spark.sql.parquet.outputTimestampType", times)
    rows = spark.sql(
        "select encode(string(id), 'utf-8') key, encode(string(id), 'utf-8') value, 'orders' topic, int(id % 2) partition,"
        " id div 2 offset, timestamp_millis(1700000000000 + id) timestamp, 0 timestampType,"
        " array(struct('h' as key, encode('v', 'utf-8') as value)) headers from range(100)"
    )
    rows.write.parquet(str(tmp_path / "in"))
    spark.conf.unset("spark.sql.parquet.outputTimestampType")
    assert (tmp_path / "in" / "_SUCCESS").exists()
    new = new_log_dir(tmp_path / "new")
    import_into(new, tmp_path / "in", prove=True)
    for number in range(2):
        found = records(new / f"orders-{number}")
        assert [row["offset"] for row in found] == list(range(50))
        assert [int(row["value"]) for row in found] == list(range(number, 100, 2))
        assert [row["timestamp"] for row in found] == [1_700_000_000_000 + i for i in range(number, 100, 2)]
        assert found[0]["headers"] == [{"key": b"h", "value": b"v"}]
