"""Codecs against what Kafka and its clients write and read: round trips, framings, damage, limits."""

from __future__ import annotations

import gzip
import json
import random
import struct
import subprocess
import sys
import threading
import tracemalloc
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cramjam
import lz4.block
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_cli.format.compression import Codec, CompressionFault, codec_name, compress, decompress, decompress_into
from kafkalog_cli.format.compression import gzip as gzip_module
from kafkalog_cli.format.compression.outcome import Arena
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.limits import MEBIBYTE, Limits
from tests.unit.compression_samples import (
    GZIP,
    LIMITS,
    LONG,
    LZ4,
    PACKING,
    SNAPPY,
    TEXT,
    XERIAL_HEADER,
    ZSTD,
    fails,
    kind_of,
    unpack,
    xerial,
)

# -- Codecs: the table, round trips, what Kafka and its clients wrote, damage, caps, the arena


FIXTURES = Path(__file__).parents[1] / "fixtures"
KAFKA: dict[str, Any] = json.loads((FIXTURES / "compression" / "kafka_streams.json").read_text())


# -- the table


def test_codec_names_are_kafkas() -> None:
    assert [codec_name(codec) for codec in range(8)] == ["none", "gzip", "snappy", "lz4", "zstd", None, None, None]
    assert codec_name(-1) is None


@pytest.mark.parametrize("codec", [5, 6, 7, -1, 99])
def test_an_unknown_codec_is_a_fault_when_read_and_a_mistake_when_written(codec: int) -> None:
    assert kind_of(codec, b"anything") is FaultKind.UNKNOWN_CODEC
    with pytest.raises(ValueError, match=str(codec)):
        compress(codec, b"anything")


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_is_refused_before_magic_2(magic: int) -> None:
    packed = compress(ZSTD, TEXT)
    assert kind_of(ZSTD, packed, magic) is FaultKind.UNKNOWN_CODEC
    with pytest.raises(ValueError, match="zstd"):
        compress(ZSTD, TEXT, magic=magic)


@pytest.mark.parametrize(
    ("codec", "level"), [(GZIP, 0), (GZIP, 10), (SNAPPY, 1), (LZ4, 0), (LZ4, 18), (ZSTD, 23), (ZSTD, -(1 << 17) - 1)]
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
def test_compressed_bytes_decompress_to_the_same_bytes(codec: Codec, magic: int, data: bytes) -> None:
    if codec is ZSTD and magic < 2:
        return
    assert unpack(codec, compress(codec, data, magic=magic), magic) == data


@pytest.mark.parametrize(
    ("codec", "level"),
    [(GZIP, 1), (GZIP, 9), (GZIP, -1), (LZ4, 1), (LZ4, 9), (LZ4, 17), (ZSTD, -(1 << 17)), (ZSTD, -7), (ZSTD, 22)],
)
def test_bytes_compressed_at_every_level_decompress_to_the_same_bytes(codec: int, level: int) -> None:
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
def test_damage_of_compressed_bytes_is_found_exactly_where_kafka_finds_it(verdict: dict[str, Any], how: str) -> None:
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
def test_any_bytes_decompress_or_are_a_fault(codec: Codec, data: bytes, head: bool) -> None:
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


# -- Codecs: the framings that are written, and every option of other writers that is read or refused


# -- what is written is what Kafka's Java writes


def test_written_gzip_has_javas_header() -> None:
    packed = compress(GZIP, TEXT)
    assert packed[:10].hex() == "1f8b08000000000000ff"
    assert struct.unpack("<II", packed[-8:]) == (zlib.crc32(TEXT), len(TEXT))
    assert gzip.decompress(packed) == TEXT


def test_written_snappy_is_xerials_stream_of_32_kib_blocks() -> None:
    packed, blocks, position = compress(SNAPPY, LONG), [], 16
    assert packed[:16] == XERIAL_HEADER
    while position < len(packed):
        (size,) = struct.unpack_from(">i", packed, position)
        blocks.append(bytes(cramjam.snappy.decompress_raw(packed[position + 4 : position + 4 + size])))
        position += 4 + size
    assert position == len(packed)
    assert b"".join(blocks) == LONG
    assert {len(block) for block in blocks[:-1]} == {32 << 10}
    assert compress(SNAPPY, b"") == XERIAL_HEADER


@pytest.mark.parametrize(("magic", "head"), [(0, "04224d1860401a"), (1, "04224d18604082"), (2, "04224d18604082")])
def test_written_lz4_has_64_kib_blocks_and_the_checksum_of_its_magic(magic: int, head: str) -> None:
    packed, sizes, position = compress(LZ4, LONG, magic=magic), [], 7
    assert packed[:7].hex() == head
    while size := struct.unpack_from("<I", packed, position)[0]:
        position += 4
        block = packed[position : position + (size & 0x7FFFFFFF)]
        sizes.append(len(block) if size >> 31 else len(lz4.block.decompress(block, uncompressed_size=1 << 16)))
        position += len(block)
    assert position + 4 == len(packed)
    assert sizes == [1 << 16] * (len(LONG) >> 16) + [len(LONG) & 0xFFFF]


@pytest.mark.parametrize(
    ("codec", "magic", "packed"),
    [
        (GZIP, 2, "1f8b08000000000000ffcb48cdc9c957c8204c0200344f073229000000"),
        (LZ4, 2, "04224d18604082100000006f68656c6c6f2006000b5068656c6c6f00000000"),
        (LZ4, 0, "04224d1860401a100000006f68656c6c6f2006000b5068656c6c6f00000000"),
        (ZSTD, 2, "28b52ffd00586400003068656c6c6f200100429622010000"),
        (SNAPPY, 2, "82534e4150505900000000010000000100 00000b291468656c6c6f208a0600"),
    ],
)
def test_a_small_text_is_packed_to_the_bytes_that_kafka_4_2_writes(codec: int, magic: int, packed: str) -> None:
    assert compress(codec, b"hello " * 6 + b"hello", magic=magic) == bytes.fromhex(packed)


def test_written_zstd_has_no_content_size_and_no_checksum() -> None:
    parameters = zstandard.get_frame_parameters(compress(ZSTD, LONG))
    assert parameters.content_size == zstandard.CONTENTSIZE_UNKNOWN
    assert not parameters.has_checksum
    assert compress(ZSTD, LONG).endswith(bytes.fromhex("010000"))  # the empty last block of a flush before the end


# -- gzip


def member(data: bytes, flags: int = 0, extra: bytes = b"", name: bytes = b"", comment: bytes = b"") -> bytes:
    header = bytes((0x1F, 0x8B, 8, flags)) + bytes(6)
    header += struct.pack("<H", len(extra)) + extra if flags & 4 else b""
    header += name + b"\0" if flags & 8 else b""
    header += comment + b"\0" if flags & 16 else b""
    header += struct.pack("<H", zlib.crc32(header) & 0xFFFF) if flags & 2 else b""
    encoder = zlib.compressobj(9, zlib.DEFLATED, -15)
    return header + encoder.compress(data) + encoder.flush() + struct.pack("<II", zlib.crc32(data), len(data))


@pytest.mark.parametrize("flags", range(32))
def test_gzip_headers_with_any_optional_field_unpack(flags: int) -> None:
    packed = member(TEXT, flags, b"extra", b"name", b"a comment")
    assert unpack(GZIP, packed + member(b"more", flags)) == TEXT + b"more"
    assert all(fails(GZIP, packed[:size]) for size in range(40))


def test_gzip_header_crc_is_verified() -> None:
    packed = bytearray(member(TEXT, 2))
    packed[4] ^= 1
    assert fails(GZIP, bytes(packed))


@pytest.mark.parametrize("members", [[b""], [b"", b"", b"x"], [TEXT, b"", LONG, TEXT], [TEXT] * 50])
def test_gzip_members_are_read_one_after_the_other(members: list[bytes]) -> None:
    assert unpack(GZIP, b"".join(map(gzip.compress, members))) == b"".join(members)


@pytest.mark.parametrize("level", [0, 1, 6, 9])
@pytest.mark.parametrize("size", [(512 << 10) - 1, 512 << 10, (512 << 10) + 1, 1 << 20, 3 << 20])
def test_gzip_output_around_the_size_of_a_piece_unpacks(level: int, size: int) -> None:
    for data in (bytes(size), (LONG * 20)[:size], (TEXT * 2200)[:size]):
        assert unpack(GZIP, compress(GZIP, data, level=level) if level else gzip.compress(data, 0)) == data


@pytest.mark.parametrize(
    "rest", [bytes(1), bytes(4096), b"\x1f", b"\x1f\x8b\x08", b"no member at all, but long enough"]
)
def test_gzip_ignores_what_follows_and_is_no_member(rest: bytes) -> None:
    assert unpack(GZIP, member(TEXT) + rest) == TEXT


@pytest.mark.parametrize("cut", [1, 8, 9, 20])
def test_a_second_gzip_member_cut_off_is_a_fault(cut: int) -> None:
    assert fails(GZIP, member(TEXT) + member(TEXT)[:-cut])


@pytest.mark.parametrize("at", [-1, -4, -5, -8])
def test_gzip_trailer_is_verified(at: int) -> None:
    packed = bytearray(member(TEXT))
    packed[at] ^= 1
    assert fails(GZIP, bytes(packed))


def test_gzip_without_isal_goes_by_zlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "isal", None)
    gzip_module._library.cache_clear()
    try:
        assert gzip_module._library().error is zlib.error
        assert unpack(GZIP, gzip.compress(LONG) + gzip.compress(TEXT) + bytes(99)) == LONG + TEXT
        assert unpack(GZIP, gzip.compress(bytes(3 << 20))) == bytes(3 << 20)
        assert fails(GZIP, gzip.compress(LONG)[:-9])
        assert fails(GZIP, bytes.fromhex("1f8b08000000000000ff07"))
    finally:
        gzip_module._library.cache_clear()


# -- snappy


@pytest.mark.parametrize("block_bytes", [1, 7, 1024, 32 << 10, 1 << 20])
def test_snappy_blocks_of_any_size(block_bytes: int) -> None:
    data = LONG[: block_bytes * 300]
    assert unpack(SNAPPY, xerial(data, block_bytes)) == data


def test_snappy_streams_appended_to_each_other_unpack_to_both() -> None:
    assert unpack(SNAPPY, xerial(TEXT, 100) + xerial(b"more", 9) + XERIAL_HEADER * 3) == TEXT + b"more"
    newer = XERIAL_HEADER[:8] + struct.pack(">ii", 2, 1)
    assert unpack(SNAPPY, xerial(TEXT, 100) + newer + xerial(b"more", 9)[16:]) == TEXT + b"more"
    older = XERIAL_HEADER[:8] + struct.pack(">ii", 0, 1)
    assert fails(SNAPPY, xerial(TEXT, 100) + older + xerial(b"more", 9)[16:])
    assert fails(SNAPPY, xerial(TEXT, 100) + XERIAL_HEADER[:-1])


@pytest.mark.parametrize("data", [b"", b"x", TEXT, LONG])
def test_snappy_without_xerials_header_is_one_bare_block(data: bytes) -> None:
    assert unpack(SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data


def test_snappy_that_ends_in_the_wrong_place() -> None:
    packed = xerial(TEXT, 100)
    assert fails(SNAPPY, b"")
    assert fails(SNAPPY, packed[:15])
    assert unpack(SNAPPY, XERIAL_HEADER) == b""
    assert unpack(SNAPPY, packed + bytes(3)) == TEXT  # less than a length: taken for the end
    assert fails(SNAPPY, packed + bytes(4))  # a block without even its uncompressed length
    assert unpack(SNAPPY, packed + struct.pack(">i", 1) + b"\0") == TEXT
    assert fails(SNAPPY, packed + struct.pack(">i", 5) + b"abcd")
    assert fails(SNAPPY, packed + struct.pack(">i", -1))


@pytest.mark.parametrize("length", ["ffffffff10", "ffffffffff01", "8080808080", "ff"])
def test_snappy_block_with_an_impossible_length_is_refused(length: str) -> None:
    assert fails(SNAPPY, bytes.fromhex(length))


@pytest.mark.parametrize(
    ("packed", "told"),
    [
        (XERIAL_HEADER + struct.pack(">I", 512 << 20), "is cut off after 0"),
        (XERIAL_HEADER + struct.pack(">I", (512 << 20) + 1), "exceeds 536870912"),
        (bytes.fromhex("8080808010"), "without a valid uncompressed length"),
        (b"\x42\0\0", "does not decompress"),
        (b"\x43\0\0", "cannot decompress to the declared 67"),
    ],
)
def test_snappy_lengths_at_their_limits(packed: bytes, told: str) -> None:
    """512 MiB in a block of a stream, 32 bits in a bare block, and 22 times the bytes of a block."""
    found = decompress(SNAPPY, packed, magic=2, limits=LIMITS)
    assert told in getattr(found, "message", "")


# -- lz4

OPTIONS = [
    {"store_size": store_size, "content_checksum": content, "block_checksum": block, "block_size": size}
    for store_size in (False, True)
    for content in (False, True)
    for block in (False, True)
    for size in (4, 5, 6, 7)
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("data", [b"", TEXT, LONG, random.Random(2).randbytes(300_000)], ids=len)
def test_lz4_frames_of_every_option_unpack(options: dict[str, Any], data: bytes) -> None:
    assert unpack(LZ4, lz4.frame.compress(data, block_linked=False, **options)) == data


def test_lz4_frames_that_kafka_does_not_read() -> None:
    assert fails(LZ4, lz4.frame.compress(LONG, block_linked=True))
    good = lz4.frame.compress(TEXT, block_linked=False, store_size=False)
    for flags in (0x61, 0x62, 0x20, 0xA0):  # dictionary id, reserved, version 0, version 2
        assert fails(LZ4, good[:4] + bytes((flags,)) + good[5:], 0)
    for block_size in (0x30, 0x41, 0xC0):
        assert fails(LZ4, good[:5] + bytes((block_size,)) + good[6:], 0)


def test_lz4_header_checksum_counts_from_magic_1_on() -> None:
    packed = compress(LZ4, TEXT, magic=0)
    assert unpack(LZ4, packed, 0) == TEXT
    assert fails(LZ4, packed, 1)
    assert fails(LZ4, packed, 2)
    assert unpack(LZ4, compress(LZ4, TEXT, magic=1), 0) == TEXT


def test_lz4_block_checksums_count_and_content_checksums_do_not() -> None:
    block = bytearray(lz4.frame.compress(TEXT, block_linked=False, block_checksum=True, store_size=False))
    block[-5] ^= 1
    assert fails(LZ4, bytes(block))
    content = bytearray(lz4.frame.compress(TEXT, block_linked=False, content_checksum=True, store_size=False))
    content[-1] ^= 1
    assert unpack(LZ4, bytes(content)) == TEXT
    assert all(fails(LZ4, bytes(content[:-cut])) for cut in range(1, 9))


def test_lz4_content_size_is_not_believed() -> None:
    packed = bytearray(lz4.frame.compress(TEXT, block_linked=False, store_size=True))
    packed[6:14] = struct.pack("<Q", 1 << 62)
    assert unpack(LZ4, bytes(packed), 0) == TEXT


def test_lz4_ends_at_the_end_mark() -> None:
    packed = compress(LZ4, TEXT)
    assert unpack(LZ4, packed + packed) == TEXT
    assert unpack(LZ4, packed + b"whatever") == TEXT
    assert fails(LZ4, packed[:-4])
    assert fails(LZ4, b"")
    empty_block = struct.pack("<I", 1) + b"\0"
    assert unpack(LZ4, packed[:-4] + empty_block + b"\xff" * 9) == TEXT
    assert unpack(LZ4, packed[:-4] + empty_block) == TEXT


def test_lz4_block_over_the_frames_maximum_is_refused() -> None:
    assert fails(LZ4, compress(LZ4, b"")[:-4] + struct.pack("<I", 0x80010001) + bytes(65537) + bytes(4))
    too_much = lz4.block.compress(bytes(65537), store_size=False)
    assert fails(LZ4, compress(LZ4, b"")[:-4] + struct.pack("<I", len(too_much)) + too_much + bytes(4))


# -- zstd


def frames(data: bytes, **options: Any) -> bytes:
    return zstandard.ZstdCompressor(**options).compress(data)


SKIPPABLE = struct.pack("<II", 0x184D2A5F, 7) + b"skipped"


@pytest.mark.parametrize("level", [-5, 1, 3, 19])
@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("content_size", [False, True])
@pytest.mark.parametrize("data", [b"", b"x", TEXT, LONG], ids=len)
def test_zstd_frames_of_every_option_unpack(level: int, checksum: bool, content_size: bool, data: bytes) -> None:
    packed = frames(data, level=level, write_checksum=checksum, write_content_size=content_size)
    assert unpack(ZSTD, packed) == data
    assert unpack(ZSTD, SKIPPABLE + packed + SKIPPABLE + packed) == data * 2
    if checksum and len(data) > 1:
        assert fails(ZSTD, packed[:-1] + bytes((packed[-1] ^ 1,)))


def test_zstd_frame_of_many_blocks() -> None:
    encoder = zstandard.ZstdCompressor().compressobj()
    pieces = [encoder.compress(b"%d" % i) + encoder.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for i in range(3000)]
    buffer = bytearray()
    packed = b"".join(pieces) + encoder.flush()
    size = decompress_into(ZSTD, packed, buffer, 0, magic=2, limits=LIMITS)
    assert buffer[:size] == b"".join(b"%d" % i for i in range(3000))
    assert len(buffer) < MEBIBYTE  # not the 3000 times 128 KiB that the blocks could hold


def test_zstd_no_bytes_are_no_output() -> None:
    assert unpack(ZSTD, b"") == b""
    assert unpack(ZSTD, struct.pack("<II", 0x184D2A50, 0)) == b""


def test_zstd_frame_cut_off_in_its_checksum_is_refused() -> None:
    packed = frames(LONG, write_checksum=True)
    assert all(fails(ZSTD, packed[:-cut]) for cut in (1, 2, 3, 4, 5))


def test_zstd_second_frame_cut_off_is_a_fault_only_where_it_came_with_another_read() -> None:
    """zstd-jni reads 131,075 bytes at a time and forgets only then that a frame has ended."""
    second = frames(TEXT)
    assert unpack(ZSTD, frames(TEXT) + second[:-1]) == TEXT
    lengths = ((131_000, True), (131_055, True), (131_056, False), (131_074, False), (131_075, False), (131_076, True))
    for first_bytes, ends in lengths:
        first = frames(random.Random(3).randbytes(130_000))
        filler = first_bytes - len(first) - 8
        first += struct.pack("<II", 0x184D2A50, filler) + bytes(filler)
        outcome = decompress(ZSTD, first + second[:20], magic=2, limits=LIMITS)
        assert isinstance(outcome, bytes) is ends, first_bytes


@pytest.mark.parametrize("rest", [b"\0", b"\x28\xb5\x2f\xfc", b"not a frame"])
def test_zstd_what_follows_must_be_a_frame(rest: bytes) -> None:
    assert fails(ZSTD, frames(TEXT) + rest)


def test_zstd_window_over_the_limit_of_zstd_jni_is_refused() -> None:
    block = bytes.fromhex("0900 00 41".replace(" ", ""))  # one raw block: A
    assert unpack(ZSTD, bytes.fromhex("28b52ffd00 88") + block) == b"A"  # 128 MiB
    assert fails(ZSTD, bytes.fromhex("28b52ffd00 90") + block)  # 256 MiB
