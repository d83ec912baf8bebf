"""Typer's parser, made of the same declarations, for help, completion, odd spellings and mistakes."""

import inspect
import re
from collections.abc import Callable
from functools import cache, partial
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from kafkalog_cli import __version__
from kafkalog_cli.cli.commands import COMMANDS, command_of, help_of
from kafkalog_cli.cli.configuration import add_variables, origin
from kafkalog_cli.cli.declared import REQUIRED, Answered, Command, CommandContext, Parameter
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.plain_parser import NotPlainError, converted
from kafkalog_cli.errors import ExitCode, UsageError, did_you_mean


@cache
def typer_command(name: str) -> Any:
    """Return typer's parser of a command."""
    declared = command_of(name)

    class OneCommand(TyperCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            return super().parse_args(ctx, args if declared.rewritten is None else declared.rewritten(args))

        def format_help(self, ctx: Any, formatter: Any) -> None:
            formatter.write(help_of(name, _environment_of(ctx)))

        def get_params(self, ctx: Any) -> list[Any]:  # --help is created here and is not in params
            return list(map(_without_pydantic, super().get_params(ctx)))

    application = typer.Typer(add_completion=False)
    settings = {"ignore_unknown_options": declared.takes_unknown}
    application.command(name, cls=OneCommand, context_settings=settings)(_function_for_typer(declared))
    command = typer.main.get_command(application)
    command.name = name
    add_variables(name, command.params)
    return command


def _function_for_typer(command: Command) -> Callable[..., int]:
    """Return a function with typer's annotations that calls the command."""

    def function(ctx: typer.Context, **values: Any) -> int:
        return command.call(_context(ctx, values))

    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    options = [context, *map(_for_typer, command.parameters)]
    function.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    function.__annotations__ = {one.name: one.annotation for one in options} | {"return": int}
    function.__doc__ = command.function.__doc__
    return function


def _for_typer(parameter: Parameter) -> inspect.Parameter:
    declared = parameter.declaration
    callback = declared.callback

    def called(ctx: typer.Context, value: Any) -> Any:
        return callback(_context(ctx, ctx.params), value) if callback is not None else value

    make = typer.Argument if declared.is_argument else typer.Option
    more: dict[str, Any] = {"is_eager": True} if declared.is_eager else {}
    info = make(
        *declared.names,
        metavar=declared.metavar,
        help=declared.help,
        rich_help_panel=declared.rich_help_panel,
        min=declared.min,
        max=declared.max,
        show_default=declared.show_default,
        autocompletion=declared.autocompletion,
        callback=None if callback is None else called,
        **more,
    )
    default = inspect.Parameter.empty if parameter.default is REQUIRED else parameter.default
    return inspect.Parameter(
        parameter.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[parameter.annotation, info],
    )


def _context(ctx: typer.Context, values: dict[str, Any]) -> CommandContext:
    typed = [name for name in values if getattr(ctx.get_parameter_source(name), "name", "") == "COMMANDLINE"]
    return CommandContext(_environment_of(ctx), values, typed)


def _environment_of(ctx: typer.Context) -> Environment:
    return ctx.find_object(Environment) or Environment()


def _without_pydantic(param: Any) -> Any:
    """Give a parameter a conversion without the words of Pydantic, with which typer 0.29 and later convert.

    Parameters of older versions stay unchanged: these have conversions of their own.
    """
    if hasattr(TyperOption, "get_runtime_param") and "get_runtime_param" not in vars(param):
        param.get_runtime_param = _Conversion(param, param.get_runtime_param).itself
    return param


class _Conversion:
    """The conversion of one parameter, in the form that typer's `process_value` calls.

    Plain values are converted here: an import of Pydantic takes 0.1 to 0.2 s.
    """

    def __init__(self, param: Any, typers_own: Callable[[], Any]) -> None:
        self._descriptor = param.type_descriptor
        self._typers_own = typers_own

    def itself(self) -> "_Conversion":
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value in its parameter's type, or raise typer's own error."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        try:
            return _all_converted(value, self._descriptor.annotation, self._descriptor.parameter_info)
        except NotPlainError:
            return self._by_typer(value, param, ctx)

    def _by_typer(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value as typer converts it, or raise its error without the words of Pydantic."""
        try:
            return self._typers_own().coerce(value, param=param, ctx=ctx)
        except Exception as error:
            message = getattr(error, "message", None)
            if isinstance(message, str):
                error.message = _in_own_words(message, value)  # type: ignore[attr-defined]
            raise


def _all_converted(value: Any, annotation: Any, info: Any) -> Any:
    if get_origin(annotation) is list and isinstance(value, list | tuple):
        (each,) = get_args(annotation)
        return [converted(one, each, info) for one in value]
    return converted(value, annotation, info)


_OF_PYDANTIC = "Value error, "
_NO_NUMBER = re.compile(r"Input should be a valid (integer|number).*")


def _in_own_words(message: str, value: Any) -> str:
    """Return an error's message without the words that Pydantic puts before it or in its place."""
    message = message.removeprefix(_OF_PYDANTIC)
    number = _NO_NUMBER.fullmatch(message)
    return f"{value!r} is not a valid {number[1]}." if number is not None and isinstance(value, str) else message


class CommandGroup(TyperGroup):
    """Makes the parser of a subcommand when it is requested."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: D102
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: D102
        if cmd_name not in COMMANDS:
            return None
        return typer_command(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: D102
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            question = did_you_mean(name, COMMANDS) or "kafkalog help lists the commands"
            raise UsageError(reason=f"there is no command {name}. {question}")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: D102
        formatter.write(help_of(None, _environment_of(ctx)))


app = typer.Typer(
    cls=CommandGroup, pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]}
)


def _print_version(value: bool) -> None:
    if value:
        raise Answered(f"kafkalog {__version__}")


@app.callback()
def _kafkalog(
    _version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Read, check and repair Apache Kafka log directories, with no broker running."""


main_command = cache(partial(typer.main.get_command, app))
"""Typer's parser of the whole command line. Building it takes longer than many commands: a process builds it once."""


def call(argv: list[str], environment: Environment) -> int:
    """Parse the command line with typer, and call its command; return the exit code."""
    try:
        result = main_command().main(args=argv, prog_name="kafkalog", standalone_mode=False, obj=environment)
    except typer.Abort:
        return int(ExitCode.INTERRUPTED)
    except typer.Exit as stop:
        return stop.exit_code
    except SystemExit as stop:
        # typer handles a closed pipe itself and ends the process with 1.
        if isinstance(stop.__context__, BrokenPipeError):
            raise stop.__context__ from None
        raise
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        return _mistake(error, environment)
    return int(result) if isinstance(result, int) else int(ExitCode.OK)


def _mistake(error: Any, environment: Environment) -> int:
    """Report a mistake in the command line that the parser has found."""
    place = origin(error)
    if place:
        error.message = f"{error.message} (from {place})"
    if environment.wants_json:
        environment.messages.exception(UsageError(reason=error.format_message()))
    else:
        text, step = parser_words(error)
        environment.messages.tell("usage-error", text, exit_code=ExitCode.USAGE, next_step=step)
    return int(ExitCode.USAGE)


def parser_words(error: Any) -> tuple[str, str]:
    """Return the message and the next step of an error that the option parser has raised."""
    context = getattr(error, "ctx", None)
    command = None if context is None else context.command
    step = f"{context.command_path} --help" if context is not None else "kafkalog --help"
    option = getattr(error, "option_name", None)
    if option is not None and hasattr(error, "possibilities"):
        known = [name for param in command.params for name in (*param.opts, *param.secondary_opts)] if command else []
        question = did_you_mean(option, [name for name in known if name.startswith("--")])
        return f"there is no option {option}{question and f'. {question}'}", step
    text = str(error.format_message()).replace("Value error, ", "").rstrip(".")
    return text[:1].lower() + text[1:], step
