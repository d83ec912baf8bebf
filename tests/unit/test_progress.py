"""Progress of long runs: when it is said, what it says, and that a terminal line is taken away again."""

import io
import json
import os
import re
import shutil
import threading
import time
from itertools import count
from pathlib import Path

import pytest

from kafkalog_cli.cli.app import run
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.output.progress import Progress, Waiting, beside, clock_time, sized, spent
from kafkalog_cli.output.stream import terminal_columns
from tests.support.commands import Terminal
from tests.support.schemas import check

EXAMPLE = Path(__file__).parents[2] / "docs" / "example"


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def progress(stream, *, as_json=False, total_bytes=None):
    clock = Clock()
    return clock, Progress(stream, "verify", as_json=as_json, total_bytes=total_bytes, clock=clock)


class Closed(io.BytesIO):
    def write(self, data):
        raise BrokenPipeError


def test_progress_that_nobody_reads_does_not_end_the_work():
    clock, shown = progress(Closed(), as_json=True)
    clock.now += 5
    shown.advance(10)
    assert (shown.is_shown, shown._done_bytes) == (True, 10)


def text(stream):
    return stream.getvalue().decode()


@pytest.mark.parametrize("as_json", [False, True])
def test_a_short_run_says_nothing(as_json):
    stream = Terminal()
    clock, shown = progress(stream, as_json=as_json)
    with shown:
        for _ in range(9):
            clock.now += 0.1
            shown.advance(1000)
    assert text(stream) == ""


def test_a_pipe_gets_nothing():
    stream = io.BytesIO()
    clock, shown = progress(stream)
    with shown:
        clock.now += 60
        shown.advance(1000)
    assert text(stream) == ""


def test_a_terminal_gets_one_progress_line_that_is_overwritten_and_removed():
    stream = Terminal()
    clock, shown = progress(stream, total_bytes=4 << 30)
    with shown:
        clock.now += 2
        shown.advance(1 << 30, "a/topic-0")
        clock.now += 0.1
        shown.advance(1 << 20)  # too soon after the last
        clock.now += 1.9
        shown.advance((1 << 30) - (1 << 20), "a/\x1b[31mtopic-1")
    assert text(stream).split("\r\x1b[K") == [
        "",
        "verify: 25 %, 1.0 GiB of 4.0 GiB, 512 MiB/s, 0:06 left, a/topic-0",
        "verify: 50 %, 2.0 GiB of 4.0 GiB, 512 MiB/s, 0:04 left, a/\\x1b[31mtopic-1",
        "",
    ]


@pytest.mark.parametrize(
    ("columns", "subject", "line"),
    [
        ("50", "logs/orders-0/0.log", "verify: 1.0 MiB, 512 KiB/s, logs/orders-0/0.log"),
        ("50", "logs/orders-0/00000000000000000000.log", "verify: 1.0 MiB, 512 KiB/s, logs/orders-0"),
        ("50", "x" * 100, "verify: 1.0 MiB, 512 KiB/s"),
        ("50", "ログ/注文の主題-0", "verify: 1.0 MiB, 512 KiB/s, ログ/注文の主題-0"),
        ("50", "ログ/とても長い注文の主題-0", "verify: 1.0 MiB, 512 KiB/s, ログ"),
        ("21", "logs", "verify: 1.0 MiB, 512"),
    ],
)
def test_a_line_is_no_wider_than_the_terminal(monkeypatch, columns, subject, line):
    """It has the whole path, or else the directory, or else no path."""
    monkeypatch.setenv("COLUMNS", columns)
    stream = Terminal()
    clock, shown = progress(stream)
    clock.now += 2
    shown.advance(1 << 20, subject)
    assert text(stream) == f"\r\x1b[K{line}"


def test_programs_get_an_object_a_second_in_a_pipe_too():
    stream = io.BytesIO()
    clock, shown = progress(stream, as_json=True)
    with shown:
        for _ in range(30):
            clock.now += 0.25
            shown.advance(100)
        shown.expect(6000)
        clock.now += 1
        shown.advance(400)
    lines = text(stream).splitlines()
    assert check(lines) == {"kafkalog.progress/1"}
    objects = [json.loads(line) for line in lines]
    assert [one["done_bytes"] for one in objects] == [400, 800, 1200, 1600, 2000, 2400, 2800, 3400]
    assert [one["seconds_left"] for one in objects[:-1]] == [None] * 7
    assert objects[-1] | {"schema": "", "type": ""} == {
        "schema": "", "type": "", "work": "verify", "done_bytes": 3400, "total_bytes": 6000, "bytes_per_second": 400,
        "seconds_left": 6.5,
    }  # fmt: skip


def test_progress_counts_a_later_step_from_its_own_start():
    stream = io.BytesIO()
    clock, shown = progress(stream, as_json=True)
    clock.now += 20  # Spark starts
    shown.begin("sort", 1000)
    shown.advance(0)
    clock.now += 2
    shown.advance(500)
    shown.begin("import", 4000)
    clock.now += 0.5
    shown.advance(1)
    clock.now += 0.5
    shown.advance(999)
    told = [json.loads(line) for line in text(stream).splitlines()]
    names = ("work", "done_bytes", "total_bytes", "bytes_per_second", "seconds_left")
    assert [tuple(one[name] for name in names) for one in told] == [
        ("sort", 500, 1000, 250, 2.0), ("import", 1000, 4000, 1000, 3.0),
    ]  # fmt: skip


def test_threads_may_advance_it():
    stream = io.BytesIO()
    clock, shown = progress(stream, as_json=True)

    def work():
        for _ in range(2000):
            shown.advance(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    clock.now += 1
    shown.advance(1)
    assert json.loads(text(stream))["done_bytes"] == 8001


@pytest.mark.parametrize(
    ("size_bytes", "words"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (20 << 20, "20 MiB"), (3 << 40, "3.0 TiB")],
)
def test_sizes_are_shown_with_two_digits(size_bytes, words):
    assert sized(size_bytes) == words


@pytest.mark.parametrize(("seconds", "words"), [(0.4, "0:00"), (59.6, "1:00"), (754, "12:34"), (3723, "1:02:03")])
def test_times_are_shown_as_on_a_clock(seconds, words):
    assert clock_time(seconds) == words


def test_a_terminal_without_a_size_has_usual_lines(monkeypatch):
    """As Python 3.10 tells of it."""
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((0, 0)))
    assert terminal_columns() == 80


def until(condition):
    for _ in range(60_000):
        if condition():
            return True
        time.sleep(0.005)
    return False


def test_waiting_shows_its_work_and_takes_the_line_away(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream, clock = Terminal(), Clock()
    with Waiting(stream, "starting Spark", first_after=0, clock=clock) as waiting:
        assert until(lambda: "starting Spark: 0:00" in text(stream))
        waiting.end()
        assert text(stream).endswith("\r\x1b[K")
        written = text(stream)
        waiting.end()
    assert text(stream) == written


@pytest.mark.parametrize("stream", [io.BytesIO(), Terminal()], ids=["pipe", "short"])
def test_waiting_writes_nothing_to_a_pipe_or_in_a_short_time(stream):
    with Waiting(stream, "starting Spark", first_after=0 if not stream.isatty() else 60):
        time.sleep(0.02)
    assert text(stream) == ""


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0824, "82 ms"),
        (1.25, "1.2 s"),
        (9.96, "10.0 s"),
        (61, "1:01 min"),
        (3723, "1:02:03 h"),
        (3599.7, "1:00:00 h"),
        (172_799, "47:59:59 h"),
        (172_800, "2 d 0 h"),
        (95_553_805, "1105 d 22 h"),
    ],
)
def test_the_time_that_a_run_took(seconds, words):
    assert spent(seconds) == words


READERS = ("ls", "read", "dump-index", "groups", "transactions", "cluster", "doctor", "find", "stats", "dump-log")
STREAMING = ("read", "dump-index", "dump-log")
NOW_MS = 1_900_000_000_000


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "shop"
    assert run(["demo", str(folder)], Environment(stdout=io.BytesIO(), stderr=io.BytesIO())) == 0
    return folder


def on_screen(shown):
    """Lines that stay on a terminal: each without what is erased of it."""
    return re.sub(rb"[^\n]*\r(\x1b\[K| +\r)", b"", shown)


@pytest.mark.exhaustive
@pytest.mark.parametrize("stdout", [io.BytesIO, Terminal])
@pytest.mark.parametrize("command", READERS)
def test_commands_that_read_show_their_progress(command, stdout, shop):
    """Nothing of it stays on the terminal, and the results are those of a run without progress."""
    seconds = iter(range(0, 10_000_000, 2))
    arguments = [str(shop), *(("--topic", "orders") if command == "read" else ())]
    if command == "dump-log":
        arguments = [str(shop / "orders-0")]
    both = Terminal()
    out = both if stdout is Terminal else stdout()
    run([command, *arguments], Environment(out, both, now_ms=lambda: NOW_MS, clock=lambda: next(seconds)))
    is_shown = not (stdout is Terminal and command in STREAMING)
    assert (f"{command}: " in text(both)) is is_shown
    quick_both = Terminal()
    quick_out = quick_both if stdout is Terminal else stdout()
    run([command, *arguments], Environment(quick_out, quick_both, now_ms=lambda: NOW_MS, clock=lambda: 0.0))
    assert b"\x1b[K" not in quick_both.getvalue()
    assert on_screen(both.getvalue()) == quick_both.getvalue()
    assert out is both or out.getvalue() == quick_out.getvalue()


def test_no_thread_draws_into_results():
    """Not between the parts of a line, and not between the erased line and the result that is written in its place."""
    terminal = Terminal()
    seconds = iter(range(0, 1 << 40, 2))
    shown = Progress(terminal, "find", as_json=False, clock=lambda: next(seconds))
    out = beside(shown, terminal)
    ended = threading.Event()

    def advance():
        while not ended.is_set():
            shown.advance(1)

    drawing = [threading.Thread(target=advance) for _ in range(2)]
    for thread in drawing:
        thread.start()
    lines = [b"orders-0:%d:key\n" % number for number in range(300)]
    for line in lines:
        out.write(line[:8])
        time.sleep(0.0005)
        out.write(line[8:])
        out.flush()
    ended.set()
    for thread in drawing:
        thread.join()
    shown.erase()
    assert b"find: " in terminal.getvalue()
    assert on_screen(terminal.getvalue()) == b"".join(lines)


def test_progress_on_a_dumb_terminal_has_no_escapes(monkeypatch):
    for is_dumb in (False, True):
        monkeypatch.setenv("TERM", "dumb" if is_dumb else "xterm")
        monkeypatch.delenv("NO_COLOR", raising=False)
        stream = Terminal()
        with Progress(stream, "verify", as_json=False, clock=iter(range(100)).__next__) as progress:
            progress.advance(1 << 20)
            progress.advance(1 << 20)
        said = stream.getvalue()
        assert b"verify: 2.0 MiB" in said
        assert (b"\x1b" in said) is not is_dumb
        assert said.endswith(b" \r" if is_dumb else b"\x1b[K")


@pytest.mark.parametrize(
    "command",
    ["find {} --key k", "verify {}", "stats {}", "metadump {} copy", "recover {} --dry-run", "ls {}", "inspect {}",
     "compact {} --config cleanup.policy=compact --topic mixed --dry-run", "transactions {}", "doctor {}"],
)  # fmt: skip
def test_progress_objects_go_to_standard_error_only(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(EXAMPLE, "logs")
    out, err, calls = io.BytesIO(), io.BytesIO(), count(0, 20)
    environment = Environment(stdout=out, stderr=err, clock=lambda: float(next(calls)))
    run([*command.format("logs").split(), "--format", "json"], environment)
    types = [{json.loads(line)["type"] for line in text(stream).splitlines()} for stream in (out, err)]
    assert ("progress" in types[0], "progress" in types[1]) == (False, True)
