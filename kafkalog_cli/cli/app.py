"""The `kafkalog` command: its subcommands, each imported when it is called, and its exit codes."""

import errno
import importlib
import io
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from kafkalog_cli import __version__
from kafkalog_cli.cli.conversions import convert_without_pydantic
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.terminal import styles_as_wanted
from kafkalog_cli.errors import ExitCode, KafkalogError, UsageError, next_step
from kafkalog_cli.output.messages import Messages

GROUPS = {
    "Look": ("ls", "dump-log", "dump-index", "lookup-offset", "lookup-time", "read"),
    "Check and repair": ("verify", "recover"),
    "Change": ("roll", "retain", "compact", "truncate", "delete-records", "append"),
    "Undo": ("undo", "purge"),
    "Move data": ("export", "import"),
    "Query with Spark": ("sql", "audit"),
    "Set up": ("warmup",),
}
"""Subcommands as the help lists them."""

_MODULES = {"import": "import_"}
COMMANDS = {
    name: f"kafkalog_cli.cli.{_MODULES.get(name, name.replace('-', '_'))}"
    for names in GROUPS.values()
    for name in names
}
"""The module of each subcommand; its `command` is a Typer application."""


class CommandGroup(TyperGroup):
    """Imports a subcommand's module when it is requested: a small dump must start at once."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: D102
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: D102
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        command = typer.main.get_command(importlib.import_module(module).command)
        command.name = cmd_name
        command.rich_help_panel = next(group for group, names in GROUPS.items() if cmd_name in names)  # type: ignore[attr-defined]
        convert_without_pydantic(command)
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: D102
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"there is no command {name}. {_did_you_mean(name)}")
        return super().resolve_command(ctx, args)


def _did_you_mean(name: str) -> str:
    """A question about the commands whose names begin with `name`, or are close to it; else where they are listed."""
    from difflib import get_close_matches

    close = [command for command in COMMANDS if command.startswith(name)] or get_close_matches(name, COMMANDS, 2)
    return f"Did you mean {' or '.join(close)}?" if close else "kafkalog help lists the commands"


app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
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
    command = typer.main.get_command(app)
    convert_without_pydantic(command)
    environment.kernels.complain = partial(_complain, environment, argv)
    argv = _for_the_parser(argv)
    try:
        result = command.main(
            args=argv,
            prog_name="kafkalog",
            standalone_mode=False,
            obj=replace(environment, wants_json=_wants_json(argv), argv=tuple(argv)),
        )
    except KafkalogError as error:
        Messages(environment.stderr, as_json=_wants_json(argv)).exception(error)
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
        _tell(environment, argv, "os-error", _os_error_text(error), code, step)
        return int(code)
    except Exception as error:
        return _unexpected(error, environment, argv)
    return int(result) if isinstance(result, int) else int(ExitCode.OK)


def _for_the_parser(argv: list[str]) -> list[str]:
    """Turn `help COMMAND` into `COMMAND --help`, and keep a comment before a query from being read as an option."""
    if argv[:1] == ["help"]:
        return [*argv[1:2], "--help"]
    if argv[:1] == ["sql"]:
        return [f" {word}" if word.startswith("-- ") else word for word in argv]
    return argv


def _complain(environment: Environment, argv: list[str], text: str, step: str) -> None:
    """Report that the compiled kernels do not load; the run continues without them."""
    Messages(environment.stderr, as_json=_wants_json(argv)).tell("no-compiled-kernels", text, next_step=step)


def _wants_json(argv: list[str]) -> bool:
    """Whether the command line requests JSON output; its parser may have failed before that option."""
    name = "--report" if argv[:1] == ["export"] else "--format"  # export's --format is the format of its files
    return any(f"{name}={word}" in argv or (name, word) in pairwise(argv) for word in ("json", "ndjson"))


def _unexpected(error: Exception, environment: Environment, argv: list[str]) -> int:
    """Report an error of the option parser; any other exception is a bug, reported in one line."""
    if hasattr(error, "format_message"):
        if _wants_json(argv):
            Messages(environment.stderr, as_json=True).exception(UsageError(reason=error.format_message()))
        else:
            error.show()  # type: ignore[attr-defined]
        return int(ExitCode.USAGE)
    if "KAFKALOG_DEBUG" in os.environ:
        raise error
    text = f"internal error, please report it (KAFKALOG_DEBUG=1 shows more): {type(error).__name__}: {error}"
    _tell(environment, argv, "internal-error", text, ExitCode.FAILURE)
    return int(ExitCode.FAILURE)


def _tell(  # noqa: PLR0913, PLR0917
    environment: Environment, argv: list[str], kind: str, text: str, code: ExitCode, step: str = ""
) -> None:
    """Report a message about the whole run, as a line of text or as a JSON object."""
    Messages(environment.stderr, as_json=_wants_json(argv)).tell(kind, text, exit_code=code, next_step=step)


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
