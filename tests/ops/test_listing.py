"""Listings against what brokers wrote down themselves, and against bad input of every kind."""

import os
import re
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.disk.posix_lock import LockOwner
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.ops.listing.paths import Lister
from kafkalog_cli.ops.listing.root import Shutdown
from kafkalog_cli.ops.selection import Selection
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.product import NotKafkaLayout, RealFilesystem

FS = RealFilesystem()
LOADED = re.compile(
    r"Completed load of Log\(dir=\S+/([^/,]+), topicId=(\S+), .* logStartOffset=(\d+), logEndOffset=(\d+)\)"
)
FIXED = {"leader-epoch-checkpoint", "partition.metadata", "quorum-state"}
CHECKPOINTS = (
    "recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)  # fmt: skip


def listing(path, fs=FS, selection=None, **options):
    return Lister(fs, selection or Selection(), **options).list(str(path))


def by_name(found):
    return {p.partition.directory.name: p for p in found.partitions}


def checkpoint_lines(path):
    """The lines of an offset checkpoint, read without our decoder."""
    if not path.exists():
        return {}
    return {(t, int(p)): int(o) for t, p, o in (line.split() for line in path.read_text().splitlines()[2:])}


def log_dirs(corpus):
    names = ("data", "before", "after", "before2", "after2", "after-restart", "after-cleaner", "running")
    return [path for name in names for path in sorted(corpus.glob(f"*/{name}"))]


def test_a_clean_stop_wrote_the_log_end_into_the_recovery_point(corpus):
    seen = 0
    for path in log_dirs(corpus):
        found = listing(path)
        if found.log_dir.shutdown is not Shutdown.CLEAN or path.parent.name in ("clean-torn", "clean-zero-tail"):
            continue
        for partition in found.partitions:
            if partition.checkpoints.recovery_point is not None:
                assert partition.log_end_offset == partition.checkpoints.recovery_point, path
                assert partition.high_watermark == partition.log_end_offset
                seen += 1
    assert seen > 150


def test_topic_id_and_log_start_are_what_the_broker_loaded(corpus):
    seen = 0
    for case in sorted(corpus.glob("c*-*")):
        if not (case / "recovery.log").exists():
            continue
        found = by_name(listing(case / "after"))
        for name, topic_id, log_start, _ in LOADED.findall((case / "recovery.log").read_text()):
            if name in found:
                assert found[name].topic_id == topic_id
                assert found[name].log_start_offset == int(log_start)
                seen += 1
    assert seen > 40


def test_checkpoints_are_those_of_the_root_files(corpus):
    seen = 0
    for path in log_dirs(corpus):
        lines = [checkpoint_lines(path / name) for name in CHECKPOINTS]
        for partition in listing(path, transactions=False).partitions:
            if partition.partition.directory.kind.name == "PARTITION":
                key = (partition.partition.directory.topic, partition.partition.directory.partition)
                assert partition.checkpoints == tuple(each.get(key) for each in lines)
                seen += sum(value is not None for value in partition.checkpoints)
    assert seen > 300


def test_bytes_by_kind_are_the_sizes_on_the_disk(corpus):
    fields = {".log": "log", ".kafka": "log", ".index": "index", ".timeindex": "timeindex", ".txnindex": "txnindex",
              ".snapshot": "snapshot", ".checkpoint": "snapshot"}  # fmt: skip
    leftovers = 0
    for path in log_dirs(corpus):
        for partition in listing(path, transactions=False).partitions:
            expected = dict.fromkeys([*fields.values(), "other", "leftover"], 0)
            for file in Path(partition.partition.path).iterdir():
                left = file.suffix in (".deleted", ".swap", ".cleaned")
                field = "leftover" if left else fields.get(file.suffix, "other")
                expected[field] += file.stat().st_size
            assert partition.bytes_by_kind.by_name() == expected, partition.partition.path
            assert partition.bytes_by_kind.total == sum(expected.values())
            leftovers += expected["leftover"]
    assert leftovers > 0


def test_leader_epochs_and_leftovers_of_a_retention_run(corpus):
    found = by_name(listing(corpus / "retention" / "after"))
    epochs = (corpus / "retention" / "after" / "ret-time-0" / "leader-epoch-checkpoint").read_text().splitlines()[2:]
    assert [f"{e} {o}" for e, o in found["ret-time-0"].leader_epochs] == epochs
    assert found["ret-records-0"].log_start_offset == 57
    states = {file.name.state.value for file in found["ret-time-0"].partition.leftovers}
    assert states == {".deleted"}


def test_the_open_transactions_of_the_corpus(corpus):
    """how.txt leaves one transaction open in each of these, and none elsewhere."""
    found = {
        (path.parent.name, name): [(t.producer_id, t.first_offset) for t in partition.open_transactions]
        for path in log_dirs(corpus)
        for name, partition in by_name(listing(path)).items()
        if partition.open_transactions
    }
    assert found == {
        ("txn", "tx-0"): [(2001, 189)],
        ("internal", "in-b-0"): [(2, 71)],
        ("compact-tx", "cmp-opentx-0"): [(14, 100)],
    }


def test_transactions_are_not_looked_for_when_not_wanted(corpus):
    found = by_name(listing(corpus / "txn" / "data", transactions=False))
    assert found["tx-0"].open_transactions is None


def test_a_kraft_directory(corpus):
    found = listing(corpus / "internal" / "data")
    metadata = by_name(found)["__cluster_metadata-0"]
    assert [(f.name.offset, f.name.epoch) for f in metadata.partition.metadata_snapshots] == [(90, 1)]
    assert (metadata.quorum_state.leader_id, metadata.quorum_state.leader_epoch) == (1, 2)
    assert metadata.log_end_offset == 145
    deleted = [p for p in found.partitions if p.partition.directory.kind.name == "DELETE"]
    assert {p.partition.directory.topic for p in deleted} == {"in-c"}
    assert all(p.checkpoints == (None,) * 4 for p in deleted), "the topic may exist again, under the same name"
    assert found.log_dir.meta.cluster_id == "bGFiLWNsdXN0ZXItMDAwMA"
    assert found.log_dir.broker_epoch == 110


def test_a_tiered_partition_starts_before_its_first_segment(corpus):
    tiered = by_name(listing(corpus / "remote" / "data"))["tiered-0"]
    assert (tiered.log_start_offset, tiered.is_tiered) == (124, True)
    assert open_partition(FS, tiered.partition.path).segments[0].base_offset == 169


def test_seven_offsets_are_byte_positions(corpus):
    found = by_name(listing(corpus / "format-0.7" / "data"))
    assert found["m0-0"].log_end_offset == 1674
    assert [f.fault.position for f in found["torn-0"].faults] == [542]
    assert found["torn-0"].log_end_offset == 542
    assert listing(corpus / "format-0.7" / "data").log_dir.shutdown is Shutdown.UNKNOWN


def test_damage_before_the_last_index_entry_is_met_on_the_way_to_the_transactions(corpus):
    found = listing(corpus / "crash-huge-len" / "before").faults
    assert [(f.fault.kind.value, f.is_corruption) for f in found] == [("trailing-bytes", True)]


def test_a_partition_given_alone_has_the_checkpoints_of_the_directory_above(corpus, monkeypatch):
    path = corpus / "txn" / "data" / "tx-0"
    found = listing(path)
    assert found.log_dir is None
    assert found.partitions[0].checkpoints.recovery_point == 282
    monkeypatch.chdir(path)
    here = listing(".")
    assert here.partitions[0].checkpoints.recovery_point == 282
    assert here.partitions[0].partition.directory.topic == "tx"


def test_segments_meet_and_cover_the_log(corpus):
    found = listing(corpus / "txn" / "data", segments=True, selection=Selection(frozenset({"idem"})))
    ends = [(s.first_offset, s.next_offset) for s in found.segments]
    assert ends == [(0, 53), (53, 120), (120, 180)]
    assert [s.is_active for s in found.segments] == [False, False, True]
    assert found.segments[0].first_timestamp == 1700000000000
    assert {s.format for s in found.segments} == {"v2"}


def test_compressed_sets_tell_their_first_offset_from_inside(corpus):
    found = listing(corpus / "upgraded" / "data", segments=True)
    formats = [(s.format, s.first_offset, s.first_timestamp is None) for s in found.segments]
    assert formats == [("v0", 0, True), ("v1", 75, False), ("v2", 155, False)]


def test_a_delete_horizon_is_no_timestamp(corpus):
    """The header of a batch with tombstones holds the horizon where the first timestamp was."""
    seen = 0
    for path in sorted(corpus.glob("compact-*/after")):
        for segment in listing(path, segments=True, transactions=False).segments:
            data = Path(segment.segment.log.path).read_bytes()
            if len(data) > 61 and data[16] == 2 and data[22] & 0x40:
                horizon, largest = struct.unpack_from(">qq", data, 27)
                seen += 1
                assert segment.first_timestamp <= max(largest, segment.max_timestamp) < horizon
    assert seen > 3


# -- made directories


def write(directory, files):
    directory.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (directory / name).write_bytes(data)
    return directory


@pytest.fixture
def log_dir(tmp_path):
    """An empty partition in a log directory."""
    root = write(tmp_path / "logs", {"meta.properties": b"version=1\nnode.id=4\ncluster.id=abc\n"})
    write(root / "t-0", {"00000000000000000000.log": b"", "leader-epoch-checkpoint": b"0\n1\n0 0\n"})
    return root


def faults(found):
    return {(Path(f.path).name, f.fault.kind.value) for f in found.faults}


def test_an_empty_partition(log_dir):
    partition = listing(log_dir).partitions[0]
    assert (partition.log_start_offset, partition.log_end_offset) == (0, 0)
    assert (partition.first_timestamp, partition.max_timestamp) == (None, None)
    assert partition.faults == ()
    assert listing(log_dir).log_dir.shutdown is Shutdown.UNCLEAN


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("replication-offset-checkpoint", b"\xff\xfe garbage", "invalid-entry"),
        ("recovery-point-offset-checkpoint", b"9\n0\n", "invalid-version"),
        ("cleaner-offset-checkpoint", b"0\n5\nt 0 1\n", "invalid-count"),
        ("meta.properties", b"version=7\n", "invalid-version"),
        (".kafka_cleanshutdown", b"{", "invalid-entry"),
    ],
)
def test_garbage_at_the_root_is_a_fault(log_dir, name, data, kind):
    (log_dir / name).write_bytes(data)
    found = listing(log_dir)
    assert (name, kind) in {(Path(f.path).name, f.fault.kind.value) for f in found.log_dir.faults}
    assert len(found.partitions) == 1


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("leader-epoch-checkpoint", b"\x00\x01", "invalid-entry"),
        ("partition.metadata", b"version: x", "invalid-entry"),
        ("00000000000000000000.snapshot", b"\x00\x01garbage!", "invalid-count"),
        ("00000000000000000000.index", bytes(9), "invalid-length"),
        ("00000000000000000000.timeindex", bytes(13), "invalid-length"),
        ("00000000000000000000.txnindex", bytes(33), "invalid-length"),
        ("00000000000000000000.log", b"\xff" * 100, "size-too-small"),
        ("00000000000000000000.log", bytes(100), "size-too-small"),
        ("server.log", b"", "unreadable"),
    ],
)
def test_garbage_in_a_partition_is_a_fault(log_dir, name, data, kind):
    (log_dir / "t-0" / name).write_bytes(data)
    assert (name, kind) in faults(listing(log_dir, segments=True))


def test_what_bears_a_data_files_name_and_is_none(log_dir):
    partition = log_dir / "t-0"
    (partition / "00000000000000000005.log").mkdir()
    (partition / "00000000000000000006.log").symlink_to("nowhere")
    os.mkfifo(partition / "00000000000000000007.log")
    found = listing(log_dir, segments=True)
    assert faults(found) == {(f"0000000000000000000{n}.log", "unreadable") for n in (5, 6, 7)}
    assert len(found.segments) == 1


def test_strange_names_at_the_root(log_dir):
    (log_dir / "lost+found").mkdir()
    (log_dir / "notes.txt").touch()
    (log_dir / "replication-offset-checkpoint.tmp").write_bytes(b"0\n1\nt 0 9\n")
    (log_dir / "dangling-0").symlink_to("nowhere")
    found = listing(log_dir)
    assert found.log_dir.foreign == ("lost+found",)
    assert found.log_dir.others == ("dangling-0", "notes.txt", "replication-offset-checkpoint.tmp")
    assert faults(found) == {("lost+found", "invalid-entry")}
    assert found.partitions[0].checkpoints.high_watermark is None, "the temporary file is not the checkpoint"


def test_runs_are_not_data(log_dir):
    run = log_dir / "t-0" / ".kafkalog" / "2026-run"
    write(run, {"00000000000000000000.log": b"x" * 99})
    partition = listing(log_dir).partitions[0]
    assert partition.partition.runs == ("2026-run",)
    assert partition.bytes_by_kind.log == 0


def test_stray_and_future_directories(log_dir):
    uuid = "0123456789abcdef0123456789abcdef"
    for kind in ("stray", "future", "delete"):
        write(log_dir / f"t-1.{uuid}-{kind}", {"00000000000000000000.log": b""})
    kinds = [p.partition.directory.kind.name for p in listing(log_dir).partitions]
    assert kinds == ["PARTITION", "DELETE", "FUTURE", "STRAY"]


def test_a_log_start_above_the_end_is_told(log_dir):
    (log_dir / "log-start-offset-checkpoint").write_bytes(b"0\n1\nt 0 40\n")
    found = listing(log_dir)
    assert "a broker deletes every segment" in found.faults[0].fault.message


def test_a_high_watermark_beyond_the_end_is_not_believed(log_dir):
    (log_dir / "replication-offset-checkpoint").write_bytes(b"0\n1\nt 0 40\n")
    assert listing(log_dir).partitions[0].high_watermark == 0


@pytest.mark.parametrize(
    ("owner", "shutdown"),
    [(LockOwner(5, True), Shutdown.RUNNING), (LockOwner(5, False), Shutdown.UNCLEAN), (None, Shutdown.UNCLEAN)],
)
def test_a_broker_that_runs_has_not_stopped(log_dir, owner, shutdown, monkeypatch):
    monkeypatch.setattr("kafkalog_cli.ops.listing.root.lock_owner", lambda _: owner)
    found = listing(log_dir)
    assert (found.log_dir.lock_owner, found.log_dir.shutdown) == (owner, shutdown)


def test_a_lock_that_cannot_be_asked_about(log_dir, monkeypatch):
    def fail(_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("kafkalog_cli.ops.listing.root.lock_owner", fail)
    assert listing(log_dir).log_dir.lock_problem == "Operation not supported"


@pytest.mark.parametrize(
    "name",
    ["00000000000000000000.log", "00000000000000000000.index", "00000000000000000000.timeindex",
     "leader-epoch-checkpoint", "partition.metadata", "00000000000000000053.log", "00000000000000000120.log",
     "00000000000000000120.index", "00000000000000000180.snapshot"],
)  # fmt: skip
@pytest.mark.parametrize("how", ["refused", "device"])
def test_files_that_cannot_be_read(corpus, name, how):
    """Each is a fault with the file's name; the rest is listed all the same."""
    path = str(corpus / "txn" / "data" / "idem-0" / name)
    fs = FaultyFilesystem(below=FS)
    if how == "refused":
        fs.refuse_open(path)
    else:
        fs.fail_read(path, 0, 1 << 40)
    found = listing(corpus / "txn" / "data", fs, Selection(frozenset({"idem"})), segments=True)
    assert fs.unfired() == []
    assert "unreadable" in {kind for file, kind in faults(found) if file == name}, faults(found)
    assert len(found.partitions) == 1


def test_a_partition_that_cannot_be_looked_into_is_a_failure(corpus):
    fs = FaultyFilesystem(below=FS)
    fs.refuse_open(str(corpus / "txn" / "data" / "tx-0"))
    found = listing(corpus / "txn" / "data", fs)
    assert [Path(path).name for path, _ in found.failures] == ["tx-0"]
    assert "idem-0" in by_name(found)


def test_paths_that_are_no_layout(tmp_path):
    with pytest.raises(NotKafkaLayout):
        listing(tmp_path)
    os.mkfifo(tmp_path / "x.log")
    with pytest.raises(NotKafkaLayout):
        listing(tmp_path / "x.log")


@pytest.fixture(scope="module")
def transactional_files(corpus):
    """A small log directory in memory."""
    root = corpus / "txn" / "data"
    paths = [*root.glob("*"), *(root / "tx-0").glob("*")]
    return {"/logs/" + str(path.relative_to(root)): path.read_bytes() for path in paths if path.is_file()}


@given(data=st.data())
def test_whatever_the_bytes_are_there_is_a_listing(transactional_files, data):
    """Cut files, changed bytes, swapped contents: an answer every time."""
    files = dict(transactional_files)
    for _ in range(data.draw(st.integers(1, 4))):
        path = data.draw(st.sampled_from(sorted(files)))
        content = bytearray(files[path])
        how = data.draw(st.sampled_from(["cut", "grow", "change", "zero", "swap"]))
        at = data.draw(st.integers(0, max(0, len(content) - 1)))
        if how == "cut":
            del content[at:]
        elif how == "grow":
            content += data.draw(st.binary(min_size=1, max_size=40))
        elif how == "swap":
            content = bytearray(files[data.draw(st.sampled_from(sorted(files)))])
        elif content:
            size = data.draw(st.integers(1, 8))
            content[at : at + size] = bytes(size) if how == "zero" else data.draw(st.binary(min_size=1, max_size=8))
        files[path] = bytes(content)
    found = listing("/logs", FaultyFilesystem(files), segments=True)
    assert [p.partition.directory.name for p in found.partitions] == ["tx-0"]
    assert len(found.segments) == 7
    assert found.failures == []


def test_an_index_that_was_preallocated_costs_a_few_reads():
    """10 MiB of zeroes behind one entry, as in every active segment of a broker that runs."""
    size = 10 << 20
    log = struct.pack(">qiibIhiqqqhii", 0, 49, 0, 2, 0, 0, 0, 5, 5, -1, -1, -1, 1)
    index = struct.pack(">ii", 1, 61) + bytes(size - 8)
    time_index = struct.pack(">qi", 9, 1) + bytes(size // 12 * 12 - 12)
    name = "/logs/t-0/" + "0" * 20
    fs = FaultyFilesystem({
        "/logs/meta.properties": b"version=0\n",
        name + ".log": log + log.replace(bytes(8), bytes(7) + b"\1", 1),
        name + ".index": index,
        name + ".timeindex": time_index,
    })  # fmt: skip
    partition = listing("/logs", fs).partitions[0]
    assert (partition.log_end_offset, partition.max_timestamp, partition.faults) == (2, 9, ())
    assert fs.bytes_read < 1000
    assert fs.reads < 100


def test_the_memory_of_a_listed_partition(tmp_path):
    """All listings are in memory until the last row is known: 100,000 of them within 300 MiB."""

    def memory_of(partitions):
        log_dir = tmp_path / str(partitions)
        for number in range(partitions):
            directory = log_dir / f"orders-{number}"
            directory.mkdir(parents=True)
            for kind in ("log", "index", "timeindex"):
                (directory / f"{0:020d}.{kind}").touch()
        tracemalloc.start()
        found = listing(log_dir)
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(found.partitions) == partitions
        return size

    memory_of(1)  # what is loaded once
    assert memory_of(400) - memory_of(100) < 300 * 1500
