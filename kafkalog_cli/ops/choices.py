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
