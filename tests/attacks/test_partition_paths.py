"""A partition that is named by a link, or by `..` behind a link, is worked on in its own log directory: with the lock that
keeps brokers out, and the checkpoints and the topic's name that are there."""

import json
import re
import shlex
import shutil

import pytest

from tests.support.commands import kafkalog
from tests.support.locks import held_by_another_process
from tests.support.product import ExitCode
from tests.support.serving import serving

NAME = "clean-asis"
SETTINGS = ("--config", "cleanup.policy=delete", "--config", "retention.ms=1")
WRITERS = {
    "recover": (),
    "roll": ("--force",),
    "retain": SETTINGS,
    "compact": ("--config", "cleanup.policy=compact"),
    "truncate": ("--to", "100", "--single-replica"),
    "delete-records": ("--before", "20", "--single-replica", *SETTINGS),
    "append": ("--single-replica", "--input", "lines"),
    "purge": ("--older-than", "0s"),
}
PATHS = ["elsewhere/other-7", f"elsewhere/{NAME}-0", f"elsewhere/twice/{NAME}-0", f"elsewhere/beside/../{NAME}-0"]


@pytest.fixture
def place(corpus, tmp_path, monkeypatch):
    """Links to the partition from a directory that is no log directory; the working directory."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(corpus / NAME / "before", "ld")
    shutil.copytree(f"ld/{NAME}-0", "ld/beside-0")
    (tmp_path / "elsewhere" / "twice").mkdir(parents=True)
    for name, target in (("other-7", f"{NAME}-0"), (f"{NAME}-0", f"{NAME}-0"), ("beside", "beside-0")):
        (tmp_path / "elsewhere" / name).symlink_to(tmp_path / "ld" / target)
    (tmp_path / "elsewhere" / "twice" / f"{NAME}-0").symlink_to(f"../{NAME}-0")
    (tmp_path / "ld" / ".lock").touch()
    return tmp_path


def files(directory):
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("command", WRITERS)
def test_writers_on_a_path_of_a_partition_notice_the_broker_of_its_log_directory(place, command, path):
    before = files(place)
    with held_by_another_process(place / "ld" / ".lock"):
        code, out, err = kafkalog(command, path, *WRITERS[command])
    assert code == ExitCode.LOCKED, (out, err)
    assert files(place) == before


READERS = {
    "dump-index": (),
    "dump-log": (),
    "verify": (),
    "ls": (),
    "read": ("--format", "json"),
    "lookup-offset": ("30",),
    "lookup-time": ("--latest",),
    "transactions": (),
    "find": ("--format", "json"),
    "stats": (),
    "inspect": (),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("command", READERS)
def test_readers_warn_of_a_broker(place, command, path):
    with held_by_another_process(place / "ld" / ".lock"):
        _, _, err = kafkalog(command, path, *READERS[command])
        assert err.count("a broker is running on it") == 1, err
        if command.startswith("dump-"):
            name = f"{0:020d}.{'index' if command == 'dump-index' else 'log'}"
            assert "a broker is running on it" in kafkalog(command, f"{path}/{name}")[2]


@pytest.mark.parametrize("path", PATHS)
def test_commands_on_a_path_of_a_partition_apply_the_checkpoints_of_its_log_directory(place, path):
    (place / "ld" / "log-start-offset-checkpoint").write_text(f"0\n1\n{NAME} 0 20\n")
    (place / "ld" / "cleaner-offset-checkpoint").write_text(f"0\n1\n{NAME} 0 60\n")
    for command in (("verify", "--verbose"), ("ls",)):
        code, out, _ = kafkalog(*command, path, "--format", "json")
        line = json.loads(out.splitlines()[0])
        assert (code, line["topic"], line["path"]) == (0, NAME, str(place / "ld" / f"{NAME}-0"))
    code, out, _ = kafkalog("read", path, "--max-records", "1", "--format", "json")
    assert json.loads(out.splitlines()[0])["offset"] == 20
    code, _, err = kafkalog("retain", path, *SETTINGS, "--dry-run")
    assert (code, "overrides this topic's own policy: cleaner-offset-checkpoint lists it" in err) == (0, True)
    code, out, _ = kafkalog("retain", path, *SETTINGS, "--free-bytes", "9000TB", "--dry-run")
    assert "cleaner-offset-checkpoint lists it" in out


def test_a_link_in_a_log_directory_counts_as_lying_there(place):
    """An operator moved a partition to another disk and left a link."""
    (place / "disk").mkdir()
    shutil.move(f"ld/{NAME}-0", f"disk/{NAME}-0")
    (place / "ld" / f"{NAME}-0").symlink_to(place / "disk" / f"{NAME}-0")
    assert kafkalog("roll", f"ld/{NAME}-0", "--force")[0] == 0
    with held_by_another_process(place / "ld" / ".lock"):
        assert kafkalog("roll", f"ld/{NAME}-0", "--force")[0] == ExitCode.LOCKED


def test_a_link_from_a_log_directory_into_another_is_refused(place):
    """The broker of the other directory would not be noticed."""
    shutil.copytree("ld", "second")
    shutil.rmtree(f"second/{NAME}-0")
    (place / "second" / f"{NAME}-0").symlink_to(place / "ld" / f"{NAME}-0")
    before = files(place / "ld")
    with held_by_another_process(place / "ld" / ".lock"):
        code, _, err = kafkalog("roll", f"second/{NAME}-0", "--force")
    assert (code, "which lies in another log directory" in err) == (ExitCode.REFUSED, True)
    assert files(place / "ld") == before


def test_a_partition_to_which_several_paths_lead_is_read_once(place):
    (place / "link").symlink_to(place / "ld")
    paths = (*PATHS, f"ld/{NAME}-0", f"link/{NAME}-0")
    code, out, err = kafkalog("read", *paths, "--format", "json")
    assert (code, out.count('"type":"record"')) == (0, 130), err
    code, out, err = kafkalog("read", "ld", "link", "--topic", NAME, "--format", "json")
    assert (code, out.count('"type":"record"')) == (0, 130), err
    code, out, err = kafkalog("read", "elsewhere/other-7", "elsewhere/beside", "--format", "json")
    assert (code, out.count('"type":"record"')) == (0, 260), err


def test_serve_serves_a_partition_given_by_several_paths_once(place):
    with serving(*PATHS, f"ld/{NAME}-0") as server:
        assert list(server.catalog.topics) == [NAME]
        assert server.notes == []


HERE = [".", "./", "./.", "sub/.."]
NAMELESS = {
    "truncate": ("--to", "100", "--single-replica"),
    "append": ("--single-replica", "--input", "lines"),
    "roll": ("--force",),
    "delete-records": ("--before", "20", "--single-replica", *SETTINGS),
}


@pytest.mark.parametrize("path", HERE)
@pytest.mark.parametrize("command", NAMELESS)
def test_a_change_of_a_partition_without_a_name_in_its_path_is_undone(place, monkeypatch, command, path):
    """Given from inside: records of runs have its name, so that undo finds them and restores the marker."""
    (place / "ld" / f"{NAME}-0" / "sub").mkdir()
    monkeypatch.chdir(place / "ld" / f"{NAME}-0")
    marker = (place / "ld" / ".kafka_cleanshutdown").read_bytes()
    (place / "lines").write_text("a line\n")
    inputs = [place / "lines"] if command == "append" else []
    code, out, err = kafkalog(command, path, *inputs, *NAMELESS[command])
    assert code == 0, err
    undo = shlex.split(out.rpartition("undo: kafkalog ")[2].splitlines()[0])
    assert undo[1] == str(place / "ld" / f"{NAME}-0")
    assert kafkalog(*undo)[0] == 0
    assert (place / "ld" / ".kafka_cleanshutdown").read_bytes() == marker
    assert not (place / "ld" / ".kafkalog-clean-shutdown").exists()


@pytest.mark.parametrize("path", HERE)
def test_commands_that_move_a_partition_without_a_name_in_its_path(place, monkeypatch, path):
    """`mv` moves no directory that is named `.`: verify and salvage print its path."""
    partition = place / "ld" / f"{NAME}-0"
    (partition / "sub").mkdir()
    log = min(partition.glob("*.log"))
    data = log.read_bytes()
    log.write_bytes(data[:400] + bytes([data[400] ^ 1]) + data[401:])
    monkeypatch.chdir(partition)
    for command in (("verify", path), ("recover", path, "--salvage", str(place / "out"))):
        code, out, err = kafkalog(*command)
        assert code == ExitCode.CORRUPTION, err
        moves = re.findall(r"mv -nT \S+ \S+", out)
        assert moves
        assert not [move for move in moves if re.search(r" \.{1,2}/?( |$)", move)]
