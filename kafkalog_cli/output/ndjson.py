"""NDJSON: one object per line with its schema and type; bytes, paths, errors and the summary as objects.

Each kind of object is declared once, as a TypedDict with the meaning of its fields. `same_fields` fills objects from
the attributes of results, as the declarations say: `From` names an attribute that is not named as its field. Notes such
as EMPTY_IS_NULL convert a value. `docs/generate_schemas.py` writes docs/schemas from the
declarations. The meaning of a field is the last string of its `Annotated`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache, partial
from operator import attrgetter
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    TypedDict,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from kafkalog_cli.disk.names import DirectoryKind
from kafkalog_cli.errors import ExitCode, KafkalogError, next_step
from kafkalog_cli.format.compression import Codec, codec_name
from kafkalog_cli.output.stream import ResultStream
from kafkalog_cli.results import Count, Keywords, PathText, Schema, exit_codes, keywords, lower_names, object_of

if TYPE_CHECKING:
    from typing_extensions import NotRequired as NotRequired  # noqa: PLC0414 - other modules import it from here
else:

    class NotRequired:
        """A field that some objects do not have; Python 3.10 has no such form."""

        def __class_getitem__(cls, field):
            return Annotated[field, MAY_BE_ABSENT]


RecordT = TypeVar("RecordT", bound=Mapping[str, object])


@dataclass(frozen=True, slots=True)
class ObjectKind(Generic[RecordT]):
    """A kind of JSON object: the name of its schema, such as `kafkalog.record/1`, and its TypedDict or NamedTuple.

    `other`: some objects are of this TypedDict instead. `is_open`: objects have further fields.
    """

    name: str
    record: type[RecordT]
    other: type[Mapping[str, object]] | None = None
    is_open: bool = False

    @property
    def type(self) -> str:
        """The `type` of the objects: record for `kafkalog.record/1`."""
        return self.name.removeprefix("kafkalog.").partition("/")[0]


_Function = Callable[[Any], Any]


MAY_BE_ABSENT = keywords()
DirectoryWord = Annotated[
    str,
    lower_names(*(kind for kind in DirectoryKind if kind not in (DirectoryKind.REMOTE_INDEX_CACHE, DirectoryKind.OWN))),
    "by the directory's name",
]
CodecWord = Annotated[str, keywords(enum=tuple(map(codec_name, Codec)))]
AnyExitCode = Annotated[int, exit_codes(*ExitCode), "see EXIT STATUS in the man pages"]


class From(NamedTuple):
    """The attribute that has a field's value, such as `dirt.ratio`; without it, the attribute has the field's name.

    "" stands for the whole value from which the object is made.
    """

    path: str


def same_fields(record: type[RecordT], found: object, /, **others: object) -> RecordT:
    """Return an object of `record`. Its fields are `others`, and else the attributes of `found` with the same names.

    The declared types are followed: where a record or a list of records is declared, each value becomes such an object.
    A path becomes a PathText. Values that are objects already stay. A field that may be absent is, if its value is
    None. `found` None: all fields but `others` are null. Raises AttributeError if a value is not found.
    """
    fields: Any = {}
    for name, read, convert, may_be_absent in _sources(record):
        value = others[name] if name in others else None if found is None else read(found)
        if value is not None or not may_be_absent:
            fields[name] = value if convert is None else convert(value)
    return cast("RecordT", fields)


_Source = tuple[str, _Function, _Function | None, bool]


@cache
def _sources(record: type) -> list[_Source]:
    """Return each field of a record: its name, how its attribute is read and converted, whether it may be absent."""
    found: list[_Source] = []
    for name, hint in get_type_hints(record, include_extras=True).items():
        notes = hint.__metadata__ if get_origin(hint) is Annotated else ()
        path = next((note.path for note in notes if isinstance(note, From)), name)
        read = attrgetter(path) if path and "." not in path else partial(_attribute, path.split(".") if path else [])
        found.append((name, read, _conversion(hint), MAY_BE_ABSENT in notes))
    return found


def _attribute(path: list[str], found: object) -> Any:
    """Return the attribute of an attribute; None if an attribute on the path is None."""
    value: Any = found
    for name in path:
        value = None if value is None else getattr(value, name)
    return value


def _conversion(hint: Any) -> _Function | None:
    """Return the function that turns an attribute into the value of a field of this type; None: it is the value."""
    if get_origin(hint) is Annotated:
        kind, *notes = get_args(hint)
        return next((one.convert for one in notes if isinstance(one, Keywords) and one.convert), _conversion(kind))
    if isinstance(hint, UnionType):
        kinds = [kind for kind in get_args(hint) if kind is not NoneType]
        return _conversion(kinds[0]) if len(kinds) == 1 else None
    if hint is PathText:
        return lambda value: None if value is None else PathText(value)
    if is_typeddict(hint):
        return lambda value: value if value is None or isinstance(value, Mapping) else same_fields(hint, value)
    convert = _conversion(get_args(hint)[0]) if get_origin(hint) is list else None
    if convert is None:
        return None
    return lambda value: value if value is None or isinstance(value, Rendered) else [*map(convert, value)]


class PathObject(TypedDict):
    """A path."""

    path: PathText


class SummaryObject(TypedDict):
    """The last line of every run on stdout, with counts of the command; without it the output is incomplete."""

    exit_code: AnyExitCode
    not_done: NotRequired[
        Annotated[
            list[PathObject],
            keywords(minItems=1),
            "the partitions that were not started before the time limit or the interruption; absent if there are none",
        ]
    ]


class WarningObject(TypedDict):
    """A line on stderr: a warning or a note; the run continues."""

    kind: Annotated[str, "a stable word, such as locked, replicas or marker"]
    message: Annotated[str, "a sentence"]
    path: NotRequired[Annotated[PathText, "the file or directory concerned"]]
    next_step: NotRequired[Annotated[str, "the user's next step; absent if there is none"]]


class ErrorObject(TypedDict):
    """A line on stderr: an error, or damage."""

    kind: Annotated[str, "a stable word: the kind of a fault, or the name of an error"]
    message: Annotated[str, "a sentence"]
    path: NotRequired[Annotated[PathText, "the file or directory concerned"]]
    position: NotRequired[Annotated[Count, "the byte of the file"]]
    exit_code: NotRequired[AnyExitCode]
    details: NotRequired[Annotated[dict[str, str | float | bool | None], "the values in the message"]]
    next_step: NotRequired[Annotated[str, "the user's next step; absent if there is none"]]


class ProgressObject(TypedDict):
    """The progress of a run that takes longer than a second: a line per second on stderr."""

    work: Annotated[str, "the work in one word; a run may have several phases, and each counts from 0"]
    done_bytes: Count
    total_bytes: Annotated[Count | None, "null if unknown"]
    bytes_per_second: Count
    seconds_left: Annotated[float | None, keywords(minimum=0), "null if unknown"]


class BytesObject(TypedDict):
    """Bytes without loss."""

    encoding: Annotated[Literal["utf-8", "base64"], "utf-8 if the bytes are strict UTF-8, else base64"]
    data: str


SUMMARY = ObjectKind("kafkalog.summary/1", SummaryObject, is_open=True)
ERROR = ObjectKind("kafkalog.error/1", ErrorObject)
WARNING = ObjectKind("kafkalog.warning/1", WarningObject)
PROGRESS = ObjectKind("kafkalog.progress/1", ProgressObject)
"""The objects of all commands."""

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

    def record(self, kind: ObjectKind[Any], found: object, /, **others: object) -> None:
        """Write one line with the `same_fields` of the kind."""
        self.object(kind, same_fields(kind.record, found, **others))

    def result(self, found: Any, /, **given: object) -> None:
        """Write a result as one line; the fields that are `given` do not come from its attributes."""
        self.object(type(found).schema, object_of(found, **given))

    def object(self, kind: ObjectKind[Any] | Schema, fields: Mapping[str, object]) -> None:
        """Write one line: `{"schema":"kafkalog.record/1","type":"record",…}`, the fields in their order.

        Values are JSON values, or values that `json_text` converts; a value that is JSON text already is `Rendered`.
        """
        named = {"schema": kind.name, "type": kind.type, **fields}
        if not any(isinstance(value, Rendered | Iterator) for value in named.values()):
            self._stream.write(json_text(named) + "\n")
            return
        separator = "{"
        for name, value in named.items():
            if isinstance(value, Rendered | Iterator):
                self._stream.write(f"{separator}{json_text(name)}:")
                for piece in value.pieces if isinstance(value, Rendered) else _list_pieces(value):
                    self._stream.write(piece)
            else:
                self._stream.write(separator + json_text({name: value})[1:-1])
            separator = ","
        self._stream.write("}\n")

    def summary(self, exit_code: ExitCode | int, **counts: Any) -> None:
        """Write the last line: the counts and the exit code of the run."""
        fields: Any = {**counts, "exit_code": int(exit_code)}
        self.object(SUMMARY, fields)

    def error(self, kind: str, message: str, *, path: str | None = None, **details: Any) -> None:
        """Write a line for stderr about an error or damage: `kind` is a stable word, `message` a sentence."""
        self.object(ERROR, _message(kind, message, path, details))

    def warning(self, kind: str, message: str, *, path: str | None = None, **details: Any) -> None:
        """Write a line for stderr about a fact that does not end the run; the arguments are those of `error`."""
        self.object(WARNING, _message(kind, message, path, details))

    def exception(self, error: KafkalogError) -> None:
        """Write a line for stderr about an exception that ends the run; its details become fields."""
        details = {name: value if _is_json(value) else str(value) for name, value in error.details.items()}
        path, step = details.pop("path", None), next_step(error)
        details.pop("next_step", None)
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


def _list_pieces(values: Iterator[object]) -> Iterator[str]:
    separator = "["
    for value in values:
        yield separator + json_text(value)
        separator = ","
    yield "[]" if separator == "[" else "]"


def _message(kind: str, message: str, path: str | None, details: Mapping[str, Any]) -> Any:
    return {"kind": kind, "message": message, **({} if path is None else {"path": PathText(path)}), **details}


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
        found: dict[Any, object] = {}
        for name, item in value.items():
            found.update(json_path(item, name) if isinstance(item, PathText) else {name: _with_path_bytes(item)})
        return found
    return [*map(_with_path_bytes, value)] if isinstance(value, (list, tuple)) else value


def _escape(match: re.Match[str]) -> str:
    character = ord(match[0])
    return "\ufffd" if 0xD800 <= character <= 0xDFFF else f"\\u{character:04x}"


def _is_json(value: object) -> bool:
    return value is None or isinstance(value, (str, int, float, bool))
