"""append to a partition that is not there, under power cuts and failing calls: nothing else is touched, and it can be
run again, recovered and taken back from wherever it was cut off."""

import errno

import pytest
from log_directories import ROOT, identity
from memory_fs import SURVIVALS
from watched_fs import RecordingFilesystem
from writer_matrix import WriterMatrix, own_tree, undo_new
from writers import MAKE, NEW, kafkalog

from kafkalog_cli.storage.appending import new_partition

FIXTURES = MAKE.fixtures


@pytest.mark.parametrize("fixture", FIXTURES)
def test_a_power_cut_after_any_call(fixture):
    matrix = WriterMatrix(MAKE, fixture)
    found = matrix.images()
    assert len(found) > 40
    for image in found:
        matrix.look(image)


@pytest.mark.parametrize("fixture", FIXTURES)
def test_all_of_it_is_taken_back(fixture):
    """The directory, its line, the marker."""
    disk = MAKE.disk(fixture)
    before = own_tree(disk)
    assert MAKE.act(disk).code == 0
    undo_new(disk)
    assert own_tree(disk) == before
    assert not [path for path, _ in disk.walk(ROOT) if "new-3" in path]


@pytest.mark.parametrize("fixture", FIXTURES)
def test_a_power_cut_while_it_is_taken_back(fixture):
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


class NoRoom(RecordingFilesystem):
    """The n-th file cannot be made."""

    def __init__(self, below, n):
        super().__init__(below)
        self._left = n

    def create(self, path, *more):
        self._left -= 1
        if not self._left:
            raise OSError(errno.ENOSPC, "no room", path)
        return super().create(path, *more)


@pytest.mark.parametrize("n", range(1, 6))
def test_no_room_for_its_files(n):
    disk = MAKE.disk("sound")
    before = own_tree(disk)
    outcome = MAKE.act(NoRoom(disk, n))
    assert outcome.code == 13, outcome
    assert own_tree(disk) == before


def test_an_id_that_comes_late_is_noticed(monkeypatch):
    """As if its name were not on the disk before the log's is."""
    monkeypatch.setattr(new_partition, "sync_directory", lambda *_: None)
    with pytest.raises(AssertionError):  # noqa: PT012
        matrix = WriterMatrix(MAKE, "sound")
        for image in matrix.images():
            matrix.look(image)
