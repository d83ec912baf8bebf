"""JSON that anybody may have written: parsed and checked against a form before it is believed."""

import json
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from kafkalog_cli.format.limits import MOST_DOCUMENT_BYTES

Form = Callable[[Any], None]
"""Raises ValueError for a value that does not have the form."""

LIMIT_BYTES = MOST_DOCUMENT_BYTES
MOST_NUMBER = (1 << 63) - 1
_BYTES_OF_A_CONTAINER, _BYTES_OF_A_VALUE, _FEW = 32, 6, 100_000
"""The least bytes of containers and values in documents of kafkalog. Python needs much more for the objects."""


def parse(data: bytes) -> Any:
    """Return the value of a JSON document. Raises ValueError, also for a repeated name and for numbers such as NaN."""
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
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def text(value: Any) -> None:
    """Text that can be a path: its only lone surrogates stand for bytes of a file name that is not UTF-8."""
    if type(value) is not str:
        raise ValueError(f"{shown(value)} is not text")
    value.encode("utf-8", "surrogateescape")


def flag(value: Any) -> None:
    """True or false."""
    if type(value) is not bool:
        raise ValueError(f"{shown(value)} is neither true nor false")


def anything(value: Any) -> None:
    """Any value."""


def integer(least: int = 0, most: int = MOST_NUMBER) -> Form:
    """A whole number in these limits."""

    def check(value: Any) -> None:
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"{shown(value)} is not a number from {least} to {most}")

    return check


def nothing_or(form: Form) -> Form:
    """null, or a value of the form."""

    def check(value: Any) -> None:
        if value is not None:
            form(value)

    return check


def one_of(*values: str) -> Form:
    """One of these texts."""

    def check(value: Any) -> None:
        if type(value) is not str or value not in values:
            raise ValueError(f"{shown(value)} is none of {', '.join(values)}")

    return check


def list_of(form: Form) -> Form:
    """A list of values of the form."""

    def check(value: Any) -> None:
        if type(value) is not list:
            raise ValueError(f"{shown(value)} is not a list")
        for one in value:
            form(one)

    return check


def table(name_form: Form, form: Form) -> Form:
    """An object with any names of a form."""

    def check(value: Any) -> None:
        if type(value) is not dict:
            raise ValueError(f"{shown(value)} is not an object")
        for name, one in value.items():
            name_form(name)
            form(one)

    return check


def fields(required: Mapping[str, Form], optional: Mapping[str, Form] | None = None) -> Form:
    """An object with these names, and no others."""
    known = {**required, **(optional or {})}

    def check(value: Any) -> None:
        if type(value) is not dict:
            raise ValueError(f"{shown(value)} is not an object")
        missing = [name for name in required if name not in value]
        if missing:
            raise ValueError(f"{missing[0]!r} is missing")
        for name, one in value.items():
            if name not in known:
                raise ValueError(f"{shown(name)} is not known")
            try:
                known[name](one)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error

    return check


_MOST_CHARACTERS = 80


def shown(value: Any) -> str:
    """Return the beginning of a value for a message. A large or deep one is not made into text."""
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "an object"
    if isinstance(value, int) and value.bit_length() > MOST_NUMBER.bit_length():
        return "a number of many digits"
    return repr(value[:_MOST_CHARACTERS] if isinstance(value, str) else value)
