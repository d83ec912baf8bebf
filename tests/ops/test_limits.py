"""Limits that several commands have, exactly at each: bytes that are kept, damage that is told, times, names of files."""

from types import SimpleNamespace

import pytest

from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.ops import export_files
from kafkalog_cli.ops.checks import index_reports
from kafkalog_cli.ops.export_files import PartitionFiles
from kafkalog_cli.ops.log_contents import TimeCounts
from kafkalog_cli.ops.session.runner import Runner
from kafkalog_cli.ops.stats import _MOST_DAMAGE, MeasuredPartition
from kafkalog_cli.ops.values import _SchemaFiles
from tests.bad_input.makers import START_MS, batch, record
from tests.bad_input.verifying import verified
from tests.support.logs import producer_snapshot
from tests.support.memory_fs import MemoryFilesystem


@pytest.mark.parametrize(("less", "is_decoded"), [(0, True), (1, False)])
def test_a_snapshot_is_decoded_up_to_a_size(monkeypatch, less, is_decoded):
    """A larger snapshot is not compared with the log."""
    data = producer_snapshot([(7, 0, 0, 5, 0, START_MS, -1, -1)])
    monkeypatch.setattr(index_reports, "MAX_STATE_BYTES", len(data) - less)
    log = batch(0, [record(0, b"k", b"v")], max_ms=START_MS)
    found = verified({f"{0:020}.log": log, f"{1:020}.snapshot": data}).findings
    assert ("entries-not-checked" not in {one.kind.value for one in found}) == is_decoded


@pytest.mark.parametrize(("files", "held", "is_flushed"), [(1, 11, False), (2, 5, False), (2, 6, True)])
def test_files_of_several_days_keep_so_many_bytes_together(monkeypatch, files, held, is_flushed):
    """A file alone ends its row groups by itself."""
    monkeypatch.setattr(export_files, "MOST_HELD_BYTES", 10)
    flushed = []
    made = object.__new__(PartitionFiles)
    made._open = {
        str(day): SimpleNamespace(
            writer=SimpleNamespace(held_bytes=held, write=lambda part: None, flush=lambda: flushed.append(1)), records=0
        )
        for day in range(files)
    }
    made._write("0", None, [0])
    assert bool(flushed) == is_flushed


def test_the_parts_of_a_range_of_times_are_equal():
    """A range has its first and its last millisecond: four parts of six."""
    counts = TimeCounts(1, dict.fromkeys(range(6), 1))
    assert counts.bars(0, 5, 4) == [2, 1, 2, 1]
    assert counts.bars(0, 5, 6) == [1] * 6
    assert counts.bars(0, 5, 2) == [3, 3]


def test_damage_is_told_up_to_a_number_and_counted():
    measured = MeasuredPartition(SimpleNamespace())
    for at in range(_MOST_DAMAGE + 1):
        measured.add_damage("0.log", Fault(FaultKind.CRC_MISMATCH, at, "wrong"))
    assert (len(measured.damage), measured.damage_count) == (_MOST_DAMAGE, _MOST_DAMAGE + 1)


@pytest.mark.parametrize(("stem", "schema_id"), [("2147483647", 2147483647), ("12345678901", None), ("orders", None)])
def test_a_file_that_is_named_after_an_id(stem, schema_id):
    """An id is an int32, which has ten digits at most."""
    fs, found = MemoryFilesystem(), []
    fs.add(f"/schemas/{stem}.avsc", b'"string"')
    _SchemaFiles(fs, "/schemas", SimpleNamespace(add=found.append), []).read()
    assert found[0].schema_id == schema_id


@pytest.mark.parametrize(("seconds", "is_over"), [(4.5, False), (5, True), (5.5, True)])
def test_no_partition_begins_after_the_time_budget(seconds, is_over):
    now = [100.0]
    pace = SimpleNamespace(time_budget_seconds=5, io_bytes_per_second=None)
    shared = SimpleNamespace(
        context=SimpleNamespace(clock=lambda: now[0], sleep=None), sharers=1,
        options=SimpleNamespace(pace=pace, wait_seconds=0, assume_offline=False),
    )  # fmt: skip
    runner = Runner(shared, SimpleNamespace(), SimpleNamespace(are_asked_for=False))
    now[0] += seconds
    assert runner.is_over == is_over
