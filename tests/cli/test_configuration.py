"""Options from KAFKALOG_… variables: their order, wrong names, and what is never taken from there."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalog_cli.cli import configuration
from kafkalog_cli.cli.commands import COMMANDS, command_of
from tests.cli.trials import UNPRIVILEGED
from tests.support.commands import kafkalog

ROOT = Path(__file__).parents[2]
EXAMPLE = str(ROOT / "docs" / "example" / "mixed-0")
READERS = {
    *("ls", "dump-log", "dump-index", "lookup-offset", "lookup-time", "read", "verify", "sql", "warmup"),
    *("groups", "transactions", "cluster", "doctor", "find", "stats", "inspect", "serve", "replay"),
}


def level(*argv):
    """The level of a verification, whose output has to be JSON by then."""
    code, out, err = kafkalog("verify", EXAMPLE, "--format", "json", *argv)
    assert (code, err) == (0, "")
    return json.loads(out.splitlines()[0])["level"]


def test_the_order_of_sources(monkeypatch):
    assert level() == "normal"
    monkeypatch.setenv("KAFKALOG_LEVEL", "quick")
    assert level() == "quick"
    monkeypatch.setenv("KAFKALOG_VERIFY_LEVEL", "deep")
    assert level() == "deep"
    assert level("--level", "normal") == "normal"
    monkeypatch.setenv("KAFKALOG_VERIFY_LEVEL", "")
    monkeypatch.setenv("KAFKALOG_LEVEL", "")
    assert level() == "normal"


def test_a_home_directory_without_permission_does_not_matter(tmp_path, monkeypatch):
    """No file is read from it: `sudo -u kafka` with the HOME of the administrator."""
    home = tmp_path / "home"
    home.mkdir(mode=0)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    if not os.getuid():
        os.chown(home, 4711, 4711)  # root may search it, but for these capabilities
    as_a_user = () if os.getuid() else UNPRIVILEGED
    line = [*as_a_user, sys.executable, "-m", "kafkalog_cli", "verify", EXAMPLE]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")


def test_kinds_of_values(monkeypatch):
    for name, value in (("QUIET", "1"), ("JOBS", "2"), ("MAX_RATIO", "50"), ("RETAIN_TIME_BUDGET", "90")):
        monkeypatch.setenv(f"KAFKALOG_{name}", value)
    assert kafkalog("verify", EXAMPLE) == (0, "", "")
    monkeypatch.setenv("KAFKALOG_QUIET", "0")
    assert "mixed-0: OK  offsets 0 to 125" in kafkalog("verify", EXAMPLE)[1]
    code, out, _ = kafkalog(
        "retain", EXAMPLE, "--dry-run", "--config", "retention.ms=-1", "--config", "retention.bytes=-1"
    )
    assert (code, "nothing to do" in out) == (0, True)


def test_json_by_configuration_is_json_in_errors_too(monkeypatch):
    monkeypatch.setenv("KAFKALOG_LS_FORMAT", "json")
    assert json.loads(kafkalog("ls", "/no/such")[2])["kind"] == "PathNotFound"
    assert json.loads(kafkalog("ls", "--nonsense")[2])["exit_code"] == 2
    assert kafkalog("ls", "/no/such", "--format", "text")[2].startswith("kafkalog: /no/such")
    assert kafkalog("verify", "/no/such")[2].startswith("kafkalog: /no/such")
    monkeypatch.setenv("KAFKALOG_FORMAT", "ndjson")
    assert json.loads(kafkalog("verify", "/no/such")[2])["kind"] == "PathNotFound"
    monkeypatch.setenv("KAFKALOG_LS_FORMAT", "text")
    assert kafkalog("ls", "/no/such")[2].startswith("kafkalog: /no/such")


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("KAFKALOG_JOSB", "the variable KAFKALOG_JOSB is unknown. Did you mean KAFKALOG_JOBS"),
        ("KAFKALOG_VERFY_LEVEL", "Did you mean KAFKALOG_VERIFY_LEVEL"),
        ("KAFKALOG_ZZZZZZ", "is unknown. kafkalog(1) lists the names"),
        ("KAFKALOG_ASSUME_OFFLINE", "is refused: --assume-offline is taken from the command line only"),
        ("KAFKALOG_RECOVER_DISCARD", "is refused: --discard is taken from the command line only"),
        ("KAFKALOG_RECOVER_METADATA", "is refused: --metadata is taken from the command line only"),
        ("KAFKALOG_EXPORT_FORMAT", "is refused: --format is taken from the command line only"),
        ("KAFKALOG_TOPIC", "is refused: --topic is taken from the command line only"),
    ],
)
def test_unknown_and_refused_variables(monkeypatch, name, answer):
    monkeypatch.setenv(name, "1")
    code, out, err = kafkalog("verify", EXAMPLE)
    assert (code, out) == (2, "")
    assert answer in err
    assert kafkalog("verify", "--help")[0] == kafkalog("help")[0] == kafkalog("--version")[0] == 0


def test_a_wrong_value_names_its_variable(monkeypatch):
    monkeypatch.setenv("KAFKALOG_JOBS", "many")
    code, _, err = kafkalog("verify", EXAMPLE)
    assert code == 2
    assert "(from KAFKALOG_JOBS)" in err
    code, _, err = kafkalog("verify", EXAMPLE, "--jobs", "many")
    assert code == 2
    assert "(from" not in err


def test_what_kubernetes_sets_for_a_service_is_passed_over(monkeypatch):
    for name in ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_80_TCP", "PORT_80_TCP_ADDR"):
        monkeypatch.setenv(f"KAFKALOG_{name}", "10.0.0.1")
        monkeypatch.setenv(f"KAFKALOG_WEB_{name}", "10.0.0.1")
    assert kafkalog("verify", EXAMPLE)[0] == 0


def options():
    for command in COMMANDS:
        for one in command_of(command).parameters:
            if not one.declaration.is_argument:
                yield command, one.option_names[0].removeprefix("--")


def test_each_variable_is_of_an_option():
    assert {option for _, option in options()} >= configuration.CONFIGURABLE | configuration.READERS_ONLY


def test_no_writer_takes_a_path_from_outside():
    assert configuration.READERS <= READERS
    for command, option in options():
        if option in {"broker-config", "metadata"}:
            assert configuration.is_configurable(command, option) == (command in READERS), (command, option)
    assert set(COMMANDS) - READERS == {
        *("recover", "roll", "retain", "compact", "truncate", "delete-records", "append", "undo", "purge"),
        *("export", "import", "metadump", "demo"),
    }


def test_a_writer_with_everything_set_changes_what_it_changes_without(monkeypatch):
    """Whatever may be configured, a dry run has the same plan."""
    words = {"level": "deep", "format": "text", "isolation": "read_committed", "kafka-version": "4.2", "sort": "size"}
    words |= {"time-budget": "2h", "io-bytes-per-s": "50MiB", "redact": True, "memory": "100MiB"}
    words |= {"quiet": False, "verbose": False}
    everything = {name: words.get(name, 1_000_000) for name in configuration.CONFIGURABLE}
    for command in ("retain", "compact", "recover", "roll"):
        mine = {name for one, name in options() if one == command}
        line = [command, EXAMPLE, "--dry-run", "--now", "2030-01-01"]
        line += ["--config", "cleanup.policy=compact,delete"] * (command != "recover")
        before = kafkalog(*line)
        with monkeypatch.context() as variables:
            for name, value in everything.items():
                if name in mine:
                    variable = f"KAFKALOG_{command}_{name}".upper().replace("-", "_")
                    variables.setenv(variable, str(int(value)) if isinstance(value, bool) else str(value))
            assert kafkalog(*line) == before, command


PAGE = (ROOT / "docs" / "configuration.md").read_text()


def test_the_page_names_every_option():
    named = set(re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE))
    assert named == configuration.CONFIGURABLE | configuration.READERS_ONLY


def test_the_page_names_the_commands_of_each_option():
    """Where the row lists commands; other rows describe them."""
    rows = re.findall(r"^\| `([a-z-]+)` \| ((?:`[a-z-]+`(?:, )?)+) \|$", PAGE, re.MULTILINE)
    assert len(rows) > 10
    for option, names in rows:
        have = [name for name in COMMANDS if configuration.is_configurable(name, option) and _has(name, option)]
        assert re.findall("[a-z-]+", names) == have, option


def _has(name, option):
    return any(f"--{option}" in one.option_names for one in command_of(name).parameters)
