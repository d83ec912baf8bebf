"""Prints the results of a command that changes logs, and asks before valid records are removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any

from typer import Context

from kafkalog_cli.cli.environment import Terminal
from kafkalog_cli.cli.options import Printing
from kafkalog_cli.cli.reports import Reports
from kafkalog_cli.cli.run import Run
from kafkalog_cli.disk.named_places import check_named_file, replace_named_file
from kafkalog_cli.errors import NotChanged
from kafkalog_cli.ops.call.call import Run as Outcome
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.output.changes import Detail, Sums, done_words, metrics_text, planned_words
from kafkalog_cli.output.stream import paint_of, printable


class Consent:
    """Asks once per partition, or once for all remaining partitions; threads share it."""

    def __init__(self, terminal: Terminal, poll: Callable[[], None]) -> None:
        self._terminal = terminal
        self._poll = poll
        self._is_for_all = False
        self._asking = Lock()

    def need(self, path: str, question: str) -> None:
        """Ask a question, without a question mark, before a partition is changed.

        Raises NotChanged if the user refuses, and the exceptions of `poll`.
        """
        with self._asking:
            if self._is_for_all:
                return
            self._poll()
            answer = self._terminal.answer(f"{question}? [y/N/a(ll)] ", self._poll).strip().lower()
            self._is_for_all = answer in ("a", "all")
            if not self._is_for_all and answer not in ("y", "yes"):
                raise NotChanged(path=path, reason="no consent was given")


class Changes(Reports):
    """Prints each partition of a verb that changes logs.

    `lines` returns the text of a result, and `question` what is asked before a plan is applied, without a question
    mark. `sums` are the counts of the summary; `amounts` are more that only text has. A dry run writes no metrics.
    `only_copies`: partitions are copied, not changed.
    """

    def __init__(  # noqa: PLR0913
        self,
        context: Context,
        printing: Printing,
        lines: Callable[[Any], Iterable[str]],
        sums: Sums,
        *,
        question: Callable[[Any], str] = str,
        amounts: Sums | None = None,
        metrics: str | None = None,
        is_dry_run: bool = False,
        only_copies: bool = False,
    ) -> None:
        super().__init__(Run(context, printing.output, outlives_reader=not only_copies))
        terminal = self.run.environment.terminal
        self._consent = None if terminal is None else Consent(terminal, self.interruptions.safe_point)
        self._printing, self.lines, self._question = printing, lines, question
        self._sums, self._all_sums = sums, {**sums, **(amounts or {})}
        self._only_copies = only_copies
        self._is_dry_run, self.metrics = is_dry_run, None if is_dry_run else metrics
        self._paint = paint_of(self.run.out)
        self._counts: Counter[str] = Counter()
        self._changed = self._refused = 0
        self._has_hidden = False
        if self.metrics is not None:  # before anything is changed
            check_named_file(self.context.fs, self.metrics)

    def report(self, note: Note) -> None:
        """See Observer."""
        if note.kind not in ("skipped", "locked") or not self._printing.quiet:
            super().report(note)

    def show(self, result: Any) -> None:
        """See Observer."""
        plan = getattr(result, "plan", result)
        is_refused = getattr(plan, "is_refused", False)
        if self.run.lines is not None:
            given = getattr(result, "given", None)
            self.run.lines.result(result if given is None else plan, **(given or {}))
        elif not self._printing.quiet or self._only_copies or not result.is_idle:
            self._write(self.lines(result), is_refused=is_refused)
        self._changed += not self._only_copies and result.has_work
        self._refused += is_refused
        if not is_refused:
            self._counts.update({name: count(result) for name, count in self._all_sums.items()})

    def _write(self, lines: Iterable[str], *, is_refused: bool) -> None:
        """Write a result's lines. Details need --verbose; the first line of a refused partition is red."""
        for number, line in enumerate(lines):
            if isinstance(line, Detail) and not self._printing.verbose:
                self._has_hidden = True
                continue
            indent = " " * (len(line) - len(line.lstrip(" ")) + 2)
            text = self._paint.wrapped(line, indent=indent)
            is_bad = is_refused and not number
            self.run.out.write(f"{self._paint.bad(text) if is_bad else self._paint.commands(text)}\n")

    def consent(self, path: str, plan: Any) -> None:
        """See Observer."""
        if self._consent is not None:
            with self.run.progress.paused():
                self._consent.need(printable(path), self._question(plan))

    def finish(self, outcome: Outcome[Any]) -> int:
        """Print the end of the output, and write metrics; return the exit code. Raises as `end`, and KafkalogError."""
        run, bad = self.run, self.failures + self._refused
        counts = {"partitions": outcome.partitions, **{name: self._counts[name] for name in self._sums}}
        if self.metrics is not None:
            more = {"failed_partitions": bad, "partitions_not_done": len(outcome.not_done)}
            now_ms, code = self.context.now_ms(), int(outcome.exit_code)
            text = metrics_text(str(run.context.info_name), now_ms, outcome.seconds, code, {**counts, **more})
            replace_named_file(self.context.fs, self.metrics, text.encode(), "metrics")
        if run.lines is None and not self._printing.quiet and not self._only_copies:
            if self._is_dry_run:
                hidden = {"has_hidden": self._has_hidden}
                end = planned_words(self._changed, outcome.partitions, self._counts, self._refused, **hidden)
                end = self._paint.wrapped(end)
            else:
                end = done_words(outcome, self._changed, bad, self._counts, self._paint)
            run.write_lines([end] if end else [])
        return self.end(outcome, **counts)
