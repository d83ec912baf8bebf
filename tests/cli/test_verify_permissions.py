"""`verify` and `doctor` name the files that the user of a log directory may not open, whoever asks."""

import json
import os
import shutil
import subprocess

import pytest

from tests.cli.trials import RECOVERED, TORN, Trial
from tests.support.other_users import User, give, kafkalog_as, need_root, public_directory

OWNER_ID, GROUP = 21001, 22000
STEM = f"{57:020d}"
WATCHERS = [User(0, 0), User(OWNER_ID, GROUP), User(21005, GROUP)]
CASES = {
    "meta.properties of root": ("meta.properties", 0, 0o600, "does-not-start"),
    "bootstrap.checkpoint of root": ("bootstrap.checkpoint", 0, 0o600, "does-not-start"),
    ".lock of root": (".lock", 0, 0o600, "takes-offline"),
    "checkpoint of root": ("recovery-point-offset-checkpoint", 0, 0o640, "takes-offline"),
    "clean-shutdown file of root": (".kafka_cleanshutdown", 0, 0o600, None),
    "log of root": (f"{RECOVERED}/{STEM}.log", 0, 0o600, "takes-offline"),
    "log that may only be read": (f"{RECOVERED}/{STEM}.log", OWNER_ID, 0o444, "takes-offline"),
    "index that may only be read": (f"{RECOVERED}/{STEM}.timeindex", OWNER_ID, 0o444, "takes-offline"),
    "log of root that others may read": (f"{RECOVERED}/{STEM}.log", 0, 0o644, "takes-offline"),
    "unknown file": (f"{RECOVERED}/notes.txt", 0, 0o600, "takes-offline"),
    "topic id": (f"{RECOVERED}/partition.metadata", 21009, 0o600, "takes-offline"),
    "deleted segment": (f"{RECOVERED}/{STEM}.log.deleted", 0, 0o600, "takes-offline"),
    "partition of root": (RECOVERED, 0, 0o755, "takes-offline"),
    "directory of runs": (f"{RECOVERED}/.kafkalog", 0, 0o700, None),
}
HARMLESS = {
    "topic id of root that all may read": (f"{RECOVERED}/partition.metadata", 0, 0o644),
    "file of root at the root": ("notes.txt", 0, 0o600),
    "file of the group": (f"{RECOVERED}/{STEM}.log", 0, 0o660),
}


@pytest.fixture
def place(corpus):
    need_root()
    with public_directory() as path:
        trial = Trial(corpus, path, path)
        shutil.rmtree(trial.data / TORN)
        (trial.data / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=a2Fma2Fsb2ctdGVzdHMtMQ\n")
        give(trial.data, OWNER_ID, GROUP, 0o755, 0o644)
        yield path


def change(data, name, owner_id, mode):
    path = data / name
    if not path.exists():
        path.write_bytes(b"")
    os.chown(path, owner_id, GROUP if mode == 0o660 else owner_id)
    path.chmod(mode)
    return path


def objects(done):
    assert "Traceback" not in done.err, done
    return [json.loads(line) for line in done.out.splitlines()]


def not_permitted(done):
    return [
        one
        for one in objects(done)
        if one["type"] == "finding" and one["kind"] in ("not-permitted", "mounted-read-only")
    ]


@pytest.mark.parametrize("case", CASES)
def test_a_file_that_the_brokers_user_may_not_open_is_found_by_every_user(place, case):
    name, owner_id, mode, action = CASES[case]
    path = change(place / "data", name, owner_id, mode)
    for watcher in WATCHERS:
        done = kafkalog_as(watcher, place, "verify", "PLACE/data", "--format", "json")
        assert done.code in (3, 4, 5), (watcher, done)
        (found,) = not_permitted(done)
        assert found["path"] == str(path), (watcher, found)
        assert f"user {OWNER_ID}" in found["message"]
    done = kafkalog_as(WATCHERS[0], place, "doctor", "PLACE/data", "--format", "json")
    steps = [one for one in objects(done) if one.get("path") == str(path) and "action" in one]
    assert (action in [one["action"] for one in steps]) is (action is not None), steps
    for command in found["next_step"].split("`")[1::2]:
        subprocess.run(command.removeprefix("sudo "), shell=True, check=True)
    done = kafkalog_as(WATCHERS[0], place, "verify", "PLACE/data", "--format", "json")
    assert not_permitted(done) == [], "the printed commands permit it"


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", HARMLESS)
def test_a_file_that_a_broker_can_use_is_no_finding(place, case):
    change(place / "data", *HARMLESS[case])
    assert not_permitted(kafkalog_as(User(0, 0), place, "verify", "PLACE/data", "--format", "json")) == []


def test_a_directory_of_root_is_judged_by_the_owner_of_its_files(place):
    """As the volume of a container: it belongs to root and the group of the pod."""
    os.chown(place / "data", 0, GROUP)
    (place / "data").chmod(0o2775)
    verify = ("verify", "PLACE/data", "--format", "json")
    assert not_permitted(kafkalog_as(User(0, 0), place, *verify)) == []
    path = change(place / "data", f"{RECOVERED}/{STEM}.log", 0, 0o644)
    assert [one["path"] for one in not_permitted(kafkalog_as(User(0, 0), place, *verify))] == [str(path)]


def test_a_log_directory_of_root_alone_has_no_such_finding(place):
    give(place / "data", 0, 0, 0o755, 0o444)
    assert not_permitted(kafkalog_as(User(0, 0), place, "verify", "PLACE/data", "--format", "json")) == []


def test_a_read_only_mount_is_named(place):
    if subprocess.run(["mount", "--bind", place / "data", place / "data"], check=False).returncode:
        pytest.skip("NOT TRIED: nothing can be mounted here")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", place / "data"], check=True)
        done = kafkalog_as(User(0, 0), place, "verify", "PLACE/data", "--format", "json")
        assert [one["kind"] for one in not_permitted(done)] == ["mounted-read-only"]
        done = kafkalog_as(User(0, 0), place, "doctor", "PLACE/data", "--format", "json")
        assert ("does-not-start", str(place / "data")) in [
            (one.get("action"), one.get("path")) for one in objects(done)
        ]
    finally:
        subprocess.run(["umount", place / "data"], check=True)


@pytest.mark.parametrize(
    "words", [("read", f"PLACE/data/{RECOVERED}", "--format", "json"), ("ls", "PLACE/data"), ("verify", "PLACE/data")]
)
def test_a_log_can_be_read_by_users_who_may_not_list_its_runs(place, words):
    expected = kafkalog_as(User(0, 0), place, *words)
    (place / "data" / RECOVERED / ".kafkalog").chmod(0o700)
    done = kafkalog_as(User(21005, GROUP), place, *words)
    assert done.code in (expected.code, 5 if words[0] == "verify" else 3), done
    assert words[0] != "read" or done == expected
