"""Prints the results, notes and errors of a verb."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kafkalog_cli.cli.options import OneTopic, Pacing, Safety, SettingSources, Topics, WriterSettings, default_jobs
from kafkalog_cli.cli.run import Run
from kafkalog_cli.errors import KafkalogError, UsageError
from kafkalog_cli.ops.call.call import Run as Outcome
from kafkalog_cli.ops.call.observer import Note, Observer
from kafkalog_cli.ops.call.options import VerbOptions
from kafkalog_cli.ops.option_values import Clock, parse_seconds, parse_size_bytes
from kafkalog_cli.results import PathText

_NO_SETTINGS = SettingSources()
_ONE_AT_A_TIME = Pacing(jobs=1)


class Reports(Observer):
    """Prints the notes and errors of a verb, and calls `show` with each result (None: collects them)."""

    raises_interrupts = False

    def __init__(self, run: Run, show: Callable[[Any], object] | None = None) -> None:
        super().__init__(run.call_context)
        self.run, self.progress, self.argv = run, run.progress, run.environment.argv
        self.failures = 0
        self._show = show

    def options(
        self,
        topics: Topics | OneTopic,
        safety: Safety,
        *,
        settings: SettingSources | WriterSettings = _NO_SETTINGS,
        pacing: Pacing = _ONE_AT_A_TIME,
        single_replica: bool = False,
    ) -> VerbOptions:
        """Return the options of a verb for these groups. Raises UsageError."""
        budget, rate = pacing.time_budget, pacing.io_bytes_per_s
        size_bytes = None if rate is None else parse_size_bytes(rate)
        if size_bytes == 0:
            raise UsageError(reason="--io-bytes-per-s must be above 0")
        now = None if safety.now is None else Clock(self.run.environment.clock_ms(safety.now), is_given=True)
        return {
            "topics": topics.topic or (),
            "topic_pattern": topics.topic_pattern if isinstance(topics, Topics) else None,
            "partitions": topics.partition or (),
            "now": now,
            "dry_run": safety.dry_run,
            "wait_seconds": safety.wait,
            "assume_offline": safety.assume_offline,
            "if_offline": pacing.if_offline,
            "single_replica": single_replica,
            "config": settings.config or (),
            "broker_config": settings.broker_config,
            "metadata": settings.metadata,
            "jobs": pacing.jobs or default_jobs(),
            "time_budget_seconds": None if budget is None else parse_seconds(budget),
            "io_bytes_per_second": size_bytes,
            "observer": self,
        }

    def report(self, note: Note) -> None:
        """See Observer."""
        self.run.messages.report(note)

    def report_now(self, notes: Sequence[Note]) -> None:
        """See Observer."""
        self.run.messages.report(*notes)

    def fail(self, error: KafkalogError, *, path: str | None = None, was_reported: bool = False) -> None:
        """See Observer."""
        del path
        self.failures += 1
        if not was_reported:
            self.run.messages.exception(error)

    def show(self, result: Any) -> None:
        """See Observer."""
        if self._show is None:
            super().show(result)
        else:
            self._show(result)

    def end(self, outcome: Outcome[Any], **counts: int) -> int:
        """Print the end of JSON output, and return the exit code. Raises BrokenPipeError if the reader is gone."""
        not_done = [{"path": PathText(path)} for path in outcome.not_done]
        self.run.codes.append(outcome.exit_code)
        return self.run.end(**counts, **({"not_done": not_done} if not_done else {}))
