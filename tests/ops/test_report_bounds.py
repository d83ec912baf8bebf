"""What the reports on a partition's files say exactly at the log's end, at a segment's start, and of the first format with time indexes."""

import struct

import pytest

from kafkalog_cli.ops.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.checks.index_reports import PartitionReports
from kafkalog_cli.ops.checks.segment_reports import ReadContext
from tests.bad_input.verifying import FOLDER, PLAIN, verified
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.logs import R, batch_v2, message, producer_snapshot

ONE = batch_v2([R(0, 9)])


@pytest.mark.parametrize(("offset", "is_told"), [(0, False), (1, False), (2, True)])
def test_a_snapshot_beyond_the_end_of_a_log_of_one_segment(offset, is_told):
    found = verified({f"{0:020}.log": ONE, f"{offset:020}.snapshot": producer_snapshot([])}).findings
    assert (FindingKind.SNAPSHOT_BEYOND_END in {one.kind for one in found}) == is_told


@pytest.mark.parametrize(("base", "gap"), [(1, []), (2, [(1, 1)]), (4, [(1, 3)])])
def test_offsets_that_no_segment_covers(base, gap):
    files = {f"{0:020}.log": ONE, f"{base:020}.log": batch_v2([R(base, 9)])}
    files |= {f"{at:020}.index": struct.pack(">ii", 1, 1) for at in (0, base)}  # a log without an index is not walked
    fs = FaultyFilesystem({f"{FOLDER}/{name}": data for name, data in files.items()})
    notes = [note for report in PartitionReports(ReadContext(fs, choice=PLAIN), FOLDER) for note in report.notes]
    found = [note for note in notes if note.kind is FindingKind.OFFSET_GAP]
    assert [note.offsets for note in found] == gap
    words = [f"no segment covers offsets {first} to {last}" for first, last in gap]
    assert [note.message.partition(":")[0] for note in found] == words


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_broker_that_writes_v2_writes_time_indexes(magic):
    """Time indexes came with 0.10.1, and v1 with 0.10.0."""
    data = ONE if magic == 2 else message(R(0, 9), magic)
    found = verified({f"{0:020}.log": data, f"{0:020}.index": b""}).findings
    assert (FindingKind.TIME_INDEX_MISSING in {one.kind for one in found}) == (magic == 2)
