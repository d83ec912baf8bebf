"""JSON objects in Kafka's small files, read as Jackson reads them and never raising on bad bytes."""

from __future__ import annotations

from typing import Any

_MAX_CHARACTERS = 1 << 20


def read_json_object(text: str) -> tuple[dict[str, Any], str]:
    """The object that `text` starts with and an empty reason; or an empty object and why there is none.

    What follows the object is ignored, as Jackson does.
    """
    import json

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    if len(text) > _MAX_CHARACTERS:
        return {}, f"{len(text)} characters are too many"
    try:
        value, _ = json.JSONDecoder(parse_constant=refuse).raw_decode(text.lstrip(" \t\r\n"))
    except (ValueError, RecursionError) as error:  # nested a thousand deep, or numbers of thousands of digits
        return {}, "nested too deep" if isinstance(error, RecursionError) else str(error)
    return (value, "") if isinstance(value, dict) else ({}, "not an object")


def integer(value: object, bits: int) -> int | None:
    """`value` if it is a JSON integer that a signed field of `bits` can hold, else None."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else None
