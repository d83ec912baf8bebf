"""The library: what it gives as Arrow is what the naive reader reads; its page is true; its import is cheap."""

import doctest
import json
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

import kafkalog_cli as kl
from kafkalog_cli import spark
from tests.support.logs import BASE_TIME_MS, TRANSACTIONAL, R, batch_v2, end_marker
from tests.support.naive_consumer import consume
from tests.support.product import OffsetOutOfRange, UsageError
from tests.support.strategies import logs as any_logs

ROOT = Path(__file__).parents[2]
pa = pytest.importorskip("pyarrow")


def partition(folder, data, base=0):
    (folder / "orders-3").mkdir(exist_ok=True)
    (folder / "orders-3" / f"{base:020d}.log").write_bytes(data)
    return kl.open_partition(folder / "orders-3")


def as_numbers(part):
    """Timestamps as milliseconds: not every int64 is a datetime."""
    arrays = [
        part.column(name).cast(pa.int64()) if name == "timestamp" else part.column(name) for name in part.schema.names
    ]
    return pa.RecordBatch.from_arrays(arrays, names=part.schema.names)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(log=any_logs())
def test_records_of_every_format_equal_those_of_a_naive_consumer(tmp_path_factory, log):
    found = partition(tmp_path_factory.mktemp("log"), log.data, log.base_offset)
    got = []
    for part in found.records():
        part.validate(full=True)
        assert part.schema == kl.record_schema()
        for row in as_numbers(part).to_pylist():
            timestamp = -1 if row["timestamp"] is None else row["timestamp"]
            headers = tuple((header["key"], header["value"]) for header in row["headers"])
            got.append((row["offset"], timestamp, row["key"], row["value"], headers))
    assert got == consume([log.data]).records
    assert found.offsets().start == log.base_offset


def test_batches_have_the_documented_columns(tmp_path):
    data = batch_v2([R(0, BASE_TIME_MS, b"k", b"v")], 3, producer=(7, 2, 11), bits=TRANSACTIONAL, epoch=5)
    data += end_marker(1, BASE_TIME_MS, (7, 2), 1)
    data += batch_v2([R(2, -1, None, None), R(3, BASE_TIME_MS, b"", b"")], bits=8, max_timestamp=BASE_TIME_MS + 9)
    log = partition(tmp_path, data)
    columns = ["sequence", "transactional", "producer_id", "producer_epoch", "leader_epoch", "timestamp_type", "offset"]
    table = pa.Table.from_batches(log.records(columns=columns), schema=kl.record_schema(columns))
    assert [tuple(row.values()) for row in table.to_pylist()] == [
        (11, True, 7, 2, 5, 0, 0),
        (-1, False, -1, -1, 0, 1, 2),
        (-1, False, -1, -1, 0, 1, 3),
    ]
    headers = pa.Table.from_batches(log.batches())
    assert headers.select(["base_offset", "last_offset", "records_count", "crc_valid"]).to_pylist() == [
        {"base_offset": 0, "last_offset": 0, "records_count": 1, "crc_valid": True},
        {"base_offset": 2, "last_offset": 3, "records_count": 2, "crc_valid": True},
    ]


def test_records_respects_ranges_and_isolation(tmp_path):
    data = batch_v2([R(i, BASE_TIME_MS + i, b"k", b"v") for i in range(4)], producer=(7, 0, 0), bits=TRANSACTIONAL)
    data += end_marker(4, BASE_TIME_MS, (7, 0), 0)
    data += batch_v2([R(5 + i, BASE_TIME_MS + 5 + i, b"k", b"v") for i in range(4)])
    log = partition(tmp_path, data)

    def offsets(**options):
        return [offset for part in log.records(columns=["offset"], **options) for offset in part.column(0).to_pylist()]

    assert offsets() == [0, 1, 2, 3, 5, 6, 7, 8]
    with pytest.warns(kl.LogWarning, match="there is no transaction index"):
        assert offsets(isolation="read_committed") == [5, 6, 7, 8]
    assert offsets(from_offset=3, to_offset=6) == [3, 5]
    moment = datetime.fromtimestamp(BASE_TIME_MS / 1000, timezone.utc) + timedelta(milliseconds=2)
    assert offsets(from_time=moment, until=moment.replace(tzinfo=None) + timedelta(milliseconds=4)) == [2, 3, 5]
    assert offsets(from_time=BASE_TIME_MS + 7, max_records=1) == [7]
    for wrong in ({"from_offset": 1, "from_time": 1}, {"columns": ["colour"]}):
        with pytest.raises(UsageError):
            list(log.records(**wrong))
    with pytest.raises(OffsetOutOfRange, match="valid range is 0 to 9"):
        list(log.records(from_offset=10))


def test_records_raises_damage_or_passes_it_to_on_damage(tmp_path):
    good = [batch_v2([R(i, BASE_TIME_MS, b"k", b"v" * 50)]) for i in range(3)]
    bad = good[1][:-3] + b"xyz"
    log = partition(tmp_path, good[0] + bad + good[2])
    parts = log.records(columns=["offset"])
    with pytest.raises(kl.DamagedLog, match=f"at byte {len(good[0])}: its CRC does not match") as raised:
        list(parts)
    assert raised.value.details["first_offset"] == raised.value.details["last_offset"] == 1
    told = []
    assert sum(part.num_rows for part in log.records(on_damage=told.append)) == 2
    assert [one.details["position"] for one in told] == [len(good[0])]
    assert [part.num_rows for part in log.batches(on_damage=told.append)]


def test_open_finds_the_partitions_of_a_log_directory():
    found = kl.open(ROOT / "docs" / "example")
    assert [log.topic for log in found] == ["levels", "mixed", "mixed"]
    assert found.partition("mixed", 1).partition == 1
    with pytest.raises(KeyError):
        found.partition("mixed", 2)
    with pytest.raises(UsageError, match="3 partitions"):
        kl.open_partition(ROOT / "docs" / "example")
    assert set(kl._LIBRARY) == set(kl.library.__all__)
    with pytest.raises(AttributeError):
        _ = kl.nothing


def test_the_examples_of_the_library_page_are_true(monkeypatch):
    pytest.importorskip("duckdb", reason="the extra `duckdb` is not installed: the page asks it")
    monkeypatch.chdir(ROOT)
    page = str(ROOT / "docs" / "library.md")
    failed, tried = doctest.testfile(page, module_relative=False, optionflags=doctest.ELLIPSIS)
    assert (failed, tried > 10) == (0, True)


def test_import_of_the_library_loads_nothing_heavy():
    code = "import json, sys, kafkalog_cli; print(json.dumps(sorted(sys.modules)))"
    before = "import json, sys; print(json.dumps(sorted(sys.modules)))"
    modules = [
        set(json.loads(subprocess.run([sys.executable, "-c", one], capture_output=True, check=True, cwd=ROOT).stdout))
        for one in (code, before)
    ]
    assert modules[0] - modules[1] == {"kafkalog_cli"}


def test_the_names_are_listed_before_they_are_used():
    """A name that is imported at its first use is not in the module before that; completion needs it."""
    words = "import sys, kafkalog_cli as kl; print(*dir(kl)); assert not [*filter(lambda name: name.startswith('kafkalog_cli.'), sys.modules)]"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert {"LogDirectory", "open", "recover", "verify", "__version__"} <= set(done.stdout.split())
    assert {"KafkalogDataSource", "session"} <= set(dir(spark))
