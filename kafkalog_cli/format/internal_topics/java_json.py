"""JSON as Kafka's tools print it: Jackson's compact text of a decoded message."""

import base64
import math
import re
from typing import Any

from kafkalog_cli.format.java_text import java_double

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
