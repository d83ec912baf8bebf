"""JSON objects in Kafka's small files, read as Jackson reads them. Damaged bytes never raise."""

from __future__ import annotations

from typing import Any

_MAX_CHARACTERS = 1 << 20


def read_json_object(text: str) -> tuple[dict[str, Any], str]:
    """Return (the JSON object at the start of `text`, ""), or ({}, the reason why there is no object).

    Text after the object is ignored, as in Jackson.
    """
    import json

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    if len(text) > _MAX_CHARACTERS:
        return {}, f"{len(text)} characters are too many"
    try:
        value, _ = json.JSONDecoder(parse_constant=refuse).raw_decode(text.lstrip(" \t\r\n"))
    except (ValueError, RecursionError) as error:  # nesting a thousand levels deep, or numbers with thousands of digits
        return {}, "nested too deep" if isinstance(error, RecursionError) else str(error)
    return (value, "") if isinstance(value, dict) else ({}, "not an object")


def integer(value: object, bits: int) -> int | None:
    """Return `value` if it is a JSON integer that fits in a signed field of `bits` bits, else None."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else None
