"""Screens of a real terminal of 80 columns: words stay whole, colours have a meaning, and NO_COLOR has none."""

import fcntl
import io
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.support.commands import Terminal
from tests.support.product import Environment, run

ROOT = Path(__file__).parents[2]
EXAMPLE = Path("docs") / "example"
RED, GREEN, YELLOW = "\x1b[31m", "\x1b[32m", "\x1b[33m"
ESCAPE = re.compile(r"\x1b\[[0-9;]*[mK]")


def screen(*argv, columns=80, **environment):
    """(exit code, everything that a terminal of `columns` got) of a process on it."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    clean = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "TERM")}
    child = subprocess.Popen(
        [sys.executable, "-m", "kafkalog_cli", *map(str, argv)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        cwd=ROOT,
        env=clean | {"TERM": "xterm-256color"} | environment,
    )
    os.close(slave)
    shown = b""
    try:
        while data := os.read(master, 1 << 16):
            shown += data
    except OSError:  # the other end is closed
        pass
    os.close(master)
    return child.wait(300), shown.decode().replace("\r\n", "\n")


@pytest.fixture
def torn(corpus, tmp_path, monkeypatch):
    """A log directory with a torn tail, under a short name."""
    shutil.copytree(corpus / "crash-torn" / "before", tmp_path / "disk")
    for path in [tmp_path / "disk", *(tmp_path / "disk").rglob("*")]:
        path.chmod(0o755)
    return tmp_path / "disk"


def plain_words(text):
    return ESCAPE.sub("", text).split()


def test_a_fine_log_directory_is_one_green_line():
    code, shown = screen("verify", EXAMPLE)
    assert code == 0
    first, *rest = shown.splitlines()
    assert re.fullmatch(rf"3 partitions: {re.escape(GREEN)}3 OK\x1b\[0m, 21 KiB, (\d+ ms|\d\.\d s)", first)
    assert "".join(rest).startswith("not checked: record contents (--level deep)")


def test_damage_is_coloured_and_words_are_whole(torn):
    code, shown = screen("verify", torn, EXAMPLE)
    assert code == 3
    assert f"{YELLOW}warning:\x1b[0m the last 141 bytes" in shown
    assert f"4 partitions: {GREEN}3 OK\x1b[0m, {YELLOW}1 warning\x1b[0m, " in shown
    assert RED not in shown
    for line in ESCAPE.sub("", shown).splitlines():
        words = re.findall(r"(?:`[^`]*`|[^ ])+", line)
        assert len(line) <= 80 or len(words) <= 2, line
    piped = subprocess.run(
        [sys.executable, "-m", "kafkalog_cli", "verify", torn, EXAMPLE],
        capture_output=True, text=True, check=False, cwd=ROOT,
    ).stdout  # fmt: skip
    assert "\x1b" not in piped
    same = [re.sub(r"\d+ ms|\d+\.\d s", "", " ".join(plain_words(text))) for text in (shown, piped)]
    assert same[0] == same[1]


@pytest.mark.exhaustive
@pytest.mark.parametrize("command", ["ls", "stats", "find", "read"])
def test_a_torn_tail_is_yellow_and_damage_in_the_log_red(corpus, torn, command):
    paths = [path for path in torn.iterdir() if path.name.endswith("-0") and not path.name.startswith("__")]
    code, shown = screen(command, *paths)
    assert code == 3
    assert f"{YELLOW}kafkalog:\x1b[0m" in shown
    assert "incomplete batch" in " ".join(plain_words(shown))
    assert f"{RED}kafkalog:" not in shown
    if command != "ls":  # ls reads no batch before the end
        _, shown = screen(command, corpus / "crash-flip-mid" / "before")
        assert f"{RED}kafkalog:\x1b[0m" in shown


def test_corruption_and_errors_are_red(corpus):
    code, shown = screen("verify", corpus / "crash-flip-mid" / "before", "/no/such/place")
    assert code == 4
    assert f"{RED}kafkalog:\x1b[0m /no/such/place: no such file or directory" in shown
    assert f"{RED}corruption:\x1b[0m the CRC" in shown
    assert f"{RED}1 damaged\x1b[0m, {RED}1 failed\x1b[0m" in shown


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colours_where_they_are_not_wanted(corpus, environment):
    shown = screen("verify", corpus / "crash-flip-mid" / "before", **environment)[1]
    assert "\x1b" not in shown
    assert max(len(line) for line in shown.splitlines() if "/" not in line) <= 80
    assert "\x1b" not in screen("verify", "--help", **environment)[1]


def test_an_unclean_shutdown_is_yellow():
    shown = screen("ls", EXAMPLE)[1]
    assert shown.startswith(f"docs/example: {YELLOW}unclean shutdown\x1b[0m\n")
    assert max(map(len, ESCAPE.sub("", shown).splitlines())) <= 80


def test_a_dry_run_is_a_summary_on_the_terminal(torn):
    code, shown = screen("recover", torn, "--dry-run")
    assert code == 3
    assert shown.endswith("\ndry run: nothing was changed; --verbose lists each change\n")
    assert "would cut" not in shown
    assert max(len(line) for line in shown.splitlines() if "/" not in line) <= 80


def test_a_command_in_a_message_is_not_broken(torn):
    """It is pasted; the terminal itself breaks a line that is too long, which pasting does not see."""
    shown = screen("verify", torn, columns=50)[1]
    assert f"`kafkalog recover {torn}/crash-torn-0`" in shown


def test_a_command_in_a_next_step_is_bold(torn):
    _, shown = screen("verify", torn)
    assert re.search(r"\x1b\[1m`kafkalog recover [^`]+`\x1b\[0m", shown)
    _, shown = screen("recover", torn)
    assert re.search(r"undo:\s+\x1b\[1mkafkalog undo \S+ \S+\x1b\[0m\n", shown)


def test_help_fits_a_terminal():
    for columns in (60, 80, 200):
        shown = ESCAPE.sub("", screen("recover", "--help", columns=columns)[1])
        widest = max(map(len, shown.splitlines()))
        assert min(columns, 80) - 12 < widest <= min(columns, 80)


def test_no_control_character_of_a_name_reaches_the_terminal(tmp_path):
    folder = tmp_path / "evil\x1b[2J-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(b"\0" * 100)
    shown = screen("verify", tmp_path)[1]
    assert "\x1b[2J" not in shown
    assert "evil\\x1b[2J-0" in shown


def test_no_control_character_of_a_record_that_dump_log_prints_reaches_the_terminal():
    argv, shown, piped = ["dump-log", str(ROOT / EXAMPLE / "mixed-0"), "--print-data-log"], Terminal(), io.BytesIO()
    assert run(argv, Environment(stdout=shown)) == run(argv, Environment(stdout=piped)) == 0
    assert "and\\ttab" in shown.getvalue().decode()
    assert (b"\t" in shown.getvalue(), b"\t" in piped.getvalue()) == (False, True)


def shown_by(argv, columns, monkeypatch):
    """The lines without colours that a terminal of `columns` shows, of stdout and stderr."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm-256color")
    both = Terminal()
    code = run(argv, Environment(both, both, terminal=None, now_ms=lambda: NOW_MS, clock=lambda: 0.0))
    assert code in (0, 3, 4, 5, 10)
    return [ESCAPE.sub("", line.rpartition("\r\x1b[K")[2]) for line in both.getvalue().decode().splitlines()]


NOW_MS = int(time.time() * 1000) + 86_400_000
"""A time after those of all files, which the writers ask for, however long the tests before these take."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """The log directory of `kafkalog demo`, in a directory where it is named shop."""
    folder = tmp_path_factory.mktemp("demo")
    silent = Environment(io.BytesIO(), io.BytesIO(), now_ms=lambda: NOW_MS)
    assert run(["demo", str(folder / "shop")], silent) == 0
    return folder


COMMANDS = (
    *("ls shop", "ls shop --segments", "ls shop --topics --freeable", "stats shop", "groups shop", "transactions shop"),
    *("cluster shop", "doctor shop", "verify shop", "verify shop -v --level deep", "recover shop --dry-run --verbose"),
    *("retain shop --dry-run --explain", "compact shop --dry-run --estimate", "roll shop --dry-run --force"),
    *("truncate shop/orders-0 --to 300 --single-replica --dry-run", "purge shop --dry-run", "verify shop --topic ord"),
    *(
        "undo shop 20261121T131034.088Z-recover-91ac",
        "lookup-time shop --topic orders -2h --now 2026-11-23T14:00:00Z",
        "help",
        "help compact",
    ),
)
BARS = re.compile("[▁▂▃▄▅▆▇█|]+")


def words_of(lines):
    """Whole words; a number and its unit are one."""
    text = BARS.sub(" ", "\n".join(lines))
    return set(re.findall(r"\d+ (?:ms|bytes|KiB)\b|[^ \n]+", re.sub(r"`[^`]*`", " ", text)))


@pytest.mark.exhaustive
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("columns", [60, 80])
def test_a_narrow_terminal_shows_whole_words_within_its_width(command, columns, shop, monkeypatch):
    """All of its words are on a very wide terminal too. Only a command to paste, or a path alone, is wider than it."""
    monkeypatch.chdir(shop)
    narrow, wide = (shown_by(command.split(), width, monkeypatch) for width in (columns, 400))
    hint = {"column", "columns", "does", "do", "not", "fit:", "add", "to", "print", "all", *map(str, range(20))}
    assert words_of(narrow) - words_of(wide) <= hint | {"\\"}
    for line in narrow:
        is_command = re.search(r"`kafkalog [^`]*`|^ *(kafkalog|kafka-[a-z]+\.sh) ", line)
        assert len(line) <= columns or is_command or " " not in line.strip(), line
