"""Marks that are too many for memory are the same marks, and their number does not show in the memory that is used."""

import errno
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.broker.cleaning.key_table import KeySlice, KeyTable
from kafkalog_cli.broker.cleaning.marks import GONE, TOMBSTONE, Marks
from tests.unit.test_cleaning import blocks, keyed_log

ROOT = Path(__file__).parents[2]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3)), max_size=30), st.integers(0, 40))
def test_marks_in_a_file_are_those_in_memory(steps, held_bytes):
    marks, model = Marks(held_bytes), bytearray()
    for end, mark in steps:
        assert marks.reach(end) == (end > len(model))
        model.extend(bytes(max(0, end - len(model))))
        if end:
            marks.flags[end // 2] |= mark
            model[end // 2] |= mark
        assert marks.count == len(model)
        assert marks.start_of(marks.count) == len(model)
        assert bytes(marks.part(0, marks.count)) == bytes(model)
    assert marks.kept(0, len(model)) == (sum(not mark & GONE for mark in model), model.count(TOMBSTONE))


def test_a_table_sets_the_same_marks_in_a_file_as_in_memory():
    chosen, data = keyed_log(20_000, 4000, 30)
    found = []
    for held_bytes in (1 << 20, 5000):
        marks = Marks(held_bytes)
        table, at = KeyTable(marks, 1 << 24, KeySlice()), 0
        for block in blocks(data):
            marks.reach(at + block.record_count)
            assert table.put(block, 0, block.record_count, at) == block.record_count
            marks.note(block, 0, block.record_count, at, counts=True)
            at += block.record_count
        found.append(bytes(marks.part(0, marks.count)))
    assert found[0] == found[1]
    assert found[0].count(0) == len(set(chosen))


class NoRoom:
    def __call__(self, **_):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_marks_stay_in_memory_where_a_file_has_no_room(monkeypatch):
    marks = Marks(10)
    marks.reach(5)
    marks.flags[3] |= GONE
    monkeypatch.setattr(tempfile, "TemporaryFile", NoRoom())
    marks.reach(50)
    assert marks.kept(0, 50) == (49, 0)
    assert len(marks.flags) == 50


@pytest.mark.parametrize("when", ["written", "mapped"])
def test_marks_go_back_into_memory_when_room_ends(monkeypatch, when):
    marks = Marks(10)
    marks.reach(50)
    marks.flags[30] |= GONE

    def fails(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    if when == "written":
        marks._file.close()
        marks._file = type("Full", (), {"seek": lambda *_: 0, "write": fails})()
    else:
        monkeypatch.setattr("mmap.mmap", type("Refused", (type(marks.flags),), {"__new__": fails}))
    marks.reach(500)
    assert isinstance(marks.flags, bytearray)
    assert marks.kept(0, 500) == (499, 0)


GROWTH = """
import os, random, resource, sys
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from kafkalog_cli.broker.cleaning import marking
from kafkalog_cli.broker.cleaning.cleaner import Cleaner, CleaningRequest
from kafkalog_cli.broker.cleaning.log import CleanableLog
from kafkalog_cli.broker.cleaning.marks import Marks
from kafkalog_cli.broker.cleaning.output import IndexLimits
from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.log.partition import open_partition

fs = RealFilesystem()
marking.Marks = lambda _: Marks(1 << 20)  # the keys here need more than three times that
EACH = 10_000
templates = [
    batch_v2([R(at, BASE_TIME_MS, b"%d" % (at * 40 + shift), b"") for at in range(EACH)], codec=4)
    for shift in range(40)
]
chance = random.Random(1)


class Nowhere:
    def create(self, name, mtime_ms):
        return self
    def finish(self, file):
        pass
    def write(self, position, data):
        pass


def clean(count):
    directory = f"{sys.argv[1]}/{count}-0"
    os.mkdir(directory)
    for base, batches in ((0, count), (count * EACH, 0)):
        with open(f"{directory}/{base:020d}.log", "wb") as log:
            for at in range(batches):  # a batch's CRC does not cover its base offset
                log.write((at * EACH).to_bytes(8, "big") + chance.choice(templates)[8:])
        for kind in ("index", "timeindex"):
            open(f"{directory}/{base:020d}.{kind}", "wb").close()
    log = CleanableLog(fs, open_partition(fs, directory).segments)
    marks = marking.mark(log, marking.MarkingRequest(0, count * EACH, BASE_TIME_MS))
    assert marks.count == count * EACH
    request = CleaningRequest(BASE_TIME_MS, 0, count * EACH, 1 << 30, IndexLimits(4096, 1 << 20), {}, count * EACH)
    cleaner = Cleaner(log, marks, request, Nowhere())
    list(cleaner.groups())
    assert cleaner.counts.records_kept == EACH * 40, cleaner.counts.records_kept
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


_, few, many = map(clean, (401, 400, 1600))  # the first cleaning makes what stays in memory
print(few, many)
"""


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system lets go of mapped files when it likes")
def test_memory_of_a_cleaning_does_not_grow_with_the_log(tmp_path):
    """16 million records take no more than 4 million do; a byte for each would be 12 MB more."""
    command = [sys.executable, "-c", GROWTH, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    few, many = map(int, done.stdout.split())
    assert many - few < 6, done.stdout
