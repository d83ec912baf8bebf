"""Export by a state: what is new exactly once, whatever is cut off; logs that are not what they were."""

import json
import shutil

import pytest

from tests.spark.exporting import export, files, offsets, tasks_here
from tests.spark.test_spark_rows import log_dir
from tests.support.logs import BASE_TIME_MS, TRANSACTIONAL, R, batch_v2, end_marker
from tests.support.product import (
    ExitCode,
    KafkalogError,
    OffsetOutOfRange,
    RealFilesystem,
    Refused,
    UnsupportedFormat,
    UsageError,
)
from tests.support.product_spark import FileFormat, Isolation, OnDamage, replace_point, small_batches_only, small_tasks
from tests.support.watched_fs import CHANGES, WatchedFilesystem

TOPIC_ID, OTHER_ID = "WuCVu3LJQ7OFqDRBv1fkdw", "AuCVu3LJQ7OFqDRBv1fkdw"


def batch(offset, value=b"v", count=2):
    return batch_v2([R(offset + i, BASE_TIME_MS + offset + i, b"k%d" % offset, value) for i in range(count)])


def log(folder, *parts, topic="orders", partition=0, base=0, topic_id=None):
    made = log_dir(folder, b"".join(parts), topic, partition, base)
    if topic_id is not None:
        data = f"version: 0\ntopic_id: {topic_id}".encode()
        (made / f"{topic}-{partition}" / "partition.metadata").write_bytes(data)
    return made


def of(output, partition=0):
    return [offset for _, number, offset in offsets(output) if number == partition]


def stats(output):
    """What tells that a file was not written again; reading it changes when it was read."""
    found = {name: (output / name).stat() for name in files(output)}
    return {name: (one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns) for name, one in found.items()}


def test_an_incremental_export_writes_only_new_records(tmp_path):
    out, state = tmp_path / "out", tmp_path / "state.json"
    log(tmp_path / "log", batch(0), batch(2))
    assert len(export(tmp_path / "log", out, state).files) == 1
    before = stats(out)
    nothing = export(tmp_path / "log", out, state)
    assert (nothing.files, nothing.exit_code) == ([], ExitCode.OK)
    log(tmp_path / "log", batch(0), batch(2), batch(4), b"\0" * 10)  # the broker is writing: not whole yet
    log(tmp_path / "log", batch(0), partition=1)
    assert export(tmp_path / "log", out, state).exit_code is ExitCode.OK
    assert (of(out), of(out, 1)) == ([0, 1, 2, 3, 4, 5], [0, 1])
    log(tmp_path / "log", batch(0), batch(2), batch(4), batch(6))
    export(tmp_path / "log", out, state)
    assert (of(out), of(out, 1)) == ([*range(8)], [0, 1])
    assert {name: stats(out)[name] for name in before} == before
    known = json.loads(state.read_text())
    assert [(one["partition"], one["next_offset"]) for one in known["state"]["logs"]] == [(0, 8), (1, 2)]


def test_an_incremental_export_reports_records_that_retention_removed_before_it(tmp_path):
    out, state = tmp_path / "out", tmp_path / "state.json"
    log(tmp_path / "log", batch(0))
    export(tmp_path / "log", out, state)
    log(tmp_path / "log", batch(0), batch(2))
    log(tmp_path / "log", batch(4), base=4)
    (tmp_path / "log" / "orders-0" / f"{0:020d}.log").unlink()
    result = export(tmp_path / "log", out, state)
    assert [note.message for note in result.gaps] == [
        "it begins at offset 4 by now: records from 2 on went before they were exported"
    ]
    assert result.exit_code is ExitCode.WARNINGS
    assert of(out) == [0, 1, 4, 5]
    assert export(tmp_path / "log", out, state).exit_code is ExitCode.OK


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("parts", "topic_id", "message"),
    [
        ([batch(0), batch(2), batch(4)], OTHER_ID, f"the id is {OTHER_ID}, the state knows {TOPIC_ID}"),
        ([batch(0)], TOPIC_ID, "it ends at offset 2, the state has it exported up to 4"),
        ([batch(0), batch(2, b"w"), batch(4)], TOPIC_ID, "another record is at offset 3 than was exported"),
        ([batch(0), batch(2, b"w"), batch(4)], None, "another record is at offset 3 than was exported"),
    ],
)
def test_an_incremental_export_refuses_another_log_of_the_same_name(tmp_path, parts, topic_id, message):
    out, state = tmp_path / "out", tmp_path / "state.json"
    log(tmp_path / "log", batch(0), batch(2), topic_id=TOPIC_ID)
    log(tmp_path / "log", batch(0), partition=1)
    export(tmp_path / "log", out, state)
    was = state.read_bytes()
    shutil.rmtree(tmp_path / "log" / "orders-0")
    log(tmp_path / "log", *parts, topic_id=topic_id)
    log(tmp_path / "log", batch(0), batch(2), partition=1)
    with pytest.raises(Refused, match=f"orders-0: refused: .*{message}.*; nothing was exported; export it with"):
        export(tmp_path / "log", out, state)
    assert (state.read_bytes(), of(out), of(out, 1)) == (was, [0, 1, 2, 3], [0, 1])


def test_an_incremental_export_continues_after_compaction_removed_its_last_record(tmp_path, monkeypatch):
    """The last record that was exported is gone, and so are offsets, also between tasks: it goes on all the same."""
    small_tasks(monkeypatch, 100)
    out, state = tmp_path / "out", tmp_path / "state.json"
    log(tmp_path / "log", batch(0), batch(2))
    export(tmp_path / "log", out, state)
    log(tmp_path / "log", batch(0), batch(7))
    assert export(tmp_path / "log", out, state).exit_code is ExitCode.OK
    assert of(out) == [0, 1, 2, 3, 7, 8]
    log(tmp_path / "log", batch(12), base=12)
    log(tmp_path / "log", batch(20), base=20)
    assert export(tmp_path / "log", out, state).exit_code is ExitCode.OK
    assert export(tmp_path / "log", out, state).files == []
    assert of(out) == [0, 1, 2, 3, 7, 8, 12, 13, 20, 21]


def test_read_committed_goes_on_where_a_transaction_was_open(tmp_path, monkeypatch):
    small_tasks(monkeypatch, 100)
    out, state = tmp_path / "out", tmp_path / "state.json"
    begun = [batch(0), batch_v2([R(2, BASE_TIME_MS, b"t", b"v")], producer=(7, 0, 0), bits=TRANSACTIONAL)]
    log(tmp_path / "log", *begun)
    log(tmp_path / "log", batch(3), base=3)
    for _ in range(2):
        export(tmp_path / "log", out, state, isolation=Isolation.READ_COMMITTED)
        assert of(out) == [0, 1]
    log(tmp_path / "log", batch(3), end_marker(5, BASE_TIME_MS, (7, 0), 1), batch(6), base=3)
    export(tmp_path / "log", out, state, isolation=Isolation.READ_COMMITTED)
    assert of(out) == [0, 1, 2, 3, 4, 6, 7]


def test_an_incremental_export_goes_past_damage_if_the_mode_drops_it(tmp_path):
    out, state = tmp_path / "out", tmp_path / "state.json"
    log(tmp_path / "log", batch(0))
    export(tmp_path / "log", out, state, mode=OnDamage.DROPMALFORMED)
    log(tmp_path / "log", batch(0), batch(2)[:-1] + b"x", batch(4))
    assert export(tmp_path / "log", out, state, mode=OnDamage.DROPMALFORMED).exit_code is ExitCode.CORRUPTION
    assert export(tmp_path / "log", out, state, mode=OnDamage.DROPMALFORMED).exit_code is ExitCode.OK
    assert of(out) == [0, 1, 4, 5]


def test_an_incremental_export_stops_before_a_batch_too_large_to_read(tmp_path, monkeypatch):
    """What comes behind it in other tasks waits too: a later run, which may read it, goes on from there."""
    small_tasks(monkeypatch, 100)
    out, state = tmp_path / "out", tmp_path / "state.json"
    log(tmp_path / "log", batch(0), batch(2, b"v" * 900), batch(4))
    log(tmp_path / "log", batch(6), base=6)
    with monkeypatch.context() as patch:
        replace_point(patch, "reading of an export", small_batches_only)
        result = export(tmp_path / "log", out, state, mode=OnDamage.DROPMALFORMED)
        assert (result.exit_code, of(out)) == (ExitCode.FAILURE, [0, 1])
    assert export(tmp_path / "log", out, state, mode=OnDamage.DROPMALFORMED).exit_code is ExitCode.OK
    assert of(out) == list(range(8))


def test_a_state_is_for_one_kind_of_export(tmp_path):
    out, state = tmp_path / "out", tmp_path / "state.json"
    log(tmp_path / "log", batch(0))
    export(tmp_path / "log", out, state)
    with pytest.raises(UsageError, match="is of an export with format parquet: all runs into it must agree"):
        export(tmp_path / "log", out, state, format=FileFormat.ARROW, codec="none")
    with pytest.raises(Refused, match=r"it is the record of .*/out, not of .*/other"):
        export(tmp_path / "log", tmp_path / "other", state)
    state.write_text(state.read_text().replace('"logs"', '"nothing"'))
    with pytest.raises(UnsupportedFormat, match="it is not the state of an export"):
        export(tmp_path / "log", out, state)
    state.write_text("{")
    with pytest.raises(UnsupportedFormat, match="no earlier run wrote this content"):
        export(tmp_path / "log", out, state)


class Cut(BaseException):
    """The process is gone."""


class CutAfter(WatchedFilesystem):
    """After so many changes of the driver nothing is done any more."""

    def __init__(self, count):
        super().__init__(RealFilesystem())
        self.left = count

    def perform(self, call, action):
        if call.name in CHANGES:
            if self.left == 0:
                raise Cut
            self.left -= 1
        return super().perform(call, action)


@pytest.mark.exhaustive
@pytest.mark.parametrize("with_state", [True, False])
def test_an_incremental_export_cut_off_after_any_change_continues_without_a_double(tmp_path, with_state):
    """At each step of the driver: nothing is lost and nothing comes twice, and what is left is removed."""
    for partition in range(2):
        log(tmp_path / "log", batch(0), batch(2), partition=partition)
    cut_when_seen = 0
    for count in range(200):
        out, state = tmp_path / f"out{count}", tmp_path / f"state{count}" if with_state else None
        try:
            export(tmp_path / "log", out, state, fs=CutAfter(count))
        except Cut:
            cut_when_seen += files(out) != []
        else:
            break
        committed = state.exists() if with_state else (out / ".kafkalog" / "committed.json").exists()
        assert committed or files(out) == [] or (not with_state and len(files(out)) == 2)
        if with_state or committed or not files(out):
            again = export(tmp_path / "log", out, state)
            assert again.exit_code is ExitCode.OK
            assert bool(again.completed) == committed or not again.files
            told = {one.path: one for one in (*again.completed, *again.files)}
            assert set(told) in (set(), set(files(out)))  # a run that was cut off told nobody of its files
            for name, one in told.items():
                assert (one.records, one.last_offset, one.size_bytes) == (4, 3, (out / name).stat().st_size)
        assert (of(out), of(out, 1)) == ([0, 1, 2, 3], [0, 1, 2, 3])
        if with_state:
            export(tmp_path / "log", out, state)
            assert (of(out), of(out, 1)) == ([0, 1, 2, 3], [0, 1, 2, 3])
            left = [path.name for path in (out / ".kafkalog").rglob("*")]
            assert left == ["lock"]
    assert 15 < count < 100
    assert cut_when_seen > 2


def test_a_record_that_does_not_say_what_its_files_hold(tmp_path):
    """It is completed all the same, and only that is an error."""
    log(tmp_path / "log", batch(0))
    out, state = tmp_path / "out", tmp_path / "state"
    export(tmp_path / "log", out, state)
    (name,) = files(out)
    record = json.loads(state.read_text())
    staging = out / ".kafkalog" / record["run"]
    staging.mkdir()
    (out / name).rename(staging / "x.tmp")
    state.write_text(json.dumps({**record, "coming": [{"staged": "x.tmp", "path": name}]}))
    with pytest.raises(UnsupportedFormat, match="what it made is not noted"):
        export(tmp_path / "log", out, state)
    assert (files(out), of(out)) == ([name], [0, 1])
    assert export(tmp_path / "log", out, state).completed == ()


def test_a_task_that_fails_leaves_nothing(tmp_path):
    out, state = tmp_path / "out", tmp_path / "state.json"
    log(tmp_path / "log", batch(0))

    def fails(items, work):
        tasks_here(items, work)
        raise KafkalogError(reason="of the second task")

    with pytest.raises(KafkalogError, match="of the second task"):
        export(tmp_path / "log", out, state, run_tasks=fails)
    assert (out.exists(), state.exists()) == (False, False)
    export(tmp_path / "log", out, state)
    assert of(out) == [0, 1]


def test_a_task_that_is_tried_again_leaves_no_double(tmp_path):
    out = tmp_path / "out"
    log(tmp_path / "log", batch(0))

    def twice(items, work):
        lost = tasks_here(items, Renamed(work))
        assert lost
        return tasks_here(items, work)

    export(tmp_path / "log", out, run_tasks=twice)
    assert of(out) == [0, 1]
    assert len(files(out)) == 1


class Renamed:
    """An attempt whose result is lost; its files have other names."""

    def __init__(self, work):
        self.work = work

    def __call__(self, item, advance):
        with pytest.MonkeyPatch.context() as patch:
            replace_point(patch, "attempt of a task of an export", lambda _: lambda: "lost")
            return self.work(item, advance)


def test_an_incremental_export_fails_where_retention_removes_records_while_it_runs(tmp_path):
    out, state = tmp_path / "out", tmp_path / "state.json"
    log(tmp_path / "log", batch(0))
    log(tmp_path / "log", batch(2), base=2)

    def late(items, work):
        (tmp_path / "log" / "orders-0" / f"{0:020d}.log").unlink()
        return tasks_here(items, work)

    with pytest.raises(OffsetOutOfRange, match="offset 0 is outside the log"):
        export(tmp_path / "log", out, state, run_tasks=late)
    assert (files(out), state.exists()) == ([], False)
