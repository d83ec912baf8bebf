"""Lines of machine output: bytes, paths, escapes, errors, the summary."""

import base64
import io
import json
import os
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, ClassVar, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.errors import ExitCode, PathNotFound
from kafkalog_cli.output.ndjson import Failed, JsonLines, json_bytes, json_path, json_text
from kafkalog_cli.output.stream import ResultStream
from kafkalog_cli.results import (
    ABSENT,
    EMPTY_IS_NULL,
    FLAT,
    GIVEN,
    NEGATIVE_IS_NULL,
    NUMBER_OF,
    Before,
    Hidden,
    Named,
    PathName,
    PathText,
    Schema,
    lower_names,
    object_of,
    of,
)  # fmt: skip


def written(*calls):
    stream = io.BytesIO()
    lines = JsonLines(ResultStream(stream))
    for call in calls:
        call(lines)
    lines.flush()
    return stream.getvalue()


@given(st.binary())
def test_bytes_in_json_come_back_whole(data):
    shown = json.loads(json_text(json_bytes(data)))
    if shown["encoding"] == "utf-8":
        assert shown["data"].encode() == data
    else:
        assert base64.b64decode(shown["data"], validate=True) == data
        with pytest.raises(UnicodeDecodeError):
            data.decode()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (None, "null"),
        (b"", '{"encoding":"utf-8","data":""}'),
        ("ä€𝄞".encode(), '{"encoding":"utf-8","data":"ä€𝄞"}'),
        (b'"\\\b\f\n\r\t', r'{"encoding":"utf-8","data":"\"\\\b\f\n\r\t"}'),
        (b"\x00\x1b\x7f", r'{"encoding":"utf-8","data":"\u0000\u001b\u007f"}'),
        ("\x80\x85\x9f\xa0".encode(), '{"encoding":"utf-8","data":"\\u0080\\u0085\\u009f\xa0"}'),
        ("\u2027\u2028\u2029\u202a".encode(), '{"encoding":"utf-8","data":"\u2027\\u2028\\u2029\u202a"}'),
        (b"\xed\xa0\x80", '{"encoding":"base64","data":"7aCA"}'),
        (b"\xc0\xaf", '{"encoding":"base64","data":"wK8="}'),
        (b"\xf4\x90\x80\x80", '{"encoding":"base64","data":"9JCAgA=="}'),
    ],
)
def test_bytes_are_text_or_base64(data, expected):
    assert json_text(json_bytes(data)) == expected


@given(st.text(st.characters(codec=None)))
def test_any_text_is_one_clean_line(text):
    line = json_text({"text": text, "more": [text]})
    assert not [c for c in line if ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 or c in "\u2028\u2029"]
    assert json.loads(line.encode())["text"] == "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)


def test_bytes_inside_and_numbers_that_json_has_not():
    value = {"blob": b"\xff", "rates": (1.5, float("nan"), float("-inf")), "big": -(2**63)}
    assert json_text(value) == (
        '{"blob":{"encoding":"base64","data":"/w=="},"rates":[1.5,"nan","-inf"],"big":-9223372036854775808}'
    )


def test_paths_that_are_not_utf8_come_with_their_bytes():
    assert json_path("/data/ä\n.log") == {"path": "/data/ä\n.log"}
    name = os.fsdecode(b"/data/\xff\xc3\xa4.log")
    shown = json_path(name, "segment")
    assert shown == {
        "segment": "/data/\ufffdä.log",
        "segment_b64": base64.b64encode(b"/data/\xff\xc3\xa4.log").decode(),
    }


def test_a_run_writes_its_objects_and_a_summary():
    raw = written(
        lambda lines: lines.object(Schema("kafkalog.thing/1"), {"b": 1, "a": None}),
        lambda lines: lines.summary(ExitCode.CORRUPTION, things=1),
    )
    assert raw == (
        b'{"schema":"kafkalog.thing/1","type":"thing","b":1,"a":null}\n'
        b'{"schema":"kafkalog.summary/1","type":"summary","things":1,"exit_code":4}\n'
    )


def test_json_errors_have_kind_path_and_position():
    raw = written(
        lambda lines: lines.exception(PathNotFound(path="/no\n")),
        lambda lines: lines.result(Failed("torn", "bad\x1b", os.fsdecode(b"\xff"), 70)),
    )
    first, second = map(json.loads, raw.splitlines())
    assert (first["schema"], first["type"], first["kind"]) == ("kafkalog.error/1", "error", "PathNotFound")
    assert (first["path"], first["exit_code"]) == ("/no\n", 10)
    assert (second["kind"], second["position"]) == ("torn", 70)
    assert (second["path"], second["path_b64"]) == ("\ufffd", "/w==")


class Inner(NamedTuple):
    """A result inside another."""

    path: Annotated[PathName, "a path"]
    size: int
    file: Hidden[object] = None


class Names(NamedTuple):
    """Fields that stand in the object of another result."""

    kind: Annotated[ExitCode, lower_names(ExitCode.NOT_FOUND)]
    text: Annotated[str, Named("words"), EMPTY_IS_NULL]


@dataclass(frozen=True)
class Outer:
    """A result with a list, a part that may be null, fields of another result, and a field that may be absent."""

    part: Hidden[object]
    number: int
    ratio: ClassVar[Annotated[float | None, "of the part"]] = of("part.ratio")
    inner: tuple[Inner, ...]
    one: Inner | None
    names: Annotated[Names | None, FLAT]
    paths: tuple[PathName, ...] | None
    extra: Annotated[tuple[Inner, ...] | None, ABSENT] = None
    run: ClassVar[Annotated[str | None, "from the output"]] = GIVEN

    @property
    def size(self) -> Annotated[int, Before("inner"), "of all"]:
        """The size of all."""
        return sum(inner.size for inner in self.inner)


def test_an_object_has_the_declared_fields_in_their_order():
    found = Outer(None, 3, (Inner("a", 5), Inner("\udc80", 6, "f")), None, None, ("b", "\udcff"))
    filled = object_of(found)
    assert list(filled) == ["number", "ratio", "size", "inner", "one", "kind", "words", "paths", "run"]
    assert json.loads(json_text(filled["inner"])) == [
        {"path": "a", "size": 5}, {"path": "\ufffd", "path_b64": "gA==", "size": 6}
    ]  # fmt: skip
    assert [filled[name] for name in ("ratio", "size", "one", "kind", "words", "run")] == [None, 11, *[None] * 4]
    assert [type(path) for path in filled["paths"]] == [PathText, PathText]
    assert (found.ratio, Outer(SimpleNamespace(ratio=0.5), 0, (), None, None, None).ratio) == (None, 0.5)


def test_parts_become_objects_and_given_values_replace_attributes():
    names, one = Names(ExitCode.NOT_FOUND, ""), Inner("c", 5)
    found = Outer(SimpleNamespace(ratio=0.5), 3, (), one, names, None, (one,))
    assert object_of(found, run="x", number=4) == {
        "number": 4, "ratio": 0.5, "size": 0, "inner": [], "one": {"path": "c", "size": 5}, "kind": "not_found",
        "words": None, "paths": None, "extra": [{"path": "c", "size": 5}], "run": "x",
    }  # fmt: skip
    assert "extra" not in object_of(found, extra=ABSENT)


class Numbers(NamedTuple):
    """A result whose notes convert its values."""

    time_ms: Annotated[int, NEGATIVE_IS_NULL]
    files: Annotated[tuple[int, ...] | None, NUMBER_OF]


@pytest.mark.parametrize(("found", "expected"), [((-1, None), (None, 0)), ((0, (1, 2)), (0, 2))])
def test_a_note_converts_a_value(found, expected):
    assert tuple(object_of(Numbers(*found)).values()) == expected
