"""What is done beside a log with files that are too large for some commands, and with very large batches."""

from __future__ import annotations

import sys

import pytest

from tests.damage.large_files import ENTRIES, FIRST, SECOND, WRITERS, partition, producers, snapshot, sparse
from tests.damage.makers import MEBIBYTE, START_MS, batch, record
from tests.damage.peaks import BOMBS, peaks
from tests.support.commands import json_of, kafkalog
from tests.support.product import ExitCode, lower_limit

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is in KiB on Linux"),
    pytest.mark.exhaustive,
]

MOST_MEBIBYTES = 300
MOST_INDEX_BYTES = 32 * MEBIBYTE


@pytest.fixture(autouse=True)
def counted(evidence):
    evidence("R9", 1, BOMBS)


def test_an_index_that_is_too_large_is_named_with_the_command_that_rebuilds_it(tmp_path):
    path = partition(tmp_path / "logs" / "t-0")
    sparse(path / f"{FIRST}.index", MOST_INDEX_BYTES + 8, end=ENTRIES[".index"])
    argv = ["retain", *WRITERS["retain"], path]
    code, _, errors = kafkalog(*argv)
    assert code == ExitCode.FAILURE
    assert f"read up to {MOST_INDEX_BYTES} bytes; recover --indexes-only rebuilds it from the log" in errors
    assert kafkalog("recover", "--indexes-only", path).code == 0
    assert kafkalog(*argv).code in (0, 3)


@pytest.mark.parametrize("tail", [b"", b"\1"], ids=["zeros", "not only zeros"])
@pytest.mark.parametrize(("suffix", "command"), [(".index", "verify"), (".timeindex", "dump-index")])
def test_a_large_preallocated_index_is_looked_at(suffix, command, tail, tmp_path):
    """A broker preallocates the indexes of the last segment with segment.index.bytes, which may be larger."""
    path = partition(tmp_path / "logs" / "t-0")
    size_bytes = 24 * (2 * MOST_INDEX_BYTES // 24)
    sparse(path / f"{SECOND}{suffix}", size_bytes, end=tail)
    ((code, mebibytes),) = peaks([(command, str(path))])
    is_told = "too many to check" in kafkalog(command, "--format", "json", path).out
    assert code in (0, 3)
    assert is_told == bool(tail)
    assert mebibytes < MOST_MEBIBYTES, mebibytes


def test_recover_keeps_a_snapshot_that_is_too_large_to_be_compared(tmp_path):
    """It has producers of which the log has no batch: they are not to be forgotten."""
    path = partition(tmp_path / "logs" / "t-0")
    data = snapshot(400_000)
    (path / f"{SECOND}.snapshot").write_bytes(data)
    assert kafkalog("recover", path).code == 0
    assert (path / f"{SECOND}.snapshot").read_bytes() == data
    code, out, _ = kafkalog("verify", path)
    assert code == 0
    assert "400000 producers are too many to be compared with the log; the checksum is right" in out
    (path / f"{SECOND}.snapshot").write_bytes(data[:-1] + b"\0")
    code, out, _ = kafkalog("verify", path)
    assert (code, "Snapshot is corrupt" in out) == (4, True)
    assert kafkalog("recover", path).code == 0
    assert kafkalog("verify", path).code == 0


def test_the_newest_of_too_many_entries_are_compared_with_the_log(tmp_path, monkeypatch):
    """An answer takes some 900 bytes. Of a file that is not compared no entry is called wrong or right."""
    path = tmp_path / "t-0"
    path.mkdir()
    log = b"".join(batch(at, [record(0, None, None)], producer=(at, 0, 0)) for at in range(40))
    (path / f"{FIRST}.log").write_bytes(log)
    for end in (20, 40):
        ids = list(range(end))
        columns = {"producer_id": ids, "last_offset": ids, "timestamp": START_MS, "coordinator_epoch": -1}
        (path / f"{end:020}.snapshot").write_bytes(producers(end, {**columns, "current_txn_first_offset": -1}))
    not_checked = {}
    for most in (60, 59, 40, 39):
        lower_limit(monkeypatch, "entries of snapshots compared with a log", most)
        _, lines, _ = json_of("verify", path)
        found = [line for line in lines if line.get("path", "").endswith(".snapshot")]
        not_checked[most] = [(line["kind"], line["path"][-11:-9]) for line in found]
    assert not_checked[60] == []
    assert not_checked[59] == not_checked[40] == [("entries-not-checked", "20")]
    assert not_checked[39] == [("entries-not-checked", "40")]


def test_a_large_snapshot_stays_as_it_is_in_other_commands(tmp_path):
    """Of many entries, through pieces: what is written after a truncation has the same entries in the broker's order."""
    path = partition(tmp_path / "logs" / "t-0")
    data = snapshot(60_000)
    (path / f"{SECOND}.snapshot").write_bytes(data)
    assert kafkalog("truncate", "--single-replica", "--to", "30", path).code == 0
    assert (path / f"{30:020}.snapshot").read_bytes() == data


def test_replicas_with_different_large_batches_that_are_not_compressed(tmp_path):
    for name, first in (("a", b"x"), ("b", b"y")):
        (tmp_path / name / "t-0").mkdir(parents=True)
        log = batch(0, [record(0, b"k", first + bytes(110 * MEBIBYTE))])
        (tmp_path / name / "t-0" / f"{FIRST}.log").write_bytes(log)
    ((code, mebibytes),) = peaks([("verify", str(tmp_path / "a/t-0"), "--against", str(tmp_path / "b/t-0"))])
    assert code == 4
    assert mebibytes < MOST_MEBIBYTES, mebibytes
