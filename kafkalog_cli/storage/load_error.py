"""What keeps a broker from loading a partition."""

from __future__ import annotations


class LoadFailed(Exception):
    """A broker's loading of the partition ends with this: `java_class` is the exception's simple name.

    What the broker changed until then stays changed.
    """

    def __init__(self, java_class: str, reason: str) -> None:
        self.java_class = java_class
        self.reason = reason
        super().__init__(f"{java_class}: {reason}")


class InvalidOffset(Exception):
    """An index entry would not go up; recovery then empties the segment."""


class SegmentOverflow(Exception):
    """The segment with `base_offset` holds an offset that its indexes cannot express (KAFKA-6264)."""

    def __init__(self, base_offset: int, offset: int) -> None:
        self.base_offset = base_offset
        self.offset = offset
        super().__init__(f"offset {offset} in segment {base_offset}")
