"""Each command on a log directory of many partitions of which some have very large batches, and of many segments."""

from __future__ import annotations

import shutil
import struct
import sys
from pathlib import Path

import pytest

from tests.damage.makers import GZIP, MEBIBYTE, START_MS, batch, record
from tests.damage.peaks import COMMANDS, peaks

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is in KiB on Linux"),
    pytest.mark.exhaustive,
]

MOST_MEBIBYTES = 300
PARTITIONS, LARGE_PARTITIONS, SEGMENTS = 60, 4, 600
DELETES, EXPIRED = ("--config", "cleanup.policy=delete"), ("--config", "retention.ms=1")
COMPACTS = ("--config", "cleanup.policy=compact", "--force")
ALONE = ("--single-replica",)
ALL, FIRST = "", "t-0"
WRITERS = {
    "roll": (ALL, "--force"),
    "retain": (ALL, *DELETES, *EXPIRED),
    "retain --keep": (ALL, *DELETES, *EXPIRED),
    "retain --free-bytes": (ALL, *DELETES, "1TiB"),
    "truncate": (FIRST, *ALONE, "--to", "1"),
    "delete-records": (FIRST, *ALONE, "--before", "1"),
    "compact": (ALL, *COMPACTS),
    "recover": (ALL,),
}
READERS = (
    ("ls",),
    ("ls", "--segments", "--format", "json"),
    ("ls", "--topics"),
    ("ls", "--freeable", *DELETES),
    ("verify", "--level", "deep"),
    ("verify", "--report", "sarif=report"),
    ("verify", "--report", "junit=report"),
    ("lookup-time", "--latest", "--topic", "t"),
    ("lookup-time", "--max-timestamp", "--topic", "t"),
    ("lookup-time", "2020-09-13T12:26:40Z", "--topic", "t"),
    ("read", "--topic", "t"),
)


@pytest.fixture(autouse=True)
def counted(evidence):
    evidence("R9c", 1, COMMANDS)


def add_segment(path: Path, base_offset: int, log: bytes) -> None:
    name = path / f"{base_offset:020}"
    name.with_suffix(".log").write_bytes(log)
    name.with_suffix(".index").touch()
    name.with_suffix(".timeindex").write_bytes(struct.pack(">qi", START_MS + base_offset, 0))


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A log directory of many partitions, and another with a partition of many segments."""
    wide, deep = tmp_path_factory.mktemp("wide"), tmp_path_factory.mktemp("deep")
    large = [record(at, b"k%d" % at, b"a" * (55 * MEBIBYTE), ms=at) for at in range(2)]
    logs = [batch(0, [record(0, b"k", b"v")]), batch(0, large, codec=GZIP)]
    for number in range(PARTITIONS):
        (wide / f"t-{number}").mkdir()
        add_segment(wide / f"t-{number}", 0, logs[number < LARGE_PARTITIONS])
        add_segment(wide / f"t-{number}", 2, batch(2, [record(0, b"k", b"v")]))
    (deep / FIRST).mkdir()
    for at in range(SEGMENTS):
        add_segment(deep / FIRST, at, batch(at, [record(0, b"k%d" % (at % 9), b"v")], base_ms=START_MS + at))
    for log_dir in (wide, deep):
        (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":4}')
    return {"wide": wide, "deep": deep}


@pytest.mark.parametrize("place", ["wide", "deep"])
@pytest.mark.parametrize("command", READERS, ids=" ".join)
def test_readers_of_large_logs_stay_within_the_memory_limit(command, place, places, tmp_path):
    name, *options = [word.replace("=report", f"={tmp_path}/report") for word in command]
    ((code, mebibytes),) = peaks([(name, str(places[place]), *options)])
    assert code in (0, 3)
    assert mebibytes < MOST_MEBIBYTES, mebibytes


@pytest.mark.parametrize("place", ["wide", "deep"])
@pytest.mark.parametrize("name", WRITERS)
def test_writers_undo_and_purge_of_large_logs_stay_within_the_memory_limit(name, place, places, tmp_path):
    """Each command, then what undoes its run, or removes what it keeps."""
    log_dir = tmp_path / "logs"
    shutil.copytree(places[place], log_dir)
    if name == "recover":
        (log_dir / ".kafka_cleanshutdown").unlink()
    verb, *options = name.split()
    target, *more = WRITERS[name]
    if "--free-bytes" in options:
        more = [*more[:-1], "--free-bytes", more[-1], "--dry-run"]
        options = []
    runs = [peaks([(verb, *options, str(log_dir / target), *more)])]
    kept = {run.name for run in log_dir.glob("t-*/.kafkalog/*") if run.is_dir()}
    if kept and "--keep" not in options:
        runs.append(peaks([("undo", str(log_dir), max(kept))]))
    runs.append(peaks([("purge", str(log_dir), "--older-than", "0s")]))
    for ((code, mebibytes),) in runs:
        assert code in (0, 3, 13), runs
        assert mebibytes < MOST_MEBIBYTES, runs


def test_demo_stays_within_the_memory_limit(tmp_path):
    ((code, mebibytes),) = peaks([("demo", str(tmp_path / "logs"))])
    assert code == 0
    assert mebibytes < MOST_MEBIBYTES, mebibytes
