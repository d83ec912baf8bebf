"""The batches of chunks, joined for checks of whole columns."""

import numpy as np
import pytest

from kafkalog_cli.format.batch import Batch, BatchColumns
from kafkalog_cli.log.reading import scan


def batches(first, end, *, is_compiled):
    rows = [(at,) * len(Batch._fields) for at in range(first, end)]
    return BatchColumns.from_matrix(np.array(rows).T.copy()) if is_compiled else BatchColumns.from_rows(rows)


@pytest.mark.parametrize("kinds", ["ccc", "pcc", "cpc", "ccp", "ppp"], ids=str)
def test_joined_batches_are_all_there_in_order(monkeypatch, kinds):
    monkeypatch.setattr(scan, "GATHERED_ROWS", 5)
    chunks = [batches(3 * at, 3 * at + 3, is_compiled=kind == "c") for at, kind in enumerate(kinds)]
    found = list(scan.gathered(iter(chunks)))
    assert [row.position for part in found for row in part.rows()] == list(range(9))
    sizes = {"ccc": [6, 3], "pcc": [3, 6], "cpc": [3, 3, 3], "ccp": [6, 3], "ppp": [3, 3, 3]}
    assert [len(part) for part in found] == sizes[kinds]
