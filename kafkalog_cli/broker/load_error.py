"""Errors that interrupt a broker's loading of a partition."""

from typing import NamedTuple

from kafkalog_cli.format.fault import Fault


class Rebuilt(NamedTuple):
    """Contents for the indexes of a segment, rebuilt from its log up to byte `valid_bytes`.

    `end_offset` is the offset after the last v2 batch, None if there is none.
    """

    valid_bytes: int
    end_offset: int | None
    offset_index: bytes
    time_index: bytes
    txn_index: bytes


NOTHING_REBUILT = Rebuilt(0, None, b"", b"", b"")


class LoadFailed(Exception):
    """A broker's loading of the partition fails; `java_class` is the simple name of the Java exception.

    Changes that the broker made before the failure remain.
    """

    def __init__(self, java_class: str, reason: str) -> None:
        self.java_class = java_class
        self.reason = reason
        super().__init__(f"{java_class}: {reason}")


def cannot_read(name: str, fault: Fault) -> LoadFailed:
    """Return the failure of a broker that cannot read bytes of the file `name`.

    FileLogInputStream and FileChannelRecordBatch wrap the IOException in a KafkaException, so the broker does not
    take the log directory offline.
    """
    return LoadFailed("KafkaException", f"{name}: bytes from {fault.position} on {fault.message}")


class InvalidOffset(Exception):
    """The offset of an index entry would not ascend; recovery then empties the segment.

    `rebuilt` has the contents rebuilt until then. `is_at_close`: the entry is the last of the time index, which is
    added after the invalid bytes of the log are cut.
    """

    rebuilt = NOTHING_REBUILT
    is_at_close = False


class SegmentOverflow(Exception):
    """The segment with `base_offset` contains an offset that its indexes cannot express (KAFKA-6264).

    `rebuilt` has the contents that recovery had rebuilt until then.
    """

    rebuilt = NOTHING_REBUILT

    def __init__(self, base_offset: int, offset: int) -> None:
        self.base_offset = base_offset
        self.offset = offset
        super().__init__(f"offset {offset} in segment {base_offset}")
