"""Java's numbers, lines and properties."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_cli.format.java_text import format_properties, lines, parse_int, parse_long, parse_properties

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


def test_a_long_continued_line_is_read_in_linear_time():
    assert parse_properties(b"a=" + b"x\\\n" * 300_000) == {"a": "x" * 300_000}
