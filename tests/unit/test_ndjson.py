"""Lines of machine output: bytes, paths, escapes, errors, the summary."""

import base64
import io
import json
import os
from types import SimpleNamespace
from typing import Annotated, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.errors import ExitCode, PathNotFound
from kafkalog_cli.output.ndjson import (
    From,
    JsonLines,
    NotRequired,
    ObjectKind,
    json_bytes,
    json_path,
    json_text,
    same_fields,
)
from kafkalog_cli.output.stream import ResultStream
from kafkalog_cli.results import EMPTY_IS_NULL, NEGATIVE_IS_NULL, NUMBER_OF, PathText, lower_names


def written(*calls):
    stream = io.BytesIO()
    lines = JsonLines(ResultStream(stream))
    for call in calls:
        call(lines)
    lines.flush()
    return stream.getvalue()


@given(st.binary())
def test_bytes_come_back_whole(data):
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
        lambda lines: lines.object(ObjectKind("kafkalog.thing/1", dict), {"b": 1, "a": None}),
        lambda lines: lines.summary(ExitCode.CORRUPTION, things=1),
    )
    assert raw == (
        b'{"schema":"kafkalog.thing/1","type":"thing","b":1,"a":null}\n'
        b'{"schema":"kafkalog.summary/1","type":"summary","things":1,"exit_code":4}\n'
    )


def test_errors_tell_what_and_where():
    raw = written(
        lambda lines: lines.exception(PathNotFound(path="/no\n")),
        lambda lines: lines.error("torn", "bad\x1b", path=os.fsdecode(b"\xff"), position=70),
    )
    first, second = map(json.loads, raw.splitlines())
    assert (first["schema"], first["type"], first["kind"]) == ("kafkalog.error/1", "error", "PathNotFound")
    assert (first["path"], first["exit_code"]) == ("/no\n", 10)
    assert (second["kind"], second["position"]) == ("torn", 70)
    assert (second["path"], second["path_b64"]) == ("\ufffd", "/w==")


class InnerObject(TypedDict):
    """An object inside another."""

    path: Annotated[PathText, From("file.path"), "a path"]
    size: int


class OuterObject(TypedDict):
    """An object with a list, a part that may be null, and a field that may be absent."""

    number: int
    ratio: Annotated[float | None, From("part.ratio")]
    inner: list[InnerObject]
    one: InnerObject | None
    names: list[PathText] | None
    extra: NotRequired[Annotated[list[InnerObject], "only with an option"]]


def found_inner(path):
    return SimpleNamespace(file=SimpleNamespace(path=path), size=5, unused=1)


def test_an_object_is_filled_as_its_declaration_says():
    found = SimpleNamespace(
        number=3,
        part=None,
        inner=(found_inner("a"), found_inner("\udc80")),
        one=None,
        names=("b", "\udcff"),
        extra=None,
    )
    filled = same_fields(OuterObject, found)
    assert list(filled) == ["number", "ratio", "inner", "one", "names"]
    assert json.loads(json_text(filled["inner"])) == [
        {"path": "a", "size": 5}, {"path": "\ufffd", "path_b64": "gA==", "size": 5}
    ]  # fmt: skip
    assert filled["ratio"] is None
    assert filled["one"] is None
    assert [type(name) for name in filled["names"] or ()] == [PathText, PathText]
    found.part, found.one, found.extra = SimpleNamespace(ratio=0.5), found_inner("c"), [{"path": "d", "size": 0}]
    filled = same_fields(OuterObject, found, number=4, names=None)
    assert filled == {
        "number": 4, "ratio": 0.5, "inner": filled["inner"], "one": {"path": "c", "size": 5}, "names": None,
        "extra": [{"path": "d", "size": 0}],
    }  # fmt: skip


def test_without_a_result_the_fields_are_null_and_a_missing_attribute_is_an_error():
    assert same_fields(InnerObject, None, size=1) == {"path": None, "size": 1}
    with pytest.raises(AttributeError, match="size"):
        same_fields(InnerObject, SimpleNamespace(file=None))


class NameObject(TypedDict):
    """An object that is made of a text."""

    name: Annotated[PathText, From("")]


class ConvertedObject(TypedDict):
    """An object whose notes say how its values are made."""

    code: Annotated[str, lower_names(ExitCode.NOT_FOUND)]
    step: Annotated[str | None, EMPTY_IS_NULL]
    time_ms: Annotated[int | None, NEGATIVE_IS_NULL]
    files: Annotated[int, From("of.files"), NUMBER_OF]
    names: Annotated[list[NameObject], From("texts")]


def test_a_note_converts_a_value():
    found = SimpleNamespace(code=ExitCode.NOT_FOUND, step="", time_ms=-1, of=None, texts=("a", "b"))
    names = [{"name": "a"}, {"name": "b"}]
    filled = same_fields(ConvertedObject, found)
    assert filled == {"code": "not_found", "step": None, "time_ms": None, "files": 0, "names": names}
    filled = same_fields(ConvertedObject, found, step="go", time_ms=0, files=(1, 2), names=())
    assert filled == {"code": "not_found", "step": "go", "time_ms": 0, "files": 2, "names": []}
