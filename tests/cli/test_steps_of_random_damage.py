"""One to three random damages to a log directory, then only the commands that verify prints, literally.

The end is a clean verify, or findings whose words state why nothing more can be done.
"""

import os
import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.test_every_next_step import CONTROL, STATED, TRANSACTIONAL, commands_of, findings, follow
from tests.damage.test_repair_is_enough import SOURCES, copied, damage
from tests.support.effort import DIAL
from tests.support.logs import BASE_TIME_MS, R, batch_v2

CASES = 416
ALL_SOURCES = {
    **SOURCES,
    "format-0.7/data": "mixed-0",
    "v0/data": "v0-gzip-0",
    "v1/data": "v1-lz4-0",
    "v2-mixed/data": "mixed-0",
    "compact-tx/after": "cmp-tx-0",
    "retention/before": "ret-records-0",
    "remote/data": "tiered-0",
    "internal/data": "__consumer_offsets-0",
}
MALFORMED = (b"", b"0\n1\nx\n", b"\xff\xfe", b"0\n2\na 0 1\n", b"0\n1\na 0 99999999999999999999\n", b" 0\n1\n a 0 3\n")
ROOT_FILES = (
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    ".kafka_cleanshutdown",
)
JUNK = ("notes.txt", "x.swap", "x.cleaned", f"{3:020}.timeindex", f"{99:020}.snapshot", f"{7:020}.log.deleted")
MARKS = ("delete", "stray", "future")
BAD_MARKER_KEYS = (b"\0", b"\0\0\0\2", b"\0\0\0\1", b"\0\0\x79\x2d")


def damage_of_logs(chance, disk, partition):
    """Damage in the middle of a log, or a log that is gone."""
    log = chance.choice(sorted([*partition.glob("*.log"), *partition.glob("*.kafka")]))
    data = bytearray(log.read_bytes())
    kind = chance.choice(["flip", "cut out", "no segment", "empty", "marker", "offset", "magic", "names"])
    if kind == "flip" and data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        log.write_bytes(data)
    elif kind == "cut out" and len(data) > 200:
        at = chance.randrange(len(data) - 100)
        log.write_bytes(data[:at] + data[at + chance.choice([1, 61, 100]) :])
    elif kind == "no segment" and len([*partition.glob("*.log")]) > 1:
        for path in partition.glob(f"{log.stem}.*"):
            path.unlink()
    elif kind == "offset" and data:
        data[:8] = chance.choice([bytes(8), b"\xff" * 8, (1 << 40).to_bytes(8, "big")])
        log.write_bytes(data)
    elif kind == "magic" and len(data) > 16:
        data[16] = chance.choice([0, 1, 2, 3, 255])
        log.write_bytes(data)
    elif kind == "names":
        log.rename(log.with_name(f"{int(log.stem) + chance.choice([1, 1000]):020}{log.suffix}"))
    elif kind == "empty":
        log.write_bytes(b"")
    elif kind == "marker":
        record = R(10**5, BASE_TIME_MS, chance.choice(BAD_MARKER_KEYS), None)
        log.write_bytes(data + batch_v2([record], producer=(1, 0, -1), bits=CONTROL | TRANSACTIONAL))


def damage_of_names(chance, disk, partition):
    """Files and directories that nobody expects, and malformed files of the log directory."""
    kind = chance.choice(["junk", "directory", "root", "odd root", "runs", "twin"])
    if kind == "junk":
        (partition / chance.choice(JUNK)).write_bytes(chance.randbytes(chance.choice([0, 5, 40])))
    elif kind == "directory":
        path = chance.choice(sorted(path for path in partition.iterdir() if path.is_file() and path.suffix != ".log"))
        path.unlink()
        path.mkdir()
    elif kind == "root":
        (disk / chance.choice(ROOT_FILES)).write_bytes(chance.choice(MALFORMED))
    elif kind == "odd root":
        path = disk / chance.choice(ROOT_FILES)
        path.unlink(missing_ok=True)
        chance.choice([os.mkdir, os.mkfifo, lambda path: path.symlink_to("/etc/passwd")])(path)
    elif kind == "runs":
        (partition / ".kafkalog").write_bytes(b"")
    else:
        shutil.copytree(partition, disk / f"{partition.name}.{'ab' * 16}-{chance.choice(MARKS)}", dirs_exist_ok=True)


def is_stated(line):
    step = line["next_step"] or ""
    return line["kind"] == "missing-offsets" or STATED.search(step) or "--metadata DIR" in step


@pytest.mark.exhaustive
@pytest.mark.parametrize("source", ALL_SOURCES)
def test_the_printed_steps_lead_to_an_end(corpus, tmp_path, monkeypatch, source, evidence):
    count = DIAL.part(CASES // len(ALL_SOURCES))
    for seed in range(count):
        chance = random.Random(f"steps {source} {seed}")
        home = tmp_path / str(seed)
        home.mkdir()
        monkeypatch.chdir(home)
        disk, partition = copied(corpus, source, ALL_SOURCES[source], Path())
        for _ in range(chance.choice([1, 1, 2, 3])):
            with suppress(IsADirectoryError, IndexError):  # an earlier damage, or no file of the kind
                chance.choice([damage, damage_of_logs, damage_of_names])(chance, disk, partition)
        argv = [disk, *chance.choice([[], ["--level", "deep"]])]
        for line in findings(argv)[1]:
            assert line["severity"] == "info" or commands_of(line) or is_stated(line), (seed, line)
        is_clean, left, done = follow(argv, [disk], None)
        ends = [line for line in left if line["severity"] != "info" and not is_stated(line)]
        assert is_clean or not ends, (seed, ends, done)
        shutil.rmtree(home)
    evidence("R68", count, len(ALL_SOURCES))
