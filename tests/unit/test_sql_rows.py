"""Rows of a query as JSON and as cells: every type of Arrow that Spark has, in slices, with nulls."""

import datetime as dt
import decimal
import io
import json

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.ops.scans.catalog import ResultColumn
from kafkalog_cli.output import sql_output
from kafkalog_cli.output.sql_output import (
    Written,
    arrow_parts,
    lines_of,
    row_cells,
    row_lines,
    values,
    write_cells,
    write_lines,
    write_parquet,
)
from kafkalog_cli.output.stream import ResultStream

pa = pytest.importorskip("pyarrow")

UTC = pa.timestamp("us", tz="UTC")
LATE = (1 << 63) - 1
CASES = [
    (pa.int64(), [1, None, -(1 << 63)], [1, None, -(1 << 63)]),
    (pa.string(), ["a", None, ""], ["a", None, ""]),
    (pa.binary(), [b"a", None, b"\xff"], [b"a", None, b"\xff"]),
    (pa.bool_(), [True, None, False], [True, None, False]),
    (pa.decimal128(38, 2), [decimal.Decimal("1.50"), None, decimal.Decimal("-0.01")], ["1.50", None, "-0.01"]),
    (pa.date32(), [dt.date(1, 1, 1), None, dt.date(2020, 2, 3)], ["0001-01-01", None, "2020-02-03"]),
    (UTC, pa.array([0, None, -1000, 1, LATE], UTC),
     ["1970-01-01T00:00:00.000Z", None, "1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00.000001Z", f"{LATE}us"]),
    (pa.timestamp("us"), pa.array([1_000_000, None], pa.timestamp("us")), ["1970-01-01T00:00:01.000", None]),
    (pa.null(), [None, None], [None, None]),
    (pa.list_(pa.int32()), [[1, None], None, [], [2]], [[1, None], None, [], [2]]),
    (pa.list_(UTC), pa.array([[0], None, [None, LATE]], pa.list_(UTC)),
     [["1970-01-01T00:00:00.000Z"], None, [None, f"{LATE}us"]]),
    (pa.struct([("a", pa.int32()), ("b", pa.list_(pa.binary()))]), [{"a": 1, "b": [b"x"]}, None, {"a": None, "b": None}],
     [{"a": 1, "b": [b"x"]}, None, {"a": None, "b": None}]),
    (pa.map_(pa.string(), pa.int32()), [[("a", 1)], None, []], [{"a": 1}, None, {}]),
    (pa.map_(pa.int32(), UTC), pa.array([[(1, 0)], None, [(2, None)]], pa.map_(pa.int32(), UTC)),
     [[[1, "1970-01-01T00:00:00.000Z"]], None, [[2, None]]]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "given", "wanted"), CASES, ids=[str(case[0]) for case in CASES])
def test_values_of_every_arrow_type_are_json(kind, given, wanted):
    array = given if isinstance(given, pa.Array) else pa.array(given, kind)
    assert values(array) == wanted
    padded = pa.concat_arrays([array, array, array])
    assert values(padded.slice(len(array), len(array))) == wanted  # a part of a larger one
    assert values(array.slice(1)) == wanted[1:]
    assert values(array.slice(0, 0)) == []


@given(st.lists(st.none() | st.lists(st.none() | st.lists(st.none() | st.integers(-9, 9)))))
def test_nested_lists_are_json(rows):
    assert values(pa.array(rows, pa.list_(pa.list_(pa.int64())))) == rows


def batch():
    columns = [
        pa.array([b"k", None, b"\xff\x00"]),
        pa.array([1.5, float("nan"), None]),
        pa.array(["a\x1b[2J", "", None]),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["c0", "c1", "c2"])


def test_rows_are_lines_of_json():
    ((lines, count),) = row_lines(("key", "x", "c2"), iter([batch()]))
    assert [json.loads(line)["row"] for line in lines_of(lines).splitlines()] == [
        {"key": {"encoding": "utf-8", "data": "k"}, "x": 1.5, "c2": "a\x1b[2J"}, {"key": None, "x": "nan", "c2": ""},
        {"key": {"encoding": "base64", "data": "/wA="}, "x": None, "c2": None},
    ]  # fmt: skip
    assert (count, b"\x1b" in lines_of(lines)) == (3, False)


def test_rows_are_cells_of_text():
    assert list(row_cells(iter([batch()]))) == [
        ["k", "1.5", r"a\x1b[2J"], ["null", "nan", ""], ["X'ff00'", "null", "null"],
    ]  # fmt: skip
    long = pa.RecordBatch.from_arrays([pa.array([b"\xff" * 5000, b"v" * 5000, b"v" * 256])], names=["c0"])
    assert [cell for (cell,) in row_cells(iter([long]))] == ["X'" + "ff" * 126 + "f…", "v" * 255 + "…", "v" * 256]


def test_no_more_rows_are_written_than_asked_for():
    out = io.BytesIO()
    compress = zstandard.ZstdCompressor().compress
    parts = [(compress(b"1\n2\n"), 2), (compress(b"3\n4\n"), 2), (compress(b"5\n"), 1)]
    assert write_lines(out.write, iter(parts), 3) == Written(3, more=True)
    assert out.getvalue() == b"1\n2\n3\n"
    out = io.BytesIO()
    assert write_lines(out.write, iter(parts), 5) == Written(5)
    assert write_lines(out.write, iter(parts), None) == Written(5)
    stream = ResultStream(out := io.BytesIO())
    assert write_cells(stream, [ResultColumn("n\x1b", "int", True)], [["1"], ["2"]], 1) == Written(1, more=True)
    stream.flush()
    assert out.getvalue() == b"n\\x1b\n    1\n"


def test_rows_are_written_as_parquet():
    import pyarrow.parquet as pq

    made = batch()
    file = io.BytesIO()
    assert write_parquet(
        file, ["a", "b", "c"], made.schema, arrow_parts(iter([made, made.slice(1, 1)])), None
    ) == Written(4)
    found = pq.read_table(io.BytesIO(file.getvalue()))
    assert found.schema.names == ["a", "b", "c"]
    assert found.column("a").to_pylist() == [b"k", None, b"\xff\x00", None]
    for most, wanted in ((3, Written(3, more=True)), (2, Written(2, more=True)), (4, Written(4))):
        file = io.BytesIO()
        assert (
            write_parquet(file, ["a", "b", "c"], made.schema, arrow_parts(iter([made, made.slice(1, 1)])), most)
            == wanted
        )
        assert pq.read_metadata(io.BytesIO(file.getvalue())).num_rows == wanted.rows


def test_row_groups_have_a_limit_of_rows_and_bytes(monkeypatch):
    import pyarrow.parquet as pq

    made = batch()
    for name, wanted in (("GROUP_ROWS", [6, 3]), ("GROUP_BYTES", [3, 3, 3])):
        with monkeypatch.context() as patch:
            patch.setattr(sql_output, name, 4 if name == "GROUP_ROWS" else 1)
            write_parquet(file := io.BytesIO(), ["a", "b", "c"], made.schema, arrow_parts(iter([made] * 3)), None)
        metadata = pq.read_metadata(io.BytesIO(file.getvalue()))
        assert [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)] == wanted
