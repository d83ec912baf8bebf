"""Which objects are records: those that kafkalog prints, and none with a field that no record has."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.errors import BadInput, ExitCode, NotRecords
from kafkalog_cli.ops.append import inputs, reading
from kafkalog_cli.ops.append.columns import NdjsonReader
from kafkalog_cli.ops.append.reading import LineTooLong, PieceLines, parse_ndjson, read_records

SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "kafkalog.record-1.json"
PRINTED = {
    name: None if name not in {"key", "value"} else "x"
    for name in json.loads(SCHEMA.read_text())["properties"]
    if name not in {"schema", "type", "headers"}
}
WRONG = {
    '{"vlaue":"x","key":"k"}': "is value meant",
    '{"Value":"x","key":"k"}': "is value meant",
    '{"value":"x","timestamp":5}': "is timestamp_ms meant",
    '{"value":"x","temperature":5}': "unknown field 'temperature'",
    "{}": "--input lines",
    "[]": "no JSON object; --input lines",
    "5": "no JSON object; --input lines",
    "null": "no JSON object; --input lines",
    '{"temperature":5}': "--input lines",
    '{"partition":3}': "without key, value and headers",
    '{"topic":"t","offset":3}': "without key, value and headers",
    '{"timestamp_ms":5}': "without key, value and headers",
    '{"schema":"kafkalog.record/1","timestamp_ms":5}': "without key, value and headers",
}


def taken(text, forced):
    return list(NdjsonReader(KernelChoice(forced=forced), 7).records([text.encode()], "in"))


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("line", WRONG)
def test_an_object_with_an_unknown_field_is_no_record(line, forced):
    good = '{"value":"a"}\n' * 3
    for text in (line, f"{good}{line}\n{good}"):
        with pytest.raises(NotRecords, match=WRONG[line]) as raised:
            taken(text, forced)
        assert raised.value.exit_code is ExitCode.USAGE
    with pytest.raises(NotRecords):
        list(read_records(PieceLines([line.encode()]), "in", parse_ndjson))


@pytest.mark.parametrize("forced", [False, True])
def test_every_field_that_is_printed_is_taken(forced):
    """Alone beside a value, and all at once: what read prints goes into append."""
    lines = [json.dumps({"value": "x", name: value}) for name, value in PRINTED.items()]
    lines += [json.dumps({"schema": "kafkalog.record/1", "type": "record", **PRINTED, "headers": []})]
    lines += ['{"schema":"kafkalog.record/1","type":"record","value":"x","of_a_later_version":1}']
    found = taken("\n".join(lines), forced)
    assert sum(1 if hasattr(each, "headers") else len(each) for each in found) == len(lines)


def test_what_is_no_json_stays_bad_input():
    with pytest.raises(BadInput) as raised:
        taken("{", forced=False)
    assert raised.value.exit_code is ExitCode.FAILURE


@pytest.mark.parametrize("text", [b"\na\n\nbc\n", b"\n", b"a", b"a\nb"])
def test_lines_do_not_depend_on_the_pieces(text):
    """Also where a piece begins with the end of a line."""
    lines = text.split(b"\n")
    expected = lines if lines[-1] else lines[:-1]
    for first in range(len(text) + 1):
        for second in range(first, len(text) + 1):
            pieces = [piece for piece in (text[:first], text[first:second], text[second:]) if piece]
            assert list(PieceLines(pieces)) == expected, pieces


def test_a_piece_that_is_an_end_of_line_gives_the_line_before_the_next_piece():
    taken = []

    def pieces():
        for piece in (b"\n", b"a"):
            taken.append(piece)
            yield piece

    assert next(iter(PieceLines(pieces()))) == b""
    assert taken == [b"\n"]


@pytest.mark.parametrize(
    ("field", "most"), [("partition", (1 << 31) - 1), ("leader_epoch", (1 << 31) - 1), ("offset", (1 << 63) - 2)]
)
def test_the_largest_number_of_a_field(field, most):
    assert getattr(reading._origin({field: most}), field) == most
    with pytest.raises(ValueError, match=f"a number from -?[01] to {most}"):
        reading._origin({field: most + 1})


@pytest.mark.parametrize(
    ("values", "size", "is_taken"), [(9, 40, True), (10, 40, True), (11, 40, False), (10, 41, False), (99, 20, True)]
)
def test_a_line_of_the_largest_size_or_with_the_most_values(values, size, is_taken, monkeypatch):
    """Lines up to the small size are not counted."""
    monkeypatch.setattr(reading, "SMALL_BYTES", 20)
    monkeypatch.setattr(reading, "MOST_JSON_LINE_BYTES", 40)
    monkeypatch.setattr(reading, "MOST_JSON_LINE_VALUES", 10)
    line = (b"," * values).ljust(size)[:size]
    if is_taken:
        reading.check_json_line(line)
    else:
        with pytest.raises(ValueError, match="it has more than"):
            reading.check_json_line(line)


@pytest.mark.parametrize(("line", "is_taken"), [("x" * 31, True), ("é" * 15, True), ("é" * 15 + "x", False)])
def test_a_line_of_wide_characters_has_another_limit(line, is_taken, monkeypatch):
    for name, limit in (("SMALL_BYTES", 0), ("MOST_JSON_LINE_BYTES", 40), ("MOST_WIDE_JSON_LINE_BYTES", 30)):
        monkeypatch.setattr(reading, name, limit)
    if is_taken:
        reading.check_json_line(line.encode())
    else:
        with pytest.raises(ValueError, match="it has more than 30 bytes"):
            reading.check_json_line(line.encode())


def test_an_object_may_have_as_many_texts_as_values(monkeypatch):
    """Each with a name: four quotes for each value."""
    monkeypatch.setattr(reading, "MOST_JSON_LINE_VALUES", 3)
    for count in (2, 3, 4):
        line = json.dumps({"abc"[at] if at < 3 else "d": "v" for at in range(count)}).encode()
        assert reading._has_many_values(line) == (count > 3)


def test_a_line_of_any_kind_has_a_most_of_bytes(monkeypatch):
    monkeypatch.setattr(reading, "MOST_INPUT_LINE_BYTES", 10)
    assert list(PieceLines([b"0123456789"])) == [b"0123456789"]
    with pytest.raises(LineTooLong):
        list(PieceLines([b"0123456789", b"0"]))


@pytest.mark.parametrize("number", [-1, 0, 1, 7])
def test_standard_input_has_a_descriptor(number):
    assert inputs._has_descriptor(SimpleNamespace(fileno=lambda: number)) == (number >= 0)


def test_a_line_that_is_too_long_is_named():
    def lines():
        yield from (b"a", b"b")
        raise LineTooLong("too long")

    with pytest.raises(BadInput, match="line 3"):
        list(read_records(lines(), "in", lambda line: line))


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("rest", [b"", b"\n"])
def test_a_line_of_ndjson_that_is_too_long_is_named(forced, rest, monkeypatch):
    """Where it has arrived in full, and before that."""
    for name in ("MOST_INPUT_LINE_BYTES", "SMALL_BYTES", "MOST_JSON_LINE_BYTES"):
        monkeypatch.setattr(reading, name, 20)
    pieces = [b'{"value":"a"}\n' * 2, b'{"value":"%s"}' % (b"v" * 30) + rest]
    with pytest.raises(BadInput, match="line 3: it has more than 20 bytes"):
        list(NdjsonReader(KernelChoice(forced=forced), 0).records(pieces, "in"))
