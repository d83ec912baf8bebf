"""Streams that are padded to a given size: every size is reached, and every reader gets the same bytes back."""

import random

import pytest

from kafkalog_cli.format.compression import Codec, compress, decompress
from kafkalog_cli.format.compression.exact_size import compress_to
from kafkalog_cli.format.limits import DEFAULT_LIMITS


def mixed(seed):
    """Bytes that compress in part: literals and matches of many lengths."""
    rng = random.Random(seed)
    if seed == 0:
        return b"a" * 700 + rng.randbytes(50) + b"b" * 900
    if seed == 1:
        return rng.randbytes(300) * 2 + rng.randbytes(70) + b"ab" * 40
    return b"".join(rng.randbytes(rng.randrange(2, 9)) + b"\xc1" * rng.randrange(40) for _ in range(20 * seed - 30))


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
@pytest.mark.parametrize("seed", range(4))
def test_a_stream_is_padded_to_every_size(codec, seed):
    data = mixed(seed)
    for size_bytes in range(len(compress(codec, data)), len(data) + 20):
        made = compress_to(codec, data, size_bytes, magic=2)
        assert len(made) == size_bytes
        assert decompress(codec, made, magic=2, limits=DEFAULT_LIMITS) == data


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_stream_that_cannot_be_so_short_has_its_own_size(codec):
    data = mixed(2)
    made = compress_to(codec, data, 9, magic=2)
    assert 9 < len(made) <= len(compress(codec, data))
    assert decompress(codec, made, magic=2, limits=DEFAULT_LIMITS) == data
