"""Columns of a matrix, and questions about them: with and without NumPy, against the naive answer from the rows."""

import random

import numpy as np
import pytest

from kafkalog_cli.format import columns as module
from kafkalog_cli.format.batch import Batch, BatchColumns
from kafkalog_cli.format.columns import (
    all_set,
    any_row,
    ascends,
    column_of,
    least_and_largest,
    rows_in_order,
    rows_where,
)
from kafkalog_cli.format.records import RecordColumns

COLUMNS = [(3,), (0, 0), (1, 2, 5), (5, 1, 2), (2, 2), (-1, 0, 7, 7), tuple(range(40)), (1 << 62, -(1 << 62))]


@pytest.fixture(params=["python", "numpy"], autouse=True)
def way(request, monkeypatch):
    monkeypatch.setattr(module, "is_many", lambda rows: request.param == "numpy")


@pytest.mark.parametrize("values", COLUMNS)
def test_functions_of_a_column_agree_with_lists(values):
    column = column_of(values)
    assert all_set(column) == (0 not in values)
    assert least_and_largest(column) == (min(values), max(values))
    assert ascends(column) == (list(values) == sorted(set(values)))


@pytest.mark.parametrize("rows", [0, 1, 5, 50])
def test_rows_where_a_condition_holds(rows):
    chosen = random.Random(rows)
    first, second = ([chosen.randrange(4) for _ in range(rows)] for _ in range(2))
    for wanted in range(5):
        a, b = column_of(first), column_of(second)
        found = rows_where(lambda a, b, wanted=wanted: (a == wanted) & (b < 2) | (a & 2 > b), a, b)
        pairs = enumerate(zip(first, second, strict=True))
        assert found == [row for row, (a, b) in pairs if (a == wanted and b < 2) or (a & 2) > b]
        assert all(type(row) is int for row in found)
        assert any_row(lambda a, wanted=wanted: a == wanted, column_of(first)) == (wanted in first)


def batches(count):
    chosen = random.Random(count)
    values = ([chosen.randrange(-1, 1 << 40) for _ in Batch._fields[:-1]] for _ in range(count))
    return [Batch._make((*row, int(number % 3 != 1))) for number, row in enumerate(values)]


def test_batch_columns_give_their_rows_back():
    rows = batches(9)
    columns = BatchColumns.from_rows(rows)
    for one in (
        columns,
        BatchColumns.from_array(np.array(rows, np.int64).T),
        columns.part(0, 9),
        columns.select(range(9)),
    ):
        assert list(one.rows()) == rows
        assert list(one.rows(2, 5)) == rows[2:5]
        assert [one.row(row) for row in (0, 4, -1)] == [rows[0], rows[4], rows[-1]]
        assert one.base_offset.tolist() == [row.base_offset for row in rows]
        assert one.arrays().base_offset.tolist() == [row.base_offset for row in rows]
        part = one.part(2, 7)
        assert list(part.part(1, 3).rows()) == rows[3:5]
        assert part.row(-1) == rows[6]
        assert list(part.select([4, 0]).rows()) == [rows[6], rows[2]]
        assert part.array().T.tolist() == [list(row) for row in rows[2:7]]
        assert list(one.part(4, 4).rows()) == list(one.select([]).rows()) == []
        assert not one.all_valid()
        assert one.select([0, 2, 3]).all_valid()
        shift = 100 - rows[0].position
        assert list(one.move_to(100).rows()) == [row._replace(position=row.position + shift) for row in rows]
        assert list(one.rows()) == rows  # and what was asked stays as it was


def test_rows_in_order_sorts_like_sorted():
    chosen = random.Random(6)
    numbers = [chosen.randrange(-2, 3) for _ in range(99)]
    assert rows_in_order(column_of(numbers)).tolist() == sorted(range(99), key=numbers.__getitem__)
    assert rows_in_order(column_of([])).tolist() == []


@pytest.mark.parametrize("count", [0, 9, 5000])  # 5000: in several pieces
def test_batches_of_transactions_are_selected_like_row_by_row(count):
    """Without the batches before v2, whose attributes have no such bits."""
    chosen = random.Random(count)
    rows = [
        row._replace(magic=chosen.choice([1, 2, 2, 3]), attributes=chosen.choice([0, 8, 16, 32, 48, 64]))
        for row in batches(count)
    ]
    columns = BatchColumns.from_rows(rows)
    wanted = [row for row in rows if row.is_transactional or row.is_control]
    found = list(columns.of_transactions())
    assert found == wanted
    assert all(type(row) is Batch and type(row.position) is int for row in found)
    assert list(columns.of_transactions(only_valid=True)) == [row for row in wanted if row.valid]


def test_record_columns_give_their_rows_back():
    chosen = random.Random(5)
    rows = [(*(chosen.randrange(-1, 1 << 40) for _ in RecordColumns.names[:-1]), 1) for _ in range(6)]
    columns = RecordColumns.from_rows(rows)
    assert list(columns.rows()) == rows
    assert list(columns.part(1, 4).rows()) == rows[1:4]
    assert list(columns.rows()) == rows
    assert columns.all_valid()
    assert not RecordColumns.from_rows([*rows, (*rows[0][:-1], 0)]).all_valid()
