"""Directories that are no log directories: exit code 10 (12 where the program is known), and nothing is made there."""

from pathlib import Path

import pytest

from tests.support.commands import kafkalog

COMMANDS = {
    "verify": ["verify", "PATH"],
    "recover": ["recover", "PATH"],
    "recover like a broker": ["recover", "--like-broker", "PATH"],
    "recover indexes": ["recover", "--indexes-only", "PATH"],
    "salvage": ["recover", "--salvage", "OUT", "PATH"],
    "undo": ["undo", "PATH", "20261118T110640.000Z-recover-0001"],
    "purge": ["purge", "PATH"],
    "ls": ["ls", "PATH"],
    "dump-log": ["dump-log", "PATH"],
    "dump-index": ["dump-index", "PATH"],
    "lookup-offset": ["lookup-offset", "PATH", "1"],
    "read": ["read", "PATH"],
    "roll": ["roll", "PATH"],
    "retain": ["retain", "PATH"],
}


def command(name, path, out="/nowhere"):
    return kafkalog(*({"PATH": path, "OUT": out}.get(word, word) for word in COMMANDS[name]))


def everything(root: Path):
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


@pytest.fixture
def settings(tmp_path):
    """As /etc is: directories with names of partitions, logs without offsets in their names, empty directories."""
    root = tmp_path / "settings"
    for name in ("dbus-1/session.d", "polkit-1/rules.d", "postgres-14", "empty-1", ".java", "X11"):
        (root / name).mkdir(parents=True)
    for name in ("passwd", "syslog.log", "dbus-1/session.conf", "postgres-14/server.log", "X11/xorg.index"):
        (root / name).write_text("# nothing of Kafka's\n")
    return root


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("where", ["", "dbus-1", "empty-1", ".java", "X11"])
def test_directories_of_other_programs(settings, where, name, tmp_path):
    before = everything(settings)
    code, out, err = command(name, settings / where, tmp_path / "out")
    assert (code, out) == (10, ""), err
    assert err.count("\n") == 1
    assert everything(settings) == before
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "name", [name for name in COMMANDS if name.startswith(("verify", "recover", "salvage", "purge"))]
)
def test_files_of_a_program_that_looks_like_kafka(name, tmp_path):
    """In a directory of theirs, and where that was given itself."""
    segment = tmp_path / "theirs" / "t-0" / "0-1-v1.log"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(bytes(100))
    before = everything(tmp_path)
    for path in (segment.parent, segment.parent.parent):
        code, _, err = command(name, path)
        # Beside the partition the directory itself is a target of verify, and nothing is wrong with that.
        assert code == (5 if name == "verify" and path != segment.parent else 12), err
        assert "Redpanda" in err
        assert everything(tmp_path) == before


@pytest.fixture
def copies(corpus, tmp_path):
    """Partition directories that were copied without the files at the root of their log directory, one of them empty."""
    root = tmp_path / "copies"
    source = corpus / "crash-torn" / "before" / "crash-torn-0"
    for name in ("t-0", "t-1", "dbus-1", "notes"):
        (root / name).mkdir(parents=True)
    for path in source.iterdir():
        (root / "t-0" / path.name).write_bytes(path.read_bytes())
    (root / "dbus-1" / "session.conf").touch()
    return root


def test_copies_of_partitions_are_found_among_other_directories(copies):
    code, out, err = command("recover like a broker", copies)
    assert code == 0, err
    assert {line.partition(":")[0] for line in out.splitlines() if line.startswith(str(copies))} >= {
        f"{copies}/t-0",
        f"{copies}/t-1",
    }
    assert everything(copies / "dbus-1") == ["session.conf"]
    assert everything(copies / "notes") == []
    code, out, err = command("ls", copies)
    assert "notes: is not a partition directory" in err
    assert "dbus-1" not in err


def test_a_partition_directory_in_a_log_directory_is_one_whatever_it_holds(copies):
    """A broker takes it for one by its name alone."""
    (copies / "meta.properties").write_text("version=1\nnode.id=1\n")
    for name in ("verify", "recover"):
        code, out, err = command(name, copies / "dbus-1")
        assert f"{copies}/dbus-1: " in out, err
        code, out, err = command(name, copies)
        assert f"{copies}/dbus-1: " in out, err
