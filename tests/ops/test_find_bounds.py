"""The records around matches, and the bytes that are searched: each rule against a loop over small cases."""

import random
import re
from itertools import pairwise, product
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest

from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.format.records import OUTSIDE, RecordColumns
from kafkalog_cli.log.reading.segment_reader import SegmentReader
from kafkalog_cli.ops.find import conditions, context, partition_search
from kafkalog_cli.ops.find.conditions import Conditions, JsonCondition, Matcher, _part_with_values, parse_json_condition
from kafkalog_cli.ops.find.context import SurroundingRecords, chosen_records, copied_records
from kafkalog_cli.ops.keys import WantedKey
from tests.ops.test_find import search
from tests.ops.test_range_bounds import block_of, described
from tests.support.faulty_fs import BytesFile, FaultyFilesystem
from tests.support.logs import BASE_TIME_MS, R, batch_v2, message, message_set


def shown(sizes, matches, before, after, *, as_arrays=False):
    """(offsets, is_match, after_gap) of the blocks to show, of blocks with so many records; offsets count from 0."""
    around, first = SurroundingRecords(before, after), 0
    for size in sizes:
        block = block_of(list(range(first, first + size)), (size // 2, size), as_arrays=as_arrays)
        rows = [match - first for match in matches if first <= match < first + size]
        for one in around.shown(block, rows):
            yield [int(offset) for offset in one.block.records.offset], one.is_match, one.after_gap
        first += size
        assert around.is_over == all(match + after < first for match in matches if match < first)


@pytest.mark.parametrize("seed", range(60))
def test_records_around_matches_are_shown_once_and_in_order(seed):
    chance = random.Random(seed)
    sizes = [chance.randrange(1, 5) for _ in range(chance.randrange(1, 6))]
    count = sum(sizes)
    matches = sorted(chance.sample(range(count), min(count, chance.randrange(4))))
    before, after = chance.randrange(5), chance.randrange(5)
    found = list(shown(sizes, matches, before, after, as_arrays=bool(seed % 2)))
    wanted = sorted({at for match in matches for at in range(max(0, match - before), min(count, match + after + 1))})
    assert [at for offsets, *_ in found for at in offsets] == wanted
    for offsets, is_match, after_gap in found:
        assert all((at in matches) == is_match for at in offsets)
        assert after_gap == (offsets[0] > wanted[0] and offsets[0] - 1 not in wanted)


@pytest.mark.parametrize(("most", "wanted"), [(0, []), (1, [4]), (2, [3, 4]), (9, [2, 3, 4])])
def test_records_before_a_match_wait_in_so_many_bytes(monkeypatch, most, wanted):
    """Each has a key of one byte, and comes in a block of its own."""
    monkeypatch.setattr(context, "MOST_WAITING_BYTES", most)
    assert [at for offsets, is_match, _ in shown([1] * 7, [5], 3, 0) for at in offsets if not is_match] == wanted


@pytest.mark.parametrize("as_arrays", [False, True])
def test_chosen_records_are_the_same_of_a_large_block(monkeypatch, as_arrays):
    block, rows = block_of(list(range(20, 26)), (2, 2, 3, 6), as_arrays=as_arrays), [0, 1, 3, 5]
    for limit in (0, 255, 256):
        monkeypatch.setattr(context, "_LARGE_BYTES", limit)
        parts = list(chosen_records(block, rows))
        assert [at for part in parts for batch in described(part).values() for at in batch] == [20, 21, 23, 25]
        assert [record.key for part in parts for record in part.rows()] == [bytes((at,)) for at in (20, 21, 23, 25)]
        assert len(parts) == (1 if limit == 256 else len(rows))


@pytest.mark.parametrize("as_arrays", [False, True])
def test_the_bytes_with_all_values(as_arrays):
    places = [(40, 0), (10, 3), (12, 1), (OUTSIDE, 9), (30, 4), (90, -1)]
    for first in range(len(places)):
        rows = [(0, 0, -1, -1, -1, *place, 0, 0, -1, 1) for place in places[first:]]
        columns = RecordColumns.from_rows(rows)
        block = block_of([0], (1,))
        block = type(block)(block.buffer, block.batches, 0, 1, (len(rows),), columns.arrays() if as_arrays else columns)
        known = [(at, at + size) for at, size in places[first:] if size > 0 and at != OUTSIDE]
        wanted = (min(at for at, _ in known), max(end for _, end in known)) if known else (0, 0)
        assert _part_with_values(block) == wanted
        assert all(isinstance(one, int) and not isinstance(one, np.integer) for one in wanted)


def test_an_index_of_a_list_is_as_in_python():
    for size in range(4):
        for index in range(-5, 6):
            data = str(list(range(size))).encode()
            wanted = str(list(range(size))[index]) if -size <= index < size else None
            for text, holds in ((f"[{index}]", wanted is not None), (f"[{index}]={wanted}", wanted is not None)):
                assert parse_json_condition(text).holds(data) == holds


def test_a_path_ends_with_the_text_or_at_the_value():
    assert parse_json_condition("a.b[*].c") == JsonCondition(("a", "b", ..., "c"))
    assert parse_json_condition("a=b=c") == JsonCondition(("a",), "b=c")
    assert parse_json_condition("a=") == JsonCondition(("a",), "")
    assert parse_json_condition("$") == JsonCondition(())
    nested = b'{"a": [{"b": [1, 2]}, {"b": [3]}]}'
    assert [parse_json_condition(f"a[*].b[*]={one}").holds(nested) for one in (1, 2, 3, 4)] == [True, True, True, False]


# -- what records meet


@pytest.mark.parametrize("copied_bytes", [0, 1 << 20])
@pytest.mark.parametrize("seed", range(20))
def test_batches_to_read_are_those_with_the_bytes_and_the_compressed_ones(monkeypatch, seed, copied_bytes):
    """Also where the bytes begin or end a batch: an offset of 0 is zeros, and a message ends with its value."""
    monkeypatch.setattr(conditions, "_COPIED_BYTES", copied_bytes)
    chance, wanted = random.Random(seed), [b"\0", b"ab", b"bab"][seed % 3]
    data, batches = b"", []
    for at in range(8):
        record = R(at, BASE_TIME_MS, None, chance.choice([b"", b"a", b"ab", b"abab", b"bba"]))
        codec = chance.choice([0, 0, 0, 1])
        one = chance.choice(
            [batch_v2([record], codec), message_set([record], 1, codec) if codec else message(record, 1)]
        )
        batches.append((one, codec))
        data += one
    (chunk,) = SegmentReader(BytesFile(data)).chunks()
    for first, end in product(range(8), range(1, 9)):
        if first < end:
            found = Matcher(Conditions(value=wanted)).rows_to_read(chunk, [(first, end)])
            rows = [row for low, high in found for row in range(low, high)]
            assert rows == [row for row in range(first, end) if batches[row][1] or wanted in batches[row][0]]
            assert all(high < low for (_, high), (low, _) in pairwise(found))


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("ignores_case", [False, True])
def test_values_that_have_the_bytes(forced, ignores_case):
    """A value may be these bytes alone; each value has no bytes, and null has not."""
    values = [b"", None, b"a", b"ab", b"xab", b"aB", b"b"]
    data = batch_v2([R(at, BASE_TIME_MS, None, value) for at, value in enumerate(values)])
    (block,) = SegmentReader(BytesFile(data), kernels=KernelChoice(forced=forced)).blocks()
    for wanted in (b"", b"a", b"ab", b"xab", b"xabx"):
        rows = Matcher(Conditions(value=wanted, ignores_case=ignores_case)).rows(block)
        folded = [value and value.lower() if ignores_case else value for value in values]
        assert rows == [row for row, value in enumerate(folded) if value is not None and wanted in value]


def test_what_is_highlighted_has_bytes():
    assert Conditions(pattern=re.compile(b"x*")).spans(b"axxb") == [(1, 3)]
    assert Conditions(key=WantedKey("ax"), value=b"").spans(b"ax") == [(0, 2)]
    assert Conditions(key=WantedKey("")).spans(b"") == []


@pytest.mark.parametrize(("more", "holds"), [(-1, True), (0, True), (1, False)])
def test_a_value_of_the_largest_size_is_parsed(monkeypatch, more, holds):
    data = b'{"a":1}'
    monkeypatch.setattr(conditions, "LARGEST_JSON_BYTES", len(data) - more)
    if holds:
        assert parse_json_condition("a=1").holds(data)
    else:
        with pytest.raises(ValueError, match=r"8 bytes|7 bytes"):
            parse_json_condition("a=1").holds(data)


def test_fields_of_a_copied_record_lie_in_its_buffer():
    """Those without bytes too: whoever reads them looks nowhere else."""
    for key, value in product((b"", b"key", None), (b"", b"value", None)):
        data = batch_v2([R(0, BASE_TIME_MS, b"k", b"v"), R(1, BASE_TIME_MS, key, value)])
        (block,) = SegmentReader(BytesFile(data), kernels=KernelChoice(forced=False)).blocks()
        copied = copied_records(block, [1])
        (row,) = copied.records.rows()
        for position, size in (row[3:5], row[5:7]):
            assert size < 0 or 0 <= position <= len(copied.buffer) - size


# -- what is read of a partition


def damaged(batch):
    return batch[:-1] + bytes((batch[-1] ^ 1,))


def some_log(*batches):
    """A partition with a segment per batch; each has one record."""
    return {f"/logs/t-0/{at:020d}.log": one for at, one in enumerate(batches)}


BATCHES = [batch_v2([R(at, BASE_TIME_MS, None, b"v")]) for at in range(3)]


@pytest.mark.parametrize(("options", "code"), [
    (("--first", "1"), 0), (("--first", "1", "-A", "1"), 0), (("--first", "2", "-A", "1"), 3), (("--first", "3"), 3),
    (("--first", "1", "-A", "2"), 3),
])  # fmt: skip
def test_behind_the_first_matches_nothing_is_read(options, code):
    found = search(some_log(*BATCHES[:2], damaged(BATCHES[2])), *options)
    assert (found[0], bool(found[3])) == (code, code == 3)


@pytest.mark.parametrize(("options", "code"), [
    (("--last", "1"), 0), (("--last", "1", "-B", "1"), 0), (("--last", "2"), 0), (("--last", "2", "-B", "1"), 4),
    (("--last", "3"), 4),
])  # fmt: skip
def test_before_the_last_matches_nothing_is_read(options, code):
    found = search(some_log(damaged(BATCHES[0]), *BATCHES[1:]), *options)
    assert (found[0], bool(found[3])) == (code, code == 4)


@pytest.mark.parametrize(("start", "code"), [("1", 3), ("2", 3), ("3", 1)])
def test_damage_at_the_end_is_in_a_range_that_begins_there(start, code):
    """A broker would cut it off and append there: what follows are records that are lost."""
    data = b"".join(BATCHES)[:-9]
    found = search({f"/logs/t-0/{0:020d}.log": data}, "--from", start)
    assert (found[0], bool(found[3])) == (code, code == 3)


@pytest.mark.parametrize(("jobs", "count", "is_apart"), [(0, 2, False), (1, 2, False), (2, 2, True), (2, 1, False)])
def test_one_job_or_partition_needs_no_thread(monkeypatch, jobs, count, is_apart):
    asked = []
    monkeypatch.setattr(partition_search, "InOrder", lambda *arguments: asked.append(arguments) or MagicMock())
    monkeypatch.setattr(partition_search, "_in_turn", lambda search: [])
    request = conditions.FindRequest()
    partitions = [SimpleNamespace(topic="t")] * count
    assert [*partition_search.find_records(FaultyFilesystem(), partitions, request, jobs=jobs)] == []
    assert bool(asked) == is_apart


@pytest.mark.parametrize(("more", "is_kept"), [(-1, False), (0, True), (1, True)])
def test_so_many_bytes_are_kept_of_a_partition_before_its_turn(monkeypatch, more, is_kept):
    block = block_of([5, 6], (2,))
    size = 2 * partition_search._BYTES_PER_RECORD + len(block.buffer) + 2 * partition_search._BYTES_PER_RECORD
    monkeypatch.setattr(partition_search, "KEPT_BYTES", size + more)
    events = [partition_search.NotRead("p", OSError()), partition_search.FoundRecords(None, context.FoundBlock(block))]
    search = SimpleNamespace(events=lambda *, copies: (event for event in events), result=None)
    assert partition_search._ahead(search) == (None, events if is_kept else None)
