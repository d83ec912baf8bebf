"""`kafkalog compact --erase-keys`: every record of a key goes, the proof says so, and what still holds it is told."""

import hashlib
import json
import shutil

import pytest

from tests.support.commands import kafkalog, objects_in
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


def test_erase_keys_removes_all_records_of_a_key_and_no_others(root, keys, tmp_path):
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


def test_erase_keys_reports_other_places_that_still_hold_the_keys(root, tmp_path):
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


def test_markers_are_no_records_of_a_key(root, tmp_path):
    (tmp_path / "keys").write_text(json.dumps({"key": "\0\0\0\1"}) + "\n" + json.dumps({"key": "\0\0\0\0"}))
    _, (found,), _ = objects("compact", root / "cmp-tx-0", *COMPACT, *NOW, "--erase-keys", tmp_path / "keys")
    assert (found["erasure"]["keys"], found["erasure"]["holders"]) == ([], [])
