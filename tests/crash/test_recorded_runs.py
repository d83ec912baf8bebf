"""Runs that an earlier kafkalog (commit 0e2dc2fa) recorded can be undone.

tests/fixtures/recorded_runs.tar.xz has a log directory before and after each of these runs.
"""

import json
import os
import shutil

import pytest

from tests.support.archives import FIXTURES, unpack
from tests.support.commands import kafkalog

RUNS = (
    *("append", "compact", "delete-records", "recover", "recover-swap", "retain", "retain-keep", "roll", "truncate"),
)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded")
    unpack(FIXTURES / "recorded_runs.tar.xz", folder)
    return folder


@pytest.fixture
def place(recorded, tmp_path, request):
    """The log directory after the run, with the times that the record has: an archive has none of nanoseconds."""
    folder = tmp_path / "after"
    shutil.copytree(recorded / request.param / "after", folder)
    record = record_of(folder)
    document = json.loads(record.read_text())
    times = {folder / "t-0" / name: facts["mtime_ns"] for name, facts in document["after"]["files"].items()}
    for change in document["changes"]:
        if change.get("kept") is not None and change["kind"] != "cut":
            times[record.parent / change["kept"]] = document["before"]["files"][change["name"]]["mtime_ns"]
    for path, time_ns in times.items():
        os.utime(path, ns=(time_ns, time_ns))
    return recorded / request.param / "before", folder


def record_of(folder):
    [record] = (folder / "t-0" / ".kafkalog").glob("*/manifest.json")
    return record


def contents(folder):
    found = (path for path in folder.rglob("*") if path.is_file() and ".kafkalog" not in path.relative_to(folder).parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found if path.name != ".lock"}


@pytest.mark.parametrize("place", RUNS, indirect=True)
@pytest.mark.parametrize("is_whole", [True, False], ids=["done", "cut off before its end was written"])
def test_a_run_that_an_earlier_kafkalog_recorded_is_undone(place, is_whole):
    before, folder = place
    record = record_of(folder)
    document = json.loads(record.read_text())
    if not is_whole:
        state = "growing" if "append" in record.parent.name else "started"
        record.write_text(json.dumps({**document, "state": state, "after": None, "finished_ms": None}))
    assert contents(folder) != contents(before)
    done = kafkalog("undo", folder, record.parent.name)
    assert done.code == 0, done
    assert contents(folder) == contents(before)
    for name, facts in document["before"]["files"].items():
        assert (folder / "t-0" / name).stat().st_mtime_ns == facts["mtime_ns"], name
    assert (folder / "t-0").stat().st_mtime_ns == document["before"]["mtime_ns"]
    assert kafkalog("undo", folder, record.parent.name).code == 0
