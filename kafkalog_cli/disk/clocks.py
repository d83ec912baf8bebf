"""The wall clock. Tests and `--now` replace it by another clock."""

from __future__ import annotations

import time
from typing import NamedTuple


def wall_clock_ms() -> int:
    """Return the current time in epoch milliseconds."""
    return time.time_ns() // 1_000_000


class Clock(NamedTuple):
    """The current time in epoch milliseconds, and whether the command line sets it (`--now`)."""

    now_ms: int
    is_given: bool = False
