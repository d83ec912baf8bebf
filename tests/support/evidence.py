"""What the tests tried, in numbers: printed at the end of a run, and held against docs/reliability.md.

A test tells its share with `evidence(row, count, parts)`, `parts` being how many tests share the row. When all of
them have run and passed, a total below the page's number fails the run.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
ROW = re.compile(r"^\| (R\d+[^|]*?|corpus) \| ([^|]+?) \| ([\d,]+) ([^|]+?) \| `([^|]+)` \|", re.MULTILINE)


def rows():
    """Row to (what, at least so many, of what, test) of the page."""
    return {
        name: (what, int(count.replace(",", "")), unit, test)
        for name, what, count, unit, test in ROW.findall(PAGE.read_text())
    }


@pytest.fixture
def evidence(record_property):
    """Tell of a row of docs/reliability.md how much this test tried."""

    def tell(row, count, parts=1):
        record_property("evidence", [row, count, parts])

    return tell


def told(terminal):
    """Row to (total, whether all its tests are in it)."""
    counts, parts = defaultdict(list), {}
    for report in terminal.stats.get("passed", []):
        for name, value in getattr(report, "user_properties", ()):
            if name == "evidence" and report.when == "call":
                counts[value[0]].append(value[1])
                parts[value[0]] = value[2]
    return {row: (sum(found), len(found) == parts[row]) for row, found in sorted(counts.items())}


def shortfalls(terminal):
    """Rows that came to less than the page says."""
    page = rows()
    found = []
    for row, (total, is_whole) in told(terminal).items():
        if row not in page:
            found.append(f"{row}: docs/reliability.md has no such row")
        elif is_whole and total < page[row][1]:
            found.append(f"{row}: {total:,}, and docs/reliability.md says {page[row][1]:,}")
    return found


def pytest_terminal_summary(terminalreporter):
    found = told(terminalreporter)
    if not found:
        return
    page = rows()
    terminalreporter.section("evidence")
    for row, (total, is_whole) in found.items():
        unit = page[row][2] if row in page else ""
        terminalreporter.write_line(f"{row}: {total:,} {unit}{'' if is_whole else ' (not all of its tests ran)'}")
    for line in shortfalls(terminalreporter):
        terminalreporter.write_line(f"FAILED {line}", red=True)


def pytest_sessionfinish(session):
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(session.config, "workerinput") and shortfalls(terminal):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
