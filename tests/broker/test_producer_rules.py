"""The small rules of producer states, at each boundary: what is stable, what expires, in which order entries are written."""

import pickle
import random
from itertools import product

import pytest

from kafkalog_cli.broker import producer_table
from kafkalog_cli.broker.producer_state import CompletedTxn, ProducerState, _rows_of_producers, is_expired
from kafkalog_cli.broker.producer_table import ProducerTable
from kafkalog_cli.format.batch import Batch, BatchColumns
from kafkalog_cli.format.producer_snapshot import PRODUCER_ENTRY, ProducerEntry


def entry(producer_id, timestamp=0, transaction=-1):
    return ProducerEntry(producer_id, 0, 0, 10, 0, timestamp, 0, transaction)


def test_a_transaction_counts_as_replicated_when_its_last_offset_is():
    """ProducerStateManager.onHighWatermarkUpdated: an end at the high watermark itself is not replicated yet."""
    for first, last, watermark, ongoing in product((1, 3), (4, 5), range(8), (None, 0, 2, 6)):
        state = ProducerState()
        state.completed[first] = last
        if ongoing is not None:
            state.ongoing[ongoing] = 7
        limits = {watermark} | ({first} if last not in range(watermark) else set()) | ({ongoing} - {None})
        assert state.stable_below(watermark) == min(limits)


def test_without_another_transaction_all_up_to_the_marker_is_stable():
    state = ProducerState()
    state.ongoing[3] = 7
    ended = CompletedTxn(7, 3, 9, False)
    assert state.last_stable_offset(ended) == 10
    state.ongoing[5] = 8
    assert state.last_stable_offset(ended) == 5


def test_a_producer_expires_when_its_time_is_over_and_no_transaction_is_open():
    """ProducerStateManager.isProducerExpired: exactly as old as the limit is expired."""
    for timestamp, transaction in product(range(95, 102), (-1, 0, 1)):
        expected = transaction == -1 and 100 - timestamp in range(3, 101)
        assert is_expired(entry(1, timestamp, transaction), 100, 3) == expected


class JavaHashMap:
    """java.util.HashMap of Long keys: chains in the order of insertion, doubled when more than three quarters are in."""

    def __init__(self):
        self.table = [[] for _ in range(16)]
        self.size = 0

    def put(self, key):
        self._chain(self.table, key).append(key)
        self.size += 1
        if 4 * self.size > 3 * len(self.table):
            wider = [[] for _ in range(2 * len(self.table))]
            for old in self.keys():
                self._chain(wider, old).append(old)
            self.table = wider

    def keys(self):
        return [key for chain in self.table for key in chain]

    @staticmethod
    def _chain(table, key):
        folded = (key ^ (key >> 32)) % 2**32
        return table[(folded ^ (folded >> 16)) % len(table)]


@pytest.mark.parametrize("few", [10, 100])
@pytest.mark.parametrize("largest", [50, 2**16 + 40, 2**40])
@pytest.mark.parametrize("count", [0, 1, 11, 12, 13, 24, 25, 48, 49])
def test_entries_are_written_in_the_order_of_a_hash_map(count, largest, few, monkeypatch):
    """Few are sorted without numpy, which takes long to load."""
    monkeypatch.setattr(producer_table, "_PIECE_ENTRIES", few)
    keys = random.Random(count).sample(range(largest), count)
    expected = JavaHashMap()
    for key in keys:
        expected.put(key)
    table = ProducerTable()
    for key in keys:
        table[key] = entry(key)
    packed = b"".join(table.in_snapshot_order()())
    assert [fields[0] for fields in PRODUCER_ENTRY.struct.iter_unpack(packed)] == expected.keys()


def test_rows_of_producers_are_the_same_of_plain_and_compiled_columns():
    rows = [
        Batch(0, 100, 5, 6, 0, magic, 0, 0, 0, 0, producer, 0, 0, 1, 1)
        for magic, producer in product((0, 1, 2, 3), (-2, -1, 0, 1))
    ]
    plain = BatchColumns.from_rows(rows)
    compiled = plain.arrays()
    expected = [at for at, row in enumerate(rows) if row.magic in (2, 3) and row.producer_id in (0, 1)]
    assert _rows_of_producers(plain) == _rows_of_producers(compiled) == expected


def test_a_table_is_like_a_dict_and_survives_pickling():
    """Of ids that often come again and fill the table many times over."""
    choice = random.Random(1)
    table, twin = ProducerTable(), {}
    for _ in range(3000):
        key = choice.choice((choice.randrange(-9, 900), choice.randrange(-(2**63), 2**63)))
        assert (key in table, table.get(key)) == (key in twin, twin.get(key))
        table[key] = twin[key] = entry(key, choice.randrange(2**60), choice.randrange(-1, 2**60))
    assert list(table.items()) == list(twin.items())
    assert list(table.entries()) == list(twin.values())
    assert pickle.loads(pickle.dumps(table)) == table == twin
    table.clear()
    assert (len(table), list(table), 5 in table) == (0, [], False)
