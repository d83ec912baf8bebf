"""What verify says of gaps, records, inner sets and leftovers exactly at a limit: each rule against a small loop."""

import struct
import zlib
from collections import Counter
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.disk.names import FileKind, WorkState
from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.limits import DEFAULT_LIMITS
from kafkalog_cli.format.records import ODD_HEADER, RecordBlock, RecordColumns
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.ops.checks.finding_kinds import MAX_TOLD, FindingKind
from kafkalog_cli.ops.checks.segment_reports import ReadContext
from kafkalog_cli.ops.verify import against, files
from kafkalog_cli.ops.verify.chain_findings import outside_finding
from kafkalog_cli.ops.verify.damaged_bytes import begins_with_zeros
from kafkalog_cli.ops.verify.gaps import InnerGaps
from kafkalog_cli.ops.verify.log import LogCheck
from kafkalog_cli.ops.verify.partition import verify_partition
from kafkalog_cli.ops.verify.records import _array_problems, _negative_lengths, _of_value, _offsets_of_set
from kafkalog_cli.ops.verify.replica_side import MissingHere, ReplicaSide, first_different
from kafkalog_cli.ops.verify.seven import SevenCheck
from kafkalog_cli.ops.verify.task import Level, VerifyTask
from tests.bad_input.makers import seven
from tests.bad_input.verifying import verified
from tests.ops.test_check_bounds import batch, run_of
from tests.support.faulty_fs import BytesFile, FaultyFilesystem
from tests.support.logs import BASE_TIME_MS, COMPRESS, R, batch_v2, message, message_set, write_segment

FS = RealFilesystem()
BOTH_KINDS = pytest.mark.parametrize("as_arrays", [False, True])


def noted(gaps):
    """Gaps that remember each of them."""
    found = []
    gaps.add = lambda path, position, offsets: found.append((position, offsets))
    return found


# -- gaps


@BOTH_KINDS
def test_gaps_between_batches_and_between_runs_of_them(as_arrays):
    """None before the first batch, or where damage may hide batches."""
    for gap, other, damage in product((0, 1, 2), (0, 1, 3), (False, True)):
        check = object.__new__(LogCheck)
        check._is_beyond, check._next_offset, check._has_outside = False, None, False
        check._path, check._base_offset, check.findings, check.gaps = "p", 0, [], SimpleNamespace()
        found, first = noted(check.gaps), 4 + gap
        second = first + 2 + other
        check._look_at_offsets(run_of([batch(2, 3)], as_arrays=as_arrays))
        run = run_of([batch(first, first + 1), batch(second)], as_arrays=as_arrays, reached=3, after_damage=damage)
        check._look_at_offsets(run)
        wanted = [(0, (4, first - 1))] if gap and not damage else []
        assert found == [*wanted, *([(100, (first + 2, second - 1))] if other else [])]
        assert check.findings == []


def block_of(rows, *, batches, as_arrays=False, begun=0, goes_on=False, ends=None):
    """A block of records (offset, timestamp, key size, value size, valid)."""
    records = RecordColumns.from_rows(
        [(offset, time, -1, 0, key, 0, value, 0, 0, -1, valid) for offset, time, key, value, valid in rows]
    )
    columns = BatchColumns.from_rows(batches)
    if as_arrays:
        records, columns = records.arrays(), BatchColumns.from_matrix(np.array(batches, np.int64).T)
    ends = (len(rows),) if ends is None else ends
    return RecordBlock(memoryview(bytes(9)), columns, 0, len(batches), ends, records, begun=begun, goes_on=goes_on)


@pytest.mark.parametrize("cut", range(1, 5))
def test_gaps_within_a_batch_that_is_read_in_parts(cut):
    offsets = [10, 11, 13, 14, 17]
    gaps = InnerGaps(SimpleNamespace(), "p", 10)
    found = noted(gaps._gaps)
    whole = [batch(10, 19, size_bytes=500)]
    rows = [(offset, 0, -1, -1, 1) for offset in offsets]
    gaps.see(block_of(rows[:cut], batches=whole, goes_on=True))
    gaps.see(block_of(rows[cut:], batches=whole, begun=cut))
    assert [one for _, one in found] == [(12, 12), (15, 16), (18, 19)]


@pytest.mark.parametrize(("third", "missing"), [(4, []), (5, [(4, 4)])])
def test_sets_of_one_block_follow_each_other(third, missing):
    """Headers of sets do not say with which offset they begin."""
    gaps = InnerGaps(SimpleNamespace(), "p", 0)
    found = noted(gaps._gaps)
    batches = [batch(-1, last, magic=1, attributes=1) for last in (1, 3, third)]
    rows = [(offset, 0, -1, -1, 1) for offset in (0, 1, 2, 3, third)]
    gaps.see(block_of(rows, batches=batches, ends=(2, 4, 5)))
    assert [one for _, one in found] == missing


def test_offsets_of_a_segment_are_at_most_an_int32_above_its_name():
    for base, more in product((0, 7), (-1, 0, 1)):
        last = base + 2**31 - 1 + more
        run = run_of([batch(base, base), batch(base + 1, last)], as_arrays=False)
        assert (outside_finding("p", run, base) is not None) == (more > 0)


# -- records


def test_an_inner_message_with_a_wrong_crc_is_found_in_its_own_set():
    batches = [batch(-1, last, magic=1, attributes=1) for last in (1, 3, 5)]
    for bad in product((0, 1), repeat=6):
        rows = [(at, 0, -1, -1, valid) for at, valid in enumerate(bad)]
        block = block_of(rows, batches=batches, as_arrays=True, ends=np.array((2, 4, 6)))
        found = [
            row
            for kind, row, _ in _array_problems(block, block.batches, block.records)
            if kind is FindingKind.INNER_MESSAGE
        ]
        assert found == [row for row in range(3) if 0 in bad[2 * row : 2 * row + 2]]


@BOTH_KINDS
def test_a_length_below_minus_1_is_named(as_arrays):
    for key, value, valid in product((-3, -2, -1, 0), (-3, -2, -1, 0), (1, ODD_HEADER)):
        block = block_of([(5, 0, -1, -1, 1), (6, 0, key, value, valid)], batches=[batch(5, 6)], as_arrays=as_arrays)
        what = f"key is {key}" if key < -1 else f"value is {value}" if value < -1 else "value of a header is below -1"
        is_bad = key < -1 or value < -1 or valid == ODD_HEADER
        told = [(0, f"at offset 6 the length of the {what}")] if is_bad else []
        assert list(_negative_lengths(block)) == told
        old = block_of([(6, 0, key, value, valid)], batches=[batch(6, 6, magic=1)], as_arrays=as_arrays)
        assert list(_negative_lengths(old)) == []


@pytest.mark.parametrize("magic", [0, 1])
def test_offsets_of_a_set_that_is_whole_and_in_order(magic):
    """Also of the smallest messages, whose key and value are null."""

    def packed(*offsets, value=b"value"):
        return [message(R(offset, 5, None, value), magic) for offset in offsets]

    def offsets_of(parts):
        return _offsets_of_set(memoryview(b"".join(parts)), magic)

    def of_size(size):
        """A message of a size that no message has, with a right CRC."""
        body = bytes((magic,)) + bytes(size - 5)
        return struct.pack(">qiI", 3, size, zlib.crc32(body)) + body

    for offsets in ((0,), (0, 1), (2, 5, 6), (0, 1, 2)):
        assert offsets_of(packed(*offsets)) == list(offsets)
    for offsets in ((1, 1), (1, 0), (0, 2, 2)):
        assert offsets_of(packed(*offsets)) == []
    data = b"".join(packed(0, 1))
    assert [len(offsets_of([data[:size]])) for size in (0, len(data) // 2, len(data))] == [0, 1, 2]
    for size in (1, 11, 25, len(data) // 2 - 1, len(data) // 2 + 1, len(data) - 1):
        assert offsets_of([data[:size]]) == []
    assert _offsets_of_set(memoryview(data), 1 - magic) == []
    assert [offsets_of([of_size(size)]) for size in (13, 14, 15)] == [[], [3], [3]]
    assert offsets_of([*packed(0), bytes(25)]) == []


@pytest.mark.parametrize(("count", "words"), [(1, "1 message "), (2, "2 messages "), (3, "3 messages ")])
def test_messages_of_a_value_that_is_a_set_are_counted(count, words):
    inner = b"".join(message(R(at, 5, None, b"v"), 1) for at in range(count))
    block = block_of([(0, 5, -1, 5, 1)], batches=[batch(0, 0, magic=1)])
    assert f"a set of {words}compressed with gzip" in _of_value(block, 0, memoryview(COMPRESS[1](inner)))


# -- replicas, leftovers, 0.7


@pytest.mark.parametrize(("mine", "other", "offsets"), [(5, 5, (None, None)), (5, 6, (5, 5)), (4, 7, (4, 6))])
def test_the_offsets_that_a_replica_lacks(monkeypatch, mine, other, offsets):
    monkeypatch.setattr(against, "_damaged_and_longer", lambda *_: None)
    less, more = (
        SimpleNamespace(rank=rank, end_offset=end, path="p", words="w") for rank, end in ((1, mine), (2, other))
    )
    (found,) = against._behind(less, more)
    assert (found.first_offset, found.last_offset) == offsets


def test_a_swap_log_replaces_the_segments_that_begin_in_it(monkeypatch):
    """Logs from the offset of an unfinished cleaning on are deleted instead."""
    ends = {0: 10, 10: 40, 20: 50}
    monkeypatch.setattr(files, "_end_of", lambda fs, status, base: ends[base])
    segments = [
        SimpleNamespace(base_offset=base, log=SimpleNamespace(path=f"/t-0/{base}.log")) for base in range(0, 60, 5)
    ]

    def replaced(bound, *swaps):
        left = [
            SimpleNamespace(name=SimpleNamespace(kind=FileKind.LOG, state=WorkState.SWAP, offset=base), status=None)
            for base in swaps
        ]
        return files._replaced(None, SimpleNamespace(segments=segments, leftovers=left), bound)

    assert replaced(None, 0) == "replaces (0.log, 5.log)"
    assert replaced(None, 10) == "replaces (10.log, 15.log, 20.log and 3 more segments)"
    assert replaced(None, 0, 10).startswith("replaces (0.log, 5.log, 10.log and 5 more")
    for bound, words in ((9, "replaces (0.log, 5.log)"), (10, "replaces (0.log, 5.log)"), (0, "")):
        assert replaced(bound, 0, 10) == words
    assert replaced(11, 0, 10).startswith("replaces (0.log, 5.log, 10.log and")
    ends[0] = 15
    assert replaced(None, 0) == "replaces (0.log, 5.log, 10.log)"
    ends[0] = 16
    assert replaced(None, 0) == "replaces (0.log, 5.log, 10.log and 1 more segments)"


@pytest.mark.parametrize(("size", "is_zeros"), [(16, False), (17, False), (18, True), (99, True)])
def test_zeros_in_the_place_of_a_header(size, is_zeros):
    assert begins_with_zeros(BytesFile(bytes(200)), 10, 10 + size) == is_zeros
    data = bytearray(200)
    for at, is_header in ((26, True), (27, False)):
        data[at] = 1
        assert begins_with_zeros(BytesFile(bytes(data)), 10, 10 + size) == (is_zeros and not is_header)
        data[at] = 0


@pytest.mark.parametrize(("second", "words"), [(10, None), (11, "positions 10 to 10"), (15, "positions 10 to 14")])
def test_positions_of_seven_that_are_missing(second, words):
    segments = [
        SimpleNamespace(base_offset=base, log=SimpleNamespace(path=f"/t-0/{base}.kafka", size_bytes=10))
        for base in (0, second)
    ]
    task = VerifyTask(SimpleNamespace(segments=segments), Level.NORMAL, 0)
    check = SevenCheck(SimpleNamespace(fs=FaultyFilesystem()), task)
    told = [one.message for one in check.findings() if one.kind is FindingKind.MISSING_OFFSETS]
    assert told == ([] if words is None else [f"no segment holds {words}"])


# -- headers


def check_of_log():
    check = object.__new__(LogCheck)
    check.findings, check._path, check._told, check._last_good = [], "p", Counter(), -1
    check._bad, check._bad_count = [], 0
    return check


@BOTH_KINDS
def test_which_fields_of_producers_go_together(as_arrays):
    """As in MemoryRecordsBuilder; only of valid batches v2."""
    for producer, epoch, sequence, bits in product((-2, -1, 0, 1), (-1, 0), (-1, 0), (0, 0x10, 0x20, 0x30)):
        is_odd = producer < -1 or (producer < 0 and bits & 0x10 != 0)
        is_odd |= producer >= 0 and (epoch < 0 or (sequence < 0 and not bits & 0x20))
        one = batch(5, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, attributes=bits)
        for whole, counts in ((one, True), (one._replace(valid=0), False), (one._replace(magic=1), False)):
            check = check_of_log()
            check._look_at_producers(run_of([whole], as_arrays=as_arrays).batches)
            assert len(check.findings) == (is_odd and counts)


@BOTH_KINDS
def test_how_many_records_a_batch_can_have(as_arrays):
    for count, last, more in product((-1, 0, 1, 2, 3, 4), (5, 6, 7), (-1, 0, 1)):
        one = batch(5, last, records_count=count, size_bytes=61 + more)
        is_odd = count > last - 4 or (count == 0 and more > 0)
        for whole, counts in ((one, True), (one._replace(valid=0), False), (one._replace(magic=1), False)):
            check = check_of_log()
            check._look_at_counts(run_of([whole], as_arrays=as_arrays).batches)
            assert len(check.findings) == (is_odd and counts)
            if check.findings and count:
                assert check.findings[0].message == f"a batch says that it has {count} records in {last - 4} offsets"


def test_so_many_findings_of_a_kind_are_told():
    count = MAX_TOLD + 2
    check = check_of_log()
    check._look_at_crcs(run_of([batch(at, valid=0) for at in range(count)], as_arrays=False).batches)
    assert (len(check._bad), check._bad_count) == (MAX_TOLD, count)
    check._is_beyond, check._next_offset = True, None
    for _ in range(count):
        check._look_at_offsets(run_of([batch(5), batch(5)], as_arrays=False))
    assert len(check.findings) == MAX_TOLD


@BOTH_KINDS
def test_the_last_good_batch_is_where_it_begins(as_arrays):
    for valid in product((0, 1), repeat=3):
        check = check_of_log()
        check._look_at_crcs(run_of([batch(at, valid=one) for at, one in enumerate(valid)], as_arrays=as_arrays).batches)
        assert check._last_good == max((100 * at for at, one in enumerate(valid) if one), default=-1)


@pytest.mark.parametrize("last", [4, 9])
def test_a_swap_log_ends_behind_its_last_batch(last):
    path = f"/t-0/{0:020d}.log.swap"
    fs = FaultyFilesystem({path: batch_v2([R(3, 5)], last=last)})
    assert files._end_of(fs, SimpleNamespace(path=path), 3) == last + 1
    assert files._end_of(FaultyFilesystem({path: b""}), SimpleNamespace(path=path), 3) == 3


# -- replicas


def side_of(directory, batches):
    directory.mkdir()
    write_segment(directory, 0, batches)
    return ReplicaSide(RealFilesystem(), open_partition(RealFilesystem(), str(directory)), DEFAULT_LIMITS, None)


def test_a_set_begins_after_the_batch_before_it_as_far_as_its_header_tells(tmp_path):
    """The sets of v0 and v1 have their first offset inside."""
    sets = [(message_set([R(at, 0, b"k", b"v") for at in those], 1, 1), those[-1], 0) for those in ((0, 1, 2), (3, 4))]
    with side_of(tmp_path / "t-0", sets) as side:
        firsts = []
        while (head := side.head()) is not None:
            firsts.append(head.first)
            side.step()
    assert firsts == [0, 3]


@pytest.mark.parametrize(("first", "lacks"), [(4, False), (5, True), (6, True)])
def test_a_replica_lacks_nothing_below_its_start(first, lacks):
    side = SimpleNamespace(start_offset=5, missing=MissingHere())
    assert ReplicaSide.lacks(side, SimpleNamespace(first=first, batch=SimpleNamespace(last_offset=9))) == lacks
    assert side.missing.offsets == (10 - first if lacks else 0)


@pytest.mark.parametrize(("offsets", "can_be_read"), [((0, 1, 2), True), ((0, 1, 1), False), ((0, 2, 1), False)])
def test_records_whose_offsets_do_not_ascend_are_not_compared(tmp_path, offsets, can_be_read):
    data = batch_v2([R(at, 0, b"k", b"v") for at in offsets], last=2)
    with side_of(tmp_path / "t-0", [(data, 2, 0)]) as side:
        head = side.head()
        assert head is not None
        assert side.records_of(head).can_be_read == can_be_read


@pytest.mark.parametrize(("ours", "theirs", "left"), [((0, 1), (0, 1), 0), ((0, 1), (0,), 1), ((0,), (0, 1), 1)])
def test_equal_records_are_passed_over_on_both_sides(tmp_path, ours, theirs, left):
    sides = []
    for name, offsets in (("a", ours), ("b", theirs)):
        data = batch_v2([R(at, 0, b"k", b"v") for at in offsets])
        side = side_of(tmp_path / name, [(data, offsets[-1], 0)])
        sides.append(side.records_of(side.head()))
    assert first_different(*sides) is None
    assert [one.record.offset for one in sides if one.record is not None] == [1] * left


@pytest.mark.parametrize(
    ("bad", "more"), [(MAX_TOLD, []), (MAX_TOLD + 1, ["1 more messages whose CRC does not match"])]
)
def test_messages_of_seven_with_wrong_crcs_are_told_up_to_the_largest_number(bad, more):
    data = seven(b"payload", crc=1) * bad + seven(b"payload")
    found = [one for one in verified({f"{0:020}.kafka": data}).findings if one.kind is FindingKind.CRC_MISMATCH]
    assert [one.message for one in found if one.position is None] == more
    assert len(found) == MAX_TOLD + len(more)


def findings_of_kind(folder, kind):
    task = VerifyTask(open_partition(FS, str(folder)), Level.NORMAL, BASE_TIME_MS)
    return [one for one in verify_partition(ReadContext(FS), task).findings if one.kind is kind]


def log_of(folder, batches):
    folder.mkdir()
    (folder / f"{0:020d}.log").write_bytes(b"".join(batches))
    return folder


def test_an_epoch_that_goes_back_is_told_once_however_much_is_read_at_a_time(tmp_path):
    """Each piece of the log that was read had a finding about the same step back, at a batch that goes on."""
    epochs = [3, 100, *[5] * 12, 4, 4]
    records = [R(at, BASE_TIME_MS, None, bytes(300_000)) for at in range(len(epochs))]
    folder = log_of(
        tmp_path / "t-0", [batch_v2([one], epoch=epoch) for one, epoch in zip(records, epochs, strict=True)]
    )
    found = findings_of_kind(folder, FindingKind.EPOCH_GOES_BACK)
    assert [(one.first_offset, one.message) for one in found] == [
        (2, "leader epoch 5 comes after 100"),
        (14, "leader epoch 4 comes after 5"),
    ]


@pytest.mark.parametrize("more", [0, 1, 2])
@pytest.mark.parametrize("kind", [FindingKind.PRODUCER_FIELDS, FindingKind.EPOCH_GOES_BACK, FindingKind.RECORD_COUNT])
def test_batches_that_are_not_told_one_by_one_are_counted(tmp_path, kind, more):
    count = MAX_TOLD + more
    if kind is FindingKind.EPOCH_GOES_BACK:
        batches = [batch_v2([R(at, BASE_TIME_MS)], epoch=count - at) for at in range(count + 1)]
    elif kind is FindingKind.PRODUCER_FIELDS:
        batches = [batch_v2([R(at, BASE_TIME_MS)], producer=(1, -1, 0)) for at in range(count)]
    else:
        batches = [batch_v2([R(at, BASE_TIME_MS), R(at, BASE_TIME_MS)], base=at, last=at) for at in range(count)]
    told = [one.message for one in findings_of_kind(log_of(tmp_path / "t-0", batches), kind)]
    assert len(told) == MAX_TOLD + (more > 0)
    assert [one for one in told if "more" in one] == ([f"{more} more batches of the same kind"] if more else [])


EVERY_LEVEL = pytest.mark.parametrize("level", Level)


@EVERY_LEVEL
@pytest.mark.parametrize("is_seven", [False, True])
def test_segments_that_are_not_named_are_not_missing(is_seven, level):
    """Of files given by name, one is left out: the level quick, and all levels for 0.7, said that nothing holds its offsets."""
    suffix, data = ("kafka", seven(b"payload")) if is_seven else ("log", b"")
    bases = [at * len(data) for at in range(3)] if is_seven else [0, 2, 4]
    files = {f"/t-0/{base:020}.{suffix}": data or batch_v2([R(base, 0), R(base + 1, 0)]) for base in bases}
    fs = FaultyFilesystem(files)
    wanted = frozenset(f"{base:020}.{suffix}" for base in (bases[0], bases[2]))
    task = VerifyTask(open_partition(fs, "/t-0"), level, BASE_TIME_MS, wanted=wanted)
    kinds = {one.kind for one in verify_partition(ReadContext(fs), task).findings}
    assert not kinds & {FindingKind.OFFSET_GAP, FindingKind.MISSING_OFFSETS}


@EVERY_LEVEL
def test_offsets_of_a_segment_that_cannot_be_opened_are_not_missing(level):
    fs = FaultyFilesystem({f"/t-0/{base:020}.log": batch_v2([R(base, 0), R(base + 1, 0)]) for base in (0, 2, 4)})
    fs.refuse_open(f"/t-0/{2:020}.log")
    found = verify_partition(ReadContext(fs), VerifyTask(open_partition(fs, "/t-0"), level, BASE_TIME_MS)).findings
    assert not {one.kind for one in found} & {FindingKind.OFFSET_GAP, FindingKind.MISSING_OFFSETS}
    assert FindingKind.NOT_READ in {one.kind for one in found}


@EVERY_LEVEL
@pytest.mark.parametrize("is_seven", [False, True])
def test_bytes_between_batches_are_told_the_same_way_at_every_level(is_seven, level):
    """The level quick said of them that they are the last bytes of the log; 0.7 counted the messages after them too."""
    make = seven if is_seven else (lambda value: batch_v2([R(0, 0, None, value)]))
    first, damaged, last = make(b"first"), b"\x7f" * 40, make(b"last-of-all")
    result = verified({f"{0:020}.{'kafka' if is_seven else 'log'}": first + damaged + last}, level)
    what = ("message", "messages") if is_seven else ("batch", "batches")
    told = [(one.position, one.message) for one in result.findings if one.kind is FindingKind.DAMAGED_RANGE]
    assert told == [(len(first), f"40 bytes are not a {what[0]}; valid {what[1]} follow")]
    if is_seven:
        assert (result.log.start, result.log.end) == (0, len(first) + 40 + len(last))
