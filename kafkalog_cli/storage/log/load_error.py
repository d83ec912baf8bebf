"""What keeps a broker from loading a partition."""

from __future__ import annotations

from typing import NamedTuple

from kafkalog_cli.format.fault import Fault


class Rebuilt(NamedTuple):
    """What the log of a segment, up to byte `valid_bytes`, says that its indexes should hold."""

    valid_bytes: int
    end_offset: int | None
    offset_index: bytes
    time_index: bytes
    txn_index: bytes


NOTHING_REBUILT = Rebuilt(0, None, b"", b"", b"")


class LoadFailed(Exception):
    """A broker's loading of the partition ends with this: `java_class` is the exception's simple name.

    What the broker changed until then stays changed.
    """

    def __init__(self, java_class: str, reason: str) -> None:
        self.java_class = java_class
        self.reason = reason
        super().__init__(f"{java_class}: {reason}")


def cannot_read(name: str, fault: Fault) -> LoadFailed:
    """FileLogInputStream and FileChannelRecordBatch wrap an IOException, so that nobody takes the disk for bad."""
    return LoadFailed("KafkaException", f"{name}: bytes from {fault.position} on {fault.message}")


class InvalidOffset(Exception):
    """An index entry would not go up; recovery then empties the segment.

    `rebuilt` is what there was until then, `is_at_close`: it was the last entry, after what is not valid was cut.
    """

    rebuilt = NOTHING_REBUILT
    is_at_close = False


class SegmentOverflow(Exception):
    """The segment with `base_offset` holds an offset that its indexes cannot express (KAFKA-6264).

    `rebuilt` is what recovery had made of it until then.
    """

    rebuilt = NOTHING_REBUILT

    def __init__(self, base_offset: int, offset: int) -> None:
        self.base_offset = base_offset
        self.offset = offset
        super().__init__(f"offset {offset} in segment {base_offset}")
