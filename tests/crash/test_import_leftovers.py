"""What an import leaves that was cut off at any call is seen by verify and ls, and purge removes what nobody waits for."""

import json
import os
from copy import deepcopy

import pytest

from tests.crash.writers import NOW_MS, kafkalog
from tests.support.locks import held_by_another_process
from tests.support.product import RealFilesystem, is_staged, staged_name
from tests.support.product_journal import IMPORT_BYTE, NewPartitions, StagedPartition, record_of
from tests.support.schemas import check
from tests.support.watched_fs import RecordingFilesystem, every_fault
from tests.unit.test_new_partitions import ALL, NAMES, ROOT, committed_image, empty_disk, left, run, seen

FAULTS_OF_REMOVAL = ("EIO", "EACCES", "EINTR")
LATER_MS = NOW_MS + 3_600_000_000
RECORD = f"{ROOT}/.kafkalog-import"


def findings(fs):
    """Of verify, by kind: what they say of whom."""
    outcome = kafkalog(fs, "verify", ROOT, "--format", "json")
    found = {}
    for line in map(json.loads, outcome.out.splitlines()):
        if line["type"] == "finding":
            found.setdefault(line["kind"], {})[line["path"].rpartition("/")[2]] = line
    return outcome.code, found


def log_dir(fs):
    lines = map(json.loads, kafkalog(fs, "ls", ROOT, "--format", "json").out.splitlines())
    return next(line for line in lines if line["type"] == "logdir")


def staged(fs):
    return {path.rpartition("/")[2] for path, _ in fs.walk(ROOT) if is_staged(path.rpartition("/")[2])}


def places(fs):
    """By the record: which staged directory is to be which partition."""
    record = record_of(fs, ROOT)
    return None if record is None else {one.staged: one.path for one in record.coming}


@pytest.mark.full
@pytest.mark.parametrize("with_empty", [False, True])
def test_a_power_cut_after_any_call_of_purge_of_import_leftovers_leaves_what_another_purge_removes(with_empty):
    """Both commands tell what is left; purge takes the one and never the other, and the next import goes on."""
    disk, images = empty_disk(with_empty=with_empty), []
    run(RecordingFilesystem(disk, lambda _: images.extend(disk.images())))
    committed = stale = 0
    for name, image in images[::2]:
        coming, lying = places(image), staged(image)
        _, found = findings(image)
        told, cut_off = set(found.get("import-staged", {})), found.get("import-cut-off", {})
        waiting = {one for one in lying if one in (coming or {})}
        assert told == lying - waiting, name
        assert (coming is not None) == bool(cut_off), name
        if coming is not None:
            (line,) = cut_off.values()
            assert all(coming[one] in line["message"] for one in sorted(waiting, key=coming.get)[:3]), line
            step = "repeat the import before a broker starts" if waiting else "nothing has to be done"
            assert line["next_step"].startswith(step)
        listed = log_dir(image)["imports"]
        assert {one["name"] for one in listed["coming"]} == {(coming or {})[one] for one in waiting}
        assert {one["name"] for one in listed["staged"]} == told
        assert (listed["run"] is not None) == (coming is not None)
        outcome = kafkalog(image, "purge", ROOT, now_ms=LATER_MS)
        assert outcome.code == (3 if waiting else 0), (name, outcome)
        assert staged(image) == waiting, (name, outcome)
        committed += bool(waiting)
        stale += bool(told)
        with NewPartitions(image, ROOT) as new:
            new.complete()
        if coming is not None:
            assert seen(image) == ALL, name
    assert committed > 10
    assert stale > 40


@pytest.mark.full
def test_a_failed_call_of_purge_leaves_import_leftovers_that_another_purge_removes():
    """What it could not remove is as it was before for all others, and goes with the next purge."""
    disk, images = empty_disk(), []
    run(RecordingFilesystem(disk, lambda _: images.extend(disk.images())))
    before = next(image for _, image in images if len(staged(image)) == 6 and places(image) is None)
    codes = set()
    for fs in every_fault(lambda: deepcopy(before), FAULTS_OF_REMOVAL):
        outcome = kafkalog(fs, "purge", ROOT, now_ms=LATER_MS)
        codes.add(outcome.code)
        assert seen(fs.below) == {}
        assert kafkalog(fs.below, "purge", ROOT, now_ms=LATER_MS, token="0002").code == 0
        assert left(fs.below) == []
    assert len(codes) > 1


def test_verify_and_ls_report_staged_partitions_lost_when_a_broker_was_started():
    image = committed_image()
    (placed,) = seen(image)
    for name in staged(image):
        for file in image.list_directory(f"{ROOT}/{name}"):
            image.unlink(file.path)
        image.remove_directory(f"{ROOT}/{name}")
    _, found = findings(image)
    (line,) = found["import-cut-off"].values()
    lost = [name for name in NAMES if name != placed]
    assert f"removed by a broker that was started since, and to be imported again: {', '.join(lost)}" in line["message"]
    assert "still to come" not in line["message"]
    assert line["broker_effect"] == "none"
    text = kafkalog(image, "ls", ROOT).out
    assert f"an import was cut off after its commit; still to come: -; lost: {', '.join(lost)}" in text


def test_verify_checks_partitions_of_a_committed_import_that_are_still_staged():
    """As any other; what is no partition of anybody's is not looked into."""
    image = committed_image()
    (name,) = [one for one, path in places(image).items() if path == "orders-1"]
    (log,) = [file.path for file in image.list_directory(f"{ROOT}/{name}") if file.path.endswith(".log")]
    stale = staged_name("orders", 7, "another", "0")
    for path in (log, f"{ROOT}/{stale}/{0:020d}.log"):
        if image.status(path.rpartition("/")[0]) is None:
            image.add(path, b"x" * 100)
        else:
            with image.open_write(path) as file:
                file.write(0, b"x" * 100)
    _, found = findings(image)
    assert name + "/" + log.rpartition("/")[2] in found["torn-tail"][log.rpartition("/")[2]]["path"]
    assert stale not in str(found["torn-tail"])
    assert found["marked-directory"][name]["message"] == "an import built it, but has not moved it to its place"
    assert stale in found["import-staged"]
    assert name not in found["import-staged"]


def test_a_damaged_import_record_is_reported():
    """Nobody knows what is wanted: nothing goes."""
    image = committed_image()
    with image.open_write(RECORD) as file:
        file.truncate(9)
    before = staged(image)
    _, found = findings(image)
    assert "no earlier run wrote this content" in found["import-cut-off"][".kafkalog-import"]["message"]
    assert kafkalog(image, "purge", *(f"{ROOT}/{name}" for name in before), now_ms=LATER_MS).code == 12
    assert staged(image) == before


@pytest.fixture
def real(tmp_path):
    """A log directory on a real disk, with what an import staged an hour ago."""
    found = tmp_path / "data"
    found.mkdir()
    (found / "meta.properties").write_text("version=1\n")
    made = found / staged_name("orders", 0, "run", "0")
    made.mkdir()
    (made / f"{0:020d}.log").write_bytes(b"x" * 100)
    rows = found / staged_name("kafkalog-rows", 0, "run", "1")
    rows.mkdir()
    (rows / "0-0.arrow").write_bytes(b"y" * 50)
    return found


def later(path):
    return max(one.stat().st_ctime_ns for one in path.rglob("*")) // 1_000_000 + 61_000


def test_purge_prints_the_files_and_bytes_of_import_leftovers_that_it_removes(real):
    names = sorted(path.name for path in real.iterdir() if is_staged(path.name))
    now_ms = later(real)
    fs = RealFilesystem()
    young = kafkalog(fs, "purge", str(real), now_ms=now_ms - 2_000)
    assert (young.code, young.out.count("nothing to purge, 1 not due yet")) == (0, 2)
    dry = kafkalog(fs, "purge", str(real), "--dry-run", now_ms=now_ms)
    assert dry.out.count("would be purged: what an import left that did not end, 1 file, ") == 2
    outcome = kafkalog(fs, "purge", str(real), "--format", "json", now_ms=now_ms)
    assert outcome.code == 0
    assert check(outcome.out.splitlines()) == {"kafkalog.purge/1", "kafkalog.summary/1"}
    *objects, summary = [json.loads(line) for line in outcome.out.splitlines()]
    assert [os.path.basename(one["path"]) for one in objects] == names  # noqa: PTH119
    assert [one["leftover"] for one in objects] == [{"files": 1, "size_bytes": 50}, {"files": 1, "size_bytes": 100}]
    assert (summary["leftovers"], summary["bytes"]) == (2, 150)
    assert [path for path in real.iterdir() if is_staged(path.name)] == []


def test_a_directory_is_no_import_leftover_by_its_name_alone(real, monkeypatch):
    """The record and the lock are those of the working directory: what a committed import waits for stays."""
    names = [path.name for path in real.iterdir() if is_staged(path.name)]
    waiting, stale = sorted(names, key=lambda name: name.startswith("kafkalog-rows"))
    fs = RealFilesystem()
    part = StagedPartition("orders", 0, waiting)
    with NewPartitions(fs, str(real)) as new:
        monkeypatch.setattr(new, "complete", lambda: None)
        new.publish("run", [part], {})
    monkeypatch.chdir(real)
    for name, code in ((waiting, 3), (stale, 0)):
        assert kafkalog(fs, "purge", name, now_ms=later(real)).code == code
    assert [path.name for path in real.iterdir() if is_staged(path.name)] == [waiting]


def test_purge_leaves_a_running_import_alone(real):
    names = sorted(path.name for path in real.iterdir() if is_staged(path.name))
    (real / ".lock").touch()
    with held_by_another_process(real / ".lock", "LOCK_EX", 1, IMPORT_BYTE):
        now_ms, fs = later(real), RealFilesystem()
        outcome = kafkalog(fs, "purge", str(real), now_ms=now_ms)
        assert (outcome.code, outcome.out.count("nothing to purge, 1 not due yet")) == (0, 2)
        told = kafkalog(fs, "verify", str(real), "--verbose")
        assert told.out.count("an import is writing it, pid ") == 2
        assert "an import is running: 2 directories" in kafkalog(fs, "ls", str(real)).out
    assert sorted(path.name for path in real.iterdir() if is_staged(path.name)) == names


def test_a_committed_dataframe_import_is_reported_without_inputs():
    disk = empty_disk()
    name = staged_name("t", 0, "run", "0")
    disk.add(f"{ROOT}/{name}/{0:020d}.log", b"")
    images = []
    with NewPartitions(RecordingFilesystem(disk, lambda _: images.extend(disk.images())), ROOT) as new:
        new.publish("run", [StagedPartition("t", 0, name)], {"command": []})
    image = next(image for _, image in images if places(image))
    (line,) = findings(image)[1]["import-cut-off"].values()
    assert line["message"] == "an import was cut off after its commit; still to come: t-0"
