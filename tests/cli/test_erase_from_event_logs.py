"""`kafkalog compact --erase-keys` on a topic that is not compacted: the records of the keys go, and no others."""

import shutil

import pytest

from tests.cli.test_consent import Typist
from tests.support.commands import kafkalog, tree
from tests.support.logs import BASE_TIME_MS, R, batch_v2, producer_snapshot, write_segment
from tests.support.naive_reader import read_batches, read_records

END = 20


def event(offset, key, value=b"event"):
    return R(offset, BASE_TIME_MS + offset, key, value, [(b"trace", b"%d" % offset)])


EVENTS = [
    [event(0, b"user-1"), event(1, b"user-0"), event(2, b"user-0"), event(3, None), event(4, b"user-1", None)],
    [event(5, b"user-2"), event(6, b"user-2", None), event(7, None)],
    [event(8, b"user-1"), event(9, b"user-1")],
    [event(10, b"user-0"), event(11, b"user-2"), event(12, b"user-1"), event(13, b"user-0")],
    [event(at, b"user-0") for at in range(14, 18)],
    [event(18, b"user-2"), event(19, b"user-1")],
]
ALL = [record for batch in EVENTS for record in batch]


def log_dir(root, *bases, high_watermark=END, encoded=batch_v2):
    """A log directory as a broker leaves it that was stopped; the partition's segments begin at `bases`."""
    folder = root / "events-0"
    folder.mkdir(parents=True)
    batches = [(encoded(batch), batch[-1].offset, batch[-1].timestamp) for batch in EVENTS]
    for base, after in zip(bases, [*bases[1:], END], strict=True):
        write_segment(folder, base, [batch for batch in batches if base <= batch[1] < after])
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (folder / f"{END:020d}.snapshot").write_bytes(producer_snapshot([]))
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    (root / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":7}')
    for name, offset in (("recovery-point", END), ("replication", high_watermark)):
        (root / f"{name}-offset-checkpoint").write_text(f"0\n1\nevents 0 {offset}\n")
    for name in ("log-start-offset", "cleaner-offset"):
        (root / f"{name}-checkpoint").write_text("0\n0\n")
    return folder


@pytest.fixture
def keys(tmp_path):
    (tmp_path / "keys").write_text("user-1\n")
    return tmp_path / "keys"


def records_in(folder):
    """(offset, timestamp, key, value, headers) of all records of a partition."""
    return [
        (r.offset, r.timestamp, r.key, r.value, [*r.headers])
        for path in sorted(folder.glob("*.log"))
        for batch in read_batches(path.read_bytes())
        for r in read_records(path.read_bytes(), batch)
    ]


def erase(path, keys, *options):
    return kafkalog("compact", path, "--erase-keys", keys, "--input", "lines", *options)


def as_rows(records):
    return [(r.offset, r.timestamp, r.key, r.value, [*r.headers]) for r in records]


OTHERS = as_rows(record for record in ALL if record.key != b"user-1")


@pytest.mark.parametrize("policy", [(), ("--config", "cleanup.policy=delete")])
@pytest.mark.parametrize("bases", [(0,), (0, 5, 10, 18), (0, 10, END)])
def test_erasing_from_an_event_log_keeps_every_record_of_other_keys(tmp_path, keys, bases, policy):
    folder = log_dir(tmp_path / "data", *bases)
    beside = {name: data for name, data in tree(tmp_path / "data").items() if "/" not in name}
    code, out, err = erase(folder, keys, *policy)
    assert (code, err) == (0, ""), out
    assert "erased 6 of " in out
    assert "every other record kept" in out
    assert records_in(folder) == OTHERS
    after = tree(tmp_path / "data")
    assert {name: data for name, data in after.items() if name in beside} == beside
    assert not [name for name in after if name.endswith((".deleted", ".cleaned", ".swap"))]
    assert not [name for name, data in after.items() if data is not None and b"user-1" in data]
    verified = kafkalog("verify", tmp_path / "data", "--level", "deep")
    assert verified.code == 0, verified.out


def test_records_of_aborted_transactions_are_erased_and_markers_and_indexes_stay(corpus, tmp_path):
    root = tmp_path / "data"
    shutil.copytree(corpus / "compact-tx" / "before2", root)
    partition = root / "cmp-tx-0"

    def found():
        return [
            (r.offset, r.key, r.value, batch.attributes & 0x30)
            for path in sorted(partition.glob("*.log"))
            for batch in read_batches(path.read_bytes())
            for r in read_records(path.read_bytes(), batch)
        ]

    before = found()
    (tmp_path / "keys").write_text("key-00005\nkey-00006\n")
    indexes = {path.name: path.read_bytes() for path in partition.glob("*.txnindex")}
    checkpoint = (root / "cleaner-offset-checkpoint").read_bytes()
    assert indexes
    code, _, err = erase(partition, tmp_path / "keys", "--config", "cleanup.policy=delete")
    assert (code, err) == (0, "")
    assert found() == [record for record in before if record[1] not in (b"key-00005", b"key-00006")]
    assert {path.name: path.read_bytes() for path in partition.glob("*.txnindex")} == indexes
    assert (root / "cleaner-offset-checkpoint").read_bytes() == checkpoint
    assert kafkalog("verify", root, "--level", "deep")[0] == 0


def test_the_question_before_an_erasure_counts_the_records_by_cause(tmp_path, keys):
    typist = Typist("n")
    folder = log_dir(tmp_path / "data", 0)
    before = records_in(folder)
    kafkalog("compact", folder, "--erase-keys", keys, "--input", "lines", terminal=typist)
    (asked,) = typist.questions
    assert "6 of 20 records of 1 segment erased, every other record kept" in asked
    assert "6 of the keys to erase" in asked
    assert records_in(folder) == before
