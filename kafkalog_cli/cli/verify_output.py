"""The output of `verify` that its view does not have: text as results come, with counts at the end, and CI reports."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.groups import Printing
from kafkalog_cli.cli.verify_reports import VerifyReports
from kafkalog_cli.errors import ExitCode, KafkalogError, UsageError
from kafkalog_cli.ops.verify.finding_kinds import Severity
from kafkalog_cli.ops.verify.partition import Level, Verification
from kafkalog_cli.output.stream import ResultStream
from kafkalog_cli.output.verify_text import VerifyText


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
