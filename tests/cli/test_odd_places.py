"""Commands on files and directories of every odd kind, on the real disk; what lies elsewhere is never touched (R14).

And whose files they are, and who may do what with them, before and after (R15).
"""

from __future__ import annotations

import io
import os
import socket
from pathlib import Path

import pytest

from tests.cli.trials import RETAINS, Trial, check_words
from tests.support.commands import Terminal, writable_copy
from tests.support.product import Environment, ExitCode, RealFilesystem, run

LAST = "00000000000000000115"
COMMANDS = {
    "verify": ["verify", "--level", "deep"],
    "recover": ["recover"],
    "recover like a broker": ["recover", "--like-broker"],
    "recover indexes": ["recover", "--indexes-only"],
    "salvage": ["recover", "--salvage", "OUT"],
    "purge": ["purge", "--older-than", "0s"],
    "roll": ["roll", "--force"],
    "retain": ["retain", *RETAINS],
    "free": ["retain", "--free-bytes", "2000000MB", "--config", "cleanup.policy=delete"],
    "truncate": ["truncate", "--to", "10", "--single-replica"],
    "delete-records": ["delete-records", "--before", "100", "--single-replica"],
    "append": ["append", "--input", "lines", "--single-replica", "PATH", __file__],
    "compact": ["compact", "--force", "--config", "cleanup.policy=compact"],
    "read": ["read", "--print", "timestamp,partition,offset,epoch,headers,key,value"],
}
CONTROLS = frozenset(chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))) - {"\n"}


def command(words, path, out, *, stream=io.BytesIO):
    """(exit code, stdout, stderr) of a command on a path; `out` is a new directory each time."""
    stdout, stderr = stream(), stream()
    argv = [{"OUT": str(out), "PATH": os.fspath(path)}.get(word, word) for word in words]
    argv += [] if "PATH" in words else [os.fspath(path)]
    code = run(argv, Environment(stdout=stdout, stderr=stderr))
    texts = [one.getvalue().decode("utf-8", "surrogateescape") for one in (stdout, stderr)]
    check_words(code, *texts, " ".join(argv))  # type: ignore[call-arg]
    assert code in list(ExitCode)
    return code, *texts


def contents(root):
    """What lies there, links not followed, without what is ours."""
    found = {}
    for path in sorted(root.rglob("*")):
        if ".kafkalog" in path.parts or path.name == ".lock":
            continue
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        link = path.readlink() if path.is_symlink() else None
        found[str(path.relative_to(root))] = (status.st_mode, content, link)
    return found


@pytest.fixture
def place(corpus, tmp_path):
    """A log directory with a torn partition, and a directory elsewhere that no command may touch."""
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    writable_copy(corpus / "crash-torn" / "before", data)
    elsewhere.mkdir()
    return data, data / "crash-torn-0", elsewhere


def _symlink(path, elsewhere):
    path.rename(elsewhere / path.name)
    path.symlink_to(elsewhere / path.name)


def _hard_link(path, elsewhere):
    (elsewhere / path.name).hardlink_to(path)


def _to_nothing(path, elsewhere):
    path.unlink()
    path.symlink_to(elsewhere / "gone")


def _to_itself(path, elsewhere):
    del elsewhere
    path.unlink()
    path.symlink_to(path.name)


def _fifo(path, elsewhere):
    del elsewhere
    path.unlink()
    os.mkfifo(path)


def _socket(path, elsewhere):
    del elsewhere
    path.unlink()
    here = Path.cwd()
    os.chdir(path.parent)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)


def _directory(path, elsewhere):
    del elsewhere
    path.unlink()
    path.mkdir()


def _device(path, elsewhere):
    del elsewhere
    path.unlink()
    path.symlink_to("/dev/zero")


ODD_FILES = {
    "a symbolic link": _symlink,
    "a second link": _hard_link,
    "a link to nothing": _to_nothing,
    "a link to itself": _to_itself,
    "a pipe": _fifo,
    "a socket": _socket,
    "a directory": _directory,
    "a link to a device": _device,
}


@pytest.mark.parametrize("name", COMMANDS)
def test_writers_change_the_log_of_these_tests_where_all_entries_are_regular(place, tmp_path, name):
    """Else what they do at odd places would say nothing."""
    data, partition, _ = place
    before = contents(data)
    if name not in ("verify", "salvage") and not name.startswith("recover"):
        assert command(COMMANDS["recover"], data, None)[0] == 0
        before = contents(data)
    code, out, err = command(COMMANDS[name], partition if name in ("append", "read") else data, tmp_path / "out")
    wanted = (ExitCode.NO_SPACE,) if name == "free" else (ExitCode.OK, ExitCode.WARNINGS)  # no disk has so many bytes
    assert code in wanted, (out, err)
    changes = contents(data) != before
    assert changes == (name not in ("verify", "salvage", "read", "recover indexes", "purge")), (out, err)
    assert out


@pytest.mark.exhaustive
@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
@pytest.mark.parametrize("kind", ODD_FILES)
def test_writers_change_nothing_elsewhere_where_a_link_pipe_or_directory_is_in_place_of_a_file(
    place, tmp_path, kind, suffix, evidence
):
    """In the place of a file of the last segment: nothing elsewhere changes, and a log is refused, never replaced."""
    data, partition, elsewhere = place
    path = partition / f"{LAST}{suffix}"
    ODD_FILES[kind](path, elsewhere)
    outside = contents(elsewhere)
    is_link = kind in ("a symbolic link", "a second link")
    for number, (name, words) in enumerate(COMMANDS.items()):
        before = contents(data)
        code, out, err = command(words, data, tmp_path / f"out-{number}")
        assert contents(elsewhere) == outside, name
        if name in ("verify", "salvage", "purge") or not is_link or (name == "recover" and suffix == ".log"):
            assert contents(data) == before, (name, out, err)
        if name.startswith("recover") and not is_link:
            assert code == ExitCode.REFUSED, (name, out, err)
            assert f"{LAST}{suffix}; `mv -nT " in err
        if is_link and suffix == ".log" and name == "recover":
            assert code == ExitCode.REFUSED
            assert "link" in err
        if name == "verify":
            assert code != ExitCode.OK
    evidence("R14", len(COMMANDS), R14_TESTS)


ODD_NAMES = {
    "newline": "to\npic-0", "ansi": "to\x1b[31mpic-0", "c1 control": "to\x9b31mpic-0", "bell": "to\x07\x08pic-0",
    "not UTF-8": "to\udcff\udc9bpic-0", "right to left": "to\u202epic-0", "longest": "t" * 253 + "-0",
    "blanks": " topic -0", "dashes": "--topic--0", "glob": "to[p]ic*-0", "quote": "to'\"pic-0",
}  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ODD_NAMES)
def test_writers_work_below_directories_with_unusual_names_and_print_no_control_character(
    place, tmp_path, name, evidence, monkeypatch
):
    """All goes as with any other name, and nothing of it reaches a terminal raw."""
    monkeypatch.setenv("NO_COLOR", "1")
    data, partition, _ = place
    odd = partition.rename(data / ODD_NAMES[name])
    assert command(COMMANDS["verify"], data, None, stream=Terminal)[0] == 3
    code, out, err = command(["recover", "--format", "json"], data, None)
    if name in ("newline", "not UTF-8", "blanks"):
        assert code == ExitCode.REFUSED
        assert "has blanks or is not UTF-8: no checkpoint can have it" in err
        evidence("R14", 1, R14_TESTS)
        return
    assert code == 0
    run_id = next((odd / ".kafkalog").glob("2*")).name
    assert run_id in out
    for number, words in enumerate((*COMMANDS.values(), ["recover", "--dry-run"], ["undo"], ["undo", "--dry-run"])):
        for path in (odd, data):
            out_directory = tmp_path / f"out-{number}-{path.name[:5].encode().hex() if path == data else 'odd'}"
            code, out, err = command(words, path, out_directory, stream=Terminal)
            raw = CONTROLS & set((out + err).replace("\x1b[1m", "").replace("\x1b[0m", "").replace("\r", ""))
            # The console consumer has tabs between the fields of a line.
            assert not raw - ({"\t"} if words[0] == "read" else set()), (words, out, err)
            assert not any("\ud800" <= char <= "\udfff" for char in out + err), words
    evidence("R14", 1, R14_TESTS)


def test_writers_change_and_undo_a_linked_log_directory_or_partition_once(place, tmp_path, evidence):
    """A log directory and a partition may be links; what they lead to is changed, and undone, once."""
    data, partition, elsewhere = place
    partition.rename(elsewhere / partition.name)
    partition.symlink_to(elsewhere / partition.name)
    (tmp_path / "link").symlink_to(data)
    before = contents(elsewhere)
    assert command(["recover"], tmp_path / "link", None)[0] == 0
    assert contents(elsewhere) != before
    run_id = next((elsewhere / partition.name / ".kafkalog").glob("2*")).name
    out, err = io.BytesIO(), io.BytesIO()
    assert run(["undo", str(tmp_path / "link"), run_id], Environment(stdout=out, stderr=err)) == 0
    assert contents(elsewhere) == before
    (partition.parent / "loop-0").symlink_to(".")
    (partition.parent / "itself-0").symlink_to("itself-0")
    for number, words in enumerate(COMMANDS.values()):
        command(words, data, tmp_path / f"out-{number}")
    evidence("R14", 3, R14_TESTS)


R14_TESTS = len(ODD_FILES) * 3 + len(ODD_NAMES) + 1


# ---- R15


OWNERS = [(0o640, 1234, 4321), (0o600, 1234, 1234), (0o664, 0, 4321), (0o444, 1234, 4321)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
@pytest.mark.parametrize(("mode", "owner", "group"), OWNERS)
@pytest.mark.parametrize("name", ["recover", "recover like a broker", "recover indexes", "undo"])
def test_writers_keep_owners_and_modes_of_files(corpus, tmp_path, name, mode, owner, group, evidence):
    """Files that are rewritten keep them, new ones take those of their neighbours, and undo gives back all."""
    trial = Trial(corpus, tmp_path, tmp_path)
    for path in [trial.data, *trial.data.rglob("*")]:
        if ".kafkalog" not in path.parts:
            os.chown(path, owner, group)
            path.chmod(mode | 0o111 if path.is_dir() else mode)
    words = {**COMMANDS, "undo": ["undo"]}[name]
    target = trial.data / ("recovered-0" if name == "undo" else "torn-0")
    before = {path.name for path in target.iterdir()}
    changed = {path.name: path.read_bytes() for path in target.iterdir() if path.is_file()}
    argv = [*words, str(target), *([trial.run_id] if name == "undo" else [])]
    code, _, err = trial.here(argv, RealFilesystem())
    assert code in (0, 3), err
    found = {path.name: path.stat() for path in target.iterdir() if path.is_file()}
    assert {path: (target / path).read_bytes() for path in found} != changed
    for path, status in found.items():
        assert (status.st_mode & 0o777, status.st_uid, status.st_gid) == (mode, owner, group), path
    assert name == "undo" or set(found) - before or name == "recover indexes" or before
    own = target / ".kafkalog"
    if own.exists() and name != "undo":
        assert (own.stat().st_uid, own.stat().st_gid) == (owner, group)
    evidence("R15", 1, len(OWNERS) * 4 + 1)


def test_recover_keeps_extended_attributes(corpus, tmp_path, evidence):
    trial = Trial(corpus, tmp_path, tmp_path)
    torn = trial.data / "torn-0"
    files = [path for path in torn.iterdir() if path.is_file()]
    try:
        for path in files:
            os.setxattr(path, "user.kafkalog", path.name.encode())
    except OSError:
        pytest.skip("this file system has no extended attributes")
    assert trial.here(["recover", str(torn)], RealFilesystem())[0] == 0
    assert {path: os.getxattr(path, "user.kafkalog") for path in files} == {path: path.name.encode() for path in files}
    evidence("R15", 1, len(OWNERS) * 4 + 1)
