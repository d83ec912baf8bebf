"""`kafkalog import` through Spark itself, one session for all: output, exit codes; tasks tried again, a driver killed."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from jsonschema import Draft202012Validator

from tests.spark.exporting import pa, pq
from tests.spark.importing import new_log_dir, records, seen
from tests.spark.test_export_command import ROOT, kafkalog, many
from tests.spark.test_import import ID
from tests.spark.test_spark_rows import log_dir
from tests.support.commands import loaded_modules
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.product import is_staged

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture
def exported(tmp_path):
    """Two partitions, as export wrote them; and where they were."""
    for number in range(2):
        folder = log_dir(tmp_path / "log", batch_v2([R(i, BASE_TIME_MS, b"k%d" % i, b"v") for i in range(4)], 4),
            partition=number)  # fmt: skip
        (folder / f"orders-{number}" / "partition.metadata").write_text(f"version: 0\ntopic_id: {ID}")
    assert kafkalog("export", tmp_path / "log", "--output", tmp_path / "out")[0] == 0
    return tmp_path / "out", tmp_path / "log"


@pytest.mark.usefixtures("spark")
def test_import_prints_its_plan_and_a_line_for_each_partition(exported, tmp_path):
    out, log = exported
    new = new_log_dir(tmp_path / "new")
    code, said, errors = kafkalog("import", out, "--log-dir", new, "--dry-run")
    assert (code, errors, seen(new)) == (0, "", [])
    assert said.splitlines()[0].startswith("orders-0: would be made of 4 rows of 1 file, ")
    assert said.splitlines()[0].endswith(f"; offsets of the input; topic id {ID} (the input)")
    code, said, errors = kafkalog("import", out, "--log-dir", new, "--prove", "--now", "2023-11-15")
    assert (code, errors, seen(new)) == (0, "", ["orders-0", "orders-1"])
    for number in range(2):
        assert records(new / f"orders-{number}") == records(log / f"orders-{number}")
    lines = said.splitlines()
    assert lines[0].startswith("orders-0: 4 records, offsets 0 to 3, ")
    assert "; read back the same, sha256 " in lines[1]
    assert lines[2:4] == [
        f"orders: topic id {ID} (the input)",
        "to undo the import before a broker starts, remove the directories of these partitions",
    ]
    closing = rf"2 partitions of {re.escape(str(new))}: 8 records, offsets of the input, [\d.]+ (bytes|KiB), [\d.:]+ (ms|s|min)"
    assert re.fullmatch(closing, lines[4]), lines[4]
    assert len(lines) == 5
    code, _, errors = kafkalog("import", out, "--log-dir", new)
    assert (code, errors) == (
        14, f"kafkalog: {new}/orders-0: refused: it already exists; `mv -nT {new}/orders-0 {new.parent}/orders-0`"
        " moves it out of the log directory\n",
    )  # fmt: skip
    assert kafkalog("verify", new, "--level", "deep")[0] == 0


@pytest.mark.usefixtures("spark")
def test_import_with_spark_and_without_writes_the_same_files(exported, tmp_path):
    """Both sort the rows by keys first; without --master, nothing of Spark is imported."""
    words = ("--topic", "t", "--partitions", "3", "--prove", "--now", "2023-11-15")
    made = {}
    for name, master in (("spark", ("--master", "local[2]")), ("here", ())):
        new = new_log_dir(tmp_path / name)
        if master:
            assert kafkalog("import", exported[0], "--log-dir", new, *words, *master)[0] == 0
        else:
            code, _, modules = loaded_modules("import", exported[0], "--log-dir", new, *words)
            assert (code, modules & {"pyarrow", "pyspark"}) == (0, {"pyarrow"})
        files = (path for path in sorted(new.glob("t-*/*")))
        made[name] = {str(path.relative_to(new)): path.read_bytes() for path in files}
    assert made["spark"] == made["here"]
    assert sum(1 for name in made["here"] if name.endswith(".log")) == 3


@pytest.mark.usefixtures("spark")
def test_json_of_import_fits_its_schema(exported, tmp_path):
    new = new_log_dir(tmp_path / "new")
    schema = json.loads((ROOT / "docs" / "schemas" / "kafkalog.imported-1.json").read_text())
    for words in (["--dry-run"], ["--prove"]):
        code, said, errors = kafkalog("import", exported[0], "--log-dir", new, "--format", "json", *words)
        assert code == 0, errors
        *made, summary = map(json.loads, said.splitlines())
        for one in made:
            Draft202012Validator({**schema, "additionalProperties": False}).validate(one)
    assert [(one["topic"], one["partition"], one["records"], one["proved_records"]) for one in made] == [
        ("orders", 0, 4, 4), ("orders", 1, 4, 4),
    ]  # fmt: skip
    assert made[0]["digest"] == made[1]["digest"]
    names = ("partitions", "records", "completed", "lost", "exit_code")
    assert [summary[name] for name in names] == [2, 8, 0, 0, 0]


@pytest.mark.usefixtures("spark")
def test_import_ends_with_one_line_at_wrong_options_and_inputs(exported, tmp_path):
    new = new_log_dir(tmp_path / "new")
    pq.write_table(pa.table({"value": ["x"]}), tmp_path / "x.parquet")
    for words, code, message in (
        ([tmp_path / "x.parquet"], 2, "does not name its topic: give --topic NAME"),
        ([tmp_path / "x.parquet", "--topic", "t"], 2, "--partitions N chooses it by their keys"),
        ([exported[0], "--topic-id", "x"], 2, "--topic-id x: x is not a topic id"),
        ([exported[0], "--compression-level", "3"], 2, "--compression-level needs a --codec"),
        ([tmp_path / "nothing"], 10, "no such file or directory"),
    ):
        found, said, errors = kafkalog("import", *words, "--log-dir", new)
        assert (found, said, message in errors, len(errors.splitlines())) == (code, "", True, 1), errors
    assert kafkalog("import", exported[0], "--log-dir", tmp_path / "nowhere")[0] == 10
    assert seen(new) == []


@pytest.mark.usefixtures("spark")
def test_import_beside_a_broker_ends_with_11(exported, tmp_path):
    new = new_log_dir(tmp_path / "new")
    (new / ".lock").touch()
    holder = "import fcntl,sys;f=open(sys.argv[1],'r+');fcntl.lockf(f,fcntl.LOCK_EX);print(1,flush=True);input()"
    argv = [sys.executable, "-c", holder, str(new / ".lock")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        code, _, errors = kafkalog("import", exported[0], "--log-dir", new)
        process.stdin.close()
    assert (code, "uses this log directory. Stop it" in errors, seen(new)) == (11, True, [])


@pytest.mark.full
def test_import_killed_while_it_builds_leaves_no_visible_partition(spark, tmp_path):
    """No broker could start while a task is there; nothing is seen; the next run removes what is left, and imports all."""
    del spark
    many(tmp_path / "log", 1000)
    assert kafkalog("export", tmp_path / "log", "--output", tmp_path / "out")[0] == 0
    new = new_log_dir(tmp_path / "new")
    argv = [sys.executable, "-m", "kafkalog_cli", "import", str(tmp_path / "out"), "--log-dir", str(new)]
    process = subprocess.Popen(
        [*argv, "--master", "local[2]"], cwd=ROOT, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    until = time.monotonic() + 400
    while not list(new.glob("*-delete")) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.005)
    assert process.poll() is None, process.stderr.read()
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stderr.close()
    left = seen(new)
    assert left
    assert all(is_staged(name) for name in left)
    code, _, errors = kafkalog("import", tmp_path / "out", "--log-dir", new, "--prove", "--wait", "20")
    assert code == 0, errors
    assert seen(new) == ["orders-0"]
    assert [row["offset"] for row in records(new / "orders-0", ("offset",))] == list(range(500_000))
