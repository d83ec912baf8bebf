"""Parses command lines that are clearly right; typer parses all others, so its messages and limits stay.

Importing typer and building its parser take half of the time of a small dump. `tests/cli/test_plain_parser.py` holds
that both parsers make the same values of a command line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any

from kafkalog_cli.cli.configuration import configured
from kafkalog_cli.cli.declared import REQUIRED, Command, CommandContext, Option, Parameter

if TYPE_CHECKING:
    from kafkalog_cli.cli.environment import Environment

_PLAIN_INT = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_PLAIN_FLOAT = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?", re.ASCII)


class NotPlainError(Exception):
    """The command line is not clearly right: typer decides."""


def plain_call(name: str, command: Command, words: list[str], environment: Environment) -> CommandContext:
    """Return the call of these words after the command's name. Raises NotPlainError, and what its callbacks raise."""
    given = _given(command.parameters, words if command.rewritten is None else command.rewritten(words))
    values = {one.name: _value(name, one, given.get(one.name)) for one in command.parameters}
    context = CommandContext(environment, values, given.keys())
    for one in sorted(command.parameters, key=lambda parameter: not parameter.declaration.is_eager):
        if one.declaration.callback is not None and one.name in given:
            values[one.name] = one.declaration.callback(context, values[one.name])
    return context


def _given(parameters: Iterable[Parameter], words: list[str]) -> dict[str, list[Any]]:
    """Return the words of each parameter that the command line has; those of flags are True and False."""
    options = {name: one for one in parameters for name in one.option_names}
    given: dict[str, list[Any]] = {}
    alone = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word == "-":
            alone.append(word)
            continue
        name, equals, value = word.partition("=")
        option = options.get(name)
        if option is None or (equals and not name.startswith("--")):
            raise NotPlainError
        given.setdefault(option.name, []).append(_word_of(option, name, value if equals else None, rest))
    return given | _arguments([one for one in parameters if one.declaration.is_argument], alone)


def _word_of(option: Parameter, name: str, value: str | None, rest: Iterator[str]) -> str | bool:
    """Return the value of an option: after its "=", or the next word, or whether a flag is set."""
    if option.kinds[0] is bool:
        if value is not None:
            raise NotPlainError
        return bool(option.declaration.names) or name == option.option_names[0]
    found = next(rest, None) if value is None else value
    if found is None:
        raise NotPlainError
    return found


def _arguments(parameters: list[Parameter], words: list[str]) -> dict[str, list[Any]]:
    """Return the words of each argument; at most one argument takes several."""
    several = next((place for place, one in enumerate(parameters) if one.kinds[1]), None)
    if several is None:
        if len(words) > len(parameters):
            raise NotPlainError
        return {one.name: [word] for one, word in zip(parameters, words, strict=False)}
    after = len(parameters) - 1 - several
    if len(words) < several + after:
        raise NotPlainError
    end = len(words) - after
    parts = [*([word] for word in words[:several]), words[several:end], *([word] for word in words[end:])]
    return {one.name: part for one, part in zip(parameters, parts, strict=True) if part}


def _value(command: str, parameter: Parameter, given: list[Any] | None) -> Any:
    """Return the value from the command line, a variable or the default."""
    kind, is_many = parameter.kinds
    if given is not None:
        values = [converted(word, kind, parameter.declaration) for word in (given if is_many else given[-1:])]
        return values if is_many else values[0]
    names = parameter.option_names
    from_variable = configured(command, names[0].removeprefix("--")) if names else None
    if from_variable is not None:
        if is_many:
            raise NotPlainError
        return converted(from_variable, kind, parameter.declaration)
    if parameter.default is REQUIRED:
        raise NotPlainError
    return parameter.default


def converted(value: Any, kind: Any, declaration: Option) -> Any:
    """Return one value in its type. Raises NotPlainError for a value that is not clearly valid."""
    if kind in (str, bool) and type(value) is kind:
        return value
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _member(value, kind)
    if kind is int:
        return _within(_number(value, int, _PLAIN_INT), declaration)
    if kind is float:
        return _within(_number(value, float, _PLAIN_FLOAT), declaration)
    raise NotPlainError


def _member(value: Any, names: type[Enum]) -> Enum:
    for member in names:
        if value is member or value == member.value:
            return member
    raise NotPlainError


def _number(value: Any, kind: type[int] | type[float], plain: re.Pattern[str]) -> int | float:
    if type(value) is kind:
        return value
    if type(value) is str and plain.fullmatch(value):
        return kind(value)
    raise NotPlainError


def _within(number: int | float, declaration: Option) -> int | float:
    too_small = declaration.min is not None and number < declaration.min
    if too_small or (declaration.max is not None and number > declaration.max):
        raise NotPlainError
    return number
