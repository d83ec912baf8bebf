"""Words of commands that messages print, with hostile names in them: one word each, and nothing else."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from kafkalog_cli.cli.import_ import shell_line
from kafkalog_cli.disk.names import place_outside
from kafkalog_cli.errors import HalfChanged, MarkerKept, as_typed, shell_word
from kafkalog_cli.ops.check.checks.diagnose import finding, with_path
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.move.importing.sources import repeated_command
from kafkalog_cli.ops.steps import Step, Word, path_word, together
from tests.attacks.test_commands_to_paste import HOSTILE


@pytest.mark.parametrize("name", HOSTILE)
def test_a_word_is_one_word_and_nothing_else(tmp_path, name, evidence):
    word = shell_word(HOSTILE[name])
    assert word.isprintable()
    assert "`" not in word
    done = subprocess.run(["bash", "-c", f"printf %s {word}"], cwd=tmp_path, capture_output=True, check=True)
    assert os.path.normpath(os.fsdecode(done.stdout)) == os.path.normpath(HOSTILE[name])
    subprocess.run(["sh", "-c", f": {word}"], cwd=tmp_path, check=True)
    assert not list(tmp_path.iterdir())
    assert shlex.split(as_typed("--topic-pattern")) == ["--topic-pattern"]
    evidence("R30", 1, 3 * len(HOSTILE))


@pytest.mark.parametrize("name", HOSTILE)
def test_messages_of_errors_and_findings_keep_words_together(name, evidence):
    word = shell_word(f"/logs/{HOSTILE[name]}/t-0")
    half = HalfChanged(path=f"/logs/{HOSTILE[name]}/t-0", run="x; y", reason="r")
    assert f"`kafkalog undo {word} 'x; y'`" in str(half)
    kept = MarkerKept(path="/logs", partition=f"/logs/{HOSTILE[name]}/t-0", run="r", reason="r")
    assert f"`kafkalog undo {word} r`" in str(kept)
    path = path_word(f"/logs/{HOSTILE[name]}/t-0")
    commands = [("mv", "-nT", Word.PATH, path), ("rm", Word.FILE), ("cp", "-a", path, Word.PATH_AWAY)]
    found = finding(FindingKind.ODD_ENTRY, f"/o/{HOSTILE[name]}", "m", steps=(together(commands, ""),))
    found = with_path(found, "/p q")
    own_word = shell_word(f"/o/{HOSTILE[name]}")
    assert found.next_step == f"`mv -nT '/p q' {word}`, `rm {own_word}` and `cp -a {word} '/var/tmp/p q'`"
    evidence("R30", 1, 3 * len(HOSTILE))


@pytest.mark.parametrize(
    "words",
    [
        "rm -rf /",
        "kafkalog import in --log-dir LOGS; rm -rf /",
        "kafkalog import in --log-dir LOGS --conf spark.jars=/tmp/theirs.jar",
        "kafkalog import in --log-dir LOGS --conf=spark.jars=/tmp/theirs.jar",
        "kafkalog import in --log-dir LOGS --master spark://theirs",
        "kafkalog import in --log-dir /elsewhere",
        "kafkalog import in --log-dir=LOGS --log-dir=/elsewhere",
        "kafkalog recover LOGS",
        "kafkalog import in",
        "kafkalog import 'in",
    ],
)
def test_the_command_of_a_planted_import_is_not_repeated(tmp_path, words):
    command = repeated_command({"repeat": words.replace("LOGS", str(tmp_path))}, str(tmp_path))
    assert command == () or command[:2] == ("kafkalog", "import")
    if ";" not in words:
        assert command == ()
    else:
        assert f"{tmp_path};" in command or command == ()


def test_the_command_of_an_import_is_repeated_in_quotes(tmp_path):
    words = ["kafkalog", "import", "/in put; x", "--log-dir", str(tmp_path), "--topic=a b", "--prove"]
    command = repeated_command({"repeat": shlex.join(words)}, str(tmp_path))
    assert command == tuple(words)


def test_an_import_is_repeated_from_any_directory(monkeypatch):
    monkeypatch.chdir("/usr")
    argv = ("import", "in put", "--log-dir=data", "--topic", "t", "--metadata", "meta", "--codec", "lz4")
    line = "kafkalog import '/usr/in put' --log-dir=/usr/data --topic t --metadata /usr/meta --codec lz4"
    assert shell_line(argv, ["in put", "data", "meta"]) == line
    assert not shell_line((), ["in put"])


def test_paths_that_hold_the_words_of_placeholders_stay():
    steps = (Step("", ("mv", "-nT", Word.FILE, Word.FILE_AWAY), end=" "), Step("", ("ls", "/a/PATH/b")))
    found = finding(FindingKind.BAD_NAME, "/a/FILE/PATH-0/x.log", "m", steps=steps)
    step = with_path(found, "/a/FILE/PATH-0").next_step
    assert step == "`mv -nT /a/FILE/PATH-0/x.log /a/FILE/x.log` `ls /a/PATH/b`"
    assert with_path(with_path(found, "/a/FILE/PATH-0"), "/other").next_step == step


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/data/kafka/t-0", "/data/t-0"),
        ("kafka/t-0", "t-0"),
        ("./kafka/t-0/", "t-0"),
        ("t-0", "../t-0"),
        ("../t-0", "../../t-0"),
        ("/kafka/t-0", "/t-0"),
        ("/t-0", "/var/tmp/t-0"),
    ],
)
def test_where_a_directory_goes_that_must_leave_the_log_directory(path, place):
    assert place_outside(path) == place
    assert Path(place_outside(".")).is_absolute()
