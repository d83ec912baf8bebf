"""Files and directories that options name for writing: links, odd entries and temporary names planted where they are to be.

Beside them lies a `victim` that stays as it is, and so does whatever a user has there under another name.
"""

# ruff: noqa: F811 - `place` is a fixture

import errno
import json
import os

import pytest

from tests.attacks.test_links import PARTITION, facts, kafkalog, link_of_another_user, place  # noqa: F401
from tests.support import commands
from tests.support.product import FORMAT, FileAttributes, KafkalogError, RealFilesystem, ReplayState
from tests.support.product_journal import (
    ComingFile,
    OutputDirectory,
    RunRecord,
    check_named_file,
    new_file,
    record_bytes,
)

RUN = "20260101T000000.000Z-export-abcd"
KEPT = ("--config", "cleanup.policy=delete", "--config", "retention.ms=-1")
NOW_MS = 1_895_000_000_000


def metrics(place, path):
    """`--metrics FILE`; any log may be given, and nothing is to be done to it."""
    return kafkalog(RealFilesystem(), place, ("retain", "PARTITION", *KEPT, "--metrics", path))


def result_file(place, path):
    """`sql --output FILE`, as it is written."""
    del place
    fs = RealFilesystem()
    try:
        check_named_file(fs, path)
        with new_file(fs, path) as file:
            file.write(b"rows")
    except KafkalogError as error:
        return int(error.exit_code), str(error)
    return 0, ""


def state(place, path):
    """`export --state FILE`."""
    return published(f"{place}/exported", path)


def page(place, path):
    """`inspect --html FILE`."""
    return kafkalog(RealFilesystem(), place, ("inspect", "PARTITION", "--html", path))


def progress(place, path):
    """`replay --state FILE`; no cluster is asked."""
    del place
    return answered(lambda fs: using(ReplayState(fs, path, {}), ReplayState.save))


def using(opened, do):
    with opened as one:
        do(one)


def answered(do):
    try:
        do(RealFilesystem())
    except KafkalogError as error:
        return int(error.exit_code), str(error)
    return 0, ""


def published(output, record_path=None, coming=("topic=x/part-0.parquet",)):
    """What `export --output DIR` does with the files that tasks have staged."""
    fs = RealFilesystem()
    try:
        with OutputDirectory(fs, output, record_path) as out:
            left = out.record()
            if left is not None:
                out.complete(left)
            staging = out.begin(RUN)
            for number, _ in enumerate(coming):
                with fs.create(f"{staging}/{number}", FileAttributes(0o644, os.geteuid(), os.getegid(), 0)) as file:
                    file.write(0, b"rows")
                    file.sync()
            out.publish(RunRecord(out.path, RUN, {}, {}, tuple(ComingFile(str(n), p) for n, p in enumerate(coming))))
    except (KafkalogError, OSError) as error:
        return int(getattr(error, "exit_code", 1)), str(error)
    return 0, ""


def names(directory):
    return sorted(path.name for path in directory.iterdir())


FILES = {"--metrics": metrics, "--output": result_file, "--state": state, "--html": page, "--state of replay": progress}
LOCKED = ("--state of replay",)
"""The run holds FILE.lock, which stays."""


def linked(to):
    def plant(place, target):
        target.symlink_to(place / to)

    return plant


def hard_linked(place, target):
    os.link(place / "victim/file1", target)


def in_a_directory_of_another(place, target):
    target.parent.rmdir()
    link_of_another_user(target.parent, place / "victim")


REFUSED = {
    "a link": linked("victim/file1"),
    "a link to nothing": linked("victim/new"),
    "a link to a directory": linked("victim"),
    "a FIFO": lambda _, target: os.mkfifo(target),
    "a directory": lambda _, target: target.mkdir(),
    "in a directory that another user's link leads to": in_a_directory_of_another,
}


@pytest.mark.parametrize("option", FILES)
@pytest.mark.parametrize("attack", REFUSED)
def test_a_named_file_is_not_written_through_a_link(place, option, attack, evidence):
    target = place / "mine/out"
    target.parent.mkdir()
    REFUSED[attack](place, target)
    log, before = facts(place / "ld" / PARTITION), facts(place / "victim")
    kind = target.lstat().st_mode if os.path.lexists(target) else None
    code, err = FILES[option](place, str(target))
    assert code == 14, err
    assert "symbolic link" in err or "not a regular file" in err
    assert facts(place / "victim") == before
    assert facts(place / "ld" / PARTITION) == log
    assert (target.lstat().st_mode if os.path.lexists(target) else None) == kind
    assert names(target.parent) in ([], ["out"], sorted(names(place / "victim")), names(place / "victim"))
    evidence("R27", 1, len(FILES) * len(REFUSED) + len(FILES))


@pytest.mark.parametrize("option", FILES)
def test_temporary_names_and_a_second_name_stay(place, option, evidence):
    """A user's FILE.tmp stays, whatever it is; of a file with two names the other keeps its content."""
    target = place / "mine/out"
    target.parent.mkdir()
    (place / "mine/out.tmp").write_bytes(b"mine")
    (place / "mine/.out.tmp").symlink_to(place / "victim/file1")
    (place / "mine/out.kafkalog.tmp").symlink_to(place / "victim/new")
    others = names(target.parent)
    assert FILES[option](place, str(target))[0] in (0, 3)
    assert names(target.parent) == sorted([*others, "out", *(["out.lock"] if option in LOCKED else [])])
    assert (place / "mine/out.tmp").read_bytes() == b"mine"
    assert (place / "victim/file1").read_bytes() == b"of somebody else: file1"
    assert not (place / "victim/new").exists()
    if option not in {"--state of replay", "--state"}:  # which are read first, and must be ours
        target.unlink()
        hard_linked(place, target)
        assert FILES[option](place, str(target))[0] in (0, 3)
        assert target.read_bytes() != b"of somebody else: file1"
    assert (place / "victim/file1").read_bytes() == b"of somebody else: file1"
    evidence("R27", 2, len(FILES) * len(REFUSED) + len(FILES))


@pytest.mark.parametrize("option", FILES)
@pytest.mark.parametrize("name", [f"{0:020d}.log", f"{500:020d}.log", "leader-epoch-checkpoint", "../meta.properties"])
def test_no_file_of_a_log_directory_is_replaced_or_made(place, option, name):
    """A slip of the hand, such as a glob of the shell after the option; a broker would load a new segment."""
    before = facts(place / "ld")
    code, err = FILES[option](place, f"{place}/ld/{PARTITION}/{name}")
    assert (code, "a broker takes a file of this name for one of its own" in err) == (14, True), err
    assert facts(place / "ld") == before


@pytest.mark.parametrize("option", LOCKED)
def test_the_lock_beside_the_file_is_no_link(place, option):
    (place / "out.lock").symlink_to(place / "victim/new")
    code, err = FILES[option](place, str(place / "out"))
    assert (code, "symbolic link" in err) == (14, True), err
    assert not (place / "victim/new").exists()


# -- directories


def record_of_another(place, output, **change):
    """A run that was committed, by what lies in the output, and whose files lead out of it."""
    del place
    staging = output / ".kafkalog" / RUN
    staging.mkdir(parents=True)
    (staging / "0").write_bytes(b"theirs")
    coming = ComingFile(change.get("staged", "0"), change.get("path", "new"))
    record = RunRecord(str(output), change.get("run", RUN), {}, {}, (coming,))
    (output / ".kafkalog/committed.json").write_bytes(record_bytes(record))


def sub_directory(name):
    def plant(place, output):
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        (output / name).symlink_to(place / "victim")

    return plant


DIRECTORIES = {
    "another user's link": lambda place, output: (output.rmdir(), link_of_another_user(output, place / "victim")),
    "a link to nothing": lambda place, output: (output.rmdir(), output.symlink_to(place / "victim/new")),
    ".kafkalog is a link": sub_directory(".kafkalog"),
    "the lock is a link": sub_directory(".kafkalog/lock"),
    "the record is a link": sub_directory(".kafkalog/committed.json"),
    "the staging directory is a link": sub_directory(f".kafkalog/{RUN}"),
    "another run's directory is a link": sub_directory(".kafkalog/20250101T000000.000Z-export-abcd"),
    "a topic's directory is a link": sub_directory("topic=x"),
    "a record places a file elsewhere": lambda p, o: record_of_another(p, o, path="../victim/new"),
    "a record places a file at a full path": lambda p, o: record_of_another(p, o, path=f"{p}/victim/new"),
    "a record takes a file from elsewhere": lambda p, o: record_of_another(p, o, staged="../../../victim/file1"),
    "a record's run lies elsewhere": lambda p, o: record_of_another(p, o, run="../../victim", staged="file1"),
}


@pytest.mark.parametrize("attack", DIRECTORIES)
def test_an_output_directory_that_is_a_link_is_not_written_through(place, attack, evidence):
    output = place / "out"
    output.mkdir()
    DIRECTORIES[attack](place, output)
    before = facts(place / "victim")
    code, err = published(str(output))
    assert facts(place / "victim") == before, (code, err)
    if "another run" not in attack:
        assert code != 0, err
    evidence("R28", 1, len(DIRECTORIES) + len(SALVAGED))


def swapping_parent(place, out):
    out.parent.rmdir()
    link_of_another_user(out.parent, place / "victim")


SALVAGED = {
    "the directory is another user's link": swapping_parent,
    "the partition's copy is a link": lambda place, out: out.symlink_to(place / "victim/sub"),
    "the partition's copy is a link to nothing": lambda place, out: out.symlink_to(place / "victim/new"),
    "what is being copied is a link": lambda place, out: out.with_name(f"{out.name}.partial").symlink_to(
        place / "victim"
    ),
}


@pytest.mark.parametrize("attack", SALVAGED)
def test_salvage_writes_nothing_through_links_below_its_output_directory(place, attack, evidence):
    out = place / "salvaged" / PARTITION
    out.parent.mkdir()
    SALVAGED[attack](place, out)
    before = facts(place / "victim")
    code, err = kafkalog(RealFilesystem(), place, ("recover", "PARTITION", "--salvage", str(out.parent)))
    assert facts(place / "victim") == before, (code, err)
    assert code != 0
    evidence("R28", 1, len(DIRECTORIES) + len(SALVAGED))


PROGRESS = {
    "topic": "t", "partition": 0, "target_topic": "t", "next_offset": 0, "targets": [[0, 0, 0]], "records": 0,
    "is_done": False, "is_under_way": False, "translated": [],
}  # fmt: skip


@pytest.mark.parametrize(
    "partitions",
    [
        [PROGRESS, PROGRESS],
        [{**PROGRESS, "partition": 1 << 31}],
        [{**PROGRESS, "next_offset": -1}],
        [{**PROGRESS, "targets": [[0, 0]]}],
    ],
)
def test_a_state_of_a_replay_that_lies_is_refused(place, partitions):
    (place / "state").write_text(json.dumps({"format": FORMAT, "request": {}, "partitions": partitions}))
    code, err = progress(place, str(place / "state"))
    assert (code, "it is not a state of kafkalog replay" in err) == (1, True), err


def test_no_directory_of_output_is_made_in_a_log_directory(place):
    """A user whose working directory is the log directory: a broker does not start with a directory that is not its own."""
    before = facts(place / "ld")
    for code, err in (
        published(f"{place}/ld/exported"),
        kafkalog(RealFilesystem(), place, ("demo", f"{place}/ld/demo")),
        kafkalog(RealFilesystem(), place, ("metadump", "LOGS", f"{place}/ld/copy")),
        kafkalog(RealFilesystem(), place, ("recover", "PARTITION", "--salvage", f"{place}/ld/salvaged")),
    ):
        assert (code, "give a" in err) == (14, True), err
    assert [path for path in (place / "ld").iterdir() if str(path) not in before] == []


class FullDisk(RealFilesystem):
    def create(self, path, attributes=None):
        raise OSError(errno.ENOSPC, "No space left on device", path)


@pytest.mark.parametrize(("option", "what"), [("--html", "page"), ("--metrics", "metrics")])
def test_a_file_that_finds_no_room_is_named(place, option, what):
    words = {"--html": ("inspect", "PARTITION"), "--metrics": ("retain", "PARTITION", *KEPT)}[option]
    code, err = kafkalog(FullDisk(), place, (*words, option, f"{place}/out"))
    assert (code, f"{place}/out: no space left on the device: the {what} cannot be written" in err) == (13, True), err
    assert not (place / "out").exists()


@pytest.mark.parametrize("command", [
    "export orders-0 --output -", "inspect orders-0 --html -",
    "retain orders-0 --metrics -", "recover orders-0 --salvage -", "metadump . -", "demo -", "sql --output - . select",
])  # fmt: skip
def test_a_hyphen_is_no_name_of_a_file(command, tmp_path, monkeypatch):
    """To most programs it is standard output, where these options do not write."""
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020d}.log").touch()
    monkeypatch.chdir(tmp_path)
    code, out, err = commands.kafkalog(*command.split())
    assert (code, out) == (2, "")
    assert (
        "- would be standard output, where this option does not write; ./- is a file or directory of this name" in err
    )
    assert not (tmp_path / "-").exists()


def test_a_report_to_a_hyphen_is_one_to_standard_output(tmp_path, monkeypatch):
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020d}.log").touch()
    monkeypatch.chdir(tmp_path)
    plain, named = (commands.kafkalog("verify", "orders-0", "--report", one) for one in ("github", "github=-"))
    assert plain == named
    assert plain.out
    assert not (tmp_path / "-").exists()
