"""`kafkalog export` in processes of this machine and on Spark: files, messages, exit codes; a run that is killed."""

import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import kafkalog_cli as kl
from tests.spark.exporting import files, offsets, pq
from tests.spark.test_spark_rows import log_dir
from tests.spark.test_spark_sessions import every_log
from tests.support.commands import kafkalog
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.product_spark import replace_point

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]
__all__ = ["every_log"]

ROOT = Path(__file__).parents[2]
SPARK = ("--engine", "spark", "--master", "local[2]")


@pytest.mark.full
def test_export_prints_a_line_for_each_partition_and_writes_its_rows(every_log, tmp_path):
    code, said, errors = kafkalog("export", every_log, "--output", tmp_path / "out", "--mode", "dropmalformed")
    wanted = {(one.topic, one.partition): 0 for one in kl.open(every_log)}
    for one in kl.open(every_log):
        parts = one.records(columns=["offset"], on_damage=lambda _: None)
        wanted[one.topic, one.partition] = sum(part.num_rows for part in parts)
    found = dict.fromkeys(wanted, 0)
    for topic, partition, _ in offsets(tmp_path / "out"):
        found[topic, partition] += 1
    assert found == wanted
    assert said.splitlines()[-1].startswith(f"{len({t for t, _ in wanted})} topics: {sum(wanted.values())} records of ")
    assert re.search(r" files, [\d.]+ [KM]iB, [\d.:]+ (ms|s|min)$", said.splitlines()[-1])
    assert code == (4 if "at byte" in errors else 0)
    assert "Traceback" not in errors
    assert kafkalog("export", every_log, "--output", tmp_path / "out")[0] == 14


def test_spark_reads_what_was_exported(spark, tmp_path):
    for day in range(3):
        log_dir(
            tmp_path / "log",
            batch_v2([R(i, BASE_TIME_MS + day * 86_400_000, b"k", b"v") for i in range(2)]),
            partition=day,
        )
    assert kafkalog("export", tmp_path / "log", "--output", tmp_path / "out", "--by-day")[0] == 0
    found = spark.read.parquet(str(tmp_path / "out")).where("topic = 'orders' and day = date '2023-11-15'").collect()
    assert [(row.partition, row.offset, bytes(row.key), row.codec) for row in found] == [
        (1, 0, b"k", "none"), (1, 1, b"k", "none"),
    ]  # fmt: skip


def test_lines_go_back_by_append(tmp_path):
    headers = ((b"a", b""), (b"\xff", None), (b"a", b"1"))
    data = batch_v2([R(0, BASE_TIME_MS, None, b"", headers), R(1, BASE_TIME_MS + 1, b"", None)], 4, epoch=3)
    folder = log_dir(tmp_path / "log", data)
    assert kafkalog("export", folder, "--output", tmp_path / "out", "--format", "json")[0] == 0
    (name,) = files(tmp_path / "out")
    (tmp_path / "new").mkdir()
    code, _, errors = kafkalog(
        "append",
        tmp_path / "new" / "orders-0",
        tmp_path / "out" / name,
        "--keep-offsets",
        "--codec",
        "zstd",
        "--single-replica",
    )
    assert code == 0, errors
    again = [part.to_pylist() for part in kl.open_partition(tmp_path / "new" / "orders-0").records()]
    assert again == [part.to_pylist() for part in kl.open_partition(folder / "orders-0").records()]


def test_export_ends_with_one_line_at_damage_and_wrong_options(tmp_path):
    good = [batch_v2([R(i, BASE_TIME_MS, b"k", b"v" * 30)]) for i in range(3)]
    folder = log_dir(tmp_path / "log", good[0] + good[1][:-3] + b"xyz" + good[2])
    path = folder / "orders-0" / f"{0:020d}.log"
    code, said, errors = kafkalog("export", folder, "--output", tmp_path / "out")
    assert (code, said, files(tmp_path / "out")) == (4, "", [])
    assert errors.splitlines()[0].startswith(f"kafkalog: {path}: at byte {len(good[0])}: its CRC does not match")
    assert errors.splitlines()[1] == "  next: nothing was exported; --mode dropmalformed exports what can be read"
    assert len(errors.splitlines()) == 2
    code, said, errors = kafkalog("export", folder, "--output", tmp_path / "out", "--mode", "dropmalformed", "--quiet")
    assert (code, said.split(",")[0]) == (4, "orders: 2 records of 1 partition in 1 file")
    assert len(errors.splitlines()) == 1
    for wrong, message in (
        ([folder], "missing option '--output'"),
        (["--output", tmp_path / "x"], "missing argument 'PATH...'"),
        (
            [folder, "--output", tmp_path / "x", "--format", "json", "--codec", "gzip"],
            "--format json has the codecs none",
        ),
    ):
        code, _, errors = kafkalog("export", *wrong)
        assert (code, message in errors) == (2, True), errors


def objects(text):
    """The objects, each as its schema wants it, without those of progress."""
    found = [json.loads(line) for line in text.splitlines()]
    for one in found:
        schema = json.loads((ROOT / "docs" / "schemas" / f"{one['schema'].replace('/', '-')}.json").read_text())
        is_open = schema.get("additionalProperties", False)
        Draft202012Validator({**schema, "additionalProperties": is_open}).validate(one)
    return [one for one in found if one["type"] != "progress"]


def test_json_of_export_fits_its_schema(every_log, tmp_path):
    out = tmp_path / "out"
    argv = ("export", every_log, "--output", out, "--mode", "dropmalformed", "--report", "json")
    code, said, errors = kafkalog(*argv)
    *made, summary = objects(said)
    assert {one["type"] for one in made} == {"exported"}
    assert sorted(one["path"] for one in made) == [str(out / name) for name in files(out)]
    for one in made:
        found = pq.read_table(one["path"], columns=["partition", "offset"])
        rows = found.column("offset").to_pylist()
        assert (one["first_offset"], one["last_offset"], one["records"]) == (rows[0], rows[-1], len(rows))
        assert (one["partition"], one["of_earlier_run"]) == (found.column("partition")[0].as_py(), False)
        assert one["size_bytes"] == Path(one["path"]).stat().st_size
        assert f"topic={one['topic']}" in one["path"]
    damage = [one for one in objects(errors) if one["kind"].startswith("Damaged")]
    assert summary.items() >= {
        "exit_code": code, "files": len(made), "records": sum(one["records"] for one in made),
        "bytes": sum(one["size_bytes"] for one in made), "topics": len({one["topic"] for one in made}),
        "partitions": len({(one["topic"], one["partition"]) for one in made}), "of_earlier_run": 0, "gaps": 0,
        "damaged": len(damage),
    }.items()  # fmt: skip
    (refused,) = objects(kafkalog(*argv)[2])
    assert (refused["kind"], refused["exit_code"], refused["path"]) == ("Refused", 14, str(out))


def test_json_of_an_incremental_export_has_new_offsets_and_errors(tmp_path):
    good = [batch_v2([R(i, BASE_TIME_MS, b"k", b"v" * 30)]) for i in range(3)]
    folder, out = log_dir(tmp_path / "log", good[0]), tmp_path / "out"
    argv = ("export", folder, "--output", out, "--state", tmp_path / "state", "--format", "json", "--report=json")
    counts = []
    for data in (good[0], good[0], good[0] + good[1]):
        log_dir(folder, data)
        code, said, _ = kafkalog(*argv, "--quiet")
        *made, summary = objects(said)
        counts.append((code, [(one["first_offset"], one["records"]) for one in made], summary["files"]))
    assert counts == [(0, [(0, 1)], 1), (0, [], 0), (0, [(1, 1)], 1)]
    log_dir(folder, good[0] + good[1] + good[2][:-3] + b"xyz" + good[2])
    code, said, errors = kafkalog("export", folder, "--output", tmp_path / "new", "--report", "json")
    (told,) = objects(errors)
    assert (code, said, told["kind"], told["exit_code"]) == (4, "", "DamagedLog", 4)
    assert told["next_step"] == "nothing was exported; --mode dropmalformed exports what can be read"
    for words in (["--output"], ["--report", "json", "--codec", "x"], ["--report", "json"]):
        code, said, errors = kafkalog("export", folder, *words)
        assert (code, said) == (2, "")
        if words != ["--output"]:
            (told,) = objects(errors)
            assert (told["kind"], told["exit_code"]) == ("UsageError", 2)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("engine", [(), SPARK], ids=["here", "spark"])
def test_export_on_a_full_disk_ends_with_13_and_leaves_nothing(tmp_path, monkeypatch, engine):
    """What a task is told by the system comes back with its exit code."""

    class FullDisk:  # local: it goes to the worker as it is
        def __init__(self, *_):
            pass

        def __call__(self, task, advance):
            raise OSError(28, "No space left on device")  # as a write raises it: without a path

    folder = log_dir(tmp_path / "log", batch_v2([R(0, BASE_TIME_MS, b"k", b"v")]))
    replace_point(monkeypatch, "task of an export", lambda _: FullDisk)
    code, _, errors = kafkalog("export", folder, "--output", tmp_path / "out", *engine)
    assert code == 13
    assert errors.splitlines()[0] == f"kafkalog: {tmp_path}/out: no space left on the device: nothing was exported"
    assert errors.splitlines()[1:] == ["  next: make room, or write to another disk"]
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("spark")
def test_export_ends_with_an_error_where_workers_see_another_disk(tmp_path, monkeypatch):
    folder = log_dir(tmp_path / "log", batch_v2([R(0, BASE_TIME_MS, b"k", b"v")]))

    def elsewhere(of):
        return lambda self, path: of(self, path)._replace(inode=1)

    replace_point(monkeypatch, "identity of a partition to a worker", elsewhere)
    code, said, errors = kafkalog("export", folder, "--output", tmp_path / "out", *SPARK)
    assert (code, said, files(tmp_path / "out")) == (14, "", [])
    assert "sees another directory there than" in errors
    assert re.search(r": its inode is \d+, not 1; nothing was changed$", errors)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("form", ["parquet", "arrow", "json"])
def test_spark_writes_the_files_that_this_machine_writes(every_log, tmp_path, form):
    """Byte for byte, with the same messages."""
    said, made = [], []
    for name, engine in (("here", ()), ("spark", SPARK)):
        out = tmp_path / name
        argv = ("export", every_log, "--output", out, "--mode", "dropmalformed", "--format", form, "--by-day")
        code, printed, errors = kafkalog(*argv, *engine)
        said.append((code, printed.rpartition(", ")[0], sorted(errors.splitlines())))
        made.append({name: (out / name).read_bytes() for name in files(out)})
    assert said[0] == said[1]
    assert made[0] == made[1]
    assert made[0]


def test_export_names_the_reason_where_spark_does_not_start(tmp_path):
    folder = log_dir(tmp_path / "log", batch_v2([R(0, BASE_TIME_MS, b"k", b"v")]))
    argv = [sys.executable, "-m", "kafkalog_cli", "export", str(folder), "--output", str(tmp_path / "out")]
    argv += ["--engine", "spark", "--master", "local[x]"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "kafkalog: Spark does not start: Could not parse Master URL: 'local[x]'\n"
    assert files(tmp_path / "out") == []


def many(folder, batches, partition=0):
    """A log of many batches: the CRC does not cover the base offset, so that one can be had again."""
    one = batch_v2([R(i, BASE_TIME_MS, b"key", os.urandom(90)) for i in range(500)])
    log = b"".join(struct.pack(">q", number * 500) + one[8:] for number in range(batches))
    log_dir(folder, log, partition=partition)


def begun(tmp_path, *engine):
    """An export in a process group of its own, which writes its first file; its output and state."""
    for number in range(2):
        many(tmp_path / "log", 1000, number)
    out, state = tmp_path / "out", tmp_path / "state"
    argv = [sys.executable, "-m", "kafkalog_cli", "export", str(tmp_path / "log"), "--output", str(out)]
    argv += ["--state", str(state), *engine]
    process = subprocess.Popen(
        argv, cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    until = time.monotonic() + 480
    while not list(out.glob(".kafkalog/*/*.tmp")) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.005)
    return process, out, state


ENGINES = pytest.mark.parametrize("engine", [(), SPARK], ids=["here", "spark"])


@pytest.mark.full
@pytest.mark.usefixtures("spark")
@ENGINES
def test_export_killed_while_it_writes_leaves_no_visible_file(tmp_path, engine):
    """Nothing is seen, and the next run exports all, once."""
    process, out, state = begun(tmp_path, *engine)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    left = list(out.glob(".kafkalog/*/*.tmp"))
    with process.stderr as stream:
        assert (stream.read(), bool(left)) == (b"", True)  # Java and Spark say nothing
    assert (files(out), state.exists()) == ([], False)
    code, _, errors = kafkalog("export", tmp_path / "log", "--output", out, "--state", state)
    assert (code, errors) == (0, "")
    found = pq.read_table(out, columns=["partition", "offset"])
    assert [*zip(*found.to_pydict().values(), strict=True)] == [(p, at) for p in range(2) for at in range(500_000)]
    assert not [path for path in left if path.exists()]


@pytest.mark.full
def test_processes_of_a_killed_export_end(tmp_path):
    """Killed alone, it leaves no process that writes on."""
    process, out, state = begun(tmp_path)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=480)  # the forks hold the other end of the pipe
    assert (files(out), state.exists()) == ([], False)


@pytest.mark.full
@pytest.mark.slow
@ENGINES
def test_export_interrupted_while_it_writes_ends_with_130_and_leaves_nothing(tmp_path, engine):
    """As with the other commands: 130, without a word of Spark's, and nothing is left."""
    process, out, state = begun(tmp_path, *engine)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=480)
    assert (process.returncode, errors) == (130, b"")
    assert (files(out), state.exists()) == ([], False)
    assert not out.exists()
