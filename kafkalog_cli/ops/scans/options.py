"""The options of the source: those of Spark's Kafka source with its names, precedence and refusals, and our own."""

import os
import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from kafkalog_cli.errors import UsageError
from kafkalog_cli.ops.choices import Isolation, Mode
from kafkalog_cli.ops.decoding import Decoding
from kafkalog_cli.ops.ranges import Range
from kafkalog_cli.ops.scans.offset_limits import (
    OF_RECORDS,
    LimitKind,
    OffsetLimit,
    TopicPartition,
    check_limits,
    ending_limit,
    parsed_json,
    range_of,
    starting_limit,
    streams_start,
)
from kafkalog_cli.ops.scans.schema import FAULT, SourceColumn, columns_named, default_columns

STRATEGIES = ("assign", "subscribe", "subscribePattern")

OF_RANGES = (
    "startingOffsets", "startingOffsetsByTimestamp", "startingTimestamp", "endingOffsets", "endingOffsetsByTimestamp",
    "endingTimestamp", "startingOffsetsByTimestampStrategy", "failOnDataLoss", "minPartitions",
    "maxRecordsPerPartition", "includeHeaders",
)  # fmt: skip
OF_CONNECTIONS = (
    "groupIdPrefix", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "kafkaConsumer.pollTimeoutMs",
)  # fmt: skip
"""Options about a connection: accepted, because existing jobs set them, and ignored."""
OF_STREAMS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
"""Options that a batch read ignores."""
OURS = (
    "path", "paths", "isolation", "includeBatchMetadata", "includeControl", "mode", "columns", *OF_RECORDS,
    "keyFormat", "valueFormat", "schemas",
)  # fmt: skip
OF_FILTERS = ("pushdown",)
"""Accepted, because jobs set it, and ignored: no filter is pushed down (see `offset_limits`)."""
KNOWN = {name.lower(): name for name in (*STRATEGIES, *OF_RANGES, *OF_CONNECTIONS, *OF_STREAMS, *OURS, *OF_FILTERS)}

REFUSED_OF_KAFKA = {
    "auto.offset.reset": "set the option 'startingOffsets' instead",
    "key.deserializer": "keys are byte arrays; use DataFrame operations to deserialize them",
    "value.deserializer": "values are byte arrays; use DataFrame operations to deserialize them",
    "enable.auto.commit": "nothing is committed",
    "interceptor.classes": "nothing comes between the files and the rows",
}


class TopicChoice(NamedTuple):
    """The selected topics: `assigned` partitions, `subscribed` names, or names with a match of `pattern`; else all."""

    assigned: frozenset[TopicPartition] | None = None
    subscribed: frozenset[str] | None = None
    pattern: str | None = None


class SourceOptions(NamedTuple):
    """The options, checked.

    `decoding` is that of JSON_COLUMNS. `max_offsets`: how many offsets a micro-batch of a stream may have; None: no
    limit.
    """

    paths: tuple[str, ...]
    topics: TopicChoice
    starting: OffsetLimit
    ending: OffsetLimit
    fail_on_data_loss: bool
    min_partitions: int | None
    max_records: int | None
    isolation: Isolation
    include_control: bool
    mode: Mode
    columns: tuple[SourceColumn, ...]
    records: Range
    decoding: Decoding
    max_offsets: int | None = None


def read_options(given: Mapping[str, Any]) -> SourceOptions:
    """Return the options of a read. Raises UsageError with a complete message."""
    options = {str(key).lower(): str(value) for key, value in given.items()}
    _check_names(options)
    starting, ending = starting_limit(options), ending_limit(options)
    check_limits(starting, ending)
    return _options(options, starting, ending)


def stream_options(given: Mapping[str, Any]) -> SourceOptions:
    """Return the options of a stream, which has no end. Raises UsageError as `read_options`."""
    options = {str(key).lower(): str(value) for key, value in given.items()}
    _check_names(options)
    for name in ("minOffsetsPerTrigger", "maxTriggerDelay", *OF_RECORDS):
        if name.lower() in options:
            raise UsageError(reason=f"option '{name}' is not for streams here")
    parsed = _options(options, streams_start(options), OffsetLimit(LimitKind.LATEST))
    return parsed._replace(max_offsets=positive(options, "maxOffsetsPerTrigger"))


def _options(options: dict[str, str], starting: OffsetLimit, ending: OffsetLimit) -> SourceOptions:
    mode = word(options, "mode", Mode, Mode.FAILFAST)
    flag(options, "pushdown", default=False)
    return SourceOptions(
        _paths(options),
        _topics(options),
        starting,
        ending,
        flag(options, "failOnDataLoss", default=True),
        positive(options, "minPartitions"),
        positive(options, "maxRecordsPerPartition"),
        _isolation(options),
        flag(options, "includeControl", default=False),
        mode,
        _columns(options, mode),
        range_of(options),
        Decoding.of_words(options.get("keyformat", "auto"), options.get("valueformat", "auto"), options.get("schemas")),
    )


def check_faults_are_shown(columns: tuple[SourceColumn, ...], mode: Mode) -> None:
    """Raise UsageError if damage would not be visible in its row, or the fault column would always be null."""
    if mode is Mode.PERMISSIVE and FAULT not in columns:
        raise UsageError(reason=f"mode permissive reports damage in the column {FAULT.name}: add it to the columns")
    if mode is not Mode.PERMISSIVE and FAULT in columns:
        raise UsageError(reason=f"the column {FAULT.name} exists only with option('mode', 'permissive')")


def _check_names(options: dict[str, str]) -> None:
    for name in options:
        if name.startswith("kafka."):
            word = name.removeprefix("kafka.")
            if word in REFUSED_OF_KAFKA:
                raise UsageError(reason=f"Kafka option '{word}' is not supported: {REFUSED_OF_KAFKA[word]}")
        elif name not in KNOWN:
            raise UsageError(reason=f"unknown option '{name}'; there are {', '.join(sorted(KNOWN.values()))}")


def _paths(options: dict[str, str]) -> tuple[str, ...]:
    """Return the paths as given, after a check that `local_path` accepts all of them. Raises UsageError."""
    if "paths" in options:  # Spark passes the paths of load([...]) as JSON
        paths = parsed_json(options["paths"])
        if not isinstance(paths, list) or not all(isinstance(text, str) and text for text in paths):
            raise UsageError(reason=f"paths is a JSON list of paths, not {options['paths']}")
    elif options.get("path"):
        paths = [options["path"]]
    else:
        raise UsageError(reason="option 'path' must be given: a log directory, a partition's directory, a glob")
    for path in paths:
        local_path(path)
    return tuple(paths)


def _topics(options: dict[str, str]) -> TopicChoice:
    given = [name for name in STRATEGIES if name.lower() in options]
    if len(given) > 1:
        names = "subscribe, subscribePattern, assign"
        raise UsageError(reason=f"Only one of the following options can be specified for Kafka source: {names}")
    if not given:
        return TopicChoice()
    name = given[0]
    value = options[name.lower()]
    if name == "assign":
        return TopicChoice(assigned=_assigned(value))
    if name == "subscribe":
        topics = frozenset(word.strip() for word in value.split(",") if word.strip())
        if not topics:
            raise UsageError(reason=f"No topics to subscribe to as specified value for option 'subscribe' is '{value}'")
        return TopicChoice(subscribed=topics)
    return TopicChoice(pattern=_pattern(value))


def _assigned(value: str) -> frozenset[TopicPartition]:
    if not value.strip().startswith("{"):
        raise UsageError(reason=f"No topicpartitions to assign as specified value for option 'assign' is '{value}'")
    parsed = parsed_json(value)
    numbers = parsed.values() if isinstance(parsed, dict) else [None]
    if not all(isinstance(part, list) and all(type(one) is int for one in part) for part in numbers):
        raise UsageError(reason=f'Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {value}')
    return frozenset(TopicPartition(topic, number) for topic, part in parsed.items() for number in part)


def _pattern(value: str) -> str:
    pattern = value.strip()
    if not pattern:
        raise UsageError(
            reason=f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{value}'"
        )
    try:
        re.compile(pattern)
    except re.error as error:
        raise UsageError(reason=f"option 'subscribePattern' is not a regular expression: {error}") from error
    return pattern


def _isolation(options: dict[str, str]) -> Isolation:
    isolation = word(options, "isolation", Isolation, Isolation.READ_UNCOMMITTED)
    of_kafka = options.get("kafka.isolation.level")
    if of_kafka is None:
        return isolation
    level = word({"kafka.isolation.level": of_kafka}, "kafka.isolation.level", Isolation, isolation)
    if "isolation" in options and level is not isolation:
        raise UsageError(reason="options 'isolation' and 'kafka.isolation.level' say different things")
    return level


def _columns(options: dict[str, str], mode: Mode) -> tuple[SourceColumn, ...]:
    if "columns" in options:
        columns = columns_named([name.strip() for name in options["columns"].split(",") if name.strip()])
        check_faults_are_shown(columns, mode)
        return columns
    return default_columns(
        headers=flag(options, "includeHeaders", default=False),
        batch_metadata=flag(options, "includeBatchMetadata", default=False),
        faults=mode is Mode.PERMISSIVE,
    )


def flag(options: dict[str, str], name: str, *, default: bool) -> bool:
    """Return the value of a true/false option; the names in `options` are in lower case. Raises UsageError."""
    value = options.get(name.lower(), str(default)).strip().lower()
    if value not in ("true", "false"):
        raise UsageError(reason=f"{name} is true or false, not {options[name.lower()]}")
    return value == "true"


def positive(options: dict[str, str], name: str) -> int | None:
    """Return the value of an option that is a number above 0; None without it. Raises UsageError."""
    if name.lower() not in options:
        return None
    value = options[name.lower()].strip()
    if not re.fullmatch(r"[+-]?\d{1,18}", value):
        raise UsageError(reason=f"{name} is a number, not {value}")
    if int(value) <= 0:
        raise UsageError(reason=f"{name} must be positive")
    return int(value)


_Word = TypeVar("_Word", bound=Enum)


def word(options: dict[str, str], name: str, kind: Callable[[str], _Word], default: _Word) -> _Word:
    """Return the word of an option as `kind`. Raises UsageError."""
    value = options.get(name.lower())
    if value is None:
        return default
    try:
        return kind(value.strip().lower())
    except ValueError:
        words = ", ".join(str(choice.value) for choice in type(default))
        raise UsageError(reason=f"{name} is one of {words}; not {value}") from None


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)|(?i:(file|hdfs|s3[an]?|https?|abfss?|wasbs?|gs|dbfs|viewfs)):")
_HERE = ("", "localhost")


def local_path(path: str) -> str:
    """Return a path or a `file:` URI as an absolute path of this machine: workers have other working directories.

    Raises UsageError for an address of another file system, which is not supported.
    """
    match = _SCHEME.match(path)
    if match is None:
        return os.path.abspath(path)  # noqa: PTH100 - links are not followed
    scheme = (match[1] or match[2]).lower()
    if scheme != "file":
        raise UsageError(
            reason=f"{path}: {scheme} is not supported. Log directories are read from file systems that are mounted:"
            f" give a path, or file:///path (a directory whose name looks so: ./{path})"
        )
    try:
        host = urlsplit(path).netloc
    except ValueError as error:
        raise UsageError(reason=f"{path} is not a URI: {error}") from None
    if host.lower() not in _HERE:
        raise UsageError(reason=f"{path}: the files of another host ({host}) are not read; give a path on this host")
    name = unquote(re.sub(r"^(?i:file):(//[^/]*)?", "", path), errors="surrogateescape")
    if not name:
        raise UsageError(reason=f"{path} names no directory")
    return os.path.abspath(re.sub("^/+", "/", name))  # noqa: PTH100
