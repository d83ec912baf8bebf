"""Groups of shared options: a parameter of a command that is a named tuple stands for an option per field."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any


def option_fields(function: Callable[..., int]) -> Callable[..., int]:
    """Return the function with the fields of its named tuples as parameters, as typer takes it."""
    parameters = inspect.signature(function).parameters.values()
    options = [option for one in parameters for option in _options(one.name, one.annotation, one.default)]

    def command(**values: Any) -> int:
        return function(**{one.name: _value(one.name, one.annotation, values) for one in parameters})

    command.__doc__, command.__annotations__ = function.__doc__, {one.name: one.annotation for one in options}
    command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return command


def _options(name: str, kind: Any, default: Any) -> Iterator[inspect.Parameter]:
    if not hasattr(kind, "_fields"):
        yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
    for field in getattr(kind, "_fields", ()):
        yield from _options(
            field, kind.__annotations__[field], kind._field_defaults.get(field, inspect.Parameter.empty)
        )


def _value(name: str, kind: Any, values: Mapping[str, Any]) -> Any:
    fields = getattr(kind, "_fields", None)
    return values[name] if fields is None else kind(*(_value(one, kind.__annotations__[one], values) for one in fields))
