"""A broker that runs is a warning to readers in machine output, and an error to writers (others: verify.md)."""

import io
import json
import shutil
import subprocess
import sys

import pytest

from tests.support.product import Environment, run

HOLD = (
    "import fcntl, sys; f = open(sys.argv[1], 'a+'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"
)


def messages(*argv):
    stderr = io.BytesIO()
    run([*map(str, argv), "--format", "json"], Environment(stdout=io.BytesIO(), stderr=stderr))
    found = map(json.loads, stderr.getvalue().decode().splitlines())
    return [(one["schema"], one["type"], one["kind"]) for one in found if one["type"] != "progress"]


@pytest.fixture
def disk(corpus, tmp_path):
    shutil.copytree(corpus / "crash-asis" / "before", tmp_path / "disk")
    return tmp_path / "disk"


@pytest.fixture
def held(disk):
    """A log directory that another process has locked, as a broker does."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(disk / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        yield disk
        process.stdin.close()


@pytest.mark.parametrize(
    "argv",
    [
        ["verify", "{partition}"],
        ["ls", "{disk}"],
        ["read", "{partition}"],
        ["dump-log", "{partition}"],
        ["dump-index", "{partition}"],
        ["lookup-offset", "{partition}", "3"],
        ["lookup-time", "{partition}", "--latest"],
    ],
)
def test_a_broker_that_runs_is_a_warning(held, argv):
    words = [word.format(disk=held, partition=held / "crash-asis-0") for word in argv]
    assert ("kafkalog.warning/1", "warning", "locked") in messages(*words)


def test_writers_that_a_broker_keeps_out_end_with_an_error(held):
    """What ends the run is no warning."""
    (found,) = messages("roll", held / "crash-asis-0", "--force")
    assert found == ("kafkalog.error/1", "error", "Locked")
