"""A report of verify as JUnit XML: a test case per partition, log directory and comparison.

A case fails if its target has an exit code other than 0. JUnit XML has no schema of its own: the report satisfies
those of Ant and of Jenkins, which allow different elements.
"""

import platform
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from xml.etree.ElementTree import Element, SubElement, tostring

from kafkalog_cli import __version__
from kafkalog_cli.errors import ExitCode, KafkalogError, counted, next_step
from kafkalog_cli.ops.check.checks.diagnose import Finding
from kafkalog_cli.ops.check.checks.finding_kinds import Severity
from kafkalog_cli.ops.check.verify.task import Verification
from kafkalog_cli.output.findings import finding_lines
from kafkalog_cli.output.stream import printable

MOST_FINDINGS = 100
"""The most findings of one target that the report quotes: services cut long texts off, or refuse the file."""

_ORDER = (Severity.INFO, Severity.WARNING, Severity.CORRUPTION)


class JunitReport:
    """See CiReport."""

    def __init__(self, level: str, started_ms: int) -> None:
        self._level = level
        self._started_ms = started_ms
        self._cases: list[Element] = []

    def show(self, verification: Verification, findings: Sequence[Finding]) -> Iterable[str]:
        """See CiReport."""
        case = self._case(verification.path, verification.target.value)
        if verification.exit_code is not ExitCode.OK:
            tag = "error" if verification.exit_code is ExitCode.FAILURE else "failure"
            worst = max(findings or verification.findings, key=lambda finding: _ORDER.index(finding.severity))
            message = printable(worst.message)
            if len(findings) > 1:
                message += f" (and {counted(len(findings) - 1, 'other finding')})"
            SubElement(case, tag, message=message, type=worst.kind.value).text = _text(findings)
        return ()

    def fail(self, path: str | None, error: KafkalogError) -> Iterable[str]:
        """See CiReport."""
        case = self._case("run" if path is None else path, "run" if path is None else "path")
        failed = SubElement(case, "error", message=printable(str(error)), type=type(error).__name__)
        failed.text = printable(next_step(error))
        return ()

    def end(self, code: ExitCode, ended_ms: int) -> Iterable[str]:
        """See CiReport."""
        started = datetime.fromtimestamp(self._started_ms // 1000, timezone.utc)
        document = Element("testsuites")
        suite = SubElement(
            document, "testsuite",
            name="kafkalog verify",
            id="0", package="kafkalog",  # Ant's schema requires both
            timestamp=f"{started:%Y-%m-%dT%H:%M:%S}",
            hostname=platform.node() or "localhost",
            tests=str(len(self._cases)),
            errors=str(sum(case.find("error") is not None for case in self._cases)),
            failures=str(sum(case.find("failure") is not None for case in self._cases)),
            skipped="0",
            time=str(max(0, ended_ms - self._started_ms) / 1000),
        )  # fmt: skip
        properties = SubElement(suite, "properties")
        for name, value in (("version", __version__), ("level", self._level), ("exit_code", str(int(code)))):
            SubElement(properties, "property", name=name, value=value)
        suite.extend(self._cases)
        SubElement(suite, "system-out")
        SubElement(suite, "system-err")
        yield tostring(document, encoding="utf-8", xml_declaration=True).decode() + "\n"

    def _case(self, path: str, kind: str) -> Element:
        """Add a test case. Targets are checked at the same time, so no time is known of one: it is 0."""
        case = Element("testcase", name=printable(path), classname=f"kafkalog.verify.{kind}", time="0.0")
        self._cases.append(case)
        return case


def _text(findings: Sequence[Finding]) -> str:
    lines = [line for finding in findings[:MOST_FINDINGS] for line in finding_lines(finding)]
    if len(findings) > MOST_FINDINGS:
        lines.append(f"({counted(len(findings) - MOST_FINDINGS, 'more finding')} not listed)")
    return "\n".join(lines)
