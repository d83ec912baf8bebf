"""An append that is interrupted says what it has done; done literally, its next step gives exactly the records once."""

import io
import json
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest

from tests.support import commands
from tests.support.commands import Terminal, writable_copy
from tests.support.naive_reader import read_batches, read_records
from tests.support.product import Environment, partition_of_key, replace_point, run

NOW_MS = 1795228795800
SETTINGS = (
    "--single-replica",
    "--config",
    f"segment.ms={2**62}",
    "--config",
    f"message.timestamp.after.max.ms={2**62}",
)
COUNT = 16_000


@pytest.fixture
def root(corpus, tmp_path):
    return writable_copy(corpus / "txn" / "data", tmp_path / "data")


def values(partition):
    """The values that were appended here, in the order of their offsets; markers have none of this form."""
    found = []
    for path in sorted(partition.glob("*.log")):
        data = path.read_bytes()
        for batch in read_batches(data):
            found += [record.value for record in read_records(data, batch) if record.value is not None]
    return [value for value in found if value.startswith(b"new ")]


class Interrupting(io.BytesIO):
    """Ctrl-C arrives while so many pieces of it have been read."""

    def __init__(self, data, pieces):
        super().__init__(data)
        self._left = pieces

    def read1(self, size=-1):
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGINT)
        return super().read1(min(size, 12_001))  # it ends within a line


def kafkalog(argv, stdin=b""):
    return commands.kafkalog(*argv, stdin=stdin, errors="replace", terminal=None)


def ndjson(count=COUNT):
    """With lines that are no records between them."""
    lines = [b'{"value":"new %06d"}' % at for at in range(count)]
    lines[100:100] = [b"", b'{"schema":"kafkalog.batch/1","type":"batch"}', b'{"control":{"type":"commit"}}']
    return b"\n".join(lines) + b"\n"


def next_step(err):
    step = err.rpartition("  next: kafkalog ")[2].splitlines()[0]
    return shlex.split(step)


WANTED = [b"new %06d" % at for at in range(COUNT)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("layout", ["ndjson", "lines"])
def test_append_interrupted_on_standard_input_names_the_records_to_send_again(root, layout):
    partition = root / "idem-0"
    stdin = ndjson() if layout == "ndjson" else b"\n".join(WANTED)
    argv = ("append", partition, "--input", layout, "--codec", "lz4", *SETTINGS)
    for pieces in (5, 12):  # the command that goes on is interrupted as well
        code, out, err = kafkalog(argv, Interrupting(stdin, pieces))
        there = values(partition)
        assert (code, there) == (130, WANTED[: len(there)]), err
        assert 0 < len(there) < COUNT
        assert "interrupted" in out
        assert f"the first {len(there)} records of the input are appended" in err
        assert "standard input has to be sent again" in err
        argv = next_step(err)
        assert argv.count("--skip-records") == 1
    assert kafkalog(argv, io.BytesIO(stdin))[0] == 0
    assert values(partition) == WANTED
    assert kafkalog(("verify", partition, "--level", "deep"))[0] == 0


def test_append_interrupted_within_a_line_appends_no_part_of_it(root):
    """Of a stream that an interruption ends, the last line may not be there in whole."""
    stdin = Interrupting(b"new 000000\n" + b"x" * 100_000 + b"\n", 1)
    code, _, err = kafkalog(("append", root / "idem-0", "--input", "lines", *SETTINGS), stdin)
    assert (code, values(root / "idem-0")) == (130, [b"new 000000"]), err
    assert "the first record of the input is appended" in err


def test_append_interrupted_before_its_first_record_appends_nothing(root):
    argv = ("append", root / "idem-0", "--input", "lines", *SETTINGS)
    code, _, err = kafkalog(argv, Interrupting(b"x" * 300_000, 1))
    assert (code, "no record of the input is appended" in err) == (130, True), err
    assert next_step(err) == [*map(str, argv)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("ending", ["commit", "abort"])
def test_append_continued_after_an_interrupt_continues_sequences_and_transaction(root, ending):
    partition = root / "idem-0"
    argv = ("append", partition, *SETTINGS, "--producer-id=77", "--first-sequence", 0, "--transaction", ending)
    code, _, err = kafkalog(argv, Interrupting(ndjson(), 7))
    assert code == 130, err
    code, out, err = kafkalog(next_step(err), io.BytesIO(ndjson()))
    assert (code, values(partition)) == (0, WANTED), err
    _, seen, err = kafkalog(("read", partition, "--isolation", "read_committed"))
    assert (f"new {COUNT - 1:06}" in seen) == (ending == "commit"), err
    assert kafkalog(("verify", partition, "--level", "deep"))[0] == 0


def keyed(count=COUNT):
    return b"".join(b'{"key":"%d","value":"new %06d"}\n' % (at, at) for at in range(count))


@pytest.fixture
def several(root):
    """A topic of three partitions, and the signal that comes in the middle of the second."""
    for number in range(3):
        made = root / f"several-{number}"
        assert kafkalog(("append", made, "--input", "lines", *SETTINGS), io.BytesIO(b"first\n"))[0] == 0
    return root


@pytest.mark.exhaustive
@pytest.mark.parametrize("more", [(), ("--producer-id", "9", "--first-sequence", "0", "--transaction", "commit")])
def test_append_to_several_partitions_interrupted_by_a_signal_continues_without_loss(
    several, monkeypatch, tmp_path, more
):
    def with_a_signal(whole):
        def parts(self, number):
            for records in whole(self, number):
                middle = (len(records) + 1) // 2
                yield records.part(0, middle)
                if number == 1:
                    os.kill(os.getpid(), signal.SIGTERM)
                if middle < len(records):
                    yield records.part(middle, len(records))

        return parts

    (tmp_path / "in.ndjson").write_bytes(keyed())
    argv = ("append", several, tmp_path / "in.ndjson", "--topic", "several", *SETTINGS, *more)
    with monkeypatch.context() as patched:
        replace_point(patched, "records of a partition of an append to several", with_a_signal)
        code, _, err = kafkalog(argv)
    there = [len(values(several / f"several-{number}")) for number in range(3)]
    assert code == 130, err
    assert there[0] > 0 < there[1], there
    assert sum(there) < COUNT
    assert f"partition 1: {there[1]} records up to offset" in err
    code, _, err = kafkalog(next_step(err))
    assert code == 0, err
    for number in range(3):
        wanted = [value for at, value in enumerate(WANTED) if partition_of_key(b"%d" % at, 3) == number]
        assert values(several / f"several-{number}") == wanted


def test_append_to_several_partitions_continues_after_its_input_was_cut_off(several):
    argv = ("append", several, "--topic", "several", *SETTINGS)
    code, _, err = kafkalog(argv, Interrupting(keyed(), 3))
    assert (code, "no record of the input is appended" in err) == (130, True), err
    assert not any(values(several / f"several-{number}") for number in range(3))
    assert kafkalog(next_step(err), io.BytesIO(keyed()))[0] == 0
    assert sum(len(values(several / f"several-{number}")) for number in range(3)) == COUNT


@pytest.mark.parametrize(
    ("option", "code"), [("x", 2), ("1:", 2), ("-1", 2), ("7:1", 2), ("0:2", 0), ("2", 0), ("3", 0), ("4", 1)]
)
def test_skip_records_skips_the_counted_records_of_its_partition(root, option, code):
    argv = ("append", root / "idem-0", "--input", "lines", *SETTINGS, f"--skip-records={option}")
    assert kafkalog(argv, io.BytesIO(b"new 0\nnew 1\nnew 2\n"))[0] == code
    wanted = {"0:2": [b"new 2"], "2": [b"new 2"]}
    assert values(root / "idem-0") == wanted.get(option, [])


def test_skip_records_refuses_a_number_without_partition_for_several_partitions(several):
    code, _, err = kafkalog(("append", several, "--topic", "several", *SETTINGS, "--skip-records", 2))
    assert (code, "PARTITION:N" in err) == (2, True), err


def test_a_dry_run_of_append_ends_at_an_interrupt(root, tmp_path):
    argv = ("append", root / "idem-0", "--input", "lines", *SETTINGS, "--dry-run")
    code, out, err = kafkalog(argv, Interrupting(b"\n".join(WANTED), 3))
    assert (code, out, "next:" in err) == (130, "", False), err


# -- progress


class Clock:
    """Each look at it takes 2 s."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        self.seconds += 2
        return self.seconds


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["file", "stdin", "several"])
def test_append_reports_progress_in_bytes_of_its_input(several, tmp_path, name):
    data = keyed()
    (tmp_path / "in").write_bytes(data)
    path = (several, "--topic", "several") if name == "several" else (several / "idem-0",)
    argv = [*map(str, ("append", *path, *SETTINGS))] + ([] if name == "stdin" else [str(tmp_path / "in")])
    for more in ([], ["--format", "json"]):
        out, err = io.BytesIO(), io.BytesIO() if more else Terminal()
        stdin = Interrupting(data, 0)
        environment = Environment(stdout=out, stderr=err, stdin=stdin, clock=Clock(), terminal=None)
        assert run([*argv, *more], environment) == 0, err.getvalue()
        if not more:
            shown = err.getvalue().decode()
            assert "append: " in shown
            assert (" %, " in shown) == (name != "stdin")
            continue
        told = [json.loads(line) for line in err.getvalue().splitlines()]
        told = [one for one in told if one["type"] == "progress"]
        assert told[-1]["work"] == "append"
        of_all = [one for one in told if one["work"] != "reading"]
        assert max(one["done_bytes"] for one in of_all) <= len(data) if name != "several" else of_all
        assert {one["total_bytes"] for one in told if one["work"] == told[0]["work"]} == {
            None if name == "stdin" else len(data)
        }


def test_with_flush_messages_a_record_is_in_the_log_while_the_pipe_is_open(root):
    """Each line is waited for before the next is sent; then Ctrl-C, and the command that is printed."""
    partition = root / "idem-0"
    argv = ["append", str(partition), "--input", "lines", *SETTINGS, "--config", "flush.messages=1"]
    command = [sys.executable, "-m", "kafkalog_cli", *argv]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **streams) as process:
        for count in range(1, 4):
            process.stdin.write(b"new %06d\n" % (count - 1))
            process.stdin.flush()
            deadline = time.monotonic() + 120
            while len(values(partition)) < count and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            assert values(partition) == WANTED[:count], process.poll()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert kafkalog(next_step(err.decode()), io.BytesIO(b"\n".join(WANTED[:5])))[0] == 0
    assert values(partition) == WANTED[:5]
