"""JSON as Kafka's tools print it: Jackson's compact text of a decoded message, with doubles as JDK 17 prints them."""

import base64
import math
import re
from typing import Any

from kafkalog_cli.format.batch import wrap_int64

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


_MANTISSA_BITS = 53
_LARGEST_LONG_EXPONENT = 62
_FIVES_BITS = (0, *((5**power).bit_length() for power in range(1, 27)))
"""Bit lengths of 5^0 to 5^26 as Java counts them. For a greater power Java uses three times the exponent."""


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
    """Return (d1d2..., p) so that `value` is 0.d1d2... times 10^p (FloatingDecimal.BinaryToASCIIBuffer.dtoa)."""
    fraction, exponent = math.frexp(value)
    mantissa, exponent = int(math.ldexp(fraction, _MANTISSA_BITS)), exponent - 1
    significant_bits = min(_MANTISSA_BITS, _MANTISSA_BITS + exponent + 1022)  # a denormal number has fewer
    tail_zeros = (mantissa & -mantissa).bit_length() - 1
    odd = mantissa >> tail_zeros
    bits_behind_point = max(0, odd.bit_length() - exponent - 1)
    if bits_behind_point == 0 and exponent <= _LARGEST_LONG_EXPONENT:
        return _long_digits(odd << (exponent + 1 - odd.bit_length()), exponent)
    estimate = (math.ldexp(mantissa, 1 - _MANTISSA_BITS) - 1.5) * 0.289529654
    decimal_exponent = math.floor(estimate + 0.176091259 + exponent * 0.301029995663981)
    return _generate(odd, exponent, bits_behind_point, significant_bits, decimal_exponent)


def _long_digits(value: int, exponent: int) -> tuple[str, int]:
    """Return the digits of a whole number, rounded where its last digits are below half a unit in the last place."""
    dropped = len(str(1 << max(0, exponent - _MANTISSA_BITS - 1))) - 1
    if dropped:
        value = (value + 10**dropped // 2) // 10**dropped
    text = str(value)
    return text.rstrip("0"), len(text) + dropped


def _generate(odd: int, exponent: int, point_bits: int, significant_bits: int, decimal: int) -> tuple[str, int]:
    """Generate digits until the rest is within half a unit in the last place.

    The algorithm is that of Steele and White, with Java's deviations.
    """
    fives, tens = max(0, -decimal), max(0, decimal)
    rest_twos = fives + point_bits + exponent
    scale_twos = tens + point_bits
    unit_twos = rest_twos - significant_bits
    rest_twos -= odd.bit_length() - 1
    common = min(rest_twos, scale_twos)
    rest_twos, scale_twos, unit_twos = rest_twos - common, scale_twos - common, unit_twos - common
    if odd == 1:  # below a power of two, the distance to the next double is only half
        unit_twos -= 1
    raised = max(0, -unit_twos)
    rest_twos, scale_twos, unit_twos = rest_twos + raised, scale_twos + raised, unit_twos + raised
    rest, scale, unit = odd * 5**fives << rest_twos, 5**tens << scale_twos, 5**fives << unit_twos
    rest_bits = odd.bit_length() + rest_twos + _bits_of_five(fives)
    in_long = rest_bits < 64 and scale_twos + 1 + _bits_of_five(tens + 1) < 64
    return _stop_early(rest, scale, unit, decimal, in_long=in_long)


def _stop_early(rest: int, scale: int, unit: int, decimal: int, *, in_long: bool) -> tuple[str, int]:
    """The loop of `_generate`.

    `in_long`: Java computes with longs here. They overflow, and Java rounds up less often.
    """
    digits: list[int] = []
    first = True
    low = high = False
    while first or not (low or high):
        digit, rest = divmod(rest, scale)
        rest, unit = rest * 10, unit * 10
        if in_long:
            unit = wrap_int64(unit)
            low, high = rest < unit, wrap_int64(rest + unit) > scale * 10
            if unit <= 0 and not first:
                low = high = True
        else:
            low, high = rest < unit, rest + unit >= scale * 10
        if first and digit == 0 and not high:
            decimal -= 1  # the estimate was too high
        else:
            digits.append(digit)
        if first and not -3 <= decimal < 8:
            low = high = False  # with an exponent there are at least two digits
        first = False
    twice = 2 * rest - scale * 10
    if high and (not low or twice > 0 or (twice == 0 and digits[-1] & 1)):
        decimal += _round_up(digits)
    return "".join(map(str, digits)), decimal + 1


def _round_up(digits: list[int]) -> int:
    """Add one to the last digit. Return 1 if the result is the next power of ten, else 0."""
    for index in range(len(digits) - 1, -1, -1):
        if digits[index] != 9:
            digits[index] += 1
            return 0
        digits[index] = 0
    digits[0] = 1
    return 1


def _bits_of_five(power: int) -> int:
    return _FIVES_BITS[power] if power < len(_FIVES_BITS) else 3 * power
