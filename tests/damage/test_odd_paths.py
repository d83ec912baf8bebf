"""Names and files of every odd kind, on the real disk: an answer, no hang, no change, nothing raw on a terminal."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.damage.log_directory import NOW_MS
from tests.damage.makers import batch, record
from tests.damage.reading import deadline
from tests.support.commands import Terminal, everything, kafkalog
from tests.support.product import ExitCode

GOOD = batch(0, [record(0, b"key", b"value")])
LOG = "00000000000000000000.log"
CONTROL = "\x1b[31m\n\x07\x9b"


@pytest.fixture(autouse=True)
def no_colour(monkeypatch):
    """So that every control character comes from a name."""
    monkeypatch.setenv("NO_COLOR", "1")


def command(*argv, terminal=False):
    streams = {"stdout": Terminal(), "stderr": Terminal()} if terminal else {}
    with deadline(20):
        return kafkalog(*argv, **streams, now_ms=lambda: NOW_MS, errors="surrogateescape")


@pytest.fixture
def partition(tmp_path):
    """A partition directory with a good segment; nothing in it may change."""
    directory = tmp_path / "topic-0"
    directory.mkdir()
    (directory / LOG).write_bytes(GOOD)
    return directory


COMMANDS = (
    ("dump-log",),
    ("dump-log", "--print-data-log", "--resync", "--strict"),
    ("dump-log", "--format", "json"),
    ("dump-index",),
    ("ls",),
    ("ls", "--segments", "--format", "json"),
    ("read", "--format", "json"),
)


def odd_files(directory):
    """One of each kind of thing that can bear the name of a segment."""
    (directory / "00000000000000000001.log").mkdir()
    os.mkfifo(directory / "00000000000000000002.log")
    (directory / "00000000000000000003.log").symlink_to("/dev/zero")
    (directory / "00000000000000000004.log").symlink_to("nowhere")
    (directory / "00000000000000000005.log").symlink_to("00000000000000000005.log")
    (directory / "00000000000000000006.log").symlink_to(".")
    (directory / "00000000000000000007.log").symlink_to(LOG)
    with socket.socket(socket.AF_UNIX) as here:
        before = Path.cwd()
        os.chdir(directory)  # the path of a socket is short
        here.bind("00000000000000000008.log")
        os.chdir(before)
    os.mkfifo(directory / "00000000000000000000.index")
    (directory / "00000000000000000000.timeindex").symlink_to("/dev/zero")
    (directory / "leader-epoch-checkpoint").mkdir()
    (directory / "00000000000000000009.log").write_bytes(b"")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("00000000000000000001.log", "is a directory"),
        ("00000000000000000002.log", "not a regular file"),
        ("00000000000000000003.log", "not a regular file"),
        ("00000000000000000004.log", "no such file"),
        ("00000000000000000005.log", "symbolic links"),
        ("00000000000000000008.log", "not a regular file"),
    ],
)
def test_the_message_about_a_special_file_says_what_it_is(partition, name, reason):
    odd_files(partition)
    code, out, errors = command("dump-log", "--files", partition / name)
    assert code == ExitCode.FAILURE
    assert (reason in errors, name in errors) == (True, True), errors
    assert out == f"Dumping {partition / name}\nLog starting offset: {int(name[:20])}\n"


ODD_NAMES = {
    "newline": "to\npic-0",
    "ansi": "to\x1b[31mpic-0",
    "c1 control": "to\x9b31mpic-0",
    "bell and backspace": "to\x07\x08pic-0",
    "not UTF-8": "to\udcff\udc9bpic-0",
    "right to left": "to\u202epic-0",
    "longest": "t" * 253 + "-0",
    "blanks": " topic -0",
    "dashes": "--topic--0",
    "dots": "...-0",
    "glob": "to[p]ic*-0",
    "comma": "to,pic-0",
    "quote": "to'\"pic-0",
    "emoji": "tópic-\N{BUG}-0",
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ODD_NAMES)
@pytest.mark.parametrize("argv", [*COMMANDS, ("lookup-offset",), ("lookup-time",)], ids=" ".join)
def test_dump_log_reads_a_log_below_a_directory_with_an_unusual_name(tmp_path, name, argv):
    directory = tmp_path / "logs" / ODD_NAMES[name]
    directory.mkdir(parents=True)
    (directory / LOG).write_bytes(GOOD)
    for suffix in (".index", ".timeindex"):
        (directory / LOG).with_suffix(suffix).touch()
    before = everything(tmp_path)
    more = {"lookup-offset": ["0"], "lookup-time": ["--earliest"]}.get(argv[0], [])
    for path in (directory, directory.parent) if not more and argv[0] != "read" else (directory,):
        code, out, errors = command(*argv, path, *more)
        # dump-index warns that the time index has no entry.
        assert (code, errors) == (ExitCode.WARNINGS if argv[0] == "dump-index" else ExitCode.OK, ""), path
        assert out
        _, out, errors = command(*argv, path, *more, terminal=True)
        assert not raw_controls(out + errors), path
    code, out, _ = command("dump-log", "--files", directory / LOG) if name != "comma" else (0, "baseOffset: 0", "")
    assert (code, "baseOffset: 0" in out) == (0, True)
    assert everything(tmp_path) == before


def raw_controls(text):
    """Characters, and bytes that are no characters, that a terminal may take for a command; our bold type is none."""
    text = text.replace("\x1b[1m", "").replace("\x1b[0m", "")
    return [
        char
        for char in text
        if (char < " " and char not in "\n\r\t") or "\x7f" <= char <= "\x9f" or "\udc80" <= char <= "\udc9f"
    ]


@pytest.mark.parametrize(
    "name",
    [CONTROL + ".log", CONTROL, CONTROL + ".unknown", f"{0:020d}.{CONTROL}", CONTROL + ".index", CONTROL + ".snapshot",
     f"{0:020d}.{CONTROL}.log", f"{0:020d}{CONTROL}.checkpoint", "\udc9b31m.log", "\udc9b31m.unknown"],
)  # fmt: skip
@pytest.mark.parametrize("content", [GOOD, GOOD[:-1], b"", bytes(100)], ids=["good", "torn", "empty", "zeros"])
def test_nothing_of_a_file_name_reaches_a_terminal_raw(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    if name.endswith(".index"):
        path.with_suffix(".log").write_bytes(GOOD)
    for argv in (
        ("dump-log", "--files"),
        ("dump-log", "--index-sanity-check", "--files"),
        ("dump-log", "--strict"),
        ("dump-index",),
    ):
        code, out, errors = command(*argv, path, terminal=True)
        assert code in list(ExitCode)
        assert not raw_controls(out + errors), argv
        assert "\n\x07" not in out + errors
    for missing in ("dump-log", "dump-index", "ls", "lookup-offset"):
        _, out, errors = command(missing, f"{path}-gone", *(["0"] if missing == "lookup-offset" else []), terminal=True)
        assert not raw_controls(out + errors), missing


@pytest.mark.parametrize("name", ["..", ".", "...", "....log", "..log"])
def test_paths_with_dots_are_the_directories_they_lead_to(tmp_path, name, monkeypatch):
    inner = tmp_path / "logs" / "topic-0"
    inner.mkdir(parents=True)
    (inner / LOG).write_bytes(GOOD)
    monkeypatch.chdir(inner)
    code, out, _ = command("dump-log", name)
    if name in ("..", "."):
        assert (code, "baseOffset: 0" in out) == (0, True)
    else:
        assert code == ExitCode.NOT_FOUND
    assert command("dump-log", "--files", f"../topic-0/./{LOG}")[0] == 0
    assert command("dump-log", f"../../logs/../logs/topic-0/{LOG}")[0] == 0


@pytest.mark.parametrize("path", ["", "/", "nowhere", "x" * 255, "x" * 256, "x/" * 3000, "a\0b", "\udcff", "-", "*"])
@pytest.mark.parametrize("argv", [("dump-log",), ("dump-log", "--files"), ("dump-index",), ("ls",)], ids=" ".join)
def test_a_path_that_leads_nowhere_ends_with_10(tmp_path, monkeypatch, path, argv):
    monkeypatch.chdir(tmp_path)
    code, _, errors = command(*argv, path)
    assert code in ((ExitCode.FAILURE,) if "--files" in argv else (ExitCode.NOT_FOUND, ExitCode.USAGE)), errors
    assert errors
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_a_directory_above_is_no_loop(tmp_path):
    directory = tmp_path / "logs"
    partition = directory / "topic-0"
    partition.mkdir(parents=True)
    (partition / LOG).write_bytes(GOOD)
    (partition / "up").symlink_to("../..")
    (directory / "loop-1").symlink_to(".")
    (directory / "self-2").symlink_to("self-2")
    for argv in COMMANDS:
        code, out, _ = command(*argv, directory)
        assert code in list(ExitCode)
        assert "topic" in out or argv[0] == "dump-index", argv


def test_a_file_that_goes_away_while_its_directory_is_listed(partition, monkeypatch):
    for number in range(1, 4):
        (partition / f"{number:020d}.log").write_bytes(GOOD)
    real = os.scandir

    class Scan:
        def __init__(self, path):
            self.entries = real(path)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.entries.close()

        def __iter__(self):
            for entry in self.entries:
                if entry.name == f"{2:020d}.log":
                    (partition / entry.name).unlink(missing_ok=True)
                yield entry

    monkeypatch.setattr(os, "scandir", Scan)
    code, out, errors = command("dump-log", partition)
    assert not (partition / f"{2:020d}.log").exists()
    assert (code, errors, out.count("Dumping ")) == (0, "", 3)
