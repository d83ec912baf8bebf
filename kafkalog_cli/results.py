"""Declarations of results: each result is declared once, on its class, and JSON, its schema and its page follow.

A result is a NamedTuple or a dataclass whose attributes are the fields of its JSON object, with the same names and in
the same order. The meaning of a field is the last string of its `Annotated`. Other notes there are below; an attribute
that is no field is `Hidden`. A field that follows from other attributes is a ClassVar of a dataclass:

    log_dir: ClassVar[Annotated[PathName | None, "the log directory that contains it"]] = of("root.path")

A property whose type is Annotated is a field too, after the attributes. `result` names the schema of an object that
is a line of the output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

AnyT = TypeVar("AnyT")
_Function = Callable[[Any], Any]


class Keywords(NamedTuple):
    """Keywords of JSON Schema that narrow a type; `convert` makes the value of a field from an attribute."""

    items: tuple[tuple[str, object], ...] = ()
    convert: _Function | None = None


def keywords(convert: _Function | None = None, **items: object) -> Keywords:
    """Return these keywords of JSON Schema."""
    return Keywords(tuple(items.items()), convert)


def as_text(convert: _Function) -> Keywords:
    """Return the keywords of a field whose value becomes text."""
    return keywords(convert, type="string")


def exit_codes(*codes: int) -> Keywords:
    """Return the keywords of an exit code that is one of `codes`."""
    return keywords(int, type="integer", enum=tuple(sorted(map(int, codes))))


def lower_names(*words: Enum) -> Keywords:
    """Return the keywords of a text that is the name of one of `words` in lower case."""
    return keywords(lambda word: word.name.lower(), type="string", enum=tuple(word.name.lower() for word in words))


class Mark(Enum):
    """What a field is, beside its type."""

    HIDDEN = 1
    """The attribute is no field."""
    FLAT = 2
    """The fields of the attribute, which is a result, stand in its place; if it is None, all null, or ABSENT."""
    ABSENT = 3
    """The field is absent if its value is None."""
    OPEN = 4
    """The object has further fields."""
    PATH = 5
    """A path, a file name or a topic: if it is not UTF-8, a second field has its bytes in base64."""
    SOMETIMES = 6
    """Some objects do not have the field, and in others it may be null."""


HIDDEN, FLAT, ABSENT, OPEN, SOMETIMES = Mark.HIDDEN, Mark.FLAT, Mark.ABSENT, Mark.OPEN, Mark.SOMETIMES


class Named(NamedTuple):
    """The name of a field that the attribute does not have, such as a word of Python or a name of Kafka."""

    name: str


class Before(NamedTuple):
    """The field stands before the field with this name, not where it is declared."""

    name: str


class SqlType(NamedTuple):
    """The type of a column of `kafkalog sql`, in Spark's words, where another Python type would be."""

    name: str


NULL_IF_EMPTY = keywords(lambda text: text or None, type=("string", "null"))
"""A text that is "" where there is none."""
EMPTY_IS_NULL = keywords(lambda value: value or None)
NULL_IS_ZERO = keywords(lambda number: number or 0)
NUMBER_OF = keywords(lambda values: len(values or ()))
NEGATIVE_IS_NULL = keywords(lambda number: None if number is None or number < 0 else number)

Hidden = Annotated[AnyT, HIDDEN]
PathName = Annotated[str, Mark.PATH]
Count = Annotated[int, keywords(minimum=0)]
Positive = Annotated[int, keywords(minimum=1)]
INTEGER = SqlType("integer")
Int32 = Annotated[int, INTEGER]
Time = Annotated[int, SqlType("timestamp")]
"""Epoch ms."""
RawBytes = bytes
"""Bytes, which become an object with their encoding. The name is free in results with a field `bytes`."""


Host = Annotated[str | None, ABSENT, "with --each-host, the host that has it"]


class AtPath(NamedTuple):
    """A path."""

    path: PathName


class AtName(NamedTuple):
    """A file name."""

    name: PathName


class PathText(str):
    """The value of a PathName."""

    __slots__ = ()


class _Attribute:
    """A field that follows from the attributes of a result."""

    def __init__(self, read: _Function) -> None:
        self._read = read

    def __get__(self, instance: Any, kind: type | None = None) -> Any:
        return self if instance is None else self._read(instance)


def of(path: str | _Function) -> Any:
    """Return a field that is the attribute of an attribute, such as `root.path`, or that a function makes.

    It is None if an attribute on the path is None.
    """
    return _Attribute(path if callable(path) else _reader(path.split(".")))


def _reader(names: Sequence[str]) -> _Function:
    def read(value: Any) -> Any:
        for name in names:
            if value is None:
                break
            value = getattr(value, name)
        return value

    return read


def each(make: _Function, path: str) -> Any:
    """Return a field that is a list: what `make` returns for each of the values at the path."""
    values_of = _reader(path.split("."))
    return of(lambda found: [make(value) for value in values_of(found)])


GIVEN: Any = None
"""The value of a field that comes with the output, not from the result."""


NOT_GIVEN: Any = ABSENT
"""The same; without the value, the object does not have the field."""


class Schema(NamedTuple):
    """The schema of a line: its name, such as `kafkalog.record/1`. `is_open`: the lines have further fields."""

    name: str
    is_open: bool = False

    @property
    def type(self) -> str:
        """The `type` of the objects: record for `kafkalog.record/1`."""
        return self.name.removeprefix("kafkalog.").partition("/")[0]


RESULTS: dict[str, list[Any]] = {}
"""The results of each schema: an answer may be one of several."""


def result(name: str, *, is_open: bool = False) -> Callable[[type[AnyT]], type[AnyT]]:
    """Return a decorator that names the schema of a result."""

    def declare(kind: type[AnyT]) -> type[AnyT]:
        kind.schema = Schema(name, is_open)  # type: ignore[attr-defined]
        RESULTS.setdefault(name, []).append(kind)
        return kind

    return declare


class Field(NamedTuple):
    """A field of a result. `convert` makes its value of what is read; None: that is the value."""

    name: str
    type: Any
    notes: tuple[Any, ...]
    read: _Function
    convert: _Function | None

    @property
    def may_be_absent(self) -> bool:
        """Whether some objects do not have the field."""
        return ABSENT in self.notes or Mark.SOMETIMES in self.notes


def is_result(kind: Any) -> bool:
    """Whether a type declares fields."""
    return isinstance(kind, type) and (hasattr(kind, "_fields") or hasattr(kind, "__dataclass_fields__"))


@cache
def fields_of(kind: Any) -> tuple[Field, ...]:
    """Return the fields of a result, in their order."""
    fields: list[Field] = []
    for field in _fields(kind):
        before = next((note.name for note in field.notes if isinstance(note, Before)), None)
        at = next((at for at, other in enumerate(fields) if other.name == before), len(fields))
        fields.insert(at, field)
    return tuple(fields)


def _fields(kind: type) -> Iterator[Field]:
    for name, hint in _hints(kind):
        type_, notes = split(get_args(hint)[0] if get_origin(hint) is ClassVar else hint)
        if HIDDEN in notes or name.startswith("_"):
            continue
        read = _reader([name])
        if FLAT in notes:
            (part,), absent = not_none(type_), ABSENT in notes
            is_optional = part is not type_
            for inner in fields_of(part):
                yield inner._replace(
                    type=inner.type | None if is_optional and not absent else inner.type,
                    notes=(*inner.notes, *([SOMETIMES] if absent else [])),
                    read=_then(read, inner.read, None if not absent else ABSENT),
                    convert=_if_any(inner.convert) if is_optional else inner.convert,
                )
            continue
        named = next((note.name for note in notes if isinstance(note, Named)), name)
        if ABSENT in notes:
            type_, more = split(not_none(type_)[0])
            notes = (*more, *notes)
        yield Field(named, type_, notes, read, _conversion(type_, notes))


def _hints(kind: type) -> Iterator[tuple[str, Any]]:
    yield from get_type_hints(kind, include_extras=True).items()
    for parent in reversed(kind.__mro__):
        for name, member in vars(parent).items():
            if isinstance(member, property) and _is_annotated(member.fget.__annotations__.get("return")):
                yield name, get_type_hints(member.fget, include_extras=True)["return"]


def not_none(type_: Any) -> list[Any]:
    """Return the types of a value that is not None."""
    kinds = get_args(type_) if get_origin(type_) in (Union, UnionType) else (type_,)
    return [kind for kind in kinds if kind is not NoneType]


def _is_annotated(hint: Any) -> bool:
    """Whether a type, or the text of one in a module with postponed annotations, has notes."""
    return hint.startswith("Annotated[") if isinstance(hint, str) else get_origin(hint) is Annotated


def split(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type without notes, and its notes."""
    return (get_args(hint)[0], get_args(hint)[1:]) if get_origin(hint) is Annotated else (hint, ())


def _then(first: _Function, second: _Function, without: Any) -> _Function:
    def read(instance: Any) -> Any:
        value = first(instance)
        return without if value is None else second(value)

    return read


def _conversion(type_: Any, notes: tuple[Any, ...]) -> _Function | None:
    own = next((note.convert for note in notes if isinstance(note, Keywords) and note.convert), None)
    if own is not None:
        return own
    return _if_any(_of_type(type_, notes))


def _if_any(convert: _Function | None) -> _Function | None:
    """Return the function for values that may be None, which stays None."""
    return None if convert is None else lambda value: None if value is None else convert(value)


def _of_type(type_: Any, notes: tuple[Any, ...]) -> _Function | None:
    """Return the function for values that are not None."""
    if Mark.PATH in notes:
        return PathText
    origin, parts = get_origin(type_), get_args(type_)
    if origin in (Union, UnionType):
        conversions = [_conversion(*split(part)) for part in not_none(type_)]
        return next(filter(None, conversions), None)
    if is_result(type_) or is_result(origin):
        return object_of
    if origin is None or not parts or not isinstance(origin, type) or issubclass(origin, Mapping):
        return None
    convert = _conversion(*split(parts[0]))
    if convert is None:
        return list if issubclass(origin, frozenset | set) else None
    return lambda values: [*map(convert, values)]


def object_of(instance: Any, /, **given: object) -> dict[str, Any]:
    """Return the fields of a result; those that are `given` do not come from its attributes. ABSENT: no such field."""
    values: dict[str, Any] = {}
    for name, _, notes, read, convert in fields_of(instance.__class__):
        value = given[name] if name in given else read(instance)
        if value is ABSENT or (value is None and ABSENT in notes):
            continue
        values[name] = value if convert is None else convert(value)
    return values
