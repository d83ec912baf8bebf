"""Commands under power cuts: after every call, with every kind of loss, nothing is lost and nothing comes twice."""

import random

import pytest
from evidence import SCALE
from log_directories import FIXTURES
from mutants import NoSync
from writer_matrix import WriterMatrix, known_good
from writers import LIKE_BROKER, RECOVER, UNDO, WRITERS

from kafkalog_cli.actions import undo
from kafkalog_cli.storage.manifest import RunState

CASES = [(writer, name) for writer in WRITERS for name in FIXTURES]


def ids(cases):
    return [f"{writer.name}-{name}" for writer, name in cases]


@pytest.mark.parametrize(("writer", "fixture"), CASES, ids=ids(CASES))
def test_a_power_cut_after_any_call(writer, fixture, evidence):
    matrix = WriterMatrix(writer, fixture, known_good(writer, fixture))
    for image in matrix.images():
        matrix.look(image)
    counts = matrix.counts
    assert counts["images"] >= 7 * counts["points"] > 50
    assert counts["distinct"] > 5
    evidence("R1", counts["images"], len(CASES))


NESTED_CASES = [(writer, name) for writer in (RECOVER, LIKE_BROKER, UNDO) for name in FIXTURES]
FIRST, SECOND = 3, 20
"""So many images of the first run, and of the run on each of those so many; those alike are looked at once."""


@pytest.mark.parametrize(("writer", "fixture"), NESTED_CASES, ids=ids(NESTED_CASES))
def test_a_power_cut_while_a_power_cut_is_put_right(writer, fixture, evidence):
    chance = random.Random(f"{writer.name} {fixture} {SCALE}")
    matrix = WriterMatrix(writer, fixture)
    firsts = [image for image in matrix.images() if not image.is_over]
    drawn = 0
    for first in chance.sample(firsts, min(FIRST * SCALE, len(firsts))):
        seconds = matrix.images(within=first)
        numbers = chance.sample(matrix.drawn, min(SECOND, len(matrix.drawn)))
        for number in sorted(set(numbers)):
            matrix.look(seconds[number])
        drawn += len(numbers)
    assert drawn > 20
    evidence("R2", drawn, len(NESTED_CASES))


# -- what the second power cut finds, and the first alone would not


def test_a_bug_of_the_way_back_only_is_found(monkeypatch):
    """An undo that goes on with one that was cut off, and forgets to sync."""
    sound = undo.undo

    def careless(fs, directory, manifest, log_dir):
        is_second = manifest.state is RunState.UNDOING
        return sound(NoSync(fs) if is_second else fs, directory, manifest, log_dir)

    monkeypatch.setattr(undo, "undo", careless)
    matrix = WriterMatrix(UNDO, "torn")
    firsts = matrix.images()
    for image in matrix.images():
        matrix.look(image)
    with pytest.raises(AssertionError, match=r"told of success|did not give back"):  # noqa: PT012
        for first in firsts:
            for second in matrix.images(within=first):
                matrix.look(second)
