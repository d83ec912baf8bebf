"""Converts option values without Pydantic, which typer 0.29 and later import at the first value.

That import and its validators take 0.1 to 0.2 s, half of the time of a small dump. This module converts values that are
clearly valid; typer converts all others, so its messages and limits stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import Any, get_args, get_origin

from typer.core import TyperOption

_PLAIN_INT = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_PLAIN_FLOAT = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?", re.ASCII)


def convert_without_pydantic(command: Any) -> None:
    """Give each parameter of a command this module's conversion.

    Commands of older typer versions stay unchanged: these have fast conversions of their own.
    """
    if not hasattr(TyperOption, "get_runtime_param") or "get_params" in vars(command):
        return
    typers_own = command.get_params

    def get_params(context: Any) -> list[Any]:  # --help is created here and is not in command.params
        params: list[Any] = typers_own(context)
        for param in params:
            if "get_runtime_param" not in vars(param):
                param.get_runtime_param = _Conversion(param, param.get_runtime_param).itself
        return params

    command.get_params = get_params


class _Conversion:
    """The conversion of one parameter, in the form that typer's `process_value` calls."""

    def __init__(self, param: Any, typers_own: Callable[[], Any]) -> None:
        self._descriptor = param.type_descriptor
        self._typers_own = typers_own

    def itself(self) -> _Conversion:
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value in its parameter's type, or raise typer's own error."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        try:
            return _converted(value, self._descriptor.annotation, self._descriptor.parameter_info)
        except _NotPlainError:
            return self._by_typer(value, param, ctx)

    def _by_typer(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value as typer converts it, or raise its error without the words of Pydantic."""
        try:
            return self._typers_own().coerce(value, param=param, ctx=ctx)
        except Exception as error:
            message = getattr(error, "message", None)
            if isinstance(message, str):
                error.message = _without_pydantic(message, value)  # type: ignore[attr-defined]
            raise


_OF_PYDANTIC = "Value error, "
_NO_NUMBER = re.compile(r"Input should be a valid (integer|number).*")


def _without_pydantic(message: str, value: Any) -> str:
    """Return an error's message without the words that Pydantic puts before it or in its place."""
    message = message.removeprefix(_OF_PYDANTIC)
    number = _NO_NUMBER.fullmatch(message)
    return f"{value!r} is not a valid {number[1]}." if number is not None and isinstance(value, str) else message


class _NotPlainError(Exception):
    """The value is not clearly valid: typer decides."""


def _converted(value: Any, annotation: Any, info: Any) -> Any:
    if info.parser is not None or info.path_type is not None:
        raise _NotPlainError
    if get_origin(annotation) is list and isinstance(value, list | tuple):
        (each,) = get_args(annotation)
        return [_converted(one, each, info) for one in value]
    if annotation is str and type(value) is str:
        return value
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _member(value, annotation)
    if annotation is int:
        return _within(_number(value, int, _PLAIN_INT), info)
    if annotation is float:
        return _within(_number(value, float, _PLAIN_FLOAT), info)
    raise _NotPlainError


def _member(value: Any, names: type[Enum]) -> Enum:
    for member in names:
        if value is member or value == member.value:
            return member
    raise _NotPlainError


def _number(value: Any, kind: type[int] | type[float], plain: re.Pattern[str]) -> int | float:
    if type(value) is kind:
        return value
    if type(value) is str and plain.fullmatch(value):
        return kind(value)
    raise _NotPlainError


def _within(number: int | float, info: Any) -> int | float:
    too_small = info.min is not None and number < info.min
    if too_small or (info.max is not None and number > info.max):
        raise _NotPlainError
    return number
