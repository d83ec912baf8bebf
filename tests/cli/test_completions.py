"""Completions in real shells: topics, partitions and groups of the directory that is on the command line."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPLETIONS = ROOT / "completions"
ASKED = [
    (("ls", "@", "--topic", "in"), ["in-a", "in-b"]),
    (("read", "@", "--topic", "in-b", "--partition", ""), ["0"]),
    (("inspect", "@", "--topic", "in-a", "--partition", ""), ["0", "1"]),
    (("find", "@", "--topic", "in-"), ["in-a", "in-b"]),
    (("groups", "@", "--group", "g-n"), ["g-new", "g-new2"]),
]


@pytest.fixture(scope="module")
def place(corpus, tmp_path_factory):
    """The log directory of a broker with groups, under a short path: a shell breaks a long line."""
    link = tmp_path_factory.mktemp("c") / "d"
    link.symlink_to(corpus / "internal" / "data")
    return link


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The environment of a shell that finds this kafkalog, and no configuration of anybody's."""
    home = tmp_path_factory.mktemp("home")
    command = home / "kafkalog"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m kafkalog_cli "$@"\n')
    command.chmod(0o755)
    return {"PATH": f"{home}:{os.environ['PATH']}", "HOME": str(home), "TERM": "dumb", "PYTHONPATH": str(ROOT),
            "LC_ALL": "C.UTF-8"}  # fmt: skip


def words(asked, place):
    return ["kafkalog", *(str(place) if word == "@" else word for word in asked)]


def needs(shell):
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")


def output_of(command, environment):
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=True)
    return done.stdout.splitlines()


@pytest.mark.exhaustive
@needs("bash")
@pytest.mark.parametrize(("asked", "wanted"), ASKED)
def test_bash_completes_commands_options_and_choices(place, environment, asked, wanted):
    typed = words(asked, place)
    script = (
        f'source {COMPLETIONS}/kafkalog.bash; COMP_WORDS=("$@"); COMP_CWORD={len(typed) - 1}; '
        "complete -p kafkalog; _kafkalog_completion kafkalog; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    first, *found = output_of(["bash", "--norc", "-c", script, "bash", *typed], environment)
    assert first.endswith("-F _kafkalog_completion kafkalog")
    assert found == wanted


@pytest.mark.exhaustive
@needs("fish")
@pytest.mark.parametrize(("asked", "wanted"), ASKED)
def test_fish_completes_commands_options_and_choices(place, environment, asked, wanted):
    script = f"source {COMPLETIONS}/kafkalog.fish; complete -C '{' '.join(words(asked, place))}'"
    found = [line.partition("\t")[0] for line in output_of(["fish", "--no-config", "-c", script], environment)]
    assert found == wanted


@pytest.mark.exhaustive
@needs("zsh")
@pytest.mark.parametrize(("asked", "wanted"), ASKED)
def test_zsh_completes_commands_options_and_choices(place, environment, asked, wanted):
    """In a terminal, as zsh completes nothing elsewhere: what two tabs show."""
    keys, theirs = pty.openpty()
    shell = subprocess.Popen(["zsh", "-f", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, env=environment,
                             start_new_session=True)  # fmt: skip
    os.close(theirs)
    try:
        send(keys, f"PS1='>'; autoload -Uz compinit; compinit -u -D; source {COMPLETIONS}/_kafkalog; echo re''ady\n")
        until(keys, "ready")
        time.sleep(0.5)  # until the prompt is there
        send(keys, " ".join(words(asked, place)) + "\t\t")
        until(keys, *wanted)
    finally:
        shell.kill()
        shell.wait(300)
        os.close(keys)


def send(keys, text):
    os.write(keys, text.encode())


def until(keys, *wanted, seconds=300):
    """Read what the terminal shows until it has all words."""
    shown, deadline = "", time.monotonic() + seconds
    while time.monotonic() < deadline:
        if select.select([keys], [], [], 0.2)[0]:
            shown += os.read(keys, 65536).decode(errors="replace")
        if all(re.search(rf"(?<![\w-]){re.escape(one)}(?![\w-])", shown) for one in wanted):
            return
    raise AssertionError(f"the shell shows {shown!r}")
