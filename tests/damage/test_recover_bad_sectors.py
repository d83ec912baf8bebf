"""recover on a disk with sectors that cannot be read: nothing is cut that was not read, salvage reads around them."""

import errno
import os
import shutil

import pytest

from tests.model.test_salvage import batches, offsets_in
from tests.support.commands import kafkalog, objects_in
from tests.support.logs import write_segment
from tests.support.product import RealFilesystem
from tests.support.watched_fs import WatchedFilesystem

SECTOR = 512
FIRST, LAST = f"{0:020d}.log", f"{120:020d}.log"
NEWER = "1795000000000"


class BadSectors(WatchedFilesystem):
    """Reads that touch bytes `begin` to `end` of `path` fail; `reads` are those that did."""

    def __init__(self, path, begin, end):
        super().__init__(RealFilesystem())
        self.path, self.begin, self.end = str(path), begin, end
        self.reads = []

    def before(self, call):
        if call.name != "read" or call.path != self.path:
            return
        position, size = call.detail
        if position < self.end and position + size > self.begin:
            self.reads.append((position, size))
            raise OSError(errno.EIO, os.strerror(errno.EIO), call.path)


def partition(directory):
    """Two segments of batches of two records: offsets 0 to 119, and 120 to 199, over some sectors each."""
    directory.mkdir()
    write_segment(directory, 0, batches(0, 60), 200)
    write_segment(directory, 120, batches(120, 40), 200)
    return directory


def recover(fs, *argv):
    code, out, err = kafkalog("recover", "--format", "json", *argv, fs=fs)
    return code, objects_in(out), [one for one in objects_in(err) if one["type"] != "progress"]


def content(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


TORN_BYTES = 2 * SECTOR


def torn(directory, extra=b"\x01" * TORN_BYTES):
    """The partition with a tail that is cut as a rule."""
    source = partition(directory)
    log = source / LAST
    log.write_bytes(log.read_bytes() + extra)
    return source


@pytest.mark.parametrize("where", ["start", "middle", "end", "in the torn bytes"])
@pytest.mark.parametrize("mode", [(), ("--discard",), ("--indexes-only",), ("--like-broker",)])
def test_recover_refuses_to_cut_a_log_that_cannot_be_read(tmp_path, where, mode):
    source = torn(tmp_path / "t-0")
    size = (source / LAST).stat().st_size
    begin = {"start": 0, "middle": 1000, "end": size - TORN_BYTES - 30, "in the torn bytes": size - 2}[where]
    fs = BadSectors(source / LAST, begin, begin + 1)
    before = content(source)
    code, (*plans, summary), err = recover(fs, source, *mode)
    plan = plans[0] if plans else None
    assert fs.reads
    if mode == ("--indexes-only",):  # it cuts nothing anyway
        assert content(source) == before
        assert code in (0, 14)
        return
    assert content(source) == before
    if mode == ("--like-broker",) and where == "in the torn bytes":
        # A broker sees by the size of the file that there is no whole batch, and cuts what it does not read.
        code, (plan, _), _ = recover(fs, source, *mode, "--discard")
        assert (code, plan["cut"][0]["size_bytes"]) == (0, TORN_BYTES)
        return
    assert (code, summary["exit_code"], err) == (14, 14, [])
    assert plan["refused"]
    assert plan["run"] is None
    assert content(source) == before
    remark = plan["remarks"][-1]
    assert remark["severity"] == "refused"
    if mode == ("--like-broker",):
        assert "a broker does not start with it: KafkaException" in remark["message"]
    else:
        assert remark["path"] == str(source / LAST)
        assert remark["position"] == begin // SECTOR * SECTOR
        assert "cannot be read: Input/output error" in remark["message"]
        assert "--salvage" in remark["next_step"]


def test_the_same_disk_without_bad_sectors_is_cut(tmp_path):
    source = torn(tmp_path / "t-0")
    fs = BadSectors(source / LAST, 1 << 40, 1 << 41)
    code, (plan, _), _ = recover(fs, source)
    assert (code, plan["refused"]) == (0, False)
    assert plan["cut"][0]["size_bytes"] == TORN_BYTES


def test_a_closed_segment_is_left_alone_too(tmp_path):
    source = partition(tmp_path / "t-0")
    before = content(source)
    code, (plan, _), _ = recover(BadSectors(source / FIRST, 300, 301), source)
    assert (code, plan["refused"]) == (14, True)
    assert content(source) == before


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_that_cannot_be_read_is_made_anew(tmp_path, suffix):
    source = partition(tmp_path / "t-0")
    name = FIRST.replace(".log", suffix)
    before = (source / name).read_bytes()
    assert before
    fs = BadSectors(source / name, 0, 1)
    inode = (source / name).stat().st_ino
    code, (plan, _), _ = recover(fs, source, "--config", "index.interval.bytes=200")
    assert code == 0
    assert fs.reads
    assert [change["name"] for change in plan["changes"] if change["replaces"]] == [name]
    assert (source / name).read_bytes() == before
    assert (source / name).stat().st_ino != inode


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "00000000000000000130.snapshot", "partition.metadata"])
def test_a_small_file_that_cannot_be_read(corpus, tmp_path, name):
    """Asked of the real 4.2.0 loader with reads that fail: KafkaStorageException or IOException, which cost the
    broker the log directory; of a log, KafkaException, with which it does not start."""
    shutil.copytree(corpus / "clean-asis" / "before", tmp_path / "log")
    for path in [tmp_path / "log", *(tmp_path / "log").rglob("*")]:
        path.chmod(0o700)
    source = tmp_path / "log" / "clean-asis-0"
    before = content(source)
    code, (plan, _), _ = recover(BadSectors(source / name, 0, 1), source, "--like-broker")
    assert (code, plan["refused"]) == (14, True)
    assert "takes the whole log directory offline" in plan["remarks"][0]["message"]
    assert plan["remarks"][0]["path"] == str(source / name)
    assert content(source) == before
    code, (plan, _), err = recover(BadSectors(source / name, 0, 1), source)
    assert not plan["refused"]
    assert {n: b for n, b in content(source).items() if n != name} == {n: b for n, b in before.items() if n != name}


@pytest.mark.parametrize(("base", "is_clean"), [("0", True), ("0", False), ("120", False)])
def test_recover_of_a_log_with_an_unreadable_byte_does_what_a_broker_does(tmp_path, base, is_clean):
    """A finding that says so, and no changes; after a clean stop, where it does not read there, it sees nothing."""
    source = partition(tmp_path / "t-0")
    if is_clean:
        (tmp_path / ".kafka_cleanshutdown").touch()
    name = f"{int(base):020d}.log"
    argv = (source, "--like-broker", "--dry-run", "--now", NEWER, "--config", "index.interval.bytes=200")
    _, (plain, _), _ = recover(RealFilesystem(), *argv)
    for position in range(0, (source / name).stat().st_size, 61):
        _, (plan, _), _ = recover(BadSectors(source / name, position, position + 1), *argv)
        if is_clean and not plan["refused"]:
            assert (plan["changes"], plan["log_end_offset"]) == (plain["changes"], plain["log_end_offset"])
            continue
        assert plan["refused"], position
        assert not plan["changes"]
        assert "KafkaException" in plan["remarks"][0]["message"]


@pytest.mark.parametrize(
    ("begin", "sectors"), [(0, 1), (SECTOR, 1), (3 * SECTOR, 4), (5 * SECTOR, 200), (10 * SECTOR, 1)]
)
def test_salvage_reads_around_to_a_sector(tmp_path, begin, sectors):
    """Every batch that has no byte in the bad sectors is saved, and no other; what is lost is told."""
    source = tmp_path / "t-0"
    source.mkdir()
    made = batches(0, 2000)
    write_segment(source, 0, made, 4096)
    end = begin + sectors * SECTOR
    bad = BadSectors(source / FIRST, begin, end)
    code, (result, summary), _ = recover(bad, source, "--salvage", tmp_path / "out")
    assert (code, summary["exit_code"]) == (4, 4)
    starts, at = [], 0
    for data, _, _ in made:
        starts.append((at, at + len(data)))
        at += len(data)
    saved = [(2 * n, 2 * n + 1) for n, (first, last) in enumerate(starts) if last <= begin or first >= end]
    assert offsets_in(tmp_path / "out" / "t-0") == saved
    lost = [n for n, (first, last) in enumerate(starts) if last > begin and first < end]
    (told,) = result["lost"]
    assert (told["first"], told["last"]) == (2 * lost[0], 2 * lost[-1] + 1)
    assert (told["start"], told["end"]) == (starts[lost[0]][0], starts[lost[-1]][1])
    assert told["unreadable_bytes"] == sectors * SECTOR
    # Narrowed by halves: a sector at a time it would be hundreds for the long ones.
    assert len(bad.reads) < 400


def test_salvage_of_an_unreadable_end(tmp_path):
    source = partition(tmp_path / "t-0")
    size = (source / LAST).stat().st_size
    code, (result, _), _ = recover(BadSectors(source / LAST, size - 1, size), source, "--salvage", tmp_path / "out")
    assert code == 4
    (lost,) = result["lost"]
    batch = size // 40  # forty batches of one size, the last sector is bad
    first = size // SECTOR * SECTOR // batch
    assert (lost["start"], lost["end"], lost["first"], lost["last"]) == (first * batch, size, 120 + 2 * first, None)
    assert lost["unreadable_bytes"] == size % SECTOR
    assert len(offsets_in(tmp_path / "out" / "t-0")) == 60 + first


def test_salvage_copies_records_without_unreadable_metadata(corpus, tmp_path):
    source = tmp_path / "clean-asis-0"
    shutil.copytree(corpus / "clean-asis" / "before" / "clean-asis-0", source)
    code, (result, _), _ = recover(
        BadSectors(source / "partition.metadata", 0, 1), source, "--salvage", tmp_path / "out"
    )
    assert code == 4
    assert [one["path"] for one in result["unreadable"]] == [str(source / "partition.metadata")]
    assert result["end_offset"] == 130
    assert not (tmp_path / "out" / "clean-asis-0" / "partition.metadata").exists()


def test_salvage_where_a_second_reading_fails(tmp_path):
    """What was read once, and then no more: the other batches of the run are saved."""
    source = partition(tmp_path / "t-0")

    class Later(BadSectors):
        copying = False

        def before(self, call):
            self.copying |= call.name == "create"
            if self.copying:
                super().before(call)

    code, (result, _), _ = recover(Later(source / FIRST, 200, 201), source, "--salvage", tmp_path / "out")
    assert code == 4
    saved = offsets_in(tmp_path / "out" / "t-0")
    assert len(saved) == 99
    assert len(result["lost"]) == 1
