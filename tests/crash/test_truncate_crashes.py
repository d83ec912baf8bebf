"""Truncation at every kind of place under power cuts and failing calls: what stays is what a plain decoder says."""

import random

import pytest

from tests.crash.log_directories import END, PARTITION, RECOVERY_POINT, contents, logs
from tests.crash.messages import READ_ONLY, CheckedMessage, candidates
from tests.crash.writer_matrix import WriterMatrix, expected
from tests.crash.writers import SETTINGS, Kind, Left, Writer, ids
from tests.support import watched_fs
from tests.support.effort import DIAL
from tests.support.naive_reader import read_batches, read_records

IMAGES, FAULTS_A_CASE = 5, 5
PLACES = {
    "committed": (
        4,
        7,
        13,
        16,
        21,
        0,
    ),  # in transactions that were aborted and one that was committed; between segments
    "sound": (9, 12, 20),  # leader epochs and segments go with it
    "killed": (10, 16),  # below the recovery point, and above it
    "compacted": (11, 3),  # in a gap, and the start of the log
    "old": (9, 15),
}


def truncates(offset):
    argv = ("truncate", PARTITION, "--to", str(offset), "--single-replica", *SETTINGS)
    return Writer(f"truncate-{offset}", Kind.CHANGES, argv, left=Left.BEGINNING, codes_again=frozenset({0, 1}))


CASES = [(truncates(offset), fixture) for fixture, offsets in PLACES.items() for offset in offsets]


@pytest.fixture(autouse=True)
def _read_only(monkeypatch):
    monkeypatch.setitem(watched_fs.FAULTS, "EROFS", READ_ONLY)


def end_at(disk, offset):
    """Where a log ends that is truncated to an offset: at the first batch that reaches it, which goes as a whole."""
    reaching = [
        one.base_offset if one.base_offset >= 0 else min(record.offset for record in read_records(data, one))
        for _, data in sorted(logs(disk).items())
        for one in read_batches(data)
        if one.last_offset >= offset
    ]
    return min(reaching, default=END)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("writer", "fixture"), CASES, ids=ids(CASES))
def test_a_power_cut_after_any_call_of_truncate_leaves_before_or_after(writer, fixture, evidence):
    matrix = WriterMatrix(writer, fixture)
    found = matrix.images()
    last = [image for image in found if image.is_over]
    others = [image for image in found if not image.is_over]
    chance = random.Random(f"{writer.name} {fixture} {DIAL.scale}")
    looked = [*last, *chance.sample(others, min(IMAGES * DIAL.scale, len(others)))]
    for image in looked:
        matrix.look(image)
    evidence("R36", len(looked), len(CASES))


@pytest.mark.exhaustive
@pytest.mark.parametrize(("writer", "fixture"), CASES, ids=ids(CASES))
def test_truncate_leaves_the_batches_below_the_offset_and_their_index_entries(writer, fixture):
    offset, disk = int(writer.argv[3]), writer.disk(fixture)
    end = end_at(disk, offset)
    want, before = expected(writer, fixture), contents(disk)
    assert want.records_after == [one for one in want.records_before if one[0] < end]
    after = want.after
    end = max(end, 3) if fixture == "compacted" else end  # the log starts there, in a batch
    epochs = [line.split() for line in before[f"{PARTITION}/leader-epoch-checkpoint"].decode().splitlines()[2:]]
    kept = [line.split() for line in after[f"{PARTITION}/leader-epoch-checkpoint"].decode().splitlines()[2:]]
    assert kept == [entry for entry in epochs if int(entry[1]) < end]
    point = next(int(line.split()[2]) for line in after[RECOVERY_POINT].decode().splitlines() if line[:4] == "t 0 ")
    assert point <= end
    for path, data in after.items():
        name = path.rpartition("/")[2]
        if name.endswith(".txnindex"):  # version, producer, first, last, last stable offset
            was = before[path]
            entries = [was[at : at + 34] for at in range(0, len(was), 34)]
            assert data == b"".join(entry for entry in entries if int.from_bytes(entry[18:26], "big") < end)
        if name.endswith(".snapshot") and path.startswith(PARTITION):
            assert int(name.partition(".")[0]) <= end


@pytest.mark.exhaustive
@pytest.mark.parametrize(("writer", "fixture"), CASES, ids=ids(CASES))
def test_a_failed_call_of_truncate_leaves_what_its_message_says(writer, fixture):
    found = candidates(writer, fixture)
    chance = random.Random(f"{writer.name} {fixture} {DIAL.scale}")
    for fault, for_ever, n in chance.sample(found, min(FAULTS_A_CASE * DIAL.scale, len(found))):
        CheckedMessage(writer, fixture, fault, for_ever, n).check()


@pytest.mark.parametrize("fixture", PLACES)
def test_truncate_to_the_log_end_removes_no_record(fixture):
    """No record goes; where a broker was killed, the last indexes lose their zeros."""
    writer = truncates(END)
    disk = writer.disk(fixture)
    before = contents(disk)
    outcome = writer.act(disk)
    assert outcome.code == 0, outcome
    changed = {path for path, data in contents(disk).items() if before.get(path) != data}
    assert {path.rpartition(".")[2] for path in changed} == ({"index", "timeindex"} if fixture == "killed" else set())
    assert all(before[path].rstrip(b"\0") == contents(disk)[path].rstrip(b"\0") for path in changed)
