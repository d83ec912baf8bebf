"""Damage as a value: what a reader met that is not as the format says, and where."""

from __future__ import annotations

from enum import Enum, unique
from typing import NamedTuple


@unique
class FaultKind(Enum):
    """What is wrong. The value is the word that machine output uses."""

    # the chain of batches
    TRAILING_BYTES = "trailing-bytes"
    SIZE_TOO_SMALL = "size-too-small"
    HEADER_CUT_OFF = "header-cut-off"
    BATCH_TOO_LARGE = "batch-too-large"
    UNREADABLE = "unreadable"
    # one batch
    INVALID_MAGIC = "invalid-magic"
    UNKNOWN_CODEC = "unknown-codec"
    CRC_MISMATCH = "crc-mismatch"
    INVALID_COUNT = "invalid-count"
    INVALID_RECORD = "invalid-record"
    RECORDS_REMAINING = "records-remaining"
    DECOMPRESSION_FAILED = "decompression-failed"
    OUTPUT_TOO_LARGE = "output-too-large"
    INVALID_INNER_MESSAGE = "invalid-inner-message"
    INVALID_CONTROL_RECORD = "invalid-control-record"
    # files with a fixed layout
    MISSING = "missing"
    INVALID_LENGTH = "invalid-length"
    INVALID_ENTRY = "invalid-entry"
    INVALID_VERSION = "invalid-version"


class Fault(NamedTuple):
    """One fact about damage, without advice (`actions.diagnose` turns it into a finding).

    `position` is in bytes from the start of the file, `size_bytes` how far the damage is known to
    reach (0: unknown). `expected` and `got` are for people. `base_offset` and `last_offset` are the
    offsets concerned, -1 where not known.
    """

    kind: FaultKind
    position: int
    message: str
    size_bytes: int = 0
    expected: str = ""
    got: str = ""
    base_offset: int = -1
    last_offset: int = -1
