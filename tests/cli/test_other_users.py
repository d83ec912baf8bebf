"""Commands in log directories and output directories of other users: what is permitted is done, the rest is refused first."""

import os
import shutil
import stat
import subprocess
import sys

import pytest

from tests.cli.trials import RECOVERED, TORN, WRITERS, Trial, tree
from tests.support.other_users import User, give, kafkalog_as, need_root, public_directory

OWNER_ID, GROUP = 21001, 22000
MEMBER = User(21002, GROUP)
OWNER_OUTSIDE = User(OWNER_ID, 23000)
STRANGER = User(21003, 23000)
WITHOUT_CHOWN = User(0, 0, (), "chown")


@pytest.fixture
def place(corpus):
    """A directory that all users reach, with a log directory `data` that belongs to a user and a group."""
    need_root()
    with public_directory() as path:
        trial = Trial(corpus, path, path)
        shutil.copytree(trial.data / RECOVERED / ".kafkalog" / trial.run_id, path / "run")
        shutil.rmtree(trial.data / RECOVERED / ".kafkalog")
        give(trial.data, OWNER_ID, GROUP, 0o2770, 0o660)
        yield path


def files_that_stop_a_broker(data):
    """What the owner of the log directory, who is in its group, could not open; a broker deletes `.kafkalog` with a topic."""
    found = []
    for path in [data, *data.rglob("*")]:
        status = path.stat()
        bits = status.st_mode >> (6 if status.st_uid == OWNER_ID else 3 if status.st_gid == GROUP else 0)
        if (7 if path.is_dir() else 6) & ~bits:
            found.append(path)
    return found


@pytest.mark.parametrize("user", [MEMBER, OWNER_OUTSIDE, User(0, 0), WITHOUT_CHOWN], ids=str)
def test_the_owner_of_a_log_directory_can_open_what_others_make_in_it(place, user):
    data = place / "data"
    for words in (
        ("recover", "PLACE/data"),
        ("truncate", f"PLACE/data/{RECOVERED}", "--to", "70", "--single-replica"),
        ("roll", "--force", f"PLACE/data/{RECOVERED}"),
        ("delete-records", f"PLACE/data/{RECOVERED}", "--before", "60", "--single-replica"),
    ):
        done = kafkalog_as(user, place, *words)
        assert done.code == 0, (words, done)
        assert files_that_stop_a_broker(data) == []
    runs = sorted(path.name for path in (data / RECOVERED / ".kafkalog").glob("2*"))
    for run in reversed(runs):
        done = kafkalog_as(user, place, "undo", f"PLACE/data/{RECOVERED}", run)
        assert done.code == 0, done
    assert files_that_stop_a_broker(data) == []


def test_a_run_that_would_lock_the_broker_out_is_refused_before_a_change(place):
    data = place / "data"
    give(data, OWNER_ID, GROUP, 0o755, 0o644)
    before = tree(data)
    for name, words in WRITERS.items():
        if not {"undo", "purge"} & {*words}:
            done = kafkalog_as(WITHOUT_CHOWN, place, *(word.replace("DATA", "PLACE/data") for word in words))
            assert done.code == 1, (name, done)
            assert f"user 0 may not give files to user {OWNER_ID}" in done.err, (name, done)
            assert "next: run it as the user that the broker runs as\n" in done.err, (name, done)
            assert tree(data) == before, name


def test_a_lock_file_of_a_run_that_failed_is_not_left(place):
    data = place / "data"
    for path in data.glob("*-0"):
        path.chmod(0o2750)
    before = names(data)
    done = kafkalog_as(MEMBER, place, "recover", "PLACE/data")
    assert done.code in (1, 5), done
    assert names(data) == before
    done = kafkalog_as(User(0, 0), place, "truncate", f"PLACE/data/{RECOVERED}", "--to", "70")
    assert done.code == 14, done
    assert names(data) == before


def names(data):
    return sorted(path.relative_to(data) for path in data.rglob("*"))


def test_a_refusal_does_not_advise_the_user_of_the_log_directory_to_become_that_user(place):
    data = place / "data"
    index = data / TORN / f"{0:020d}.log"
    os.chown(index, 0, 0)
    index.chmod(0o600)
    done = kafkalog_as(User(OWNER_ID, GROUP), place, "recover", f"PLACE/data/{TORN}")
    assert done.code, done
    assert "run it as the user that the broker runs as" not in done.err
    assert f"`sudo chown --reference={data}/{TORN} {index}`" in done.err, done


OUTPUTS = {
    "salvage": ("recover", f"PLACE/data/{TORN}", "--salvage", "PLACE/lake/new/out"),
    "metadump": ("metadump", "PLACE/data", "PLACE/lake/out"),
    "demo": ("demo", "PLACE/lake/out"),
    "inspect": ("inspect", f"PLACE/data/{TORN}", "--html", "PLACE/lake/out.html"),
    "verify": ("verify", "PLACE/data", "--report", "junit=PLACE/lake/out.xml"),
}


def test_the_printed_commands_put_a_salvaged_copy_in_place_for_the_owner(place):
    log = next((place / "data" / TORN).glob("*.log"))
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0xFF
    log.write_bytes(data)
    done = kafkalog_as(User(0, 0), place, "recover", f"PLACE/data/{TORN}", "--salvage", "PLACE/out")
    commands = [line.strip() for line in done.out.splitlines() if line.startswith("    ")]
    assert any(command.startswith("sudo chown -R --reference ") for command in commands), done
    for command in commands:
        command = command.removeprefix("sudo ").replace("kafkalog", f"{sys.executable} -m kafkalog_cli")
        subprocess.run(command, shell=True, check=False, cwd=place)
    found = {(path.stat().st_uid, path.stat().st_gid) for path in (place / "data" / TORN).rglob("*")}
    assert found == {(OWNER_ID, GROUP)}


READER = User(21004, 24000, (GROUP,))


@pytest.mark.exhaustive
@pytest.mark.parametrize("umask", [0o022, 0o002, 0o077])
@pytest.mark.parametrize("name", OUTPUTS)
def test_output_in_the_directory_of_another_user_takes_the_umask(place, name, umask):
    lake = place / "lake"
    (lake / "new").mkdir(parents=True)
    give(lake, 0, READER.group_id, 0o2775, 0o664)
    old = os.umask(umask)
    try:
        done = kafkalog_as(READER, place, *OUTPUTS[name])
    finally:
        os.umask(old)
    assert done.code in (0, 3, 4), done
    made = [path for path in lake.rglob("*") if path.name != "new"]
    assert made, done
    for path in made:
        status = path.stat()
        assert status.st_uid == READER.user_id, path
        assert stat.S_IMODE(status.st_mode) & 0o777 == (0o777 if path.is_dir() else 0o666) & ~umask, path
