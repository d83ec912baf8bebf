"""Offset and time indexes against a naive model: every style is told, every lie is noticed or misleads nobody."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from tests.model.index_model import (
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
from tests.support.index_dumps import dumped, verdicts

STYLES = {FIRST_OFFSET, APPEND_CALL, PER_BATCH}
DIRECTORY = "/log/topic-0"


def reports(base_offset, log, index=None, times=None):
    """The reports on a partition of one segment, by kind."""
    files = {f"{DIRECTORY}/{base_offset:020d}.log": log}
    if index is not None:
        files[f"{DIRECTORY}/{base_offset:020d}.index"] = index
    if times is not None:
        files[f"{DIRECTORY}/{base_offset:020d}.timeindex"] = times
    return {report.kind: report for report in reversed(dumped(files, DIRECTORY).values())}


def offset_report(base_offset, log, entries):
    return reports(base_offset, log, offset_index(base_offset, entries), b"")[".index"]


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
    assert set(verdicts(found[".index"])) <= {"right"}
    assert set(verdicts(found[".timeindex"])) <= {"right"}
    assert {report.exit_code for report in found.values() if report.path.endswith("index")} == {0}
    assert len(list(found[".index"].entries)) == len(offsets)
    assert len(list(found[".timeindex"].entries)) == len(times)
    if offsets:
        assert style in found[".index"].styles
        assert set(found[".index"].styles) == expected_style(written, offsets)


def expected_style(calls, entries):
    """The styles that the entries leave open, worked out from the batches one by one."""
    batches = {batch.position: batch for call in calls for batch in call}
    style = STYLES
    for offset, position in entries:
        batch = batches[position]
        if offset == batch.first == batch.last:
            continue
        if offset == batch.last:
            style = style & {PER_BATCH, APPEND_CALL}
        elif offset == batch.first:
            style = style & {FIRST_OFFSET}
        else:
            style = style & {APPEND_CALL}
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
    report = reports(base, log, raw, b"")[".index"]
    if report.exit_code != 4:
        for target in range(base, batches[-1].last + 2):
            assert find_offset(batches, in_use(changed, base), target) == find_offset(batches, [], target), target
    if changed[slot] != offsets[slot] and report.exit_code == 0 and not report.zero_tail_bytes:
        assert not report.styles or expected_style(written, changed) in (set(report.styles), set())


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
    report = found[".timeindex"]
    if report.exit_code == 4:
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


def test_an_append_call_ends_before_the_next_entry():
    log, at = made_log()
    report = offset_report(100, log, [(107, at[1]), (108, at[2])])
    first, second = report.entries
    assert (first.verdict, first.is_tolerable) == ("stale", True)
    assert "after the target of the next entry" in first.detail
    assert second.verdict == "right"


def test_the_style_of_a_file_that_two_brokers_wrote_is_mixed():
    log, at = made_log()
    report = offset_report(100, log, [(103, at[1]), (107, at[2]), (108, at[3])])
    assert report.exit_code == 0
    assert report.styles == []
    assert [one["styles"] for one in report.style_counts] == [
        [FIRST_OFFSET],
        [APPEND_CALL, PER_BATCH],
        [FIRST_OFFSET, APPEND_CALL, PER_BATCH],
    ]


def test_the_last_record_that_a_cleaner_of_2_to_4_kept_is_right():
    calls = [[Spec((5,))], [Spec((6, 7), cut=3)], [Spec((8,))]]
    log, written = write(0, calls)
    batch = written[1][0]
    assert (batch.first, batch.last) == (1, 5)
    kept = offset_report(0, log, [(2, batch.position)])
    (entry,) = kept.entries
    assert (entry.verdict, entry.styles) == ("right", [APPEND_CALL])
    (entry,) = offset_report(0, log, [(3, batch.position)]).entries
    assert entry.verdict == "stale"


def test_append_calls_on_the_brokers_clock_have_the_offset_of_their_last_batch():
    clock = [[Spec((9,), attributes=LOG_APPEND_TIME)] * 3]
    log, _ = write(0, clock)
    report = reports(0, log, b"", time_index(0, [(9, 2)]))[".timeindex"]
    assert verdicts(report) == ["right"]
    clients, _ = write(0, [[Spec((9,))] * 3])
    report = reports(0, clients, b"", time_index(0, [(9, 2)]))[".timeindex"]
    assert verdicts(report) == ["stale"]


def test_entries_that_point_into_damage_are_unverified_and_those_behind_it_are_checked():
    log, at = made_log()
    damaged = bytearray(log)
    damaged[at[1] + 8 : at[1] + 12] = struct.pack(">i", 1 << 30)
    entries = [(104, at[1]), (107, at[2]), (108, at[3] + 1)]
    found = reports(100, bytes(damaged), offset_index(100, entries), time_index(100, [(9, 104), (12, 107)]))
    assert verdicts(found[".index"]) == ["unverified", "right", "stale"]
    assert verdicts(found[".timeindex"]) == ["unverified", "right"]
    log_report = found[".log"]
    assert log_report.exit_code == 4
    assert (
        log_report.notes[0].message == f"at byte {at[1]}: {at[2] - at[1]} bytes are not a batch; valid batches follow"
    )


def test_an_append_call_that_ends_in_damage_is_unverified():
    log, written = write(0, [[Spec((1,))], [Spec((2,)), Spec((3,), padding=40)], [Spec((4,))]])
    first, lost = written[1]
    damaged = bytearray(log)
    damaged[lost.position + 8 : lost.position + 12] = struct.pack(">i", 1 << 30)
    assert verdicts(offset_report(0, log, [(2, first.position)])) == ["right"]
    assert verdicts(offset_report(0, bytes(damaged), [(2, first.position)])) == ["unverified"]


def test_batches_behind_a_length_that_leads_astray_are_found():
    log, at = made_log()
    damaged = bytearray(log)
    damaged[at[1] + 11] ^= 4  # four bytes more or less: the next header is read at the wrong place
    report = reports(100, bytes(damaged), offset_index(100, [(107, at[2]), (108, at[3])]), b"")[".index"]
    assert verdicts(report) == ["right", "right"]


def test_a_log_whose_offsets_descend_is_noted_and_its_index_checked():
    log, at = made_log()
    damaged = bytearray(log)
    damaged[at[3] : at[3] + 8] = struct.pack(">q", 3)  # outside the CRC
    found = reports(100, bytes(damaged), offset_index(100, [(104, at[1]), (107, at[2])]), time_index(100, [(12, 107)]))
    assert verdicts(found[".index"]) == ["right", "right"]
    assert verdicts(found[".timeindex"]) == ["right"]
    assert found[".log"].notes[0].message == f"at byte {at[3]}: offsets do not ascend: 3 to 3 after 107"
