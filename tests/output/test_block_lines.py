"""Lines that are rendered where blocks are read come out in order, whatever the buffers hold."""

import io

import pytest

from kafkalog_cli.cli.app import run
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.format.kernels import native
from kafkalog_cli.format.limits import DEFAULT_LIMITS
from kafkalog_cli.log.reading import scan
from kafkalog_cli.log.reading.read_ahead import ReadAhead
from kafkalog_cli.log.reading.scan import Scan
from kafkalog_cli.output.block_lines import BlockLines, RenderedBlock
from kafkalog_cli.output.kernels import JSON_FROM_BATCHES, JSON_RECORDS
from kafkalog_cli.output.record_json_printer import CompiledRecordJson
from tests.bad_input.makers import batch, record
from tests.output.output_segments import CONTEXT, plain_lines
from tests.support.faulty_fs import BytesFile
from tests.support.logs import BASE_TIME_MS, R, batch_v2, write_segment

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


@pytest.mark.parametrize(
    "arguments", [("dump-log", "--print-data-log", "--files"), ("read",)], ids=["dump-log", "read"]
)
@pytest.mark.parametrize("codec", [0, 3], ids=["none", "lz4"])
def test_whole_batches_need_no_kernel_for_single_records(monkeypatch, tmp_path, arguments, codec):
    """The first run compiles what it asks for: the chunk that is read before threads start is rendered as all others."""
    made = [R(offset, BASE_TIME_MS, b"k", b"value %d" % offset) for offset in range(3000)]
    parts = [made[at : at + 30] for at in range(0, len(made), 30)]
    (tmp_path / "t-0").mkdir()
    write_segment(tmp_path / "t-0", 0, [(batch_v2(part, codec), part[-1].offset, BASE_TIME_MS) for part in parts])
    path = tmp_path / "t-0" / f"{0:020}.log" if arguments[0] == "dump-log" else tmp_path / "t-0"
    asked, function = set(), native.function
    monkeypatch.setattr(native, "function", lambda name: asked.add(name) or function(name))
    outputs = []
    for forced in (True, False):
        out = io.BytesIO()
        environment = Environment(
            stdout=out, stderr=io.BytesIO(), stdin=io.BytesIO(), terminal=None, kernels=KernelChoice(forced=forced)
        )
        assert run([*arguments, str(path), "--format", "json"], environment) == 0
        outputs.append(out.getvalue())
    assert outputs[0] == outputs[1]
    assert JSON_FROM_BATCHES in asked
    assert JSON_RECORDS not in asked
