"""Keys as options and files of keys have them: as `--key-format` prints keys, or as bytes in hex or base64."""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Iterator
from functools import partial
from typing import Any
from uuid import UUID

from kafkalog_cli.broker.cleaning.key_table import KeyFinder, SoughtKeys
from kafkalog_cli.errors import UsageError
from kafkalog_cli.format.records import RecordBlock, header_views, view_of
from kafkalog_cli.format.values.decoder import NUMBER_LAYOUTS, DecodedContents, Undecoded, ValueDecoder
from kafkalog_cli.format.values.value_format import ValueFormat
from kafkalog_cli.ops.values import UndecodedCounts


def bytes_as_given(text: str) -> bytes:
    """Return the bytes of an argument of the command line."""
    return text.encode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    """Return the bytes of a text on the command line: hex:00FF and base64:AP8= for bytes. Raises UsageError."""
    kind, sign, rest = text.partition(":")
    try:
        if sign and kind == "hex":
            return bytes.fromhex(rest)
        if sign and kind == "base64":
            return base64.b64decode(rest, validate=True)
    except (ValueError, binascii.Error) as error:
        raise UsageError(reason=f"{text}: what follows {kind}: is not {kind}") from error
    return bytes_as_given(text)


def stored_forms(text: str, key_format: ValueFormat | None) -> tuple[bytes, ...] | None:
    """Return the bytes that stand for a printed key; None if only decoded keys can be compared. Raises UsageError."""
    if text.startswith(("hex:", "base64:")) or key_format in (None, ValueFormat.STRING):
        return (bytes_of(text),)
    try:
        if key_format in NUMBER_LAYOUTS:
            layout = NUMBER_LAYOUTS[key_format]
            return (struct.pack(layout, float(text) if layout in (">f", ">d") else int(text)),)
        if key_format is ValueFormat.UUID:
            return UUID(text).bytes, str(UUID(text)).encode(), str(UUID(text)).upper().encode()
        if key_format is ValueFormat.HEX:
            return (bytes.fromhex(text),)
        if key_format is ValueFormat.BASE64:
            return (base64.b64decode(text, validate=True),)
    except (ValueError, OverflowError, struct.error) as error:
        assert key_format is not None
        raise UsageError(reason=f"{text} is no key of the format {key_format.value}") from error
    return None


class WantedKey:
    """A key that records are searched for. `stored`: the bytes that it may have; None: keys are decoded and compared.

    Windowed keys are found by the key without its window, too.
    """

    def __init__(self, text: str, key_format: ValueFormat | None = None, decoder: ValueDecoder | None = None) -> None:
        """Raises UsageError."""
        self.stored = stored_forms(text, key_format)
        self.undecoded = UndecodedCounts()
        self._given = text, key_format, decoder
        self._forms = forms_of(text)
        self._printed = PrintedKeys(decoder, "", self.undecoded)
        self._finder: KeyFinder | None = None

    @classmethod
    def of_bytes(cls, data: bytes) -> WantedKey:
        """Return the key with these bytes."""
        return cls(f"hex:{data.hex()}")

    def with_decoder(self, decoder: ValueDecoder | None) -> WantedKey:
        """Return the key, compared with what `decoder` makes of keys."""
        return WantedKey(*self._given[:2], decoder)

    def in_topic(self, topic: str, undecoded: UndecodedCounts | None = None) -> WantedKey:
        """Return the key for the records of a topic, for use in one thread."""
        key = WantedKey(*self._given)
        key.undecoded = key.undecoded if undecoded is None else undecoded
        key._printed = PrintedKeys(self._given[2], topic, key.undecoded)
        return key

    def rows(self, block: RecordBlock) -> list[int]:
        """Return the rows of the records of a block with this key, in ascending order."""
        if self.stored is not None:
            self._finder = self._finder or SoughtKeys(self.stored).finder()
            return self._finder.rows(block)
        return [row for row, forms in self._printed(block) if not forms.isdisjoint(self._forms)]


class PrintedKeys:
    """The keys of the records of a topic as they are printed, to be compared with texts; for use in one thread.

    A key has several forms: a windowed key is found by the key without its window, too.
    """

    def __init__(self, decoder: ValueDecoder | None, topic: str, undecoded: UndecodedCounts) -> None:
        self._decoder = None if decoder is None else decoder.of_another_thread()
        self._topic = topic
        self._undecoded = undecoded

    def __call__(self, block: RecordBlock) -> Iterator[tuple[int, set[str]]]:
        """Yield the rows of the records of a block that have a key, each with the forms of the key."""
        records, buffer = block.records, block.buffer
        columns = [*records.columns()[3:5], *records.columns()[7:9], records.offset]
        for row, (at, size, headers_at, headers, offset) in enumerate(zip(*columns, strict=True)):
            data = view_of(buffer, at, size)
            if data is not None:
                given: Any = partial(header_views, buffer, headers_at, headers) if headers else None
                yield row, self._forms(data, given, offset)

    def _forms(self, data: memoryview, headers: Any, offset: int) -> set[str]:
        decoded = None if self._decoder is None else self._decoder.key(self._topic, data, headers)
        if isinstance(decoded, DecodedContents):
            forms = {_form(decoded.value)}
            return forms | {_form(decoded.value["key"])} if "windowed-" in decoded.format else forms
        if isinstance(decoded, Undecoded):
            self._undecoded.add("key", decoded.reason, offset)
        return {_form(bytes(data).decode("utf-8", "surrogateescape"))}


def forms_of(text: str) -> set[str]:
    """Return the forms that a text on the command line may stand for: of this text, and of the JSON that it is."""
    try:
        return {_form(text), _form(json.loads(text))}
    except (ValueError, RecursionError):
        return {_form(text)}


def _form(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True)


def is_equal(value_of_record: Any, wanted: str) -> bool:
    """Whether a JSON value is the wanted text, or equal to the JSON value that the text stands for."""
    if isinstance(value_of_record, str) and value_of_record == wanted:
        return True
    try:
        value = json.loads(wanted)
    except (ValueError, RecursionError):
        return False
    return bool(type(value) is type(value_of_record) or _are_numbers(value, value_of_record)) and bool(
        value == value_of_record
    )


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
