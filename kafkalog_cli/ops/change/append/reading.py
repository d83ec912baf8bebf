"""Parse records to append: NDJSON as dump-log prints it, or one record per line."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from typing import Any

from kafkalog_cli.errors import BadInput, NotRecords
from kafkalog_cli.format.batch import NO_TIMESTAMP
from kafkalog_cli.format.compression import Codec, codec_name
from kafkalog_cli.format.limits import (
    MEBIBYTE,
    MOST_INPUT_LINE_BYTES,
    MOST_JSON_LINE_BYTES,
    MOST_JSON_LINE_VALUES,
    MOST_WIDE_JSON_LINE_BYTES,
)
from kafkalog_cli.format.records import Header
from kafkalog_cli.ops.change.append.records import NO_ORIGIN, UNKNOWN, NewRecord, RecordOrigin

_SKIPPED = ("batch", "summary", "progress")
"""The types of dump-log's lines that are not records. Data of others may have such types, so the schema counts, too."""
_CONTENTS = frozenset({"key", "value", "headers"})
"""A record to append has at least one of these; the other fields say where it was, or when it was written."""
_FIELDS = _CONTENTS | {
    *("schema", "type", "topic", "topic_b64", "partition", "segment", "segment_b64", "position", "offset"),
    *("timestamp_ms", "timestamp_type", "batch_base_offset", "codec", "producer_id", "producer_epoch", "sequence"),
    *("leader_epoch", "transactional", "control", "crc_valid", "decoded", "match"),
}
"""The fields of a record as dump-log, read and find print it (kafkalog.record/1)."""
_LARGEST_TIMESTAMP = (1 << 63) - 1
_LARGEST_INT, _LARGEST_OFFSET = (1 << 31) - 1, (1 << 63) - 2
_TIMESTAMP_TYPES = (None, "CreateTime", "LogAppendTime", "NoTimestampType")

Parse = Callable[[bytes], NewRecord | None]
"""Parses a line without its end into a record; returns None for a line that is not a record. Raises ValueError."""


class NotMeantAsRecord(ValueError):
    """A JSON value is not an object, or an object with a field or a value that no record has."""


def bad_line(path: str, number: int, error: ValueError) -> BadInput:
    """Return the error for a line that is not a record.

    It is NotRecords for JSON that `read` never prints: no object, an object with unknown fields, one name twice, or a
    value that no record has. Other lines, which are not JSON or too large, are damaged rather than of another form.
    """
    kind = NotRecords if isinstance(error, (NotMeantAsRecord, RepeatedName)) else BadInput
    return kind(path=path, reason=f"line {number}: {error}")


def parse_ndjson(line: bytes, *, with_origin: bool = False) -> NewRecord | None:
    """Parse a record of dump-log's NDJSON. Raises ValueError as `record_of_ndjson`, and for what is not JSON."""
    return record_of_ndjson(parse_json_line(line), with_origin=with_origin) if line.strip() else None


def record_of_ndjson(found: Any, *, with_origin: bool) -> NewRecord | None:
    """Return the record of an object as dump-log prints it; key, value and header values may also be plain strings.

    Control records are left out, since markers of transactions are not data. Raises ValueError, also for a field that
    no record has, such as a misspelled name.
    """
    if not isinstance(found, dict):
        raise NotMeantAsRecord(f"no JSON object; {LINES_HINT}")
    if is_kcat(found):
        raise NotMeantAsRecord(f"it is not a record of read or dump-log; {KCAT_HINT}")
    kind, schema = found.get("type", "record"), found.get("schema")
    if kind != "record":
        if isinstance(schema, str) and schema.startswith("kafkalog.") and kind in _SKIPPED:
            return None
        raise NotMeantAsRecord(f"an object of type {kind!r} is not a record; {LINES_HINT}")
    control = found.get("control")
    if control is not None:
        _check_fields(found, frozenset({"control"}))
        if not isinstance(control, dict):
            raise _not("control", "null or an object")
        return None
    _check_fields(found, _FIELDS - {"schema", "type"} if with_origin else _CONTENTS)
    headers = [] if found.get("headers") is None else found["headers"]
    if not isinstance(headers, list):
        raise _not("headers", "null or a list")
    return NewRecord(
        _bytes(found.get("key"), "key"),
        _bytes(found.get("value"), "value"),
        tuple(map(_header, headers)),
        _timestamp(found),
        _origin(found) if with_origin else NO_ORIGIN,
    )


def _check_fields(found: dict[str, Any], some: frozenset[str]) -> None:
    """Check the names of the fields, of which `some` has at least one: Spark leaves out null fields.

    Raises NotMeantAsRecord for an object that is not a record, or that has a field no record has. A later version may
    print more fields, so an object that names its schema may have any.
    """
    if not some & found.keys():
        raise NotMeantAsRecord(f"an object without key, value and headers is not a record; {LINES_HINT}")
    schema = found.get("schema")
    unknown = sorted(found.keys() - _FIELDS)
    if not unknown or (isinstance(schema, str) and schema.startswith("kafkalog.record/")):
        return
    import difflib  # imported only for an error that ends the run

    meant = difflib.get_close_matches(unknown[0], sorted(_FIELDS), 1)
    hint = f", is {meant[0]} meant?" if meant else f"; a record has {', '.join(sorted(_CONTENTS | {'timestamp_ms'}))}"
    raise NotMeantAsRecord(f"unknown field {unknown[0]!r}{hint}; {LINES_HINT}")


_KCAT_FIELDS = frozenset({
    *("topic", "partition", "offset", "tstype", "ts", "broker", "headers", "key", "payload"),
    *("key_schema_id", "value_schema_id", "key_error", "payload_error"),
})  # fmt: skip
_KCAT_TIMES = {"create": "CreateTime", "logappend": "LogAppendTime", "unknown": "NoTimestampType"}
KCAT_HINT = "--input kcat reads lines of kcat -J"


def is_kcat(found: Any) -> bool:
    """Whether the value of a line is a record as `kcat -J` prints it."""
    return isinstance(found, dict) and "payload" in found and "schema" not in found


def parse_kcat(line: bytes, *, with_origin: bool = False) -> NewRecord | None:
    """Parse a record as `kcat -J` prints it: keys and payloads are their bytes, also where these are not UTF-8.

    Raises ValueError.
    """
    return record_of_kcat(parse_json_line(line, keeps_bytes=True), with_origin=with_origin) if line.strip() else None


def record_of_kcat(found: Any, *, with_origin: bool) -> NewRecord:
    """Return the record of a line of `kcat -J`. Raises ValueError."""
    if not is_kcat(found):
        raise NotMeantAsRecord("it is no line of kcat -J, which has a payload")
    unknown = sorted(found.keys() - _KCAT_FIELDS)
    if unknown:
        raise NotMeantAsRecord(f"unknown field {unknown[0]!r} in a line of kcat -J")
    for name in ("key", "payload"):
        if isinstance(found.get(name), dict | list) or f"{name}_error" in found or f"{name}_schema_id" in found:
            raise NotMeantAsRecord(f"kcat has decoded the {name} (-s avro), so that its bytes are not known")
    headers = found.get("headers") or []
    if isinstance(headers, dict):  # -J with json.headers=map
        headers = [one for name, values in headers.items() for value in values for one in (name, value)]
    if not isinstance(headers, list) or len(headers) % 2:
        raise _not("headers", "a list of names and values")
    pairs = zip(headers[::2], headers[1::2], strict=True)
    fields = {"timestamp_ms": found.get("ts"), "timestamp_type": _KCAT_TIMES.get(found.get("tstype", "create"))}
    return NewRecord(
        _kcat_bytes(found.get("key"), "key"),
        _kcat_bytes(found["payload"], "payload"),
        tuple(Header(_kcat_bytes(name, "header") or b"", _kcat_bytes(value, "header")) for name, value in pairs),
        _timestamp(fields),
        _origin({**found, **fields}) if with_origin else NO_ORIGIN,
    )


def _kcat_bytes(found: Any, what: str) -> bytes | None:
    if not isinstance(found, str | None):
        raise _not(what, "null or a string")
    return None if found is None else found.encode("utf-8", "surrogateescape")


def line_parser_of_files(topics: list[str]) -> Parse:
    """Return the parser of the lines that read, export and kcat print; it adds names of topics to `topics`."""

    def parse(line: bytes) -> NewRecord | None:
        if not line.strip():
            return None
        if b'"payload":' in line:
            found = parse_json_line(line, keeps_bytes=True, most_bytes=MOST_INPUT_LINE_BYTES)
            if is_kcat(found):
                return _with_origin(record_of_kcat(found, with_origin=True), found, topics)
        try:
            found = parse_json_line(line, most_bytes=MOST_INPUT_LINE_BYTES)
            record = record_of_ndjson(found, with_origin=True)
        except ValueError as error:  # the hint is of an option that import does not have
            raise type(error)(str(error).removesuffix(f"; {LINES_HINT}")) from error
        return None if record is None else _with_origin(record, found, topics)

    return parse


def _with_origin(record: NewRecord, fields: dict[str, Any], topics: list[str]) -> NewRecord:
    """Return the record with what only export writes. Raises ValueError."""
    topic, codec, is_transactional = (fields.get(name) for name in ("topic", "codec", "transactional"))
    for name, text in (("topic", topic), ("codec", codec)):
        if not isinstance(text, str | None):
            raise NotMeantAsRecord(f"{name} must be a string")
        utf8_of(text or "")
    if not isinstance(is_transactional, bool | None):
        raise NotMeantAsRecord("transactional must be true, false or null")
    if topic is not None and topic not in topics:
        topics.append(topic)
    origin = record.origin._replace(
        topic=UNKNOWN if topic is None else topics.index(topic),
        codec=codec_number(codec or "none"),
        is_transactional=bool(is_transactional),
    )
    return record._replace(origin=origin, timestamp=NO_TIMESTAMP if record.timestamp is None else record.timestamp)


def line_parser(separator: bytes | None) -> Parse:
    """Return the parser of lines: the whole line is the value, or there is a key before the separator."""

    def parse(line: bytes) -> NewRecord:
        if separator is None:
            return NewRecord(None, line)
        key, found, value = line.partition(separator)
        if not found:
            raise ValueError("there is no key separator in it")
        return NewRecord(key, value)

    return parse


def codec_number(name: str) -> int:
    """Return the number of a codec. Raises ValueError for an unknown name."""
    for codec in Codec:
        if codec_name(codec) == name:
            return codec
    raise ValueError(f"{name!r} is not a codec of Kafka")


def _timestamp(found: dict[str, Any]) -> int | None:
    if "timestamp_ms" not in found:
        return None
    timestamp = found["timestamp_ms"]
    if timestamp is None:
        return NO_TIMESTAMP
    if isinstance(timestamp, bool) or not isinstance(timestamp, int):
        raise _not("timestamp_ms", "a number of milliseconds")
    if not NO_TIMESTAMP <= timestamp <= _LARGEST_TIMESTAMP:
        raise NotMeantAsRecord(f"timestamp_ms {timestamp} is not possible in a record")
    return timestamp


def _origin(found: dict[str, Any]) -> RecordOrigin:
    kind = found.get("timestamp_type")
    if kind not in _TIMESTAMP_TYPES:
        raise _not("timestamp_type", "CreateTime, LogAppendTime or NoTimestampType")
    return RecordOrigin(
        _number(found, "partition", 0, _LARGEST_INT),
        _number(found, "offset", 0, _LARGEST_OFFSET),
        _number(found, "leader_epoch", -1, _LARGEST_INT),
        kind == "LogAppendTime",
    )


def _number(found: dict[str, Any], name: str, least: int, most: int) -> int:
    number = found.get(name)
    if number is None:
        return UNKNOWN
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        raise _not(name, f"a number from {least} to {most}")
    assert isinstance(number, int)
    return number


def _header(found: Any) -> Header:
    if not isinstance(found, dict) or "key" not in found:
        raise _not("headers", "objects with key and value")
    key = _bytes(found["key"], "header key")
    if key is None:
        raise _not("header key", "anything but null")
    return Header(key, _bytes(found.get("value"), "header value"))


def _bytes(found: Any, what: str) -> bytes | None:
    if found is None:
        return None
    if isinstance(found, str):
        return utf8_of(found)
    if not isinstance(found, dict) or not isinstance(found.get("data"), str) or "missing_bytes" in found:
        raise _not(what, "null, a string, or an object with encoding and data")
    if found.get("encoding") == "utf-8":
        return utf8_of(found["data"])
    if found.get("encoding") == "base64":
        try:
            if len(found["data"]) % 4:  # Python 3.10 does not check this
                raise binascii.Error("incorrect padding")
            return base64.b64decode(found["data"], validate=True)
        except binascii.Error as error:
            raise NotMeantAsRecord(f"the {what} is not base64: {error}") from error
    raise _not(f"encoding of the {what}", "utf-8 or base64")


def utf8_of(text: str) -> bytes:
    """Return the bytes of a text. Raises NotMeantAsRecord if half of a pair of surrogates has none."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start : error.end]
        raise NotMeantAsRecord(f"half of a surrogate pair: {half!r}") from error


def _not(what: str, expected: str) -> NotMeantAsRecord:
    return NotMeantAsRecord(f"{what} must be {expected}")


SMALL_BYTES = 4 * MEBIBYTE
"""No line of this size needs much memory, whatever it holds."""
_WIDE = re.compile(rb"\\u(?!00)")
"""The escape of a character that makes Python's text take two or four bytes per character."""
_STRUCTURE = (b",", b"[", b"{")


LINES_HINT = "--input lines reads each line as a value"


class RepeatedName(ValueError):
    """An object of a line has a name twice: which of its values is meant cannot be known."""


def parse_json_line(line: bytes, *, keeps_bytes: bool = False, most_bytes: int | None = None) -> Any:
    """Return the value of a line. `keeps_bytes`: bytes that are not UTF-8 become lone surrogates (surrogateescape).

    Raises ValueError if it is not JSON, or as `check_json_line` does, RepeatedName, and NotMeantAsRecord for a number
    with more digits than Python reads.
    """
    check_json_line(line, most_bytes)
    try:
        text = line.decode("utf-8", "surrogateescape") if keeps_bytes else line
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except RepeatedName:
        raise
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except (json.JSONDecodeError, UnicodeDecodeError, _NoConstant) as error:
        hint = KCAT_HINT if b'"payload":' in line else LINES_HINT
        raise ValueError(f"no JSON: {error}; {hint}") from error
    except ValueError as error:  # the limit of Python for whole numbers
        raise NotMeantAsRecord("it has a number with thousands of digits, which no record has") from error


class _NoConstant(ValueError):
    """A line has NaN or Infinity, which Python's parser takes, though they are not JSON."""


def _no_constant(name: str) -> Any:
    raise _NoConstant(f"{name} is not a number of JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise RepeatedName(f"an object has the name {twice[:80]!r} twice: which value is meant is not known")
    return found


def check_json_line(line: bytes, most_bytes: int | None = None) -> None:
    """Raise ValueError for a line that is too long, or that has too many values, to be parsed in bounded memory.

    `most_bytes` is the largest size; None: what takes as much memory as other work.
    """
    if len(line) <= SMALL_BYTES:
        return
    most_line_bytes = MOST_JSON_LINE_BYTES if most_bytes is None else most_bytes
    if len(line) > most_line_bytes:
        raise ValueError(f"it has more than {most_line_bytes} bytes, the most of a line of NDJSON that are read")
    is_wide = most_bytes is None and len(line) > MOST_WIDE_JSON_LINE_BYTES
    if is_wide and (not line.isascii() or _WIDE.search(line)):
        most = f"{MOST_WIDE_JSON_LINE_BYTES} bytes, the most of a line with characters that are not ASCII"
        raise ValueError(f"it has more than {most}")
    if _has_many_values(line):
        most = f"{MOST_JSON_LINE_VALUES} values, the most of a line of NDJSON that are read"
        raise ValueError(f"it has more than {most}")


def _has_many_values(line: bytes) -> bool:
    unescaped = line.replace(rb"\\", b"").replace(rb"\"", b"")  # now each quote begins or ends a string
    if unescaped.count(b'"') > 4 * MOST_JSON_LINE_VALUES:  # a name and a string for each value
        return True
    outside = unescaped.split(b'"')[::2]
    return sum(part.count(mark) for part in outside for mark in _STRUCTURE) > MOST_JSON_LINE_VALUES
