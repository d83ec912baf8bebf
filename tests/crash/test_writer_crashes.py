"""Commands under power cuts: after every call, with every kind of loss, nothing is lost and nothing comes twice."""

import random

import pytest

from tests.crash.mutants import NoSync
from tests.crash.writer_matrix import WriterMatrix, known_good
from tests.crash.writers import (
    CASES,
    DELETE_RECORDS,
    LIKE_BROKER,
    RECOVER,
    REPAIRERS,
    RETAIN_NOTHING,
    ROLL,
    TRUNCATE_IN_A_BATCH,
    UNDO,
    Kind,
    ids,
)
from tests.support.effort import DIAL
from tests.support.product_journal import RunState, plant_bug, undo

A_CHANGE = 7
"""So many distinct images of a command that changes a sound log; those of all others are all looked at."""


@pytest.mark.exhaustive
@pytest.mark.parametrize(("writer", "fixture"), CASES, ids=ids(CASES))
def test_a_power_cut_after_any_call_of_a_writer_leaves_before_or_after(writer, fixture, evidence):
    matrix = WriterMatrix(writer, fixture, known_good(writer, fixture))
    found = matrix.images()
    counts = matrix.counts
    assert counts["images"] >= 7 * counts["points"] > 50
    assert counts["distinct"] > 5
    looked_at = counts["images"]
    if writer.kind in (Kind.CHANGES, Kind.FREES, Kind.CLEANS) and len(found) > A_CHANGE * DIAL.scale:
        last = [image for image in found if image.is_over]
        others = [image for image in found if not image.is_over]
        chance = random.Random(f"{writer.name} {fixture} {DIAL.scale}")
        found = [*last, *chance.sample(others, min(A_CHANGE * DIAL.scale, len(others)))]
        looked_at = len(found)
    for image in found:
        matrix.look(image)
    evidence("R1", looked_at, len(CASES))


NESTED_CASES = [
    (writer, name)
    for writer in (RECOVER, LIKE_BROKER, UNDO, ROLL, RETAIN_NOTHING, TRUNCATE_IN_A_BATCH, DELETE_RECORDS)
    for name in writer.fixtures
]
FIRST, FIRST_OF_A_CHANGE, SECOND = 3, 1, 20
"""So many images of the first run, and of the run on each of those so many; those alike are looked at once."""


@pytest.mark.exhaustive
@pytest.mark.parametrize(("writer", "fixture"), NESTED_CASES, ids=ids(NESTED_CASES))
def test_a_second_power_cut_during_the_repair_of_the_first_leaves_before_or_after(writer, fixture, evidence):
    chance = random.Random(f"{writer.name} {fixture} {DIAL.scale}")
    matrix = WriterMatrix(writer, fixture)
    firsts = [image for image in matrix.images() if not image.is_over]
    drawn = 0
    count = DIAL.scale * (FIRST if writer in REPAIRERS else FIRST_OF_A_CHANGE)
    for first in chance.sample(firsts, min(count, len(firsts))):
        seconds = matrix.images(within=first)
        numbers = chance.sample(matrix.drawn, min(SECOND, len(matrix.drawn)))
        for number in sorted(set(numbers)):
            matrix.look(seconds[number])
        drawn += len(numbers)
    assert drawn >= count
    evidence("R2", drawn, len(NESTED_CASES))


# -- what the second power cut finds, and the first alone would not


@pytest.mark.full
def test_a_bug_of_the_way_back_only_is_found(monkeypatch):
    """An undo that goes on with one that was cut off, and forgets to sync."""

    def careless(fs, directory, manifest, log_dir):
        is_second = manifest.state is RunState.UNDOING
        return undo(NoSync(fs) if is_second else fs, directory, manifest, log_dir)

    plant_bug(monkeypatch, "undo", careless)
    matrix = WriterMatrix(UNDO, "torn")
    firsts = matrix.images()
    for image in matrix.images():
        matrix.look(image)
    with pytest.raises(AssertionError, match=r"told of success|did not give back"):  # noqa: PT012
        for first in firsts:
            for second in matrix.images(within=first):
                matrix.look(second)
