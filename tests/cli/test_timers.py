"""What timers print beside a running broker: nothing where all is well, and one line with exit code 11 otherwise."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support.commands import a_broker_on, everything, kafkalog

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "example"
SETTINGS = ("--config", "cleanup.policy=compact,delete", "--config", "retention.ms=1", "--config", "retention.bytes=-1")
WRITERS = {
    "retain": ("retain", "LOGS", *SETTINGS),
    "free": ("retain", "LOGS", "--free-bytes", "900000TiB", *SETTINGS),
    "compact": ("compact", "LOGS", "--force", *SETTINGS),
    "roll": ("roll", "LOGS", "--force"),
    "purge": ("purge", "LOGS", "--older-than", "0s"),
    "recover": ("recover", "LOGS"),
}
LOCK_FIRST = [name for name in WRITERS if name != "free"]
"""`--free-bytes` plans all partitions before it locks, and its plans have warnings."""


@pytest.fixture
def logs(tmp_path):
    copy = shutil.copytree(EXAMPLE, tmp_path / "logs")
    (copy / ".lock").touch()
    return copy


def run(logs, name, *options):
    return kafkalog(*(str(logs) if word == "LOGS" else word for word in WRITERS[name]), *options)


@pytest.mark.parametrize("name", WRITERS)
def test_a_writer_with_if_offline_ends_with_0_and_silently_beside_a_broker(logs, name):
    with a_broker_on(logs):
        before = everything(logs)
        assert run(logs, name, "--if-offline") == (0, "", "")
        assert everything(logs) == before
        code, out, err = run(logs, name, "--if-offline", "--format", "json")
        assert (code, [json.loads(line)["type"] for line in out.splitlines()], err) == (0, ["summary"], "")


@pytest.mark.parametrize("name", LOCK_FIRST)
def test_a_quiet_writer_ends_with_11_and_one_line_beside_a_broker(logs, name):
    with a_broker_on(logs):
        code, out, err = run(logs, name, "--quiet")
    assert (code, out, len(err.splitlines())) == (11, "", 1)
    assert "a broker" in err


@pytest.mark.parametrize("name", LOCK_FIRST)
def test_without_a_broker_if_offline_changes_nothing_about_the_run(logs, tmp_path, name):
    other = shutil.copytree(logs, tmp_path / "other" / "logs")
    done, usual = run(logs, name, "--if-offline"), run(other, name)
    assert (done.code, done.err) == (usual.code, usual.err.replace(str(other), str(logs)))
    assert {path.relative_to(logs) for path in logs.rglob("*.log*")} == {
        path.relative_to(other) for path in other.rglob("*.log*")
    }


def test_if_offline_leaves_alone_only_the_log_directory_of_the_broker(logs, tmp_path):
    other = shutil.copytree(logs, tmp_path / "other")
    with a_broker_on(logs):
        before = everything(logs)
        code, out, err = kafkalog("roll", logs, other, "--force", "--if-offline")
        assert everything(logs) == before
    assert (code, err, str(logs) in out, str(other) in out) == (0, "", False, True)


def test_if_offline_still_reports_another_run_of_kafkalog(logs):
    """Its locks are those of partitions; a log directory admits several writers."""
    (logs / "mixed-0" / ".kafkalog").mkdir()
    (logs / "mixed-0" / ".kafkalog" / "lock").touch()
    (logs / "mixed-0" / ".kafkalog" / ".lock").symlink_to("lock")
    with a_broker_on(logs / "mixed-0" / ".kafkalog"):
        code, _, err = kafkalog("roll", logs / "mixed-0", "--force", "--if-offline")
    assert (code, "another run of kafkalog" in err) == (11, True)


@pytest.mark.parametrize("level", ["quick", "normal", "deep"])
def test_a_quiet_verify_of_sound_logs_is_silent_beside_a_broker(logs, level):
    with a_broker_on(logs):
        assert kafkalog("verify", logs, "--level", level, "--quiet") == (0, "", "")
        assert "a broker is running" in kafkalog("verify", logs, "--level", level)[2]
