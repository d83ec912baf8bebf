"""Writes docs/messages.md: each message of kafkalog, as found in its source, with its exit code and its next step.

`--check` only says whether the page is current.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from source_texts import Function, Module, Texts, called_name

import kafkalog_cli
from kafkalog_cli import errors
from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.ops.checks.diagnose import DIAGNOSES
from kafkalog_cli.ops.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.refusals import RULES, RuleOutcome

TARGET = Path(__file__).with_name("messages.md")
PACKAGE = Path(kafkalog_cli.__file__).parent

HEADER = """\
# Messages

Every finding, refusal, warning and error, for a search. `docs/generate_messages.py` writes this page from the source of
kafkalog: change the source, not this page. A word in capitals stands for a value. Text in square brackets appears in
some cases only.

The exit code is the code of one target. Several targets have a common code, see the man pages. With `--format json`,
findings are objects with a `kind` on stdout, and errors and warnings are objects on stderr.
"""
FINDINGS = """
## Findings of verify

Beside its text, a finding prints the effect on a broker ([all effects](findings.md)) and the next step. The next step
has the paths of the run in place of PATH, FILE and DIR.

| Kind | Exit code | Text | Next step |
|---|---|---|---|
"""
FAULTS = """
## Damage in files

All commands that read files report damage with these texts. In `verify`, they are texts of findings.

| Kind | Text |
|---|---|
"""
REFUSALS = """
## Refusals of writers

Each rule is checked before a partition is changed ([when it applies](refusals.md)). The next step is in the text, or is
the option that lifts the refusal. A rule without an exit code is a warning.

| Rule | Exit code | Text | Option |
|---|---|---|---|
"""
ERRORS = """
## Errors

They begin with `kafkalog:` on stderr. Each table is for a part of the source.
"""
SYSTEM = """
## Next steps after errors of the operating system

An error with one of these causes has a line `next:`. In a partition, the step is a command.

| Cause | Elsewhere | In a partition |
|---|---|---|
"""
WARNINGS = """
## Warnings

They are on stderr, and do not end a run.

| Kind | Text |
|---|---|
"""

REMARKS = """
## Remarks of writers

They stand below the line of a partition, on stdout. With an exit code of 14 the partition is not changed.

| Exit code | Text |
|---|---|
"""
NOTES = """
## Notes on files beside a log

`dump-index` and `verify` report the state of indexes, producer snapshots, checkpoints and metadata files with these
texts.

| Text |
|---|
"""

ERROR_CLASSES = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, KafkalogError)
}
PARTS = {
    "cli": "Options of commands",
    "ops/append": "append",
    "ops/audit": "audit",
    "ops/compact": "compact",
    "ops/demo": "demo",
    "ops/export": "export",
    "ops/importing": "import",
    "ops/listing": "ls",
    "ops/lookup": "lookup-offset and lookup-time",
    "ops/read": "read",
    "ops/recover": "recover",
    "ops/checks": "dump-index and verify",
    "ops/retain": "retain",
    "ops/verify": "verify",
    "ops": "All commands: paths, settings, plans",
    "format": "Formats",
    "library": "Python library",
    "output": "Output",
    "spark/sql": "sql",
    "spark/export": "export on Spark",
    "spark": "Spark",
    "change/publishing": "Files of export and import",
    "change": "Changes and undo",
    "broker": "Logs as a broker loads and appends to them",
    "disk": "Files and directories",
    "log": "Files and directories",
}
"""The heading of each part of the source; the first that a path begins with counts."""


class Message(NamedTuple):
    """One message of the source: its class or kind, and a text that it can have."""

    module: Module
    kind: str
    text: str


def found_errors(texts: Texts) -> Iterator[Message]:
    """Yield the errors, with the template of their class filled in."""
    for module, call, function in _calls(texts):
        kind = ERROR_CLASSES.get(called_name(call))
        if kind is None or module.name == "errors.py":
            continue
        template = (kind.__doc__ or "").replace("{", "\0{").split("\0")
        details = {one.arg: texts.of(one.value, module, function) for one in call.keywords if one.arg is not None}
        key = next((name for name in ("reason", "message", "what") if name in details), "path")
        for text in details.get(key) or ["…"]:
            values = {name: others[0] if others else "…" for name, others in details.items()} | {key: text}
            values["path"] = values.get("path", "PATH") if key == "path" or not _is_plain(values) else "PATH"
            yield Message(module, kind.__name__, "".join(_filled(part, values) for part in template))


def _is_plain(values: dict[str, str]) -> bool:
    """Return whether `path` is a path: words, such as `column codec`, name another place."""
    return values.get("path", "PATH").isupper()


def _filled(part: str, values: dict[str, str]) -> str:
    if not part.startswith("{"):
        return part
    name, _, rest = part[1:].partition("}")
    known = values.get(name) or name.removesuffix("_word").upper().replace("_", "-")
    return known + rest


def found_findings(texts: Texts) -> Iterator[Message]:
    """Yield the findings: calls with a kind and a text."""
    for module, call, function in _calls(texts):
        kinds = texts.attributes(call.args[0], "FindingKind", function) if call.args else []
        place = 1 if called_name(call) == "_find" else 2
        if kinds and len(call.args) > place:
            for text in texts.of(call.args[place], module, function):
                yield from (Message(module, FindingKind[kind].value, text) for kind in kinds)


def found_faults(texts: Texts) -> Iterator[Message]:
    """Yield the faults: facts about bytes, which findings and errors quote."""
    for module, call, function in _calls(texts):
        if called_name(call) == "Fault" and len(call.args) > 2:
            kinds = {one.attr for one in ast.walk(call.args[0]) if isinstance(one, ast.Attribute)} & _fault_names()
            for text in texts.of(call.args[2], module, function):
                for kind in sorted(kinds) or ["any"]:
                    yield Message(module, kind.lower().replace("_", "-"), text)


def _fault_names() -> set[str]:
    from kafkalog_cli.format.fault import FaultKind

    return {kind.name for kind in FaultKind}


def found_warnings(texts: Texts) -> Iterator[Message]:
    """Yield the warnings and notes: calls whose first argument is a word for JSON output."""
    for module, call, function in _calls(texts):
        name = called_name(call)
        if name not in ("Note", "ReadNote", "warn", "tell", "note") or len(call.args) < 2:
            continue
        place = 2 if name == "ReadNote" else 1
        first = call.args[0]
        if isinstance(first, ast.Constant) and isinstance(first.value, str) and len(call.args) > place:
            for text in texts.of(call.args[place], module, function):
                yield Message(module, first.value, text)


def found_remarks(texts: Texts) -> Iterator[Message]:
    """Yield the remarks; `kind` is the name of an exit code, or "" if it depends on the damage."""
    for module, call, function in _calls(texts):
        name = called_name(call)
        if name not in ("Remark", "Unready", "_say") or len(call.args) < 2:
            continue
        codes = texts.attributes(call.args[2], "ExitCode", function) if len(call.args) > 2 else ["REFUSED"]
        code = "WARNINGS" if name == "_say" else codes[0] if len(codes) == 1 else ""
        for text in texts.of(call.args[1], module, function):
            yield Message(module, code, text)


def found_notes(texts: Texts) -> Iterator[Message]:
    """Yield the notes on sidecar files."""
    for module, call, function in _calls(texts):
        if called_name(call) == "FileNote" and call.args:
            for text in texts.of(call.args[0], module, function):
                yield Message(module, "", text)


def _calls(texts: Texts) -> Iterator[tuple[Module, ast.Call, Function | None]]:
    for module in texts.modules:
        for call, function in module.calls:
            yield module, call, function


def render(texts: Texts) -> str:
    """Return the whole page."""
    parts = [HEADER, FINDINGS, *_finding_rows(texts), FAULTS]
    parts += _rows((one.kind, one.text) for one in sorted(found_faults(texts), key=lambda one: one.kind))
    parts += [REFUSALS, *_refusal_rows(texts), ERRORS, *_error_tables(texts), SYSTEM, *_system_rows(), WARNINGS]
    parts += _rows((one.kind, one.text) for one in sorted(found_warnings(texts), key=lambda one: one.kind))
    parts += [REMARKS, *_once(_row(_code_of(one.kind), _code(one.text)) for one in found_remarks(texts))]
    parts += [NOTES, *_once(_row(_code(one.text)) for one in found_notes(texts))]
    return "".join(parts)


def _rows(pairs: Iterator[tuple[str, str]]) -> list[str]:
    return _once(_row(_code(kind), _code(text)) for kind, text in pairs)


def _once(rows: Iterator[str]) -> list[str]:
    """Return the rows without repetitions, and without those whose text is a value alone."""
    has_words = (row for row in rows if re.search(r"[a-z]", row.rsplit("| `", 1)[-1].rsplit("| ``", 1)[-1]))
    return list(dict.fromkeys(has_words))


def _code_of(name: str) -> str:
    return str(int(ExitCode[name])) if name else "by the damage"


def _finding_rows(texts: Texts) -> list[str]:
    found: dict[str, list[str]] = {}
    for one in found_findings(texts):
        found.setdefault(one.kind, []).append(one.text)
    rows = []
    for kind in FindingKind:
        diagnosis = DIAGNOSES[kind]
        shown = "<br>".join(map(_code, dict.fromkeys(found.get(kind.value, ["the text of the damage, see below"]))))
        code = str(int(diagnosis.severity.exit_code))
        rows.append(_row(_code(kind.value), code, shown, diagnosis.next_step or "nothing"))
    return rows


def _refusal_rows(texts: Texts) -> list[str]:
    rows = []
    for rule in RULES:
        module = next(one for one in texts.modules if rule.find.__module__.endswith(one.name[:-3].replace("/", ".")))
        (function,) = module.functions[rule.find.__name__]
        returned = [one.value for one in ast.walk(function) if isinstance(one, ast.Return) and one.value is not None]
        shown = [text for value in returned for text in texts.of(value, module, function)]
        code = "–" if rule.outcome is RuleOutcome.WARNING else str(int(rule.outcome.exit_code))  # noqa: RUF001
        text = "<br>".join(map(_code, dict.fromkeys(filter(None, shown))))
        rows.append(_row(_code(rule.name), code, text, _code(rule.flag) if rule.flag else "none"))
    return rows


def _error_tables(texts: Texts) -> list[str]:
    by_part: dict[str, list[str]] = {title: [] for title in PARTS.values()}
    for one in found_errors(texts):
        title = next(title for start, title in PARTS.items() if one.module.name.startswith(f"{start}/"))
        code = str(int(ERROR_CLASSES[one.kind].exit_code))
        by_part[title].append(_row(code, _code(one.text)))
    heading = "| Exit code | Text |\n|---|---|\n"
    return [f"\n### {title}\n\n{heading}{''.join(dict.fromkeys(rows))}" for title, rows in by_part.items() if rows]


def _system_rows() -> list[str]:
    import errno
    import os

    rows = []
    for number, step in errors.STEPS_AFTER_SYSTEM_ERRORS.items():
        inside = errors.STEPS_IN_PARTITIONS.get(number, step).format(word="PATH", log_dir="LOG_DIR")
        rows.append(_row(f"{os.strerror(number)} ({errno.errorcode[number]})", step, inside))
    return rows


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("\n", " ").replace("|", "\\|") for cell in cells) + " |\n"


def _code(text: str) -> str:
    """Return the text as a code span; the fence is longer than the backticks in it."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def main(arguments: Sequence[str]) -> int:
    """Write the page, or compare it."""
    page = render(Texts(PACKAGE))
    if "--check" in arguments:
        return int(TARGET.read_text(encoding="utf-8") != page)
    TARGET.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
