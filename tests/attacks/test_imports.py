"""Imports into directories of others: planted records, what is swapped while partitions get their places, and links."""

# ruff: noqa: F811 - `place` is a fixture

import copy
import json
import os
import shutil
import subprocess

import pytest

import kafkalog_cli as kl
from tests.attacks.test_links import PARTITION, facts, kafkalog, link_of_another_user, place, printed  # noqa: F401
from tests.attacks.test_manifests import ABSENT, ABSURD, paths, put
from tests.support.effort import DIAL
from tests.support.product import BadInput, KafkalogError, LockPolicy, RealFilesystem, staged_name
from tests.support.product_journal import NewPartitions, OutputDirectory, StagedPartition, input_files, make_partition
from tests.support.watched_fs import Swapping

RUN = "20260101T000000.000Z-import-abcd"
RECORD = ".kafkalog-import"
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
NOW_MS = 1_895_000_000_000


def built(place, topic="new", number=0):
    """A partition as an import builds it, before its commit."""
    name = staged_name(topic, number, RUN, "0")
    make_partition(RealFilesystem(), f"{place}/ld/{name}", TOPIC_ID, NOW_MS)
    inode = os.stat(f"{place}/ld/{name}").st_ino  # noqa: PTH116
    return StagedPartition(topic, number, name, inode)


def record(place, part):
    """What an import leaves that is killed right after its commit."""
    return {
        "version": 1, "output": f"{place}/ld", "run": RUN, "what": {"command": ["in", "r", "c"], "repeat": ""},
        "state": {"inodes": {part.name: part.inode}, "aside": {}},
        "coming": [{"staged": part.staged, "path": part.name, "facts": None}],
    }  # fmt: skip


def names_in(directory):
    return sorted(path.name for path in directory.iterdir() if path.name != ".lock")


def completed(place):
    """What the next import does first; the commands that look at the record do not change anything."""
    try:
        with NewPartitions(RealFilesystem(), f"{place}/ld") as new:
            return new.complete(), ""
    except (KafkalogError, OSError) as error:
        return None, str(error)


ELSEWHERE = {
    "places a directory elsewhere": {"coming": [{"staged": "STAGED", "path": "../victim/new"}]},
    "takes a directory from elsewhere": {"coming": [{"staged": "../victim/sub", "path": "new-0"}]},
    "takes another partition": {"coming": [{"staged": PARTITION, "path": "new-0"}]},
    "places the metadata log": {"coming": [{"staged": "STAGED", "path": "__cluster_metadata-0"}]},
    "places what is no partition": {"coming": [{"staged": "STAGED", "path": "lost+found"}]},
    "places what is another partition": {"coming": [{"staged": "STAGED", "path": "other-0"}]},
    "is of another run": {"run": "20260101T000000.000Z-import-ffff"},
    "moves another partition aside": {"state": {"inodes": {"new-0": "INODE"}, "aside": {PARTITION: "OTHER"}}},
    "has no inodes": {"state": {"aside": {}}},
    "has an inode of another": {"state": {"inodes": {"new-0": "OTHER"}, "aside": {}}},
}


@pytest.mark.parametrize("what", ELSEWHERE)
def test_a_planted_import_record_moves_no_directory(place, what, evidence):
    part = built(place)
    other = os.stat(f"{place}/ld/{PARTITION}").st_ino  # noqa: PTH116
    text = json.dumps({**record(place, part), **ELSEWHERE[what]})
    text = text.replace('"INODE"', str(part.inode)).replace('"OTHER"', str(other)).replace("STAGED", part.staged)
    (place / "ld" / RECORD).write_text(text)
    before, names = facts(place / "victim"), names_in(place / "ld")
    found, error = completed(place)
    assert found is None, found
    assert part.staged in error or RECORD in error
    assert facts(place / "victim") == before
    assert names_in(place / "ld") == names
    evidence("R31", 1, len(ELSEWHERE) + 1 + len(SWAPS))


def test_no_field_of_a_record_of_another_type_is_followed(place, evidence):
    """Every field by every absurd value; `verify`, `ls` and `purge` tell of it, and leave all alone."""
    part = built(place)
    sound, tried = record(place, part), 0
    combinations = [(path, value) for path in paths(sound) for value in ABSURD]
    before = facts(place / "victim")
    for at, (path, value) in enumerate(combinations[:: 1 if DIAL.scale > 1 else 7]):
        if not path and ABSURD[value] is ABSENT:
            continue
        (place / "ld" / RECORD).write_text(json.dumps(put(sound, path, ABSURD[value])))
        for words in (("verify", "LOGS", "--level", "quick"), ("ls", "LOGS"), ("purge", "LOGS", "--older-than", "0s")):
            if at % 8 == 0:
                _, _, err = printed(RealFilesystem(), place, words)
                assert "\x1b" not in err
        found, error = completed(place)
        assert facts(place / "victim") == before
        if found is not None and found.placed:  # a value that changes nothing
            shutil.rmtree(place / "ld/new-0")
            part = built(place)
            sound = record(place, part)
        else:
            assert RECORD in error or part.staged in error or path[:1] == ("coming",), (path, value, error)
            assert (place / "ld" / part.staged).is_dir(), (path, value)
        assert copy.copy(sound["run"]) == RUN
        tried += 1
    evidence("R31", tried, len(ELSEWHERE) + 1 + len(SWAPS))


def swapped(make):
    def swap(place, name):
        path = place / "ld" / name
        if path.is_dir() and not path.is_symlink():
            path.rename(place / f"aside-{len(names_in(place))}")
            make(place, path)

    return swap


SWAPS = {
    "a link": swapped(lambda place, path: path.symlink_to(place / "victim")),
    "a link of another user": swapped(lambda place, path: link_of_another_user(path, place / "victim")),
    "a link to what was built": swapped(lambda place, path: path.symlink_to(next(place.glob("aside-*")))),
    "a link to nothing": swapped(lambda place, path: path.symlink_to(place / "victim/new")),
    "nothing": swapped(lambda place, path: None),
    "an empty directory": swapped(lambda place, path: path.mkdir()),
    "a file": swapped(lambda place, path: path.write_bytes(b"")),
}


@pytest.mark.parametrize("swap", SWAPS)
def test_a_staged_directory_swapped_during_the_commit_is_never_published(place, swap, evidence):
    """Before each call of the commit the staged directory is swapped: what gets the place is what was built, or nothing."""
    (place / "saved").mkdir()
    shutil.copytree(place / "ld", place / "saved/ld")
    before, n, tried = facts(place / "victim"), 0, 0
    while True:
        shutil.rmtree(place / "ld")
        for aside in place.glob("aside-*"):
            shutil.rmtree(aside)
        shutil.copytree(place / "saved/ld", place / "ld")
        part = built(place)
        fs = Swapping(n, lambda part=part: SWAPS[swap](place, part.staged))
        placed = ()
        try:
            with NewPartitions(fs, f"{place}/ld") as new:
                placed = new.publish(RUN, [part], {}).placed
        except (KafkalogError, OSError):
            pass
        assert facts(place / "victim") == before, n
        there = place / "ld/new-0"
        if placed:
            assert there.lstat().st_ino == part.inode, n
            assert not there.is_symlink()
            assert (there / "00000000000000000000.log").is_file(), n
        else:
            assert not there.is_symlink(), n
        tried += 1
        if fs.calls <= n:
            break
        n += 1 if DIAL.scale > 1 else 5
    evidence("R31", tried, len(ELSEWHERE) + 1 + len(SWAPS))


# -- where new partitions are made


def log_dir_is_a_link(place):
    (place / "ld").rename(place / "moved")
    link_of_another_user(place / "ld", place / "victim")


def new_is_a_link(to):
    return lambda place: (place / "ld/new-0").symlink_to(place / to)


def below_a_link(place):
    (place / "victim/sub/ld").mkdir()
    (place / "ld").rename(place / "moved")
    link_of_another_user(place / "ld", place / "victim/sub/ld")


NEW = {
    "the log directory is another user's link": log_dir_is_a_link,
    "the log directory is another user's link to an empty one": below_a_link,
    "the new partition is a link": new_is_a_link("victim"),
    "the new partition is a link to an empty directory": lambda place: (
        (place / "victim/sub/none").mkdir(),
        new_is_a_link("victim/sub/none")(place),
    ),
    "the new partition is a link to nothing": new_is_a_link("victim/new"),
}


@pytest.mark.parametrize("what", NEW)
def test_a_new_partition_is_not_made_through_a_link(place, what, evidence):
    NEW[what](place)
    before = facts(place / "victim")
    code, err = kafkalog(
        RealFilesystem(), place, ("append", f"{place}/ld/new-0", "--single-replica", "--topic-id", TOPIC_ID)
    )
    assert code not in (0, 3), err
    assert facts(place / "victim") == before
    with pytest.raises(KafkalogError):
        _made(place)
    assert facts(place / "victim") == before
    with pytest.raises((KafkalogError, OSError)):
        _imported(place)
    assert facts(place / "victim") == before
    evidence("R32", 3, len(NEW) + 3)


def _imported(place):
    with NewPartitions(RealFilesystem(), f"{place}/ld") as new:
        new.publish(RUN, [built(place)], {})


def _made(place):
    kl.new_partition(f"{place}/ld/new-0", TOPIC_ID)


class Lockless(Swapping):
    """A file system without locks, as some network file systems are."""

    def lock(self, path, *, first_byte, exclusive):
        del path, first_byte, exclusive
        raise OSError(37, "no locks")


@pytest.mark.parametrize("name", ["ld", f"ld/{PARTITION}"])
def test_with_assume_offline_a_swapped_directory_at_any_call_leads_nowhere(place, name, evidence):
    """`--assume-offline`: a swap at any call leads nowhere, as with locks."""
    from tests.support.product import lock_log_dir, lock_partition

    before = facts(place / "victim")
    policy = LockPolicy(assume_offline=True, sleep=lambda _: None)
    fs = Lockless(-1, None)
    with lock_log_dir(fs, f"{place}/ld", policy), lock_partition(fs, f"{place}/ld/{PARTITION}", policy):
        (place / name).rename(place / "aside")
        link_of_another_user(place / name, place / "victim")
        with fs.create(f"{place}/ld/{PARTITION}/mine") as file:
            file.write(0, b"mine")
        fs.rename(f"{place}/ld/{PARTITION}/mine", f"{place}/ld/{PARTITION}/yours")
    assert facts(place / "victim") == before
    inside = place / "aside" / ("yours" if "/" in name else f"{PARTITION}/yours")
    assert inside.read_bytes() == b"mine"
    evidence("R32", 1, len(NEW) + 3)


@pytest.fixture
def deep(place):
    """What an import left, with many directories in each other: more than Python can recurse into."""
    left = place / "ld" / staged_name("deep", 0, RUN, "0")
    left.mkdir()
    (left / "file").write_bytes(b"x")
    here = os.open(left, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    yield left
    subprocess.run(["rm", "-rf", left, place / "out"], check=True)  # pytest could not


def test_deep_directories_are_refused_by_name(place, deep, evidence):
    """There is no recursion, and nothing is half removed."""
    _, _, err = printed(RealFilesystem(), place, ("purge", "LOGS", "--older-than", "0s"))
    assert f"{deep}: refused: its directories are nested more than 16 deep" in err
    with NewPartitions(RealFilesystem(), f"{place}/ld") as new:
        new.sweep()
    assert (deep / "file").exists()
    for words in (("verify", "LOGS"), ("ls", "LOGS")):
        code, _, err = printed(RealFilesystem(), place, words)
        assert code in (0, 3, 4), err
    with pytest.raises(BadInput, match="more than 16 deep"):
        input_files(RealFilesystem(), [str(deep)])
    assert OutputDirectory(RealFilesystem(), f"{place}/out" + "/d" * 1200, None).__enter__().is_empty
    evidence("R32", 6, len(NEW) + 3)


def test_a_link_that_leads_back_is_no_endless_input(place):
    (place / "in").mkdir()
    (place / "in/again").symlink_to(".")
    with pytest.raises(BadInput, match="leads back"):
        input_files(RealFilesystem(), [f"{place}/in"])
