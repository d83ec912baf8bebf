"""The output of doctor as JSON and as text: the log directory, its next start, what is wrong, the next commands."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from kafkalog_cli.errors import counted, shell_word
from kafkalog_cli.log.log_dir import Shutdown
from kafkalog_cli.ops.checks.diagnose import Finding
from kafkalog_cli.ops.checks.finding_kinds import Severity, StartAction
from kafkalog_cli.ops.doctor.broker_pages import Recognised
from kafkalog_cli.ops.doctor.commands import Effect, NextCommand
from kafkalog_cli.ops.doctor.examination import Examination, StartStep
from kafkalog_cli.ops.listing.root import LogDirRoot
from kafkalog_cli.output.ndjson import JsonLines
from kafkalog_cli.output.stream import Paint, ResultStream, paint_of, printable
from kafkalog_cli.output.verify_view import OF_SEVERITY


def write_objects(lines: JsonLines, found: Examination) -> dict[str, int]:
    """Write all objects, and return the counts of the summary."""
    lines.result(found)
    for number, step in enumerate(found.steps, 1):
        lines.result(step, number=number)
    counts = dict.fromkeys(Severity, 0)
    for verification in found.verifications:
        for one in verification.located:
            counts[one.finding.severity] += 1
            lines.result(one)
    lines.results(found.lines)
    for number, command in enumerate(found.commands, 1):
        lines.result(command, number=number)
    of_severity = {name: counts[severity] for severity, name in OF_SEVERITY.items()}
    return {"steps": len(found.steps), **of_severity, "commands": len(found.commands)}


_STOPPED = {
    Shutdown.CLEAN: "its broker stopped cleanly",
    Shutdown.UNCLEAN: "its broker did not stop cleanly",
    Shutdown.RUNNING: "a broker is running on it",
    Shutdown.UNKNOWN: "no file shows how its broker stopped",
}
_ACTIONS = {
    StartAction.NOTHING: "no start",
    StartAction.DOES_NOT_START: "does not start",
    StartAction.TAKES_OFFLINE: "takes the directory offline",
    StartAction.TRUSTS: "trusts the logs",
    StartAction.RECOVERS: "checks the logs",
    StartAction.RESETS: "ignores a checkpoint",
    StartAction.CUTS: "cuts a log",
    StartAction.REMOVES: "removes a segment",
    StartAction.DELETES: "deletes",
    StartAction.REBUILDS: "rebuilds indexes",
    StartAction.KEEPS: "keeps",
    StartAction.SETS_ASIDE: "sets aside",
    StartAction.LOWERS: "lowers a high watermark",
}
_EFFECTS = {
    Effect.NOTHING: "changes nothing",
    Effect.COPIES: "writes only new files elsewhere",
    Effect.REVERSIBLE: "can be undone",
    Effect.PERMANENT: "cannot be undone",
}
_MOST_FINDINGS = 20
_MOST_ALIKE = 10
"""Steps and commands that differ in their paths only, as of thousands of partitions."""
_PARTITION = re.compile(r"\bpartition \d+ of a topic \S+")
_PAGES = "docs/broker-messages"


class DoctorText:
    """Writes an examination; `out` breaks lines at the width of a terminal."""

    def __init__(self, out: ResultStream) -> None:
        self._out = out
        self._paint = paint_of(out)

    def write(self, found: Examination) -> None:
        """Write all parts."""
        self._line(self._paint.wrapped(_heading(found.root, found.partitions), indent="  "))
        for title, lines in (
            ("From the broker's log", [*self._broker_lines(found.lines)]),
            ("At its next start, the broker", [*self._steps(found)]),
            ("Damage and warnings", [*self._findings(found)]),
            ("Next commands, the safest first", [*self._commands(found.commands)]),
        ):
            if lines:
                self._line("")
                self._line(self._paint.heading(title))
                for line in lines:
                    self._line(line)

    def _line(self, text: str) -> None:
        self._out.write(f"{text}\n")

    def _wrapped(self, text: str, indent: str) -> str:
        return self._paint.wrapped(printable(text), indent=indent)

    def _broker_lines(self, lines: tuple[Recognised, ...]) -> Iterator[str]:
        for line in lines:
            like = "" if line.is_exact else ", of which the line has a part"
            yield self._wrapped(f"  {line.text.text.strip().replace('{}', '…')}{like}", "    ")
            yield self._wrapped(f"    {line.message.meaning}", "    ")
            yield self._wrapped(f"    Risk: {line.message.at_stake}", "    ")
            yield f"    Page: {_PAGES}/{line.message.slug}.md"

    def _steps(self, found: Examination) -> Iterator[str]:
        alike = [(step.action, _PARTITION.sub("", step.message)) for step in found.steps]
        each = ([self._step(number, step, found.root.path)] for number, step in enumerate(found.steps, 1))
        return _first_of_alike("step", alike, each)

    def _step(self, number: int, step: StartStep, log_dir: str) -> str:
        word = _ACTIONS[step.action]
        text = self._wrapped(f"  {number}. {word}: {_below(step.path, log_dir)}: {step.message}", "     ")
        if step.loses_data or step.ends_start:
            return self._paint.coloured(text, word, self._paint.bad)
        return text

    def _findings(self, found: Examination) -> Iterator[str]:
        all_found = [one for each in found.verifications for one in each.findings if one.severity is not Severity.INFO]
        all_found.sort(key=lambda one: one.severity is not Severity.CORRUPTION)
        for one in all_found[:_MOST_FINDINGS]:
            yield self._finding(one, found.root.path)
        if len(all_found) > _MOST_FINDINGS:
            more = counted(len(all_found) - _MOST_FINDINGS, "more finding")
            yield f"  {more}: kafkalog verify {shell_word(found.root.path)}"

    def _finding(self, one: Finding, log_dir: str) -> str:
        at = "" if one.position is None else f" at byte {one.position}"
        word = one.severity.value
        text = self._wrapped(f"  {word}: {_below(one.path, log_dir)}{at}: {one.message} [{one.kind.value}]", "    ")
        bad = one.severity is Severity.CORRUPTION
        return self._paint.coloured(text, word, self._paint.bad if bad else self._paint.warning)

    def _commands(self, commands: tuple[NextCommand, ...]) -> Iterator[str]:
        alike = [(command.argv[:2], _PARTITION.sub("", command.why)) for command in commands]
        each = (self._command(number, command) for number, command in enumerate(commands, 1))
        return _first_of_alike("command", alike, each)

    def _command(self, number: int, command: NextCommand) -> list[str]:
        if not command.argv:
            return [self._wrapped(f"  {number}. by hand: {command.why}", "     ")]
        effect = _EFFECTS[command.effect] + (f": {command.undo}" if command.undo else "")
        reason = self._wrapped(f"     {command.why}", "     ")
        return [f"  {number}. {printable(command.line)}", self._effect(effect, command), reason]

    def _effect(self, effect: str, command: NextCommand) -> str:
        paint: Paint = self._paint
        colours = {Effect.REVERSIBLE: paint.warning, Effect.PERMANENT: paint.bad}
        text = self._wrapped(f"     {effect}", "       ")
        return paint.coloured(text, _EFFECTS[command.effect], colours.get(command.effect, paint.fine))


def _first_of_alike(what: str, alike: Sequence[object], each: Iterable[list[str]]) -> Iterator[str]:
    """Yield the lines of each in order; of many that are alike, those of the first, and the number of others.

    That number stands in the place of the first of the others, where a reader misses one.
    """
    counts = Counter(alike)
    seen: dict[object, list[int]] = {}
    for number, (shape, lines) in enumerate(zip(alike, each, strict=True), 1):
        numbers = seen.setdefault(shape, [])
        numbers.append(number)
        if len(numbers) <= _MOST_ALIKE:
            yield from lines
        elif len(numbers) == _MOST_ALIKE + 1:
            yield f"  {counted(counts[shape] - _MOST_ALIKE, what)} more like {what} {numbers[0]}: --format json has all"


def _heading(root: LogDirRoot, partitions: int) -> str:
    of = [] if root.meta is None or root.meta.node_id is None else [f"broker {root.meta.node_id}"]
    of += [] if root.meta is None or root.meta.cluster_id is None else [f"cluster {root.meta.cluster_id}"]
    parts = [*of, counted(partitions, "partition"), _STOPPED[root.shutdown]]
    return printable(f"{root.path}: {', '.join(parts)}")


def _below(path: str, log_dir: str) -> str:
    """Return a path without its log directory, which stands in the first line."""
    return path.removeprefix(f"{log_dir.rstrip('/')}/")
