"""Salvage against a brute force that tries every byte of a damaged log for a batch with a good CRC."""

import struct
from types import SimpleNamespace

import crc32c
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.commands import json_of
from tests.support.logs import BASE_TIME_MS, CONTROL, TRANSACTIONAL, R, batch_v2, write_segment

NOW = ("--now", 1_795_000_000_000, "--config", "index.interval.bytes=200")


def salvage(source, out):
    """What the command prints about the copy that it makes at `out`."""
    code, (result, _), err = json_of("recover", source, "--salvage", out.parent / "salvaged", *NOW)
    assert (code in (0, 3, 4), err) == (True, [])
    (out.parent / "salvaged" / source.name).rename(out)
    return SimpleNamespace(**result | {"lost": [SimpleNamespace(**lost) for lost in result["lost"]]})


def files(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def batches(first, count, per=2):
    made = []
    for number in range(count):
        records = [R(first + number * per + i, BASE_TIME_MS + number, b"k", b"v" * 20) for i in range(per)]
        made.append((batch_v2(records), records[-1].offset, BASE_TIME_MS + number))
    return made


def partition(directory):
    """Two segments of batches of two records: offsets 0 to 11, and 12 to 19."""
    directory.mkdir()
    write_segment(directory, 0, batches(0, 6), 200)
    write_segment(directory, 12, batches(12, 4), 200)
    return directory


def positions_anywhere(data):
    """(position, base) of the batches whose CRC holds, found at any byte."""
    found, at = [], 0
    while at + 61 <= len(data):
        base, length, _, magic, crc = struct.unpack_from(">qiibI", data, at)
        end = at + 12 + length
        if magic == 2 and length >= 49 and end <= len(data) and crc32c.crc32c(data[at + 21 : end]) == crc:
            found.append((at, base))
            at = end
        else:
            at += 1
    return found


def batches_anywhere(data):
    """(base, last) of those batches."""
    return [(base, base + struct.unpack_from(">i", data, at + 23)[0]) for at, base in positions_anywhere(data)]


def that_go_up(found, base_offset, reached):
    """Those that fit into the segment and behind each other, but for one that jumps over the batch behind it."""
    fitting = [
        pair for pair in found if pair[0] >= base_offset and pair[1] < base_offset + (1 << 31) and pair[0] > reached
    ]
    kept = []
    for number, (base, last) in enumerate(fitting):
        following = fitting[number + 1][0] if number + 1 < len(fitting) else None
        jumps = following is not None and reached < following <= last
        if base > reached and not jumps:
            kept.append((base, last))
            reached = last
    return kept


def offsets_in(directory):
    """(base, last) of all batches of all logs, by their headers."""
    return [pair for path in sorted(directory.glob("*.log")) for pair in batches_anywhere(path.read_bytes())]


def bodies(directory):
    """Each batch as (base offset, CRC): no CRC holds the base offset, so a damaged one makes a pair that was never written."""
    logs = [path.read_bytes() for path in directory.glob("*.log")]
    return {(base, data[at + 17 : at + 21]) for data in logs for at, base in positions_anywhere(data)}


damages = st.lists(
    st.tuples(st.sampled_from(["flip", "zero", "cut", "insert"]), st.integers(0, 600), st.integers(1, 90)), max_size=3
)


def damaged(data, steps):
    data = bytearray(data)
    for kind, at, size in steps:
        if kind == "flip" and at < len(data):
            data[at] ^= 1 << size % 8
        elif kind == "zero":
            data[at : at + size] = bytes(len(data[at : at + size]))
        elif kind == "cut":
            del data[at : at + size]
        else:
            data[at:at] = bytes([0xA5]) * size
    return bytes(data)


@given(first=damages, second=damages)
@example(first=[("zero", 35, 90)], second=[])  # the base offset of the batch behind it too
@example(
    first=[], second=[("cut", 134, 14), ("cut", 245, 90)]
)  # bytes that are no batch, and say they end where the file ends
def test_salvage_copies_all_good_batches_and_no_others(tmp_path_factory, first, second):
    source_as_written = partition(tmp_path_factory.mktemp("written") / "t-0")
    source = partition(tmp_path_factory.mktemp("salvage") / "t-0")
    wanted, reached = [], -1
    for base, steps in ((0, first), (12, second)):
        log = source / f"{base:020d}.log"
        log.write_bytes(damaged(log.read_bytes(), steps))
        good = that_go_up(batches_anywhere(log.read_bytes()), base, reached)
        wanted += good
        reached = max([reached, *(last for _, last in good)])
    before = files(source)
    out = source.parent / "out"
    result = salvage(source, out)
    assert offsets_in(out) == wanted
    assert files(source) == before
    assert result.batches == len(wanted)
    assert (result.first_offset, result.end_offset) == ((wanted[0][0], wanted[-1][1] + 1) if wanted else (None, None))
    missing = set(range(20)) - {o for first, last in wanted for o in range(first, last + 1)}
    told = {o for lost in result.lost for o in range(lost.first, 20 if lost.last is None else lost.last + 1)}
    # A gap with nothing damaged in it nobody can tell from compaction: behind a cut, or where a base offset lies.
    if not any(kind == "cut" for kind, _, _ in (*first, *second)) and bodies(out) <= bodies(source_as_written):
        assert missing <= told


@given(first=damages)
def test_verify_finds_nothing_in_a_salvaged_copy(tmp_path_factory, first):
    source = partition(tmp_path_factory.mktemp("salvage") / "t-0")
    log = source / f"{0:020d}.log"
    log.write_bytes(damaged(log.read_bytes(), first))
    out = source.parent / "out"
    salvage(source, out)
    (out.rename(source.parent / "u-0"))
    _, (found, _), _ = json_of("recover", source.parent / "u-0", "--dry-run", *NOW)
    assert (found["changes"], found["checkpoints"]) == ([], [])
    # A flipped bit in a leader epoch is in no CRC.
    assert all(remark["path"].endswith("leader-epoch-checkpoint") for remark in found["remarks"])


def test_salvage_of_a_sound_log_copies_its_bytes(tmp_path):
    source = partition(tmp_path / "t-0")
    salvage(source, tmp_path / "out")
    written = files(tmp_path / "out")
    for name, data in files(source).items():
        assert written[name] == data, name
    assert set(written) - set(files(source)) == {
        "leader-epoch-checkpoint",
        f"{12:020d}.snapshot",
        f"{20:020d}.snapshot",
    }


SWAP = f"{0:020d}.log.swap"


@given(damage=damages, overlap=st.integers(0, 3))
@example(damage=[("zero", 450, 90)], overlap=1)  # right before the batches that the following segment has
@example(damage=[("flip", 106, 3), ("flip", 107, 3)], overlap=0)
@example(damage=[("flip", 99, 3)], overlap=0)  # a base offset far above
@example(damage=[("insert", 0, 90)], overlap=0)
def test_salvage_reports_the_offsets_lost_in_a_swap_log(tmp_path_factory, damage, overlap):
    """Offsets 0 to 11 are only in the output of a cleaning that was cut off; it may also have a part of 12 to 19."""
    source = partition(tmp_path_factory.mktemp("salvage") / "t-0")
    written = bodies(source)
    for path in source.glob(f"{0:020d}.*"):
        path.unlink()
    data = b"".join(data for data, *_ in batches(0, 6 + overlap))
    (source / SWAP).write_bytes(damaged(data, damage))
    good = [(base, last) for base, last in batches_anywhere((source / SWAP).read_bytes()) if base < 12]
    out = source.parent / "out"
    result = salvage(source, out)
    found = offsets_in(out)
    assert [pair for pair in found if pair[0] >= 12] == [(first, first + 1) for first in range(12, 20, 2)]
    if bodies(out) <= written:
        assert [pair for pair in found if pair[0] < 12] == that_go_up(good, 0, -1)
        missing = set(range(20)) - {o for first, last in found for o in range(first, last + 1)}
        told = {o for lost in result.lost for o in range(lost.first, 20 if lost.last is None else lost.last + 1)}
        if not any(kind == "cut" for kind, *_ in damage):
            assert missing <= told
        assert not told & {o for first, last in found for o in range(first, last + 1)}


def one_log(directory, parts, base_offset=0):
    """A partition of one segment without indexes: of bytes as they are, and of batches as (first, last offset)."""
    directory.mkdir(exist_ok=True)
    data = b"".join(part if isinstance(part, bytes) else batch(*part) for part in parts)
    (directory / f"{base_offset:020d}.log").write_bytes(data)
    return directory


def batch(first, last):
    return batch_v2([R(first, BASE_TIME_MS, b"k", b"v")], base=first, last=last)


REACH = 2**31 - 1
"""Kafka's LogSegment.canConvertToRelativeOffset: so far behind its base offset a segment may hold an offset."""


@pytest.mark.parametrize(
    ("base_offset", "found", "kept"),
    [
        (0, [(0, 0), (1, 1)], [(0, 0), (1, 1)]),
        (5, [(4, 4), (5, 5), (6, 7)], [(5, 5), (6, 7)]),
        (5, [(5, 5), (5 + REACH, 5 + REACH)], [(5, 5), (5 + REACH, 5 + REACH)]),
        (5, [(5, 5), (6, 6 + REACH)], [(5, 5)]),
        (0, [(0, 1), (2, 4), (4, 5)], [(0, 1), (4, 5)]),  # its last offset is the first of the batch behind it
        (0, [(0, 1), (2, 4), (5, 5)], [(0, 1), (2, 4), (5, 5)]),
        (0, [(0, 1), (2, 3), (1, 1), (3, 4)], [(0, 1), (2, 3)]),  # 3 is there already
        (0, [(0, 1), (2, 3), (1, 1), (4, 4)], [(0, 1), (2, 3), (4, 4)]),
        (5, [(6, 9), (4, 4), (8, 8)], [(8, 8)]),  # 4 is of no use here: what comes behind 6 to 9 is 8
        (5, [(6, 9), (8, 8)], [(8, 8)]),
        (5, [(3, 3)], []),  # one batch does not show that the name is wrong
    ],
)
def test_salvage_drops_batches_whose_offsets_overlap(tmp_path, base_offset, found, kept):
    """No CRC holds a base offset: a batch is dropped where it jumps over the next one, or says what was said before."""
    source = one_log(tmp_path / "t-0", found, base_offset)
    result = salvage(source, tmp_path / "out")
    assert (
        offsets_in(tmp_path / "out") == kept == that_go_up([f for f in found if f[0] >= base_offset], base_offset, -1)
    )
    assert result.skipped == len(found) - len(kept)


@pytest.mark.parametrize(
    ("parts", "lost"),
    [
        ([(0, 1), (2, 3)], []),
        ([(0, 1), (5, 6)], []),  # a gap without a byte in it is one that compaction has left
        ([(0, 1), b"\xa5" * 90, (2, 3)], []),  # bytes where no offset is missing held no record
        ([(0, 1), b"\xa5" * 90, (3, 3)], [(1, 2, 2, 2)]),
        ([b"\xa5" * 90, (1, 1)], [(0, 1, 0, 0)]),
        ([b"\xa5" * 90, (0, 1)], []),
        ([(0, 1), b"\xa5" * 90, (4, 6), (7, 7)], [(1, 2, 2, 3)]),
        ([(0, 1), b"\xa5" * 90], [(1, 2, 2, None)]),
        ([(0, 1), b"\xa5" * 90, (4, 4), b"\xa5" * 90], [(1, 2, 2, 3), (3, 4, 5, None)]),
        (
            [(0, 1), batch(2, 3)[:-1] + b"!", (4, 4)],
            [(1, 2, 2, 3)],
        ),  # a whole batch with a wrong CRC, and none at the end
    ],
)
def test_salvage_reports_lost_bytes_with_their_offsets(tmp_path, parts, lost):
    """`lost`: from and up to the byte where which part begins, first and last offset."""
    source = one_log(tmp_path / "t-0", parts)
    starts = [0]
    for part in parts:
        starts.append(starts[-1] + len(part if isinstance(part, bytes) else batch(*part)))
    found = salvage(source, tmp_path / "out").lost
    told = [(starts.index(one.start), starts.index(one.end), one.first, one.last) for one in found]
    assert told == lost


@pytest.mark.parametrize(
    ("parts", "lost"),
    [
        ([(0, 1), (2, 2)], []),
        ([(0, 1), batch(2, 2)[:-1] + b"!"], [(2, 2)]),
        ([(0, 1), batch(2, 2)[:-1] + b"!", (3, 3)], [(2, 2)]),
        ([(0, 1), b"\xa5" * 90, (3, 3)], [(2, 2)]),
        ([(0, 2), b"\xa5" * 90, (3, 3)], []),  # no offset is missing
        ([b"\xa5" * 90, (3, 3)], [(0, 2)]),
        ([(0, 0), b"\xa5" * 90, (2, 2), batch(3, 3)[:-1] + b"!"], [(1, 1)]),
        ([(0, 1), (REACH, REACH)], []),  # the segment may have this offset: it is behind the end, and 2 was never there
        ([(0, 1), (REACH + 1, REACH + 1)], [(2, 2)]),
    ],
)
def test_salvage_reports_lost_offsets_of_a_swap_log(tmp_path, parts, lost):
    """The following segment begins at 3: what the `.swap` log has from there is not copied from it."""
    source = one_log(one_log(tmp_path / "t-0", [(3, 4)], 3), parts)
    (source / f"{0:020d}.log").rename(source / SWAP)
    found = salvage(source, tmp_path / "out")
    assert [(one.first, one.last) for one in found.lost] == lost
    assert offsets_in(tmp_path / "out")[-1] == (3, 4)


@pytest.mark.parametrize(("last", "lost"), [(2, []), (3, [(3, 4)])])
def test_salvage_drops_records_of_a_swap_log_that_an_earlier_segment_has(tmp_path, last, lost):
    """Offsets up to 2 are in the segment before it, and the next one begins at 5."""
    source = one_log(one_log(tmp_path / "t-0", [(0, 2)]), [(5, 5)], 5)
    (one_log(source, [(1, 1), (2, last)], 1) / f"{1:020d}.log").rename(source / f"{1:020d}.log.swap")
    found = salvage(source, tmp_path / "out")
    assert [(one.first, one.last) for one in found.lost] == lost
    assert offsets_in(tmp_path / "out") == [(0, 2), (5, 5)]


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        ([(0, 1), (2, 4)], [(4, 4), (5, 5)], [(0, 1), (4, 4), (5, 5)]),  # 4 is of the segment that is named so
        ([(0, 1), (2, 3)], [(4, 4), (5, 5)], [(0, 1), (2, 3), (4, 4), (5, 5)]),
        ([(0, 0), (90, 90), (91, 91)], [(4, 4), (5, 5)], [(0, 0), (4, 4), (5, 5)]),  # the names are right
    ],
)
def test_a_segment_ends_where_the_next_is_named(tmp_path, first, second, kept):
    source = one_log(one_log(tmp_path / "t-0", first), second, 4)
    salvage(source, tmp_path / "out")
    assert offsets_in(tmp_path / "out") == kept


@pytest.mark.parametrize(("producer_id", "key", "is_copied"), [
    (0, b"", False), (7, b"", False), (7, b"\0", False), (0, b"\0\0\0\1", True), (-1, b"", True),
])  # fmt: skip
def test_a_marker_without_a_type_is_not_copied(tmp_path, producer_id, key, is_copied):
    """A broker does not start with it, whichever producer it is of; a control batch of no producer is no marker."""
    value = b"\0\0\0\0\0\0"
    marker = batch_v2([R(2, BASE_TIME_MS, key, value)], producer=(producer_id, 0, -1), bits=TRANSACTIONAL | CONTROL)
    source = one_log(tmp_path / "t-0", [(0, 1), marker, (3, 4)])
    result = salvage(source, tmp_path / "out")
    assert offsets_in(tmp_path / "out") == [(0, 1), *([(2, 2)] if is_copied else []), (3, 4)]
    assert [(one.first, one.last) for one in result.lost] == ([] if is_copied else [(2, 2)])


def test_salvage_refuses_an_output_directory_that_exists(tmp_path):
    source = partition(tmp_path / "t-0")
    (tmp_path / "out" / "t-0").mkdir(parents=True)
    code, _, err = json_of("recover", source, "--salvage", tmp_path / "out", *NOW)
    assert (code, [error["kind"] for error in err]) == (14, ["Refused"])
    assert not list((tmp_path / "out" / "t-0").iterdir())


def test_salvage_refuses_a_log_of_0_7(corpus, tmp_path):
    code, _, err = json_of("recover", corpus / "format-0.7" / "data" / "m0-0", "--salvage", tmp_path / "out", *NOW)
    assert (code, [error["kind"] for error in err]) == (14, ["Refused"])
    assert not (tmp_path / "out").exists()
