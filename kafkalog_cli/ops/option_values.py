"""Times and sizes on the command line: epoch ms, ISO 8601 or a span before now; bytes with a unit; the clock."""

import re
import time
from typing import NamedTuple

from kafkalog_cli.errors import UsageError

_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# Patterns as text: few runs need one, and to compile all takes a hundredth of a small dump.
_AGO = r"-(\d{1,12})([smhd])"
_SECONDS = r"\d{1,12}(\.\d{1,9})?"
_INTEGER = r"-?\d{1,19}"
_BASIC_DATE = r"((?:19[7-9]|2[01]\d)\d)(0[1-9]|1[0-2])([0-2]\d|3[01])"
_BASIC_TIME = r"([T ]\d\d)(\d\d)(\d\d)?"
_DIGITS_OF_DATE = rf"(?:{_BASIC_DATE}(?:[01]\d|2[0-3])[0-5]\d(?:[0-5]\d)?|(?:19[7-9]|2[01]\d)\d(?:0[1-9]|1[0-2])?)"
"""A year, a month, or date and time without the T of ISO 8601: as milliseconds no clock ever showed them."""
_NO_DATE = r"(?:19[7-9]|2[01]\d)\d{5}"
"""Eight digits with a year at their begin. They are no date if their month or day is none: 20261326."""


MAX_MS = 253_402_300_799_999
"""The end of the year 9999, the last that `datetime` can represent."""


def iso_time(timestamp_ms: int) -> str:
    """Return epoch ms as ISO 8601 in UTC; the number itself before 1970 and after the year 9999."""
    if not 0 <= timestamp_ms <= MAX_MS:
        return str(timestamp_ms)
    from datetime import datetime, timezone

    seconds, milliseconds = divmod(timestamp_ms, 1000)
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"


def time_words(timestamp_ms: int) -> str:
    """Return epoch ms as ISO 8601 followed by the number, as in messages."""
    time, number = iso_time(timestamp_ms), str(timestamp_ms)
    return number if time == number else f"{time} ({number})"


def parse_time_ms(text: str, now_ms: int) -> int:
    """Parse an integer as epoch ms, ISO 8601 (UTC without a zone), or `-90s -15m -2h -7d` before now, into epoch ms.

    Eight digits that are a date are ISO 8601 too: 20261126. Raises UsageError.
    """
    text = text.strip()
    ago = re.fullmatch(_AGO, text)
    if ago:
        return now_ms - int(ago[1]) * _UNIT_MS[ago[2]]
    if re.fullmatch(_DIGITS_OF_DATE, text):
        day = f"{text[:8]}T{text[8:]}" if text[6:] else f"{text[:4]}-{text[4:] or '01'}-01"
        raise UsageError(reason=f"{text} is a date or milliseconds: write {day}, or {iso_time(int(text))}")
    if re.fullmatch(_NO_DATE, text) and not is_date(text):
        reason = f"{text!r} is not a time: no date has this month or day; as milliseconds write {iso_time(int(text))}"
        raise UsageError(reason=reason)
    if re.fullmatch(_INTEGER, text) and not is_date(text):
        return int(text)
    from datetime import datetime, timezone

    # Before Python 3.11, fromisoformat accepts neither Z nor the basic format.
    extended = re.sub("[Zz]$", "+00:00", text)
    date = re.match(_BASIC_DATE, extended)
    if date:
        rest = re.sub(_BASIC_TIME, lambda part: ":".join(filter(None, part.groups())), extended[date.end() :], count=1)
        extended = "-".join(date.groups()) + re.sub(r"([+-]\d\d)(\d\d)$", r"\1:\2", rest)
    try:
        moment = datetime.fromisoformat(extended)
    except ValueError as error:
        reason = f"{text!r} is not a time: give epoch ms, ISO 8601, or -90s, -15m, -2h, -7d"
        raise UsageError(reason=reason) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    since_epoch = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return since_epoch.days * 86_400_000 + since_epoch.seconds * 1_000 + since_epoch.microseconds // 1_000


def is_date(text: str) -> bool:
    """Whether digits are a date in the basic format of ISO 8601, such as 20261126."""
    return re.fullmatch(_BASIC_DATE, text) is not None


def parse_clock_ms(text: str, now_ms: int) -> int:
    """Parse the time of --now as `parse_time_ms` does. Raises UsageError, also for a time that no clock has."""
    clock_ms = parse_time_ms(text, now_ms)
    if not 0 <= clock_ms < 1 << 63:
        raise UsageError(reason=f"--now {text} is not the time of a clock: it is before 1970, or has more than 64 bits")
    return clock_ms


class UnitDoubt(NamedTuple):
    """A time in epoch ms that looks like another unit. `message` says both readings, `meant_ms` is the second."""

    message: str
    meant_ms: int


def unit_doubt(text: str) -> UnitDoubt | None:
    """Return the probable meaning of an integer that is no probable number of milliseconds, None for any other text."""
    from kafkalog_cli.ops.timestamp_units import OTHER_UNITS, other_unit_of

    number = int(text) if re.fullmatch(_INTEGER, text.strip()) else 0
    unit = other_unit_of(number)
    if unit is None:
        return None
    first_second = OTHER_UNITS[0][1]
    per_second = next(first for known, first, _ in OTHER_UNITS if known is unit) // first_second
    meant_ms, time = number * 1000 // per_second, iso_time(number)
    when = "a time after the year 9999" if time == str(number) else time
    taken = f"{number} is taken as milliseconds since 1970, which is {when}"
    return UnitDoubt(f"{taken}. It seems to be {unit.value}, which is {iso_time(meant_ms)}", meant_ms)


def days_in_seconds(text: str) -> int | None:
    """Return whole days if a number of milliseconds is probably a number of seconds; else None.

    In milliseconds it would be an odd part of a day: 604800 is 7 days in seconds, but 10 min 4.8 s in milliseconds. A
    whole number of minutes may be intended (43200000: 12 hours, or 500 days in seconds).
    """
    number = int(text) if re.fullmatch(_INTEGER, text) else 0
    day_s = _UNIT_MS["d"] // 1000
    if number <= 0 or number % day_s or number >= _UNIT_MS["d"] or not number % _UNIT_MS["m"]:
        return None
    return number // day_s


def parse_duration_ms(text: str) -> int:
    """Parse `90s`, `15m`, `2h` or `7d` into milliseconds. Raises UsageError."""
    ago = re.fullmatch(_AGO, f"-{text}")
    if not ago:
        raise UsageError(reason=f"{text!r} is not a duration: give 90s, 15m, 2h, 7d")
    return int(ago[1]) * _UNIT_MS[ago[2]]


def parse_seconds(text: str) -> float:
    """Parse `90s`, `15m`, `2h`, `7d`, or a number of seconds into seconds. Raises UsageError."""
    if re.fullmatch(_SECONDS, text):
        return float(text)
    return parse_duration_ms(text) / 1000


_UNIT_BYTES = {
    "": 1,
    **{unit: 1000**power for power, unit in enumerate(("kb", "mb", "gb", "tb"), 1)},
    **{unit: 1024**power for power, unit in enumerate(("kib", "mib", "gib", "tib"), 1)},
}
_SIZE = r"(\d{1,19}(?:\.\d{1,9})?(?:[eE]\+?\d{1,2})?) ?([A-Za-z]*)"


def parse_size_bytes(text: str) -> int:
    """Parse `1048576`, `1e6`, `50MiB` (1024) or `50MB` (1000) into bytes. Raises UsageError."""
    match = re.fullmatch(_SIZE, text)
    unit = None if match is None else _UNIT_BYTES.get(match[2].lower())
    if match is None or unit is None:
        raise UsageError(
            reason=f"{text!r} is not a size: give bytes, or a number with kB, MB, GB, TB, KiB, MiB, GiB or TiB"
        )
    number = match[1]
    return int(number) * unit if number.isdigit() else int(float(number) * unit)


def wall_clock_ms() -> int:
    """Return the current time in epoch milliseconds."""
    return time.time_ns() // 1_000_000


class Clock(NamedTuple):
    """The current time in epoch milliseconds, and whether the command line sets it (`--now`)."""

    now_ms: int
    is_given: bool = False
