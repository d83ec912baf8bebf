"""Times of Python programs: datetimes or epoch milliseconds."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)


def epoch_ms(time: int | datetime | None) -> int | None:
    """Return epoch milliseconds; a datetime without a zone is UTC. None stays None."""
    if not isinstance(time, datetime):
        return time
    zoned = time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)
    return (zoned - _EPOCH) // _MILLISECOND
