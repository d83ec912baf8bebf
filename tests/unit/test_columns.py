"""Both bodies of columns answer alike: plain integers and arrays, against the naive answer from the rows."""

import random
from operator import attrgetter

import numpy as np
import pytest

from kafkalog_cli.format.batch import Batch, BatchArrays, BatchColumns
from kafkalog_cli.format.columns import (
    all_set,
    any_row,
    ascends,
    first_row_from,
    integers,
    least_and_largest,
    reduced,
    rows_where,
)  # fmt: skip
from kafkalog_cli.format.records import RECORD_COLUMN_NAMES, RecordArrays, RecordColumns

BODIES = {"tuple": tuple, "list": list, "array": lambda column: np.array(column, np.int64)}
COLUMNS = [(3,), (0, 0), (1, 2, 5), (5, 1, 2), (2, 2), (-1, 0, 7, 7), tuple(range(40)), (1 << 62, -(1 << 62))]


@pytest.fixture(params=BODIES)
def body(request):
    return BODIES[request.param]


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column(body, column):
    given = body(column)
    assert list(integers(given)) == list(column)
    assert all(type(value) is int for value in integers(given))
    assert all_set(given) == (0 not in column)
    assert least_and_largest(given) == (min(column), max(column))
    assert ascends(given) == (list(column) == sorted(set(column)))
    assert list(reduced(given, 3)) == [value - 3 for value in column]


@pytest.mark.parametrize("column", [column for column in COLUMNS if list(column) == sorted(column)])
def test_the_first_row_with_a_value(body, column):
    for value in {near for there in column for near in (there - 1, there, there + 1)}:
        wanted = next((row for row, there in enumerate(column) if there >= value), len(column))
        assert first_row_from(value, body(column)) == wanted


@pytest.mark.parametrize("rows", [0, 1, 5, 50])
def test_rows_where_a_condition_holds(body, rows):
    chosen = random.Random(rows)
    first, second = ([chosen.randrange(4) for _ in range(rows)] for _ in range(2))
    for wanted in range(5):
        found = rows_where(lambda a, b, wanted=wanted: (a == wanted) & (b < 2) | (a & 2 > b), body(first), body(second))
        naive = [
            row for row, (a, b) in enumerate(zip(first, second, strict=True)) if (a == wanted and b < 2) or (a & 2) > b
        ]
        assert found == naive
        assert all(type(row) is int for row in found)
        assert any_row(lambda a, wanted=wanted: a == wanted, body(first)) == (wanted in first)


def batches(count):
    chosen = random.Random(count)
    return [Batch(*(chosen.randrange(-1, 1 << 40) for _ in Batch._fields[:-1]), row % 3 != 1) for row in range(count)]  # type: ignore[call-arg]


@pytest.mark.parametrize("is_array", [False, True])
def test_batches(is_array):
    rows = [batch._replace(valid=int(batch.valid)) for batch in batches(9)]
    columns = BatchColumns.from_rows(rows)
    columns = columns.arrays() if is_array else columns
    assert isinstance(columns, BatchArrays) == is_array
    assert list(columns.rows()) == rows
    assert list(columns.rows(2, 5)) == rows[2:5]
    assert list(columns.part(2, 5).rows()) == rows[2:5]
    assert list(columns.part(4, 4).rows()) == []
    assert list(columns.chosen([7, 0]).rows()) == [rows[7], rows[0]]
    assert list(columns.chosen([]).rows()) == []
    assert list(columns.arrays().rows()) == rows
    assert not columns.all_valid()
    assert columns.chosen([0, 2, 3]).all_valid()
    shift = 100 - rows[0].position
    assert list(columns.moved(100).rows()) == [row._replace(position=row.position + shift) for row in rows]
    assert list(columns.rows()) == rows  # and what was asked stays as it was
    for part in (columns.part(1, 3), columns.chosen([1])):
        assert isinstance(part, BatchArrays) == is_array


@pytest.mark.parametrize("count", [0, 9, 5000])  # 5000: in several pieces
@pytest.mark.parametrize("is_array", [False, True])
def test_batches_of_transactions(is_array, count):
    """Without the batches before v2, whose attributes have no such bits."""
    chosen = random.Random(count)
    rows = [
        row._replace(magic=chosen.choice([1, 2, 2, 3]), attributes=chosen.choice([0, 8, 16, 32, 48, 64]))
        for row in batches(count)
    ]
    columns = BatchColumns.from_rows(rows)
    columns = columns.arrays() if is_array and rows else columns
    wanted = [row for row in rows if row.is_transactional or row.is_control]
    found = list(columns.of_transactions())
    assert found == wanted
    assert all(type(row) is Batch and type(row.position) is int for row in found)
    assert list(columns.of_transactions(only_valid=True)) == [row for row in wanted if row.valid]


@pytest.mark.parametrize("is_array", [False, True])
def test_records(is_array):
    chosen = random.Random(5)
    rows = [(*(chosen.randrange(-1, 1 << 40) for _ in RECORD_COLUMN_NAMES[:-1]), 1) for _ in range(6)]
    columns = RecordColumns.from_rows(rows)
    columns = columns.arrays() if is_array else columns
    assert isinstance(columns, RecordArrays) == is_array
    assert list(columns.rows()) == rows
    assert list(columns.part(1, 4).rows()) == rows[1:4]
    assert list(columns.numbered(9).rows()) == [(9 + at, *row[1:]) for at, row in enumerate(rows)]
    assert list(columns.numbered(9).part(2, 3).rows()) == [(11, *rows[2][1:])]
    assert list(columns.rows()) == rows
    assert columns.all_valid()
    assert not RecordColumns.from_rows([*rows, (*rows[0][:-1], 0)]).all_valid()
    assert list(map(list, map(integers, (attrgetter(name)(columns) for name in RECORD_COLUMN_NAMES)))) == [
        list(column) for column in zip(*rows, strict=True)
    ]
