"""Runs a command line: every error becomes a message on stderr, as a sentence or as JSON, and an exit code."""

import io
import os
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

import typer

from kafkalog_cli.cli.commands import COMMANDS, kafkalog_command
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.errors import NO_ROOM, ExitCode, KafkalogError, next_step
from kafkalog_cli.output.stream import OutputFailed

_WRONG_USAGE: Any = typer.BadParameter.__base__  # typer has no public name for click's UsageError


def run(argv: list[str], environment: Environment | None = None) -> int:
    """Run one command line; return the exit code. Never raises for a user's mistake."""
    environment = environment or Environment()
    stdout = io.TextIOWrapper(environment.stdout, "utf-8", "surrogateescape", write_through=True)
    stderr = io.TextIOWrapper(environment.stderr, "utf-8", "surrogateescape", write_through=True)
    try:
        with redirect_stdout(stdout), redirect_stderr(stderr):
            return _run(argv, environment)
    finally:
        _detach(stdout)
        _detach(stderr)


def _detach(stream: io.TextIOWrapper) -> None:
    """Flush the stream and leave its buffer.

    What a full disk or a closed pipe has not taken is dropped: Python would try again when the process ends.
    """
    try:
        stream.detach()
    except OSError:
        with suppress(OSError):  # a stream without a descriptor
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            stream.detach()


def _run(argv: list[str], environment: Environment) -> int:
    argv = _with_help(argv)
    environment = replace(environment, wants_json=_wants_json(argv), argv=tuple(argv))
    try:
        code = _call(argv, environment)
        environment.stdout.flush()  # here, where a failure is reported
        return code
    except _WRONG_USAGE as error:
        return _wrong_usage(error, environment)
    except KafkalogError as error:
        environment.messages.exception(error)
        return int(error.exit_code)
    except BrokenPipeError:
        return int(ExitCode.OK)  # the reader closed the pipe (`| head`)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)
    except OutputFailed as failed:
        also = ": the command went on, but its report is incomplete" if failed.is_after_work else ""
        return _os_error(failed.error, environment, f" (where output goes){also}")
    except OSError as error:
        return _os_error(error, environment)
    except Exception as error:
        return _unexpected(error, environment)


def _unexpected(error: Exception, environment: Environment) -> int:
    """Report a fault of this program."""
    if isinstance(error.__cause__, KeyboardInterrupt):  # Ctrl-C while a class of an imported module was made
        return int(ExitCode.INTERRUPTED)
    if "KAFKALOG_DEBUG" in os.environ:
        raise error
    text = f"internal error, please report it (KAFKALOG_DEBUG=1 shows more): {type(error).__name__}: {error}"
    return _report(environment, "internal-error", text, ExitCode.FAILURE)


def _call(argv: list[str], environment: Environment) -> int:
    """Parse the command line and call its command. Typer's `main` would end the process, a closed pipe with 1."""
    command = kafkalog_command()
    if "_KAFKALOG_COMPLETE" in os.environ:  # a shell asks for completions
        command.main(argv, "kafkalog")
    try:
        with command.make_context("kafkalog", argv, obj=environment) as context:
            return int(command.invoke(context))
    except typer.Exit as end:
        return end.exit_code


def _with_help(argv: list[str]) -> list[str]:
    """Turn `help COMMAND` into `COMMAND --help`. Without arguments the help is printed."""
    if not argv or argv[0] == "help":
        return [*(word for word in argv[1:2] if word != "help"), "--help"]
    return list(argv)


def _wants_json(argv: list[str]) -> bool:
    """Whether JSON output is requested; the parser of the command line may have failed before that option."""
    command = argv[0].upper().replace("-", "_")
    name = "--report" if command == "EXPORT" else "--format"  # export's --format is the format of its files
    if any(word == name or word.startswith(f"{name}=") for word in argv):
        return any(f"{name}={word}" in argv or (name, word) in pairwise(argv) for word in ("json", "ndjson"))
    output = os.environ.get(f"KAFKALOG_{command}_FORMAT") or os.environ.get("KAFKALOG_FORMAT")
    return output in ("json", "ndjson") and command != "EXPORT"


def _wrong_usage(error: Any, environment: Environment) -> int:
    """Report a mistake in the command line that typer has found."""
    text = str(error.format_message()).replace("Value error, ", "").rstrip(".")
    variable, command = _variable_of(error), environment.argv[0]
    text = f"{text[:1].lower()}{text[1:]}{variable and f' (from {variable})'}"
    step = f"kafkalog {command} --help" if command in COMMANDS else "kafkalog --help"
    return _report(environment, "UsageError" if environment.wants_json else "usage-error", text, ExitCode.USAGE, step)


def _variable_of(error: Any) -> str:
    """Return the variable that has the refused value; "" for a value of the command line."""
    param = getattr(error, "param", None)
    if param is None or error.ctx is None:
        return ""
    if getattr(error.ctx.get_parameter_source(param.name), "name", "") != "ENVIRONMENT":
        return ""
    return str(next(name for name in param.envvar if os.environ.get(name)))


def _report(environment: Environment, kind: str, text: str, code: ExitCode, step: str = "") -> int:
    """Report a message about the whole run; return the exit code."""
    with suppress(OSError, OutputFailed):  # there is nowhere to report it
        environment.messages.error(kind, text, exit_code=code, next_step=step)
    return int(code)


def _os_error(error: OSError, environment: Environment, where: str = "") -> int:
    """Report an error of the operating system with its file; standard output and open files have no name."""
    code = ExitCode.NO_SPACE if error.errno in NO_ROOM else ExitCode.FAILURE
    if error.filename is not None and not where:
        return _report(
            environment, "os-error", f"{os.fsdecode(error.filename)}: {error.strerror}", code, next_step(error)
        )
    stream = "where output goes" if code is ExitCode.NO_SPACE else "where output goes, or where a file is read"
    return _report(environment, "os-error", f"{error.strerror or error}{where or f' ({stream})'}", code)
