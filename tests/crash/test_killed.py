"""SIGKILL of a real process at work on a real disk, at any time; what it left is put right, and nothing is lost."""

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from enum import Enum
from pathlib import Path

import pytest

from tests.crash.partitions_on_disk import SOUND_NAMES, all_records, read, write
from tests.crash.writers import RETAIN_NOTHING, ROLL, ROOT, SETTINGS, Left, kafkalog
from tests.support.effort import DIAL
from tests.support.product import RealFilesystem
from tests.support.product_journal import WRITERS_IN_A_PROCESS

KILLS = 20 * DIAL.scale
GROUPS = 4
MORE_KILLS = 30
AT_WORK = """
    import sys
    from unittest import mock
    {planted}
    environment = Environment()
    with mock.patch("secrets.token_hex", return_value="0001"):
        environment.now_ms()
        print("ready", flush=True)
        sys.stdin.readline()
        code = app.run(sys.argv[1:])
    sys.exit(code)
"""


class Hit(Enum):
    """When a kill came."""

    BEFORE = "before it wrote"
    WHILE_IT_WROTE = "while it wrote"
    AFTER = "after its end"


def in_process(*argv, token):
    """A command line on the real disk, by the real clock."""
    return kafkalog(RealFilesystem(), *argv, now_ms=int(time.time() * 1000), token=token)


def process(argv, planted=""):
    """A process that has imported what it needs and waits for a line."""
    code = WRITERS_IN_A_PROCESS + textwrap.dedent(AT_WORK).format(planted=planted)
    root = Path(__file__).parents[2]
    found = subprocess.Popen(
        [sys.executable, "-c", code, *argv],
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert found.stdout.readline() == b"ready\n"
    return found


def end(child, after_s=None):
    """Let it go, and kill it `after_s` later; its exit code and how long it took."""
    begun = time.monotonic()
    child.stdin.write(b"\n")
    child.stdin.flush()
    if after_s is None:
        child.wait()
    else:
        time.sleep(after_s)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    for stream in (child.stdin, child.stdout):
        stream.close()
    return child.returncode, time.monotonic() - begun


def runs(root):
    return sorted({path.name for path in root.glob("*/.kafkalog/*/") if path.is_dir()}, reverse=True)


def undo_all(root):
    for run_id in runs(root):
        outcome = in_process("undo", str(root), run_id, token="0004")
        assert outcome.code == 0, outcome


def check(root, before, wanted):
    """What lies there after a kill."""
    there = read(root)
    recovered = in_process("recover", str(root), *SETTINGS, token="0002")
    assert recovered.code == 0, recovered
    assert all_records(read(root)) == wanted
    again = in_process("recover", str(root), *SETTINGS, "--quiet", token="0003")
    assert (again.code, again.out) == (0, ""), again
    undo_all(root)
    assert read(root) == before, "what went was not all kept"
    return there


def kill_at(root, share, whole, planted=""):
    """Kill a recovery after that share of its time; when that was."""
    length_s, wanted = whole
    write(root)
    before = read(root)
    argv = ["recover", str(root), *SETTINGS, "--quiet", "--jobs", "2"]
    code, _ = end(process(argv, planted), share * length_s)
    there = check(root, before, wanted)
    return when(code, there != before)


def when(code, has_written):
    """When a kill came, by the exit code and by whether anything had changed."""
    if code != -signal.SIGKILL:
        return Hit.AFTER
    return Hit.WHILE_IT_WROTE if has_written else Hit.BEFORE


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """How long a recovery takes that nobody kills, and the records that it leaves (a swap is finished)."""
    root = tmp_path_factory.mktemp("whole")
    write(root)
    code, length = end(process(["recover", str(root), *SETTINGS, "--quiet", "--jobs", "2"]))
    assert code == 0
    assert runs(root)
    return length, all_records(read(root))


def kill_at_times(name, evidence, kill):
    """Call `kill` with a number and a share of the whole time, all over it; `name` chooses where exactly.

    A run may be quicker or slower than the first, and writes for a part of its time only: more kills search that part.
    """
    chance = random.Random(f"{name} {DIAL.scale}")
    kills = KILLS // GROUPS
    hits = [kill(n, (n + chance.random()) / kills) for n in range(kills)]
    low, high = 0.0, 2.0
    while Hit.WHILE_IT_WROTE not in hits and len(hits) < kills + MORE_KILLS:
        share = (low + high) / 2
        hits.append(kill(len(hits), share))
        low, high = (share, high) if hits[-1] is Hit.BEFORE else (low, share)
        if high - low < 0.01:
            low, high = 0.0, 2.0
    assert Hit.WHILE_IT_WROTE in hits, "never while it wrote"
    evidence("R5", kills, GROUPS + len(CHANGERS) + 1)


@pytest.mark.exhaustive
@pytest.mark.parametrize("group", range(GROUPS))
def test_a_real_process_killed_at_any_time_leaves_a_log_that_undo_or_a_second_run_completes(
    group, whole, tmp_path, evidence
):
    kill_at_times(group, evidence, lambda n, share: kill_at(tmp_path / f"log-{n}", share, whole))


# -- of sound logs

CHANGERS = (ROLL, RETAIN_NOTHING)
LOGS = {kind: directory for kind, directory in SOUND_NAMES.items() if kind != "compacted"}
"""What is due there of earlier runs does not come back."""


def change(root, writer, token, *more):
    return in_process(*(str(root) if word == ROOT else word for word in writer.argv), *more, token=token)


def kill_a_change_at(root, writer, share, length_s):
    """Kill it after that share of its time; when that was."""
    write(root, LOGS)
    before = read(root)
    argv = [str(root) if word == ROOT else word for word in writer.argv]
    code, _ = end(process([*argv, "--quiet"]), share * length_s)
    there = read(root)
    hit = when(code, there != before)
    for directory, found in all_records(there).items():
        whole = all_records(before)[directory]
        assert found == (whole if writer.left is Left.ALL else whole[len(whole) - len(found) :]), directory
    again = change(root, writer, "0002")
    assert again.code == 0, again
    idle = change(root, writer, "0003", "--quiet")
    assert (idle.code, idle.out) == (0, ""), idle
    undo_all(root)
    assert read(root) == before, "what went was not all kept"
    return hit


@pytest.mark.full
@pytest.mark.parametrize("writer", CHANGERS, ids=[writer.name for writer in CHANGERS])
def test_a_killed_writer_process_leaves_the_log_as_before_or_after(writer, tmp_path, evidence):
    write(tmp_path / "whole", LOGS)
    argv = [str(tmp_path / "whole") if word == ROOT else word for word in writer.argv]
    code, length_s = end(process([*argv, "--quiet"]))
    assert code == 0
    kill_at_times(
        writer.name, evidence, lambda n, share: kill_a_change_at(tmp_path / f"log-{n}", writer, share, length_s)
    )


# -- appends

APPENDED = [b"appended %d" % at for at in range(4000)]


def append_argv(root, lines):
    options = "--input lines --single-replica --batch-bytes 300"
    settings = "--config internal.segment.bytes=20000 --config flush.messages=50"
    return ["append", str(root / SOUND_NAMES["sound"]), str(lines), *f"{options} {settings}".split(), *SETTINGS]


def kill_an_append_at(root, lines, share, length_s):
    """Kill it after that share of its time; when that was."""
    write(root, LOGS)
    before = read(root)
    code, _ = end(process(append_argv(root, lines)), share * length_s)
    hit = when(code, read(root) != before)
    grown = SOUND_NAMES["sound"]
    for _ in range(2):
        for directory, found in all_records(read(root)).items():
            whole = all_records(before)[directory]
            assert found[: len(whole)] == whole, directory
            new = [value for _, _, value in found[len(whole) :]]
            assert new == (APPENDED[: len(new)] if directory == grown else []), directory
        recovered = in_process("recover", str(root), *SETTINGS, token="0002")
        assert recovered.code == 0, recovered
    undo_all(root)
    assert read(root) == before, "what came was not all taken back"
    return hit


@pytest.mark.full
def test_a_killed_append_process_keeps_whole_batches(tmp_path, evidence):
    lines = tmp_path / "lines"
    lines.write_bytes(b"\n".join(APPENDED))
    write(tmp_path / "whole", LOGS)
    code, length_s = end(process(append_argv(tmp_path / "whole", lines)))
    assert code == 0
    kill_at_times("append", evidence, lambda n, share: kill_an_append_at(tmp_path / f"log-{n}", lines, share, length_s))


# -- what the harness finds


@pytest.mark.full
def test_a_run_that_keeps_nothing_is_noticed(whole, tmp_path):
    """As if what is cut off were thrown away."""
    planted = "journal._Application._stage_cut = lambda self, at, change, origin: journal.PlannedChange("
    planted += (
        "journal.ChangeKind.CUT, change.name, origin=origin, from_bytes=change.from_bytes, to_bytes=change.to_bytes)"
    )
    with pytest.raises(AssertionError, match="did not keep"):  # noqa: PT012
        for n in range(10):
            kill_at(tmp_path / f"log-{n}", 1 + n / 3, whole, planted)
