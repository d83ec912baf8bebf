"""The hash of keys: Kafka's own examples (UtilsTest.testMurmur2), and kafka-python's for any bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as twin

from kafkalog_cli.ops.append.partitioning import murmur2, partition_of_key

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
