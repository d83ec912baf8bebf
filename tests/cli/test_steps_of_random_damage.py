"""One to three random damages to a log directory, then only the commands that verify prints, literally.

The end is a clean verify, or findings whose words state why nothing more can be done.
"""

import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from tests.bad_input.test_repair_is_enough import SOURCES, copied, damage
from tests.cli.test_every_next_step import CONTROL, STATED, TRANSACTIONAL, commands_of, findings, follow
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.sampling import part_of

CASES = 160
MALFORMED = (b"", b"0\n1\nx\n", b"\xff\xfe", b"0\n2\na 0 1\n", b"0\n1\na 0 99999999999999999999\n", b" 0\n1\n a 0 3\n")
ROOT_FILES = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", ".kafka_cleanshutdown")
JUNK = ("notes.txt", "x.swap", "x.cleaned", f"{3:020}.timeindex", f"{99:020}.snapshot", f"{7:020}.log.deleted")
MARKS = ("delete", "stray", "future")
BAD_MARKER_KEYS = (b"\0", b"\0\0\0\2", b"\0\0\0\1", b"\0\0\x79\x2d")


def damage_of_logs(chance, disk, partition):
    """Damage in the middle of a log, or a log that is gone."""
    log = chance.choice(sorted(partition.glob("*.log")))
    data = bytearray(log.read_bytes())
    kind = chance.choice(["flip", "cut out", "no segment", "empty", "marker"])
    if kind == "flip" and data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        log.write_bytes(data)
    elif kind == "cut out" and len(data) > 200:
        at = chance.randrange(len(data) - 100)
        log.write_bytes(data[:at] + data[at + chance.choice([1, 61, 100]) :])
    elif kind == "no segment" and len([*partition.glob("*.log")]) > 1:
        for path in partition.glob(f"{log.stem}.*"):
            path.unlink()
    elif kind == "empty":
        log.write_bytes(b"")
    elif kind == "marker":
        record = R(10**5, BASE_TIME_MS, chance.choice(BAD_MARKER_KEYS), None)
        log.write_bytes(data + batch_v2([record], producer=(1, 0, -1), bits=CONTROL | TRANSACTIONAL))


def damage_of_names(chance, disk, partition):
    """Files and directories that nobody expects, and malformed files of the log directory."""
    kind = chance.choice(["junk", "directory", "root", "twin"])
    if kind == "junk":
        (partition / chance.choice(JUNK)).write_bytes(chance.randbytes(chance.choice([0, 5, 40])))
    elif kind == "directory":
        path = chance.choice(sorted(path for path in partition.iterdir() if path.is_file() and path.suffix != ".log"))
        path.unlink()
        path.mkdir()
    elif kind == "root":
        (disk / chance.choice(ROOT_FILES)).write_bytes(chance.choice(MALFORMED))
    else:
        shutil.copytree(partition, disk / f"{partition.name}.{'ab' * 16}-{chance.choice(MARKS)}", dirs_exist_ok=True)


def is_stated(line):
    step = line["next_step"] or ""
    return line["kind"] == "missing-offsets" or STATED.search(step) or "--metadata DIR" in step


@pytest.mark.exhaustive
@pytest.mark.parametrize("source", SOURCES)
def test_the_printed_steps_lead_to_an_end(corpus, tmp_path, monkeypatch, source, evidence):
    count = part_of(CASES // len(SOURCES))
    for seed in range(count):
        chance = random.Random(f"steps {source} {seed}")
        home = tmp_path / str(seed)
        home.mkdir()
        monkeypatch.chdir(home)
        disk, partition = copied(corpus, source, Path())
        for _ in range(chance.choice([1, 1, 2, 3])):
            with suppress(IsADirectoryError):  # an earlier damage
                chance.choice([damage, damage_of_logs, damage_of_names])(chance, disk, partition)
        argv = [disk, *chance.choice([[], ["--level", "deep"]])]
        for line in findings(argv)[1]:
            assert line["severity"] == "info" or commands_of(line) or is_stated(line), (seed, line)
        is_clean, left, done = follow(argv, [disk], None)
        ends = [line for line in left if line["severity"] != "info" and not is_stated(line)]
        assert is_clean or not ends, (seed, ends, done)
        shutil.rmtree(home)
    evidence("R68", count, len(SOURCES))
