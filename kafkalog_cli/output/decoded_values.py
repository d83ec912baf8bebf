"""Decoded keys and values in the output of records: as text, or in the member `decoded` of their objects."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kafkalog_cli.format.records import header_views, view_of
from kafkalog_cli.format.values.decoder import DecodedContents, Undecoded, ValueDecoder
from kafkalog_cli.ops.values import UndecodedCounts
from kafkalog_cli.output.ndjson import json_text


@dataclass(slots=True)
class DecodedValues:
    """Decodes the records of one topic for output, and counts what was not decoded."""

    decoder: ValueDecoder
    topic: str
    undecoded: UndecodedCounts = field(default_factory=UndecodedCounts)

    def json_object(self, buffer: memoryview, row: tuple[int, ...]) -> dict[str, dict[str, Any]]:
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
            self.undecoded.add(what, found.reason, row[0])
        return found


def _object(found: DecodedContents | Undecoded) -> dict[str, Any]:
    if isinstance(found, Undecoded):
        return {"error": found.reason}
    made: dict[str, Any] = {"format": found.format, "data": found.value}
    if found.schema is not None:
        made["schema_id"] = found.schema.schema_id
        made["subject"] = found.schema.subject
        made["version"] = found.schema.version
    return made
