"""RecordBatches that a task gives to Spark: split and combined to a number of rows and bytes, with all rows in their order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from kafkalog_cli.ops.scans import rows  # noqa: E402

MOST_ROWS, MOST_BYTES, ALONE_BYTES = 10, 400, 200
SCHEMA = pa.schema({"number": pa.int64(), "value": pa.binary()})
SIZES = st.lists(st.lists(st.sampled_from([0, 1, 30, 150, 500]), max_size=25), max_size=8)


@given(SIZES)
def test_no_row_is_lost_and_no_part_is_too_large_unless_it_is_one_record(sizes):
    whole, number = [], 0
    for part in sizes:
        numbers = range(number, number + len(part))
        whole.append(
            pa.record_batch(
                [pa.array(numbers, pa.int64()), pa.array([bytes(size) for size in part], pa.binary())], schema=SCHEMA
            )
        )
        number += len(part)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("MOST_ROWS", MOST_ROWS), ("MOST_BYTES", MOST_BYTES), ("ALONE_BYTES", ALONE_BYTES)):
            patch.setattr(rows, name, value)
        found = list(rows.limit_batches(iter(whole), SCHEMA))
    assert pa.Table.from_batches(found, SCHEMA) == pa.Table.from_batches(whole, SCHEMA)
    assert all(part.num_rows <= MOST_ROWS and (part.nbytes <= MOST_BYTES or part.num_rows == 1) for part in found)
    for part, after in zip(found, found[1:], strict=False):
        together = part.num_rows + after.num_rows <= MOST_ROWS and part.nbytes + after.nbytes <= MOST_BYTES
        assert not together or max(part.nbytes, after.nbytes) >= ALONE_BYTES
