"""Facts of partitions, files and options exactly at their limits: each rule against a loop over small cases."""

from datetime import datetime, timezone
from itertools import product
from types import SimpleNamespace

import pytest

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import Refused, UnsupportedFormat, UsageError
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.values.schema_set import SchemaSet
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.ops import (
    coordinators,
    export_files,
    partition_facts,
    refusals,
    same_place,
    selection,
    values,
)
from kafkalog_cli.ops.engine import InOrder
from kafkalog_cli.ops.export_request import LogProgress, change_since, progress_of
from kafkalog_cli.ops.group_assignment import ranges_of, uniform_of
from kafkalog_cli.ops.group_history import OffsetChange, OffsetVerdict
from kafkalog_cli.ops.groups import GroupsFound, numbers_to_read, offsets_retention
from kafkalog_cli.ops.log_contents import TimeCounts
from kafkalog_cli.ops.next_steps import ByReplicas
from kafkalog_cli.ops.option_values import days_in_seconds, iso_time
from kafkalog_cli.ops.partition_facts import Replication
from kafkalog_cli.ops.partition_state import PartitionState
from kafkalog_cli.ops.same_place import PartitionIdentity, SeenFile
from kafkalog_cli.ops.selection import Selection
from kafkalog_cli.ops.tables.coordinator_log import STATES, state_name
from kafkalog_cli.ops.values import Failures, UndecodedCounts
from tests.support.logs import BASE_TIME_MS, R, batch_v2, write_segment

FS = RealFilesystem()
DAY_MS = 86_400_000

# -- options


def test_times_that_have_a_date():
    last = int(datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone.utc).timestamp()) * 1000 + 999
    assert (iso_time(0), iso_time(last)) == ("1970-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z")
    assert (iso_time(-1), iso_time(last + 1)) == ("-1", str(last + 1))


def test_numbers_that_are_days_in_seconds():
    for number in (-86_400, 0, 86_399, 86_401, 43_200_000, DAY_MS, 2 * DAY_MS):
        assert days_in_seconds(str(number)) is None
    assert [days_in_seconds(str(86_400 * days)) for days in (1, 2, 7)] == [1, 2, 7]


# -- checkpoints and replicas


@pytest.mark.parametrize("line", [None, 4, 5, 6])
def test_a_line_is_only_lowered_or_only_raised(line):
    kind = FileKind.RECOVERY_POINT_CHECKPOINT
    root = PartitionState("/logs", "t", 0, lines=() if line is None else ((kind, line),))
    assert [edit.offset for edit in root.lower(kind, 5)] == ([5] if line == 6 else [])
    assert [edit.offset for edit in root.lift(kind, 5)] == ([5] if line == 4 else [])


def test_broker_0_leads_and_below_it_nobody():
    for leader in (-1, 0, 1):
        words = Replication((0, 1), (0,), leader, None).words
        assert (f"leader {leader}" in words) == (leader >= 0)
        assert ("no leader" in words) == (leader < 0)


@pytest.mark.parametrize(("replicas", "isr", "here", "step"), [
    ((1,), (1,), None, "no other replica is in sync: alone"), ((1, 2), (1,), None, None),
    ((1, 2), (1,), 1, "no other replica is in sync: alone"), ((1, 2), (1, 2), 1, "in sync elsewhere (2): others"),
])  # fmt: skip
def test_the_step_for_known_replicas(replicas, isr, here, step):
    assert ByReplicas("alone", "others").known(Replication(replicas, isr, 1, here)) == step


@pytest.mark.parametrize(("replicas", "is_told"), [(None, False), ((1,), False), ((1, 2), True)])
def test_other_replicas_are_told_from_two_on(replicas, is_told):
    found = None if replicas is None else Replication(replicas, replicas, 1, 1)
    assert (refusals._replicated(SimpleNamespace(replication=found), None) is not None) == is_told


@pytest.mark.parametrize(("mtime_ms", "is_ahead"), [(999, False), (1000, False), (1001, True)])
def test_a_file_of_this_moment_is_not_from_the_future(mtime_ms, is_ahead):
    facts = SimpleNamespace(newest=SimpleNamespace(mtime_ms=mtime_ms, name="f"))
    assert (refusals._clock(facts, SimpleNamespace(now_ms=1000)) is not None) == is_ahead


@pytest.mark.parametrize(("log_start", "is_supposed"), [(None, False), (4, True), (5, False), (6, False)])
def test_a_log_start_below_the_first_segment_lets_suppose_remote_storage(log_start, is_supposed):
    checkpoints = SimpleNamespace(offset=lambda *_: log_start)
    config = SimpleNamespace(remote_storage_enable=False, is_configured=lambda name: False)
    partition = SimpleNamespace(segments=[SimpleNamespace(base_offset=5)], topic="t", number=0)
    assert bool(partition_facts._tiered(partition, config, None, checkpoints)) == is_supposed


# -- the same place, seen twice


def identity(files, *, host="a", runs=(), is_locked=True):
    seen = {name: SeenFile(size, 0) for name, size in files.items()}
    return PartitionIdentity(host, "/logs/t-0", None, None, 1, seen, frozenset(runs), is_locked)


def test_a_log_that_is_only_read_may_grow():
    """Its newest file may be larger, or older than another that came; without it, no newer one may be there."""
    before = identity({"5.log": 10}, is_locked=False)
    for size, is_same in ((9, False), (10, True), (11, True)):
        assert (before._of_newest(identity({"5.log": size}, host="b")) is None) == is_same
    assert before._of_newest(identity({"5.log": 9, "7.log": 1}, host="b")) is None
    assert before._of_newest(identity({"7.log": 1}, host="b")) is None
    assert before._of_newest(identity({"3.log": 1}, host="b")) is not None


@pytest.mark.parametrize(("runs", "is_taken"), [((), False), (("r",), False), (("r", "s"), True)])
def test_files_may_differ_after_another_run_of_the_same_work(monkeypatch, runs, is_taken):
    before, here = identity({"5.log": 10}, runs=["r"]), identity({"5.log": 9}, host="b", runs=runs)
    monkeypatch.setattr(same_place, "sight", lambda *_: here)
    try:
        before.check(FS, "b", is_again=True)
    except Refused:
        assert not is_taken
    else:
        assert is_taken


# -- selections


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 30])
def test_so_many_names_are_listed(monkeypatch, count):
    monkeypatch.setattr(selection, "_MOST_LISTED", 3)
    more = f" and {count - 3} more" if count > 3 else ""
    assert selection._listed(range(count)) == ", ".join(map(str, range(min(count, 3)))) + more


def test_topics_that_resemble_the_chosen_one_come_first(monkeypatch):
    chosen = Selection(topics=("abcd",))
    monkeypatch.setattr(selection, "_RESEMBLES", 0.75)  # that of abce
    assert [selection._distance(chosen, topic)[0] for topic in ("abcd", "abce", "xyz")] == [-1, 0, 0]
    monkeypatch.setattr(selection, "_RESEMBLES", 0.74)
    assert selection._distance(chosen, "abce")[0] == -0.75


def test_a_directory_of_several_partitions_needs_a_topic(tmp_path):
    for name in ("a-0", "b-0", "c-0"):
        (tmp_path / name).mkdir()
        write_segment(tmp_path / name, 0, [(batch_v2([R(0, BASE_TIME_MS)]), 0, BASE_TIME_MS)])

    def chosen(*paths, **options):
        return [one.topic for one in selection.select_of_topics(FS, list(paths), Selection(**options))]

    root, one, other = str(tmp_path), str(tmp_path / "a-0"), str(tmp_path / "b-0")
    assert (chosen(one), chosen(one, other), chosen(root, topics=("a",))) == (["a"], ["a", "b"], ["a"])
    assert chosen(root, one, other) == ["a", "b", "c"]  # a directory that has one more
    with pytest.raises(UsageError):
        chosen(root)
    with pytest.raises(UsageError):
        chosen(root, one)


# -- exports


@pytest.mark.parametrize(("start", "end", "word"), [
    (3, 4, "it ends at offset 4"), (3, 5, None), (5, 6, None), (6, 7, "it begins at offset 6"),
])  # fmt: skip
def test_an_export_goes_on_where_the_log_has_its_next_offset(start, end, word):
    found = change_since(FS, None, LogBounds(start, end), None, LogProgress(5, None, None, None), None)
    assert (found is None) == (word is None)
    assert word is None or word in found.reason


def test_partitions_of_a_saved_state_are_int32():
    def state(number):
        log = {"topic": "t", "partition": number, "next_offset": 0, "topic_id": None, "last_offset": None}
        return {"logs": [{**log, "last_record": None}]}

    for number in (-1, 0, 2**31 - 1):
        assert list(progress_of("p", state(number))) == [("t", number)]
    for number in (-2, 2**31):
        with pytest.raises(UnsupportedFormat):
            progress_of("p", state(number))


def test_days_that_have_a_directory():
    """Years of four digits; all other times, and no time, go where records without a day are."""
    low = -719_528 * DAY_MS
    high = (int(datetime(9999, 12, 31, tzinfo=timezone.utc).timestamp())) * 1000
    for millis, day in (
        (low, "0000-01-01"), (low - 1, None), (high, "9999-12-31"), (high + DAY_MS - 1, "9999-12-31"),
        (high + DAY_MS, None), (high + 2 * DAY_MS, None), (-1, None), (0, "1970-01-01"), (-2, "1969-12-31"),
    ):  # fmt: skip
        assert export_files.by_day([millis]) == [(day or export_files.NO_DAY, None)], millis
    found = export_files.by_day([0, DAY_MS, -1, DAY_MS - 1])
    assert [(day, rows.tolist()) for day, rows in found] == [
        ("1970-01-01", [0, 3]),
        ("1970-01-02", [1]),
        (export_files.NO_DAY, [2]),
    ]


@pytest.mark.parametrize(("more", "found"), [(0, None), (1, ("value", 0, 41))])
def test_a_field_may_be_as_large_as_the_limit(monkeypatch, more, found):
    pa = pytest.importorskip("pyarrow")
    monkeypatch.setattr(export_files, "MOST_FILE_FIELD_BYTES", 40)
    batch = pa.RecordBatch.from_pydict({"key": [b"k" * 40, b""], "value": [b"v" * (40 + more), b"w" * 40]})
    assert export_files.too_large_field(batch) == found


def test_rows_are_written_when_a_row_group_is_full(monkeypatch):
    pa = pytest.importorskip("pyarrow")
    part = pa.RecordBatch.from_pydict({"key": [b"k"]})
    for limit, written in ((part.nbytes, [1, 1, 1]), (part.nbytes + 1, [2]), (3 * part.nbytes, [3])):
        monkeypatch.setattr(export_files, "ROW_GROUP_BYTES", limit)
        tables = []
        out = SimpleNamespace(write_table=lambda _, rows, tables=tables: tables.append(rows))
        gathering = export_files.TableWriter(part.schema, out)
        for _ in range(3):
            gathering.write(part)
        assert tables == written


# -- values that are not decoded, and schemas in files


def test_failures_in_words():
    assert "the key of offset 0 is not" in Failures("key", "why", 0, 1).message
    assert "the key of offset 7 and 2 more are not" in Failures("key", "why", 7, 3).message
    assert "2 keys or values are not decoded for other" in Failures("contents", "why", -1, 2).message


def test_so_many_reasons_are_kept(monkeypatch):
    monkeypatch.setattr(values, "_MOST_REASONS", 2)
    counts = UndecodedCounts()
    for offset, reason in enumerate("aabcb"):
        counts.add("key", reason, offset)
    assert [(one.reason, one.first_offset, one.records) for one in counts.failures()] == [
        ("a", 0, 2),
        ("b", 2, 2),
        ("other reasons", -1, 1),
    ]


def test_schemas_in_files(tmp_path, monkeypatch):
    for name, limit in (("_MOST_FILE_BYTES", 10), ("_MOST_FILES", 4), ("_MOST_DEPTH", 2)):
        monkeypatch.setattr(values, name, limit)
    for name, size in {
        "1.avsc": 10, "2.avsc": 11, "d/3.avsc": 1, "d/d/1234567890.avsc": 1, "d/d/d/5.avsc": 1, "s.avsc": 1, "t.avsc": 10,
    }.items():  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b'"' + b"x" * (size - 1))
    notes = []
    files = values._SchemaFiles(FS, str(tmp_path), SchemaSet(), notes)
    files.read()
    assert list(files._texts) == ["1.avsc", "d/3.avsc", "d/d/1234567890.avsc", "s.avsc"]
    assert [(note.path.rpartition("/")[2], note.message.rpartition(" is ")[2]) for note in notes] == [
        ("2.avsc", "10 bytes"),
        ("t.avsc", "4 files"),
    ]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_records_of_schemas_that_are_none_are_one_note(monkeypatch, count):
    problems = [Fault(FaultKind.CRC_MISMATCH, 0, f"problem {at}") for at in range(count)]
    segment = SimpleNamespace(blocks=lambda: problems)
    monkeypatch.setattr(values, "open_partition", lambda *_: None)
    monkeypatch.setattr(values, "LogRead", lambda *_: SimpleNamespace(segments=lambda: [segment]))
    notes = []
    values._read_partition(FS, "/d/_schemas-0", SchemaSet(), notes)
    more = "; so are others" if count == 2 else ""
    assert [note.message for note in notes] == ([f"schemas may be missing: problem 0{more}"] if count else [])


# -- groups and transactional ids


def test_partitions_are_divided_into_ranges():
    """RangeAssignor: each gets N, the first ones one more."""
    for count, members in product(range(8), range(1, 5)):
        found = ranges_of(range(count), members)
        assert [one for part in found for one in part] == list(range(count))
        sizes = [len(part) for part in found]
        assert sizes == sorted(sizes, reverse=True)
        assert len(sizes) == members
        assert max(sizes) - min(sizes) <= 1


def test_as_few_partitions_as_possible_move():
    """Of two members with the same topic: those above one more than the other's."""
    for first, second in product(range(6), repeat=2):
        everything = list(range(first + second))
        found = uniform_of({"a": everything, "b": everything}, {"a": everything[:first], "b": everything[first:]})
        assert set().union(*found.values()) == set(everything)
        assert abs(len(found["a"]) - len(found["b"])) <= 1
        moved = len(found["b"] - set(everything[first:])) + len(found["a"] - set(everything[:first]))
        assert moved == abs(first - second) // 2


def test_an_offset_that_goes_back():
    for offset, previous in product((None, 4, 5), repeat=2):
        change = OffsetChange("g", "t", 0, offset, previous, OffsetVerdict.COMMIT, None, None, 0, 0)
        assert change.is_back == (offset == 4 and previous == 5)


def test_names_of_the_states_of_transactions():
    assert [state_name(number) for number in range(-1, len(STATES) + 1)] == [None, *STATES, None]


@pytest.mark.parametrize(("text", "minutes"), [("1", 1), (" 7 ", 7), ("0", None), ("-1", None), ("x", None)])
def test_offsets_are_kept_for_at_least_a_minute(tmp_path, text, minutes):
    path = tmp_path / "server.properties"
    path.write_text(f"offsets.retention.minutes={text}\n")
    if minutes is None:
        with pytest.raises(UsageError):
            offsets_retention(FS, str(path))
    else:
        assert offsets_retention(FS, str(path)).retention_ms == minutes * 60_000


def test_only_partitions_of_the_groups_are_read_if_all_are_here():
    topic = SimpleNamespace(numbers=[1, 2, 3], partition_of={"a": 1, "b": 2, "away": 9, "unknown": None}.get)
    for groups, wanted in (("", [1, 2, 3]), ("a", [1]), ("ab", [1, 2])):
        assert numbers_to_read(topic, list(groups)) == wanted
    for other in ("away", "unknown"):
        assert numbers_to_read(topic, ["a", other]) == [1, 2, 3]
    every = SimpleNamespace(numbers=[1], partition_of=lambda group: 1)
    assert numbers_to_read(every, ["a"]) == [1]


@pytest.mark.parametrize("count", [1, 9, 10, 11, 12])
def test_other_groups_are_named(count):
    topic = SimpleNamespace(partition_of=lambda group: None, numbers=[])
    found = GroupsFound(topic, ["wanted"])
    found.see([f"g{at:02d}" for at in range(count)])
    with pytest.raises(Exception, match="there is no group wanted") as error:
        found.check()
    named = sum(f"g{at:02d}" in str(error.value) for at in range(count))
    assert (" more" in str(error.value)) == (named < count)
    assert named == count or f" and {count - named} more" in str(error.value)


def test_results_are_sorted_in_runs_of_so_many_rows(monkeypatch):
    monkeypatch.setattr(coordinators, "MOST_SORTED_ROWS", 3)
    found = coordinators.in_sorted_runs(["cc", "b", "a", "d"], str, len)
    assert list(found) == ["b", "cc", "a", "d"]


@pytest.mark.parametrize(("epoch", "told"), [(-1, ""), (0, " of leader epoch 0"), (3, " of leader epoch 3")])
def test_where_a_copy_ends(epoch, told):
    copy = SimpleNamespace(leader_epoch=epoch, bounds=SimpleNamespace(next_offset=7))
    assert coordinators._place(copy) == f"offset 7{told}"


# -- records over time


def test_bars_have_all_records_of_a_time():
    counts = TimeCounts(10, {at: at + 1 for at in range(7)})
    for number in range(1, 10):
        bars = counts.bars(0, 69, number)
        assert (len(bars), sum(bars)) == (number, 28)
        wanted = [0] * number
        for begin, count in ((10 * at, at + 1) for at in range(7)):
            wanted[begin * number // 70] += count
        assert list(bars) == wanted


@pytest.mark.parametrize("jobs", [1, 2])
def test_jobs_run_in_other_threads_if_there_are_several(jobs):
    import threading

    with InOrder([threading.get_ident] * 3, jobs, "name") as found:
        assert all((one == threading.get_ident()) == (jobs == 1) for one in found)
