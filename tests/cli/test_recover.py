"""`kafkalog recover` from the command line: what it says, what it changes, how it ends."""

import io
import json
import os
import shutil

import pytest

from kafkalog_cli.disk.metered_fs import MeteredFilesystem
from tests.support.commands import kafkalog
from tests.support.logs import R, batch_v2, write_segment
from tests.support.plain_changes import files
from tests.support.product import Environment, RealFilesystem, Unreadable, run
from tests.support.watched_fs import WatchedFilesystem

MARKER = ".kafka_cleanshutdown"


def recover(*argv, fs=None):
    return kafkalog("recover", *argv, fs=fs)


def objects(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def log_dir(corpus, tmp_path):
    """A copy of the log directory of a case."""

    def copy(name):
        target = tmp_path / name
        shutil.copytree(corpus / name / "before", target)
        for path in [target, *target.rglob("*")]:
            path.chmod(0o700)
        return target

    return copy


def tree(root):
    """Every file under a directory with its bytes, mode and mtime."""
    found = {}
    for path in root.rglob("*"):
        if path.is_file():
            found[str(path.relative_to(root))] = (path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns)
    return found


def test_a_torn_tail(log_dir):
    root = log_dir("crash-torn")
    code, out, err = recover(root)
    assert (code, err) == (0, "")
    first, what, watermark, undo = out.splitlines()
    assert "the high watermark (130) is past the end of the log (128): 2 acknowledged records are lost" in watermark
    assert first.endswith("crash-torn-0: 141 bytes cut, 2 files changed, offsets 0 to 128")
    assert what.strip() == "00000000000000000115.log at byte 807: 141 bytes at the end are not valid batches: cut off"
    assert undo.strip().startswith(f"undo: kafkalog undo {root}/crash-torn-0 2")
    code, out, _ = recover(root)
    assert code == 0
    assert out == f"{root}/crash-torn-0: nothing to do, offsets 0 to 128\n"
    assert recover(root, "--quiet") == (0, "", "")


def test_a_segment_file_beside_meta_properties_makes_no_partition_of_the_log_directory(log_dir):
    """A broker does not start while the log directory has a directory with a name such as `.kafkalog`."""
    root = log_dir("crash-torn")
    (root / f"{0:020}.log").write_bytes(b"x" * 100)
    code, out, _ = recover(root)
    assert code == 0
    assert "crash-torn-0: 141 bytes cut" in out
    assert not (root / ".kafkalog").exists()


def test_a_snapshot_past_the_cut_tail_is_removed_for_its_true_reason(tmp_path):
    """No newer snapshot had its entries: the log ends before it."""
    assert run(["demo", str(tmp_path / "shop")], Environment(stdout=io.BytesIO(), stderr=io.BytesIO())) == 0
    code, out, _ = recover(tmp_path / "shop" / "orders-1")
    assert code == 0
    assert "  00000000000000000400.snapshot: it did not fit the log: removed, because the log ends at 384\n" in out
    snapshots = sorted(path.name for path in (tmp_path / "shop" / "orders-1").glob("*.snapshot"))
    assert snapshots == ["00000000000000000208.snapshot", "00000000000000000384.snapshot"]


def test_more_than_three_files_with_one_remark_have_one_line(tmp_path):
    shop = tmp_path / "shop"
    assert run(["demo", str(shop)], Environment(stdout=io.BytesIO(), stderr=io.BytesIO())) == 0
    (shop / "recovery-point-offset-checkpoint").unlink()
    code, out, _ = recover(shop / "orders-2", "--like-broker", "--format", "json", "--dry-run")
    assert code == 4
    assert len(objects(out)[0]["remarks"]) == 7
    _, out, _ = recover(shop / "orders-2", "--like-broker")
    assert "  00000000000000000064.log and 5 later files: removed with all records, as a broker does\n" in out
    assert "00000000000000000128.log" not in out


def test_a_salvage_makes_no_directory_in_a_log_directory(log_dir, tmp_path):
    """A broker takes the log directory offline for a directory whose name is not a partition's."""
    root = log_dir("crash-torn")
    before = tree(root)
    (tmp_path / "link").symlink_to(root)
    for out in (root / "salvaged", tmp_path / "link" / "salvaged"):
        code, _, err = recover(root / "crash-torn-0", "--salvage", out)
        assert (code, f"{out}: refused: a broker does not start with such a directory" in err) == (14, True)
    assert tree(root) == before
    assert not (root / "salvaged").exists()
    assert recover(root / "crash-torn-0", "--salvage", tmp_path / "salvaged")[0] in (3, 4)


def test_a_dry_run_changes_nothing(log_dir):
    root = log_dir("crash-torn")
    before = tree(root)
    assert "would cut" not in recover(root, "--dry-run")[1]
    code, out, _ = recover(root, "--dry-run", "--verbose")
    assert code == 3
    assert "would cut 00000000000000000115.log from 948 to 807 bytes" in out
    assert "undo:" not in out
    assert tree(root) == before
    code, out, _ = recover(root, "--dry-run", "--format", "json")
    plan, summary = objects(out)
    assert (plan["schema"], plan["run"], plan["log_end_offset"]) == ("kafkalog.recovery/1", None, 128)
    assert {"change": "cut", "name": "00000000000000000115.log", "from_bytes": 948, "to_bytes": 807} in plan["changes"]
    assert summary == {"schema": "kafkalog.summary/1", "type": "summary", "partitions": 1, "changed": 0, "exit_code": 3}
    assert tree(root) == before


def test_damage_in_the_middle_is_left_alone(log_dir):
    root = log_dir("crash-flip-mid")
    partition = files(root / "crash-flip-mid-0")
    code, out, _ = recover(root)
    assert code == 14
    assert "not recovered, nothing was changed" in out
    assert f"`kafkalog recover {root}/crash-flip-mid-0 --salvage salvaged`" in out
    assert files(root / "crash-flip-mid-0") == partition


def test_like_a_broker_with_settings_and_their_origin(log_dir, corpus, tmp_path):
    root = log_dir("crash-flip-mid")
    properties = tmp_path / "server.properties"
    properties.write_text("log.index.size.max.bytes=4096\nproducer.id.expiration.ms=86400000\n")
    code, out, _ = recover(
        root, "--like-broker", "--config", "index.interval.bytes=300", "--broker-config", properties, "--format", "json"
    )
    plan, summary = objects(out)
    assert code == summary["exit_code"] == 0
    assert {(s["name"], s["value"], s["origin"]) for s in plan["settings"]} == {
        ("segment.index.bytes", "4096", "static-broker-config"),
        ("index.interval.bytes", "300", "command-line"),
        ("producer.id.expiration.ms", "86400000", "static-broker-config"),
    }
    ours, after = files(root / "crash-flip-mid-0"), files(corpus / "crash-flip-mid" / "after" / "crash-flip-mid-0")
    for name in after:
        if not name.startswith("leader-epoch"):
            assert ours[name] == after[name], name
    assert "crash-flip-mid 0 110" in (root / "recovery-point-offset-checkpoint").read_text()


def test_like_a_broker_twice_is_as_once(log_dir):
    root = log_dir("crash-torn")
    assert "undo:" in recover(root, "--like-broker")[1]
    before = tree(root)
    assert recover(root, "--like-broker")[1] == f"{root}/crash-torn-0: nothing to do, offsets 0 to 128\n"
    assert tree(root) == before


def test_what_a_broker_does_not_start_with(log_dir):
    root = log_dir("clean-zero-tail")
    before = tree(root)
    code, out, _ = recover(root, "--like-broker")
    assert code == 14
    assert "a broker does not start with it: CorruptRecordException" in out
    after = {name: facts for name, facts in tree(root).items() if name != ".lock" and ".kafkalog" not in name}
    assert after == before


def test_the_marker_comes_back_where_nothing_went(log_dir):
    root = log_dir("clean-del-index")
    marker = (root / MARKER).read_bytes(), (root / MARKER).stat().st_mtime_ns
    code, _, err = recover(root)
    assert (code, err) == (0, "")
    assert ((root / MARKER).read_bytes(), (root / MARKER).stat().st_mtime_ns) == marker


def test_the_marker_stays_away_after_a_cut(log_dir):
    root = log_dir("clean-torn")
    code, _, err = recover(root)
    assert code == 0
    assert not (root / MARKER).exists()
    assert "leaves every in-sync replica set" in err


def test_no_marker_is_made(log_dir):
    root = log_dir("crash-del-index")
    assert recover(root)[0] == 0
    assert not (root / MARKER).exists()


def test_salvage(log_dir, tmp_path):
    root, out_directory = log_dir("crash-flip-mid"), tmp_path / "out"
    before = tree(root)
    code, out, _ = recover(root, "--salvage", out_directory, "--format", "json")
    result, _ = objects(out)
    assert code == 4
    assert (result["first_offset"], result["end_offset"]) == (0, 130)
    assert [(lost["first"], lost["last"]) for lost in result["lost"]] == [(110, 116)]
    assert tree(root) == before
    code, out, _ = recover(out_directory / "crash-flip-mid-0", "--dry-run")
    assert code == 0
    code, out, _ = recover(log_dir("crash-asis"), "--salvage", tmp_path / "other")
    assert code == 0
    assert "26 batches, 8.4 KiB in 3 segments written to" in out


@pytest.mark.parametrize(("name", "code"), [("crash-torn", 3), ("crash-zero-tail", 3), ("crash-flip-first-seg", 4)])
def test_salvage_tells_a_torn_tail_from_damage(log_dir, tmp_path, name, code):
    assert recover(log_dir(name), "--salvage", tmp_path / "out")[0] == code


def test_salvage_tells_the_damaged_end_of_an_earlier_segment_from_a_torn_tail(log_dir, tmp_path):
    root = log_dir("crash-asis")
    log = root / "crash-asis-0" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:-1])
    assert recover(root, "--salvage", tmp_path / "out")[0] == 4


def test_discard_keeps_nothing(log_dir):
    root = log_dir("crash-torn")
    code, out, _ = recover(root, "--discard")
    assert code == 0
    assert "cannot be undone (--discard)" in out
    kept = [name for name in tree(root) if ".kafkalog/" in name and not name.endswith(("lock", "manifest.json"))]
    assert kept == []


def test_bad_command_lines(log_dir, tmp_path):
    root = log_dir("crash-torn")
    before = tree(root)
    for argv in (
        [],
        [root, "--like-broker", "--indexes-only"],
        [root, "--like-broker", "--since-recovery-point"],
        [root, "--config", "index.interval.bytes"],
        [root, "--config", "no.such.setting=1"],
        [root, "--config", "index.interval.bytes=-5"],
        [root, "--now", "yesterday"],
    ):
        assert recover(*argv)[0] == 2, argv
    for argv in ([tmp_path / "nowhere"], [root, "--topic", "other"], [root, "--broker-config", tmp_path / "none"]):
        assert recover(*argv)[0] == 10, argv
    assert tree(root) == before


def test_partitions_that_are_not_ours_to_change(log_dir):
    """Under a log directory they are left out, with a word; by their own path they are refused."""
    root = log_dir("crash-torn")
    others = ["__cluster_metadata-0", f"gone-0.{'a' * 32}-delete", f"moved-0.{'b' * 32}-future"]
    for name in others:
        shutil.copytree(root / "crash-torn-0", root / name)
    before = tree(root)
    code, out, err = recover(root)
    assert code == 0
    assert out.count("undo:") == 1
    assert all(f"{name}: skipped" in err for name in others)
    for name in others:
        assert recover(root / name)[0] == 14
        assert {path: tree(root)[path] for path in before if path.startswith(name)} == {
            path: facts for path, facts in before.items() if path.startswith(name)
        }


def test_a_backup_by_hard_links_is_not_cut(log_dir):
    root = log_dir("crash-torn")
    log = root / "crash-torn-0" / "00000000000000000115.log"
    os.link(log, root / "backup")
    code, _, err = recover(root)
    assert code == 14
    assert "more than one hard link" in err
    assert log.stat().st_size == 948


def test_a_clock_that_is_behind(log_dir):
    root = log_dir("crash-torn")
    assert recover(root, "--now", "2020-01-01")[0] == 0
    newest = max(path.stat().st_mtime for path in (root / "crash-torn-0").iterdir())
    os.utime(root / "crash-torn-0" / "partition.metadata", (newest + 10**6, newest + 10**6))
    code, _, err = recover(root)
    assert code == 14
    assert "the clock of this machine is wrong" in err


def test_since_the_recovery_point(log_dir):
    root = log_dir("crash-del-index")
    (root / "recovery-point-offset-checkpoint").write_text("0\n1\ncrash-del-index 0 120\n")
    code, out, _ = recover(root, "--since-recovery-point", "--format", "json")
    plan, _ = objects(out)
    assert code == 0
    assert len(plan["changes"]) == 1
    assert len(objects(recover(root, "--format", "json")[1])[0]["changes"]) == 2


NOT_OPENED = [
    f"crash-torn-0/{name}"
    for base in ("00000000000000000000", "00000000000000000115")
    for name in (f"{base}.log", f"{base}.index", f"{base}.timeindex")
] + ["crash-torn-0/leader-epoch-checkpoint", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"]


class OneClosed(WatchedFilesystem):
    def __init__(self, below, path):
        super().__init__(below)
        self._path = path

    def before(self, call):
        if (call.name, call.path) == ("open_read", self._path):
            raise Unreadable(path=self._path, reason="Permission denied")


@pytest.mark.parametrize("mode", [(), ("--indexes-only",)])
@pytest.mark.parametrize("name", NOT_OPENED)
def test_a_file_that_may_not_be_opened(log_dir, name, mode):
    """Nobody knows what it would have told, so nothing is made of the others."""
    root = log_dir("crash-torn")
    (root / "log-start-offset-checkpoint").write_text("0\n1\ncrash-torn 0 0\n")
    before = tree(root)
    code, out, err = recover(root, *mode, fs=OneClosed(RealFilesystem(), str(root / name)))
    assert (code, out) == (1, "")
    assert str(root / name) in err
    assert "Permission denied" in err
    assert {found: facts for found, facts in tree(root).items() if found != ".lock"} == before


def test_a_hole_larger_than_any_disk(tmp_path):
    """It is not read through, and not copied for days: the copy would need no room, so nothing else stops it."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    records = [R(offset, 1_795_000_000_000 + offset, None, b"v") for offset in range(5)]
    write_segment(folder, 0, [(batch_v2(records), 4, records[-1].timestamp)])
    log = folder / f"{0:020}.log"
    size = log.stat().st_size
    try:
        os.truncate(log, 1 << 43)
    except OSError:
        pytest.skip("no large holes here")
    read = 0

    def meter(path, size_bytes):
        nonlocal read
        read += size_bytes

    code, out, _ = recover(folder, "--dry-run", fs=MeteredFilesystem(RealFilesystem(), meter))
    assert (code, "8.0 TiB cut" in out, read < 1 << 26) == (3, True, True), (code, out, read)
    code, _, err = recover(folder)
    assert (code, "nothing was changed" in err, "--discard" in err) == (13, True, True), err
    assert log.stat().st_size == 1 << 43
    assert recover(folder, "--discard")[0] == 0
    assert log.stat().st_size == size
