"""The hash of keys: Kafka's own examples (UtilsTest.testMurmur2), and kafka-python's for any bytes."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as twin

from kafkalog_cli.ops.append.partitioning import murmur2, partition_of_key, partitions_of_keys

KAFKAS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("data", "signed"), KAFKAS.items())
def test_kafkas_examples(data, signed):
    assert murmur2(data) == signed % (1 << 32)


@given(st.binary(max_size=200), st.integers(1, 2**31 - 1))
def test_any_key(data, partitions):
    assert murmur2(data) == twin(data) % (1 << 32)
    assert partition_of_key(data, partitions) == (twin(data) & 0x7FFFFFFF) % partitions


@pytest.mark.parametrize("kind", ["binary", "large_binary"])
def test_many_keys_at_once(kind):
    """Keys of all lengths, nulls, and a part of an array, as a scan by columns gives them."""
    pa = pytest.importorskip("pyarrow")
    rng = random.Random(kind)
    keys = [None if rng.random() < 0.1 else rng.randbytes(rng.choice((n % 40, n, 3 * n))) for n in range(300)]
    whole = pa.array(keys, getattr(pa, kind)())
    for part in (whole, whole.slice(7, 200), whole.slice(3, 1), whole.slice(5, 0)):
        found = partitions_of_keys(part, 7).tolist()
        known = [(at, key) for at, key in enumerate(part.to_pylist()) if key is not None]
        assert [found[at] for at, _ in known] == [(twin(key) & 0x7FFFFFFF) % 7 for _, key in known]
    assert partitions_of_keys(pa.nulls(2, pa.binary()), 7).shape == (2,)
