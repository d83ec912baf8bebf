"""Messages within a compressed v0 or v1 set of which one cannot be read: those before it keep their offsets."""

import struct
import zlib

import pytest

from tests.support.commands import kafkalog
from tests.support.logs import COMPRESS, R, message

GZIP = 1


def spoiled(data, magic, how):
    data = bytearray(data)
    if how == "compressed":
        data[17] |= GZIP
    else:
        key_length_at = 26 if magic else 18
        data[key_length_at : key_length_at + 4] = struct.pack(">i", 1 << 20)
    data[12:16] = struct.pack(">I", zlib.crc32(data[16:]))
    return bytes(data)


@pytest.fixture
def a_set(magic, how, bad, tmp_path):
    """A wrapper at offset 12 of three messages, and a time index whose entry is right."""
    base = 0 if magic else 10  # they are relative to the wrapper's offset in v1
    inner = [message(R(base + i, 1600000000000 + i, b"k", b"v"), magic) for i in range(3)]
    inner[bad] = spoiled(inner[bad], magic, how)
    wrapper = R(12, 1600000000002, None, COMPRESS[GZIP](b"".join(inner)))
    (tmp_path / f"{0:020d}.log").write_bytes(message(wrapper, magic, GZIP))
    (tmp_path / f"{0:020d}.timeindex").write_bytes(struct.pack(">qi", 1600000000002, 12))
    (tmp_path / f"{0:020d}.index").write_bytes(b"")
    return tmp_path


def dump(*argv):
    return kafkalog("dump-log", *argv)


# DumpLogSegments 4.2.0 prints the same of each of these twelve files.
@pytest.mark.exhaustive
@pytest.mark.parametrize("how", ["compressed", "key length"])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("bad", [0, 1, 2])
def test_read_gives_right_offsets_before_a_damaged_inner_message(a_set, bad):
    code, out, errors = dump("--deep-iteration", str(a_set / f"{0:020d}.log"))
    assert code == 1
    printed = [line.split()[2] for line in out.splitlines() if line.startswith("| offset:")]
    assert printed == [str(10 + i) for i in range(bad)]
    assert "inner message" in errors.lower()


@pytest.mark.parametrize("how", ["key length"])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("bad", [0, 1, 2])
def test_the_check_of_a_time_index_asks_for_timestamps_only(a_set, magic):
    path = str(a_set / f"{0:020d}.timeindex")
    code, out, errors = dump("--files", path)
    assert (code, out) == (0, f"Dumping {path}\ntimestamp: 1600000000002 offset: 12\n")
    assert errors == ("" if magic else f"Found timestamp mismatch in :{path}\n"
                      "  Index timestamp: 1600000000002, log timestamp: -1\n")  # fmt: skip
