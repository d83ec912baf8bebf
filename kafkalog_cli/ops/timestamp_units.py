"""Odd timestamps: in the future, below zero, or in another unit than milliseconds."""

from enum import Enum, unique

from kafkalog_cli.format.batch import NO_TIMESTAMP

TOLERATED_AHEAD_MS = 3_600_000
"""A clock that is wrong by less than an hour is not reported; message.timestamp.after.max.ms has the same default."""

_FIRST_SECOND, LAST_SECOND = 1_000_000_000, 4_200_000_000
"""The years 2001 to 2103, in seconds.

A number between them is not meant as milliseconds: these would be in January or February 1970.
"""


@unique
class TimestampOddity(Enum):
    """The oddity of a timestamp. The value is the phrase for messages."""

    FUTURE = "in the future"
    SECONDS = "in seconds"
    MICROSECONDS = "in microseconds"
    NANOSECONDS = "in nanoseconds"
    NEGATIVE = "below zero"


OTHER_UNITS = (
    (TimestampOddity.SECONDS, _FIRST_SECOND, LAST_SECOND),
    (TimestampOddity.MICROSECONDS, _FIRST_SECOND * 10**6, LAST_SECOND * 10**6),
    (TimestampOddity.NANOSECONDS, _FIRST_SECOND * 10**9, LAST_SECOND * 10**9),
)


def unit_of(timestamp_ms: int, now_ms: int) -> TimestampOddity | None:
    """Return what is odd about a timestamp, None if nothing is."""
    unit = other_unit_of(timestamp_ms)
    if unit is None and timestamp_ms > now_ms + TOLERATED_AHEAD_MS:
        return TimestampOddity.FUTURE
    return TimestampOddity.NEGATIVE if timestamp_ms < NO_TIMESTAMP else unit


def other_unit_of(timestamp_ms: int) -> TimestampOddity | None:
    """Return the unit that a timestamp seems to be in, None if that is milliseconds."""
    return next((unit for unit, first, end in OTHER_UNITS if first <= timestamp_ms < end), None)
