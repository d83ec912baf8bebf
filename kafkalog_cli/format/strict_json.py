"""JSON that anybody may have written: parsed and checked against a form before it is believed."""

import re
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from inspect import Parameter, signature
from types import UnionType
from typing import Annotated, Any, NoReturn, Union, get_args, get_origin, get_type_hints

from kafkalog_cli.format.limits import MOST_DOCUMENT_BYTES

Form = Callable[[Any], Any]
"""Returns the value that it reads; raises ValueError for a value that does not have the form."""

LIMIT_BYTES = MOST_DOCUMENT_BYTES
MOST_NUMBER = (1 << 63) - 1
_BYTES_OF_A_CONTAINER, _BYTES_OF_A_VALUE, _FEW = 32, 6, 100_000
"""The least bytes of containers and values in documents of kafkalog. Python needs much more for the objects."""


def parse(data: bytes) -> Any:
    """Return the value of a JSON document. Raises ValueError, also for a repeated name and for numbers such as NaN."""
    import json  # here, because most runs of dump-log read no JSON

    containers = data.count(b"[") + data.count(b"{")
    if (
        containers > _FEW + len(data) // _BYTES_OF_A_CONTAINER
        or data.count(b",") > _FEW + len(data) // _BYTES_OF_A_VALUE
    ):
        raise ValueError("it has more lists, objects and values than kafkalog writes in so many bytes")
    try:
        return json.loads(data, object_pairs_hook=_object, parse_constant=_no_number)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name is there twice")
    return members


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def text(value: Any) -> str:
    """Text that can be a path: its only lone surrogates stand for bytes of a file name that is not UTF-8."""
    if type(value) is not str:
        raise ValueError(f"{quote(value)} is not text")
    value.encode("utf-8", "surrogateescape")
    return value


def flag(value: Any) -> bool:
    """True or false."""
    if type(value) is not bool:
        raise ValueError(f"{quote(value)} is neither true nor false")
    return value


def anything(value: Any) -> Any:
    """Any value."""
    return value


def integer(least: int = 0, most: int = MOST_NUMBER) -> Form:
    """A whole number in these limits."""

    def read(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"{quote(value)} is not a number from {least} to {most}")
        return value

    return read


int32 = integer(-(1 << 31), (1 << 31) - 1)


def nothing_or(form: Form) -> Form:
    """null, or a value of the form."""
    return lambda value: None if value is None else form(value)


def one_of(*values: str) -> Form:
    """One of these texts."""

    def read(value: Any) -> str:
        if type(value) is not str or value not in values:
            raise ValueError(f"{quote(value)} is none of {', '.join(values)}")
        return value

    return read


def matching(pattern: re.Pattern[str]) -> Form:
    """A text of this pattern."""

    def read(value: Any) -> str:
        if type(value) is not str or not pattern.fullmatch(value):
            raise ValueError(f"it is not of the form {pattern.pattern}")
        return value

    return read


def list_of(form: Form) -> Form:
    """A list of values of the form."""

    def read(value: Any) -> tuple[Any, ...]:
        if type(value) is not list:
            raise ValueError(f"{quote(value)} is not a list")
        return tuple(map(form, value))

    return read


def table(name_form: Form, form: Form) -> Form:
    """An object with any names of a form."""

    def read(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise ValueError(f"{quote(value)} is not an object")
        return {name_form(name): form(item) for name, item in value.items()}

    return read


def fields(required: Mapping[str, Form], optional: Mapping[str, Form] | None = None) -> Form:
    """An object with these names, and no others."""
    known = {**required, **(optional or {})}

    def read(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise ValueError(f"{quote(value)} is not an object")
        missing = [name for name in required if name not in value]
        if missing:
            raise ValueError(f"{missing[0]!r} is missing")
        values = {}
        for name, item in value.items():
            if name not in known:
                raise ValueError(f"{quote(name)} is not known")
            try:
                values[name] = known[name](item)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
        return values

    return read


@cache
def form_of(kind: Any) -> Form:
    """Return the form of the objects that `plain` makes of a NamedTuple or a dataclass, which it reads as such.

    A field with a default may be absent. The types of fields are those below, and texts in an Enum; a form that a
    field's type has as a note of Annotated takes the place of the type's own. `int` is a number that is not negative.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return next(filter(callable, arguments[1:]), None) or form_of(arguments[0])
    if origin in (Union, UnionType):
        return nothing_or(form_of(arguments[0]))
    if origin is tuple:
        return list_of(form_of(arguments[0]))
    if origin is Mapping:
        return table(*map(form_of, arguments))
    if kind in _FORMS:
        return _FORMS[kind]
    if issubclass(kind, Enum):
        word = one_of(*(member.value for member in kind))
        return lambda value: kind(word(value))
    forms = {name: form_of(hint) for name, hint in get_type_hints(kind, include_extras=True).items()}
    parameters = signature(kind).parameters
    required = {name: form for name, form in forms.items() if parameters[name].default is Parameter.empty}
    read = fields(required, {name: form for name, form in forms.items() if name not in required})
    return lambda value: kind(**read(value))


def plain(value: Any) -> Any:
    """Return a value of `form_of` as JSON's types. A NamedTuple is without the fields that have their defaults."""
    if isinstance(value, Enum):
        return value.value
    if hasattr(value, "_fields"):
        fields_of = zip(value._fields, value, strict=True)
        defaults = value._field_defaults
        return {name: plain(item) for name, item in fields_of if name not in defaults or item != defaults[name]}
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


_FORMS: dict[Any, Form] = {int: integer(), str: text, bool: flag, object: anything, Any: anything}
_MOST_CHARACTERS = 80


def quote(value: Any) -> str:
    """Return the beginning of a value for a message. A large or deep one is not made into text."""
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "an object"
    if isinstance(value, int) and value.bit_length() > MOST_NUMBER.bit_length():
        return "a number of many digits"
    return repr(value[:_MOST_CHARACTERS] if isinstance(value, str) else value)
