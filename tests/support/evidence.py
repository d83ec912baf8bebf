"""What the tests tried, in numbers: printed at the end of a run, and held against FLOORS.

A test reports its share with `evidence(row, count, parts)`; `parts` tests share the row. When all of them have run
and passed, a total below the floor fails the run.
"""

from __future__ import annotations

from collections import defaultdict

import pytest

FLOORS = {
    "R1": (18_000, "images"),
    "R2": (2_400, "images"),
    "R3": (10_000, "faults"),
    "R4": (200, "syncs"),
    "R5": (35, "kills"),
    "R7": (280_000, "bits"),
    "R8": (1_000, "damaged logs"),
    "R9": (68, "bombs"),
    "R9b": (58, "runs"),
    "R9c": (39, "tests"),
    "R10": (330, "lies"),
    "R12": (4_800, "steps"),
    "R14": (150, "trials"),
    "R15": (17, "trials"),
    "R16": (200, "failures"),
    "R17": (30, "commands"),
    "R18": (5_100, "calls"),
    "R19": (400, "signals"),
    "R20": (139, "runs"),
    "R22": (113, "runs"),
    "R24": (100, "mutants"),
    "R25": (88, "commands"),
    "R26": (24, "swaps"),
    "R27": (40, "attacks"),
    "R28": (16, "attacks"),
    "R29": (460, "commands"),
    "R30": (72, "attacks"),
    "R31": (150, "attacks"),
    "R32": (23, "attacks"),
    "R33": (13, "files"),
    "R34": (1_750, "faults"),
    "R35": (1_400, "images"),
    "R36": (100, "images"),
    "R37": (440, "kills"),
    "R38": (1_850, "commands"),
    "R39": (300, "statements"),
    "R40": (7, "commands"),
    "R41": (276, "attacks"),
    "R42": (750, "commands"),
    "R43": (170, "attacks"),
    "R44": (145, "faults and images"),
    "R45": (120, "faults"),
    "R46": (240, "partitions"),
    "R49": (48, "chains of calls"),
    "R50": (57, "queries and runs"),
    "R51": (10, "runs"),
    "R52": (114, "runs"),
    "R53": (480, "command lines"),
    "R56": (600, "searches"),
    "R56b": (300, "logs"),
    "R57": (20_000, "Avro schemas and 10,000 of Protobuf"),
    "R58": (11_000, "requests"),
    "R59": (2, "copies"),
    "R60": (216, "logs"),
    "R61": (150, "kills"),
    "R62": (5_000, "schemas"),
    "R63": (17_000, "schemas"),
    "R64": (49_072, "records"),
    "R65": (2_000, "requests"),
    "R66": (145_724, "records"),
    "R67": (265_096, "records"),
    "R68": (416, "directories"),
    "R69": (300, "sets of copies"),
    "R73": (24, "queries"),
    "R74": (24, "queries"),
    "R75": (240, "places"),
    "R76": (200, "states"),
    "R77": (24, "directories"),
    "corpus": (59, "partitions"),
}
"""By row: the least count of a run with `--effort full`, and of what. `grep -r 'evidence("R1"' tests` finds the test of a row."""


@pytest.fixture
def evidence(record_property):
    """Report how much this test tried, for a row of FLOORS."""

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
    """Rows below their floor."""
    found = []
    for row, (total, is_whole) in told(terminal).items():
        if row not in FLOORS:
            found.append(f"{row}: tests/support/evidence.py has no such row")
        elif is_whole and total < FLOORS[row][0]:
            found.append(f"{row}: {total:,}, and its floor is {FLOORS[row][0]:,}")
    return found


def pytest_terminal_summary(terminalreporter):
    found = told(terminalreporter)
    if not found:
        return
    terminalreporter.section("evidence")
    for row, (total, is_whole) in found.items():
        unit = FLOORS[row][1] if row in FLOORS else ""
        terminalreporter.write_line(f"{row}: {total:,} {unit}{'' if is_whole else ' (not all of its tests ran)'}")
    for line in shortfalls(terminalreporter):
        terminalreporter.write_line(f"FAILED {line}", red=True)


def pytest_sessionfinish(session):
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(session.config, "workerinput") and shortfalls(terminal):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
