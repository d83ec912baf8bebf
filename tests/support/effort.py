"""How much a run tries: `pytest` (quick), `pytest --effort full`, `pytest --effort night`.

| Effort | Tests marked `exhaustive` | Tests marked `full` | Random tests |
|---|---|---|---|
| quick | a 48th of the cases, at least one of each file | none | an eighth of the cases, 25 examples of a property |
| quick with `--rotation N` | the N-th 48th, at least one of each file | the N-th 48th | another eighth |
| full | all cases | all | all cases, 100 examples |
| night | all cases | all | 25 times the cases, 5000 new examples |

`.ci/run` gives another rotation with each commit.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

PARTS = 48
EIGHTHS = 8
LONGEST_NAME = 16
SCALES = {"quick": 1, "full": 1, "night": 25}
"""How many times as many kills, faults and disk images the crash tests try."""


class Dial:
    """The effort of this run. Test modules may read it while they are imported; it is set before they are."""

    def __init__(self, effort="quick", rotation=0):
        self.effort, self.rotation = effort, rotation

    @property
    def is_full(self):
        return self.effort != "quick"

    @property
    def scale(self):
        return SCALES[self.effort]

    def part(self, count):
        """How many of so many random cases a run has."""
        return count * self.scale if self.is_full else -(-count // EIGHTHS)

    def some(self, cases):
        """The cases of a loop in a test that a run has; each rotation has others."""
        return cases if self.is_full else cases[self.rotation % min(EIGHTHS, len(cases)) :: EIGHTHS]


DIAL = Dial()


def load_profiles(effort):
    """Set the examples of properties. quick and full try the same ones each time, since a red test is of the change at hand."""
    slow = [HealthCheck.too_slow]
    settings.register_profile("quick", max_examples=25, deadline=None, derandomize=True, suppress_health_check=slow)
    settings.register_profile("full", max_examples=100, deadline=None, derandomize=True, suppress_health_check=slow)
    settings.register_profile("night", max_examples=5000, deadline=None, suppress_health_check=list(HealthCheck))
    settings.load_profile(effort)
    if settings.default.derandomize:
        # Hypothesis takes constants out of the modules that are loaded by then, which differ in each worker of xdist.
        providers.is_local_module_file = lambda path: False  # type: ignore[attr-defined]


def pytest_addoption(parser):
    parser.addoption("--effort", choices=list(SCALES), default="quick", help="how much a run tries (default: quick)")
    parser.addoption(
        "--rotation", type=int, metavar="N", help=f"the part of the {PARTS} of full that quick has besides"
    )
    parser.addoption("--update", action="store_true", help="store what commands answer now, and print each difference")


def pytest_configure(config):
    DIAL.effort, DIAL.rotation = config.getoption("effort"), config.getoption("rotation") or 0
    if config.getoption("update") and not DIAL.is_full:
        DIAL.effort = "full"  # no answer is left as it was
    load_profiles(DIAL.effort)


def pytest_make_parametrize_id(val, argname):
    """The argument's name for long bytes: gzip keeps the time of day, and all workers of xdist must find the same tests."""
    return argname if isinstance(val, bytes) and len(val) > LONGEST_NAME else None


class Case(NamedTuple):
    """What is chosen alone: a case of a file, or a file that is marked as a whole, since its tests share a broker."""

    group: str
    name: str


def case_of(item):
    """The Case of a test that has a mark of this module, else None."""
    for node, _marker in item.iter_markers_with_node("full"):
        return Case("full", node.nodeid if isinstance(node, pytest.Module) else item.nodeid)
    if item.get_closest_marker("exhaustive") is not None:
        file, _, name = item.nodeid.partition("::")
        return Case(file, name)
    return None


def chosen(group, names, rotation):
    """The names that a quick run has: every 48th, and at least one of a file; without a rotation no long case."""
    if group == "full":
        return set() if rotation is None else set(names[rotation % PARTS :: PARTS])
    rotation = rotation or 0
    return set(names[rotation % PARTS :: PARTS]) or {names[rotation % len(names)]}


def pytest_collection_modifyitems(config, items):
    if DIAL.is_full:
        return
    groups = {}
    for case in filter(None, map(case_of, items)):
        groups.setdefault(case.group, {})[case.name] = None
    rotation = config.getoption("rotation")
    kept = {Case(group, name) for group, names in groups.items() for name in chosen(group, [*names], rotation)}
    skipped = [item for item in items if case_of(item) is not None and case_of(item) not in kept]
    if skipped:
        config.hook.pytest_deselected(items=skipped)
        left_out = set(map(id, skipped))
        items[:] = [item for item in items if id(item) not in left_out]
    config.stash[SKIPPED] = len(skipped)


SKIPPED = pytest.StashKey[int]()


def pytest_report_collectionfinish(config):
    count = config.stash.get(SKIPPED, 0)
    part = config.getoption("rotation")
    named = "" if part is None else f", rotation {part}"
    return [f"effort quick{named}: {count} cases wait for --effort full"] if count else []
