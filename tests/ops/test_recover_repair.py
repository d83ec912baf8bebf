"""Plain recovery: what it does to each damaged case of the corpus, and that it leaves sound logs alone."""

import shutil
import struct
from pathlib import Path

import pytest

from kafkalog_cli.broker.loaded_segment import LoadSettings
from kafkalog_cli.broker.log_loader import StartState
from kafkalog_cli.change.changes import Cut, Put
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.ops.checks.segment_walk import log_range
from kafkalog_cli.ops.recover.repair import EVERYTHING, Scope, plan_repair
from tests.support.logs import BASE_TIME_MS, R, batch_v2, message, write_segment
from tests.support.plain_changes import files, make

NOW_MS = 1_795_000_000_000
SETTINGS = LoadSettings(NOW_MS, segment_index_bytes=4096, index_interval_bytes=300)
UNKNOWN = StartState(is_clean=False)

NOTHING = {
    "asis",
    "deleted",  # what is deleted is the business of purge
    "gap",
}
REFUSED = {"flip-first-seg", "flip-len", "flip-magic", "flip-mid", "flip-offset", "huge-len"}
CUT = {"cut-header", "cut-len", "flip-tail", "garbage-tail", "torn", "zero-tail"}
MADE_ANEW = {
    "bad-index-size",
    "zero-index",
    "bad-snapshot",
    "del-epoch",
    "del-first-index",
    "del-index",
    "del-snapshots",
    "del-timeindex",
    "empty-tail",
    "flip-epoch",
    "garbage-index",
    "plausible-index",
}
TAKEN_AWAY = {"cleaned", "orphan-index", "swap-cleaned"}
PUT_IN_PLACE = {"swap"}


def cases(corpus):
    return sorted(path.name for path in corpus.iterdir() if path.name.startswith(("crash-", "clean-")))


def plan(directory, scope=EVERYTHING, start=UNKNOWN, settings=SETTINGS):
    fs = RealFilesystem()
    return plan_repair(Draft(fs, str(directory)), open_partition(fs, str(directory)), start, settings, scope)


def copied(directory, tmp_path):
    target = tmp_path / Path(directory).name
    shutil.copytree(directory, target)
    for path in [target, *target.iterdir()]:
        path.chmod(0o700)
    return target


def test_the_table_has_every_case(corpus):
    kinds = {name.partition("-")[2] for name in cases(corpus)}
    assert kinds == NOTHING | REFUSED | CUT | MADE_ANEW | TAKEN_AWAY | PUT_IN_PLACE


def test_damaged_cases(corpus, tmp_path):
    """What is planned for each, that it leads to a partition with nothing left to do, and that no record goes."""
    for name in cases(corpus):
        kind = name.partition("-")[2]
        before = corpus / name / "before" / f"{name}-0"
        found = plan(before)
        assert found.is_refused == (kind in REFUSED), name
        assert bool(found.changes) == (kind in CUT | MADE_ANEW | TAKEN_AWAY | PUT_IN_PLACE), name
        assert bool(found.cut) == (kind in CUT), name
        wanted = ExitCode.REFUSED if kind in REFUSED else ExitCode.OK if kind in NOTHING else ExitCode.WARNINGS
        assert found.exit_code is wanted, name
        if found.is_refused:
            assert not found.changes
            assert "--salvage" in found.remarks[-1].next_step
            continue
        target = copied(before, tmp_path)
        make(target, found.changes)
        again = plan(target)
        assert not again.has_work, name
        assert again.exit_code is ExitCode.OK, name
        assert again.log_end_offset == found.log_end_offset


@pytest.mark.parametrize("content", [b"", b"\0" * 500, b"\xa5" * 61, None], ids=["empty", "zeros", "garbage", "half"])
@pytest.mark.parametrize("name", ["log", "index", "timeindex", "snapshot", "txnindex"])
def test_what_is_deleted_may_be_damaged(corpus, tmp_path, name, content):
    """A broker removes the files when it starts: damage in them is no reason to refuse, nor to repair anything."""
    target = copied(corpus / "clean-asis" / "before" / "clean-asis-0", tmp_path)
    log = min(target.glob("*.log")).read_bytes()
    damaged = log[: len(log) // 2] + b"\0" * 80 + log[len(log) // 2 :] if content is None else content
    for base in (0, 7, 1000):
        (target / f"{base:020d}.{name}.deleted").write_bytes(damaged)
    found = plan(target)
    assert (found.is_refused, found.has_work, found.remarks) == (False, False, ())
    assert found.exit_code is ExitCode.OK


@pytest.mark.parametrize("kind", sorted(CUT))
def test_a_torn_tail_is_cut_where_the_broker_cuts_it(corpus, tmp_path, kind):
    """The logs byte for byte; the indexes of the cut segment too where they had to be made anew."""
    name = f"crash-{kind}"
    target = copied(corpus / name / "before" / f"{name}-0", tmp_path)
    found = plan(target)
    make(target, found.changes)
    ours, broker = files(target), files(corpus / name / "after" / f"{name}-0")
    assert {n: d for n, d in ours.items() if n.endswith(".log")} == {
        n: d for n, d in broker.items() if n.endswith(".log")
    }
    for change in found.changes:
        if isinstance(change, (Cut, Put)) and change.name.endswith(("index", ".snapshot")):
            assert ours[change.name] == broker[change.name], change.name


def test_sound_logs_are_left_alone(corpus):
    """Every partition of the corpus that no damage was done to, of every generation, compacted or not."""
    seen = 0
    for directory in sorted(corpus.glob("*/*/*-[0-9]")):
        case, state = directory.parts[-3], directory.parts[-2]
        if case.startswith(("crash", "clean", "format-0.7")) or state == "running":
            continue
        found = plan(directory)
        assert not found.changes, directory
        assert found.exit_code is ExitCode.OK, (directory, found.remarks)
        bounds = log_range(RealFilesystem(), open_partition(RealFilesystem(), str(directory)))
        assert found.log_end_offset == (0 if bounds is None else bounds.end), directory
        seen += 1
    assert seen > 100


def test_indexes_only_touches_indexes_only(corpus, tmp_path):
    target = copied(corpus / "crash-torn" / "before" / "crash-torn-0", tmp_path)
    (target / "00000000000000000000.index").unlink()
    (target / "leader-epoch-checkpoint").unlink()
    found = plan(target, Scope(indexes_only=True))
    assert [change.name for change in found.changes if isinstance(change, Put)] == ["00000000000000000000.index"]
    assert not found.cut
    assert not found.line_edits


def test_since_an_offset_leaves_earlier_segments_alone(corpus, tmp_path):
    target = copied(corpus / "crash-torn" / "before" / "crash-torn-0", tmp_path)
    first, *_, last = sorted(target.glob("*.log"))
    first.with_suffix(".index").unlink()
    found = plan(target, Scope(since=int(last.stem) + 1))
    assert found.cut
    assert not any(change.name.startswith(first.stem) for change in found.changes)
    assert any(change.name == first.stem + ".index" for change in plan(target, Scope(since=0)).changes)
    assert any(change.name == first.stem + ".index" for change in plan(target).changes)


def test_an_unknown_index_interval_does_no_harm(corpus):
    """Entries are asked whether they are right, not whether they are those that this interval gives."""
    for interval in (1, 300, 1 << 20):
        settings = LoadSettings(NOW_MS, index_interval_bytes=interval)
        assert not plan(corpus / "crash-asis" / "before" / "crash-asis-0", settings=settings).changes


def test_a_recovery_point_above_the_end_comes_down(corpus):
    torn = corpus / "crash-torn" / "before" / "crash-torn-0"
    found = plan(torn, start=StartState(is_clean=False, recovery_point=130))
    assert [edit.offset for edit in found.line_edits] == [found.log_end_offset] == [128]
    assert not plan(torn, start=StartState(is_clean=False, recovery_point=128)).line_edits


def test_an_aborted_transaction_gets_its_index_back(corpus, tmp_path):
    """From the producers' state at the segment, which lies in earlier segments."""
    for directory in sorted((corpus / "txn" / "data").glob("tx*-[0-9]")):
        for index in sorted(directory.glob("*.txnindex")):
            if not index.stat().st_size:
                continue
            target = copied(directory, tmp_path / index.name)
            broken = bytearray(index.read_bytes())
            broken[17] ^= 0x40
            (target / index.name).write_bytes(broken)
            make(target, plan(target).changes)
            assert (target / index.name).read_bytes() == index.read_bytes()


def test_a_missing_index_of_aborted_transactions_comes_back(corpus, tmp_path):
    """Without it a broker serves what was aborted as committed."""
    tried = 0
    for directory in sorted((corpus / "txn" / "data").glob("tx*-[0-9]")):
        target = copied(directory, tmp_path)
        before = files(target)
        for index in target.glob("*.txnindex"):
            tried += index.stat().st_size > 0
            index.unlink()
        make(target, plan(target).changes)
        assert {n: d for n, d in files(target).items() if d} == {n: d for n, d in before.items() if d}
    assert tried >= 3


def test_leader_epochs_that_go_down_fit_no_file(tmp_path):
    """No CRC holds them. What the broker wrote stays, and is not written anew each time."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    made = [batch_v2([R(o, BASE_TIME_MS + o)], epoch=epoch) for o, epoch in enumerate([0, 77, 2, 2])]
    write_segment(directory, 0, [(data, o, BASE_TIME_MS + o) for o, data in enumerate(made)])
    (directory / "leader-epoch-checkpoint").write_bytes(b"0\n2\n0 0\n2 2\n")
    found = plan(directory)
    assert not found.changes
    assert any("go down" in remark.message for remark in found.remarks)
    (directory / "leader-epoch-checkpoint").unlink()
    make(directory, plan(directory).changes)
    assert not plan(directory).changes


def test_a_damaged_swap_is_not_put_in_place(corpus, tmp_path):
    target = copied(corpus / "crash-swap" / "before" / "crash-swap-0", tmp_path)
    swap = target / "00000000000000000000.log.swap"
    data = bytearray(swap.read_bytes())
    data[100] ^= 1
    swap.write_bytes(data)
    old = (target / "00000000000000000000.log").read_bytes()
    make(target, plan(target).changes)
    assert not swap.exists()
    assert (target / "00000000000000000000.log").read_bytes() == old
    assert not plan(target).has_work


def test_a_damaged_swap_that_is_the_only_copy(corpus, tmp_path):
    target = copied(corpus / "crash-swap" / "before" / "crash-swap-0", tmp_path)
    swap = target / "00000000000000000000.log.swap"
    data = bytearray(swap.read_bytes())
    data[100] ^= 1
    swap.write_bytes(data)
    (target / "00000000000000000000.log").unlink()
    found = plan(target)
    assert found.is_refused
    assert not found.changes


def test_torn_tail_of_kafka_0_7(corpus, tmp_path):
    target = copied(corpus / "format-0.7" / "data" / "torn-0", tmp_path)
    found = plan(target)
    assert [(cut.position, cut.size_bytes) for cut in found.cut] == [(542, 22)]
    make(target, found.changes)
    assert not plan(target).has_work
    assert plan(corpus / "format-0.7" / "data" / "badcrc-0").is_refused


def batches(count, base=0):
    """Batches of one record, with what `write_segment` wants to know of them."""
    made = []
    for offset in range(base, base + count):
        timestamp = BASE_TIME_MS + offset
        made.append((batch_v2([R(offset, timestamp, b"k", b"v" * 50)]), offset, timestamp))
    return made


@pytest.mark.full
def test_every_cut_and_every_zeroed_tail(tmp_path):
    """At each byte of the last segment: exactly the whole batches before it stay, and the result is sound."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    write_segment(directory, 0, batches(3), 100)
    write_segment(directory, 3, batches(4, 3), 100)
    log = directory / f"{3:020d}.log"
    whole = log.read_bytes()
    ends = [0]
    while ends[-1] < len(whole):
        ends.append(ends[-1] + 12 + struct.unpack_from(">i", whole, ends[-1] + 8)[0])
    pristine = files(directory)
    for cut in range(len(whole)):
        for data in (whole[:cut], whole[:cut] + bytes(len(whole) - cut)):
            for name in files(directory):
                (directory / name).unlink()
            for name, content in pristine.items():
                (directory / name).write_bytes(content)
            log.write_bytes(data)
            found = plan(directory, settings=LoadSettings(NOW_MS, index_interval_bytes=100))
            assert not found.is_refused, cut
            make(directory, found.changes)
            good = max(end for end in ends if end <= cut)
            # A batch whose end is zeros anyway is whole.
            good = good if log.read_bytes() == whole[:good] else min(end for end in ends if end >= cut)
            assert log.read_bytes() == whole[:good], cut
            assert not plan(directory, settings=LoadSettings(NOW_MS, index_interval_bytes=100)).has_work, cut


def test_a_bad_last_message_of_old_logs(tmp_path):
    """v1 has a CRC in each message."""
    directory = tmp_path / "old-0"
    directory.mkdir()
    made = [(message(R(o, BASE_TIME_MS + o, b"k", b"v" * 30), 1), o, BASE_TIME_MS + o) for o in range(5)]
    write_segment(directory, 0, made)
    log = directory / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    found = plan(directory)
    assert [cut.position for cut in found.cut] == [4 * len(made[0][0])]
    make(directory, found.changes)
    assert not plan(directory).has_work


def test_bytes_that_read_as_a_batch_hide_no_good_batch(tmp_path):
    """What stands for a batch behind a damaged one says that it ends with the file: a good batch lies within."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    made = batches(4)
    write_segment(directory, 0, made)
    log = directory / f"{0:020d}.log"
    first, second, _, last = (data for data, _, _ in made)
    astray = struct.pack(">qiibi", 1 << 40, 9 + len(last), 0, 2, 0)  # 21 bytes, and its length leads over `last`
    log.write_bytes(first + second[:-1] + b"\0" + astray + last)
    assert log.stat().st_size == len(first + second) + 12 + 9 + len(last)
    found = plan(directory)
    assert found.is_refused


@pytest.mark.parametrize("inner_offset", [100, 3, 2])
def test_a_batch_in_the_value_of_a_record_is_none_of_the_log(tmp_path, inner_offset):
    """An index that points into a value must not make what follows it there a torn end."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    inner = batch_v2([R(inner_offset, BASE_TIME_MS, b"k", b"inner")])
    outer = batch_v2([R(3, BASE_TIME_MS + 3, b"k", inner + b"behind it")])
    write_segment(directory, 0, [*batches(3), (outer, 3, BASE_TIME_MS + 3)], 100)
    data = (directory / f"{0:020d}.log").read_bytes()
    index = directory / f"{0:020d}.index"
    index.write_bytes(index.read_bytes()[:8] + struct.pack(">ii", 3, data.index(inner)))
    found = plan(directory)
    assert not found.cut
    assert not found.is_refused
    make(directory, found.changes)
    assert (directory / f"{0:020d}.log").read_bytes() == data
    assert not plan(directory).has_work
