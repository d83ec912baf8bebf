"""kafkalog as a user who may not give files away, and the broker's user afterwards: it starts, and deletes the topic."""

import json
import os
import re
import shutil
import subprocess
import time

import pytest

from tests.kafka.broker import Client, broker
from tests.support.other_users import User, give, kafkalog_as, need_root, public_directory

BROKER, GROUP = 21001, 22000
MAY_ONLY_READ = 0o640
MEMBER = User(21002, GROUP)
OWNER_OUTSIDE = User(BROKER, 23000)
OWNER = User(BROKER, GROUP)
ROOT = User(0, 0)
CASES = {
    "a member of the group": (MEMBER, 0o2770, 0o660),
    "a member of the group, where the group may only read the files": (MEMBER, 0o2770, MAY_ONLY_READ),
    "the owner outside the group": (OWNER_OUTSIDE, 0o2770, 0o660),
    "the owner outside the group, without the setgid bit": (OWNER_OUTSIDE, 0o770, 0o660),
    "the owner": (OWNER, 0o755, 0o644),
    "root": (ROOT, 0o755, 0o644),
    "root that may not chown": (User(0, 0, (), "chown"), 0o2770, 0o660),
}
SECONDS = 60


@pytest.fixture(scope="module")
def public(real_kafka):
    """A directory that every user can reach, with the jars of Kafka; and their class path."""
    need_root()
    with public_directory() as path:
        jars = []
        for number, jar in enumerate(real_kafka.broker_class_path.split(":")):
            (path / "jars" / str(number)).mkdir(parents=True)
            jars.append(shutil.copy(jar, path / "jars" / str(number)))
        yield path, ":".join(jars)


@pytest.fixture(scope="module")
def stopped(public):
    """The folder of a broker that was stopped cleanly: topics a and b with records."""
    folder, class_path = public[0] / "stopped", public[1]
    folder.mkdir()
    with broker(folder, class_path) as one:
        one.start()
        with Client(one.address, class_path) as client:
            for topic in ("a", "b"):
                client.do("create", topic)
                client.do("produce", topic, count=50, per=5, seed=1)
        one.stop()
    return folder


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", CASES)
def test_the_broker_starts_and_deletes_a_topic_after_a_writer_ran_as_another_user(public, stopped, tmp_path, case):
    user, directory_mode, file_mode = CASES[case]
    class_path, name = public[1], case.replace(" ", "-").replace(",", "")
    folder = public[0] / name
    shutil.copytree(stopped, folder)
    data = folder / "data"
    (data / ".lock").unlink(missing_ok=True)
    (data / ".kafka_cleanshutdown").unlink()
    (data / "a-0" / f"{0:020d}.index").unlink()
    give(data, BROKER, GROUP, directory_mode, file_mode)
    commands = [("recover", "PLACE")]
    if file_mode != MAY_ONLY_READ:
        commands += [
            ("truncate", "PLACE/b-0", "--to", "30", "--single-replica"),
            ("undo", "PLACE/b-0", "RUN"),
            ("roll", "--force", "PLACE/a-0"),
            ("roll", "--force", "PLACE/b-0"),
        ]
    run = ""
    for words in commands:
        done = kafkalog_as(user, data, *(run if word == "RUN" else word for word in words))
        assert done.code == 0, (words, done)
        run = next(iter(re.findall(r"\S+Z-truncate-\w+", done.out)), run)
    run_as = ("setpriv", f"--reuid={BROKER}", f"--regid={GROUP}", "--clear-groups")
    if user.user_id == BROKER:
        run_as = ("setpriv", f"--reuid={user.user_id}", f"--regid={user.group_id}", "--clear-groups")
    with broker(folder, class_path, {"log.segment.delete.delay.ms": "500"}, run_as=run_as) as one:
        one.start()
        with Client(one.address, class_path) as client:
            client.do("produce", "b", count=5, per=5, seed=2)
            client.do("delete", "a")
        deadline = time.monotonic() + SECONDS
        while [path for path in data.iterdir() if path.name.startswith("a-0")] and time.monotonic() < deadline:
            time.sleep(0.2)
        one.stop()
        assert not [path.name for path in data.iterdir() if path.name.startswith("a-0")]
        assert "AccessDenied" not in one.log()
        assert "ermission denied" not in one.log()
    shutil.rmtree(folder)


STEM = f"{0:020d}"
LOCKS_OUT = {
    "meta.properties of root": ("meta.properties", 0, 0o600),
    "bootstrap.checkpoint of root": ("bootstrap.checkpoint", 0, 0o600),
    ".lock of root": (".lock", 0, 0o600),
    "checkpoint of root": ("recovery-point-offset-checkpoint", 0, 0o640),
    "log that may only be read": (f"a-0/{STEM}.log", BROKER, 0o444),
    "unknown file of root": ("a-0/notes.txt", 0, 0o600),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", LOCKS_OUT)
def test_a_broker_ends_at_what_verify_says_and_starts_after_the_printed_commands(public, stopped, case):
    name, owner_id, mode = LOCKS_OUT[case]
    folder = public[0] / "locked-out"
    shutil.copytree(stopped, folder)
    data = folder / "data"
    give(data, BROKER, GROUP, 0o755, 0o644)
    path = data / name
    path.touch()
    os.chown(path, owner_id, owner_id)
    path.chmod(mode)
    run_as = ("setpriv", f"--reuid={BROKER}", f"--regid={GROUP}", "--clear-groups")
    with broker(folder, public[1], run_as=run_as) as one:
        with pytest.raises(RuntimeError, match="does not start"):
            one.start()
        done = kafkalog_as(ROOT, data, "doctor", "PLACE", "--format", "json")
        objects = [json.loads(line) for line in done.out.splitlines()]
        ends = [found for found in objects if found.get("action") in ("does-not-start", "takes-offline")]
        assert [found["path"] for found in ends] == [str(path)], ends
        (found,) = (found for found in objects if found.get("kind") == "not-permitted")
        for command in found["next_step"].split("`")[1::2]:
            subprocess.run(command.removeprefix("sudo "), shell=True, check=True)
        one.start()
        one.stop()
    shutil.rmtree(folder)
