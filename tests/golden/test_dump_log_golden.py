"""dump-log against the recorded output of the real kafka-dump-log 4.2.0, byte for byte, on files of real brokers."""

import io
import os
import re
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from tests.support.archives import corpus_names
from tests.support.commands import everything
from tests.support.product import Environment, run

IDENTITY = re.compile(rb"\[B@[0-9a-f]+")  # the DefaultDecoder prints a Java object's identity

USAGE = {
    # name: (our exit code, why it is not the real tool's)
    "no-args.out": (2, "usage"),
    "bad-option.out": (2, "usage"),
    "no-files.out": (2, "usage"),
    "files-no-value.out": (2, "usage"),
    "repeated-files.out": (2, "usage"),
    "abbreviated.out": (2, "usage"),
    "max-bytes-bad.out": (2, "usage; the real tool prints 'Dumping' before it looks"),
    "help.out": (0, "help is asked for, and goes to stdout"),
    "positional.out": (0, "a path is enough for us"),
}


def commands(folder):
    for line in (folder / "COMMANDS.tsv").read_text().splitlines():
        if not line.startswith("#"):
            name, code, command = line.split("\t")
            yield name, int(code), arguments(name, command)


def arguments(name, command):
    words = [word for word in command.split(" ")[1:] if word]
    if name == "two-logs-space.out":  # one argument with a blank in it
        return [words[0], " ".join(words[1:])]
    return words


def outputs(folder):
    found = {}
    with tarfile.open(folder / "outputs.tar.gz") as tar:
        for member in tar:
            if member.isfile():
                found[member.name.removeprefix("./")] = tar.extractfile(member).read()
    return found


def dump(argv):
    stdout, stderr = io.BytesIO(), io.BytesIO()
    code = run(["dump-log", "--kafka-version", "4.2", *argv], Environment(stdout=stdout, stderr=stderr))
    return code, stdout.getvalue(), stderr.getvalue()


def mismatches(case, folder):
    recorded = outputs(folder)
    for name, code, argv in commands(folder):
        expected, errors = recorded[name], recorded.get(name + ".err", b"").replace(b"$PWD", str(case).encode())
        ours = dump(argv)
        assert b"Traceback" not in ours[2]
        assert b"internal error" not in ours[2]
        assert b"\tat " not in ours[2]
        if name in USAGE:
            wanted_code, _ = USAGE[name]
            quiet = ours[1] if wanted_code else ours[2]  # usage errors go to stderr, help to stdout
            if ours[0] != wanted_code or quiet or not (ours[1] or ours[2]):
                yield name, ours
        elif IDENTITY.sub(b"[B@", ours[1]) != IDENTITY.sub(b"[B@", expected) or ours[0] != code:
            yield name, argv
        elif (code == 0 and ours[2] != errors) or (code and not ours[2].startswith(b"kafkalog: ")):
            yield name, argv, ours[2][:200]


@pytest.fixture(params=sorted({name.split("/")[0] for name in corpus_names() if "/" in name}))
def case(request, corpus, monkeypatch):
    folder = corpus / request.param
    monkeypatch.chdir(folder)
    return folder


def test_dump_log_prints_the_recorded_output_of_the_real_tool(case):
    before = everything(case)
    tried = 0
    for folder in (case / "expected", case / "expected-extra"):
        if (folder / "COMMANDS.tsv").exists():
            tried += len(list(commands(folder)))
            assert list(mismatches(case, folder)) == []
    assert tried > 0 or case.name in ("format-0.7", "killed")
    assert everything(case) == before


def test_nothing_is_left_out(corpus):
    codes, names = Counter(), set()
    for folder in sorted(corpus.glob("*/expected*")):
        if (folder / "COMMANDS.tsv").exists():
            found = list(commands(folder))
            codes.update(code for _, code, _ in found)
            names |= {name for name, _, _ in found}
    assert codes == {0: 5838, 1: 215}
    assert set(USAGE) <= names


INSTALLED = [[sys.executable, "-m", "kafkalog_cli"], [str(Path(sys.executable).with_name("kafkalog"))]]
FEW = 4


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["v2-mixed", "txn", "v0", "upgraded", "internal", "compact-tx", "crash-zero-tail"])
def test_the_installed_command_prints_the_recorded_output_of_the_real_tool(corpus, monkeypatch, name):
    """A few through a process of its own: the entry point, the real streams."""
    case = corpus / name
    monkeypatch.chdir(case)
    recorded, found = outputs(case / "expected"), list(commands(case / "expected"))
    for at, (output, code, argv) in enumerate(found[:: len(found) // FEW + 1]):
        program = INSTALLED[at % 2] if Path(INSTALLED[1][0]).exists() else INSTALLED[0]
        done = subprocess.run(
            [*program, "dump-log", "--kafka-version", "4.2", *argv],
            capture_output=True,
            check=False,
            env=os.environ | {"LC_ALL": "C"},
        )
        assert (done.returncode, done.stdout) == (code, recorded[output]), argv
        if code == 0:
            assert done.stderr == recorded.get(output + ".err", b"").replace(b"$PWD", str(case).encode()), argv
        else:
            assert done.stderr.startswith(b"kafkalog: "), argv
