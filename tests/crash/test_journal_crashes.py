"""The journal under power cuts: after every call, with every kind of loss, what was or what was planned is there."""

import pytest

from tests.crash.journal_cases import PARTITION, PLANS, ROOT, RUN, partition, run_plan
from tests.crash.journal_matrix import Matrix
from tests.support.memory_fs import SURVIVALS
from tests.support.product import KafkalogError
from tests.support.product_journal import read_manifest, undo
from tests.support.watched_fs import RecordingFilesystem, WatchedFilesystem

NAMES = list(PLANS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
def test_a_power_cut_leaves_what_undo_completes(name):
    matrix = Matrix()
    matrix.run(PLANS[name])
    matrix.cut_undo(matrix.after)
    print(name, dict(matrix.counts))
    assert matrix.counts["images"] >= 7 * matrix.counts["points"] > 70


class DropSync(WatchedFilesystem):
    """The n-th sync of a file or directory does nothing."""

    def __init__(self, below, n):
        super().__init__(below)
        self.n = n
        self.syncs = 0

    def perform(self, call, action):
        if call.name in ("sync", "sync_directory"):
            self.syncs += 1
            if self.syncs - 1 == self.n:
                return None
        return super().perform(call, action)


class SwapRenames(WatchedFilesystem):
    """The n-th rename (or unlink) is made after the next one."""

    def __init__(self, below, n):
        super().__init__(below)
        self.n = n
        self.renames = 0
        self.held = None

    def perform(self, call, action):
        if call.name == "rename":
            self.renames += 1
            if self.renames - 1 == self.n:
                self.held = action
                return None
            if self.held is not None:
                super().perform(call, action)
                held, self.held = self.held, None
                return super().perform(call, held)
        return super().perform(call, action)


def survivors(mutant, plan, part):
    """The calls whose mutants the matrix does not catch; how many there were."""
    whole = Matrix()
    whole.run(plan)
    recorder = RecordingFilesystem(partition() if part == "run" else whole.after.image(SURVIVALS[0]))
    if part == "run":
        run_plan(recorder, plan)
    else:
        undo(recorder, PARTITION, read_manifest(recorder, PARTITION, RUN.run_id), ROOT)
    names = ("sync", "sync_directory") if mutant is DropSync else ("rename",)
    calls = [call[:3] for call in recorder.calls if call.name in names]
    tried = len(calls) - (mutant is SwapRenames)
    return [calls[n] for n in range(tried) if not is_caught(mutant, n, plan, part, whole)], tried


def is_caught(mutant, n, plan, part, whole):
    matrix = Matrix(lambda fs: mutant(fs, n))
    try:
        if part == "run":
            matrix.run(plan)
        else:
            matrix.expect(plan)
            matrix.cut_undo(whole.after.image(SURVIVALS[0]))
    except (AssertionError, OSError, KafkalogError):
        return True
    return False


EQUIVALENT = {("cut, then dropped", DropSync, "run"): [("sync", f"{PARTITION}/50.log", "")]}
"""Whether bytes are gone from a file that is dropped then, nobody can tell."""

QUICK = {"recovery", "swap", "moved, then cut", "ring of moves", "two replaced", "new"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", ["run", "undo"])
@pytest.mark.parametrize("mutant", [DropSync, SwapRenames])
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in NAMES])
def test_every_dropped_sync_and_swapped_rename_is_caught(name, mutant, part):
    living, tried = survivors(mutant, PLANS[name], part)
    print(f"{name}, {mutant.__name__} in {part}: {tried} mutants, alive: {living}")
    assert living == EQUIVALENT.get((name, mutant, part), [])
    assert tried > 0
