"""`kafkalog dump-index` as a command: its text, its machine output, what is selected, exit codes, and bad input."""

import json
import os
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


def expected_text():
    """What must be said of `log_directory`; positions and sizes from the model, the rest by hand."""
    _, written = write(0, [[Spec((1000 + i, 1001 + i), padding=30)] for i in range(12)])
    offsets, times = indexes(written, PER_BATCH, 200)
    assert len(offsets) == 5
    entries = "".join(
        f"  offset: {offset} position: {position} right, last offset of the batch\n" for offset, position in offsets
    )
    moments = "".join(f"  timestamp: {timestamp} offset: {offset} right\n" for timestamp, offset in times)
    return EXPECTED.format(
        entries=entries,
        moments=moments,
        index_bytes=8 * len(offsets),
        time_bytes=12 * len(times),
        snapshot_bytes=len(metadata_snapshot([])),
        n=len(times),
        blank=" ",
    )


EXPECTED = """\
/log/__cluster_metadata-0/00000000000000000000.index: offset index, 4096 bytes
  zero tail of 4096 bytes, preallocated
  no entries
/log/__cluster_metadata-0/00000000000000000090-0000000001.checkpoint: metadata snapshot, {snapshot_bytes} bytes
  records of the metadata log up to offset 90, epoch 1: kafkalog dump-log prints them
/log/__cluster_metadata-0/quorum-state: quorum state, 104 bytes
  dataVersion: 1
  leaderId: 1
  leaderEpoch: 4
  votedId: -1
  clusterId:{blank}
  appliedOffset: 0
  currentVoters:{blank}
  votedDirectoryId: AAAAAAAAAAAAAAAAAAAAAA
/log/t-0/00000000000000000000.index: offset index, {index_bytes} bytes
{entries}  5 entries: 5 right; style: per batch (4.1 and later; 2.0 to 4.0 where every append call was one batch)
/log/t-0/00000000000000000000.timeindex: time index, {time_bytes} bytes
{moments}  {n} entries: {n} right
/log/t-0/00000000000000000024.index: offset index, 0 bytes
  no entries
/log/t-0/00000000000000000024.timeindex: time index, 12 bytes
  timestamp: 1100 offset: 30 right
  1 entry: 1 right
/log/t-0/00000000000000000024.txnindex: transaction index, 34 bytes
  version: 0 producerId: 7 firstOffset: 24 lastOffset: 30 lastStableOffset: 31 right
  1 entry: 1 right
/log/t-0/00000000000000000024.snapshot: producer snapshot, 10 bytes
  no entries
/log/t-0/00000000000000000031.snapshot: producer snapshot, 56 bytes
  producerId: 7 producerEpoch: 0 lastSequence: 5 lastOffset: 29 offsetDelta: 5 timestamp: 1100 coordinatorEpoch: 0\
 currentTxnFirstOffset: -1 right
  1 entry: 1 right
/log/t-0/leader-epoch-checkpoint: leader epochs, 9 bytes
  epoch: 1 startOffset: 24 right
  1 entry: 1 right
/log/t-0/partition.metadata: partition metadata, 43 bytes
  version: 0
  topicId: bGFiLWNsdXN0ZXItMDAwMA
/log/meta.properties: directory metadata, 54 bytes
  version: 1
  clusterId: bGFiLWNsdXN0ZXItMDAwMA
  nodeId: 1
  directoryId: none
/log/.kafka_cleanshutdown: clean shutdown, 30 bytes
  version: 0
  brokerEpoch: 11
/log/recovery-point-offset-checkpoint: recovery points, 11 bytes
  topic: t partition: 0 offset: 31 right
  1 entry: 1 right
/log/replication-offset-checkpoint: high watermarks, 21 bytes
  topic: t partition: 0 offset: 31 right
  topic: other partition: 3 offset: 7 no directory
  2 entries: 1 right, 1 no directory
/log/log-start-offset-checkpoint: log start offsets, 4 bytes
  no entries
/log/cleaner-offset-checkpoint: cleaner offsets, 0 bytes
  no entries
/log/bootstrap.checkpoint: bootstrap snapshot, {snapshot_bytes} bytes
  records of the metadata log: kafkalog dump-log prints them
"""


def test_the_text_of_a_log_directory():
    code, out, err = dump_index("/log", fs=FaultyFilesystem(log_directory()))
    assert (code, err) == (0, "")
    assert out == expected_text()


def test_machine_output_says_the_same():
    fs = FaultyFilesystem(log_directory())
    code, out, err = dump_index("/log", "--format", "json", fs=fs)
    assert (code, err) == (0, "")
    lines = [json.loads(line) for line in out.splitlines()]
    entries = [line for line in lines if line["type"] not in ("index-file", "summary")]
    paths = [line.split(": ")[0] for line in expected_text().splitlines() if not line.startswith(" ")]
    assert [line["path"] for line in lines if line["type"] == "index-file"] == paths
    checked = [line for line in entries if "verdict" in line]
    assert lines[-1] == {
        "schema": "kafkalog.summary/1",
        "type": "summary",
        "files": len(paths),
        "entries": len(checked),
        "verdicts": {"right": len(checked) - 1, "no directory": 1},
        "exit_code": 0,
    }
    index_entry = next(line for line in entries if line["type"] == "index-entry")
    assert index_entry == {
        "schema": "kafkalog.index-entry/1",
        "type": "index-entry",
        "path": f"/log/t-0/{0:020d}.index",
        "topic": "t",
        "partition": 0,
        "number": 0,
        "offset": 5,
        "position": len(batch_v2(0, (1000, 1001), b"x" * 30)) * 2,
        "verdict": "right",
        "styles": ["append-call", "per-batch"],
        "is_tolerable": True,
        "detail": "",
    }
    assert {line["type"] for line in entries} == {
        *("index-entry", "time-index-entry", "aborted-txn", "producer", "leader-epoch", "checkpoint-offset"),
        "metadata-file",
    }


@pytest.mark.parametrize(
    ("argv", "paths"),
    [
        (["/log", "--topic", "t"], {"t-0", "recovery-point", "replication", "log-start", "cleaner"}),
        (["/log", "--partition", "3"], {"recovery-point", "replication", "log-start", "cleaner"}),
        (["/log/t-0"], {"t-0"}),
        (["/log/t-0/"], {"t-0"}),
        (["/log/*-0", "--topic-pattern", "__.*"], {"__cluster_metadata-0"}),
        (["/log/*.index"], None),
        (["/log/t-0/*.timeindex"], {"t-0"}),
        (["/log/meta.properties"], {"meta.properties"}),
    ],
)
def test_what_is_selected(argv, paths):
    code, out, err = dump_index(*argv, fs=FaultyFilesystem(log_directory()))
    shown = [line.split(": ")[0].removeprefix("/log/") for line in out.splitlines() if not line.startswith(" ")]
    if paths is None:
        assert (code, out) == (10, "")
        assert "kafkalog: /log/*.index matches nothing" in err
        return
    assert (code, err) == (0, "")
    assert {path.split("/")[0].removesuffix("-offset-checkpoint") for path in shown} == paths
    if "--topic" in argv or "--partition" in argv:
        assert ("topic: t " in out) is ("--topic" in argv)
        assert ("topic: other " in out) is ("--partition" in argv)


def test_files_are_reported_as_given_and_alone():
    fs = FaultyFilesystem(log_directory())
    names = [f"/log/t-0/{31:020d}.snapshot", f"/log/t-0/{0:020d}.index", "/log/t-0/leader-epoch-checkpoint"]
    code, out, _ = dump_index(*names, fs=fs)
    assert code == 0
    assert [line.split(": ")[0] for line in out.splitlines() if not line.startswith(" ")] == names
    assert out.count("right") == (1 + 1) + (5 + 1) + (1 + 1)


def test_what_is_no_sidecar_is_ignored_aloud():
    fs = FaultyFilesystem(log_directory())
    log, index = f"/log/t-0/{0:020d}.log", f"/log/t-0/{0:020d}.index"
    code, out, err = dump_index(log, index, fs=fs)
    assert (code, err) == (
        0,
        f"kafkalog: {log}: ignored: it is not an index, a snapshot, a checkpoint or a metadata file\n",
    )
    code, out, err = dump_index(log, fs=fs)
    assert (code, out) == (10, "")
    code, _, err = dump_index(log, "--format", "json", fs=fs)
    assert [json.loads(line)["kind"] for line in err.splitlines()] == ["ignored", "NothingSelected"]


@pytest.mark.parametrize(("path", "code"), [("/none", 10), ("/none/*", 10), ("/log/t-0/none.index", 10)])
def test_a_path_that_is_not_there(path, code):
    fs = FaultyFilesystem(log_directory())
    assert dump_index(path, fs=fs)[0] == code
    several, out, err = dump_index(path, "/log/t-0", fs=fs)
    assert several == 5
    assert "offset index" in out
    assert path in err


def test_usage():
    assert dump_index()[0] == 2
    assert dump_index("/log", "--topic-pattern", "(")[0] == 2


# ---- the operating system refuses


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
def test_a_device_error_in_a_small_file_is_told_with_its_place(name):
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
    assert "1940 bytes that are not a batch; valid batches follow" in out
    found = re.findall(r"offset: (\d+) position: (\d+) (right|unverified)", out)
    assert len(found) == len(offsets)
    assert {int(p) // 4096 for _, p, verdict in found if verdict == "unverified"} <= {4, 20000 // 4096}
    assert found[-1][2] == "right"
    assert found[0][2] == "right"


def test_odd_things_on_a_disk(tmp_path):
    partition = tmp_path / "t-0"
    partition.mkdir()
    (partition / "00.log").write_bytes(b"")
    (partition / "00.index").mkdir()
    os.mkfifo(partition / "01.index")
    (partition / "new\nline\x1b[31m.snapshot").write_bytes(b"")
    (partition / "99999999999999999999999.index").write_bytes(bytes(16))
    (partition / "gone.timeindex").symlink_to("nowhere")
    code, out, err = dump_index(tmp_path)
    assert code == 4
    assert "\x1b" not in out + err
    assert "new\\nline\\x1b[31m.snapshot" in out
    assert out.count("the name does not begin with an offset") == 2
    code, out, err = dump_index(partition / "00.index")
    assert code == 10
    code, out, err = dump_index(partition / "01.index")
    assert code == 10


def test_a_file_out_of_its_directory_is_dumped_unverified(tmp_path):
    (tmp_path / "00000000000000000020.snapshot").write_bytes(snapshot((7, 0, 5, 19, 5, 1100, 0, -1)))
    code, out, _ = dump_index(tmp_path / "00000000000000000020.snapshot")
    assert code == 0
    assert "lastOffset: 19" in out
    (tmp_path / "00000000000000000020.index").write_bytes(offset_index(20, [(30, 500)]))
    code, out, _ = dump_index(tmp_path / "00000000000000000020.index")
    assert code == 3
    assert "offset: 30 position: 500 unverified, there is no log to check it against" in out


def test_files_too_large_to_be_true_are_not_read(tmp_path):
    (tmp_path / "t-0").mkdir()
    for name, size in (
        ("00.index", 65 << 20),
        ("00.timeindex", 65 << 20),
        ("00.txnindex", 17 << 20),
    ):
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


@pytest.mark.parametrize(
    ("name", "data", "code", "words"),
    [
        ("meta.properties", b"version=1\nnode.id=1\ncluster.id=my cluster\n", 3, "not one that Kafka generates"),
        ("meta.properties", b"version=1\nnode.id=1\n", 4, "cluster.id was not found"),
        ("meta.properties", b"version=7\n", 4, "Unknown meta.properties version"),
        (".kafka_cleanshutdown", b"rubbish", 3, "no broker epoch can be read"),
        (".kafka_cleanshutdown", b"", 0, "empty, as brokers up to 3.6 wrote it"),
        ("recovery-point-offset-checkpoint", b"0\n1\nt 0\n", 4, "malformed line: t 0"),
        ("t-0/partition.metadata", b"version: 0\n", 4, "the file ends before line 2"),
        ("__cluster_metadata-0/quorum-state", b"{}", 4, "data_version"),
        ("t-0/leader-epoch-checkpoint.tmp", b"0\n", 0, "a checkpoint that was being written"),
        ("meta.properties.tmp", b"", 0, "a file that was being written"),
    ],
)
def test_what_is_wrong_with_a_metadata_file(name, data, code, words):
    found, out, _ = dump_index("/log", fs=FaultyFilesystem({**log_directory(), f"/log/{name}": data}))
    assert found == code
    assert words in out


def test_leftovers_are_checked_against_their_own_log():
    files = log_directory()
    zero = f"/log/t-0/{0:020d}"
    half = files[zero + ".log"][: len(files[zero + ".log"]) // 2]
    leftovers = {
        zero + ".log.cleaned": half,
        zero + ".index.cleaned": files[zero + ".index"],
        zero + ".index.swap": files[zero + ".index"],  # its log was renamed already
        f"/log/t-0/{24:020d}.txnindex.deleted": files[f"/log/t-0/{24:020d}.txnindex"],
        f"/log/t-0/{24:020d}.log.deleted": files[f"/log/t-0/{24:020d}.log"],
        f"/log/t-0/{31:020d}.snapshot.deleted": files[f"/log/t-0/{31:020d}.snapshot"][:-1] + b"!",
    }
    code, out, _ = dump_index("/log/t-0", fs=FaultyFilesystem({**files, **leftovers}))
    assert code == 3
    sections = {part.split(": ")[0]: part for part in out.split("/log/t-0/")[1:]}
    assert "beyond the end" in sections[f"{0:020d}.index.cleaned"]
    assert "5 entries: 5 right" in sections[f"{0:020d}.index.swap"]
    assert "1 entry: 1 right" in sections[f"{24:020d}.txnindex.deleted"]
    assert "Snapshot is corrupt" in sections[f"{31:020d}.snapshot.deleted"]
    assert "a broker that starts deletes it" in sections[f"{0:020d}.log.cleaned"]


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


@pytest.mark.parametrize(("magic", "missing"), [(0, False), (1, False), (2, True)])
def test_brokers_before_0_10_1_had_no_time_indexes(magic, missing):
    log, _ = write(0, [[Spec((5,), magic=magic)]])
    code, out, _ = dump_index("/t-0", fs=FaultyFilesystem({"/t-0/00.log": log, "/t-0/00.index": b""}))
    assert (code, "00000000000000000000.timeindex: time index\n  warning: missing" in out) == (3 * missing, missing)


def test_where_a_clean_start_would_end_the_log_is_told_where_it_differs():
    log, written = write(0, [[Spec((i,), padding=60)] for i in range(9)])
    torn = log[:-1]
    last = written[-1][0]
    files = {"/t-0/00.log": torn, "/t-0/00.index": offset_index(0, [(8, last.position)]), "/t-0/00.timeindex": b""}
    code, out, _ = dump_index("/t-0", fs=FaultyFilesystem(files))
    assert code == 4
    assert "a broker uses 0 as the end of the log, although batches continue to offset 7" in out
    code, out, _ = dump_index("/t-0", fs=FaultyFilesystem({**files, "/t-0/00.log": log}))
    assert (code, "as the end of the log" in out) == (0, False)


def test_a_file_of_another_topic_is_not_selected():
    fs = FaultyFilesystem(log_directory())
    index = f"/log/t-0/{0:020d}.index"
    assert dump_index(index, "--topic", "t", fs=fs)[0] == 0
    code, out, _ = dump_index(index, "--topic", "other", fs=fs)
    assert (code, out) == (10, "")


# ---- bad bytes


SMALL = [name for name, data in log_directory().items() if data and not name.endswith(".log") and "__" not in name]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SMALL)
def test_every_truncation_of_a_small_file_ends_with_an_answer(name):
    files = log_directory()
    for size in range(len(files[name])):
        code, out, _ = dump_index("/log", fs=FaultyFilesystem({**files, name: files[name][:size]}))
        assert code in (0, 3, 4)
        assert f"{name}: " in out


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SMALL)
def test_every_flipped_bit_of_a_small_file_ends_with_an_answer(name):
    files = {path: data for path, data in log_directory().items() if path == name or path.endswith(".log")}
    for bit in range(0, len(files[name]) * 8, 3):
        damaged = bytearray(files[name])
        damaged[bit >> 3] ^= 1 << (bit & 7)
        code, _, _ = dump_index(name, fs=FaultyFilesystem({**files, name: bytes(damaged)}))
        assert code in (0, 3, 4)


def test_every_flipped_bit_of_the_log_ends_with_an_answer():
    files = log_directory()
    name = f"/log/t-0/{24:020d}.log"
    for bit in range(0, 8 * len(files[name]), 5):
        damaged = bytearray(files[name])
        damaged[bit >> 3] ^= 1 << (bit & 7)
        code, out, _ = dump_index("/log/t-0", fs=FaultyFilesystem({**files, name: bytes(damaged)}))
        # Length, epoch and magic lie outside of the CRC: a changed epoch contradicts its checkpoint.
        assert code in (3, 4), (bit, out)


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
