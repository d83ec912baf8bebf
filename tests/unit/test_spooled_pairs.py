"""Pairs that are too many for memory come back as they were put in."""

import tempfile

from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.disk import spooled_pairs
from kafkalog_cli.disk.spooled_pairs import SpooledPairs

numbers = st.integers(-(2**63), 2**63 - 1)
parts = st.lists(st.lists(st.tuples(numbers, numbers), max_size=9), max_size=9)


def filled(spool, added):
    pairs = []
    for some in added:
        spool.extend(some)
        pairs += some
    return pairs


@given(parts, st.integers(1, 99), st.data())
def test_any_range_comes_back_in_both_directions(added, held_bytes, data):
    spool = SpooledPairs(held_bytes)
    pairs = filled(spool, added)
    assert len(spool) == len(pairs)
    begin, end = sorted((data.draw(st.integers(0, len(pairs))), data.draw(st.integers(0, len(pairs)))))
    assert list(spool.oldest_first(begin, end)) == pairs[begin:end]
    assert list(spool.newest_first(begin, end)) == pairs[begin:end][::-1]


def test_many_pairs_are_read_in_pieces():
    spool = SpooledPairs(1000)
    for at in range(100):
        spool.extend((at, at + number) for number in range(1000))
    assert next(spool.newest_first(0, 100_000)) == (99, 1098)
    assert sum(1 for _ in spool.newest_first(5, 99_995)) == 99_990
    assert [first for first, _ in spool.oldest_first(0, 100_000)] == [at // 1000 for at in range(100_000)]


def test_without_a_temporary_file_all_stays_in_memory(monkeypatch):
    def none(**_):
        raise OSError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "TemporaryFile", none)
    spool = SpooledPairs(20)
    pairs = [(at, -at) for at in range(20)]
    spool.extend(pairs)
    spool.extend(pairs)
    assert list(spool.newest_first(0, 40)) == [*pairs, *pairs][::-1]


few = st.lists(st.lists(st.tuples(st.integers(0, 9), numbers), max_size=9), max_size=9)


@given(few, st.data())
def test_spooled_ranges_are_ordered_as_in_a_treemap(added, data):
    """As java.util.TreeMap has them: ordered, and of the same first number the newest."""
    spool = SpooledPairs()
    pairs = filled(spool, added)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(pairs)), min_size=4, max_size=4)))
    ranges = [(cuts[0], cuts[1]), (cuts[2], cuts[3])]
    wanted = pairs[cuts[0] : cuts[1]] + pairs[cuts[2] : cuts[3]]
    assert list(spool.by_first(ranges)) == sorted(dict(wanted).items())
    assert list(spool.last_first()) == sorted(dict(pairs).items(), reverse=True)


def test_too_many_pairs_out_of_order_stay_as_they_are(monkeypatch):
    monkeypatch.setattr(spooled_pairs, "MOST_SORTED", 2)
    spool = SpooledPairs()
    spool.extend([(2, 7), (1, 5), (1, 6)])
    assert list(spool.by_first([(0, 3)])) == [(2, 7), (1, 6)]
    assert list(spool.by_first([(0, 2)])) == [(1, 5), (2, 7)]
    assert list(spool.last_first()) == [(1, 6), (2, 7)]


def test_any_number_of_equal_first_numbers_is_one_pair():
    spool = SpooledPairs()
    for _ in range(100):
        spool.extend([(1, 1)] * 10_000)
    spool.extend([(1, 2), (3, 4)])
    assert list(spool.by_first([(0, len(spool))])) == [(1, 2), (3, 4)]
    assert list(spool.last_first()) == [(3, 4), (1, 2)]
