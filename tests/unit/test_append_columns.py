"""NDJSON that the kernel reads: the records, the errors and the batches of lines that Python parses."""

import base64
import json
import random
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkalog_cli.format.records import field_bytes, read_headers
from kafkalog_cli.ops.change.append.batching import BatchMaker, BatchStyle, blocks
from kafkalog_cli.ops.change.append.lines import records_of_lines
from kafkalog_cli.ops.change.append.reading import parse_ndjson
from kafkalog_cli.ops.change.append.records import NewRecord
from tests.support.logs import BASE_TIME_MS
from tests.support.product import BadInput
from tests.support.strategies import contents, headers, timestamps

NOW_MS = BASE_TIME_MS + 5
BY_PYTHON, BY_KERNEL = False, True
ANYTHING = settings(suppress_health_check=list(HealthCheck), deadline=None)


def arriving(by_kernel, pieces, parse=parse_ndjson):
    return records_of_lines(pieces, "it", NOW_MS, parse, has_plain_ndjson=by_kernel)


def no_record(line):
    """Parse the header of a batch only."""
    return None if b'"type":"batch"' in line else no_line(line)


def no_line(line):
    raise AssertionError(f"the kernel leaves this line to Python: {line}")


def rows(records):
    """The records one by one."""
    buffer = memoryview(records.buffer)
    for row in records.columns.tuples():
        key, value = field_bytes(buffer, *row[3:5]), field_bytes(buffer, *row[5:7])
        yield NewRecord(key, value, tuple(read_headers(buffer, *row[7:9])), row[1])


def outcome(by_kernel, pieces):
    """The records, and what ended them."""
    found = []
    try:
        for records in arriving(by_kernel, pieces):
            found += rows(records)
    except BadInput as error:
        return found, str(error)
    return found, None


def cut(text, size):
    return [text[at : at + size] for at in range(0, len(text), size)]


# -- lines

SPELLED = st.sampled_from([(",", ":"), (", ", ": "), ("\t,", " :\r")])


def json_bytes(data, *, as_text):
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"encoding": "base64", "data": base64.b64encode(data).decode()}
    return text if as_text else {"encoding": "utf-8", "data": text}


@st.composite
def good_lines(draw):
    as_text = draw(st.integers(0, 4)) == 0
    fields = {
        "schema": "kafkalog.record/1",
        "type": "record",
        "offset": draw(st.integers(0, 2**62)),
        "timestamp_ms": draw(st.none() | timestamps),
        "key": json_bytes(draw(contents), as_text=as_text),
        "value": json_bytes(draw(contents), as_text=as_text),
        "headers": [
            {"key": json_bytes(key, as_text=False), "value": json_bytes(value, as_text=as_text)}
            for key, value in draw(headers)
        ],
        "codec": "none",
        "transactional": draw(st.booleans()),
        "control": None,
    }
    for name in draw(st.sets(st.sampled_from(sorted(fields)), max_size=4)):
        del fields[name]
    return json.dumps(fields, ensure_ascii=draw(st.booleans()), separators=draw(SPELLED)).encode()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
NAMES = st.sampled_from(["key", "value", "headers", "type", "timestamp_ms", "control", "offset", "decoded"])
ODD_LINES = st.dictionaries(NAMES, VALUES, max_size=4).map(lambda found: json.dumps(found).encode())
KNOWN_ODD = st.sampled_from(
    [
        b"", b"  \r", b"\x0b", b"{}", b"{ }", b'{"type":"batch","crc":4294967295,"crc_valid":null}', b'{"type":"summary"}',
        b'{"key":"a","key":"b"}', b'{"k\\u0065y":"a"}', b'{"value":"\\ud83d\\ude00"}', b'{"value":"\\ud83d"}', b'{"value":"\\ude00"}',
        b'{"value":"\xed\xa0\x80"}', b'{"value":"\xff"}', b'{"value":"\x01"}', b'{"value":"\\x"}', b'{"value":"\\u12"}', b'{"value":"',
        b'{"value":{"encoding":"base64","data":"YQ=="}}', b'{"value":{"encoding":"base64","data":"YQ="}}',
        b'{"value":{"encoding":"base64","data":"YR=="}}', b'{"value":{"encoding":"base64","data":"YWJj"}}',
        b'{"value":{"encoding":"base64","data":"Y"}}', b'{"value":{"encoding":"utf-8","data":"a","missing_bytes":3}}',
        b'{"value":{"data":"a","encoding":"utf-8"}}', b'{"value":"a","timestamp_ms":-1}', b'{"value":"a","timestamp_ms":-2}', b'{"value":"a","timestamp_ms":05}',
        b'{"value":"a","timestamp_ms":-0}', b'{"value":"a","timestamp_ms":5.0}', b'{"value":"a","timestamp_ms":9223372036854775807}', b'{"value":"a","timestamp_ms":1e3}',
        b'{"headers":[{"key":"a","value":null},]}', b'{"headers":[{"key":null,"value":"a"}]}', b'{"headers":[{"key":"a"}]}',
        b'{"schema":"kafkalog.summary/1","type":"summary"}', b'{ "schema" : "kafkalog.x" , "type" : "batch" }',
        b'{"type":"progress","schema":"kafkalog.progress/1"}', b'{"schema":"mine/1","type":"batch"}', b'{"schema":"kafkalog","type":"batch"}',
        b'{"schema":5,"type":"batch"}', b'{"schema":"kafkalog.batch/1"}', b'{"type":"batch","value":"a"}', b'{"control":5,"more":6}',
        b'{"control":{"type":"commit"}}', b'{"type":"finding"}', b"{}{}", b"[]", b"nonsense", b'{"a":tru}', b'{"a":nul', b"\xef\xbb\xbf{}",
        b'{"value":"a"} ,', b'{"value":"a",}', b'{"x":"\\"","value":"a"}', b'{"x":-}', b'{"x":01}', b'{"x":NaN}', b'{"x":"a\tb"}',
    ]
)  # fmt: skip


@ANYTHING
@given(st.lists(good_lines() | good_lines() | KNOWN_ODD | ODD_LINES, max_size=8), st.integers(1, 400), st.booleans())
def test_the_json_kernel_reads_any_lines_like_the_python_reader(lines, size, ends):
    pieces = cut(b"\n".join(lines) + b"\n" * ends, size)
    assert outcome(BY_KERNEL, pieces) == outcome(BY_PYTHON, pieces)


@ANYTHING
@given(good_lines(), st.integers(0, 10_000), st.binary(max_size=2), st.integers(0, 3))
def test_the_json_kernel_reads_a_damaged_line_like_the_python_reader(line, at, new, gone):
    at %= len(line)
    pieces = [line[:at] + new + line[at + gone :] + b"\n{}\n"]
    assert outcome(BY_KERNEL, pieces) == outcome(BY_PYTHON, pieces)


def test_records_as_we_print_them_are_not_left_to_python():
    """Which would be right, and slow."""
    lines = [
        b'{"schema":"kafkalog.batch/1","type":"batch","topic":"t","position":0,"crc":4294967295,"crc_valid":true}',
        b'{"schema":"kafkalog.record/1","type":"record","topic":"t","timestamp_ms":5,"key":null,'
        b'"value":{"encoding":"utf-8","data":"a\\n"},"headers":[{"key":{"encoding":"utf-8","data":"h"},"value":null}],"control":null}',
        b'{"type":"record","value":{"encoding":"base64","data":"/w=="},"headers":[]}',
        b'{"key":"plain","value":"text"}',
    ]
    (run,) = arriving(BY_KERNEL, [b"\n".join(lines) + b"\n"], no_record)
    assert list(rows(run)) == [
        NewRecord(None, b"a\n", ((b"h", None),), 5),
        NewRecord(None, b"\xff", (), NOW_MS),
        NewRecord(b"plain", b"text", (), NOW_MS),
    ]


PASSED_OVER = [
    "schema",
    "topic",
    "partition",
    "segment",
    "position",
    "offset",
    "timestamp_type",
    "batch_base_offset",
    "codec",
    "producer_id",
    "producer_epoch",
    "sequence",
    "leader_epoch",
    "transactional",
    "topic_b64",
    "segment_b64",
    "crc_valid",
    "decoded",
]


@pytest.mark.parametrize("seed", range(20))
def test_the_json_kernel_reads_fields_in_any_order(seed):
    """All fields that appending does not need, in any order; and with a name twice or a byte of a name changed."""
    chance = random.Random(seed)
    names = ["value", *chance.sample(PASSED_OVER, len(PASSED_OVER))]
    spelled = [json.dumps(name).encode() for name in names]
    line = b"{%b}\n" % b",".join(b"%b:null" % name for name in spelled)
    (run,) = arriving(BY_KERNEL, [line], no_line)
    assert list(rows(run)) == [NewRecord(None, None, (), NOW_MS)]
    for name in spelled:
        twice = line.replace(b"{", b"{%b:null," % name, 1)
        assert outcome(BY_KERNEL, [twice]) == outcome(BY_PYTHON, [twice])
        for at in range(len(name)):
            odd = line.replace(name, name[:at] + b"z" + name[at + 1 :], 1)
            assert outcome(BY_KERNEL, [odd]) == outcome(BY_PYTHON, [odd])


def test_the_json_kernel_reads_all_kinds_of_utf_8():
    """What is valid is taken at once, and nothing else is taken."""
    edges = (0x22, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0)
    found = {bytes([first, *more]) for first in range(0x80, 0x100) for more in product(edges, repeat=3)}
    found = {data[:size] for data in found for size in range(1, 5)}
    good, bad = [], []
    for data in sorted(found):
        if b'"' in data:
            continue
        try:
            data.decode()
            good.append(data)
        except UnicodeDecodeError:
            bad.append(data)
    assert len(good) > 900
    runs = list(arriving(BY_KERNEL, [b"".join(b'{"value":"%s"}\n' % data for data in good)], no_line))
    assert len(runs) > 1  # lines so short do not go into one
    assert [record.value for run in runs for record in rows(run)] == good
    for data in random.Random(5).sample(bad, 1500):
        pieces = [b'{"value":"%s"}\n' % data]
        assert outcome(BY_KERNEL, pieces) == outcome(BY_PYTHON, pieces)
        assert outcome(BY_PYTHON, pieces)[1] is not None


# -- batches

RECORDS = st.lists(st.tuples(contents, contents, headers), min_size=1, max_size=40)


def encoded(by_kernel, pieces, style, most_records):
    """All batches of an input, and the records of each block."""
    maker, data, offset, counts = BatchMaker(style, 0), b"", 7, []
    for block in blocks(arriving(by_kernel, pieces), style, most_records=most_records):
        made = maker.encode(block, offset)
        data += bytes(made.data)
        counts.append(int(sum(made.batches.records_count)))
        offset += counts[-1]
    return data, counts


@ANYTHING
@given(
    RECORDS, st.sampled_from([1, 150, 400, 16_384]), st.sampled_from([1, 3, 1 << 14]), st.integers(30, 4000), st.data()
)
def test_the_json_kernel_makes_the_batches_of_the_python_reader(made, batch_bytes, most_records, size, data):
    """Odd lines between them, and pieces of any size."""
    lines = []
    for key, value, pairs in made:
        fields = {"key": json_bytes(key, as_text=False), "value": json_bytes(value, as_text=False)}
        fields["headers"] = [
            {"key": json_bytes(k, as_text=False), "value": json_bytes(v, as_text=False)} for k, v in pairs
        ]
        if data.draw(st.integers(0, 3)) == 0:
            fields["decoded"] = [1]  # left to Python
        lines.append(json.dumps(fields).encode())
    pieces = cut(b"\n".join(lines), size)
    codec = data.draw(st.sampled_from([0, 3]))
    style = BatchStyle(codec=codec, batch_bytes=batch_bytes, producer_id=4, producer_epoch=1)
    wanted, counts = encoded(BY_PYTHON, pieces, style, most_records)
    found, those = encoded(BY_KERNEL, pieces, style, most_records)
    assert found == wanted
    assert sum(those) == sum(counts) == len(made)
    assert max(those) <= max(most_records, len(made) * (most_records == 1 << 14))


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("batch_bytes", [200, 16_384, 4 << 20])
def test_the_json_kernel_limits_records_of_a_batch(batch_bytes):
    """Over the ends of blocks; no batch has more than so many records."""
    text = b"".join(b'{"key":"%d","value":"%s"}\n' % (at, b"v" * (at % 50)) for at in range(60_000))
    style = BatchStyle(batch_bytes=batch_bytes)
    wanted, counts = encoded(BY_PYTHON, cut(text, 1 << 20), style, 1 << 14)
    found, those = encoded(BY_KERNEL, cut(text, 1 << 20), style, 1 << 14)
    assert found == wanted
    assert sum(those) == sum(counts) == 60_000
    assert max(*counts, *those) < 60_000
