"""Which cases of the tests marked `exhaustive` a run has: a share of each test function, at least one case of it.

The cases of all tests in a file marked `exhaustive(together=True)` are chosen alike, as they share what is made for a case.
The tests marked `exhaustive(in_turn=True)` are cases of one family: a run has each 48th of these tests. They go through all
calls or bytes of one scenario, and other tests of the same file hold in each run what the scenario is about. With both, a file is
one case of that family: a scenario with a real broker, whose parts are tried without a broker in each run. `together="a name"` does that for
some tests of a file, such as the later stages of such a scenario.

`--share 3/48` (or TEST_SHARE=3/48) runs the fourth of 48 shares; the 48 together are all cases. Without the option a
run has the first share; it has all cases where a test file is named, or with `--share all`.

`--one-case` takes one case of each test function, which depends on the share, of the tests that are not marked as well.
"""

from __future__ import annotations

import os
import re
import zlib
from collections import defaultdict

import pytest

SHARES = 48
PART = 8
RUN = {"is whole": True, "share": 0}
IN_TURN = "in turn"
LONGEST_NAME = 16
FORM = re.compile(r"(\d+)/([1-9]\d*)")


def pytest_addoption(parser):
    parser.addoption(
        "--share",
        metavar="K/N|all",
        default=os.environ.get("TEST_SHARE"),
        help=f"which share of the exhaustive tests runs (default: all of a file that is named, else 0/{SHARES})",
    )
    parser.addoption("--one-case", action="store_true", help="one case of each test function, in each share another")


def pytest_make_parametrize_id(val, argname):
    """The argument's name for long bytes: gzip keeps the time of day, and all workers of xdist have to find the same tests."""
    return argname if isinstance(val, bytes) and len(val) > LONGEST_NAME else None


def share_of(config):
    """(share, number of shares) that a run has."""
    text = config.getoption("share")
    if text is None:
        is_named = any(".py" in argument for argument in config.invocation_params.args)
        text = "all" if is_named else f"0/{SHARES}"
    if text == "all":
        return 0, 1
    match = FORM.fullmatch(text)
    if not match or int(match[1]) >= int(match[2]):
        raise pytest.UsageError(f"--share {text}: wanted is K/N with K below N, or all")
    return int(match[1]), int(match[2])


def pytest_configure(config):
    RUN["share"], shares = share_of(config)
    RUN["is whole"] = shares == 1


def part_of(count):
    """How many random cases of so many a run has: an eighth, or all where it has all shares."""
    return count if RUN["is whole"] else -(-count // PART)


def some_of(cases):
    """An eighth of the cases of a loop in a test, in each share another, or all where a run has all shares."""
    return cases if RUN["is whole"] else cases[RUN["share"] % min(PART, len(cases)) :: PART]


def sampled(names, key, share, shares):
    """The names of a function's cases that a share has: every n-th, from a place that depends on the key."""
    start = (zlib.crc32(key.encode()) + share) % shares
    return set(names[start::shares] or [names[start % len(names)]])


def place_of(nodeid, together=False, in_turn=False):
    """Family, key and case of a test: a family has some of its cases in a share, from a place that depends on the key."""
    file, function = nodeid.partition("::")[0], nodeid.partition("[")[0]
    if in_turn:
        return IN_TURN, IN_TURN, f"{file} {together}" if together else nodeid
    return function, file if together else function, nodeid


def pytest_collection_modifyitems(config, items):
    share, shares = share_of(config)
    is_one_case = config.getoption("one_case")
    families = defaultdict(lambda: defaultdict(list))
    for item in items:
        marker = item.get_closest_marker("exhaustive") if shares > 1 else None
        if marker is not None:
            family, key, case = place_of(item.nodeid, **marker.kwargs)
            families[family, key][case].append(item.nodeid)
        elif is_one_case:
            family, key, case = place_of(item.nodeid)
            families[family, key][case].append(item.nodeid)
    left_out = set()
    for (family, key), cases in families.items():
        names = list(cases)
        is_one = is_one_case and family != IN_TURN
        for case in set(cases) - sampled(names, key, share, len(names) if is_one else shares):
            left_out.update(cases[case])
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
        items[:] = [item for item in items if item.nodeid not in left_out]
    config.stash[LEFT_OUT] = len(left_out), f"{share}/{shares}"


LEFT_OUT = pytest.StashKey[tuple[int, str]]()


def pytest_report_collectionfinish(config):
    count, share = config.stash.get(LEFT_OUT, (0, ""))
    return [f"share {share}: {count} cases are left out; --share all runs them"] if count else []
