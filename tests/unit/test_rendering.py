"""Lines are the same however small the buffers are that they are rendered into, and come in the order of the log."""

import random
import re
from array import array
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from kafkalog_cli.format import native
from kafkalog_cli.format.columns import column_of
from kafkalog_cli.format.java_text import java_string
from kafkalog_cli.format.records import RecordBlock, RecordColumns
from kafkalog_cli.log.reading import records, scan
from kafkalog_cli.log.reading.records import RecordReader
from kafkalog_cli.log.reading.scan import Scan
from kafkalog_cli.output import line_program
from kafkalog_cli.output.line_program import (
    Form,
    Is,
    RecordField,
    batch,
    headers,
    program,
    record,
    size,
    stored,
    unless,
    when,
)
from kafkalog_cli.output.record_json import RecordJsonOptions, SegmentContext, record_form
from kafkalog_cli.output.rendering import BlockLines, LineForm, Lines, RenderedBlock
from tests.damage import makers
from tests.support.effort import DIAL
from tests.support.faulty_fs import BytesFile

FORM = record_form(SegmentContext("orders", 3, f"{0:020}.log"), RecordJsonOptions())
HEADER = (Path(__file__).parents[2] / "native" / "render.h").read_text()


def some_bytes(chance, most):
    alphabet = (
        b"a",
        b'"',
        b"\\",
        b"\n",
        b"\x7f",
        b"\xc2\x85",
        "ß€𝄞\u2028".encode(),
        b"\xff",
        b"\xed\xa0\x80",
        b"\xf0\x9d",
    )
    made = b"".join(chance.choice(alphabet) * chance.randrange(9) for _ in range(chance.randrange(9)))
    return made * chance.randrange(1, most)


def some_log(chance, most=40):
    made, offset = [], 0
    for _ in range(chance.randrange(1, 6)):
        rows = []
        for delta in range(chance.randrange(1, 9)):
            key, value = (None if chance.random() < 0.2 else some_bytes(chance, most) for _ in range(2))
            more = [(some_bytes(chance, most), None if chance.random() < 0.3 else some_bytes(chance, most))]
            rows.append(makers.record(delta, key, value, more * chance.randrange(3)))
        made.append(makers.batch(offset, rows, codec=chance.choice([0, 0, 3])))
        offset += 9
    return b"".join(made)


def blocks(data):
    for chunk in Scan(BytesFile(data)):
        yield from RecordReader().blocks(chunk)


def text(lines, data):
    parts = []
    for block in blocks(data):
        lines.write(block, lambda piece: parts.append(bytes(piece)))
    return b"".join(parts)


def test_lines_are_the_same_for_every_size_of_the_buffer():
    chance = random.Random(1)
    for _ in range(DIAL.part(500)):
        data = some_log(chance)
        whole = text(BlockLines(FORM), data)
        assert whole.count(b"\n") > 1
        for out_bytes in (256, 257, chance.randrange(258, 999), chance.randrange(1000, 9000)):
            assert text(BlockLines(FORM, out_bytes), data) == whole


@pytest.mark.parametrize("form", [form for form in Form if form is not Form.JSON])
def test_contents_are_the_same_in_every_form_for_every_size_of_the_buffer(form):
    chance = random.Random(form)
    items = [
        *(stored(part, form) for part in (RecordField.KEY, RecordField.VALUE)),
        headers(stored(RecordField.HEADER_VALUE, form), ";"),
    ]
    lines = LineForm(program([], items))
    expected = {
        Form.RAW: lambda data: data,
        Form.JAVA: lambda data: java_string(data).encode(),
        Form.HEX: lambda data: data.hex().encode(),
        Form.HEX_0X: lambda data: b"0x" + data.hex().encode(),
    }.get(form)
    for _ in range(DIAL.part(300)):
        data = some_log(chance)
        whole = text(BlockLines(lines), data)
        for out_bytes in (256, 300, 1001):
            assert text(BlockLines(lines, out_bytes), data) == whole
        value = some_bytes(chance, 9)
        if expected is not None:
            one = makers.batch(0, [makers.record(0, None, value)])
            assert text(BlockLines(lines), one) == expected(value)


def test_values_larger_than_all_buffers_are_checked_and_written_in_pieces():
    for end, shown in ((b"", b'"'), ("𝄞".encode(), '𝄞"'.encode()), (b"\xf0\x9d\x84", None)):
        value = b"x" * (17 << 20) + end
        line = text(BlockLines(FORM), makers.batch(0, [makers.record(0, None, value)])).splitlines()[1]
        if shown is None:
            assert b'"value":{"encoding":"base64","data":"eHh4' in line
            assert b'eHjwnYQ="}' in line
        else:
            assert b'"value":{"encoding":"utf-8","data":"' + b"x" * (17 << 20) + shown in line


def random_program(chance):
    def item(depth):
        kind = chance.randrange(9 if depth < 3 else 7)
        if kind == 0:
            return "text" * chance.randrange(40)
        if kind == 1:
            return stored(chance.choice(list(RecordField)[:2]), chance.choice(list(Form)))
        if kind == 2:
            return batch(chance.choice(["position", "base_offset", "crc"]), null_for_unknown=chance.random() < 0.5)
        if kind == 3:
            return record(chance.choice(["offset", "timestamp"]), at_least_unknown=chance.random() < 0.5)
        if kind == 4:
            return chance.choice([line_program.TIME_TYPE, line_program.CODEC, line_program.LAST_SEQUENCE])
        if kind == 5:
            return size(chance.choice(list(RecordField)[:2]))
        if kind == 6:
            return line_program.true_or_false(chance.choice([Is.CONTROL, Is.CRC_VALID, Is.RECORD_VALID]))
        if kind == 7:
            some = (stored(RecordField.HEADER_KEY, Form.JSON), when(Is.LATER_HEADER, ","), item(3))
            return headers(*some[: chance.randrange(1, 4)])
        some = [item(depth + 1) for _ in range(chance.randrange(4))]
        condition = chance.choice([Is.LEGACY, Is.CONTROL, Is.TRANSACTIONAL, Is.NULL, Is.HEADERS, Is.CODEC_KNOWN])
        return chance.choice([when, unless])(condition, *some, of=chance.randrange(2))

    return program([], [item(0) for _ in range(chance.randrange(1, 9))])


def blocks_of_single_records(data):
    for block in blocks(data):
        for batch_row, rows in block.batch_rows():
            for row in rows:
                yield replace(
                    block, batches=type(block.batches).from_rows([batch_row]), first_row=0, end_row=1,
                    record_ends=column_of([1]), records=RecordColumns.from_rows([row]),
                )  # fmt: skip


def test_text_that_records_share_is_that_of_each_record_alone():
    chance = random.Random(3)
    for _ in range(DIAL.part(2_000)):
        form, data = LineForm(random_program(chance)), some_log(chance, 3)
        lines = BlockLines(form)
        alone = [bytes(piece) for one in blocks_of_single_records(data) for piece in lines.pieces(one)]
        assert text(lines, data) == b"".join(alone)


def test_columns_that_contradict_the_contents_are_refused_without_reading_beyond_them():
    chance = random.Random(4)
    refused = 0
    for _ in range(DIAL.part(10_000)):
        data = some_log(chance, 3)
        for block in blocks(data):
            rows = [list(row) for row in block.records.rows()]
            for _ in range(chance.randrange(1, 4)):
                row = chance.choice(rows)
                column = chance.randrange(3, 9)
                row[column] = chance.choice([
                    -2, -1, 0, min(row[column], 1 << 40) + 1, len(block.buffer), len(block.buffer) + 1, 1 << 31, (1 << 63) - 1,
                    -(1 << 63), chance.randrange(len(block.buffer) + 99),
                ])  # fmt: skip
            wrong = replace(block, records=RecordColumns.from_rows(map(tuple, rows)))
            try:
                pieces = BlockLines(FORM, chance.choice([256, 4096, 1 << 20])).pieces(wrong)
                assert sum(map(len, islice(pieces, 500)))  # 4 MiB of headers without a byte are 160 MB of text
            except ValueError:
                refused += 1
    assert refused


@pytest.mark.parametrize("ops", [[(99, 0, 0, 0)], [(0, 0, 99, 0)], [(0, -1, 1, 0)], [(8, 4, 0, 0)], [(10, 0, 0, 9)],
                                 [(12, 0, 0, 1)], [(13, 0, 0, 1)], [(1, 15, 0, 0)], [(6, 11, 0, 0)],
                                 [(10, 9, 0, 1), (12, 0, 0, 2), (0, 0, 1, 0), (13, 0, 0, 2)]])  # fmt: skip
def test_a_program_with_operands_out_of_range_is_refused(ops):
    form = LineForm(native.RenderProgram(array("q", [number for op in ops for number in op]), 0, bytes(64)))
    block = next(blocks(makers.batch(0, [makers.record(0, b"k", b"v")])))
    with pytest.raises(ValueError, match="contradict"):
        list(BlockLines(form).pieces(block))


@pytest.mark.parametrize(
    ("prefix", "numbers"),
    [("OP_", line_program._Code), ("IF_", Is), ("FIELD_", RecordField), ("FORM_", Form)],
    ids=["operations", "conditions", "fields", "forms"],
)
def test_numbers_of_programs_are_those_of_the_header(prefix, numbers):
    bodies = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.DOTALL)
    (names,) = [body for body in re.findall(r"enum \{(.*?)\}", bodies, re.DOTALL) if prefix in body]
    declared = [name.strip().removeprefix(prefix) for name in names.split(",") if "=" in name or name.strip()]
    declared = [name.split("=")[0].strip().removeprefix(prefix) for name in declared]
    assert [name for name in declared if name in numbers.__members__] == [one.name for one in numbers]


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(scan, "CHUNK_BYTES", 8192)
    monkeypatch.setattr(records, "LARGE_LOG_BYTES", 0)


def long_log():
    """Batches of all codecs, one in ten of control records, one with a line of many buffers."""
    made = []
    for i in range(400):
        value = b'"' * 70_000 if i == 133 else b"value %d " % i * (i % 23)
        rows = [makers.record(j, b"k", value) for j in range(7)]
        made.append(makers.batch(7 * i, rows, attributes=0x20 if i % 10 == 3 else 0))
    return b"".join(made)


def read_ahead(data, lines):
    chunks = Scan(BytesFile(data))
    for _, found in records.records(chunks, lambda chunk: [(0, len(chunk.batches))], lines.ahead):
        yield from found


@pytest.mark.parametrize("out_bytes", [3000, 20_000, 1 << 20])
def test_lines_that_threads_render_come_in_order(out_bytes, small_chunks):
    data, lines, parts, ahead = long_log(), BlockLines(FORM, out_bytes), [], 0
    for block in read_ahead(data, lines):
        ahead += isinstance(block, RenderedBlock)
        lines.write(block, lambda piece: parts.append(bytes(piece)))
    assert ahead > 20
    assert b"".join(parts) == text(BlockLines(FORM), data)


def test_a_block_that_is_cut_after_its_lines_were_rendered_is_rendered_again(small_chunks):
    lines, parts = BlockLines(FORM), []
    block = next(one for one in read_ahead(long_log(), lines) if isinstance(one, RenderedBlock))
    rows = [row for row, offset in enumerate(block.records.offset) if offset % 7 == 3]
    lines.write(block.with_rows(rows), lambda piece: parts.append(bytes(piece)))
    offsets = re.findall(rb'"type":"record".*?"offset":(\d+)', b"".join(parts))
    assert offsets
    assert {int(offset) % 7 for offset in offsets} == {3}


def test_buffers_are_few_and_given_back(small_chunks):
    lines = BlockLines(FORM, 20_000)
    found = read_ahead(long_log(), lines)
    for _ in range(30):
        next(found)
    found.close()
    assert 0 < len(lines._free) <= 6


def test_buffers_are_filled_before_they_are_handed_over():
    data = makers.batch(0, [makers.record(i, None, b"value " * 20) for i in range(2000)])
    sizes = []
    for block in blocks(data):
        sizes += [len(piece) for piece in BlockLines(FORM, 16_384).pieces(block)]
    assert len(sizes) > 20
    assert min(sizes[:-1]) > 16_384 - 1000


def test_a_program_that_stops_says_at_which_batch_or_record():
    data = makers.batch(0, [makers.record(0, b"k", None), makers.record(1, b"k", b"v")])
    block: RecordBlock = next(blocks(data))
    form = LineForm(program([], ["<", unless(Is.NULL, line_program.STOP, of=RecordField.VALUE), ">"]))
    lines = Lines(form, block)
    assert b"".join(map(bytes, BlockLines(form)._pieces(lines))) == b"<><"
    assert lines.stopped_at == (0, 1)
