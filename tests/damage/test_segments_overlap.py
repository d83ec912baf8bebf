"""Segments whose offsets reach into the next: a wrong base offset in the last batch, or files with wrong names.

No CRC covers a base offset, and no broker compares a segment's last offset with the next file's name: consumers miss
records, or lose the records after them.
"""

import itertools
import json
import struct

import pytest

from tests.support.commands import kafkalog
from tests.support.logs import BASE_TIME_MS, R, batch_v2, message_set

BASES = (0, 10, 20)


def batches(base, count, magic=2, codec=0):
    """Batches of two records each."""
    made = []
    for first in range(base, base + count, 2):
        rows = [R(at, BASE_TIME_MS + at, b"k", b"v%d" % at) for at in (first, first + 1)]
        made.append(batch_v2(rows, codec) if magic == 2 else message_set(rows, magic, codec))
    return made


def log_directory(tmp_path, names, magic=2, codec=0):
    """Three segments of ten offsets each, under these names."""
    folder = tmp_path / "disk" / "topic-0"
    folder.mkdir(parents=True)
    (tmp_path / "disk" / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    (tmp_path / "disk" / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":7}')
    for base, name in zip(BASES, names, strict=True):
        (folder / f"{name:020}.log").write_bytes(b"".join(batches(base, 10, magic, codec)))
    return folder


def kinds(path, level):
    code, out, _ = kafkalog("verify", path, "--level", level, "--format", "json")
    return code, [line for line in map(json.loads, out.splitlines()) if line["type"] == "finding"]


def offsets_in(path):
    code, out, err = kafkalog("read", path, "--print", "offset")
    assert not code, err
    return [int(line.removeprefix("Offset:")) for line in out.split()]


@pytest.mark.parametrize("level", ["quick", "normal", "deep"])
@pytest.mark.parametrize("step", [2, 7, 32, 1 << 20])
def test_a_base_offset_that_reaches_into_the_next_segment(tmp_path, level, step):
    folder = log_directory(tmp_path, BASES)
    path = folder / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    at = sum(len(batch) for batch in batches(0, 8))
    struct.pack_into(">q", data, at, 8 + step)
    path.write_bytes(data)
    code, found = kinds(folder, level)
    assert code == 4
    (told,) = [one for one in found if one["kind"] == "offsets-not-ascending"]
    assert (told["path"], told["position"], told["first_offset"]) == (str(path), at, 8 + step)
    assert kafkalog("recover", folder)[0] == 14
    code, out, _ = kafkalog("recover", folder, "--salvage", tmp_path / "copy")
    assert code == 4
    assert "1 batches with a correct CRC, but wrong offsets" in out
    assert offsets_in(tmp_path / "copy" / "topic-0") == [*range(8), *range(10, 30)]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("magic", "codec"), [(2, 0), (2, 4), (1, 1), (0, 2)])
@pytest.mark.parametrize("names", [*itertools.permutations(BASES), (0, 10, 5), (0, 15, 20), (25, 10, 20), (0, 29, 3)])
def test_segments_under_other_names(tmp_path, names, magic, codec):
    """Where a name is wrong, verify says so, recover refuses, and a salvage gives all records back."""
    folder = log_directory(tmp_path, names, magic, codec)
    is_right = all(name in range(base - 9 * (base > 0), base + 1) for name, base in zip(names, BASES, strict=True))
    for level in ("quick", "normal", "deep"):
        code, found = kinds(folder, level)
        is_found = any(one["kind"] in ("offsets-not-ascending", "offset-outside-segment") for one in found)
        assert (is_found, code == 4) == ((False, False) if is_right else (True, True)), (level, found)
    if is_right:
        return
    assert kafkalog("recover", folder)[0] == 14
    kafkalog("recover", folder, "--salvage", tmp_path / "copy")
    assert offsets_in(tmp_path / "copy" / "topic-0") == [*range(30)]


@pytest.mark.parametrize(
    "data", [b"", bytes(40), b"version: -1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", b"version: 0\ntopic_id: x"]
)
def test_salvage_copies_records_without_a_damaged_topic_id(tmp_path, data):
    """A broker does not load the log with such a file: the records are copied without it, and the output says so."""
    folder = log_directory(tmp_path, (20, 0, 10))
    (folder / "partition.metadata").write_bytes(data)
    code, out, err = kafkalog("recover", folder, "--salvage", tmp_path / "copy")
    assert (code, "partition.metadata" in out + err) == (4, True)
    assert offsets_in(tmp_path / "copy" / "topic-0") == [*range(30)]
    assert not (tmp_path / "copy" / "topic-0" / "partition.metadata").exists()
