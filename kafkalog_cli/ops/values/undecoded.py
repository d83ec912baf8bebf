"""Counts keys and values that were not decoded, by reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kafkalog_cli.errors import counted

_MOST_REASONS = 20
"""The most reasons that are kept for each partition; further reasons are counted."""


class Failures(NamedTuple):
    """Keys or values that were not decoded for one reason: how many, and the first offset."""

    what: str
    reason: str
    first_offset: int
    records: int

    @property
    def message(self) -> str:
        """The warning about them."""
        if self.first_offset < 0:
            return f"{counted(self.records, 'key or value is', 'keys or values are')} not decoded for other reasons"
        first = "" if self.records == 1 else f" and {self.records - 1} more"
        verb = "is" if self.records == 1 else "are"
        return f"the {self.what} of offset {self.first_offset}{first} {verb} not decoded: {self.reason}"


@dataclass(slots=True)
class UndecodedCounts:
    """Counts contents that were not decoded."""

    _counts: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    _others: int = 0

    def add(self, what: str, reason: str, offset: int) -> None:
        """Count the key or value (`what`) of a record."""
        place = (what, reason)
        if place in self._counts:
            self._counts[place][1] += 1
        elif len(self._counts) < _MOST_REASONS:
            self._counts[place] = [offset, 1]
        else:
            self._others += 1

    def failures(self) -> list[Failures]:
        """Return the counts so far, by reason, and forget them."""
        found = [Failures(what, reason, *numbers) for (what, reason), numbers in self._counts.items()]
        if self._others:
            found.append(Failures("contents", "other reasons", -1, self._others))
        self._counts, self._others = {}, 0
        return found
