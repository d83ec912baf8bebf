"""Options from the environment and from a TOML file: which options may be set there, and the check of names.

The sources, from the strongest to the weakest, are the command line, KAFKALOG_COMMAND_OPTION, KAFKALOG_OPTION, the
file's table of the command, the file's top level, and the default. Typer looks values up. Only the command line has the
paths of commands that change logs, and the options that decide which data are changed. A forgotten variable must not
remove data.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from kafkalog_cli.disk.fs import Filesystem, read_all
from kafkalog_cli.errors import UsageError

PREFIX = "KAFKALOG_"
CONFIG_VARIABLE = "KAFKALOG_CONFIG"

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
READERS = frozenset(
    {"ls", "groups", "transactions", "cluster", "doctor", "serve", "replay", "verify", "audit", "inspect"}
)
NOT_OF = {"format": frozenset({"export"}), "isolation": frozenset({"replay"})}
"""Commands whose option of this name means something else: `export --format` is the format of the files.

`replay --isolation` decides which records get into a cluster, not only what is printed.
"""

_OWN_VARIABLES = frozenset({CONFIG_VARIABLE, "KAFKALOG_DEBUG", "KAFKALOG_JAVA_HOME"})
_OF_OTHERS = re.compile(
    r"KAFKALOG_(TEST_.*|(.+_)?SERVICE_(HOST|PORT(_.+)?)|(.+_)?PORT(_\d+_[A-Z]+(_(PROTO|PORT|ADDR))?)?)"
)
"""Variables of the tests, and of Kubernetes, which sets them in each pod for a service named kafkalog or kafkalog-X."""

_MOST_BYTES = 1 << 20


class Configuration(NamedTuple):
    """The values of a file: `common` for all commands, and a table per command. `path` is "" without a file."""

    path: str = ""
    common: Mapping[str, Any] = MappingProxyType({})
    tables: Mapping[str, Mapping[str, Any]] = MappingProxyType({})

    def defaults(self, command: str, options: Iterable[Any]) -> dict[str, Any]:
        """Return the values for a command by the names of its parameters. Raises UsageError for another's option."""
        named = {_name(option): option.name for option in options}
        own = self.tables.get(command, {})
        for name in own:
            if name not in named:
                raise UsageError(reason=f"{self.path}: [{command}] has no option {name}")
        values = {name: value for name, value in self.common.items() if is_configurable(command, name)}
        return {named[name]: value for name, value in {**values, **own}.items() if name in named}

    def value(self, command: str, option: str) -> object:
        """Return the value of an option that its command line does not give; None if it is its default."""
        if not is_configurable(command, option):
            return None
        given = next(filter(None, (os.environ.get(name) for name in variables(command, option))), None)
        return given or self.tables.get(command, {}).get(option, self.common.get(option))


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


def configuration(fs: Filesystem, commands: Iterable[str], is_option: Callable[[str], bool]) -> Configuration:
    """Check the names of all variables, and read the file.

    `is_option` says whether any command has this option. Raises UsageError for unknown names and a malformed file,
    PathNotFound if $KAFKALOG_CONFIG does not exist, and Unreadable.
    """
    known = tuple(commands)
    names = _Names(known, is_option)
    for variable in os.environ:
        if variable.startswith(PREFIX) and variable not in _OWN_VARIABLES and not _OF_OTHERS.fullmatch(variable):
            names.check_variable(variable)
    path = _path(fs)
    if not path:
        return Configuration()
    values = _parsed(fs, path)
    tables = {name: value for name, value in values.items() if isinstance(value, dict)}
    common = {name: value for name, value in values.items() if name not in tables}
    names.check_file(path, common, tables)
    return Configuration(path, _texts(path, common), {name: _texts(path, table) for name, table in tables.items()})


def origin(error: Any, path: str) -> str:
    """Return the variable or the file that a wrong value comes from; "" if it is from the command line."""
    context, option = getattr(error, "ctx", None), getattr(error, "param", None)
    if context is None or option is None or option.name is None:
        return ""
    source = getattr(context.get_parameter_source(option.name), "name", "")
    if source == "ENVIRONMENT":
        return next((name for name in option.envvar or () if os.environ.get(name)), "")
    return path if source == "DEFAULT_MAP" else ""


class _Names(NamedTuple):
    """Checks names, and answers a wrong name with similar names."""

    commands: tuple[str, ...]
    is_option: Callable[[str], bool]

    def check_variable(self, variable: str) -> None:
        rest = variable.removeprefix(PREFIX)
        if _lower(rest) in CONFIGURABLE | READERS_ONLY:
            return
        for command in self.commands:
            own = f"{_upper(command)}_"
            if rest.startswith(own) and is_configurable(command, _lower(rest.removeprefix(own))):
                return
        option = next(
            (rest.removeprefix(f"{_upper(one)}_") for one in self.commands if rest.startswith(f"{_upper(one)}_")), rest
        )
        names = [name for one in self.commands for option_ in _all_of(one) for name in variables(one, option_)]
        self._fail(f"the variable {variable}", rest, _lower(option), names, PREFIX)

    def check_file(self, path: str, common: Mapping[str, Any], tables: Mapping[str, Mapping[str, Any]]) -> None:
        for name in common:
            if name not in CONFIGURABLE | READERS_ONLY:
                self._fail(f"{path}: the name {name}", name, name, [*CONFIGURABLE, *READERS_ONLY])
        for command, table in tables.items():
            if command not in self.commands:
                self._fail(f"{path}: the table [{command}]", command, "", self.commands)
            for name in table:
                if not is_configurable(command, name):
                    self._fail(f"{path}: the name {name} in [{command}]", name, name, _all_of(command))

    def _fail(self, what: str, name: str, option: str, names: Iterable[str], prefix: str = "") -> None:
        """Raise UsageError. All of `names` begin with the prefix, which `name` is without: it would make all alike."""
        from difflib import get_close_matches

        if option and self.is_option(option):
            raise UsageError(reason=f"{what} is refused: --{option} is taken from the command line only")
        close = get_close_matches(name, sorted({one.removeprefix(prefix) for one in names}), 2)
        question = (
            f"Did you mean {' or '.join(prefix + one for one in close)}?" if close else "kafkalog(1) lists the names"
        )
        raise UsageError(reason=f"{what} is unknown. {question}")


def _path(fs: Filesystem) -> str:
    """Return the path of the file; "" if there is none. An empty $KAFKALOG_CONFIG means that none is read."""
    if CONFIG_VARIABLE in os.environ:
        return os.environ[CONFIG_VARIABLE]
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111 - never raises
    path = f"{base}/kafkalog/config.toml"
    try:
        return "" if fs.status(path) is None else path
    except OSError:
        return ""


def _parsed(fs: Filesystem, path: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        values: dict[str, Any] = tomllib.loads(read_all(fs, path, _MOST_BYTES).decode())
    except ValueError as error:  # TOMLDecodeError and UnicodeDecodeError
        raise UsageError(reason=f"{path}: {error}") from error
    return values


def _texts(path: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return numbers as the text that a user would have typed. Raises UsageError for lists, tables and times."""
    for name, value in table.items():
        if not isinstance(value, bool | int | float | str):
            raise UsageError(reason=f"{path}: {name} is neither a text, a number, true nor false")
    return {name: value if isinstance(value, bool) else str(value) for name, value in table.items()}


def _all_of(command: str) -> list[str]:
    return [name for name in CONFIGURABLE | READERS_ONLY if is_configurable(command, name)]


def _name(option: Any) -> str:
    """Return the name of an option without dashes; "" for an argument."""
    return str(option.opts[0]).removeprefix("--") if option.param_type_name == "option" else ""


def _upper(name: str) -> str:
    return name.upper().replace("-", "_")


def _lower(name: str) -> str:
    return name.lower().replace("_", "-")
