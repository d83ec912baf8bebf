"""JSON as Kafka's tools print it: Jackson's compact text of a decoded message."""

from __future__ import annotations

import base64
import math
import re
from typing import Any

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_SPECIAL = re.compile(r'[\x00-\x1f"\\]')


def java_json(value: Any) -> str:
    """`value` in Jackson's compact form: no blanks, non-ASCII as it is, bytes in base64."""
    if isinstance(value, str):
        return json_string(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return java_double(value) if math.isfinite(value) else f'"{java_double(value)}"'
    if isinstance(value, bytes):
        return f'"{base64.b64encode(value).decode()}"'
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_string(name)}:{java_json(field)}" for name, field in value.items()) + "}"
    return "[" + ",".join(map(java_json, value)) + "]"


def json_string(text: str) -> str:
    r"""A string with its quotes; control characters that have no letter as upper-case \u00XX."""
    return '"' + _SPECIAL.sub(lambda match: _ESCAPES.get(match[0], f"\\u{ord(match[0]):04X}"), text) + '"'


def java_double(value: float) -> str:
    """Double.toString: decimal from 10^-3 to 10^7, else one digit, a point and an exponent."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    digits, _, exponent = _shortest(value).partition("e")
    return f"{digits}E{int(exponent)}" if "." in digits else f"{digits}.0E{int(exponent)}"


def _shortest(value: float) -> str:
    """The shortest digits that give `value` back, as d.ddde±x."""
    for precision in range(17):
        text = f"{value:.{precision}e}"
        if float(text) == value:
            return text
    return f"{value:.17e}"
