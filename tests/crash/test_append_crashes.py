"""append under power cuts and failing calls: what was there stays, what was synced is there, all of it can be taken back."""

import random
from dataclasses import replace

import pytest

from tests.crash.log_directories import END, PARTITION, records
from tests.crash.test_writer_faults import candidates, fail
from tests.crash.writer_matrix import RECOVER_LATER, WriterMatrix, copy, known_good, own_tree, recovery_point
from tests.crash.writers import (
    APPEND,
    APPEND_AND_FLUSH,
    APPEND_AND_ROLL,
    APPENDS,
    KEPT,
    NOW_MS,
    ids,
    kafkalog,
    undo_all,
)
from tests.support.effort import DIAL
from tests.support.memory_fs import SURVIVALS
from tests.support.product_journal import plant_bug
from tests.support.watched_fs import RecordingFilesystem

IMAGES, FAULTS_A_CASE = 12, 10


@pytest.mark.exhaustive
@pytest.mark.parametrize(("writer", "fixture"), APPENDS, ids=ids(APPENDS))
def test_a_power_cut_after_any_call_of_append_loses_no_earlier_record(writer, fixture):
    matrix = WriterMatrix(writer, fixture, known_good(writer, fixture))
    found = matrix.images()
    assert matrix.counts["points"] > 20
    last = [image for image in found if image.is_over]
    others = [image for image in found if not image.is_over]
    assert last
    chance = random.Random(f"{writer.name} {fixture} {DIAL.scale}")
    for image in [*last, *chance.sample(others, min(IMAGES * DIAL.scale, len(others)))]:
        matrix.look(image)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("writer", "fixture"), APPENDS, ids=ids(APPENDS))
def test_append_whose_call_fails_loses_no_earlier_record(writer, fixture):
    matrix = WriterMatrix(writer, fixture, known_good(writer, fixture))
    found = candidates(writer, fixture)
    chance = random.Random(f"{writer.name} {fixture} {DIAL.scale}")
    for fault, for_ever, n in chance.sample(found, min(FAULTS_A_CASE * DIAL.scale, len(found))):
        fail(matrix, fault, for_ever, n)


@pytest.mark.parametrize("fixture", ["sound", "committed"])
def test_records_below_a_written_recovery_point_survive_any_power_cut(fixture):
    """A recovery point is written when all below it is on the disk: no power cut takes any of that."""
    disk, points = APPEND_AND_FLUSH.disk(fixture), set()

    def cut(_):
        for survival, image in disk.images(SURVIVALS):
            point, found = recovery_point(image), records(image)
            assert [offset for offset, _, _ in found if END <= offset < point] == list(range(END, point)), survival
            if point not in points:
                points.add(point)
                assert RECOVER_LATER.act(image, token="0003").code == 0
                assert records(image) == found

    assert APPEND_AND_FLUSH.act(RecordingFilesystem(disk, cut)).code == 0
    assert len(points) > 3


def test_a_later_command_keeps_the_records_of_an_append_that_was_cut_off(monkeypatch):
    """What came before the crash stays, and so does what a later command does; undo then refuses the earlier run."""
    disk = APPEND_AND_ROLL.disk("sound")
    images = [image for image in WriterMatrix(APPEND_AND_ROLL, "sound").images() if not image.is_over]
    found = max(images, key=lambda image: len(records(image.disk)))
    before, disk = records(found.disk), copy(found.disk)
    assert len(before) > len(records(APPEND_AND_ROLL.disk("sound")))
    assert RECOVER_LATER.act(disk, token="0003").code == 0
    assert records(disk) == before
    later = replace(APPEND, now_ms=NOW_MS + 2000)
    assert later.act(disk, token="0004").code == 0
    assert records(disk)[: len(before)] == before
    outcome = kafkalog(disk, "undo", PARTITION, APPEND_AND_ROLL.run_id)
    assert outcome.code == 14, outcome
    undo_all(disk)
    assert records(disk) == records(APPEND_AND_ROLL.disk("sound"))


# -- what the matrix finds


def test_a_file_that_is_not_announced_is_noticed(monkeypatch):
    plant_bug(monkeypatch, "announce a file of a growing run", lambda *_: None)
    matrix = WriterMatrix(APPEND_AND_ROLL, "sound")
    with pytest.raises(AssertionError):  # noqa: PT012
        for image in matrix.images():
            matrix.look(image)


@pytest.mark.full
def test_an_index_that_comes_before_its_log_is_noticed(monkeypatch):
    plant_bug(monkeypatch, "sync a growing run", lambda *_: None)
    matrix = WriterMatrix(APPEND_AND_ROLL, "sound")
    with pytest.raises(AssertionError):  # noqa: PT012
        for image in matrix.images():
            matrix.look(image)


def test_a_second_append_of_the_same_records_writes_the_same_bytes(monkeypatch):
    trees = []
    for _ in range(2):
        disk = APPEND_AND_ROLL.disk("sound").image(KEPT)
        assert APPEND_AND_ROLL.act(disk).code == 0
        trees.append({path: facts[0] for path, facts in own_tree(disk).items()})
    assert trees[0] == trees[1]
