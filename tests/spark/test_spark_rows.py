"""Rows: those of the core, on every log of the corpus and on logs of every format; damage by mode; isolation."""

import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

import kafkalog_cli as kl
from tests.spark.spark_reading import offsets, pa, rows, subset, tasks
from tests.support.logs import BASE_TIME_MS, TRANSACTIONAL, R, batch_v2, end_marker, message, message_set
from tests.support.product import DamagedLog, KafkalogError, OffsetOutOfRange
from tests.support.product_spark import lower_limit, replace_point
from tests.support.strategies import logs as any_logs

EVERY_COLUMN = {"includeHeaders": "true", "includeBatchMetadata": "true"}


def log_dir(folder, data, topic="orders", partition=0, base=0):
    (folder / f"{topic}-{partition}").mkdir(exist_ok=True, parents=True)
    (folder / f"{topic}-{partition}" / f"{base:020d}.log").write_bytes(data)
    return folder


def of_the_core(log, isolation="read_uncommitted"):
    """The rows of one partition as the library has them, in the terms of the source; and the damage."""
    damage = []
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kl.LogWarning)
        for part in log.records(on_damage=damage.append, isolation=isolation):
            millis = part.column("timestamp").cast(pa.int64()).to_pylist()
            plain = part.drop_columns(["timestamp"]).to_pylist()
            for ms, row in zip(millis, plain, strict=True):
                headers = [(h["key"].decode("utf-8", "replace"), h["value"]) for h in row["headers"]] or None
                found.append(
                    {
                        "key": row["key"], "value": row["value"], "topic": log.topic, "partition": log.partition,
                        "offset": row["offset"], "timestamp": (-1 if ms is None else ms) * 1000,
                        "timestampType": row["timestamp_type"], "headers": headers,
                        "producer_id": row["producer_id"], "producer_epoch": row["producer_epoch"],
                        "sequence": row["sequence"], "leader_epoch": row["leader_epoch"],
                        "transactional": row["transactional"],
                    }
                )  # fmt: skip
    return found, damage


def plainly(table):
    found = table.drop_columns(
        [c for c in ("segment", "position", "batch_base_offset", "codec", "control") if c in table.column_names]
    )
    made = found.to_pylist()
    for row in made:
        if row.get("headers") is not None:
            row["headers"] = [(h["key"], h["value"]) for h in row["headers"]]
    return made


def corpus_partitions(corpus):
    for folder in sorted(path for path in corpus.rglob("*-[0-9]*") if path.is_dir()):
        if "expected" not in folder.parts and next(folder.glob("*.log"), next(folder.glob("*.kafka"), None)):
            yield folder


@pytest.mark.full
def test_the_data_source_gives_the_rows_of_the_library_for_the_corpus(corpus):
    seen, seen_logs, records, damaged = set(), set(), 0, 0
    for folder in corpus_partitions(corpus):
        files = tuple((path.name, path.read_bytes()) for path in sorted(folder.iterdir()) if path.is_file())
        if files in seen:  # the same before and after
            continue
        seen.add(files)
        (log,) = kl.open(folder)
        wanted, damage = of_the_core(log)
        found = rows(folder, mode="permissive", **EVERY_COLUMN)
        is_fault = pa.compute.is_valid(found.column("_fault"))
        assert plainly(found.filter(pa.compute.invert(is_fault)).drop_columns(["_fault"])) == wanted, folder
        assert found.filter(is_fault).column("_fault").to_pylist() == [str(one) for one in damage], folder
        logs = tuple(data for name, data in files if name.endswith((".log", ".kafka")))
        records, damaged = records + len(wanted), damaged + bool(damage)
        if logs in seen_logs:
            continue
        seen_logs.add(logs)
        only_offsets = rows(folder, subset("partition", "offset", "timestampType"), mode="dropmalformed")
        assert only_offsets.column("offset").to_pylist() == [row["offset"] for row in wanted], folder
        assert only_offsets.column("timestampType").to_pylist() == [row["timestampType"] for row in wanted], folder
    assert (len(seen) > 150, records > 10_000, damaged > 10) == (True, True, True), (len(seen), records, damaged)


def test_read_committed_on_the_corpus(corpus):
    hidden = 0
    for folder in corpus_partitions(corpus / "txn"):
        (log,) = kl.open(folder)
        wanted, _ = of_the_core(log, "read_committed")
        assert plainly(rows(folder, isolation="read_committed", **EVERY_COLUMN)) == wanted
        hidden += len(offsets(folder)) - len(wanted)
    assert hidden > 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(log=any_logs())
def test_the_data_source_gives_the_rows_of_the_library_for_every_format(tmp_path_factory, log):
    folder = log_dir(tmp_path_factory.mktemp("log"), log.data, base=log.base_offset)
    wanted, _ = of_the_core(kl.open_partition(folder / "orders-0"))
    late = [row for row in wanted if abs(row["timestamp"]) >= 1 << 63]
    assert plainly(rows(folder, mode="dropmalformed", **EVERY_COLUMN)) == [row for row in wanted if row not in late]
    if late:
        with pytest.raises(KafkalogError, match="beyond the year 294247"):
            rows(folder)
    by_header = ("offset", "timestampType", "producer_id", "transactional", "leader_epoch", "topic")
    found = rows(folder, subset(*by_header)).to_pylist()
    assert found == [{name: row[name] for name in by_header} for row in wanted]
    assert rows(folder, subset("partition")).num_rows == len(wanted)
    sizes = [tuple(None if row[name] is None else len(row[name]) for name in ("key", "value")) for row in wanted]
    found = rows(folder, subset("value_size", "key_size"))
    assert list(zip(*(found.column(name).to_pylist() for name in ("key_size", "value_size")), strict=True)) == sizes
    assert sum(rows(folder, subset("_records")).column(0).to_pylist()) == len(wanted)


def test_rows_have_headers_and_null_for_a_missing_timestamp(tmp_path):
    data = message(R(0, -1, b"k", b"v"), 0)
    data += batch_v2([R(1, -1, None, None), R(2, -1, b"", b"", ((b"a", b"1"), (b"a", None), (b"\xff", b"")))])
    found = rows(log_dir(tmp_path, data), includeHeaders="true").to_pylist()
    assert [row["timestamp"] for row in found] == [-1000] * 3
    assert [row["timestampType"] for row in found] == [-1, 0, 0]
    assert [row["headers"] for row in found] == [
        None,
        None,
        [{"key": "a", "value": b"1"}, {"key": "a", "value": None}, {"key": "�", "value": b""}],
    ]


def test_rows_have_the_batch_that_a_record_is_in(tmp_path):
    parts = [
        message_set([R(0, 5, b"k", b"v"), R(1, 6, b"k", b"v")], 1, 1),
        batch_v2([R(2, 7, b"k", b"v"), R(3, 7, b"k", b"v")], 4, producer=(7, 2, 11), bits=TRANSACTIONAL, epoch=5),
    ]
    found = rows(log_dir(tmp_path, b"".join(parts)), **EVERY_COLUMN).to_pylist()
    names = ("segment", "position", "batch_base_offset", "codec", "producer_id", "sequence", "transactional", "control")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("00000000000000000000.log", 0, 0, "gzip", -1, -1, False, False),
        ("00000000000000000000.log", 0, 0, "gzip", -1, -1, False, False),
        ("00000000000000000000.log", len(parts[0]), 2, "zstd", 7, 11, True, False),
        ("00000000000000000000.log", len(parts[0]), 2, "zstd", 7, 12, True, False),
    ]


def test_rows_have_control_records_only_if_asked_for(tmp_path):
    data = batch_v2([R(0, BASE_TIME_MS, b"k", b"v")], producer=(7, 0, 0), bits=TRANSACTIONAL)
    data += end_marker(1, BASE_TIME_MS, (7, 0), 0) + batch_v2([R(2, BASE_TIME_MS, b"k", b"v")])
    folder = log_dir(tmp_path, data)
    assert offsets(folder) == [0, 2]
    assert offsets(folder, includeControl="true") == [0, 1, 2]
    found = rows(folder, subset("offset", "control"), includeControl="true").to_pylist()
    assert [row["control"] for row in found] == [False, True, False]
    assert offsets(folder, isolation="read_committed") == [2]
    assert offsets(folder, isolation="read_committed", includeControl="true") == [1, 2]


def test_rows_at_damage_follow_the_mode(tmp_path):
    good = [batch_v2([R(i, BASE_TIME_MS, b"k", b"v" * 50)]) for i in range(3)]
    folder = log_dir(tmp_path, good[0] + good[1][:-3] + b"xyz" + good[2])
    for columns in (subset("offset"), None):
        with pytest.raises(DamagedLog, match=rf"orders-0/0+\.log: at byte {len(good[0])}: its CRC does not match"):
            rows(folder, columns)
    assert offsets(folder, mode="dropmalformed") == [0, 2]
    found = rows(folder, mode="permissive").to_pylist()
    found.sort(key=lambda row: row["offset"])
    assert [row["offset"] for row in found] == [0, 1, 2]
    assert [row["_fault"] is None for row in found] == [True, False, True]
    assert {name for name, value in found[1].items() if value is not None} == {"topic", "partition", "offset", "_fault"}
    assert f"at byte {len(good[0])}: its CRC does not match" in found[1]["_fault"]


def test_timestamps_that_spark_does_not_have(tmp_path):
    late = 1_700_000_000_000_000_000  # nanoseconds, where milliseconds belong
    folder = log_dir(tmp_path, batch_v2([R(0, late, b"k", b"v"), R(1, BASE_TIME_MS, b"k", b"v")]))
    with pytest.raises(KafkalogError, match="a timestamp is beyond the year 294247, and has no microseconds"):
        rows(folder)
    assert offsets(folder) == [0, 1]
    assert rows(folder, mode="dropmalformed").column("offset").to_pylist() == [1]
    found = rows(folder, mode="permissive").to_pylist()
    assert [(row["offset"], row["timestamp"], row["key"]) for row in found] == [
        (0, None, b"k"),
        (1, BASE_TIME_MS * 1000, b"k"),
    ]
    assert [row["_fault"] for row in found] == ["a timestamp beyond the year 294247: it has no microseconds", None]


def test_batches_are_neither_too_large_nor_too_small(tmp_path, monkeypatch):
    data = b"".join(batch_v2([R(i, BASE_TIME_MS, b"k", b"v" * 100)]) for i in range(1000))
    folder = log_dir(tmp_path, data)

    def sizes():
        reader, parts = tasks(folder)
        return [batch.num_rows for part in parts for batch in reader.read(part)]

    assert sizes() == [1000]
    lower_limit(monkeypatch, "rows of a batch of Arrow", 300)
    assert (max(sizes()), sum(sizes()), len(sizes())) == (300, 1000, 4)
    lower_limit(monkeypatch, "bytes of a batch of Arrow", 8000)
    assert max(sizes()) < 8000 // 120 < sum(sizes()) == 1000
    log_dir(tmp_path / "large", batch_v2([R(i, BASE_TIME_MS, b"k", b"v" * 5000) for i in range(5)]))
    reader, (part,) = tasks(tmp_path / "large")
    assert [batch.num_rows for batch in reader.read(part)] == [1] * 5


def test_rows_without_values_decompress_nothing(tmp_path, monkeypatch):
    data = b"".join(batch_v2([R(i, BASE_TIME_MS, b"k", b"v" * 100)], 4) for i in range(20))
    folder = log_dir(tmp_path, data)

    def refuse(*_, **__):
        raise AssertionError("decompressed")

    replace_point(monkeypatch, "decoding of records", lambda _: refuse)
    assert offsets(folder) == list(range(20))
    assert rows(folder, subset("topic", "codec", "position")).num_rows == 20
    for name in ("value", "timestamp", "sequence"):
        with pytest.raises(AssertionError, match="decompressed"):
            rows(folder, subset(name))


def test_a_compacted_batch_is_read_for_its_offsets(tmp_path):
    data = batch_v2([R(0, 1, b"k", b"v"), R(7, 1, b"k", b"v")]) + batch_v2([], base=8, last=9) + batch_v2([R(10, 1)])
    assert offsets(log_dir(tmp_path, data)) == [0, 7, 10]


def test_the_data_source_of_empty_partitions_has_no_rows(tmp_path):
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-1").mkdir()
    (tmp_path / "orders-1" / f"{0:020d}.log").write_bytes(b"")
    assert rows(tmp_path).num_rows == 0
    (tmp_path / "orders-0" / "partition.metadata").write_bytes(b"")
    assert tasks(tmp_path / "orders-0")[1] == []
    assert rows(tmp_path / "orders-0").schema.names == list(rows(Path("docs/example")).schema.names)


def test_a_task_fails_or_skips_records_removed_since_it_was_planned(tmp_path):
    data = [batch_v2([R(i, BASE_TIME_MS, b"k", b"v")]) for i in range(4)]
    folder = log_dir(tmp_path, data[0] + data[1])
    log_dir(tmp_path, data[2] + data[3], base=2)
    planned = {loss: tasks(folder, subset("offset"), failOnDataLoss=loss) for loss in ("true", "false")}
    (folder / "orders-0" / f"{0:020d}.log").unlink()
    reader, (part,) = planned["true"]
    with pytest.raises(OffsetOutOfRange, match="offset 0 is outside the log, valid range is 2 to 4"):
        list(reader.read(part))
    reader, (part,) = planned["false"]
    assert [batch.to_pydict() for batch in reader.read(part)] == [{"offset": [2, 3]}]


def test_rows_have_keys_and_values_as_text(tmp_path):
    """Bytes that are not UTF-8 become U+FFFD, an incomplete sequence one of them; null and empty values stay."""
    odd = b"caf\xc3\xa9 \xff\xc3 \xe2\x82 \xf0\x9f\x98\x80 \xed\xa0\x80\x00"
    records = [R(0, BASE_TIME_MS, b"k", b"v\xc3\xa9"), R(1, BASE_TIME_MS, None, b""), R(2, BASE_TIME_MS, b"\xff", None)]
    folder = log_dir(tmp_path, batch_v2(records) + batch_v2([R(3, BASE_TIME_MS, b"", odd)]))
    found = rows(folder, subset("value_text", "offset", "key_text", "value"))
    assert found.column("key_text").to_pylist() == ["k", None, "\ufffd", ""]
    assert found.column("value_text").to_pylist() == [
        "v\u00e9", "", None, "caf\u00e9 \ufffd\ufffd \ufffd \U0001f600 \ufffd\ufffd\ufffd\0",
    ]  # fmt: skip
    assert found.column("value").to_pylist() == [b"v\xc3\xa9", b"", None, odd]
    assert found.column("offset").to_pylist() == [0, 1, 2, 3]
    assert rows(folder, subset("key_text")).column("key_text").to_pylist() == ["k", None, "\ufffd", ""]
    assert "value_text" not in rows(folder).column_names


def test_text_is_in_the_place_of_damage_too(tmp_path):
    good = batch_v2([R(0, BASE_TIME_MS, b"a", b"x")])
    bad = bytearray(batch_v2([R(1, BASE_TIME_MS, b"b", b"y")]))
    bad[-1] ^= 1
    folder = log_dir(tmp_path, good + bytes(bad))
    found = rows(folder, subset("value_text", "_fault"), mode="permissive").to_pylist()
    assert {row["value_text"]: row["_fault"] is None for row in found} == {"x": True, None: False}
