"""Runs a verb for the command line: starts its session, prints its results, and returns its exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

from kafkalog_cli.cli.environment import Consent, Environment
from kafkalog_cli.cli.session_groups import Printing
from kafkalog_cli.disk.named_places import check_named_file, replace_named_file
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.ops.session.interruptions import Interruptions
from kafkalog_cli.ops.session.observer import Note, Observer
from kafkalog_cli.ops.session.options import SessionOptions
from kafkalog_cli.ops.session.session import Session
from kafkalog_cli.ops.session.verb import Summary, Verb
from kafkalog_cli.ops.session.work import Work
from kafkalog_cli.output.messages import Messages
from kafkalog_cli.output.ndjson import JsonLines
from kafkalog_cli.output.progress import Progress, beside
from kafkalog_cli.output.stream import ResultStream, Undisturbed, paint_of, printable
from kafkalog_cli.output.views import FAILED, FAILURES, Detail, RunCounts, View, metrics_text
from kafkalog_cli.results import PathText

if TYPE_CHECKING:
    from kafkalog_cli.log.partition import Partition


class VerbRun(NamedTuple):
    """A session, the printer of its results, and the file of --metrics (None: not wanted)."""

    session: Session
    printer: Printer
    metrics: str | None = None

    def complete(self, do: Callable[[Work], Any], partitions: Sequence[Partition]) -> int:
        """Run the verb and print the end of the output; return the exit code. Raises as `run` and `finish`."""
        return self.finish(self.run(do, partitions), partitions)

    def run(
        self, do: Callable[[Work], Any], partitions: Sequence[Partition], show: Callable[[Any], None] | None = None
    ) -> Summary:
        """Run the verb. Raises KafkalogError if the metrics file cannot be written, before anything is changed."""
        if self.metrics is not None:
            check_named_file(self.session.context.fs, self.metrics)
        return self.session.run(do, partitions, show)

    def finish(self, summary: Summary, partitions: Sequence[Partition] = ()) -> int:
        """Print the end of the output; return the exit code. Raises BrokenPipeError if the reader is gone."""
        printer = self.printer
        printer.view.last(printer.out)
        if self.metrics is not None:
            self._write_metrics(self.metrics, summary, len(partitions))
        printer.end(summary, len(partitions), self.session.seconds)
        return int(summary.code)

    def _write_metrics(self, path: str, summary: Summary, partitions: int) -> None:
        session, context = self.session, self.session.context
        command, now_ms = session.verb.name, context.now_ms()
        counts = self.printer.counts(partitions)
        counts["failed_partitions"] = summary.failed + self.printer.refused
        counts["partitions_not_done"] = len(summary.not_done)
        text = metrics_text(command, now_ms, session.seconds, int(summary.code), counts)
        replace_named_file(context.fs, path, text.encode(), "metrics")


def begin(  # noqa: PLR0913, PLR0917
    environment: Environment,
    verb: Verb,
    view: View[Any],
    options: SessionOptions,
    printing: Printing,
    metrics: str | None = None,
    *,
    only_plans: bool = False,
) -> VerbRun:
    """Return a session whose results are printed on the command line. A dry run writes no metrics.

    `only_plans`: the session makes plans only, and its caller applies them unless `options` ask for a dry run.
    """
    interruptions = Interruptions()
    printer = Printer(environment, verb, view, printing, interruptions, is_dry_run=options.dry_run)
    planned = options._replace(dry_run=options.dry_run or only_plans)
    session = Session(verb, environment.context, planned, printer, interruptions=interruptions, argv=environment.argv)
    return VerbRun(session, printer, None if options.dry_run else metrics)


def run_verb(  # noqa: PLR0913, PLR0917
    environment: Environment,
    verb: Verb,
    view: View[Any],
    options: SessionOptions,
    paths: Sequence[str],
    do: Callable[..., Any],
    *,
    printing: Printing,
    metrics: str | None = None,
    takes_one: bool = False,
    **what: Any,
) -> int:
    """Run a verb on logs; return the exit code.

    `do` does it on one partition, with the verb's own options `what`.
    """
    run = begin(environment, verb, view, options, printing, metrics)
    session = run.session
    found = session.one_partition(paths[0]) if takes_one else session.writable_partitions(list(paths))
    return run.complete(partial(do, **what), found)


class Printer(Observer):
    """The `Observer` of the command line: results on stdout, notes and errors on stderr, questions on the terminal."""

    def __init__(  # noqa: PLR0913
        self,
        environment: Environment,
        verb: Verb,
        view: View[Any],
        printing: Printing,
        interruptions: Interruptions,
        *,
        is_dry_run: bool = False,
    ) -> None:
        self.view = view
        self._quiet = printing.quiet
        as_json = printing.output.is_json
        stdout, stderr = environment.stdout, environment.stderr
        self._undisturbed = Undisturbed(stdout) if verb.changes else None
        if self._undisturbed is not None:  # a verb that changes logs continues if the reader is gone
            stdout, stderr = cast(BinaryIO, self._undisturbed), cast(BinaryIO, Undisturbed(stderr))
        self._progress = Progress(stderr, verb.name, as_json=as_json, clock=environment.clock)
        self.out = ResultStream(beside(self._progress, stdout))
        self._json = JsonLines(self.out) if as_json else None
        self._messages = Messages(beside(self._progress, stderr), as_json=as_json)
        terminal = environment.terminal
        self._consent = None if terminal is None else Consent(terminal, interruptions.safe_point)
        self._counts: Counter[str] = Counter()
        self._paint = paint_of(self.out)
        self._verbose = printing.verbose
        self._is_dry_run = is_dry_run
        self._run = RunCounts()

    # -- Observer

    @property
    def counts_bytes(self) -> bool:
        """See Observer."""
        return self._progress.is_shown

    def working(self) -> AbstractContextManager[object]:
        """See Observer."""
        return self._progress

    def begin(self, work: str, total_bytes: int | None) -> None:
        """See Observer."""
        self._progress.begin(work, total_bytes)

    def expect_more(self, size_bytes: int) -> None:
        """See Observer."""
        self._progress.expect_more(size_bytes)

    def advance(self, size_bytes: int, subject: str = "") -> None:
        """See Observer."""
        self._progress.advance(size_bytes, subject)

    def report(self, note: Note) -> None:
        """See Observer."""
        if note.kind in ("skipped", "locked") and self._quiet:
            return
        self._messages.report(note)

    def report_now(self, notes: Sequence[Note]) -> None:
        """See Observer."""
        self._messages.report(*notes)

    def fail(self, error: KafkalogError, *, path: str | None = None, is_told: bool) -> None:
        """See Observer."""
        self._counts[FAILURES] += 1
        if self.view.listener is not None:
            self.view.listener.fail(path, error)
        if not is_told:
            self._messages.exception(error)

    def show(self, result: Any) -> None:
        """See Observer."""
        view = self.view
        counts = view.counts(result)
        if view.listener is not None:
            view.listener.show(result)
        if self._json is not None:
            for kind, fields in view.objects(result):
                self._json.object(kind, fields)
        elif not self._quiet or not view.is_idle(result):
            self._write(view.lines(result), is_refused=bool(counts.get(FAILED)))
        self._run.add(has_work=view.has_work is not None and view.has_work(result))
        self._counts.update(counts)

    def _write(self, lines: Iterable[str], *, is_refused: bool) -> None:
        """Write a result's lines. Details need --verbose; the first line of a refused partition is red."""
        for number, line in enumerate(lines):
            if isinstance(line, Detail) and not self._verbose:
                self._run.hide()
                continue
            indent = " " * (len(line) - len(line.lstrip(" ")) + 2)
            text = self._paint.wrapped(line, indent=indent)
            is_bad = is_refused and not number
            self.out.write(f"{self._paint.bad(text) if is_bad else self._paint.commands(text)}\n")

    def consent(self, path: str, plan: Any) -> None:
        """See Observer."""
        if self._consent is not None:
            with self._progress.paused():
                self._consent.need(printable(path), self.view.question(plan))

    # -- the end

    @property
    def refused(self) -> int:
        """The number of partitions that were refused."""
        return self._counts[FAILED]

    def counts(self, partitions: int) -> dict[str, int]:
        """Return the counts of the summary."""
        first = {"partitions": partitions} if self.view.counts_partitions else {}
        return first | {name: self._counts[name] for name in self.view.names}

    def end(self, summary: Summary, partitions: int, seconds: float) -> None:
        """Print the summary, and flush. `seconds` is the duration of the run.

        Raises BrokenPipeError only now, after all work is done.
        """
        if self._json is not None:
            not_done = [{"path": PathText(partition.path)} for partition in summary.not_done]
            more = {"not_done": not_done} if not_done else {}
            self._json.summary(summary.code, **self.counts(partitions), **more)
        elif self.view.has_work is not None and not self._quiet:
            lines = (
                map(self._paint.wrapped, self._run.planned(partitions, self._counts))
                if self._is_dry_run
                else self._run.done(partitions, self._counts, summary, seconds, self._paint)
            )
            for line in lines:
                self.out.write(f"{line}\n")
        self.out.flush()
        if self._undisturbed is not None:
            self._undisturbed.end()
