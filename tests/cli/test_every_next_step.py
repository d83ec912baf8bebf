"""Every kind of finding has a case here: the commands that it prints are run, literally, and lead to a clean verify, or
its words state the end: why nothing has to be done, or who decides."""

import json
import re
import shlex
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from tests.damage.test_verify_places import (
    CONTROL,
    FIRST,
    GOOD,
    R2,
    TRANSACTIONAL,
    count_of,
    log_dir,
    metadata_log,
    partition,
    ten_batches,
    topic,
    topic_id,
    with_crc,
)
from tests.support import metadata_nodes as nodes
from tests.support.commands import kafkalog
from tests.support.damaged_nodes import DAMAGES, node
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.logs import BASE_TIME_MS, R, batch_v2, message_set, producer_snapshot, write_segment
from tests.support.metadata_logs import snapshot
from tests.support.product import FindingKind, RealFilesystem, Severity, staged_name, text_of
from tests.support.product_journal import NewPartitions, StagedPartition, make_partition

COMMAND = re.compile(r"`([^`]+)`")
RUN = ("kafkalog", "sudo", "mv", "cp", "rm", "sed", "sh", "truncate")
STATED = re.compile(
    r"nothing (has to|can) be done|the only remedy is|decides|from a backup|(?:^|; )import the records|keep that directory|move the other away"
)
NOW = str(BASE_TIME_MS + 86_400_000)
DISK, OTHER, LOG = Path("log dir"), Path("other dir"), f"{0:020}.log"
CASES = {}
AFTER = {}
"""By kind: what is verified at the end, where the first command line cannot be repeated."""


def case(kind, *, after=None):
    """The function makes the damage in the working directory, and gives what follows `kafkalog verify`."""

    def add(make):
        CASES.setdefault(FindingKind(kind), []).append(make)
        if after is not None:
            AFTER[make] = after
        return make

    return add


class Faulty(FaultyFilesystem):
    """Reads may fail; all else is the real disk."""

    def __getattr__(self, name):
        return getattr(self.below, name)


def findings(argv, fs=None):
    code, out, _ = kafkalog("verify", *argv, "--format", "json", fs=fs)
    return code, [line for line in map(json.loads, out.splitlines()) if line["type"] == "finding"]


def execute(command, fs=None):
    """Run a command as it is printed; whether it is a verify that finds nothing."""
    words = shlex.split(command)
    if words[:2] == ["sudo", "kafkalog"]:
        words, fs = words[1:], None
    if words[0] == "kafkalog":
        code, _, err = kafkalog(*words[1:], fs=fs, errors="replace")
        may_lose = "--salvage" in words or words[1] == "read"
        assert code in (0, 3) or words[1] == "verify" or (may_lose and code == 4), (command, code, err)
        return words[1] == "verify" and code == 0
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stderr)
    return False


def commands_of(line):
    step = line["next_step"] or ""
    return [
        command for command in COMMAND.findall(step) if command.split()[0] in RUN and "--metadata DIR" not in command
    ]


def follow(argv, after, fs):
    """Do what is printed, one command at a time; whether that ended in a clean verify, and what is still found."""
    done = []
    code, found = findings(argv, fs)
    while True:
        told = [command for line in found if line["severity"] != "info" for command in commands_of(line)]
        new = [command for command in dict.fromkeys(told) if command not in done]
        if not new:
            return code == 0, found, done
        done.append(new[0])
        assert len(done) < 20, done
        if execute(new[0], fs):
            return True, [], done
        paths = [word for word in argv if Path(word).exists()]
        code, found = findings(argv if paths and after is None else after or [DISK], fs)


PARTITION = DISK / "topic-0"


def sound(**more):
    """A log directory with topic-0 of ten batches."""
    log_dir(DISK, **more)
    return partition(DISK)


def changed(change, *, level=None, name=LOG, **more):
    """The sound directory after `change` of the bytes of one of its files."""
    folder = sound(**more)
    path = folder / name
    data = bytearray(path.read_bytes())
    path.write_bytes(change(data) or data)
    return [DISK, "--now", NOW, *([] if level is None else ["--level", level])]


def starts():
    """Where each of the ten batches begins."""
    sizes = [len(data) for data, _, _ in ten_batches()]
    return [sum(sizes[:number]) for number in range(len(sizes))]


def setting(position, value):
    def change(data):
        data[position : position + len(value)] = value

    return change


def from_corpus(name):
    def make(corpus):
        shutil.copytree(corpus / name / "before", DISK)
        return [DISK]

    return make


def of_node(damage):
    """The log directory of a real node with a static quorum, damaged."""

    def make(corpus):
        node("static", Path()).rename(DISK)
        DAMAGES[damage].make(DISK)
        return [DISK]

    return make


# ---- the chain of batches

case("torn-tail")(lambda corpus: changed(lambda data: data + data[:30]))
case("zero-tail")(lambda corpus: changed(lambda data: data + bytes(200)))
case("bad-tail-batch")(lambda corpus: changed(lambda data: data[:-1] + b"X", stop=None))
case("damaged-range")(lambda corpus: changed(setting(starts()[3] + 8, struct.pack(">i", 1 << 30))))
case("zeroed-range")(lambda corpus: changed(setting(starts()[3], bytes(starts()[5] - starts()[3]))))
case("crc-mismatch")(lambda corpus: changed(setting(200, b"\xff")))
case("unknown-magic")(lambda corpus: changed(setting(starts()[3] + 16, b"\x05")))
case("offsets-not-ascending")(lambda corpus: changed(setting(starts()[5], bytes(8))))
case("epoch-goes-back")(lambda corpus: changed(setting(12, struct.pack(">i", 5))))
case("missing-offsets")(from_corpus("clean-gap"))


def epochs_go_back(checkpoint):
    """No file fits the batches then. One that a broker can read stays; one that keeps it from starting is rebuilt."""

    def make(corpus):
        told = changed(setting(12, struct.pack(">i", 5)))
        (PARTITION / "leader-epoch-checkpoint").write_bytes(checkpoint)
        return told

    return make


for damaged in (b"0\n1\n3 0\n", b"0\nx\n", b"1\n0\n", b"0\n2\n0 0\n", b"\xff"):
    case("leader-epochs-wrong")(epochs_go_back(damaged))


@case("batch-too-large")
def _(corpus):
    sound()
    return [DISK, "--max-batch-bytes", "60"]


@case("unreadable-range")
def _(corpus):
    log_dir(DISK)
    partition(DISK, written=ten_batches(value=b"v" * 2000))
    fs = Faulty(below=RealFilesystem())
    fs.fail_read(str(PARTITION / LOG), 8192, 12288)
    return [DISK], fs


@case("offset-outside-segment")
def _(corpus):
    sound()
    for path in PARTITION.glob("000*"):
        path.rename(path.with_stem(f"{30:020}"))
    return [DISK]


def gap(*options):
    log_dir(DISK)
    written = ten_batches()
    partition(DISK, written=[*written[:4], *written[6:]])
    return [DISK, *options]


case("offset-gap")(lambda corpus: gap())
case("missing-offsets")(lambda corpus: gap("--topic", "topic", "--config", "cleanup.policy=delete"))


@case("empty-segment")
def _(corpus):
    log_dir(DISK)
    folder = partition(DISK)
    for path in folder.glob("000*"):
        path.unlink()
    write_segment(folder, 0, [])
    write_segment(folder, 2, ten_batches()[1:])
    return [DISK]


# ---- batches and records


def odd_times(time):
    def make(corpus):
        log_dir(DISK)
        partition(DISK, written=ten_batches([BASE_TIME_MS] * 3 + [time] + [BASE_TIME_MS] * 6))
        return [DISK, "--now", NOW]

    return make


case("future-timestamp")(odd_times(BASE_TIME_MS + 10 * 86_400_000))
case("timestamp-unit")(odd_times(BASE_TIME_MS // 1000))
case("timestamp-unit")(odd_times(BASE_TIME_MS * 1000))
case("negative-timestamp")(odd_times(-7))


def cleared(entry):
    """A message set whose codec bits are cleared, with the CRC of its bytes."""
    entry = entry[:17] + bytes([entry[17] & 0xF8]) + entry[18:]
    return entry[:12] + struct.pack(">I", zlib.crc32(entry[16:])) + entry[16:]


def odd_records(batch, *options):
    def make(corpus):
        log_dir(DISK)
        written = ten_batches()
        written[2] = (batch, 5, BASE_TIME_MS)
        partition(DISK, written=written)
        return [DISK, *(options or ("--level", "deep"))]

    return make


MARKER = batch_v2([R2[1]._replace(key=b"\0")], base=4, producer=(1, 0, -1), bits=CONTROL | TRANSACTIONAL)
SET = [R(4 + i, BASE_TIME_MS, b"k", b"value") for i in range(2)]
NULL_VALUE = batch_v2([R2[0]._replace(value=None), R2[1]])
case("negative-length")(odd_records(with_crc(NULL_VALUE.replace(b"\x02k\x01", b"\x02k\x03"))))
case("packed-value")(odd_records(cleared(message_set(SET, 1, 1))))
case("missing-offsets")(odd_records(message_set(SET[1:], 1, 1)))
case("max-timestamp")(odd_records(batch_v2(R2, max_timestamp=BASE_TIME_MS + 5)))
case("producer-fields")(odd_records(batch_v2(R2, producer=(7, 0, -1))))
case("record-count")(odd_records(count_of(GOOD, 3)))
case("invalid-record")(odd_records(with_crc(GOOD[:-40] + b"\xff" * 40)))
case("decompression-failed")(odd_records(with_crc(GOOD[:22] + b"\x04" + GOOD[23:])))
case("unknown-codec")(odd_records(with_crc(GOOD[:22] + b"\x07" + GOOD[23:])))
case("record-offset")(odd_records(batch_v2(R2[::-1], base=4, last=5)))
case("invalid-control-record")(odd_records(MARKER))
for odd in (
    b"\0\0\x79\x2d",
    b"\0\0\0\2",
    b"\0\0\0\1",
):  # an unknown type, a type without a producer, a marker without a value
    marker = R2[1]._replace(key=odd, value=None if odd[3] == 1 else b"\0\0\0\0\0\0")
    odd_marker = batch_v2([marker], base=4, producer=(1, 0, -1), bits=CONTROL | TRANSACTIONAL)
    case("invalid-control-record")(odd_records(odd_marker))
    case("invalid-control-record")(odd_records(odd_marker, "--level", "normal"))


@case("offset-index-missing")
def _(corpus):
    """A broker that rebuilds the index fails at the marker, as recover does: only a salvage helps."""
    told = odd_records(MARKER, "--level", "normal")(corpus)
    (PARTITION / LOG).with_suffix(".index").unlink()
    return told


@case("invalid-inner-message")
def _(corpus):
    import gzip

    from tests.support.logs import message

    inner = b"".join(message(R(i, BASE_TIME_MS, b"k", b"value"), 1) for i in range(2))
    bad = message(R(5, BASE_TIME_MS, None, gzip.compress(inner[:-1] + b"X")), 1, 1)
    return odd_records(bad)(corpus)


@case("output-too-large")
def _(corpus):
    odd_records(batch_v2([R(4, BASE_TIME_MS), R(5, BASE_TIME_MS, None, bytes(5000))], codec=1))(corpus)
    return [DISK, "--level", "deep", "--max-output-bytes", "1000"]


# ---- files beside the log


def without(suffix):
    def make(corpus):
        sound()
        (PARTITION / LOG).with_suffix(suffix).unlink()
        return [DISK]

    return make


def file(name, change):
    return lambda corpus: changed(change, name=name)


INDEX, TIMES = f"{0:020}.index", f"{0:020}.timeindex"
case("offset-index-missing")(from_corpus("crash-del-index"))
case("time-index-missing")(from_corpus("crash-del-timeindex"))
case("offset-index-wrong")(file(INDEX, lambda data: struct.pack(">ii", 3, 99)))
case("end-not-seen")(file(INDEX, lambda data: struct.pack(">ii", 3, 99)))
case("offset-index-inexact")(file(INDEX, lambda data: data + b"\0\0\0"))
case("time-index-wrong")(file(TIMES, lambda data: struct.pack(">qi", BASE_TIME_MS + 999, 3)))
case("time-index-inexact")(file(TIMES, lambda data: data + b"\0\0\0"))
case("index-zero-tail")(from_corpus("crash-zero-index"))
case("entries-behind-tail")(from_corpus("crash-cut-header"))
case("producer-snapshot-wrong")(from_corpus("crash-bad-snapshot"))
case("producer-snapshots-missing")(from_corpus("crash-del-snapshots"))
case("leader-epochs-wrong")(from_corpus("crash-flip-epoch"))
case("leader-epochs-missing")(from_corpus("crash-del-epoch"))


def transactions(change):
    def make(corpus):
        shutil.copytree(corpus / "txn" / "data", DISK)
        path = next(path for path in sorted(DISK.glob("*/*.txnindex")) if path.stat().st_size)
        path.write_bytes(change(path.read_bytes()))
        return [DISK]

    return make


case("txn-index-wrong")(transactions(lambda data: b""))
case("txn-index-inexact")(transactions(lambda data: data + b"\0\0\0"))


@case("producer-snapshot-beyond-end")
def _(corpus):
    shutil.copytree(corpus / "clean-asis" / "before", DISK)
    last = max(DISK.glob("*/*.snapshot"))
    shutil.copy(last, last.with_stem(f"{999:020}"))
    return [DISK]


@case("entries-not-checked")
def _(corpus):
    shutil.copytree(corpus / "clean-asis" / "before", DISK)
    last = max(DISK.glob("*/*.snapshot"))
    last.write_bytes(producer_snapshot([(at, 0, -1, -1, 0, 1, -1, -1) for at in range(370_000)]))
    return [DISK]


# ---- names and leftovers


def added(name, content=b""):
    def make(corpus):
        sound()
        path = DISK / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return [DISK]

    return make


case("orphan-index")(added(f"topic-0/{7:020}.index"))
case("leftover-cleaned")(added(f"topic-0/{LOG}.cleaned"))
case("leftover-swap")(added(f"topic-0/{LOG}.swap", b"".join(data for data, _, _ in ten_batches())))
case("leftover-deleted")(added(f"topic-0/{LOG}.deleted"))
case("leftover-temporary")(added("topic-0/leader-epoch-checkpoint.tmp"))
case("bad-name")(added("topic-0/it's server.log"))
for name in ("x.swap", "x.cleaned", "x.log.swap", "x.index.cleaned", "leader-epoch-checkpoint.swap", "x.snapshot"):
    case("bad-name")(added(f"topic-0/{name}"))
case("unknown-file")(added("topic-0/notes.txt"))
case("foreign-directory")(added("lost+found/a file"))
case("import-staged")(added(f"{staged_name('topic', 3, 'run', '0')}/{LOG}"))


@case("odd-file")
def _(corpus):
    sound()
    (PARTITION / f"{99:020}.log").mkdir()
    return [DISK]


@case("odd-entry")
def _(corpus):
    sound()
    (PARTITION / ".kafkalog").mkdir()
    (PARTITION / ".kafkalog" / "a link").symlink_to("/etc")
    return [DISK]


def marked(suffix, *options):
    def make(corpus):
        sound()
        PARTITION.rename(f"{PARTITION}.{'ab' * 16}-{suffix}")
        metadata_log(Path("meta"), *topic(1, "topic"))
        return [DISK, "--metadata", "meta"]

    return make


@case("time-index-inexact")
def _(corpus):
    """The partition is in its place again, so that recover refuses the directory that a broker set aside."""
    sound()
    stray = DISK / f"topic-0.{'ab' * 16}-stray"
    shutil.copytree(PARTITION, stray)
    with (stray / TIMES).open("ab") as index:
        index.write(bytes(3))
    return [DISK]


for _suffix in ("delete", "future", "stray"):
    case("marked-directory")(marked(_suffix))


# ---- checkpoints and metadata of a log directory


def line(name, offset, *others):
    def make(corpus):
        sound(lines=[(name, "topic", 0, offset), *others])
        return [DISK]

    return make


case("recovery-point-beyond-end")(line("recovery-point", 21))
case("high-watermark-beyond-end")(line("replication", 21))
case("log-start-beyond-end")(line("log-start", 21))
case("cleaner-offset-beyond-end")(line("cleaner", 21))
case("checkpoints-disagree")(line("log-start", -5))
case("checkpoints-disagree")(line("log-start", 12, ("replication", "topic", 0, 10)))
case("checkpoints-disagree")(line("replication", 3, ("replication", "topic", 0, 4)))
case("checkpoint-damaged")(added("recovery-point-offset-checkpoint", b"0\n2\ntopic 0 2\ntopic x 5\n"))
case("checkpoint-malformed")(added("recovery-point-offset-checkpoint", b"0\n1\nnonsense\n"))
case("meta-properties")(added("meta.properties", b"version=1\n"))
case("directory-id-unknown")(of_node("directory.id of another disk"))
case("metadata-log-lost")(of_node("metadata log empty"))
case("shutdown-marker")(added(".kafka_cleanshutdown", b"{"))


@case("log-start-beyond-end")
def _(corpus):
    log_dir(DISK, lines=[("log-start", "a.b", 7, 50), ("log-start", "axb", 7, 50)])
    partition(DISK, "a.b-7")
    partition(DISK, "axb-7", of=topic_id(2))
    return [DISK]


@case("shutdown-marker")
def _(corpus):
    sound(stop=None)
    (DISK / ".kafkalog-clean-shutdown").write_bytes(b"{")
    return [DISK]


@case("meta-properties-missing")
def _(corpus):
    sound()
    (DISK / "meta.properties").unlink()
    return [DISK]


@case("shutdown-marker-held")
def _(corpus):
    from_corpus("clean-torn")(corpus)
    assert kafkalog("recover", DISK)[0] == 0
    return [DISK]


def two_directories(**more):
    sound()
    log_dir(OTHER, **{"directory": 2, **more})
    partition(OTHER, "topic-1")
    return [DISK, OTHER]


case("meta-properties-differ")(lambda corpus: two_directories(directory=1))
case("shutdown-markers-differ")(lambda corpus: two_directories(stop=None))


def in_metadata(records, own=FIRST, content=None):
    def make(corpus):
        log_dir(DISK)
        partition(DISK, of=own)
        if content is not None:
            (PARTITION / "partition.metadata").write_bytes(content)
        metadata_log(Path("meta data"), *records)
        return [DISK, "--metadata", "meta data"]

    return make


case("partition-metadata-damaged")(in_metadata(topic(1, "topic"), content=b"\xff"))
case("partition-metadata-missing")(in_metadata(topic(1, "topic"), own=None))


@case("quorum-state-damaged")
def _(corpus):
    log_dir(DISK)
    metadata_log(DISK, *topic(1, "topic"))
    (DISK / "__cluster_metadata-0" / "quorum-state").write_text('{"leaderId":1,"data_version":1}')
    return [DISK]


def in_metadata_of_node(change):
    def make(corpus):
        change(nodes.copy_of(corpus, DISK) / nodes.METADATA)
        return [DISK]

    return make


def bad_record(name):
    return lambda folder: nodes.append(folder.parent, *nodes.BAD_RECORDS[name].values)


def snapshot_of_the_future(folder):
    """Sound, and of a later epoch than the log: the node removes the log after it."""
    (folder / nodes.SNAPSHOT).unlink()
    name = f"{97:020d}-{9:010d}.checkpoint"
    (folder / name).write_bytes(snapshot([], epoch=9, time_ms=nodes.time_before(folder, 97)))


def begins_at_snapshot(folder):
    nodes.begin_at_snapshot(folder.parent)
    (folder / nodes.SNAPSHOT).unlink()


case("metadata-record")(in_metadata_of_node(bad_record("broker-epoch")))
case("metadata-newer")(in_metadata_of_node(bad_record("unknown-type")))
case("metadata-snapshot-damaged")(in_metadata_of_node(lambda folder: (folder / nodes.SNAPSHOT).write_bytes(b"")))
case("metadata-snapshot-missing")(in_metadata_of_node(begins_at_snapshot))
case("metadata-log")(in_metadata_of_node(snapshot_of_the_future))


case("topic-id-differs")(in_metadata(topic(2, "topic")))
case("topic-id-differs")(in_metadata(topic(1, "other")))
case("not-in-metadata")(in_metadata(topic(2, "other")))
case("not-in-metadata")(in_metadata(topic(1, "topic", number=4)))
case("not-a-replica")(in_metadata(topic(1, "topic", replicas=(2, 3))))


@case("partition-metadata-missing")
def _(corpus):
    log_dir(DISK)
    partition(DISK, of=None)
    return [DISK]


@case("same-topic-id")
def _(corpus):
    sound()
    partition(DISK, "other-0")
    return [DISK]


@case("twin-directories")
def _(corpus):
    sound()
    log_dir(OTHER, directory=2)
    partition(OTHER)
    return [DISK, OTHER]


@case("import-cut-off")
def _(corpus):
    """As a run leaves it that is killed after its commit, by what it wrote of its command line."""
    pytest.importorskip("pyspark")

    class CutOff(NewPartitions):
        def complete(self):
            raise KeyboardInterrupt

    log_dir(DISK)
    Path("in put.ndjson").write_text('{"topic":"other","partition":0,"offset":0,"value":"v"}\n')
    words = ["kafkalog", "import", str(Path.cwd() / "in put.ndjson"), "--log-dir", str(Path.cwd() / DISK)]
    what = {"command": [words[2], "request", "()"], "repeat": shlex.join(words)}
    with CutOff(RealFilesystem(), str(DISK)) as new:
        staged = staged_name("topic", 0, "run", "0")
        make_partition(RealFilesystem(), str(DISK / staged), topic_id(1), BASE_TIME_MS)
        with pytest.raises(KeyboardInterrupt):
            new.publish("run", [StagedPartition("topic", 0, staged)], what)
    return [DISK]


@case("import-cut-off")
def _(corpus):
    sound()
    (DISK / ".kafkalog-import").write_bytes(b"{")
    return [DISK]


# ---- replicas


def replicas(ours=None, theirs=None):
    for directory, written in ((DISK, ours), (OTHER, theirs)):
        log_dir(directory, node=1 if directory is DISK else 2, directory=None)
        partition(directory, written=written)
    return [DISK, "--against", OTHER]


WRITTEN = ten_batches()
case("diverged", after=[DISK])(lambda corpus: replicas(ten_batches(value=b"w")))
case("records-missing")(
    lambda corpus: [*replicas([*WRITTEN[:4], *WRITTEN[6:]]), "--topic", "topic", "--config", "cleanup.policy=delete"]
)
case("replica-behind")(lambda corpus: replicas(WRITTEN[:8]))
case("more-complete")(lambda corpus: replicas(WRITTEN[:8]))
case("not-comparable")(lambda corpus: [*replicas([*WRITTEN[:4], *WRITTEN[6:]]), "--config", "cleanup.policy=compact"])


@case("only-on-one-side", after=[DISK])
def _(corpus):
    argv = replicas()
    partition(DISK, "topic-1")
    return argv


@case("not-compared", after=[DISK])
def _(corpus):
    sound()
    partition(DISK, "topic-1")
    return [PARTITION, "--against", DISK / "topic-1"]


@case("not-compared", after=[PARTITION, "--against", OTHER / "topic-0"])
def _(corpus):
    """All files of the only segment were removed."""
    argv = replicas()
    for path in PARTITION.glob(f"{0:020}.*"):
        path.unlink()
    return argv


# ---- the machine


@case("not-read")
def _(corpus):
    sound()
    fs = Faulty(below=RealFilesystem())
    fs.refuse_open(str(PARTITION / LOG))
    return [DISK], fs


@case("locked")
def _(corpus):
    sound()
    (DISK / ".lock").touch()
    return [DISK]


ELSEWHERE = {
    FindingKind.SEGMENT_TOO_LARGE: "a file of 2 GiB: its next step is that of other damage in a log",
    FindingKind.SNAPSHOT_INEXACT: "its next step is that of a wrong snapshot",
    FindingKind.NOT_PERMITTED: "another user and a broker of that user: test_other_users_live.py and test_verify_permissions.py",
    FindingKind.MOUNTED_READ_ONLY: "a mount: test_verify_permissions.py",
}
ALL = [pytest.param(kind, make, id=f"{kind.value}-{n}") for kind, made in CASES.items() for n, make in enumerate(made)]


def test_every_kind_has_a_case_or_the_step_of_another():
    assert set(FindingKind) == set(CASES) | set(ELSEWHERE)
    step = {kind: text_of(kind.steps) for kind in FindingKind}
    assert step[FindingKind.SEGMENT_TOO_LARGE] == step[FindingKind.CRC_MISMATCH]
    assert step[FindingKind.SNAPSHOT_INEXACT] == step[FindingKind.SNAPSHOT_WRONG]
    for kind in (FindingKind.META_PROPERTIES, FindingKind.META_PROPERTIES_MISSING):  # tried on a broker
        assert "Do not format the directory: with a new directory.id its partitions have no leader" in step[kind]
    for kind in FindingKind:
        assert kind.steps or kind.severity is Severity.INFO, kind
        assert kind.broker_effect or kind.severity is not Severity.CORRUPTION, kind


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kind", "make"), ALL)
def test_every_printed_next_step_leads_to_a_clean_verify_or_a_stated_end(corpus, tmp_path, monkeypatch, kind, make):
    home = tmp_path / "a home"
    home.mkdir()
    monkeypatch.chdir(home)
    made = make(corpus)
    argv, fs = made if isinstance(made, tuple) else (made, None)
    if kind is FindingKind.LOCKED:
        from tests.support.locks import held_by_another_process

        with held_by_another_process(DISK / ".lock"):
            _, found = findings(argv)
        assert execute(commands_of(next(line for line in found if line["kind"] == kind.value))[0])
        return
    _, found = findings(argv, fs)
    mine = [line for line in found if line["kind"] == kind.value]
    assert mine, [(line["kind"], line["message"]) for line in found]
    for line in found:
        step = line["next_step"] or ""
        assert not re.search(r"\b(PATH|FILE|BYTES)(_|\b)", step), step
        assert step or line["severity"] == "info", line
        assert commands_of(line) or STATED.search(step) or line["severity"] == "info" or "--metadata DIR" in step, line
    if mine[0]["severity"] == "info":
        for command in commands_of(mine[0]):
            execute(command, fs)
        return
    is_clean, left, done = follow(argv, AFTER.get(make), fs)
    ends = [line for line in left if line["severity"] != "info"]
    assert is_clean or all(
        STATED.search(line["next_step"]) or "--metadata DIR" in line["next_step"] for line in ends
    ), (ends, done)


def test_recover_is_not_advised_for_the_metadata_log_that_it_refuses(tmp_path, monkeypatch):
    """A controller recovers its metadata log itself: a torn tail and wrong indexes need no command."""
    monkeypatch.chdir(tmp_path)
    log_dir(DISK)
    folder = metadata_log(DISK, *topic(1, "topic"))
    (folder / f"{0:020}.index").write_bytes(b"\x01" * 9)
    _, wrong_index = findings([folder])
    with (folder / f"{0:020}.log").open("ab") as log:
        log.write(b"\x00\x00\x00\x00torn")
    _, torn = findings([folder])
    found = [*wrong_index, *torn]
    assert {"torn-tail", "offset-index-wrong"} <= {line["kind"] for line in found}
    steps = [line["next_step"] for line in found if line["next_step"]]
    assert steps
    assert {*steps} == {"nothing has to be done"}


def test_damage_of_partition_metadata_is_reported_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    argv = in_metadata(topic(1, "topic"), content=b"")(None)
    _, found = findings(argv)
    assert [line["kind"] for line in found if line["path"].endswith("partition.metadata")] == [
        "partition-metadata-damaged"
    ]


@pytest.mark.parametrize(("name", "keeps_a_broker_from_starting"), [
    ("x.log", True), ("x.snapshot", True), ("x.swap", True), ("x.log.swap", True), ("x.txnindex.cleaned", True),
    ("x.deleted.swap", True), ("x.log.deleted", False), ("x.swap.deleted", False), ("x.log.tmp", False), ("x", False),
])  # fmt: skip
@pytest.mark.parametrize("level", ["quick", "normal"])
def test_names_without_an_offset_where_a_broker_reads_one(
    tmp_path, monkeypatch, name, keeps_a_broker_from_starting, level
):
    """LogLoader reads an offset in the names of all files of segments, and of those that end with .swap or .cleaned."""
    monkeypatch.chdir(tmp_path)
    _, found = findings([*added(f"topic-0/{name}")(None), "--level", level])
    kinds = [line["kind"] for line in found if line["severity"] == "corruption"]
    assert kinds == (["bad-name"] if keeps_a_broker_from_starting else [])
