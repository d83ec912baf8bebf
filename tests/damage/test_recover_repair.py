"""Plain recovery: what it does to each damaged case of the corpus, and that it leaves sound logs alone."""

import os
import shutil
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.commands import json_of, kafkalog
from tests.support.logs import BASE_TIME_MS, R, batch_v2, message, write_segment
from tests.support.product import RealFilesystem
from tests.support.watched_fs import RecordingFilesystem

NOW_MS = 1_795_000_000_000
OPTIONS = ("--now", NOW_MS, "--config", "segment.index.bytes=4096", "--config", "index.interval.bytes=300")

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


def recovered(directory, *options):
    """What the command answers: its exit code, what it planned or did, and whether that was anything."""
    code, (found, _), _ = json_of("recover", directory, *options, *OPTIONS)
    found["remarks"] = [SimpleNamespace(**remark) for remark in found["remarks"]]
    return SimpleNamespace(**found, code=code, has_work=bool(found["changes"] or found["checkpoints"]))


def plan(directory, *options):
    return recovered(directory, "--dry-run", *options)


def made(found):
    """The names of the files that are made anew."""
    return [change["name"] for change in found.changes if change["change"] == "put"]


def files(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def copied(directory, tmp_path):
    target = tmp_path / Path(directory).name
    shutil.copytree(directory, target)
    for path in [target, *target.iterdir()]:
        path.chmod(0o700)
    return target


def test_the_table_has_every_case(corpus):
    kinds = {name.partition("-")[2] for name in cases(corpus)}
    assert kinds == NOTHING | REFUSED | CUT | MADE_ANEW | TAKEN_AWAY | PUT_IN_PLACE


def test_recover_of_each_damaged_case_leaves_nothing_to_repair_and_every_good_record(corpus, tmp_path):
    """What is planned for each, that it leads to a partition with nothing left to do, and that no record goes."""
    for name in cases(corpus):
        kind = name.partition("-")[2]
        target = copied(corpus / name / "before" / f"{name}-0", tmp_path)
        found = plan(target)
        assert found.refused == (kind in REFUSED), name
        assert bool(found.changes) == (kind in CUT | MADE_ANEW | TAKEN_AWAY | PUT_IN_PLACE), name
        assert bool(found.cut) == (kind in CUT), name
        assert found.code == (14 if kind in REFUSED else 0 if kind in NOTHING else 3), name
        if found.refused:
            assert not found.changes
            assert "--salvage" in found.remarks[-1].next_step
            continue
        recovered(target)
        again = plan(target)
        assert (again.has_work, again.code, again.log_end_offset) == (False, 0, found.log_end_offset), name


@pytest.mark.parametrize("content", [b"", b"\0" * 500, b"\xa5" * 61, None], ids=["empty", "zeros", "garbage", "half"])
@pytest.mark.parametrize("name", ["log", "index", "timeindex", "snapshot", "txnindex"])
def test_recover_ignores_damage_in_files_marked_deleted(corpus, tmp_path, name, content):
    """A broker removes the files when it starts: damage in them is no reason to refuse, nor to repair anything."""
    target = copied(corpus / "clean-asis" / "before" / "clean-asis-0", tmp_path)
    log = min(target.glob("*.log")).read_bytes()
    damaged = log[: len(log) // 2] + b"\0" * 80 + log[len(log) // 2 :] if content is None else content
    for base in (0, 7, 1000):
        (target / f"{base:020d}.{name}.deleted").write_bytes(damaged)
    found = plan(target)
    assert (found.refused, found.has_work, found.remarks, found.code) == (False, False, [], 0)


@pytest.mark.parametrize("kind", sorted(CUT))
def test_a_torn_tail_is_cut_where_the_broker_cuts_it(corpus, tmp_path, kind):
    """The logs byte for byte; the indexes of the cut segment too where they had to be made anew."""
    name = f"crash-{kind}"
    target = copied(corpus / name / "before" / f"{name}-0", tmp_path)
    found = recovered(target)
    ours, broker = files(target), files(corpus / name / "after" / f"{name}-0")
    assert {n: d for n, d in ours.items() if n.endswith(".log")} == {
        n: d for n, d in broker.items() if n.endswith(".log")
    }
    for change in found.changes:
        if change["change"] in ("cut", "put") and change["name"].endswith(("index", ".snapshot")):
            assert ours[change["name"]] == broker[change["name"]], change["name"]


def test_indexes_only_touches_indexes_only(corpus, tmp_path):
    target = copied(corpus / "crash-torn" / "before" / "crash-torn-0", tmp_path)
    (target / "00000000000000000000.index").unlink()
    (target / "leader-epoch-checkpoint").unlink()
    found = plan(target, "--indexes-only")
    assert (made(found), found.cut, found.checkpoints) == (["00000000000000000000.index"], [], [])


def test_an_unknown_index_interval_does_no_harm(corpus, tmp_path):
    """Entries are asked whether they are right, not whether they are those that this interval gives."""
    target = copied(corpus / "crash-asis" / "before" / "crash-asis-0", tmp_path)
    for interval in (1, 300, 1 << 20):
        assert not plan(target, "--config", f"index.interval.bytes={interval}").changes


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
            recovered(target)
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
        recovered(target)
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
    recovered(directory)
    assert not plan(directory).changes


def test_a_damaged_swap_is_not_put_in_place(corpus, tmp_path):
    target = copied(corpus / "crash-swap" / "before" / "crash-swap-0", tmp_path)
    swap = target / "00000000000000000000.log.swap"
    data = bytearray(swap.read_bytes())
    data[100] ^= 1
    swap.write_bytes(data)
    old = (target / "00000000000000000000.log").read_bytes()
    recovered(target)
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
    assert found.refused
    assert not found.changes


def test_recover_cuts_the_torn_tail_of_a_log_of_0_7(corpus, tmp_path):
    target = copied(corpus / "format-0.7" / "data" / "torn-0", tmp_path)
    found = plan(target)
    assert [(cut["position"], cut["size_bytes"]) for cut in found.cut] == [(542, 22)]
    recovered(target)
    assert not plan(target).has_work
    assert plan(copied(corpus / "format-0.7" / "data" / "badcrc-0", tmp_path)).refused


def batches(count, base=0):
    """Batches of one record, with what `write_segment` wants to know of them."""
    made = []
    for offset in range(base, base + count):
        timestamp = BASE_TIME_MS + offset
        made.append((batch_v2([R(offset, timestamp, b"k", b"v" * 50)]), offset, timestamp))
    return made


@pytest.mark.full
def test_recover_keeps_the_good_records_before_every_cut_and_zeroed_tail(tmp_path):
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
            shutil.rmtree(directory / ".kafkalog", ignore_errors=True)
            for name, content in pristine.items():
                (directory / name).write_bytes(content)
            log.write_bytes(data)
            found = recovered(directory, "--config", "index.interval.bytes=100", "--discard")
            assert not found.refused, cut
            good = max(end for end in ends if end <= cut)
            # A batch whose end is zeros anyway is whole.
            good = good if log.read_bytes() == whole[:good] else min(end for end in ends if end >= cut)
            assert log.read_bytes() == whole[:good], cut
            assert not plan(directory, "--config", "index.interval.bytes=100").has_work, cut


def test_recover_cuts_a_bad_last_message_of_old_logs(tmp_path):
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
    assert [cut["position"] for cut in found.cut] == [4 * len(made[0][0])]
    recovered(directory)
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
    assert found.refused


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
    found = recovered(directory)
    assert not found.cut
    assert not found.refused
    assert (directory / f"{0:020d}.log").read_bytes() == data
    assert not plan(directory).has_work


def test_recover_does_not_read_a_hole_of_8_tebibytes_nor_copy_it_before_it_cuts_it(tmp_path):
    """The copy would need no room, so nothing else stops it."""
    (tmp_path / "t-0").mkdir()
    write_segment(tmp_path / "t-0", 0, [(batch_v2([R(0, NOW_MS, None, b"v")]), 0, NOW_MS)])
    log = tmp_path / "t-0" / f"{0:020}.log"
    size = log.stat().st_size
    try:
        os.truncate(log, 1 << 43)
    except OSError:
        pytest.skip("NOT TRIED: no large holes here")
    fs = RecordingFilesystem(RealFilesystem())
    code, out, _ = kafkalog("recover", tmp_path / "t-0", "--dry-run", fs=fs)
    assert (code, "8.0 TiB cut" in out) == (3, True), out
    assert 0 < sum(call.detail[1] for call in fs.calls if call.name == "read") < 1 << 26
    code, _, err = kafkalog("recover", tmp_path / "t-0")
    assert (code, "nothing was changed" in err, "--discard" in err) == (13, True, True), err
    assert log.stat().st_size == 1 << 43
    assert kafkalog("recover", tmp_path / "t-0", "--discard").code == 0
    assert log.stat().st_size == size
