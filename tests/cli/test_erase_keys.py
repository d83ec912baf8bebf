"""`kafkalog compact --erase-keys`: every record of a key goes, the proof says so, and what still holds it is told."""

import hashlib
import json
import shutil

import pytest

from tests.support.commands import kafkalog, objects_in, tree
from tests.support.naive_reader import read_batches, read_records
from tests.support.schemas import check

NOW = ("--now", "1795230000000")
CHECKPOINT = "cleaner-offset-checkpoint"
COMPACT = ("--config", "cleanup.policy=compact", "--config", "segment.bytes=5000")
OLD, ACTIVE, NONE = "key-00005", "key-00000", "nobody"


def objects(*argv):
    """(exit code, the objects of partitions, the summary); each object is as its schema says."""
    code, out, _ = kafkalog(*argv, "--format", "json")
    check(out.splitlines())
    *found, summary = objects_in(out)
    return code, found, summary


@pytest.fixture
def root(corpus, tmp_path):
    shutil.copytree(corpus / "compact-tx" / "before2", tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def keys(tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"{NONE}\n{OLD}\n\n{OLD}\n")
    return path


def records(path):
    """(offset, key, value) of the records of a log that are data."""
    data = path.read_bytes()
    return [
        (record.offset, record.key, record.value)
        for batch in read_batches(data)
        if not batch.attributes & 0x20
        for record in read_records(data, batch)
    ]


def in_logs(partition):
    return [record for path in sorted(partition.glob("*.log")) for record in records(path)]


def offsets_of(partition, key):
    return [offset for offset, found, _ in in_logs(partition) if found == key.encode()]


def test_all_of_a_key_goes_and_nothing_else(root, keys, tmp_path):
    shutil.copytree(root, tmp_path / "other")
    partition = root / "cmp-tx-0"
    before = {path.name: path.read_bytes() for path in sorted(partition.glob("*.log"))}
    offsets = offsets_of(partition, OLD)
    active = max(before)
    code, (found,), summary = objects("compact", partition, *COMPACT, *NOW, "--erase-keys", keys, "--input", "lines")
    assert kafkalog("compact", tmp_path / "other" / "cmp-tx-0", *COMPACT, *NOW, "--force")[0] == 0
    proof = found["erasure"]
    in_active = [offset for offset in offsets if offset >= int(active[:20])]
    gone = offsets[: len(offsets) - len(in_active)]
    assert gone
    assert code == (3 if in_active else 0)
    assert proof["keys"] == [{"line": 2, "records": len(gone), "offsets": gone, "last_offset": gone[-1]}]
    assert (proof["keys_wanted"], summary["records_erased"]) == (2, len(gone))
    assert offsets_of(partition, OLD) == in_active
    assert in_logs(partition) == [
        record
        for record in in_logs(tmp_path / "other" / "cmp-tx-0")
        if record[1] != OLD.encode() or record[0] in in_active
    ]
    assert {log["name"]: log["sha256"] for log in proof["before"]} == {
        name: hashlib.sha256(data).hexdigest() for name, data in before.items()
    }
    assert {(log["name"], log["size_bytes"], log["sha256"], log["records"]) for log in proof["after"]} == {
        (path.name, path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest(), len(keyed(path)))
        for path in partition.glob("*.log")
    }
    assert not list(partition.glob("*.deleted"))
    assert kafkalog("undo", partition, found["run"], *NOW)[0] != 0


def keyed(path):
    return [record for record in records(path) if record[1] == OLD.encode()]


def test_a_second_time_there_is_nothing_to_do(root, keys):
    arguments = (root / "cmp-tx-0", *COMPACT, "--config", "min.cleanable.dirty.ratio=1", *NOW)
    erasing = (*arguments, "--erase-keys", keys, "--input", "lines")
    code, (found,), _ = objects("compact", *erasing)
    assert found["choice"] == "erase-keys"
    after = tree(root)
    again, (found,), _ = objects("compact", *erasing)
    assert (again, found["choice"], found["erasure"]["after"], tree(root)) == (code, "no-such-key", None, after)
    assert "no record that may be cleaned has one of the keys" in kafkalog("compact", *erasing)[1]


def test_it_is_told_before_and_done_for_good(root, keys):
    before = tree(root)
    partition = root / "cmp-tx-0"
    arguments = ("compact", partition, *COMPACT, *NOW, "--erase-keys", keys, "--input", "lines")
    code, out, _ = kafkalog(*arguments, "--dry-run")
    assert tree(root) == before
    assert "to be erased: " in out
    assert " of 1 of 2 keys" in out
    assert "key of line 2: " in out
    assert "whether other replicas hold the keys is not known" in out
    done, out, _ = kafkalog(*arguments)
    assert (done, "  erased: " in out, "cannot be undone" in out) == (code, True, True)
    assert out.count("SHA-256") == len(list(partition.glob("*.log"))) + sum(
        name.startswith("cmp-tx-0/") and name.endswith(".log") for name in before
    )


def test_what_still_holds_them_is_told(root, tmp_path):
    """The active segment, what an earlier run left, another directory of the partition; then all but that is gone."""
    partition = root / "cmp-tx-0"
    active = max(partition.glob("*.log"))
    key = records(active)[-1][1]
    (tmp_path / "keys").write_text(json.dumps({"key": key.decode()}) + "\n\n")
    assert kafkalog("compact", partition, *COMPACT, *NOW)[0] == 0
    shutil.copytree(partition, root / f"cmp-tx-0.{'a' * 32}-delete")
    shutil.rmtree(root / f"cmp-tx-0.{'a' * 32}-delete" / ".kafkalog")
    holding = {path: sum(record[1] == key for record in records(path)) for path in root.glob("cmp-tx-0*/*.log*")}
    code, (found,), _ = objects("compact", partition, *COMPACT, *NOW, "--erase-keys", tmp_path / "keys")
    places = {each["path"]: (each["place"], each["records"]) for each in found["erasure"]["holders"]}
    assert code == 3
    want = {}
    for path, count in holding.items():
        is_left = path == active or path.suffix == ".deleted" or path.parent != partition
        place = "active-segment" if path == active else "waiting-file" if path.parent == partition else "directory"
        if count and is_left:
            want[str(path)] = (place, count)
    assert places == want
    assert {place for place, _ in places.values()} == {"active-segment", "waiting-file", "directory"}
    assert {remark["path"] for remark in found["remarks"]} == set(places)


def test_what_a_run_keeps_and_what_cannot_be_read(root, keys):
    partition = root / "cmp-tx-0"
    limit = ("--config", "cleanup.policy=delete", "--config", "retention.bytes=7000")
    code, (removed,), _ = objects_of_retention(partition, *limit, *NOW, "--keep")
    assert (code, bool(removed["removed"])) == (0, True)
    torn = root / f"cmp-tx-0.{'b' * 32}-stray"
    torn.mkdir()
    whole = max(partition.glob("*.log")).read_bytes()
    (torn / f"{0:020}.log").write_bytes(whole[: len(whole) // 2] + bytes(70))
    held = [path for path in partition.glob(".kafkalog/*/*.dropped") if is_log(path) and keyed(path)]
    code, (found,), _ = objects("compact", partition, *COMPACT, *NOW, "--erase-keys", keys, "--input", "lines")
    holders = {each["path"]: each for each in found["erasure"]["holders"]}
    assert code == 3
    assert [path for path, each in holders.items() if each["place"] == "run"] == [str(path) for path in held] != []
    unread = holders[str(torn / f"{0:020}.log")]
    assert (unread["place"], bool(unread["unread"])) == ("directory", True)


def objects_of_retention(*argv):
    code, out, _ = kafkalog("retain", *argv, "--format", "json")
    *found, summary = map(json.loads, out.splitlines())
    return code, found, summary


def is_log(path):
    try:
        return bool(read_batches(path.read_bytes()))
    except Exception:  # an index
        return False


def test_markers_are_no_records_of_a_key(root, tmp_path):
    (tmp_path / "keys").write_text(json.dumps({"key": "\0\0\0\1"}) + "\n" + json.dumps({"key": "\0\0\0\0"}))
    _, (found,), _ = objects("compact", root / "cmp-tx-0", *COMPACT, *NOW, "--erase-keys", tmp_path / "keys")
    assert (found["erasure"]["keys"], found["erasure"]["holders"]) == ([], [])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the file has no key"),
        ('{"type":"summary"}\n', "line 1: an object of type 'summary' is not a record"),
        ('{"key":"a"}\n{"value":"b"}\n', "line 2: a record without a key"),
        ("a\n", "line 1: no JSON"),
    ],
)
def test_a_file_without_keys_changes_nothing(root, tmp_path, text, reason):
    (tmp_path / "keys").write_text(text)
    before = tree(root)
    code, _, err = kafkalog("compact", root, *COMPACT, *NOW, "--erase-keys", tmp_path / "keys")
    assert (code != 0, reason in err, tree(root) == before) == (True, True, True), err


def test_what_does_not_go_with_it(root, keys, tmp_path):
    for more in (("--delay", "1m"), ("--explain", "a", "--dry-run")):
        assert kafkalog("compact", root, *COMPACT, *NOW, "--erase-keys", keys, *more)[0] == 2
    assert kafkalog("compact", root, *COMPACT, *NOW, "--erase-keys", tmp_path / "nowhere")[0] in (1, 10)
    assert (root / CHECKPOINT).exists()
