"""The records of a batch against its header, exactly at each limit, with plain and with compiled kernels."""

from itertools import product

import pytest

from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.ops.verify.batch_checks import MAX_TOLD
from kafkalog_cli.ops.verify.log import MAX_INT32
from kafkalog_cli.ops.verify.partition import Level
from tests.bad_input.makers import CONTROL, START_MS, TRANSACTIONAL, ZSTD, batch, record
from tests.bad_input.verifying import verified
from tests.support.logs import R, message_set

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
def test_offsets_that_no_message_of_a_set_holds(magic, offsets, missing):
    """A broker numbers the messages of a set without gaps. The finding has the first gap, and counts all of them."""
    data = b"".join(message_set([R(at, START_MS, b"k", b"v") for at in those], magic, 1) for those in offsets)
    found = [one for one in verified({LOG: data}).findings if one.kind.value == "missing-offsets"]
    assert [(one.first_offset, one.last_offset, one.message.partition("; ")[2]) for one in found] == missing
