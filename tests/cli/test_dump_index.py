"""`kafkalog dump-index` where the system refuses, of files that are too large, and of any bytes; tests/transcripts/indexes.md has its output."""

import json
import random
import re
import struct
import sys

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.index_model import PER_BATCH, Spec, batch_v2, indexes, offset_index, time_index, write
from tests.support.commands import kafkalog
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.metadata_logs import snapshot as metadata_snapshot

UUID = "bGFiLWNsdXN0ZXItMDAwMA"


def dump_index(*argv, fs=None):
    return kafkalog("dump-index", *argv, fs=fs, errors="surrogateescape")


def aborted(*fields):
    return struct.pack(">hqqqq", 0, *fields)


def snapshot(*entries):
    body = struct.pack(">i", len(entries)) + b"".join(struct.pack(">qhiqiqiq", *entry) for entry in entries)
    return struct.pack(">hI", 1, crc32c(body)) + body


def log_directory():
    """Every kind of file, sound: a log directory of one broker, with a partition and KRaft's metadata."""
    calls = [[Spec((1000 + i, 1001 + i), padding=30)] for i in range(12)]
    log, written = write(0, calls)
    offsets, times = indexes(written, PER_BATCH, 200)
    marker = batch_v2(30, (1100,), struct.pack(">hi", 0, 0), attributes=0x30, epoch=1, producer=(7, 0, -1),
                      keys=(struct.pack(">hh", 0, 0),))  # fmt: skip
    second = batch_v2(24, (1090,) * 6, b"v", attributes=0x10, epoch=1, producer=(7, 0, 0)) + marker
    partition = {
        f"{0:020d}.log": log,
        f"{0:020d}.index": offset_index(0, offsets),
        f"{0:020d}.timeindex": time_index(0, times),
        f"{24:020d}.log": second,
        f"{24:020d}.index": b"",
        f"{24:020d}.timeindex": time_index(24, [(1100, 30)]),
        f"{24:020d}.txnindex": aborted(7, 24, 30, 31),
        f"{24:020d}.snapshot": snapshot(),
        f"{31:020d}.snapshot": snapshot((7, 0, 5, 29, 5, 1100, 0, -1)),
        "leader-epoch-checkpoint": b"0\n1\n1 24\n",
        "partition.metadata": f"version: 0\ntopic_id: {UUID}".encode(),
    }
    metadata = {
        f"{0:020d}.log": b"",
        f"{0:020d}.index": bytes(4096),
        "quorum-state": b'{"leaderId":1,"leaderEpoch":4,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}',
        f"{90:020d}-0000000001.checkpoint": metadata_snapshot([]),
    }
    root = {
        "meta.properties": f"version=1\nnode.id=1\ncluster.id={UUID}\n".encode(),
        ".kafka_cleanshutdown": b'{"version":0,"brokerEpoch":11}',
        "recovery-point-offset-checkpoint": b"0\n1\nt 0 31\n",
        "replication-offset-checkpoint": b"0\n2\nt 0 31\nother 3 7\n",
        "log-start-offset-checkpoint": b"0\n0\n",
        "cleaner-offset-checkpoint": b"",
        "bootstrap.checkpoint": metadata_snapshot([]),
    }
    files = {f"/log/t-0/{name}": data for name, data in partition.items()}
    files |= {f"/log/__cluster_metadata-0/{name}": data for name, data in metadata.items()}
    return files | {f"/log/{name}": data for name, data in root.items()}


def test_a_file_that_cannot_be_read_fails_alone():
    files = log_directory()
    index, log = f"/log/t-0/{0:020d}.index", f"/log/t-0/{24:020d}.log"
    fs = FaultyFilesystem(files)
    fs.refuse_open(index)
    code, out, _ = dump_index("/log/t-0", fs=fs)
    assert code == 5
    assert f"{index}: offset index, 40 bytes\n  error: cannot be read: Permission denied\n" in out
    assert not fs.unfired()
    fs = FaultyFilesystem(files)
    fs.refuse_open(log)
    code, out, _ = dump_index("/log/t-0", fs=fs)
    assert code == 5
    assert f"{log}: log, 187 bytes\n  error: cannot be read: Permission denied\n" in out
    assert "timestamp: 1100 offset: 30 unverified" in out
    fs = FaultyFilesystem(files)
    fs.refuse_open("/log/t-0")
    code, out, err = dump_index("/log", fs=fs)
    assert code == 5
    assert "/log/t-0: Permission denied" in err


@pytest.mark.parametrize("name", [f"{0:020d}.index", f"{0:020d}.timeindex", f"{24:020d}.txnindex", f"{31:020d}.snapshot",
                                  "leader-epoch-checkpoint", "partition.metadata"])  # fmt: skip
def test_dump_index_reports_a_device_error_in_a_small_file_with_its_position(name):
    fs = FaultyFilesystem(log_directory())
    fs.fail_read(f"/log/t-0/{name}", 4, 8)
    code, out, _ = dump_index("/log/t-0", fs=fs)
    assert code in (1, 4, 5)
    assert "cannot be read: Input/output error" in out
    assert not fs.unfired()


def test_a_device_error_in_the_log_leaves_what_is_behind_it_checked():
    files = log_directory()
    calls = [[Spec((i,), padding=900)] for i in range(60)]
    log, written = write(0, calls)
    offsets, _ = indexes(written, PER_BATCH, 2000)
    files = {"/t-0/00.log": log, "/t-0/00.index": offset_index(0, offsets), "/t-0/00.timeindex": b""}
    fs = FaultyFilesystem(files)
    fs.fail_read("/t-0/00.log", 20000, 20001)
    code, out, _ = dump_index("/t-0", fs=fs)
    assert code == 4
    assert "at byte 19968: cannot be read: Input/output error" in out
    found = re.findall(r"offset: (\d+) position: (\d+) (right|unverified)", out)
    assert len(found) == len(offsets)
    assert {int(p) // 4096 for _, p, verdict in found if verdict == "unverified"} <= {4, 20000 // 4096}
    assert found[-1][2] == "right"
    assert found[0][2] == "right"


def test_files_too_large_to_be_true_are_not_read(tmp_path):
    (tmp_path / "t-0").mkdir()
    for name, size in (("00.index", 65 << 20), ("00.timeindex", 65 << 20), ("00.txnindex", 17 << 20)):
        with (tmp_path / "t-0" / name).open("wb") as file:
            file.seek(size - 1)
            file.write(b"\1")  # a broker preallocates indexes, and their zeros are no reason
    code, out, _ = dump_index(tmp_path / "t-0")
    assert code == 3
    assert out.count("bytes are too many to check") == 3


def test_a_hole_larger_than_any_preallocated_index_is_not_read_through(tmp_path):
    """segment.index.bytes is an int; a hole of 16 TiB would take a day."""
    (tmp_path / "t-0").mkdir()
    with (tmp_path / "t-0" / "00.index").open("wb") as file:
        file.truncate(1 << 43)
    code, out, _ = dump_index(tmp_path / "t-0")
    assert code == 3
    assert "8796093022208 bytes are too many to check" in out


def test_leftovers_about_to_go_are_no_worse_than_a_warning():
    files = log_directory()
    snapshot_name = f"/log/t-0/{90:020d}.snapshot.deleted"
    gone = {snapshot_name: snapshot((7, 0, 50, 89, 0, 1100, -1, -1))}
    code, out, _ = dump_index("/log/t-0", fs=FaultyFilesystem({**files, **gone}))
    assert (code, "offset 89 is not in the log yet" in out) == (0, True)
    own_log = batch_v2(24, (1,), b"", attributes=0x10, producer=(7, 0, 0))
    index = {f"/log/t-0/{24:020d}.log.cleaned": own_log, f"/log/t-0/{24:020d}.txnindex.cleaned": aborted(7, 24, 30, 31)}
    code, out, _ = dump_index("/log/t-0", fs=FaultyFilesystem({**files, **index}))
    assert (code, "lastOffset: 30 lastStableOffset: 31 beyond the end" in out) == (3, True)


SMALL = [name for name, data in log_directory().items() if data and not name.endswith(".log") and "__" not in name]


@settings(max_examples=60)
@given(st.sampled_from([*SMALL, f"/log/t-0/{0:020d}.log"]), st.binary(max_size=300))
def test_any_bytes_in_any_file_end_with_an_answer(name, data):
    fs = FaultyFilesystem({**log_directory(), name: data})
    for argv in (["/log"], [name], ["/log", "--format", "json"]):
        code, out, _ = dump_index(*argv, fs=fs)
        assert code in (0, 3, 4, 10)
        if "json" in argv:
            assert [json.loads(line)["type"] for line in out.splitlines()][-1] == "summary"


@pytest.mark.full
def test_a_large_index_of_garbage_is_done_with_in_seconds():
    rng = random.Random(5)
    log, _ = write(0, [[Spec((i,), padding=20)] for i in range(400)])
    files = {"/t-0/00.log": log, "/t-0/00.index": rng.randbytes(1 << 20), "/t-0/00.timeindex": rng.randbytes(1 << 20)}
    code, out, _ = dump_index("/t-0", fs=FaultyFilesystem(files))
    assert code == 4
    assert sys.getsizeof(out) > 1 << 20
    # Every position lies in the one good batch, every offset beyond it: the worst for a check that waits for call ends.
    same = offset_index(0, [(1000 + i, len(log) - 200) for i in range(50_000)])
    code, out, _ = dump_index("/t-0", fs=FaultyFilesystem({**files, "/t-0/00.index": same}))
    assert code == 4


def test_dump_log_names_no_negative_byte_where_an_index_points_before_the_segment(tmp_path):
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(batch_v2(0, (1000,), b"v"))
    index = tmp_path / "t-0" / f"{0:020d}.index"
    index.write_bytes(struct.pack(">ii", 3, -5))
    (error,) = map(json.loads, kafkalog("dump-log", "--format", "json", "--files", index).err.splitlines())
    assert (error["message"], "position" in error) == ("the index points outside the segment", False)
