"""read_committed from any offset, in one segment and in two: what the whole reading shows from there on."""

import pytest

from tests.model.test_read_consumer import FOLDER
from tests.model.test_read_transactions import GOOD, PARTS, SHOWN, files, shown
from tests.support.logs import aborted_txns

FIRST_OFFSETS = [0, 3, 4, 7, 8, 11, 12]
"""Per part."""


def in_two_segments(cut, parts=PARTS):
    """The parts, and the index entries whose markers lie in each segment."""
    made = {}
    for low, some in ((0, slice(0, cut)), (FIRST_OFFSETS[cut], slice(cut, None))):
        high = FIRST_OFFSETS[cut] if low == 0 else 99
        made[f"{FOLDER}/{low:020d}.log"] = b"".join(parts[some])
        made[f"{FOLDER}/{low:020d}.txnindex"] = aborted_txns([entry for entry in GOOD if low <= entry[2] < high])
    return made


@pytest.mark.parametrize("start", range(15))
def test_read_from_any_offset_prints_the_rest_of_the_whole_reading(start):
    """Also from within a transaction, from its marker, and from either side of a segment's name."""
    wanted = [offset for offset in SHOWN if offset >= start]
    assert shown(files(), "--from", str(start))[:3] == (0, wanted, [])
    assert shown(files(index=None), "--from", str(start))[:2] == (0, wanted)
    for cut in {1 + start % 6, 6 - start % 6}:
        assert shown(in_two_segments(cut), "--from", str(start))[:3] == (0, wanted, [])


@pytest.mark.parametrize("start", range(15))
@pytest.mark.parametrize("lost", [1, 5])
def test_read_committed_from_any_offset_uses_the_index_where_the_marker_is_damaged(start, lost):
    """The entry of the index holds for the batches between its offsets, and for no batch of another transaction."""
    bad = bytearray(PARTS[lost])
    bad[30] ^= 1
    parts = [*PARTS[:lost], bytes(bad), *PARTS[lost + 1 :]]
    wanted = [offset for offset in SHOWN if offset >= start]
    assert shown(files(parts), "--from", str(start))[1] == wanted
    for cut in {1 + start % 6, 6 - start % 6}:
        assert shown(in_two_segments(cut, parts), "--from", str(start))[1] == wanted


@pytest.mark.parametrize("cut", range(6))
def test_read_committed_uses_the_index_where_the_log_ends_with_the_damaged_marker(cut):
    bad = bytearray(PARTS[5])
    bad[30] ^= 1
    parts = [*PARTS[:5], bytes(bad)]
    made = in_two_segments(cut, parts) if cut else files(parts)
    _, offsets, _, summary = shown(made)
    assert (offsets, summary["last_stable_offset"]) == ([4, 5, 6], None)


@pytest.mark.parametrize("at", [offset for offset in range(15) if offset not in (3, 11)])
def test_an_entry_for_an_offset_of_any_batch_lies(at):
    """Its marker would lie where the log has a batch: also at the first and the last offset of a batch, and of the log."""
    index = sorted([*GOOD, (5, 0, at, at + 1)], key=lambda entry: entry[2])
    code, offsets, said, _ = shown(files(index=index))
    assert (code, offsets, len(said)) == (0, SHOWN, 1)
    assert f"no marker at offset {at} aborts a transaction of producer 5" in said[0][1]


@pytest.mark.parametrize("cut", [2, 3, 4])  # behind them nobody looks ahead so far
def test_an_entry_for_an_offset_of_the_next_segment_lies(cut):
    made = in_two_segments(cut)
    at = FIRST_OFFSETS[cut]
    name = f"{FOLDER}/{0:020d}.txnindex"
    made[name] += aborted_txns([(5, 0, at, at + 1)])
    code, offsets, said, _ = shown(made)
    assert (code, offsets, len(said)) == (0, SHOWN, 1)
    assert f"no marker at offset {at} aborts a transaction of producer 5" in said[0][1]


def test_read_committed_reports_a_missing_index_entry_in_the_segment_with_the_marker():
    """The marker is the first batch of its segment."""
    made = in_two_segments(1)
    del made[f"{FOLDER}/{3:020d}.txnindex"]
    code, offsets, said, _ = shown(made)
    assert (code, offsets) == (0, SHOWN)
    assert "there is no transaction index for the transaction of producer 1 aborted at offset 3" in said[0][1]
