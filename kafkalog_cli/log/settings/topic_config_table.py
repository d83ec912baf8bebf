"""The settings of Kafka 4.4 that concern logs, as tables, and their types, legal and parsed values (ConfigDef).

The tables are those of LogConfig, and of the broker settings for their defaults.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, unique
from typing import NamedTuple

from kafkalog_cli.format.java_text import java_double, parse_int, parse_long

ConfigValue = bool | int | float | str | tuple[str, ...] | None
"""The parsed value of a setting. None: not set, which is possible only for settings without a default."""

Validator = Callable[[ConfigValue], str | None]
"""Returns why a value is not legal, or None if it is."""

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


@dataclass(frozen=True, slots=True)
class NumberRange:
    """Numbers from `least` to `most` (None: no upper limit), and the number `also` if it is not None."""

    least: int
    most: int | None = None
    also: int | None = None

    def __call__(self, value: ConfigValue) -> str | None:
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


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of several words. A list may contain only these words, each at most once."""

    words: tuple[str, ...]

    def __call__(self, value: ConfigValue) -> str | None:
        """Return why `value` is not legal, or None if it is."""
        words = value if isinstance(value, tuple) else (value,)
        if len(set(words)) < len(words):
            return "values must not be duplicated"
        if all(word in self.words for word in words):
            return None
        return f"String must be one of: {', '.join(self.words)}"


def _not_zero(value: ConfigValue) -> str | None:
    return "must be unlimited (-1) or, greater than or equal to 1" if value == 0 else None


def _throttled_replicas(value: ConfigValue) -> str | None:
    """Check a list of replicas (ThrottledReplicaListValidator)."""
    if not isinstance(value, tuple) or value == ("*",) or all(map(_REPLICA.fullmatch, value)):
        return None
    return "must be the literal '*' or a list of [partitionId]:[brokerId]"


class Key(NamedTuple):
    """A setting. `default` is None if it has no default; `valid` checks values of its type (None: all are legal).

    `broker_names` are the broker-level settings that give the default of a topic-level setting, the strongest first.
    Of such a setting, `unit` is its unit in ms, or 1 for the unit of the topic setting. `is_dynamic`: the setting may
    be in the metadata log, not only in server.properties. `below_zero_is_unlimited`: any negative value means -1
    (KafkaConfig.logRetentionTimeMillis).
    """

    name: str
    type: ConfigType
    default: ConfigValue
    valid: Validator | None = None
    broker_names: tuple[Key, ...] = ()
    unit: int = 1
    is_dynamic: bool = True
    below_zero_is_unlimited: bool = False
    is_internal: bool = False

    def in_topic_units(self, value: ConfigValue) -> ConfigValue:
        """Convert `value` to the unit of the topic setting."""
        if isinstance(value, bool) or not isinstance(value, int):
            return value
        return -1 if self.below_zero_is_unlimited and value < 0 else value * self.unit


def parse_config(key: Key, text: str) -> ConfigValue:
    """Parse `text` as ConfigDef.parseType does, and check it. Raises ValueError with Kafka's reason for a refusal."""
    value = _value(key.type, text.strip(_BLANKS))
    if value is None:
        kind = key.type.value
        problem: str | None = f"Not a number of type {kind}" if kind else "Expected value to be either true or false"
    else:
        problem = None if key.valid is None else key.valid(value)
    if problem is not None:
        raise ValueError(f"Invalid value {text} for configuration {key.name}: {problem}")
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


BOOLEAN, INT, LONG, DOUBLE, STRING, LIST = (
    ConfigType.BOOLEAN,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.STRING,
    ConfigType.LIST,
)
_LONG_MAX = (1 << 63) - 1
_LARGEST_ARRAY_BYTES = (1 << 31) - 9
"""The size that every Java virtual machine gives an array (ArraysSupport.SOFT_MAX_ARRAY_LENGTH)."""
_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
_WEEK_MS = 7 * 24 * _HOUR_MS

# Since 4.1 the minimum is 1 MiB (KIP-1030), but logs of older brokers, and tests, have smaller segments.
_SEGMENT_BYTES = NumberRange(14)
_POLICIES = OneOf(("compact", "delete"))
_CODECS = OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"))
_TIMESTAMP_TYPES = OneOf(("CreateTime", "LogAppendTime"))
_NOT_NEGATIVE, _POSITIVE = NumberRange(0), NumberRange(1)

INTERNAL_SEGMENT_BYTES = "internal.segment.bytes"


def _row(  # noqa: PLR0913, PLR0917 one for each column
    name: str,
    kind: ConfigType,
    default: ConfigValue,
    valid: Validator | None = None,
    broker_name: str | None = None,
    more: tuple[Key, ...] = (),
) -> Key:
    key = Key(name, kind, default, valid)
    return key._replace(broker_names=more if broker_name is None else (key._replace(name=broker_name), *more))


def _in(unit: int, name: str, default: int | None, valid: Validator | None = None) -> Key:
    return Key(name, INT, default, valid, unit=unit, is_dynamic=False)


def _unset(name: str, valid: Validator | None = None) -> Key:
    return Key(name, LONG, None, valid)


_ROWS = (
    _row("cleanup.policy", LIST, ("delete",), _POLICIES, "log.cleanup.policy"),
    _row("compression.gzip.level", INT, -1, NumberRange(1, 9, also=-1), "compression.gzip.level"),
    _row("compression.lz4.level", INT, 9, NumberRange(1, 17), "compression.lz4.level"),
    _row("compression.type", STRING, "producer", _CODECS, "compression.type"),
    _row("compression.zstd.level", INT, 3, NumberRange(-131072, 22), "compression.zstd.level"),
    _row("delete.retention.ms", LONG, 24 * _HOUR_MS, _NOT_NEGATIVE, "log.cleaner.delete.retention.ms"),
    _row("errors.deadletterqueue.group.enable", BOOLEAN, False),
    _row("file.delete.delay.ms", LONG, _MINUTE_MS, _NOT_NEGATIVE, "log.segment.delete.delay.ms"),
    _row("flush.messages", LONG, _LONG_MAX, _POSITIVE, "log.flush.interval.messages"),
    _row("flush.ms", LONG, _LONG_MAX, _NOT_NEGATIVE, None, (
        _unset("log.flush.interval.ms", _NOT_NEGATIVE),
        Key("log.flush.scheduler.interval.ms", LONG, _LONG_MAX, _NOT_NEGATIVE, is_dynamic=False),
    )),
    _row("follower.replication.throttled.replicas", LIST, (), _throttled_replicas),
    _row("index.interval.bytes", INT, 4096, _NOT_NEGATIVE, "log.index.interval.bytes"),
    _row(INTERNAL_SEGMENT_BYTES, INT, None)._replace(is_internal=True),
    _row("leader.replication.throttled.replicas", LIST, (), _throttled_replicas),
    _row("local.retention.bytes", LONG, -2, NumberRange(-2), "log.local.retention.bytes"),
    _row("local.retention.ms", LONG, -2, NumberRange(-2), "log.local.retention.ms"),
    _row("max.compaction.lag.ms", LONG, _LONG_MAX, _POSITIVE, "log.cleaner.max.compaction.lag.ms"),
    _row("max.decompressed.message.bytes", INT, _LARGEST_ARRAY_BYTES, NumberRange(1, _LARGEST_ARRAY_BYTES),
         "max.decompressed.message.bytes"),
    _row("max.message.bytes", INT, 1048588, _NOT_NEGATIVE, "message.max.bytes"),
    _row("message.timestamp.after.max.ms", LONG, _HOUR_MS, _NOT_NEGATIVE, "log.message.timestamp.after.max.ms"),
    _row("message.timestamp.before.max.ms", LONG, _LONG_MAX, _NOT_NEGATIVE, "log.message.timestamp.before.max.ms"),
    _row("message.timestamp.type", STRING, "CreateTime", _TIMESTAMP_TYPES, "log.message.timestamp.type"),
    _row("min.cleanable.dirty.ratio", DOUBLE, 0.5, NumberRange(0, 1), "log.cleaner.min.cleanable.ratio"),
    _row("min.compaction.lag.ms", LONG, 0, _NOT_NEGATIVE, "log.cleaner.min.compaction.lag.ms"),
    _row("min.insync.replicas", INT, 1, _POSITIVE, "min.insync.replicas"),
    _row("preallocate", BOOLEAN, False, None, "log.preallocate"),
    _row("remote.copy.lag.bytes", LONG, -1, NumberRange(-1), "log.remote.copy.lag.bytes"),
    _row("remote.copy.lag.ms", LONG, 0, NumberRange(-1), "log.remote.copy.lag.ms"),
    _row("remote.log.copy.disable", BOOLEAN, False),
    _row("remote.log.delete.on.disable", BOOLEAN, False),
    _row("remote.storage.enable", BOOLEAN, False),
    _row("retention.bytes", LONG, -1, None, "log.retention.bytes"),
    _row("retention.ms", LONG, _WEEK_MS, NumberRange(-1), None, (
        _unset("log.retention.ms", _not_zero)._replace(below_zero_is_unlimited=True),
        _in(_MINUTE_MS, "log.retention.minutes", None, _not_zero)._replace(below_zero_is_unlimited=True),
        _in(_HOUR_MS, "log.retention.hours", 168, _not_zero)._replace(below_zero_is_unlimited=True),
    )),
    _row("segment.bytes", INT, 1 << 30, _SEGMENT_BYTES, "log.segment.bytes"),
    _row("segment.index.bytes", INT, 10 << 20, NumberRange(4), "log.index.size.max.bytes"),
    _row("segment.jitter.ms", LONG, 0, _NOT_NEGATIVE, None, (
        _unset("log.roll.jitter.ms", _NOT_NEGATIVE),
        _in(_HOUR_MS, "log.roll.jitter.hours", 0, _NOT_NEGATIVE),
    )),
    _row("segment.ms", LONG, _WEEK_MS, _POSITIVE, None, (
        _unset("log.roll.ms", _POSITIVE),
        _in(_HOUR_MS, "log.roll.hours", 168, _POSITIVE),
    )),
    _row("unclean.leader.election.enable", BOOLEAN, False, None, "unclean.leader.election.enable"),
)  # fmt: skip

TOPIC_KEYS: dict[str, Key] = {row.name: row for row in _ROWS}
"""Every topic-level setting of 4.4 by name (LogConfig, ServerTopicConfigSynonyms)."""

FIXED_SETTINGS: dict[str, dict[str, ConfigValue]] = {
    "__consumer_offsets": {"cleanup.policy": ("compact",)},
    "__transaction_state": {"cleanup.policy": ("compact",)},
    # Its records are incremental updates, which compaction would lose; the coordinator deletes records (KIP-932).
    "__share_group_state": {"cleanup.policy": ("delete",), "retention.ms": -1},
}
"""Settings with which Kafka's coordinators create their internal topics, and on which they depend."""


BROKER_KEYS: dict[str, Key] = {
    row.name: row
    for row in (
        Key("log.cleaner.dedupe.buffer.size", LONG, 128 << 20),
        Key("log.cleaner.enable", BOOLEAN, True, is_dynamic=False),
        Key("log.cleaner.io.buffer.load.factor", DOUBLE, 0.9),
        Key("log.cleaner.io.buffer.size", INT, 512 << 10, _NOT_NEGATIVE),
        Key("log.cleaner.threads", INT, 1, _NOT_NEGATIVE),
        Key("log.retention.check.interval.ms", LONG, 5 * _MINUTE_MS, _POSITIVE, is_dynamic=False),
        Key("producer.id.expiration.ms", INT, 24 * _HOUR_MS, _POSITIVE),
        Key("remote.log.storage.system.enable", BOOLEAN, False, is_dynamic=False),
    )
}
"""Settings of a broker as a whole, without a topic-level name, on which its logs depend."""
