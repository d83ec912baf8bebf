"""Damage as a value: what is wrong with the bytes, and where."""

from enum import Enum, unique
from typing import TYPE_CHECKING, Annotated, NamedTuple

from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.results import Hidden

if TYPE_CHECKING:
    from kafkalog_cli.format.batch import Batch


@unique
class FaultKind(Enum):
    """The kind of damage. The value is the word in JSON output."""

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
    """One fact about damage, without advice (`ops.check.checks.diagnose` turns it into a finding).

    `position` is in bytes from the start of the file. `size_bytes` is the known extent of the damage in bytes, 0 if
    unknown. `expected` and `got` are text for the user. `base_offset` and `last_offset` are the affected offsets, -1 if
    unknown. `is_accepted`: a broker works with the value, which Kafka does not write.
    """

    kind: FaultKind
    position: Annotated[int, "the byte of the file"]
    message: str
    size_bytes: Hidden[int] = 0
    expected: Hidden[str] = ""
    got: Hidden[str] = ""
    base_offset: Hidden[int] = -1
    last_offset: Hidden[int] = -1
    is_accepted: Hidden[bool] = False


def incomplete_batch(position: int, size_bytes: int) -> Fault:
    """Return the fault of a segment whose last `size_bytes` bytes, from `position` on, are too few for a batch."""
    what = "the last byte is" if size_bytes == 1 else f"the last {size_bytes} bytes are"
    message = f"{what} an incomplete batch"
    return Fault(FaultKind.TRAILING_BYTES, position, message, size_bytes, "a batch", f"{size_bytes} bytes")


def unreadable(error: KafkalogError | OSError) -> Fault:
    """Return the fault for an error that `open_read` or `read_all` raised."""
    if isinstance(error, KafkalogError):
        reason = str(error.details.get("reason", "it is no longer there"))
    else:
        reason = error.strerror or str(error)
    return Fault(FaultKind.UNREADABLE, 0, f"cannot be read: {reason}")


def fault_of(batch: "Batch", kind: FaultKind, message: str) -> Fault:
    """Return a fault that concerns the whole of a batch."""
    first, last = batch.base_offset, batch.last_offset
    return Fault(kind, batch.position, message, batch.size_bytes, base_offset=first, last_offset=last)


def malformed_line(position: int, raw: bytes) -> Fault:
    """Return the fault of a line of text at a byte of a file."""
    message = f"malformed line: {raw[:200].decode(errors='backslashreplace')}"
    return Fault(FaultKind.INVALID_ENTRY, position, message, len(raw))
