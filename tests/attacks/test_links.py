"""Whoever owns a log directory plants links, names and odd files in it: no command touches what lies elsewhere.

Every attack meets every command that changes something. Beside the log directory lies a `victim`, of which content, modes, mtimes
and numbers of links stay. In the second test a directory is swapped for a link to the victim before the n-th call to the disk.
"""

import json
import os
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import commands
from tests.support.effort import DIAL
from tests.support.product import KafkalogError, LockPolicy, RealFilesystem, lock_partition
from tests.support.watched_fs import Swapping

NOW_MS = 1_895_000_000_000
RUN = "20260101T000000.000Z-recover-abcd"
PARTITION = "crash-torn-0"
COMMANDS = {
    "recover": ("recover", "PARTITION"),
    "recover all": ("recover", "LOGS"),
    "retain": ("retain", "PARTITION", "--config", "cleanup.policy=delete", "--config", "retention.ms=1"),
    "free": ("retain", "PARTITION", "--config", "cleanup.policy=delete", "--free-bytes", "1GiB"),
    "compact": (
        "compact",
        "PARTITION",
        "--config",
        "cleanup.policy=compact",
        "--config",
        "min.cleanable.dirty.ratio=0",
    ),
    "roll": ("roll", "PARTITION", "--force"),
    "truncate": ("truncate", "PARTITION", "--to", "50", "--single-replica"),
    "delete-records": ("delete-records", "PARTITION", "--before", "50", "--single-replica"),
    "append": ("append", "PARTITION", "--single-replica"),
    "undo": ("undo", "PARTITION", RUN),
    "purge": ("purge", "LOGS", "--older-than", "0s"),
    "verify": ("verify", "LOGS"),
}


def kafkalog(fs, place, words):
    """(exit code, stderr); `place` holds the log directory `ld`."""
    code, _, err = printed(fs, place, words)
    return code, err


def printed(fs, place, words):
    """(exit code, stdout, stderr)."""
    names = {"PARTITION": f"{place}/ld/{PARTITION}", "LOGS": f"{place}/ld"}
    argv = [names.get(word, word) for word in words]
    how = {"now_ms": lambda: NOW_MS, "stdin": b'{"value":"x"}\n', "errors": "replace"}
    return commands.kafkalog(*argv, fs=fs, **how)


@pytest.fixture
def place(corpus, tmp_path):
    shutil.copytree(corpus / "crash-torn/before", tmp_path / "ld")
    (tmp_path / "ld" / PARTITION).chmod(0o755)
    for path in (tmp_path / "ld").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (tmp_path / "ld").chmod(0o755)
    victim = tmp_path / "victim"
    (victim / "sub").mkdir(parents=True)
    for name in ("file1", "sub/file2", "00000000000000000000.log.deleted", "manifest.json", "lock"):
        (victim / name).write_bytes(b"of somebody else: " + name.encode())
        (victim / name).chmod(0o640)
        os.utime(victim / name, (1_500_000_000, 1_500_000_000))
    for directory in (victim / "sub", victim):
        os.utime(directory, (1_500_000_000, 1_500_000_000))
    return tmp_path


def facts(victim):
    found = {}
    for path in (victim, *sorted(victim.rglob("*"))):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else None
        found[str(path)] = (content, status.st_mode, status.st_uid, status.st_mtime_ns, status.st_nlink)
    return found


# -- the attacks; each gets the place, and plants something


def own(place):
    directory = place / "ld" / PARTITION / ".kafkalog"
    directory.mkdir(exist_ok=True)
    return directory


def linked(name, to=""):
    def plant(place):
        path = place / "ld" / name.replace("PARTITION", PARTITION)
        path.parent.mkdir(exist_ok=True, parents=True)
        if path.exists():
            path.unlink()
        path.symlink_to(place / "victim" / to)

    return plant


def manifest(**change):
    """An unfinished run whose manifest leads out of it."""

    def plant(place):
        directory = own(place) / RUN
        directory.mkdir()
        (directory / "0000.new").write_bytes(b"theirs")
        named = {"file1": {"size_bytes": 24, "mtime_ns": 0, "inode": 0, "mode": 0o640}}
        changes = [{"name": "file1", "to_bytes": 6, "staged": "0000.new", "kept": "0000.new", **change}]
        run = {"run_id": RUN, "action": "recover", "argv": [], "now_ms": 0}
        before = {"mtime_ns": 0, "files": named, "checkpoint_lines": []}
        document = {
            "format": 1, "state": "started", "directory": f"{place}/ld/{PARTITION}", "discard": False,
            "finished_ms": None, "run": run, "changes": changes, "edits": [], "before": before, "after": None,
            "facts": {}, "order": 0,
        }  # fmt: skip
        (directory / "manifest.json").write_text(json.dumps(document))

    return plant


def odd_manifest(make):
    def plant(place):
        (own(place) / RUN).mkdir()
        make(own(place) / RUN / "manifest.json", place)

    return plant


def leftover(place):
    directory = place / "ld/x-0.aaaaaaaaaaaaaaaaaaaaaaade097b2a8-delete"
    directory.mkdir()
    (directory / "sub").symlink_to(place / "victim")
    (directory / "deep").mkdir()
    (directory / "deep/sub").symlink_to(place / "victim")


def partition_is_a_link(place):
    (place / "ld" / PARTITION).rename(place / "aside")
    link_of_another_user(place / "ld" / PARTITION, place / "victim")


def link_of_another_user(path, to):
    """A partition may be a link; but that of the directory's owner leads to nothing but his own."""
    if os.geteuid():
        pytest.skip("only root can make a link of another user's")
    path.symlink_to(to)
    os.lchown(path, 12345, 12345)


OUT = "../../victim/file1"
ATTACKS = {
    "a link in .kafkalog": linked("PARTITION/.kafkalog/x"),
    "a link of a run's name": linked(f"PARTITION/.kafkalog/{RUN}"),
    ".kafkalog is a link": linked("PARTITION/.kafkalog"),
    "a link in a run": linked(f"PARTITION/.kafkalog/{RUN}/sub"),
    "the manifest is a link": linked(f"PARTITION/.kafkalog/{RUN}/manifest.json", "manifest.json"),
    "the manifest is a FIFO": odd_manifest(lambda path, _: os.mkfifo(path)),
    "the manifest is huge": odd_manifest(lambda path, _: os.truncate(os.open(path, os.O_CREAT | os.O_RDWR), 1 << 40)),
    "the manifest is a directory": odd_manifest(lambda path, _: path.mkdir()),
    "the partition's lock is a link": linked("PARTITION/.kafkalog/lock", "lock"),
    ".lock is a link": linked(".lock", "lock"),
    ".lock is a link to nothing": linked(".lock", "new"),
    "the marker is a link": linked(".kafka_cleanshutdown", "file1"),
    "the held marker is a link": linked(".kafkalog-clean-shutdown", "file1"),
    "a partition is a link": partition_is_a_link,
    "a leftover holds links": leftover,
    **{
        f"{name} is a link": linked(name, "file1")
        for name in (
            "recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint",
            "recovery-point-offset-checkpoint.tmp", "cleaner-offset-checkpoint",
            "PARTITION/00000000000000000115.log", "PARTITION/00000000000000000115.index",
            "PARTITION/00000000000000000115.timeindex", "PARTITION/00000000000000000000.log.deleted",
            "PARTITION/00000000000000000129.snapshot", "PARTITION/leader-epoch-checkpoint",
            "PARTITION/leader-epoch-checkpoint.tmp", "PARTITION/partition.metadata",
        )
    },
    **{
        f"{name} is a link to a directory": linked(name)
        for name in (
            "PARTITION/00000000000000000115.index", "PARTITION/00000000000000000000.log.deleted",
            "PARTITION/00000000000000000129.snapshot", "PARTITION/leader-epoch-checkpoint",
        )
    },
    **{f"a manifest {kind}s a file elsewhere": manifest(kind=kind, name=OUT) for kind in ("make", "put", "drop", "grow", "cut")},
    "a manifest replaces a file elsewhere": manifest(kind="put", name=OUT, replaces=True),
    "a manifest moves to elsewhere": manifest(kind="move", name="file1", new_name=OUT),
    "a manifest moves from elsewhere": manifest(kind="move", name=OUT, new_name="mine"),
    "a manifest keeps a file elsewhere": manifest(kind="drop", name="gone", kept="../../../" + OUT),
    "a manifest stages a file elsewhere": manifest(kind="put", name="gone", staged="../../../" + OUT, replaces=True),
    "a manifest's name is ..": manifest(kind="make", name=".."),
    "a manifest's name is empty": manifest(kind="make", name=""),
    "a manifest's name has a NUL": manifest(kind="make", name="a\0b"),
    "a manifest's name is our directory": manifest(kind="make", name=".kafkalog"),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_commands_touch_nothing_behind_links_in_a_log_directory(place, attack, evidence):
    ATTACKS[attack](place)
    before = facts(place / "victim")
    rotating = list(COMMANDS)[list(ATTACKS).index(attack) % len(COMMANDS)]
    others = COMMANDS if DIAL.scale > 1 else dict.fromkeys(["undo", rotating])
    for count, name in enumerate(others):
        copy = place / f"copy-{count}"
        copy.mkdir()
        shutil.copytree(place / "ld", copy / "ld", symlinks=True, ignore_dangling_symlinks=True, copy_function=copied)
        os.lchown(copy / "ld" / PARTITION, (place / "ld" / PARTITION).lstat().st_uid, -1)
        kafkalog(RealFilesystem(), copy, COMMANDS[name])
        assert facts(place / "victim") == before, name
    evidence("R25", len(others), len(ATTACKS))


def copied(source, target, *, follow_symlinks=True):
    del follow_symlinks
    if not Path(source).is_symlink() and Path(source).is_fifo():
        os.mkfifo(target)
    elif not Path(source).is_symlink() and Path(source).stat().st_size > 1 << 30:
        os.truncate(os.open(target, os.O_CREAT | os.O_RDWR), Path(source).stat().st_size)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


# -- swaps


def swapped(path, to):
    if path.is_dir() and not path.is_symlink():
        path.rename(path.with_name("aside"))
        link_of_another_user(path, to)


SWAPS = {
    "the partition": lambda place: swapped(place / "ld" / PARTITION, place / "victim"),
    ".kafkalog": lambda place: swapped(place / "ld" / PARTITION / ".kafkalog", place / "victim"),
    "the run": lambda place: [
        swapped(path, place / "victim") for path in list((place / "ld" / PARTITION / ".kafkalog").glob("2*"))
    ],
}


SWAPPED = ["recover", "append"] + (
    ["truncate", "roll", "delete-records", "retain", "free", "compact", "undo", "purge"] if DIAL.scale > 1 else []
)


@pytest.mark.parametrize("name", SWAPPED)
@pytest.mark.parametrize("swap", SWAPS)
def test_a_directory_swapped_for_a_link_at_any_call_of_a_command_leads_nowhere(place, swap, name, evidence):
    words = COMMANDS[name]
    if name in ("undo", "purge"):  # these need a run that was done
        assert kafkalog(RealFilesystem(), place, COMMANDS["recover"])[0] in (0, 3)
        run_id = next((place / "ld" / PARTITION / ".kafkalog").glob("2*")).name
        words = [run_id if word == RUN else word for word in words]
    (place / "saved").mkdir()
    shutil.copytree(place / "ld", place / "saved/ld")
    before, n, tried, step = facts(place / "victim"), 0, 0, 7 if DIAL.scale > 1 else 59
    while True:
        shutil.rmtree(place / "ld")
        shutil.copytree(place / "saved/ld", place / "ld")
        fs = Swapping(n, lambda: SWAPS[swap](place))
        kafkalog(fs, place, words)
        assert facts(place / "victim") == before, n
        tried += 1
        if fs.calls <= n:
            break
        n += step
    evidence("R26", tried, len(SWAPS) * len(SWAPPED))


def test_a_directory_swapped_for_a_link_while_the_lock_is_taken_leads_nowhere(place):
    """A partition that was a directory when its links were checked is not looked up again as a link."""
    (place / "saved").mkdir()
    shutil.copytree(place / "ld", place / "saved/ld")
    before, n = facts(place / "victim"), 0
    while True:
        shutil.rmtree(place / "ld")
        shutil.rmtree(place / "aside", ignore_errors=True)
        shutil.copytree(place / "saved/ld", place / "ld")
        fs = Swapping(n, lambda: SWAPS["the partition"](place))
        with suppress(KafkalogError):
            lock_partition(fs, f"{place}/ld/{PARTITION}", LockPolicy()).release()
        assert facts(place / "victim") == before, n
        if fs.calls <= n:
            break
        n += 1
    assert n > 5


ODD = (RUN, "odd", "fifo", "elsewhere", "20260102T000000.000Z-roll-abcd/link", "20260102T000000.000Z-roll-abcd/deep")
"""Entries of `.kafkalog` that no run makes."""


@pytest.fixture
def odd(place):
    """Plants each of them; also what runs do make."""
    (own(place) / RUN).symlink_to(place / "victim")
    (own(place) / "odd").write_bytes(b"odd")
    os.mkfifo(own(place) / "fifo")
    (own(place) / "elsewhere").mkdir()
    kept = own(place) / "20260102T000000.000Z-roll-abcd"
    (kept / "deep").mkdir(parents=True)
    (kept / "link").symlink_to(place / "victim")
    (kept / "0000.new").write_bytes(b"kept")
    (own(place) / "lock").write_bytes(b"")
    return place


def test_a_link_beside_the_run_directories_is_reported_and_left_alone(odd):
    place, before = odd, facts(odd / "victim")
    for words in COMMANDS.values():
        if words[0] in ("verify", "undo"):  # undo knows no such run
            continue
        _, err = kafkalog(RealFilesystem(), place, words)
        assert all(f"{own(place)}/{name}: skipped: kafkalog did not make it (" in err for name in (RUN, "odd")), (
            words,
            err,
        )
        assert (own(place) / RUN).is_symlink()
        assert (own(place) / "odd").read_bytes() == b"odd"
    assert facts(place / "victim") == before


def test_verify_reports_entries_of_the_run_directory_that_no_run_made(odd):
    """And its next step, done as it is printed, removes the entry and nothing elsewhere."""
    before, steps = facts(odd / "victim"), {}
    for level in ("quick", "normal"):
        words = ("verify", "PARTITION", "--level", level, "--format", "ndjson")
        _, out, _ = printed(RealFilesystem(), odd, words)
        lines = [json.loads(line) for line in out.splitlines()]
        found = [line for line in lines if line.get("kind") == "odd-entry"]
        assert {line["path"] for line in found} == {f"{own(odd)}/{name}" for name in ODD}
        assert {line["severity"] for line in found} == {"warning"}
        steps = {line["path"]: line["next_step"] for line in found}
    for path, step in steps.items():
        assert os.path.lexists(path)
        subprocess.run(re.search("`(.+)`", step)[1], shell=True, check=True)
    code, out, _ = printed(RealFilesystem(), odd, ("verify", "PARTITION"))
    assert "odd-entry" not in out, code
    assert facts(odd / "victim") == before


def test_ls_lists_entries_of_the_run_directory_that_no_run_made(odd):
    before = facts(odd / "victim")
    for words in (("ls", "LOGS"), ("ls", "PARTITION"), ("ls", "LOGS", "--format", "ndjson")):
        code, out, err = printed(RealFilesystem(), odd, words)
        assert code == 3
        missed = [name for name in ODD if f"{own(odd)}/{name}" not in out + err]
        assert missed == [], (words, out, err)
    assert facts(odd / "victim") == before


def test_a_link_in_place_of_the_runs_is_found(place):
    linked("PARTITION/.kafkalog")(place)
    for words in (("verify", "PARTITION"), ("ls", "PARTITION")):
        code, out, err = printed(RealFilesystem(), place, words)
        assert f"{own(place)}: a symbolic link, which kafkalog did not make" in (out + err).replace(" warning: ", " "), (
            code, out, err,
        )  # fmt: skip
