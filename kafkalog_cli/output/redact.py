"""`--redact`: which keys, values and header values are hidden, and the text shown instead."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, unique
from typing import TYPE_CHECKING

from kafkalog_cli.errors import UsageError
from kafkalog_cli.output.decoders import CannotDecode

if TYPE_CHECKING:
    from kafkalog_cli.output.dump_text import Field, KeyValueDecoder, Parsed, Value


@unique
class Showing(IntEnum):
    """How a field is shown."""

    ALL = 0
    NOTHING = 1
    LENGTH = 2
    HASH = 3


_MODES = {"len": Showing.LENGTH, "hash": Showing.HASH}
_TARGETS = ("keys", "values", "headers")


@dataclass(frozen=True, slots=True)
class Redaction:
    """How keys, values and header values are shown; header keys are never hidden. Null stays null."""

    keys: Showing = Showing.ALL
    values: Showing = Showing.ALL
    headers: Showing = Showing.ALL

    def __bool__(self) -> bool:
        return bool(self.keys or self.values or self.headers)

    @property
    def has_hash(self) -> bool:
        """Whether any field is shown as its hash."""
        return Showing.HASH in (self.keys, self.values, self.headers)


NO_REDACTION = Redaction()


def parse_redaction(text: str) -> Redaction:
    """Parse `keys,values,headers[=hash|len]`. Raises UsageError.

    As in `keys,values=len,headers=hash`, a mode applies to the names before it that have no mode of their own.
    """
    modes: dict[str, Showing] = {}
    without_mode: list[str] = []
    for item in text.split(","):
        name, equals, mode = item.strip().partition("=")
        if name not in _TARGETS or (equals and mode not in _MODES):
            raise UsageError(reason=f"--redact {text!r}: give keys, values, headers, each with =hash, =len or nothing")
        if name in modes or name in without_mode:
            raise UsageError(reason=f"--redact {text!r}: {name} occurs twice")
        without_mode.append(name)
        if equals:
            modes.update(dict.fromkeys(without_mode, _MODES[mode]))
            without_mode.clear()
    modes.update(dict.fromkeys(without_mode, Showing.NOTHING))
    return Redaction(**modes)


def redacted_json(data: bytes | memoryview, showing: Showing) -> str:
    """Return the JSON of a field that is hidden or shown only by size or hash."""
    if showing is Showing.HASH:
        return f'{{"redacted":true,"sha256":"{_sha256(data)}"}}'
    return f'{{"redacted":true,"bytes":{len(data)}}}' if showing is Showing.LENGTH else '{"redacted":true}'


def redacted_text(data: bytes | memoryview, showing: Showing) -> str:
    """Return the text of a field that is hidden or shown only by size or hash."""
    if showing is Showing.HASH:
        return f"<sha256:{_sha256(data)}>"
    return f"<{len(data)} bytes>" if showing is Showing.LENGTH else "<redacted>"


def redacting_decoder(decoder: KeyValueDecoder, redaction: Redaction) -> KeyValueDecoder:
    """Return a decoder of dump-log's text that replaces the texts of redacted keys and values."""

    def decode(offset: int, key: Field, value: Value) -> Parsed | CannotDecode:
        parsed = decoder(offset, key, value)
        if isinstance(parsed, CannotDecode):
            return parsed
        data = None if isinstance(value, CannotDecode) else value
        texts = zip((key, data), parsed, (redaction.keys, redaction.values), strict=True)
        key_text, value_text = (
            text if showing is Showing.ALL or text is None else redacted_text(data or b"", showing)
            for data, text, showing in texts
        )
        return key_text, value_text

    return decode


def _sha256(data: bytes | memoryview) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()
