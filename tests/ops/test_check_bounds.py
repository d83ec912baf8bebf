"""What the checks of logs and of their state conclude exactly at a limit: each rule against a loop over small cases."""

import random
from itertools import pairwise, product
from types import SimpleNamespace
from unittest.mock import Mock, call

import numpy as np
import pytest

from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format.batch import Batch, BatchColumns
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.format.txnindex import AbortedTxn
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.ops.checks import fresh_looks, index_reports, log_questions, state_check
from kafkalog_cli.ops.checks.diagnose import _real, finding, of_fault
from kafkalog_cli.ops.checks.file_report import Entry, Verdict, _of_entries
from kafkalog_cli.ops.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.checks.log_questions import Answer, EpochRuns, OffsetQuestions, ProducerTrail
from kafkalog_cli.ops.checks.segment_walk import BatchRun, SegmentWalk
from tests.support.faulty_fs import BytesFile, FaultyFilesystem

BOTH_KINDS = pytest.mark.parametrize("as_arrays", [False, True])
TRANSACTIONAL, CONTROL = 0x10, 0x20


def batch(base=0, last=None, **fields):
    last = base if last is None else last
    plain = Batch(0, 100, base, last, 0, 2, 0, 0, 0, 0, -1, -1, -1, 1, 1)
    return plain._replace(**fields)


def run_of(batches, *, as_arrays, reached=-1, after_damage=False):
    """A run of batches of 100 bytes, one after another."""
    rows = [one._replace(position=100 * at) for at, one in enumerate(batches)]
    columns = BatchColumns.from_matrix(np.array(rows, np.int64).T) if as_arrays else BatchColumns.from_rows(rows)
    return BatchRun(columns, reached, -1, is_after_damage=after_damage)


# -- findings


def test_the_offsets_and_the_position_of_a_finding_are_not_negative():
    for first, last in product((-2, -1, 0, 1, 5), repeat=2):
        wanted = None if last < 0 else (first if first >= 0 else last, last)
        assert _real((first, last)) == wanted
    assert _real(None) is None
    for position in (-1, 0, 1):
        found = finding(FindingKind.DAMAGED_RANGE, "p", "m", position=position)
        assert found.position == (position if position >= 0 else None)


def test_the_offsets_of_a_fault_are_those_that_are_known():
    for base, last in product((-1, 0, 1, 3), repeat=2):
        found = of_fault("p", Fault(FaultKind.CRC_MISMATCH, 0, "m", base_offset=base, last_offset=last))
        known = [offset for offset in (base, last) if offset >= 0]
        wanted = (known[0], max(known[0], last)) if known else (None, None)
        assert (found.first_offset, found.last_offset) == wanted


@pytest.mark.parametrize(("count", "more"), [(1, ""), (2, "; 1 more entry like it"), (3, "; 2 more entries like it")])
def test_further_entries_like_the_first_are_counted(count, more):
    entries = [
        Entry(at, {"offset": at, "position": 9}, Verdict.OUT_OF_ORDER, "d", is_tolerable=False) for at in range(count)
    ]
    report = SimpleNamespace(kind=FileKind.OFFSET_INDEX, worst_entry=ExitCode.CORRUPTION, entries=entries, path="p")
    (found,) = _of_entries(report, has_tail_damage=False)
    assert found.message == f"entry 0, offset 0, position 9: {Verdict.OUT_OF_ORDER.value}: d{more}"


@pytest.mark.parametrize(("more", "is_unused"), [(-1, False), (0, True), (1, True)])
def test_an_index_has_unused_entries_if_its_last_bytes_are_zeros(more, is_unused):
    size = fresh_looks._ZERO_TAIL_BYTES + more
    path = f"/t-0/{0:020d}.index"
    fs = FaultyFilesystem({path: bytes(size), f"/t-0/{0:020d}.log": b"x"})
    assert fresh_looks.may_have_unused_entries(fs, path) == is_unused
    assert not fresh_looks.may_have_unused_entries(FaultyFilesystem({path: bytes(size - 1) + b"x"}), path)


# -- runs of batches


def some_batches(seed):
    """Batches in and out of order, messages and sets without a first offset."""
    chance, offset, found = random.Random(seed), 0, []
    for _ in range(chance.randrange(1, 6)):
        offset = max(0, offset + chance.choice([0, 0, 0, 1, 2, -1]))
        last = offset + chance.randrange(3)
        is_set = chance.random() < 0.3
        found.append(batch(-1 if is_set else offset, last, magic=1 if is_set else 2, valid=int(chance.random() < 0.8)))
        offset = last + 1
    return found


@BOTH_KINDS
@pytest.mark.parametrize("seed", range(40))
def test_what_a_run_of_batches_says_of_offsets(seed, as_arrays):
    batches, reached = some_batches(seed), random.Random(seed).choice([-1, 0, 1])
    run = run_of(batches, as_arrays=as_arrays, reached=reached)
    before = [max([reached, *(one.last_offset for one in batches[:at])]) for at in range(len(batches))]
    firsts = [low + 1 if one.base_offset < 0 else one.base_offset for one, low in zip(batches, before, strict=True)]
    last = max(reached, *(one.last_offset for one in batches))
    assert run.last_reached == last
    for at, one in enumerate(batches):
        assert run.offset_before(at) == before[at]
        assert run.offsets_of(at) == (one.last_offset if one.base_offset < 0 else one.base_offset, one.last_offset)
        for offset in range(-1, last + 2):
            assert run.holds(at, offset) == (firsts[at] <= offset <= one.last_offset)
    for following in (None, *range(last + 3)):
        rows = [
            at for at, one in enumerate(batches) if following is not None and one.valid and one.last_offset >= following
        ]
        assert run.first_beyond(following) == next(iter(rows), None)
    for offset in range(last + 1):
        reaching = (at for at, one in enumerate(batches) if max(before[at], one.last_offset) >= offset)
        assert run.first_reaching(offset) == next(reaching)


@BOTH_KINDS
@pytest.mark.parametrize("reached", [-1, 0, 2])
def test_the_first_batch_that_does_not_follow(reached, as_arrays):
    """It must begin above all that the batch before ends with, and not end before it begins."""
    for base, last, second, end in product(range(4), range(4), range(5), range(5)):
        batches = [batch(base, last), batch(second, end)]
        pairs = pairwise([reached, *(one.last_offset for one in batches)])
        wrong = [
            at
            for at, (one, (low, _)) in enumerate(zip(batches, pairs, strict=True))
            if one.base_offset <= low or one.last_offset < one.base_offset
        ]
        run = run_of(batches, as_arrays=as_arrays, reached=reached)
        assert run.first_disordered == next(iter(wrong), None)
        assert run.is_ordered == (not wrong)


# -- questions to a log


@BOTH_KINDS
def test_each_question_is_answered_by_the_first_batch_that_reaches_it(as_arrays):
    batches = [batch(0, 2), batch(3, 3), batch(6, 8), batch(9, 9)]
    for cut in range(1, 4):
        asked = OffsetQuestions()
        asked.ask_all([5])
        asked.ask_all(range(11))
        reached = -1
        for part in (batches[:cut], batches[cut:]):
            run = run_of(part, as_arrays=as_arrays, reached=reached, after_damage=reached >= 0)
            asked.see(run)
            reached = run.last_reached
            assert [asked.is_pending_below(offset) for offset in range(12)] == [
                offset > reached + 1 for offset in range(12)
            ]
        for offset in range(11):
            target = next((one for one in batches if one.last_offset >= offset), None)
            answer = asked.answer(offset)
            assert (answer.batch and answer.batch.base_offset) == (target and target.base_offset)
            holds = target is not None and target.base_offset <= offset
            assert answer.holds == holds
            assert answer.is_damaged == (not holds and target is batches[cut])


def test_so_many_questions_have_room(monkeypatch):
    monkeypatch.setattr(log_questions, "MOST_QUESTIONS", 5)
    asked = OffsetQuestions()
    assert [asked.have_room_for(range(count)) for count in range(8)] == [count <= 5 for count in range(8)]
    asked.ask_all(range(4))
    assert [asked.have_room_for(range(count)) for count in range(3)] == [True, True, False]


@BOTH_KINDS
def test_so_many_changes_of_epochs_are_kept(monkeypatch, as_arrays):
    monkeypatch.setattr(log_questions, "MAX_EPOCH_RUNS", 2)
    epochs = EpochRuns()
    epochs.see(
        run_of([batch(at, leader_epoch=epoch) for at, epoch in enumerate((-1, 0, 0, 1, 2))], as_arrays=as_arrays)
    )
    assert epochs.runs == [(0, 1), (1, 3)]


def producer_batches(seed):
    chance, found, offset = random.Random(seed), [], 0
    for _ in range(12):
        last = offset + chance.randrange(2)
        bits = chance.choice([0, 0, TRANSACTIONAL, TRANSACTIONAL | CONTROL])
        count = chance.choice([1, 1, 0]) if bits & CONTROL else 1
        found.append(batch(offset, last, producer_id=chance.choice([-1, 0, 1]), attributes=bits, records_count=count))
        offset = last + 1 + chance.choice([0, 0, 1])
    return found


def expected_missed(batches, snapshots):
    """What a snapshot at an offset lacks of what lies below it."""
    missed = {}
    for snapshot, entries in snapshots.items():
        missed[snapshot] = {}
        for entry in entries:
            own = [one for one in batches if one.last_offset < snapshot and one.producer_id == entry.producer_id]
            last = max((one.last_offset for one in own if not one.attributes & CONTROL), default=-1)
            marker = max((one.last_offset for one in own if one.attributes & CONTROL and one.records_count), default=-1)
            begun = [one.base_offset for one in own if one.attributes == TRANSACTIONAL and one.base_offset > marker]
            first = entry.open_txn_first_offset
            if entry.has_batch and last > entry.last_offset:
                missed[snapshot][entry.producer_id] = f"a newer batch of the producer ends with offset {last}"
            elif first is not None and marker > first:
                missed[snapshot][entry.producer_id] = f"its transaction ended with the marker at offset {marker}"
            elif first is None and begun:
                missed[snapshot][entry.producer_id] = f"a transaction of the producer is open since offset {begun[0]}"
    return missed


def expected_ended(batches, markers):
    """How transactions ended at the markers."""
    ended, open_since = {}, {}
    for one in batches:
        if one.producer_id < 0 or (one.attributes & CONTROL and not one.records_count):
            continue
        if one.attributes & CONTROL:
            first = open_since.pop(one.producer_id, None)
            if one.last_offset in markers:
                ended[one.last_offset] = (first, min(open_since.values(), default=one.last_offset + 1))
        elif one.attributes & TRANSACTIONAL:
            open_since.setdefault(one.producer_id, one.base_offset)
    return ended


@BOTH_KINDS
@pytest.mark.parametrize("seed", range(60))
def test_producers_are_followed_up_to_each_snapshot(seed, as_arrays):
    chance, batches = random.Random(seed), producer_batches(seed)
    end = batches[-1].last_offset + 1
    snapshots = {
        offset: [
            ProducerEntry(
                producer, 0, 0, chance.randrange(-1, end), 0, 0, 0, chance.choice([-1, chance.randrange(end)])
            )
            for producer in (0, 1)
        ]
        for offset in sorted(chance.sample(range(1, end + 1), 3))
    }
    markers = frozenset(one.last_offset for one in batches if one.attributes & CONTROL)
    trail = ProducerTrail({offset: (lambda own=own: own) for offset, own in snapshots.items()}, markers)
    cut, reached = chance.randrange(1, 12), -1
    for part in (batches[:cut], batches[cut:]):
        run = run_of(part, as_arrays=as_arrays, reached=reached)
        trail.see(run)
        reached = run.last_reached
    for offset in range(end + 1):
        trail.reach(offset)
        assert set(trail.missed) >= {one for one in snapshots if one <= offset}
    assert trail.missed == expected_missed(batches, snapshots)
    assert {offset: tuple(one) for offset, one in trail.ended.items()} == expected_ended(batches, markers)


# -- files of the state


LOG = LogBounds(5, 9)


def aborted(producer, first, last, stable):
    return AbortedTxn(0, producer, first, last, stable)


def test_offsets_that_are_looked_up_lie_in_the_log():
    for offset in range(-1, 12):
        inside = [offset] if 5 <= offset < 9 else []
        entry = SimpleNamespace(last_offset=offset, current_txn_first_offset=-1)
        assert list(state_check.snapshot_offsets([entry], LOG)) == inside
        started = [SimpleNamespace(start_offset=offset)]
        assert list(state_check.epoch_offsets(started, LOG)) == ([offset] if 0 <= offset < 9 else [])
        transaction = aborted(1, offset, -1, -1)
        assert list(state_check.txn_offsets([transaction], LOG)) == inside


def test_offsets_of_a_checkpoint_against_the_log():
    for offset in range(-1, 12):
        verdict, detail = state_check._checkpoint_offset(offset, FileKind.REPLICATION_CHECKPOINT, LOG)
        limits = Verdict.OUT_OF_ORDER if offset < 0 else Verdict.BEYOND_END if offset > 9 else Verdict.RIGHT
        assert verdict is limits
        assert ("below the first segment" in detail) == (0 <= offset < 5)


def test_the_last_stable_offset_of_an_aborted_transaction():
    """At most the offset after the marker, and no less than that of the entry before; nothing lies below the log."""
    before = aborted(2, 0, 3, 4)
    for stable in range(-1, 10):
        entry = aborted(1, 5, 7, stable)
        problem = state_check._stable_problem(entry, None, LOG, lambda offset: Answer())
        assert bool(problem) == (stable > 8 or stable < 0)
        problem = state_check._stable_problem(entry, before, LOG, lambda offset: Answer())
        assert bool(problem) == (stable > 8 or stable < 4)
        ask = Mock(return_value=Answer())
        state_check._stable_problem(entry, None, LOG, ask)
        assert ask.call_args_list == ([call(stable)] if 5 <= stable <= 7 else [])


def test_an_entry_does_not_say_more_than_the_log_shows():
    for first, began in product(range(4, 8), (None, 5, 6)):
        for stable, limit in product((6, 7, 8), (7, 8)):
            ended = SimpleNamespace(first_offset=began, last_stable_offset=limit)
            entry = aborted(1, first, 8, stable)
            problem = state_check._trail_problem(entry, ended, lambda offset: Answer())
            assert bool(problem) == ((began is not None and first > began) or stable > limit)


def test_leader_epochs_go_up_with_their_offsets():
    entries = [
        SimpleNamespace(epoch=epoch, start_offset=start) for epoch, start in product(range(-1, 4), range(-1, 11))
    ]
    before = SimpleNamespace(epoch=1, start_offset=6)
    for entry, known in product(entries, (None, before)):
        verdict, _ = state_check._epoch(
            entry, known, 9, LOG, lambda offset: Answer(batch(7, 8, leader_epoch=3), holds=True)
        )
        is_low = known is not None and (entry.epoch <= 1 or entry.start_offset <= 6)
        if entry.start_offset > 9:
            wanted = Verdict.BEYOND_END
        elif entry.epoch < 0 or entry.start_offset < 0 or is_low:
            wanted = Verdict.OUT_OF_ORDER
        else:
            wanted = Verdict.RIGHT if entry.epoch == 3 or entry.start_offset == 9 else Verdict.STALE
        assert verdict is wanted, entry


@pytest.mark.parametrize(
    ("start", "end", "verdict"), [(5, 7, Verdict.GONE), (5, 8, Verdict.STALE), (7, 7, Verdict.GONE)]
)
def test_an_epoch_ends_where_the_next_begins(start, end, verdict):
    entry = SimpleNamespace(epoch=0, start_offset=start)
    found = state_check._epoch(entry, None, end, LOG, lambda offset: Answer(batch(7, 8, leader_epoch=3), holds=False))
    assert found[0] is verdict


def test_an_epoch_is_compared_from_the_first_entry_on():
    entries = [SimpleNamespace(epoch=0, start_offset=3), SimpleNamespace(epoch=2, start_offset=5)]
    for epoch, base in product(range(4), range(8)):
        told = None if base < 3 else 0 if base < 5 else 2
        notes = list(state_check.epochs_not_told(entries, [(epoch, base)]))
        assert len(notes) == (told is not None and told != epoch)


@pytest.mark.parametrize(("last", "end"), [(None, 5), (4, 5), (5, 6), (9, 10)])
def test_where_the_next_segment_must_begin(last, end):
    segment = SimpleNamespace(base_offset=5, log=SimpleNamespace(size_bytes=9))
    assert index_reports._end_of(segment, SimpleNamespace(last_offset=last)) == end


def test_only_the_run_right_behind_damage_comes_after_damage():
    """Further runs follow the run before them."""
    walk = SegmentWalk(BytesFile(b""))
    for damaged_count, begin in product((0, 1), (0, 1, 50)):
        rows = [batch(at, at, position=begin + 100 * at) for at in range(3)]
        runs = [BatchColumns.from_rows([one]) for one in rows]
        walk._reader = SimpleNamespace(held_batches=lambda *_, runs=runs: iter(runs), damaged_count=damaged_count)
        walk.end_position, walk.last_offset = 0, None
        assert [run.is_after_damage for run in walk] == [bool(damaged_count and begin), False, False]


@BOTH_KINDS
def test_a_set_without_a_first_offset_is_one_of_an_old_format(as_arrays):
    """In a batch v2, -1 is an offset that is wrong."""
    run = run_of([batch(-1, 3, magic=1), batch(-1, 4, magic=2), batch(5, 6)], as_arrays=as_arrays)
    assert [run.offsets_of(row) for row in range(3)] == [(3, 3), (-1, 4), (5, 6)]


@BOTH_KINDS
def test_the_first_batch_of_an_unknown_magic_is_told(as_arrays):
    for magics in product((1, 2, 3), repeat=3):
        rows = [batch(at, position=100 * at, magic=magic) for at, magic in enumerate(magics)]
        walk = SegmentWalk(BytesFile(b""))
        walk._look_at(run_of(rows, as_arrays=as_arrays))
        assert walk.unknown_magic_at == next((100 * at for at, magic in enumerate(magics) if magic > 2), None)
        assert walk.last_magic == magics[-1]


def test_an_aborted_transaction_ends_in_its_segment_and_in_order():
    context = state_check.TxnContext(LOG, None, None, {})
    before = aborted(1, 5, 6, 7)
    for first, last, known in product(range(-1, 10), range(3, 11), (None, before)):
        verdict, _ = state_check._aborted_txn(aborted(1, first, last, last + 1), known, 4, context)
        if last >= 9:
            assert verdict is Verdict.BEYOND_END
        elif last < 4 or (known is not None and last <= 6) or first > last or first < 0:
            assert verdict is Verdict.OUT_OF_ORDER
        else:
            assert verdict is Verdict.UNVERIFIED


@pytest.mark.parametrize(("first", "is_asked"), [(4, False), (5, True), (6, True)])
def test_the_first_batch_of_a_transaction_is_looked_up_from_the_log_start_on(first, is_asked):
    ask = Mock(return_value=Answer())
    assert state_check._first_problem(aborted(1, first, 8, 9), LOG, ask) == ""
    assert ask.called == is_asked


@pytest.mark.parametrize(
    ("magic", "epoch", "last_magic", "kinds"),
    [
        (1, 0, 2, []), (2, -1, 2, ["snapshot"]), (2, 0, 2, ["snapshot", "epochs"]), (2, 0, 1, ["snapshot"]),
        (2, 1, 2, ["snapshot", "epochs"]),
    ],
)  # fmt: skip
def test_files_that_a_broker_of_v2_has(monkeypatch, magic, epoch, last_magic, kinds):
    reports = object.__new__(index_reports.PartitionReports)
    reports._files = SimpleNamespace(all=(), missing=lambda name, *_: name.kind)
    reports._segments = {0: None, 9: None}
    reports._last_walk = SimpleNamespace(last_magic=last_magic, first_bad=None)
    monkeypatch.setattr(type(reports), "_first_batch", lambda self: batch(0, magic=magic, leader_epoch=epoch))
    names = {FileKind.PRODUCER_SNAPSHOT: "snapshot", FileKind.LEADER_EPOCH_CHECKPOINT: "epochs"}
    assert [names[kind] for kind in reports._missing_state()] == kinds
    reports._segments = {0: None}
    assert "snapshot" not in [names[kind] for kind in reports._missing_state()]


def test_offsets_of_a_producer_lie_below_the_snapshot_and_in_the_log():
    for last, first, snapshot in product(range(3, 11), range(-1, 10), (7, 8, 20)):
        entry = ProducerEntry(1, 0, 0, last, 0, 0, 0, first)
        asked = Mock(return_value=Answer())
        verdict, _ = state_check._producer(entry, snapshot, LOG, asked, {})
        largest = max(last, first)
        wanted = Verdict.BEYOND_END if largest >= 9 else Verdict.OUT_OF_ORDER if largest >= snapshot else Verdict.GONE
        assert verdict is wanted
        if verdict is Verdict.GONE:
            assert asked.call_args_list == [call(one) for one in (first, last) if one >= 5]
