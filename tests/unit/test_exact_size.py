"""Streams that are padded to a given size: every size is reached, and every reader gets the same bytes back."""

import random

import cramjam
import pytest

from kafkalog_cli.format.compression import Codec, compress, decompress
from kafkalog_cli.format.compression import exact_size as module
from kafkalog_cli.format.compression.exact_size import _Sequence, compress_to, grown_snappy
from kafkalog_cli.format.limits import DEFAULT_LIMITS


def mixed(seed):
    """Bytes that compress in part: literals and matches of many lengths."""
    rng = random.Random(seed)
    if seed == 0:
        return b"a" * 700 + rng.randbytes(50) + b"b" * 900
    if seed == 1:
        return rng.randbytes(300) * 2 + rng.randbytes(70) + b"ab" * 40
    return b"".join(rng.randbytes(rng.randrange(2, 9)) + b"\xc1" * rng.randrange(40) for _ in range(20 * seed - 30))


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("seed", range(4))
def test_a_stream_is_padded_to_every_size(codec, seed):
    data = mixed(seed)
    least, missed = len(compress(codec, data)), []
    for size_bytes in range(least, len(data) + 20):
        made = compress_to(codec, data, size_bytes, magic=2)
        if made is None:
            missed.append(size_bytes)
        else:
            assert len(made) == size_bytes
            assert decompress(codec, made, magic=2, limits=DEFAULT_LIMITS) == data
    # The length of an lz4 literal grows by a byte at each 255th: a size in between may have no way.
    assert len(missed) <= (5 if codec == Codec.LZ4 else 0), missed


def small(seed):
    rng = random.Random(seed)
    if seed % 4 == 0:
        return rng.randbytes(rng.randrange(1, 80)) * rng.randrange(1, 9) + rng.randbytes(rng.randrange(30))
    if seed % 4 == 1:
        words = (b"abcd", b"efgh12", b"xy", rng.randbytes(3))
        return b"".join(rng.choice(words) for _ in range(rng.randrange(5, 80)))
    if seed % 4 == 2:
        return bytes(rng.randrange(3) for _ in range(rng.randrange(20, 300)))
    runs = (b"q" * rng.randrange(5, 90), rng.randbytes(12), b"z" * rng.randrange(5, 90))
    return rng.randbytes(20) + b"".join(runs) + b"tail"


@pytest.mark.parametrize(("codec", "seed", "more"), [(Codec.SNAPPY, 500, 2), (Codec.LZ4, 395, 47)])
def test_the_last_bytes_are_found_where_there_is_one_way(codec, seed, more):
    """A copy of snappy gives a literal of one byte; a join of lz4's sequences takes just the rest."""
    data = small(seed)
    size_bytes = len(compress(codec, data)) + more
    made = compress_to(codec, data, size_bytes, magic=2)
    assert made is not None
    assert len(made) == size_bytes
    assert decompress(codec, made, magic=2, limits=DEFAULT_LIMITS) == data


def test_nearly_every_size_of_small_data_is_reached():
    missed = dict.fromkeys((Codec.SNAPPY, Codec.LZ4), 0)
    for data in map(small, range(1, 61)):
        for codec in missed:
            least = len(compress(codec, data))
            for size_bytes in range(least, min(least + 60, len(data) - 10)):
                made = compress_to(codec, data, size_bytes, magic=2)
                if made is None:
                    missed[codec] += 1
                else:
                    assert len(made) == size_bytes
                    assert decompress(codec, made, magic=2, limits=DEFAULT_LIMITS) == data
    assert missed[Codec.SNAPPY] == 0
    assert missed[Codec.LZ4] <= 1


@pytest.mark.parametrize("seed", range(4))
def test_every_size_of_snappy_without_framing_is_reached(seed):
    data = mixed(seed)
    least = len(cramjam.snappy.compress_raw(data))
    assert grown_snappy(b"", data, least - 1, is_bare=True) is None
    for size_bytes in range(least, len(data) + 4):
        made = grown_snappy(b"", data, size_bytes, is_bare=True)
        assert made is not None, size_bytes
        assert len(made) == size_bytes
        assert bytes(cramjam.snappy.decompress_raw(made)) == data


def test_blocks_are_padded_one_after_another():
    """A stream of three blocks of 32 KiB, and frames of two blocks of 64 KiB."""
    rng = random.Random(9)
    data = b"".join(rng.randbytes(6) + b"\xc1" * rng.randrange(40) for _ in range(3500))
    for codec in (Codec.SNAPPY, Codec.LZ4):
        least = len(compress(codec, data))
        for more in (0, 1, 5, 9_000, 30_000):
            made = compress_to(codec, data, least + more, magic=2)
            assert made is not None
            assert len(made) == least + more
            assert decompress(codec, made, magic=2, limits=DEFAULT_LIMITS) == data


# -- the parts of an lz4 block


def written_bytes(one):
    """As the lz4 block format says: a token, lengths from 15 on in bytes of 255, literals, an offset of two bytes."""
    raw = bytes(one.literals)
    return len(module._block([one], raw + bytes(one.match)))


def test_lengths_of_lz4():
    for literals in (0, 1, 14, 15, 16, 269, 270, 271, 524, 525, 1000):
        for match in (0, 4, 5, 18, 19, 20, 273, 274, 275, 1000):
            one = _Sequence(literals, match, 7 if match else 0)
            assert module._size(one) == written_bytes(one)
            last = _Sequence(3, 0, 0)
            block = module._block([one, last], bytes(literals + match + 3))
            assert module._sequences(block) == ([one, last] if match else module._sequences(block))
        assert module._sequences(module._block([_Sequence(literals, 0, 0)], bytes(literals))) == [(literals, 0, 0)]


def test_as_much_of_a_match_becomes_literals_as_fits():
    """At most a byte more than fits is tried: the length of the match may become a byte shorter."""
    for literals in (0, 13, 14, 268):
        for match in (5, 19, 30, 280):
            sizes = [written_bytes(_Sequence(literals + moved, match - moved, 7)) for moved in range(match - 3)]
            for most in {1, match - 5, match - 4} - {0}:
                for pad in (0, 1, 2, 9, 15, 300):
                    fits = [
                        moved for moved in range(min(most, pad + 1, match - 4) + 1) if sizes[moved] - sizes[0] <= pad
                    ]
                    assert module._fitting_move(_Sequence(literals, match, 7), most, pad) == fits[-1]


# -- the parts of a snappy block


@pytest.mark.parametrize(
    ("size", "tag"), [(1, 1), (60, 1), (61, 2), (256, 2), (257, 3), (65536, 3), (65537, 4), (70_000, 4)]
)
def test_literals_of_snappy(size, tag):
    """The format: lengths up to 60 are in the tag byte, else in one to four bytes after it."""
    data = bytes(at % 251 for at in range(size))
    assert module._tag(size) == tag
    literal = module._literal(data)
    assert len(literal) == size + tag
    assert [(one.size, one.copy) for one in module._elements(literal * 2, 0)] == [(size, b"")] * 2
    length = bytearray()
    rest = size
    while rest >= 0x80:
        length.append(rest & 0x7F | 0x80)
        rest >>= 7
    assert bytes(cramjam.snappy.decompress_raw(bytes(length) + bytes((rest,)) + literal)) == data


def test_elements_of_snappy():
    copies = [bytes((0b001_000_01, 5)), bytes((63 << 2 | 2, 1, 0)), bytes((0 << 2 | 3, 1, 0, 0, 0)), bytes((0b01, 9))]
    block = b"".join(module._literal(b"abc") + copy for copy in copies)
    found = module._elements(b"xx" + block, 2)
    assert [one.copy for one in found if one.copy] == copies
    assert [one.size for one in found if one.copy] == [4, 64, 1, 4]
