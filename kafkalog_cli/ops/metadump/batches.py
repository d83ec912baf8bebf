"""Replaces the contents of record batches and messages: same size, same header, same validity of the checksum."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from kafkalog_cli.format.batch import CODEC_MASK, CONTROL_MASK, RECORD_BATCH
from kafkalog_cli.format.compression import decompress
from kafkalog_cli.format.compression.exact_size import compress_to
from kafkalog_cli.format.crc import crc32, crc32c
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.format.varint import BadVarint, decode_zigzag_32, decode_zigzag_64
from kafkalog_cli.ops.metadump.pseudonyms import filler

Rewrite = Callable[[bytes | None, bytes | None, bool], tuple[bytes | None, bytes | None]]
"""Returns the new key and value of a record, of the same sizes. The last argument is whether it is a control record."""

_CRC_AT, _ATTRIBUTES_AT, _COUNT_AT = 17, 21, 57
_SNAPPY_STREAM = b"\x82SNAPPY\x00"
_OLD_CRC_AT, _OLD_MAGIC_AT, _LOG_OVERHEAD = 12, 16, 12


class _Unparsable(Exception):
    """Bytes that are not records; their contents are replaced as a whole."""


@dataclass(slots=True)
class BatchRedactor:
    """Replaces the contents of batches; counts what it did.

    `opaque` counts batches whose records cannot be read, or could not be compressed to their old size. Their contents
    are filler bytes, which do not decompress.
    """

    rewrite: Rewrite
    header_name: Callable[[bytes], bytes]
    limits: Limits
    batches: int = 0
    records: int = 0
    opaque: int = 0

    def redacted(self, batch: bytes, magic: int) -> bytes:
        """Return a whole batch or entry of a message set with other contents."""
        self.batches += 1
        return self._batch(batch) if magic >= 2 else self._message(batch)

    def _batch(self, batch: bytes) -> bytes:
        head, body = batch[: RECORD_BATCH.size], batch[RECORD_BATCH.size :]
        attributes, count = batch[_ATTRIBUTES_AT + 1], int.from_bytes(batch[_COUNT_AT : RECORD_BATCH.size], "big")
        is_control = bool(attributes & CONTROL_MASK)
        change = lambda data: self._records(data, count, is_control)  # noqa: E731
        made = bytearray(head + self._contents(body, attributes & CODEC_MASK, 2, change))
        wrong_by = int.from_bytes(batch[_CRC_AT:_ATTRIBUTES_AT], "big") ^ crc32c(batch[_ATTRIBUTES_AT:])
        struct.pack_into(">I", made, _CRC_AT, crc32c(made[_ATTRIBUTES_AT:]) ^ wrong_by)
        return bytes(made)

    def _contents(self, body: bytes, codec: int, magic: int, change: Callable[[bytes], bytes]) -> bytes:
        """Return the new contents of a batch; `change` replaces contents that are not compressed. Never raises."""
        try:
            if not codec:
                return change(body)
            data = decompress(codec, body, magic=magic, limits=self.limits)
            if not isinstance(data, bytes):
                raise _Unparsable
            before = self.records
            is_bare = not body.startswith(_SNAPPY_STREAM)
            found = compress_to(codec, change(data), len(body), magic=magic, is_bare=is_bare)
            if found is None:
                self.records = before
                raise _Unparsable
        except _Unparsable:
            self.opaque += 1
            return filler(len(body))
        return found

    def _records(self, data: bytes, count: int, is_control: bool) -> bytes:
        out, at = bytearray(data), 0
        for _ in range(count):
            at = self._record(data, at, out, is_control)
        if at != len(data):
            raise _Unparsable
        self.records += count
        return bytes(out)

    def _record(self, data: bytes, at: int, out: bytearray, is_control: bool) -> int:
        size, at = _varint(data, at)
        end = at + size
        if size < 0 or end > len(data):
            raise _Unparsable
        found = decode_zigzag_64(data, at + 1)  # after the attributes
        if isinstance(found, BadVarint):
            raise _Unparsable
        _, at = _varint(data, found[1])
        key, key_at, at = _field(data, at, end)
        value, value_at, at = _field(data, at, end)
        new_key, new_value = self.rewrite(key, value, is_control)
        _put(out, key_at, new_key)
        _put(out, value_at, new_value)
        headers, at = _varint(data, at)
        for _ in range(headers):
            name, name_at, at = _field(data, at, end)
            content, content_at, at = _field(data, at, end)
            _put(out, name_at, None if name is None else self.header_name(name))
            _put(out, content_at, None if content is None else filler(len(content)))
        if at != end or headers < 0:
            raise _Unparsable
        return end

    def _message(self, message: bytes) -> bytes:
        """Return a message of v0 or v1; a compressed one holds a message set."""
        magic, codec = message[_OLD_MAGIC_AT], message[_OLD_MAGIC_AT + 1] & CODEC_MASK
        at = _OLD_MAGIC_AT + (2 if magic == 0 else 10)
        out = bytearray(message)
        try:
            key, key_at, at = _old_field(message, at)
            value, value_at, at = _old_field(message, at)
            if at != len(message):
                raise _Unparsable
            if codec and value is not None:
                _put(out, key_at, None if key is None else filler(len(key)))
                _put(out, value_at, self._contents(value, codec, magic, self._message_set))
            else:
                new_key, new_value = self.rewrite(key, value, False)
                _put(out, key_at, new_key)
                _put(out, value_at, new_value)
                self.records += 1
        except _Unparsable:
            self.opaque += 1
            out = bytearray(message)
            start = min(_OLD_MAGIC_AT + (2 if magic == 0 else 10), len(out))
            out[start:] = filler(len(out) - start)
        wrong_by = int.from_bytes(message[_OLD_CRC_AT:_OLD_MAGIC_AT], "big") ^ crc32(message[_OLD_MAGIC_AT:])
        struct.pack_into(">I", out, _OLD_CRC_AT, crc32(bytes(out[_OLD_MAGIC_AT:])) ^ wrong_by)
        return bytes(out)

    def _message_set(self, data: bytes) -> bytes:
        out, at = bytearray(), 0
        while at < len(data):
            size = int.from_bytes(data[at + 8 : at + _LOG_OVERHEAD], "big", signed=True)
            end = at + _LOG_OVERHEAD + size
            if size < 14 or end > len(data) or data[at + _OLD_MAGIC_AT] > 1 or data[at + 17] & CODEC_MASK:
                raise _Unparsable
            opaque = self.opaque
            out += self._message(data[at:end])
            if self.opaque != opaque:
                self.opaque = opaque
                raise _Unparsable
            at = end
        return bytes(out)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    found = decode_zigzag_32(data, at)
    if isinstance(found, BadVarint):
        raise _Unparsable
    return found


def _field(data: bytes, at: int, end: int) -> tuple[bytes | None, int, int]:
    """Return a key, value or header, its place, and the place after it."""
    size, at = _varint(data, at)
    if size < 0:
        return None, at, at
    if at + size > end:
        raise _Unparsable
    return data[at : at + size], at, at + size


def _old_field(data: bytes, at: int) -> tuple[bytes | None, int, int]:
    size = int.from_bytes(data[at : at + 4], "big", signed=True)
    at += 4
    if at > len(data) or at + size > len(data):
        raise _Unparsable
    return (None, at, at) if size < 0 else (data[at : at + size], at, at + size)


def _put(out: bytearray, at: int, data: bytes | None) -> None:
    if data is not None:
        out[at : at + len(data)] = data
