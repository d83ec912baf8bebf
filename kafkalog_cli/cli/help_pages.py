"""Builds the help of a command from its options and from `command_facts`; the man pages are made of the same."""

import re
from enum import Enum
from typing import Any

from kafkalog_cli.cli.command_facts import EXAMPLES, SUMMARIES, exit_codes_of
from kafkalog_cli.cli.declared import Command, Parameter
from kafkalog_cli.output.help_text import HelpEntry, HelpExample, HelpGroup, HelpPage
from kafkalog_cli.output.progress import sized

_OWN = "Options"
_ARGUMENTS = "Arguments"
_DAILY = (_ARGUMENTS, _OWN)
_RARE = ("Selection", "Output", "Safety", "Settings", "Time and load", "Limits", "Spark")
"""The panels of options that several commands have (`options.py`, `groups.py`)."""
_HELP = HelpEntry("-h, --help", "Print this help and exit.")


def main_page(groups: dict[str, tuple[str, ...]]) -> HelpPage:
    """Return the help of kafkalog itself: the commands in their groups."""
    commands = [
        HelpGroup(title, [HelpEntry(name, SUMMARIES[name] + ".") for name in names]) for title, names in groups.items()
    ]
    options = [
        HelpEntry("-V, --version", "Print the version and exit."),
        _HELP,
        HelpEntry("--install-completion", "Install the completion of words for the current shell."),
        HelpEntry("--show-completion", "Print the completion script for the current shell."),
    ]
    return HelpPage(
        "kafkalog",
        "Read, check and repair Apache Kafka log directories, with no broker running",
        "kafkalog COMMAND [OPTIONS] PATH...",
        groups=[*commands, HelpGroup(_OWN, options)],
        examples=[HelpExample(*example) for example in EXAMPLES["kafkalog"]],
        widest_names=max(map(len, SUMMARIES)),
        last="`kafkalog help COMMAND` prints the options, examples and exit codes of a command.",
    )


def command_page(name: str, command: Command) -> HelpPage:
    """Return the help of a command: its docstring, its options in groups, its examples and exit codes."""
    summary, *paragraphs = _paragraphs(command.function.__doc__ or "")
    groups: dict[str, list[HelpEntry]] = {}
    usage = [f"kafkalog {name} [OPTIONS]"]
    for parameter in command.parameters:
        declared = parameter.declaration
        if declared.is_argument:
            usage.append(str(declared.metavar or parameter.name.upper()))
            groups.setdefault(_ARGUMENTS, []).append(HelpEntry(usage[-1].strip("[]"), declared.help))
        else:
            groups.setdefault(declared.rich_help_panel or _OWN, []).append(_entry(parameter))
    groups.setdefault(_OWN, []).append(_HELP)
    own = [title for title in groups if title not in (*_DAILY, *_RARE)]
    ordered = [title for title in (*_DAILY, *own, *_RARE) if title in groups]
    return HelpPage(
        name,
        summary.rstrip("."),
        " ".join(usage),
        paragraphs,
        [HelpExample(*example) for example in EXAMPLES[name]],
        [HelpGroup(title, groups[title]) for title in ordered],
        [HelpEntry(str(int(code)), f"{meaning}.") for code, meaning in exit_codes_of(name).items()],
    )


def _entry(parameter: Parameter) -> HelpEntry:
    declared = parameter.declaration
    names = ", ".join(sorted(parameter.option_names, key=len) if declared.names else parameter.option_names)
    value = parameter.kinds[0]
    if value is not bool:
        choices = "|".join(str(member.value) for member in value) if issubclass(value, Enum) else ""
        names += f" {declared.metavar or choices or parameter.name.upper()}"
    default = _default_text(parameter.default, declared.metavar) if declared.show_default else ""
    return HelpEntry(names, declared.help, default)


def _default_text(default: Any, metavar: str | None) -> str:
    """Return the default as text; "" if there is none, or if the option's own text explains it."""
    if isinstance(default, bool) or default in (None, "", 0) or not _is_value(default):
        return ""
    if metavar == "BYTES" and isinstance(default, int):
        return f"{default}, {sized(default)}" if default >= _MANY_BYTES else str(default)
    if isinstance(default, float):
        return f"{default:g}"
    return str(default.value if isinstance(default, Enum) else default)


_MANY_BYTES = 1 << 10


def _is_value(default: Any) -> bool:
    return isinstance(default, str | int | float | Enum)


def _paragraphs(text: str) -> list[str]:
    return [re.sub(r"\s+", " ", part).strip() for part in text.split("\n\n") if part.strip()]
