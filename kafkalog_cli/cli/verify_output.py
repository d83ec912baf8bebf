"""The output of `verify` that its view does not have: text as results come, with counts at the end, and CI reports."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.session_groups import Printing
from kafkalog_cli.disk.named_places import check_named_file, replace_named_file
from kafkalog_cli.errors import ExitCode, KafkalogError, UsageError
from kafkalog_cli.ops.checks.finding_kinds import Severity
from kafkalog_cli.ops.verify.task import Level, Verification
from kafkalog_cli.output.stream import ResultStream
from kafkalog_cli.output.verify_view import VerifyText

if TYPE_CHECKING:
    from kafkalog_cli.ops.checks.diagnose import Finding
    from kafkalog_cli.output.ci_report import CiReport


KINDS = ("junit", "sarif", "github")


class VerifyReports:
    """The reports of one run: one may go to stdout, the others go to files, which are written when the run ends.

    Raises UsageError for a kind that does not exist, and for two reports to the same place.
    """

    def __init__(self, environment: Environment, wanted: Sequence[str], level: str, out: ResultStream) -> None:
        self._environment = environment
        self._out = out
        self._reports: dict[str, tuple[CiReport, list[str]]] = {}
        for word in wanted:
            kind, equals, path = word.partition("=")
            if kind not in KINDS or (equals and not path):
                raise UsageError(reason=f"--report {word}: give one of {', '.join(KINDS)}, or {KINDS[0]}=FILE")
            place = "" if path in {"", "-"} else os.path.abspath(path)  # noqa: PTH100 - links are not followed
            if place in self._reports:
                raise UsageError(reason=f"--report {word}: another report goes to {path or 'stdout'}")
            self._reports[place] = (self._new(kind, level), [])

    def _new(self, kind: str, level: str) -> CiReport:
        from kafkalog_cli.output.ci_report import ReportedRun, ReportKind, ci_report

        return ci_report(ReportKind(kind), ReportedRun(level, self._environment.now_ms()))

    @property
    def on_stdout(self) -> bool:
        """Whether a report takes the place of the text on stdout."""
        return "" in self._reports

    def check_files(self) -> None:
        """Raise KafkalogError if a file cannot be written, before anything is checked."""
        for place in filter(None, self._reports):
            check_named_file(self._environment.fs, place)

    def show(self, verification: Verification, findings: Sequence[Finding]) -> None:
        """Add the result of a target."""
        for place, (report, _) in self._reports.items():
            self._write(place, report.show(verification, findings))

    def fail(self, path: str | None, error: KafkalogError) -> None:
        """Add an error, which is about the whole run if `path` is None."""
        for place, (report, _) in self._reports.items():
            self._write(place, report.fail(path, error))

    @contextmanager
    def of_whole_run(self) -> Iterator[None]:
        """Report an error that ends the whole run: a CI service shows it although it sees no results."""
        try:
            yield
        except KafkalogError as error:
            self.fail(None, error)
            self.end(error.exit_code)
            raise

    def end(self, code: ExitCode) -> None:
        """Write all files. Raises KafkalogError if a file cannot be written."""
        for place, (report, parts) in self._reports.items():
            self._write(place, report.end(code, self._environment.now_ms()))
            if place:
                self._replace(place, "".join(parts))
        self._out.flush()

    def _write(self, place: str, texts: Iterable[str]) -> None:
        for text in texts:
            if place:
                self._reports[place][1].append(text)
            else:
                self._out.write(text)

    def _replace(self, place: str, text: str) -> None:
        environment = self._environment
        content = text.encode("utf-8", "surrogateescape")
        replace_named_file(environment.fs, place, content, environment.now_ms(), "report")


class VerifyOutput:
    """The text and the reports of one run. A report on stdout takes the place of the text.

    Raises UsageError for wrong reports, and KafkalogError if a report's file cannot be written.
    """

    def __init__(self, environment: Environment, reports: Sequence[str], level: Level, printing: Printing) -> None:
        self._out = ResultStream(environment.stdout)
        self._is_quiet = printing.quiet
        self._reports = VerifyReports(environment, reports, level.value, self._out)
        as_json = printing.output.is_json
        if as_json and self._reports.on_stdout:
            raise UsageError(reason="--report without =FILE goes to stdout, and so does --format json: give a FILE")
        has_text = not as_json and not self._reports.on_stdout
        self._text = VerifyText(self._out, printing.quiet, printing.verbose) if has_text else None
        self._reports.check_files()

    def show(self, result: Verification) -> None:
        """Add a result."""
        found = [one for one in result.findings if not self._is_quiet or one.severity is not Severity.INFO]
        self._reports.show(result, found)
        if self._text is not None:
            self._text.show(result)

    def fail(self, path: str | None, error: KafkalogError) -> None:
        """Add the error of a path."""
        self._reports.fail(path, error)
        if self._text is not None:
            self._text.failed()

    def of_whole_run(self) -> AbstractContextManager[None]:
        """Have the reports include an error that ends the whole run."""
        return self._reports.of_whole_run()

    def end(self, code: ExitCode, seconds: float) -> None:
        """Write the end of the text, and the reports. Raises KafkalogError if a report cannot be written."""
        self._reports.end(code)
        if self._text is not None:
            self._text.end(seconds)
        self._out.flush()
