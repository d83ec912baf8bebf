"""read_committed where the transaction index, the snapshots or the markers are not as they should be; and real logs."""

import pytest

from tests.model.test_read_consumer import FOLDER, read, record_of
from tests.support.commands import json_of
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.logs import BASE_TIME_MS, TRANSACTIONAL, R, aborted_txns, batch_v2, end_marker, producer_snapshot
from tests.support.naive_consumer import ABORT, COMMIT, consume

COMMITTED = ("--isolation", "read_committed")


def data(producer, first, count=3):
    records = [R(first + i, BASE_TIME_MS + first + i, b"k", b"value") for i in range(count)]
    bits = 0 if producer is None else TRANSACTIONAL
    return batch_v2(records, producer=(-1, -1, -1) if producer is None else (producer, 0, 0), bits=bits)


def mark(producer, offset, kind):
    return end_marker(offset, BASE_TIME_MS, (producer, 0), kind)


# producer 1 aborts 0 to 2, producer 2 commits 4 to 6, producer 3 aborts 8 to 10
PARTS = [
    data(1, 0), mark(1, 3, ABORT), data(2, 4), mark(2, 7, COMMIT), data(3, 8), mark(3, 11, ABORT), data(None, 12)
]  # fmt: skip
GOOD = [(1, 0, 3, 4), (3, 8, 11, 12)]
SHOWN = [4, 5, 6, 12, 13, 14]


def files(parts=PARTS, index=GOOD, **more):
    made = {f"{FOLDER}/{0:020d}.log": b"".join(parts), **more}
    if index is not None:
        made[f"{FOLDER}/{0:020d}.txnindex"] = index if isinstance(index, bytes) else aborted_txns(index)
    return made


def shown(found, *options):
    code, out, err = read(found, *COMMITTED, *options)
    *records, summary = out
    return code, [one["offset"] for one in records], [(one["kind"], one["message"]) for one in err], summary


def test_read_committed_with_a_right_index_reports_nothing():
    assert shown(files())[:3] == (0, SHOWN, [])


def test_damage_hides_the_last_marker_of_a_segment():
    """The index tells the truth about it: nothing is said of the index."""
    bad = mark(1, 3, ABORT)
    bad = bad[:-1] + bytes((bad[-1] ^ 1,))
    found = files([data(1, 0), bad], GOOD[:1], **{f"{FOLDER}/{4:020d}.log": data(None, 4)})
    code, offsets, told, _ = shown(found)
    assert (code, offsets) == (4, [4, 5, 6])
    assert [kind for kind, _ in told] == ["crc-mismatch"]


@pytest.mark.parametrize(
    ("index", "told"),
    [
        (None, "there is no transaction index for the transaction of producer 1 aborted at offset 3"),
        ([], "it has no entry for the transaction of producer 1 aborted at offset 3"),
        ([(1, 0, 3, 4)], "it has no entry for the transaction of producer 3 aborted at offset 11"),
        ([(1, 0, 3, 4), (2, 4, 7, 8), (3, 8, 11, 12)], "no marker at offset 7 aborts a transaction of producer 2"),
        ([(1, 0, 3, 4), (2, 4, 11, 12)], "no marker at offset 11 aborts a transaction of producer 2"),
        ([*GOOD, (2, 4, 13, 14)], "no marker at offset 13 aborts a transaction of producer 2"),
        (aborted_txns(GOOD)[:-5], "are not a multiple of 34"),
        (b"\0\7" + aborted_txns(GOOD)[2:], "unexpected aborted transaction version 7"),
    ],
)
def test_read_committed_reports_a_missing_or_wrong_index(index, told):
    code, offsets, said, _ = shown(files(index=index))
    assert (code, offsets, len(said)) == (0, SHOWN, 1)
    kind, message = said[0]
    assert kind == "transaction-index"
    assert told in message
    assert message.endswith("the markers in the log decide")


def test_read_committed_reports_an_unreadable_index():
    fs = FaultyFilesystem(files())
    fs.fail_read(f"{FOLDER}/{0:020d}.txnindex", 0, 10)
    code, offsets, said, _ = shown(fs)
    assert (code, offsets) == (0, SHOWN)
    assert "cannot be read" in said[0][1]


def test_a_marker_that_damage_hides_is_in_the_index():
    bad = bytearray(PARTS[5])
    bad[30] ^= 1
    parts = [*PARTS[:5], bytes(bad), PARTS[6]]
    code, offsets, said, _ = shown(files(parts))
    assert (code, offsets) == (4, SHOWN)
    assert [kind for kind, _ in said] == ["crc-mismatch"]
    # Without the index nothing tells that the transaction has ended.
    code, offsets, said, summary = shown(files(parts, index=None))
    assert (code, offsets, summary["last_stable_offset"]) == (4, [4, 5, 6], 8)
    assert "open-transaction" in [kind for kind, _ in said]


def test_a_marker_that_is_gone_and_a_snapshot_without_the_transaction():
    parts = [PARTS[0], PARTS[1], PARTS[2], PARTS[4], PARTS[5], PARTS[6]]  # no COMMIT
    assert shown(files(parts))[1] == []  # what a broker without any snapshot takes for open, from offset 4 on
    ended = {f"{FOLDER}/{15:020d}.snapshot": producer_snapshot([(2, 0, -1, -1, 0, BASE_TIME_MS, 0, -1)])}
    code, offsets, said, _ = shown(files(parts, **ended))
    assert (code, offsets) == (0, SHOWN)
    assert [kind for kind, _ in said] == ["no-marker"]
    still = {f"{FOLDER}/{15:020d}.snapshot": producer_snapshot([(2, 0, -1, -1, 0, BASE_TIME_MS, 0, 4)])}
    assert shown(files(parts, **still))[3]["last_stable_offset"] == 4


@pytest.mark.parametrize("snapshot_offset", range(16))
@pytest.mark.parametrize("start", [0, 4, 5, 12])
def test_a_snapshot_speaks_of_what_lies_below_its_offset_only(snapshot_offset, start):
    """The transaction begins at offset 4 and no marker ends it: a snapshot at 4 or below does not know of it."""
    parts = [PARTS[0], PARTS[1], PARTS[2], PARTS[4], PARTS[5], PARTS[6]]
    entries = producer_snapshot([(2, 0, -1, -1, 0, BASE_TIME_MS, 0, -1)])
    _, offsets, _, summary = shown(
        files(parts, **{f"{FOLDER}/{snapshot_offset:020d}.snapshot": entries}), "--from", str(start)
    )
    if snapshot_offset <= 4:
        assert (offsets, summary["last_stable_offset"]) == ([], 4)
    else:
        assert offsets == [offset for offset in SHOWN if offset >= start]


@pytest.mark.parametrize("start", [3, 4, 7, 14])
def test_a_transaction_that_is_open_before_the_start(start):
    """Nothing behind the first offset of an open transaction is stable, wherever the reading begins."""
    parts = [data(9, 0, 1), *(data(None, i, 1) for i in range(1, 20))]
    code, offsets, said, summary = shown(files(parts, index=None), "--from", str(start))
    assert (code, offsets, summary["last_stable_offset"]) == (0, [], 0)
    assert [kind for kind, _ in said] == ["open-transaction"]


def partitions(corpus):
    """Partitions of logs that nobody has damaged."""
    cases = ["txn", "internal", "compact-tx", "compact-producers", "compact-plain", "v0", "v1", "upgraded", "v2-mixed"]
    for case in cases:
        for log in sorted((corpus / case).rglob("00000000000000000000.log")):
            if log.parent.name.rpartition("-")[2].isdigit() and "__cluster_metadata" not in log.parent.name:
                yield log.parent


def test_read_committed_of_the_corpus_gives_the_records_of_the_naive_consumer(corpus):
    """All partitions that brokers wrote, transactions and compacted ones among them, against the naive consumer."""
    tried = hidden = 0
    for partition in partitions(corpus):
        segments = [path.read_bytes() for path in sorted(partition.glob("*.log"))]
        for options in ((), COMMITTED):
            wanted = consume(segments, committed=bool(options))
            code, out, err = read_real(partition, *options)
            *records, summary = out
            assert code == 0
            assert [record_of(one) for one in records] == wanted.records, (partition, options)
            if options:
                assert summary["last_stable_offset"] == wanted.last_stable_offset
                assert {one["kind"] for one in err} <= {"open-transaction", "high-watermark"}, err
            tried += 1
            hidden += len(wanted.hidden_by)
    assert tried > 40
    assert hidden > 10


def read_real(partition, *options):
    return json_of("read", partition, *options)
