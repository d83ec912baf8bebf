"""`--engine spark` of verify and stats: prints what the local engine prints, on real logs."""

import gzip
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.clusters import spark_environment
from tests.support import commands

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

NOW = "2026-11-17T00:00:00Z"
RUN_ID = re.compile(r"\d{8}T\d{6}\.\d{3}Z-(\w+)-[0-9a-f]{4}")
DURATION = re.compile(r"(?m), (\d+ ms|\d+(\.\d)? s|\d+:\d\d min)$")
RUN_ID_BYTES = re.compile(RUN_ID.pattern.encode())
EXAMPLE = Path(__file__).parents[2] / "docs" / "example"
SPARK = ("--engine", "spark", "--master", "local[2]")


def kafkalog(*argv, **environment):
    """(exit code, stdout, stderr), without the random part of the names of runs, durations and progress."""
    code, *texts = commands.kafkalog(*argv, **environment)
    out, errors = (RUN_ID.sub(r"RUN-\1", text) for text in texts)
    return (
        code,
        DURATION.sub("", out),
        "".join(line for line in errors.splitlines(True) if '"kafkalog.progress/1"' not in line),
    )


def tree(root):
    """Each file's bytes by its path; manifests have times in them, lines of checkpoints come as they are done."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = RUN_ID.sub(r"RUN-\1", str(path.relative_to(root)))
        if path.is_file() and path.name != "manifest.json":
            data = RUN_ID_BYTES.sub(b"RUN", path.read_bytes())
            found[name] = sorted(data.splitlines()) if path.name.endswith("-offset-checkpoint") else data
        elif path.is_dir():
            found[name] = None
    return found


def with_both(folder, cases, *argv):
    """What either engine says of copies that lie at the same place, and what it leaves there."""
    seen = []
    for engine in ((), SPARK):
        if folder.exists():
            shutil.rmtree(folder)
        for case, source in cases.items():
            shutil.copytree(source, folder / case, symlinks=True)
        said = kafkalog(*argv, *sorted(folder.iterdir()), "--now", NOW, *engine)
        seen.append((said, tree(folder)))
    return seen


def logs_of(corpus, pattern):
    return {path.parent.name: path for path in sorted(corpus.glob(pattern))}


@pytest.mark.usefixtures("spark")
@pytest.mark.full
@pytest.mark.parametrize(("form", "level"), [("text", "quick"), ("json", "deep")])
def test_verify_on_spark_prints_what_it_prints_in_threads(corpus, tmp_path, form, level):
    cases = logs_of(corpus, "*/data") | logs_of(corpus, "crash-*/before")
    local, spark = with_both(tmp_path / "logs", cases, "verify", "--level", level, "--format", form)
    assert spark[0] == local[0]
    assert spark[1] == local[1]
    assert len(local[0][1].splitlines()) > 150
    assert local[0][0] == 4


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("form", ["text", "json"])
def test_stats_on_spark_prints_what_it_prints_in_threads(corpus, tmp_path, form):
    files = [EXAMPLE / "mixed-0" / f"{0:020d}.log", tmp_path / "copy.log.gz"]
    files[1].write_bytes(gzip.compress((EXAMPLE / "mixed-1" / f"{0:020d}.log").read_bytes()))
    argv = ["stats", "--partitions", "--format", form, EXAMPLE / "levels-0", corpus / "crash-torn" / "before", *files]
    local, spark = kafkalog(*argv), kafkalog(*argv, *SPARK)
    assert spark == local
    assert local[0] == 3
    assert "copy.log.gz" in local[1]


BLOCK = """
import os, sys
if any("pyspark.daemon" in word for word in sys.orig_argv):
    class Blocked:
        def find_spec(self, name, path=None, target=None):
            if name.split(".")[1:2] in (["cli"], ["output"]) and name.startswith("kafkalog_cli."):
                raise ImportError(f"a task imports {name}")
    sys.meta_path.insert(0, Blocked())
    open(os.environ["BLOCKED"], "a").close()
"""


@pytest.fixture
def blocking(spark, tmp_path):
    """The environment of a command whose tasks can import neither the command line nor the output."""
    del spark  # where it is skipped, so is this
    (tmp_path / "block").mkdir()
    (tmp_path / "block" / "sitecustomize.py").write_text(BLOCK)
    environment = spark_environment()
    paths = [str(tmp_path / "block"), *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    return environment | {"PYTHONPATH": os.pathsep.join(paths), "BLOCKED": str(tmp_path / "blocked")}


@pytest.mark.full
def test_tasks_need_neither_the_command_line_nor_the_output(corpus, tmp_path, blocking):
    """Workers get a function and a partition: the planning process prints."""
    said, source = [], corpus / "crash-torn" / "before"
    for engine in ((), SPARK):
        folder = tmp_path / "logs"
        if folder.exists():
            shutil.rmtree(folder)
        shutil.copytree(source, folder)
        argv = [sys.executable, "-m", "kafkalog_cli", "verify", str(folder), "--now", NOW, *engine]
        done = subprocess.run(argv, env=blocking, capture_output=True, text=True, check=False)
        printed = DURATION.sub("", RUN_ID.sub(r"RUN-\1", done.stdout))
        said.append((done.returncode, printed, tree(folder)))
    assert (tmp_path / "blocked").exists()
    assert said[1] == said[0]
    assert said[0][0] in {0, 3}


@pytest.mark.full
def test_tasks_of_stats_export_and_import_need_neither(tmp_path, blocking):
    """Only NDJSON files need the output: their lines are those of `read`."""
    shutil.copytree(EXAMPLE, tmp_path / "logs")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    commands = {
        "stats": ("stats", tmp_path / "logs", "--format", "json"),
        "export": ("export", tmp_path / "logs", "--output", tmp_path / "files", "--topic", "mixed", "--report", "json"),
        "import": ("import", tmp_path / "files", "--log-dir", tmp_path / "new", "--prove", "--format", "json"),
    }
    for name, command in commands.items():
        engine = SPARK if name != "import" else SPARK[2:]
        argv = [sys.executable, "-m", "kafkalog_cli", *map(str, command), *engine]
        done = subprocess.run(argv, env=blocking, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (name, done.stderr)
        assert '"type":"summary"' in done.stdout.replace(" ", ""), name
        assert (tmp_path / "blocked").exists(), name
        (tmp_path / "blocked").unlink()
    assert sorted(path.name for path in (tmp_path / "new").glob("mixed-*")) == ["mixed-0", "mixed-1"]
