"""The compiled NDJSON renderer writes what the plain one writes, byte for byte."""

from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkalog_cli.output.record_json import RecordJsonOptions, SegmentContext, topic_decode
from kafkalog_cli.output.record_json_printer import CompiledRecordJson
from kafkalog_cli.output.redact import Redaction, Showing, parse_redaction
from tests.bad_input.makers import DELETE_HORIZON, LOG_APPEND_TIME, LOGS, TRANSACTIONAL, batch, record
from tests.output.output_segments import blocks, compiled_text, plain_lines

pytestmark = pytest.mark.slow


fragments = st.sampled_from([
    b"", b"a", b" ", b'"', b"\\", b"\0", b"\n", b"\x1b", b"\x1f", b"\x7f", b"~", b"\x80", b"\xbf", b"\xc0\x80", b"\xc1\xbf",
    b"\xc2", b"\xc2\x80", b"\xc2\x9f", b"\xc2\xa0", b"\xdf\xbf", b"\xe0\x80\x80", b"\xe0\x9f\xbf", b"\xe0\xa0\x80", b"\xe1\x80",
    b"\xe2\x80", b"\xe2\x80\xa7", b"\xe2\x80\xa8", b"\xe2\x80\xa9", b"\xe2\x80\xaa", b"\xe2\x82\xac", b"\xed\x9f\xbf",
    b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xee\x80\x80", b"\xef\xbf\xbf", b"\xf0\x80\x80\x80", b"\xf0\x8f\xbf\xbf",
    b"\xf0\x90\x80\x80", b"\xf0\x9d\x84\x9e", b"\xf0\x9d\x84", b"\xf4\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80",
    b"\xff", b"0123456789", b"x" * 28, b"y" * 29, b"z" * 31, b"w" * 32, b"ascii, and no more than that, " * 5,
])  # fmt: skip
contents = st.none() | st.binary(max_size=100) | st.lists(fragments, max_size=9).map(b"".join)
headers = st.lists(st.tuples(contents.map(lambda data: data or b""), contents), max_size=4)
records = st.lists(st.tuples(contents, contents, headers), min_size=1, max_size=6)
showings = st.sampled_from([Showing.ALL, Showing.ALL, Showing.NOTHING, Showing.LENGTH])


def same(data, options=None, **how):
    assert compiled_text(data, options, **how) == "".join(plain_lines(data, options)).encode()


@given(
    records,
    st.sampled_from([0, TRANSACTIONAL, LOG_APPEND_TIME, DELETE_HORIZON]),
    st.tuples(st.integers(-1, 2**63 - 1), st.integers(-1, 2**15 - 1), st.integers(-1, 2**31 - 1)),
    st.integers(0, 2**62),
    st.integers(-(2**63) + 100, 2**63 - 100),
    st.integers(-1, 2**31 - 1),
)
def test_any_batch(contents, attributes, producer, offset, base_ms, epoch):
    data = batch(
        offset,
        [record(i, key, value, more, ms=i) for i, (key, value, more) in enumerate(contents)],
        attributes=attributes,
        producer=producer,
        base_ms=base_ms,
        epoch=epoch,
    )
    same(data)


@given(records, records, st.integers(2600, 9000), st.booleans())
@example([(b"\xff" * 9000, b'"' * 3000, [])], [(None, b"x" * 9000, [(b"\n" * 2000, b"\xc3\xa4" * 1500)])], 2600, True)
def test_any_room(first, second, out_bytes, with_batches):
    """The buffer ends anywhere; a line that is larger gets one of its own."""
    many = [batch(7 * i, [record(j, *r) for j, r in enumerate(rs)]) for i, rs in enumerate([first, second] * 3)]
    options = RecordJsonOptions(with_batches=with_batches)
    same(b"".join(many), options, out_bytes=out_bytes)


@given(records, showings, showings, showings)
def test_any_redaction(contents, keys, values, in_headers):
    data = batch(0, [record(i, *fields) for i, fields in enumerate(contents)])
    same(data, RecordJsonOptions(Redaction(keys, values, in_headers)))


def sequences():
    """All of two bytes, and those of three and four whose later bytes are at the edges of what UTF-8 allows."""
    edges = (0x00, 0x22, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xA8, 0xA9, 0xBF, 0xC0, 0xC3, 0xFF)
    yield from (bytes(pair) for pair in product(range(256), repeat=2))
    yield from (bytes(triple) for triple in product(range(0xDF, 0xF6), edges, edges))
    yield from (bytes(four) for four in product(range(0xEF, 0xF6), edges, edges, edges))


@pytest.mark.exhaustive
@pytest.mark.parametrize("before", [0, 1, 31, 61, 62, 63, 64, 125])
@pytest.mark.parametrize("after", [0, 1, 64])
def test_every_sequence_at_every_place_of_a_block(before, after):
    values = [b"a" * before + sequence + b"b" * after for sequence in sequences()]
    same(batch(0, [record(i, None, value) for i, value in enumerate(values)]))


def test_every_escape_at_every_place_of_long_values():
    text = b"x" * 200
    values = [
        text[:at] + byte + text[at:] for at in range(140) for byte in (b'"', b"\\", b"\t", b"\x01", b"\x7f", b"\xff")
    ]
    values += [byte * size for size in range(140) for byte in (b'"', b"\0", b"\xc2\x85", b"\xe2\x80\xa8", b"\xff")]
    same(batch(0, [record(i, value, value) for i, value in enumerate(values)]))


def test_every_width_of_numbers():
    numbers = [0, 1, 9, 10, 99, 100, *(10**digits + more for digits in range(3, 19) for more in (-1, 0, 7))]
    batches = [
        batch(n, [record(i, None, b"", ms=i) for i in range(12)], base_ms=n, producer=(n, 7, n % 2**31))
        for n in numbers
    ]
    same(b"".join(batches))


def test_values_of_megabytes():
    values = [(b"line\n" * 1_000_000), b"\xf0\x9d\x84\x9e" * 700_000, b"\xfe" * 3_000_001, b'"' * 2_500_000]
    same(batch(0, [record(i, None, value) for i, value in enumerate(values)]), out_bytes=1 << 20)


@pytest.mark.parametrize("log", [log for log in LOGS if log.name.startswith("v2")], ids=lambda log: log.name)
def test_logs_of_every_codec(log):
    same(log.data)
    same(log.data, RecordJsonOptions(with_batches=False))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "name",
    ["v2-none", "v2-zstd", "v2-mixed", "v2-logappend", "txn", "compact-tx", "compact-producers", "client-kafkajs"],
)
def test_logs_of_real_brokers(corpus, name):
    paths = sorted((corpus / name).rglob("*.log"))
    rendered = 0
    for path in paths:
        data, context = path.read_bytes(), SegmentContext(path.parent.name, 0, path.name)
        if not data or not any(block.is_compiled for block in blocks(data, compiled=True)):
            continue
        assert compiled_text(data, context=context) == "".join(plain_lines(data, context=context)).encode()
        rendered += 1
    assert rendered


def test_what_it_leaves_to_the_plain_renderer():
    assert CompiledRecordJson.can_render(RecordJsonOptions(parse_redaction("keys,values=len")))
    assert not CompiledRecordJson.can_render(RecordJsonOptions(parse_redaction("headers=hash")))
    assert not CompiledRecordJson.can_render(RecordJsonOptions(decode=topic_decode("__transaction_state")))
    assert CompiledRecordJson.can_render(
        RecordJsonOptions(parse_redaction("keys"), decode=topic_decode("__transaction_state"))
    )
