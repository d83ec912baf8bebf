"""The wall clock. Tests and `--now` replace it by another clock."""

from __future__ import annotations

import time


def wall_clock_ms() -> int:
    """Return the current time in epoch milliseconds."""
    return time.time_ns() // 1_000_000
