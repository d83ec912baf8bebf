"""A command that is run again does nothing, and what it did is taken back byte for byte."""

import pytest

from tests.crash.log_directories import PARTITION, ROOT
from tests.crash.test_recover_crashes import CASES as CORPUS_CASES
from tests.crash.test_recover_crashes import load
from tests.crash.writer_matrix import own_tree
from tests.crash.writers import APPENDS, CASES, LIKE_BROKER, RUN_ID, SALVAGE, WRITERS, Kind, Writer, ids, kafkalog
from tests.support.memory_fs import MemoryFilesystem
from tests.support.watched_fs import RecordingFilesystem, WatchedFilesystem

UNDOABLE = [
    (one, name)
    for one, name in (*CASES, *APPENDS)
    if one.kind in (Kind.REPAIRS, Kind.CHANGES, Kind.CLEANS, Kind.APPENDS) and one.comes_back
]
SETTINGS = ("--config", "segment.index.bytes=4096", "--config", "index.interval.bytes=300")


def commands_on_the_corpus():
    """(name, writer) of the corpus' cases that are repaired."""
    return [
        (name, Writer("recover", Kind.REPAIRS, ("recover", ROOT, *SETTINGS, *options)))
        for name, options in CORPUS_CASES
    ]


ON_CORPUS = commands_on_the_corpus()
NAMES = [f"{name}{''.join(writer.argv[6:])}" for name, writer in ON_CORPUS]


def is_quiet(writer, disk, wrap=lambda fs: fs):
    """Whether a second run changes nothing. Of those like a broker's the third: the marker may be away by then."""
    writer.act(disk, token="0001")
    if "--like-broker" in writer.argv:
        writer.act(disk, token="0002")
    before = disk.tree()
    recorder = RecordingFilesystem(disk)
    outcome = writer.act(wrap(recorder), token="0003")
    assert outcome.code == 14 if writer is SALVAGE else outcome.code in writer.codes | writer.codes_again
    return not recorder.changes and disk.tree() == before


def comes_back(writer, disk):
    before = own_tree(disk)
    outcome = writer.act(disk)
    assert outcome.code == 0, outcome
    after = own_tree(disk)
    assert after != before
    due = {path for path in before.keys() - after.keys() if path.endswith(".deleted")}
    assert kafkalog(disk, "undo", ROOT, writer.run_id).code == 0
    found = own_tree(disk)
    if writer.argv[0] == "retain" and due:  # of earlier runs: gone for good, and their directory is another
        assert not due & found.keys()
        before, found = (without(tree, {*due, PARTITION}) for tree in (before, found))
    return found == before


def without(tree, paths):
    return {path: tree[path] for path in tree.keys() - paths}


@pytest.mark.exhaustive
@pytest.mark.parametrize(("writer", "fixture"), CASES, ids=ids(CASES))
def test_a_second_run_of_a_writer_has_nothing_to_do(writer, fixture, evidence):
    assert is_quiet(writer, writer.disk(fixture))
    evidence("R20", 1, len(CASES) + len(ON_CORPUS))


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "writer"), ON_CORPUS, ids=NAMES)
def test_a_second_run_of_a_writer_on_a_broker_log_has_nothing_to_do(name, writer, corpus, evidence):
    assert is_quiet(writer, load(corpus, name))
    evidence("R20", 1, len(CASES) + len(ON_CORPUS))


@pytest.mark.exhaustive
@pytest.mark.parametrize(("writer", "fixture"), UNDOABLE, ids=ids(UNDOABLE))
def test_undo_of_a_writer_restores_bytes_modes_owners_and_times(writer, fixture, evidence):
    assert comes_back(writer, writer.disk(fixture))
    evidence("R22", 1, len(UNDOABLE) + len(ON_CORPUS))


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "writer"), ON_CORPUS, ids=NAMES)
def test_undo_of_a_writer_on_a_broker_log_restores_bytes_modes_owners_and_times(name, writer, corpus, evidence):
    assert comes_back(writer, load(corpus, name))
    evidence("R22", 1, len(UNDOABLE) + len(ON_CORPUS))


# -- both find what is wrong


class Touching(WatchedFilesystem):
    """Opens a checkpoint for writing whenever the first directory is listed."""

    def list_directory(self, path):
        if path.endswith("t-0"):
            self.below.set_attributes(path, self.below.attributes(path))
        return super().list_directory(path)


def test_a_run_that_touches_something_is_not_quiet():
    assert not is_quiet(LIKE_BROKER, LIKE_BROKER.disk("three"), Touching)


@pytest.mark.parametrize("lost", ["mtime_ns", "mode", "owner_id"])
def test_an_attribute_that_does_not_come_back_is_noticed(lost, monkeypatch):
    """As if files had none but the usual when they are made or set."""
    set_attributes = MemoryFilesystem.set_attributes

    def forgetful(disk, path, attributes):
        kept = {lost: getattr(disk.attributes(path), lost)}
        set_attributes(disk, path, type(attributes)(**{**fields(attributes), **kept}))

    def fields(attributes):
        return {name: getattr(attributes, name) for name in ("mode", "owner_id", "group_id", "mtime_ns", "xattrs")}

    writer, disk = WRITERS[0], WRITERS[0].disk("torn")
    monkeypatch.setattr(MemoryFilesystem, "set_attributes", forgetful)
    before = own_tree(disk)
    assert writer.act(disk).code == 0
    kafkalog(disk, "undo", ROOT, RUN_ID)
    assert own_tree(disk) != before
