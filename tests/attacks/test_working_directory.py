"""Whoever owns the working directory plants modules, a Spark and settings there: no command runs or follows them.

An operator works in the log directory that is looked at, and that may belong to another user.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.product import IN_A_PROCESS

ROOT = Path(__file__).parents[2]
MODULES = (
    "pyspark", "kafkalog_cli", "json", "numpy", "pyarrow", "yaml", "socket", "pickle", "struct", "resource", "traceback",
    "zipfile", "cloudpickle", "sitecustomize", "usercustomize",
)  # fmt: skip
COMMANDS = {
    "sql": ("sql", "LOGS", "select count(*) as records from orders"),
    "export": ("export", "LOGS", "--output", "OUT/exported", "--engine", "spark"),
    "import": ("import", "OUT/lines", "--log-dir", "OUT/new", "--topic", "orders", "--partitions", "1", "--topic-id", "AAAAAAAAAAAAAAAAAAAAAQ"),
    "verify": ("verify", "LOGS/orders-0", "--engine", "spark"),
}  # fmt: skip
WITHOUT_SPARK = {
    "verify": ("verify", "LOGS/orders-0"),
    "export": ("export", "LOGS", "--output", "OUT/exported"),
    "sql": ("sql", "--engine", "duckdb", "LOGS", "select count(*) as records from orders"),
}


def in_a_process(folder, *words, **environment):
    """A process of its own, as the installed command starts it: the working directory is not on its path."""
    script = folder.parent.parent / "kafkalog"
    script.write_text(IN_A_PROCESS + "entry.main()\n")
    variables = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "PYTHONSAFEPATH")}
    path = os.pathsep.join([str(ROOT), environment.pop("PYTHONPATH", "")]).rstrip(os.pathsep)
    return subprocess.run(
        [sys.executable, str(script), *map(str, words)], capture_output=True, text=True, cwd=folder, check=False,
        env={**variables, "PYTHONPATH": path, **environment},
    )  # fmt: skip


@pytest.fixture
def here(tmp_path):
    """A log directory with what another user may plant in it and beside it; each would leave a file `ran`."""
    logs = tmp_path / "broker/logs"
    (logs / "orders-0").mkdir(parents=True)
    (logs / "orders-0" / f"{0:020d}.log").write_bytes(batch_v2([R(0, BASE_TIME_MS, b"k", b"v")]))
    ran = tmp_path / "ran"
    for name in MODULES:
        (logs / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write({name!r})\nraise SystemExit(7)\n")
    (tmp_path / "broker/jars").mkdir()
    (tmp_path / "broker/bin").mkdir()
    submit = tmp_path / "broker/bin/spark-submit"
    submit.write_text(f"#!/bin/sh\necho spark >> {ran}\nexit 1\n")
    submit.chmod(0o755)
    out = tmp_path / "out"
    (out / "lines").mkdir(parents=True)
    (out / "lines/a.json").write_text('{"value":"x"}\n')
    (out / "new").mkdir()
    (out / "new/meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    return logs


@pytest.mark.parametrize("command", WITHOUT_SPARK)
def test_no_command_runs_anything_of_the_working_directory(here, command, evidence):
    check(here, WITHOUT_SPARK[command])
    evidence("R40", 1, len(COMMANDS) + len(WITHOUT_SPARK))


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.full
@pytest.mark.parametrize("command", COMMANDS)
def test_spark_runs_nothing_of_the_working_directory(here, command, evidence):
    pytest.importorskip("pyspark", reason="the extra `spark` is not installed: nothing of Spark is tested")
    check(here, (*COMMANDS[command], "--master", "local[1]"))
    evidence("R40", 1, len(COMMANDS) + len(WITHOUT_SPARK))


def check(here, command):
    out, before = here.parent.parent / "out", sorted(here.iterdir())
    words = [word.replace("LOGS", str(here)).replace("OUT", str(out)) for word in command]
    done = in_a_process(here, *words)
    assert (here.parent.parent / "ran").exists() is False, (here.parent.parent / "ran").read_text()
    assert done.returncode in (0, 3), done.stdout + done.stderr  # 3: there is no partition.metadata
    assert "Traceback" not in done.stderr
    added = {path.name for path in here.iterdir()} - {path.name for path in before}
    assert added <= {".lock"}  # of a writer, in its log directory
