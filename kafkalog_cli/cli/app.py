"""The `kafkalog` command: its subcommands, each imported when it is called, and its exit codes."""

import errno
import importlib
import io
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from kafkalog_cli import __version__
from kafkalog_cli.cli.configuration import Configuration, add_variables, configuration, origin
from kafkalog_cli.cli.conversions import convert_without_pydantic
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.terminal import styles_as_wanted
from kafkalog_cli.disk.kernels import COMPILING
from kafkalog_cli.errors import ExitCode, KafkalogError, UsageError, did_you_mean, next_step
from kafkalog_cli.output.messages import Messages

GROUPS = {
    "Look": ("ls", "read", "find", "stats", "inspect", "lookup-offset", "lookup-time", "dump-log", "dump-index"),
    "Cluster": ("groups", "transactions", "cluster"),
    "Check and repair": ("doctor", "verify", "recover"),
    "Change": ("append", "roll", "retain", "compact", "delete-records", "truncate"),
    "Move data": ("serve", "export", "import", "metadump"),
    "Spark": ("sql", "audit"),
    "Undo": ("undo", "purge"),
    "Set up": ("demo", "warmup"),
}
"""Subcommands as the help lists them."""

_MODULES = {"import": "import_", "groups": "describe_groups", "transactions": "list_transactions"}
COMMANDS = {
    name: f"kafkalog_cli.cli.{_MODULES.get(name, name.replace('-', '_'))}"
    for names in GROUPS.values()
    for name in names
}
"""The module of each subcommand; its `command` is a Typer application."""


_parser = cache(typer.main.get_command)
"""The parser of a Typer application. Building one takes longer than many commands: each process builds it once."""


class CommandGroup(TyperGroup):
    """Imports a subcommand's module when it is requested: a small dump must start at once."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: D102
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: D102
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        command = _parser(importlib.import_module(module).command)
        command.name = cmd_name
        command.format_help = partial(_print_help, callback_of(cmd_name))  # type: ignore[method-assign]
        convert_without_pydantic(command)
        add_variables(cmd_name, command.params)
        environment = ctx.find_object(Environment)
        if environment is not None:
            ctx.default_map = {cmd_name: environment.configuration.defaults(cmd_name, command.params)}
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: D102
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            question = did_you_mean(name, COMMANDS) or "kafkalog help lists the commands"
            raise UsageError(reason=f"there is no command {name}. {question}")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: D102
        _print_help(None, ctx, formatter)


def callback_of(name: str) -> Any:
    """Return the function of a subcommand; its annotations are the options."""
    (registered,) = importlib.import_module(COMMANDS[name]).command.registered_commands
    return registered.callback


def _print_help(callback: Any, context: Any, formatter: Any) -> None:
    """Write the help of the command `callback`, None: of kafkalog itself."""
    from kafkalog_cli.cli.environment import environment_of
    from kafkalog_cli.cli.help_pages import command_page, main_page
    from kafkalog_cli.output.help_text import help_text
    from kafkalog_cli.output.paint import paint_of
    from kafkalog_cli.output.stream import ResultStream, terminal_columns

    page = main_page(GROUPS) if callback is None else command_page(context.command.name, callback)
    paint = paint_of(ResultStream(environment_of(context).stdout))
    formatter.write(help_text(page, paint, terminal_columns()))


app = typer.Typer(
    cls=CommandGroup,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"kafkalog {__version__}")
        raise typer.Exit


@app.callback()
def _kafkalog(
    _version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Read, check and repair Apache Kafka log directories, with no broker running."""


def run(argv: list[str], environment: Environment | None = None) -> int:
    """Run one command line; return the exit code. Never raises for a user's mistake."""
    environment = environment or Environment()
    stdout = io.TextIOWrapper(environment.stdout, "utf-8", "surrogateescape", write_through=True)
    stderr = io.TextIOWrapper(environment.stderr, "utf-8", "surrogateescape", write_through=True)
    try:
        with redirect_stdout(stdout), redirect_stderr(stderr), styles_as_wanted():
            return _run(argv, environment)
    finally:
        stdout.detach()
        stderr.detach()


def _run(argv: list[str], environment: Environment) -> int:
    command = _parser(app)
    convert_without_pydantic(command)
    argv = _for_the_parser(argv)
    environment = replace(environment, wants_json=_wants_json(argv, environment.configuration), argv=tuple(argv))
    try:
        environment = _configured(argv, environment)
        environment.kernels.complain = partial(_complain, environment)
        environment.kernels.announce = partial(_announce_compilation, environment)
        result = command.main(args=argv, prog_name="kafkalog", standalone_mode=False, obj=environment)
    except KafkalogError as error:
        Messages(environment.stderr, as_json=environment.wants_json).exception(error)
        return int(error.exit_code)
    except BrokenPipeError:
        return _closed_pipe(environment)
    except SystemExit as stop:
        # typer handles a closed pipe itself and ends the process with 1.
        if isinstance(stop.__context__, BrokenPipeError):
            return _closed_pipe(environment)
        raise
    except (KeyboardInterrupt, typer.Abort):
        return int(ExitCode.INTERRUPTED)
    except typer.Exit as stop:
        return stop.exit_code
    except OSError as error:
        code = ExitCode.NO_SPACE if error.errno == errno.ENOSPC else ExitCode.FAILURE
        step = "" if error.filename is None else next_step(error)
        _tell(environment, "os-error", _os_error_text(error), code, step)
        return int(code)
    except Exception as error:
        return _unexpected(error, environment)
    return int(result) if isinstance(result, int) else int(ExitCode.OK)


def _for_the_parser(argv: list[str]) -> list[str]:
    """Turn `help COMMAND` into `COMMAND --help`, and keep a comment before a query from being read as an option.

    Without arguments the help is printed.
    """
    if not argv:
        return ["--help"]
    if argv[:1] == ["help"]:
        return [*argv[1:2], "--help"]
    if argv[:1] == ["sql"]:
        return [f" {word}" if word.startswith("-- ") else word for word in argv]
    return argv


def _configured(argv: list[str], environment: Environment) -> Environment:
    """Return the environment with the configuration; help and completions do not need one, and do not fail by it."""
    is_help = {"--help", "-h"} & set(argv) or "_KAFKALOG_COMPLETE" in os.environ
    if is_help or not argv or argv[0] not in COMMANDS:
        return environment
    found = configuration(environment.fs, COMMANDS, _is_option)
    return replace(environment, configuration=found, wants_json=_wants_json(argv, found))


def _is_option(name: str) -> bool:
    """Whether any command has an option `--name`. This imports all commands."""
    modules = map(importlib.import_module, COMMANDS.values())
    commands = (_parser(module.command) for module in modules)
    return any(f"--{name}" in option.opts for command in commands for option in command.params)


def _complain(environment: Environment, text: str, step: str) -> None:
    """Report that the compiled kernels do not load; the run continues without them."""
    Messages(environment.stderr, as_json=environment.wants_json).tell("no-compiled-kernels", text, next_step=step)


def _announce_compilation(environment: Environment) -> None:
    """Report that the kernels are compiled now, which makes the first run on much data slow."""
    Messages(environment.stderr, as_json=environment.wants_json).warn(
        "compiling-kernels", f"{COMPILING} (kafkalog warmup does it beforehand)"
    )


def _wants_json(argv: list[str], found: Configuration) -> bool:
    """Whether JSON output is requested; the parser of the command line may have failed before that option."""
    name = "--report" if argv[:1] == ["export"] else "--format"  # export's --format is the format of its files
    if not any(word == name or word.startswith(f"{name}=") for word in argv):
        return bool(argv) and found.value(argv[0], "format") in {"json", "ndjson"}
    return any(f"{name}={word}" in argv or (name, word) in pairwise(argv) for word in ("json", "ndjson"))


def _unexpected(error: Exception, environment: Environment) -> int:
    """Report an error of the option parser; any other exception is a bug, reported in one line."""
    if hasattr(error, "format_message"):
        place = origin(error, environment.configuration.path)
        if place:
            error.message = f"{error.message} (from {place})"  # type: ignore[attr-defined]
        messages = Messages(environment.stderr, as_json=environment.wants_json)
        text, step = parser_words(error)
        if environment.wants_json:
            messages.exception(UsageError(reason=error.format_message()))
        else:
            messages.tell("usage-error", text, exit_code=ExitCode.USAGE, next_step=step)
        return int(ExitCode.USAGE)
    if "KAFKALOG_DEBUG" in os.environ:
        raise error
    text = f"internal error, please report it (KAFKALOG_DEBUG=1 shows more): {type(error).__name__}: {error}"
    _tell(environment, "internal-error", text, ExitCode.FAILURE)
    return int(ExitCode.FAILURE)


def _tell(environment: Environment, kind: str, text: str, code: ExitCode, step: str = "") -> None:
    """Report a message about the whole run, as a line of text or as a JSON object."""
    Messages(environment.stderr, as_json=environment.wants_json).tell(kind, text, exit_code=code, next_step=step)


def _os_error_text(error: OSError) -> str:
    """Return the error and its file; standard output and open files have no name."""
    if error.filename is None:
        where = "where output goes" if error.errno == errno.ENOSPC else "where output goes, or where a file is read"
        return f"{error.strerror or error} ({where})"
    return f"{os.fsdecode(error.filename)}: {error.strerror}"


def _closed_pipe(environment: Environment) -> int:
    """End silently after the reader closed the pipe (`| head`); keep the interpreter from flushing into it."""
    if environment.stdout is sys.__stdout__.buffer:  # type: ignore[union-attr]
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return int(ExitCode.OK)


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
