"""How far jobs of Spark are: told while they run, by real jobs, to a terminal and to programs; nothing is counted twice."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.spark.clusters import spark_environment
from tests.spark.exporting import files, pa, pq
from tests.spark.importing import new_log_dir
from tests.spark.test_export_command import ROOT, SPARK, kafkalog, many
from tests.spark.test_spark_rows import log_dir
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.product import Environment, RealFilesystem, Refused, run
from tests.support.product_journal import open_partition
from tests.support.product_spark import Item, Known, log_bytes, lower_limit, on_spark, progress

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

ERASE = "\r\x1b[K"


@pytest.fixture
def at_once(monkeypatch):
    """Also what is over within a second is told of."""
    for name in ("seconds until progress is shown", "seconds of progress on a terminal", "seconds of progress in JSON"):
        lower_limit(monkeypatch, name, 0.0)


def on_a_terminal(*argv):
    """(exit code, stdout, what a real terminal got as stderr)"""
    master, slave = os.openpty()
    shown, out = [], Path(os.devnull).open("wb")

    def read():
        while data := os.read(master, 65_536):
            shown.append(data)
            if data.endswith(b"END"):
                return

    reader = threading.Thread(target=read)
    reader.start()
    with os.fdopen(slave, "wb") as terminal, out:
        code = run([str(arg) for arg in argv], Environment(stdout=out, stderr=terminal))
        terminal.write(b"END")
        terminal.flush()
        reader.join()
    os.close(master)
    return code, b"".join(shown).decode().removesuffix("END")


def objects(errors):
    """The objects of progress among what was said, each as its schema wants it."""
    schema = json.loads((ROOT / "docs" / "schemas" / "kafkalog.progress-1.json").read_text())
    found = [one for one in map(json.loads, errors.splitlines()) if one["type"] == "progress"]
    for one in found:
        Draft202012Validator({**schema, "additionalProperties": False}).validate(one)
    return found


def fleet(folder, partitions=3):
    """Partitions of one log directory; the bytes of their logs."""
    for number in range(partitions):
        data = batch_v2([R(i, BASE_TIME_MS, b"k%d" % i, b"v" * 50) for i in range(20)])
        log_dir(folder, data, partition=number)
    return sum(log_bytes(open_partition(RealFilesystem(), str(path))) for path in folder.glob("orders-*"))


def test_progress_of_spark_counts_tasks_as_they_finish(spark, tmp_path):
    """The third task is at work until the other two were reported."""
    heard, of_two = [], tmp_path / "of-two"

    def advance(size_bytes, subject=""):
        heard.append(size_bytes)
        if sum(heard) == 12:
            of_two.touch()

    def work(value, _):
        until = time.monotonic() + 300
        while value == 3 and not of_two.exists() and time.monotonic() < until:
            time.sleep(0.05)
        return value

    items = [Item(1, 5), Known("known"), Item(2, 7), Item(3, 100)]
    with on_spark(lambda: nullcontext(spark)) as map_each:
        assert list(map_each(items, work, advance=advance)) == [1, "known", 2, 3]
        assert list(map_each([Known(7)], work)) == [7]
    assert of_two.exists()
    assert sum(heard) == 112


@pytest.mark.usefixtures("spark")
def test_the_first_task_that_fails_ends_the_others(spark, tmp_path):
    def fails(value, _):
        (tmp_path / str(value)).touch()
        if value == 3:
            raise Refused(path="x", reason=f"a test of {value}")
        time.sleep(900)

    heard, begun = [], time.monotonic()
    with on_spark(lambda: nullcontext(spark)) as map_each, pytest.raises(Refused, match="x: refused: a test of 3"):
        list(map_each([Item(1, 9), Item(3, 9)], fails, advance=lambda size_bytes, subject="": heard.append(size_bytes)))
    assert time.monotonic() - begun < 400
    assert sum(heard) == 0


@pytest.mark.full
def test_tasks_whose_workers_die_are_tried_again_and_count_once(spark, tmp_path):
    del spark  # where it is skipped, so is this
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "retried_tasks.py"), str(tmp_path)],
        env=spark_environment(), capture_output=True, text=True, timeout=1200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2", "3"]  # each was tried, and failed
    error = told.pop("error")
    assert told == {"found": [0, 2, 4, 6], "done": 1111}
    assert error == [0, 1]  # the second died at each try


@pytest.mark.usefixtures("spark", "at_once")
def test_engine_spark_writes_progress_objects_with_json(tmp_path):
    size = fleet(tmp_path / "log")
    stats, export = (["stats", *SPARK], ["export", *SPARK, "--output", tmp_path / "out"])
    for words, name in ((stats, "--format"), (export, "--report")):
        code, out, errors = kafkalog(*words, tmp_path / "log", name, "json")
        assert (code in (0, 3), json.loads(out.splitlines()[-1])["records"]) == (True, 60)
        found = objects(errors)
        assert len(found) == len(errors.splitlines()) >= 1
        assert {(one["work"], one["total_bytes"]) for one in found} == {(words[0], size)}
        assert found[-1]["done_bytes"] == size
    assert kafkalog(*stats, tmp_path / "log")[2] == ""  # without a terminal


@pytest.mark.usefixtures("spark", "at_once")
def test_engine_spark_shows_a_progress_line_that_is_removed(tmp_path):
    size = progress.sized(fleet(tmp_path / "log"))
    for words in (["stats", *SPARK], ["export", *SPARK, "--output", tmp_path / "out"]):
        code, shown = on_a_terminal(*words, tmp_path / "log")
        assert code in (0, 3)
        nothing, *lines, last = shown.split(ERASE)
        assert (nothing, last) == ("", "")
        assert lines[-1].startswith(f"{words[0]}: 100 %, {size} of {size}, "), lines


@pytest.mark.usefixtures("spark", "at_once")
def test_import_shows_progress_of_sorting_and_building(tmp_path):
    pq.write_table(pa.table({"key": [b"a", b"b"] * 500, "value": [b"x" * 100] * 1000}), tmp_path / "in.parquet")
    command = ("import", tmp_path / "in.parquet", "--topic", "orders", "--partitions", "2", "--log-dir")
    code, _, errors = kafkalog(*command, new_log_dir(tmp_path / "a"), "--format", "json")
    assert code == 0, errors
    last = {one["work"]: (one["done_bytes"], one["total_bytes"]) for one in objects(errors)}
    assert [*last] == ["sort", "import"]
    assert last["sort"] == ((tmp_path / "in.parquet").stat().st_size,) * 2
    assert last["import"][0] == last["import"][1] > 100_000  # the rows, which are not packed any more
    code, shown = on_a_terminal(*command, new_log_dir(tmp_path / "b"))
    lines = shown.split(ERASE)
    assert (code, lines[0], lines[-1].count("%")) == (0, "", 0)
    assert [line.partition(":")[0] for line in lines if ": 100 %, " in line] == ["sort", "import"], lines


@pytest.mark.full
@pytest.mark.slow
def test_an_interrupt_removes_the_progress_line(tmp_path):
    many(tmp_path / "log", 4000)
    master, slave = os.openpty()
    argv = [sys.executable, "-m", "kafkalog_cli", "export", str(tmp_path / "log"), "--output", str(tmp_path / "out")]
    child = subprocess.Popen(
        [*argv, *SPARK], cwd=ROOT, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=slave,
    )  # fmt: skip
    os.close(slave)
    shown = b""
    try:
        while b" of " not in shown:
            shown += os.read(master, 4096)
        os.killpg(child.pid, signal.SIGINT)
        while data := os.read(master, 4096):
            shown += data
    except OSError:  # nobody has the other end any more
        pass
    code = child.wait(600)
    os.close(master)
    nothing, *lines, last = shown.decode().split(ERASE)
    assert (code, nothing, last, files(tmp_path / "out")) == (130, "", "", [])
    drawn = [line for line in lines if line and not line.startswith("starting Spark")]
    assert drawn
    assert all(line.startswith("export: ") for line in drawn), lines
