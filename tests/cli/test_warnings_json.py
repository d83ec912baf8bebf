"""Warnings in machine output: each has the type of a warning, in every command that prints it."""

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


def test_replicas_and_the_marker_are_warnings(disk):
    (disk / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":7}')
    found = messages("truncate", disk / "crash-asis-0", "--to", "100", "--single-replica")
    assert [kind for _, type_, kind in found if type_ == "warning"] == [
        "unknown-replication",
        "marker-stays-away",
        "marker",
    ]
    assert {type_ for _, type_, _ in found} == {"warning"}


def test_files_that_are_left_out_are_a_warning(disk):
    found = messages("dump-index", disk / "crash-asis-0" / "00000000000000000000.log")
    assert found[0] == ("kafkalog.warning/1", "warning", "ignored")
    assert found[1] == ("kafkalog.error/1", "error", "NothingSelected")


def test_a_checkpoint_that_is_rebuilt_is_a_warning(disk):
    """`recover` ends with 0 there, before and after it does it."""
    (disk / "log-start-offset-checkpoint").write_bytes(b"0\n1\n crash-asis 0 5\n")
    for option, kind in ("--dry-run", "checkpoint-damaged"), ("--quiet", "checkpoint-rebuilt"):
        assert messages("recover", disk, option) == [("kafkalog.warning/1", "warning", kind)]


def test_a_stray_directory_that_is_left_out_is_a_warning(disk):
    name = "crash-asis-0." + "a" * 22 + "de097b2a8-stray"
    shutil.copytree(disk / "crash-asis-0", disk / name)
    assert messages("recover", disk, "--quiet") == [("kafkalog.warning/1", "warning", "stray-skipped")]
