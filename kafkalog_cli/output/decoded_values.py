"""DecodedContents keys and values in the output of records: as text, or in the member `decoded` of their objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, TypedDict

from kafkalog_cli.errors import counted
from kafkalog_cli.format.records import header_views, view_of
from kafkalog_cli.format.values.decoder import DecodedContents, Undecoded, ValueDecoder
from kafkalog_cli.output.ndjson import json_text
from kafkalog_cli.output.records import NotRequired

_MOST_REASONS = 20
"""The most reasons that are kept for each partition; further reasons are counted."""


class DecodedContentsObject(TypedDict):
    """A key or value that was decoded, or why it was not."""

    format: NotRequired[Annotated[str, "avro, protobuf, json or the name of another format"]]
    data: NotRequired[Annotated[Any, "the contents as JSON"]]
    schema_id: NotRequired[Annotated[int | None, "null for a schema of a file without an id"]]
    subject: NotRequired[str]
    version: NotRequired[int]
    error: NotRequired[Annotated[str, "why it was not decoded; the other members are absent"]]


class Failures(NamedTuple):
    """Keys or values that were not decoded for one reason: how many, and the first offset."""

    what: str
    reason: str
    first_offset: int
    records: int


@dataclass(slots=True)
class DecodedValues:
    """Decodes the records of one topic for output, and counts what was not decoded."""

    decoder: ValueDecoder
    topic: str
    _counts: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    _others: int = 0

    def failures(self) -> list[Failures]:
        """Return what was not decoded so far, by reason, and forget it."""
        found = [Failures(what, reason, *numbers) for (what, reason), numbers in self._counts.items()]
        if self._others:
            found.append(Failures("contents", "other reasons", -1, self._others))
        self._counts, self._others = {}, 0
        return found

    def json_object(self, buffer: memoryview, row: tuple[int, ...]) -> dict[str, DecodedContentsObject]:
        """Return the member `decoded`: key and value, as far as a decoder applies to them."""
        found = {}
        for what in ("key", "value"):
            decoded = self._decoded(what, buffer, row)
            if decoded is not None:
                found[what] = _object(decoded)
        return found

    def text(self, what: str, buffer: memoryview, row: tuple[int, ...]) -> str | None:
        """Return the key or value (`what`) as text; None if it is to be shown as it is stored."""
        found = self._decoded(what, buffer, row)
        if not isinstance(found, DecodedContents):
            return None
        return str(found.value) if found.is_text else json_text(found.value)

    def _decoded(self, what: str, buffer: memoryview, row: tuple[int, ...]) -> DecodedContents | Undecoded | None:
        key_at, key_size, value_at, value_size, headers_at, header_count = row[3:9]
        headers: Callable[[], Iterator[Any]] | None = None
        if header_count:
            headers = lambda: header_views(buffer, headers_at, header_count)  # noqa: E731
        if what == "key":
            found = self.decoder.key(self.topic, view_of(buffer, key_at, key_size), headers)
        else:
            found = self.decoder.value(self.topic, view_of(buffer, value_at, value_size), headers)
        if isinstance(found, Undecoded):
            self._count(what, found.reason, row[0])
        return found

    def _count(self, what: str, reason: str, offset: int) -> None:
        place = (what, reason)
        if place in self._counts:
            self._counts[place][1] += 1
        elif len(self._counts) < _MOST_REASONS:
            self._counts[place] = [offset, 1]
        else:
            self._others += 1


def failure_message(failures: Failures) -> str:
    """Return the warning about keys or values that were not decoded."""
    if failures.first_offset < 0:
        return f"{counted(failures.records, 'key or value is', 'keys or values are')} not decoded for other reasons"
    first = "" if failures.records == 1 else f" and {failures.records - 1} more"
    verb = "is" if failures.records == 1 else "are"
    return f"the {failures.what} of offset {failures.first_offset}{first} {verb} not decoded: {failures.reason}"


def _object(found: DecodedContents | Undecoded) -> DecodedContentsObject:
    if isinstance(found, Undecoded):
        return {"error": found.reason}
    made: DecodedContentsObject = {"format": found.format, "data": found.value}
    if found.schema is not None:
        made["schema_id"] = found.schema.schema_id
        made["subject"] = found.schema.subject
        made["version"] = found.schema.version
    return made
