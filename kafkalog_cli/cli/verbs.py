"""Runs a verb for the command line: starts its session, prints its results, and returns its exit code."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from kafkalog_cli.actions.reports.index_verdict import counted
from kafkalog_cli.actions.session.interruptions import Interruptions
from kafkalog_cli.actions.session.observer import Note
from kafkalog_cli.actions.session.options import SessionOptions
from kafkalog_cli.actions.session.session import Session
from kafkalog_cli.actions.session.verb import Summary, Verb
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.groups import Printing
from kafkalog_cli.cli.terminal import Consent
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.output.messages import Messages
from kafkalog_cli.output.ndjson import JsonLines, json_path
from kafkalog_cli.output.progress import Progress
from kafkalog_cli.output.stream import ResultStream, Undisturbed, printable
from kafkalog_cli.output.views import FAILED, View
from kafkalog_cli.storage.fs import FileAttributes
from kafkalog_cli.storage.named_places import check_named_file

if TYPE_CHECKING:
    from kafkalog_cli.storage.partition import Partition


@dataclass(frozen=True, slots=True)
class VerbRun:
    """A session, and the printer of its results."""

    session: Session
    printer: Printer

    def finish(self, summary: Summary, partitions: Sequence[Partition], metrics: str | None = None) -> int:
        """Print the end of the output; return the exit code. Raises BrokenPipeError if the reader is gone."""
        printer = self.printer
        printer.view.last(printer.out)
        if metrics is not None:
            self._write_metrics(metrics, summary, len(partitions))
        printer.end(summary, len(partitions))
        return int(summary.code)

    def check_metrics(self, path: str | None) -> None:
        """Raise KafkalogError if the metrics file cannot be written, before anything is changed."""
        if path is not None:
            check_named_file(self.session.context.fs, path)

    def _write_metrics(self, path: str, summary: Summary, partitions: int) -> None:
        from kafkalog_cli.output.metrics import RunMetrics, metrics_text
        from kafkalog_cli.storage.changing.durable import replace_file

        session, context = self.session, self.session.context
        counts = self.printer.counts(partitions)
        counts["failed_partitions"] = summary.failed + self.printer.refused
        counts["partitions_not_done"] = len(summary.not_done)
        metrics = RunMetrics(session.shared.verb.name, context.now_ms(), session.seconds, int(summary.code), counts)
        full_path = os.path.abspath(path)  # noqa: PTH100
        try:
            # The collector is another user, so a new file is readable for all; an existing file keeps its mode.
            is_there = context.fs.status(full_path) is not None
            readable = FileAttributes(0o644, os.geteuid(), os.getegid(), context.now_ms() * 1_000_000)
            replace_file(context.fs, full_path, metrics_text(metrics).encode(), None if is_there else readable)
        except OSError as error:
            raise KafkalogError(reason=f"{path}: the metrics cannot be written: {error.strerror}") from error


def begin(
    environment: Environment, verb: Verb[Any], view: View[Any], options: SessionOptions, printing: Printing
) -> VerbRun:
    """Return a session whose results are printed on the command line."""
    interruptions = Interruptions()
    printer = Printer(environment, verb, view, printing, interruptions)
    session = Session(
        verb, environment.context, options, printer, interruptions=interruptions, argv=tuple(sys.argv[1:])
    )
    return VerbRun(session, printer)


def run_verb(  # noqa: PLR0913, PLR0917
    environment: Environment,
    verb: Verb[Any],
    view: View[Any],
    options: SessionOptions,
    paths: Sequence[str],
    request: Callable[..., Any],
    *,
    printing: Printing,
    metrics: str | None = None,
    takes_one: bool = False,
    **what: Any,
) -> int:
    """Run a verb on logs; return the exit code.

    `request` is the type of its request, `what` has the verb's own options.
    """
    run = begin(environment, verb, view, options, printing)
    session, metrics = run.session, None if options.dry_run else metrics
    found = session.one_partition(paths[0]) if takes_one else session.writable_partitions(list(paths))
    run.check_metrics(metrics)
    return run.finish(session.run(session.request(request, found, **what), found), found, metrics)


class Printer:
    """The `Observer` of the command line: results on stdout, notes and errors on stderr, questions on the terminal."""

    def __init__(
        self,
        environment: Environment,
        verb: Verb[Any],
        view: View[Any],
        printing: Printing,
        interruptions: Interruptions,
    ) -> None:
        self.view = view
        self._quiet = printing.quiet
        as_json = printing.output.is_json
        stdout, stderr = environment.stdout, environment.stderr
        self._undisturbed = Undisturbed(stdout) if verb.changes else None
        if self._undisturbed is not None:  # a verb that changes logs continues if the reader is gone
            stdout, stderr = cast(BinaryIO, self._undisturbed), cast(BinaryIO, Undisturbed(stderr))
        self.out = ResultStream(stdout)
        self._json = JsonLines(self.out) if as_json else None
        self._messages = Messages(stderr, as_json=as_json)
        self.progress = Progress(stderr, verb.name, as_json=as_json, clock=environment.clock)
        terminal = environment.terminal
        self._consent = None if terminal is None else Consent(terminal, interruptions.safe_point)
        self._counts: Counter[str] = Counter()

    # -- Observer

    def working(self) -> AbstractContextManager[object]:
        """See Observer."""
        return self.progress

    def begin(self, work: str, total_bytes: int | None) -> None:
        """See Observer."""
        self.progress.begin(work, total_bytes)

    def expect_more(self, size_bytes: int) -> None:
        """See Observer."""
        self.progress.expect_more(size_bytes)

    def advance(self, size_bytes: int, subject: str = "") -> None:
        """See Observer."""
        self.progress.advance(size_bytes, subject)

    def report(self, note: Note) -> None:
        """See Observer."""
        if note.kind == "skipped" and self._quiet:
            return
        self.progress.erase()
        self._messages.report(note)

    def report_now(self, notes: Sequence[Note]) -> None:
        """See Observer."""
        with self.progress.paused():
            for note in notes:
                self._messages.report(note)

    def fail(self, error: KafkalogError, *, is_told: bool) -> None:
        """See Observer."""
        if not is_told:
            self.progress.erase()
            self._messages.exception(error)

    def show(self, result: Any) -> None:
        """See Observer."""
        self.progress.erase()
        view = self.view
        if self._json is not None:
            self._json.object(view.schema, view.kind, view.fields(result))
        elif not self._quiet or not view.is_idle(result):
            for line in view.lines(result):
                self.out.write(line + "\n")
        self._counts.update(view.counts(result))

    def consent(self, path: str, plan: Any) -> None:
        """See Observer."""
        if self._consent is not None:
            with self.progress.paused():
                self._consent.need(printable(path), self.view.question(plan))

    def consent_to_all(self, verb: str, partitions: int) -> None:
        """See Observer."""
        if self._consent is not None:
            how_many = counted(partitions, "partition", "partitions")
            self._consent.need(how_many, f"{verb} in tasks of Spark, which do not ask before valid records go")

    # -- the end

    @property
    def refused(self) -> int:
        """The number of partitions that were refused."""
        return self._counts[FAILED]

    def counts(self, partitions: int) -> dict[str, int]:
        """Return the counts of the summary."""
        return {"partitions": partitions, **{name: self._counts[name] for name in self.view.names}}

    def end(self, summary: Summary, partitions: int) -> None:
        """Print the summary of JSON output, and flush. Raises BrokenPipeError only now, after all work is done."""
        if self._json is not None:
            not_done = [json_path(partition.path) for partition in summary.not_done]
            more = {"not_done": not_done} if not_done else {}
            self._json.summary(summary.code, **self.counts(partitions), **more)
        self.out.flush()
        if self._undisturbed is not None:
            self._undisturbed.end()
