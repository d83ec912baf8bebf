"""Declares commands and their options without typer, whose import takes longer than a small dump.

Two parsers read the declarations. `plain_parser.py` takes command lines that are clearly right. `typer_parser.py` makes
typer's parser for all others, so messages, help of a shell's completion and odd spellings are typer's own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from kafkalog_cli.cli.environment import Environment

REQUIRED = object()
"""The default of a parameter that has none."""


class Answered(Exception):
    """An option is a question, such as --version: its answer is printed, and the command is not called."""


class CommandContext(NamedTuple):
    """One call of a command. `values` are those of its options by the names of its parameters, `typed` is a part of it.

    The values of options that are eager are there before those of other options.
    """

    environment: Environment
    values: Mapping[str, Any]
    typed: Collection[str]

    def is_typed(self, option: str) -> bool:
        """Whether an option, such as "--sort", has its value from the command line, not from a variable or the file."""
        return option.removeprefix("--").replace("-", "_") in self.typed


class Option:
    """An option, in the words of typer; it stands in `Annotated`. Without names it has that of its parameter."""

    __slots__ = (
        *("autocompletion", "callback", "help", "is_argument", "is_eager", "max", "metavar", "min", "names"),
        *("rich_help_panel", "show_default"),
    )

    def __init__(  # noqa: PLR0913
        self,
        *names: str,
        metavar: str | None = None,
        help: str = "",  # noqa: A002
        rich_help_panel: str | None = None,
        min: int | None = None,  # noqa: A002
        max: int | None = None,  # noqa: A002
        callback: Callable[[CommandContext, Any], Any] | None = None,
        is_argument: bool = False,
        is_eager: bool = False,
        show_default: bool = True,
        autocompletion: Callable[..., list[str]] | None = None,
    ) -> None:
        self.names = names
        self.metavar = metavar
        self.help = help
        self.rich_help_panel = rich_help_panel
        self.min = min
        self.max = max
        self.callback = callback
        self.is_argument = is_argument
        self.is_eager = is_eager
        self.show_default = show_default
        self.autocompletion = autocompletion


def Argument(**words: Any) -> Option:  # noqa: N802 - typer's name
    """Declare a word without a name before it."""
    return Option(is_argument=True, **words)


class Parameter(NamedTuple):
    """A parameter of a command: `annotation` is its type, such as `list[int] | None`."""

    name: str
    annotation: Any
    declaration: Option
    default: Any

    @property
    def kinds(self) -> tuple[Any, bool]:
        """The type of one value, and whether there may be several."""
        alternatives: tuple[Any, ...] = getattr(self.annotation, "__args__", ())
        if getattr(self.annotation, "__origin__", None) is list:
            return alternatives[0], True
        if not alternatives:
            return self.annotation, False
        (kind,) = (one for one in alternatives if one is not type(None))
        return self._replace(annotation=kind).kinds

    @property
    def option_names(self) -> tuple[str, ...]:
        """The names of an option, none of an argument.

        Undeclared names are the names that typer makes: an option that is true or false has two of them.
        """
        if self.declaration.is_argument:
            return ()
        if self.declaration.names:
            return self.declaration.names
        name = self.name.rstrip("_").replace("_", "-")
        return (f"--{name}", f"--no-{name}") if self.annotation is bool else (f"--{name}",)


class Command:
    """A command: its function, whose parameters are declared, groups of options (`groups.py`) among them.

    `rewritten` changes the words of the command line before they are parsed. With `takes_unknown` a word that looks
    like an option, and is none, is an argument. `surroundings` makes the environment of one call.
    """

    def __init__(
        self,
        function: Callable[..., int],
        rewritten: Callable[[list[str]], list[str]] | None = None,
        *,
        takes_unknown: bool = False,
        surroundings: Callable[[CommandContext], AbstractContextManager[Environment]] | None = None,
    ) -> None:
        self.function = function
        self._surroundings = surroundings
        self.rewritten = rewritten
        self.takes_unknown = takes_unknown
        self.parameters: list[Parameter] = []
        self._annotations: dict[str, Any] = {}
        self._context_name = ""
        defaults = _defaults(function)
        for name, annotation in function.__annotations__.items():
            if annotation is CommandContext:
                self._context_name = name
            elif name != "return":
                self._annotations[name] = annotation
                self.parameters += _parameters(name, annotation, defaults)

    def call(self, context: CommandContext) -> int:
        """Call the function with the values of the context."""
        if self._surroundings is None:
            return self._call(context)
        with self._surroundings(context) as environment:
            return self._call(context._replace(environment=environment))

    def _call(self, context: CommandContext) -> int:
        values = {name: _value_of(name, annotation, context.values) for name, annotation in self._annotations.items()}
        if self._context_name:
            values[self._context_name] = context
        return self.function(**values)


def _defaults(function: Any) -> dict[str, Any]:
    positional = function.__defaults__ or ()
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return dict(zip(names[len(names) - len(positional) :], positional, strict=True)) | (function.__kwdefaults__ or {})


def _parameters(name: str, annotation: Any, defaults: Mapping[str, Any]) -> Iterator[Parameter]:
    """Yield a parameter, or those of a group, in which other groups may be."""
    if hasattr(annotation, "_field_defaults"):
        for field, kind in annotation.__annotations__.items():
            yield from _parameters(field, kind, annotation._field_defaults)
    else:
        (declaration,) = annotation.__metadata__
        yield Parameter(name, annotation.__origin__, declaration, defaults.get(name, REQUIRED))


def _value_of(name: str, annotation: Any, values: Mapping[str, Any]) -> Any:
    if hasattr(annotation, "_field_defaults"):
        return annotation(*(_value_of(field, kind, values) for field, kind in annotation.__annotations__.items()))
    return values[name]
