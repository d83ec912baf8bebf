"""The range of records that a read takes from the selected partitions, from its options.

Filters of a query are not pushed down. PySpark (4.3.0 at least) stores the filters that a reader accepted on the data
source, and all scans of one `load()` share it. So the filter of one scan would remove rows from another. Options belong
to one `load()`.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from kafkalog_cli.errors import UsageError
from kafkalog_cli.ops.time_spec import parse_time_ms

OF_RECORDS = ("fromOffset", "toOffset", "since", "until")

_OFFSET = re.compile(r"\d{1,19}")
_MOST = (1 << 63) - 1
_AGO = re.compile(r"-.*[a-z]")


class RecordRange(NamedTuple):
    """The wanted offsets and times (epoch ms) of records, the same for every partition.

    `from_offset` and `since_ms` are inclusive, `to_offset` and `until_ms` exclusive; None: open.
    """

    from_offset: int = 0
    to_offset: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the range contains no time. (Offsets are compared with those of each log.)"""
        return self.since_ms is not None and self.until_ms is not None and self.since_ms >= self.until_ms

    def options(self) -> dict[str, str]:
        """Return the options that select this range."""
        values = {**dict(zip(OF_RECORDS, self, strict=True)), "fromOffset": self.from_offset or None}
        return {name: str(value) for name, value in values.items() if value is not None}


def range_of(options: dict[str, str]) -> RecordRange:
    """Return the range that the options select; their names are in lower case. Raises UsageError."""
    return RecordRange(
        _offset(options, "fromOffset") or 0,
        _end(_offset(options, "toOffset")),
        _time_ms(options, "since"),
        _end(_time_ms(options, "until")),
    )


def keys_of(options: dict[str, str]) -> frozenset[bytes] | None:
    """Return the keys of the option `keys`, a JSON list of strings; None without it. Raises UsageError."""
    text = options.get("keys")
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not found or not all(isinstance(one, str) for one in found):
        raise UsageError(reason=f'keys is a JSON list of texts, e.g. ["order-17"], not {text}')
    return frozenset(one.encode("utf-8", "surrogatepass") for one in found)


def _offset(options: dict[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    if not _OFFSET.fullmatch(text.strip()):
        raise UsageError(reason=f"{name} is an offset, a number from 0 on, not {text}")
    return int(text)


def _end(value: int | None) -> int | None:
    """Return None (open) for an exclusive end above every 64-bit number."""
    return None if value is not None and value > _MOST else value


def _time_ms(options: dict[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    # A relative time would change each time that Spark plans the read.
    if _AGO.fullmatch(text.strip()):
        raise UsageError(reason=f"{name} is a time in epoch ms or ISO 8601, not {text}")
    return parse_time_ms(text.strip(), now_ms=0)
