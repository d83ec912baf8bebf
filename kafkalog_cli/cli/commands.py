"""The `kafkalog` command. Its subcommands are modules, each imported when it is called.

Options may be set by variables of the environment, KAFKALOG_COMMAND_OPTION and KAFKALOG_OPTION; such an option declares
its common variable as `envvar`. The command line alone has the paths of commands that change logs, and the options that
decide which data are changed: a forgotten variable must not remove data.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from kafkalog_cli import __version__
from kafkalog_cli.errors import ExitCode, UsageError, did_you_mean

GROUPS = {
    "Look": {
        "ls": "List topics, partitions and segments, and what fills the disk.",
        "read": "Print the records of partitions as a consumer gets them.",
        "find": "Print the records that meet all conditions.",
        "stats": "Print sizes, codecs, keys, producers and times of logs.",
        "inspect": "Show partitions on a time axis: segments, holes, retention.",
        "lookup-offset": "Find the record at an offset.",
        "lookup-time": "Find the first record at or after a time.",
        "dump-log": "Print segments as kafka-dump-log does.",
        "dump-index": "Print indexes, snapshots and checkpoints, each entry checked.",
    },
    "Cluster": {
        "groups": "Print groups with offsets, lag and members.",
        "transactions": "Print transactions: open, hanging, committed, aborted.",
        "cluster": "Print brokers, topics, settings, ACLs of the metadata log.",
    },
    "Check and repair": {
        "doctor": "Print a broker's next start, and the commands that help now.",
        "verify": "Check log directories, and explain each damage found.",
        "recover": "Repair damaged partitions, and keep what is cut off for undo.",
    },
    "Change": {
        "append": "Append records to a partition as its leader would.",
        "roll": "Start a new segment where a broker would.",
        "retain": "Remove segments past retention, or make room on a full disk.",
        "compact": "Keep only the last record of each key, as a log cleaner does.",
        "delete-records": "Move the start of a log forward.",
        "truncate": "Remove the records at the end of a log.",
    },
    "Move data": {
        "serve": "Serve log directories to Kafka clients, read-only.",
        "replay": "Send the records of log directories to a cluster.",
        "export": "Write records as Parquet, Arrow or NDJSON files.",
        "import": "Build new partitions from the records in files.",
        "metadump": "Copy log directories without keys, values and secrets.",
    },
    "Spark": {
        "sql": "Query topics, groups and cluster metadata in SQL.",
    },
    "Undo": {
        "undo": "Restore the files from before a run.",
        "purge": "Remove files that earlier runs kept, and due .deleted files.",
    },
    "Set up": {
        "demo": "Make a small damaged log directory to try the commands on.",
        "warmup": "Prepare Spark's start.",
    },
}
"""Subcommands as the help lists them, with the first sentences of their docstrings: to import all takes 0.3 s."""
_NAMES = [name for names in GROUPS.values() for name in names]
HELP_NAMES: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
EXAMPLES = {
    "See what is on the disk of a broker": "kafkalog ls /var/lib/kafka",
    "Find damage, and the command that repairs it": "kafkalog verify /var/lib/kafka",
    "See what a repair would do, then do it": "kafkalog recover /var/lib/kafka --dry-run",
}


class Command(TyperCommand):
    """A subcommand. Modules override `parse_args` in a subclass `Parser` for words that only look like options."""

    examples: Mapping[str, str] = {}
    exit_codes: Mapping[ExitCode, str] = {}

    @property
    def variables(self) -> list[str]:
        """The variables of its options."""
        return [name for param in self.params for name in cast(list[str], param.envvar or ())]

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: D102
        return ["[OPTIONS]", *(param.metavar or "" for param in self.params if param.param_type_name == "argument")]

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: D102
        from kafkalog_cli.cli.command_help import help_text, panels

        usage = " ".join((ctx.command_path, *self.collect_usage_pieces(ctx)))
        rows = panels(self.get_params(ctx))
        formatter.write(help_text(usage, self.help or "", rows, self.examples, self.exit_codes))

    def invoke(self, ctx: Any) -> Any:  # noqa: D102
        _check_variables(self.variables)
        return super().invoke(ctx)


class _Commands(Mapping[str, Command]):
    """The subcommands by their names."""

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)

    def __getitem__(self, name: str) -> Command:
        if name not in _NAMES:
            raise KeyError(name)
        return _import_command(name)


COMMANDS = _Commands()


@cache
def _import_command(name: str) -> Command:
    """Return a subcommand from its module: the function of its name, EXAMPLES, EXIT_CODES, perhaps a Parser."""
    word = "import_" if name == "import" else name.replace("-", "_")
    module = importlib.import_module(f"{__package__}.{word}")
    application = typer.Typer(add_completion=False, rich_markup_mode=None)
    as_command = application.command(name, cls=getattr(module, "Parser", Command), context_settings=HELP_NAMES)
    as_command(_with_fields_as_options(getattr(module, word)))
    command: Any = typer.main.get_command(application)
    command.examples, command.exit_codes = module.EXAMPLES, dict(sorted(module.EXIT_CODES.items()))
    for param in command.params:
        choices = getattr(getattr(param, "type_descriptor", None) or param.type, "choices", None) or ()
        words = "|".join(str(getattr(choice, "value", choice)) for choice in choices)
        param.metavar = param.metavar or words or param.name.upper()  # which versions of typer make differently
        if param.envvar:  # the variable of this command is stronger than the common one
            own = _PREFIX + name.upper().replace("-", "_") + param.envvar.removeprefix(_PREFIX[:-1])
            param.envvar, param.show_envvar = [own, param.envvar], False  # kafkalog(1) has them
    return cast(Command, command)


def _with_fields_as_options(function: Callable[..., int]) -> Callable[..., int]:
    """Return the function of a command with the fields of its named tuples as parameters, as typer takes it."""
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
    for field in getattr(kind, "_fields", ()):
        yield from _options(field, kind.__annotations__[field], kind._field_defaults.get(field, Parameter.empty))


def _value(name: str, kind: Any, values: Mapping[str, Any]) -> Any:
    fields = kind.__annotations__ if hasattr(kind, "_fields") else {}
    return kind(*(_value(field, of, values) for field, of in fields.items())) if fields else values[name]


_PREFIX = "KAFKALOG_"
_WITHOUT_OPTION = frozenset({"KAFKALOG_CACHE_DIR", "KAFKALOG_DEBUG", "KAFKALOG_JAVA_HOME"})
_OF_OTHERS = r"KAFKALOG_(TEST_.*|(.+_)?SERVICE_(HOST|PORT(_.+)?)|(.+_)?PORT(_\d+_[A-Z]+(_(PROTO|PORT|ADDR))?)?)"
"""Variables of the tests, and of Kubernetes, which sets them in each pod for a service named kafkalog or kafkalog-X."""


def _check_variables(own: Sequence[str]) -> None:
    """Raise UsageError for a variable of an unknown name. Other commands than the called one are imported for it."""
    for name in os.environ:
        is_known = name in own or name in _WITHOUT_OPTION or re.fullmatch(_OF_OTHERS, name)
        if not name.startswith(_PREFIX) or is_known:
            continue
        known = [variable for command in COMMANDS.values() for variable in command.variables]
        if name not in known:
            bare = dict.fromkeys(variable.removeprefix(_PREFIX) for variable in known)
            question = did_you_mean(name.removeprefix(_PREFIX), bare, _PREFIX) or "kafkalog(1) lists the names"
            reason = f"the variable {name} is unknown, or only the command line has its option. {question}"
            raise UsageError(reason=reason)


class _Group(TyperGroup):
    def __init__(self, **words: Any) -> None:
        super().__init__(**words)
        self.commands = cast(Any, COMMANDS)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from kafkalog_cli.cli.command_help import help_text, panels

        rows = {title: list(commands.items()) for title, commands in GROUPS.items()}
        rows |= panels(self.get_params(ctx))
        formatter.write(
            help_text("kafkalog COMMAND [OPTIONS] PATH...", self.help or "", rows, EXAMPLES, {}, max(map(len, _NAMES)))
        )


app = typer.Typer(cls=_Group, rich_markup_mode=None, context_settings=HELP_NAMES)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"kafkalog {__version__}")
        raise typer.Exit


@app.callback()
def _kafkalog(
    _version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Read, check and repair Apache Kafka log directories, with no broker running.

    `kafkalog help COMMAND` prints the options, examples and exit codes of a command.
    """


kafkalog_command = cache(lambda: typer.main.get_command(app))
"""Typer's command of the whole command line."""
