"""Offset and time indexes against a naive model: every style is told, every lie is noticed or misleads nobody."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format import columns, index
from kafkalog_cli.ops.checks.file_report import ANY_STYLE, Style, Verdict
from kafkalog_cli.ops.checks.root_reports import Trouble, index_reports
from kafkalog_cli.ops.checks.segment_reports import ReadContext
from kafkalog_cli.ops.selection import Selection
from tests.ops.index_model import (
    APPEND_CALL,
    FIRST_OFFSET,
    LOG_APPEND_TIME,
    PER_BATCH,
    Spec,
    find_offset,
    find_time,
    indexes,
    offset_index,
    time_index,
    write,
)
from tests.support.faulty_fs import FaultyFilesystem

STYLES = {FIRST_OFFSET: Style.FIRST_OFFSET, APPEND_CALL: Style.APPEND_CALL, PER_BATCH: Style.PER_BATCH}
DIRECTORY = "/log/topic-0"


@pytest.fixture(autouse=True, scope="module", params=[0, columns.MANY_ROWS], ids=["arrays", "plain"])
def body_of_columns(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "MANY_ROWS", request.param)
        patch.setattr(index, "MANY_ROWS", request.param)
        yield


def reports(base_offset, log, index=None, times=None, *, more=None):
    """The reports on a partition of one segment, by kind."""
    files = {f"{DIRECTORY}/{base_offset:020d}.log": log, **(more or {})}
    if index is not None:
        files[f"{DIRECTORY}/{base_offset:020d}.index"] = index
    if times is not None:
        files[f"{DIRECTORY}/{base_offset:020d}.timeindex"] = times
    read_context = ReadContext(FaultyFilesystem(files), choice=KernelChoice(forced=False))
    found = {}
    for report in index_reports(read_context, [DIRECTORY], Selection()):
        assert not isinstance(report, Trouble), report
        found.setdefault(report.kind, report)
    return found


def offset_report(base_offset, log, entries):
    return reports(base_offset, log, offset_index(base_offset, entries), b"")[FileKind.OFFSET_INDEX]


def verdicts(report):
    return [entry.verdict for entry in report.entries]


timestamps = st.integers(0, 40)
v2_specs = st.builds(
    Spec,
    st.lists(timestamps, min_size=1, max_size=4).map(tuple),
    padding=st.integers(0, 150),
    gap=st.sampled_from([0, 0, 0, 2]),
    cut=st.sampled_from([0, 0, 0, 3]),
)
messages = st.builds(Spec, st.tuples(timestamps), padding=st.integers(0, 150), magic=st.just(1))
message_sets = st.builds(
    Spec,
    st.lists(timestamps, min_size=1, max_size=4).map(tuple),
    padding=st.integers(0, 40),
    magic=st.just(1),
    packed=st.just(True),
)


def calls_of(specs):
    return st.lists(st.lists(specs, min_size=1, max_size=4), min_size=1, max_size=14)


any_calls = st.one_of(calls_of(v2_specs), calls_of(messages), calls_of(message_sets))
bases = st.sampled_from([0, 7, 1 << 40])
intervals = st.sampled_from([0, 100, 300])
restarts = st.frozensets(st.integers(1, 12), max_size=2)


@given(base=bases, calls=any_calls, style=st.sampled_from(sorted(STYLES)), interval=intervals, restarts=restarts)
def test_what_a_broker_of_any_version_writes_is_right_in_its_style(base, calls, style, interval, restarts):
    log, written = write(base, calls)
    offsets, times = indexes(written, style, interval, restarts)
    found = reports(base, log, offset_index(base, offsets), time_index(base, times))
    assert set(verdicts(found[FileKind.OFFSET_INDEX])) <= {Verdict.RIGHT}
    assert set(verdicts(found[FileKind.TIME_INDEX])) <= {Verdict.RIGHT}
    assert {report.exit_code for report in found.values()} == {ExitCode.OK}
    assert len(list(found[FileKind.OFFSET_INDEX].entries)) == len(offsets)
    assert len(list(found[FileKind.TIME_INDEX].entries)) == len(times)
    if offsets:
        assert STYLES[style] in found[FileKind.OFFSET_INDEX].style
        assert found[FileKind.OFFSET_INDEX].style == expected_style(written, offsets)


def expected_style(calls, entries):
    """The styles that the entries leave open, worked out from the batches one by one."""
    batches = {batch.position: batch for call in calls for batch in call}
    style = ANY_STYLE
    for offset, position in entries:
        batch = batches[position]
        if offset == batch.first == batch.last:
            continue
        if offset == batch.last:
            style &= Style.PER_BATCH | Style.APPEND_CALL
        elif offset == batch.first:
            style &= Style.FIRST_OFFSET
        else:
            style &= Style.APPEND_CALL
    return style


@given(
    base=bases,
    calls=any_calls,
    style=st.sampled_from(sorted(STYLES)),
    interval=st.sampled_from([0, 100]),
    data=st.data(),
)
def test_a_changed_offset_entry_is_noticed_or_misleads_no_look_up(base, calls, style, interval, data):
    log, written = write(base, calls)
    batches = [batch for call in written for batch in call]
    offsets, _ = indexes(written, style, interval)
    if not offsets:
        return
    slot = data.draw(st.integers(0, len(offsets) - 1), "slot")
    near = st.sampled_from([o for o, _ in offsets] + [b.first for b in batches] + [b.last for b in batches])
    offset = data.draw(
        st.one_of(near, near.map(lambda o: o + 1), st.integers(base - 2, batches[-1].last + 4)), "offset"
    )
    places = st.sampled_from([b.position for b in batches])
    position = data.draw(st.one_of(places, places.map(lambda p: p + 1), st.integers(-3, len(log) + 4)), "position")
    changed = list(offsets)
    changed[slot] = data.draw(
        st.sampled_from([(offset, offsets[slot][1]), (offsets[slot][0], position), (offset, position)]), "entry"
    )
    raw = offset_index(base, changed)
    report = reports(base, log, raw, b"")[FileKind.OFFSET_INDEX]
    if report.exit_code is not ExitCode.CORRUPTION:
        for target in range(base, batches[-1].last + 2):
            assert find_offset(batches, in_use(changed, base), target) == find_offset(batches, [], target), target
    if changed[slot] != offsets[slot] and report.exit_code is ExitCode.OK and not report.zero_tail_bytes:
        assert expected_style(written, changed) in (report.style, Style.NONE) or report.style == Style.NONE


def in_use(entries, base):
    """The entries before the zero tail."""
    for slot, (offset, _) in enumerate(entries):
        if slot and offset == base:
            return entries[:slot]
    return entries


@given(base=bases, calls=any_calls, style=st.sampled_from(sorted(STYLES)), data=st.data())
def test_a_changed_time_entry_is_noticed_or_misleads_no_look_up(base, calls, style, data):
    log, written = write(base, calls)
    batches = [batch for call in written for batch in call]
    offsets, times = indexes(written, style, 100)
    if not times:
        return
    slot = data.draw(st.integers(0, len(times) - 1), "slot")
    timestamp = data.draw(st.one_of(st.sampled_from([t for t, _ in times]), st.integers(-1, 45)), "timestamp")
    near = st.sampled_from([b.first for b in batches] + [b.last for b in batches])
    offset = data.draw(st.one_of(near, st.integers(base - 2, batches[-1].last + 4)), "offset")
    changed = list(times)
    changed[slot] = data.draw(
        st.sampled_from([(timestamp, times[slot][1]), (times[slot][0], offset), (timestamp, offset)]), "entry"
    )
    found = reports(base, log, offset_index(base, offsets), time_index(base, changed))
    report = found[FileKind.TIME_INDEX]
    if report.exit_code is ExitCode.CORRUPTION:
        return
    kept = [entry for slot, entry in enumerate(changed) if not (slot and entry[1] == base)]
    if len(kept) < len(changed):  # entries cut off by a zero: fewer entries, but those are right
        kept = changed[: next(slot for slot, entry in enumerate(changed) if slot and entry[1] == base)]
    largest = max(batch.timestamp for batch in batches)
    assert not kept or kept[-1][0] <= largest
    for target in range(42):
        assert find_time(batches, offsets, kept, base, target) == find_time(batches, [], [], base, target), target


def call(*sizes, first_timestamp=10):
    """An append call of single-record batches with these paddings."""
    return [Spec((first_timestamp + i,), padding=size) for i, size in enumerate(sizes)]


LOG = [
    [Spec((5, 6, 7), padding=50)],
    [Spec((8, 9), padding=50)],
    [Spec((10, 11, 12), padding=50)],
    [Spec((13,), padding=50)],
]


def made_log(base=100):
    """Batches 100-102, 103-104, 105-107, 108-108, and where they start."""
    log, written = write(base, LOG)
    return log, [batch.position for call in written for batch in call]


@pytest.mark.parametrize(
    ("entry", "verdict", "code", "detail"),
    [
        (lambda at: (104, at[1]), Verdict.RIGHT, ExitCode.OK, ""),
        (lambda at: (103, at[1]), Verdict.RIGHT, ExitCode.OK, ""),
        (lambda at: (107, at[1]), Verdict.RIGHT, ExitCode.OK, ""),
        (lambda at: (106, at[2]), Verdict.STALE, ExitCode.WARNINGS, "no batch begins or ends with the offset"),
        (lambda at: (106, at[1]), Verdict.STALE, ExitCode.WARNINGS, "no batch begins or ends with the offset"),
        (
            lambda at: (104, at[1] + 1),
            Verdict.STALE,
            ExitCode.CORRUPTION,
            "inside the batch at {1}, offsets 103 to 104",
        ),
        (lambda at: (104, at[2]), Verdict.STALE, ExitCode.CORRUPTION, "so the offset is before it"),
        (lambda at: (101, at[0]), Verdict.STALE, ExitCode.WARNINGS, "points at the first batch"),
        (lambda at: (104, -4), Verdict.STALE, ExitCode.CORRUPTION, "no batch starts there"),
        (lambda at: (104, at[3] + 4000), Verdict.BEYOND_END, ExitCode.CORRUPTION, "not before the end of the log"),
        (lambda at: (109, at[3]), Verdict.BEYOND_END, ExitCode.CORRUPTION, "not in the log yet"),
        (lambda at: (99, at[1]), Verdict.OUT_OF_ORDER, ExitCode.CORRUPTION, "below the base offset"),
    ],
)
def test_what_is_said_of_one_entry(entry, verdict, code, detail):
    log, at = made_log()
    report = offset_report(100, log, [entry(at)])
    (found,) = report.entries
    assert (found.verdict, found.exit_code, report.exit_code) == (verdict, code, code)
    assert detail.format(*at) in found.detail


def test_entries_that_do_not_follow_each_other_are_out_of_order_and_the_others_are_not():
    log, at = made_log()
    right = [(104, at[1]), (107, at[2]), (108, at[3])]
    swapped = offset_report(100, log, [right[1], right[0], right[2]])
    assert verdicts(swapped) == [Verdict.RIGHT, Verdict.OUT_OF_ORDER, Verdict.RIGHT]
    twice = offset_report(100, log, [right[0], right[0], right[1]])
    assert verdicts(twice) == [Verdict.RIGHT, Verdict.OUT_OF_ORDER, Verdict.RIGHT]
    lie_before = offset_report(100, log, [(1000, at[1]), right[1], right[2]])
    assert verdicts(lie_before) == [Verdict.BEYOND_END, Verdict.RIGHT, Verdict.RIGHT]


def test_an_append_call_ends_before_the_next_entry():
    log, at = made_log()
    report = offset_report(100, log, [(107, at[1]), (108, at[2])])
    first, second = report.entries
    assert (first.verdict, first.is_tolerable) == (Verdict.STALE, True)
    assert "after the target of the next entry" in first.detail
    assert second.verdict is Verdict.RIGHT


def test_the_style_of_a_file_that_two_brokers_wrote_is_mixed():
    log, at = made_log()
    report = offset_report(100, log, [(103, at[1]), (107, at[2]), (108, at[3])])
    assert report.exit_code is ExitCode.OK
    assert report.style is Style.NONE
    assert report.style_counts == {Style.FIRST_OFFSET: 1, Style.PER_BATCH | Style.APPEND_CALL: 1, ANY_STYLE: 1}


def test_the_last_record_that_a_cleaner_of_2_to_4_kept_is_right():
    calls = [[Spec((5,))], [Spec((6, 7), cut=3)], [Spec((8,))]]
    log, written = write(0, calls)
    batch = written[1][0]
    assert (batch.first, batch.last) == (1, 5)
    kept = offset_report(0, log, [(2, batch.position)])
    (entry,) = kept.entries
    assert (entry.verdict, entry.style) == (Verdict.RIGHT, Style.APPEND_CALL)
    (entry,) = offset_report(0, log, [(3, batch.position)]).entries
    assert entry.verdict is Verdict.STALE


@pytest.mark.parametrize("size", [8, 4096, 10 << 20])
def test_a_preallocated_index_that_was_never_written_has_no_entries(size):
    log, _ = made_log()
    report = reports(100, log, bytes(size), b"")[FileKind.OFFSET_INDEX]
    assert list(report.entries) == []
    assert report.zero_tail_bytes == size
    assert report.exit_code is ExitCode.OK


def test_a_zero_tail_is_told_and_only_a_closed_segment_is_warned_of():
    log, at = made_log()
    raw = offset_index(100, [(104, at[1])]) + bytes(4088)
    times = time_index(100, [(13, 108)]) + bytes(1200)
    found = reports(100, log, raw, times)
    assert found[FileKind.OFFSET_INDEX].zero_tail_bytes == 4088
    assert found[FileKind.TIME_INDEX].zero_tail_bytes == 1200
    assert {found[kind].exit_code for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)} == {ExitCode.OK}
    following = {f"{DIRECTORY}/{109:020d}{suffix}": b"" for suffix in (".log", ".index", ".timeindex")}
    closed = reports(100, log, raw, times, more=following)
    for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
        assert closed[kind].exit_code is ExitCode.WARNINGS
        assert any("KAFKA-10207" in note.message for note in closed[kind].notes)


def test_entries_behind_an_unused_one_are_corruption_and_a_cut_off_entry_is_not():
    log, at = made_log()
    entry = offset_index(100, [(104, at[1])])
    behind = reports(100, log, entry + bytes(8) + entry, b"")[FileKind.OFFSET_INDEX]
    assert behind.exit_code is ExitCode.CORRUPTION
    assert behind.zero_tail_bytes == 0
    cut_off = reports(100, log, entry + b"\0\0\0", b"")[FileKind.OFFSET_INDEX]
    assert cut_off.exit_code is ExitCode.WARNINGS
    assert verdicts(cut_off) == [Verdict.RIGHT]


def test_a_closed_segment_whose_time_index_lacks_the_largest_timestamp():
    log, _ = made_log()
    following = {f"{DIRECTORY}/{109:020d}{suffix}": b"" for suffix in (".log", ".index", ".timeindex")}
    report = reports(100, log, b"", b"", more=following)[FileKind.TIME_INDEX]
    assert [note.message for note in report.notes] == ["no entry for the largest timestamp of the segment, 13"]
    assert report.exit_code is ExitCode.WARNINGS
    active = reports(100, log, b"", b"")[FileKind.TIME_INDEX]
    assert active.exit_code is ExitCode.OK


@pytest.mark.parametrize(
    ("entries", "found", "code", "detail"),
    [
        ([(7, 102)], [Verdict.RIGHT], ExitCode.OK, ""),
        ([(7, 100)], [Verdict.RIGHT], ExitCode.OK, ""),  # 2.8 wrote the offset of the record
        ([(6, 102)], [Verdict.STALE], ExitCode.WARNINGS, "a larger timestamp, 7, comes at or before the offset"),
        ([(9, 107)], [Verdict.STALE], ExitCode.CORRUPTION, "a larger timestamp, 12, comes"),
        ([(12, 108)], [Verdict.STALE], ExitCode.CORRUPTION, "a larger timestamp, 13, comes"),
        # the last entry is taken for the largest timestamp
        ([(14, 108)], [Verdict.STALE], ExitCode.CORRUPTION, "so large a timestamp, the largest is 13"),
        ([(8, 102), (13, 108)], [Verdict.STALE, Verdict.RIGHT], ExitCode.WARNINGS, "the largest is 7"),
        ([(13, 109)], [Verdict.BEYOND_END], ExitCode.CORRUPTION, "not in the log yet"),
        ([(13, 99)], [Verdict.OUT_OF_ORDER], ExitCode.CORRUPTION, "below the base offset"),
        ([(9, 104), (9, 104)], [Verdict.RIGHT, Verdict.OUT_OF_ORDER], ExitCode.CORRUPTION, ""),
        ([(12, 107), (9, 104)], [Verdict.RIGHT, Verdict.OUT_OF_ORDER], ExitCode.CORRUPTION, ""),
    ],
)
def test_what_is_said_of_time_entries(entries, found, code, detail):
    log, _ = made_log()
    report = reports(100, log, b"", time_index(100, entries))[FileKind.TIME_INDEX]
    assert verdicts(report) == found
    assert report.exit_code is code
    assert detail in next(iter(report.entries)).detail


def test_a_time_entry_behind_the_batch_that_has_its_timestamp():
    log, _ = write(0, [[Spec((9,))], [Spec((4,))]])
    report = reports(0, log, b"", time_index(0, [(9, 1)]))[FileKind.TIME_INDEX]
    (entry,) = report.entries
    assert (entry.verdict, entry.exit_code) == (Verdict.STALE, ExitCode.CORRUPTION)
    assert "but of an earlier batch" in entry.detail


def test_append_calls_on_the_brokers_clock_have_the_offset_of_their_last_batch():
    clock = [[Spec((9,), attributes=LOG_APPEND_TIME)] * 3]
    log, _ = write(0, clock)
    report = reports(0, log, b"", time_index(0, [(9, 2)]))[FileKind.TIME_INDEX]
    assert verdicts(report) == [Verdict.RIGHT]
    clients, _ = write(0, [[Spec((9,))] * 3])
    report = reports(0, clients, b"", time_index(0, [(9, 2)]))[FileKind.TIME_INDEX]
    assert verdicts(report) == [Verdict.STALE]


def test_entries_that_point_into_damage_are_unverified_and_those_behind_it_are_checked():
    log, at = made_log()
    damaged = bytearray(log)
    damaged[at[1] + 8 : at[1] + 12] = struct.pack(">i", 1 << 30)
    entries = [(104, at[1]), (107, at[2]), (108, at[3] + 1)]
    found = reports(100, bytes(damaged), offset_index(100, entries), time_index(100, [(9, 104), (12, 107)]))
    assert verdicts(found[FileKind.OFFSET_INDEX]) == [Verdict.UNVERIFIED, Verdict.RIGHT, Verdict.STALE]
    assert verdicts(found[FileKind.TIME_INDEX]) == [Verdict.UNVERIFIED, Verdict.RIGHT]
    log_report = found[FileKind.LOG]
    assert log_report.exit_code is ExitCode.CORRUPTION
    assert (
        log_report.notes[0].message
        == f"at byte {at[1]}: {at[2] - at[1]} bytes that are not a batch; valid batches follow"
    )


def test_an_append_call_that_ends_in_damage_is_unverified():
    log, written = write(0, [[Spec((1,))], [Spec((2,)), Spec((3,), padding=40)], [Spec((4,))]])
    first, lost = written[1]
    damaged = bytearray(log)
    damaged[lost.position + 8 : lost.position + 12] = struct.pack(">i", 1 << 30)
    assert verdicts(offset_report(0, log, [(2, first.position)])) == [Verdict.RIGHT]
    assert verdicts(offset_report(0, bytes(damaged), [(2, first.position)])) == [Verdict.UNVERIFIED]


def test_batches_behind_a_length_that_leads_astray_are_found():
    log, at = made_log()
    damaged = bytearray(log)
    damaged[at[1] + 11] ^= 4  # four bytes more or less: the next header is read at the wrong place
    report = reports(100, bytes(damaged), offset_index(100, [(107, at[2]), (108, at[3])]), b"")[FileKind.OFFSET_INDEX]
    assert verdicts(report) == [Verdict.RIGHT, Verdict.RIGHT]


def test_a_log_whose_offsets_go_down_is_told_and_its_index_checked_all_the_same():
    log, at = made_log()
    damaged = bytearray(log)
    damaged[at[3] : at[3] + 8] = struct.pack(">q", 3)  # outside the CRC
    found = reports(100, bytes(damaged), offset_index(100, [(104, at[1]), (107, at[2])]), time_index(100, [(12, 107)]))
    assert verdicts(found[FileKind.OFFSET_INDEX]) == [Verdict.RIGHT, Verdict.RIGHT]
    assert verdicts(found[FileKind.TIME_INDEX]) == [Verdict.RIGHT]
    assert [note.message for note in found[FileKind.LOG].notes][0] == f"at byte {at[3]}: offsets do not ascend"


@pytest.mark.parametrize(
    ("offsets", "times"),
    [([(104, 90), (107, 80)], [(7, 102), (5, 107)]), ([(107, 80), (104, 90)], [(5, 107), (7, 102)])],
)
def test_without_a_log_only_the_order_is_checked(offsets, times):
    files = {
        f"{DIRECTORY}/{100:020d}.index": offset_index(100, offsets),
        f"{DIRECTORY}/{100:020d}.timeindex": time_index(100, times),
    }
    found = list(index_reports(ReadContext(FaultyFilesystem(files)), [DIRECTORY], Selection()))
    assert [verdicts(report) for report in found] == [[Verdict.UNVERIFIED, Verdict.OUT_OF_ORDER]] * 2
    assert all("no log beside it" in report.notes[0].message for report in found)


def test_compiled_kernels_give_the_same_verdicts():
    pytest.importorskip("numba")
    log, written = write(5, [call(*range(20, 60, 7)) for _ in range(40)])
    offsets, times = indexes(written, PER_BATCH, 300)
    offsets[3] = (offsets[3][0], offsets[3][1] + 1)
    files = {
        f"{DIRECTORY}/{5:020d}.log": log,
        f"{DIRECTORY}/{5:020d}.index": offset_index(5, offsets),
        f"{DIRECTORY}/{5:020d}.timeindex": time_index(5, times),
    }
    plain, compiled = (
        [
            list(report.entries)
            for report in index_reports(
                ReadContext(FaultyFilesystem(files), choice=KernelChoice(forced=forced)), [DIRECTORY], Selection()
            )
        ]
        for forced in (False, True)
    )
    assert plain == compiled
    assert sum(map(len, plain)) > 20
