"""NDJSON: one object per line with its schema and type; bytes, paths, errors and the summary as objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kafkalog_cli.errors import ExitCode, KafkalogError, next_step
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.output.stream import ResultStream

Fields = Mapping[str, object]

SUMMARY = "kafkalog.summary/1"
ERROR = "kafkalog.error/1"
WARNING = "kafkalog.warning/1"
"""Schemas that all commands share; `docs/schemas` has a file for each schema name in the code."""

_ESCAPED_TOO = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Characters that JSON allows unescaped but that terminals or line readers mishandle."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """A field's value as JSON text, in pieces that are made when they are written."""

    pieces: Iterable[str]


class JsonLines:
    """Writes one object per line. The last line of a run is `summary`; without it the output is incomplete."""

    def __init__(self, stream: ResultStream) -> None:
        self._stream = stream

    def object(self, schema_name: str, type: str, fields: Fields) -> None:  # noqa: A002
        """Write one line: `{"schema":"kafkalog.record/1","type":"record",…}`, the fields in their order.

        `schema_name` is complete, with `kafkalog.` and the version. Values are JSON values or bytes, which become
        `json_bytes`; tuples are arrays; a value that is JSON text already is `Rendered`.
        """
        named: Fields = {"schema": schema_name, "type": type, **fields}
        if not any(isinstance(value, Rendered) for value in named.values()):
            self._stream.write(json_text(named) + "\n")
            return
        separator = "{"
        for name, value in named.items():
            self._stream.write(f"{separator}{json_text(name)}:")
            for piece in value.pieces if isinstance(value, Rendered) else (json_text(value),):
                self._stream.write(piece)
            separator = ","
        self._stream.write("}\n")

    def summary(self, exit_code: ExitCode | int, **counts: Any) -> None:
        """Write the last line: the counts and the exit code of the run."""
        self.object(SUMMARY, "summary", {**counts, "exit_code": int(exit_code)})

    def error(self, kind: str, message: str, *, path: str | None = None, **details: Any) -> None:
        """Write a line for stderr about an error or damage: `kind` is a stable word, `message` a sentence."""
        self._message(ERROR, "error", kind, message, path, details)

    def warning(self, kind: str, message: str, *, path: str | None = None, **details: Any) -> None:
        """Write a line for stderr about a fact that does not end the run; the arguments are those of `error`."""
        self._message(WARNING, "warning", kind, message, path, details)

    def _message(  # noqa: PLR0913, PLR0917
        self, schema_name: str, type_: str, kind: str, message: str, path: str | None, details: Mapping[str, Any]
    ) -> None:
        fields: dict[str, Any] = {"kind": kind, "message": message}
        if path is not None:
            fields.update(json_path(path))
        self.object(schema_name, type_, {**fields, **details})

    def fault(self, path: str, fault: Fault) -> None:
        """Write a line for stderr about damage; `position` in bytes."""
        offsets = {"base_offset": fault.base_offset, "last_offset": fault.last_offset}
        self.error(
            fault.kind.value,
            fault.message,
            path=path,
            position=fault.position,
            size_bytes=fault.size_bytes,
            **{name: None if offset < 0 else offset for name, offset in offsets.items()},
        )

    def exception(self, error: KafkalogError) -> None:
        """Write a line for stderr about an exception that ends the run; its details become fields."""
        details = {name: value if _is_json(value) else str(value) for name, value in error.details.items()}
        path, step = details.pop("path", None), next_step(error)
        self.error(
            type(error).__name__,
            str(error),
            path=None if path is None else str(path),
            exit_code=int(error.exit_code),
            details=details,
            **({"next_step": step} if step else {}),
        )

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
        import os

        raw = os.fsencode(path)
        return {name: raw.decode("utf-8", "replace"), name + "_b64": base64.b64encode(raw).decode()}
    return {name: path}


def json_text(value: object) -> str:
    """Return `value` as JSON in one line, without raw control characters, line separators or lone surrogates.

    JSON has no numbers that are not finite: such a number becomes a string ("NaN").
    """
    try:
        text = _encoder()(value)
    except ValueError:
        text = _encoder()(_finite(value))
    return text if text.isascii() and "\x7f" not in text else _ESCAPED_TOO.sub(_escape, text)


def json_quoted(text: str) -> str:
    """Return one string as JSON, by the rules of `json_text`."""
    quoted = _quote()(text)
    return quoted if quoted.isascii() and "\x7f" not in quoted else _ESCAPED_TOO.sub(_escape, quoted)


@cache
def _quote() -> Callable[[str], str]:
    from json import encoder

    return encoder.encode_basestring


@cache
def _encoder() -> Callable[[Any], str]:
    import json

    return json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_default).encode


def _default(value: object) -> object:
    if isinstance(value, (bytes, memoryview)):
        return json_bytes(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _finite(value: object) -> object:
    if isinstance(value, float) and value - value != 0:
        return str(value)
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    return [*map(_finite, value)] if isinstance(value, (list, tuple)) else value


def _escape(match: re.Match[str]) -> str:
    character = ord(match[0])
    return "\ufffd" if 0xD800 <= character <= 0xDFFF else f"\\u{character:04x}"


def _is_json(value: object) -> bool:
    return value is None or isinstance(value, (str, int, float, bool))
