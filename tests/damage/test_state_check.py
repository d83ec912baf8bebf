"""Transaction indexes, producer snapshots, leader epochs and offset checkpoints: a real log, and every field changed."""

import struct

import pytest
from crc32c import crc32c

from tests.model.index_model import batch_v2
from tests.support.index_dumps import dumped, verdicts

ABORTED = struct.Struct(">hqqqq")
PRODUCER = struct.Struct(">qhiqiqiq")
PRODUCER_FIELDS = (
    "producer_id",
    "producer_epoch",
    "last_sequence",
    "last_offset",
    "offset_delta",
    "timestamp",
    "coordinator_epoch",
    "current_txn_first_offset",
)


def load(folder):
    """The files of a directory, by path."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def reports(files, path):
    return dumped(files, str(path))


@pytest.fixture(scope="module")
def transactions(corpus):
    """A partition with committed, aborted, overlapping and open transactions, written by Kafka 4.2."""
    return corpus / "txn" / "data" / "tx-0"


# ---- transaction index


def aborted(data):
    return [list(fields) for fields in ABORTED.iter_unpack(data)]


def with_aborted(folder, name, entries):
    files = load(folder)
    files[str(folder / name)] = b"".join(ABORTED.pack(*entry) for entry in entries)
    return reports(files, folder)[str(folder / name)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["00000000000000000020.txnindex", "00000000000000000094.txnindex"])
@pytest.mark.parametrize(("field", "what"), [(1, "producer"), (2, "first"), (3, "last"), (4, "stable")])
@pytest.mark.parametrize("step", [-1, 1, 3])
def test_a_changed_field_of_an_aborted_transaction_is_noticed(transactions, name, field, what, step):
    entries = aborted((transactions / name).read_bytes())
    assert set(verdicts(with_aborted(transactions, name, entries))) == {"right"}
    for slot in range(len(entries)):
        changed = [list(entry) for entry in entries]
        changed[slot][field] += step
        report = with_aborted(transactions, name, changed)
        assert report.exit_code == 4, (what, slot)
        assert list(report.entries)[slot].verdict != "right"
        assert list(report.entries)[slot].detail


def test_verify_reports_each_wrong_field_of_an_aborted_transaction_with_the_log_fact(transactions):
    name = "00000000000000000094.txnindex"
    first, second = aborted((transactions / name).read_bytes())
    for entries, verdict, detail in [
        ([[*first[:3], 10**6, 5]], "beyond the end", "not in the log yet"),
        ([[*first[:3], 90, 5]], "out of order", "below the base offset"),
        ([[*first[:2], first[3] + 1, *first[3:]]], "out of order", "first offset is above the last"),
        ([[0, 4, 49, 103, 34]], "stale", "no transaction marker is at the last offset"),
        ([[0, 4, 49, 95, 34]], "stale", "no transaction marker is at the last offset"),
        ([[0, 4, 54, 94, 34]], "stale", "the transaction began with offset 49"),
        ([[0, 5, 49, 94, 34]], "stale", "marker at the last offset is of producer 4"),
        ([[0, 4, 50, 94, 34]], "stale", "the transaction began with offset 49"),
        ([[0, 4, 49, 94, 96]], "stale", "after the marker"),
        ([[0, 4, 49, 94, 35]], "stale", "a transaction was open since offset 34"),
        ([[0, 4, 49, 94, 33]], "stale", "no transaction of another producer begins"),
    ]:
        (entry,) = with_aborted(transactions, name, entries).entries
        assert (entry.verdict, detail in entry.detail) == (verdict, True), entry
    swapped = with_aborted(transactions, name, [second, first])
    assert verdicts(swapped) == ["right", "out of order"]


def test_a_commit_marker_is_no_abort_marker():
    log = batch_v2(0, (5,), b"", attributes=0x10, producer=(7, 0, 0))
    keys = {kind: (struct.pack(">hh", 0, kind),) for kind in (0, 1)}
    markers = {
        kind: batch_v2(1, (6,), struct.pack(">hi", 0, 0), attributes=0x30, producer=(7, 0, -1), keys=keys[kind])
        for kind in (0, 1)
    }
    index = ABORTED.pack(0, 7, 0, 1, 2)
    for kind, verdict in ((0, "right"), (1, "stale")):
        files = {"/t-0/00.log": log + markers[kind], "/t-0/00.txnindex": index}
        (entry,) = reports(files, "/t-0")["/t-0/00.txnindex"].entries
        assert entry.verdict == verdict
        assert "COMMIT" in entry.detail or verdict == "right"


def marker(offset, producer, kind):
    """A transaction marker: 0 ABORT, 1 COMMIT."""
    keys = (struct.pack(">hh", 0, kind),)
    return batch_v2(offset, (9,), struct.pack(">hi", 0, 0), attributes=0x30, producer=(producer, 0, -1), keys=keys)


def data(offset, producer, sequence=0):
    return batch_v2(offset, (9,), b"v", attributes=0x10, producer=(producer, 0, sequence))


@pytest.mark.parametrize(
    ("log", "entries", "details"),
    [
        # two overlapping transactions, both aborted
        ([data(0, 7), data(1, 8), marker(2, 7, 0), marker(3, 8, 0)], [(7, 0, 2, 1), (8, 1, 3, 4)], ["", ""]),
        (
            [data(0, 7), data(1, 8), marker(2, 7, 0), marker(3, 8, 0)],
            [(7, 0, 2, 1), (8, 1, 3, 0)],
            ["", "the last stable offset is below that of an entry before it"],
        ),
        (
            [data(0, 7), data(1, 8), marker(2, 7, 0), marker(3, 8, 0)],
            [(7, 0, 2, 3), (8, 1, 3, 4)],
            ["a transaction was open since offset 1", ""],
        ),
        # one after the other
        ([data(0, 7), marker(1, 7, 1), data(2, 7, 1), marker(3, 7, 0)], [(7, 2, 3, 4)], [""]),
        (
            [data(0, 7), marker(1, 7, 1), data(2, 7, 1), marker(3, 7, 0)],
            [(7, 0, 3, 4)],
            ["the transaction began with offset 2"],
        ),
        # the data was compacted away
        ([data(0, 8), marker(1, 8, 1), marker(9, 7, 0)], [(7, 4, 9, 10)], [""]),
    ],
)
def test_transactions_are_followed_through_the_log(log, entries, details):
    index = b"".join(ABORTED.pack(0, *entry) for entry in entries)
    report = reports({"/t-0/00.log": b"".join(log), "/t-0/00.txnindex": index}, "/t-0")["/t-0/00.txnindex"]
    assert [entry.detail for entry in report.entries] == details
    assert report.exit_code == (4 if any(details) else 0)


def test_a_transaction_index_without_log_of_another_version_or_cut_off_is_reported():
    entry = ABORTED.pack(0, 7, 0, 1, 2)
    orphan = reports({"/t-0/00.txnindex": entry}, "/t-0")["/t-0/00.txnindex"]
    assert (verdicts(orphan), orphan.exit_code) == (["unverified"], 3)
    other = reports({"/t-0/00.log": b"", "/t-0/00.txnindex": b"\7" + entry[1:]}, "/t-0")["/t-0/00.txnindex"]
    assert other.exit_code == 4
    cut = reports({"/t-0/00.log": b"", "/t-0/00.txnindex": entry[:30]}, "/t-0")["/t-0/00.txnindex"]
    assert (list(cut.entries), cut.exit_code) == ([], 3)


# ---- producer snapshot


def snapshot(entries):
    body = struct.pack(">i", len(entries)) + b"".join(PRODUCER.pack(*entry) for entry in entries)
    return struct.pack(">hI", 1, crc32c(body)) + body


def producers(data):
    return [list(fields) for fields in PRODUCER.iter_unpack(data[10:])]


def with_producers(folder, name, entries):
    files = load(folder)
    files[str(folder / name)] = snapshot(entries)
    return reports(files, folder)[str(folder / name)]


SNAPSHOTS = ["00000000000000000020.snapshot", "00000000000000000092.snapshot", "00000000000000000177.snapshot"]
CHECKED = ("producer_epoch", "last_sequence", "last_offset", "offset_delta", "current_txn_first_offset")


@pytest.mark.parametrize("name", SNAPSHOTS)
@pytest.mark.parametrize("field", CHECKED)
@pytest.mark.parametrize("change", [lambda value: value + 1, lambda value: value - 1, lambda _: -1])
def test_a_changed_field_of_a_producer_with_a_batch_is_noticed(transactions, name, field, change):
    place = PRODUCER_FIELDS.index(field)
    entries = producers((transactions / name).read_bytes())
    assert set(verdicts(with_producers(transactions, name, entries))) <= {"right"}
    for slot, entry in enumerate(entries):
        has_batch, value = entry[3] >= 0, change(entry[place])
        if not has_batch or value == entry[place] or (field == "last_offset" and value < 0):
            continue  # of a producer without a batch the log has nothing to compare; -1 makes it one
        changed = [list(e) for e in entries]
        changed[slot][place] = value
        report = with_producers(transactions, name, changed)
        assert list(report.entries)[slot].verdict != "right", (slot, field)
        assert report.exit_code == 4


def test_verify_reports_each_wrong_field_of_a_producer_with_the_log_fact(transactions):
    name = "00000000000000000092.snapshot"
    entries = producers((transactions / name).read_bytes())
    third = next(entry for entry in entries if entry[0] == 3)
    assert third[3] == 48
    assert third[7] == 34

    def said(**fields):
        changed = [fields.get(field, value) for field, value in zip(PRODUCER_FIELDS, third, strict=True)]
        (entry,) = with_producers(transactions, name, [changed]).entries
        return entry.verdict, entry.detail

    assert said() == ("right", "")
    assert said(last_offset=10**9) == ("beyond the end", f"offset {10**9} is not in the log yet")
    assert said(last_offset=92) == ("out of order", "offset 92 is not below the snapshot's")
    assert said(last_offset=46)[1] == "a newer batch of the producer ends with offset 48"
    assert said(last_sequence=9)[1] == "the batch at its last offset ends with sequence 14"
    assert said(current_txn_first_offset=-1)[1] == "a transaction of the producer is open since offset 34"
    assert said(current_txn_first_offset=35)[1] == "no transaction of the producer begins at offset 35"
    assert said(producer_epoch=4)[1] == "the batch at its last offset has producer epoch 0"


def test_a_transaction_that_ended_before_the_snapshot_is_not_open(transactions):
    name = "00000000000000000092.snapshot"
    entries = producers((transactions / name).read_bytes())
    second = next(entry for entry in entries if entry[0] == 2)
    second[7] = 21  # its transaction from 21 on was aborted by the marker at 33
    (entry,) = with_producers(transactions, name, [second]).entries
    assert entry.verdict == "stale"
    assert entry.detail.startswith("its transaction ended with the marker at offset ")


def test_producers_whose_batches_were_deleted_are_no_fault(transactions):
    files = {path: data for path, data in load(transactions).items() if "/00000000000000000000." not in path}
    found = reports(files, transactions)
    entry = next(iter(found[str(transactions / "00000000000000000020.snapshot")].entries))
    assert (entry.verdict, entry.is_tolerable) == ("no longer in the log", True)
    assert entry.detail == "the producer's last batch was deleted"


def test_a_producer_whose_batch_was_compacted_away_is_no_fault():
    log = data(0, 7) + data(9, 8)
    files = {"/t-0/00.log": log, f"/t-0/{10:020d}.snapshot": snapshot([(7, 0, 4, 4, 0, 9, -1, 0)])}
    (entry,) = reports(files, "/t-0")[f"/t-0/{10:020d}.snapshot"].entries
    assert (entry.verdict, entry.is_tolerable) == ("no longer in the log", True)
    assert "compacted away" in entry.detail


@pytest.mark.parametrize("cut", [0, 1, 6, 9, 30, 55])
def test_a_snapshot_that_a_broker_deletes_is_corruption(transactions, cut):
    name = str(transactions / "00000000000000000020.snapshot")
    files = load(transactions)
    files[name] = files[name][:cut]
    assert reports(files, transactions)[name].exit_code == 4


def test_every_flipped_bit_of_a_snapshot_is_noticed(transactions):
    name = str(transactions / "00000000000000000020.snapshot")
    alone = {path: data for path, data in load(transactions).items() if path.endswith(("0000.log", "0020.snapshot"))}
    good = alone[name]
    for bit in range(len(good) * 8):
        damaged = bytearray(good)
        damaged[bit >> 3] ^= 1 << (bit & 7)
        assert reports({**alone, name: bytes(damaged)}, transactions)[name].exit_code == 4, bit


def test_a_snapshot_beyond_the_end_of_the_log_and_one_at_its_start(transactions):
    files = load(transactions)
    beyond, start = str(transactions / f"{5000:020d}.snapshot"), str(transactions / f"{0:020d}.snapshot")
    files[beyond] = files[start] = snapshot([])
    found = reports(files, transactions)
    assert found[beyond].exit_code == 4
    assert "past the end of the log (282)" in found[beyond].notes[0].message
    assert found[start].exit_code == 0
    assert "a broker deletes it" in found[start].notes[0].message


def test_a_single_snapshot_is_checked_against_the_segments_before_it(transactions):
    name = "00000000000000000177.snapshot"
    entries = producers((transactions / name).read_bytes())
    with_batch = [entry for entry in entries if entry[3] >= 0]
    assert with_batch
    files = load(transactions)
    (report,) = reports(files, transactions / name).values()
    assert set(verdicts(report)) == {"right"}
    with_batch[0][2] += 1
    files[str(transactions / name)] = snapshot(with_batch[:1])
    (report,) = reports(files, transactions / name).values()
    assert verdicts(report) == ["stale"]


# ---- leader epochs


def epoch_log():
    """Epoch 0 from offset 0, epoch 2 from 10, epoch 5 from 20; the log ends at 30."""
    return b"".join(
        batch_v2(offset, (1, 2, 3, 4, 5), b"v", epoch=epoch)
        for offset, epoch in zip(range(0, 30, 5), (0, 0, 2, 2, 5, 5), strict=True)
    )


# ---- offset checkpoints


def test_the_end_of_a_log_is_found_whatever_its_index_says():
    log = epoch_log()
    starts = [offset * len(log) // 30 for offset in range(0, 30, 5)]
    path = "/log/recovery-point-offset-checkpoint"
    for index in (b"", struct.pack(">ii", 29, starts[5] + 1), struct.pack(">ii", 29, 1 << 30), bytes(range(96))):
        files = {"/log/t-0/00.log": log, "/log/t-0/00.index": index, path: b"0\n1\nt 0 30\n"}
        assert verdicts(reports(files, path)[path]) == ["right"]
        files[path] = b"0\n1\nt 0 31\n"
        assert verdicts(reports(files, path)[path]) == ["beyond the end"]
