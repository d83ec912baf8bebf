"""Options from the environment: which options have a variable, and the check of names.

The sources, from the strongest to the weakest, are the command line, KAFKALOG_COMMAND_OPTION, KAFKALOG_OPTION, and the
default. Typer looks values up. Only the command line has the paths of commands that change logs, and the options that
decide which data are changed. A forgotten variable must not remove data.
"""

import os
import re
from collections.abc import Callable, Iterable
from typing import Any

from kafkalog_cli.errors import UsageError

PREFIX = "KAFKALOG_"

CONFIGURABLE = frozenset(
    {
        *("format", "quiet", "verbose", "level", "isolation", "kafka-version", "redact", "sort", "top", "max-rows"),
        *("jobs", "time-budget", "io-bytes-per-s", "wait", "memory"),
        *("max-batch-bytes", "max-output-bytes", "max-ratio", "max-message-size", "chunk-bytes", "max-chunk-bytes"),
    }
)
"""Options of any command: how results are printed, how thorough a reader is, and limits of load and memory."""
READERS_ONLY = frozenset({"broker-config", "metadata"})
"""Paths that are read for settings. A command that changes logs takes these from its command line."""
READERS = frozenset({"ls", "groups", "transactions", "cluster", "doctor", "serve", "replay", "verify", "inspect"})
NOT_OF = {"format": frozenset({"export"}), "isolation": frozenset({"replay"})}
"""Commands whose option of this name means something else: `export --format` is the format of the files.

`replay --isolation` decides which records get into a cluster, not only what is printed.
"""

_OWN_VARIABLES = frozenset({"KAFKALOG_DEBUG", "KAFKALOG_JAVA_HOME"})
_OF_OTHERS = re.compile(
    r"KAFKALOG_(TEST_.*|(.+_)?SERVICE_(HOST|PORT(_.+)?)|(.+_)?PORT(_\d+_[A-Z]+(_(PROTO|PORT|ADDR))?)?)"
)
"""Variables of the tests, and of Kubernetes, which sets them in each pod for a service named kafkalog or kafkalog-X."""


def is_configurable(command: str, option: str) -> bool:
    """Whether the option, without its dashes, may be set outside the command line of this command."""
    if option in READERS_ONLY:
        return command in READERS
    return option in CONFIGURABLE and command not in NOT_OF.get(option, ())


def add_variables(command: str, options: Iterable[Any]) -> None:
    """Give typer the variables of a command's options."""
    for option in options:
        name = _name(option)
        if is_configurable(command, name):
            option.envvar = variables(command, name)
            option.show_envvar = False  # the man page lists all of them once


def variables(command: str, option: str) -> list[str]:
    """Return the variables of an option, the strongest first."""
    return [f"{PREFIX}{_upper(command)}_{_upper(option)}", f"{PREFIX}{_upper(option)}"]


def configured(command: str, option: str) -> str | None:
    """Return the value of an option that its command line does not give; None if it is its default."""
    if not is_configurable(command, option):
        return None
    return next(filter(None, (os.environ.get(name) for name in variables(command, option))), None)


def origin(error: Any) -> str:
    """Return the variable that a wrong value comes from; "" if it is from the command line."""
    context, option = getattr(error, "ctx", None), getattr(error, "param", None)
    if context is None or option is None or option.name is None:
        return ""
    if getattr(context.get_parameter_source(option.name), "name", "") != "ENVIRONMENT":
        return ""
    return next((name for name in option.envvar or () if os.environ.get(name)), "")


def check_variables(commands: Iterable[str], is_option: Callable[[str], bool]) -> None:
    """Raise UsageError for a variable of an unknown name. `is_option` says whether any command has this option."""
    known = tuple(commands)
    for variable in os.environ:
        if variable.startswith(PREFIX) and variable not in _OWN_VARIABLES and not _OF_OTHERS.fullmatch(variable):
            _check(variable, known, is_option)


def _check(variable: str, commands: tuple[str, ...], is_option: Callable[[str], bool]) -> None:
    rest = variable.removeprefix(PREFIX)
    if _lower(rest) in CONFIGURABLE | READERS_ONLY:
        return
    for command in commands:
        own = f"{_upper(command)}_"
        if rest.startswith(own) and is_configurable(command, _lower(rest.removeprefix(own))):
            return
    option = _lower(
        next((rest.removeprefix(f"{_upper(one)}_") for one in commands if rest.startswith(f"{_upper(one)}_")), rest)
    )
    if option and is_option(option):
        raise UsageError(reason=f"the variable {variable} is refused: --{option} is taken from the command line only")
    from difflib import get_close_matches

    names = [name for one in commands for option_ in _all_of(one) for name in variables(one, option_)]
    without_prefix = sorted({name.removeprefix(PREFIX) for name in names})  # the prefix would make all alike
    close = get_close_matches(rest, without_prefix, 2)
    question = f"Did you mean {' or '.join(PREFIX + one for one in close)}?" if close else "kafkalog(1) lists the names"
    raise UsageError(reason=f"the variable {variable} is unknown. {question}")


def _all_of(command: str) -> list[str]:
    return [name for name in CONFIGURABLE | READERS_ONLY if is_configurable(command, name)]


def _name(option: Any) -> str:
    """Return the name of an option without dashes; "" for an argument."""
    return str(option.opts[0]).removeprefix("--") if option.param_type_name == "option" else ""


def _upper(name: str) -> str:
    return name.upper().replace("-", "_")


def _lower(name: str) -> str:
    return name.lower().replace("_", "-")
