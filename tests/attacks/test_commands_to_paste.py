"""Commands that messages print, with hostile names in them: pasted into a shell they do what they say, and no more."""

# ruff: noqa: F811 - `place` is a fixture

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.errors import HalfChanged, MarkerKept, as_typed, shell_word
from kafkalog_cli.ops.checks.diagnose import finding, with_path
from kafkalog_cli.ops.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.importing.sources import repeated_command
from kafkalog_cli.ops.steps import Word, all_of, path_word
from tests.attacks.test_links import PARTITION, PLAIN, facts, kafkalog, own, place, printed  # noqa: F401
from tests.attacks.test_manifests import document, files_of

HOSTILE = {
    "spaces": "a b  c",
    "a second command": "a; touch planted",
    "a substitution": "$(touch planted)",
    "backticks": "`touch planted`",
    "quotes": "a'b\"c",
    "a quote and a command": "a'; touch planted; '",
    "a new line": "a\ntouch planted\n",
    "a carriage return": "a\rtouch planted",
    "an escape": "\x1b]0;title\x07\x1b[2J",
    "a C1 escape": "\x9b2J",
    "a dash": "-rf",
    "two dashes": "--help",
    "a tilde": "~",
    "a glob": "*",
    "a variable": "$HOME",
    "a pipe": "a|tee planted",
    "a redirection": "a>planted",
    "an ampersand": "a&touch planted",
    "a comment": "#a",
    "another byte": "\udcff\udc80",
    "a backslash": "a\\",
    "a backslash and a quote": "\n\\'; touch planted; '",
    "right to left": "\u202eabc",
    "words of our own": "a PATH FILE PATH_AWAY b",
}


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
    found = finding(FindingKind.ODD_ENTRY, f"/o/{HOSTILE[name]}", "m", steps=all_of(commands, ""))
    found = with_path(found, "/p q")
    own_word = shell_word(f"/o/{HOSTILE[name]}")
    assert found.next_step == f"`mv -nT '/p q' {word}`, `rm {own_word}` and `cp -a {word} '/p q'`"
    evidence("R30", 1, 3 * len(HOSTILE))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", HOSTILE)
def test_what_commands_print_is_safe_in_a_hostile_directory(place, name, monkeypatch, evidence):
    """Every command in backticks, and every `undo:`, of what verify, recover, truncate and roll print there."""
    hostile = place / "h" / HOSTILE[name].replace("/", "_")
    hostile.mkdir(parents=True)
    shutil.move(place / "ld", hostile / "ld")
    (own(hostile) / "odd").write_bytes(b"odd")
    (hostile / "ld/meta.properties").write_bytes(b"version=1\nbroker.id=x\n")
    monkeypatch.chdir(hostile.parent)
    text = ""
    for words in (
        ("verify", "LOGS"), ("recover", "PARTITION"), ("truncate", "PARTITION", "--to", "50", "--single-replica"),
        ("roll", "PARTITION", "--force"), ("purge", "LOGS", "--older-than", "0s"),
    ):  # fmt: skip
        given = Path(HOSTILE[name].replace("/", "_")) if name.startswith(("a dash", "two")) else hostile
        _, out, err = printed(RealFilesystem(), given, words if given is hostile else (words[0], "--", *words[1:2]))
        text += out + err
    assert all(line.isprintable() for line in text.splitlines()), text
    commands = re.findall(r"`((?:kafkalog|rm|mv) [^`]+)`", text) + re.findall(r"undo: (kafkalog [^\n]+)", text)
    assert commands
    before = facts(place / "victim")
    (place / "cwd").mkdir()
    for command in commands:
        names = subprocess.run(
            ["bash", "-c", f"kafkalog() {{ printf '%s\\n' \"$@\"; }}; rm() {{ :; }}; mv() {{ :; }}; {command}"],
            capture_output=True, cwd=place / "cwd", check=False,
        )  # fmt: skip
        assert not names.stderr, (command, names.stderr)
    assert not list((place / "cwd").iterdir()), commands
    assert facts(place / "victim") == before
    evidence("R30", 1, 3 * len(HOSTILE))


def test_a_run_of_a_hostile_name_is_quoted(place):
    run = "x; touch planted"
    (own(place) / run).mkdir()
    found = document(before={"mtime_ns": 0, "files": files_of(place), "checkpoint_lines": []})
    found["run"]["run_id"] = run
    (own(place) / run / "manifest.json").write_text(json.dumps(found))
    _, err = kafkalog(RealFilesystem(), place, ("purge", "LOGS", "--older-than", "0s"))
    assert f"kafkalog undo {place}/ld/{PARTITION} 'x; touch planted'" in err


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
