"""`kafkalog ls` on a terminal, beside a broker, with hostile names and many partitions; tests/transcripts/listing.md has what it prints."""

import base64
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import Terminal, kafkalog, loaded_modules
from tests.support.product import Environment, run

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "example"
CONTROL = re.compile(rb"[\x00-\x09\x0b-\x1f\x7f]")
HOLDER = (
    "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"
)


def ls(*argv, stdout=None):
    return kafkalog("ls", *argv, stdout=stdout)


def ls_json(*argv):
    code, out, err = ls(*argv, "--format", "json")
    return code, [json.loads(line) for line in out.splitlines()], [json.loads(line) for line in err.splitlines()]


def table(out, first_title):
    """The rows of the table whose first column has this title, as dicts."""
    lines = out.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(first_title))
    titles = re.split(r" {2,}", lines[start])
    rows = []
    for line in lines[start + 1 :]:
        if not line:
            break
        rows.append(dict(zip(titles, re.split(r" {2,}", line.strip()), strict=True)))
    return rows


@pytest.fixture
def log_dir(tmp_path):
    return shutil.copytree(EXAMPLE, tmp_path / "logs")


def test_names_with_control_characters_stay_out_of_the_terminal(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("NO_COLOR", "1")
    directory = os.fsencode(tmp_path) + b"/a\x1b[31mb\nc\xff\x9b-0"
    os.mkdir(directory)  # noqa: PTH102  (bytes)
    for name in (b"0.log", b"\x1b]0;x\x07.log.swap", b"\rother", b"1.log"):
        Path(os.fsdecode(directory + b"/" + name)).write_bytes(b"torn")
    for stdout in (io.BytesIO(), Terminal()):
        stderr = io.BytesIO()
        code = run(["ls", str(tmp_path), os.fsdecode(directory) + "/0.log"], Environment(stdout=stdout, stderr=stderr))
        assert code in (3, 4)
        for text in (stdout.getvalue(), stderr.getvalue()):
            assert b"\x1b[31m" not in text
            assert not CONTROL.search(re.sub(rb"\x1b\[[0-9;]*m", b"", text))
    code, objects, _ = ls_json(tmp_path)
    assert base64.b64decode(objects[0]["path_b64"]) == directory
    assert objects[0]["leftovers"][0]["name"] == "\x1b]0;x\x07.log.swap"


def test_a_terminal_gets_a_table_that_fits(corpus, monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for width in (60, 100, 240):
        monkeypatch.setenv("COLUMNS", str(width))
        code, out, _ = ls(corpus / "txn" / "data", stdout=Terminal())
        lines = out.splitlines()
        plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
        begin = plain.index("") + 1
        rows = plain[begin : begin + 7]
        assert code == 0
        assert "\x1b[" in lines[begin]
        assert all(len(line) <= width or " " not in line.strip() for line in plain[:begin]), "only a long path is wider"
        assert max(map(len, rows)) <= width
        assert rows[0].split()[0] == "PARTITION"
        assert "tx2-1" in rows[-1]
        assert "CLEANER" not in rows[0], "a column without a value"
        assert ("do not fit: add `| cat`" in out) == (width < 200)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[1;36m" not in ls(corpus / "txn" / "data", stdout=Terminal())[1]


def test_a_broker_that_runs_is_named(log_dir):
    (log_dir / ".lock").touch()
    command = [sys.executable, "-c", HOLDER, str(log_dir / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        code, out, err = ls(log_dir, log_dir / "mixed-0", log_dir / "mixed-1")
        assert code == 0
        assert out.splitlines()[0] == f"{log_dir}: a broker is running, pid {holder.pid}"
        assert err == f"kafkalog: {log_dir}: a broker is running on it (pid {holder.pid}): what is read may change\n"
        _, objects, errors = ls_json(log_dir)
        assert objects[-2]["lock"] == {"pid": holder.pid, "exclusive": True}
        assert (objects[-2]["shutdown"], errors[0]["kind"]) == ("running", "locked")
        holder.stdin.close()


def test_ls_of_a_thousand_partitions_imports_nothing_heavy(tmp_path):
    """A listing must begin at once: neither numpy nor rich is imported for a pipe."""
    copied = shutil.copytree(EXAMPLE / "mixed-0", tmp_path / "copied")  # links of one file system only
    for number in range(1000):
        directory = tmp_path / "logs" / f"topic-{number}"
        directory.mkdir(parents=True)
        for name in ("00000000000000000000.log", "00000000000000000000.index", "00000000000000000000.timeindex"):
            (directory / name).hardlink_to(copied / name)
    code, printed, modules = loaded_modules("ls", tmp_path / "logs")
    assert (code, modules & {"numpy", "rich", "pyarrow"}) == (0, set())
    rows = table(printed, "PARTITION")
    assert len(rows) == 1000
    assert {row["END"] for row in rows} == {"125"}
    assert [row["PARTITION"] for row in rows[:11]] == [f"topic-{n}" for n in range(11)]
