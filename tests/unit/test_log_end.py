"""Where a log ends: what real brokers found when they loaded it, and made segments whose end is known."""

import re
import struct

import pytest

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.log.log_end import segment_end
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.log.reading.header import Headers

FS = RealFilesystem()
LOADED = re.compile(r"Completed load of Log\(dir=\S+/([^/,]+), .*logEndOffset=(\d+)\)")

BAD_CRC = {"crash-flip-first-seg", "crash-flip-mid", "crash-flip-tail"}
"""Recovery cuts at a CRC, which headers do not show."""
BROKEN_BEFORE_THE_LAST_INDEX_ENTRY = {"crash-flip-len", "crash-huge-len"}


def batch(base_offset, count=1, timestamp=1000, payload=b"x" * 20, **changes):
    """A v2 batch of `count` offsets, with a body that nobody decodes."""
    fields = {"length": 49 + len(payload), "magic": 2, "attributes": 0, "producer_id": -1} | changes
    return struct.pack(
        ">qiibIhiqqqhii", base_offset, fields["length"], 0, fields["magic"], 0, fields["attributes"], count - 1,
        timestamp, timestamp, fields["producer_id"], 0, -1, count,
    ) + payload  # fmt: skip


def segment_of(tmp_path, log, entries=None, base=0, tail=0):
    """A segment file with the (offset, position) entries of its index, and `tail` unused entries behind them."""
    directory = tmp_path / "topic-0"
    directory.mkdir(exist_ok=True)
    (directory / f"{base:020d}.log").write_bytes(log)
    if entries is not None:
        index = b"".join(struct.pack(">ii", offset - base, position) for offset, position in entries)
        (directory / f"{base:020d}.index").write_bytes(index + bytes(8 * tail))
    return open_partition(FS, str(directory)).segments[-1]


def ends(case):
    """Log end by partition as the broker's own log of a start tells it."""
    return {name: int(end) for name, end in LOADED.findall((case / "recovery.log").read_text())}


def cases_with_a_start(corpus):
    return sorted(log.parent for log in corpus.glob("*/recovery.log") if (log.parent / "before").is_dir())


def test_a_broker_that_starts_finds_the_same_end(corpus):
    seen = 0
    for case in cases_with_a_start(corpus):
        clean = (case / "before" / ".kafka_cleanshutdown").exists()
        for name, end in ends(case).items():
            directory = case / "before" / name
            if not directory.is_dir() or case.name in BAD_CRC | BROKEN_BEFORE_THE_LAST_INDEX_ENTRY:
                continue
            found = segment_end(FS, open_partition(FS, str(directory)).segments[-1], like_clean_start=clean)
            assert found.next_offset == end, case.name
            seen += 1
    assert seen >= 40


@pytest.mark.parametrize(("case", "lost"), [("crash-flip-len", 7), ("crash-huge-len", 0)])
def test_the_chain_from_the_start_breaks_where_recovery_cuts(corpus, case, lost):
    """`lost`: offsets of the batch that keeps its place in the chain, with a wrong length."""
    assert case in BROKEN_BEFORE_THE_LAST_INDEX_ENTRY
    end = ends(corpus / case)[f"{case}-0"] + lost
    segment = open_partition(FS, str(corpus / case / "before" / f"{case}-0")).segments[-1]
    with FS.open_read(segment.log.path) as log:
        reader = Headers(log)
        last = [*reader][-1]
    assert last.last_offset + 1 == end
    assert reader.fault.kind is FaultKind.TRAILING_BYTES


def test_a_torn_tail_after_a_clean_stop_takes_the_log_back_to_its_base(corpus):
    """The index entry's batch is gone, so a broker does not see the 27 records before the tear either."""
    segment = open_partition(FS, str(corpus / "clean-torn" / "before" / "clean-torn-0")).segments[-1]
    clean = segment_end(FS, segment, like_clean_start=True)
    assert (clean.next_offset, [f.kind for f in clean.faults]) == (99, [FaultKind.TRAILING_BYTES])
    assert "batches continue to 126" in clean.index_faults[0].message
    unclean = segment_end(FS, segment, like_clean_start=False)
    assert (unclean.next_offset, unclean.index_faults) == (126, ())


def test_a_zero_tail_is_damage_behind_the_end(corpus):
    segment = open_partition(FS, str(corpus / "clean-zero-tail" / "before" / "clean-zero-tail-0")).segments[-1]
    end = segment_end(FS, segment, like_clean_start=True)
    assert (end.next_offset, [f.kind for f in end.faults]) == (130, [FaultKind.SIZE_TOO_SMALL])
    assert end.faults[0].position == end.end_position


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("base", [0, 1 << 40])
def test_only_batches_behind_the_last_index_entry_are_read(tmp_path, clean, base):
    """A bad size before the last entry is not met: that is what makes it cheap."""
    size = len(batch(0))
    broken = batch(base, length=3)
    log = broken + batch(base + 10) + batch(base + 11, 5, timestamp=77)
    end = segment_end(FS, segment_of(tmp_path, log, [(base + 10, size)], base), like_clean_start=clean)
    assert end == (base + 16, 3 * size, 1000, (), (), 2 * size)


@pytest.mark.parametrize("tail", [1, 2000])
def test_the_unused_zero_tail_of_an_index_is_passed_over(tmp_path, tail):
    size = len(batch(0))
    log = batch(0, length=3) + batch(10) + batch(11, 5)
    segment = segment_of(tmp_path, log, [(10, size)], tail=tail)
    assert segment_end(FS, segment, like_clean_start=False).next_offset == 16
    # A broker that believes the file's length takes the zeroes for entries of the base, and starts at byte 0.
    believed = segment_end(FS, segment, like_clean_start=True)
    assert (believed.next_offset, [f.kind for f in believed.faults]) == (0, [FaultKind.SIZE_TOO_SMALL])


def test_an_index_longer_than_the_part_that_is_read_gives_the_right_end(tmp_path):
    """More entries than Kafka's search looks at first (1025); the last one counts."""
    batches = [batch(i) for i in range(3000)]
    size = len(batches[0])
    entries = [(i, i * size) for i in range(1, 3000)]
    segment = segment_of(tmp_path, b"".join(batches), entries, tail=500)
    for clean in (True, False):
        assert segment_end(FS, segment, like_clean_start=clean).next_offset == 3000


@pytest.mark.parametrize(
    ("entries", "clean_end"), [([(90, 0)], 0), ([(5, 1 << 20)], 0), ([(5, -8)], 0), ([(1, 7)], 0), ([], 3), (None, 3)]
)
def test_an_index_that_lies_decides_the_end_after_a_clean_stop_only(tmp_path, entries, clean_end):
    segment = segment_of(tmp_path, batch(0) + batch(1) + batch(2), entries)
    clean = segment_end(FS, segment, like_clean_start=True)
    assert clean.next_offset == clean_end
    recovered = segment_end(FS, segment, like_clean_start=False)
    assert recovered.next_offset == 3
    assert bool(recovered.index_faults) == bool(clean.index_faults) == bool(entries)


@pytest.mark.parametrize(
    ("entry", "clean_end"),
    [((-1, -1), 15), ((-1, -8), 15), ((0, -8), 15), ((-1, 7), 14), ((-1, 1 << 20), 14), ((0, 1 << 20), 14)],
)
def test_an_entry_at_or_below_the_base_offset_hides_the_end_or_not_as_in_the_real_loader(tmp_path, entry, clean_end):
    """The ends are the real loader's (tests/kafka/test_loader_fuzz.py). A log whose end is hidden is faulty."""
    segment = segment_of(tmp_path, batch(14), [(14 + entry[0], entry[1])], base=14)
    end = segment_end(FS, segment, like_clean_start=True)
    assert (end.next_offset, bool(end.index_faults)) == (clean_end, clean_end == 14)


def test_an_empty_segment_ends_where_it_begins(tmp_path):
    assert segment_end(FS, segment_of(tmp_path, b"", base=7), like_clean_start=True) == (7, 0, -1, (), (), None)


@pytest.mark.parametrize("size", [1, 12, 17, 18, 60])
def test_a_file_too_short_for_a_batch_has_a_fault_at_its_start(tmp_path, size):
    end = segment_end(FS, segment_of(tmp_path, batch(5)[:size], base=5), like_clean_start=False)
    assert end.next_offset == 5
    assert [f.position for f in end.faults] == [0]
    assert end.index_faults == ()  # without an entry there is none that lies
