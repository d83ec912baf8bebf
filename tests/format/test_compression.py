"""Codecs: the table, round trips, what Kafka and its clients wrote, damage, caps, the arena."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import tracemalloc
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_cli.format.compression import Codec, CompressionFault, codec_name, compress, decompress, decompress_into
from kafkalog_cli.format.compression.outcome import Arena
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.limits import MEBIBYTE, Limits
from tests.format.compression_samples import (
    GZIP,
    LIMITS,
    LONG,
    LZ4,
    PACKING,
    SNAPPY,
    TEXT,
    XERIAL_HEADER,
    ZSTD,
    kind_of,
    unpack,
)

FIXTURES = Path(__file__).parents[1] / "fixtures"
KAFKA: dict[str, Any] = json.loads((FIXTURES / "compression" / "kafka_streams.json").read_text())


# -- the table


def test_names_are_kafkas() -> None:
    assert [codec_name(codec) for codec in range(8)] == ["none", "gzip", "snappy", "lz4", "zstd", None, None, None]
    assert codec_name(-1) is None


@pytest.mark.parametrize("codec", [5, 6, 7, -1, 99])
def test_an_unknown_codec_is_a_fault_when_read_and_a_mistake_when_written(codec: int) -> None:
    assert kind_of(codec, b"anything") is FaultKind.UNKNOWN_CODEC
    with pytest.raises(ValueError, match=str(codec)):
        compress(codec, b"anything")


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_came_with_magic_2(magic: int) -> None:
    packed = compress(ZSTD, TEXT)
    assert kind_of(ZSTD, packed, magic) is FaultKind.UNKNOWN_CODEC
    with pytest.raises(ValueError, match="zstd"):
        compress(ZSTD, TEXT, magic=magic)


@pytest.mark.parametrize(
    ("codec", "level"),
    [(GZIP, 0), (GZIP, 10), (SNAPPY, 1), (LZ4, 0), (LZ4, 18), (ZSTD, 23), (ZSTD, -(1 << 17) - 1)],
)
def test_a_level_that_kafka_refuses_is_a_mistake(codec: int, level: int) -> None:
    with pytest.raises(ValueError, match="level"):
        compress(codec, TEXT, level=level)


def test_importing_the_codecs_imports_no_library() -> None:
    code = "import sys, kafkalog_cli.format.compression; print(*sorted(m.partition('.')[0] for m in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "kafkalog_cli" in loaded
    assert not {"lz4", "zstandard", "snappy", "cramjam", "isal", "numpy"} & set(loaded)


# -- round trips

CONTENT = st.one_of(
    st.binary(max_size=3000),
    st.builds(lambda part, times: part * times, st.binary(max_size=60), st.integers(0, 4000)),
    st.builds(lambda seed, size: random.Random(seed).randbytes(size), st.integers(0, 9), st.integers(0, 140_000)),
)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("magic", [0, 1, 2])
@given(data=CONTENT)
@settings(max_examples=40, deadline=None)
def test_what_is_packed_comes_back(codec: Codec, magic: int, data: bytes) -> None:
    if codec is ZSTD and magic < 2:
        return
    assert unpack(codec, compress(codec, data, magic=magic), magic) == data


@pytest.mark.parametrize(
    ("codec", "level"),
    [(GZIP, 1), (GZIP, 9), (GZIP, -1), (LZ4, 1), (LZ4, 9), (LZ4, 17), (ZSTD, -(1 << 17)), (ZSTD, -7), (ZSTD, 22)],
)
def test_every_level_comes_back(codec: int, level: int) -> None:
    assert unpack(codec, compress(codec, LONG, level=level)) == LONG


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_read_and_written(codec: int, kind: type) -> None:
    assert unpack(codec, kind(compress(codec, kind(TEXT)))) == TEXT


# -- what Kafka and its clients wrote


@pytest.mark.parametrize("record", KAFKA["real"], ids=lambda r: f"{r['source']}-{codec_name(r['codec'])}-v{r['magic']}")
def test_real_packed_records_are_read(record: dict[str, Any]) -> None:
    plain = unpack(record["codec"], bytes.fromhex(record["packed"]), record["magic"])
    assert (len(plain), zlib.crc32(plain)) == (record["plain_bytes"], record["plain_crc32"])


def damaged(frame: bytes, how: str) -> Iterator[bytes]:
    if how == "cut":
        yield from (frame[:size] for size in range(len(frame) + 1))
    elif how == "flipped":
        for bit in range(len(frame) * 8):
            copy = bytearray(frame)
            copy[bit >> 3] ^= 1 << (bit & 7)
            yield bytes(copy)
    else:
        yield from (frame + bytes(size) for size in range(1, 33))
        yield from (frame + frame[:size] for size in range(1, len(frame) + 1))


@pytest.mark.parametrize("how", ["cut", "flipped", "followed"])
@pytest.mark.parametrize(
    "verdict", KAFKA["verdicts"], ids=lambda v: f"{codec_name(v['codec'])}-{v['writer']}-v{v['magic']}"
)
def test_damage_is_seen_exactly_where_kafka_sees_it(verdict: dict[str, Any], how: str) -> None:
    """Truncated at every byte, every bit flipped, other bytes behind: the same verdict and the same bytes."""
    frame, buffer, checksum, read = bytes.fromhex(verdict["frame"]), bytearray(), 0, ""
    for data in damaged(frame, how):
        size = decompress_into(verdict["codec"], data, buffer, 0, magic=verdict["magic"], limits=LIMITS)
        read += "0" if isinstance(size, CompressionFault) else "1"
        if not isinstance(size, CompressionFault):
            checksum = zlib.crc32(memoryview(buffer)[:size], checksum)
        elif size.kind is not FaultKind.OUTPUT_TOO_LARGE:
            assert size.kind is FaultKind.DECOMPRESSION_FAILED
    assert read == f"{int(verdict[how], 16):b}"[1:]
    assert checksum == verdict[f"{how}_output_crc32"]
    assert len(buffer) <= 8 * MEBIBYTE  # a flipped bit can ask for LZ4 blocks of 4 MiB, for more than that nothing


# -- caps


def bomb(codec: Codec, size: int) -> bytes:
    """As dense as the codec gets: zstd 1:30,000, gzip 1:1,029, lz4 1:250, snappy 1:21 (the formats end there)."""
    return compress(codec, bytes(size), level=None if codec is SNAPPY else 9)


@pytest.mark.parametrize("codec", PACKING)
def test_output_over_the_limit_stops_early_and_takes_little_memory(codec: Codec) -> None:
    packed, limits = bomb(codec, 64 * MEBIBYTE), Limits(max_output_bytes=4 * MEBIBYTE)
    buffer = bytearray()
    tracemalloc.start()
    try:
        outcome = decompress_into(codec, packed, buffer, 0, magic=2, limits=limits)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(outcome, CompressionFault)
    assert outcome.kind is FaultKind.OUTPUT_TOO_LARGE
    assert str(limits.max_output_bytes) in outcome.message
    assert peak_bytes < 16 * MEBIBYTE


@pytest.mark.parametrize(("codec", "ratio"), [(GZIP, 1000), (SNAPPY, 20), (LZ4, 200), (ZSTD, 1000)])
def test_ratio_counts_once_the_output_is_over_a_mebibyte(codec: Codec, ratio: int) -> None:
    limits = Limits(max_ratio=ratio)
    dense = bomb(codec, 8 * MEBIBYTE)
    assert len(dense) * ratio < 8 * MEBIBYTE
    assert kind_of(codec, dense, limits=limits) is FaultKind.OUTPUT_TOO_LARGE
    assert len(unpack(codec, bomb(codec, MEBIBYTE), limits=limits)) == MEBIBYTE
    assert len(unpack(codec, dense, limits=Limits(max_ratio=1_000_000))) == 8 * MEBIBYTE


@pytest.mark.parametrize("codec", PACKING)
@pytest.mark.parametrize("size", [1, 1000, MEBIBYTE, 2 * MEBIBYTE])
def test_output_of_exactly_the_limit_is_read(codec: Codec, size: int) -> None:
    data = (LONG * 14)[:size]
    packed = compress(codec, data)
    assert unpack(codec, packed, limits=Limits(max_output_bytes=size)) == data
    assert kind_of(codec, packed, limits=Limits(max_output_bytes=size - 1)) is FaultKind.OUTPUT_TOO_LARGE


def test_declared_sizes_are_not_allocated() -> None:
    buffer = bytearray()
    for codec, packed, kind in (
        (SNAPPY, bytes.fromhex("ffffffff0f 00"), FaultKind.OUTPUT_TOO_LARGE),
        (SNAPPY, bytes.fromhex("a0f736 00") + bytes(90), FaultKind.DECOMPRESSION_FAILED),  # 900,000 out of 94
        (SNAPPY, XERIAL_HEADER + bytes.fromhex("00000006 ffffffff0f 00"), FaultKind.OUTPUT_TOO_LARGE),
        (ZSTD, bytes.fromhex("28b52ffd a0 00000080 010000"), FaultKind.DECOMPRESSION_FAILED),
        (ZSTD, bytes.fromhex("28b52ffd e0 ffffffffffffff00 010000"), FaultKind.DECOMPRESSION_FAILED),
    ):
        outcome = decompress_into(codec, packed, buffer, 0, magic=2, limits=LIMITS)
        assert isinstance(outcome, CompressionFault)
        assert outcome.kind is kind
    assert len(buffer) <= 64 << 10


# -- the arena


@pytest.mark.parametrize("codec", Codec)
def test_many_streams_share_one_buffer(codec: Codec) -> None:
    texts = [TEXT, b"", LONG, b"x", TEXT[:700], LONG[:70_000]]
    packed = [compress(codec, text) for text in texts]
    buffer = bytearray(b"kept")
    position = 4
    for data in packed:
        written = decompress_into(codec, data, buffer, position, magic=2, limits=LIMITS)
        assert isinstance(written, int)
        position += written
    assert buffer[:position] == b"kept" + b"".join(texts)
    size = len(buffer)
    assert decompress_into(codec, packed[0], buffer, 0, magic=2, limits=LIMITS) == len(TEXT)
    assert len(buffer) == size
    assert buffer[: len(TEXT)] == TEXT


@pytest.mark.parametrize("codec", PACKING)
def test_a_fault_leaves_what_is_before_the_position(codec: Codec) -> None:
    buffer = bytearray(b"kept")
    packed = compress(codec, LONG)
    outcome = decompress_into(codec, packed[: len(packed) // 2], buffer, 4, magic=2, limits=LIMITS)
    assert isinstance(outcome, CompressionFault)
    assert buffer[:4] == b"kept"


def test_threads_with_their_own_buffers_do_not_disturb_each_other() -> None:
    packed = [(codec, compress(codec, LONG[:90_000])) for codec in PACKING]
    wrong: list[str] = []

    def work() -> None:
        buffer = bytearray()
        for codec, data in packed * 15:
            broken = decompress_into(codec, data[:-9], buffer, 0, magic=2, limits=LIMITS)
            size = decompress_into(codec, data, buffer, 0, magic=2, limits=LIMITS)
            if not isinstance(broken, CompressionFault) or size != 90_000 or buffer[:size] != LONG[:90_000]:
                wrong.append(codec.name)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# -- anything


@pytest.mark.parametrize("codec", PACKING)
@given(data=st.binary(max_size=300), head=st.booleans())
@settings(max_examples=150, deadline=None)
def test_no_bytes_raise(codec: Codec, data: bytes, head: bool) -> None:
    start = {GZIP: "1f8b08000000000000ff", SNAPPY: XERIAL_HEADER.hex(), LZ4: "04224d18604082", ZSTD: "28b52ffd0058"}
    outcome = decompress(codec, bytes.fromhex(start[codec]) * head + data, magic=2, limits=LIMITS)
    assert isinstance(outcome, (bytes, CompressionFault))


@pytest.mark.parametrize("codec", PACKING)
@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_damage_to_a_long_stream_never_raises(codec: Codec, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, LONG))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(packed) - 1))
        packed[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=5))
    outcome = decompress(codec, bytes(packed), magic=2, limits=LIMITS)
    if codec is GZIP and isinstance(outcome, bytes):
        assert outcome == LONG  # its checksum lets nothing through


def test_a_size_of_just_the_largest_output_may_be_too_large_for_its_source() -> None:
    """The message names the limit that was exceeded."""
    arena = Arena(bytearray(), 0, 1, Limits(max_output_bytes=2 * MEBIBYTE, max_ratio=3))
    assert arena.claim(MEBIBYTE) is None
    found = [arena.claim(size) for size in (2 * MEBIBYTE, 2 * MEBIBYTE + 1)]
    told = ["decompresses to more than 3 times its 1 bytes", "decompresses to more than the limit of 2097152 bytes"]
    assert [getattr(one, "message", None) for one in found] == told
