"""`kafkalog doctor`: what a broker will do at its next start, what is wrong, and the next commands."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from typer import Argument, Context

from kafkalog_cli.cli.exit_codes import READ, exit_codes
from kafkalog_cli.cli.options import BrokerConfigOption, Format, MetadataOption, Now
from kafkalog_cli.cli.run import Run
from kafkalog_cli.cli.verify import LevelChoice
from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import ExitCode, counted, shell_word
from kafkalog_cli.log.log_dir import Shutdown
from kafkalog_cli.ops.call.options import VerbOptions
from kafkalog_cli.ops.check.checks.diagnose import Finding
from kafkalog_cli.ops.check.checks.finding_kinds import Severity, StartAction
from kafkalog_cli.ops.check.doctor.broker_pages import Recognised
from kafkalog_cli.ops.check.doctor.commands import Effect, NextCommand
from kafkalog_cli.ops.check.doctor.examination import Examination, StartStep, examine
from kafkalog_cli.ops.choices import Level
from kafkalog_cli.ops.look.listing.root import LogDirRoot
from kafkalog_cli.ops.option_values import Clock
from kafkalog_cli.output.findings import OF_SEVERITY
from kafkalog_cli.output.ndjson import JsonLines
from kafkalog_cli.output.stream import Paint, paint_of, printable

EXAMPLES = {
    "See what a broker will do at its next start, and what to do before": "kafkalog doctor /var/lib/kafka",
    "Find the page of a line of the broker's log": (
        "kafkalog doctor /var/lib/kafka 'No readable meta.properties files found.'"
    ),
}
EXIT_CODES = (
    READ
    | exit_codes(ExitCode.UNSUPPORTED, ExitCode.REFUSED)
    | {
        ExitCode.OK: "no damage found",
        ExitCode.WARNINGS: "only warnings, damage that a broker cuts off, or an unknown ERROR-TEXT",
    }
)

_LONGEST_PATH = 4096


def doctor(  # noqa: PLR0913, PLR0917 options
    context: Context,
    words: Annotated[list[str], Argument(metavar="LOG_DIR... [ERROR-TEXT]", show_default=False,
        help="The log directories of a broker (a partition directory stands for its own), then lines of the broker's"
        " log. Their pages are found, also by a part of a line.")],
    level: LevelChoice = Level.NORMAL,
    broker_config: BrokerConfigOption = None,
    metadata: MetadataOption = None,
    now: Now = None,
    output: Format = "text",
) -> int:  # fmt: skip
    """Print a broker's next start, and the commands that help now.

    The steps of the next start are listed in the order in which a broker takes them. They come from the findings of
    verify and from the plans of recover --like-broker. A step that removes bytes of a log, or that ends the start,
    is marked.

    The commands come from the findings and from the pages of the broker's lines. Commands that change nothing come
    first, then copies, then changes that can be undone. Nothing is locked or changed.
    """
    run = Run(context, output)
    run.show_reads()
    options: VerbOptions = {"broker_config": broker_config, "metadata": metadata}
    if now is not None:
        options["now"] = Clock(run.environment.clock_ms(now), is_given=True)
    paths = [word for word in words[1:] if _is_path(run.fs, word)]
    text = "\n".join(word for word in words[1:] if word not in paths)
    examinations = examine(run.call_context, options, [words[0], *paths], text, level)
    counts = Counter[str]()
    for number, examination in enumerate(examinations):
        if run.lines is not None:
            counts.update(_write_objects(run.lines, examination))
            continue
        run.write_lines([""] if number else [])
        run.write_lines(DoctorText(paint_of(run.out)).lines(examination))
    run.codes += [examination.exit_code for examination in examinations]
    code = run.end([note for examination in examinations for note in examination.notes], **counts)
    if any(examination.text_is_unknown for examination in examinations):
        run.messages.warn("unknown-text", "no page of docs/broker-messages is about this text")
    return code


def _is_path(fs: Filesystem, word: str) -> bool:
    """Whether an argument is a path, perhaps a misspelt one, and not lines of a log."""
    return bool(re.fullmatch(r"(\.{0,2}|~)/\S*", word)) or (len(word) < _LONGEST_PATH and fs.status(word) is not None)


def _write_objects(lines: JsonLines, examination: Examination) -> dict[str, int]:
    """Write all objects, and return the counts of the summary."""
    lines.result(examination)
    for number, step in enumerate(examination.steps, 1):
        lines.result(step, number=number)
    counts = dict.fromkeys(Severity, 0)
    for verification in examination.verifications:
        for located in verification.located:
            counts[located.finding.severity] += 1
            lines.result(located)
    lines.results(examination.lines)
    for number, command in enumerate(examination.commands, 1):
        lines.result(command, number=number)
    of_severity = {name: counts[severity] for severity, name in OF_SEVERITY.items()}
    return {"steps": len(examination.steps), **of_severity, "commands": len(examination.commands)}


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
_PAGES = "docs/broker-messages"


class DoctorText:
    """The text of examinations; `paint` breaks lines at the width of a terminal."""

    def __init__(self, paint: Paint) -> None:
        self._paint = paint

    def lines(self, examination: Examination) -> Iterator[str]:
        """Yield the lines of all parts."""
        yield self._paint.wrapped(_heading(examination.root, examination.partitions), indent="  ")
        for title, lines in (
            ("From the broker's log", [*self._broker_lines(examination.lines)]),
            ("At its next start, the broker", [*self._steps(examination)]),
            ("Damage and warnings", [*self._findings(examination)]),
            ("Next commands, the safest first", [*self._commands(examination.commands)]),
        ):
            if lines:
                yield ""
                yield self._paint.heading(title)
                yield from lines

    def _wrap(self, text: str, indent: str) -> str:
        return self._paint.wrapped(printable(text), indent=indent)

    def _broker_lines(self, lines: tuple[Recognised, ...]) -> Iterator[str]:
        for line in lines:
            like = "" if line.is_exact else ", of which the line has a part"
            yield self._wrap(f"  {line.text.text.strip().replace('{}', '…')}{like}", "    ")
            yield self._wrap(f"    {line.message.meaning}", "    ")
            yield self._wrap(f"    Risk: {line.message.at_stake}", "    ")
            yield f"    Page: {_PAGES}/{line.message.slug}.md"

    def _steps(self, examination: Examination) -> Iterator[str]:
        alike = [(step.action, step.kind or step.message) for step in examination.steps]
        lines = ([self._step(number, step, examination.root.path)] for number, step in enumerate(examination.steps, 1))
        return _first_of_alike("step", alike, lines)

    def _step(self, number: int, step: StartStep, log_dir: str) -> str:
        word = _ACTIONS[step.action]
        text = self._wrap(f"  {number}. {word}: {_below(step.path, log_dir)}: {step.message}", "     ")
        if step.loses_data or step.ends_start:
            return self._paint.coloured(text, word, self._paint.bad)
        return text

    def _findings(self, examination: Examination) -> Iterator[str]:
        everything = (finding for verification in examination.verifications for finding in verification.findings)
        findings = [finding for finding in everything if finding.severity is not Severity.INFO]
        findings.sort(key=lambda finding: finding.severity is not Severity.CORRUPTION)
        for finding in findings[:_MOST_FINDINGS]:
            yield self._finding(finding, examination.root.path)
        if len(findings) > _MOST_FINDINGS:
            more = counted(len(findings) - _MOST_FINDINGS, "more finding")
            yield f"  {more}: kafkalog verify {shell_word(examination.root.path)}"

    def _finding(self, finding: Finding, log_dir: str) -> str:
        where = "" if finding.position is None else f" at byte {finding.position}"
        word = finding.severity.value
        path = _below(finding.path, log_dir)
        text = self._wrap(f"  {word}: {path}{where}: {finding.message} [{finding.kind.value}]", "    ")
        bad = finding.severity is Severity.CORRUPTION
        return self._paint.coloured(text, word, self._paint.bad if bad else self._paint.warning)

    def _commands(self, commands: tuple[NextCommand, ...]) -> Iterator[str]:
        alike = [(command.argv[:2], command.why) for command in commands]
        lines = (self._command(number, command) for number, command in enumerate(commands, 1))
        return _first_of_alike("command", alike, lines)

    def _command(self, number: int, command: NextCommand) -> list[str]:
        if not command.argv:
            return [self._wrap(f"  {number}. by hand: {command.why}", "     ")]
        effect = _EFFECTS[command.effect] + (f": {command.undo}" if command.undo else "")
        reason = self._wrap(f"     {command.why}", "     ")
        return [f"  {number}. {printable(command.line)}", self._effect(effect, command), reason]

    def _effect(self, effect: str, command: NextCommand) -> str:
        paint: Paint = self._paint
        colours = {Effect.REVERSIBLE: paint.warning, Effect.PERMANENT: paint.bad}
        text = self._wrap(f"     {effect}", "       ")
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
    names = [] if root.meta is None or root.meta.node_id is None else [f"broker {root.meta.node_id}"]
    names += [] if root.meta is None or root.meta.cluster_id is None else [f"cluster {root.meta.cluster_id}"]
    parts = [*names, counted(partitions, "partition"), _STOPPED[root.shutdown]]
    return printable(f"{root.path}: {', '.join(parts)}")


def _below(path: str, log_dir: str) -> str:
    """Return a path without its log directory, which stands in the first line."""
    return path.removeprefix(f"{log_dir.rstrip('/')}/")
