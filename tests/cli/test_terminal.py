"""Screens of a real terminal of 80 columns: words stay whole, colours have a meaning, and NO_COLOR has none."""

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

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
    return child.wait(60), shown.decode().replace("\r\n", "\n")


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
        assert min(columns, 100) - 12 < widest <= min(columns, 100)


def test_no_control_character_of_a_name_reaches_the_terminal(tmp_path):
    folder = tmp_path / "evil\x1b[2J-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(b"\0" * 100)
    shown = screen("verify", tmp_path)[1]
    assert "\x1b[2J" not in shown
    assert "evil\\x1b[2J-0" in shown
