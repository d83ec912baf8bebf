"""The help: commands in groups, `kafkalog help COMMAND`, and what is said to a name that is none."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from kafkalog_cli import __version__
from kafkalog_cli.cli.command_facts import SUMMARIES
from kafkalog_cli.cli.commands import COMMANDS, GROUPS, command_of
from kafkalog_cli.cli.help_pages import command_page
from kafkalog_cli.cli.typer_parser import typer_command
from kafkalog_cli.output.help_text import help_text
from kafkalog_cli.output.stream import Paint
from tests.support.commands import kafkalog

EXAMPLE = Path(__file__).parents[2] / "docs" / "example"


def test_commands_stand_in_their_groups():
    code, out, _ = kafkalog("help")
    assert code == 0
    titles = [line[:-1] for line in out.splitlines() if line[:-1] in GROUPS]
    assert titles == list(GROUPS)
    for group, names in GROUPS.items():
        listed = out.partition(f"\n{group}:\n")[2].partition("\n\n")[0].splitlines()
        assert [line.split()[0] for line in listed] == list(names)
        assert [" ".join(line.split()[1:]) for line in listed] == [f"{SUMMARIES[name]}." for name in names]
    assert kafkalog("--help")[1] == kafkalog("help", "help")[1] == out
    assert kafkalog() == (0, out, "")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(command):
    code, out, err = kafkalog("help", command)
    assert (code, err) == (0, "")
    assert kafkalog(command, "--help") == kafkalog(command, "-h") == (code, out, err)
    assert out.startswith(f"{SUMMARIES[command]}.\n\nUsage: kafkalog {command} [OPTIONS]")
    assert max(map(len, out.splitlines())) <= 80
    assert len(SUMMARIES[command]) <= 62, "a line of the list of commands"
    assert 2 <= out.partition("\nExamples:\n")[2].partition("\n\n")[0].count(":\n") <= 3
    titles = re.findall(r"(?m)^([A-Z][a-z -]+):$", out)
    assert titles[0] == "Examples"
    assert titles[-1] == "Exit codes"
    rare = [title for title in titles if title in ("Output", "Safety", "Settings", "Time and load", "Limits", "Spark")]
    assert rare == titles[len(titles) - len(rare) - 1 : -1], "options of daily use stand first"


def test_paragraphs_have_no_breaks_of_their_own():
    """A wide terminal shows full lines, whatever the lines of the docstring are."""
    page = command_page("recover", command_of("recover"))
    assert len(page.paragraphs) == 2
    assert not [text for text in page.paragraphs if "\n" in text or "  " in text]
    lines = help_text(page, columns=100).splitlines()
    paragraph = lines[4 : lines.index("", 4)]
    assert all(len(line) + len(next_line.split()[0]) >= 100 for line, next_line in pairwise(paragraph))


def test_help_shows_choices_and_defaults():
    out = kafkalog("verify", "--help")[1]
    assert "--level quick|normal|deep\n" in out
    assert "[default: 134217728, 128 MiB]" in out
    assert "--quiet  " in out
    assert "--no-transactions" in kafkalog("ls", "--help")[1]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_in_the_help(command):
    """The parser's own list, which the help does not use."""
    params = typer_command(command).params
    out = kafkalog(command, "--help")[1]
    for param in params:
        for name in (*param.opts, *param.secondary_opts) if param.param_type_name == "option" else ():
            assert re.search(rf"(?m)^  (.*, )?{name}(?=[ ,\n])", out), name


def test_pieces_of_a_narrow_terminal():
    page = command_page("append", command_of("append"))
    assert max(map(len, help_text(page, columns=60).splitlines())) <= 60
    text = help_text(page, Paint(is_on=True), 80)
    assert "\x1b[1mUsage:\x1b[0m kafkalog append" in text
    assert re.sub(r"\x1b\[\d?m", "", text) == help_text(page)


@pytest.mark.parametrize(
    ("argv", "words", "step"),
    [
        (("verify", "--topc", "x"), "there is no option --topc. Did you mean --topic?", "verify"),
        (("verify", "--topi"), "there is no option --topi. Did you mean --topic or --topic-pattern?", "verify"),
        (("recover", "--dryrun"), "there is no option --dryrun. Did you mean --dry-run?", "recover"),
        (("ls", "--xyzzy"), "there is no option --xyzzy", "ls"),
        (("truncate",), "missing argument 'PARTITION'", "truncate"),
    ],
)
def test_a_misspelt_option(argv, words, step):
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
def test_a_misspelt_setting(setting, meant):
    code, out, err = kafkalog("retain", str(EXAMPLE), "--dry-run", "--config", setting)
    assert (code, out) == (2, "")
    assert f"Unknown topic config name: {setting.partition('=')[0]}. Did you mean {meant}" in err


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("recovr", "recover"),
        ("dump", "dump-log or dump-index"),
        ("delete-record", "delete-records"),
        ("undelete", None),
    ],
)
def test_a_name_that_is_none(name, meant):
    code, out, err = kafkalog(name, "x")
    assert (code, out) == (2, "")
    words = " ".join(err.split())
    assert f"there is no command {name}" in words
    assert (f"Did you mean {meant}?" if meant else "Did you mean") in words or not meant
    assert kafkalog("help", name)[0] == 2


def test_the_version():
    assert kafkalog("-V") == kafkalog("--version") == (0, f"kafkalog {__version__}\n", "")


@pytest.mark.parametrize("command", ["verify", "ls", "recover", "dump-log", "purge"])
def test_a_topic_that_is_not_there(tmp_path, command):
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
    seen = 0
    for parameter in (one for name in COMMANDS for one in command_of(name).parameters):
        declaration = parameter.declaration
        if not declaration.is_argument:
            seen += 1
            is_same = (declaration.metavar or "").replace("-", "_").lower() == parameter.name
            assert declaration.names or not is_same, parameter.name
    assert seen > 100
