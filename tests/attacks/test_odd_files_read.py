"""Odd files at each name that commands open for reading: nothing hangs, nothing outside is printed or touched.

Each attack plants one thing at one name, and meets every command that only reads. What a link leads to holds a
secret, which no output may contain, whoever made the link.
"""

# ruff: noqa: F811 - `place` is a fixture

import json
import os
import shutil
import signal
import socket
import stat
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.attacks.test_links import NOW_MS, PARTITION, facts, place  # noqa: F401
from tests.support import commands
from tests.support.effort import DIAL
from tests.support.product import ExitCode, RealFilesystem
from tests.support.watched_fs import WatchedFilesystem

SECRET = "0c4nary5ecret"
MOST_SECONDS = 1200
"""A command that takes as long hangs; on a busy host, `verify` takes a minute for a hole of 16 TiB."""
OTHER_USER = 12345
STEM = "00000000000000000115"
NAMES = {
    **{f"*{suffix}": f"{PARTITION}/{STEM}{suffix}" for suffix in (".log", ".index", ".timeindex", ".txnindex")},
    "snapshot": f"{PARTITION}/00000000000000000129.snapshot",
    "epochs": f"{PARTITION}/leader-epoch-checkpoint",
    "metadata": f"{PARTITION}/partition.metadata",
    "meta.properties": "meta.properties",
    "recovery points": "recovery-point-offset-checkpoint",
    "high watermarks": "replication-offset-checkpoint",
    "log starts": "log-start-offset-checkpoint",
    "cleaner": "cleaner-offset-checkpoint",
    "marker": ".kafka_cleanshutdown",
    "lock": ".lock",
    "import": ".kafkalog-import",
    "manifest": f"{PARTITION}/.kafkalog/20260101T000000.000Z-recover-abcd/manifest.json",
}
DELETE = ("--config", "cleanup.policy=delete", "--config", "retention.ms=1")
COMMANDS = {
    "verify quick": ("verify", "LOGS", "--level", "quick"),
    "verify": ("verify", "LOGS"),
    "verify deep": ("verify", "LOGS", "--level", "deep"),
    "ls": ("ls", "LOGS"),
    "ls segments": ("ls", "PARTITION", "--segments"),
    "read": ("read", "LOGS"),
    "dump-log": ("dump-log", "--files", "LOG", "--print-data-log"),
    "dump-log resync": ("dump-log", "LOG", "--resync"),
    "dump-index": ("dump-index", "PARTITION"),
    "dump-index one": ("dump-index", "FILE"),
    "lookup-offset": ("lookup-offset", "PARTITION", "120"),
    "lookup-time": ("lookup-time", "PARTITION", "0"),
    "recover": ("recover", "LOGS", "--dry-run"),
    "retain": ("retain", "LOGS", "--dry-run", *DELETE),
    "compact": ("compact", "PARTITION", "--dry-run", "--config", "cleanup.policy=compact"),
    "roll": ("roll", "PARTITION", "--dry-run"),
    "truncate": ("truncate", "PARTITION", "--to", "50", "--single-replica", "--dry-run"),
    "delete-records": ("delete-records", "PARTITION", "--before", "50", "--single-replica", "--dry-run"),
    "purge": ("purge", "LOGS", "--dry-run"),
    "against": ("verify", "LOGS", "--against", "LOGS2"),
}


class TooLong(BaseException):
    """A command did not end."""


@contextmanager
def at_most(seconds):
    def stop(*_):
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def done(place, words, path=None, fs=None):
    """(exit code, stdout, stderr) of one command; its promises for every odd file are checked."""
    names = {
        "PARTITION": f"{place}/ld/{PARTITION}",
        "LOGS": f"{place}/ld",
        "LOGS2": f"{place}/good",
        "LOG": f"{place}/ld/{PARTITION}/{STEM}.log",
        "FILE": str(path or f"{place}/ld/{PARTITION}/{STEM}.index"),
    }
    argv = [names.get(word, word) for word in words]
    how = {"now_ms": lambda: NOW_MS, "errors": "surrogateescape"}
    try:
        with at_most(MOST_SECONDS):
            code, *texts = commands.kafkalog(*argv, fs=fs, **how)
    except TooLong:
        pytest.fail(f"{words} did not end within {MOST_SECONDS} s")
    assert code in list(ExitCode), (words, code)
    assert SECRET not in "".join(texts), (words, texts)
    is_json = "--format" in words and words[0] != "dump-log"
    for text in texts:
        raw = {char for char in text if ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0} - {"\n"}
        assert not raw - ({"\t"} if words[0] in ("read", "dump-log") else set()), (words, text)
        if is_json:
            for line in text.splitlines():
                assert isinstance(json.loads(line), dict), line
                line.encode()  # valid UTF-8: no byte of a name goes out as it is
    return code, *texts


def tree(root):
    """All there is below, as it is; nothing is opened."""
    found = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        link = path.readlink() if path.is_symlink() else None
        found[str(path)] = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_nlink, status.st_ino, link)
    return found


# -- what is planted


def of_another_user(path, to):
    if os.geteuid():
        pytest.skip("only root can make a link of another user's")
    path.symlink_to(to)
    os.lchown(path, OTHER_USER, OTHER_USER)


def socket_at(path):
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)


def device(path):
    if os.geteuid():
        pytest.skip("only root makes devices")
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("no devices in this container")


def largest_hole(path):
    path.write_bytes(b"")
    for bits in (63, 44, 43, 40):
        try:
            os.truncate(path, (1 << bits) - (1 << 16))
        except OSError:
            continue
        return
    pytest.skip("no large holes here")


def replaced_by_log(path, place):
    """A link of another user's to a file of the very kind: the owner alone tells."""
    (place / "theirs").mkdir()
    target = place / "theirs" / path.name
    target.write_bytes(f"{SECRET}\n{SECRET}".encode())
    of_another_user(path, target)


def by_another_link(path, place):
    """Root's link leads to the other user's, which leads to root's file."""
    of_another_user(place / path.name, place / "victim/secret")
    path.symlink_to(place / path.name)


def by_a_directory(path, place):
    """The link's own way has a link of another user's."""
    (place / "theirs").mkdir()
    (place / "theirs" / path.name).write_bytes(f"{SECRET}\n".encode())
    of_another_user(place / "way", place / "theirs")
    path.symlink_to(place / "way" / path.name)


PLANTED = {
    "a pipe": lambda path, _: os.mkfifo(path),
    "a socket": lambda path, _: socket_at(path),
    "a device": lambda path, _: device(path),
    "a link to /dev/zero": lambda path, _: path.symlink_to("/dev/zero"),
    "a link to /dev/full": lambda path, _: path.symlink_to("/dev/full"),
    "a link to a pipe": lambda path, place: (os.mkfifo(place / "pipe"), path.symlink_to(place / "pipe")),
    "a directory": lambda path, _: path.mkdir(),
    "a link to itself": lambda path, _: path.symlink_to(path.name),
    "a link to nothing": lambda path, _: path.symlink_to("nothing"),
    "a link to a secret": lambda path, place: path.symlink_to(place / "victim/secret"),
    "another user's link to a secret": lambda path, place: of_another_user(path, place / "victim/secret"),
    "another user's link to a file of this kind": replaced_by_log,
    "a link to another user's link": by_another_link,
    "a link through another user's link": by_a_directory,
    "a hole": lambda path, _: largest_hole(path),
    "escape codes": lambda path, _: path.write_bytes(b"\x1b[2J\x07\n\x9b1m\xff\xfe \x00\n" * 9),
}


@pytest.fixture
def both(place):
    """Beside the attacked log directory lies a good one, and a secret."""
    shutil.copytree(place / "ld", place / "good")
    (place / "victim/secret").write_bytes(f"{SECRET}:{SECRET} {SECRET}\n{SECRET}={SECRET}\n".encode() * 9)
    return place


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("planted", PLANTED)
def test_readers_change_nothing_and_do_not_hang_at_a_pipe_link_or_device_in_place_of_a_file(
    both, planted, name, evidence
):
    path = both / "ld" / NAMES[name]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    PLANTED[planted](path, both)
    before, victim = tree(both), facts(both / "victim")
    at = list(NAMES).index(name) * len(PLANTED) + list(PLANTED).index(planted)
    chosen = list(COMMANDS) if DIAL.scale > 1 else ["verify", list(COMMANDS)[at % len(COMMANDS)]]
    for count, command in enumerate(chosen):
        words = COMMANDS[command]
        forms = [()] if words[0] == "dump-log" else [(), ("--format", "json")]
        for form in forms if DIAL.scale > 1 else [forms[(at + count) % len(forms)]]:
            _, out, err = done(both, (*words, *form), path)
            if command == "verify" and has_to_be_named(planted, name):
                assert str(path) in out + err, (planted, out, err)
    assert tree(both) == before
    assert facts(both / "victim") == victim
    evidence("R38", len(chosen), PARTS)


def has_to_be_named(planted, name):
    """Names that a broker reads at its start, and that lead to nothing that it could read."""
    return "link" in planted and "secret" in planted and name not in ("lock", "import", "manifest", "marker", "cleaner")


@pytest.mark.parametrize("planted", ["another user's", "of one's own, to no partition"])
def test_a_partition_that_is_a_link(both, planted, evidence):
    """Another user's link leads readers to no directory of root's."""
    (both / "secrets-0").mkdir()
    (both / "secrets-0/00000000000000000000.log").write_bytes((SECRET * 99).encode())
    (both / "secrets-0/partition.metadata").write_text(SECRET)
    (both / "secrets-0/leader-epoch-checkpoint").write_text(f"0\n{SECRET}\n")
    (both / f"secrets-0/{SECRET}").write_text(SECRET)
    link = both / "ld/secrets-0"
    if planted == "another user's":
        of_another_user(link, both / "secrets-0")
    else:
        link.symlink_to(both / "victim")
    before = tree(both)
    for command in COMMANDS.values():
        words = [str(link) if word == "PARTITION" else word for word in command]
        words = [str(link / "00000000000000000000.log") if word == "LOG" else word for word in words]
        _, out, err = done(both, words, link / "partition.metadata")
        if command[0] == "verify" and "another" in planted:
            assert "made by another user (12345)" in out + err, (out, err)
    assert tree(both) == before
    evidence("R38", len(COMMANDS), PARTS)


def test_a_moved_segment_is_read(both):
    """What an operator moves to another disk and links, whoever owns it, is still read."""
    log = both / f"ld/{PARTITION}/{STEM}.log"
    elsewhere = both / "disk2"
    elsewhere.mkdir()
    before = done(both, COMMANDS["read"])
    for suffix in (".log", ".index", ".timeindex"):
        file = log.with_suffix(suffix)
        file.rename(elsewhere / file.name)
        file.symlink_to(elsewhere / file.name)
        if not os.geteuid():
            os.lchown(file, OTHER_USER, OTHER_USER)  # and the file is that user's
            os.chown(elsewhere / file.name, OTHER_USER, OTHER_USER)
    assert done(both, COMMANDS["read"]) == before
    assert before[0] == 3  # its end is torn
    assert len(before[1].splitlines()) > 100


NASTY = (
    "new\nline",
    "\x1b[31mred",
    "tab\t",
    "bell\x07",
    "\x9b1m",
    "\u202eabc",
    "\udcff\udcfe",
    "a" * 200,
    "{}",
    '"',
    "%s",
)


@pytest.mark.exhaustive
@pytest.mark.parametrize("nasty", NASTY)
def test_control_characters_in_file_names_reach_no_output_of_a_reader(both, nasty, evidence):
    partition = both / "ld" / PARTITION
    (partition / f"{nasty}.log").write_bytes(b"x")
    (partition / f"00000000000000000000{nasty}.index").write_bytes(b"x")
    (partition / f"{nasty}.snapshot").write_bytes(b"x")
    (both / "ld" / f"{nasty}-0").mkdir()
    (both / "ld" / f"{nasty}-0/00000000000000000000.log").write_bytes(b"x" * 99)
    (both / "ld" / nasty).write_bytes(b"x")
    before = tree(both)
    for words in COMMANDS.values():
        for form in ((), ("--format", "json")):
            if words[0] == "dump-log" and form:
                continue
            done(both, (*words, *form), partition / f"{nasty}.snapshot")
    assert tree(both) == before
    evidence("R38", 2 * len(COMMANDS), PARTS)


# -- files that change between listing and opening


class Turning(WatchedFilesystem):
    """Before each opening of the file, or before the n-th call, something else is put in its place."""

    def __init__(self, path, turn):
        super().__init__(RealFilesystem())
        self.path, self.turn, self.turned = str(path), turn, False

    def before(self, call):
        if call.name == "open_read" and call.path == self.path and not self.turned:
            self.turned = True
            self.turn()


TURNS = {
    "vanishes": lambda path, _: path.unlink(),
    "becomes a pipe": lambda path, _: (path.unlink(), os.mkfifo(path)),
    "becomes a directory": lambda path, _: (path.unlink(), path.mkdir()),
    "becomes a link to a secret": lambda path, place: (path.unlink(), path.symlink_to(place / "victim/secret")),
    "becomes a link to /dev/zero": lambda path, _: (path.unlink(), path.symlink_to("/dev/zero")),
    "becomes empty": lambda path, _: os.truncate(path, 0),
    "its directory becomes another user's link": lambda path, place: (
        path.parent.rename(place / "aside"),
        of_another_user(path.parent, place / "theirs"),
    ),
}


TURNED = ("*.log", "*.index", "*.timeindex", "snapshot", "epochs", "metadata")


@pytest.mark.exhaustive
@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("name", TURNED)
def test_readers_follow_no_file_that_is_swapped_while_they_read(both, turn, name, evidence):
    path = both / "ld" / NAMES[name]
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_bytes(b"0\n0\n")
    (both / "theirs").mkdir()
    (both / "theirs" / path.name).write_bytes((SECRET * 99).encode())
    (both / "saved").mkdir()
    shutil.copytree(both / "ld", both / "saved/ld")
    victim = facts(both / "victim")
    for words in COMMANDS.values():
        shutil.rmtree(both / "ld")
        shutil.rmtree(both / "aside", ignore_errors=True)
        shutil.copytree(both / "saved/ld", both / "ld")
        fs = Turning(path, lambda: TURNS[turn](path, both))
        done(both, words, path, fs)
        assert facts(both / "victim") == victim
    evidence("R38", len(COMMANDS), PARTS)


@pytest.mark.full
def test_commands_on_a_partition_of_many_entries_end_soon(both, evidence):
    """3,000 names in one directory, 100,000 with `make test-attacks`: each command ends, and soon."""
    partition = both / "ld" / PARTITION
    count = 100_000 if DIAL.scale > 1 else 3_000
    for number in range(count):
        (partition / f"odd{number}").touch()
    began = time.process_time()
    for words in COMMANDS.values():
        done(both, words)
    assert time.process_time() - began < max(50, count / 200)
    evidence("R38", len(COMMANDS), PARTS)


PARTS = len(NAMES) * len(PLANTED) + 2 + len(NASTY) + len(TURNS) * len(TURNED) + 1
"""The tests that tell of R38."""
