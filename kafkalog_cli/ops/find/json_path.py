"""Paths into a JSON value: names and indexes, as in `order.items[0].id` or `items[*]["unit price"]`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kafkalog_cli.errors import UsageError

LARGEST_JSON_BYTES = 4 << 20
"""A larger value is not parsed: Python needs many times its size for the objects in it."""

_STEP = re.compile(
    r"""\.?(?P<name>[^.\[\]"'=\s]+)|\[(?:(?P<index>-?\d+)|(?P<every>\*)|(?P<quoted>"(?:[^"\\]|\\.)*"))\]"""
)
_EVERY = ...

Step = Any
"""A name (text), an index (a number), or `...` for each element."""


@dataclass(frozen=True, slots=True)
class JsonCondition:
    """A condition on a JSON value: something is at the path; with `wanted`, it is equal to that text or JSON value."""

    steps: tuple[Step, ...]
    wanted: str | None = None

    def holds(self, data: bytes | memoryview) -> bool:
        """Whether these bytes are JSON and meet the condition. Large values do not: see LARGEST_JSON_BYTES."""
        if len(data) > LARGEST_JSON_BYTES:
            return False
        try:
            value = json.loads(bytes(data))
        except (ValueError, RecursionError):  # not JSON, not UTF-8, a number that is too long
            return False
        return self.holds_of(value)

    def holds_of(self, value: Any) -> bool:
        """Whether a JSON value meets the condition."""
        return any(self.wanted is None or _is_equal(found, self.wanted) for found in _at(value, self.steps))


def parse_json_condition(text: str) -> JsonCondition:
    """Return the condition of PATH or PATH=VALUE. Raises UsageError."""
    at = 2 if text.startswith("$.") else 1 if text.startswith(("$[", "$=")) or text == "$" else 0
    steps: list[Step] = []
    while at < len(text) and text[at] != "=":
        found = _STEP.match(text, at)
        if found is None:
            raise UsageError(reason=f"--json {text}: a path is names and indexes, such as order.items[0].id or [*].id")
        steps.append(_step(found))
        at = found.end()
    if not steps and not text.startswith("$"):
        raise UsageError(reason=f"--json {text}: there is no path before the value; $ is the whole value")
    return JsonCondition(tuple(steps), text[at + 1 :] if at < len(text) else None)


def _step(found: re.Match[str]) -> Step:
    if found["name"] is not None:
        return found["name"]
    if found["index"] is not None:
        return int(found["index"])
    return _EVERY if found["every"] else json.loads(found["quoted"])


def _at(value: Any, steps: tuple[Step, ...]) -> Iterator[Any]:
    for number, step in enumerate(steps):
        if step is _EVERY:
            for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
                yield from _at(one, steps[number + 1 :])
            return
        if isinstance(step, str):
            if not isinstance(value, dict) or step not in value:
                return
            value = value[step]
        else:
            if not isinstance(value, list) or not -len(value) <= step < len(value):
                return
            value = value[step]
    yield value


def _is_equal(found: Any, wanted: str) -> bool:
    """Whether a JSON value is the wanted text, or equal to the JSON value that the text stands for."""
    if isinstance(found, str) and found == wanted:
        return True
    try:
        value = json.loads(wanted)
    except (ValueError, RecursionError):
        return False
    return bool(type(value) is type(found) or _are_numbers(value, found)) and bool(value == found)


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)
