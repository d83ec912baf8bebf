"""Parse a line of JSON whose objects fit in memory: Python needs up to 30 times the bytes of the text for them."""

from __future__ import annotations

import json
import re
from typing import Any

from kafkalog_cli.format.limits import (
    MEBIBYTE,
    MOST_JSON_LINE_BYTES,
    MOST_JSON_LINE_VALUES,
    MOST_WIDE_JSON_LINE_BYTES,
)

SMALL_BYTES = 4 * MEBIBYTE
"""No line of this size needs much memory, whatever it holds."""
_WIDE = re.compile(rb"\\u(?!00)")
"""The escape of a character that makes Python's text take two or four bytes per character."""
_STRUCTURE = (b",", b"[", b"{")


LINES_HINT = "--input lines reads each line as a value"


class RepeatedName(ValueError):
    """An object of a line has a name twice: which of its values is meant cannot be known."""


def parse_json_line(line: bytes) -> Any:
    """Return the value of a line.

    Raises ValueError if it is not JSON, or as `check_json_line` does, and RepeatedName.
    """
    check_json_line(line)
    try:
        return json.loads(line, object_pairs_hook=_object)
    except RepeatedName:
        raise
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"no JSON: {error}; {LINES_HINT}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise RepeatedName(f"an object has the name {twice[:80]!r} twice: which value is meant is not known")
    return found


def check_json_line(line: bytes) -> None:
    """Raise ValueError for a line that is too long, or that has too many values, to be parsed in bounded memory."""
    if len(line) <= SMALL_BYTES:
        return
    if len(line) > MOST_JSON_LINE_BYTES:
        raise ValueError(f"it has more than {MOST_JSON_LINE_BYTES} bytes, the most of a line of NDJSON that are read")
    if len(line) > MOST_WIDE_JSON_LINE_BYTES and (not line.isascii() or _WIDE.search(line)):
        most = f"{MOST_WIDE_JSON_LINE_BYTES} bytes, the most of a line with characters that are not ASCII"
        raise ValueError(f"it has more than {most}")
    if _has_many_values(line):
        most = f"{MOST_JSON_LINE_VALUES} values, the most of a line of NDJSON that are read"
        raise ValueError(f"it has more than {most}")


def _has_many_values(line: bytes) -> bool:
    unescaped = line.replace(rb"\\", b"").replace(rb"\"", b"")  # now each quote begins or ends a string
    if unescaped.count(b'"') > 4 * MOST_JSON_LINE_VALUES:  # a name and a string for each value
        return True
    outside = unescaped.split(b'"')[::2]
    return sum(part.count(mark) for part in outside for mark in _STRUCTURE) > MOST_JSON_LINE_VALUES
