"""Statistics of keys against twins that hold every key: counts, the largest, and the bounds of what is estimated."""

import math
import random
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.ops.look import key_counts as module
from kafkalog_cli.ops.look.key_counts import SHOWN_BYTES, KeyStatistics, StoredKeys, hash_keys

few_keys = st.sampled_from([None, b"", b"a", b"b", b"\x00", b"\x00\x00", b"a" * 8, b"a" * 9, b"x" * 2000, b"x" * 2001])
rows = st.lists(st.tuples(few_keys | st.none() | st.binary(max_size=3), st.integers(-1, 300)), max_size=60)


def add(statistics, keys, value_sizes):
    """Add records with these keys; the sizes are those of the values of the records that have a key."""
    strings = [key for key in keys if key is not None]
    stored = StoredKeys(*stored_strings(strings)) if strings else None
    statistics.add_stored(stored, np.array(value_sizes, dtype=np.int64), len(keys) - len(strings))


def stored_strings(strings):
    """The bytes of the strings one after another, where each begins, and their sizes."""
    sizes = np.array([len(string) for string in strings], dtype=np.int64)
    return np.frombuffer(b"".join(strings), dtype=np.uint8), np.cumsum(sizes) - sizes, sizes


def fed(statistics, rows, parts=3):
    """The statistics after some rows of keys and sizes of values, which came in parts."""
    size = max(1, -(-len(rows) // parts))
    for at in range(0, len(rows), size):
        part = rows[at : at + size]
        sizes = [value for key, value in part if key is not None]
        add(statistics, [key for key, _ in part], sizes)
    return statistics.counts()


def counted(rows):
    """Records and bytes by key, of those that have one."""
    records, size_bytes = Counter(), Counter()
    for key, value in rows:
        if key is not None:
            records[key] += 1
            size_bytes[key] += len(key) + max(value, 0)
    return records, size_bytes


@given(rows=rows, top=st.integers(1, 5), gathered=st.sampled_from([1, 7, 1 << 18]))
def test_key_counts_without_evicted_keys_are_exact(rows, top, gathered):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "GATHERED_ROWS", gathered)
        found = fed(KeyStatistics(top), rows)
    records, size_bytes = counted(rows)
    assert (found.keys, found.relative_error) == (len(records), 0)
    assert found.null_keys == sum(key is None for key, _ in rows)
    assert found.tombstones == sum(key is not None and value < 0 for key, value in rows)
    listed = found.most_frequent
    assert [one.records for one in listed] == [count for _, count in records.most_common(top)]
    assert len({(one.key, one.key_bytes) for one in listed}) == len(listed)
    for one in listed:
        (whole,) = (key for key in records if (key[:SHOWN_BYTES], len(key)) == (one.key, one.key_bytes))
        assert (one.records, one.bytes, one.records_error, one.bytes_error) == (records[whole], size_bytes[whole], 0, 0)


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 60).map(lambda n: b"k%d" % (n * n // 40)), st.integers(-1, 50)), max_size=300
    ),
    most=st.integers(4, 20),
    gathered=st.integers(1, 40),
)
def test_error_bounds_of_key_counts_hold_where_keys_were_evicted(rows, most, gathered):
    """No key has fewer records than reported, or more than that and the error; no dropped key more than the bound."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "GATHERED_ROWS", gathered)
        statistics = KeyStatistics(1, most_keys=most, smallest=1 << 10)
        found = fed(statistics, rows, parts=40)
    records, size_bytes = counted(rows)
    assert found.keys == len(records)  # fewer than the smallest hashes that are kept
    for one in found.most_frequent:
        assert one.records <= records[one.key] <= one.records + one.records_error
        assert one.bytes <= size_bytes[one.key] <= one.bytes + one.bytes_error
    kept = {int(value) for value in statistics._hashes}
    for key in records:
        if hashed([key])[0] not in kept:
            assert records[key] <= statistics._most_dropped[0]
            assert size_bytes[key] <= statistics._most_dropped[1]


def hashed(strings):
    return hash_keys(*stored_strings(strings)).tolist()


@given(st.lists(st.binary(max_size=40) | st.binary(min_size=1020, max_size=1100), max_size=20))
def test_a_hash_is_of_the_bytes_alone(strings):
    """Whatever lies beside them; different strings have different ones."""
    together = hashed(strings)
    assert together == [hashed([one])[0] for one in strings]
    assert len(set(together)) == len(set(strings))


def test_hashes_are_spread_evenly():
    """Each bit of the hashes of keys as people make them is set in half of them, and no two are the same."""
    for name in (b"user-%010d", b"%d", b"%016x"):
        found = np.array(hashed([name % number for number in range(100_000)]), dtype=np.uint64)
        assert len(np.unique(found)) == len(found)
        for bit in range(64):
            share = float((found >> np.uint64(bit) & np.uint64(1)).mean())
            assert abs(share - 0.5) < 0.01, (name, bit)


@pytest.mark.parametrize("keys", [60_000, 400_000])
def test_the_estimate_is_as_good_as_it_says(keys):
    statistics = KeyStatistics(3, most_keys=20_000)
    drawn = random.Random(7)
    numbers = list(range(keys)) + [drawn.randrange(keys) for _ in range(50_000)]
    drawn.shuffle(numbers)
    for at in range(0, len(numbers), 30_000):
        part = [b"%d" % number for number in numbers[at : at + 30_000]] + [b"often"] * 500
        add(statistics, part, [10] * len(part))
    found = statistics.counts()
    assert 0 < found.relative_error < 0.01
    assert abs(found.keys - keys - 1) < 4 * found.relative_error * keys
    assert found.most_frequent[0].key == b"often"
    parts = -(-len(numbers) // 30_000)
    assert (found.most_frequent[0].records, found.most_frequent[0].records_error) == (500 * parts, 0)
    assert len(statistics._hashes) <= 20_000


def test_a_very_long_key_is_not_copied():
    """`stats` held a key of 100 MiB four times."""
    data = np.zeros(32 << 20, dtype=np.uint8)
    keys = StoredKeys(data, np.array([0]), np.array([len(data)]))
    short = stored_strings([b"a", b"bc"])
    statistics = KeyStatistics(3)
    statistics.add_stored(StoredKeys(*short), np.array([1, 1]), 0)
    tracemalloc.start()
    try:
        statistics.add_stored(keys, np.array([0]), 0)
        assert statistics.counts().keys == 3
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 1 << 20


def statistics_of(keys, *, most=1 << 18, gathered=1 << 18, size_bytes=1 << 25):
    """Statistics of keys, each added alone."""
    statistics = KeyStatistics(3, most)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "GATHERED_ROWS", gathered)
        patch.setattr(module, "GATHERED_BYTES", size_bytes)
        for key in keys:
            data = np.frombuffer(key, np.uint8)
            stored = StoredKeys(data, np.zeros(1, np.int64), np.array([len(key)]))
            statistics.add_stored(stored, np.zeros(1, np.int64), 0)
    return statistics


def test_key_counts_are_exact_up_to_the_limit_of_keys():
    keys = [b"%d" % at for at in range(9)]
    for most in (8, 9, 10):
        statistics = statistics_of(keys, most=most, gathered=1)
        found = statistics.counts()
        assert (statistics._most_dropped[0] == 0) == (most >= 9)
        assert (found.keys, found.relative_error) == (9, 0)  # the smallest hashes are all of them


def test_keys_are_counted_when_so_many_are_gathered():
    for count in range(1, 7):
        assert len(statistics_of([b"k"] * count, gathered=3)._waiting) == count % 3
        assert (
            len(statistics_of([b"k" * 6] * count, size_bytes=60)._waiting) == count % 2
        )  # each with 24 bytes of numbers


def test_the_number_of_keys_by_the_smallest_hashes():
    """KMV: (k - 1) / U(k), with the k-th smallest of hashes that are spread over 0 to 1."""
    statistics = KeyStatistics(3, smallest=5)
    statistics._smallest, statistics._has_dropped = np.array([1, 2, 3, 4, 1 << 60], np.uint64), True
    assert statistics._estimate() == (4 * 16, 1 / math.sqrt(3))
    statistics._smallest = statistics._smallest[:4]
    assert statistics._estimate() == (4, 0)


@pytest.mark.parametrize("size", [1, 7, 8, 9, 16, 1023, 1024, 1025])
def test_each_byte_of_a_key_counts(size):
    keys = [bytes(at) + b"x" + bytes(size - at - 1) for at in (0, size // 2, size - 1)]
    found = {int(hash_keys(np.frombuffer(key, np.uint8), np.zeros(1, np.int64), np.array([size]))[0]) for key in keys}
    assert len(found) == len(set(keys))


@pytest.mark.full
def test_errors_are_those_of_the_standard_error():
    """Of many estimates, of keys as people make them, two thirds are within the standard error, and 95 % within two."""
    errors = []
    for seed in range(120):
        name = (b"user-%010d", b"%d", b"%016x")[seed % 3]
        keys = [name % (seed * 20_000 + number) for number in range(20_000)]
        random.Random(seed).shuffle(keys)
        statistics = KeyStatistics(1, most_keys=2_000, smallest=1 << 10)
        for part in (keys[:9_000], keys[:4_000], keys[9_000:]):
            add(statistics, part, [1] * len(part))
        found = statistics.counts()
        assert found.relative_error == pytest.approx(1 / 32, rel=0.01)
        errors.append((found.keys - 20_000) / 20_000 / found.relative_error)
    assert abs(float(np.mean(errors))) < 0.3
    assert 0.57 < float(np.mean(np.abs(errors) < 1)) < 0.8
    assert float(np.mean(np.abs(errors) < 2)) > 0.9
