"""Files of others: rows sorted out by column, directory or key; offsets given or new; NDJSON; what such files may lack."""

import json
import random

import pytest

from tests.spark.exporting import FileFormat, export, pa, pq
from tests.spark.importing import NOW_MS, import_into, new_log_dir, records, seen
from tests.spark.test_spark_rows import log_dir
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.product import BadInput, NothingSelected, UsageError
from tests.support.product_kafka import NewRecord, partition_of_key
from tests.support.product_spark import Partitioner, lower_limit


def rows_of(log_dir, names=("key", "value")):
    """The records of each partition, by its name."""
    return {
        name: [tuple(row[one] for one in names) for row in records(log_dir / name)]
        for name in seen(log_dir)
        if not name.startswith(".")
    }


def write(path, rows, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(rows) if rows else pa.table(columns)
    pq.write_table(table, path, row_group_size=50)
    return path


def test_import_places_rows_by_key_like_kafkas_producer(tmp_path, monkeypatch):
    """As Kafka's producer: murmur2; without a key one partition for as long as a batch takes to fill, then the next."""
    lower_limit(monkeypatch, "bytes that an import holds", 3000)
    chance = random.Random(5)
    keys = [None, b"", *(chance.randbytes(chance.randrange(12)) for _ in range(60))]
    rows = [{"key": chance.choice(keys), "value": b"%d " % at * 9} for at in range(900)]
    write(tmp_path / "in" / "topic=orders" / "a.parquet", rows[:400])
    write(tmp_path / "in" / "topic=orders" / "b.parquet", rows[400:])
    new = new_log_dir(tmp_path / "new")
    result = import_into(new, tmp_path / "in", partitions=5, prove=True, batch_bytes=500)
    wanted = {f"orders-{number}": [] for number in range(5)}
    for number, part in enumerate((rows[:400], rows[400:])):
        sticky = Partitioner(range(5), 5, 500, first=number)
        for row in part:
            at = sticky.partition_of(NewRecord(**row)) if row["key"] is None else partition_of_key(row["key"], 5)
            wanted[f"orders-{at}"].append((row["key"], row["value"]))
    assert rows_of(new) == wanted
    assert sum(done.proof.records for done in result.done) == 900
    for name in seen(new):
        found = records(new / name)
        assert [row["offset"] for row in found] == list(range(len(found)))
        assert {row["timestamp"] for row in found} == {NOW_MS}
    assert [note.kind for note in result.notes] == ["no-topic-id"]


def test_import_places_rows_by_their_topic_and_partition_columns(tmp_path, monkeypatch):
    """Topic and partition of each row; offsets that come in any order, from several files."""
    lower_limit(monkeypatch, "bytes that an import holds", 2000)
    rows = [
        {"topic": f"t{at % 3}", "partition": at % 2, "offset": 10 * at, "key": None, "value": f"größe {at}",
         "timestamp": BASE_TIME_MS + at, "headers": [{"key": "h", "value": b"x"}] * (at % 3), "extra": 1}
        for at in range(300)
    ]  # fmt: skip
    shuffled = random.Random(3).sample(rows, len(rows))
    write(tmp_path / "in" / "one.parquet", shuffled[:100])
    write(tmp_path / "in" / "two.parquet", shuffled[100:])
    new = new_log_dir(tmp_path / "new")
    result = import_into(new, tmp_path / "in", prove=True)
    assert seen(new) == [f"t{topic}-{number}" for topic in range(3) for number in range(2)]
    for name in seen(new):
        topic, _, number = name.partition("-")
        own = [row for row in rows if (row["topic"], row["partition"]) == (topic, int(number))]
        assert records(new / name) == [
            {"offset": row["offset"], "timestamp": row["timestamp"], "timestamp_type": 0, "key": None,
             "value": row["value"].encode(), "headers": [{"key": b"h", "value": b"x"}] * len(row["headers"])}
            for row in own
        ]  # fmt: skip
    assert "left out: no record has extra" in [note.message for note in result.notes]


def test_import_of_an_export_into_more_partitions_places_rows_by_key(tmp_path):
    """What is exported goes by its keys, in the order of its offsets: each log's records in the order that they had."""
    for number in range(2):
        data = batch_v2([R(i, BASE_TIME_MS + i, b"%d-%d" % (number, i), b"v%d" % i) for i in range(40)])
        folder = log_dir(tmp_path / "log", data, partition=number)
    export(folder, tmp_path / "out")
    new = new_log_dir(tmp_path / "new")
    import_into(new, tmp_path / "out", partitions=3, topic="wider", prove=True)
    assert seen(new) == [f"wider-{number}" for number in range(3)]
    for number in range(3):
        keys = [row["key"] for row in records(new / f"wider-{number}")]
        both = {b"%d-%d" % (one, i) for i in range(40) for one in range(2)}
        assert sorted(keys) == sorted(key for key in both if partition_of_key(key, 3) == number)
        offsets = [int(key.split(b"-")[1]) for key in keys]
        assert offsets == sorted(offsets)


def test_import_of_json_lines_keeps_offsets_and_codec_of_an_export(tmp_path):
    """NDJSON that export wrote goes back with offsets and codec; any other needs no more than a value."""
    data = batch_v2([R(4, BASE_TIME_MS, b"\xff", None, ((b"\xfe", None),)), R(6, -1, None, b"")], 2)
    folder = log_dir(tmp_path / "log", data, partition=3)
    export(folder, tmp_path / "out", format=FileFormat.JSON, codec="none")
    new = new_log_dir(tmp_path / "new")
    import_into(new, tmp_path / "out", prove=True)
    assert records(new / "orders-3") == records(folder / "orders-3")
    (tmp_path / "x.jsonl").write_text("".join(json.dumps({"value": f"v{at}"}) + "\n" for at in range(5)))
    import_into(new, tmp_path / "x.jsonl", topic="x", partitions=1)
    assert [row["value"] for row in records(new / "x-0")] == [b"v%d" % at for at in range(5)]
    (tmp_path / "y.jsonl").write_text('{"value":"v"}\n{"value":5}\n')
    with pytest.raises(BadInput, match=r"y.jsonl: line 2: value must be null, a string"):
        import_into(new, tmp_path / "y.jsonl", topic="y", partitions=1)
    with pytest.raises(UsageError, match=r"line|partition"):
        import_into(new, tmp_path / "x.jsonl", topic="z")
    assert seen(new) == ["orders-3", "x-0"]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("columns", "request_", "message"),
    [
        ({"other": ["x"]}, {}, "has neither a column key nor a column value"),
        ({"value": ["x"]}, {"partitions": 1}, "does not name its topic"),
        ({"value": ["x"], "topic": ["t"]}, {}, "does not name the partition of its rows"),
        ({"value": [1]}, {"topic": "t", "partitions": 1}, "column value is int64, not binary or string"),
        ({"value": ["x"], "topic": [None], "partition": [1]}, {}, "a row has no topic"),
        ({"value": ["x"], "topic": ["t"], "partition": [-1]}, {}, "are not partition numbers"),
        ({"value": ["x"], "timestamp": [-2]}, {"topic": "t", "partitions": 1}, "timestamp -2 is not possible"),
        ({"value": ["x"], "topic": ["a/b"], "partition": [1]}, {}, "is not a topic name"),
        (
            {"value": ["x"] * 2, "topic": ["t"] * 2, "partition": [1] * 2, "offset": [5, 5]},
            {},
            "the log already ends at 6",
        ),
        ({"value": ["x"], "topic": ["t"], "partition": [0], "codec": ["x"], "offset": [1]}, {}, "is not a codec"),
    ],
)
def test_import_of_wrong_columns_fails_and_leaves_nothing(tmp_path, columns, request_, message):
    """Nothing is seen then, and nothing is left."""
    types = {"topic": pa.string()}
    table = pa.table({name: pa.array(values, types.get(name)) for name, values in columns.items()})
    pq.write_table(table, tmp_path / "x.parquet")
    new = new_log_dir(tmp_path / "new")
    with pytest.raises((BadInput, UsageError), match=message):
        import_into(new, tmp_path / "x.parquet", **request_)
    assert seen(new) == []


def test_import_of_a_file_without_rows_is_refused(tmp_path):
    pq.write_table(pa.table({"value": pa.array([], pa.binary())}), tmp_path / "x.parquet")
    with pytest.raises(NothingSelected, match="the input has no records"):
        import_into(new_log_dir(tmp_path / "new"), tmp_path / "x.parquet", topic="t", partitions=2)


def test_import_of_files_of_which_some_have_offsets_is_refused_without_new_offsets(tmp_path):
    write(tmp_path / "a.parquet", None, value=["x"], offset=[1], partition=[0])
    write(tmp_path / "b.parquet", None, value=["x"], partition=[0])
    new = new_log_dir(tmp_path / "new")
    with pytest.raises(UsageError, match=r"a.parquet has offsets, .*b.parquet has none: --new-offsets"):
        import_into(new, tmp_path / "a.parquet", tmp_path / "b.parquet", topic="t")
    import_into(new, tmp_path / "a.parquet", tmp_path / "b.parquet", topic="t", new_offsets=True)
    assert [row["offset"] for row in records(new / "t-0")] == [0, 1]


def test_timestamps_in_seconds_are_noticed(tmp_path):
    """As `append` notices them: the record with the first such timestamp, once for each partition."""
    odd = BASE_TIME_MS // 1000
    times = [BASE_TIME_MS, odd, odd + 1]
    rows = [{"partition": at % 2, "value": b"v", "timestamp": times[at // 2]} for at in range(6)]
    write(tmp_path / "in" / "topic=orders" / "a.parquet", rows)
    new = new_log_dir(tmp_path / "new")
    notes = [note for note in import_into(new, tmp_path / "in").notes if note.kind == "time-unit"]
    assert [note.path for note in notes] == [f"{new}/orders-{number}" for number in range(2)]
    assert all(f"record 2 has the timestamp {odd}" in note.message and "in seconds" in note.message for note in notes)


def test_timestamps_in_microseconds_are_refused_with_their_unit(tmp_path):
    rows = [{"partition": 0, "value": b"v", "timestamp": BASE_TIME_MS * 1000}]
    write(tmp_path / "in" / "topic=orders" / "a.parquet", rows)
    with pytest.raises(BadInput, match="seems to be in microseconds"):
        import_into(new_log_dir(tmp_path / "new"), tmp_path / "in")


def test_timestamps_in_milliseconds_are_not_noticed(tmp_path):
    rows = [{"partition": 0, "value": b"v", "timestamp": BASE_TIME_MS + at} for at in range(6)]
    write(tmp_path / "in" / "topic=orders" / "a.parquet", [*rows, {"partition": 0, "value": b"v", "timestamp": 5}])
    notes = import_into(new_log_dir(tmp_path / "new"), tmp_path / "in").notes
    assert "time-unit" not in [note.kind for note in notes]
