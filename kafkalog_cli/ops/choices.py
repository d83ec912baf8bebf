"""Choices with a name, which are values of options too: declaring an option must import little."""

from enum import Enum, unique


@unique
class Isolation(Enum):
    """Kafka's isolation.level."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


@unique
class Level(Enum):
    """How thorough a verification is."""

    QUICK = "quick"
    NORMAL = "normal"
    DEEP = "deep"


@unique
class DamageAnswer(Enum):
    """The answer of a fetch at damaged bytes. STOP answers an error, SKIP continues with the next good batch."""

    STOP = "stop"
    SKIP = "skip"


@unique
class SortKey(Enum):
    """The order of rows. Numbers are sorted from the largest to the smallest, equal numbers by name."""

    BY_NAME = "name"
    SIZE = "size"
    ALLOCATED = "allocated"
    SEGMENTS = "segments"
    FREEABLE = "freeable"


@unique
class Mode(Enum):
    """How a query handles unreadable records; the words are Spark's."""

    FAILFAST = "failfast"
    DROPMALFORMED = "dropmalformed"
    PERMISSIVE = "permissive"


@unique
class OnDamage(Enum):
    """How an export handles unreadable records; the words are Spark's."""

    FAILFAST = "failfast"
    DROPMALFORMED = "dropmalformed"


@unique
class Allowed(Enum):
    """A permission of a query, besides reading views."""

    FILES = "files"
    JAVA = "java"


@unique
class Hashing(Enum):
    """How a partition is chosen by the key, by librdkafka's names; murmur2_random is Kafka's default.

    With a name that ends in `random`, records without a key are spread; else they go where an empty key goes.
    """

    MURMUR2_RANDOM = "murmur2_random"
    MURMUR2 = "murmur2"
    CONSISTENT_RANDOM = "consistent_random"
    CONSISTENT = "consistent"
    CRC32 = "crc32"
    FNV1A_RANDOM = "fnv1a_random"
    FNV1A = "fnv1a"
    RANDOM = "random"

    def is_spread(self, key: bytes | None) -> bool:
        """Whether the key does not say the partition: librdkafka spreads empty keys only with CRC-32."""
        is_crc = self in (Hashing.CRC32, Hashing.CONSISTENT_RANDOM)
        return self is Hashing.RANDOM or (is_crc and not key) or (self.value.endswith("random") and key is None)
