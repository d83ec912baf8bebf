"""The records of a batch against its header, exactly at each limit, with plain and with compiled kernels."""

import gzip
from itertools import product

import pytest

from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.records import RecordBlock, RecordColumns
from kafkalog_cli.ops.checks.finding_kinds import MAX_TOLD
from kafkalog_cli.ops.verify.chain_findings import MAX_INT32
from kafkalog_cli.ops.verify.gaps import Gaps, InnerGaps
from kafkalog_cli.ops.verify.places import TopicFacts
from kafkalog_cli.ops.verify.records import RecordsCheck
from kafkalog_cli.ops.verify.task import Level
from tests.bad_input.makers import CONTROL, START_MS, TRANSACTIONAL, ZSTD, batch, record
from tests.bad_input.verifying import verified
from tests.ops.test_range_bounds import batch as header
from tests.support.logs import R, message, message_set

LOG = f"{0:020}.log"
OFFSETS, TIME = "record-offset", "max-timestamp"


def of(*deltas, delta=None, times=(), largest=None):
    """A maker of a batch at an offset, whose records have these offsets; `delta` is that of its last offset."""
    times = times or (0,) * len(deltas)
    records = [record(at, b"k", b"v", ms=ms) for at, ms in zip(deltas, times, strict=True)]
    largest = max(times, default=0) if largest is None else largest
    return lambda codec: (
        lambda offset: batch(offset, records, codec=codec, delta=delta, count=len(records), max_ms=START_MS + largest)
    )


CASES = {
    "all offsets": (of(0, 1, 2), ()),
    "offsets up to the last": (of(0, 2, delta=2), ()),
    "an offset above the last": (of(0, 2, delta=1), (OFFSETS,)),
    "the first offset alone": (of(0), ()),
    "an offset below the base": (of(-1, 1), (OFFSETS,)),
    "an offset twice": (of(0, 0, delta=1), (OFFSETS,)),
    "the last offset twice": (of(0, 1, 1, delta=2), (OFFSETS,)),
    "an offset that goes back": (of(1, 0, delta=1), (OFFSETS,)),
    "the largest time in the middle": (of(0, 1, 2, times=(0, 9, 3)), ()),
    "a larger time in the header": (of(0, 1, largest=5), (TIME,)),
    "a smaller time in the header": (of(0, 1, times=(0, 5), largest=4), (TIME,)),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("codec", [0, ZSTD])
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("case", CASES)
def test_each_contradiction_is_of_its_own_batch(case, place, codec, compiled):
    """Two sound batches lie around the batch, before it or after it. Batches without records lie between them."""
    make, kinds = CASES[case]
    makers = [of(0, 1, 2)(codec)] * 2
    makers.insert(place, make(codec))
    data, positions = b"", []
    for number, maker in enumerate(makers):
        positions.append(len(data))
        data += maker(10 * number) + batch(10 * number + 5, [], delta=2, max_ms=-1)
    assert told(data, compiled) == [(kind, positions[place]) for kind in kinds]


def told(data, compiled):
    findings = verified(
        {LOG: data, "leader-epoch-checkpoint": b"0\n1\n3 0\n"}, Level.DEEP, KernelChoice(forced=compiled)
    ).findings
    return [
        (one.kind.value, one.position)
        for one in findings
        if one.kind.value in (OFFSETS, TIME) and one.path.endswith(LOG)
    ]


@pytest.mark.parametrize(("bad", "more"), [(MAX_TOLD, []), (MAX_TOLD + 2, ["2 more batches of the same kind"])])
@pytest.mark.parametrize(("level", "kind"), [(Level.DEEP, OFFSETS), (Level.NORMAL, "invalid-control-record")])
def test_findings_of_a_kind_are_told_up_to_the_largest_number(level, kind, bad, more):
    if level is Level.DEEP:
        data = [of(0, 0, delta=1)(0)(2 * at) for at in range(bad)]
    else:
        odd = [record(0, b"\0\0\0\7", b"\0\0\0\0\0\5")]
        bits = TRANSACTIONAL | CONTROL
        data = [batch(at, odd, producer=(7, 0, -1), attributes=bits, max_ms=START_MS) for at in range(bad)]
    files = {LOG: b"".join(data), "leader-epoch-checkpoint": b"0\n1\n3 0\n"}
    found = [one for one in verified(files, level).findings if one.kind.value == kind]
    assert [one.position for one in found if one.position is not None] == [len(data[0]) * at for at in range(MAX_TOLD)]
    assert [one.message for one in found if one.position is None] == more


@pytest.mark.parametrize("deltas", [(0, MAX_INT32), (0, MAX_INT32, MAX_INT32 + 1), (0, MAX_INT32 + 1)])
def test_the_first_batch_outside_a_segment_is_named(deltas):
    """The largest offset of a segment is the base offset and 2^31-1."""
    base = 10
    data = [of(0)(0)(base + delta) for delta in deltas]
    files = {f"{base:020}.log": b"".join(data), "leader-epoch-checkpoint": b"0\n1\n3 10\n"}
    told = [one for one in verified(files).findings if one.kind.value == "offset-outside-segment"]
    expected = [(base + delta, len(data[0]) * at) for at, delta in enumerate(deltas) if delta > MAX_INT32]
    assert [(one.first_offset, one.position) for one in told] == expected


@pytest.mark.parametrize("bits", [0, TRANSACTIONAL])
def test_which_producer_fields_go_together(bits):
    """MemoryRecordsBuilder.close: an id has an epoch and a sequence from 0 on, and a transaction has an id."""
    for fields in product((-1, 0, 7), (-1, 0, 1), (-1, 0, 1)):
        producer, epoch, sequence = fields
        data = batch(0, [record(0, b"k", b"v")], producer=fields, attributes=bits, max_ms=START_MS)
        told = [one for one in verified({LOG: data}, Level.NORMAL).findings if one.kind.value == "producer-fields"]
        is_right = epoch >= 0 and sequence >= 0 if producer >= 0 else not bits
        assert (not told) == is_right, fields


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(
    ("offsets", "missing"),
    [
        ([(0, 1), (2, 3)], []),
        ([(0, 2), (3, 4)], [(1, 1, "")]),
        ([(0, 3), (4, 5)], [(1, 2, "")]),
        ([(0, 1), (3, 4)], [(2, 2, "")]),
        ([(0, 1), (2, 5), (8, 9)], [(3, 4, "2 gaps of 4 offsets in all")]),
    ],
)
def test_offsets_that_no_message_of_a_set_holds(magic, offsets, missing, compiled):
    """A broker numbers the messages of a set without gaps. The finding has the first gap, and counts all of them."""
    data = b"".join(message_set([R(at, START_MS, b"k", b"v") for at in those], magic, 1) for those in offsets)
    found = [one for one in findings_of(data, compiled) if one.kind.value == "missing-offsets"]
    assert [(one.first_offset, one.last_offset, one.message.partition("; ")[2]) for one in found] == missing


def findings_of(data, compiled, level=Level.DEEP):
    return verified({LOG: data}, level, KernelChoice(forced=compiled)).findings


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("deltas", "kinds"),
    [((0, 1, 2), []), ((0, 2), ["missing-offsets"]), ((0, 0, 2), [OFFSETS]), ((0, 1, 1), [OFFSETS])],
)
def test_offsets_that_no_record_of_a_batch_holds(deltas, kinds, compiled):
    """In a topic that is not compacted. If a batch has an offset twice, that is the finding."""
    files = {LOG: of(*deltas, delta=2)(0)(0)}
    found = verified(files, choice=KernelChoice(forced=compiled), facts=TopicFacts(is_compacted=False)).findings
    assert [one.kind.value for one in found if one.path.endswith(LOG)] == kinds


@pytest.mark.parametrize(("last", "missing"), [(6, [(8, 8)]), (7, [])])
def test_one_gap_between_batches_does_not_explain_a_gap_inside_a_set(last, missing):
    """The cleaner would leave more gaps: with a second gap between batches, both are its work."""
    data = b"".join(message(R(at, START_MS, b"k", b"v"), 1) for at in (0, 1, 5, last))
    data += message_set([R(at, START_MS, b"k", b"v") for at in (last + 1, last + 3)], 1, 1)
    found = [one for one in findings_of(data, compiled=False) if one.kind.value == "missing-offsets"]
    assert [(one.first_offset, one.last_offset) for one in found] == missing


@pytest.mark.parametrize(("second", "is_found"), [((2, 4), True), ((3, 4), False)])
def test_a_set_begins_after_the_set_before_it(second, is_found):
    data = b"".join(message_set([R(at, START_MS, b"k", b"v") for at in those], 1, 1) for those in ((0, 1, 2), second))
    begins = [one.message for one in findings_of(data, compiled=False) if one.kind.value == OFFSETS]
    assert bool(begins) == is_found


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("header_ms", [START_MS, START_MS + 1])
def test_the_largest_timestamp_of_a_set(header_ms, magic, compiled):
    """A message of v0 has no timestamp."""
    inner = b"".join(message(R(at, START_MS, b"k", b"v"), magic) for at in range(2))
    data = message(R(1, header_ms, None, gzip.compress(inner)), magic, 1)
    kinds = [one.kind.value for one in findings_of(data, compiled)]
    assert (TIME in kinds) == (magic == 1 and header_ms != START_MS)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("producer", [-1, 0, 7])
def test_a_control_record_of_a_producer_is_a_marker(producer, compiled):
    """Others, as of a change of leaders, have no producer id. The batches are in one chunk."""
    marker, change = (record(0, bytes((0, 0, 0, kind)), b"\0\0\0\0\0\5") for kind in (1, 9))
    bits = CONTROL | (TRANSACTIONAL if producer >= 0 else 0)
    rows = [(7, marker), (7, marker), (producer, change)]
    made = [
        batch(at, [one], producer=(owner, 0 if owner >= 0 else -1, -1), max_ms=START_MS,
              attributes=bits if one is change else CONTROL | TRANSACTIONAL)
        for at, (owner, one) in enumerate(rows)
    ]  # fmt: skip
    found = [one for one in findings_of(b"".join(made), compiled) if one.kind.value == "invalid-control-record"]
    assert [one.position for one in found] == ([len(made[0]) * 2] if producer >= 0 else [])


@pytest.mark.parametrize("odd", [(), (0,), (1,), (2,), (0, 2)])
def test_control_records_of_one_block_belong_to_their_batches(odd):
    """Each record is looked at in its own batch."""
    parts, rows = b"", []
    for number in range(3):
        key, value = bytes((0, 0, 0, 9 if number in odd else 1)), bytes(6)
        rows.append((number, 0, -1, len(parts), 4, len(parts) + 4, 6, 0, 0, -1, 1))
        parts += key + value
    batches = BatchColumns.from_rows([header(at, at, attributes=CONTROL)._replace(producer_id=7) for at in range(3)])
    block = RecordBlock(memoryview(parts), batches, 0, 3, (1, 2, 3), RecordColumns.from_rows(rows))
    assert [row for _, row, _ in RecordsCheck(START_MS)._control_problems(block)] == [*odd]


@pytest.mark.parametrize(("key", "is_found"), [(None, True), (b"", False), (b"k", False)])
def test_a_value_that_is_a_compressed_set_has_no_key(key, is_found):
    """A producer that compresses gives the wrapper no key; an empty key is a key."""
    packed = gzip.compress(b"".join(message(R(at, START_MS, b"k", b"v"), 1) for at in range(2)))
    found = findings_of(message(R(1, START_MS, key, packed), 1), compiled=False)
    assert ("packed-value" in {one.kind.value for one in found}) == is_found


def part_of_a_batch(offsets, *, begun=0, goes_on=False, faults=()):
    """Records of a batch of offsets 0 to 9 that is read in parts."""
    rows = [(offset, 0, -1, -1, -1, -1, -1, 0, 0, -1, 1) for offset in offsets]
    batches = BatchColumns.from_rows([header(0, 9)])
    return RecordBlock(
        memoryview(b""), batches, 0, 1, (len(rows),), RecordColumns.from_rows(rows), dict(faults), begun, goes_on
    )


@pytest.mark.parametrize(("second", "kinds"), [((3, 4), []), ((2, 3), [OFFSETS]), ((1, 2), [OFFSETS])])
def test_the_offsets_of_parts_ascend_too(second, kinds):
    check = RecordsCheck(START_MS, InnerGaps(Gaps(), LOG, 0))
    check.see(part_of_a_batch((0, 1, 2), goes_on=True))
    check.see(part_of_a_batch(second, begun=3))
    assert [one.kind.value for one in check.findings(LOG)] == kinds


def test_a_last_part_may_be_a_fault_alone():
    check = RecordsCheck(START_MS, InnerGaps(Gaps(), LOG, 0))
    check.see(part_of_a_batch((0, 1, 2), goes_on=True))
    check.see(part_of_a_batch((), begun=3, faults={0: Fault(FaultKind.INVALID_RECORD, 0, "cut")}.items()))
    assert len([*check.findings(LOG)]) == 1
