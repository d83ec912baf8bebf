"""Links that no broker made, in a partition or in its place: none is followed, and each step leads on.

A broker that starts removes X.deleted with Files.deleteIfExists, which removes a link and not its target.
"""

import re
import shlex
import subprocess

import pytest

from tests.support.commands import everything, kafkalog, writable_copy

NOW = ("--now", "1795228795800")
POLICY = ("--config", "cleanup.policy=compact")
NAMES = [f"{0:020d}.log.deleted", f"{0:020d}.index.deleted", f"{7:020d}.log.deleted", "leader-epoch-checkpoint.tmp"]
UNFINISHED = [f"{0:020d}.log.cleaned", f"{0:020d}.log.swap", f"{7:020d}.index.swap", f"{0:020d}.index.cleaned"]
COMMANDS = {
    "recover": ("recover",),
    "as a broker": ("recover", "--like-broker"),
    "indexes": ("recover", "--indexes-only"),
    "compact": ("compact", *POLICY, "--force"),
    "retain": ("retain", "--config", "cleanup.policy=delete", "--config", "retention.bytes=1"),
    "purge": ("purge", "--older-than", "0s"),
    "truncate": ("truncate", "--to", "5", "--single-replica"),
    "append": ("append", "--single-replica", "--config", f"segment.ms={2**62}"),
    "roll": ("roll",),
}


@pytest.fixture
def place(corpus, tmp_path):
    writable_copy(corpus / "txn" / "data", tmp_path / "data")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "theirs").write_bytes(b"theirs")
    (tmp_path / "target").write_bytes(b"secret")
    (tmp_path / "theirs.log.deleted").write_bytes(b"secret")
    return tmp_path


TARGETS = ["target", "theirs.log.deleted", "folder", "nothing"]


def linked(place, name, target):
    link = place / "data" / "idem-0" / name
    link.symlink_to(place / target)
    return link


def run(command, partition):
    name, *options = COMMANDS[command]
    more = [] if name in {"purge"} else NOW
    return kafkalog(name, partition, *options, *more, stdin=b'{"value":"a"}\n')


def others(place):
    return {path: facts for path, facts in everything(place).items() if "/data" not in path and path != str(place)}


@pytest.mark.exhaustive
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", NAMES)
def test_a_link_of_a_removed_file_stops_nothing(place, command, name):
    """The link stays, and what a run does can be undone. A link in the place of a file to make is moved away first."""
    for target in TARGETS:
        link = linked(place, name, target)
        partition, before = link.parent, others(place)
        ran = run(command, partition)
        if ran.code == 14:
            assert command in {"compact", "retain", "truncate"}, ran
            step = re.search(r"`(mv -nT [^`]*)`", ran.err + ran.out).group(1)
            _, _, source, destination = shlex.split(step)
            assert (source, destination) == (str(link), f"{link}.aside")
            link.rename(destination)
            ran = run(command, partition)
            link = link.with_name(f"{link.name}.aside")
        assert ran.code == 0, (target, ran)
        assert link.is_symlink()
        assert str(link.readlink()) == str(place / target)
        assert others(place) == before
        assert "did not make it" not in ran.err
        found = re.search(r"kafkalog undo (\S+) ([^\s`]+)", ran.out)
        if found and command != "purge":
            assert kafkalog("undo", partition, found.group(2), *NOW).code == 0
            assert link.is_symlink()
        link.unlink()


@pytest.mark.exhaustive
@pytest.mark.parametrize("command", ["recover", "as a broker", "compact", "append"])
@pytest.mark.parametrize("name", UNFINISHED)
def test_a_link_of_an_unfinished_cleaning_is_moved_away_first(place, command, name):
    """`recover` kept it in its run, and undo then refused: no run keeps a link."""
    for target in ("target", "theirs.log.deleted"):
        link = linked(place, name, target)
        before = others(place)
        for argv in (("verify", link.parent), None):
            ran = run(command, link.parent) if argv is None else kafkalog(*argv)
            assert ran.code in ((3,) if argv else (1, 14)), ran
            step = re.search(r"`(mv -nT [^`]*)`", ran.err + ran.out).group(1)
            assert shlex.split(step)[2:] == [str(link), f"{link}.aside"]
        link.rename(f"{link}.aside")
        assert run(command, link.parent).code == 0
        assert others(place) == before
        link.with_name(f"{link.name}.aside").unlink()


@pytest.mark.parametrize("command", ["roll", "recover", "recover --like-broker", "truncate --to 1 --single-replica"])
@pytest.mark.parametrize("files", [(), ("meta.properties",), ("notes.txt",)])
def test_a_writer_refuses_a_foreign_link_named_like_a_partition(tmp_path, monkeypatch, command, files):
    """`roll` advised a `recover` that is refused for it. The step that is printed ends the refusals."""
    monkeypatch.chdir(tmp_path)
    folder, log_dir = tmp_path / "folder", tmp_path / "log"
    for directory in (folder, log_dir):
        directory.mkdir()
    (log_dir / "meta.properties").write_bytes(b"version=1\n")
    for name in files:
        (folder / name).write_bytes(b"x\n")
    link = log_dir / "t-0"
    link.symlink_to(folder)
    name, *options = command.split()
    ran = kafkalog(name, "log/t-0", *options)
    assert ran.code == 14, ran
    step = re.search(r"`(mv -nT [^`]*)`", ran.err + ran.out).group(1)
    subprocess.run(shlex.split(step), check=True)
    assert (tmp_path / "t-0").is_symlink()
    assert sorted(one.name for one in folder.iterdir()) == sorted(files)
    assert not link.is_symlink()
    if name == "recover":
        assert kafkalog("recover", "log").code in (0, 10)
