"""The help: commands in groups, `kafkalog help COMMAND`, and what is said to a name that is none."""

import ast
import io
import re
from pathlib import Path

import pytest

import kafkalog_cli.cli
from kafkalog_cli import __version__
from kafkalog_cli.cli.app import COMMANDS, GROUPS, run
from kafkalog_cli.cli.environment import Environment


def kafkalog(*argv):
    """(exit code, stdout, stderr)."""
    out, err = io.BytesIO(), io.BytesIO()
    code = run(list(argv), Environment(stdout=out, stderr=err))
    return code, out.getvalue().decode(), err.getvalue().decode()


def test_commands_stand_in_their_groups():
    code, out, _ = kafkalog("help")
    assert code == 0
    titles = [group for line in out.splitlines() for group in GROUPS if line.startswith(f"╭─ {group} ─")]
    assert titles == list(GROUPS)
    for group, names in GROUPS.items():
        panel = out[out.index(f"╭─ {group} ─") :].partition("╰")[0]
        assert [name for name in re.findall(r"^│ ([a-z-]+)  ", panel, re.MULTILINE) if name in COMMANDS] == list(names)
    assert kafkalog("--help")[1] == out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(command):
    assert kafkalog("help", command)[:2] == kafkalog(command, "--help")[:2]


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
    assert f"under {tmp_path} matches --topic order. These topics are there: orders, customers, payments" in err
    code, out, err = kafkalog(command, str(tmp_path), "--topic", "orders", "--partition", "7")
    assert (code, out) == (10, "")
    assert "matches --topic orders --partition 7. These partitions are there: orders (0, 1)" in err
    code, out, err = kafkalog(command, str(tmp_path), "--topic-pattern", "x.*")
    assert (code, out) == (10, "")
    assert "matches --topic-pattern 'x.*'. These topics are there: customers, orders, payments" in err


def test_no_option_is_named_by_its_placeholder():
    """typer 0.27 makes `--KEY` of the parameter `key` with the metavar KEY, unless the option says its name."""
    trees = [ast.parse(path.read_text()) for path in Path(kafkalog_cli.cli.__file__).parent.glob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    aliases = {
        node.targets[0].id: node.value
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    seen = 0
    for parameter in (node for node in nodes if isinstance(node, ast.arg) and node.annotation):
        annotation = parameter.annotation
        if isinstance(annotation, ast.Name):
            annotation = aliases.get(annotation.id, annotation)
        for call in ast.walk(annotation):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "typer.Option":
                seen += 1
                metavar = [ast.literal_eval(word.value) for word in call.keywords if word.arg == "metavar"]
                is_same = metavar and metavar[0].replace("-", "_").lower() == parameter.arg
                assert call.args or not is_same, parameter.arg
    assert seen > 100
