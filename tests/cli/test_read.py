"""`read` from the command line: text, fetch responses, ranges, damage, disks that fail, readers that go away."""

import errno
import io
import json
import struct
import zlib
from itertools import accumulate

import crc32c
import pytest

from tests.support.commands import Terminal
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.logs import BASE_TIME_MS, R, batch_v2, message, xerial
from tests.support.naive_consumer import consume
from tests.support.naive_reader import read_batches
from tests.support.product import Environment, run

FOLDER = "/logs/orders-3"
FIRST, SECOND = f"{FOLDER}/{0:020d}.log", f"{FOLDER}/{40:020d}.log"


def batches(first, count, per=4, codec=0, size=300):
    """`count` batches of `per` records."""
    made = []
    for base in range(first, first + count * per, per):
        records = [R(base + i, BASE_TIME_MS + base + i, b"k%d" % (base + i), b"%08d" % base * (size // 8), ((b"h", None),))
                   for i in range(per)]  # fmt: skip
        made.append(batch_v2(records, codec))
    return made


ONE, TWO = batches(0, 10), batches(40, 10, codec=3)
FILES = {FIRST: b"".join(ONE), SECOND: b"".join(TWO)}


def read(files, *options, out=None):
    """(exit code, stdout, stderr)."""
    out, err = io.BytesIO() if out is None else out, io.BytesIO()
    fs = files if isinstance(files, FaultyFilesystem) else FaultyFilesystem(files)
    environment = Environment(out, err, fs, lambda: BASE_TIME_MS)
    code = run(["read", FOLDER, *map(str, options)], environment)
    return code, out.getvalue(), err.getvalue().decode()


def offsets(out):
    return [int(line) for line in out.decode().replace("Offset:", "").split()]


def test_text_has_what_is_asked_for():
    code, out, err = read(
        FILES, "--from", 41, "--max-records", 1, "--print", "value,offset,key,headers,timestamp,partition"
    )
    stamp = BASE_TIME_MS + 41
    wanted = f"CreateTime:{stamp}\tPartition:3\tOffset:41\th:null\tk41\t{'00000040' * 37}\n"
    assert (code, out, err) == (0, wanted.encode(), "")
    assert read(FILES, "--to-offset", 1)[1] == b"00000000" * 37 + b"\n"
    code, out, err = read(FILES, "--print", "value,colour")
    assert (code, out) == (2, b"")
    assert "--print colour: a line has timestamp" in err


def test_no_control_character_reaches_a_terminal():
    value = b"\x1b[2J\tred\nline\x9b\xc2\x9b \xff g\xc3\xb6"
    data = batch_v2([R(0, BASE_TIME_MS, b"\x07k", value, ((b"\x1bh", b"\r"),)), R(1, BASE_TIME_MS, None, None)])
    options = ("--print", "headers,key,value")
    code, raw, _ = read({FIRST: data}, *options)
    assert (code, raw) == (0, b"\x1bh:\r\t\x07k\t" + value + b"\nNO_HEADERS\tnull\tnull\n")
    _, shown, _ = read({FIRST: data}, *options, out=Terminal())
    text = shown.decode()
    assert all(character.isprintable() or character in "\t\n" for character in text)
    assert text.split("\n")[0].split("\t") == ["\\x1bh:\\r", "\\x07k", "\\x1b[2J\\tred\\nline\ufffd\\x9b \ufffd gö"]


@pytest.mark.parametrize("options", [("--chunk-bytes", 700), ("--chunk-bytes", 1), ()])
def test_chunks_change_nothing_that_is_read(options):
    wanted = [record[0] for record in consume(FILES.values()).records]
    code, out, err = read(FILES, "--print", "offset", *options)
    assert (code, offsets(out), err) == (0, wanted, "")


@pytest.mark.parametrize(("most", "is_sound"), [(1, True), (2, True), (3, False)])
def test_after_the_last_record_that_is_wanted_nothing_is_read(most, is_sound):
    """So the damage of the next segment is not reported."""
    first = batch_v2([R(0, BASE_TIME_MS, b"k", b"v"), R(1, BASE_TIME_MS, b"k", b"v")], base=0)
    second = batch_v2([R(2, BASE_TIME_MS, b"k", b"v")], base=2)
    files = {f"{FOLDER}/{0:020d}.log": first, f"{FOLDER}/{2:020d}.log": second[:-1] + b"!"}
    found, out, err = read(files, "--max-records", most, "--print", "offset")
    assert (found == 0, offsets(out), err == "") == (is_sound, [0, 1][:most], is_sound)


# -- fetch responses


def messages_of_responses(data):
    """The messages of each fetch response, as a consumer of 0.7 reads them (kafka.network.BoundedByteBufferReceive)."""
    found = []
    while data:
        size, error_code = struct.unpack_from(">ih", data)
        assert error_code == 0
        assert 2 <= size <= len(data) - 4
        found.append(data[6 : 4 + size])
        data = data[4 + size :]
    return found


@pytest.mark.parametrize("chunk_bytes", [1, len(ONE[0]), 3 * len(ONE[0]) + 5, 1 << 20])
def test_fetch_responses_are_read_back(chunk_bytes):
    code, out, err = read(FILES, "--framing", "fetch", "--chunk-bytes", chunk_bytes)
    responses = messages_of_responses(out)
    assert (code, err) == (0, "")
    assert b"".join(responses) == b"".join(FILES.values())
    for messages in responses:
        sizes = [batch.size_bytes for batch in read_batches(messages)]
        assert sum(sizes) == len(messages)
        room = chunk_bytes
        while room < sizes[0]:
            room *= 2
        assert len(messages) <= room
    # As many as fit: no two in a row of one segment would have gone into one.
    total = sum(map(len, responses))
    assert total == len(b"".join(FILES.values()))
    if chunk_bytes == 1 << 20:
        assert len(responses) == 2  # one a segment


def test_fetch_responses_have_what_a_consumer_gets():
    _, out, _ = read(FILES, "--framing", "fetch", "--from", 6, "--to-offset", 14)
    (messages,) = messages_of_responses(out)
    assert messages == b"".join(ONE[1:4])  # whole batches
    for option in (("--format", "json"), ("--until", "0"), ("--max-records", 3)):
        assert read(FILES, "--framing", "fetch", *option)[0] == 2
    assert read(FILES, "--framing", "fetch", out=Terminal())[0] == 2


# -- damage


def damaged(path, position, byte=0xAA):
    data = bytearray(FILES[path])
    data[position] ^= byte
    return {**FILES, path: bytes(data)}


@pytest.mark.parametrize(
    ("files", "lost", "position", "code", "kind"),
    [
        (damaged(FIRST, len(ONE[0]) * 2 + 100), range(8, 12), 2 * len(ONE[0]), 4, "crc-mismatch"),
        (damaged(FIRST, len(ONE[0]) * 2 + 8), range(8, 12), 2 * len(ONE[0]), 4, "size-too-small"),
        (damaged(SECOND, len(FILES[SECOND]) - 3), range(76, 80), len(FILES[SECOND]) - len(TWO[-1]), 3, "crc-mismatch"),
        ({**FILES, SECOND: FILES[SECOND][:-9]}, range(76, 80), len(FILES[SECOND]) - len(TWO[-1]), 3, "trailing-bytes"),
        ({**FILES, SECOND: FILES[SECOND] + bytes(5000)}, (), len(FILES[SECOND]), 3, "size-too-small"),
    ],
)
def test_read_reports_damage_with_its_position_and_prints_the_records_around_it(files, lost, position, code, kind):
    got, out, err = read(files, "--format", "json")
    *records, summary = map(json.loads, out.splitlines())
    assert [one["offset"] for one in records] == [offset for offset in range(80) if offset not in lost]
    (told,) = map(json.loads, err.splitlines())
    path = next(path for path in files if files[path] != FILES.get(path))
    assert (told["kind"], told["path"], told["position"]) == (kind, path, position)
    assert (got, summary["exit_code"]) == (code, code)
    assert read(files, "--to-offset", 4)[0] == 0  # damage outside of the range is none of its business


@pytest.mark.full
def test_a_damaged_length_hides_no_other_batch():
    """It leads across good batches into the middle of one; where another begins nothing tells of it."""
    at = 2 * len(ONE[0])
    begins = {*accumulate(map(len, ONE))}
    for end in range(at + 61, len(FILES[FIRST]), 7):
        if end in begins:
            continue
        data = bytearray(FILES[FIRST])
        struct.pack_into(">i", data, at + 8, end - at - 12)
        code, out, err = read({**FILES, FIRST: bytes(data)}, "--print", "offset")
        assert offsets(out) == [offset for offset in range(80) if offset not in range(8, 12)], end
        assert code == 4
        assert f"{FIRST}: at byte {at}" in err


@pytest.mark.parametrize(("path", "starts"), [(FIRST, ONE), (SECOND, TWO)])
def test_offsets_that_are_out_of_order(path, starts):
    """A base offset is not covered by the checksum. What it hides is told."""
    at = sum(map(len, starts[:3]))
    code, out, err = read(damaged(path, at + 5, 1), "--print", "offset")  # 65,536 more
    assert code == 4
    assert err.count("out of order") == 1
    first = 12 if path == FIRST else 52
    if path == FIRST:  # the next segment begins far below
        assert offsets(out) == [offset for offset in range(80) if offset // 4 != 3]
        assert f"{FIRST}: at byte {at}: offsets {first + 65536} to {first + 65539} are out of order" in err
    else:
        assert offsets(out) == [*range(52), *range(first + 65536, first + 65540)]
        assert "offsets 56 to 59 are out of order, and those of 5 more batches: they are left out" in err


def test_segments_that_hold_the_same_records():
    """As a merge that a crash cut off leaves them: no record is shown twice."""
    files = {FIRST: FILES[FIRST] + FILES[SECOND], SECOND: FILES[SECOND]}
    code, out, err = read(files, "--print", "offset")
    assert (code, offsets(out)) == (4, [*range(80)])
    assert "out of order" in err


def test_read_from_a_time_in_a_batch_with_offsets_of_a_later_segment_begins_there():
    """The batch is not read: the first record that is so late comes in that segment."""
    late = BASE_TIME_MS + 60_000
    first = batch_v2([R(0, BASE_TIME_MS)]) + batch_v2([R(60, late)])
    files = {f"{FOLDER}/{0:020d}.log": first, f"{FOLDER}/{2:020d}.log": batch_v2([R(2, late), R(3, late)])}
    code, out, err = read(files, "--from-time", late, "--print", "offset")
    assert (code, offsets(out)) == (0, [2, 3]), err


def test_batches_that_do_not_decompress():
    bad = batch_v2([R(8, BASE_TIME_MS, b"k", b"v")], 0)
    wrong = bytearray(bad)
    wrong[22] = 3  # lz4, it says; the checksum holds
    struct.pack_into(">I", wrong, 17, crc32c.crc32c(bytes(wrong[21:])))
    code, out, err = read({FIRST: b"".join(ONE[:2]) + bytes(wrong) + ONE[3]}, "--print", "offset")
    assert (code, offsets(out)) == (4, [*range(8), *range(12, 16)])
    assert f"{FIRST}: at byte {2 * len(ONE[0])}: records that cannot be read are left out" in err


def test_messages_with_bad_checksums_in_a_good_set():
    inner = [message(R(i, BASE_TIME_MS, b"k", b"value %d" % i), 1) for i in range(4)]
    inner[2] = inner[2][:12] + bytes(4) + inner[2][16:]
    data = message(R(3, BASE_TIME_MS, None, xerial(b"".join(inner))), 1, codec=2)
    code, out, err = read({FIRST: data, SECOND: FILES[SECOND]}, "--print", "offset", "--to-offset", 40)
    assert (code, offsets(out)) == (4, [0, 1, 3])
    assert f"{FIRST}: at byte 0: the CRC of a message does not match: offset 2 is left out" in err


def test_a_batch_larger_than_the_largest_chunk_ends_the_reading():
    large = batch_v2([R(40, BASE_TIME_MS, None, bytes(5000))])
    files = {FIRST: FILES[FIRST], SECOND: large + b"".join(batches(41, 2))}
    code, out, err = read(files, "--chunk-bytes", 1000, "--max-chunk-bytes", 4000, "--print", "offset")
    assert (code, offsets(out)) == (1, [*range(40)])
    assert f"{SECOND}: at byte 0: a batch of {len(large)} bytes, more than a chunk may have" in err
    assert read(files, "--chunk-bytes", 1000, "--max-chunk-bytes", len(large))[0] == 0
    assert read(files, "--chunk-bytes", 1000, "--max-chunk-bytes", 999)[0] == 2


def test_sectors_that_cannot_be_read():
    fs = FaultyFilesystem(FILES)
    fs.fail_read(FIRST, 4096, 8192)
    code, out, err = read(fs, "--print", "offset")
    size = len(ONE[0])
    lost = [i for i in range(10) if i * size < 8192 and (i + 1) * size > 4096]
    assert (code, offsets(out)) == (4, [offset for offset in range(80) if offset // 4 not in lost])
    assert f"{FIRST}: at byte 4096: cannot be read: Input/output error" in err
    assert fs.unfired() == []


def test_a_segment_that_cannot_be_opened_ends_no_reading():
    fs = FaultyFilesystem(FILES)
    fs.refuse_open(FIRST, error=errno.EACCES)
    code, out, err = read(fs, "--print", "offset")
    assert (code, offsets(out)) == (1, [*range(40, 80)])
    assert f"{FIRST}: Permission denied" in err


class ClosedPipe(io.BytesIO):
    def write(self, data):
        raise BrokenPipeError


def test_read_ends_quietly_when_its_pipe_is_closed():
    assert read(FILES, out=ClosedPipe()) == (0, b"", "")
    assert read(FILES, "--format", "json", out=ClosedPipe()) == (0, b"", "")
    assert read(FILES, "--framing", "fetch", out=ClosedPipe()) == (0, b"", "")


def seven_messages(count):
    payloads = [b"payload %d" % i for i in range(count)]
    return [struct.pack(">ibBI", len(one) + 6, 1, 0, zlib.crc32(one)) + one for one in payloads]


def test_a_damaged_length_in_seven_hides_no_other_message():
    made = seven_messages(9)
    path, at = f"{FOLDER}/{1000:011d}.kafka", len(made[0])
    for end in range(at + 12, sum(map(len, made)) - 4):
        if (end - at) % len(made[0]) == 0:
            continue
        data = bytearray(b"".join(made))
        struct.pack_into(">i", data, at, end - at - 4)
        code, out, err = read({path: bytes(data)}, "--print", "value")
        assert (code, out.decode().split("\n")[:-1]) == (4, ["payload 0", *(f"payload {i}" for i in range(2, 9))])
        assert f"{path}: at byte {at}" in err
        out = io.BytesIO()
        environment = Environment(out, io.BytesIO(), FaultyFilesystem({path: bytes(data)}), lambda: BASE_TIME_MS)
        assert run(["verify", FOLDER, "--format", "json"], environment) == 4
        assert json.loads(out.getvalue().splitlines()[-1])["batches"] >= 8


def test_read_prints_the_messages_of_kafka_0_7():
    made = seven_messages(5)
    path = f"{FOLDER}/{1000:011d}.kafka"
    starts = [1000 + sum(map(len, made[:i])) for i in range(6)]
    code, out, err = read({path: b"".join(made)}, "--from", starts[2], "--print", "offset,timestamp,value")
    wanted = [f"NO_TIMESTAMP\tOffset:{starts[i]}\tpayload {i}" for i in range(2, 5)]
    assert (code, out.decode().splitlines(), err) == (0, wanted, "")
    assert read({path: b"".join(made)}, "--from", starts[5])[:2] == (0, b"")
    assert read({path: b"".join(made)}, "--from", starts[5] + 1)[0] == 1
