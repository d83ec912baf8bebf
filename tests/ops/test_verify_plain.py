"""What verify saves itself on small, ordinary logs: questions about each batch, and a search for the end of the log."""

from itertools import product

import pytest

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.format import producer_snapshot
from kafkalog_cli.format.batch import Batch, BatchColumns
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.ops.checks.index_reports import PartitionReports
from kafkalog_cli.ops.checks.segment_reports import ReadContext
from kafkalog_cli.ops.checks.segment_walk import BatchRun
from kafkalog_cli.ops.verify.aborted import AbortedCheck
from kafkalog_cli.ops.verify.gaps import cleaner_wrote
from kafkalog_cli.ops.verify.log import LogCheck, _are_ordinary
from kafkalog_cli.ops.verify.task import Level, VerifyTask
from tests.support.logs import BASE_TIME_MS, R, batch_v2, write_segment

FS = RealFilesystem()
BATCH = Batch(0, 70, 1, 1, 0, 2, 1, 0, BASE_TIME_MS, BASE_TIME_MS, -1, -1, -1, 1, 1)
FIELDS = {
    "magic": (1, 2),
    "valid": (0, 1),
    "attributes": (0, 3, 8, 16, 32, 64),
    "records_count": (-1, 0, 1, 2),
    "last_offset": (0, 1, 2),
    "producer_id": (-2, -1, 5),
    "producer_epoch": (-1, 0),
    "base_sequence": (-1, 0),
    "size_bytes": (61, 70),
}


def questions(batches):
    """What the questions about each batch find, in short."""
    check, aborted = LogCheck(FS, VerifyTask(None, Level.NORMAL, BASE_TIME_MS)), AbortedCheck(FS, tells_markers=True)
    check._look_at_counts(batches)
    check._look_at_producers(batches)
    aborted.see(BatchRun(batches, -1, -1, is_after_damage=False))
    return bool(check.findings), cleaner_wrote(batches), bool(aborted._replay.first_offsets or aborted._ended)


def test_no_question_finds_anything_in_ordinary_batches():
    ordinary = 0
    for values in product(*FIELDS.values()):
        batch = BATCH._replace(**dict(zip(FIELDS, values, strict=True)))
        batches = BatchColumns.from_rows([batch])
        if _are_ordinary(batches):
            ordinary += 1
            assert questions(batches) == (False, False, False), batch
    # Two sizes, three bits of codec and clock, one or two records; of a producer only one pair of numbers counts.
    assert ordinary == 2 * 3 * 2 * (4 + 1)


@pytest.mark.parametrize("base", [0, 100])
def test_the_walk_of_one_segment_tells_its_offsets(tmp_path, base):
    """Files of offsets below the segment are reported before it is walked: they need the offsets earlier."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    batches = [(batch_v2([R(base + at, BASE_TIME_MS, None, b"v")]), base + at, BASE_TIME_MS) for at in range(3)]
    write_segment(folder, base, batches)
    for offset in (50, 103):
        entry = ProducerEntry(1, 0, 0, offset - 1, 0, BASE_TIME_MS, 0, -1)
        (folder / f"{offset:020}.snapshot").write_bytes(producer_snapshot.encode([entry]))
    check = LogCheck(FS, VerifyTask(None, Level.NORMAL, BASE_TIME_MS))

    def reports(observer):
        made = PartitionReports(ReadContext(FS), str(folder), observer=observer, listed=open_partition(FS, str(folder)))
        told = {report.path: (report.notes, [*report.entries]) for report in made if report.path.endswith(".snapshot")}
        return told, made.log

    told, log = reports(check)
    assert (told, log) == reports(None)
    assert len(told) == 2
    assert log is not None
    assert (log.start, log.end) == (base, base + 3)
