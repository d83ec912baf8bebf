"""JSON as Kafka's tools print it: Jackson's compact text of a decoded message."""

import base64
import math
import re
from decimal import Decimal
from typing import Any

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_SPECIAL = re.compile(r'[\x00-\x1f"\\]')


def java_json(value: Any) -> str:
    """Return `value` in Jackson's compact form: no blanks, non-ASCII characters unescaped, bytes in base64."""
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
    r"""Return a JSON string with its quotes. Control characters without a short escape become upper-case \u00XX."""
    return '"' + _SPECIAL.sub(lambda match: _ESCAPES.get(match[0], f"\\u{ord(match[0]):04X}"), text) + '"'


def java_double(value: float) -> str:
    """Return `value` in Java's decimal notation, with at least one digit after the point.

    From 10^-3 up to 10^7 there is no exponent; otherwise there is one digit before the point, and an exponent.
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    sign = "-" if math.copysign(1, value) < 0 else ""
    if value == 0:
        return f"{sign}0.0"
    digits, point = _digits(abs(value))
    if 0 < point < 8:
        whole = digits[:point].ljust(point, "0")
        return f"{sign}{whole}.{digits[point:] or '0'}"
    if -3 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def _digits(value: float) -> tuple[str, int]:
    """Return (d1d2..., p) so that `value` is 0.d1d2... times 10^p: the shortest digits that give the same double.

    JDK 17 prints a digit more of some doubles with 16 or 17 digits.
    """
    _, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    return "".join(map(str, digits)), len(digits) + exponent
