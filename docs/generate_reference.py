"""Writes man/ and completions/ from the commands themselves; `--check` only says what is out of date."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from typer.completion import get_completion_script

from kafkalog_cli import __version__
from kafkalog_cli.cli.command_facts import environment_of_command, files_of_command
from kafkalog_cli.cli.commands import COMMANDS, GROUPS, command_of
from kafkalog_cli.cli.configuration import is_configurable, variables
from kafkalog_cli.cli.help_pages import command_page, main_page
from kafkalog_cli.errors import EXIT_CODE_MEANINGS
from kafkalog_cli.output.help_text import HelpEntry, HelpGroup, HelpPage

ROOT = Path(__file__).resolve().parent.parent
COMPLETION_FILES = {"bash": "kafkalog.bash", "zsh": "_kafkalog", "fish": "kafkalog.fish"}


def reference_files() -> dict[Path, str]:
    """Every generated file and its text."""
    files = {Path("man/kafkalog.1"): _main_page()}
    for name in COMMANDS:
        files[Path(f"man/kafkalog-{name}.1")] = _command_page(name)
    for shell, file in COMPLETION_FILES.items():
        script = get_completion_script(prog_name="kafkalog", complete_var="_KAFKALOG_COMPLETE", shell=shell)
        files[Path("completions") / file] = script.rstrip() + "\n"
    return files


def _main_page() -> str:
    page = main_page(GROUPS)
    parts = [_heading(page), f".SH SYNOPSIS\n{_usage(page)}", ".SH COMMANDS\n"]
    for group in page.groups:
        if group.title in GROUPS:
            entries = [HelpEntry(f"kafkalog-{entry.names}", entry.text) for entry in group.entries]
            parts.append(f'.SS "{_roff(group.title)}"\n{_entries(entries, section=" (1)")}')
    parts.append(_groups([group for group in page.groups if group.title not in GROUPS]))
    parts += [_examples(page), _section("EXIT STATUS", {str(int(c)): t for c, t in EXIT_CODE_MEANINGS.items()})]
    parts += [_ENVIRONMENT, _FILES]
    return "".join(parts)


def _command_page(name: str) -> str:
    page = command_page(name, command_of(name))
    parts = [
        _heading(page),
        f".SH SYNOPSIS\n{_usage(page)}",
        f".SH DESCRIPTION\n{_paragraphs([page.summary + '.', *page.paragraphs])}",
        _groups(page.groups),
        _examples(page),
        _section("EXIT STATUS", {entry.names: entry.text for entry in page.exit_codes}),
        _section("ENVIRONMENT", _variables(name) | environment_of_command(name)),
        _section("FILES", files_of_command(name)),
    ]
    beside = [other for other in next(names for names in GROUPS.values() if name in names) if other != name]
    see_also = ", ".join(f"\\fB{_roff(other)}\\fR(1)" for other in ("kafkalog", *(f"kafkalog-{o}" for o in beside)))
    return "".join([*parts, f'.SH "SEE ALSO"\n{see_also}\n'])


def _heading(page: HelpPage) -> str:
    title = page.name if page.name == "kafkalog" else f"kafkalog-{page.name}"
    start = f'.TH "{title.upper()}" "1" "" "kafkalog {__version__}" "kafkalog"\n'
    return f"{start}.SH NAME\n{_roff(title)} \\- {_roff(page.summary)}\n"


def _usage(page: HelpPage) -> str:
    words = page.usage.split(" ")
    names = 1 if page.name == "kafkalog" else 2
    return f".B {_roff(' '.join(words[:names]))}\n{_roff(' '.join(words[names:]))}\n"


def _groups(groups: Sequence[HelpGroup]) -> str:
    return ".SH OPTIONS\n" + "".join(f'.SS "{_roff(group.title)}"\n{_entries(group.entries)}' for group in groups)


def _entries(entries: Sequence[HelpEntry], section: str = "") -> str:
    return "".join(f".TP\n\\fB{_roff(entry.names)}\\fR{section}\n{_roff(entry.whole_text)}\n" for entry in entries)


def _examples(page: HelpPage) -> str:
    parts = (f".PP\n{_roff(one.purpose)}:\n.PP\n.nf\n.RS\n{_roff(one.command)}\n.RE\n.fi\n" for one in page.examples)
    return ".SH EXAMPLES\n" + "".join(parts)


_ENVIRONMENT = """\
.SH ENVIRONMENT
.TP
.BI KAFKALOG_ OPTION\\fR,\\fP\\ KAFKALOG_ COMMAND _ OPTION
The value of an option, for one command or for all: KAFKALOG_VERIFY_JOBS, KAFKALOG_JOBS. The page of each command lists
its variables. The command line is stronger than variables. The variable of a command is stronger than the common
variable. A flag takes 1 or 0. An unknown name is an error. Paths that are
written, selections, and options that decide which data are removed are taken from the command line only.
.TP
.B KAFKALOG_DEBUG
If it is set, an internal error ends with a traceback.
.TP
.B NO_COLOR
If it is set, output has no colours and styles.
.TP
.B NUMBA_CACHE_DIR, XDG_CACHE_HOME
The directories for compiled kernels, and for the caches of all programs. Relative paths do not count.
.TP
.B TMPDIR
The directory for temporary files, also of Spark. The default is /tmp or /var/tmp. Without one, commands that do not
use Spark keep more in memory.
"""

_FILES = """\
.SH FILES
.TP
.I ~/.cache/kafkalog
Compiled kernels.
"""


def _variables(name: str) -> dict[str, str]:
    """Return the variables of a command's options as one entry; the main page explains them."""
    parameters = command_of(name).parameters
    options = [one.option_names[0].removeprefix("--") for one in parameters if not one.declaration.is_argument]
    named = [variable for option in options if is_configurable(name, option) for variable in variables(name, option)]
    return {", ".join(named): "Values of these options; see kafkalog(1)."} if named else {}


def _section(title: str, entries: Mapping[str, str]) -> str:
    return f'.SH "{title}"\n' + _entries([HelpEntry(name, text) for name, text in entries.items()])


def _paragraphs(texts: Sequence[str]) -> str:
    return "".join(f".PP\n{_roff(text)}\n" for text in texts)


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
