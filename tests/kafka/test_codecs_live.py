"""Packed as Kafka's own Java packs it: the same bytes of gzip and lz4, but for two levels; the same framing of all."""

import random
import subprocess

import pytest

from tests.kafka.real_kafka import JAVA
from tests.support.product_kafka import Codec, Limits, compress, decompress

pytestmark = pytest.mark.exhaustive

GZIP_LEVELS = ("default", -1, 1, 3, 6, 9)
LZ4_LEVELS = ("default", 1, 3, 9, 12, 17)
ZSTD_LEVELS = ("default", -5, 1, 3, 9, 19)


def samples():
    chance = random.Random(3)
    words = [chance.randbytes(chance.randrange(2, 9)) for _ in range(300)]
    text = b"".join(b'{"id":%d,"name":"user-%d","tags":["a","b"]}' % (i * 7919 % 10_000, i % 97) for i in range(9000))
    yield b""
    yield b"x"
    yield text[:100]
    yield text[:3000]
    yield text
    yield chance.randbytes(70_000)
    yield b"".join(chance.choice(words) for _ in range(30_000))
    yield bytes(200_000)
    yield text[:65_536]
    yield text[:65_537]
    yield chance.randbytes(40_000) + text[:40_000]


CASES = [
    *((Codec.GZIP, level, magic) for level in GZIP_LEVELS for magic in (0, 1, 2)),
    *((Codec.LZ4, level, magic) for level in LZ4_LEVELS for magic in (0, 1, 2)),
    *((Codec.ZSTD, level, 2) for level in ZSTD_LEVELS),
    *((Codec.SNAPPY, "default", magic) for magic in (1, 2)),
]


@pytest.fixture(scope="module")
def packed(real_kafka, tmp_path_factory):
    """(codec, level, magic, sample): what Java makes of it."""
    folder = tmp_path_factory.mktemp("codecs")
    lines, keys = [], []
    for at, sample in enumerate(samples()):
        (folder / f"{at}").write_bytes(sample)
        for codec, level, magic in CASES:
            keys.append((codec, level, magic, sample))
            words = codec.name.lower(), level, magic, folder / f"{at}", folder / f"{len(keys)}.packed"
            lines.append("\t".join(map(str, words)) + "\n")
    command = [*JAVA, "-cp", real_kafka.class_path, "Compress"]
    done = subprocess.run(command, input="".join(lines), capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["ok"] * len(keys)
    return {key: (folder / f"{at}.packed").read_bytes() for at, key in enumerate(keys, 1)}


def ours(key):
    codec, level, magic, sample = key
    return compress(codec, sample, level=None if level == "default" else level, magic=magic)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4])
def test_codecs_compress_to_the_bytes_of_kafka(packed, codec):
    """Of a stream without anything in it Kafka never makes a batch. Kafka's liblz4 (1.10) has levels 1 and 2 of its own."""
    keys = [key for key in packed if key[0] is codec and key[3] and (codec, key[1]) != (Codec.LZ4, 1)]
    different = [(key[1:3], len(key[3]), len(ours(key)), len(packed[key])) for key in keys if ours(key) != packed[key]]
    assert different == []
    assert len(keys) >= 15 * 10


def test_codecs_and_kafka_decompress_what_the_other_compressed(packed):
    for key, data in packed.items():
        codec, _, magic, sample = key
        assert decompress(codec, data, magic=magic, limits=Limits()) == sample, key[:3]


def test_the_framing_of_snappy_and_zstd_is_that_of_kafka(packed):
    """Which matches they choose changes with the version of the library; what is around them does not."""
    for key, data in packed.items():
        codec, _, _, sample = key
        if codec is Codec.SNAPPY and sample:
            assert _blocks(data) == _blocks(ours(key))
        elif codec is Codec.ZSTD and sample:
            assert data[:5] == ours(key)[:5]
            assert data[-3:] == ours(key)[-3:] == b"\x01\0\0"


def _blocks(data):
    """The header, and how much each block holds."""
    found, at = [data[:16]], 16
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        block, at = data[at + 4 : at + 4 + size], at + 4 + size
        found.append(len(decompress(Codec.SNAPPY, block, magic=2, limits=Limits())))
    return found
