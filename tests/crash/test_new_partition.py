"""append to a partition that is not there, under power cuts and failing calls: nothing else is touched, and it can be
run again, recovered and taken back from wherever it was cut off."""

import errno

import pytest
from log_directories import MARKER, ROOT, contents, identity, log_directory, records_of
from memory_fs import SURVIVALS
from watched_fs import RecordingFilesystem
from writer_matrix import BESIDE_THE_MARKER, copy, own_tree
from writers import NOW_MS, SETTINGS, kafkalog

from kafkalog_cli.storage.appending import new_partition

NEW = f"{ROOT}/new-3"
LOG = f"{NEW}/{0:020d}.log"
ID = "kFQ3lUTFSsWWjXbfvbOpDw"
ARGV = ("append", NEW, "--input", "lines", "--topic-id", ID, "--single-replica", *SETTINGS)
STDIN = b"one\ntwo\n"
FIXTURES = ("sound", "killed")


def act(fs, *, token="0001", now_ms=NOW_MS):
    return kafkalog(fs, *ARGV, now_ms=now_ms, token=token, stdin=STDIN)


def made_records(disk):
    return [value for _, _, value in records_of(contents(disk).get(LOG, b""))]


def others(disk):
    """All but the new partition, its line in the checkpoint, and the marker."""
    files = {path: data for path, data in contents(disk).items() if not path.startswith((f"{NEW}/", f"{ROOT}/new-3."))}
    apart = (MARKER, BESIDE_THE_MARKER, f"{ROOT}/recovery-point-offset-checkpoint")
    return {path: data for path, data in files.items() if path not in apart and not path.endswith(".tmp")}


def undo_all(disk):
    """All runs on the new partition, the newest first."""
    own = f"{NEW}/.kafkalog"
    names = [entry.path for entry in disk.list_directory(own) if entry.is_directory] if disk.status(own) else []
    for path in sorted(names, reverse=True):
        if disk.status(path) is not None:
            outcome = kafkalog(disk, "undo", NEW, path.rpartition("/")[2], now_ms=NOW_MS + 5000)
            assert outcome.code == 0, outcome


def images(fixture, wrap=lambda fs: fs):
    """Each distinct disk that a power cut can leave, and whether the command had told of success."""
    disk, found, seen = log_directory(fixture), [], set()

    def keep(*, is_over):
        for _, image in disk.images(SURVIVALS):
            key = (is_over, identity(image, exact=is_over))
            if key not in seen:
                seen.add(key)
                found.append((image, is_over))

    outcome = act(wrap(RecordingFilesystem(disk, lambda _: keep(is_over=False))))
    assert outcome.code == 0, outcome
    keep(is_over=True)
    return found


def look(fixture, image, *, is_over):
    wanted = others(log_directory(fixture))
    assert others(image) == wanted, "something else was touched"
    there = made_records(image)
    assert there in ([], [b"one", b"two"]), there
    assert not is_over or there, "told of success, and it is not on the disk"
    recovered = copy(image)
    if recovered.status(LOG) is not None:
        outcome = kafkalog(recovered, "recover", NEW, *SETTINGS, now_ms=NOW_MS + 1000, token="0003")
        assert outcome.code == 0, outcome
        assert made_records(recovered) == there
    again = copy(image)
    outcome = act(again, token="0004", now_ms=NOW_MS + 2000)
    if outcome.code == 14 and "it is damaged" in outcome.out:  # a torn batch
        again = copy(recovered)
        outcome = act(again, token="0004", now_ms=NOW_MS + 2000)
    assert outcome.code == 0, outcome
    assert made_records(again) == [*there, b"one", b"two"]
    metadata = contents(again)[f"{NEW}/partition.metadata"]
    assert metadata == f"version: 0\ntopic_id: {ID}".encode()
    for disk in (copy(image), recovered, again):
        undo_all(disk)
        assert made_records(disk) == []
        assert others(disk) == wanted


@pytest.mark.parametrize("fixture", FIXTURES)
def test_a_power_cut_after_any_call(fixture):
    found = images(fixture)
    assert len(found) > 40
    for image, is_over in found:
        look(fixture, image, is_over=is_over)


@pytest.mark.parametrize("fixture", FIXTURES)
def test_all_of_it_is_taken_back(fixture):
    """The directory, its line, the marker."""
    disk = log_directory(fixture)
    before = own_tree(disk)
    assert act(disk).code == 0
    undo_all(disk)
    assert own_tree(disk) == before
    assert not [path for path, _ in disk.walk(ROOT) if "new-3" in path]


@pytest.mark.parametrize("fixture", FIXTURES)
def test_a_power_cut_while_it_is_taken_back(fixture):
    """What made it is undone, or it is there; never a part of it. A second undo ends where the first would have."""
    disk = log_directory(fixture)
    before = own_tree(disk)
    assert act(disk).code == 0
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
        undo_all(image)
        assert image.status(NEW) is None
        left = {path for path in own_tree(image) if path not in before}
        assert all(f"{ROOT}/new-3." in path and "-delete" in path for path in left), left  # a broker removes it


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
    disk = log_directory("sound")
    before = own_tree(disk)
    outcome = act(NoRoom(disk, n))
    assert outcome.code == 13, outcome
    assert own_tree(disk) == before


def test_an_id_that_comes_late_is_noticed(monkeypatch):
    """As if its name were not on the disk before the log's is."""
    monkeypatch.setattr(new_partition, "sync_directory", lambda *_: None)
    with pytest.raises(AssertionError):  # noqa: PT012
        for image, is_over in images("sound"):
            look("sound", image, is_over=is_over)
