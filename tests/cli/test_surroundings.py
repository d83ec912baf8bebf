"""Variables of the environment that are for other programs, terminals without styles."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "example"
LOG = EXAMPLE / "mixed-0" / "00000000000000000000.log"
PLAIN = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}


def kafkalog(*argv, **variables):
    """What a process of its own prints; nothing may go to stderr."""
    command = [sys.executable, "-m", "kafkalog_cli", *map(str, argv)]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, env={**PLAIN, **variables}, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["force", "auto", "never", "none", "garbage", ""])
def test_the_variable_of_the_crc_package_is_for_others(mode):
    command = ("dump-log", "--deep-iteration", LOG)
    assert kafkalog(*command, CRC32C_SW_MODE=mode) == kafkalog(*command)


def on_a_terminal(*argv, **variables):
    """All that a command prints where standard output and error are a terminal."""
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(ROOT)
        os.execve(sys.executable, [sys.executable, "-m", "kafkalog_cli", *map(str, argv)], {**PLAIN, **variables})
    said = b""
    while True:
        try:
            part = os.read(terminal, 1 << 16)
        except OSError:
            break
        if not part:
            break
        said += part
    os.waitpid(pid, 0)
    os.close(terminal)
    return said


ASKED = [["ls", EXAMPLE], ["verify", EXAMPLE], ["ls", "--nonsense"]]


@pytest.mark.exhaustive
@pytest.mark.parametrize("argv", ASKED, ids=lambda argv: str(argv[-1]).rpartition("/")[2])
@pytest.mark.parametrize(
    "variables",
    [{"NO_COLOR": "1"}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": "unknown"}],
    ids=str,
)
def test_a_terminal_without_styles_gets_none(argv, variables):
    """Bold and dim are styles too."""
    styled = on_a_terminal(*argv, TERM="xterm-256color")
    plain = on_a_terminal(*argv, **{"TERM": "xterm-256color", **variables})
    assert b"\x1b" not in plain
    assert len(plain) > 60
    assert b"\x1b" in styled


def test_a_width_that_is_no_number_is_none():
    assert b"Usage" in kafkalog("--help", TERMINAL_WIDTH="wide")
