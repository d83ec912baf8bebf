"""JSON of files that others may have written, which is parsed only up to a number of values."""

import pytest

from kafkalog_cli.errors import BadInput
from kafkalog_cli.format import strict_json
from kafkalog_cli.ops.append.columns import NdjsonReader
from kafkalog_cli.ops.append.reading import PieceLines, parse_ndjson, read_records


@pytest.mark.parametrize("text", [b"[],", b'{"a":1},', b'"ab",'])
def test_json_of_many_small_objects_is_refused_by_their_number(text):
    with pytest.raises(ValueError, match="more lists, objects and values"):
        strict_json.parse(b"[" + text * (4_000_000 // len(text)) + b"1]")


def test_a_line_as_long_as_the_limit_is_read(monkeypatch):
    for name in ("kafkalog_cli.ops.append.reading.MOST_INPUT_LINE_BYTES",):
        monkeypatch.setattr(name, 40)
    line = b'{"value":"' + b"x" * 28 + b'"}'
    assert len(line) == 40
    for end, is_read in ((b"", True), (b" ", False)):
        pieces = [line[:7], line[7:] + end, b"\n" + line]
        for read in (
            lambda pieces=pieces: list(read_records(PieceLines(pieces), "in", parse_ndjson)),
            lambda pieces=pieces: list(NdjsonReader(0).records(pieces, "in")),
        ):
            if is_read:
                assert len(read()) == 2
            else:
                with pytest.raises(BadInput, match="in: line 1: it has more than 40 bytes"):
                    read()
