"""Listings against what brokers wrote down themselves, and against bad input of every kind."""

import os
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.commands import a_broker_on, json_of
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.product import RealFilesystem


def listing(path, *options, fs=None):
    """The partitions, or the segments with --segments, and the log directory; the errors that are no faults of files."""
    code, out, err = json_of("ls", path, *options, fs=fs)
    of_type = {
        name: [SimpleNamespace(**one) for one in out if one["type"] == name] for name in ("partition", "segment")
    }
    log_dirs = [SimpleNamespace(**one) for one in out if one["type"] == "logdir"]
    faults = {(Path(one["path"]).name, one["kind"]) for one in err if one["type"] == "error"}
    return SimpleNamespace(
        code=code, partitions=of_type["partition"], segments=of_type["segment"], faults=faults,
        log_dir=log_dirs[0] if log_dirs else None, messages=[one["message"] for one in err if one["type"] == "error"],
    )  # fmt: skip


def by_name(found):
    return {Path(p.path).name: p for p in found.partitions}


def test_a_partition_given_alone_has_the_checkpoints_of_the_directory_above(corpus, monkeypatch):
    path = corpus / "txn" / "data" / "tx-0"
    found = listing(path)
    assert (found.log_dir, found.partitions[0].checkpoints["recovery_point"]) == (None, 282)
    monkeypatch.chdir(path)
    here = listing(".").partitions[0]
    assert (here.checkpoints["recovery_point"], here.topic) == (282, "tx")


def test_segments_meet_and_cover_the_log(corpus):
    found = listing(corpus / "txn" / "data", "--segments", "--topic", "idem")
    assert [(s.first_offset, s.next_offset, s.active) for s in found.segments] == [
        (0, 53, False), (53, 120, False), (120, 180, True),
    ]  # fmt: skip
    assert found.segments[0].first_timestamp_ms == 1700000000000
    assert {s.format for s in found.segments} == {"v2"}


def test_compressed_sets_tell_their_first_offset_from_inside(corpus):
    found = listing(corpus / "upgraded" / "data", "--segments")
    formats = [(s.format, s.first_offset, s.first_timestamp_ms is None) for s in found.segments]
    assert formats == [("v0", 0, True), ("v1", 75, False), ("v2", 155, False)]


def test_a_delete_horizon_is_no_timestamp(corpus):
    """The header of a batch with tombstones holds the horizon where the first timestamp was."""
    seen = 0
    for path in sorted(corpus.glob("compact-*/after")):
        for segment in listing(path, "--segments", "--no-transactions").segments:
            data = Path(segment.path).read_bytes()
            if len(data) > 61 and data[16] == 2 and data[22] & 0x40:
                horizon, largest = struct.unpack_from(">qq", data, 27)
                seen += 1
                assert segment.first_timestamp_ms <= max(largest, segment.max_timestamp_ms) < horizon
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


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("replication-offset-checkpoint", b"\xff\xfe garbage", "invalid-entry"),
        ("recovery-point-offset-checkpoint", b"9\n0\n", "invalid-version"),
        ("cleaner-offset-checkpoint", b"0\n5\nt 0 1\n", "invalid-count"),
        ("meta.properties", b"version=7\n", "invalid-version"),
        (".kafka_cleanshutdown", b"{", "invalid-entry"),
        ("t-0/leader-epoch-checkpoint", b"\x00\x01", "invalid-entry"),
        ("t-0/partition.metadata", b"version: x", "invalid-entry"),
        ("t-0/00000000000000000000.snapshot", b"\x00\x01garbage!", "invalid-count"),
        ("t-0/00000000000000000000.index", bytes(9), "invalid-length"),
        ("t-0/00000000000000000000.timeindex", bytes(13), "invalid-length"),
        ("t-0/00000000000000000000.txnindex", bytes(33), "invalid-length"),
        ("t-0/00000000000000000000.log", b"\xff" * 100, "size-too-small"),
        ("t-0/00000000000000000000.log", bytes(100), "size-too-small"),
        ("t-0/server.log", b"", "unreadable"),
    ],
)
def test_garbage_is_a_fault_of_its_file(log_dir, name, data, kind):
    (log_dir / name).write_bytes(data)
    for options in ((), ("--segments",)):
        assert (Path(name).name, kind) in listing(log_dir, *options).faults


def test_ls_reports_links_pipes_and_directories_named_like_data_files(log_dir):
    partition = log_dir / "t-0"
    (partition / "00000000000000000005.log").mkdir()
    (partition / "00000000000000000006.log").symlink_to("nowhere")
    os.mkfifo(partition / "00000000000000000007.log")
    found = listing(log_dir, "--segments")
    assert found.faults == {(f"0000000000000000000{n}.log", "unreadable") for n in (5, 6, 7)}
    assert len(found.segments) == 1


def test_ls_lists_entries_of_unexpected_names_at_the_root(log_dir):
    (log_dir / "lost+found").mkdir()
    (log_dir / "notes.txt").touch()
    (log_dir / "replication-offset-checkpoint.tmp").write_bytes(b"0\n1\nt 0 9\n")
    (log_dir / "dangling-0").symlink_to("nowhere")
    found = listing(log_dir)
    assert [one["name"] for one in found.log_dir.foreign_directories] == ["lost+found"]
    assert [one["name"] for one in found.log_dir.other_entries] == [
        "dangling-0",
        "notes.txt",
        "replication-offset-checkpoint.tmp",
    ]
    assert found.faults == {("lost+found", "invalid-entry")}
    assert found.partitions[0].checkpoints["high_watermark"] is None, "the temporary file is not the checkpoint"


def test_runs_are_not_data(log_dir):
    write(log_dir / "t-0" / ".kafkalog" / "2026-run", {"00000000000000000000.log": b"x" * 99})
    partition = listing(log_dir).partitions[0]
    assert (partition.runs, partition.bytes["log"]) == ([{"name": "2026-run"}], 0)


def test_listing_names_the_kind_of_stray_and_future_directories(log_dir):
    for kind in ("stray", "future", "delete"):
        write(log_dir / f"t-1.0123456789abcdef0123456789abcdef-{kind}", {"00000000000000000000.log": b""})
    assert [p.directory_kind for p in listing(log_dir).partitions] == ["partition", "delete", "future", "stray"]


def test_offsets_beyond_the_end_of_the_log(log_dir):
    (log_dir / "replication-offset-checkpoint").write_bytes(b"0\n1\nt 0 40\n")
    assert listing(log_dir).partitions[0].high_watermark == 0
    (log_dir / "log-start-offset-checkpoint").write_bytes(b"0\n1\nt 0 40\n")
    assert any("a broker deletes every segment" in message for message in listing(log_dir).messages)


def test_a_broker_that_runs_has_not_stopped(log_dir):
    assert listing(log_dir).log_dir.shutdown == "unclean"
    with a_broker_on(log_dir):
        assert listing(log_dir).log_dir.shutdown == "running"


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
    faults = set()
    for options in ((), ("--segments",)):
        fs = FaultyFilesystem(below=RealFilesystem())
        if how == "refused":
            fs.refuse_open(path)
        else:
            fs.fail_read(path, 0, 1 << 40)
        found = listing(corpus / "txn" / "data", "--topic", "idem", *options, fs=fs)
        assert found.partitions or found.segments
        faults |= found.faults
    assert (name, "unreadable") in faults


def test_a_partition_that_cannot_be_looked_into_is_a_failure(corpus):
    fs = FaultyFilesystem(below=RealFilesystem())
    fs.refuse_open(str(corpus / "txn" / "data" / "tx-0"))
    found = listing(corpus / "txn" / "data", fs=fs)
    assert {name for name, _ in found.faults} == {"tx-0"}
    assert "idem-0" in by_name(found)
    assert found.code != 0


def test_paths_that_are_no_layout(tmp_path):
    assert json_of("ls", tmp_path)[2][0]["kind"] == "NotKafkaLayout"
    os.mkfifo(tmp_path / "x.log")
    assert json_of("ls", tmp_path / "x.log")[2][0]["kind"] == "NotKafkaLayout"


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
    fs = FaultyFilesystem(files)
    assert [Path(p.path).name for p in listing("/logs", fs=fs).partitions] == ["tx-0"]
    assert len(listing("/logs", "--segments", fs=fs).segments) == 7


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
    partition = listing("/logs", fs=fs).partitions[0]
    assert (partition.log_end_offset, partition.max_timestamp_ms, partition.faults) == (2, 9, [])
    assert fs.bytes_read < 1000
    assert fs.reads < 100
