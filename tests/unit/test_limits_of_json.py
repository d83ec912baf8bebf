"""JSON of files that others may have written, which is parsed only up to a number of values."""

import pytest

from kafkalog_cli.errors import BadInput
from kafkalog_cli.format import strict_json
from kafkalog_cli.ops.change.append import lines
from kafkalog_cli.ops.change.append.lines import records_of_lines
from kafkalog_cli.ops.change.append.reading import parse_ndjson


@pytest.mark.parametrize("text", [b"[],", b'{"a":1},', b'"ab",'])
def test_json_of_many_small_objects_is_refused_by_their_number(text):
    with pytest.raises(ValueError, match="more lists, objects and values"):
        strict_json.parse(b"[" + text * (4_000_000 // len(text)) + b"1]")


def test_a_line_as_long_as_the_limit_is_read(monkeypatch):
    monkeypatch.setattr(lines, "MOST_INPUT_LINE_BYTES", 40)
    line = b'{"value":"' + b"x" * 28 + b'"}'
    assert len(line) == 40
    for end, is_read in ((b"", True), (b" ", False)):
        pieces = [line[:7], line[7:] + end, b"\n" + line]
        for by_kernel in (False, True):
            found = records_of_lines(pieces, "in", 0, parse_ndjson, has_plain_ndjson=by_kernel)
            if is_read:
                assert sum(map(len, found)) == 2
            else:
                with pytest.raises(BadInput, match="in: line 1: it has more than 40 bytes"):
                    list(found)
