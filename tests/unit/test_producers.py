"""Producers' state: batch by batch as ProducerAppendInfo and ProducerStateEntry do, and its small rules at each boundary."""

import random
import struct
from itertools import product

import pytest

from kafkalog_cli.broker import producer_table
from kafkalog_cli.broker.cleaning.log import Damaged, type_of_control
from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.broker.producer_state import (
    CompletedTxn,
    ProducerReplay,
    ProducerState,
    _rows_of_producers,
    is_expired,
)
from kafkalog_cli.broker.producer_table import ProducerTable
from kafkalog_cli.format.batch import Batch, BatchColumns
from kafkalog_cli.format.control import usual_marker
from kafkalog_cli.format.limits import DEFAULT_LIMITS
from kafkalog_cli.format.producer_snapshot import PRODUCER_ENTRY, ProducerEntry
from kafkalog_cli.log.reading import records
from kafkalog_cli.log.reading.records import RecordReader
from kafkalog_cli.log.reading.scan import Scan
from tests.support.faulty_fs import BytesFile, FaultyFilesystem
from tests.support.logs import CONTROL, TRANSACTIONAL, R, batch_v2, end_marker

# -- Producers' state against a twin that goes batch by batch, as ProducerAppendInfo and ProducerStateEntry do


PRODUCERS = (7, 8, 1 << 40)


def log_of(steps):
    """The bytes of the log, and the same as the twin takes it."""
    data, taken, offset = b"", [], 100
    for producer, epoch, sequence, count, timestamp, kind in steps:
        if kind in ("commit", "abort"):
            marker = R(offset, timestamp, struct.pack(">hh", 0, kind == "commit"), struct.pack(">hi", 0, 3))
            data += batch_v2([marker], producer=(producer, epoch, -1), bits=TRANSACTIONAL | CONTROL)
            count = 1
        elif kind == "nobody":
            data += batch_v2([R(offset + i, timestamp) for i in range(count)])
        else:
            bits = TRANSACTIONAL if kind == "txn" else 0
            records = [R(offset + i, timestamp) for i in range(count)]
            data += batch_v2(records, producer=(producer, epoch, sequence), bits=bits)
        if kind != "nobody":
            taken.append((producer, epoch, sequence, offset, offset + count - 1, timestamp, kind))
        offset += count
    return data, taken


def replayed(data, state, *, at_once):
    """The transactions that ended, each with the last stable offset that it left."""
    ended = []
    note = (
        (lambda transaction: ended.append((tuple(transaction), state.last_stable_offset(transaction))))
        if at_once
        else None
    )
    replay = ProducerReplay(state, DEFAULT_LIMITS, note)
    with FaultyFilesystem({"/log": data}).open_read("/log") as file:
        for chunk in Scan(file):
            replay.apply(chunk)
    replay.finish()
    return ended


def test_an_emptied_marker_only_makes_the_producer_known():
    """As the real loader has it, of a producer of which nothing else is there."""
    data = batch_v2([], base=5, last=5, producer=(7, 0, -1), bits=TRANSACTIONAL | CONTROL)
    state = ProducerState()
    assert replayed(data, state, at_once=True) == []
    assert state.producers == {7: ProducerEntry(7, -1, -1, -1, 0, -1, -1, -1)}
    log, _ = log_of([(7, 2, 5, 3, 1000, "data")])
    replayed(log, state, at_once=True)
    before = dict(state.producers)
    replayed(data, state, at_once=True)
    assert state.producers == before


def test_a_control_record_that_is_no_marker_fails_the_load():
    record = R(5, 1, struct.pack(">hh", 0, 2), b"")
    with pytest.raises(LoadFailed):
        replayed(batch_v2([record], producer=(7, 0, -1), bits=CONTROL), ProducerState(), at_once=True)


def test_transactions_that_begin_and_end_in_one_read_are_not_kept_as_open():
    """Of a million transactions one after the other none is open at a time."""
    state = ProducerState()
    replay = ProducerReplay(state, DEFAULT_LIMITS)
    for number in range(50):
        base = 2 * number
        data = batch_v2([R(0, 1, b"k", b"v")], base=base, last=base, producer=(7, 0, number), bits=TRANSACTIONAL)
        if number < 49:
            marker = R(0, 1, struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 0))
            bits = TRANSACTIONAL | CONTROL
            data += batch_v2([marker], base=base + 1, last=base + 1, producer=(7, 0, -1), bits=bits)
        with FaultyFilesystem({"/log": data}).open_read("/log") as file:
            for chunk in Scan(file):
                replay.apply(chunk)
        assert sum(map(len, replay._started.values())) == (number == 49)
    replay.finish()
    assert state.ongoing == {98: 7}
    assert list(state.completed) == [(2 * number, 2 * number + 1) for number in range(49)]
    assert state.first_unstable_offset == 0


def result_of(call):
    try:
        return call()
    except (LoadFailed, Damaged) as failure:
        return getattr(failure, "java_class", None), str(failure)


def test_a_marker_is_read_at_once_as_a_reader_reads_it(monkeypatch):
    """By the replay and by the cleaner. Each byte of a marker's batch behind its length and magic takes other values; append times and codecs too."""
    usual, seen = usual_marker, set()

    def outcome(data, reads):
        monkeypatch.setattr(records, "usual_marker", reads)
        (chunk,) = Scan(BytesFile(data))
        marker = chunk.batches.row(0)
        return (
            result_of(lambda: ProducerReplay(ProducerState(), DEFAULT_LIMITS)._marker(chunk, marker)),
            result_of(lambda: type_of_control(RecordReader(), chunk, 0, marker, "/log")),
        )

    def noting(records):
        found = usual(records)
        seen.add(found is not None)
        return found

    for commits, epoch in ((0, 0), (1, 7), (1, -1), (0, (1 << 31) - 1)):
        data = end_marker(5, 1000, (7, 3), commits, epoch)
        changed = [data, data[:22] + bytes([data[22] | 8]) + data[23:42] + b"\x01" + data[43:]]  # append time
        for at in range(17, len(data)):
            changed += [data[:at] + bytes([byte]) + data[at + 1 :] for byte in (0, 1, 2, 8, 9, 64, 127, 128, 255)]
        changed.append(batch_v2([], base=5, last=5, producer=(7, 3, -1), bits=TRANSACTIONAL | CONTROL))
        changed += [
            data[:8] + struct.pack(">i", len(data) - 12 + size) + data[12 : len(data) + size] for size in (-1, -6)
        ]
        changed.append(data[:8] + struct.pack(">i", len(data) - 11) + data[12:] + b"\0")
        for one in changed:
            assert outcome(one, noting) == outcome(one, lambda _: None), one.hex()
    assert seen == {True, False}


# -- The small rules of producer states, at each boundary: what is stable, what expires, in which order entries are written


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


def test_rows_of_producers_are_batches_v2_with_a_producer_id():
    rows = [
        Batch(0, 100, 5, 6, 0, magic, 0, 0, 0, 0, producer, 0, 0, 1, 1)
        for magic, producer in product((0, 1, 2, 3), (-2, -1, 0, 1))
    ]
    expected = [at for at, row in enumerate(rows) if row.magic in (2, 3) and row.producer_id in (0, 1)]
    assert _rows_of_producers(BatchColumns.from_rows(rows)) == expected


def test_a_table_is_like_a_dict():
    """Of ids that often come again and fill the table many times over."""
    choice = random.Random(1)
    table, twin = ProducerTable(), {}
    for _ in range(3000):
        key = choice.choice((choice.randrange(-9, 900), choice.randrange(-(2**63), 2**63)))
        assert (key in table, table.get(key)) == (key in twin, twin.get(key))
        table[key] = twin[key] = entry(key, choice.randrange(2**60), choice.randrange(-1, 2**60))
    assert list(table.items()) == list(twin.items())
    assert list(table.entries()) == list(twin.values())
    assert table == twin
    table.clear()
    assert (len(table), list(table), 5 in table) == (0, [], False)
