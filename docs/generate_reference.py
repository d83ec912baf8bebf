"""Writes man/ and completions/ from the commands themselves; `--check` only says what is out of date."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import typer
from typer.completion import get_completion_script

from kafkalog_cli import __version__
from kafkalog_cli.cli.app import app
from kafkalog_cli.errors import EXIT_CODE_MEANINGS

ROOT = Path(__file__).resolve().parent.parent
COMPLETION_FILES = {"bash": "kafkalog.bash", "zsh": "_kafkalog", "fish": "kafkalog.fish"}


def reference_files() -> dict[Path, str]:
    """Every generated file and its text."""
    group = typer.main.get_command(app)
    context = typer.Context(group, info_name="kafkalog")
    names = group.list_commands(context)
    commands = {name: group.get_command(context, name) for name in names}
    files = {Path("man/kafkalog.1"): _main_page(group, commands)}
    for name, command in commands.items():
        files[Path(f"man/kafkalog-{name}.1")] = _command_page(name, command)
    for shell, file in COMPLETION_FILES.items():
        script = get_completion_script(prog_name="kafkalog", complete_var="_KAFKALOG_COMPLETE", shell=shell)
        files[Path("completions") / file] = script.rstrip() + "\n"
    return files


def _main_page(group: Any, commands: dict[str, Any]) -> str:
    parts = [_heading("kafkalog", _first_line(group)), ".SH SYNOPSIS\n.B kafkalog\n[OPTIONS] COMMAND [ARGS]...\n"]
    parts.append(".SH COMMANDS\n")
    for name, command in commands.items():
        parts.append(f".TP\n.BR kafkalog-{_roff(name)} (1)\n{_roff(_first_line(command))}\n")
    parts += [_options(group), _exit_status()]
    return "".join(parts)


def _command_page(name: str, command: Any) -> str:
    arguments = " ".join(_metavar(p) for p in command.params if p.param_type_name == "argument")
    parts = [
        _heading(f"kafkalog-{name}", _first_line(command)),
        f".SH SYNOPSIS\n.B kafkalog {_roff(name)}\n[OPTIONS] {_roff(arguments)}\n",
        f".SH DESCRIPTION\n{_paragraphs(command.help or '')}",
    ]
    parts += [_options(command), _exit_status(), '.SH "SEE ALSO"\n.BR kafkalog (1)\n']
    return "".join(parts)


def _heading(title: str, summary: str) -> str:
    return f'.TH "{title.upper()}" "1" "" "kafkalog {__version__}" "kafkalog"\n.SH NAME\n{title} \\- {_roff(summary)}\n'


def _options(command: Any) -> str:
    parts = [".SH OPTIONS\n"]
    for param in command.params:
        if getattr(param, "hidden", False):
            continue
        if param.param_type_name == "argument":
            names = _metavar(param)
        else:
            names = ", ".join([*param.opts, *param.secondary_opts])
            names += "" if param.is_flag else f" {_metavar(param)}"
        parts.append(f".TP\n.B {_roff(names)}\n{_roff(param.help or '')}\n")
    return "".join(parts)


def _metavar(param: Any) -> str:
    """An option without a name for its value takes one of some choices; older versions of typer name them so."""
    return param.metavar or "CHOICE"


def _exit_status() -> str:
    parts = ['.SH "EXIT STATUS"\n']
    parts += [f".TP\n.B {int(code)}\n{_roff(meaning)}\n" for code, meaning in EXIT_CODE_MEANINGS.items()]
    return "".join(parts)


def _first_line(command: Any) -> str:
    return re.sub(r"\s+", " ", (command.help or "").split("\n\n")[0]).strip().rstrip(".")


def _paragraphs(text: str) -> str:
    parts = (re.sub(r"\s+", " ", part).strip() for part in text.split("\n\n"))
    return "".join(f".PP\n{_roff(part)}\n" for part in parts if part)


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(['.])", r"\\&\1", escaped, flags=re.MULTILINE)


def main() -> int:
    """Write the files, or with --check compare them; 1 if one is out of date."""
    stale = []
    for path, text in reference_files().items():
        target = ROOT / path
        if not target.exists() or target.read_text() != text:
            stale.append(str(path))
            if "--check" not in sys.argv:
                target.parent.mkdir(exist_ok=True)
                target.write_text(text)
    if stale:
        print("\n".join(stale))
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
