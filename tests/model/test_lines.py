"""Every byte of the lines of records: the commands print what a naive renderer makes of what a naive reader reads."""

import base64
import tempfile
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.damage.makers import DELETE_HORIZON, LOG_APPEND_TIME, LOGS, TRANSACTIONAL, batch, message, record
from tests.support import naive_lines
from tests.support.commands import kafkalog
from tests.support.naive_reader import read_batches, read_records

JAVA = "org.apache.kafka.tools.api."
NAME = f"{0:020}.log"
FRAGMENTS = [
    b"", b"a", b" ", b'"', b"\\", b"\0", b"\n", b"\x1b", b"\x1f", b"\x7f", b"~", b"\x80", b"\xbf", b"\xc0\x80", b"\xc1\xbf",
    b"\xc2", b"\xc2\x80", b"\xc2\x9f", b"\xc2\xa0", b"\xdf\xbf", b"\xe0\x80\x80", b"\xe0\x9f\xbf", b"\xe0\xa0\x80", b"\xe1\x80",
    b"\xe2\x80", b"\xe2\x80\xa7", b"\xe2\x80\xa8", b"\xe2\x80\xa9", b"\xe2\x80\xaa", b"\xe2\x82\xac", b"\xed\x9f\xbf",
    b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xee\x80\x80", b"\xef\xbf\xbf", b"\xf0\x80\x80\x80", b"\xf0\x8f\xbf\xbf",
    b"\xf0\x90\x80\x80", b"\xf0\x9d\x84\x9e", b"\xf0\x9d\x84", b"\xf4\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80",
    b"\xff", b"0123456789", b"x" * 15, b"y" * 16, b"z" * 17, b"w" * 32, b"ascii, and no more than that, " * 5,
]  # fmt: skip

contents = st.none() | st.binary(max_size=100) | st.lists(st.sampled_from(FRAGMENTS), max_size=9).map(b"".join)
headers = st.lists(st.tuples(contents.map(lambda data: data or b""), contents), max_size=4)
records = st.lists(st.tuples(contents, contents, headers), min_size=1, max_size=9)


def printed(data, *argv):
    """What a command prints of a log; dump-log's two first lines and the last line of NDJSON are left out."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "orders-3" / NAME
        path.parent.mkdir()
        path.write_bytes(data)
        out = kafkalog(*argv, path if argv[0] == "dump-log" else path.parent, errors="surrogateescape").out
    if "--format" in argv:
        return out[: out.rindex("\n", 0, -1) + 1]
    return out.split("\n", 2)[2] if argv[0] == "dump-log" else out


def naive(data, of_batch, of_record):
    """All lines, each batch's before those of its records."""
    found = []
    for one in read_batches(data):
        of_its_records = list(read_records(data, one))
        if one.base_offset == -1:
            one = one._replace(base_offset=of_its_records[0].offset)
        found += [of_batch(one), *(of_record(each, one) for each in of_its_records)]
    return "".join(found)


def naive_json(data):
    of = ("orders", 3, NAME)
    return naive(data, lambda one: naive_lines.batch_json(one, *of), lambda *each: naive_lines.record_json(*each, *of))


def naive_text(data, decode=naive_lines.java_string, *, skip=False):
    return naive(data, naive_lines.batch_text, lambda *each: naive_lines.record_text(*each, decode, skip=skip))


TEXT = ("dump-log", "--print-data-log")
HEX = ("--key-decoder-class", "hex", "--value-decoder-class", "hex")
FIRST_BYTES = ("--key-decoder-class", "int", "--value-decoder-class", "int")


def first_number(data):
    return str(int.from_bytes(data, "big", signed=True)) if len(data) == 4 else "0x" + data.hex()


def check(data):
    assert printed(data, "dump-log", "--deep-iteration", "--format", "json") == naive_json(data)
    assert printed(data, *TEXT) == naive_text(data)


def check_consumer(data):
    """Control records are not for consumers."""

    def line(record, batch):
        return "" if naive_lines.is_control(batch) else consumed(record, batch)

    def consumed(record, batch):
        return naive_lines.consumer_line(record, batch, 3).decode(errors="surrogateescape")

    fields = "timestamp,partition,offset,epoch,headers,key,value"
    assert printed(data, "read", "--print", fields) == naive(data, lambda batch: "", line)
    of = ("orders", 3, NAME)
    of_record = lambda *each: line(*each) and naive_lines.record_json(*each, *of)  # noqa: E731
    assert printed(data, "read", "--format", "json") == naive(data, lambda batch: "", of_record)


def check_decoders(data):
    assert printed(data, *TEXT, "--skip-record-metadata") == naive_text(data, skip=True)
    assert printed(data, *TEXT, *HEX) == naive_text(data, bytes.hex)
    assert printed(data, *TEXT, *FIRST_BYTES, "--skip-record-metadata") == naive_text(data, first_number, skip=True)


@given(
    st.lists(records, min_size=1, max_size=3),
    st.sampled_from([0, TRANSACTIONAL, LOG_APPEND_TIME, DELETE_HORIZON]),
    st.integers(0, 4),
    st.tuples(st.integers(-1, 2**63 - 1), st.integers(-1, 2**15 - 1), st.integers(-1, 2**31 - 1)),
    st.integers(0, 2**62),
    st.integers(-(2**63) + 100, 2**63 - 100),
    st.integers(-1, 2**31 - 1),
)
def test_random_batches_are_printed_as_the_naive_renderer_prints_them(
    batches, attributes, codec, producer, offset, base_ms, epoch
):
    made = []
    for number, of_batch in enumerate(batches):
        rows = [record(i, key, value, more, ms=i) for i, (key, value, more) in enumerate(of_batch)]
        how = {"producer": producer, "base_ms": base_ms, "epoch": epoch, "codec": codec}
        made.append(batch(offset + 9 * number, rows, attributes=attributes, **how))
    check(b"".join(made))
    check_consumer(b"".join(made))
    check_decoders(b"".join(made))


@given(st.lists(st.tuples(contents, contents), min_size=1, max_size=5), st.integers(0, 1), st.integers(0, 2**62))
def test_random_messages_are_printed_as_the_naive_renderer_prints_them(made, magic, offset):
    data = b"".join(message(offset + i, key, value, magic=magic) for i, (key, value) in enumerate(made))
    check(data)
    check_consumer(data)


def sequences():
    """All of two bytes, and those of three and four whose later bytes are at the edges of what UTF-8 allows."""
    edges = (0x00, 0x22, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xA8, 0xA9, 0xBF, 0xC0, 0xC3, 0xFF)
    yield from (bytes(pair) for pair in product(range(256), repeat=2))
    yield from (bytes(triple) for triple in product(range(0xDF, 0xF6), edges, edges))
    yield from (bytes(four) for four in product(range(0xEF, 0xF6), edges, edges, edges))


@pytest.mark.exhaustive
@pytest.mark.parametrize("before", [0, 1, 13, 14, 15, 16])
@pytest.mark.parametrize("after", [0, 1, 16])
def test_every_sequence_of_bytes_is_printed_at_every_place_of_a_block(before, after):
    values = [b"a" * before + sequence + b"b" * after for sequence in sequences()]
    check(batch(0, [record(i, None, value) for i, value in enumerate(values)]))


def test_every_escape_is_printed_at_every_place_of_a_value():
    text = b"x" * 50
    values = [
        text[:at] + byte + text[at:] for at in range(40) for byte in (b'"', b"\\", b"\t", b"\1", b"\x7f", b"\xff")
    ]
    values += [byte * size for size in range(40) for byte in (b'"', b"\0", b"\xc2\x85", b"\xe2\x80\xa8", b"\xff")]
    check(batch(0, [record(i, value, value) for i, value in enumerate(values)]))


def test_numbers_of_every_width_are_printed():
    numbers = [0, 1, 9, 10, 99, 100, *(10**digits + more for digits in range(3, 19) for more in (-1, 0, 7))]
    made = [batch(n, [record(i, None, b"", ms=i) for i in range(4)], base_ms=-n, producer=(n, 7, 9)) for n in numbers]
    check(b"".join(made))


@pytest.mark.parametrize("log", [log for log in LOGS if not log.is_v07], ids=lambda log: log.name)
def test_logs_of_every_codec_are_printed(log):
    check(log.data)
    check_consumer(log.data)
    check_decoders(log.data)


LARGE = b"\0\0\0\7" * 300_000


@pytest.mark.parametrize(
    ("decoder", "key", "payload"),
    [
        ("int", "7", "0x" + LARGE.hex()),
        ("json", "\0\0\0\7", LARGE.decode()),
        ("base64", "AAAABw==", base64.b64encode(LARGE).decode()),
        (f"{JAVA}IntegerDecoder", "7", "7"),
        (f"{JAVA}LongDecoder", None, None),
    ],
    ids=["int", "json", "base64", "IntegerDecoder", "LongDecoder"],
)
def test_large_value_beside_a_small_key_is_printed_by_each_decoder(decoder, key, payload):
    decoders = ("--key-decoder-class", decoder, "--value-decoder-class", decoder, "--skip-record-metadata")
    lines = printed(batch(0, [record(0, LARGE[:4], LARGE)]), *TEXT, *decoders).split("\n", 1)[1]
    assert (lines == ("" if key is None else f"| key: {key} payload: {payload}\n")) is True  # no diff of megabytes
