"""Rows of RecordColumns as the plain kernels return them, and the size of the parts of a large batch."""

from __future__ import annotations

from kafkalog_cli.format.fault import Fault

Row = tuple[int, ...]
"""The values of one record, in the order of RecordColumns."""
PART_RECORDS = 1 << 15
"""Number of records of one batch that are read at a time.

A record needs only 7 bytes, so that a small batch can contain many millions.
"""
Part = tuple[list[Row], Fault | None]
"""Records of a batch, in order. The last part has the batch's fault, if there is one."""
