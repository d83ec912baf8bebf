"""A report of verify as JUnit XML: a test case per partition, log directory and comparison.

A case fails if its target has an exit code other than 0. JUnit XML has no schema of its own: the report satisfies
those of Ant and of Jenkins, which allow different elements.
"""

import io
import platform
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone

from junitparser import Attr, Error, Failure, JUnitXml, SystemErr, SystemOut, TestCase, TestSuite

from kafkalog_cli import __version__
from kafkalog_cli.errors import ExitCode, KafkalogError, counted, next_step
from kafkalog_cli.ops.checks.diagnose import Finding
from kafkalog_cli.ops.checks.finding_kinds import Severity
from kafkalog_cli.ops.verify.task import Verification
from kafkalog_cli.output.stream import printable
from kafkalog_cli.output.verify_view import finding_lines

MOST_FINDINGS = 100
"""The most findings of one target that the report quotes: services cut long texts off, or refuse the file."""

_ORDER = (Severity.INFO, Severity.WARNING, Severity.CORRUPTION)


class _Suite(TestSuite):
    """A suite with the attributes that Ant's schema requires."""

    id = Attr()
    package = Attr()


class JunitReport:
    """See CiReport."""

    def __init__(self, level: str, started_ms: int) -> None:
        self._level = level
        self._started_ms = started_ms
        self._cases: list[TestCase] = []

    def show(self, verification: Verification, findings: Sequence[Finding]) -> Iterable[str]:
        """See CiReport."""
        case = _case(verification.path, verification.target.value)
        if verification.exit_code is not ExitCode.OK:
            kind = Error if verification.exit_code is ExitCode.FAILURE else Failure
            worst = max(findings or verification.findings, key=lambda found: _ORDER.index(found.severity))
            message = printable(worst.message)
            if len(findings) > 1:
                message += f" (and {counted(len(findings) - 1, 'other finding')})"
            result = kind(message, worst.kind.value)
            result.text = _text(findings)
            case.result = result
        self._cases.append(case)
        return ()

    def fail(self, path: str | None, error: KafkalogError) -> Iterable[str]:
        """See CiReport."""
        case = _case("run" if path is None else path, "run" if path is None else "path")
        result = Error(printable(str(error)), type(error).__name__)
        result.text = printable(next_step(error))
        case.result = result
        self._cases.append(case)
        return ()

    def end(self, code: ExitCode, ended_ms: int) -> Iterable[str]:
        """See CiReport."""
        suite = _Suite("kafkalog verify")
        suite.id, suite.package = "0", "kafkalog"
        started = datetime.fromtimestamp(self._started_ms // 1000, timezone.utc)
        suite.timestamp = f"{started:%Y-%m-%dT%H:%M:%S}"
        suite.hostname = platform.node() or "localhost"
        suite.add_property("version", __version__)
        suite.add_property("level", self._level)
        suite.add_property("exit_code", str(int(code)))
        suite.add_testcases(self._cases)
        suite.time = max(0, ended_ms - self._started_ms) / 1000
        suite.append(SystemOut(""))
        suite.append(SystemErr(""))
        document = JUnitXml()
        document.add_testsuite(suite)
        written = io.BytesIO()
        document.write(written)
        yield written.getvalue().decode() + "\n"


def _case(path: str, kind: str) -> TestCase:
    """Return a test case. Targets are checked at the same time, so no time is known of one: it is 0."""
    return TestCase(printable(path), f"kafkalog.verify.{kind}", 0)


def _text(findings: Sequence[Finding]) -> str:
    lines = [line for found in findings[:MOST_FINDINGS] for line in finding_lines(found)]
    if len(findings) > MOST_FINDINGS:
        lines.append(f"({counted(len(findings) - MOST_FINDINGS, 'more finding')} not listed)")
    return "\n".join(lines)
