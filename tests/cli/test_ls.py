"""`kafkalog ls` as a command: text in a pipe and on a terminal, NDJSON, selections, exit codes, hostile names."""

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

from kafkalog_cli.cli.app import run
from kafkalog_cli.cli.environment import Environment
from tests.support.commands import kafkalog

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "example"
CONTROL = re.compile(rb"[\x00-\x09\x0b-\x1f\x7f]")
HOLDER = (
    "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"
)


class Terminal(io.BytesIO):
    def isatty(self):
        return True


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


def test_a_row_a_partition_under_a_summary_of_the_log_directory():
    code, out, err = ls(EXAMPLE)
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == f"{EXAMPLE}: unclean shutdown"
    assert "\n2 topics, 3 partitions, 3 segments: 22 KiB (log 21 KiB, index 264 bytes, " in out
    rows = table(out, "PARTITION")
    assert [row["PARTITION"] for row in rows] == ["levels-0", "mixed-0", "mixed-1"]
    assert [row["END"] for row in rows] == ["200", "125", "125"]
    assert (EXAMPLE / "levels-0" / "00000000000000000000.log").stat().st_size == 6750
    assert rows[0]["LOG"] == "6.6 KiB"
    assert {row["FAULTS"] for row in rows} == {"0"}


def test_a_row_a_segment(corpus):
    code, out, _ = ls(corpus / "txn" / "data", "--segments", "--topic", "tx")
    rows = table(out, "PARTITION")
    assert code == 0
    assert [row["BASE"] for row in rows] == ["0", "20", "92", "94", "167", "177", "258"]
    assert [row["NEXT"] for row in rows] == ["20", "92", "94", "167", "177", "258", "282"]
    assert [row["TXNINDEX"] for row in rows] == ["-", "34 bytes", "-", "68 bytes", "-", "68 bytes", "-"]


def test_open_transactions_and_leftovers_have_tables(corpus):
    _, out, _ = ls(corpus / "txn" / "data")
    assert table(out, "OPEN TRANSACTION IN")[0]["FIRST OFFSET"] == "189"
    assert table(ls(corpus / "txn" / "data", "--no-transactions")[1], "PARTITION")[3]["TXNS"] == "?"
    _, out, _ = ls(corpus / "crash-cleaned" / "before")
    states = [row["STATE"] for row in table(out, "LEFTOVER")]
    assert states == ["cleaned"] * 3
    _, out, _ = ls(corpus / "clean-orphan-index" / "before")
    assert [row["STATE"] for row in table(out, "LEFTOVER")] == ["orphan"]


def test_a_high_watermark_without_a_checkpoint_says_so(log_dir):
    (log_dir / "replication-offset-checkpoint").unlink()
    rows = table(ls(log_dir)[1], "PARTITION")
    assert {row["WATERMARK"] for row in rows} == {"end"}
    _, objects, _ = ls_json(log_dir)
    assert {(o["high_watermark_from"], o["high_watermark"] == o["log_end_offset"]) for o in objects[:3]} == {
        ("log-end", True)
    }


def test_partitions_and_files_given_one_by_one(log_dir):
    first, second = log_dir / "mixed-1", log_dir / "mixed-0"
    code, out, _ = ls(first, second, log_dir / "levels-0" / "*.log", first / "partition.metadata")
    assert code == 0
    assert out.count("PARTITION") == 2, "one table for partitions, one for the segment"
    assert [row["PARTITION"] for row in table(out, "PARTITION")] == [str(first), str(second)]
    assert table(out, "FILE")[0]["KIND"] == "partition metadata"
    assert f"{log_dir}/levels-0" in out


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--topic", "mixed"], ["mixed-0", "mixed-1"]),
        (["--topic", "mixed", "--topic", "levels", "--partition", "0"], ["levels-0", "mixed-0"]),
        (["--topic-pattern", "m.*d"], ["mixed-0", "mixed-1"]),
        (["--partition", "1", "--partition", "7"], ["mixed-1"]),
    ],
)
def test_selections(options, expected):
    code, objects, _ = ls_json(EXAMPLE, *options)
    names = [Path(o["path"]).name for o in objects if o["type"] == "partition"]
    assert (code, names) == (0, expected)
    assert objects[-2]["partitions"] == objects[-1]["partitions"] == len(expected)


def test_ndjson_has_a_schema_a_line_and_a_summary_last(corpus):
    code, objects, errors = ls_json(corpus / "internal" / "data")
    assert [o["schema"] for o in objects] == ["kafkalog.partition/1"] * 9 + ["kafkalog.logdir/1", "kafkalog.summary/1"]
    assert (code, errors, objects[-1]["exit_code"]) == (0, [], 0)
    summary, directory, partitions = objects[-1], objects[-2], objects[:-2]
    assert summary["segments"] == directory["segments"] == sum(p["segments"] for p in partitions)
    assert summary["bytes"] == directory["bytes"]["total"] == sum(p["bytes"]["total"] for p in partitions)
    metadata = partitions[0]
    assert metadata["metadata_snapshots"][0]["epoch"] == 1
    assert metadata["quorum_state"] == {"data_version": 0, "leader_id": 1, "leader_epoch": 2, "voted_id": -1}
    assert directory["meta_properties"]["node_id"] == 1
    assert directory["directories"] == {"partition": 7, "delete": 2}


def test_ndjson_of_segments_and_files():
    code, objects, _ = ls_json(EXAMPLE / "mixed-0", EXAMPLE / "meta.properties", "--segments")
    assert code == 0
    assert [o["type"] for o in objects] == ["segment", "file", "summary"]
    assert objects[0]["next_offset"] == 125
    assert objects[1]["kind"] == "meta_properties"


def test_faults_are_in_the_row_on_stderr_and_in_the_exit_code(corpus):
    path = corpus / "clean-torn" / "before"
    code, out, err = ls(path)
    assert (code, table(out, "PARTITION")[0]["FAULTS"]) == (3, "2")
    assert f"kafkalog: {path}/clean-torn-0/00000000000000000099.log: at byte 1435: the last 286 bytes are" in err
    code, objects, errors = ls_json(path)
    assert (code, objects[-1]["exit_code"], objects[-1]["faults"]) == (3, 3, 2)
    assert [e["kind"] for e in errors] == ["trailing-bytes", "invalid-entry"]
    assert [f["position"] for f in objects[0]["faults"]] == [1435, 0]


def test_damage_in_a_closed_segment_is_corruption(corpus, tmp_path):
    shutil.copytree(corpus / "txn" / "data", tmp_path / "logs")
    with (tmp_path / "logs" / "idem-0" / "00000000000000000053.log").open("ab") as log:
        log.write(b"torn")
    assert ls(tmp_path / "logs", "--segments")[0] == 4
    assert ls(tmp_path / "logs")[0] == 0, "without --segments only the last segment is looked at"


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        ([], 2),
        (["nowhere"], 10),
        (["no*thing"], 10),
        ([EXAMPLE, "--topic", "nope"], 10),
        ([EXAMPLE, "--topic-pattern", "("], 2),
        ([EXAMPLE, "nowhere"], 5),
        ([ROOT / "kafkalog_cli" / "format"], 10),
    ],
)
def test_exit_codes(argv, code):
    found, out, err = ls(*argv)
    assert (found, err.count("\n")) == (code, 1) or code == 2
    assert err
    assert bool(out) == (code == 5)


def test_a_run_that_failed_has_a_summary_too():
    code, objects, errors = ls_json("nowhere")
    assert (code, [o["type"] for o in objects], objects[0]["exit_code"]) == (10, ["summary"], 10)
    assert errors[0]["type"] == "error"


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


def test_a_pipe_gets_plain_text(corpus):
    assert "\x1b" not in ls(corpus / "txn" / "data")[1]


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


def test_nothing_is_created_or_changed(log_dir):
    def state():
        return sorted((str(p), p.lstat().st_mtime_ns, p.lstat().st_size) for p in log_dir.rglob("*"))

    before = state()
    ls(log_dir, "--segments")
    ls(log_dir / "mixed-0")
    assert state() == before


def test_a_thousand_partitions_without_anything_heavy(tmp_path):
    """A listing must begin at once: neither numpy nor rich is imported for a pipe."""
    copied = shutil.copytree(EXAMPLE / "mixed-0", tmp_path / "copied")  # links of one file system only
    for number in range(1000):
        directory = tmp_path / "logs" / f"topic-{number}"
        directory.mkdir(parents=True)
        for name in ("00000000000000000000.log", "00000000000000000000.index", "00000000000000000000.timeindex"):
            (directory / name).hardlink_to(copied / name)
    code = (
        "import sys; from kafkalog_cli.cli.app import run; code = run(sys.argv[1:]);"
        "sys.stderr.write(' '.join({'numpy', 'numba', 'rich', 'pyarrow'} & sys.modules.keys())); sys.exit(code)"
    )
    command = [sys.executable, "-c", code, "ls", str(tmp_path / "logs")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    rows = table(done.stdout, "PARTITION")
    assert len(rows) == 1000
    assert {row["END"] for row in rows} == {"125"}
    assert [row["PARTITION"] for row in rows[:11]] == [f"topic-{n}" for n in range(11)]
