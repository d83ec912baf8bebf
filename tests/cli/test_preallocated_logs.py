"""The zeros at the end of a log that a running broker has preallocated (`preallocate=true`) are no damage."""

import io
import os
import shutil
from pathlib import Path

import pytest

from kafkalog_cli.log.reading.segment_reader import SegmentReader
from tests.support.commands import a_broker_on
from tests.support.product import Environment, RealFilesystem, run

EXAMPLE = Path(__file__).parents[2] / "docs/example"
UNUSED_BYTES = 100_000
ZERO_SIZE = "Found record size 0 smaller than minimum record overhead (14)"


@pytest.fixture
def log_dir(tmp_path):
    shutil.copytree(EXAMPLE, tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def log(log_dir):
    return max((log_dir / "mixed-0").glob("*.log"))


def ran(*arguments):
    """(exit code, stdout, what stderr says besides that a broker runs)."""
    out, err = io.BytesIO(), io.BytesIO()
    environment = Environment(stdout=out, stderr=err, sleep=lambda _: None)
    code = run([*map(str, arguments)], environment)
    lines = err.getvalue().decode().splitlines()
    return code, out.getvalue(), [line for line in lines if "a broker is running" not in line]


COMMANDS = {
    "read": ("read", "--print", "offset"),
    "read committed": ("read", "--print", "offset", "--isolation", "read_committed"),
    "tail": ("read", "--print", "offset", "--tail", "3"),
    "find": ("find", "--value", "a"),
    "stats": ("stats",),
    "verify": ("verify", "--quiet"),
    "verify quick": ("verify", "--quiet", "--level", "quick"),
    "verify deep": ("verify", "--quiet", "--level", "deep"),
    "dump-index": ("dump-index",),
    "ls": ("ls",),
    "ls transactions": ("ls", "--transactions"),
    "lookup-time": ("lookup-time", "2040-01-01"),
}


@pytest.mark.parametrize("unused_bytes", [UNUSED_BYTES, 5])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_reader_ends_where_a_running_broker_has_written_to(command, unused_bytes, log_dir, log):
    name, *options = COMMANDS[command]
    expected = ran(name, log.parent, *options)
    log.write_bytes(log.read_bytes() + bytes(unused_bytes))
    with a_broker_on(log_dir):
        code, out, err = ran(name, log.parent, *options)
    assert (code, err) == (expected[0], expected[2])
    if name in {"read", "find", "lookup-time"}:  # others print the size of the file
        assert out == expected[1]


@pytest.mark.parametrize("unused_bytes", [UNUSED_BYTES, 5])
def test_the_same_zeros_are_damage_without_a_broker(unused_bytes, log):
    log.write_bytes(log.read_bytes() + bytes(unused_bytes))
    code, _, err = ran("read", log.parent)
    assert code == 3
    assert "what cannot be read is left out" in err[-1]


def test_other_bytes_are_damage_beside_a_broker_too(log_dir, log):
    log.write_bytes(log.read_bytes() + bytes(UNUSED_BYTES) + b"x")
    with a_broker_on(log_dir):
        code, _, err = ran("read", log.parent)
    assert code == 3
    assert ZERO_SIZE in err[-1]


def test_zeros_at_the_end_of_a_closed_segment_are_damage(log_dir, log):
    """A broker cuts off what it has not used before it makes the next segment."""
    log.write_bytes(log.read_bytes() + bytes(UNUSED_BYTES))
    shutil.copy(log, log.with_name(f"{int(log.stem) + 10_000:020}.log"))
    assert len(log.name) == 24
    with a_broker_on(log_dir), RealFilesystem().open_read(str(log)) as file:
        assert SegmentReader(file).run().fault is not None
        assert [*SegmentReader(file).headers()]


def test_dump_log_fails_there_as_kafka_dump_log_does(log_dir, log):
    log.write_bytes(log.read_bytes() + bytes(UNUSED_BYTES))
    with a_broker_on(log_dir):
        code, _, err = ran("dump-log", log)
        strict_code, _, strict_err = ran("dump-log", "--strict", log)
    assert code == 1
    assert ZERO_SIZE in err[-1]
    assert (strict_code, strict_err) == (0, [])


@pytest.mark.parametrize("is_deep", [False, True])
def test_a_broker_rolls_a_segment_while_it_is_read(is_deep, log_dir, log):
    """The file is shorter then, and no segment's bytes are missing."""
    content = log.read_bytes()
    log.write_bytes(content + bytes(UNUSED_BYTES))
    with a_broker_on(log_dir), RealFilesystem().open_read(str(log)) as file:
        os.truncate(log, len(content))
        log.with_name(f"{int(log.stem) + 10_000:020}.log").touch()
        reader = SegmentReader(file)
        batches = [*reader.batches()] if is_deep else [*reader.headers()]
        assert batches
        assert (reader.fault, reader.end_position) == (None, len(content))


class AppendedMeanwhile:
    """An open file to which `appended` is written at the byte of the first zeros, once these were read."""

    def __init__(self, file, log, at, appended):
        self._file, self.path, self.size_bytes = file, file.path, file.size_bytes
        self._log, self._at, self._appended = log, at, appended

    def read_into(self, position, buffer):
        got = self._file.read_into(position, buffer)
        if position + got > self._at and self._appended:
            with self._log.open("r+b") as log:
                log.seek(self._at)
                log.write(self._appended)
            self._appended = b""
        return got


@pytest.mark.parametrize("is_deep", [False, True])
def test_a_broker_appends_after_the_end_was_read(is_deep, log_dir, log):
    content = log.read_bytes()
    log.write_bytes(content + bytes(UNUSED_BYTES))
    with a_broker_on(log_dir), RealFilesystem().open_read(str(log)) as file:
        reader = SegmentReader(AppendedMeanwhile(file, log, len(content), content[:200]))
        batches = [*reader.batches()] if is_deep else [*reader.headers()]
        assert batches
        assert reader.fault is None
        assert log.read_bytes()[len(content) :].startswith(content[:200])
