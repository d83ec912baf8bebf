"""Look-ups against a linear search over the records that were written, with sound, missing and lying indexes."""

import random
import struct

import pytest

from tests.support.commands import json_of, kafkalog
from tests.support.logs import BASE_TIME_MS, R, batch_v2, message, message_set, write_segment


def random_partition(folder, seed):
    """A partition with gaps, out-of-order times, all codecs and magics; the records in it."""
    chance = random.Random(seed)
    folder.mkdir()
    offset, time_ms, records = chance.choice([0, 5, 1000]), BASE_TIME_MS, []
    for _ in range(chance.randrange(1, 4)):
        base, batches = offset, []
        for _ in range(chance.randrange(1, 40)):
            made = []
            for _ in range(chance.randrange(1, 6)):
                time_ms += chance.randrange(-300, 1000)
                made.append(R(offset, time_ms, b"k%d" % chance.randrange(9), bytes(chance.randrange(0, 200))))
                offset += 1 if chance.random() < 0.9 else chance.randrange(1, 4)
            magic, codec = chance.choice([2, 2, 2, 1]), chance.choice([0, 0, 1, 2, 3])
            if magic == 1:
                # relative inner offsets have no gaps in a set as it was produced
                made = [r._replace(offset=made[0].offset + i) for i, r in enumerate(made)]
                offset = made[-1].offset + 1
            largest = max(r.timestamp for r in made)
            if magic == 2:
                batches.append((batch_v2(made, codec), made[-1].offset, largest))
            elif codec:
                batches.append((message_set(made, 1, codec), made[-1].offset, largest))
            else:
                batches += [(message(r, 1), r.offset, r.timestamp) for r in made]
            records += made
        write_segment(folder, base, batches, interval=chance.choice([0, 200, 4096]))
        time_ms += 1
    return records


def spoil(folder, seed):
    """Take away or falsify some indexes: the answers may not change."""
    chance = random.Random(seed)
    for path in sorted(folder.iterdir()):
        if path.suffix not in (".index", ".timeindex"):
            continue
        kind = chance.choice(["keep", "keep", "gone", "empty", "zeros", "random", "padded"])
        data = path.read_bytes()
        if kind == "gone":
            path.unlink()
        elif kind != "keep":
            spoiled = {"empty": b"", "zeros": bytes(len(data)), "padded": data + bytes(240)}
            path.write_bytes(spoiled.get(kind, chance.randbytes(len(data))))


def answer_of(*argv):
    """(exit code, the answer or None)."""
    code, out, _ = json_of(*argv)
    return code, next((one for one in out if one["type"] == "lookup"), None)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("spoiled", [False, True])
def test_lookup_offset_finds_every_offset_of_a_random_partition(tmp_path, seed, spoiled):
    records = random_partition(tmp_path / "t-0", seed)
    if spoiled:
        spoil(tmp_path / "t-0", seed)
    first, last = records[0].offset, records[-1].offset
    for offset in random.Random(seed).sample(range(first, last + 1), min(30, last + 1 - first)):
        expected = next(r for r in records if r.offset >= offset)
        code, found = answer_of("lookup-offset", tmp_path / "t-0", offset)
        record = found["record"]
        assert (code, record["offset"], record["timestamp_ms"]) == (0, expected.offset, expected.timestamp)
        assert record["key"]["data"].encode() == expected.key
        assert found["batch"]["crc_valid"]
        assert any("next one" in note for note in found["notes"]) == (expected.offset != offset)
    for outside in (first - 1, last + 1):
        assert outside < 0 or answer_of("lookup-offset", tmp_path / "t-0", outside) == (1, None)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("spoiled", [False, True])
def test_lookup_time_finds_every_time_of_a_random_partition(tmp_path, seed, spoiled):
    records = random_partition(tmp_path / "t-0", seed)
    if spoiled:
        spoil(tmp_path / "t-0", seed)
    times = sorted({t for r in records for t in (r.timestamp - 1, r.timestamp, r.timestamp + 1)})
    for time_ms in random.Random(seed).sample(times, min(30, len(times))):
        expected = next((r for r in records if r.timestamp >= time_ms), None)
        code, found = answer_of("lookup-time", tmp_path / "t-0", time_ms)
        assert (code, found and found["record"]["offset"]) == (int(expected is None), expected and expected.offset)
        if found and not spoiled:
            assert found["broker_offset"] is None
    largest = max(records, key=lambda r: r.timestamp)
    assert answer_of("lookup-time", tmp_path / "t-0", "--max-timestamp")[1]["record"]["offset"] == largest.offset


# The worked examples of the documents that Kafka's own book gives for its indexes, as segments.


def sized_batch(offsets, times, size):
    """A batch of exactly `size` bytes."""
    for last in range(size):
        for first in range(3):
            made = [R(offset, time) for offset, time in zip(offsets, times, strict=True)]
            made[-1] = made[-1]._replace(value=bytes(last))
            made[0] = made[0]._replace(value=made[0].value + bytes(first))
            batch = batch_v2(made)
            if len(batch) == size:
                return batch
    raise AssertionError((offsets, size))


TIME_MS = 1526384718000


@pytest.fixture
def worked(tmp_path):
    folder = tmp_path / "t-0"
    folder.mkdir()
    log = b"".join(
        sized_batch(range(first, end), [TIME_MS + t for t in times], size)
        for first, end, size, times in [
            (0, 4, 156, [200] * 4),
            (4, 7, 303, [210] * 3),
            (7, 14, 197, [220] * 7),
            (14, 23, 182, [250] * 9),
            (23, 27, 100, [260, 270, 265, 268]),
            (27, 29, 112, [275, 283]),
            (29, 32, 200, [281, 282, 283]),
            (32, 37, 250, [284, 287, 288, 293, 280]),
        ]
    )
    entries = [(6, 156), (13, 459), (22, 656), (26, 838), (31, 1050), (36, 1250)]
    times = [(210, 6), (220, 13), (250, 22), (270, 26), (283, 28), (293, 36)]
    (folder / "00000000000000000000.log").write_bytes(log)
    (folder / "00000000000000000000.index").write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))
    time_index = b"".join(struct.pack(">qi", TIME_MS + time, offset) for time, offset in times)
    (folder / "00000000000000000000.timeindex").write_bytes(time_index)
    return folder


def test_offset_23_is_looked_for_from_entry_22(worked):
    _, found = answer_of("lookup-offset", worked, 23)
    assert found["index_entry"] == {"offset": 22, "position": 656}
    assert (found["record"]["offset"], found["batch"]["position"]) == (23, 838)
    assert "found: index entry offset 22 at position 656, then" in call("lookup-offset", str(worked), "23")[1]


def test_time_1526384718288_leads_to_entry_28_and_from_there_to_26(worked):
    code, out, _ = call("lookup-time", str(worked), "1526384718288")
    assert code == 0
    assert "found: time index entry 1526384718283 at offset 28, index entry offset 26 at position 838, then" in out
    _, answer = answer_of("lookup-time", worked, 1526384718288)
    assert answer["time_index_entry"] == {"timestamp_ms": 1526384718283, "offset": 28}
    assert answer["index_entry"] == {"offset": 26, "position": 838}
    assert (answer["record"]["offset"], answer["broker_offset"]) == (34, None)


def test_offset_268_lies_in_segment_251(tmp_path):
    folder = tmp_path / "t-0"
    folder.mkdir()
    for base, end in ((0, 121), (121, 251), (251, 378), (378, 400)):
        made = [R(offset, BASE_TIME_MS + offset) for offset in range(base, end)]
        write_segment(folder, base, [(batch_v2([r]), r.offset, r.timestamp) for r in made], interval=0)
    _, found = answer_of("lookup-offset", folder, 268)
    assert found["path"].endswith(f"{251:020d}.log")
    assert (found["record"]["offset"], found["index_entry"]["offset"]) == (268, 268)


def call(*argv):
    return kafkalog(*argv, now_ms=lambda: BASE_TIME_MS + 20_000)


@pytest.fixture
def ten(tmp_path):
    folder = tmp_path / "log" / "t-0"
    folder.mkdir(parents=True)
    made = [R(i, BASE_TIME_MS + 1000 * i, b"k", b"v%d" % i) for i in range(10)]
    write_segment(folder, 0, [(batch_v2([r]), r.offset, r.timestamp) for r in made], interval=0)
    return folder


def test_misuse_is_2_and_nothing_there_is_10(ten, tmp_path):
    assert call("lookup-time", str(ten))[0] == 2
    assert call("lookup-time", str(ten), "--earliest", "--latest")[0] == 2
    assert call("lookup-time", str(ten), "yesterday")[0] == 2
    assert call("lookup-time", str(ten), "-1")[0] == 2  # which is the latest to Kafka's own tools
    assert call("lookup-offset", str(tmp_path / "gone"), "1")[0] == 10
    (tmp_path / "log" / "t-1").mkdir()
    assert call("lookup-offset", str(tmp_path / "log"), "1")[0] == 2
    assert call("lookup-offset", str(tmp_path / "log"), "1", "--topic", "t", "--partition", "0")[0] == 0
