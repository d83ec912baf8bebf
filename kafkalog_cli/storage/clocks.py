"""What the clock on the wall says. Tests, and `--now`, hand in another clock."""

from __future__ import annotations

import time


def wall_clock_ms() -> int:
    """Epoch milliseconds."""
    return time.time_ns() // 1_000_000
