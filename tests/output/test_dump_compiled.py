"""The compiled renderer of dump-log's text prints what the plain one prints, byte for byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.format.internal_topics.schema import NEWEST, KafkaVersion
from kafkalog_cli.output.block_lines import OUT_BYTES, BlockLines, CompiledLogText
from kafkalog_cli.output.decoders import DECODERS, STRING_DECODER
from kafkalog_cli.output.dump_text import ClassDecoder, LogText
from tests.bad_input.makers import DELETE_HORIZON, LOG_APPEND_TIME, LOGS, TRANSACTIONAL, batch, record
from tests.model.test_lines import records, sequences
from tests.output.output_segments import blocks

pytestmark = pytest.mark.slow


def same(data, *, contents=True, skip=False, out_bytes=OUT_BYTES, version=NEWEST):
    string = DECODERS[STRING_DECODER]
    decoder = ClassDecoder(string, string) if contents else None
    plain = LogText(decoder=decoder, skip_metadata=skip, version=version)
    expected = "".join(line for block in blocks(data) for line in plain.block(block))
    lines = BlockLines(CompiledLogText(contents=contents, skip_metadata=skip, version=version), out_bytes)
    parts, compiled_blocks = [], 0
    for block in lines.ahead(lambda: blocks(data, compiled=True)):
        if not block.is_compiled:  # as control batches are
            parts.append("".join(plain.block(block)).encode("utf-8", "surrogateescape"))
        else:
            compiled_blocks += 1
            lines.write(block, lambda view: parts.append(bytes(view)))
    assert compiled_blocks
    assert b"".join(parts) == expected.encode("utf-8", "surrogateescape")


@given(
    records,
    st.sampled_from([0, TRANSACTIONAL, LOG_APPEND_TIME, DELETE_HORIZON]),
    st.integers(0, 2**62),
    st.booleans(),
    st.booleans(),
    st.integers(1024, 9000),
    st.sampled_from(KafkaVersion),
)
def test_any_batch(contents, attributes, offset, with_contents, skip, out_bytes, version):
    made = [record(i, key, value, more, ms=i) for i, (key, value, more) in enumerate(contents)]
    data = batch(offset, made, attributes=attributes) * 3
    same(data, contents=with_contents, skip=skip, out_bytes=out_bytes, version=version)


@pytest.mark.exhaustive
@pytest.mark.parametrize("before", [0, 1, 31, 61, 62, 63, 64])
@pytest.mark.parametrize("after", [0, 1, 64])
def test_every_sequence_at_every_place_of_a_block(before, after):
    values = [b"a" * before + sequence + b"b" * after for sequence in sequences()]
    same(batch(0, [record(i, None, value) for i, value in enumerate(values)]))


def test_values_of_megabytes():
    values = [b"line\n" * 1_000_000, b"\xf0\x9d\x84\x9e" * 700_000, b"\xfe" * 3_000_001]
    same(batch(0, [record(i, None, value) for i, value in enumerate(values)]), out_bytes=1 << 20)


def test_buffers_are_filled_before_they_are_handed_over():
    data = batch(0, [record(i, None, b"value " * 20) for i in range(2000)])
    (block,) = blocks(data, compiled=True)
    sizes = []
    BlockLines(CompiledLogText(contents=True, skip_metadata=False), 16_384).write(
        block, lambda part: sizes.append(len(part))
    )
    assert sum(sizes) > 20 * 16_384
    assert min(sizes[:-1]) > 16_384 - 2000


@pytest.mark.parametrize("log", [log for log in LOGS if log.name.startswith("v2")], ids=lambda log: log.name)
def test_logs_of_every_codec(log):
    same(log.data)
