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

COMMANDS = {
    "dump-log": "kafkalog_cli.cli.dump_log",
    "dump-index": "kafkalog_cli.cli.dump_index",
    "ls": "kafkalog_cli.cli.ls",
    "lookup-offset": "kafkalog_cli.cli.lookup_offset",
    "lookup-time": "kafkalog_cli.cli.lookup_time",
    "read": "kafkalog_cli.cli.read",
    "verify": "kafkalog_cli.cli.verify",
    "recover": "kafkalog_cli.cli.recover",
    "roll": "kafkalog_cli.cli.roll",
    "retain": "kafkalog_cli.cli.retain",
    "compact": "kafkalog_cli.cli.compact",
    "truncate": "kafkalog_cli.cli.truncate",
    "delete-records": "kafkalog_cli.cli.delete_records",
    "append": "kafkalog_cli.cli.append",
    "export": "kafkalog_cli.cli.export",
    "import": "kafkalog_cli.cli.import_",
    "undo": "kafkalog_cli.cli.undo",
    "purge": "kafkalog_cli.cli.purge",
    "sql": "kafkalog_cli.cli.sql",
    "audit": "kafkalog_cli.cli.audit",
    "warmup": "kafkalog_cli.cli.warmup",
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
        convert_without_pydantic(command)
        return command


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
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
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
    if argv[:1] == ["sql"]:  # an SQL comment before the query is not an option
        argv = [f" {word}" if word.startswith("-- ") else word for word in argv]
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
    """Report a message about the whole run: a line for people, an object for programs."""
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
