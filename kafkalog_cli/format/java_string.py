"""Strings as Java decodes them from UTF-8, with its replacement of malformed bytes."""

from __future__ import annotations

import codecs

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def java_string(data: bytes) -> str:
    """Decode `data` as `new String(data, UTF_8)` does in the JDK: malformed parts become U+FFFD.

    CPython's error handler `replace` differs for surrogates encoded as three bytes: Java gives one U+FFFD, Python
    three. The time is linear in the number of bytes.
    """
    return data.decode(errors=_JAVA_REPLACE)


def _replace(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return REPLACEMENT, error.start + _malformed_bytes(error.object, error.start)


_JAVA_REPLACE = "kafkalog-java"
codecs.register_error(_JAVA_REPLACE, _replace)


def _malformed_bytes(data: bytes, start: int) -> int:
    """Return how many bytes from `start` on Java replaces with one U+FFFD (String.decodeUTF8_UTF16, JDK 17)."""
    first, rest = data[start], data[start + 1 : start + 4]
    if first & 0xF0 == 0xE0:
        return _malformed_three(first, rest)
    if first & 0xF8 == 0xF0:
        return _malformed_four(first, rest)
    return 1


def _malformed_three(first: int, rest: bytes) -> int:
    second_bad = bool(rest) and (_not_continuation(rest[0]) or (first == 0xE0 and rest[0] & 0xE0 == 0x80))
    if len(rest) >= 2:
        if not second_bad and not _not_continuation(rest[1]):
            return 3  # a complete surrogate
        return 1 if second_bad else 2
    return 1 if second_bad else 1 + len(rest)


def _malformed_four(first: int, rest: bytes) -> int:
    second_bad = first > 0xF4 or (
        bool(rest)
        and (
            (first == 0xF0 and not 0x90 <= rest[0] <= 0xBF)
            or (first == 0xF4 and rest[0] & 0xF0 != 0x80)
            or _not_continuation(rest[0])
        )
    )
    if second_bad:
        return 1
    if len(rest) >= 3 or (len(rest) == 2 and _not_continuation(rest[1])):
        return 2 if _not_continuation(rest[1]) else 3
    return 1 + len(rest)


def _not_continuation(byte: int) -> bool:
    return byte & 0xC0 != 0x80
