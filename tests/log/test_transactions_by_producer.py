"""Open transactions that are packed when they are many come to the same as a dictionary of all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.errors import Unreadable
from kafkalog_cli.log import open_transactions
from kafkalog_cli.log.open_transactions import OpenTransaction, PackedTransactions, TransactionsByProducer

producers = st.integers(0, 12)
steps = st.lists(
    st.tuples(producers, st.one_of(st.none(), st.tuples(st.integers(-1, 9), st.integers(0, 1 << 62), st.just(-1)))),
    max_size=60,
)


@given(before=steps, after=steps, most=st.integers(0, 9))
def test_as_a_dictionary(before, after, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_transactions, "_MOST_UNPACKED", most)
        known, wanted = TransactionsByProducer("t-0"), {}
        for part in (before, after):
            for producer, rest in part:
                assert known.get(producer) == wanted.get(producer)
                if rest is None:
                    known.end(producer)
                    wanted.pop(producer, None)
                else:
                    wanted[producer] = OpenTransaction(producer, *rest)
                    known.put(wanted[producer])
            found = known.by_first_offset()
            assert sorted(found) == sorted(wanted.values())
            assert [one.first_offset for one in found] == sorted(one.first_offset for one in wanted.values())
            known = TransactionsByProducer("t-0", found)


def test_a_packed_sequence():
    known = TransactionsByProducer("t-0")
    many = open_transactions._MOST_UNPACKED + 5
    for producer in range(many):
        known.put(OpenTransaction(producer, 3, many - producer, 99))
    found = known.by_first_offset()
    assert isinstance(found, PackedTransactions)
    assert len(found) == many
    assert found[0] == OpenTransaction(many - 1, 3, 1, 99)
    assert found[-1] == list(found)[-1] == OpenTransaction(0, 3, many, 99)
    assert list(found[1:3]) == [found[1], found[2]]


def test_more_open_transactions_than_are_held_in_memory(monkeypatch):
    monkeypatch.setattr(open_transactions, "_MOST_UNPACKED", 4)
    monkeypatch.setattr(open_transactions, "MOST_PRODUCERS", 10)
    known = TransactionsByProducer("logs/t-0")
    for producer in range(14):
        known.put(OpenTransaction(producer, 0, producer, 0))
    assert len(known.get(13)) == 4
    with pytest.raises(Unreadable, match=r"logs/t-0: .*more than 10 transactions are open"):
        known.by_first_offset()
