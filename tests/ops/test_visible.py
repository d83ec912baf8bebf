"""Which batches a consumer gets, decided by rows and by a matrix, against sets of single offsets."""

import random
from types import SimpleNamespace

import pytest

from kafkalog_cli.format.batch import CONTROL_MASK, NO_OFFSET, TRANSACTIONAL_MASK, Batch, BatchColumns
from kafkalog_cli.log.reading.scan import Chunk
from kafkalog_cli.log.transaction_ends import Ending
from kafkalog_cli.ops.read.request import NO_END
from kafkalog_cli.ops.read.visible import Visibility

LARGEST = 6


def some_batch(rng, position):
    """Offsets, formats and kinds of any sort: damage may repeat offsets, go back, or leave the segment."""
    last = rng.randint(-1, LARGEST)
    base = max(0, last - rng.randint(0, 3)) if last >= 0 else last
    magic = rng.choice([1, 2, 2])
    if magic < 2 and rng.random() < 0.5:
        base = NO_OFFSET  # a wrapper: its first offset is inside
    attributes = 0 if magic < 2 else rng.choice([0, 0, 0, CONTROL_MASK, TRANSACTIONAL_MASK, TRANSACTIONAL_MASK])
    count = rng.choice([0, 1, 1, 1])
    producer = rng.randint(0, 2) if attributes else -1
    return Batch(position, 100, base, last, 0, magic, 0, attributes, 0, 0, producer, 0, 0, count, rng.random() < 0.9)


def expected(  # noqa: C901 the rules, one after another
    batches, first, end, segment, ends, with_control
):
    """(kind per row, rows told as out of order, next offset) by what is left of each batch's offsets."""
    kinds, back = ["hidden"] * len(batches), []
    passed = set(range(-1, first))
    nothing_shown = True
    for row, batch in enumerate(batches):
        offsets = set(range(batch.base_offset, batch.last_offset + 1))
        known = batch.base_offset != NO_OFFSET
        if not batch.valid:
            continue
        of_cleaner = batch.position == 0 and batch.magic in (0, 1) and batch.last_offset in range(LARGEST + 1)
        if batch.last_offset not in range(*segment) and not (of_cleaner and batch.last_offset < segment[1]):
            back.append(row)
            continue
        before = set(passed)
        passed |= set(range(batch.last_offset + 1))
        repeats = offsets & before if known else {batch.last_offset} & before
        if repeats and before > set(range(-1, first)):
            back.append(row)
        below_end = {offset for offset in offsets if offset < end}
        if (known and not below_end) or batch.last_offset in before:
            continue
        if batch.is_control:
            if not with_control:
                continue
        elif batch.is_transactional and ends is not None:
            if ends[batch.producer_id] is Ending.OPEN:
                return kinds, [other for other in back if other != row], max(before) + 1
            if ends[batch.producer_id] is Ending.ABORTED:
                continue
        if batch.records_count:
            inner = below_end - before == offsets if known else not nothing_shown and batch.last_offset < end
            kinds[row] = "whole" if inner else "cut"
            nothing_shown = False
    return kinds, back, max(passed) + 1


def decided(batches, as_matrix, first, end, segment, ends, with_control):
    """The same by Visibility."""
    columns = BatchColumns.from_rows(batches)
    if as_matrix:
        columns = columns.arrays()
    committed = None
    if ends is not None:
        committed = SimpleNamespace(last_stable_offset=None, ending=lambda producer, base, last: ends[producer])
    visible = Visibility(first, end, committed, with_control=with_control)
    visible.begin(segment[0], None if segment[1] == NO_END else segment[1])
    kinds, back = ["hidden"] * len(batches), []
    for chunk in visible.chunks(chunk for chunk in [Chunk(memoryview(b""), 0, columns, None)]):
        back += chunk.out_of_order  # type: ignore[attr-defined]
        for row in chunk.batches.rows():
            kinds[row.position // 100] = "cut" if chunk.is_cut else "whole"  # type: ignore[attr-defined]
    return kinds, back, visible


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(8))
def test_a_consumer_gets_the_offsets_that_are_left(seed):
    rng = random.Random(seed)
    for _ in range(700):
        batches = [some_batch(rng, 100 * row) for row in range(rng.randint(1, 5))]
        first = rng.randint(0, LARGEST)
        end = rng.choice([NO_END, rng.randint(first, LARGEST + 1)])
        low = rng.randint(0, 3)
        segment = (low, rng.choice([NO_END, rng.randint(low, LARGEST + 1)]))
        ends = rng.choice([None, {producer: rng.choice(list(Ending)) for producer in range(3)}])
        case = (first, end, segment, ends, rng.random() < 0.3)
        kinds, back, passed = expected(batches, *case)
        for as_matrix in (False, True):
            got_kinds, got_back, visible = decided(batches, as_matrix, *case)
            assert (got_kinds, got_back) == (kinds, back), (batches, case)
            assert visible.next_offset == max(first, min(passed, end)), (batches, case)
