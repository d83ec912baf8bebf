"""Options from KAFKALOG_… variables: their order, wrong names, and what is never taken from there."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.trials import UNPRIVILEGED
from tests.support.commands import kafkalog, options_of
from tests.support.product import COMMANDS

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


def test_an_option_wins_over_variables_and_that_of_the_command_over_the_general_one(monkeypatch):
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


def test_environment_variables_set_flags_numbers_and_durations(monkeypatch):
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
        ("KAFKALOG_JOSB", "Did you mean KAFKALOG_JOBS"),
        ("KAFKALOG_VERFY_LEVEL", "Did you mean KAFKALOG_VERIFY_LEVEL"),
        ("KAFKALOG_ZZZZZZ", "kafkalog(1) lists the names"),
        *(
            (f"KAFKALOG_{name}", f"KAFKALOG_{name} is unknown, or only the command line has its option")
            for name in ("ASSUME_OFFLINE", "RECOVER_DISCARD", "RECOVER_METADATA", "EXPORT_FORMAT", "TOPIC")
        ),
    ],
)
def test_unknown_and_refused_variables(monkeypatch, name, answer):
    monkeypatch.setenv(name, "1")
    code, out, err = kafkalog("verify", EXAMPLE)
    assert (code, out) == (2, "")
    assert answer in err
    assert kafkalog("verify", "--help")[0] == kafkalog("help")[0] == kafkalog("--version")[0] == 0


def test_the_variables_of_the_man_page_are_known(monkeypatch):
    page = (ROOT / "man" / "kafkalog.1").read_text().partition('"ENVIRONMENT"')[2]
    names = {*re.findall(r"KAFKALOG_[A-Z_]+", page)} - {"KAFKALOG_COMMAND_OPTION", "KAFKALOG_OPTION"}
    assert {"KAFKALOG_CACHE_DIR", "KAFKALOG_DEBUG", "KAFKALOG_JOBS"} <= names
    for name in names:
        monkeypatch.setenv(name, "1")
    assert kafkalog("verify", EXAMPLE)[0] == 0


def test_a_wrong_value_names_its_variable(monkeypatch):
    monkeypatch.setenv("KAFKALOG_JOBS", "many")
    code, _, err = kafkalog("verify", EXAMPLE)
    assert code == 2
    assert "(from KAFKALOG_JOBS)" in err
    code, _, err = kafkalog("verify", EXAMPLE, "--jobs", "many")
    assert code == 2
    assert "(from" not in err


def test_variables_that_kubernetes_sets_for_a_service_are_ignored(monkeypatch):
    for name in ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_80_TCP", "PORT_80_TCP_ADDR"):
        monkeypatch.setenv(f"KAFKALOG_{name}", "10.0.0.1")
        monkeypatch.setenv(f"KAFKALOG_WEB_{name}", "10.0.0.1")
    assert kafkalog("verify", EXAMPLE)[0] == 0


def with_variables():
    """The options of each command that may be set by a variable."""
    return {
        command: {name.removeprefix("--") for name, param in options_of(command).items() if param.envvar}
        for command in COMMANDS
    }


def test_no_writer_takes_a_path_from_outside():
    assert set(COMMANDS) - READERS == {
        *("recover", "roll", "retain", "compact", "truncate", "delete-records", "append", "undo", "purge"),
        *("export", "import", "metadump", "demo"),
    }
    for command, options in with_variables().items():
        paths = {"broker-config", "metadata"} & {name.removeprefix("--") for name in options_of(command)}
        assert options & {"broker-config", "metadata"} == (paths if command in READERS else set()), command


def test_a_writer_with_everything_set_changes_what_it_changes_without(monkeypatch):
    """Whatever may be configured, a dry run has the same plan."""
    words = {"level": "deep", "format": "text", "isolation": "read_committed", "kafka-version": "4.2", "sort": "size"}
    words |= {"time-budget": "2h", "io-bytes-per-s": "50MiB", "redact": True, "memory": "100MiB"}
    words |= {"quiet": False, "verbose": False}
    for command in ("retain", "compact", "recover", "roll"):
        line = [command, EXAMPLE, "--dry-run", "--now", "2030-01-01"]
        line += ["--config", "cleanup.policy=compact,delete"] * (command != "recover")
        before = kafkalog(*line)
        with monkeypatch.context() as variables:
            for name in with_variables()[command] - {"-v"}:
                value = words.get(name, 1_000_000)
                variable = f"KAFKALOG_{command}_{name}".upper().replace("-", "_")
                variables.setenv(variable, str(int(value)) if isinstance(value, bool) else str(value))
            assert kafkalog(*line) == before, command


PAGE = (ROOT / "docs" / "configuration.md").read_text()


def test_the_page_names_every_option():
    named = set(re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE))
    assert named == set().union(*with_variables().values()) - {"-v", "-q"}


def test_the_page_names_the_commands_of_each_option():
    """Where the row lists commands; other rows describe them."""
    rows = re.findall(r"^\| `([a-z-]+)` \| ((?:`[a-z-]+`(?:, )?)+) \|$", PAGE, re.MULTILINE)
    assert len(rows) > 10
    for option, names in rows:
        have = [command for command, options in with_variables().items() if option in options]
        assert re.findall("[a-z-]+", names) == have, option
