"""Reads made-up segments into batches and blocks, by the plain or the compiled kernels."""

from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.log.reading.read import RecordReader
from kafkalog_cli.log.reading.scan import Scan
from kafkalog_cli.output.block_lines import OUT_BYTES, BlockLines
from kafkalog_cli.output.record_json import RecordJson, RecordJsonOptions, SegmentContext
from kafkalog_cli.output.record_json_printer import CompiledRecordJson
from tests.support.faulty_fs import BytesFile

CONTEXT = SegmentContext("orders", 3, "00000000000000000000.log")
SEVEN = SegmentContext("orders", 3, "00000000000000000000.kafka", is_seven=True)


def chunks(data, *, compiled=False, seven=False):
    choice = KernelChoice(forced=compiled)
    yield from Scan(BytesFile(data), choice=choice, deep=True, seven_base_offset=0 if seven else None)


def blocks(data, *, compiled=False, seven=False, at_once=None):
    """A block lives until the next one is asked for."""
    reader = RecordReader()
    for chunk in chunks(data, compiled=compiled, seven=seven):
        yield from reader.blocks(chunk, at_once=at_once)


def plain_lines(data, options=None, *, context=CONTEXT):
    renderer = RecordJson(context, options)
    return [line for block in blocks(data, seven=context.is_seven) for line in renderer.block(block)]


def compiled_text(data, options=None, *, context=CONTEXT, out_bytes=OUT_BYTES):
    """What the compiled renderer writes, of records decoded before or at once; what it does not take, the plain one."""
    options = options or RecordJsonOptions()
    plain, lines = RecordJson(context, options), BlockLines(CompiledRecordJson(context, options), out_bytes)
    decoded = _rendered(blocks(data, compiled=True), plain, lines)
    at_once = _rendered(lines.ahead(lambda at_once: blocks(data, compiled=True, at_once=at_once)), plain, lines)
    assert at_once == decoded
    return decoded


def _rendered(found, plain, lines):
    parts, compiled_blocks = [], 0
    for block in found:
        if block.is_compiled:
            compiled_blocks += 1
            lines.write(block, lambda view: parts.append(bytes(view)))
        else:
            parts.append("".join(plain.block(block)).encode())
    assert compiled_blocks
    return b"".join(parts)
