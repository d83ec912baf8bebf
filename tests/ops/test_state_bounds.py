"""Groups, their offsets, memory and files at their limits: each rule against small cases."""

import signal
import struct
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest

from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.errors import Unreadable
from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.limits import DEFAULT_LIMITS
from kafkalog_cli.format.records import RecordColumns
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.log.reading.segment_reader import SegmentReader
from kafkalog_cli.ops import cluster_entries, coordinators, group_history, log_contents
from kafkalog_cli.ops.checks import index_reports, segment_reports
from kafkalog_cli.ops.checks.file_report import Verdict
from kafkalog_cli.ops.checks.finding_kinds import MAX_TOLD
from kafkalog_cli.ops.checks.log_questions import Answer
from kafkalog_cli.ops.checks.segment_reports import ReadContext, SegmentReports
from kafkalog_cli.ops.checks.segment_walk import SegmentWalk
from kafkalog_cli.ops.checks.state_check import check_epochs
from kafkalog_cli.ops.coordinators import CoordinatorTopic, HeldMemory
from kafkalog_cli.ops.dump import DumpOptions, SegmentDump
from kafkalog_cli.ops.dump_indexes import _largest_timestamp
from kafkalog_cli.ops.group_history import OffsetVerdict, _History, _Last
from kafkalog_cli.ops.log_contents import TimeCounter, TimeCounts, _bounded
from kafkalog_cli.ops.session import runner
from kafkalog_cli.ops.tables.coordinator_log import committed_offset
from kafkalog_cli.ops.tables.groups import CONSUMER, GroupReplay, GroupState, groups
from kafkalog_cli.ops.verify.records import _BatchSeen
from kafkalog_cli.ops.verify.seven import SevenCheck
from kafkalog_cli.ops.verify.task import Level, VerifyTask
from tests.support.faulty_fs import BytesFile, FaultyFilesystem
from tests.support.logs import R, batch_v2, message

# -- coordinators


def test_so_much_memory_is_held_for_the_last_records(monkeypatch):
    def entry(key, size, value=b"v"):
        record = SimpleNamespace(name="OffsetCommit", key={"group": key}, value=value)
        return SimpleNamespace(record=record, size_bytes=size)

    one = coordinators._ENTRY_BYTES + coordinators._BYTES_EACH * 10
    entries = [entry("a", 10), entry("b", 10), entry("a", 10), entry("b", 10, None), entry("c", 10)]
    for most, is_too_much in ((2 * one, False), (2 * one - 1, True)):
        monkeypatch.setattr(coordinators, "MOST_HELD_BYTES", most)
        if is_too_much:
            with pytest.raises(Unreadable):
                list(HeldMemory().counted(iter(entries), "p"))
        else:
            assert len(list(HeldMemory().counted(iter(entries), "p"))) == 5


@pytest.mark.parametrize(("start", "is_told"), [(0, False), (1, True)])
@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_what_is_missing_of_a_copy(monkeypatch, start, is_told, count):
    monkeypatch.setattr(coordinators, "_MOST_DAMAGE", 2)
    copy = SimpleNamespace(bounds=SimpleNamespace(start=start), partition=SimpleNamespace(path="p"))
    reading = coordinators._Reading(None, copy, (copy,))
    for _ in range(count):
        reading._add(SimpleNamespace(details={"position": 0, "message": "m", "kind": "k", "path": "p"}))
    topic = object.__new__(CoordinatorTopic)
    topic._log_dirs = MagicMock()
    topic._tell(reading)
    kinds = [one.args[0] for one in topic._log_dirs.note.call_args_list]
    more = ["more-damage"] if count > 2 else []
    assert kinds == ["k"] * min(count, 2) + more + (["missing-records"] if is_told else [])


# -- groups


@pytest.mark.parametrize(("epoch", "told"), [(-1, None), (0, 0), (1, 1)])
def test_the_leader_epoch_of_an_offset_may_be_0(epoch, told):
    value = {"offset": 5, "metadata": "", "commitTimestamp": 7, "leaderEpoch": epoch}
    assert committed_offset(("g", "t", 0), value, 0, 9).leader_epoch == told


@pytest.mark.parametrize(
    ("epoch", "target", "state"),
    [(3, 2, GroupState.ASSIGNING), (3, 3, GroupState.RECONCILING), (2, 3, GroupState.RECONCILING)],
)
def test_a_group_is_assigning_while_its_epoch_is_above_that_of_its_target(epoch, target, state):
    """ConsumerGroup.maybeUpdateGroupState."""
    replay, key = GroupReplay(0), (CONSUMER, "g")
    replay.groups[key], replay.assignment_epochs[key] = SimpleNamespace(epoch=epoch), target
    member = SimpleNamespace(member_state=None, member_epoch=1)
    assert replay.state(key, [member]) is state


def test_members_of_a_group_are_counted(monkeypatch):
    replay = GroupReplay(0)
    replay.groups[CONSUMER, "g"] = MagicMock(_replace=lambda members: members)
    replay.groups[CONSUMER, "h"] = MagicMock(_replace=lambda members: members)
    for member in "abc":
        replay.members[CONSUMER, "g", member] = None
    monkeypatch.setattr("kafkalog_cli.ops.tables.groups.group_state", lambda *_: replay)
    assert list(groups((), 0)) == [3, 0]


def history(removed_by=None, *, has_members=False):
    found = _History(0, None)
    found._last["key"] = _Last(SimpleNamespace(offset=5), removed_by)
    found._has_members = lambda group: has_members
    return found


@pytest.mark.parametrize(
    ("offset", "verdict"), [(4, OffsetVerdict.RESET), (5, OffsetVerdict.COMMIT), (6, OffsetVerdict.COMMIT)]
)
def test_an_offset_is_reset_if_it_goes_back(monkeypatch, offset, verdict):
    monkeypatch.setattr(_History, "_committed", lambda *_: SimpleNamespace(offset=offset))
    monkeypatch.setattr(_History, "_change", lambda self, entry, key, offset, verdict: verdict)
    entry = SimpleNamespace(record=SimpleNamespace(value={}))
    assert history()._changed(entry, "key") is verdict
    assert history(OffsetVerdict.EXPIRY)._changed(entry, "key") is (
        OffsetVerdict.EXPIRY if offset < 5 else OffsetVerdict.COMMIT
    )


@pytest.mark.parametrize(
    ("timestamp", "due", "is_expiry"),
    [(-1, -5, False), (0, 0, True), (0, 1, False), (7, 7, True), (7, 8, False), (7, None, False)],
)
def test_an_offset_expires_when_its_time_is_over(monkeypatch, timestamp, due, is_expiry):
    monkeypatch.setattr(group_history, "expires_at_ms", lambda *_: due)
    monkeypatch.setattr(_History, "_group", lambda *_: None)
    last = _Last(SimpleNamespace(offset=5))
    found = history()._removal(SimpleNamespace(timestamp=timestamp), ("g", "t", 0), last)
    assert (found is OffsetVerdict.EXPIRY) == is_expiry


# -- counts over time


@pytest.mark.parametrize("count", range(1, 10))
def test_periods_are_joined_when_there_are_more_than_the_most(monkeypatch, count):
    counter = TimeCounter(4)
    counter.add(np.arange(count) * 1000)
    found = counter.result()
    assert found.period_ms == 1000 * (1 if count <= 4 else 2 if count <= 8 else 4)
    counter = TimeCounter(4)
    for at in range(count):
        counter.add(np.array([at * 1000]))
    assert counter.result() == found
    monkeypatch.setattr(log_contents, "MOST_PERIODS", 4)
    assert _bounded(1000, dict.fromkeys(range(count), 1)) == found


# -- checks


@pytest.mark.parametrize(("end", "is_told"), [(5, True), (6, True), (7, False)])
def test_a_broker_that_trusts_the_index_may_find_an_earlier_end(monkeypatch, end, is_told):
    reports, told = object.__new__(SegmentReports), []
    monkeypatch.setattr(segment_reports, "segment_end", lambda *_, **__: SimpleNamespace(next_offset=end))
    monkeypatch.setattr(SegmentReports, "say", lambda self, note: told.append((note.expected, note.got)))
    reports._segment = SimpleNamespace(segment=object(), next_offset=None)
    reports._read_context = SimpleNamespace(fs=None)
    index = SimpleNamespace(is_right=lambda: False)
    reports._note_end(SimpleNamespace(last_offset=6, fault=None, damaged=()), [index])
    assert told == ([("7", str(end))] if is_told else [])


@pytest.mark.parametrize(("last", "is_old"), [(message(R(6, 5), 1), True), (batch_v2([R(6, 5)]), False)])
def test_a_log_ends_in_an_old_format(last, is_old):
    data = batch_v2([R(5, 5)]) + last
    reports = object.__new__(index_reports.PartitionReports)
    reports._last_walk = SegmentWalk(BytesFile(data)).run()
    assert reports._ends_in_old_format() == is_old


def test_records_of_a_batch_in_parts_ascend():
    for before, after in ((5, 6), (5, 5), (6, 5)):
        seen = _BatchSeen()
        for offset in (before, after):
            seen.see(RecordColumns.from_rows([(offset, 0, *(0,) * 8, 1)]), 0, 1)
        assert seen._is_ordered == (before < after)


# -- dump-log


@pytest.mark.parametrize(("most", "is_enough"), [(None, False), (2, True), (3, True), (4, False)])
def test_so_many_records_are_shown(most, is_enough):
    dump = object.__new__(SegmentDump)
    dump._options, dump.shown_records = DumpOptions(max_records=most), 3
    assert dump._is_enough() == is_enough


def test_without_a_limit_as_many_bytes_are_read_as_an_int_says():
    """DumpLogSegments: max-bytes is Integer.MAX_VALUE."""
    assert DumpOptions().end == 2**31 - 1


def test_a_message_of_format_0_has_no_timestamp():
    for magic, wanted in ((0, -1), (1, 77)):
        data = message(R(5, 77, b"key-of-some-bytes", b"value"), magic)
        header = next(SegmentReader(BytesFile(data)).headers())
        assert _largest_timestamp(BytesFile(data), header, DEFAULT_LIMITS) == wanted


def test_bars_of_periods_as_long_as_they_are():
    """What lies after the range counts in the last bar, and what lies before it in the first."""
    counts = TimeCounts(1, {at: at + 1 for at in range(7)})
    assert counts.bars(0, 6, 7) == [1, 2, 3, 4, 5, 6, 7]
    assert counts.bars(0, 4, 5) == [1, 2, 3, 4, 5 + 6 + 7]
    assert counts.bars(2, 6, 5) == [1 + 2 + 3, 4, 5, 6, 7]


@pytest.mark.parametrize("count", [MAX_TOLD - 1, MAX_TOLD, MAX_TOLD + 1, MAX_TOLD + 2])
def test_bad_messages_of_seven_are_told_up_to_the_largest_number(count):
    path = f"/t-0/{0:020d}.kafka"
    fs = FaultyFilesystem({path: (struct.pack(">ibbI", 7, 1, 0, 1) + b"v") * count})
    partition = open_partition(fs, "/t-0")
    check = SevenCheck(ReadContext(fs, choice=KernelChoice(forced=False)), VerifyTask(partition, Level.NORMAL, 0))
    told = [one.message for one in check.findings()]
    assert sum(message.startswith("the CRC of a message") for message in told) == min(count, MAX_TOLD)
    more = [f"{count - MAX_TOLD} more messages whose CRC does not match"] if count > MAX_TOLD else []
    assert [message for message in told if "more messages" in message] == more


# -- the cluster, and how a session ends


@pytest.mark.parametrize(("leader", "told"), [(-1, None), (0, 0), (1, 1)])
def test_broker_0_may_lead(leader, told):
    metadata = SimpleNamespace(topics={"t": SimpleNamespace(partitions={0: MagicMock(leader=leader)})})
    assert [one.leader for one in cluster_entries._partitions(metadata)] == [told]


@pytest.mark.parametrize(("polls", "naps"), [(0, 0), (1, 1), (1.5, 2), (2, 2)])
def test_a_sleep_is_as_long_as_it_was_asked_for(polls, naps):
    slept = []
    runner.Interruptions().sleep(polls * runner.POLL_SECONDS, slept.append)
    assert (len(slept), sum(slept)) == (naps, polls * runner.POLL_SECONDS)


@pytest.mark.parametrize(("later", "ends"), [(-0.25, False), (0, True), (0.25, True)])
def test_a_second_signal_after_a_while_ends_the_process(monkeypatch, later, ends):
    killed, interruptions = [], runner.Interruptions()
    times = iter((100.0, 100.0 + runner.AGAIN_SECONDS + later))
    monkeypatch.setattr("kafkalog_cli.ops.session.runner.time.monotonic", lambda: next(times))
    monkeypatch.setattr("kafkalog_cli.ops.session.runner.os.kill", lambda pid, number: killed.append(number))
    with interruptions.watched():
        handler = signal.getsignal(signal.SIGHUP)
        handler(signal.SIGHUP, None)
        assert interruptions.are_asked_for
        handler(signal.SIGHUP, None)
    assert killed == ([signal.SIGHUP] if ends else [])


def test_an_epoch_that_begins_with_the_next_one_is_compared_with_the_rest_of_the_log():
    entries = [SimpleNamespace(epoch=epoch, start_offset=5, _asdict=dict) for epoch in (0, 1)]
    answer = Answer(Batch(0, 100, 7, 8, 0, 2, 0, 0, 0, 0, -1, -1, -1, 2, 1), holds=False)
    found = [entry.verdict for entry in check_epochs(entries, LogBounds(5, 9), lambda offset: answer)]
    assert found == [Verdict.RIGHT, Verdict.OUT_OF_ORDER]
