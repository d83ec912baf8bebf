"""`kafkalog verify` of single files, and of files that the device or the system does not give."""

import shutil

import pytest

from tests.cli.test_verify import objects
from tests.cli.test_verify import verify as kafkalog
from tests.damage.log_directory import FILES, FIRST_LOG, LAST_LOG, PARTITION, ROOT, run_command
from tests.support.faulty_fs import FaultyFilesystem

ROOT_FILES = (
    "meta.properties", "recovery-point-offset-checkpoint", "replication-offset-checkpoint",
    "log-start-offset-checkpoint", "cleaner-offset-checkpoint",
)  # fmt: skip


@pytest.fixture
def log_dir(corpus, tmp_path):
    copy = shutil.copytree(corpus / "crash-torn" / "before", tmp_path / "logs")
    for path in [copy, *copy.rglob("*")]:
        path.chmod(0o755)
    (copy / "cleaner-offset-checkpoint").write_text("0\n0\n")
    return copy


def test_verify_of_each_file_of_a_partition_alone_finds_what_verify_of_the_partition_finds(log_dir):
    partition = log_dir / "crash-torn-0"
    files = [*partition.iterdir(), *(log_dir / name for name in ROOT_FILES)]
    for path in files:
        code, out, err = kafkalog(path)
        assert (code, err) == (3 if path.name.endswith("115.log") else 0, ""), path
        (line,) = (line for line in out.splitlines() if line.startswith((f"{path}: OK", f"{path}: 1 warning")))
        assert ("segment" in line) is (path.suffix == ".log"), out
    code, out, _ = kafkalog(*files)
    assert code == 3
    assert f"{partition}: 1 warning, offsets 0 to 128, 3 segments" in out
    assert kafkalog(*files, log_dir)[0] == 3


@pytest.mark.parametrize("name", ROOT_FILES)
def test_verify_of_a_damaged_root_file_alone_finds_its_damage(log_dir, name):
    (log_dir / name).write_bytes(b"version=7\n")
    code, lines, errors = objects(log_dir / name)
    assert not errors
    assert code != 0
    assert {line["path"] for line in lines if line["type"] == "finding"} == {str(log_dir / name)}


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata"])
@pytest.mark.parametrize("level", ["quick", "normal", "deep"])
def test_verify_of_a_damaged_small_file_alone_finds_its_damage(log_dir, name, level):
    path = log_dir / "crash-torn-0" / name
    path.write_bytes(b"\xff\0")
    code, lines, _ = objects(path, "--level", level)
    assert code == 4
    assert {line["path"] for line in lines if line["type"] == "finding"} == {str(path)}


def test_a_file_in_its_own_directory(log_dir, monkeypatch):
    monkeypatch.chdir(log_dir)
    assert kafkalog("meta.properties")[1] == "./meta.properties: OK\n"
    monkeypatch.chdir(log_dir / "crash-torn-0")
    assert kafkalog("../meta.properties")[0] == kafkalog("leader-epoch-checkpoint")[0] == 0


@pytest.mark.parametrize("name", [".lock", "server.properties", "passwd"])
def test_verify_of_a_file_of_no_known_kind_ends_with_10(log_dir, name):
    (log_dir / name).touch()
    code, out, err = kafkalog(log_dir / name)
    assert (code, out) == (10, "")
    assert "so that it cannot be verified" in err


def verify(level, fs):
    return run_command(["verify", "--level", level, ROOT], fs)


READ_AT = {
    "quick": (".log", "leader-epoch-checkpoint", "partition.metadata"),
    "normal": (".log", "index", "snapshot", "leader-epoch-checkpoint", "partition.metadata", "quorum-state"),
}
READ_AT["deep"] = READ_AT["normal"]


@pytest.mark.parametrize("level", ["quick", "normal", "deep"])
@pytest.mark.parametrize("path", FILES)
def test_a_file_that_may_not_be_opened(path, level):
    """It is told once, with what to do, and fails its target; what is not read at a level is not told."""
    fs = FaultyFilesystem(FILES)
    fs.refuse_open(path)
    done, whole = verify(level, fs), verify(level, FaultyFilesystem(FILES))
    if path.startswith(PARTITION) and not path.endswith(READ_AT[level]):
        assert done == whole
        return
    told = [line for line in done.out.splitlines() if line.endswith("cannot be read: Permission denied [not-read]")]
    assert told == [f"{path}: warning: cannot be read: Permission denied [not-read]"]
    assert "next: where permission is missing, verify as the user that the broker runs as" in done.out
    assert done.code == 5, "the log directory, or the partition, could be read"
    more = set(done.out.splitlines()) - set(whole.out.splitlines())
    assert not [line for line in more if line.endswith("]") and "[not-read]" not in line], "nothing follows from it"


@pytest.mark.parametrize("level", ["quick", "normal", "deep"])
@pytest.mark.parametrize("path", [FIRST_LOG, LAST_LOG])
def test_a_log_that_the_device_does_not_give(path, level):
    """Nobody is told that its indexes are wrong, or to cut off a tail that nobody has seen."""
    fs = FaultyFilesystem(FILES)
    fs.fail_read(path, 0, 1 << 40)
    done, whole = verify(level, fs), verify(level, FaultyFilesystem(FILES))
    assert fs.unfired() == []
    assert done.code == 4
    more = set(done.out.splitlines()) - set(whole.out.splitlines())
    told = [line for line in more if line.endswith("]") and "[offset-gap]" not in line]
    assert told == [f"{path}: at byte 0: corruption: cannot be read: Input/output error [unreadable-range]"]
    assert not any("--indexes-only" in line or "cuts the tail off" in line for line in more)


@pytest.mark.parametrize("level", ["quick", "normal", "deep"])
def test_the_metadata_of_a_level_says_what_it_left_out(log_dir, level):
    for path in (log_dir / "crash-torn-0").glob("*.snapshot"):
        path.unlink()
    (log_dir / "crash-torn-0" / "leader-epoch-checkpoint").unlink()
    _, lines, _ = objects(log_dir / "crash-torn-0", "--level", level)
    kinds = {line["kind"] for line in lines if line["type"] == "finding"}
    left_out = next(line for line in lines if line["type"] == "verification")["not_looked_at"]
    assert ("leader-epochs-missing" in kinds) is (level != "quick")
    assert ("missing snapshots and epochs" in left_out) is (level == "quick")
