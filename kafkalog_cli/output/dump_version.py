"""The versions of kafka-dump-log between which the text of `dump-log` can be chosen."""

from __future__ import annotations

from enum import Enum


class DumpVersion(str, Enum):
    """A version of kafka-dump-log, named by the Kafka release that changed its text.

    Kafka 4.3 wrote the tool anew in Java (org.apache.kafka.tools.DumpLogSegments).
    """

    V4_2 = "4.2"
    V4_3 = "4.3"

    @property
    def release(self) -> str:
        """The release that the text is compared with; the tool's own --version prints it."""
        return "4.2.0" if self is DumpVersion.V4_2 else "4.3.1"

    @property
    def is_scala(self) -> bool:
        """Whether the tool is the Scala one (kafka.tools.DumpLogSegments), up to Kafka 4.2."""
        return self is DumpVersion.V4_2


NEWEST = DumpVersion.V4_3
