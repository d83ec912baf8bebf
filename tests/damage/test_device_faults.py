"""A disk that fails: unreadable ranges, refused files, files that shrink or grow while they are read."""

from __future__ import annotations

import errno
import random
import re

import pytest

from tests.damage.log_directory import FILES, FIRST_LOG, LAST_LOG, PARTITION, ROOT, SIDECARS, run_command
from tests.damage.makers import SmallLog, batch, log_seven, record, words
from tests.support.commands import kafkalog
from tests.support.faulty_fs import BytesFile, FaultyFilesystem, short_preads
from tests.support.product import ExitCode

PATH = "/t-0/00000000000000000000.log"
BLOCK = 4096


def many_batches(count: int) -> SmallLog:
    rng = random.Random(5)
    return SmallLog("many", tuple(batch(i, [record(0, b"key", words(rng, 90))]) for i in range(count)))


LOG = many_batches(100)


@pytest.fixture
def fs():
    """A disk with LOG; every fault that a test puts in must have struck by its end."""
    disk = FaultyFilesystem({PATH: LOG.data})
    yield disk
    assert disk.injections
    assert disk.unfired() == []


def dump(fs, *options):
    return run_command(["dump-log", *options, "--files", PATH], fs)


def positions(done):
    """Where the batches that were printed stand."""
    return [int(line.partition(" position: ")[2].split()[0]) for line in done.out.splitlines() if " position: " in line]


def touched(begin, end):
    """The batches that have no byte from `begin` to `end`: before, and behind."""
    pairs = [*zip(LOG.starts, LOG.starts[1:], strict=False)]
    return [start for start, stop in pairs if stop <= begin], [start for start, stop in pairs if start >= end]


@pytest.mark.parametrize(
    ("begin", "end"), [(0, BLOCK), (5 * BLOCK, 6 * BLOCK), (5 * BLOCK, 9 * BLOCK), (0, BLOCK * 10)]
)
@pytest.mark.parametrize("options", [(), ("--deep-iteration",)])
def test_an_unreadable_range_within_a_log_is_reported_and_the_rest_printed(fs, begin, end, options):
    fs.fail_read(PATH, begin, end)
    before, behind = touched(begin, end)
    done = dump(fs, *options)
    assert (done.code, positions(done)) == (ExitCode.FAILURE, before)
    assert f"at byte {begin}: cannot be read: Input/output error" in done.errors
    assert dump(fs, *options, "--strict").code == ExitCode.CORRUPTION
    done = dump(fs, *options, "--resync")
    assert (done.code, positions(done)) == (ExitCode.FAILURE, before + behind)
    assert f"at byte {LOG.starts[len(before)]}: skipped {behind[0] - LOG.starts[len(before)]} bytes" in done.errors


def test_an_unreadable_tail_is_tail_damage(fs):
    begin = len(LOG.data) // BLOCK * BLOCK
    fs.fail_read(PATH, begin, len(LOG.data))
    done = dump(fs, "--strict")
    assert (done.code, positions(done)) == (ExitCode.WARNINGS, touched(begin, 0)[0])


def test_a_read_fault_that_does_not_recur_is_not_reported(fs):
    fs.fail_read(PATH, 5 * BLOCK, 6 * BLOCK, times=1)
    done = dump(fs, "--strict")
    assert (done.code, done.errors, len(positions(done))) == (ExitCode.OK, "", 100)


def test_a_header_on_the_border_of_what_can_be_read(fs):
    start = LOG.starts[40]
    fs.fail_read(PATH, start + 10, start + 11)
    sector = start // 512 * 512
    before, behind = touched(sector, sector + 512)
    done = dump(fs, "--resync")
    assert (done.code, positions(done)) == (ExitCode.FAILURE, before + behind)


@pytest.mark.parametrize("error", [errno.EACCES, errno.EIO, errno.ELOOP, errno.ENXIO])
def test_a_file_that_cannot_be_opened_ends_no_run(fs, error):
    fs.files["/t-0/00000000000000000100.log"] = LOG.data
    fs.refuse_open(PATH, error=error)
    done = run_command(["dump-log", "--files", f"{PATH},/t-0/00000000000000000100.log"], fs)
    assert (done.code, len(positions(done))) == (ExitCode.FAILURE, 100)
    assert PATH in done.errors


def test_a_directory_that_cannot_be_listed_is_a_failure(fs):
    fs.refuse_open("/t-0")
    assert run_command(["dump-log", "/t-0"], fs).code == ExitCode.FAILURE
    # Whether there are later segments is not known then: the file itself is dumped all the same.
    damaged = {PATH: LOG.data[:-1]}
    fs.files.update(damaged)
    assert len(positions(dump(fs, "--strict"))) == 99


@pytest.mark.parametrize("left", [0, 1, BLOCK, LOG.starts[50], LOG.starts[50] + 30])
def test_a_file_that_shrinks_while_it_is_read_is_reported(fs, left):
    log = many_batches(400)
    fs.files[PATH] = log.data
    fs.change_while_read(PATH, log.data[:left], begin=len(log.data) - 1)
    done = dump(fs)
    printed = positions(done)
    assert (done.code, done.errors, printed) == (ExitCode.OK, "", list(log.starts[: len(printed)]))
    end = re.search(rf"Found (\d+) invalid bytes at the end of {PATH.rpartition('/')[2]}\n$", done.out)
    assert log.starts[len(printed)] <= len(log.data) - int(end[1]) < log.starts[len(printed) + 1]


def test_a_file_that_shrinks_is_printed_up_to_where_it_ends_now(fs):
    fs.change_while_read(PATH, LOG.data[: LOG.starts[7] + 5])
    done = dump(fs, "--strict")
    assert (done.code, positions(done)) == (ExitCode.WARNINGS, list(LOG.starts[:7]))


@pytest.mark.parametrize("options", [(), ("--strict", "--deep-iteration"), ("--resync",)])
def test_a_file_that_grows_is_read_as_it_was_when_opened(fs, options):
    fs.change_while_read(PATH, LOG.data + LOG.data[:-1])
    done = dump(fs, *options)
    assert (done.code, done.errors, len(positions(done))) == (ExitCode.OK, "", 100)


def test_a_batch_that_is_being_written_is_no_corruption(fs):
    fs.files[PATH] = LOG.data[:-40]
    fs.change_while_read(PATH, LOG.data)
    done = dump(fs, "--strict")
    assert done.code in (ExitCode.OK, ExitCode.WARNINGS)
    assert len(positions(done)) == 99


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", [*SIDECARS, FIRST_LOG, LAST_LOG])
@pytest.mark.parametrize(
    "argv",
    [
        ["dump-log", "--files", ",".join(FILES)],
        ["dump-index", ROOT],
        ["dump-index", "--format", "json", ROOT],
        ["ls", ROOT],
        ["lookup-offset", PARTITION, "20"],
        ["lookup-time", PARTITION, "--max-timestamp"],
    ],
    ids=lambda argv: " ".join(argv[:3])[:30],
)
def test_any_unreadable_file_ends_no_run(path, argv):
    disk = FaultyFilesystem(FILES)
    whole = run_command(argv, FaultyFilesystem(FILES))
    injection = disk.fail_read(path, 0, 1 << 40)
    done = run_command(argv, disk)
    if injection.fired:
        assert done.code != ExitCode.OK or not argv[0].startswith("dump")
        name = path.rpartition("/")[2]
        if argv[0].startswith("dump"):
            assert name in done.errors + done.out
    else:
        assert done == whole
    refused = FaultyFilesystem(FILES)
    refused.refuse_open(path)
    assert run_command(argv, refused).code in set(ExitCode)


def test_one_unreadable_sidecar_does_not_end_a_dump():
    index, others = FIRST_LOG.replace(".log", ".index"), [FIRST_LOG, LAST_LOG]
    disk = FaultyFilesystem(FILES)
    disk.fail_read(index, 0, 1 << 40)
    done = run_command(["dump-log", "--files", ",".join([index, *others])], disk)
    assert disk.unfired() == []
    assert done.code == ExitCode.FAILURE
    assert done.out.count("Dumping ") == 3
    assert f"{index}: " in done.errors


@pytest.mark.parametrize("most_bytes", [1, 7, 4095])
def test_short_reads_of_the_operating_system_change_nothing(tmp_path, monkeypatch, most_bytes):
    small = SmallLog("small", LOG.entries[: 3 if most_bytes == 1 else 20])
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(small.data)
    words = ("dump-log", "--print-data-log", "--files", path)
    whole = kafkalog(*words)
    with short_preads(monkeypatch.setattr, most_bytes) as given:
        assert kafkalog(*words) == whole
    assert whole.out.count("payload: ") == len(small.entries)
    assert max(given) == most_bytes


def test_dump_log_reads_around_an_unreadable_range_of_a_file_of_07():
    log = log_seven(0, 400)
    path = "/t-0/00000000000000000000.kafka"
    disk = FaultyFilesystem({path: log.data})
    disk.fail_read(path, 2 * BLOCK, 3 * BLOCK)
    before = [start for start, end in zip(log.starts, log.starts[1:], strict=False) if end <= 2 * BLOCK]
    behind = [start for start in log.starts[:-1] if start >= 3 * BLOCK]
    done = run_command(["dump-log", "--resync", "--files", path], disk)
    offsets = [int(line.split()[1]) for line in done.out.splitlines() if line.startswith("offset: ")]
    assert disk.unfired() == []
    assert (done.code, offsets) == (ExitCode.FAILURE, before + behind)


def test_bytes_file_reads_like_a_file():
    buffer = bytearray(4)
    assert (BytesFile(b"abcdef").read_into(4, memoryview(buffer)), bytes(buffer)) == (2, b"ef\0\0")
