"""The help: commands in groups, `kafkalog help COMMAND`, and what is said to a name that is none."""

import json
import re
from pathlib import Path

import pytest

import kafkalog_cli as kl
from tests.support.commands import kafkalog, options_of
from tests.support.product import COMMANDS, GROUPS

EXAMPLE = Path(__file__).parents[2] / "docs" / "example"


SUMMARIES = {name: summary for commands in GROUPS.values() for name, summary in commands.items()}


def test_commands_stand_in_their_groups():
    code, out, _ = kafkalog("help")
    assert code == 0
    titles = [line[:-1] for line in out.splitlines() if line[:-1] in GROUPS]
    assert titles == list(GROUPS)
    for group, names in GROUPS.items():
        listed = out.partition(f"\n{group}:\n")[2].partition("\n\n")[0].splitlines()
        assert [line.split()[0] for line in listed] == list(names)
        assert [" ".join(line.split()[1:]) for line in listed] == [SUMMARIES[name] for name in names]
    assert kafkalog("--help")[1] == kafkalog("help", "help")[1] == out
    assert kafkalog() == (0, out, "")
    assert {name for names in GROUPS.values() for name in names} == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_and_both_help_options_print_the_same_page_of_a_command(command):
    code, out, err = kafkalog("help", command)
    assert (code, err) == (0, "")
    assert kafkalog(command, "--help") == kafkalog(command, "-h") == (code, out, err)
    assert out.startswith(f"{SUMMARIES[command]}\n\nUsage: kafkalog {command} [OPTIONS]")
    assert max(map(len, out.splitlines())) <= 80
    assert len(SUMMARIES[command]) <= 63, "a line of the list of commands"
    assert 1 <= out.partition("\nExamples:\n")[2].partition("\n\n")[0].count(":\n") <= 3
    titles = re.findall(r"(?m)^([A-Z][a-z -]+):$", out)
    assert titles[0] == "Examples"
    assert titles[-1] == "Exit codes"
    rare = [title for title in titles if title in ("Output", "Safety", "Settings", "Time and load", "Limits", "Spark")]
    assert rare == titles[len(titles) - len(rare) - 1 : -1], "options of daily use stand first"
    codes = re.findall(r"(?m)^  (\d+) ", out.partition("\nExit codes:\n")[2])
    assert [*map(int, codes)] == sorted(COMMANDS[command].exit_codes)


@pytest.mark.parametrize("command", COMMANDS)
def test_lines_of_the_help_are_full_whatever_the_lines_of_the_docstring_are(command):
    paragraphs = kafkalog(command, "--help")[1].partition("\nExamples:\n")[0].split("\n\n")[2:]
    for lines in (paragraph.splitlines() for paragraph in paragraphs):
        for line, following in zip(lines, lines[1:], strict=False):
            assert len(line) + 1 + len(following.split()[0]) > 80


@pytest.mark.parametrize("command", COMMANDS)
def test_help_breaks_no_option_at_its_hyphens_and_keeps_brackets(command):
    out = kafkalog(command, "--help")[1]
    assert not re.search(r"-$", out, re.MULTILINE)
    brackets = re.findall(r"\[[^]\n ]+\]", " ".join(getattr(param, "help", "") for param in COMMANDS[command].params))
    assert [text for text in brackets if text not in out] == []


def test_help_shows_choices_and_defaults():
    out = kafkalog("verify", "--help")[1]
    assert "--level quick|normal|deep\n" in out
    assert "[default: 134217728]" in out
    assert "--quiet  " in out
    assert "--no-transactions" in kafkalog("ls", "--help")[1]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_in_the_help(command):
    out = kafkalog(command, "--help")[1]
    for name in options_of(command):
        assert re.search(rf"(?m)^  (.*, )?{name}(?=[ ,\n])", out), name


def test_help_fits_a_narrow_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, kafkalog("roll", "--help")[1].splitlines())) <= 60


@pytest.mark.parametrize(
    ("argv", "words", "step"),
    [
        (("verify", "--topc", "x"), "no such option: --topc (Possible options: --topic)", "verify"),
        (("recover", "--dryrun"), "no such option: --dryrun (Possible options: --dry-run)", "recover"),
        (("ls", "--xyzzy"), "no such option: --xyzzy", "ls"),
        (("truncate",), "missing argument 'PARTITION'", "truncate"),
    ],
)
def test_a_misspelt_option_names_the_similar_one(argv, words, step):
    code, out, err = kafkalog(*argv)
    assert (code, out) == (2, "")
    assert err == f"kafkalog: {words}\n  next: kafkalog {step} --help\n"
    code, out, err = kafkalog(*argv, "--format", "json")
    assert (code, out, json.loads(err)["type"]) == (2, "", "error")


@pytest.mark.parametrize(
    ("setting", "meant"),
    [
        ("retention.msx=5", "retention.ms"),
        ("cleanup.polciy=compact", "cleanup.policy"),
        ("segment.byte=1", "segment.bytes"),
    ],
)
def test_a_misspelt_topic_setting_names_the_similar_one(setting, meant):
    code, out, err = kafkalog("retain", str(EXAMPLE), "--dry-run", "--config", setting)
    assert (code, out) == (2, "")
    assert f"Unknown topic config name: {setting.partition('=')[0]}. Did you mean {meant}" in err


@pytest.mark.parametrize(
    ("name", "meant"),
    [("recovr", "recover"), ("dump-lg", "dump-log"), ("delete-record", "delete-records"), ("undelete", None)],
)
def test_an_unknown_command_is_refused_with_the_step_to_help(name, meant):
    code, out, err = kafkalog(name, "x")
    assert (code, out) == (2, "")
    assert f"no such command '{name}'" in err
    assert meant is None or f"Did you mean '{meant}'" in err
    assert kafkalog("help", name)[0] == 2


def test_version_is_printed_by_both_options():
    assert kafkalog("-V") == kafkalog("--version") == (0, f"kafkalog {kl.__version__}\n", "")


@pytest.mark.parametrize("command", ["verify", "ls", "recover", "dump-log", "purge"])
def test_a_topic_that_is_not_on_the_disk_is_refused_with_similar_names(tmp_path, command):
    for name in ("customers-0", "orders-0", "orders-1", "payments-3"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{0:020d}.log").touch()
    code, out, err = kafkalog(command, str(tmp_path), "--topic", "order")
    assert (code, out) == (10, "")
    what = "segment" if command == "dump-log" else "partition"
    assert f"no {what} matches --topic order. Topics here: orders, customers, payments\n" in err
    code, out, err = kafkalog(command, str(tmp_path), "--topic", "orders", "--partition", "7")
    assert (code, out) == (10, "")
    assert "matches --topic orders --partition 7. Partitions here: orders (0, 1)" in err
    code, out, err = kafkalog(command, str(tmp_path), "--topic-pattern", "x.*")
    assert (code, out) == (10, "")
    assert "matches --topic-pattern 'x.*'. Topics here: customers, orders, payments" in err


def test_no_option_is_named_by_its_placeholder():
    """typer 0.27 makes `--KEY` of the parameter `key` with the metavar KEY, unless the option says its name."""
    names = [name for command in COMMANDS for name in options_of(command)]
    assert len(names) > 100
    assert [name for name in names if name.startswith("--") and name != name.lower()] == []
