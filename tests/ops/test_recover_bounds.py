"""What recover concludes at the limits of offsets, epochs and producer ids: Kafka's rules, over all small numbers."""

from itertools import product
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from kafkalog_cli.broker.loaded_segment import LoadSettings
from kafkalog_cli.broker.log_loader import LoadedLog, StartState
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format.batch import Batch, BatchColumns
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.ops.recover.plan import line_edits, watermark_remark
from kafkalog_cli.ops.recover.recover import _line_edits
from kafkalog_cli.ops.recover.repair import Scope, _Repair, plan_repair
from kafkalog_cli.ops.recover.salvage_sources import _Content, _fits_name, _walked
from kafkalog_cli.ops.recover.sidecar_state import BatchMarks
from tests.support.faulty_fs import BytesFile, FaultyFilesystem
from tests.support.logs import BASE_TIME_MS, R, batch_v2, message_set, write_segment

PARTITION = SimpleNamespace(topic="t", number=0, path="/logs/t-0")
RECOVERY_POINT, LOG_START = FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.LOG_START_CHECKPOINT
HIGH_WATERMARK, CLEANER = FileKind.REPLICATION_CHECKPOINT, FileKind.CLEANER_CHECKPOINT

CONTROL = 0x20


def batch_run(rows, *, as_matrix):
    """Batches as (attributes, producer id, magic, leader epoch): in the two ways in which kernels give them."""
    batches = BatchColumns.from_rows(
        Batch(0, 61, at, at, epoch, magic, 0, attributes, 0, 0, producer, 0, 0, 1, 1)
        for at, (attributes, producer, magic, epoch) in enumerate(rows)
    )
    return SimpleNamespace(batches=batches.arrays() if as_matrix else batches)


def seen(batch_runs, *, as_matrix):
    marks = BatchMarks(FaultyFilesystem())
    marks.begin(SimpleNamespace(base_offset=7), None)
    for rows in batch_runs:
        marks.see(batch_run(rows, as_matrix=as_matrix))
    return marks


@pytest.mark.parametrize("as_matrix", [False, True])
def test_a_marker_is_a_control_batch_of_a_producer(as_matrix):
    """RecordBatch.hasProducerId: an id above -1, so that 0 is one; message sets (magic 0 and 1) have neither."""
    for attributes, producer, magic in product((0, CONTROL, CONTROL | 0x10), (-1, 0, 1), (0, 1, 2)):
        found = seen([[(attributes, producer, magic, 0)]], as_matrix=as_matrix).in_segments
        assert found == ({7} if attributes & CONTROL and producer > -1 and magic == 2 else set())


@pytest.mark.parametrize("as_matrix", [False, True])
def test_epochs_go_down_only_where_a_smaller_one_follows(as_matrix):
    """Batches of one epoch follow each other; -1 is no epoch; 0 is one; a stretch follows the stretch before."""
    for epochs in product((-1, 0, 1, 2), repeat=4):
        known = [epoch for epoch in epochs if epoch != -1]
        goes_down = any(known[at] < known[at - 1] for at in range(1, len(known)))
        for cut in range(1, 4):
            rows = [(0, -1, 2, epoch) for epoch in epochs]
            marks = seen([rows[:cut], rows[cut:]], as_matrix=as_matrix)
            assert marks.epochs_go_down == goes_down, (epochs, cut)


def broker_line(kind, line, log):
    """What a line says after a broker has started on a log from `first` to `end`, None: no line.

    UnifiedLog.updateHighWatermark: below the start it is the start, from the end on it is the end. LogLoader.recoverLog: the recovery
    point is no larger than the end. LogCleanerManager.cleanableOffsets: a checkpoint past the end counts as none. OffsetCheckpointFile:
    a negative offset is malformed.
    """
    if line is None or line < 0:
        return None
    if kind is HIGH_WATERMARK:
        return log.end if line >= log.end else max(line, log.start)
    if kind is CLEANER:
        return None if line > log.end else line
    return log.end if line > log.end else line


def test_lines_of_a_repaired_log_are_as_a_broker_has_them():
    for first, end in product(range(4), range(4)):
        if first > end:
            continue
        log = LogBounds(first, end)
        for kind, line in product((RECOVERY_POINT, HIGH_WATERMARK, CLEANER), (None, *range(-1, 6))):
            lines = {} if line is None else {kind: line}
            wanted = broker_line(kind, line, log)
            told = [(edit.kind, edit.offset) for edit in line_edits(PARTITION, lines, log)]
            assert told == ([] if wanted == line else [(kind, wanted)]), (log, kind, line)


@pytest.mark.parametrize(("start", "goes"), [(-1, True), (0, False), (5, False), (6, False)])
def test_of_log_starts_only_a_negative_one_goes(start, goes):
    told = [edit.offset for edit in line_edits(PARTITION, {LOG_START: start}, LogBounds(0, 5))]
    assert told == ([None] if goes else [])


@pytest.mark.parametrize(("watermark", "lost"), [(4, None), (5, None), (6, "1 acknowledged record is"), (7, "2 ack")])
def test_a_watermark_at_the_end_has_lost_nothing(watermark, lost):
    told = [remark.message for remark in watermark_remark(PARTITION, {HIGH_WATERMARK: watermark}, LogBounds(0, 5))]
    assert len(told) == (lost is not None)
    assert lost is None or lost in told[0]


@pytest.mark.parametrize("is_tiered", [False, True])
@pytest.mark.parametrize("log_start", [5, 6])
@pytest.mark.parametrize("line", [0, 3])
def test_a_log_start_has_a_line_only_where_the_first_segment_does_not_tell_it(log_start, line, is_tiered):
    """LogManager.checkpointLogStartOffsetsInDir: remoteLogEnabled() or logStartOffset > the first segment's base offset."""
    loaded = LoadedLog(log_start, 9, 5, 0, None)
    settings = LoadSettings(0, is_tiered=is_tiered)
    start = StartState(is_clean=True, log_start_offset=line)
    told = {edit.kind: edit.offset for edit in _line_edits(PARTITION, start, loaded, settings)}
    wanted = {RECOVERY_POINT: 9}
    if is_tiered or log_start > 5:
        wanted[LOG_START] = log_start
    elif line:
        wanted[LOG_START] = None
    assert told == wanted


@pytest.mark.parametrize(
    ("since", "bases"),
    [(None, [3, 5, 9]), (2, [3, 5, 9]), (3, [3, 5, 9]), (4, [3, 5, 9]), (5, [5, 9]), (8, [5, 9]), (9, [9]), (50, [9])],
)
def test_since_an_offset_begins_with_the_segment_in_which_it_lies(tmp_path, since, bases):
    """Every segment lacks its time index; an index of a segment that went is looked at only with all."""
    for base, last in ((3, 4), (5, 8), (9, 11)):
        batch = batch_v2([R(base, BASE_TIME_MS), R(last, BASE_TIME_MS)])
        write_segment(tmp_path, base, [(batch, last, BASE_TIME_MS)])
        (tmp_path / f"{base:020d}.timeindex").unlink()
    (tmp_path / f"{2:020d}.index").write_bytes(b"")
    fs = RealFilesystem()
    draft, partition = Draft(fs, str(tmp_path)), open_partition(fs, str(tmp_path))
    found = plan_repair(draft, partition, StartState(is_clean=False), LoadSettings(0), Scope(since=since))
    made = {change.name for change in found.changes if change.name.endswith(".timeindex")}
    assert made == {f"{base:020d}.timeindex" for base in bases}
    left_over = any(change.name == f"{2:020d}.index" for change in found.changes)
    assert left_over == (since is None or since < 3)


@pytest.mark.parametrize(
    ("offset", "why"), [(8, "a later snapshot has all"), (9, "a later snapshot has all"), (10, "the log ends at 9")]
)
def test_why_a_snapshot_is_removed(offset, why):
    """LogLoader: removes those past the end of the log; of the others, only the newest ones are of use."""
    repair = SimpleNamespace(draft=(), end_offset=9)
    assert why in _Repair._snapshot_outcome(repair, f"{offset:020d}.snapshot")


@pytest.mark.parametrize("as_matrix", [False, True])
@pytest.mark.parametrize("producer", [-1, 0, 1])
def test_a_segment_has_producers_from_id_0_on(producer, as_matrix):
    marks = BatchMarks(FaultyFilesystem())
    marks.begin(SimpleNamespace(base_offset=7), None)
    marks._aborted = MagicMock(findings=lambda file: ())
    marks.see(batch_run([(0, -1, 2, 0), (0, producer, 2, 0)], as_matrix=as_matrix))
    marks.end(SimpleNamespace(file=None), ExitCode.OK)
    assert marks.without_producers == ({7} if producer == -1 else set())


# -- which batches a segment can have, when its name may be wrong


@pytest.mark.parametrize("lasts", [(), (9,), (10,), (8, 9), (9, 10), (9, 10, 11), (8, 9, 10), (10, 12)])
@pytest.mark.parametrize("middle", [None, 9, 10, 11])
def test_a_name_is_wrong_if_several_batches_lie_below_it_or_the_segment_before_reaches_it(lasts, middle):
    """One batch alone does not decide: no CRC covers its base offset."""
    before = None if middle is None else _Content(None, 0, middle)
    found = _Content(SimpleNamespace(base_offset=10), 3, 0, lasts).begins(before)
    below = sum(last < 10 for last in lasts)
    is_right = len(lasts) < 2 or (below <= 1 and (middle is None or middle < 10))
    assert found == (10 if is_right else 3)


@pytest.mark.parametrize(("last", "following"), [(9, 12), (10, 12), (11, 12), (12, 12), (13, 12), (13, None)])
def test_the_first_batch_of_a_segment_ends_in_the_range_of_the_names(tmp_path, last, following):
    (tmp_path / "t-0").mkdir()
    write_segment(tmp_path / "t-0", 10, [(batch_v2([R(8, BASE_TIME_MS)], last=last), last, BASE_TIME_MS)])
    (segment,) = open_partition(RealFilesystem(), str(tmp_path / "t-0")).segments
    assert _fits_name(RealFilesystem(), segment, following) == (last >= 10 and (following is None or last < following))


def test_a_segment_begins_with_the_least_offset_of_its_batches():
    """That of a compressed set is known only from its messages: it may end above the batch before, and begin below."""
    data = batch_v2([R(5, BASE_TIME_MS)]) + message_set([R(at, BASE_TIME_MS) for at in (3, 4, 5, 6)], 1, 1)
    assert _walked(BytesFile(data), LoadSettings(0)) == ([5, 6], 3)
    data = message_set([R(at, BASE_TIME_MS) for at in (3, 4)], 1, 1) + batch_v2([R(2, BASE_TIME_MS)])
    assert _walked(BytesFile(data), LoadSettings(0)) == ([4, 2], 2)
    assert _walked(BytesFile(b""), LoadSettings(0)) == ([], None)
