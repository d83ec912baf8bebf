"""Where a replay begins: the newest snapshot, the segment that has its offset, the entry of the index."""

import pytest

from kafkalog_cli.format import index, producer_snapshot
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.log.open_transactions import newest_snapshot, parts_to_replay
from kafkalog_cli.log.partition import open_partition
from tests.support.faulty_fs import FaultyFilesystem


def directory(*positions):
    """Segments at 0, 10 and 20 of 300 bytes, with index entries (offset, position) in that at 10; snapshots at 0, 10, 20."""
    files = {f"/t-0/{base:020d}.log": bytes(300) for base in (0, 10, 20)}
    files |= {
        f"/t-0/{at:020d}.snapshot": producer_snapshot.encode([ProducerEntry(at + 1, 3, 0, 10, 0, 99, 0, at)])
        for at in (0, 10, 20)
    }
    return FaultyFilesystem(files | {f"/t-0/{10:020d}.index": index.encode(positions, 10)})


@pytest.mark.parametrize("start", range(25))
def test_a_replay_begins_with_the_segment_that_has_the_offset_and_with_its_entry(start):
    """From the name of a segment on it begins with that segment; an entry counts from its own offset on."""
    fs = directory((13, 70), (16, 140))
    parts = parts_to_replay(fs, open_partition(fs, "/t-0").segments, start)
    position = 0 if start not in range(13, 20) else 70 if start < 16 else 140
    wanted = [(base, 0) for base in (0, 10, 20) if base + 9 >= start or base == 20]
    assert [(part.segment.base_offset, part.position) for part in parts] == [(wanted[0][0], position), *wanted[1:]]


@pytest.mark.parametrize(("position", "used"), [(-1, 0), (0, 0), (1, 1), (299, 299), (300, 0), (301, 0)])
def test_an_entry_that_does_not_lie_in_the_log_is_not_used(position, used):
    """A replay from the end of the file, or behind it, would miss every batch of the segment."""
    fs = directory((13, position))
    assert parts_to_replay(fs, open_partition(fs, "/t-0").segments, 15)[0].position == used


def test_from_the_name_of_a_segment_on_no_entry_is_asked():
    """A damaged index may have an entry for the first offset that lies behind its batch."""
    fs = directory((10, 70), (13, 140))
    assert parts_to_replay(fs, open_partition(fs, "/t-0").segments, 10)[0].position == 0


@pytest.mark.parametrize("end", range(-1, 25))
def test_the_newest_snapshot_is_the_last_at_or_below_the_offset(end):
    fs = directory()
    offset, entries = newest_snapshot(fs, open_partition(fs, "/t-0"), end, lambda path, faults: None)
    wanted = max((at for at in (0, 10, 20) if at <= end), default=None)
    assert offset == wanted
    assert [one.producer_id for one in entries] == ([] if wanted is None else [wanted + 1])
