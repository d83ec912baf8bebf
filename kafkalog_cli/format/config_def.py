"""Kafka's settings as text: their types, legal values and parsed values (ConfigDef)."""

import re
from dataclasses import dataclass
from enum import Enum, unique
from typing import NamedTuple

from kafkalog_cli.format.java_text import parse_int, parse_long

ConfigValue = bool | int | float | str | tuple[str, ...] | None
"""The parsed value of a setting. None: not set, which is possible only for settings without a default."""

_BLANKS = "".join(map(chr, range(0x21)))
"""The characters that String.trim removes."""
_COMMA = re.compile(r"[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?")
_HEXADECIMAL = re.compile(r"([+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_NAMED = {"NaN": "nan", "Infinity": "inf"}
_REPLICA = re.compile(r"([0-9]+:[0-9]+)?")


@unique
class ConfigType(Enum):
    """The type of a setting (ConfigDef.Type). The value is the type's name in Kafka's parse error; "" for BOOLEAN."""

    BOOLEAN = ""
    INT = "INT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    LIST = "LIST"


class NumberRange(NamedTuple):
    """Numbers from `least` to `most` (None: no upper limit), and the number `also` if it is not None."""

    least: int
    most: int | None = None
    also: int | None = None

    def problem(self, value: ConfigValue) -> str | None:
        """Return why `value` is not legal, or None if it is."""
        # NaN is legal in every range: ConfigDef only tests whether a value is below or above the limits.
        if not isinstance(value, (int, float)) or value == self.also:
            return None
        if self.also is not None and self.most is not None and not self.least <= value <= self.most:
            return f"Value must be between {self.least} and {self.most} or equal to {self.also}"
        if value < self.least:
            return f"Value must be at least {self.least}"
        if self.most is not None and value > self.most:
            return f"Value must be no more than {self.most}"
        return None


class OneOf(NamedTuple):
    """One of several words. A list may contain only these words, each at most once."""

    words: tuple[str, ...]

    def problem(self, value: ConfigValue) -> str | None:
        """Return why `value` is not legal, or None if it is."""
        found = value if isinstance(value, tuple) else (value,)
        if len(set(found)) < len(found):
            return "values must not be duplicated"
        if all(word in self.words for word in found):
            return None
        return f"String must be one of: {', '.join(self.words)}"


@dataclass(frozen=True, slots=True)
class NotZero:
    """Any number except 0."""

    def problem(self, value: ConfigValue) -> str | None:
        """Return why `value` is not legal, or None if it is."""
        return "must be unlimited (-1) or, greater than or equal to 1" if value == 0 else None


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """A list of replicas (ThrottledReplicaListValidator)."""

    def problem(self, value: ConfigValue) -> str | None:
        """Return why `value` is not legal, or None if it is."""
        if not isinstance(value, tuple) or value == ("*",) or all(map(_REPLICA.fullmatch, value)):
            return None
        return "must be the literal '*' or a list of [partitionId]:[brokerId]"


Validator = NumberRange | OneOf | NotZero | ThrottledReplicas


class IllegalValue(NamedTuple):
    """The reason why a text is not a legal value of its setting."""

    reason: str


class ConfigKey(NamedTuple):
    """A setting. `default` is None if it has no default; `valid` checks values of its type (None: all are legal)."""

    name: str
    type: ConfigType
    default: ConfigValue
    valid: Validator | None = None


def parse_config(key: ConfigKey, text: str) -> ConfigValue | IllegalValue:
    """Parse `text` as ConfigDef.parseType does and check it; return the value, or why Kafka refuses it."""
    trimmed = text.strip(_BLANKS)
    value = _value(key.type, trimmed)
    if value is None:
        kind = key.type.value
        expected = f"Not a number of type {kind}" if kind else "Expected value to be either true or false"
        return IllegalValue(f"Invalid value {text} for configuration {key.name}: {expected}")
    problem = None if key.valid is None else key.valid.problem(value)
    if problem is not None:
        return IllegalValue(f"Invalid value {text} for configuration {key.name}: {problem}")
    return value


def config_text(value: ConfigValue) -> str:
    """Return a value as Kafka prints it (ConfigDef.convertToString); "" for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        from kafkalog_cli.format.internal_topics.java_json import java_double

        return java_double(value)
    return str(value)


def _value(kind: ConfigType, text: str) -> ConfigValue:
    if kind is ConfigType.INT:
        return parse_int(text)
    if kind is ConfigType.LONG:
        return parse_long(text)
    if kind is ConfigType.DOUBLE:
        return _parse_double(text)
    if kind is ConfigType.LIST:
        return tuple(_COMMA.split(text)) if text else ()
    if kind is ConfigType.BOOLEAN:
        return {"TRUE": True, "FALSE": False}.get(text.upper())
    return text


def _parse_double(text: str) -> float | None:
    """Parse `text` as Double.parseDouble does; None if that throws."""
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned in _NAMED:
        return float(text.replace(unsigned, _NAMED[unsigned]))
    if _DECIMAL.fullmatch(text):
        return float(text.rstrip("fFdD"))
    match = _HEXADECIMAL.fullmatch(text)
    if match is None:
        return None
    try:
        return float.fromhex(match[1])
    except OverflowError:
        return float("-inf" if text[0] == "-" else "inf")
