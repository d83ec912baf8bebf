"""Transactions of a log: where a replay begins, which are open, and how each ends."""

import random

import pytest

from kafkalog_cli.disk.fs import RealFilesystem, read_all
from kafkalog_cli.errors import Unreadable
from kafkalog_cli.format import producer_snapshot
from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.log import open_transactions as open_transactions_module
from kafkalog_cli.log.open_transactions import (
    OpenTransaction,
    TransactionReplay,
    headers_of,
    newest_snapshot,
    open_in,
    parts_to_replay,
)
from kafkalog_cli.log.open_transactions import open_transactions as open_transactions_of
from kafkalog_cli.log.partition import open_partition
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.logs import offset_index

# -- Open transactions: a replay must come to what the broker's own snapshots say, and made batches one by one


FS = RealFilesystem()
TRANSACTIONAL, CONTROL = 0x10, 0x30


def open_transactions(entries, batches, start, end):
    return open_transactions_of("t-0", open_in(entries, "t-0"), batches, start, end)


def snapshots_of(partition):
    decoded = [
        (file.name.offset, producer_snapshot.decode(read_all(FS, file.status.path))) for file in partition.snapshots
    ]
    return [(offset, entries) for offset, (entries, faults) in decoded if not faults]


def replay(partition, entries, start, end):
    parts = parts_to_replay(FS, partition.segments, start)
    return open_transactions(entries, headers_of(FS, parts, []), start, end)


@pytest.mark.parametrize("name", ["txn/data", "internal/data", "compact-tx/before"])
def test_replay_from_any_snapshot_gives_the_later_ones(corpus, name):
    compared = transactions = 0
    for directory in sorted((corpus / name).glob("*-[0-9]")):
        partition = open_partition(FS, str(directory))
        starts = [(0, []), *snapshots_of(partition)]
        for at, (start, entries) in enumerate(starts):
            for end, later in starts[at + 1 :]:
                expected = sorted(
                    (entry.current_txn_first_offset, entry.producer_id, entry.producer_epoch)
                    for entry in later
                    if entry.current_txn_first_offset >= 0
                )
                found = replay(partition, entries, start, end)
                assert sorted((t.first_offset, t.producer_id, t.producer_epoch) for t in found) == expected
                compared += 1
                transactions += len(expected)
    assert compared >= 10
    assert transactions > 0


def test_a_replay_from_inside_a_segment_reads_from_its_index_entry_on(corpus):
    partition = open_partition(FS, str(corpus / "txn" / "data" / "tx-0"))
    parts = parts_to_replay(FS, partition.segments, 178)
    assert [part.segment.base_offset for part in parts] == [177, 258]
    assert parts[1].position == 0
    later = parts_to_replay(FS, partition.segments, 250)
    assert 0 < later[0].position < partition.segments[-2].log.size_bytes
    first = next(iter(headers_of(FS, later, [])))
    assert 177 < first.base_offset <= 250


def batch(base, *, producer=7, attributes=0, count=1, epoch=0, timestamp=5):
    last = base + max(count, 1) - 1
    return Batch(0, 70, base, last, 0, 2, 0, attributes, timestamp, timestamp, producer, epoch, 0, count, 1)


def entry(producer, first_offset):
    return ProducerEntry(producer, 3, 0, 10, 0, 99, 0, first_offset)


def test_a_transaction_keeps_its_first_offset_and_the_last_time():
    batches = [batch(0, attributes=TRANSACTIONAL), batch(1, attributes=TRANSACTIONAL, epoch=1, timestamp=9)]
    assert open_transactions([], batches, 0, 10) == [OpenTransaction(7, 1, 0, 9)]


def test_snapshot_entries_stay_open_until_their_marker():
    entries = [entry(7, 4), entry(8, -1), entry(9, 2)]
    assert open_transactions(entries, [], 20, 20) == [OpenTransaction(9, 3, 2, 99), OpenTransaction(7, 3, 4, 99)]
    assert open_transactions(entries, [batch(20, producer=9, attributes=CONTROL)], 20, 21) == [
        OpenTransaction(7, 3, 4, 99)
    ]


def test_batches_outside_the_range_do_not_count():
    batches = [batch(5, attributes=TRANSACTIONAL), batch(30, producer=8, attributes=TRANSACTIONAL)]
    assert open_transactions([], batches, 6, 30) == []


@pytest.mark.parametrize("seed", range(80))
def test_markers_end_what_began_after_the_marker_before(seed):
    """Against the rule asked of the whole log again for each marker."""
    chance = random.Random(seed)
    batches = [
        batch(
            at, producer=chance.randrange(-1, 3), attributes=chance.choice([0, TRANSACTIONAL, TRANSACTIONAL, CONTROL]),
            count=chance.choice([-1, 0, 1, 1]),
        )
        for at in range(chance.randrange(30))
    ]  # fmt: skip

    def counts(one):
        return one.producer_id >= 0 and (one.records_count or not one.is_control)

    def is_open_since(at, producer):
        own = [one for one in batches[:at] if one.producer_id == producer and counts(one)]
        ends = [number for number, one in enumerate(own) if one.is_control]
        begun = [one.base_offset for one in own[ends[-1] + 1 if ends else 0 :] if one.is_transactional]
        return begun[0] if begun else None

    replay, cut = TransactionReplay(), chance.randrange(31)
    found = [
        (marker.base_offset, first, dict(replay.first_offsets))
        for part in (batches[:cut], batches[cut:])
        for marker, first in replay.ended(part)
    ]
    ends = [at for at, one in enumerate(batches) if one.is_control and counts(one)]
    assert [(at, first) for at, first, _ in found] == [(at, is_open_since(at, batches[at].producer_id)) for at in ends]
    for at, opened in [*((at + 1, opened) for at, _, opened in found), (len(batches), replay.first_offsets)]:
        still = {producer: is_open_since(at, producer) for producer in range(3)}
        assert opened == {producer: first for producer, first in still.items() if first is not None}


# -- Where a replay begins: the newest snapshot, the segment that has its offset, the entry of the index


def directory(*positions):
    """Segments at 0, 10 and 20 of 300 bytes, with index entries (offset, position) in that at 10; snapshots at 0, 10, 20."""
    files = {f"/t-0/{base:020d}.log": bytes(300) for base in (0, 10, 20)}
    files |= {
        f"/t-0/{at:020d}.snapshot": producer_snapshot.encode([ProducerEntry(at + 1, 3, 0, 10, 0, 99, 0, at)])
        for at in (0, 10, 20)
    }
    return FaultyFilesystem(files | {f"/t-0/{10:020d}.index": offset_index(positions, 10)})


@pytest.mark.parametrize("start", range(25))
def test_a_replay_begins_with_the_segment_that_has_the_offset_and_with_its_entry(start):
    """From the name of a segment on it begins with that segment; an entry counts from its own offset on."""
    fs = directory((13, 70), (16, 140))
    parts = parts_to_replay(fs, open_partition(fs, "/t-0").segments, start)
    position = 0 if start not in range(13, 20) else 70 if start < 16 else 140
    wanted = [(base, 0) for base in (0, 10, 20) if base + 9 >= start or base == 20]
    assert [(part.segment.base_offset, part.position) for part in parts] == [(wanted[0][0], position), *wanted[1:]]


@pytest.mark.parametrize(("position", "used"), [(-1, 0), (0, 0), (1, 1), (299, 299), (300, 0), (301, 0)])
def test_an_entry_that_does_not_lie_in_the_log_is_not_used(position, used):
    """A replay from the end of the file, or behind it, would miss every batch of the segment."""
    fs = directory((13, position))
    assert parts_to_replay(fs, open_partition(fs, "/t-0").segments, 15)[0].position == used


def test_from_the_name_of_a_segment_on_no_entry_is_asked():
    """A damaged index may have an entry for the first offset that lies behind its batch."""
    fs = directory((10, 70), (13, 140))
    assert parts_to_replay(fs, open_partition(fs, "/t-0").segments, 10)[0].position == 0


@pytest.mark.parametrize("end", range(-1, 25))
def test_the_newest_snapshot_is_the_last_at_or_below_the_offset(end):
    fs = directory()
    offset, entries = newest_snapshot(fs, open_partition(fs, "/t-0"), end, lambda path, faults: None)
    wanted = max((at for at in (0, 10, 20) if at <= end), default=None)
    assert offset == wanted
    assert [one.producer_id for one in entries] == ([] if wanted is None else [wanted + 1])


def test_a_replay_of_more_open_transactions_than_the_limit_is_refused(monkeypatch):
    monkeypatch.setattr(open_transactions_module, "MOST_OPEN", 10)
    batches = [batch(at, producer=at, attributes=TRANSACTIONAL) for at in range(11)]
    assert len(open_transactions([], batches[:10], 0, 99)) == 10
    with pytest.raises(Unreadable, match=r"t-0: .*more than 10 transactions are open"):
        open_transactions([], batches, 0, 99)
