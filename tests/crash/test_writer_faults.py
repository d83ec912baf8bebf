"""Commands when calls fail: each call, each kind of fault, once and for ever; a failed sync ends the work."""

import errno
import os
import random
from functools import cache

import pytest

from tests.crash.log_directories import OWN, PARTITION
from tests.crash.writer_matrix import Image, WriterMatrix, known_good, own_tree
from tests.crash.writers import APPEND, CASES, CHANGERS, DELETE_RECORDS, UNDO, WRITERS, Kind, ids, runs_of, undo_all
from tests.support.effort import DIAL
from tests.support.memory_fs import SURVIVALS
from tests.support.product_journal import plant_bug
from tests.support.watched_fs import FAULTS, READS, FailingFilesystem, WatchedFilesystem

A_CASE, A_CHANGE = 142, 6
"""So many faults of each command on each log directory, and of those on sound logs; all of them in a night."""

SYNCS = ("sync", "sync_directory")
NEVER = 10**9


@cache
def candidates(writer, fixture):
    """(fault, for ever, number) of all calls that can fail in a run."""
    found = []
    for fault in FAULTS:
        fs = FailingFilesystem(writer.disk(fixture), fault, NEVER)
        writer.act(fs)
        assert fs.candidates or fault == "short write", fault  # nothing that undo writes need be written
        found += [(fault, for_ever, n) for for_ever in (False, True) for n in range(fs.candidates)]
    return found


def fail(matrix, fault, for_ever, n, *, drive=None):
    """A run with that fault, and what is left of it looked at."""
    writer = matrix.writer
    disk = writer.disk(matrix.fixture)
    fs = FailingFilesystem(disk, fault, n, for_ever=for_ever)
    outcome = (drive or writer.act)(fs)
    assert fs.fired
    where = f"{fault} {'for ever ' * for_ever}at {fs.failed[0][:3]}: {outcome}"
    assert disk.locks_held() == 0, where
    check_told(matrix, fs, disk, outcome, where)
    if fs.failed[0].name in SYNCS and not for_ever:
        after = [call[:3] for call in fs.calls_after if call.name in ("rename", "link", *SYNCS)]
        assert not after, f"went on after a sync failed: {after}, {where}"
        for survival in SURVIVALS[:5]:  # what was not synced may be gone from the cache too
            matrix.look(Image(f"{survival.name} after {where}", disk.image(survival), False, is_power_cut=False))
    if matrix.writer.kind is Kind.COPIES and outcome.code == 4 and "not read" in outcome.out:
        return  # it told that it copied what could be read
    matrix.look(Image(f"after {where}", disk, False, is_power_cut=False))


def check_told(matrix, fs, disk, outcome, where):
    """The exit code and what is said are of what is there."""
    expected = matrix.expected
    there = own_tree(disk)
    is_before = files(there) == files(expected.tree_before)
    is_after = files(there) == files(expected.tree_after)
    if outcome.code in matrix.writer.codes:
        is_read = fs.failed[0].name in READS
        is_told = matrix.writer.kind in (Kind.REPAIRS, Kind.CHANGES, Kind.CLEANS)
        assert is_after or is_read or not is_told, f"told of success: {where}"
        return
    assert outcome.err or "nothing was changed" in outcome.out or "cannot be read" in outcome.out, where
    if fs.fault in ("ENOSPC", "short write"):
        assert outcome.code == 13, where
    run_id = matrix.writer.run_id
    if "nothing was changed" in outcome.err and f"{run_id}: nothing" not in outcome.err:  # one is of that run only
        assert is_before or "this partition was made, and stays" in outcome.err, where
    is_one = matrix.writer.kind is Kind.REPAIRS or (
        matrix.writer.kind in (Kind.CHANGES, Kind.CLEANS) and matrix.writer.comes_back
    )
    if is_one and not is_after and files(there) != files(matrix.without_due(there)):
        assert "kafkalog undo" in outcome.err + outcome.out, where
        assert run_id in runs_of(disk), where
    if is_before and is_one and not fs.for_ever and "kafkalog undo" not in outcome.err:
        left = [path for path in disk.tree(OWN) if path.startswith(f"{OWN}/{run_id}")] if disk.status(OWN) else []
        assert not left, f"{left} is left: {where}"


def files(tree):
    """Without times: an error right after a directory was made or a file was put back leaves them."""
    return {path: facts[:4] for path, facts in tree.items() if ".kafka_cleanshutdown" not in path}


@pytest.mark.exhaustive
@pytest.mark.parametrize(("writer", "fixture"), CASES, ids=ids(CASES))
def test_a_failed_call_of_a_writer_leaves_before_or_after_and_a_true_message(writer, fixture, evidence):
    matrix = WriterMatrix(writer, fixture, known_good(writer, fixture))
    found = candidates(writer, fixture)
    chance = random.Random(f"{writer.name} {fixture} {DIAL.scale}")
    tried = min((A_CHANGE if writer in CHANGERS else A_CASE) * DIAL.scale, len(found))
    for fault, for_ever, n in chance.sample(found, tried):
        fail(matrix, fault, for_ever, n)
    evidence("R3", tried, len(CASES))


@pytest.mark.parametrize("writer", [APPEND, DELETE_RECORDS], ids=lambda writer: writer.name)
def test_a_call_that_fails_while_the_partition_is_locked_leaves_the_time_of_its_directory(writer):
    """Making `.kafkalog` changes it. No run began yet, so that no undo could give it back."""
    before = writer.disk("sound").attributes(PARTITION).mtime_ns
    for fault in ("EIO", "ENOSPC"):
        known = FailingFilesystem(writer.disk("sound"), fault, NEVER)
        writer.act(known)
        tried = [n for n, call in enumerate(known.passed) if call.path in (PARTITION, OWN, f"{OWN}/lock")]
        assert tried
        for n in tried:
            disk = writer.disk("sound")
            fs = FailingFilesystem(disk, fault, n)
            outcome = writer.act(fs)
            if outcome.code and not runs_of(disk):
                assert disk.attributes(PARTITION).mtime_ns == before, f"{fs.failed[0][:3]}: {outcome}"


@pytest.mark.parametrize("writer", [UNDO, APPEND, DELETE_RECORDS], ids=lambda writer: writer.name)
def test_a_refused_time_of_the_directory_is_reported_and_a_later_undo_restores_it(writer):
    """append and delete-records restore the time if a later call fails, here the replacement of a checkpoint."""
    fixture = "three" if writer is UNDO else "sound"
    undone = writer.disk(fixture)
    undo_all(undone)
    restored = undone.attributes(PARTITION).mtime_ns
    for n in range(100):
        disk = writer.disk(fixture)
        fs = RefusedTime(disk, n, fails_a_checkpoint=writer is not UNDO)
        outcome = writer.act(fs)
        if not fs.refused:
            break
        assert outcome.code, outcome
        assert "nothing was changed" not in outcome.err or disk.attributes(PARTITION).mtime_ns == restored, outcome
        undo_all(disk)
        assert disk.attributes(PARTITION).mtime_ns == restored, outcome
    assert n


class RefusedTime(WatchedFilesystem):
    """Setting the time of the partition directory is refused once, the n-th time; replacing a checkpoint may fail too."""

    def __init__(self, below, n, *, fails_a_checkpoint):
        super().__init__(below)
        self.left, self.fails_a_checkpoint, self.refused = n, fails_a_checkpoint, False

    def before(self, call):
        if self.fails_a_checkpoint and call.name == "rename" and call.to.endswith("-checkpoint"):
            self.fails_a_checkpoint = False
            raise OSError(errno.EIO, os.strerror(errno.EIO), call.path)
        if call.name == "set_attributes" and call.path == PARTITION and not self.refused:
            self.left -= 1
            self.refused = self.left < 0
            if self.refused:
                raise OSError(errno.EACCES, os.strerror(errno.EACCES), call.path)


SYNC_CASES = [(writer, name) for writer, name in CASES if name in ("three", "swap", "torn", "sound")]


def syncs_of(writer, fixture):
    """The numbers of the syncs among the calls that can fail with EIO."""
    fs = FailingFilesystem(writer.disk(fixture), "EIO", NEVER)
    writer.act(fs)
    return [n for n, call in enumerate(fs.passed) if call.name in SYNCS]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("writer", "fixture"), SYNC_CASES, ids=ids(SYNC_CASES))
def test_after_a_failed_sync_a_writer_renames_links_and_syncs_nothing(writer, fixture, evidence):
    matrix = WriterMatrix(writer, fixture, known_good(writer, fixture))
    syncs = syncs_of(writer, fixture)
    for n in syncs:
        fail(matrix, "EIO", False, n)
    evidence("R4", len(syncs), len(SYNC_CASES))


# -- what the harness finds


def swallowed(file):
    """A sync whose failure nobody hears of."""
    try:
        file.sync()
    except OSError:
        return


@pytest.mark.parametrize("name", ["sync a file", "sync a file of the journal"])
def test_a_failed_sync_that_is_swallowed_is_noticed(name, monkeypatch):
    writer = WRITERS[0]
    syncs = syncs_of(writer, "torn")
    plant_bug(monkeypatch, name, swallowed)
    with pytest.raises(AssertionError, match="went on after a sync failed"):  # noqa: PT012
        for n in syncs:
            fail(WriterMatrix(writer, "torn"), "EIO", False, n)


@pytest.mark.full
def test_a_failed_change_that_is_not_restored_is_found_by_faults(monkeypatch):
    writer = WRITERS[0]
    plant_bug(monkeypatch, "take back a change that failed", lambda *_: None)
    with pytest.raises(AssertionError):  # noqa: PT012
        for fault, for_ever, n in candidates(writer, "torn"):
            if not for_ever:
                fail(WriterMatrix(writer, "torn"), fault, for_ever, n)
