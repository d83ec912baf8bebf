"""Kafka's settings as text: their types, which values are legal, and what they mean (ConfigDef)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, unique
from typing import NamedTuple

from kafkalog_cli.format.java_text import parse_int, parse_long

ConfigValue = bool | int | float | str | tuple[str, ...] | None
"""What a setting is once read; None: not set, which only settings without a default can be."""

_BLANKS = "".join(map(chr, range(0x21)))
"""What String.trim removes."""
_COMMA = re.compile(r"[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?")
_HEXADECIMAL = re.compile(r"([+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_NAMED = {"NaN": "nan", "Infinity": "inf"}
_REPLICA = re.compile(r"([0-9]+:[0-9]+)?")


@unique
class ConfigType(Enum):
    """The type of a setting, as in ConfigDef.Type. The value is the word for a text that is none, or ""."""

    BOOLEAN = ""
    INT = "INT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    LIST = "LIST"


class Range(NamedTuple):
    """Numbers from `least` to `most`; None: no limit. `also` is one more that is legal."""

    least: int
    most: int | None = None
    also: int | None = None

    def problem(self, value: ConfigValue) -> str | None:
        """What is wrong with `value`, None if nothing is."""
        # A NaN is in every range: ConfigDef asks whether it is below or above.
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
    """One of some words; of a list every element, none of them twice."""

    words: tuple[str, ...]

    def problem(self, value: ConfigValue) -> str | None:
        """What is wrong with `value`, None if nothing is."""
        found = value if isinstance(value, tuple) else (value,)
        if len(set(found)) < len(found):
            return "values must not be duplicated"
        if all(word in self.words for word in found):
            return None
        return f"String must be one of: {', '.join(self.words)}"


@dataclass(frozen=True, slots=True)
class NotZero:
    """Any number but 0."""

    def problem(self, value: ConfigValue) -> str | None:
        """What is wrong with `value`, None if nothing is."""
        return "must be unlimited (-1) or, greater than or equal to 1" if value == 0 else None


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """A list of replicas (ThrottledReplicaListValidator)."""

    def problem(self, value: ConfigValue) -> str | None:
        """What is wrong with `value`, None if nothing is."""
        if not isinstance(value, tuple) or value == ("*",) or all(map(_REPLICA.fullmatch, value)):
            return None
        return "must be the literal '*' or a list of [partitionId]:[brokerId]"


Validator = Range | OneOf | NotZero | ThrottledReplicas


class IllegalValue(NamedTuple):
    """A text that is no legal value of its setting."""

    reason: str


class ConfigKey(NamedTuple):
    """A setting: `default` None means that it has none; `valid` says which values of its type are legal."""

    name: str
    type: ConfigType
    default: ConfigValue
    valid: Validator | None = None


def parse_config(key: ConfigKey, text: str) -> ConfigValue | IllegalValue:
    """`text` as ConfigDef.parseType reads it, or why it is refused."""
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
    """A value as Kafka prints it (ConfigDef.convertToString); "" where it has none."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        from kafkalog_cli.format.internal_topics.java_double import java_double

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
    """`text` as Double.parseDouble reads it, None where that throws."""
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
