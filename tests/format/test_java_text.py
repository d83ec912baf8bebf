"""Java's numbers, lines and properties."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_cli.format.java_text import (
    format_properties,
    java_string,
    lines,
    parse_int,
    parse_long,
    parse_properties,
    split_colon,
    split_white_space,
    string_hash,
)

INT = {"0": 0, "-0": 0, "+7": 7, "2147483647": 2**31 - 1, "-2147483648": -(2**31), "0" * 5000 + "1": 1, "\u0663": 3}
NOT_INT = [
    "",
    "+",
    "-",
    " 1",
    "1 ",
    "1_0",
    "0x1",
    "+-1",
    "1.0",
    "\xb2",
    "2147483648",
    "9" * 100_000,
    "\U0001d7d8",
    "1\n",
]


def test_integers_as_java_parses_them():
    assert {text: parse_int(text) for text in INT} == INT
    assert [text[:20] for text in NOT_INT if parse_int(text) is not None] == []
    assert (parse_long("9223372036854775807"), parse_long("-9223372036854775808")) == (2**63 - 1, -(2**63))
    assert (parse_long("9223372036854775808"), parse_long("2147483648")) == (None, 2**31)


@settings(deadline=None)
@given(st.integers(-(2**70), 2**70))
def test_integers_come_back_within_their_range(value):
    assert parse_long(str(value)) == (value if -(2**63) <= value < 2**63 else None)


@settings(deadline=None)
@given(st.text("a\n\r").map(str.encode))
def test_lines_are_where_they_say(data):
    found = list(lines(data))
    assert [line for _, line in found] == data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")[: len(found)]
    assert all(data[position : position + len(line)] == line for position, line in found)
    assert len(found) == len(data.splitlines())


@settings(deadline=None)
@given(st.dictionaries(st.text(), st.text()))
def test_properties_come_back(properties):
    data = format_properties(properties.items(), ("", "made today"))
    assert data.startswith(b"#\n#made today\n")
    assert parse_properties(data) == properties


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a=b", {"a": "b"}),
        (b"a : b\nc\td", {"a": "b", "c": "d"}),
        (b"#x=1\n  ! y=2\n\n \x0c z=3", {"z": "3"}),
        (b"a=1\\\n   2\\\r\n\t3\nb=4", {"a": "123", "b": "4"}),
        (b"a=1\\\n# 2", {"a": "1# 2"}),
        (b"a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        (b"a\\=\\:\\ b==c", {"a=: b": "=c"}),
        (b"a=\\u00e9\\t\\q\\ud83d\\ude00", {"a": "\u00e9\tq\U0001f600"}),
        (b"a=\xe9", {"a": "\u00e9"}),
        (b"a", {"a": ""}),
        (b"=b", {"": "b"}),
        (b"a=1\ra=2", {"a": "2"}),
        (b"a=1\\\n", {"a": "1"}),
    ],
)
def test_properties_as_java_loads_them(data, expected):
    assert parse_properties(data) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\\\n#c=1\nb=2", {"b": "2"}),
        (b"\\\n!x\nb=2", {"b": "2"}),
        (b"\\\n\nb=2", {"b": "2"}),
        (b"\\\n=x", {"": "x"}),
        (b"a=1\n\\", {"a": "1", "": ""}),
        (b"\\\n\\\n#b=2", {}),
    ],
)
def test_a_backslash_alone_on_its_line_continues_nothing(data, expected):
    """Properties.load of JDK 17, as all answers from here on."""
    assert parse_properties(data) == expected


def test_properties_escape_no_character_from_space_to_tilde():
    assert format_properties([("a", " b c~\x7f")]) == b"a=\\ b c~\\u007F\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("kafka", 101807910), ("orders-12", -390715895), ("\u00e9\U0001f600", 1996812), ("\uffff" * 3, 65076255), ("", 0)],
)
def test_hashes_of_strings(text, expected):
    assert string_hash(text) == expected


@pytest.mark.parametrize(
    ("line", "fields"),
    [("", [""]), (" ", []), ("a ", ["a"]), (" a", ["", "a"]), ("  a  b  ", ["", "a", "b"]), (" \t", [])],
)
def test_fields_as_java_splits_them(line, fields):
    """A line without a match is the only field; else no empty field stays at the end, and none may be left."""
    assert split_white_space(line) == fields


@pytest.mark.parametrize(
    ("line", "fields"), [("", [""]), (": ", []), ("a: ", ["a"]), (": a", ["", "a"]), ("a: b: ", ["a", "b"])]
)
def test_fields_with_colons_as_java_splits_them(line, fields):
    assert split_colon(line) == fields


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f09041", "?A"),
        ("f0bf41", "?A"),
        ("f08f41", "??A"),
        ("f48041", "?A"),
        ("f48f41", "?A"),
        ("f49041", "??A"),
        ("f58041", "??A"),
        ("f0908041", "?A"),
        ("f0bfbf41", "?A"),
        ("f0c041", "??A"),
    ],
)
def test_utf_8_cut_off_before_another_character(text, expected):
    assert java_string(bytes.fromhex(text)) == expected.replace("?", "\ufffd")


def test_a_long_continued_line_is_read_in_linear_time():
    assert parse_properties(b"a=" + b"x\\\n" * 300_000) == {"a": "x" * 300_000}
