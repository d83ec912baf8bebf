"""The partitions of a commit built by several processes: the same files, and nothing is left where one fails or is killed."""

import hashlib
import os
import select
import signal
import subprocess
import sys
import time

import pytest
from pyarrow import feather

from kafkalog_cli.disk.lock import LockPolicy
from kafkalog_cli.disk.posix_lock import lock_owner
from kafkalog_cli.log.settings.source import SettingsSource
from kafkalog_cli.ops import map_each
from kafkalog_cli.ops.change.append.arrow import ArrowReader
from kafkalog_cli.ops.move.importing import job
from kafkalog_cli.ops.move.importing.job import BuildTask
from kafkalog_cli.ops.move.importing.scattering import Scatter, Staging
from kafkalog_cli.ops.move.importing.sources import ImportRequest
from tests.spark.exporting import pa
from tests.spark.importing import NOW_MS, new_log_dir, seen
from tests.spark.test_export_command import ROOT
from tests.support.product import BadInput, NotChanged, RealFilesystem

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere one process builds them")


@pytest.fixture(autouse=True)
def several(monkeypatch):
    monkeypatch.setattr(map_each, "LEAST_BYTES", 0)
    monkeypatch.setattr(map_each, "_cores", lambda: 3)


def sorted_out(log_dir, partitions=5, rows=200, wrong=None):
    """What tasks sorted out; of the partition `wrong` offsets come twice."""
    found = []
    for number in range(partitions):
        offsets = [0] * rows if number == wrong else list(range(rows))
        columns = {"value": [b"%d-%d" % (number, at) for at in range(rows)], "offset": offsets}
        part = pa.RecordBatch.from_pydict({**columns, "partition": pa.array([number] * rows, pa.int32())})
        scatter = Scatter(ImportRequest("t"), number, f"task {number}", keeps_offsets=True, is_column_first=True)
        records = ArrowReader(NOW_MS, with_origin=True).records([part])
        found += scatter.write(Staging(str(log_dir), "run"), records, [])
    return found


def commit(log_dir, parts):
    fs = RealFilesystem()
    source = SettingsSource(fs, {}, {}, metadata_path=None, log_dirs=[str(log_dir)])
    request = ImportRequest("t", codec="lz4", prove=True)
    return job.Import(fs, str(log_dir), request, source, NOW_MS, LockPolicy(), run="run").commit(
        parts, keep_offsets=True
    )


def digests(log_dir):
    files = (path for path in sorted(log_dir.glob("t-*/*")) if path.is_file())
    return {str(path.relative_to(log_dir)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def children():
    """The processes that this one has begun; Spark's Java may be one."""
    found = []
    for task in os.listdir("/proc/self/task"):  # noqa: PTH208
        with open(f"/proc/self/task/{task}/children") as file:  # noqa: PTH123
            found += map(int, file.read().split())
    return set(found)


def test_import_in_several_processes_makes_the_files_of_one_process(tmp_path, monkeypatch):
    """Bit for bit those that one process makes, in the same order."""
    made, pids = {}, []
    for name, least in (("several", 0), ("one", 1 << 60)):
        monkeypatch.setattr(map_each, "LEAST_BYTES", least)
        new = new_log_dir(tmp_path / name)
        result = commit(new, sorted_out(new))
        made[name] = digests(new), [one._replace(staged="", inode=0) for one in result.done]
        pids.append(lock_owner(str(new)))
    assert made["several"] == made["one"]
    assert len(made["one"][0]) > 15
    assert pids == [None, None]


def test_a_failed_import_process_ends_the_others_and_leaves_nothing(tmp_path, monkeypatch):
    """At once, and nothing is left."""
    new = new_log_dir(tmp_path / "new")
    parts = sorted_out(new, partitions=3, wrong=1)
    build = BuildTask.__call__

    def slow(self, one, advance):
        if one.partition != 1:
            time.sleep(600)
        return build(self, one, advance)

    monkeypatch.setattr(BuildTask, "__call__", slow)
    before = children()
    begun = time.monotonic()
    with pytest.raises(BadInput, match=r"t-1: .*the log already ends at 1"):
        commit(new, parts)
    assert time.monotonic() - begun < 300
    assert seen(new) == []
    assert children() <= before


def test_a_killed_import_process_is_reported_and_leaves_nothing(tmp_path, monkeypatch):
    new = new_log_dir(tmp_path / "new")
    parts = sorted_out(new)
    monkeypatch.setattr(BuildTask, "__call__", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(NotChanged, match="a process of the import was killed: is there enough memory"):
        commit(new, parts)
    assert seen(new) == []


def test_import_processes_end_when_their_parent_is_killed(tmp_path):
    """Killed, it leaves no process that builds on."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        new = new_log_dir(tmp_path / "new")
        parts = sorted_out(new)

        def endless(*_):
            os.write(writing, b"%d\n" % os.getpid())
            time.sleep(1200)

        BuildTask.__call__ = endless
        try:
            commit(new, parts)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as lines:
        pids = [int(lines.readline()) for _ in range(3)]
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert len(set(pids)) == 3
        ready, _, _ = select.select([lines], [], [], 300)  # it ends when the last of them has ended
        assert ready, f"{pids} are there still"
        assert lines.read() == ""


_SLOW_IMPORT = """
import os, sys, time
from kafkalog_cli.cli.app import run
from kafkalog_cli.ops import map_each
from kafkalog_cli.ops.move.importing import job as imports
map_each.LEAST_BYTES, map_each._cores = 0, lambda: 2
imports.BuildTask.__call__ = lambda _, job, __: (os.write(1, b"builds\\n"), time.sleep(600 * job.partition))
sys.exit(run(sys.argv[1:]))
"""


def test_an_interrupt_of_import_ends_its_processes(tmp_path):
    """Ctrl-C reaches all processes, also one that waits: the command ends with 130, and none prints a traceback."""
    for number in range(2):
        table = pa.table({"value": [b"v"]}).replace_schema_metadata({"kafkalog.partition": str(number)})
        feather.write_feather(table, tmp_path / f"{number}.arrow")
    new = new_log_dir(tmp_path / "new")
    argv = [sys.executable, "-c", _SLOW_IMPORT, "import", str(tmp_path), "--topic", "t", "--log-dir", str(new)]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        assert [process.stdout.readline() for _ in range(2)] == ["builds\n"] * 2
        time.sleep(0.5)  # the first ends at once, and waits
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    assert (process.returncode, errors, seen(new)) == (130, "", [])
