"""The settings of a topic's logs and of its broker: their values, and the source of each value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, unique
from types import MappingProxyType
from typing import Annotated, Generic, NamedTuple, TypeVar, cast, overload

from kafkalog_cli.disk.fs import Filesystem, read_all
from kafkalog_cli.errors import UsageError, did_you_mean
from kafkalog_cli.format.java_text import parse_properties
from kafkalog_cli.format.limits import MOST_PROPERTIES_BYTES
from kafkalog_cli.log.settings.topic_config_table import (
    BROKER_KEYS,
    FIXED_SETTINGS,
    INTERNAL_SEGMENT_BYTES,
    TOPIC_KEYS,
    ConfigValue,
    Key,
    config_text,
    parse_config,
)
from kafkalog_cli.results import Hidden, as_text

CLEANUP_POLICY = "cleanup.policy"
COMPACT, DELETE = "compact", "delete"
_AS_RETENTION = -2

ValueT = TypeVar("ValueT")
Texts = Mapping[str, str]
_NOTHING: Texts = MappingProxyType({})


@unique
class Origin(Enum):
    """The source of a setting's value, the strongest source first. The value is the word in JSON output.

    From TOPIC on these are Kafka's sources (DescribeConfigsResponse.ConfigSource).
    """

    INTERNAL_TOPIC = "internal-topic"  # Kafka's coordinators depend on this value, whatever is configured
    COMMAND_LINE = "command-line"
    TOPIC = "dynamic-topic-config"
    DYNAMIC_BROKER = "dynamic-broker-config"
    DYNAMIC_DEFAULT_BROKER = "dynamic-default-broker-config"
    STATIC_BROKER = "static-broker-config"
    DEFAULT = "default-config"

    @property
    def strength(self) -> int:
        """The rank of the source: a greater number is a stronger source."""
        return -list(Origin).index(self)

    @property
    def words(self) -> str:
        """The name of the source in text output."""
        return _WORDS[self]


_WORDS = {
    Origin.INTERNAL_TOPIC: "fixed for this internal topic",
    Origin.COMMAND_LINE: "--config",
    Origin.TOPIC: "the topic's own, in the metadata log",
    Origin.DYNAMIC_BROKER: "this broker's, in the metadata log",
    Origin.DYNAMIC_DEFAULT_BROKER: "all brokers', in the metadata log",
    Origin.STATIC_BROKER: "--broker-config",
    Origin.DEFAULT: "Kafka's default",
}


class Setting(NamedTuple):
    """A setting that a plan uses.

    `given_name` and `given_text` are its name and value in that source (log.retention.hours for retention.ms).
    `is_known` is False for Kafka's default if a source that could override it was not read.
    """

    name: str
    value: Annotated[ConfigValue, as_text(config_text)]
    origin: Annotated[Origin, "the source of the value"]
    given_name: Hidden[str]
    given_text: Hidden[str]
    is_known: Hidden[bool] = True

    @property
    def text(self) -> str:
        """The value as Kafka prints it."""
        return config_text(self.value)

    @property
    def explanation(self) -> str:
        """`name=value` and its source, for text output."""
        given = "" if self.given_name == self.name else f"{self.given_name}={self.given_text}, "
        assumed = "" if self.is_known else ", assumed: not every source was read"
        return f"{self.name}={self.text} ({given}{self.origin.words}{assumed})"


class ConfigProblem(NamedTuple):
    """A value that no broker of 4.4 accepts, in the metadata log or server.properties; it counts as not set."""

    name: str
    origin: Origin
    given_name: str
    reason: str


class UnreadSource(NamedTuple):
    """A source of settings that was not read: the reason, and the option that names the source, "" if none does.

    `is_of_topic`: the source has the topic's own settings. `is_of_broker`: it has broker-level settings.
    """

    why: str
    option: str
    is_of_topic: bool = False
    is_of_broker: bool = True


class _Value(Generic[ValueT]):
    """A descriptor that returns the value of a setting with its Python type."""

    def __init__(self, name: str, kind: type[ValueT]) -> None:
        self._name = name
        self._kind = kind

    @overload
    def __get__(self, settings: None, owner: object = None) -> _Value[ValueT]: ...
    @overload
    def __get__(self, settings: Settings, owner: object = None) -> ValueT: ...
    def __get__(self, settings: Settings | None, owner: object = None) -> ValueT | _Value[ValueT]:
        return self if settings is None else cast("ValueT", settings.settings[self._name].value)


@dataclass(frozen=True, slots=True)
class Settings(Mapping[str, Setting]):
    """The settings of a topic's logs (LogConfig) and of its broker, by Kafka's name.

    Attributes have the values in Kafka's units. `problems` lists the values that were ignored, `unread` the sources
    that were not read.
    """

    settings: dict[str, Setting]
    problems: tuple[ConfigProblem, ...] = field(default=())
    unread: tuple[UnreadSource, ...] = field(default=())

    def __getitem__(self, name: str) -> Setting:
        return self.settings[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.settings)

    def __len__(self) -> int:
        return len(self.settings)

    def is_configured(self, name: str) -> bool:
        """Whether a source sets it: its origin is stronger than Kafka's default."""
        return self.settings[name].origin is not Origin.DEFAULT

    def is_known(self, name: str) -> bool:
        """Whether the value is certain: a source sets it, or every source was read and none sets it."""
        return self.settings[name].is_known

    cleanup_policy = _Value(CLEANUP_POLICY, tuple[str, ...])
    delete_retention_ms = _Value("delete.retention.ms", int)
    file_delete_delay_ms = _Value("file.delete.delay.ms", int)
    index_interval_bytes = _Value("index.interval.bytes", int)
    max_compaction_lag_ms = _Value("max.compaction.lag.ms", int)
    cleaner_threads = _Value("log.cleaner.threads", int)
    max_message_bytes = _Value("max.message.bytes", int)
    min_cleanable_dirty_ratio = _Value("min.cleanable.dirty.ratio", float)
    min_compaction_lag_ms = _Value("min.compaction.lag.ms", int)
    producer_id_expiration_ms = _Value("producer.id.expiration.ms", int)
    remote_storage_enable = _Value("remote.storage.enable", bool)
    remote_storage_system_enable = _Value("remote.log.storage.system.enable", bool)
    retention_bytes = _Value("retention.bytes", int)
    retention_ms = _Value("retention.ms", int)
    segment_index_bytes = _Value("segment.index.bytes", int)
    segment_ms = _Value("segment.ms", int)

    @property
    def segment_size(self) -> Setting:
        """The setting that limits a segment's size, segment.bytes or internal.segment.bytes.

        The latter is used if it is set, and its origin is at least as strong as that of segment.bytes.
        """
        internal, public = self.settings[INTERNAL_SEGMENT_BYTES], self.settings["segment.bytes"]
        is_set = internal.value is not None and internal.origin.strength >= public.origin.strength
        return internal if is_set else public

    @property
    def segment_bytes(self) -> int:
        """The largest size of a segment (LogConfig.segmentSize)."""
        return cast("int", self.segment_size.value)

    @property
    def is_compacted(self) -> bool:
        """Whether the cleaner compacts the topic."""
        return COMPACT in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Whether retention limits apply: cleanup.policy contains "delete"."""
        return DELETE in self.cleanup_policy

    @property
    def local_retention_ms(self) -> int:
        """Retention time of a tiered topic's local segments, in ms (LogConfig.localRetentionMs)."""
        local = cast("int", self.settings["local.retention.ms"].value)
        return self.retention_ms if local == _AS_RETENTION else local

    @property
    def max_segment_ms(self) -> int:
        """The age in ms at which a segment is rolled, without jitter (LogConfig.maxSegmentMs)."""
        lag = self.max_compaction_lag_ms if self.is_compacted and self.max_compaction_lag_ms > 0 else self.segment_ms
        return min(lag, self.segment_ms)


Layers = Mapping[Origin, Texts]
"""The configured settings of each source, name to text: broker-level names from DYNAMIC_BROKER on."""


def resolve(topic: str, layers: Layers, unread: tuple[UnreadSource, ...] = ()) -> Settings:
    """Return the settings of a topic and of its broker, each from the strongest layer with a legal value.

    `unread` lists the sources that were not read; a default that they could override is not known to apply.
    """
    problems: list[ConfigProblem] = []
    settings = {}
    is_topic_read = not any(source.is_of_topic for source in unread)
    for name, key in TOPIC_KEYS.items():
        is_read = not unread if key.broker_names else is_topic_read
        settings[name] = _as_known(_strongest(key, (key,), key.broker_names, layers, problems), is_read=is_read)
    for name, value in FIXED_SETTINGS.get(topic, {}).items():
        settings[name] = Setting(name, value, Origin.INTERNAL_TOPIC, name, config_text(value))
        problems = [problem for problem in problems if problem.name != name]
    is_broker_read = not any(source.is_of_broker for source in unread)
    for name, key in BROKER_KEYS.items():
        settings[name] = _as_known(_strongest(key, (), (key,), layers, problems), is_read=is_broker_read)
    return Settings(settings, tuple(problems), unread)


def parse_topic_settings(options: Sequence[str]) -> dict[str, str]:
    """Parse the `name=value` of each --config; the last value of a repeated name counts. Raises UsageError."""
    settings = {}
    for option in options:
        name, equals, text = option.partition("=")
        key = TOPIC_KEYS.get(name)
        if not equals:
            raise UsageError(reason=f"--config {option}: expected name=value")
        if key is None:
            raise UsageError(reason=f"--config {option}: Unknown topic config name: {name}{_hint(name)}")
        try:
            parse_config(key, text)
        except ValueError as error:
            raise UsageError(reason=f"--config {option}: {error}") from error
        settings[name] = text
    return settings


def read_broker_properties(fs: Filesystem, path: str) -> dict[str, str]:
    """Read a server.properties file.

    Raises UsageError if the file is malformed, or if a broker would reject a setting that concerns logs. Raises
    PathNotFound, NotKafkaLayout (not a regular file), Unreadable, and OSError when the device fails.
    """
    try:
        properties = parse_properties(read_all(fs, path, MOST_PROPERTIES_BYTES))
    except ValueError as error:
        raise UsageError(reason=f"--broker-config {path}: {error}") from error
    config = resolve("", {Origin.STATIC_BROKER: properties})
    for problem in config.problems:
        raise UsageError(reason=f"--broker-config {path}: {problem.reason}")
    if not config.cleaner_threads:  # KafkaConfig.validateValues divides the cleaner's buffer by it
        raise UsageError(reason=f"--broker-config {path}: a broker does not start with log.cleaner.threads=0")
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:  # LogConfig.validateValues
        lags = f"{config['min.compaction.lag.ms'].explanation} > {config['max.compaction.lag.ms'].explanation}"
        raise UsageError(reason=f"--broker-config {path}: {lags}")
    return properties


_DYNAMIC = (Origin.DYNAMIC_BROKER, Origin.DYNAMIC_DEFAULT_BROKER)


def _strongest(
    key: Key, own: tuple[Key, ...], of_broker: tuple[Key, ...], layers: Layers, problems: list[ConfigProblem]
) -> Setting:
    """Return the setting from the strongest layer: `own` are its names at the topic level, `of_broker` the others."""
    for origin in (Origin.COMMAND_LINE, Origin.TOPIC, *_DYNAMIC, Origin.STATIC_BROKER):
        texts = layers.get(origin, _NOTHING)
        for name in own if origin in (Origin.COMMAND_LINE, Origin.TOPIC) else of_broker:
            text = texts.get(name.name)
            if text is None or (origin in _DYNAMIC and not name.is_dynamic):
                continue
            try:
                value = name.in_topic_units(parse_config(name, text))
            except ValueError as error:
                problems.append(ConfigProblem(key.name, origin, name.name, str(error)))
                break
            return Setting(key.name, value, origin, name.name, text)
    return Setting(key.name, key.default, Origin.DEFAULT, key.name, config_text(key.default))


def _as_known(setting: Setting, *, is_read: bool) -> Setting:
    """Set `is_known`: False for Kafka's default unless all sources that could override it were read (`is_read`)."""
    return setting._replace(is_known=is_read or setting.origin is not Origin.DEFAULT)


def _hint(name: str) -> str:
    """Return the topic-level name of a broker-level `name`, or a question with names that resemble `name`; else ""."""
    for topic_name, key in TOPIC_KEYS.items():
        if any(name == setting.name for setting in key.broker_names):
            return f" (a broker's; the topic's is {topic_name})"
    question = did_you_mean(name, TOPIC_KEYS) if name else ""
    return f". {question}" if question else ""
