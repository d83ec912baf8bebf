"""`kafkalog purge`: what is due and old goes, nothing else does."""

import json
import os
import shutil
from pathlib import Path

import pytest

from kafkalog_cli.change.journal import apply
from kafkalog_cli.change.manifest import RunInfo
from kafkalog_cli.change.runs import new_run_id
from tests.cli.test_undo import NOW_MS, fits_its_schema, kafkalog, partitions, tree
from tests.support.locks import held_by_another_process
from tests.support.product import Cut, Drop, Move, RealFilesystem
from tests.support.watched_fs import FailingFilesystem, RecordingFilesystem

DAY_MS = 86_400_000
LOG, DELETED = "00000000000000000000.log", "00000000000000000000.log.deleted"


@pytest.fixture
def partition(tmp_path):
    found = tmp_path / "logs" / "t-0"
    found.mkdir(parents=True)
    (found.parent / "meta.properties").touch()
    for name in (LOG, "00000000000000000010.log", "00000000000000000020.log"):
        (found / name).write_bytes(b"x" * 100)
    return found


def make_run(partition, run_id, ago_ms, *changes, **settings):
    info = RunInfo(run_id, "test", (), NOW_MS - ago_ms, settings)
    return apply(RealFilesystem(), str(partition), changes, run=info)


def names(partition):
    return sorted(path.name for path in partition.iterdir() if path.name != ".kafkalog")


def runs(partition):
    return sorted(path.name for path in (partition / ".kafkalog").iterdir() if path.name != "lock")


def test_old_runs_go_and_young_ones_stay(partition):
    make_run(partition, "old", 8 * DAY_MS, Drop(LOG))
    make_run(partition, "young", 6 * DAY_MS, Cut("00000000000000000010.log", 100, 50))
    before = tree(partition)
    code, out, err = kafkalog("purge", partition)
    assert (code, err) == (0, "")
    assert out.startswith(f"{partition}: purged: 0 files and 1 run, ")
    assert out.endswith("  cannot be undone\n")
    assert ", 1 not due yet" in out
    assert runs(partition) == ["young"]
    assert tree(partition) == before
    assert kafkalog("undo", partition, "old")[0] == 10
    assert kafkalog("undo", partition, "young")[0] == 0
    assert kafkalog("purge", partition, "--older-than", "5d")[0] == 0
    assert runs(partition) == []


def test_a_second_purge_is_a_no_op(partition):
    make_run(partition, "old", 8 * DAY_MS, Drop(LOG))
    kafkalog("purge", partition)
    before = tree(partition, with_own=True)
    assert kafkalog("purge", partition) == (0, f"{partition}: nothing to purge\n", "")
    assert kafkalog("purge", partition, "--quiet") == (0, "", "")
    assert tree(partition, with_own=True) == before


@pytest.mark.parametrize(
    ("ago_ms", "settings", "goes"),
    [
        (59_999, {}, False),
        (60_000, {}, True),
        (60_000, {"file.delete.delay.ms": "60001"}, False),
        (0, {"file.delete.delay.ms": "0"}, True),
    ],
)
def test_deleted_files_go_when_the_delay_is_over(partition, ago_ms, settings, goes):
    make_run(partition, "retain", ago_ms, Move(LOG, DELETED), **settings)
    code, _, _ = kafkalog("purge", partition)
    assert code == 0
    assert (DELETED in names(partition)) != goes
    assert runs(partition) == ["retain"]
    assert kafkalog("undo", partition, "retain")[0] == (14 if goes else 0)


def test_what_was_promised_for_an_undo_holds_where_the_run_had_an_earlier_time(partition):
    """`retain --now LAST_WEEK` says "undo for 60 s"; the next command without --now looks at another clock."""
    run_id = new_run_id("retain", NOW_MS - 59_999)
    make_run(partition, run_id, 8 * DAY_MS, Move(LOG, DELETED))
    assert kafkalog("purge", partition)[0] == 0
    assert (DELETED in names(partition), runs(partition)) == (True, [run_id])
    assert kafkalog("purge", partition, "--now", NOW_MS)[0] == 0  # the clock of that run
    assert (DELETED in names(partition), runs(partition)) == (False, [])


def test_a_brokers_deleted_files_go_by_their_ctime(partition):
    (partition / LOG).rename(partition / DELETED)
    renamed_ms = (partition / DELETED).stat().st_ctime_ns // 1_000_000
    assert kafkalog("purge", partition, "--now", renamed_ms + 59_999)[0] == 0
    assert DELETED in names(partition)
    assert kafkalog("purge", partition, "--now", renamed_ms + 60_000)[0] == 0
    assert names(partition) == ["00000000000000000010.log", "00000000000000000020.log"]


def test_what_was_undone_leaves_its_deleted_files_to_the_broker(partition):
    """The name can come again, made by somebody else, after the run was undone."""
    make_run(partition, "retain", DAY_MS, Move(LOG, DELETED))
    kafkalog("undo", partition, "retain")
    (partition / LOG).rename(partition / DELETED)
    renamed_ms = (partition / DELETED).stat().st_ctime_ns // 1_000_000
    assert kafkalog("purge", partition, "--now", renamed_ms + 1)[0] == 0
    assert DELETED in names(partition)


def test_a_dry_run_touches_nothing(partition):
    make_run(partition, "old", 8 * DAY_MS, Drop("00000000000000000010.log"), Move(LOG, DELETED))
    before = tree(partition.parent, with_own=True)
    recorder = RecordingFilesystem(RealFilesystem())
    code, out, _ = kafkalog("purge", partition, "--dry-run", "--verbose", fs=recorder)
    assert code == 0
    assert "would be purged: 1 file and 1 run" in out
    assert DELETED not in kafkalog("purge", partition, "--dry-run")[1]
    assert "cannot be undone" not in out
    assert f"  {DELETED}: 100 bytes" in out.splitlines()
    assert [call for call in recorder.calls if call.name == "lock" or call in recorder.changes] == []
    assert tree(partition.parent, with_own=True) == before


def test_machine_output(partition):
    make_run(partition, "old", 8 * DAY_MS, Drop("00000000000000000010.log"), Move(LOG, DELETED))
    code, out, err = kafkalog("purge", partition.parent, "--format", "json")
    first, summary = map(json.loads, out.splitlines())
    assert (code, err, summary["exit_code"]) == (0, "", 0)
    assert (summary["files"], summary["runs"], summary["bytes"]) == (1, 1, first["size_bytes"])
    assert first["files"] == [
        {"name": DELETED, "size_bytes": 100, "due_ms": NOW_MS - 8 * DAY_MS + 60_000, "run": "old"}
    ]
    assert first["runs"][0]["run"] == "old"
    assert fits_its_schema(first)


def test_a_run_that_did_not_end_stays_with_its_files(partition):
    make_run(partition, "cut-off", 90 * DAY_MS, Drop("00000000000000000010.log"), Move(LOG, DELETED))
    manifest = partition / ".kafkalog/cut-off/manifest.json"
    manifest.write_text(manifest.read_text().replace('"state": "done"', '"state": "started"'))
    before = tree(partition)
    code, out, err = kafkalog("purge", partition)
    assert code == 3
    assert f"kafkalog undo {partition} cut-off" in err
    assert "nothing to purge" in out
    assert tree(partition) == before
    assert kafkalog("undo", partition, "cut-off")[0] == 0
    assert LOG in names(partition)


def test_what_never_began_goes_and_what_cannot_be_read_stays(partition):
    make_run(partition, "odd", 90 * DAY_MS, Drop(LOG))
    (partition / ".kafkalog/odd/manifest.json").write_text("{")
    prepared = partition / ".kafkalog/20260101T000000.000Z-recover-0001"
    prepared.mkdir()
    (prepared / "0000.new").write_bytes(b"staged")
    (partition / ".kafkalog/notes").mkdir()
    (partition / ".kafkalog/notes/mine.txt").write_bytes(b"of somebody else")
    code, _, err = kafkalog("purge", partition)
    assert code == 3
    assert "run odd stays" in err
    assert "run notes stays: kafkalog did not make it" in err
    assert runs(partition) == ["notes", "odd"]
    assert (partition / ".kafkalog/notes/mine.txt").exists()


def test_nothing_to_purge_leaves_no_trace(corpus, tmp_path):
    source = next(p for p in (corpus / "txn", *(corpus / "txn").iterdir()) if p.is_dir() and partitions(p))
    copy = Path(shutil.copytree(source, tmp_path / "logs"))
    before = {name for name in tree(copy, with_own=True) if not name.endswith(".lock")}
    assert kafkalog("purge", copy, "--topic", partitions(copy)[0].name.rpartition("-")[0])[0] == 0
    assert {name for name in tree(copy, with_own=True) if not name.endswith(".lock")} == before


def test_what_no_writer_may_touch_is_refused(partition):
    for name in (
        "t-1.0123456789abcdef0123456789abcdef-delete",
        "t-1.0123456789abcdef0123456789abcdef-future",
        "__cluster_metadata-0",
    ):
        other = partition.parent / name
        shutil.copytree(partition, other)
        (other / LOG).rename(other / DELETED)
        code, _, err = kafkalog("purge", other)
        assert (code, "refused" in err) == (14, True), err
        assert (other / DELETED).exists()


def test_a_broker_that_runs_keeps_it_out(partition):
    make_run(partition, "old", 8 * DAY_MS, Drop(LOG))
    (partition.parent / ".lock").touch()
    recorder = RecordingFilesystem(RealFilesystem())
    with held_by_another_process(partition.parent / ".lock"):
        assert kafkalog("purge", partition, fs=recorder)[0] == 11
    assert recorder.changes == []
    assert runs(partition) == ["old"]


def test_a_clock_before_the_newest_file_needs_a_flag(partition):
    make_run(partition, "old", 8 * DAY_MS, Drop(LOG))
    newest_ms = max(path.stat().st_mtime_ns for path in partition.iterdir() if path.is_file()) // 1_000_000
    os.utime(partition / "00000000000000000010.log", ns=(0, (NOW_MS + 1000) * 1_000_000))
    assert newest_ms < NOW_MS
    assert kafkalog("purge", partition)[0] == 14
    assert kafkalog("purge", partition, "--now", NOW_MS)[0] == 0


OLD = "20260101T000000.000Z-test-0001"


def test_faults_leave_no_half_run_that_could_be_undone(partition):
    for n in range(60):
        copy = partition.parent.parent / f"copy-{n}" / "t-0"
        shutil.copytree(partition, copy)
        make_run(copy, OLD, 8 * DAY_MS, Drop("00000000000000000010.log"), Move(LOG, DELETED))
        fs = FailingFilesystem(RealFilesystem(), "EIO", n)
        code, _, err = kafkalog("purge", copy, fs=fs)
        assert "internal error" not in err
        if not fs.fired:
            assert code == 0
            break
        if code:
            kept = copy / f".kafkalog/{OLD}"
            if kept.exists() and len(list(kept.iterdir())) < 2:
                assert kafkalog("undo", copy, OLD)[0] in (0, 14)
            assert kafkalog("purge", copy)[0] == 0, "a second one completes it"
        assert not (copy / f".kafkalog/{OLD}").exists()
    else:
        pytest.fail("no run without a fault")
    assert n > 5


@pytest.mark.parametrize("text", ["7", "7w", "-7d", "", "d"])
def test_spans_of_time(partition, text):
    assert kafkalog("purge", partition, "--older-than", text)[0] == 2
    assert kafkalog("purge")[0] == 2
