"""Clocks of the years 2300 and 9999, and times before now (another unit than milliseconds: times.md)."""

import re
import shutil
from pathlib import Path

import pytest

from tests.support import commands
from tests.support.commands import tree

EXAMPLE = Path(__file__).parents[2] / "docs" / "example" / "mixed-0"


def kafkalog(*argv):
    return commands.kafkalog(*argv, errors="replace")


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
