"""Exported files: the rows of the core on every log of the corpus, in all formats; days, codecs, damage, refusals."""

import io
import json
import warnings
from datetime import datetime, timezone

import pytest

import kafkalog_cli as kl
from tests.spark.exporting import FileFormat, export, files, lines, offsets, pa, pq, table, tasks_here
from tests.spark.test_spark_rows import corpus_partitions, log_dir
from tests.support.logs import BASE_TIME_MS, TRANSACTIONAL, R, batch_v2, end_marker, message, message_set
from tests.support.product import (
    DamagedLog,
    DamagedTail,
    Environment,
    ExitCode,
    KafkalogError,
    Refused,
    UsageError,
    run,
)
from tests.support.product_spark import (
    CORE,
    NO_DAY,
    TIMES_OF_FILES,
    Isolation,
    OnDamage,
    Range,
    export_schema,
    lower_limit,
    small_tasks,
)

DAY_MS = 86_400_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def of_the_core(log_dir):
    """The rows of a log directory as the library has them, in the terms of the files; by topic, partition, offset."""
    found, schema = [], None
    for log in kl.open(log_dir):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", kl.LogWarning)
            for part in log.records(columns=CORE, on_damage=lambda _: None):
                made = part.rename_columns([{"timestamp_type": "timestampType"}.get(n, n) for n in part.schema.names])
                names = pa.array(["none", "gzip", "snappy", "lz4", "zstd"])
                at = made.schema.get_field_index("codec")
                made = made.set_column(at, "codec", names.take(made.column("codec")))
                made = made.add_column(2, "partition", pa.repeat(pa.scalar(log.partition, pa.int32()), part.num_rows))
                made = made.append_column("topic", pa.repeat(pa.scalar(log.topic), part.num_rows))
                schema = schema or made.schema
                found.append(made.cast(schema))
    whole = pa.Table.from_batches(found)
    return whole.sort_by([("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")])


def plain(found):
    """As Python has it; times as numbers, not every one of which is a datetime."""
    names = found.schema.names
    found = found.set_column(names.index("timestamp"), "timestamp", found.column("timestamp").cast(pa.int64()))
    return found.select(sorted(names)).to_pylist()


@pytest.fixture(scope="module")
def every_log(corpus, tmp_path_factory):
    """One directory with each different log of the corpus as a topic; its partitions' directories."""
    made, seen = tmp_path_factory.mktemp("every-log"), set()
    for folder in corpus_partitions(corpus):
        kept = tuple((p.name, p.read_bytes()) for p in sorted(folder.iterdir()) if p.suffix in (".log", ".kafka"))
        if kept not in seen and not folder.name.startswith("__cluster_metadata"):
            seen.add(kept)
            topic, _, number = folder.name.rpartition("-")
            (made / f"t{len(seen):03d}.{topic}-{number}").symlink_to(folder)
    assert len(seen) > 80
    return made


@pytest.fixture(scope="module")
def some_logs(every_log, tmp_path_factory):
    """Each third of them."""
    made = tmp_path_factory.mktemp("some-logs")
    for folder in sorted(every_log.iterdir())[::3]:
        (made / folder.name).symlink_to(folder.resolve())
    return made


@pytest.mark.full
def test_export_of_every_log_of_the_corpus_has_the_rows_of_the_library(every_log, tmp_path):
    result = export(every_log, tmp_path / "out", codec="zstd", mode=OnDamage.DROPMALFORMED)
    wanted = of_the_core(every_log)
    found = table(tmp_path / "out")
    assert plain(found) == plain(wanted)
    assert set(found.column("codec").to_pylist()) == set(CODECS)
    assert set(found.column("magic").to_pylist()) == {0, 1, 2}  # clients refuse others
    assert found.num_rows == sum(one.records for one in result.files) > 10_000
    assert len(result.damage) > 5
    assert result.exit_code is ExitCode.CORRUPTION
    for one in result.files:
        part = tmp_path / "out" / one.path
        assert part.stat().st_size == one.size_bytes
        whole = pq.read_table(part, partitioning=None)
        assert whole.schema.remove_metadata() == export_schema()
        in_order = whole.column("offset").to_pylist()
        assert (in_order[0], in_order[-1], len(in_order)) == (one.first_offset, one.last_offset, one.records)
        assert in_order == sorted(in_order)
        assert whole.schema.metadata[b"kafkalog.topic"] == one.topic.encode()


@pytest.mark.full
def test_export_as_arrow_of_the_corpus_has_the_rows_of_the_library(some_logs, tmp_path):
    export(some_logs, tmp_path / "out", format=FileFormat.ARROW, codec="lz4", mode=OnDamage.DROPMALFORMED)
    found = table(tmp_path / "out", FileFormat.ARROW)
    assert plain(found) == plain(of_the_core(some_logs))
    assert found.num_rows > 3000


def test_export_as_json_of_the_corpus_has_the_rows_of_the_library(some_logs, tmp_path):
    export(some_logs, tmp_path / "out", format=FileFormat.JSON, codec="none", mode=OnDamage.DROPMALFORMED)
    found = {}
    for row in lines(tmp_path / "out"):
        found.setdefault((row["topic"], row["partition"]), []).append(row)
    count = 0
    for folder in sorted(some_logs.iterdir()):
        out = io.BytesIO()
        topic, _, number = folder.name.rpartition("-")
        selected = ["--topic", topic, "--partition", number, "--format", "json"]
        run(["read", str(some_logs), *selected], Environment(stdout=out, stderr=io.BytesIO()))
        wanted = [one for one in map(json.loads, out.getvalue().splitlines()) if one["type"] == "record"]
        assert found.get((topic, int(number)), []) == wanted, folder
        count += len(wanted)
    assert count > 3000


def records():
    """Null and empty keys and values, headers that are no text, empty, null, twice, and in their order."""
    headers = ((b"b", b"1"), (b"a", None), (b"b", b""), (b"\xff", b"x"), (b"", b""))
    return [R(0, -1, None, None), R(1, BASE_TIME_MS, b"", b""), R(2, BASE_TIME_MS, b"k", b"v", headers)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("codec", CODECS)
def test_export_keeps_null_and_empty_fields_and_headers(tmp_path, codec):
    folder = log_dir(tmp_path / "log", batch_v2(records(), CODECS.index(codec), producer=(7, 2, 11), epoch=5))
    export(folder, tmp_path / "out", codec=codec)
    found = table(tmp_path / "out").to_pylist()
    assert [(row["key"], row["value"], row["sequence"]) for row in found] == [
        (None, None, 11), (b"", b"", 12), (b"k", b"v", 13),
    ]  # fmt: skip
    assert [[(h["key"], h["value"]) for h in row["headers"]] for row in found] == [
        [], [], [(b"b", b"1"), (b"a", None), (b"b", b""), (b"\xff", b"x"), (b"", b"")],
    ]  # fmt: skip
    assert found[0]["timestamp"] is None
    same = {"codec": codec, "magic": 2, "producer_id": 7, "producer_epoch": 2, "leader_epoch": 5, "partition": 0}
    assert all(same.items() <= row.items() for row in found)
    packed = pq.ParquetFile(tmp_path / "out" / files(tmp_path / "out")[0]).metadata.row_group(0).column(0).compression
    assert packed == {"none": "UNCOMPRESSED"}.get(codec, codec.upper())


@pytest.mark.filterwarnings("ignore::kafkalog_cli.LogWarning")
@pytest.mark.exhaustive
@pytest.mark.parametrize("file_format", [FileFormat.PARQUET, FileFormat.ARROW])
@pytest.mark.parametrize("codec", CODECS)
def test_exported_rows_appended_by_the_library_are_the_same_records(tmp_path, codec, file_format):
    """Key, value, headers and timestamp of each record are the same; markers of transactions do not go back."""
    data = batch_v2(records(), CODECS.index(codec), producer=(7, 0, 0), bits=TRANSACTIONAL)
    folder = log_dir(tmp_path / "log", data + end_marker(3, BASE_TIME_MS, (7, 0), 1))
    export(folder, tmp_path / "out", with_control=True, format=file_format, codec=file_format.codecs[0])
    found = table(tmp_path / "out", file_format)
    assert found.column("control").to_pylist() == [False, False, False, True]
    (tmp_path / "new" / "orders-0").mkdir(parents=True)
    for suffix in ("log", "index", "timeindex"):
        (tmp_path / "new" / "orders-0" / f"{0:020d}.{suffix}").touch()
    log = kl.open_partition(tmp_path / "new" / "orders-0")
    assert log.append(found, codec=codec, single_replica=True).records == 3
    names = ("offset", "timestamp", "key", "value", "headers")
    again = [part.to_pylist() for part in log.records(columns=names)]
    assert again == [part.to_pylist() for part in kl.open_partition(folder / "orders-0").records(columns=names)]


def test_read_committed_and_control_records(tmp_path):
    data = batch_v2([R(0, 1, b"k", b"v")], producer=(7, 0, 0), bits=TRANSACTIONAL)
    data += end_marker(1, 1, (7, 0), 0) + batch_v2([R(2, 1, b"k", b"v")])
    folder = log_dir(tmp_path / "log", data)
    for name, wanted, request in (
        ("all", [0, 2], {}),
        ("committed", [2], {"isolation": Isolation.READ_COMMITTED}),
        ("control", [0, 1, 2], {"with_control": True}),
    ):
        export(folder, tmp_path / name, **request)
        assert [offset for *_, offset in offsets(tmp_path / name)] == wanted
    assert table(tmp_path / "control").column("control").to_pylist() == [False, True, False]


def test_export_by_day_puts_each_record_into_the_directory_of_its_day(tmp_path, monkeypatch):
    times = [5, -1, DAY_MS - 1, DAY_MS, -DAY_MS, 7, 1_700_000_000_000_000_000, BASE_TIME_MS]
    data = b"".join(batch_v2([R(i, ms, b"k%d" % i, b"v")]) for i, ms in enumerate(times))
    folder = log_dir(tmp_path / "log", data)
    wanted = {
        NO_DAY: [1, 6], "1969-12-31": [4], "1970-01-01": [0, 2, 5], "1970-01-02": [3],
        datetime.fromtimestamp(BASE_TIME_MS / 1000, timezone.utc).strftime("%Y-%m-%d"): [7],
    }  # fmt: skip
    lower_limit(monkeypatch, "rows of a batch of Arrow", 1)
    for name in ("all", "few"):
        if name == "few":
            lower_limit(monkeypatch, "open files of an export", 2)
        export(folder, tmp_path / name, by_day=True)
        found = {}
        for path in files(tmp_path / name):
            topic, day, _ = path.split("/")
            assert topic == "topic=orders"
            kept = pq.ParquetFile(tmp_path / name / path).read(["offset"]).column("offset").to_pylist()
            found.setdefault(day.removeprefix("day="), []).extend(kept)
        assert found == wanted
    assert len(files(tmp_path / "few")) > len(files(tmp_path / "all")) == len(wanted)
    export(folder, tmp_path / "lines", by_day=True, format=FileFormat.JSON, codec="none")
    found = {}
    for path in files(tmp_path / "lines"):
        objects = map(json.loads, (tmp_path / "lines" / path).read_bytes().splitlines())
        found.setdefault(path.split("/")[1].removeprefix("day="), []).extend(one["offset"] for one in objects)
    assert found == wanted


def test_export_splits_files_and_row_groups_at_their_limits(tmp_path, monkeypatch):
    """A large log makes several files, each of several row groups; the names sort by offset."""
    small_tasks(monkeypatch, 4000 // TIMES_OF_FILES, 2000 // TIMES_OF_FILES)
    lower_limit(monkeypatch, "rows of a batch of Arrow", 5)
    lower_limit(monkeypatch, "bytes of a row group", 1500)
    parts = [batch_v2([R(i, BASE_TIME_MS, b"k", b"v" * 100)]) for i in range(100)]
    for base in range(0, 100, 20):
        log_dir(tmp_path / "log", b"".join(parts[base : base + 20]), base=base)
    result = export(tmp_path / "log", tmp_path / "out")
    assert [offset for *_, offset in offsets(tmp_path / "out")] == list(range(100))
    assert files(tmp_path / "out")[1] == "topic=orders/00000-00000000000000000020.parquet"
    assert len(result.files) == 5
    assert pq.ParquetFile(tmp_path / "out" / files(tmp_path / "out")[0]).num_row_groups > 1


def test_export_of_a_range_has_its_offsets_only(tmp_path):
    data = b"".join(
        batch_v2([R(i, BASE_TIME_MS + i, b"k", b"v"), R(i + 1, BASE_TIME_MS + i + 1)]) for i in range(0, 20, 2)
    )
    log_dir(tmp_path / "log", data)
    log_dir(tmp_path / "log", batch_v2([R(0, BASE_TIME_MS)]), partition=1)
    for number, (wanted, expected) in enumerate(
        [
            (Range(from_offset=3, to_offset=6), [3, 4, 5]),
            (Range(since_ms=BASE_TIME_MS + 17), [17, 18, 19]),
            (Range(until_ms=BASE_TIME_MS + 2, from_offset=1), [1]),
            (Range(from_offset=99), []),
            (Range(since_ms=BASE_TIME_MS + 99), []),
        ]
    ):
        export(tmp_path / "log", tmp_path / f"out{number}", range=wanted)
        found = offsets(tmp_path / f"out{number}")
        assert [offset for _, partition, offset in found if partition == 0] == expected
        assert [offset for _, partition, offset in found if partition == 1] == []


def test_export_fails_at_damage_or_drops_it_by_mode(tmp_path):
    good = [batch_v2([R(i, BASE_TIME_MS, b"k", b"v" * 50)]) for i in range(3)]
    middle, tail = good[0] + good[1][:-3] + b"xyz" + good[2], good[0] + good[1][:-3]
    for name, data, kind, code, kept in (
        ("middle", middle, DamagedLog, ExitCode.CORRUPTION, [0, 2]),
        ("tail", tail, DamagedTail, ExitCode.WARNINGS, [0]),
    ):
        folder = log_dir(tmp_path / name, data)
        with pytest.raises(DamagedLog, match=rf"at byte {len(good[0])}: ") as caught:
            export(folder, tmp_path / f"{name}-fast")
        assert (type(caught.value), caught.value.exit_code) == (kind, code)
        assert files(tmp_path / f"{name}-fast") == []
        result = export(folder, tmp_path / f"{name}-drop", mode=OnDamage.DROPMALFORMED)
        assert (result.exit_code, len(result.damage)) == (code, 1)
        assert [offset for *_, offset in offsets(tmp_path / f"{name}-drop")] == kept


def test_export_refuses_outputs_in_log_directories_and_duplicate_partitions(tmp_path):
    folder = log_dir(tmp_path / "log", batch_v2([R(0, BASE_TIME_MS)]))
    (tmp_path / "log" / "meta.properties").write_text("version=1\n")
    for inside in ("log/out", "log/orders-0/out", "log"):
        with pytest.raises(Refused, match=r"the output would lie in .*, which is a broker's"):
            export(folder, tmp_path / inside)
    with pytest.raises(Refused, match=r"the state would lie in .*/log, which is a broker's"):
        export(folder, tmp_path / "out", tmp_path / "log" / "state")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    with pytest.raises(Refused, match="there are files in it already; another --output, or --state FILE"):
        export(folder, tmp_path / "full")
    with pytest.raises(Refused, match=r"there are files in it already, and the state .*/new is not there yet"):
        export(folder, tmp_path / "full", tmp_path / "new")
    with pytest.raises(UsageError, match="--format arrow has the codecs none, lz4, zstd, not gzip"):
        export(folder, tmp_path / "out", format=FileFormat.ARROW, codec="gzip")
    with pytest.raises(UsageError, match="--state cannot be combined with"):
        export(folder, tmp_path / "out", tmp_path / "state", range=Range(from_offset=3))
    log_dir(tmp_path / "twice" / "a", batch_v2([R(0, BASE_TIME_MS)]))
    log_dir(tmp_path / "twice" / "b", batch_v2([R(0, BASE_TIME_MS)]))
    with pytest.raises(KafkalogError, match=r"orders-0 is in .*: give only one of them"):
        export(tmp_path / "twice" / "?", tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "log" / "orders-0").iterdir()) == [f"{0:020d}.log"]
    assert files(tmp_path / "out") == []


def test_export_gives_its_tasks_absolute_paths(tmp_path, monkeypatch):
    """Workers may have another directory of their own."""
    log_dir(tmp_path / "log", batch_v2([R(0, BASE_TIME_MS)]))
    (tmp_path / "else").mkdir()
    monkeypatch.chdir(tmp_path)

    def elsewhere(items, work):
        monkeypatch.chdir(tmp_path / "else")
        return tasks_here(items, work)

    export("log", "out", run_tasks=elsewhere)
    assert offsets(tmp_path / "out") == [("orders", 0, 0)]


def test_a_worker_that_sees_another_disk_exports_nothing(tmp_path, monkeypatch):
    """An older copy of a partition lies there."""
    batches = [batch_v2([R(at, BASE_TIME_MS, b"k", b"v")]) for at in range(2)]
    folder = log_dir(tmp_path / "log", b"".join(batches))

    def elsewhere(items, work):
        monkeypatch.setattr("socket.gethostname", lambda: "worker")
        (folder / "orders-0" / f"{0:020d}.log").write_bytes(batches[0])
        return tasks_here(items, work)

    monkeypatch.setattr("socket.gethostname", lambda: "driver")
    with pytest.raises(Refused, match="worker sees another directory there than driver, where the run was planned"):
        export(folder, tmp_path / "out", tmp_path / "state", run_tasks=elsewhere)
    assert (files(tmp_path / "out"), (tmp_path / "state").exists()) == ([], False)


def test_export_of_old_formats_has_their_magic_timestamp_type_and_codec(tmp_path):
    data = message(R(0, -1, b"k", None), 0) + message_set([R(1, 5, None, b"v"), R(2, 6, b"k", b"v")], 1, 1)
    export(log_dir(tmp_path / "log", data), tmp_path / "out")
    found = table(tmp_path / "out").to_pylist()
    assert [(row["magic"], row["timestampType"], row["codec"]) for row in found] == [
        (0, -1, "none"), (1, 0, "gzip"), (1, 0, "gzip"),
    ]  # fmt: skip
