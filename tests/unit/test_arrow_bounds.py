"""Records as Arrow columns exactly at a limit: empty fields, sizes of parts, headers that tell enough."""

import pytest

from kafkalog_cli.format.batch import Batch, BatchColumns
from kafkalog_cli.log.reading import record_arrow
from kafkalog_cli.log.reading.record_arrow import headers_tell, record_batches, record_schema
from kafkalog_cli.log.reading.records import RecordReader
from kafkalog_cli.log.reading.scan import Scan
from tests.support.faulty_fs import BytesFile
from tests.support.logs import CONTROL, TRANSACTIONAL, R, batch_v2, message


def arrow_of(data, columns=None):
    """The record batches of all blocks, each as a dictionary of lists."""
    found = []
    for chunk in Scan(BytesFile(data)):
        for block in RecordReader().blocks(chunk):
            found += [part.to_pydict() for part in record_batches(block, record_schema(columns))]
    return found


def test_empty_fields_are_not_null():
    headers = ((b"h", b""), (b"i", None), (b"", b"j"))
    records = [R(0, 1000, None, b""), R(1, 1000, b"", None), R(2, 1000, b"k", b"vv", headers)]
    (found,) = arrow_of(batch_v2(records))
    assert found["key"] == [None, b"", b"k"]
    assert found["value"] == [b"", None, b"vv"]
    assert found["headers"] == [
        [], [], [{"key": b"h", "value": b""}, {"key": b"i", "value": None}, {"key": b"", "value": b"j"}]
    ]  # fmt: skip
    (sizes,) = arrow_of(batch_v2(records), ["key_size", "value_size"])
    assert sizes == {"key_size": [None, 0, 1], "value_size": [0, None, 2]}


def test_a_batch_without_records_gives_no_rows():
    data = batch_v2([], base=0, last=4) + batch_v2([R(5, 1000, b"k", b"v")])
    assert [at for part in arrow_of(data) for at in part["offset"]] == [5]


def test_only_v2_has_transactions():
    marked = batch_v2([R(0, 1000, b"k", b"v")], producer=(7, 0, 0), bits=TRANSACTIONAL)
    control = batch_v2([R(1, 1000, b"\0\0\0\1", b"\0\0\0\0\0\3")], producer=(7, 0, -1), bits=TRANSACTIONAL | CONTROL)
    data = marked + control + batch_v2([R(2, 1000, b"k", b"v")]) + message(R(3, 1000, b"k", b"v"), 1)
    found = arrow_of(data, ["transactional", "control", "magic"])
    rows = [row for part in found for row in zip(*part.values(), strict=True)]
    assert rows == [(True, False, 2), (True, True, 2), (False, False, 2), (False, False, 1)]


@pytest.mark.parametrize("is_key", [True, False])
@pytest.mark.parametrize(("sizes", "parts"), [((5, 5), [2]), ((5, 6), [1, 1]), ((11, 1, 9), [1, 2]), ((99,), [1])])
def test_keys_or_values_of_a_part_have_so_many_bytes(sizes, parts, is_key, monkeypatch):
    monkeypatch.setattr(record_arrow, "PART_BYTES", 10)
    fields = [bytes(size) for size in sizes]
    records = [R(at, 1000, *((field, b"v") if is_key else (b"k", field))) for at, field in enumerate(fields)]
    found = arrow_of(batch_v2(records))
    assert [len(part["offset"]) for part in found] == parts
    assert [field for part in found for field in part["key" if is_key else "value"]] == fields


def claimed(*rows):
    """Batches of (base offset, last offset, count)."""
    return BatchColumns.from_rows([
        Batch(0, 61, base, last, 0, 2, 0, 0, 0, 0, -1, -1, -1, count, 1) for base, last, count in rows
    ])  # fmt: skip


def test_batch_headers_show_whether_records_were_removed(monkeypatch):
    monkeypatch.setattr(record_arrow, "_MOST_CLAIMED", 10)
    for rows, tells in (
        ([(0, 4, 5)], True),
        ([(0, 4, 4)], False),
        ([(0, 4, 6)], False),
        ([(-1, 4, 6)], False),
        ([(0, 9, 10)], True),
        ([(0, 10, 11)], False),
        ([(0, 4, 5), (5, 9, 5)], True),
        ([(0, 4, 5), (5, 10, 6)], False),
        ([(3, 2, 0)], True),
        ([(3, 1, -1)], False),
    ):
        assert headers_tell(claimed(*rows)) is tells, rows
