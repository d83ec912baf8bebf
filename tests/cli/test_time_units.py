"""A time in seconds, µs or ns, where milliseconds are meant, is noticed; as the current time it is refused."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.support import commands
from tests.support.commands import tree

EXAMPLE = Path(__file__).parents[2] / "docs" / "example" / "mixed-0"
SECONDS = 1_763_600_000
READINGS = {SECONDS: "in seconds", SECONDS * 10**6: "in microseconds", SECONDS * 10**9: "in nanoseconds"}
ASKS = [
    ("read", "--from-time"),
    ("read", "--until"),
    ("dump-log", "--since"),
    ("dump-log", "--until"),
    ("lookup-time", None),
]
NOWS = ["dump-log", "ls", "read", "verify", "retain", "compact", "roll", "recover", "lookup-time"]


def kafkalog(*argv):
    return commands.kafkalog(*argv, errors="replace")


@pytest.mark.parametrize("time", READINGS)
@pytest.mark.parametrize(("command", "option"), ASKS)
def test_another_unit_is_noticed(command, option, time):
    _, _, err = kafkalog(command, EXAMPLE, *([option] if option else []), time)
    assert READINGS[time] in err
    command_line = next(part for part in err.split("`") if part.startswith("kafkalog "))
    assert shlex.split(command_line)[1:] == [command, str(EXAMPLE), *([option] if option else []), str(SECONDS * 1000)]
    assert kafkalog(*shlex.split(command_line)[1:])[0] == int(command == "lookup-time" or option == "--from-time")
    _, _, err = kafkalog(command, EXAMPLE, *([option] if option else []), time, "--format", "json")
    assert json.loads(err.splitlines()[0])["kind"] == "time-unit"
    for fine in (SECONDS * 1000, 0, 5, "2025-11-20T00:00:00Z", "1970-01-21T09:53:20Z"):
        assert "seems to be" not in kafkalog(command, EXAMPLE, *([option] if option else []), fine)[2]


@pytest.mark.parametrize("name", ["retention.ms", "segment.ms", "delete.retention.ms"])
@pytest.mark.parametrize(("value", "days"), [(86_400, "1 day"), (604_800, "7 days"), (2_592_000, "30 days")])
def test_a_setting_in_seconds_is_noticed(tmp_path, name, value, days):
    shutil.copytree(EXAMPLE, tmp_path / "mixed-0")
    argv = ("retain", tmp_path / "mixed-0", "--dry-run", "--config", "cleanup.policy=delete", "--config")
    _, _, err = kafkalog(*argv, f"{name}={value}")
    assert f"{value} seconds are exactly {days}: if they are meant, write --config {name}={value}000" in err
    _, _, err = kafkalog(*argv, f"{name}={value}", "--format", "json")
    assert [json.loads(line)["kind"] for line in err.splitlines()].count("time-unit") == 1
    for fine in (f"{name}={value}000", f"{name}=1000", f"{name}=60000", f"{name}=43200000", "retention.bytes=604800"):
        assert "seconds are" not in kafkalog(*argv, fine)[2]


@pytest.mark.parametrize("time", READINGS)
@pytest.mark.parametrize("command", NOWS)
def test_no_clock_has_another_unit(tmp_path, command, time):
    shutil.copytree(EXAMPLE, tmp_path / "mixed-0")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    more = {"lookup-time": ["--earliest"], "dump-log": ["--since", "-1h"], "read": ["--until", "-1h"]}.get(command, [])
    more += ["--config", "retention.ms=1"] if command == "retain" else []
    code, out, err = kafkalog(command, tmp_path / "mixed-0", *more, "--now", time)
    if "there is no option" in err:
        pytest.skip("the command has no clock")
    assert (code, out) == (2, ""), err
    assert READINGS[time] in err
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("now", ["-1", "9223372036854775808", "9999999999999999999", "-999999999999d", "1969-12-31"])
def test_no_clock_is_before_1970_or_has_more_than_64_bits(tmp_path, now):
    shutil.copytree(EXAMPLE, tmp_path / "mixed-0")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    lines = (tmp_path / "mixed-0", EXAMPLE / "leader-epoch-checkpoint", "--input", "lines", "--single-replica")
    code, out, err = kafkalog("append", *lines, f"--now={now}")
    assert (code, out) == (2, ""), err
    assert f"--now {now} is not the time of a clock: it is before 1970, or has more than 64 bits" in err
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("now", [253_402_300_799_999, 253_402_300_800_000, 2**63 - 1])
def test_a_run_after_the_year_9999_has_a_name(tmp_path, now):
    shutil.copytree(EXAMPLE, tmp_path / "mixed-0")
    code, out, err = commands.kafkalog("roll", tmp_path / "mixed-0", "--force", now_ms=lambda: now)
    assert code == 0, err
    assert " 99991231T235959.999Z-roll-" in out


def test_a_run_on_files_of_the_year_2300_is_undone(tmp_path):
    """The nanoseconds of such a time have more than 64 bits."""
    lines, partition = tmp_path / "lines", tmp_path / "demo/orders-0"
    lines.write_text("a\n")
    assert kafkalog("demo", tmp_path / "demo")[0] == 0
    first = ("append", partition, lines, "--input", "lines", "--single-replica", "--now", "2300-01-01T00:00:00Z")
    assert kafkalog(*first)[0] == 0
    before = tree(partition)
    now = ("--now", "2300-01-02T00:00:00Z")
    code, out, err = kafkalog("append", partition, lines, "--input", "lines", "--single-replica", *now)
    assert code == 0, err
    code, _, err = kafkalog("undo", partition, re.findall(r"\S+-append-\w+", out)[0], *now)
    assert code == 0, err
    assert tree(partition) == before


@pytest.mark.parametrize("hours", [1, 48])
def test_hours_before_now_are_a_time_and_not_the_option_for_help(hours):
    """-2h is not -2 and -h."""
    now = 1_700_006_400_000
    wanted = kafkalog("lookup-time", EXAMPLE, now - hours * 3_600_000)
    assert kafkalog("lookup-time", EXAMPLE, f"-{hours}h", "--now", now) == wanted
    assert "Usage:" not in wanted[1]
    after = kafkalog("lookup-time", EXAMPLE, 0, "--now", "-3h")
    assert after == kafkalog("lookup-time", EXAMPLE, 0)
    assert "Usage:" in kafkalog("lookup-time", "-h")[1]
