"""NDJSON: one object per line with its schema and type; bytes, paths, errors and the summary as objects.

The fields of an object are declared on the class of the result: see `kafkalog_cli/results.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

from kafkalog_cli.errors import ExitCode, KafkalogError, next_step
from kafkalog_cli.output.stream import ResultStream
from kafkalog_cli.results import (
    ABSENT,
    AtPath,
    Count,
    Host,
    PathName,
    PathText,
    Schema,
    exit_codes,
    keywords,
    object_of,
    result,
)

AnyExitCode = Annotated[int, exit_codes(*ExitCode), "see EXIT STATUS in the man pages"]


@result("kafkalog.summary/1", is_open=True)
class Summary(NamedTuple):
    """The last line of every run on stdout, with counts of the command; without it the output is incomplete."""

    exit_code: AnyExitCode
    not_done: Annotated[
        list[AtPath] | None,
        ABSENT,
        keywords(minItems=1),
        "the partitions that were not started before the time limit or the interruption; absent if there are none",
    ] = None


@result("kafkalog.warning/1")
class Warned(NamedTuple):
    """A line on stderr: a warning or a note; the run continues."""

    kind: Annotated[str, "a stable word, such as locked, replicas or marker"]
    message: Annotated[str, "a sentence"]
    path: Annotated[PathName | None, ABSENT, "the file or directory concerned"] = None
    next_step: Annotated[str | None, ABSENT, "the user's next step; absent if there is none"] = None
    host: Host = None


@result("kafkalog.error/1")
class Failed(NamedTuple):
    """A line on stderr: an error, or damage."""

    kind: Annotated[str, "a stable word: the kind of a fault, or the name of an error"]
    message: Annotated[str, "a sentence"]
    path: Annotated[PathName | None, ABSENT, "the file or directory concerned"] = None
    position: Annotated[Count | None, ABSENT, "the byte of the file"] = None
    exit_code: Annotated[AnyExitCode | None, ABSENT] = None
    details: Annotated[dict[str, str | float | bool | None] | None, ABSENT, "the values in the message"] = None
    next_step: Annotated[str | None, ABSENT, "the user's next step; absent if there is none"] = None
    host: Host = None


@result("kafkalog.progress/1")
class Progressed(NamedTuple):
    """The progress of a run that takes longer than a second: a line per second on stderr."""

    work: Annotated[str, "the work in one word; a run may have several phases, and each counts from 0"]
    done_bytes: Count
    total_bytes: Annotated[Count | None, "null if unknown"]
    bytes_per_second: Count
    seconds_left: Annotated[float | None, keywords(minimum=0), "null if unknown"]


@dataclass(frozen=True)
class BytesObject:
    """Bytes without loss."""

    encoding: Annotated[Literal["utf-8", "base64"], "utf-8 if the bytes are strict UTF-8, else base64"]
    data: str


_ESCAPED_TOO = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Characters that JSON allows unescaped but that terminals or line readers mishandle."""
_SURROGATE = re.compile("[\ud800-\udfff]")


class Rendered(NamedTuple):
    """A field's value as JSON text, in pieces that are made when they are written."""

    pieces: Iterable[str]


class JsonLines:
    """Writes one object per line. The last line of a run is `summary`; without it the output is incomplete."""

    def __init__(self, stream: ResultStream) -> None:
        self._stream = stream

    def result(self, value: Any, /, **given: object) -> None:
        """Write a result as one line; the fields that are `given` do not come from its attributes."""
        self.object(type(value).schema, object_of(value, **given))

    def results(self, results: Iterable[Any]) -> None:
        """Write each result as one line."""
        for value in results:
            self.result(value)

    def object(self, kind: Schema, fields: Mapping[str, object]) -> None:
        """Write one line: `{"schema":"kafkalog.record/1","type":"record",…}`, the fields in their order.

        Values are JSON values, or values that `json_text` converts; a value that is JSON text already is `Rendered`.
        """
        named = {"schema": kind.name, "type": kind.type, **fields}
        if not any(isinstance(value, Rendered) for value in named.values()):
            self._stream.write(json_text(named) + "\n")
            return
        separator = "{"
        for name, value in named.items():
            if isinstance(value, Rendered):
                self._stream.write(f"{separator}{json_text(name)}:")
                for piece in value.pieces:
                    self._stream.write(piece)
            else:
                self._stream.write(separator + json_text({name: value})[1:-1])
            separator = ","
        self._stream.write("}\n")

    def summary(self, exit_code: ExitCode | int, **counts: Any) -> None:
        """Write the last line: the counts and the exit code of the run."""
        self.object(Summary.schema, {**counts, "exit_code": int(exit_code)})  # type: ignore[attr-defined]

    def exception(self, error: KafkalogError) -> None:
        """Write a line for stderr about an exception that ends the run; its details become fields."""
        details: dict[str, Any] = {
            name: value if _is_json(value) else str(value) for name, value in error.details.items()
        }
        path, host, _ = (details.pop(name, None) for name in ("path", "host", "next_step"))
        text = None if path is None else str(path)
        step = next_step(error) or None
        self.result(Failed(type(error).__name__, str(error), text, None, error.exit_code, details, step, host))

    def flush(self) -> None:
        """Flush everything to the operating system."""
        self._stream.flush()


def json_bytes(data: bytes | memoryview | None) -> dict[str, str] | None:
    """Return bytes without loss: as text if they are strict UTF-8, else in base64; None stays None."""
    if data is None:
        return None
    try:
        return {"encoding": "utf-8", "data": str(data, "utf-8")}
    except UnicodeDecodeError:
        import base64

        return {"encoding": "base64", "data": base64.b64encode(data).decode()}


def json_path(path: str, name: str = "path") -> dict[str, str]:
    """Return the fields of a path: its text, and its bytes in base64 (`path_b64`) if they are not UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        import base64

        raw = os.fsencode(path)
        return {name: raw.decode("utf-8", "replace"), name + "_b64": base64.b64encode(raw).decode()}
    return {name: path}


def json_text(value: object) -> str:
    """Return `value` as JSON in one line, without raw control characters, line separators or lone surrogates.

    Bytes become `json_bytes`, enums their values, a `PathText` of an object `json_path`, and tuples arrays. JSON has no
    numbers that are not finite: such a number becomes a string ("NaN").
    """
    try:
        text = _encoder()(value)
    except ValueError:
        value = _finite(value)
        text = _encoder()(value)
    if text.isascii() and "\x7f" not in text:
        return text
    if _SURROGATE.search(text):
        text = _encoder()(_with_path_bytes(value))
    return _ESCAPED_TOO.sub(_escape, text)


@cache
def _encoder() -> Callable[[Any], str]:
    import json

    return json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_default).encode


def _default(value: object) -> object:
    if isinstance(value, (bytes, memoryview)):
        return json_bytes(value)
    if isinstance(value, Enum):
        return value.value
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _finite(value: object) -> object:
    if isinstance(value, float) and value - value != 0:
        return str(value)
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    return [*map(_finite, value)] if isinstance(value, (list, tuple)) else value


def _with_path_bytes(value: object) -> object:
    """Return `value` with the bytes of each path beside it."""
    if isinstance(value, Mapping):
        members: dict[Any, object] = {}
        for name, item in value.items():
            members.update(json_path(item, name) if isinstance(item, PathText) else {name: _with_path_bytes(item)})
        return members
    return [*map(_with_path_bytes, value)] if isinstance(value, (list, tuple)) else value


def _escape(match: re.Match[str]) -> str:
    character = ord(match[0])
    return "\ufffd" if 0xD800 <= character <= 0xDFFF else f"\\u{character:04x}"


def _is_json(value: object) -> bool:
    return value is None or isinstance(value, (str, int, float, bool))
