"""`kafkalog compact --erase-keys` on a topic that is not compacted: the records of the keys go, and no others."""

import json
import shutil

import pytest

from tests.cli.test_consent import Typist
from tests.cli.test_erase_keys import objects
from tests.support.commands import kafkalog, tree, writable_copy
from tests.support.logs import BASE_TIME_MS, R, batch_v2, message, message_set, producer_snapshot, write_segment
from tests.support.naive_reader import read_batches, read_records

POLICY = ("--config", "cleanup.policy=compact")
COMPACT = (*POLICY, "--config", "segment.bytes=5000")
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


def test_segments_without_the_keys_are_not_touched(tmp_path, keys):
    folder = log_dir(tmp_path / "data", 0, 5, 8, 14, 18)
    before = {path.name: path.stat() for path in folder.iterdir() if path.is_file()}
    assert erase(folder, keys)[0] == 0
    kept = {name for name, was in before.items() if (folder / name).stat().st_ino == was.st_ino}
    whole = {f"{base:020d}.{kind}" for base in (5, 14) for kind in ("log", "index", "timeindex")}
    assert {name for name in kept if name.startswith("0" * 18)} == {*whole, f"{END:020d}.snapshot"}


def test_old_messages_and_tombstones_stay_byte_for_byte_beside_the_erased_keys(tmp_path, keys):
    def encoded(batch):
        if batch[0].offset < 8:
            return message_set(batch, 1, 1) if batch[0].offset else b"".join(message(r, 1) for r in batch)
        return batch_v2(batch, codec=4, horizon=BASE_TIME_MS - 5)  # tombstones that a cleaning removes

    folder = log_dir(tmp_path / "data", 0, encoded=encoded)
    before = (folder / f"{0:020d}.log").read_bytes()
    assert erase(folder, keys)[0] == 0
    data = (folder / f"{0:020d}.log").read_bytes()
    assert [(r[0], r[2], r[3]) for r in records_in(folder)] == [(r[0], r[2], r[3]) for r in OTHERS]
    for first in (5, 14):  # of batches without a record of the keys
        unchanged = next(batch for batch in EVENTS if batch[0].offset == first)
        assert before.count(encoded(unchanged)) == data.count(encoded(unchanged)) == 1


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


def test_a_policy_of_the_command_line_does_not_remove_records_of_other_keys_without_a_flag(tmp_path, keys):
    folder = log_dir(tmp_path / "data", 0, END)
    before = tree(tmp_path / "data")
    for dry_run in (("--dry-run",), ()):
        code, out, err = erase(folder, keys, *COMPACT, *dry_run)
        assert (code, out) == (14, "")
        assert "would also remove 12 records of other keys without undo" in err
        assert "2 without a key, 10 followed by a record of the same key" in err
        assert "--remove-other-records" in err
        assert {name: data for name, data in tree(tmp_path / "data").items() if ".lock" not in name} == before
    code, out, _ = erase(folder, keys, *COMPACT, "--remove-other-records", "--dry-run")
    assert code == 0
    counted = "to be removed: 6 of the keys to erase, 2 without a key, 10 followed by a record of the same key"
    assert counted in out
    assert erase(folder, keys, *COMPACT, "--remove-other-records")[0] == 0
    assert [record[0] for record in records_in(folder)] == [17, 18]
    assert kafkalog("compact", folder, "--remove-other-records")[0] == 2


@pytest.mark.parametrize("bases", [(0,), (0, 10)])
def test_a_policy_of_the_command_line_is_refused_before_a_roll_that_would_not_help(tmp_path, keys, bases):
    folder = log_dir(tmp_path / "data", *bases)
    for dry_run in (("--dry-run",), ()):
        code, out, err = erase(folder, keys, *COMPACT, *dry_run)
        assert (code, out) == (14, "")
        assert "Without --config cleanup.policy=compact exactly the records of the keys are erased" in err
    code, out, _ = erase(folder, keys, *COMPACT, "--remove-other-records", "--dry-run")
    assert code == 3
    assert "roll" in out


def test_the_counts_of_a_dry_run_are_those_of_the_run(tmp_path, keys):
    folder = log_dir(tmp_path / "data", 0, 10)
    options = ("--erase-keys", keys, "--input", "lines")
    _, (planned,), _ = objects("compact", folder, *options, "--dry-run")
    _, (done,), _ = objects("compact", folder, *options)
    gone = {"erased": 6, "keyless": 0, "expired": 0, "superseded": 0, "aborted": 0, "control": 0}
    assert planned["estimate"]["causes"] == done["outcome"]["causes"] == gone
    assert planned["estimate"]["gone"] == 6
    assert (planned["choice"], planned["rolls"], done["rolls"]) == ("erase-keys-only", True, True)


def test_the_question_before_an_erasure_counts_the_records_by_cause(tmp_path, keys):
    typist = Typist("n")
    folder = log_dir(tmp_path / "data", 0)
    before = records_in(folder)
    kafkalog("compact", folder, "--erase-keys", keys, "--input", "lines", terminal=typist)
    (asked,) = typist.questions
    assert "6 of 20 records of 1 segment erased, every other record kept" in asked
    assert "6 of the keys to erase" in asked
    assert records_in(folder) == before


def test_an_event_log_that_is_not_named_keeps_its_records_and_the_report_says_so(tmp_path, keys):
    folder = log_dir(tmp_path / "data", 0)
    options = ("--config", "cleanup.policy=delete")
    code, out, _ = erase(tmp_path / "data", keys, *options)
    assert code == 3
    assert "--topic events names the topic" in out
    assert records_in(folder) == as_rows(ALL)
    assert erase(tmp_path / "data", keys, *options, "--topic", "events")[0] == 0
    assert records_in(folder) == OTHERS


def test_a_topic_of_unknown_policy_that_is_not_named_is_skipped_with_the_option_that_names_it(tmp_path, keys):
    folder = log_dir(tmp_path / "data", 0)
    code, _, err = erase(tmp_path / "data", keys)
    assert code == 14
    assert "or name the topic with --topic events to erase exactly the records of the keys" in err
    assert records_in(folder) == as_rows(ALL)
    assert erase(tmp_path / "data", keys, "--topic", "events")[0] == 0
    assert records_in(folder) == OTHERS


def test_records_past_the_high_watermark_wait_for_a_broker_not_for_a_roll(tmp_path, keys):
    folder = log_dir(tmp_path / "data", 0, 10, high_watermark=18)
    code, out, _ = erase(folder, keys)
    assert code == 3
    assert "a broker that runs raises the high watermark" in out
    assert "kafkalog roll" not in out
    assert [record[0] for record in records_in(folder) if record[2] == b"user-1"] == [12, 19]


# ---- key files


@pytest.mark.parametrize(
    "text", [b"user-1\r\nuser-2\r\n", b"\xef\xbb\xbfuser-1\nuser-2", b"\xef\xbb\xbfuser-1\r\n\r\nuser-2\r"]
)
def test_line_ends_and_a_byte_order_mark_are_no_part_of_a_key(tmp_path, text):
    folder = log_dir(tmp_path / "data", 0)
    (tmp_path / "keys").write_bytes(text)
    code, _, err = erase(folder, tmp_path / "keys")
    assert (code, err) == (0, "")
    assert {record[2] for record in records_in(folder)} == {b"user-0", None}


def test_ndjson_keys_may_begin_with_a_byte_order_mark(tmp_path):
    folder = log_dir(tmp_path / "data", 0)
    (tmp_path / "keys").write_bytes(b"\xef\xbb\xbf" + json.dumps({"key": "user-1"}).encode() + b"\r\n")
    assert kafkalog("compact", folder, "--erase-keys", tmp_path / "keys")[0] == 0
    assert records_in(folder) == OTHERS


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_keys_that_are_in_no_record_are_listed_with_exit_code_3(tmp_path, dry_run):
    folder = log_dir(tmp_path / "data", 0)
    (tmp_path / "keys").write_text('user-1\n"user-2"\nuser-2 \nuser-9\n')
    code, _, err = erase(folder, tmp_path / "keys", *dry_run)
    assert code == 3
    assert "3 of 4 keys in no record" in err
    for shown in ("line 2: '\"user-2\"'", "line 3: 'user-2 '", "line 4: 'user-9'"):
        assert shown in err
    assert "user-1'" not in err


def test_missing_keys_that_are_no_text_are_listed_as_bytes(tmp_path):
    folder = log_dir(tmp_path / "data", 0)
    (tmp_path / "keys").write_text("hex:2d80\n")
    code, _, err = erase(folder, tmp_path / "keys")
    assert code == 3
    assert "line 1: hex:2d80." in err


def test_a_key_of_one_partition_is_not_missing_because_the_others_lack_it(tmp_path, keys):
    folder = log_dir(tmp_path / "data", 0)
    writable_copy(folder, tmp_path / "data" / "events-1")
    assert erase(folder, keys)[0] == 0
    options = ("--topic", "events", "--format", "json")
    code, out, err = kafkalog(
        "compact", tmp_path / "data", "--erase-keys", keys, "--input", "lines", *options, "--dry-run"
    )
    found = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert [each["erasure"]["lines_without_record"] for each in found[:-1]] == [[1], []]
    (tmp_path / "keys").write_text("user-1\nnobody\n")
    code, out, _ = kafkalog(
        "compact", tmp_path / "data", "--erase-keys", keys, "--input", "lines", *options, "--dry-run"
    )
    assert code == json.loads(out.splitlines()[-1])["exit_code"] == 3


def test_lines_to_append_lose_carriage_returns_and_a_byte_order_mark(tmp_path):
    folder = log_dir(tmp_path / "data", 0)
    options = ("--input", "lines", "--key-separator", ":", "--single-replica")
    code, _, err = kafkalog("append", folder, *options, stdin=b"\xef\xbb\xbfa:1\r\nb:2\r\n")
    assert code == 0, err
    assert [record[2:4] for record in records_in(folder)][-2:] == [(b"a", b"1"), (b"b", b"2")]


def test_ndjson_to_append_may_begin_with_a_byte_order_mark(tmp_path):
    folder = log_dir(tmp_path / "data", 0)
    line = b"\xef\xbb\xbf" + json.dumps({"key": "a", "value": "1"}).encode() + b"\r\n"
    code, _, err = kafkalog("append", folder, "--single-replica", stdin=line)
    assert code == 0, err
    assert records_in(folder)[-1][2:4] == (b"a", b"1")
