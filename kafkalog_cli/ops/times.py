"""Times as programs give them, read by the parser of the command line."""

from __future__ import annotations

from datetime import date
from operator import index
from typing import TYPE_CHECKING, SupportsIndex

from kafkalog_cli.errors import UsageError
from kafkalog_cli.ops.log_warning import warn
from kafkalog_cli.ops.option_values import parse_time_ms, unit_doubt, wall_clock_ms

if TYPE_CHECKING:
    from typing import TypeAlias

Time: TypeAlias = int | str | date | None
"""A time: epoch ms, a text as on the command line (ISO 8601, -2h), or a date or datetime (without a zone: UTC)."""


def epoch_ms(time: Time, *, is_clock: bool = False) -> int | None:
    """Return epoch milliseconds; None stays None. Warns of an integer that seems to be in another unit.

    Raises UsageError for anything else than a time, and with `is_clock` for another unit.
    """
    if time is None:
        return None
    if isinstance(time, date):
        return parse_time_ms(time.isoformat(), 0)
    if isinstance(time, bool) or not isinstance(time, str | SupportsIndex):
        raise UsageError(reason=f"{time!r} is not a time: give epoch ms, ISO 8601, or a datetime")
    text = time if isinstance(time, str) else str(index(time))
    doubt = unit_doubt(text)
    if doubt is not None and is_clock:
        raise UsageError(reason=f"{doubt.message}: write {doubt.meant_ms}")
    if doubt is not None:
        warn(f"{doubt.message}: write {doubt.meant_ms}", None)
    return parse_time_ms(text, wall_clock_ms())
