"""The versions of Kafka whose tools and cleaner differ, apart from the schemas, which few dumps need."""

import re
from enum import Enum

from kafkalog_cli.errors import UsageError

_RELEASE = re.compile(r"(\.[0-9]+)?", re.ASCII)


class KafkaVersion(str, Enum):
    """A version of Kafka, named by the release that changed something.

    Kafka 4.3 rewrote kafka-dump-log in Java (org.apache.kafka.tools.DumpLogSegments). Since Kafka 4.4 the tool reads
    both bytes of a version in a transaction index, and prints the names of the states of transactional ids. Its cleaner
    keeps an empty batch only at the high watermark, not at the end of each round.
    """

    V4_2 = "4.2"
    V4_3 = "4.3"
    V4_4 = "4.4"

    @property
    def release(self) -> str:
        """The release that is compared with; the tool's own --version prints it."""
        return {"4.2": "4.2.0", "4.3": "4.3.1", "4.4": "4.4.0"}[self.value]

    @property
    def schemas(self) -> tuple[int, int]:
        """The release whose message schemas decode the records of internal topics."""
        major, minor = map(int, self.value.split("."))
        return major, minor

    @property
    def is_scala(self) -> bool:
        """Whether the tool is the Scala tool (kafka.tools.DumpLogSegments), up to Kafka 4.2."""
        return self is KafkaVersion.V4_2

    @property
    def is_before_4_4(self) -> bool:
        """Whether tool and cleaner are as they were before Kafka 4.4."""
        return self is not KafkaVersion.V4_4


NEWEST = KafkaVersion.V4_4


def kafka_version_of(text: str) -> KafkaVersion:
    """Return the version of a name or a release such as 4.2.0. Raises UsageError."""
    for version in KafkaVersion:
        if text.startswith(version.value) and _RELEASE.fullmatch(text, len(version.value)):
            return version
    known = ", ".join(version.value for version in KafkaVersion)
    raise UsageError(reason=f"--kafka-version {text}: the known versions are {known}")
