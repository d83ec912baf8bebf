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
        members = {}
        for what in ("key", "value"):
            decoded = self._decoded(what, buffer, row)
            if decoded is not None:
                members[what] = _object(decoded)
        return members

    def text(self, what: str, buffer: memoryview, row: tuple[int, ...]) -> str | None:
        """Return the key or value (`what`) as text; None if it is to be shown as it is stored."""
        decoded = self._decoded(what, buffer, row)
        if not isinstance(decoded, DecodedContents):
            return None
        return str(decoded.value) if decoded.is_text else json_text(decoded.value)

    def _decoded(self, what: str, buffer: memoryview, row: tuple[int, ...]) -> DecodedContents | Undecoded | None:
        key_at, key_size, value_at, value_size, headers_at, header_count = row[3:9]
        headers: Callable[[], Iterator[Any]] | None = None
        if header_count:
            headers = lambda: header_views(buffer, headers_at, header_count)  # noqa: E731
        if what == "key":
            decoded = self.decoder.key(self.topic, view_of(buffer, key_at, key_size), headers)
        else:
            decoded = self.decoder.value(self.topic, view_of(buffer, value_at, value_size), headers)
        if isinstance(decoded, Undecoded):
            self.undecoded.add(what, decoded.reason, row[0])
        return decoded


def _object(decoded: DecodedContents | Undecoded) -> dict[str, Any]:
    if isinstance(decoded, Undecoded):
        return {"error": decoded.reason}
    members: dict[str, Any] = {"format": decoded.format, "data": decoded.value}
    if decoded.schema is not None:
        members["schema_id"] = decoded.schema.schema_id
        members["subject"] = decoded.schema.subject
        members["version"] = decoded.schema.version
    return members
