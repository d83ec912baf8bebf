"""The subcommands: the module of each, which is imported when it is called, and its help."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalog_cli.cli.declared import Command
    from kafkalog_cli.cli.environment import Environment

GROUPS = {
    "Look": ("ls", "read", "find", "stats", "inspect", "lookup-offset", "lookup-time", "dump-log", "dump-index"),
    "Cluster": ("groups", "transactions", "cluster"),
    "Check and repair": ("doctor", "verify", "recover"),
    "Change": ("append", "roll", "retain", "compact", "delete-records", "truncate"),
    "Move data": ("serve", "replay", "export", "import", "metadump"),
    "Spark": ("sql",),
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
"""The module of each subcommand; its `command` is a Command."""


def command_of(name: str) -> Command:
    """Return a subcommand by its name."""
    command: Command = importlib.import_module(COMMANDS[name]).command
    return command


def help_of(name: str | None, environment: Environment) -> str:
    """Return the help of a subcommand, None: of kafkalog itself."""
    from kafkalog_cli.cli.help_pages import command_page, main_page
    from kafkalog_cli.output.help_text import help_text
    from kafkalog_cli.output.stream import ResultStream, paint_of, terminal_columns

    page = main_page(GROUPS) if name is None else command_page(name, command_of(name))
    return help_text(page, paint_of(ResultStream(environment.stdout)), terminal_columns())
