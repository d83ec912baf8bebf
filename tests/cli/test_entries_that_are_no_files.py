"""Entries with the names of Kafka's files that are not usable files: each step that `verify` prints helps."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.cli.test_every_next_step import COMMAND, commands_of, execute
from tests.support.commands import kafkalog
from tests.support.logs import R, batch_v2, write_segment

LOG = f"{0:020}.log"
NAMES = ["leader-epoch-checkpoint", f"{0:020}.index", f"{0:020}.timeindex", f"{0:020}.txnindex", f"{5:020}.snapshot",
         f"{5:020}.log"]  # fmt: skip
MAKERS = {
    "a directory": os.mkdir,
    "a pipe": os.mkfifo,
    "a link to nothing": lambda path: Path(path).symlink_to("nowhere"),
    "a link in a circle": lambda path: Path(path).symlink_to(Path(path).name),
    "a link to another kind of file": lambda path: Path(path).symlink_to(f"{0:020}.data"),
    "a link to a directory": lambda path: Path(path).symlink_to(".."),
}


@pytest.fixture
def partition(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "log" / "t-0"
    folder.mkdir(parents=True)
    records = [R(offset, 1_795_000_000_000 + offset, None, b"v") for offset in range(5)]
    write_segment(folder, 0, [(batch_v2(records), 4, records[-1].timestamp)])
    assert kafkalog("recover", folder).code == 0
    assert kafkalog("verify", folder).code == 0
    (folder / f"{0:020}.data").write_bytes(b"secret")
    return folder


def findings(path, *options):
    code, out, err = kafkalog("verify", path, *options, "--config", "cleanup.policy=delete", "--format", "json")
    assert not err
    return code, [line for line in map(json.loads, out.splitlines()) if line["type"] == "finding"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", MAKERS)
def test_the_printed_step_for_an_entry_that_is_no_file_makes_the_partition_readable(partition, name, kind):
    path = partition / name
    path.unlink(missing_ok=True)
    MAKERS[kind](str(path))
    code, found = findings(partition)
    assert code in (3, 4), found
    assert "odd-file" in {line["kind"] for line in found}
    assert sum(line["path"] == str(path) for line in found) == 1, found
    refused = kafkalog("recover", partition)
    assert (refused.code in (1, 14), f"`mv -nT {path} {path}.aside`" in refused.err) == (True, True), refused
    for _ in range(4):
        code, found = findings(partition)
        if code == 0:
            break
        done = set()
        for command in (command for line in found for command in commands_of(line)):
            if command not in done:
                execute(command)
            done.add(command)
    assert code == 0, found
    assert kafkalog("read", partition, "--format", "json").out.count('"type":"record"') == 5


@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint", ".kafka_cleanshutdown"]
)
@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_recover_names_the_step_for_an_entry_at_the_root(partition, name, make):
    path = partition.parent / name
    path.unlink(missing_ok=True)
    make(path)
    (partition.parent / ".lock").touch()  # the entry itself does not make it a log directory
    (partition / LOG).write_bytes((partition / LOG).read_bytes() + b"torn")
    refused = kafkalog("recover", partition)
    away = partition.parent.parent / name if path.is_dir() else f"{path}.aside"
    step = f"mv -nT {path} {away}"
    assert (refused.code in (1, 14), f"`{step}` moves it away" in refused.err) == (True, True), refused
    execute(step)
    assert kafkalog("recover", partition).code == 0
    assert kafkalog("verify", partition).code == 0


@pytest.mark.parametrize("command", ["ls", "inspect"])
@pytest.mark.parametrize("kind", ["a directory", "a pipe", "a link to nothing"])
def test_readers_name_the_step_of_verify_for_an_entry_that_is_no_file(partition, command, kind):
    """`ls` and `inspect` said that the index is missing, and advised a `recover` that is refused."""
    path = partition / f"{0:020}.index"
    path.unlink()
    MAKERS[kind](str(path))
    said = kafkalog(command, partition)
    assert "--indexes-only" not in said.out + said.err
    execute(next(each for each in COMMAND.findall(said.out + said.err) if each.startswith("mv ")))
    said = kafkalog(command, partition)
    execute(next(each for each in COMMAND.findall(said.out + said.err) if "--indexes-only" in each))
    assert findings(partition)[0] == 0


def test_a_refused_recover_reports_no_change_of_an_index(partition):
    """It said of indexes "it belongs to no segment: removed" beside "nothing was changed"."""
    (partition / LOG).rename(partition / f"{1000:020}.log")
    refused = kafkalog("recover", partition)
    assert (refused.code, "not recovered, nothing was changed" in refused.out) == (14, True)
    assert "removed" not in refused.out


ROOT_NAMES = [
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
    ".kafka_cleanshutdown",
    ".lock",
]
ROOT_MAKERS = {**MAKERS, "a link to another kind of file": lambda path: Path(path).symlink_to("/etc/passwd")}


@pytest.mark.exhaustive
@pytest.mark.parametrize("level", ["quick", "normal"])
@pytest.mark.parametrize("name", ROOT_NAMES)
@pytest.mark.parametrize("kind", ROOT_MAKERS)
def test_the_printed_step_for_an_entry_at_the_root_makes_recover_work(partition, name, kind, level):
    """No repair of the partition is advised before the entry is moved away. The parent directory is no log directory."""
    disk = (partition.parent.parent / "disks" / "disk").resolve()
    disk.parent.mkdir()
    partition.parent.rename(disk)
    (disk / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=abcdefghijklmnopqrstuv\n")
    (disk / partition.name / "partition.metadata").write_text("version: 0\ntopic_id: abcdefghijklmnopqrstuw\n")
    (disk / partition.name / f"{0:020}.index").unlink()
    path = disk / name
    path.unlink(missing_ok=True)
    ROOT_MAKERS[kind](str(path))
    for turn in range(4):
        code, found = findings(disk, "--level", level)
        if not turn:
            (line,) = [line for line in found if line["path"] == str(path)]
            assert (line["kind"], line["severity"]) in {("odd-file", "warning"), ("foreign-directory", "warning")}
        commands = [command for line in found for command in commands_of(line)]
        if not commands:
            break
        execute(commands[0])
    assert [line for line in found if line["severity"] != "info"] == []
    assert (code, len([*disk.parent.iterdir()])) == (0, 2 if kind in ("a directory", "a link to a directory") else 1)


def test_a_file_as_the_directory_of_runs(partition):
    """`recover` refuses until it is gone, so this step comes first."""
    (partition / f"{0:020}.index").unlink()
    shutil.rmtree(partition / ".kafkalog")
    (partition / ".kafkalog").write_bytes(b"")
    _, found = findings(partition)
    commands = [command for line in found for command in commands_of(line)]
    assert set(commands) == {f"rm -r {partition}/.kafkalog"}
    execute(commands[0])
    code, found = findings(partition)
    assert code == 3
    execute(next(command for line in found for command in commands_of(line)))
    assert findings(partition)[0] == 0


def test_a_file_of_kafka_07_beside_a_log_is_unknown_and_removable(partition):
    """No broker reads it, so the log is what its other files say."""
    (partition / f"{100:020}.kafka").write_bytes(b"\0" * 10)
    code, found = findings(partition)
    [line] = [line for line in found if line["kind"] == "unknown-file" and line["path"].endswith(".kafka")]
    assert (code, line["severity"]) == (0, "info")
    [command] = commands_of(line)
    execute(command)
    assert kafkalog("retain", partition, "--config", "retention.ms=1", "--config", "cleanup.policy=delete").code == 0


def test_a_link_as_the_only_file_is_removed_by_the_printed_step(tmp_path):
    """After the advised step the directory has no file of Kafka, so no step asks for another look."""
    folder = tmp_path / "log" / "t-0"
    folder.mkdir(parents=True)
    (folder / LOG).symlink_to("/etc/passwd")
    code, found = findings(folder)
    assert code == 3
    [(step, command)] = [(line["next_step"], command) for line in found for command in commands_of(line)]
    execute(command)
    assert [path.name for path in folder.iterdir()] == [f"{LOG}.aside"]
    assert "a broker starts an empty partition in it" in step
    assert kafkalog("verify", folder).code == 10


def test_a_link_as_the_only_file_is_found_below_a_log_directory(tmp_path):
    """`verify` finds the partition there by its name, and the steps go on."""
    folder = tmp_path / "log" / "t-0"
    folder.mkdir(parents=True)
    (tmp_path / "log" / "meta.properties").write_text("version=0\nbroker.id=1\n")
    (folder / LOG).symlink_to("/etc/passwd")
    _, found = findings(folder)
    away, look = dict.fromkeys(command for line in found for command in commands_of(line))
    assert look == f"kafkalog verify {folder}"
    execute(away)
    assert kafkalog("verify", folder).code == 0
