"""One call of a command with a session: starts it, prints its results, and returns the exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from typer import Context

from kafkalog_cli.cli.environment import Consent
from kafkalog_cli.cli.run import Run
from kafkalog_cli.cli.session_groups import Printing
from kafkalog_cli.disk.named_places import check_named_file, replace_named_file
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.ops.session.interruptions import Interruptions
from kafkalog_cli.ops.session.observer import Note, Observer
from kafkalog_cli.ops.session.options import SessionOptions
from kafkalog_cli.ops.session.session import Session
from kafkalog_cli.ops.session.verb import Summary, Verb
from kafkalog_cli.ops.session.work import Work
from kafkalog_cli.output.stream import paint_of, printable
from kafkalog_cli.output.views import FAILED, FAILURES, Detail, RunCounts, View, metrics_text
from kafkalog_cli.results import PathText

if TYPE_CHECKING:
    from kafkalog_cli.log.partition import Partition


class VerbRun(Observer):
    """One call of a command with a session: the session's `Observer`, which prints its results as the view says.

    A dry run writes no metrics. `only_plans`: the session makes plans only, and its caller applies them unless
    `options` ask for a dry run.
    """

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        context: Context,
        verb: Verb,
        view: View[Any],
        options: SessionOptions,
        printing: Printing,
        metrics: str | None = None,
        *,
        only_plans: bool = False,
    ) -> None:
        run = self._run = Run(context, printing.output, outlives_reader=verb.changes)
        self.view = view
        self.metrics = None if options.dry_run else metrics
        self.progress, self.out = run.progress, run.out
        self._printing, self._is_dry_run = printing, options.dry_run
        interruptions, terminal = Interruptions(), run.environment.terminal
        self._consent = None if terminal is None else Consent(terminal, interruptions.safe_point)
        self._counts: Counter[str] = Counter()
        self._changes = RunCounts()
        self._paint = paint_of(run.out)
        planned = options._replace(dry_run=options.dry_run or only_plans)
        self.session = Session(
            verb, run.session_context, planned, self, interruptions=interruptions, argv=run.environment.argv
        )

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
        run, session, number = self._run, self.session, len(partitions)
        if self.metrics is not None:
            counts = self._summary_counts(number)
            counts["failed_partitions"] = summary.failed + self._counts[FAILED]
            counts["partitions_not_done"] = len(summary.not_done)
            now_ms = session.context.now_ms()
            text = metrics_text(session.verb.name, now_ms, session.seconds, int(summary.code), counts)
            replace_named_file(session.context.fs, self.metrics, text.encode(), "metrics")
        not_done = [{"path": PathText(partition.path)} for partition in summary.not_done]
        if run.lines is None and self.view.has_work is not None and not self._printing.quiet:
            if self._is_dry_run:
                run.write_lines(map(self._paint.wrapped, self._changes.planned(number, self._counts)))
            else:
                run.write_lines(self._changes.done(number, self._counts, summary, session.seconds, self._paint))
        run.codes.append(summary.code)
        return run.end(**self._summary_counts(number), **({"not_done": not_done} if not_done else {}))

    def _summary_counts(self, partitions: int) -> dict[str, int]:
        return {"partitions": partitions} | {name: self._counts[name] for name in self.view.names}

    # -- Observer

    def report(self, note: Note) -> None:
        """See Observer."""
        if note.kind in ("skipped", "locked") and self._printing.quiet:
            return
        self._run.messages.report(note)

    def report_now(self, notes: Sequence[Note]) -> None:
        """See Observer."""
        self._run.messages.report(*notes)

    def fail(self, error: KafkalogError, *, path: str | None = None, is_told: bool) -> None:
        """See Observer."""
        self._counts[FAILURES] += 1
        if not is_told:
            self._run.messages.exception(error)

    def show(self, result: Any) -> None:
        """See Observer."""
        view = self.view
        counts = view.counts(result)
        if self._run.lines is not None:
            for kind, fields in view.objects(result):
                self._run.lines.object(kind, fields)
        elif not self._printing.quiet or not view.is_idle(result):
            self._write(view.lines(result), is_refused=bool(counts.get(FAILED)))
        self._changes.add(has_work=view.has_work is not None and view.has_work(result))
        self._counts.update(counts)

    def _write(self, lines: Iterable[str], *, is_refused: bool) -> None:
        """Write a result's lines. Details need --verbose; the first line of a refused partition is red."""
        for number, line in enumerate(lines):
            if isinstance(line, Detail) and not self._printing.verbose:
                self._changes.hide()
                continue
            indent = " " * (len(line) - len(line.lstrip(" ")) + 2)
            text = self._paint.wrapped(line, indent=indent)
            is_bad = is_refused and not number
            self.out.write(f"{self._paint.bad(text) if is_bad else self._paint.commands(text)}\n")

    def consent(self, path: str, plan: Any) -> None:
        """See Observer."""
        if self._consent is not None:
            with self._run.progress.paused():
                self._consent.need(printable(path), self.view.question(plan))


def run_verb(  # noqa: PLR0913, PLR0917
    context: Context,
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
    run = VerbRun(context, verb, view, options, printing, metrics)
    session = run.session
    found = session.one_partition(paths[0]) if takes_one else session.writable_partitions(list(paths))
    return run.complete(partial(do, **what), found)
