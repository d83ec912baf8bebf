"""The zeros at the end of a log that a running broker has preallocated (`preallocate=true`) are no damage."""

import io
import os
import shutil
from pathlib import Path

import pytest

from tests.support.commands import a_broker_on
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.product import Environment, RealFilesystem, run
from tests.support.watched_fs import WatchedFilesystem

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


def ran(*arguments, **more):
    """(exit code, stdout, what stderr says besides that a broker runs)."""
    out, err = io.BytesIO(), io.BytesIO()
    environment = Environment(stdout=out, stderr=err, sleep=lambda _: None, **more)
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
    log.with_name(f"{int(log.stem) + 10_000:020}.log").touch()
    with a_broker_on(log_dir):
        code, _, err = ran("read", log.parent)
    assert code == 3
    assert ZERO_SIZE in err[-1]


def test_dump_log_fails_there_as_kafka_dump_log_does(log_dir, log):
    log.write_bytes(log.read_bytes() + bytes(UNUSED_BYTES))
    with a_broker_on(log_dir):
        code, _, err = ran("dump-log", log)
        strict_code, _, strict_err = ran("dump-log", "--strict", log)
    assert code == 1
    assert ZERO_SIZE in err[-1]
    assert (strict_code, strict_err) == (0, [])


class Broker(WatchedFilesystem):
    """Does something to the log after its first read to the end of what is written."""

    def __init__(self, log, act):
        super().__init__(RealFilesystem())
        self.log, self.written_bytes, self.act = str(log), log.stat().st_size, act

    def after(self, call):
        if call.name == "read" and call.path == self.log and self.act and sum(call.detail[:2]) > self.written_bytes:
            self.act, act = None, self.act
            act()


@pytest.mark.parametrize("command", ["read", "verify deep", "dump-index", "stats"])
@pytest.mark.parametrize("act", ["rolls", "appends"])
def test_a_broker_that_rolls_or_appends_meanwhile_leaves_no_damage(command, act, log_dir, log):
    content = log.read_bytes()

    def roll():
        os.truncate(log, len(content))
        log.with_name(f"{int(log.stem) + 10_000:020}.log").touch()

    def append():
        with log.open("r+b") as file:
            file.seek(len(content))
            file.write(batch_v2([R(125, BASE_TIME_MS, b"k", b"v")], epoch=0))

    name, *options = COMMANDS[command]
    expected = ran(name, log.parent, *options)
    broker = Broker(log, roll if act == "rolls" else append)
    log.write_bytes(content + bytes(UNUSED_BYTES))
    with a_broker_on(log_dir):
        code, _, err = ran(name, log.parent, *options, fs=broker)
    assert broker.act is None, "the end was not read"
    assert (code, err) == (expected[0], expected[2])
