"""Commands of a user without a name or a home directory, and where no file can be written: as in pods and timers."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.bare import kafkalog_command, nameless, read_only
from tests.support.logs import BASE_TIME_MS, R, batch_v2

ROOT = Path(__file__).parents[2]
READERS = {
    "ls": ("ls", "."),
    "verify": ("verify", ".", "--level", "deep"),
    "find": ("find", "big-0", "--key", "k3", "--count"),
    "read": ("read", "big-0", "--max-records", "1"),
    "stats": ("stats", "."),
    "dump-log": ("dump-log", "big-0", "--deep-iteration"),
    "lookup-time": ("lookup-time", "big-0", "2100-01-01"),
    "recover": ("recover", "big-0", "--dry-run"),
    "compact": ("compact", "big-0", "--dry-run", "--config", "cleanup.policy=compact", "--force"),
}
NEED_SPARK = {"sql": ("sql", ".", "select count(*) as n from big"), "verify": ("verify", ".", "--engine", "spark")}


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """A log directory with a log that is large enough for compiled kernels, which anybody may read and write."""
    root = tmp_path_factory.mktemp("logs", numbered=True)
    for folder in (*root.parents, root):
        if folder.stat().st_uid == os.getuid():
            folder.chmod(folder.stat().st_mode | 0o055)
    (root / "big-0").mkdir()
    batches = (
        batch_v2([R(base + at, BASE_TIME_MS, b"k%d" % (at % 10), b"value") for at in range(200)])
        for base in range(0, 80_000, 200)
    )
    (root / "big-0" / f"{0:020d}.log").write_bytes(b"".join(batches))
    (root / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    for path in (root, *root.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    return root


def entries(root):
    return sorted(path.relative_to(root) for path in root.rglob("*"))


def ran(words, logs):
    before = entries(logs)
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=logs, timeout=600)
    assert entries(logs) == before
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode != 2, done.stderr  # usage
    return done


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", READERS)
def test_a_reader_makes_nothing_in_the_log_directory_for_a_user_without_name_and_home(logs, monkeypatch, name):
    monkeypatch.chdir(ROOT)
    words = kafkalog_command(*READERS[name])
    usual = ran(words, logs)
    done = ran(nameless(*words), logs)
    assert (done.returncode, done.stdout.splitlines()[:1]) == (usual.returncode, usual.stdout.splitlines()[:1])
    assert "not" not in done.stderr.replace(usual.stderr, "")


@pytest.mark.exhaustive
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("name", NEED_SPARK)
def test_spark_works_for_a_user_without_name_and_home(logs, monkeypatch, name):
    pytest.importorskip("pyspark", reason="the extra `spark` is not installed: nothing of Spark is tested")
    monkeypatch.chdir(ROOT)
    done = ran(nameless(*kafkalog_command(*NEED_SPARK[name], "--master", "local[1]")), logs)
    assert (done.returncode, "80000" in done.stdout, done.stderr) == (3 if name == "verify" else 0, True, "")


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", READERS)
def test_a_reader_needs_no_writable_directory(logs, monkeypatch, name):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    words = kafkalog_command(*READERS[name])
    usual = ran(words, logs)
    done = ran(read_only("env", "-u", "TMPDIR", *words), logs)
    assert (done.returncode, done.stdout.splitlines()[:1]) == (usual.returncode, usual.stdout.splitlines()[:1])
    assert "temporary" not in done.stdout + done.stderr


def test_sql_without_a_writable_directory_says_what_to_set(logs, monkeypatch):
    pytest.importorskip("pyspark", reason="the extra `spark` is not installed: nothing of Spark is tested")
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    done = ran(read_only("env", "-u", "TMPDIR", *kafkalog_command(*NEED_SPARK["sql"])), logs)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no directory for temporary files is writable: set TMPDIR to one" in done.stderr


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_sql_works_where_only_tmpdir_is_writable(logs, monkeypatch, tmp_path):
    """As with an emptyDir in a pod whose root file system is read-only: Java itself knows /tmp only."""
    pytest.importorskip("pyspark", reason="the extra `spark` is not installed: nothing of Spark is tested")
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    place = tmp_path / "a place"
    place.mkdir()
    mounted = 'mount -t tmpfs none "$0" && exec env TMPDIR="$0" "$@"'
    words = kafkalog_command(*NEED_SPARK["sql"], "--master", "local[1]")
    done = ran(read_only("sh", "-c", mounted, str(place), *words), logs)
    assert (done.returncode, "80000" in done.stdout, done.stderr) == (0, True, "")
