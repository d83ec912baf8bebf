"""A log directory under appends, damage, power cuts, faults and commands in any order, against a list of records."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.crash.log_directories import FIXTURES, PARTITION, batch, contents, log_directory, records, segment
from tests.crash.writer_matrix import own_tree
from tests.crash.writers import KEPT, MONTH_MS, NOW_MS, OUT, ROOT, SETTINGS, kafkalog, runs_of
from tests.support.effort import DIAL
from tests.support.memory_fs import SURVIVALS, MemoryFilesystem
from tests.support.naive_reader import read_batches
from tests.support.product_journal import plant_bug
from tests.support.watched_fs import FAULTS, FailingFilesystem, RecordingFilesystem

GROUPS, RUNS_OF_A_GROUP, STEPS = 12, 12 if DIAL.scale == 1 else 17 * DIAL.scale, 50
MODES = ((), ("--like-broker",), ("--indexes-only",))
SIDECARS = (".index", ".timeindex", ".snapshot", ".txnindex", "leader-epoch-checkpoint")
GARBAGE = (b"", b"\xff" * 24, b"\0" * 12, b"garbage")
LOGS = ("one", "three", "transactions", "deleted")


def tree_of(disk):
    """Each command that holds the lock removes temporary files of commands that were cut off, also if it is refused."""
    return {path: facts for path, facts in own_tree(disk).items() if not path.endswith(".kafkalog.tmp")}


class Log(RuleBasedStateMachine):
    """`records` of the disk must always be `wanted`, whatever else is broken or was cut off."""

    steps = 0

    @initialize(name=st.sampled_from(LOGS))
    def begin(self, name):
        self.disk = log_directory(name)
        self.wanted = records(self.disk)
        self.before: dict[str, object] = {}  # run to what it must give back, while nothing else was changed
        self.number = 0
        self.now_ms = NOW_MS

    # -- what a broker, and a disk, do

    def set_file(self, name: str, data: bytes) -> None:
        path = name if name.startswith("/") else f"{PARTITION}/{name}"
        if self.disk.status(path) is not None and self.disk.attributes(path).link_count > 1:
            self.disk.unlink(
                path
            )  # a command that was cut off gave the file a second name; nobody writes to such a file
        if self.disk.status(path) is None:
            self.disk.add(path, data)
        else:
            with self.disk.open_write(path) as file:
                file.truncate(0)
                file.write(0, data)
        self.disk.settle()
        self.before.clear()

    def logs(self) -> list[str]:
        return sorted(path for path in contents(self.disk) if path.startswith(PARTITION) and path.endswith(".log"))

    def active(self) -> tuple[str, bytes]:
        path = self.logs()[-1]
        return path, contents(self.disk)[path]

    @property
    def is_torn(self) -> bool:
        data = self.active()[1]
        return sum(found.size_bytes for found in read_batches(data) if found.valid) != len(data)

    def end(self) -> int:
        path, data = self.active()
        last = [found.last_offset + 1 for found in read_batches(data) if found.valid]
        return max([int(path.rpartition("/")[2][:20]), *last])

    @precondition(lambda self: not self.is_torn)
    @rule(count=st.integers(1, 3))
    def append(self, count):
        path, data = self.active()
        self.set_file(path, data + batch(self.end(), count)[0])
        self.wanted = records(self.disk)

    @precondition(lambda self: not self.is_torn and self.active()[1])
    @rule()
    def roll(self):
        for name, data in segment(self.end(), []).items():
            self.set_file(name, data)

    @precondition(lambda self: not self.is_torn)
    @rule(size=st.integers(1, 60))
    def tear(self, size):
        path, data = self.active()
        self.set_file(path, data + batch(self.end())[0][:size])

    @rule(kind=st.sampled_from(SIDECARS), at=st.integers(0, 5), data=st.sampled_from(GARBAGE))
    def damage(self, kind, at, data):
        found = [path for path in contents(self.disk) if path.startswith(PARTITION) and path.endswith(kind)]
        if found:
            self.set_file(found[at % len(found)], data)

    @rule(kind=st.sampled_from(SIDECARS), at=st.integers(0, 5))
    def lose(self, kind, at):
        found = [path for path in contents(self.disk) if path.startswith(PARTITION) and path.endswith(kind)]
        if found:
            self.disk.unlink(found[at % len(found)])
            self.disk.settle()
            self.before.clear()

    @rule(value=st.integers(0, 2000))
    def misplace_recovery_point(self, value):
        self.set_file(f"{ROOT}/recovery-point-offset-checkpoint", b"0\n2\nother 3 44\nt 0 %d\n" % value)

    # -- commands

    def command(self, mode, fs=None, code=(0,)):
        self.number += 1
        self.now_ms += 1000
        return kafkalog(
            fs or self.disk, "recover", *mode, ROOT, *SETTINGS, now_ms=self.now_ms, token=f"{self.number:04d}"
        )

    @rule(mode=st.sampled_from(MODES))
    def recover(self, mode):
        before, runs = tree_of(self.disk), runs_of(self.disk)
        outcome = self.command(mode)
        if outcome.code == 14 and mode == ("--like-broker",):
            assert tree_of(self.disk) == before, "refused, and changed"
            return
        assert outcome.code == 0, outcome
        for run_id in set(runs_of(self.disk)) - set(runs):
            self.before[run_id] = before
        if mode == ():
            assert not self.is_torn
            recorder = RecordingFilesystem(self.disk)
            assert self.command(mode, recorder).code == 0
            assert not recorder.changes
        self.disk.settle()

    @rule(mode=st.sampled_from(MODES), at=st.floats(0, 1), survival=st.sampled_from(SURVIVALS))
    def recover_and_power_cut(self, mode, at, survival):
        images: list[MemoryFilesystem] = []
        disk = self.disk.image(KEPT)
        recorder = RecordingFilesystem(disk)
        assert self.command(mode, recorder).code in (0, 14)
        place = int(at * len(recorder.changes))
        counted = 0

        def cut(call):
            nonlocal counted
            counted += 1
            if counted >= place and not images:
                images.append(disk_again.image(survival))

        disk_again = self.disk.image(KEPT)
        self.number -= 1
        self.now_ms -= 1000
        self.command(mode, RecordingFilesystem(disk_again, cut))
        if images:
            self.disk = images[0]
        self.before.clear()

    @rule(mode=st.sampled_from(MODES), fault=st.sampled_from(sorted(FAULTS)), n=st.integers(0, 90), ever=st.booleans())
    def recover_with_a_fault(self, mode, fault, n, ever):
        self.command(mode, FailingFilesystem(self.disk, fault, n, for_ever=ever))
        self.disk.settle()
        self.before.clear()

    def append_lines(self, fs, count):
        self.number += 1
        self.now_ms += 1000
        argv = ("append", PARTITION, "--input", "lines", "--single-replica", "--batch-bytes", "120", *SETTINGS)
        lines = b"".join(b"%d\n" % at for at in range(count))
        return kafkalog(fs, *argv, now_ms=self.now_ms, token=f"{self.number:04d}", stdin=lines)

    def check_appended(self, disk, count, *, is_whole):
        """What was there, and all of what came, or a part of it."""
        found = records(disk)
        assert found[: len(self.wanted)] == self.wanted
        new = [value for _, _, value in found[len(self.wanted) :]]
        assert new == [b"%d" % at for at in range(count)][: len(new)]
        assert not is_whole or len(new) == count
        return found

    @rule(count=st.integers(1, 4))
    def append_by_command(self, count):
        before, outcome = tree_of(self.disk), self.append_lines(self.disk, count)
        assert outcome.code in (0, 14), outcome
        was_taken_back = "was cut off half way, and is undone now" in outcome.err
        if outcome.code and was_taken_back:  # that was a change; now there is none left to be made
            before, outcome = tree_of(self.disk), self.append_lines(self.disk, count)
            assert outcome.code == 14, outcome
        if outcome.code:  # it is to be recovered first
            assert without_times(tree_of(self.disk)) == without_times(before), "refused, and changed"
        else:
            self.wanted = self.check_appended(self.disk, count, is_whole=True)
            if not was_taken_back:
                self.before[runs_of(self.disk)[0]] = before
        self.disk.settle()

    @rule(count=st.integers(1, 4), at=st.floats(0, 1), survival=st.sampled_from(SURVIVALS))
    def append_and_power_cut(self, count, at, survival):
        images: list[MemoryFilesystem] = []
        recorder = RecordingFilesystem(self.disk.image(KEPT))
        assert self.append_lines(recorder, count).code in (0, 14)
        place, counted, disk_again = int(at * len(recorder.changes)), 0, self.disk.image(KEPT)

        def cut(call):
            nonlocal counted
            counted += 1
            if counted >= place and not images:
                images.append(disk_again.image(survival))

        self.number -= 1
        self.now_ms -= 1000
        self.append_lines(RecordingFilesystem(disk_again, cut), count)
        if images:
            self.disk = images[0]
            self.wanted = self.check_appended(self.disk, count, is_whole=False)
        self.before.clear()

    @rule(count=st.integers(1, 4), fault=st.sampled_from(sorted(FAULTS)), n=st.integers(0, 90), ever=st.booleans())
    def append_with_a_fault(self, count, fault, n, ever):
        self.append_lines(FailingFilesystem(self.disk, fault, n, for_ever=ever), count)
        self.wanted = self.check_appended(self.disk, count, is_whole=False)
        self.disk.settle()
        self.before.clear()

    @precondition(lambda self: runs_of(self.disk))
    @rule()
    def undo_the_last(self):
        before = tree_of(self.disk)
        run_id = runs_of(self.disk)[0]
        outcome = kafkalog(self.disk, "undo", ROOT, run_id, now_ms=self.now_ms)
        assert outcome.code in (0, 14) or "a part differs from the earlier state" in outcome.err, outcome
        if outcome.code == 1:  # of a run that was cut off, one of whose files went since
            assert run_id not in self.before, outcome
        elif outcome.code == 14:
            assert tree_of(self.disk) == before, "refused, and changed"
            assert run_id not in self.before, outcome
        elif run_id in self.before and "undone before" not in outcome.out:
            assert without_times(tree_of(self.disk)) == without_times(self.before.pop(run_id))
        if "-append-" in run_id and outcome.code != 14:  # what came with it goes
            found = records(self.disk)
            assert found == self.wanted[: len(found)]
            self.wanted = found
        self.disk.settle()

    @rule()
    def purge(self):
        self.now_ms += MONTH_MS
        outcome = kafkalog(self.disk, "purge", ROOT, now_ms=self.now_ms)
        assert outcome.code in (0, 3), outcome
        self.before = {run: tree for run, tree in self.before.items() if run in runs_of(self.disk)}
        self.disk.settle()

    @rule()
    def salvage(self):
        other = self.disk.image(KEPT)
        outcome = kafkalog(other, "recover", "--salvage", OUT, ROOT, *SETTINGS, now_ms=self.now_ms)
        assert outcome.code in (0, 3, 4), outcome
        for path in [path for path in contents(other) if path.startswith(PARTITION) and path.endswith(".log")]:
            other.unlink(path)
        for path, inode in list(other.walk(OUT)):
            if path.endswith(".log"):
                other.add(f"{PARTITION}/{path.rpartition('/')[2]}", inode.content)
        assert records(other) == self.wanted

    @invariant()
    def nothing_is_lost_and_nothing_comes_twice(self):
        type(self).steps += 1
        if hasattr(self, "disk"):
            assert records(self.disk) == self.wanted
            assert self.disk.locks_held() == 0


def without_times(tree):
    """The marker is not always given back, after a run that was cut off; nor what a cut off write of a file left."""
    gone = ("cleanshutdown", ".tmp")
    return {path: facts for path, facts in tree.items() if path != PARTITION and not any(word in path for word in gone)}


def run_machine(runs, group):
    Log.steps = 0
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    rules = settings(
        max_examples=runs,
        stateful_step_count=STEPS,
        deadline=None,
        suppress_health_check=checks,
        database=None,
        phases=(Phase.generate,),  # to make a failure small takes minutes
        report_multiple_bugs=False,
    )
    run_state_machine_as_test(seed(group)(Log), settings=rules)
    return Log.steps


@pytest.mark.exhaustive
@pytest.mark.parametrize("group", range(GROUPS))
def test_appends_damage_power_cuts_and_commands_in_any_order_agree_with_a_list_of_records(group, evidence):
    assert set(LOGS) <= set(FIXTURES)
    evidence("R12", run_machine(RUNS_OF_A_GROUP, group), GROUPS)


def test_an_undo_that_restores_nothing_is_found_by_commands_in_any_order(monkeypatch):
    """An undo that takes nothing back."""
    plant_bug(monkeypatch, "restore in an undo", lambda *_: None)
    with pytest.raises(AssertionError):
        run_machine(60, 0)
