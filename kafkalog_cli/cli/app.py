"""The `kafkalog` command: its subcommands, each imported when it is called, and its exit codes."""

import errno
import io
import os
import sys
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise

from kafkalog_cli.cli.commands import COMMANDS, command_of, help_of
from kafkalog_cli.cli.configuration import check_variables, configured
from kafkalog_cli.cli.declared import Answered, CommandContext
from kafkalog_cli.cli.environment import Environment, styles_as_wanted
from kafkalog_cli.cli.plain_parser import NotPlainError, plain_call
from kafkalog_cli.disk.kernels import COMPILING
from kafkalog_cli.errors import NO_ROOM, ExitCode, KafkalogError, next_step
from kafkalog_cli.output.stream import OutputFailed

_COMPLETION = "_KAFKALOG_COMPLETE"
"""The variable with which a shell asks for completions."""
_HELP = ["--help"]


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
    argv = _for_the_parser(argv)
    environment = replace(environment, wants_json=_wants_json(argv), argv=tuple(argv))
    try:
        _check_variables(argv)
        environment.kernels.complain = partial(_complain, environment)
        environment.kernels.announce = partial(_announce_compilation, environment)
        try:
            return _call(argv, environment)
        except Answered as answer:
            return _answer(str(answer), environment)
    except KafkalogError as error:
        environment.messages.exception(error)
        return int(error.exit_code)
    except BrokenPipeError:
        return _closed_pipe(environment)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)
    except OutputFailed as failed:
        return _output_failed(failed, environment)
    except OSError as error:
        return _os_error(error, environment)
    except Exception as error:
        return _unexpected(error, environment)


def _call(argv: list[str], environment: Environment) -> int:
    """Parse the command line, and call its command."""
    if _COMPLETION not in os.environ:
        name, *words = argv
        if argv == _HELP:
            return _answer(help_of(None, environment), environment)
        if name in COMMANDS and words in (_HELP, ["-h"]):
            return _answer(help_of(name, environment), environment)
        if name in COMMANDS:
            context = _plain(name, words, environment)
            if context is not None:
                return command_of(name).call(context)
    from kafkalog_cli.cli.typer_parser import call

    return call(argv, environment)


def _plain(name: str, words: list[str], environment: Environment) -> CommandContext | None:
    """Return the call of a command line that is clearly right, None if typer must parse it."""
    try:
        return plain_call(name, command_of(name), words, environment)
    except NotPlainError:
        return None


def _answer(text: str, environment: Environment) -> int:
    """Print a text in place of the results of a command."""
    environment.stdout.write(f"{text.rstrip()}\n".encode("utf-8", "surrogateescape"))
    environment.stdout.flush()
    return int(ExitCode.OK)


def _for_the_parser(argv: list[str]) -> list[str]:
    """Turn `help COMMAND` into `COMMAND --help`, and keep a comment before a query from being read as an option.

    Without arguments the help is printed.
    """
    if not argv:
        return _HELP
    if argv[:1] == ["help"]:
        return [*(word for word in argv[1:2] if word != "help"), *_HELP]
    if argv[:1] == ["sql"]:
        return [f" {word}" if word.startswith("-- ") else word for word in argv]
    return argv


def _check_variables(argv: list[str]) -> None:
    """Raise UsageError for variables with wrong names. Help and completions do not fail by them."""
    is_help = {"--help", "-h"} & set(argv) or _COMPLETION in os.environ
    if not is_help and argv and argv[0] in COMMANDS:
        check_variables(COMMANDS, _is_option)


def _is_option(name: str) -> bool:
    """Whether any command has an option `--name`. This imports all commands."""
    return any(f"--{name}" in one.option_names for command in map(command_of, COMMANDS) for one in command.parameters)


def _complain(environment: Environment, text: str, step: str) -> None:
    """Report that the compiled kernels do not load; the run continues without them."""
    environment.messages.tell("no-compiled-kernels", text, next_step=step)


def _announce_compilation(environment: Environment) -> None:
    """Report that the kernels are compiled now, which makes the first run on much data slow."""
    if "--quiet" in environment.argv:  # without a cache directory each run of a timer compiles them
        return
    environment.messages.warn("compiling-kernels", f"{COMPILING} (kafkalog warmup does it beforehand)")


def _wants_json(argv: list[str]) -> bool:
    """Whether JSON output is requested; the parser of the command line may have failed before that option."""
    name = "--report" if argv[:1] == ["export"] else "--format"  # export's --format is the format of its files
    if not any(word == name or word.startswith(f"{name}=") for word in argv):
        return bool(argv) and configured(argv[0], "format") in {"json", "ndjson"}
    return any(f"{name}={word}" in argv or (name, word) in pairwise(argv) for word in ("json", "ndjson"))


def _unexpected(error: Exception, environment: Environment) -> int:
    """Report an exception that is a bug, in one line."""
    if "KAFKALOG_DEBUG" in os.environ:
        raise error
    text = f"internal error, please report it (KAFKALOG_DEBUG=1 shows more): {type(error).__name__}: {error}"
    _tell(environment, "internal-error", text, ExitCode.FAILURE)
    return int(ExitCode.FAILURE)


def _tell(environment: Environment, kind: str, text: str, code: ExitCode, step: str = "") -> None:
    """Report a message about the whole run, as a line of text or as a JSON object."""
    with suppress(OSError, OutputFailed):  # there is nowhere to report it
        environment.messages.tell(kind, text, exit_code=code, next_step=step)


def _output_failed(failed: OutputFailed, environment: Environment) -> int:
    """Report an error of standard output; return the exit code."""
    also = ": the command went on, but its report is incomplete" if failed.is_after_work else ""
    code = _code_of(failed.error)
    _tell(environment, "os-error", f"{failed.error.strerror or failed.error} (where output goes){also}", code)
    return int(code)


def _code_of(error: OSError) -> ExitCode:
    return ExitCode.NO_SPACE if error.errno in NO_ROOM else ExitCode.FAILURE


def _os_error(error: OSError, environment: Environment) -> int:
    """Report an error of the operating system; return the exit code."""
    code = _code_of(error)
    step = "" if error.filename is None else next_step(error)
    _tell(environment, "os-error", _os_error_text(error), code, step)
    return int(code)


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
