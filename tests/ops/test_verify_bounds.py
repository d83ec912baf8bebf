"""What verify concludes exactly at a limit: of offsets, times, sizes. The rules over all small cases, plain and by columns."""

import gzip
import struct
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.disk.names import DirectoryKind, classify_file
from kafkalog_cli.format.batch import Batch, BatchColumns
from kafkalog_cli.format.control import ControlRecord
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.log.partition import MAX_SEGMENT_BYTES, open_partition
from kafkalog_cli.ops.checks.diagnose import finding
from kafkalog_cli.ops.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.checks.segment_reports import ReadContext
from kafkalog_cli.ops.listing.root import Shutdown
from kafkalog_cli.ops.timestamp_units import TOLERATED_AHEAD_MS, TimestampOddity, unit_of
from kafkalog_cli.ops.verify.aborted import AbortedCheck
from kafkalog_cli.ops.verify.damaged_bytes import BadBatch, checksums_of
from kafkalog_cli.ops.verify.gaps import GapJudge, cleaner_wrote, has_gap, missing_start, rows_behind_gaps
from kafkalog_cli.ops.verify.headers import HeaderCheck
from kafkalog_cli.ops.verify.odd_times import TimesSeen
from kafkalog_cli.ops.verify.partition import _from_log_start
from kafkalog_cli.ops.verify.task import Level, VerifyTask, shown_path
from tests.ops.test_verify_places import log_dir, partition, ten_batches, verify
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.logs import BASE_TIME_MS, R, batch_v2, message, write_segment
from tests.support.memory_fs import MemoryFilesystem

FS = RealFilesystem()
NOW_MS = BASE_TIME_MS
HORIZON, CONTROL, TRANSACTIONAL = 0x40, 0x20, 0x10
NAMES = ("magic", "valid", "records_count", "base_offset", "last_offset", "attributes", "size_bytes", "producer_id")
EMPTY = Batch(*[0] * len(Batch._fields))


def columns(rows, *, as_matrix):
    """Batches in the two ways in which kernels give them."""
    batches = BatchColumns.from_rows(EMPTY._replace(**dict(zip(NAMES, row, strict=False))) for row in rows)
    return batches.arrays() if as_matrix else batches


@pytest.mark.parametrize("as_matrix", [False, True])
def test_what_only_the_cleaner_leaves(as_matrix):
    """A horizon, or fewer records than offsets: none only where there is no byte of a record either."""
    cases = product((1, 2), (0, 1), (0, 1, 2, 3), (5, 6), (0, HORIZON), (61, 62))
    for magic, valid, count, last, attributes, size in cases:
        row = (magic, valid, count, 5, last, attributes, size)
        thinned = count < last - 5 + 1 and (count != 0 or size == 61)
        wanted = magic == 2 and valid == 1 and (attributes == HORIZON or thinned)
        assert cleaner_wrote(columns([row], as_matrix=as_matrix)) == wanted, row


@pytest.mark.parametrize("as_matrix", [False, True])
def test_where_offsets_do_not_follow(as_matrix):
    for second, third in product(range(4, 9), range(6, 11)):
        rows = [(2, 1, 1, base, last, 0, 70) for base, last in ((3, 4), (second, second), (third, third))]
        batches = columns(rows, as_matrix=as_matrix)
        ordered = 4 < second < third
        batch_run = SimpleNamespace(
            batches=batches, base_offset=[3, second, third], last_offset=[4, second, third], is_ordered=ordered
        )
        assert rows_behind_gaps(batch_run) == [row for row, gap in ((1, second != 5), (2, third != second + 1)) if gap]
        assert has_gap(batch_run) == (ordered and (second > 5 or third > second + 1))


def gap(first, last):
    return finding(FindingKind.OFFSET_GAP, "/t-0/0.log", "a gap; more", offsets=(first, last))


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (None, "offsets 5 to 9 (5 offsets) are missing"),
        (5, "offsets 5 to 9 (5 offsets) are missing"),
        (6, "offsets 6 to 9 (4 offsets) are missing"),
        (9, "offset 9 is missing"),
        (10, None),
    ],
)
def test_a_gap_below_the_log_start_is_no_loss(start, words):
    partition = SimpleNamespace(directory=SimpleNamespace(kind=DirectoryKind.PARTITION), leftovers=())
    [found] = GapJudge(partition, False, log_start=start).judged([gap(5, 9)])
    if words is None:
        assert found.kind is FindingKind.OFFSET_GAP
        return
    assert found.kind is FindingKind.MISSING_OFFSETS
    assert found.message.startswith(words + ": ")
    assert (found.expected, found.got) == (f"a segment from offset {max(5, start or 0)} on", "offset 10")


@pytest.mark.parametrize(("deleted", "is_loss"), [(4, True), (5, False), (7, False), (9, False), (10, True)])
def test_a_segment_of_the_gap_that_is_being_deleted_explains_it(deleted, is_loss):
    """Where no source says whether the topic is compacted: the cleaner renames what it has replaced to .deleted."""
    directory = SimpleNamespace(kind=DirectoryKind.PARTITION)
    left = SimpleNamespace(name=classify_file(f"{deleted:020d}.log.deleted"))
    judge = GapJudge(SimpleNamespace(directory=directory, leftovers=(left,)), None)
    [found] = judge.judged([gap(5, 9)])
    assert (found.kind is FindingKind.MISSING_OFFSETS) == is_loss


def topic(tmp_path, *bases):
    """Segments of two offsets each."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    for base in bases:
        write_segment(folder, base, [(batch_v2([R(base, NOW_MS), R(base + 1, NOW_MS)]), base + 1, NOW_MS)])
    return folder


@pytest.mark.parametrize(
    ("epoch", "line", "deleted"), list(product((None, 4, 5, 6), (None, 0, 4, 5, 6), (None, 3, 4, 5)))
)
def test_what_other_files_remember_below_the_first_segment(tmp_path, epoch, line, deleted):
    """Of a log that begins at 5: an offset of a file below 5 says that records were there, unless they are being deleted."""
    folder = topic(tmp_path, 5)
    if epoch is not None:
        (folder / "leader-epoch-checkpoint").write_text(f"0\n1\n0 {epoch}\n")
    if deleted is not None:
        (folder / f"{deleted:020d}.log.deleted").touch()
    root = SimpleNamespace(shutdown=Shutdown.CLEAN, offsets_of=lambda *_: SimpleNamespace(log_start=line))
    facts = SimpleNamespace(is_compacted=False, is_in_cleaner_checkpoint=False, is_tiered=False)
    missing = [*missing_start(FS, open_partition(FS, str(folder)), root, facts)]
    told = [offset for offset in (epoch, line) if offset is not None and offset < 5]
    # The log starts where the line says, if that is the larger offset.
    start = max([0, *([epoch] if epoch is not None and epoch < 5 else []), *([line] if line is not None else [])])
    wanted = bool(told) and start < 5 and not (deleted is not None and start <= deleted < 5)
    assert len(missing) == wanted
    for found in missing:
        assert (found.first_offset, found.last_offset) == (start, 4)
        assert (found.expected, found.got) == (f"a segment from offset {start} on", "offset 5")
        assert "are missing: the log begins at 5, " in found.message.replace("is missing", "are missing")
        assert found.broker_effect.startswith("a broker starts the log at 5: ")
        assert found.message.startswith(
            "offset 4 is" if start == 4 else f"offsets {start} to 4 ({5 - start} offsets) are"
        )


@pytest.mark.parametrize(
    ("timestamp", "unit"),
    [
        *(
            (10**9 * scale + step, unit if step == 0 else None)
            for scale, unit in ((1, TimestampOddity.SECONDS),)
            for step in (-1, 0)
        ),
        (4_200_000_000 - 1, TimestampOddity.SECONDS),
        (4_200_000_000, None),
        (10**15, TimestampOddity.MICROSECONDS),
        (10**15 - 1, TimestampOddity.FUTURE),
        (4_200_000_000 * 10**6, TimestampOddity.FUTURE),
        (10**18, TimestampOddity.NANOSECONDS),
        (NOW_MS + TOLERATED_AHEAD_MS, None),
        (NOW_MS + TOLERATED_AHEAD_MS + 1, TimestampOddity.FUTURE),
        (-1, None),
        (-2, TimestampOddity.NEGATIVE),
    ],
)
@pytest.mark.parametrize("as_array", [False, True])
def test_the_first_and_last_time_of_each_unit(timestamp, unit, as_array):
    assert unit_of(timestamp, NOW_MS) is unit
    seen = TimesSeen(NOW_MS, "batch")
    times = [NOW_MS, timestamp, timestamp]
    seen.see(np.array(times) if as_array else times, [7, 8, 9], None)
    found = list(seen.findings("p"))
    assert [(one.first_offset, one.last_offset) for one in found] == ([] if unit is None else [(8, 9)])
    assert all(one.message.startswith("2 batches") for one in found)


def header_check(partition, only=None):
    return HeaderCheck(ReadContext(FS), VerifyTask(partition, Level.QUICK, NOW_MS, wanted=only))


def headers(folder, only=None):
    check = header_check(open_partition(FS, str(folder)), only)
    found = list(check.findings())
    spans = [f"offsets {one.first_offset} to {one.last_offset}" for one in found if one.kind is FindingKind.OFFSET_GAP]
    assert [one.message for one in found if one.kind is FindingKind.OFFSET_GAP] == [
        f"no segment covers {span}" for span in spans
    ]
    return [(one.kind, one.first_offset, one.last_offset) for one in found], check


def test_segments_that_follow_have_no_gap(tmp_path):
    found, check = headers(topic(tmp_path, 3, 5, 7))
    assert (found, check.end_offset, check.log, check.was_cleaned) == ([], 9, LogBounds(3, 9), False)


def test_segments_with_one_offset_between_have_a_gap_of_it(tmp_path):
    found, check = headers(topic(tmp_path, 3, 6, 10))
    assert found == [(FindingKind.OFFSET_GAP, 5, 5), (FindingKind.OFFSET_GAP, 8, 9)]
    assert check.end_offset == 12


def test_a_batch_that_repeats_the_last_offset_does_not_go_up(tmp_path):
    folder = topic(tmp_path, 3)
    log = folder / f"{3:020d}.log"
    log.write_bytes(log.read_bytes() + batch_v2([R(4, NOW_MS)]) + batch_v2([R(5, NOW_MS)]))
    found, check = headers(folder)
    assert found == [(FindingKind.OFFSETS_NOT_ASCENDING, 4, 4)]
    assert check.end_offset == 6


def test_the_batch_with_an_unknown_magic_is_told_and_not_the_batch_before_it(tmp_path):
    folder = topic(tmp_path, 3)
    log = folder / f"{3:020d}.log"
    first, odd = log.read_bytes(), bytearray(batch_v2([R(5, NOW_MS)]))
    odd[16] = 3
    log.write_bytes(first + odd)
    found = list(header_check(open_partition(FS, str(folder))).findings())
    assert [(one.kind, one.position, one.got) for one in found] == [(FindingKind.UNKNOWN_MAGIC, len(first), "3")]


def test_only_the_last_segment_has_a_tail(tmp_path):
    folder = topic(tmp_path, 3, 5)
    for base, is_tail in ((3, False), (5, True)):
        log = folder / f"{base:020d}.log"
        whole = log.read_bytes()
        log.write_bytes(whole + whole[:30])
        assert headers(folder)[1].has_tail_damage == is_tail
        log.write_bytes(whole)


@pytest.mark.parametrize(("more", "is_too_large"), [(0, False), (1, True)])
def test_a_segment_has_no_more_bytes_than_an_int32_says(tmp_path, more, is_too_large):
    """Kafka's FileRecords has an int for its size."""
    assert MAX_SEGMENT_BYTES == 2**31 - 1
    folder = topic(tmp_path, 3)
    partition = open_partition(FS, str(folder))
    [segment] = partition.segments
    large = segment._replace(log=segment.log._replace(size_bytes=MAX_SEGMENT_BYTES + more))
    partition = SimpleNamespace(segments=(large,), path=partition.path)
    found = [one.kind for one in header_check(partition).findings()]
    assert (FindingKind.SEGMENT_TOO_LARGE in found) == is_too_large


def test_a_transaction_begins_with_its_first_batch_that_has_records(monkeypatch):
    """A batch without a record, which the cleaner leaves for the producer's sequence, begins none; nor does one that is damaged."""
    rows = [
        (1, 1, 1, 2, 2, TRANSACTIONAL, 70, 0),
        (2, 0, 1, 3, 3, TRANSACTIONAL, 70, 0),
        (2, 1, 0, 4, 4, TRANSACTIONAL, 61, 0),
        (2, 1, 1, 5, 5, TRANSACTIONAL, 70, 0),
        (2, 1, 1, 6, 6, TRANSACTIONAL, 70, 0),
        (2, 1, 1, 7, 7, TRANSACTIONAL | CONTROL, 78, 0),
        (2, 1, 1, 8, 8, TRANSACTIONAL | CONTROL, 78, 1),
    ]
    for as_matrix in (False, True):
        check = AbortedCheck(FaultyFilesystem())
        check.see(SimpleNamespace(batches=columns(rows, as_matrix=as_matrix)))
        assert list(check._ended) == [(0, 0, 5, 7)]


@pytest.mark.parametrize(("count", "more"), [(1, ""), (2, "; 1 more are missing"), (3, "; 2 more are missing")])
def test_further_transactions_that_are_missing_are_counted(monkeypatch, tmp_path, count, more):
    monkeypatch.setattr("kafkalog_cli.ops.verify.aborted.control_record_at", lambda log, position: ControlRecord(0, {}))
    check = AbortedCheck(FS)
    for at in range(count):
        check._ended.append(0, 7, at, at + 1)
    [found] = check.findings(SimpleNamespace(path=f"{tmp_path}/{0:020d}.log"))
    assert found.message == f"no entry for an aborted transaction of producer 7, offsets 0 to 1{more}"


def test_checksums_of_a_message_without_a_payload():
    """Its CRC is its last four bytes."""
    disk = MemoryFilesystem()
    disk.add("/x.kafka", struct.pack(">ibbI", 6, 1, 0, 5))
    with disk.open_read("/x.kafka") as file:
        assert checksums_of(file, BadBatch(0, 10, 1, is_seven=True)) == ("0", "5")


@pytest.mark.parametrize(("magic", "position"), [(-1, None), (0, 5), (1, 6), (2, None)])
def test_where_a_message_of_seven_has_its_checksum(magic, position):
    """Behind its size and magic, from magic 1 on behind its attributes too (kafka.message.Message of 0.7)."""
    assert BadBatch(0, 20, magic, is_seven=True).crc_position == position


@pytest.mark.parametrize(("start", "is_found"), [(5, False), (6, True), (20, True), (21, False)])
def test_a_log_start_above_the_high_watermark(tmp_path, start, is_found):
    """The high watermark is 5, and the end of the log 20; a log start after the end has a finding of its own."""
    disk = log_dir(tmp_path / "disk", lines=[("log-start", "topic", 0, start), ("replication", "topic", 0, 5)])
    partition(disk)
    kinds = {one.kind for result in verify(disk) for one in result.findings}
    assert (FindingKind.CHECKPOINTS_DISAGREE in kinds) == is_found
    assert (FindingKind.LOG_START_BEYOND_END in kinds) == (start > 20)


@pytest.mark.parametrize(("start", "kinds"), [(20, []), (21, ["entries-behind-tail"])])
def test_an_epoch_may_begin_at_the_end_of_the_log(tmp_path, start, kinds):
    """So does the epoch of a new leader that has written nothing."""
    disk = log_dir(tmp_path / "disk")
    folder = partition(disk)
    (folder / "leader-epoch-checkpoint").write_text(f"0\n2\n0 0\n1 {start}\n")
    found = verify(folder, level=Level.QUICK)[0].findings
    assert [one.kind.value for one in found if one.path.endswith("leader-epoch-checkpoint")] == kinds


@pytest.mark.parametrize("bad", [0, 1, 2])
def test_an_inner_message_with_a_wrong_crc_is_found_in_its_own_set(tmp_path, bad):
    sets = []
    for number in range(3):
        inner = b"".join(message(R(at, BASE_TIME_MS, b"k", b"value"), 1) for at in range(2))
        inner = inner[:-1] + b"X" if number == bad else inner
        wrapper = message(R(2 * number + 1, BASE_TIME_MS, None, gzip.compress(inner)), 1, 1)
        sets.append((wrapper, 2 * number + 1, BASE_TIME_MS))
    disk = log_dir(tmp_path / "disk")
    folder = partition(disk, written=sets)
    found = [one for one in verify(folder, level=Level.DEEP)[0].findings if one.kind is FindingKind.INNER_MESSAGE]
    assert [one.position for one in found] == [sum(len(data) for data, _, _ in sets[:bad])]


def test_batches_without_records_between_others_are_no_damage(tmp_path):
    """The cleaner leaves them; they have no record whose timestamp could be the largest."""
    disk = log_dir(tmp_path / "disk")
    emptied = [(batch_v2([], base=at, last=at + 1), at + 1, BASE_TIME_MS) for at in (20, 24)]
    last = batch_v2([R(22, BASE_TIME_MS, b"k", b"v"), R(23, BASE_TIME_MS, b"k", b"v")])
    folder = partition(disk, written=[*ten_batches(), emptied[0], (last, 23, BASE_TIME_MS), emptied[1]])
    found = verify(folder, level=Level.DEEP)[0].findings
    assert [one.message for one in found if one.path.endswith(".log")] == []


@pytest.mark.parametrize(("watermark", "kind"), [(17, "bad-tail-batch"), (18, "bad-tail-batch"), (19, "crc-mismatch")])
def test_a_bad_last_batch_is_corruption_from_its_first_acknowledged_record_on(tmp_path, watermark, kind):
    """The last batch has the offsets 18 and 19, and the broker stopped cleanly."""
    disk = log_dir(tmp_path / "disk", lines=[("replication", "topic", 0, watermark)])
    *written, (data, last, time) = ten_batches()
    partition(disk, written=[*written, (data[:-1] + b"X", last, time)])
    kinds = [one.kind.value for one in verify(disk)[0].findings if one.path.endswith(".log")]
    assert kinds == [kind]


@pytest.mark.parametrize(
    ("suffix", "kind"), [("stray", "bad-tail-batch"), ("delete", "bad-tail-batch"), ("future", "crc-mismatch")]
)
def test_the_high_watermark_is_of_the_partition_in_its_place(tmp_path, suffix, kind):
    """A directory that was set aside has no line; a copy that is being made in another log directory has its own."""
    disk = log_dir(tmp_path / "disk", lines=[("replication", "topic", 0, 19)])
    *written, (data, last, time) = ten_batches()
    folder = partition(disk, f"topic-0.{'1' * 32}-{suffix}", written=[*written, (data[:-1] + b"X", last, time)])
    kinds = [one.kind.value for one in verify(folder)[0].findings if one.path.endswith(".log")]
    assert kinds == [kind]


def test_a_segment_may_be_named_after_an_offset_inside_its_first_batch(tmp_path):
    """Also if that batch begins with offset 0."""
    folder = tmp_path / "topic-0"
    folder.mkdir()
    records = [R(at, BASE_TIME_MS, b"k", b"v") for at in range(10)]
    write_segment(folder, 5, [(batch_v2(records), 9, BASE_TIME_MS)])
    for level in Level:
        assert "offset-outside-segment" not in {one.kind.value for one in verify(folder, level=level)[0].findings}


def test_the_path_that_is_shown():
    """One wanted file is shown itself."""
    assert shown_path("/t-0", None) == "/t-0"
    assert shown_path("/t-0", frozenset({"1.log"})) == "/t-0/1.log"
    assert shown_path("/t-0", frozenset({"1.log", "1.index"})) == "/t-0"


@pytest.mark.parametrize(("line", "bounds"), [(4, (5, 9)), (5, (5, 9)), (6, (6, 9)), (9, (9, 9)), (10, (5, 9))])
def test_the_log_start_of_a_checkpoint_counts_within_the_log(line, bounds):
    assert _from_log_start(LogBounds(5, 9), line) == LogBounds(*bounds)
