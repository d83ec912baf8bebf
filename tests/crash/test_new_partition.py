"""append to a partition that is not there, under power cuts and failing calls: nothing else is touched, and it can be
run again, recovered and taken back from wherever it was cut off."""

import errno
import re
import shlex

import pytest

from tests.crash.log_directories import MARKER, ROOT, identity
from tests.crash.writer_matrix import BESIDE_THE_MARKER, WriterMatrix, made_records, own_tree, undo_new
from tests.crash.writers import MAKE, NEW, NEW_ID, kafkalog
from tests.support.memory_fs import SURVIVALS
from tests.support.product_journal import plant_bug
from tests.support.watched_fs import RecordingFilesystem

FIXTURES = MAKE.fixtures


@pytest.mark.full
@pytest.mark.parametrize("fixture", FIXTURES)
def test_a_power_cut_after_any_call_of_a_new_partition_leaves_all_or_nothing_of_it(fixture):
    matrix = WriterMatrix(MAKE, fixture)
    found = matrix.images()
    assert len(found) > 40
    for image in found:
        matrix.look(image)


@pytest.mark.parametrize("fixture", FIXTURES)
def test_undo_of_a_new_partition_removes_its_directory_and_checkpoint_lines(fixture):
    """The directory, its line, the marker."""
    disk = MAKE.disk(fixture)
    before = own_tree(disk)
    assert MAKE.act(disk).code == 0
    undo_new(disk)
    assert own_tree(disk) == before
    assert not [path for path, _ in disk.walk(ROOT) if "new-3" in path]


@pytest.mark.parametrize("fixture", FIXTURES)
def test_a_power_cut_during_undo_of_a_new_partition_leaves_what_a_second_undo_completes(fixture):
    """What made it is undone, or it is there; never a part of it. A second undo ends where the first would have."""
    disk = MAKE.disk(fixture)
    before = own_tree(disk)
    assert MAKE.act(disk).code == 0
    disk.settle()
    (run,) = [entry.path for entry in disk.list_directory(f"{NEW}/.kafkalog") if entry.is_directory]
    found, seen = [], set()

    def keep(_):
        for _, image in disk.images(SURVIVALS):
            key = identity(image, exact=False)
            if key not in seen:
                seen.add(key)
                found.append(image)

    outcome = kafkalog(RecordingFilesystem(disk, keep), "undo", NEW, run.rpartition("/")[2])
    assert outcome.code == 0, outcome
    assert len(found) > 10
    for image in found:
        undo_new(image)
        assert image.status(NEW) is None
        left = {path for path in own_tree(image) if path not in before}
        assert all(f"{NEW}." in path and "-delete" in path for path in left), left  # a broker removes it


def test_a_power_cut_during_undo_of_a_first_segment_leaves_what_a_second_undo_completes():
    """In a directory that a broker left without a log: what was there stays, and a second undo ends as the first."""
    disk = MAKE.disk("sound")
    disk.add(f"{NEW}/partition.metadata", f"version: 0\ntopic_id: {NEW_ID}".encode())
    disk.add(f"{NEW}/leader-epoch-checkpoint", b"")
    before = own_tree(disk)
    assert MAKE.act(disk).code == 0
    disk.settle()
    (run,) = [entry.path for entry in disk.list_directory(f"{NEW}/.kafkalog") if entry.is_directory]
    found = []
    outcome = kafkalog(
        RecordingFilesystem(disk, lambda _: found.extend(disk.images(SURVIVALS))), "undo", NEW, run.rpartition("/")[2]
    )
    assert outcome.code == 0, outcome
    assert len(found) > 10
    for _, image in [("whole", disk), *found]:
        undo_new(image)
        there = own_tree(image)
        assert _files_below(there) == _files_below(before)


def _files_below(tree):
    return {path: facts[:4] for path, facts in tree.items() if path.startswith(f"{NEW}/") and ".kafkalog" not in path}


class NoRoom(RecordingFilesystem):
    """The n-th file cannot be made, and none behind it if that is `for_ever`."""

    def __init__(self, below, n, *, for_ever):
        super().__init__(below)
        self.left = n
        self._for_ever = for_ever

    def create(self, path, *more):
        self.left -= 1
        if self.left == 0 or (self.left < 0 and self._for_ever):
            raise OSError(errno.ENOSPC, "no room", path)
        return super().create(path, *more)


@pytest.mark.parametrize("for_ever", [False, True])
def test_a_new_partition_without_room_for_a_file_is_not_made(for_ever):
    """Of the partition, or of the run in it: what said that nothing was changed left no partition behind."""
    unchanged = kept = 0
    for n in range(1, 50):
        disk = MAKE.disk("sound")
        before = own_tree(disk)
        outcome = MAKE.act(fs := NoRoom(disk, n, for_ever=for_ever))
        if fs.left > 0:
            break
        assert outcome.code == 13, (n, outcome)
        if "nothing was changed" in outcome.err:
            unchanged += 1
            assert own_tree(disk) == before, n
            assert disk.status(NEW) is None
        elif "no log was changed" in outcome.err:
            kept += 1
            left = {path: facts for path, facts in before.items() if path != MARKER}
            there = own_tree(disk)
            assert {path: facts for path, facts in there.items() if not path.startswith(NEW)} == left, n
            assert disk.status(BESIDE_THE_MARKER) is not None
            # The new partition stays, as the undo in it, which the message names, puts the marker back.
            assert disk.status(NEW) is not None
            command = re.search(r"`kafkalog (undo [^`]*)`", outcome.err).group(1)
            assert kafkalog(disk, *shlex.split(command)).code == 0
            assert disk.status(MARKER) is not None
            assert made_records(disk) == []
        else:
            assert disk.status(NEW) is not None
            undo_new(disk)
            assert made_records(disk) == []
    assert outcome.code == 0
    assert unchanged > 5
    assert bool(kept) == for_ever


def test_a_topic_id_written_after_the_log_is_found_by_power_cuts(monkeypatch):
    """As if its name were not on the disk before the log's is."""
    plant_bug(monkeypatch, "sync the directory of a new partition", lambda *_: None)
    with pytest.raises(AssertionError):  # noqa: PT012
        matrix = WriterMatrix(MAKE, "sound")
        for image in matrix.images():
            matrix.look(image)
