"""truncate, delete-records and append warn before they change anything."""

import io
import shutil
from pathlib import Path

import pytest

from tests.support.product import Environment, replace_point, run

EXAMPLE = Path(__file__).parents[2] / "docs" / "example"
COMMANDS = {"truncate": ("--to", "60"), "delete-records": ("--before", "60"), "append": ("--input", "lines")}


@pytest.mark.parametrize("command", COMMANDS)
def test_warnings_come_before_the_change(tmp_path, monkeypatch, command):
    shutil.copytree(EXAMPLE, tmp_path / "data")
    err, seen = io.BytesIO(), []
    noted = lambda locked: lambda work: (seen.append(err.getvalue().decode()), locked(work))[1]  # noqa: E731
    replace_point(monkeypatch, "lock of a change", noted)
    environment = Environment(stdout=io.BytesIO(), stderr=err, stdin=io.BytesIO(b"one\n"), terminal=None)
    argv = [command, str(tmp_path / "data" / "mixed-0"), *COMMANDS[command], "--single-replica"]
    assert run(argv, environment) == 0, err.getvalue()
    assert "whether the partition has other replicas is not known" in seen[-1]
    assert err.getvalue().decode().count("other replicas") == 1
