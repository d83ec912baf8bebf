"""What a broker's start does exactly at a limit: of offsets, of sizes, of snapshots. Kafka's rules on small logs."""

import struct
from itertools import accumulate

import pytest

from kafkalog_cli.broker import producer_state, valid_rows
from kafkalog_cli.broker.leader_epochs import LeaderEpochs
from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.broker.loaded_segment import LoadedSegment, LoadSettings
from kafkalog_cli.broker.log_loader import LogLoader, complete_swaps
from kafkalog_cli.broker.producer_snapshots import ProducerSnapshots, segments_between
from kafkalog_cli.broker.producer_state import AbortedTransactions, CompletedTxn, ProducerReplay, ProducerState
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.errors import Refused
from kafkalog_cli.format.index import MAX_RELATIVE_OFFSET
from kafkalog_cli.format.limits import DEFAULT_LIMITS
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.log.log_dir import StartState
from kafkalog_cli.log.partition import MAX_SEGMENT_BYTES
from kafkalog_cli.log.reading.header import header_at
from kafkalog_cli.log.reading.scan import Scan
from tests.support.faulty_fs import BytesFile, FaultyFilesystem
from tests.support.logs import CONTROL, TRANSACTIONAL, R, aborted_txns, batch_v2, message, producer_snapshot

SETTINGS = LoadSettings(now_ms=0)


def batch(base, last=None, **options):
    return batch_v2([R(base, 1000)], last=last, **options)


def draft_of(files):
    """A draft of a partition; `files` by name, segments' logs by base offset."""
    names = {f"{name:020}.log" if isinstance(name, int) else name: data for name, data in files.items()}
    return Draft(FaultyFilesystem({f"/t-0/{name}": data for name, data in names.items()}), "/t-0")


def segment_of(*batches, base=0, settings=SETTINGS, **files):
    draft = draft_of({base: b"".join(batches)} | {f"{base:020}.{kind}": data for kind, data in files.items()})
    return LoadedSegment(draft, base, settings)


def name(offset, kind):
    return f"{offset:020}.{kind}"


# -- a segment


def test_a_log_file_of_an_int32_is_opened(tmp_path):
    log = tmp_path / f"{0:020}.log"
    for size_bytes, fails in ((MAX_SEGMENT_BYTES, False), (1 << 31, True)):
        with log.open("wb") as file:
            file.truncate(size_bytes)  # it takes no room on the disk
        draft = Draft(RealFilesystem(), str(tmp_path))
        if fails:
            with pytest.raises(LoadFailed, match="is over"):
                LoadedSegment(draft, 0, SETTINGS)
        else:
            assert LoadedSegment(draft, 0, SETTINGS).size_bytes == MAX_SEGMENT_BYTES == (1 << 31) - 1


@pytest.mark.parametrize(("last", "is_recovered"), [(4, True), (5, False)])
def test_an_aborted_transaction_may_end_with_the_first_offset(last, is_recovered):
    """TransactionIndex.sanityCheck: lastOffset < startOffset."""
    segment = segment_of(batch(5), base=5, index=b"", timeindex=b"", txnindex=aborted_txns([(7, 1, last, last)]))
    assert segment.check_opened() is is_recovered


@pytest.mark.parametrize(
    ("batches", "offset", "found"),
    [
        ([(0, 5), (5, 6)], 5, 1),
        ([(0, 5), (7, 8)], 5, 0),
        ([(0, 5), (7, 8)], 6, 1),
        ([(7, 7), (7, 8), (9, 9)], 7, 0),
        ([(0, 5)], 5, 0),
        ([(0, 5)], 6, None),
    ],
)
def test_the_first_batch_of_a_read(batches, offset, found):
    """FileRecords.searchForOffsetFromPosition."""
    data = [batch(*one) for one in batches]
    batch_found = segment_of(*data).find(offset)
    position = None if batch_found is None else batch_found.position
    assert position == (None if found is None else sum(map(len, data[:found])))


@pytest.mark.parametrize(("relative", "is_beyond"), [(MAX_RELATIVE_OFFSET, False), (MAX_RELATIVE_OFFSET + 1, True)])
def test_the_last_offset_that_indexes_can_express(relative, is_beyond):
    assert segment_of(batch(5), batch(5 + relative), base=5).has_overflow() is is_beyond
    assert not segment_of(base=5).has_overflow()


def test_a_batch_v2_has_its_base_offset_in_its_header():
    data = bytearray(batch_v2([R(-1, 1000, None, b"v" * 100)], codec=1))
    data[70:90] = bytes(20)
    segment = segment_of(bytes(data))
    with segment.draft.reader(segment.log_name) as log:
        assert segment.first_offset(log, header_at(log, 0)) == -1


def test_an_index_may_be_full():
    settings = LoadSettings(now_ms=0, segment_index_bytes=16)
    entries = [struct.pack(">ii", at, at) for at in (1, 2, 3)]
    for count, fails in ((2, False), (3, True)):
        segment = segment_of(settings=settings, index=b"".join(entries[:count]), timeindex=b"")
        if fails:
            with pytest.raises(LoadFailed, match="newPosition > limit"):
                segment.make_room()
        else:
            segment.make_room()


# -- a start


def load(files, **start):
    return LogLoader(draft_of(files), StartState(**start), SETTINGS).load()


@pytest.mark.parametrize(("recovery_point", "recovered"), [((1 << 63) - 1, ()), ((1 << 63) - 2, (0,)), (0, (0,))])
def test_the_largest_recovery_point_recovers_nothing(recovery_point, recovered):
    """LogSegments.values(recoveryPoint, Long.MAX_VALUE): an empty range where both are the same."""
    files = {0: batch(0), name(0, "index"): b"", name(0, "timeindex"): b""}
    assert load(files, is_clean=False, recovery_point=recovery_point).recovered == recovered


def test_a_control_batch_that_cannot_be_read_is_the_last_of_the_log():
    """ProducerStateManager throws while it reads the record: the batch itself was checked and indexed before."""
    odd = batch_v2([R(1, 1000, b"k", b"v")], producer=(7, 0, -1), bits=TRANSACTIONAL | CONTROL)
    segment = segment_of(batch(0), odd, batch(2))
    assert segment.recover(ProducerState(), LeaderEpochs()).cut_bytes == len(batch(2))
    assert segment.size_bytes == len(batch(0) + odd)


@pytest.mark.parametrize(("log_start", "removed"), [(1, ()), (2, (0,))])
def test_a_log_may_end_where_it_starts(log_start, removed):
    """LogLoader.recoverLog: logEndOffset >= logStartOffset."""
    files = {0: batch(0), name(0, "index"): b"", name(0, "timeindex"): b""}
    loaded = load(files, is_clean=True, log_start_offset=log_start)
    assert (loaded.removed, loaded.log_end_offset) == (removed, log_start)


@pytest.mark.parametrize(("unstable", "found"), [(10, 12), (12, 12), (13, 12), (15, 12), (16, 16), (-1, None)])
def test_the_first_unstable_offset_is_that_of_a_batch(unstable, found):
    """UnifiedLog.fetchLastStableOffsetMetadata converts it in the log."""
    open_transaction = producer_snapshot([(7, 0, 0, 15, 0, 0, 0, unstable)])
    files = {
        10: batch(12, 15),
        name(10, "index"): b"",
        name(10, "timeindex"): b"",
        name(16, "snapshot"): open_transaction,
    }
    assert load(files, is_clean=True, recovery_point=16).first_unstable_offset == found


def test_swaps_at_or_above_a_cleaned_file_are_undone():
    """LogLoader.removeTempFilesAndCollectSwapFiles: offset >= minCleanedFileOffset."""
    draft = draft_of({
        4: batch(4), name(4, "log.swap"): batch(4), name(5, "log.swap"): batch(5), name(6, "log.swap"): batch(6),
        name(5, "index.cleaned"): b"", name(9, "log"): b"",
    })  # fmt: skip
    complete_swaps(draft, SETTINGS)
    assert [found for found in draft.names() if ".log" in found] == [name(4, "log"), name(9, "log")]


def test_a_swap_replaces_the_files_in_its_range():
    """LogLoader: minSwapFileOffset <= baseOffset < maxSwapFileOffset; its indexes are made anew."""
    draft = draft_of({
        name(4, "txnindex"): b"", name(5, "txnindex"): b"", name(7, "txnindex"): b"", name(8, "txnindex"): b"",
        name(5, "log.swap"): batch(5, 7),
    })  # fmt: skip
    complete_swaps(draft, SETTINGS)
    assert [found for found in draft.names() if not found.endswith(".index")] == [
        name(4, "txnindex"),
        name(5, "log"),
        name(8, "txnindex"),
    ]


# -- valid batches


def test_an_epoch_starts_with_its_first_batch():
    found = [message(R(0, 1000), 1)] + [
        batch(at, epoch=epoch) for at, epoch in ((1, 2), (2, 3), (3, 3), (4, 1), (5, 4))
    ]
    (chunk,) = Scan(BytesFile(b"".join(found)))
    epochs = LeaderEpochs()
    epochs.assign(2, 0)
    valid_rows.assign_epochs(chunk, 5, epochs)
    assert [(entry.epoch, entry.start_offset) for entry in epochs.entries] == [(2, 0), (3, 2)]
    ends = [0, *accumulate(map(len, found))]
    assert [valid_rows.end_position(chunk, count) for count in range(7)] == ends


@pytest.mark.parametrize("data", [batch_v2([R(0, 1000, b"k", b"v" * 30)]), message(R(0, 1000, b"k", b"v" * 30), 1)])
@pytest.mark.parametrize("piece_bytes", [7, 1 << 20])
def test_a_large_batch_is_checked_in_pieces(data, piece_bytes, monkeypatch):
    monkeypatch.setattr(valid_rows, "PIECE_BYTES", piece_bytes)
    assert valid_rows.is_large_batch_valid(BytesFile(b"xy" + data + b"z"), 2)
    assert valid_rows.is_large_batch_valid(BytesFile(data), 0)
    assert not valid_rows.is_large_batch_valid(BytesFile(data[:-1]), 0)
    assert not valid_rows.is_large_batch_valid(BytesFile(data[:-1] + b"!"), 0)


# -- snapshots


def test_the_segments_of_a_range_are_those_that_kafka_loads():
    """LogSegments.values(from, to): from the floor of `from` on, below `to`."""
    draft = draft_of(dict.fromkeys((5, 10, 15), b""))
    segments = [LoadedSegment(draft, base, SETTINGS) for base in (5, 10, 15)]

    def between(first, end):
        return [segment.base_offset for segment in segments_between(segments, first, end)]

    assert [between(first, 15) for first in (4, 5, 9, 10, 11, 15)] == [[5, 10], [5, 10], [5, 10], [10], [10], []]
    assert [between(10, end) for end in (10, 11, 15, 16, None)] == [[], [10], [10], [10, 15], [10, 15]]
    assert between(14, 10) == []


def snapshots_at(*offsets, producers=()):
    draft = draft_of({name(0, "log"): b""} | {name(at, "snapshot"): producer_snapshot(producers) for at in offsets})
    return draft, ProducerSnapshots(draft, SETTINGS)


def test_a_snapshot_is_taken_above_the_last_one():
    """ProducerStateManager.takeSnapshot: lastMapOffset > lastSnapOffset."""
    draft, snapshots = snapshots_at()
    snapshots.take()
    assert draft.names() == [name(0, "log")]
    snapshots.end_offset = 1
    snapshots.take()
    assert draft.names() == [name(0, "log"), name(1, "snapshot")]


def test_a_snapshot_at_the_log_start_is_removed():
    """ProducerStateManager.truncateAndReload: offset > logEndOffset or offset <= logStartOffset."""
    draft, snapshots = snapshots_at(4, 5, 6, 9, 10)
    snapshots._truncate_and_reload(5, 9)
    assert draft.names() == [name(0, "log"), name(6, "snapshot"), name(9, "snapshot")]


@pytest.mark.parametrize(("last", "producers"), [(5, [1, 6]), (7, [1, 2, 6])])
def test_the_last_offset_is_looked_for_in_its_own_segment(last, producers):
    """UnifiedLog.rebuildProducerState: floorLogSegment(lastOffset); other segments are read to their ends."""
    draft, snapshots = snapshots_at()
    logs = {0: batch(1, producer=(1, 0, 0)) + batch(6, producer=(6, 0, 0)),
            5: batch(5, producer=(2, 0, 0)) + batch(7, producer=(3, 0, 0))}  # fmt: skip
    segments = [LoadedSegment(draft_of(logs), base, SETTINGS) for base in logs]
    snapshots._replay(segments, 0, last, frozenset())
    assert sorted(snapshots.state.producers) == producers


# -- producers


def test_ends_of_aborted_transactions_ascend_and_fit(monkeypatch):
    aborted = AbortedTransactions("/t-0/5.txnindex")
    monkeypatch.setattr(producer_state, "MOST_DATA_BYTES", 2 * 34)
    aborted.add(CompletedTxn(7, 5, 6, True), 5)
    with pytest.raises(LoadFailed, match="the abort at 6 is not after that at 6"):
        aborted.add(CompletedTxn(8, 5, 6, True), 5)
    aborted.add(CompletedTxn(8, 5, 7, True), 5)
    with pytest.raises(Refused, match="more than 68 bytes"):
        aborted.add(CompletedTxn(9, 5, 8, True), 5)


def test_producer_state_takes_as_many_producers_as_the_limit(monkeypatch):
    monkeypatch.setattr(producer_state, "MOST_PRODUCERS", 3)
    monkeypatch.setattr(producer_state, "MOST_PRODUCERS_AT_ONCE", 8)
    state = ProducerState()
    state.check_room(3)
    with pytest.raises(Refused, match="more than 3 producers"):
        state.check_room(4)
    state.producers[7] = ProducerEntry(7, 0, 0, 0, 0, 0, -1, -1)
    state.check_room(2, 0)
    state.check_room(1, 1)
    state.check_room(3, 0)
    with pytest.raises(Refused, match="the state of 3 producers with 1 open"):
        state.check_room(2, 1)
    state.ongoing[0] = 7
    state.check_room(1)
    with pytest.raises(Refused, match="the state of 3 producers with 1 open"):
        state.check_room(2)


def applied(*batches):
    """The replay after each of the batches as a read of its own."""
    replay = ProducerReplay(ProducerState(), DEFAULT_LIMITS)
    for data in batches:
        for chunk in Scan(BytesFile(data)):
            replay.apply(chunk)
    return replay


def test_a_transaction_may_begin_at_offset_0():
    first, second = (batch(at, producer=(7, 0, at), bits=TRANSACTIONAL) for at in (0, 1))
    replay = applied(first, second)
    assert replay.end_offset == 2
    replay.finish()
    assert replay._state.producers[7].current_txn_first_offset == 0
    assert replay._state.ongoing == {0: 7}
    with pytest.raises(LoadFailed, match="Expected transactional write from producer 7 at offset 1"):
        applied(first, batch(1, producer=(7, 0, 1)))


def test_only_v2_batches_have_an_end():
    """LogSegment.recover: updateProducerState and the end of the log for batches with magic 2."""
    assert applied(message(R(0, 1000, b"k", b"v"), 1)).end_offset is None
    assert applied(batch(3, 8) + message(R(9, 1000, b"k", b"v"), 1)).end_offset == 9
