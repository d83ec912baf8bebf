"""Peak memory of commands: each runs in a fork of one Python, whose peak the kernel reports when it ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from tests.support.product import IN_A_PROCESS

BOMBS = 68
"""Tests in test_bombs.py and test_memory*.py; row R9 of support/evidence.py counts them."""
LARGE_FILE_RUNS = 58
"""Tests in test_large_files.py; row R9b counts them."""
COMMANDS = 39
"""Tests in test_memory_of_commands.py; row R9c counts them."""

_FORKS = f"""
import os, sys
{IN_A_PROCESS}
for line in sys.stdin.read().splitlines():
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os._exit(run(line.split(chr(9)), Environment()))
    _, status, used = os.wait4(child, 0)
    print(os.waitstatus_to_exitcode(status), used.ru_maxrss >> 10, flush=True)
"""


class Peak(NamedTuple):
    """The exit code of a command, and its peak memory, Python's own included."""

    code: int
    mebibytes: int


def peaks(commands: Sequence[Sequence[str]]) -> list[Peak]:
    """Run command lines with the plain kernels, their results going nowhere."""
    lines = "\n".join("\t".join(command) for command in commands)
    done = subprocess.run(
        [sys.executable, "-c", _FORKS], input=lines, text=True, capture_output=True, check=True, timeout=1200
    )
    return [Peak(*map(int, line.split())) for line in done.stdout.splitlines()]
