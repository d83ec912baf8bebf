"""Small files that want to become large: each ends in a fault or an answer, in bounded memory."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.damage.makers import (
    GZIP,
    LZ4,
    MEBIBYTE,
    MINIMAL_RECORD,
    NONE,
    PACK,
    SNAPPY,
    START_MS,
    ZSTD,
    batch,
    message,
    record,
    seven,
    wrapper,
    xerial,
)
from tests.damage.peaks import BOMBS
from tests.damage.reading import Fact, read
from tests.support.product import IN_A_PROCESS

pytestmark = pytest.mark.exhaustive

ROOT = Path(__file__).parents[2]
MOST_MEBIBYTES = 300
LOG, SEVEN = "00000000000000000000.log", "00000000000000000000.kafka"
FIRST = batch(0, [record(0, b"first", b"1")])
LAST = batch(9, [record(0, b"last", b"1")])


@pytest.fixture(autouse=True)
def counted(evidence):
    evidence("R9", 1, BOMBS)


ALONE = f"""
import sys
{IN_A_PROCESS}
def status(word):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(word))
code = run(sys.argv[1:], Environment())
print("peak", status("VmHWM"), "KiB", file=sys.stderr)
sys.exit(code)
"""


def dump(file: Path, data: bytes, *options: str) -> tuple[int, str, str, int]:
    """As `alone`, of a dump of `data` as a file."""
    file.write_bytes(data)
    argv = options if "--deep-iteration" in options else ("--print-data-log", *options)
    return alone(file.parent / "out", "dump-log", *argv, "--files", str(file))


def alone(output: Path, *argv: str) -> tuple[int, str, str, int]:
    """Exit code, first and last MiB of stdout, stderr, and peak memory in MiB of a command in a process of its own."""
    if not Path("/proc/self/status").exists():
        pytest.skip("peak memory is read from /proc")
    with output.open("w+b") as out:
        command = [sys.executable, "-c", ALONE, *argv]
        done = subprocess.run(
            command, stdout=out, stderr=subprocess.PIPE, cwd=ROOT, timeout=600, text=True, check=False
        )
        size = out.seek(0, 2)
        out.seek(0)
        text = out.read(MEBIBYTE)
        out.seek(max(0, size - MEBIBYTE))
        text += out.read()
    errors, _, peak = done.stderr.rpartition("peak ")
    return done.returncode, text.decode(errors="replace"), errors, int(peak.split()[0]) >> 10


def zeros(codec: int, size: int) -> bytes:
    """Zeros packed piece by piece where the format allows it, so that making a bomb is cheap."""
    if codec == SNAPPY:
        block = xerial(bytes(MEBIBYTE), MEBIBYTE)
        return block[:16] + block[16:] * (size // MEBIBYTE)
    return PACK[codec](bytes(size))


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_bomb_of_zeros_is_too_large(codec, tmp_path):
    bomb = batch(1, b"\0", codec=codec, packed=zeros(codec, 160 * MEBIBYTE))
    assert len(bomb) < (160 * MEBIBYTE) // (20 if codec == SNAPPY else 200)
    code, out, errors, peak = dump(tmp_path / LOG, FIRST + bomb + LAST)
    assert code == 1
    assert f"at byte {len(FIRST)}: decompresses to more than" in errors
    assert "key: first" in out
    assert "key: last" not in out
    assert peak < MOST_MEBIBYTES


slow = pytest.mark.slow
SOME, MANY = 250_000, 2_000_000
FEW_MEBIBYTES = 128
"""As objects, and as columns, they would take 200 more."""
NEAR_THE_CAP = 120 * MEBIBYTE // len(MINIMAL_RECORD)
"""As columns these would take 1.5 GiB."""


@pytest.mark.parametrize(
    ("codec", "many"), [(ZSTD, SOME), pytest.param(NONE, MANY, marks=slow), pytest.param(ZSTD, MANY, marks=slow)]
)
def test_records_of_seven_bytes_without_end(codec, many, tmp_path):
    data = MINIMAL_RECORD * many
    bomb = batch(1, data, codec=codec, count=many, delta=many, packed=PACK[codec](data) if codec else None)
    after = batch(many + 2, [record(0, b"last", b"1")])
    code, out, errors, peak = dump(tmp_path / LOG, FIRST + bomb + after, "--kafka-version", "4.2")
    assert code == 0
    assert out.count("offset: 1 ") > 1000
    assert "key: first" in out
    assert out.endswith(" headerKeys: [] key: last payload: 1\n")
    # Each record has the offset of the one before.
    assert errors.startswith("Non-consecutive offsets in ")
    assert errors.endswith("  1 is followed by 1\n")
    assert errors.count("\n") == 1 + many
    assert peak < FEW_MEBIBYTES
    # Since Kafka 4.3 there is a line for each offset that another does not follow.
    _, _, errors, peak = dump(tmp_path / LOG, FIRST + bomb + after)
    assert errors.splitlines()[1:] == [f"  1 is followed by {many + 2}"]
    assert peak < FEW_MEBIBYTES


@pytest.mark.full
@slow
def test_as_many_records_as_the_cap_allows(tmp_path):
    data = MINIMAL_RECORD * NEAR_THE_CAP
    bomb = batch(1, b"\0", codec=ZSTD, count=NEAR_THE_CAP, packed=PACK[ZSTD](data))
    (tmp_path / LOG).write_bytes(FIRST + bomb)
    argv = ("verify", "--level", "deep", str(tmp_path / LOG))
    code, out, errors, peak = alone(tmp_path / "out", *argv)
    assert (code, errors) == (4, "")
    assert "the offsets of its records do not ascend" in out
    assert f" {NEAR_THE_CAP + 1} records" in out
    assert peak < 220  # of the whole process: the command line has 60 of it


@pytest.mark.parametrize("magic", [pytest.param(0, marks=slow), 1])
def test_inner_messages_without_end(magic, tmp_path):
    one = message(0, None, None, magic=magic)
    many = SOME // (2 if magic else 1)
    bomb = message(many, None, PACK[GZIP](one * many), magic=magic, attributes=GZIP)
    code, out, _, peak = dump(tmp_path / LOG, FIRST + bomb)
    assert code == 0
    assert out.count("\n| offset: ") > 1000
    when = f"CreateTime: {START_MS}" if magic else "NoTimestampType: -1"
    last = f"| offset: {many if magic else 0} {when} keySize: -1 valueSize: -1 isValid: true"
    assert out.rpartition("\n")[0].rpartition("\n")[2].startswith(last)
    assert peak < FEW_MEBIBYTES


@pytest.mark.parametrize("nested", [False, pytest.param(True, marks=slow)])
def test_messages_of_seven_without_end(nested, tmp_path):
    packed = PACK[GZIP](seven(b"") * SOME)
    bomb = seven(PACK[GZIP](seven(packed, codec=GZIP)), codec=GZIP) if nested else seven(packed, codec=GZIP)
    code, out, errors, peak = dump(tmp_path / SEVEN, seven(b"first") + bomb)
    assert (code, errors) == (0, "")
    assert out.count("\n") > 1000
    assert peak < FEW_MEBIBYTES


@pytest.mark.parametrize("codec", [GZIP, SNAPPY])
def test_sets_of_seven_nested_without_end(codec):
    bomb = seven(b"in the middle")
    for _ in range(30):
        bomb = seven(PACK[codec](bomb), codec=codec)
    outcome = read(seven(b"first") + bomb + seven(b"last"), seven=True, goes_on=True)
    assert [record.value for record in outcome.records] == [b"first", b"last"]
    assert outcome.record_faults == [Fact("unknown-codec", 14)]


def test_a_set_of_seven_that_doubles_at_every_level_stays_under_the_cap(tmp_path):
    bomb = seven(bytes(100_000))
    for _ in range(7):
        bomb = seven(PACK[GZIP](bomb * 60), codec=GZIP)
    code, _, errors, peak = dump(tmp_path / SEVEN, seven(b"first") + bomb)
    assert code == 1
    assert "decompresses to more than" in errors
    assert peak < MOST_MEBIBYTES


def test_a_set_in_a_set_is_refused_in_v0_and_v1():
    for magic in (0, 1):
        inner = wrapper(0, [(None, b"v")] * 3, magic=magic, codec=GZIP)
        outer = message(9, None, PACK[GZIP](inner), magic=magic, attributes=GZIP)
        outcome = read(message(0, None, b"first", magic=magic) + outer)
        assert [fault.kind for fault in outcome.record_faults] == ["invalid-inner-message"]
        assert [record.value for record in outcome.records] == [b"first"]


ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
SIZES_THAT_LIE = {
    "snappy block of 4 GiB": (
        SNAPPY,
        b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01" + struct.pack(">i", 6) + b"\xff\xff\xff\xff\x0f\0",
    ),
    "snappy block of 100 MiB in 6 bytes": (SNAPPY, b"\x80\x80\x80\x32\0a"),
    "snappy chunk of 2 GiB": (SNAPPY, b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01\x7f\xff\xff\xff\0"),
    "lz4 block of 2 GiB": (LZ4, PACK[LZ4](b"x")[:7] + b"\xff\xff\xff\x7f\0"),
    "zstd content of 2^60": (ZSTD, ZSTD_MAGIC + b"\xe0" + struct.pack("<Q", 1 << 60) + b"\x01\0\0"),
    "zstd window of 2 GiB": (ZSTD, ZSTD_MAGIC + b"\0\xa8" + b"\x09\0\0a"),
    "zstd rle block of 128 KiB times 2000": (ZSTD, ZSTD_MAGIC + b"\0\x68" + b"\x02\0\x10a" * 2000 + b"\x01\0\0"),
    # zstd keeps a window of the output besides it: the most that Kafka writes is 128 MiB, at level 22.
    "zstd rle blocks and the largest window": (ZSTD, ZSTD_MAGIC + b"\0\x88" + b"\x02\0\x10a" * 2000 + b"\x01\0\0"),
}


@pytest.mark.parametrize("lie", SIZES_THAT_LIE)
def test_a_declared_size_costs_nothing(lie, tmp_path):
    codec, packed = SIZES_THAT_LIE[lie]
    data = FIRST + batch(1, b"\0", codec=codec, packed=packed) + LAST
    code, out, errors, peak = dump(tmp_path / LOG, data)
    assert code == 1
    assert f"at byte {len(FIRST)}: " in errors
    assert ("key: first" in out, "key: last" in out) == (True, False)
    assert peak < (MOST_MEBIBYTES + 50 if "rle" in lie else 100)  # a small dump takes 42


@pytest.mark.parametrize(("option", "value_mebibytes"), [("--deep-iteration", 100), ("--print-data-log", 20)])
def test_large_values_are_read_in_bounded_memory(option, value_mebibytes, tmp_path):
    data = batch(0, [record(0, b"large", b"v" * (value_mebibytes * MEBIBYTE))]) + batch(1, [record(0, b"last", b"")])
    code, out, errors, peak = dump(tmp_path / LOG, data, option)
    assert (code, errors) == (0, "")
    assert ("baseOffset: 1 " in out, f"valueSize: {value_mebibytes * MEBIBYTE}" in out) == (True, True)
    assert peak < MOST_MEBIBYTES
