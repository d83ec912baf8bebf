"""Groups of shared options: a parameter of a command that is a named tuple stands for an option per field."""

from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter, Signature, signature
from typing import Any


def option_fields(function: Callable[..., int]) -> Callable[..., int]:
    """Return the function with the fields of its named tuples as parameters, as typer takes it."""
    parameters = signature(function).parameters.values()
    options = [option for one in parameters for option in _options(one.name, one.annotation, one.default)]

    def command(**values: Any) -> int:
        return function(**{one.name: _value(one.name, one.annotation, values) for one in parameters})

    command.__doc__, command.__annotations__ = function.__doc__, {one.name: one.annotation for one in options}
    command.__signature__ = Signature(options)  # type: ignore[attr-defined]
    return command


def _options(name: str, kind: Any, default: Any) -> Iterator[Parameter]:
    if not hasattr(kind, "_fields"):
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
    for one in getattr(kind, "_fields", ()):
        yield from _options(one, kind.__annotations__[one], kind._field_defaults.get(one, Parameter.empty))


def _value(name: str, kind: Any, values: Mapping[str, Any]) -> Any:
    fields = kind.__annotations__ if hasattr(kind, "_fields") else {}
    return kind(*(_value(one, of, values) for one, of in fields.items())) if fields else values[name]
