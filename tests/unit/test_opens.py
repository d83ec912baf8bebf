"""Files that a command opens: each is read once where that is enough, and a log at most three times."""

import io
import shutil
from collections import Counter
from pathlib import Path

import pytest

from kafkalog_cli.change import draft
from kafkalog_cli.cli.app import run
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.disk.fs import DiskFile, RealFilesystem
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import ExitCode
from tests.support.commands import kafkalog
from tests.support.logs import R, batch_v2, write_segment

EXAMPLE = Path(__file__).parents[2] / "docs" / "example"
PARTITION = "mixed-0"
COMPACTED = ("--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0")
MOST_LOG_OPENS = 3
MOST_OPENS = {
    # command line: the most files that it opens for one partition of one segment, after an unclean and a clean stop
    ("recover",): (10, 10),
    ("recover", "--dry-run"): (10, 10),
    ("compact", *COMPACTED): (9, 7),
    ("verify",): (12, 13),
    ("verify", "--level", "deep"): (12, 13),
    ("verify", "--level", "quick"): (8, 9),
    ("read",): (6, 7),
    ("read", "--isolation", "read_committed"): (6, 7),
    ("dump-log",): (1, 1),
    ("dump-log", "--print-data-log"): (1, 1),
}


def opened_by(monkeypatch, argv):
    """The names of the files that a command opens to read, with their counts. Files that are not there do not count."""
    found = Counter()
    open_read = RealFilesystem.open_read

    def counted(fs, path):
        file = open_read(fs, path)
        found[path.rpartition("/")[2]] += 1
        return file

    monkeypatch.setattr(RealFilesystem, "open_read", counted)
    code = run(argv, Environment(stdout=io.BytesIO(), stderr=io.BytesIO(), stdin=io.BytesIO(), terminal=None))
    assert code == ExitCode.OK
    return found


def command_line(folder, verb, *more):
    path = folder / PARTITION
    if verb == "dump-log":
        return [verb, "--files", str(path / "00000000000000000000.log"), *more]
    return [verb, str(path), *more, *(() if verb == "read" else ("--jobs", "1"))]


def example(tmp_path, *, is_clean):
    folder = shutil.copytree(EXAMPLE, tmp_path / "data")
    if is_clean:
        (folder / FileKind.CLEAN_SHUTDOWN.value).write_text('{"version":0,"brokerEpoch":-1}')
    return folder


@pytest.mark.parametrize("is_clean", [False, True], ids=["unclean", "clean"])
@pytest.mark.parametrize("arguments", MOST_OPENS, ids=" ".join)
def test_a_command_opens_few_files(monkeypatch, tmp_path, arguments, is_clean):
    found = opened_by(monkeypatch, command_line(example(tmp_path, is_clean=is_clean), *arguments))
    assert found.total() <= MOST_OPENS[arguments][is_clean], found
    assert found["00000000000000000000.log"] in range(1, MOST_LOG_OPENS + 1), found


@pytest.mark.parametrize("arguments", [("recover",), ("compact", *COMPACTED)], ids=" ".join)
def test_a_log_too_large_to_be_remembered_is_opened_at_most_three_times(monkeypatch, tmp_path, arguments):
    monkeypatch.setattr(draft, "READ_ONCE_BYTES", 0)
    found = opened_by(monkeypatch, command_line(example(tmp_path, is_clean=False), *arguments))
    assert found["00000000000000000000.log"] in range(1, MOST_LOG_OPENS + 1), found


def bytes_read(monkeypatch, name):
    """A list to which each reading of a file adds the bytes that it asks for."""
    read = []
    read_into = DiskFile.read_into

    def counted(file, position, buffer):
        if file.path.endswith(name):
            read.append(len(buffer))
        return read_into(file, position, buffer)

    monkeypatch.setattr(DiskFile, "read_into", counted)
    return read


@pytest.mark.parametrize("verb", ["verify", "recover"])
def test_a_log_without_producers_is_read_once(monkeypatch, tmp_path, verb):
    """`verify` needs the format of the last batch, for which it read the log again; `recover` looked for producers."""
    monkeypatch.setattr(draft, "READ_ONCE_BYTES", 0)
    folder = tmp_path / "t-0"
    folder.mkdir()
    records = [R(offset, 1_795_000_000_000 + offset, None, bytes(10_000)) for offset in range(400)]
    write_segment(folder, 0, [(batch_v2([record], epoch=0), record.offset, record.timestamp) for record in records])
    log = folder / f"{0:020}.log"
    size = log.stat().st_size
    if verb == "recover":
        log.write_bytes(log.read_bytes() + bytes(100))
        (folder / FileKind.LEADER_EPOCH_CHECKPOINT.value).write_text("0\n1\n0 0\n")
    read = bytes_read(monkeypatch, log.name)
    assert kafkalog(verb, folder)[0] in (ExitCode.OK, ExitCode.WARNINGS)
    assert size <= sum(read) < 1.5 * size


def test_recover_reads_a_log_three_times_where_all_that_is_made_of_it_is_missing(monkeypatch, tmp_path):
    """Once to check it, once for its indexes and leader epochs, and once to check what is planned."""
    monkeypatch.setattr(draft, "READ_ONCE_BYTES", 0)
    folder = tmp_path / "t-0"
    folder.mkdir()
    for base in (0, 100, 200):
        batches = [batch_v2([R(base + number, 0, None, bytes(10_000))], epoch=base) for number in range(100)]
        (folder / f"{base:020}.log").write_bytes(b"".join(batches))
    log = folder / f"{100:020}.log"
    read = bytes_read(monkeypatch, log.name)
    code, out, err = kafkalog("recover", folder)
    assert code == ExitCode.OK, out + err
    assert 2 * log.stat().st_size < sum(read) < 3.5 * log.stat().st_size
    epochs = folder / FileKind.LEADER_EPOCH_CHECKPOINT.value
    assert epochs.read_text() == "0\n3\n0 0\n100 100\n200 200\n"
