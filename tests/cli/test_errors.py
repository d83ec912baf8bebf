"""What commands say on stderr when something is wrong: one object a line for programs, a word on what to do for people."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.support.commands import kafkalog

SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "kafkalog.error-1.json"
COMMANDS = (
    "dump-log",
    "dump-index",
    "ls",
    "verify",
    "recover",
    "undo",
    "purge",
    "read",
    "lookup-offset",
    "lookup-time",
)
PARTITIONS = ("recover", "purge", "roll")


def errors(text):
    validator = Draft202012Validator({**json.loads(SCHEMA.read_text()), "additionalProperties": False})
    found = [json.loads(line) for line in text.splitlines()]
    for one in found:
        assert validator.is_valid(one), one
    return found


@pytest.mark.parametrize("command", [*COMMANDS, "serve", "stats"])
def test_an_empty_path_is_shown(command):
    more = ["0"] if command.startswith("lookup") else ["1"] if command == "undo" else []
    code, out, err = kafkalog(command, "", *more)
    assert (code, err.splitlines()[-1]) == (10, "kafkalog: '': no such file or directory")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("argv", [["--bogus"], ["--topic"], []], ids=["unknown", "without a value", "nothing"])
def test_a_wrong_command_line_ends_with_2_and_a_next_step(command, argv):
    code, out, err = kafkalog(command, "--format", "json", *argv)
    (error,) = errors(err)
    assert (code, out, error["exit_code"], error["kind"]) == (2, "", 2, "UsageError")
    code, out, err = kafkalog(command, *argv)
    assert (code, out) == (2, "")
    assert command in err or "requires an argument" in err
    assert not err.startswith("{")


@pytest.mark.parametrize("command", ["verify", "recover", "purge", "ls", "dump-index"])
def test_a_missing_path_ends_with_10(command, tmp_path):
    code, _, err = kafkalog(command, tmp_path / "gone", "--format", "json")
    (error,) = errors(err)
    assert (code, error["exit_code"], error["kind"], error["path"]) == (10, 10, "PathNotFound", str(tmp_path / "gone"))


@pytest.mark.parametrize("command", PARTITIONS)
def test_a_file_given_as_a_log_directory_is_refused(command, corpus):
    partition = corpus / "crash-torn" / "before" / "crash-torn-0"
    code, out, err = kafkalog(command, partition / "00000000000000000000.log")
    assert (code, out) == (10, "")
    assert err.endswith(f"is a file; this command takes whole directories, such as {partition}\n")


@pytest.mark.parametrize(
    ("case", "kind"),
    [("crash-zero-tail", "size-too-small"), ("crash-torn", "trailing-bytes"), ("crash-huge-len", "trailing-bytes")],
)
def test_the_json_error_of_damage_has_the_kind_of_the_damage(corpus, case, kind):
    """dump-log, for programs."""
    log = sorted((corpus / case / "before" / f"{case}-0").glob("*.log"))
    found = {error["kind"] for error in errors(kafkalog("dump-log", "--format", "json", *log)[2])}
    assert found == {kind}


def test_the_json_error_of_undecodable_records_has_their_kind(corpus, tmp_path):
    """A batch whose bytes its codec does not take."""
    source = next((corpus / "v2-gzip" / "data").glob("v2-gzip-0/*.log"))
    data = bytearray(source.read_bytes())
    data[61:71] = bytes(10)  # the first batch begins with its header of 61 bytes
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)
    _, _, err = kafkalog("dump-log", "--format", "json", "--print-data-log", path)
    assert "decompression-failed" in {error["kind"] for error in errors(err)}
