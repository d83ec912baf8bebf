"""A segment may be named after an offset inside the message set with which it begins: no range loses a record of it."""

from itertools import pairwise
from random import Random

import pytest

import kafkalog_cli as kl
from tests.support.commands import kafkalog, objects_in
from tests.support.logs import BASE_TIME_MS, R, batch_v2, message_set, write_segment


def write_log(folder, seed):
    """(the first offset that a broker serves, the log's end): most segments begin with a set below their names."""
    chance = Random(seed)
    folder.mkdir()
    base = start = chance.choice([0, 40])
    for number in range(6):
        parts, name = [], base
        for at in range(chance.choice([1, 3, 5])):
            count = chance.choice([1, 2, 4])
            if not at and chance.random() < 0.8:
                count, name = 4, base + chance.randint(1, 3)
            made = [R(base + i, BASE_TIME_MS + base + i, b"k", b"v" * 40) for i in range(count)]
            data = batch_v2(made) if at % 3 == 1 else message_set(made, chance.randint(0, 1), chance.randint(1, 3))
            parts.append((data, made[-1].offset, made[-1].timestamp))
            base += count
        write_segment(folder, name, parts, interval=chance.choice([0, 200, 4096]))
        start = name if not number else start
        if chance.random() < 0.3:
            write_segment(folder, base, [])  # empty; or it is written over
    return start, base


def printed(*argv):
    ran = kafkalog(*argv)
    assert ran.code == 0
    return objects_in(ran.out)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(12))
def test_each_range_of_segments_that_begin_inside_sets_has_the_records_of_the_whole(tmp_path, seed):
    folder = tmp_path / "orders-0"
    start, end = write_log(folder, seed)
    chance = Random(seed)
    (log,) = kl.open(tmp_path)

    def offsets(**request):
        return [offset for batch in log.records(columns=["offset"], **request) for offset in batch[0].to_pylist()]

    assert offsets() == list(range(start, end))
    for at in range(start, end + 1):
        assert offsets(to_offset=at) == list(range(start, at))
        assert offsets(from_offset=at) == list(range(at, end))
        assert offsets(from_offset=at, to_offset=at + 1) == list(range(at, min(at + 1, end)))
    cuts = sorted(chance.sample(range(start, end + 1), 8))
    for low, high in pairwise(cuts):
        assert offsets(from_offset=low, to_offset=high) == list(range(low, high))
        most = chance.randint(1, 5)
        assert offsets(from_offset=low, to_offset=high, max_records=most) == list(range(low, high))[:most]


@pytest.mark.parametrize("seed", range(4))
def test_commands_read_the_same_records_of_segments_that_begin_inside_sets(tmp_path, seed):
    folder = tmp_path / "orders-0"
    start, end = write_log(folder, seed)
    bases = sorted(int(path.stem) for path in folder.glob("*.log"))
    for at in [at for base in bases for at in (base - 1, base, base + 1) if start <= at < end]:
        for command, start_option in (("read", "--from"), ("dump-log", "--from-offset")):
            lines = printed(command, folder, "--format", "json", start_option, at, "--to-offset", at + 1)
            assert [line["offset"] for line in lines if "offset" in line] == [at]
        (found, _) = printed("lookup-offset", folder, at, "--format", "json")
        assert found["record"]["offset"] == at
        if found["record"]["timestamp_ms"] is None:
            continue
        (found, _) = printed("lookup-time", folder, BASE_TIME_MS + at, "--format", "json")
        assert found["record"]["offset"] == at
