"""A link leads commands on only if it belongs to root, to this user or to the owner of its target.

The other tests of foreign links need root, who can give a link away. Here the disk says that another user owns the links.
"""

import os
import shutil

import pytest

from tests.support.commands import kafkalog
from tests.support.product import RealFilesystem, replace_point

OTHER_USER = 12345
PARTITION = "crash-torn-0"
LOG = "00000000000000000000.log"
REASON = f"made by another user ({OTHER_USER})"
WRITERS = {"recover": (), "roll": ("--force",), "truncate": ("--to", "50", "--single-replica")}


class LinksOfAnotherUser(RealFilesystem):
    """Every link belongs to OTHER_USER, and nothing else does."""

    def attributes(self, path):
        found = super().attributes(path)
        return found._replace(owner_id=OTHER_USER) if os.path.islink(path) else found  # noqa: PTH114


@pytest.fixture
def place(corpus, tmp_path):
    """A log directory `ld`, and in `elsewhere` its partition, to which nothing leads yet."""
    shutil.copytree(corpus / "crash-torn/before", tmp_path / "ld")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "ld" / PARTITION).rename(tmp_path / "elsewhere" / PARTITION)
    for path in tmp_path.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return tmp_path


def tree(place):
    return {path: path.read_bytes() if path.is_file() else None for path in sorted(place.rglob("*"))}


def link_partition(place):
    link = place / "ld" / PARTITION
    link.symlink_to(place / "elsewhere" / PARTITION)
    return link


def link_segment(place):
    partition = place / "ld" / PARTITION
    shutil.copytree(place / "elsewhere" / PARTITION, partition)
    (partition / LOG).unlink()
    (partition / LOG).symlink_to(place / "elsewhere" / PARTITION / LOG)
    return partition


@pytest.mark.parametrize("link", [link_partition, link_segment])
def test_readers_follow_no_link_of_another_user(place, link, monkeypatch):
    partition = link(place)
    whole = kafkalog("read", partition, errors="replace")
    assert len(whole.out.splitlines()) > 100, "a link of this user is followed"
    replace_point(
        monkeypatch, "text and owner of a link", lambda real: lambda name, at: (real(name, at)[0], OTHER_USER)
    )
    for command in ("read", "verify"):
        done = kafkalog(command, partition, errors="replace")
        assert REASON in done.out + done.err, (command, done)
        assert not set(done.out.splitlines()) & set(whole.out.splitlines()[:20])


@pytest.mark.parametrize("command", WRITERS)
def test_writers_change_nothing_behind_a_link_of_another_user(place, command):
    if command != "recover":  # they refuse a torn log before they lock it
        assert kafkalog("recover", place / "elsewhere" / PARTITION).code == 0
    partition = link_partition(place)
    before = tree(place / "elsewhere")
    done = kafkalog(command, partition, *WRITERS[command], fs=LinksOfAnotherUser())
    assert (done.code, REASON in done.err) == (14, True), done
    assert tree(place / "elsewhere") == before
    assert REASON not in kafkalog(command, partition, *WRITERS[command]).err, "a link of this user is followed"


def test_purge_leaves_a_run_directory_of_another_user_alone(place):
    """A run that was cut off before its manifest is known by its name and its owner."""
    partition = place / "ld" / PARTITION
    shutil.copytree(place / "elsewhere" / PARTITION, partition)
    run = partition / ".kafkalog" / "20260101T000000.000Z-recover-abcd"
    run.mkdir(parents=True)

    class RunOfAnotherUser(RealFilesystem):
        def attributes(self, path):
            found = super().attributes(path)
            return found._replace(owner_id=OTHER_USER) if path == str(run) else found

    kafkalog("purge", partition, "--older-than", "0s", fs=RunOfAnotherUser())
    assert run.is_dir()
    kafkalog("purge", partition, "--older-than", "0s")
    assert not run.exists()
