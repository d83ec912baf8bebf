"""Rows of RecordColumns as the plain kernels find them, and how many make a part of a large batch."""

from __future__ import annotations

from kafkalog_cli.format.fault import Fault

Row = tuple[int, ...]
"""In the order of RecordColumns."""

PART_RECORDS = 1 << 15
"""Records of one batch that are read at a time: 7 bytes make one, so that a small batch may have many millions."""

Part = tuple[list[Row], Fault | None]
"""Records of a batch, in order; the last part says what is wrong with it."""
