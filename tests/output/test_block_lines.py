"""Lines that are rendered where blocks are read come out in order, whatever the buffers hold."""

import pytest

from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.format.limits import DEFAULT_LIMITS
from kafkalog_cli.log.reading import scan
from kafkalog_cli.log.reading.read_ahead import ReadAhead
from kafkalog_cli.log.reading.scan import Scan
from kafkalog_cli.output.block_lines import BlockLines, RenderedBlock
from kafkalog_cli.output.record_json_printer import CompiledRecordJson
from tests.bad_input.makers import batch, record
from tests.output.output_segments import CONTEXT, plain_lines
from tests.support.faulty_fs import BytesFile

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(scan, "FIRST_CHUNK_BYTES", 4096)
    monkeypatch.setattr(scan, "CHUNK_BYTES", 8192)


def a_log():
    """Batches of all codecs, one in ten for the plain reader, one with a line of many buffers."""
    made = []
    for i in range(400):
        value = b'"' * 70_000 if i == 133 else b"value %d " % i * (i % 23)
        made.append(batch(7 * i, [record(j, b"k", value) for j in range(7)], attributes=0x20 if i % 10 == 3 else 0))
    return b"".join(made)


def read(data, lines):
    chunks = Scan(BytesFile(data), choice=KernelChoice(forced=True), deep=True)
    for _, blocks in ReadAhead(chunks, DEFAULT_LIMITS, lambda chunk: [(0, len(chunk.batches))], lines.ahead):
        yield from blocks


@pytest.mark.exhaustive
@pytest.mark.parametrize("out_bytes", [3000, 20_000, 1 << 20])
def test_in_order(out_bytes):
    data = a_log()
    lines = BlockLines(CompiledRecordJson(CONTEXT), out_bytes)
    expected = plain_lines(data)
    parts, ahead = [], 0
    for block in read(data, lines):
        ahead += isinstance(block, RenderedBlock)
        if block.is_compiled:
            lines.write(block, lambda view: parts.append(bytes(view)))
        else:
            from_row = sum(part.count(b"\n") for part in parts)
            to_row = from_row + block.end_row - block.first_row + block.record_count
            parts.append("".join(expected[from_row:to_row]).encode())
    assert ahead > 20
    assert b"".join(parts) == "".join(expected).encode()


def test_buffers_are_few_and_given_back():
    lines = BlockLines(CompiledRecordJson(CONTEXT), 20_000)
    blocks = read(a_log(), lines)
    for _ in range(30):
        next(blocks)
    blocks.close()
    assert 0 < len(lines._free) <= 6
