"""Commands that messages print, with hostile names in them: pasted into a shell they do what they say, and no more."""

# ruff: noqa: F811 - `place` is a fixture

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.attacks.test_links import PARTITION, facts, kafkalog, own, place, printed  # noqa: F401
from tests.attacks.test_manifests import document, files_of
from tests.support.product import RealFilesystem

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
