"""Groups of shared options: a parameter of a command that is a named tuple stands for an option per field."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any


def option_fields(function: Callable[..., int]) -> Callable[..., int]:
    """Return the function with the fields of its named tuples as parameters, as typer takes it."""
    parameters = inspect.signature(function).parameters.values()
    options = [option for one in parameters for option in _options(one)]

    def command(**values: Any) -> int:
        return function(**{one.name: _value(one.name, one.annotation, values) for one in parameters})

    command.__doc__ = function.__doc__
    command.__annotations__ = {one.name: one.annotation for one in options}
    command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return command


def _options(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    group = parameter.annotation
    if not hasattr(group, "_fields"):
        yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
    for name in getattr(group, "_fields", ()):
        default = group._field_defaults.get(name, inspect.Parameter.empty)
        yield from _options(parameter.replace(name=name, default=default, annotation=group.__annotations__[name]))


def _value(name: str, group: Any, values: Mapping[str, Any]) -> Any:
    if not hasattr(group, "_fields"):
        return values[name]
    return group(*(_value(field, group.__annotations__[field], values) for field in group._fields))
