"""A segment that is read part by part has the same map as a segment that is read at once, damaged or not."""

import random

import pytest

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.log.reading import scan
from kafkalog_cli.ops.serve import segment_map
from kafkalog_cli.ops.serve.segment_map import SegmentMap
from tests.support.logs import BASE_TIME_MS, TRANSACTIONAL, R, batch_v2, end_marker


def segment(chance):
    """A segment with transactions and gaps, in which some bytes are changed, and its last offset."""
    parts, offset = [], 0
    for _ in range(chance.randrange(1, 25)):
        count = chance.randrange(1, 4)
        records = [R(offset + n, BASE_TIME_MS, b"k", chance.randbytes(chance.randrange(60))) for n in range(count)]
        kind = chance.randrange(4)
        if kind == 0:
            parts.append(end_marker(offset, BASE_TIME_MS, (chance.randrange(3), 0), bool(chance.randrange(2))))
            count = 1
        else:
            producer = {"producer": (chance.randrange(3), 0, 0), "bits": TRANSACTIONAL} if kind == 1 else {}
            parts.append(batch_v2(records, **producer))
        offset += count + chance.choice([0, 0, 0, 5])
    data = bytearray(b"".join(parts))
    for _ in range(chance.choice([0, 1, 1, 2, 4])):
        place = chance.choice([chance.randrange(len(data)), len(data) * chance.randrange(4) // 4])
        data[place : place + chance.choice([1, 4, 90])] = chance.randbytes(chance.choice([0, 1, 4, 90]))
    return bytes(data), offset


def asked(found, last, chance):
    """All answers of a map, asked in a random order."""
    answers = {}
    for offset in chance.sample(range(last + 2), last + 2):
        for most in (0, 200, 1 << 20):
            answers[offset, most] = found.slice(offset, last, most, first_is_whole=True)
        answers[offset] = found.damage_at(offset)
    return answers, found.events, found.next_offset, found.damage


@pytest.mark.parametrize("seed", range(60))
def test_parts_change_nothing(tmp_path, monkeypatch, seed):
    data, last = segment(random.Random(seed))
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)
    with RealFilesystem().open_read(str(path)) as file:
        whole = asked(SegmentMap(file, None), last, random.Random(seed))
        monkeypatch.setattr(segment_map, "_PART_BYTES", 1)
        monkeypatch.setattr(scan, "FIRST_CHUNK_BYTES", 150)
        monkeypatch.setattr(scan, "CHUNK_BYTES", 150)
        assert asked(SegmentMap(file, None), last, random.Random(seed + 1)) == whole


def test_the_first_records_do_not_wait_for_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(segment_map, "_PART_BYTES", 1000)
    monkeypatch.setattr(scan, "FIRST_CHUNK_BYTES", 500)
    monkeypatch.setattr(scan, "CHUNK_BYTES", 500)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(batch_v2([R(n, BASE_TIME_MS, b"k", b"v" * 100)]) for n in range(1000)))
    with RealFilesystem().open_read(str(path)) as file:
        furthest = [0]

        def read_into(position, buffer):
            got = type(file).read_into(file, position, buffer)
            furthest[0] = max(furthest[0], position + got)
            return got

        monkeypatch.setattr(file, "read_into", read_into, raising=False)
        found = SegmentMap(file, None)
        assert found.slice(3, 1000, 400, first_is_whole=True) is not None
        assert furthest[0] < 5000 < file.size_bytes
