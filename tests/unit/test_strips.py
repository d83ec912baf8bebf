"""Scanning in strips side by side gives what scanning in order gives, whatever a strip takes for a batch."""

import os
import random

import pytest

from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.log.reading import scan, segment_reader, strips
from kafkalog_cli.log.reading.scan import Scan
from kafkalog_cli.log.reading.segment_reader import columns_of
from tests.support.faulty_fs import BytesFile
from tests.support.logs import BASE_TIME_MS, R, batch_v2, message_set


@pytest.fixture(autouse=True)
def small_strips(monkeypatch):
    monkeypatch.setattr(strips, "STRIP_BYTES", 16 << 10)
    monkeypatch.setattr(strips, "SEARCHED_BYTES", 4 << 10)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    monkeypatch.setattr(scan, "CHUNK_BYTES", 8 << 10)


def a_log(seed, damaged=0.0, inner=0.0, large=0.0):
    """Batches of before and since v2, with shares that have wrong CRCs, whole batches in a value, and many bytes."""
    chance = random.Random(seed)
    parts = []
    for offset in range(0, 1200, 3):
        size = 40_000 if chance.random() < large else chance.randrange(5, 900)
        value = chance.randbytes(size)
        if chance.random() < inner:
            value = b"".join(batch_v2([R(7 + i, BASE_TIME_MS, b"k", b"inside" * 99)]) for i in range(40))
        made = [R(offset + i, BASE_TIME_MS + i, b"k", value[: size if i else None]) for i in range(2)]
        data = bytearray(message_set(made, 1, 1) if chance.random() < 0.05 else batch_v2(made))
        if chance.random() < damaged:
            data[chance.randrange(17, len(data))] ^= 4
        parts.append(bytes(data))
    return b"".join(parts)


def scanned(data, end=None):
    """All that a caller learns of a scan of columns."""
    found = Scan(BytesFile(data), end=end)
    rows = [row for chunk in columns_of(found) for row in chunk.batches.rows()]
    return rows, found.fault, found.valid_bytes, found.good_bytes


def assert_the_same(monkeypatch, data, end=None):
    """Assert that strips change nothing, and return how many batches came of strips."""
    of_strips = []
    joined = strips.Strips.__iter__

    def counted(self):
        for batches in joined(self):
            of_strips.append(len(batches))
            yield batches

    monkeypatch.setattr(strips.Strips, "__iter__", counted)
    expected = scanned(data, end)
    assert not of_strips
    with monkeypatch.context() as patched:
        patched.setattr(segment_reader, "LONG_BYTES", 64 << 10)
        patched.setattr(scan, "LARGE_LOG_BYTES", 0)
        assert scanned(data, end) == expected
    assert not strips._TURN.locked()
    return sum(of_strips), expected


def test_a_sound_log_comes_of_strips_to_its_end(monkeypatch):
    data = a_log(1)
    count, (rows, fault, valid_bytes, _) = assert_the_same(monkeypatch, data)
    assert fault is None
    assert valid_bytes == len(data)
    assert count > len(rows) * 9 // 10


@pytest.mark.parametrize(
    "share", [{"damaged": 0.02}, {"inner": 0.1}, {"large": 0.02}], ids=["damaged", "inner", "large"]
)
def test_a_log_with_damage_inner_batches_or_large_ones(monkeypatch, share):
    counts = []
    for seed in range(4):
        with monkeypatch.context() as patched:
            counts.append(assert_the_same(patched, a_log(seed, **share) + b"\0" * (seed % 3 * 20))[0])
    assert sum(counts)  # parts before the first misfits at least


@pytest.mark.parametrize("cut", [1, 16, 17, 60, 400])
def test_a_log_that_ends_in_a_batch(monkeypatch, cut):
    data = a_log(2)
    _, (_, fault, _, _) = assert_the_same(monkeypatch, data[:-cut])
    assert fault.kind is FaultKind.TRAILING_BYTES
    assert_the_same(monkeypatch, data, end=len(data) - cut)


def test_a_length_that_leads_astray_ends_the_strips(monkeypatch):
    data = bytearray(a_log(3))
    rows, *_ = scanned(bytes(data))
    for row, wrong in ((len(rows) // 2, 5), (len(rows) // 3, 1 << 30), (0, 3000)):
        changed = bytearray(data)
        changed[rows[row].position + 8 : rows[row].position + 12] = wrong.to_bytes(4, "big")
        assert_the_same(monkeypatch, bytes(changed))


def test_one_scan_at_a_time_has_strips(monkeypatch):
    with strips._TURN:
        monkeypatch.setattr(segment_reader, "LONG_BYTES", 64 << 10)
        monkeypatch.setattr(strips, "ThreadPoolExecutor", None)
        assert scanned(a_log(1))[1] is None


def test_an_error_in_a_strip_is_raised_and_gives_the_turn_back(monkeypatch):
    class Ended(BytesFile):
        def read_into(self, position, buffer):
            if position > 100_000:
                raise KeyboardInterrupt
            return super().read_into(position, buffer)

    monkeypatch.setattr(segment_reader, "LONG_BYTES", 64 << 10)
    found = Scan(Ended(a_log(1)))
    with pytest.raises(KeyboardInterrupt):
        list(columns_of(found))
    assert not strips._TURN.locked()
