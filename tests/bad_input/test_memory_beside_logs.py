"""What is done beside a log with files that are too large for some commands, and with very large batches."""

from __future__ import annotations

import sys

import pytest

from kafkalog_cli.cli.app import run
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.limits import MEBIBYTE, MOST_INDEX_BYTES
from kafkalog_cli.format.producer_snapshot import ProducerEntry, decode, encode
from kafkalog_cli.ops.checks import log_questions
from kafkalog_cli.ops.checks.file_report import Verdict
from kafkalog_cli.ops.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.checks.index_reports import PartitionReports
from kafkalog_cli.ops.checks.segment_reports import ReadContext
from tests.bad_input.large_files import ENTRIES, FIRST, SECOND, WRITERS, partition, snapshot, sparse
from tests.bad_input.makers import START_MS, batch, record
from tests.bad_input.peaks import BOMBS, peaks

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is in KiB on Linux"),
    pytest.mark.full,
]

MOST_MEBIBYTES = 300


@pytest.fixture(autouse=True)
def counted(evidence):
    evidence("R9", 1, BOMBS)


def test_an_index_that_is_too_large_is_named_with_the_command_that_rebuilds_it(tmp_path, capfd):
    path = partition(tmp_path / "logs" / "t-0")
    sparse(path / f"{FIRST}.index", MOST_INDEX_BYTES + 8, end=ENTRIES[".index"])
    argv = ["retain", *WRITERS["retain"], str(path)]
    environment = Environment(kernels=KernelChoice(forced=False))
    assert run(argv, environment) == KafkalogError.exit_code
    errors = capfd.readouterr().err
    assert f"read up to {MOST_INDEX_BYTES} bytes; recover --indexes-only rebuilds it from the log" in errors
    assert run(["recover", "--indexes-only", str(path)], environment) == 0
    assert run(argv, environment) in (0, 3)


@pytest.mark.parametrize("tail", [b"", b"\1"], ids=["zeros", "not only zeros"])
@pytest.mark.parametrize(("suffix", "command"), [(".index", "verify"), (".timeindex", "dump-index")])
def test_a_large_preallocated_index_is_looked_at(suffix, command, tail, tmp_path):
    """A broker preallocates the indexes of the last segment with segment.index.bytes, which may be larger."""
    path = partition(tmp_path / "logs" / "t-0")
    size_bytes = 24 * (2 * MOST_INDEX_BYTES // 24)
    sparse(path / f"{SECOND}{suffix}", size_bytes, end=tail)
    out = tmp_path / "out"
    ((code, mebibytes),) = peaks([(command, str(path))])
    with out.open("wb") as stdout:
        run([command, "--format", "json", str(path)], Environment(stdout=stdout, kernels=KernelChoice(forced=False)))
    is_told = b"too many to check" in out.read_bytes()
    assert code in (0, 3)
    assert is_told == bool(tail)
    assert mebibytes < MOST_MEBIBYTES, mebibytes


def test_recover_keeps_a_snapshot_that_is_too_large_to_be_compared(tmp_path, capfd):
    """It has producers of which the log has no batch: they are not to be forgotten."""
    path = partition(tmp_path / "logs" / "t-0")
    data = snapshot(400_000)
    (path / f"{SECOND}.snapshot").write_bytes(data)
    environment = Environment(kernels=KernelChoice(forced=False))
    assert run(["recover", str(path)], environment) == 0
    assert (path / f"{SECOND}.snapshot").read_bytes() == data
    capfd.readouterr()
    assert run(["verify", str(path)], environment) == 0
    assert "400000 producers are too many to be compared with the log; the checksum is right" in capfd.readouterr().out
    (path / f"{SECOND}.snapshot").write_bytes(data[:-1] + b"\0")
    assert run(["verify", str(path)], environment) == 4
    assert "Snapshot is corrupt" in capfd.readouterr().out
    assert run(["recover", str(path)], environment) == 0
    assert run(["verify", str(path)], environment) == 0


def test_the_newest_of_too_many_entries_are_compared_with_the_log(tmp_path, monkeypatch):
    """An answer takes some 900 bytes. Of a file that is not compared no entry is called wrong or right."""
    path = tmp_path / "t-0"
    path.mkdir()
    (path / f"{FIRST}.log").write_bytes(
        b"".join(batch(at, [record(0, None, None)], producer=(at, 0, 0)) for at in range(40))
    )
    for end in (20, 40):
        entries = [ProducerEntry(at, 0, 0, at, 0, START_MS, -1, -1) for at in range(end)]
        (path / f"{end:020}.snapshot").write_bytes(encode(entries))
    found = {}
    for most in (39, 40, 59, 60):
        monkeypatch.setattr(log_questions, "MOST_QUESTIONS", most)
        reports = PartitionReports(ReadContext(RealFilesystem()), str(path))
        snapshots = [one for one in reports if one.kind is FileKind.PRODUCER_SNAPSHOT]
        found[most] = [(sum(one.counts.values()), [note.kind for note in one.notes]) for one in snapshots]
        assert all(set(one.counts) <= {Verdict.RIGHT} for one in snapshots)
    nothing = (0, [FindingKind.ENTRIES_NOT_CHECKED])
    assert found[39] == [(20, []), nothing]
    assert found[40] == found[59] == [nothing, (40, [])]
    assert found[60] == [(20, []), (40, [])]


def test_a_large_snapshot_stays_as_it_is_in_other_commands(tmp_path):
    """Of many entries, through pieces: what is written after a truncation has the same entries in the broker's order."""
    path = partition(tmp_path / "logs" / "t-0")
    data = snapshot(60_000)
    (path / f"{SECOND}.snapshot").write_bytes(data)
    environment = Environment(kernels=KernelChoice(forced=False))
    assert run(["truncate", "--single-replica", "--to", "30", str(path)], environment) == 0
    entries, faults = decode((path / f"{30:020}.snapshot").read_bytes())
    assert not faults
    assert list(entries) == [ProducerEntry(at, 0, 0, 5, 0, 1 << 60, -1, -1) for at in range(60_000)]


def test_replicas_with_different_large_batches_that_are_not_compressed(tmp_path):
    for name, first in (("a", b"x"), ("b", b"y")):
        (tmp_path / name / "t-0").mkdir(parents=True)
        log = batch(0, [record(0, b"k", first + bytes(110 * MEBIBYTE))])
        (tmp_path / name / "t-0" / f"{FIRST}.log").write_bytes(log)
    ((code, mebibytes),) = peaks([("verify", str(tmp_path / "a/t-0"), "--against", str(tmp_path / "b/t-0"))])
    assert code == 4
    assert mebibytes < MOST_MEBIBYTES, mebibytes
