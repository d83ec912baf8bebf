"""The output of `verify` that its view does not have: text as results come, with counts at the end, and CI reports."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.session_groups import Printing
from kafkalog_cli.disk.named_places import check_named_file, replace_named_file
from kafkalog_cli.errors import ExitCode, KafkalogError, UsageError
from kafkalog_cli.ops.checks.finding_kinds import Severity
from kafkalog_cli.ops.choices import Level
from kafkalog_cli.ops.verify.task import Verification
from kafkalog_cli.output.stream import ResultStream
from kafkalog_cli.output.verify_view import VerifyText

if TYPE_CHECKING:
    from kafkalog_cli.output.ci_report import CiReport


KINDS = ("junit", "sarif", "github")


class VerifyOutput:
    """The text and the reports of one run.

    A report on stdout takes the place of the text. The others go to files, which are written when the run ends. Raises
    UsageError for wrong reports, and KafkalogError if a report's file cannot be written, before anything is checked.
    """

    def __init__(self, environment: Environment, reports: Sequence[str], level: Level, printing: Printing) -> None:
        self._environment = environment
        self._out = ResultStream(environment.stdout)
        self._is_quiet = printing.quiet
        self._reports: dict[str, tuple[CiReport, list[str]]] = {}
        for word in reports:
            kind, equals, path = word.partition("=")
            if kind not in KINDS or (equals and not path):
                raise UsageError(reason=f"--report {word}: give one of {', '.join(KINDS)}, or {KINDS[0]}=FILE")
            place = "" if path in {"", "-"} else os.path.abspath(path)  # noqa: PTH100 - links are not followed
            if place in self._reports:
                raise UsageError(reason=f"--report {word}: another report goes to {path or 'stdout'}")
            self._reports[place] = self._new_report(kind, level), []
        as_json = printing.output.is_json
        if as_json and "" in self._reports:
            raise UsageError(reason="--report without =FILE goes to stdout, and so does --format json: give a FILE")
        has_text = not as_json and "" not in self._reports
        self._text = VerifyText(self._out, printing.quiet, printing.verbose) if has_text else None
        for place in filter(None, self._reports):
            check_named_file(environment.fs, place)

    def _new_report(self, kind: str, level: Level) -> CiReport:
        from kafkalog_cli.output.ci_report import ReportedRun, ReportKind, ci_report

        return ci_report(ReportKind(kind), ReportedRun(level.value, self._environment.now_ms()))

    def show(self, result: Verification) -> None:
        """Add a result."""
        found = [one for one in result.findings if not self._is_quiet or one.severity is not Severity.INFO]
        self._write(lambda report: report.show(result, found))
        if self._text is not None:
            self._text.show(result)

    def fail(self, path: str | None, error: KafkalogError) -> None:
        """Add the error of a path."""
        self._fail_reports(path, error)
        if self._text is not None:
            self._text.failed()

    def _fail_reports(self, path: str | None, error: KafkalogError) -> None:
        self._write(lambda report: report.fail(path, error))

    @contextmanager
    def of_whole_run(self) -> Iterator[None]:
        """Have the reports include an error that ends the whole run: a CI service sees no results then."""
        try:
            yield
        except KafkalogError as error:
            self._fail_reports(None, error)
            self._end_reports(error.exit_code)
            raise

    def end(self, code: ExitCode, seconds: float) -> None:
        """Write the end of the text, and the reports. Raises KafkalogError if a report cannot be written."""
        self._end_reports(code)
        if self._text is not None:
            self._text.end(seconds)
        self._out.flush()

    def _end_reports(self, code: ExitCode) -> None:
        now_ms = self._environment.now_ms()
        self._write(lambda report: report.end(code, now_ms))
        for place, (_, parts) in self._reports.items():
            if place:
                content = "".join(parts).encode("utf-8", "surrogateescape")
                replace_named_file(self._environment.fs, place, content, "report")
        self._out.flush()

    def _write(self, texts: Callable[[CiReport], Iterable[str]]) -> None:
        """Add the texts that each report returns."""
        for place, (report, parts) in self._reports.items():
            for text in texts(report):
                if place:
                    parts.append(text)
                else:
                    self._out.write(text)
