"""Kafka's uuids: 16 bytes, written as 22 characters of URL-safe base64 without padding (common.Uuid)."""

from __future__ import annotations

import binascii
import re

_TEXT = re.compile(r"([A-Za-z0-9_-]{22})(==)?")
_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_", b"+/")

ZERO_UUID = "A" * 22
"""The uuid that means "none" (Uuid.ZERO_UUID)."""

RESERVED_DIRECTORY_IDS = 100
"""Directory ids below this number are reserved for meanings such as lost or migrating (DirectoryId)."""


def uuid_text(raw: bytes) -> str:
    """Return the 22 characters for 16 bytes."""
    return binascii.b2a_base64(raw, newline=False).translate(_TO_URL).rstrip(b"=").decode("ascii")


def parse_uuid(text: str) -> bytes | None:
    """Return the 16 bytes of a uuid as Uuid.fromString reads it, or None if that throws. Padding is legal."""
    match = _TEXT.fullmatch(text)
    return binascii.a2b_base64(match[1].encode("ascii").translate(_FROM_URL) + b"==") if match else None


def canonical_uuid(text: str) -> str | None:
    """Return the uuid in `text` as Kafka writes it, or None if `text` is not a uuid."""
    raw = parse_uuid(text)
    return None if raw is None else uuid_text(raw)
