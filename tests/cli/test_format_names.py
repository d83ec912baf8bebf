"""NDJSON has two names, json and ndjson, wherever a format is named; and what is asked for as JSON is JSON."""

import json
from pathlib import Path

import pytest

from tests.support.commands import kafkalog, options_of
from tests.support.product import COMMANDS

PARTITION = Path(__file__).parents[2] / "docs" / "example" / "mixed-0"


def options():
    """(command, parameter, values) of each option whose values name JSON or NDJSON."""
    found = [(name, one.name, {*one.metavar.split("|")}) for name in COMMANDS for one in options_of(name).values()]
    return [(name, option, choices) for name, option, choices in found if choices & {"json", "ndjson"}]


def test_both_names_of_json_print_a_wrong_index_entry_as_an_object(tmp_path):
    for file in PARTITION.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    index = tmp_path / f"{0:020d}.index"
    data = bytearray(index.read_bytes())
    data[3] ^= 1
    index.write_bytes(data)
    code, out, _ = kafkalog("dump-log", index, "--verify-index-only", "--format", "json")
    found = [json.loads(line) for line in out.splitlines()]
    assert [each["type"] for each in found] == ["index-entry", "index-file", "summary"]
    assert found[0]["verdict"] != "right"


def test_every_format_has_both_names():
    found = options()
    assert {name for name, *_ in found} >= {"append", "compact", "dump-log", "export", "ls", "read", "retain", "verify"}
    contents = {"key_format", "value_format"}  # JSON as the content of a field, not of lines
    other = [(name, option) for name, option, choices in found if not choices >= {"json", "ndjson"}]
    assert [each for each in other if each[1] not in contents] == []


@pytest.mark.parametrize(
    "argv",
    [
        ("read",),
        ("ls",),
        ("verify",),
        ("dump-log",),
        ("dump-index",),
        ("retain", "--dry-run", "--config", "retention.ms=-1"),
    ],
)
def test_both_names_are_one_format(argv):
    command, *more = argv
    answers = [kafkalog(command, PARTITION, *more, "--format", name) for name in ("json", "ndjson")]
    assert answers[0] == answers[1]
    assert json.loads(answers[0][1].splitlines()[-1])["type"] == "summary"


@pytest.mark.parametrize("name", ["json", "ndjson"])
def test_both_names_of_json_print_a_usage_error_as_an_object(name):
    for argv in (
        ["ls", PARTITION, "--no-such-option", "--format", name],
        ["ls", PARTITION, "--bad", f"--format={name}"],
    ):
        code, _, err = kafkalog(*argv)
        assert (code, json.loads(err)["type"]) == (2, "error")
