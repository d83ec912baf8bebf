"""A segment that is read part by part has the same map as a segment that is read at once, damaged or not."""

import itertools
import random
from typing import NamedTuple

import pytest

from kafkalog_cli.log.reading import scan
from kafkalog_cli.ops.move.serve import segment_map
from kafkalog_cli.ops.move.serve.segment_map import SegmentMap
from tests.support.logs import BASE_TIME_MS, TRANSACTIONAL, R, batch_v2, end_marker
from tests.support.product import RealFilesystem


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


def sliced(found, offset, end_offset, most, *, first_is_whole):
    """The position, the size and the next offset of the batches that a map returns."""
    part = found.slice(offset, end_offset, most, first_is_whole=first_is_whole)
    return None if part is None else part[:3]


def asked(found, last, chance):
    """All answers of a map, asked in a random order."""
    answers = {}
    for offset in chance.sample(range(last + 2), last + 2):
        for most in (0, 200, 1 << 20):
            answers[offset, most] = sliced(found, offset, last, most, first_is_whole=True)
        answers[offset] = found.damage_at(offset)
    return answers, found.next_offset, found.damage


@pytest.mark.parametrize("seed", range(60))
def test_the_answers_of_a_segment_map_do_not_depend_on_its_chunks(tmp_path, monkeypatch, seed):
    data, last = segment(random.Random(seed))
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)
    with RealFilesystem().open_read(str(path)) as file:
        whole = asked(SegmentMap(file, None), last, random.Random(seed))
        monkeypatch.setattr(segment_map, "_READ_BYTES", 1)
        monkeypatch.setattr(scan, "CHUNK_BYTES", 150)
        monkeypatch.setattr(scan, "CHUNK_BYTES", 150)
        assert asked(SegmentMap(file, None), last, random.Random(seed + 1)) == whole


def test_the_first_records_do_not_wait_for_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(segment_map, "_READ_BYTES", 1000)
    monkeypatch.setattr(scan, "CHUNK_BYTES", 500)
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


def opened(path, parts):
    path.write_bytes(b"".join(parts))
    return RealFilesystem().open_read(str(path))


def small_parts(monkeypatch):
    """Read the segment batch by batch, and keep a place in the map for each."""
    monkeypatch.setattr(segment_map, "_READ_BYTES", 1)
    monkeypatch.setattr(segment_map, "_STEP_BYTES", 1)
    monkeypatch.setattr(scan, "CHUNK_BYTES", 60)
    monkeypatch.setattr(scan, "CHUNK_BYTES", 60)


class Placed(NamedTuple):
    """A batch of a segment."""

    start: int
    end: int
    first: int
    last: int
    is_good: bool


def placed(chance):
    """The batches of a segment, of which some are damaged, and their bytes."""
    found, parts, offset, position = [], [], 0, 0
    for _ in range(chance.randrange(1, 7)):
        records = [R(offset + n, BASE_TIME_MS, b"k", bytes(chance.randrange(9))) for n in range(chance.choice([1, 3]))]
        data = bytearray(batch_v2(records))
        is_good = chance.random() < 0.8
        data[-1] ^= 0 if is_good else 0xFF
        found.append(Placed(position, position + len(data), offset, records[-1].offset, is_good))
        parts.append(data)
        offset, position = records[-1].offset + 1 + chance.choice([0, 0, 2]), position + len(data)
    return found, parts


def slice_of(found, offset, end_offset, most, first_is_whole):
    """The slice by the list of batches."""
    rest = list(itertools.dropwhile(lambda one: not one.is_good or one.last < offset, found))
    if not rest:
        return None
    first = rest[0]
    is_too_large = first.end - first.start > most
    if first.last >= end_offset or (is_too_large and not first_is_whole):
        return first.start, 0, offset
    taken = itertools.takewhile(
        lambda one: one.is_good and one.last < end_offset and one.end - first.start <= most, rest
    )
    last = [first, *taken][-1]
    return first.start, last.end - first.start, last.last + 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("has_small_parts", [True, False])
def test_slices_are_those_of_a_list_of_batches(tmp_path, monkeypatch, seed, has_small_parts):
    """For each offset, each end, and each size at which a batch fits or just does not."""
    if has_small_parts:
        small_parts(monkeypatch)
    found, parts = placed(random.Random(seed))
    sizes = {0} | {two.end - one.start - n for one in found for two in found if two.end > one.start for n in (0, 1)}
    with opened(tmp_path / "log", parts) as file:
        whole = SegmentMap(file, None)
        for offset, end_offset in itertools.product(range(found[-1].last + 2), repeat=2):
            for most, first_is_whole in itertools.product(sizes, (True, False)):
                asked = offset, end_offset, most
                is_new = has_small_parts and not most % 7
                of = SegmentMap(file, None) if is_new else whole
                assert sliced(of, *asked, first_is_whole=first_is_whole) == slice_of(found, *asked, first_is_whole)


def test_a_batch_with_an_offset_that_was_there_is_damage(tmp_path):
    parts = [batch_v2([R(first, BASE_TIME_MS, b"k"), R(last, BASE_TIME_MS, b"k")]) for first, last in ((0, 1), (1, 2))]
    with opened(tmp_path / "log", parts) as file:
        found = SegmentMap(file, None)
        assert found.next_offset == 2
        assert [one.reason for one in found.damage] == ["the offsets 1 to 2 are out of order"]


def test_a_part_is_read_ahead_as_far_as_a_slice_needs(tmp_path, monkeypatch):
    """Also a batch that is larger than asked for."""
    small_parts(monkeypatch)
    monkeypatch.setattr(segment_map, "CHUNK_BYTES", 1 << 20)
    parts = [batch_v2([R(at, BASE_TIME_MS, b"k", bytes(size))]) for at, size in enumerate((5, 70, 5, 5))]
    starts = [0, *itertools.accumulate(map(len, parts))]
    for most, last in ((10, 1), (len(parts[1]), 1), (starts[3] - starts[1], 2)):
        with opened(tmp_path / "log", parts) as file:
            found = SegmentMap(file, None)
            found.read_ahead(starts[1], most)
            assert found._at == starts[last + 1]
