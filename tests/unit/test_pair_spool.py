"""Pairs that are too many for memory come back as they were put in."""

import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.disk.pair_spool import PairSpool

numbers = st.integers(-(2**63), 2**63 - 1)
parts = st.lists(st.lists(st.tuples(numbers, numbers), max_size=9), max_size=9)


def filled(spool, added):
    pairs = []
    for some in added:
        spool.extend(some)
        pairs += some
    return pairs


@given(parts, st.integers(1, 6), st.data())
def test_any_range_newest_first(added, in_memory, data):
    spool = PairSpool(in_memory)
    pairs = filled(spool, added)
    assert len(spool) == len(pairs)
    begin, end = sorted((data.draw(st.integers(0, len(pairs))), data.draw(st.integers(0, len(pairs)))))
    assert list(spool.newest_first(begin, end)) == pairs[begin:end][::-1]


def test_memory_stays_small():
    spool = PairSpool(100)
    for at in range(1000):
        spool.extend((at, at + number) for number in range(100))
        assert len(spool._recent) <= 2 * 200
    assert len(spool) == 100_000
    assert next(spool.newest_first(0, 100_000)) == (999, 1098)


class Full:
    """A file for which there is no room."""

    def __getattr__(self, name):
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("when", ["at once", "later"])
def test_without_room_all_stays_in_memory(monkeypatch, when):
    spool = PairSpool(2)
    pairs = [(at, -at) for at in range(20)]
    if when == "later":
        spool.extend(pairs[:5])
        spool._file = Full()
        spool.extend(pairs[5:])
        with pytest.raises(OSError, match="space"):
            list(spool.newest_first(0, 5))  # what lay in a file that is gone
        assert list(spool.newest_first(5, 20)) == pairs[5:][::-1]
        return

    def none(**_):
        raise OSError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "TemporaryFile", none)
    spool.extend(pairs)
    spool.extend(pairs)
    assert list(spool.newest_first(0, 40)) == [*pairs, *pairs][::-1]


few = st.lists(st.lists(st.tuples(st.integers(0, 9), numbers), max_size=9), max_size=9)


@given(few, st.integers(1, 6), st.data())
def test_any_ranges_by_their_first_number(added, in_memory, data):
    """As java.util.TreeMap has them: ordered, and of the same first number the newest."""
    spool = PairSpool(in_memory)
    pairs = filled(spool, added)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(pairs)), min_size=4, max_size=4)))
    ranges = [(cuts[0], cuts[1]), (cuts[2], cuts[3])]
    wanted = pairs[cuts[0] : cuts[1]] + pairs[cuts[2] : cuts[3]]
    assert list(spool.by_first(ranges)) == sorted(dict(wanted).items())


def test_of_equal_first_numbers_in_order_the_newest_counts_too():
    spool = PairSpool(9)
    spool.extend([(1, 5), (1, 6), (2, 7)])
    assert list(spool.by_first([(0, 3)])) == [(1, 6), (2, 7)]


def test_pairs_out_of_order_are_sorted_with_little_memory():
    spool = PairSpool(1000)
    for at in range(100, 0, -1):
        spool.extend((at * 1000 + number, at) for number in range(1000))
    assert list(spool.by_first([(0, len(spool))])) == [(at, at // 1000) for at in range(1000, 101_000)]
