"""The versions of kafka-dump-log that `dump-log` can mirror."""

from __future__ import annotations

import re
from enum import Enum

from kafkalog_cli.errors import UsageError
from kafkalog_cli.format.internal_topics.schema import Release

_RELEASE = re.compile(r"(\.[0-9]+)?", re.ASCII)


class DumpVersion(str, Enum):
    """A version of kafka-dump-log, named by the Kafka release that changed its text.

    Kafka 4.3 rewrote the tool in Java (org.apache.kafka.tools.DumpLogSegments).
    """

    V4_2 = "4.2"
    V4_3 = "4.3"

    @property
    def release(self) -> str:
        """The release that the text is compared with; the tool's own --version prints it."""
        return "4.2.0" if self is DumpVersion.V4_2 else "4.3.1"

    @property
    def schemas(self) -> Release:
        """The release whose message schemas decode the records of internal topics."""
        return (4, 2) if self is DumpVersion.V4_2 else (4, 3)

    @property
    def is_scala(self) -> bool:
        """Whether the tool is the Scala tool (kafka.tools.DumpLogSegments), up to Kafka 4.2."""
        return self is DumpVersion.V4_2


NEWEST = DumpVersion.V4_3


def dump_version(text: str) -> DumpVersion:
    """Return the version of a name or a release such as 4.2.0. Raises UsageError."""
    for version in DumpVersion:
        if text.startswith(version.value) and _RELEASE.fullmatch(text, len(version.value)):
            return version
    known = " and ".join(version.value for version in DumpVersion)
    raise UsageError(reason=f"--kafka-version {text}: dump-log has the texts of {known}")
