"""Output directories under power cuts after each call and calls that fail: files and state come together, or not."""

import json

import pytest

from kafkalog_cli.change import output_directory
from kafkalog_cli.change.output_directory import ComingFile, OutputDirectory, RunRecord, read_record, record_bytes
from kafkalog_cli.disk import durable
from kafkalog_cli.disk.durable import StagedFile
from kafkalog_cli.errors import (
    ExitCode,
    HalfPublished,
    KafkalogError,
    Locked,
    NotKafkaLayout,
    Refused,
    UnsupportedFormat,
)
from tests.support.memory_fs import SURVIVALS, MemoryFilesystem
from tests.support.watched_fs import RecordingFilesystem, every_fault

OUT, STATE = "/data/out", "/home/state.json"
CONTENTS = {"topic=a/day=1/0-0.x": b"one", "topic=a/day=2/0-0.x": b"two", "topic=b/0-0.x": b"three"}
MORE = {"topic=a/day=2/0-9.x": b"more", "topic=c/0-0.x": b"new"}


def empty_disk():
    fs = MemoryFilesystem()
    fs.add("/data/other", b"not ours")
    fs.add("/home/other", b"not ours")
    return fs


def run(fs, contents, number, state_path=STATE):
    """One run as an export makes it; what it finds first is completed."""
    with OutputDirectory(fs, OUT, state_path) as out:
        record = out.record()
        if record is not None:
            record = out.complete(record)
        reached = 0 if record is None else record.state["reached"]
        if reached >= number:
            return
        name = f"run-{number}"
        try:
            staging = out.begin(name)
            coming = []
            for count, (path, data) in enumerate(contents.items()):
                file = StagedFile(fs, f"{staging}/{count}.tmp")
                file.write(data)
                file.finish()
                coming.append(ComingFile(f"{count}.tmp", path))
            out.publish(RunRecord(out.path, name, {"format": "x"}, {"reached": number}, tuple(coming)))
        except BaseException:
            if out.record() is None or out.record().run != name:
                out.abandon(name)
            raise


def seen(fs):
    """The files that somebody who reads the output sees, and how far the state says that it goes."""
    found = {
        path.removeprefix(f"{OUT}/"): value[0]
        for path, value in (fs.tree(OUT, without=(f"{OUT}/.kafkalog",)) if fs.status(OUT) else {}).items()
        if value[0] is not None
    }
    record = read_record(fs, STATE)
    return found, 0 if record is None else record.state["reached"], record is not None and bool(record.coming)


def left(fs):
    """What lies in the output and is not seen."""
    return [path for path, _ in fs.walk(f"{OUT}/.kafkalog") if not path.endswith(("/.kafkalog", "/lock"))]


@pytest.mark.parametrize("first", [False, True])
def test_files_and_state_come_together_or_not_at_all_after_a_power_cut(first):
    """Before the commit nothing is seen; after it the next run, or the same, completes it: no file twice, none lost."""
    disk = empty_disk()
    before = {}
    if not first:
        run(disk, CONTENTS, 1)
        disk.settle()
        before = dict(CONTENTS)
    number, contents = (1, CONTENTS) if first else (2, MORE)
    images = []
    run(RecordingFilesystem(disk, lambda _: images.extend(disk.images())), contents, number)
    assert seen(disk) == ({**before, **contents}, number, False)
    assert left(disk) == []
    committed = 0
    for name, image in images:
        found, reached, is_coming = seen(image)
        if reached < number:
            assert (found, reached) == (before, number - 1), name
        else:
            committed += 1
            assert before.items() <= found.items() <= {**before, **contents}.items(), name
            assert is_coming or found == {**before, **contents}, name
        run(image, contents, number)
        assert seen(image) == ({**before, **contents}, number, False), name
        run(image, {}, number + 1)
        assert left(image) == [], name
        assert image.tree("/home")["/home/other"][0] == b"not ours"
    assert len(images) > 200
    assert 20 < committed < len(images)


def test_files_and_state_come_together_or_not_at_all_after_a_call_that_fails():
    """Not committed: nothing is seen, and it is said that nothing was changed. Committed: that the same command goes on."""
    kinds, unlocked = set(), 0
    for fs in every_fault(empty_disk):
        error = None
        try:
            run(fs, CONTENTS, 1)
        except (KafkalogError, OSError) as raised:
            error = raised
        disk = fs.below
        found, reached, is_coming = seen(disk)
        if isinstance(error, HalfPublished) or (reached and error is not None):
            kinds.add("half")
            assert is_coming or found == CONTENTS
            assert found.items() <= CONTENTS.items()
        elif error is not None:
            kinds.add(type(error).__name__)
            assert (found, reached) == ({}, 0)
            unlocked += disk.status(OUT) is not None and not fs.for_ever
        run(disk, CONTENTS, 1)
        assert seen(disk) == (CONTENTS, 1, False)
        run(disk, {}, 2)
        assert left(disk) == []
    assert {"half", "NotChanged", "NoSpace", "OSError"} <= kinds
    assert unlocked == 0


@pytest.mark.parametrize("there", [None, OUT, f"{OUT}/other", f"{OUT}/.kafkalog/other"])
def test_a_failed_run_removes_the_directories_that_it_made(there):
    """What was there before stays: an empty directory, a file of somebody, and a `.kafkalog` of earlier runs."""
    disk = empty_disk()
    if there == OUT:
        disk.make_directory(OUT)
    elif there is not None:
        disk.add(there, b"not ours")
    before = {path for path, _ in disk.walk("/data")}

    def fail():
        with OutputDirectory(disk, OUT, STATE) as out:
            disk.add(f"{out.begin('run-1')}/0.tmp", b"half")
            out.abandon("run-1")
            raise ValueError("of a task")

    with pytest.raises(ValueError, match="of a task"):
        fail()
    left = {path for path, _ in disk.walk("/data")} - before
    assert left == ({f"{OUT}/.kafkalog/lock"} if there == f"{OUT}/.kafkalog/other" else set())


def test_parents_are_removed_too_and_a_lock_of_another_run_is_not():
    disk, deep = empty_disk(), "/data/a/b/out"
    with pytest.raises(ValueError, match="mine"), OutputDirectory(disk, deep, STATE):
        raise ValueError("mine")
    assert disk.status("/data/a") is None

    class Late(RecordingFilesystem):
        """Another run makes the directory, and locks it, between our look and our lock."""

        def lock(self, path, **wanted):
            disk.add(path, b"")
            raise BlockingIOError(11, "another process holds the lock", path)

    with pytest.raises(Locked), OutputDirectory(Late(disk), deep, STATE):
        pass
    assert disk.status(f"{deep}/.kafkalog/lock") is not None


def test_files_are_published_without_a_state():
    """The record is there while files come to their places, and a power cut then is noticed."""
    disk, images = empty_disk(), []
    run(RecordingFilesystem(disk, lambda _: images.extend(disk.images())), CONTENTS, 1, None)
    assert seen(disk)[0] == CONTENTS
    assert left(disk) == []
    half = 0
    for name, image in images:
        record = None if image.status(OUT) is None else OutputDirectory(image, OUT, None).record()
        found = seen(image)[0]
        if record is None:
            assert found in ({}, CONTENTS), name
            continue
        half += found not in ({}, CONTENTS)
        run(image, CONTENTS, 1, None)
        assert seen(image)[0] == CONTENTS, name
        assert OutputDirectory(image, OUT, None).record() is None
    assert half > 5


def test_files_are_published_on_a_disk_without_hard_links():
    class NoLinks(RecordingFilesystem):
        def link(self, old, new):
            raise OSError(1, "Operation not permitted", new)

    disk = empty_disk()
    run(NoLinks(disk), CONTENTS, 1)
    assert seen(disk) == (CONTENTS, 1, False)
    assert left(disk) == []


def test_a_second_run_into_the_directory_is_refused():
    disk = empty_disk()
    with (
        OutputDirectory(disk, OUT, STATE),
        pytest.raises(Locked, match="another run of kafkalog holds the lock"),
        OutputDirectory(disk, OUT, STATE),
    ):
        pass
    assert disk.locks_held() == 0


def test_files_that_are_there_are_not_replaced():
    disk = empty_disk()
    disk.add(f"{OUT}/topic=b/0-0.x", b"somebody's")
    with pytest.raises(Refused, match=r"topic=b/0-0.x: refused: a file has this name already"):
        run(disk, CONTENTS, 1)
    assert seen(disk) == ({"topic=b/0-0.x": b"somebody's"}, 0, False)


def test_a_file_that_is_no_state_or_of_another_run_is_refused():
    disk = empty_disk()
    run(disk, CONTENTS, 1)
    content = json.loads(disk.tree("/home")[STATE][0])
    for wrong in (b"", b"[]", b"{}", b"\xff", b'{"version":9}', json.dumps({**content, "coming": 3})):
        other = empty_disk()
        other.add(STATE, wrong if isinstance(wrong, bytes) else wrong.encode())
        with pytest.raises(UnsupportedFormat, match="no earlier run wrote this content") as caught:
            run(other, CONTENTS, 2)
        assert caught.value.exit_code is ExitCode.UNSUPPORTED
    other = empty_disk()
    other.add(STATE, json.dumps({**content, "output": "/data/else"}).encode())
    with pytest.raises(Refused, match="it is the record of /data/else, not of /data/out"):
        run(other, CONTENTS, 2)


def test_a_committed_file_that_is_gone_is_missed():
    disk, images = empty_disk(), []
    run(RecordingFilesystem(disk, lambda _: images.append(disk.image(SURVIVALS[0]))), CONTENTS, 1)
    half = next(image for image in images if seen(image)[2] and not seen(image)[0])
    for path, _ in list(half.walk(f"{OUT}/.kafkalog/run-1"))[1:]:
        half.unlink(path)
    half.remove_directory(f"{OUT}/.kafkalog/run-1")
    with pytest.raises(Refused, match=r"it is missing, and .*run-1 is missing too, where a committed run had it"):
        run(half, {}, 2)


def test_an_output_that_is_no_directory_is_refused():
    disk = empty_disk()
    with pytest.raises(NotKafkaLayout, match="is not a directory"), OutputDirectory(disk, "/data/other", None):
        pass


def test_an_output_file_can_be_written_as_a_stream():
    disk = empty_disk()
    file = StagedFile(disk, "/data/x", disk.attributes("/data/other"))
    parts = [b"a" * 10, bytearray(b"b" * (1 << 20)), memoryview(b"c" * (3 << 20)), b"", b"d"]
    for part in parts:
        assert file.write(part) == len(part)
    whole = b"".join(bytes(part) for part in parts)
    assert file.tell() == len(whole) == file.finish()
    assert (file.closed, disk.tree("/data/x")["/data/x"][0]) == (True, whole)
    gone = StagedFile(disk, "/data/y", disk.attributes("/data/other"))
    gone.write(b"z")
    gone.drop()
    assert disk.status("/data/y") is None


NAME = "é" * 127 + "x"
PATH = "/".join([NAME] * 16)


@pytest.mark.parametrize("path", [NAME, PATH, "/".join("d" * 64)])
def test_a_path_has_the_limits_of_a_file_system(path):
    """255 bytes a name and 4,095 a path (limits.h), in 64 directories; a byte or a directory more is no path of a run."""
    fs = empty_disk()

    def read(path):
        fs.add(STATE, record_bytes(RunRecord(OUT, "run-1", {}, {}, (ComingFile("0.tmp", path),))))
        return read_record(fs, STATE).coming[0].path

    assert (len(NAME.encode()), len(PATH.encode())) == (255, 4095)
    assert read(path) == path
    longer = {NAME: NAME + "x", PATH: "/".join([*[NAME[:-1]] * 15, NAME[:-1], "x" * 16])}.get(path, f"{path}/d")
    assert len(longer.encode()) in (256, 4096, 129)
    with pytest.raises(UnsupportedFormat, match="is not the name of a file below it"):
        read(longer)


def test_a_record_is_written_and_read_up_to_its_limit(monkeypatch):
    fs, record = empty_disk(), RunRecord(OUT, "run-1", {}, {}, (ComingFile("0.tmp", "a"),))
    content = record_bytes(record)
    fs.add(STATE, content)
    monkeypatch.setattr(output_directory, "LIMIT_BYTES", len(content))
    assert record_bytes(record) == content
    assert read_record(fs, STATE) == record
    monkeypatch.setattr(output_directory, "LIMIT_BYTES", len(content) - 1)
    with pytest.raises(Refused, match="the record of the run would have"):
        record_bytes(record)
    with pytest.raises(UnsupportedFormat, match="and a record at most"):
        read_record(fs, STATE)


def test_a_staged_file_has_all_bytes_once_and_in_order():
    least = durable._LEAST_BYTES
    for number, sizes in enumerate(([10, least, 5], [least], [least - 10, 10, 3], [5, least + 1, 1], [0])):
        disk = empty_disk()
        data = bytes(range(251)) * (sum(sizes) // 251 + 1)
        file, at = StagedFile(disk, f"/data/{number}"), 0
        for size in sizes:
            assert file.write(memoryview(data)[at : at + size]) == size
            at += size
            assert file.tell() == at
        assert file.finish() == at
        assert disk.tree("/data")[f"/data/{number}"][0] == data[:at]
