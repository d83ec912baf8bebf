"""Commands under power cuts (R1), and their completion under power cuts (R2): nothing is lost, nothing comes twice."""

import random

import pytest
from evidence import SCALE
from log_directories import FIXTURES
from writer_matrix import WriterMatrix
from writers import LIKE_BROKER, RECOVER, UNDO, WRITERS

CASES = [(writer, name) for writer in WRITERS for name in FIXTURES]
IDS = [f"{writer.name}-{name}" for writer, name in CASES]


@pytest.mark.parametrize(("writer", "fixture"), CASES, ids=IDS)
def test_a_power_cut_after_any_call(writer, fixture, evidence):
    matrix = WriterMatrix(writer, fixture)
    for image in matrix.images():
        matrix.look(image)
    counts = matrix.counts
    assert counts["images"] >= 7 * counts["points"] > 50
    assert counts["distinct"] > 10
    evidence("R1", counts["images"], len(CASES))


NESTED_CASES = [(writer, name) for writer in (RECOVER, LIKE_BROKER, UNDO) for name in FIXTURES]
FIRST, SECOND = 4, 14
"""So many images of the first run, and of the run on each of those so many."""


@pytest.mark.parametrize(("writer", "fixture"), NESTED_CASES, ids=[f"{w.name}-{name}" for w, name in NESTED_CASES])
def test_a_power_cut_while_a_power_cut_is_put_right(writer, fixture, evidence):
    chance = random.Random(f"{writer.name} {fixture} {SCALE}")
    matrix = WriterMatrix(writer, fixture)
    firsts = [image for image in matrix.images() if not image.is_over]
    looked_at = 0
    for first in chance.sample(firsts, min(FIRST * SCALE, len(firsts))):
        seconds = matrix.images(within=first)
        for image in chance.sample(seconds, min(SECOND, len(seconds))):
            matrix.look(image)
            looked_at += 1
    assert looked_at > 20
    evidence("R2", looked_at, len(NESTED_CASES))
