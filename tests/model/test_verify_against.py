"""Two replicas compared, against a brute force that compares all records by offset."""

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import BASE_TIME_MS, R, batch_v2, message, message_set, write_segment
from tests.support.verifying_paths import verified

DIVERGED, BEHIND, GONE = "diverged", "replica-behind", "not-comparable"
MISSING, UNCOMPARED = "records-missing", "not-compared"
DELETE, COMPACT = {"cleanup.policy": "delete"}, {"cleanup.policy": "compact"}


class B:
    """A batch to write: its records, its leader epoch."""

    def __init__(self, records, epoch=0, last=None):
        self.records, self.epoch = records, epoch
        self.base, self.last = records[0].offset, records[-1].offset if last is None else last

    def written(self):
        data = batch_v2(self.records, epoch=self.epoch, base=self.base, last=self.last)
        return data, self.last, max(r.timestamp for r in self.records)

    def thinned(self, keep):
        """As the cleaner leaves it: fewer records, the offsets of the whole."""
        made = B([r for r in self.records if keep(r.offset)] or self.records, self.epoch, self.last)
        made.base = self.base
        return made


def log(sizes, epochs=None, seed=b""):
    """Batches of so many records one after the other."""
    made, offset = [], 0
    for number, size in enumerate(sizes):
        records = [
            R(offset + i, BASE_TIME_MS + offset + i, b"k%d" % i, seed + b"v%d" % (offset + i)) for i in range(size)
        ]
        made.append(B(records, 0 if epochs is None else epochs[number]))
        offset += size
    return made


def write(directory, batches, segments=(0,)):
    """A partition directory; `segments` are the numbers of the batches with which segments begin."""
    folder = directory / "topic-0"
    folder.mkdir(parents=True)
    edges = [*segments, len(batches)]
    for begin, end in zip(edges, edges[1:], strict=False):
        part = batches[begin:end]
        if part:
            write_segment(folder, part[0].base, [batch.written() for batch in part], 200)
    return folder


def compared(ours, theirs, config=None):
    """The comparison: its findings, the verdict in words, and the path of the more complete replica, if there is one."""
    (found,) = [
        one
        for one in verified([ours], "quick", config=config, more=("--against", theirs))
        if one.target == "comparison"
    ]
    verdicts = [one.message for one in found.findings if one.kind == "more-complete"]
    found.findings = [one for one in found.findings if one.kind != "more-complete"]
    found.verdict = verdicts[0] if verdicts else ""
    better, _, reason = found.verdict.partition(" is more complete")
    found.more_complete = better if reason and better != "neither" else None
    diverged = [one.first_offset for one in found.findings if one.kind == DIVERGED]
    found.diverged_at = diverged[0] if diverged else None
    return found


def kinds(comparison):
    return [found.kind for found in comparison.findings]


def test_the_same_log_in_other_segments_has_no_findings(tmp_path):
    batches = log([3] * 20)
    result = compared(write(tmp_path / "a", batches, (0, 7, 11)), write(tmp_path / "b", batches, (0, 5)))
    assert result.findings == []
    assert result.diverged_at is None
    assert result.more_complete is None


def test_verify_against_a_longer_replica_reports_the_shorter_one_as_behind(tmp_path):
    batches = log([3] * 20)
    result = compared(write(tmp_path / "a", batches[:12]), write(tmp_path / "b", batches))
    assert kinds(result) == [BEHIND]
    (found,) = result.findings
    assert found.path == str(tmp_path / "a" / "topic-0")
    assert (found.first_offset, found.last_offset) == (36, 59)
    assert result.more_complete == str(tmp_path / "b" / "topic-0")


def test_verify_against_reports_other_values_at_the_same_offsets(tmp_path):
    ours, theirs = log([3] * 8), log([3] * 8)
    theirs[5] = B([r._replace(value=b"other") if r.offset >= 16 else r for r in theirs[5].records])
    result = compared(write(tmp_path / "a", ours, (0, 4)), write(tmp_path / "b", theirs))
    assert result.diverged_at == 16
    (found,) = result.findings
    assert found.kind == DIVERGED
    assert found.path.endswith(f"{12:020}.log")
    assert found.position == len(ours[4].written()[0])
    assert (found.first_offset, found.last_offset) == (16, 17)
    assert "crc" in found.expected != found.got
    assert "under the same epoch stays so" in found.broker_effect


def test_verify_against_reports_other_leader_epochs_of_the_same_records(tmp_path):
    ours, theirs = log([2] * 6, [1, 1, 1, 1, 1, 1]), log([2] * 6, [1, 1, 1, 2, 2, 2])
    result = compared(write(tmp_path / "a", ours), write(tmp_path / "b", theirs))
    assert result.diverged_at == 6
    assert kinds(result) == [DIVERGED, BEHIND]
    assert "leader epoch is 1 here and 2 there" in result.findings[0].message
    # As a follower 4.2.0 did after an unclean election: no step is needed, and its own records are lost.
    assert result.findings[0].broker_effect.startswith("a follower cuts its log off at the first batch of another")
    assert result.findings[0].next_step.startswith("copy the follower's directory")
    assert result.more_complete == str(tmp_path / "b" / "topic-0")


def test_an_unclean_election_leaves_batches_of_other_sizes(tmp_path):
    shared = log([2, 2, 2])
    ours = [*shared, *(B([R(6 + i, 5, b"a", b"a")], 1) for i in range(5))]
    theirs = [*shared, B([R(6 + i, 5, b"b", b"b") for i in range(3)], 2)]
    result = compared(write(tmp_path / "a", ours), write(tmp_path / "b", theirs))
    assert result.diverged_at == 6
    assert result.more_complete == str(tmp_path / "b" / "topic-0")  # the later epoch, though it is shorter


def test_compaction_on_one_side_is_no_divergence(tmp_path):
    ours = log([4] * 10)
    theirs = [batch.thinned(lambda offset: offset % 3 == 0) for batch in ours if batch.base % 8]
    result = compared(write(tmp_path / "a", ours), write(tmp_path / "b", [ours[0], *theirs]))
    assert result.diverged_at is None
    assert kinds(result) == [GONE]
    assert result.findings[0].message.startswith("of offsets that both logs reach, 4 batches are only here, 0 only in")


def test_message_sets_that_the_cleaner_wrote_anew(tmp_path):
    records = [R(i, BASE_TIME_MS + i, b"k%d" % i, b"v%d" % i) for i in range(6)]
    old = [(message_set(records[:3], 1, 1), 2, BASE_TIME_MS + 2)]
    old += [(message(record, 1), record.offset, record.timestamp) for record in records[3:]]
    new = [(batch_v2([records[0], records[2]]), 2, BASE_TIME_MS + 2), (batch_v2(records[3:], 1), 5, BASE_TIME_MS + 5)]
    folders = [tmp_path / name / "topic-0" for name in "ab"]
    for folder, batches in zip(folders, (old, new), strict=True):
        folder.mkdir(parents=True)
        write_segment(folder, 0, batches)
    assert compared(*folders).diverged_at is None
    assert compared(*reversed(folders)).diverged_at is None


def test_deleted_segments_at_the_start_are_no_divergence(tmp_path):
    batches = log([3] * 12)
    result = compared(write(tmp_path / "a", batches[6:]), write(tmp_path / "b", batches))
    assert result.diverged_at is None
    assert kinds(result) == [BEHIND]
    assert result.more_complete == str(tmp_path / "b" / "topic-0")


@pytest.mark.parametrize("length", [12, 11])
def test_a_damaged_batch_is_no_divergence_and_the_other_replica_is_the_more_complete(tmp_path, length):
    """Unless the damaged one reaches further: then each has what the other has not."""
    batches = log([3] * 12)
    ours, theirs = write(tmp_path / "a", batches), write(tmp_path / "b", batches[:length])
    path = ours / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[len(batches[0].written()[0]) * 4 + 70] ^= 1
    path.write_bytes(data)
    result = compared(ours, theirs)
    assert result.diverged_at is None
    assert BEHIND in kinds(result)
    if length == 12:
        assert result.more_complete == str(theirs)
        assert result.verdict.startswith(f"{theirs} is more complete: ")
    else:
        assert result.more_complete is None
        assert result.verdict.startswith("neither is more complete, the damaged one reaches further: ")
        assert result.verdict.endswith(f"salvage {ours} (recover --salvage OUT) before it is given up")
        assert next(one.path for one in result.findings if one.kind == BEHIND) == str(theirs)


def test_verify_against_refuses_what_cannot_be_compared(tmp_path):
    ours = write(tmp_path / "a", log([1]))
    other = tmp_path / "b" / "topic-1"
    other.mkdir(parents=True)
    write_segment(other, 0, [batch.written() for batch in log([1])])
    (found,) = compared(ours, other).findings
    assert (found.kind, found.message) == (UNCOMPARED, "not compared: topic-0 and topic-1 are different partitions")
    (found,) = compared(ours, ours).findings
    assert (found.kind, found.message.endswith("are the same directory")) == (UNCOMPARED, True)
    theirs = write(tmp_path / "c", log([1]))
    for folder, topic_id in ((ours, "AAAAAAAAAAAAAAAAAAAAAQ"), (theirs, "AAAAAAAAAAAAAAAAAAAAAg")):
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    assert "topic ids" in compared(ours, theirs).findings[0].message
    seven = tmp_path / "d" / "topic-0"
    seven.mkdir(parents=True)
    (seven / f"{0:020}.kafka").write_bytes(b"")
    assert "0.7" in compared(ours, seven).findings[0].message


def test_verify_against_compares_empty_and_missing_logs(tmp_path):
    empty = tmp_path / "a" / "topic-0"
    empty.mkdir(parents=True)
    (empty / f"{0:020}.log").touch()
    full = write(tmp_path / "b", log([2, 2]))
    result = compared(empty, full)
    assert kinds(result) == [BEHIND, UNCOMPARED]
    assert result.findings[1].message == f"not compared: the log of {empty} has no valid batch"
    for finding in (result.findings[1], compared(full, empty).findings[1]):
        assert finding.path == str(empty)
        assert f"`cp -a {full} " in finding.next_step
    other = tmp_path / "c" / "topic-0"
    other.mkdir(parents=True)
    (other / f"{0:020}.log").touch()
    assert compared(empty, other).findings == []


def test_logs_without_a_common_offset_were_not_compared(tmp_path):
    batches = log([3] * 12)
    result = compared(write(tmp_path / "a", batches[:4]), write(tmp_path / "b", batches[6:]))
    assert UNCOMPARED in kinds(result)
    assert "no batch in common: offsets 0 to 12 and 18 to 36" in result.findings[-1].message


# -- what is missing on one side


@pytest.mark.parametrize("gone", [(4, 8), (4, 5), (10, 11)])
def test_records_that_only_the_other_replica_has(tmp_path, gone):
    """As after a segment was removed: the other's batches prove that the records are lost here."""
    batches = log([3] * 12)
    ours = write(tmp_path / "a", [*batches[: gone[0]], *batches[gone[1] :]], (0, gone[0]))
    theirs = write(tmp_path / "b", batches, (0, 7))
    for one, other in ((ours, theirs), (theirs, ours)):
        result = compared(one, other)
        (found,) = [found for found in result.findings if found.kind == MISSING]
        assert found.path == str(ours)
        assert (found.first_offset, found.last_offset) == (3 * gone[0], 3 * gone[1] - 1)
        assert str(theirs) in found.message
        assert GONE not in kinds(result)
        lost = 3 * (gone[1] - gone[0])
        assert result.more_complete == str(theirs)
        assert result.verdict.startswith(f"{theirs} is more complete: ")
        assert f"{ours}: offsets 0 to 36, leader epoch 0, no damage, {lost} offsets missing" in result.verdict


def test_neither_replica_is_more_complete_if_each_lacks_records_of_the_other(tmp_path):
    batches = log([3] * 12)
    ours = write(tmp_path / "a", [*batches[:4], *batches[6:]], (0, 4))
    shorter, thinner = batches[:10], [*batches[:7], *batches[9:]]
    for name, theirs in (("shorter", shorter), ("thinner", thinner)):
        result = compared(ours, write(tmp_path / name, theirs, (0, 4)), DELETE)
        assert result.more_complete is None
        assert result.verdict.startswith("neither is more complete: ")


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("gone", [(4, 8), (4, 5), (10, 11)])
@pytest.mark.parametrize("codecs", [(1,), (1, 0), (0, 1)])
def test_message_sets_that_only_the_other_replica_has(tmp_path, gone, magic, codecs):
    """The header of a set does not say where it begins: after a gap, the set behind it seemed to fill it."""
    sets = []
    for number, batch in enumerate(log([3] * 12)):
        codec = codecs[number % len(codecs)]
        data = message_set(batch.records, magic, codec) if codec else b"".join(message(r, magic) for r in batch.records)
        sets.append((data, batch.last, max(r.timestamp for r in batch.records)))
    folders = []
    for name, parts in (("a", (sets[: gone[0]], sets[gone[1] :])), ("b", (sets[:7], sets[7:]))):
        folder = tmp_path / name / "topic-0"
        folder.mkdir(parents=True)
        for part in parts:
            write_segment(folder, part[0][1] - 2, part, 200)
        folders.append(folder)
    for one, other in (folders, reversed(folders)):
        result = compared(one, other)
        (found,) = [found for found in result.findings if found.kind == MISSING]
        assert found.path == str(folders[0])
        assert (found.first_offset, found.last_offset) == (3 * gone[0], 3 * gone[1] - 1)


@pytest.mark.parametrize("name", ["topic-0-2026", "topic-0.bak-2026-11-27", "topic-0_2-1"])
def test_a_copy_with_a_number_after_its_name_is_compared_by_its_topic_id(tmp_path, name):
    """topic-0-2026 may be a copy of topic-0, or partition 2026 of a topic named topic-0."""
    ours, copy = write(tmp_path / "a", log([2])), tmp_path / name
    write(tmp_path / "b", log([2])).rename(copy)
    assert "different partitions" in compared(ours, copy).findings[0].message
    for folder in (ours, copy):
        (folder / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    assert compared(ours, copy).findings == compared(copy, ours).findings == []
    other = copy.rename(tmp_path / "topic-12")
    assert "different partitions" in compared(ours, other).findings[0].message


@pytest.mark.parametrize("end", [12, 8, 5, 4])
@pytest.mark.parametrize("is_swapped", [False, True])
def test_an_empty_last_segment_says_how_far_the_log_came(tmp_path, end, is_swapped):
    """Its name is the offset after the last record, as for a broker: what is missing below is no delay of a follower."""
    whole = log([1] * 12)
    ours, theirs = write(tmp_path / "a", whole[:4]), write(tmp_path / "b", whole, (0, 4, 8))
    for folder, base in ((ours, end), (theirs, 12)):
        (folder / f"{base:020d}.log").touch()
    found = compared(theirs, ours) if is_swapped else compared(ours, theirs)
    missing = [one for one in found.findings if one.kind == MISSING]
    assert [(one.path, (one.first_offset, one.last_offset)) for one in missing] == (
        [(str(ours), (4, end - 1))] if end > 4 else []
    )
    assert not any(" gaps of " in one.message for one in missing)  # said of several
    behind = [(one.first_offset, one.last_offset) for one in found.findings if one.kind == BEHIND]
    assert behind == ([(end, 11)] if end < 12 else [])


def test_verify_against_reports_no_gap_that_compaction_or_the_log_start_explains(tmp_path):
    batches = log([3] * 12)
    ours = write(tmp_path / "a", [*batches[:4], *batches[8:]], (0, 4))
    theirs = write(tmp_path / "b", batches)
    for config, log_start, expected in (
        (None, 0, [MISSING]), (DELETE, 0, [MISSING]), (COMPACT, 0, [GONE]), (DELETE, 24, [GONE]), (DELETE, 23, [MISSING]),
    ):  # fmt: skip
        for name in "ab":
            (tmp_path / name / "log-start-offset-checkpoint").write_text(f"0\n1\ntopic 0 {log_start}\n")
        assert kinds(compared(ours, theirs, config)) == expected, (config, log_start)


def test_signs_of_the_cleaner_explain_missing_batches_unless_the_policy_is_known(tmp_path):
    batches = log([3] * 12)
    cleaned = [batches[0], batches[1].thinned(lambda offset: offset != 4), *batches[8:]]
    sides = [write(tmp_path / name, made) for name, made in (("a", cleaned), ("b", batches))]
    assert kinds(compared(*sides)) == [GONE]
    assert kinds(compared(*sides, config=DELETE)) == [MISSING]


def test_verify_against_counts_several_gaps(tmp_path):
    batches = log([3] * 12)
    ours = write(tmp_path / "a", [*batches[:2], *batches[3:6], *batches[8:]])
    (found,) = compared(ours, write(tmp_path / "b", batches), DELETE).findings
    assert found.message.endswith("has them; 2 gaps of 9 offsets in all")
    assert (found.first_offset, found.last_offset) == (6, 8)


# -- brute force


def naive_records(folder):
    """Offset to (epoch, timestamp, key, value) of every batch v2 in the segments of a folder."""
    found = {}
    for path in sorted(folder.glob("*.log")):
        data, at = path.read_bytes(), 0
        while at < len(data):
            base, length, epoch = struct.unpack_from(">qii", data, at)
            first = struct.unpack_from(">q", data, at + 27)[0]
            count, body = struct.unpack_from(">i", data, at + 57)[0], data[at + 61 : at + 12 + length]
            for _ in range(count):
                size, body = varint(body)
                rest, body = body[1:size], body[size:]
                time, rest = varint(rest)
                delta, rest = varint(rest)
                found[base + delta] = (epoch, first + time, rest)
            at += 12 + length
    return found


def varint(data):
    value = shift = used = 0
    while True:
        byte = data[used]
        used, value, shift = used + 1, value | (byte & 127) << shift, shift + 7
        if byte < 128:
            return (value >> 1) ^ -(value & 1), data[used:]


@st.composite
def two_replicas(draw):
    """A log, and what may become of a copy of it: cut, cleaned, in other segments; and perhaps other records."""
    rng = random.Random(draw(st.integers(0, 1 << 32)))
    sizes = [rng.randint(1, 4) for _ in range(rng.randint(1, 14))]
    epochs = sorted(rng.randint(0, 3) for _ in sizes)
    ours = log(sizes, epochs)
    theirs = list(ours)
    if rng.random() < 0.6:
        at = rng.randrange(len(theirs))
        epoch = rng.choice([epochs[at], 4])
        fork = log([rng.randint(1, 4) for _ in range(rng.randint(1, 5))], seed=rng.choice([b"", b"other"]))
        moved = [[r._replace(offset=r.offset + ours[at].base) for r in batch.records] for batch in fork]
        theirs = [*theirs[:at], *(B(records, epoch) for records in moved)]
    pair = []
    for batches in (ours, theirs):
        kept = [batch for batch in batches if rng.random() > 0.1] or batches[:1]
        if rng.random() < 0.4:
            kept = [batch.thinned(lambda offset: offset % 3 != 1) for batch in kept]
        kept = kept[rng.choice([0, 0, rng.randrange(len(kept))]) :]
        segments = sorted({0, *(rng.randrange(len(kept)) for _ in range(3))})
        pair.append((kept, segments))
    return pair


@given(two_replicas(), st.booleans())
def test_the_first_difference_is_that_of_all_records_compared(tmp_path_factory, pair, swapped):
    root = tmp_path_factory.mktemp("pair")
    folders = [write(root / name, *made) for name, made in zip("ab", pair, strict=True)]
    if swapped:
        folders.reverse()
    ours, theirs = (naive_records(folder) for folder in folders)
    differing = [offset for offset in sorted(ours.keys() & theirs.keys()) if ours[offset] != theirs[offset]]
    result = compared(*folders)
    # Leader epochs differ from the first offset that both batches reach, which need not be one of a record left.
    if differing:
        assert result.diverged_at is not None
        assert result.diverged_at <= differing[0]
    if result.diverged_at is not None and result.diverged_at not in differing:
        assert "leader epoch" in result.findings[0].message
    assert (DIVERGED in kinds(result)) == (result.diverged_at is not None)
