"""verify on made log directories: where partitions belong, what the root's files say, what records hold."""

import shutil
import struct

import pytest

from tests.support.commands import kafkalog
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.logs import BASE_TIME_MS, CONTROL, TRANSACTIONAL, R, batch_v2, message, write_segment
from tests.support.metadata_logs import batches as metadata_batches
from tests.support.metadata_logs import partition as partition_record
from tests.support.metadata_logs import topic_id, uuid_text, value
from tests.support.product import RealFilesystem
from tests.support.verifying_paths import verified

NOW_MS = BASE_TIME_MS + 86_400_000
LEVELS = ("quick", "normal", "deep")
CLUSTER = uuid_text(b"cluster-" * 2)
HOUR_MS = 3_600_000
FIRST = topic_id(1)


def log_dir(path, *, node=1, cluster=CLUSTER, directory=1, stop=b'{"version":0,"brokerEpoch":7}', lines=(), kraft=True):
    """A log directory as a broker leaves it; `lines` are (checkpoint, topic, partition, offset)."""
    path.mkdir()
    meta = f"version=1\ncluster.id={cluster}\nnode.id={node}\n" if kraft else f"version=0\nbroker.id={node}\n"
    meta += f"directory.id={uuid_text(struct.pack('>QQ', 99, directory))}\n" if directory else ""
    (path / "meta.properties").write_text(meta)
    if stop is not None:
        (path / ".kafka_cleanshutdown").write_bytes(stop)
    for name in ("recovery-point", "replication", "log-start", "cleaner"):
        mine = [line[1:] for line in lines if line[0] == name]
        text = "".join(f"{topic} {number} {offset}\n" for topic, number, offset in mine)
        (path / f"{name}-offset-checkpoint").write_text(f"0\n{len(mine)}\n{text}")
    return path


def ten_batches(timestamps=None, value=b"v", **more):
    times = timestamps or [BASE_TIME_MS + 10 * i for i in range(10)]
    made = []
    for number, time in enumerate(times):
        records = [R(2 * number + i, time, b"k", value) for i in range(2)]
        made.append((batch_v2(records, **more), 2 * number + 1, time))
    return made


def partition(directory, name="topic-0", *, of=FIRST, written=None, epochs="0\n1\n0 0\n"):
    folder = directory / name
    folder.mkdir()
    write_segment(folder, 0, written or ten_batches())
    if epochs:
        (folder / "leader-epoch-checkpoint").write_text(epochs)
    if of is not None:
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {of}\n")
    return folder


def verify(*paths, level="normal", metadata=None, now_ms=NOW_MS, more=()):
    return verified(paths, level, metadata=metadata, now_ms=now_ms, more=more)


def verify_on(fs, path, level="normal"):
    return verified([path], level, fs=fs, now_ms=NOW_MS)


def told(*paths, **options):
    """(kind, the path below the test's directory) of what is a warning or worse."""
    results = verify(*paths, **options)
    assert not [result for result in results if result.type == "error"], results
    return [
        (one.kind, "/".join(one.path.split("/")[-2:]))
        for result in results
        for one in result.findings
        if one.severity != "info"
    ]


def metadata_log(path, *records):
    folder = path / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    log, _ = metadata_batches([records])
    (folder / f"{0:020}.log").write_bytes(log)
    return folder


def topic(identity, name, **more):
    more.setdefault("replicas", (1, 2, 3))
    return [value("TopicRecord", name=name, topicId=topic_id(identity)), partition_record(topic_id(identity), **more)]


@pytest.fixture
def disk(tmp_path):
    return log_dir(tmp_path / "disk")


def test_verify_finds_nothing_in_a_sound_log_directory_at_any_level(disk):
    partition(disk)
    for level in LEVELS:
        assert told(disk, level=level) == []


# ---- the metadata log


def test_replicas_and_ids_that_fit(disk, tmp_path):
    partition(disk)
    (result, _) = verify(disk, metadata=metadata_log(tmp_path / "meta", *topic(1, "topic")))
    assert result.findings == []
    assert not any("replicas" in what for what in result.not_looked_at)
    (result, _) = verify(disk)
    assert "topic ids and replicas (no metadata log)" in result.not_looked_at


@pytest.mark.parametrize(
    ("records", "own", "kind"),
    [
        (topic(2, "topic"), topic_id(1), "topic-id-differs"),
        (topic(1, "other"), topic_id(1), "topic-id-differs"),
        (topic(2, "other"), topic_id(1), "not-in-metadata"),
        (topic(1, "topic", number=4), topic_id(1), "not-in-metadata"),
        (topic(1, "topic", replicas=(2, 3)), topic_id(1), "not-a-replica"),
        (topic(1, "topic"), None, "partition-metadata-missing"),
    ],
)
def test_verify_reports_a_partition_that_a_broker_would_set_aside(disk, tmp_path, records, own, kind):
    partition(disk, of=own)
    log = metadata_log(tmp_path / "meta", *records)
    assert [found for found, _ in told(disk, metadata=log)] == [kind]
    assert [found for found, _ in told(disk, metadata=log, level="quick")] == [kind]


def test_a_directory_of_zookeepers_time_needs_no_topic_id(tmp_path):
    disk = log_dir(tmp_path / "disk", kraft=False)
    partition(disk, of=None)
    assert told(disk) == []


def test_a_damaged_metadata_log_is_not_believed(disk, tmp_path):
    partition(disk)
    folder = metadata_log(tmp_path / "meta", *topic(2, "topic"))
    log = bytearray((folder / f"{0:020}.log").read_bytes())
    log[70] ^= 1
    (folder / f"{0:020}.log").write_bytes(log + log)
    result = verify(disk, metadata=folder)[0]
    assert result.findings == []
    assert "topic ids and replicas (the metadata log is damaged)" in result.not_looked_at


@pytest.mark.parametrize(
    ("isr", "step"),
    [
        ([1, 2, 3], "in sync elsewhere (2, 3): stop the broker and move the directory away: `mv -nT {folder} {away}`."
                    " The broker replicates the partition when it starts"),
        ([1], "no other replica is in sync: copy the readable batches to ./salvaged: `kafkalog recover {folder} --salvage"
              " salvaged --metadata {meta}`"),
        (None, "if no other replica is in sync, copy the readable batches to ./salvaged: `kafkalog recover {folder}"
               " --salvage salvaged`. If another replica is in sync, stop the broker and move the directory away:"
               " `mv -nT {folder} {away}`. The broker replicates the partition when it starts"),
    ],
)  # fmt: skip
def test_the_next_step_of_damage_before_valid_batches_depends_on_the_in_sync_replicas(disk, tmp_path, isr, step):
    folder = partition(disk)
    path = folder / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    log = None if isr is None else metadata_log(tmp_path / "meta", *topic(1, "topic", isr=isr))
    (found,) = [one for one in verify(folder, metadata=log)[0].findings if one.kind == "crc-mismatch"]
    assert found.next_step == step.format(folder=folder, away=tmp_path / "topic-0", meta=log)
    assert found.severity == "corruption"


# ---- several directories


def test_a_partition_in_two_directories_of_a_broker_is_found_in_both(tmp_path):
    one, two = log_dir(tmp_path / "one"), log_dir(tmp_path / "two", directory=2)
    partition(one)
    partition(two)
    assert told(one, two) == [("twin-directories", "one/topic-0"), ("twin-directories", "two/topic-0")]
    assert told(one / "topic-0", two) == [("twin-directories", "one/topic-0"), ("twin-directories", "two/topic-0")]


@pytest.mark.parametrize(
    ("own", "findings"),
    [
        (topic_id(2), [("topic-id-differs", "topic-0/partition.metadata")]),
        (None, [("partition-metadata-missing", "topic-0/partition.metadata")]),
    ],
)
def test_a_directory_that_a_broker_sets_aside_is_no_second_one(tmp_path, own, findings):
    """A broker renames it to -stray, and starts with the partition in its other directory (LogManager.loadLog)."""
    one, two = log_dir(tmp_path / "one"), log_dir(tmp_path / "two", directory=2)
    partition(one, of=own)
    partition(two)
    log = metadata_log(tmp_path / "meta", *topic(1, "topic"))
    assert told(one, two, metadata=log) == findings
    (aside,) = [each for result in verify(one, two, metadata=log) for each in result.findings]
    assert "recover" not in aside.next_step, "a second directory of the partition would result"
    assert str(two / "topic-0") in aside.next_step
    assert "starts an empty partition" not in aside.broker_effect
    unknown = [("twin-directories", f"{name}/topic-0") for name in ("one", "two")]
    assert [one for one in told(one, two) if one[0] == "twin-directories"] == unknown


@pytest.mark.parametrize(
    ("records", "step"),
    [
        (topic(1, "topic", replicas=(1, 2)), "restores it"),
        (topic(2, "topic", replicas=(1, 2)), "nothing has to be done"),
        (topic(1, "topic", replicas=(2, 3)), "nothing has to be done"),
        (topic(1, "other", replicas=(1, 2)), "nothing has to be done"),
        (topic(1, "topic", number=4, replicas=(1, 2)), "nothing has to be done"),
    ],
)
def test_the_step_for_a_directory_that_was_set_aside(disk, tmp_path, records, step):
    """recover is advised only if it would restore the directory, where the metadata log is known."""
    aside = partition(disk, f"topic-0.{'0123456789abcdef' * 2}-stray")
    log = metadata_log(tmp_path / "meta", *records)
    (found,) = [one for result in verify(disk, metadata=log) for one in result.findings]
    assert step in found.next_step
    assert ("`kafkalog recover" in found.next_step) == (step == "restores it")
    code, _, _ = kafkalog("recover", aside, "--metadata", log, "--dry-run")
    assert code == (0 if step == "restores it" else 14)


def test_the_producers_of_a_directory_that_a_broker_removes(disk):
    """A replica that moved to another log directory leaves a -delete directory without producer snapshots."""
    written = ten_batches(producer=(7, 0, 0))
    for name, findings in (
        ("topic-0", ["producer-snapshots-missing"]),
        (f"topic-0.{'0123456789abcdef' * 2}-delete", []),
    ):
        folder = disk / name
        folder.mkdir()
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {FIRST}\n")
        write_segment(folder, 0, written[:5])
        write_segment(folder, 10, written[5:])
        (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        assert [kind for kind, path in told(disk / name)] == findings
        shutil.rmtree(folder)


def test_two_directories_that_a_broker_sets_aside(tmp_path):
    one, two = log_dir(tmp_path / "one"), log_dir(tmp_path / "two", directory=2)
    partition(one)
    partition(two)
    log = metadata_log(tmp_path / "meta", *topic(1, "topic", replicas=(2, 3)))
    assert told(one, two, metadata=log) == [("not-a-replica", "one/topic-0"), ("not-a-replica", "two/topic-0")]
    log = metadata_log(tmp_path / "all", *topic(1, "topic", replicas=(2, 1)))
    assert told(one, two, metadata=log) == [("twin-directories", "one/topic-0"), ("twin-directories", "two/topic-0")]
    assert told(one) == []


def test_the_directories_of_two_brokers_hold_replicas(tmp_path):
    one, two = log_dir(tmp_path / "one"), log_dir(tmp_path / "two", node=2, directory=2)
    partition(one)
    partition(two)
    assert told(one, two) == []


def test_two_directories_with_one_topic_id_are_found(disk):
    partition(disk)
    partition(disk, "other-0")
    partition(disk, "third-1")
    assert told(disk) == [("same-topic-id", "disk/other-0"), ("same-topic-id", "disk/topic-0")]


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        (b'{"version":0,"brokerEpoch":7}', []),
        (b'{"version":0,"brokerEpoch":8}', [("shutdown-markers-differ", "two/.kafka_cleanshutdown")]),
        (None, [("shutdown-markers-differ", "two/.kafka_cleanshutdown")]),
    ],
)
def test_verify_reports_clean_shutdown_files_of_one_broker_that_differ(tmp_path, stop, expected):
    one, two = log_dir(tmp_path / "one"), log_dir(tmp_path / "two", directory=2, stop=stop)
    partition(one)
    partition(two, "topic-1")
    assert told(one, two) == expected
    two = log_dir(tmp_path / "three", node=5, directory=3, stop=stop)
    partition(two, "topic-1")
    assert told(one, two) == []


def test_verify_reports_two_log_directories_with_one_directory_id(tmp_path):
    one, two = log_dir(tmp_path / "one"), log_dir(tmp_path / "two", node=2)
    partition(one)
    partition(two, "topic-1")
    assert told(one, two) == [("meta-properties-differ", "two/meta.properties")]


# ---- the root


def test_damaged_files_at_the_root_are_found(disk):
    partition(disk)
    (disk / "recovery-point-offset-checkpoint").write_text("0\n1\nnonsense\n")
    (disk / "replication-offset-checkpoint").write_text("0\n2\ntopic 0 3\ntopic 0 4\n")
    (disk / "meta.properties").write_text("version=1\n")
    (disk / "lost+found").mkdir()
    assert sorted(set(told(disk))) == [
        ("checkpoint-malformed", "disk/recovery-point-offset-checkpoint"),
        ("checkpoints-disagree", "disk/replication-offset-checkpoint"),
        ("foreign-directory", "disk/lost+found"),
        ("meta-properties", "disk/meta.properties"),
    ]
    (disk / "meta.properties").unlink()
    assert ("meta-properties-missing", "disk/meta.properties") in told(disk)


@pytest.mark.parametrize(("number", "is_reserved"), [(0, True), (1, True), (99, True), (100, False)])
def test_a_broker_does_not_start_with_a_directory_id_that_is_reserved(disk, number, is_reserved):
    """MetaPropertiesEnsemble.verify throws; tests/kafka has a broker that does."""
    partition(disk)
    meta = f"version=1\ncluster.id={CLUSTER}\nnode.id=1\ndirectory.id={uuid_text(struct.pack('>QQ', 0, number))}\n"
    (disk / "meta.properties").write_text(meta)
    assert told(disk) == ([("meta-properties", "disk/meta.properties")] if is_reserved else [])


def test_other_programs_directories_are_refused(disk):
    folder = disk / "topic-0"
    folder.mkdir()
    (folder / "0-1-v1.log").write_bytes(b"x" * 100)
    failed = [result for result in verify(disk) if result.type == "error"]
    assert [error.kind for error in failed] == ["UnsupportedFormat"]


# ---- names and what was left over


def test_leftovers_and_what_a_start_does_with_them(disk):
    folder = partition(disk)
    for name in ("00000000000000000000.log.cleaned", "00000000000000000000.log.swap", "00000000000000000000.log.deleted",
                 "leader-epoch-checkpoint.tmp"):  # fmt: skip
        (folder / name).write_bytes(b"")
    found = {one.path.rpartition("/")[2]: one for one in verify(disk)[0].findings}
    assert found["00000000000000000000.log.cleaned"].broker_effect == "a broker that starts deletes it"
    assert "interrupted" in found["00000000000000000000.log.swap"].broker_effect
    assert found["00000000000000000000.log.deleted"].severity == "info"
    assert found["leader-epoch-checkpoint.tmp"].severity == "info"
    (folder / "00000000000000000000.log.cleaned").unlink()
    (folder / "00000000000000000000.log.swap").write_bytes((folder / f"{0:020}.log").read_bytes())
    (found,) = [one for one in verify(disk)[0].findings if one.kind == "leftover-swap"]
    assert found.broker_effect.startswith("a broker that starts puts it in place, and deletes what it replaces")
    assert f"{0:020}.log" in found.broker_effect


@pytest.mark.parametrize("level", LEVELS)
def test_verify_reports_files_of_unexpected_names(disk, level):
    folder = partition(disk)
    (folder / "server.log").write_bytes(b"")
    (folder / "notes.txt").write_bytes(b"")
    (folder / f"{7:020}.index").write_bytes(b"")
    (folder / f"._{0:020}.index").write_bytes(b"")
    assert set(told(disk, level=level)) == {
        ("bad-name", f"topic-0/._{0:020}.index"),
        ("bad-name", "topic-0/server.log"),
        ("orphan-index", f"topic-0/{7:020}.index"),
    }
    assert "unknown-file" in {one.kind for one in verify(disk)[0].findings}


# ---- timestamps and records


def with_crc(data):
    """A batch whose bytes behind the CRC were changed, with the CRC that they have now."""
    import crc32c

    return data[:17] + struct.pack(">I", crc32c.crc32c(bytes(data[21:]))) + data[21:]


def count_of(data, count):
    return with_crc(data[:57] + struct.pack(">i", count) + data[61:])


R2 = [R(4, BASE_TIME_MS, b"k", b"v" * 30), R(5, BASE_TIME_MS, b"k", b"v" * 30)]
GOOD = batch_v2(R2)


@pytest.mark.parametrize(
    ("batch", "normal", "deep"),
    [
        (count_of(GOOD, 1), None, "record-count"),
        (count_of(GOOD, 3), "record-count", "invalid-record"),
        (with_crc(GOOD[:-40] + b"\xff" * 40), None, "invalid-record"),
        (with_crc(GOOD[:22] + b"\x04" + GOOD[23:]), None, "decompression-failed"),
        (with_crc(GOOD[:22] + b"\x07" + GOOD[23:]), None, "unknown-codec"),
        (batch_v2(R2[::-1], base=4, last=5), None, "record-offset"),
        (batch_v2([R(4, BASE_TIME_MS), R(6, BASE_TIME_MS)], base=4, last=5), None, "record-offset"),
        (batch_v2(R2, max_timestamp=BASE_TIME_MS + 5), None, "max-timestamp"),
        (batch_v2([R2[1]._replace(key=b"\0")], base=4, producer=(1, 0, -1), bits=CONTROL | TRANSACTIONAL),
         "invalid-control-record", "invalid-control-record"),
    ],
)  # fmt: skip
def test_verify_at_level_deep_reports_damage_that_only_records_show(disk, batch, normal, deep):
    written = ten_batches()
    written[2] = (batch, 5, BASE_TIME_MS)
    folder = partition(disk, written=written)
    expected = set() if normal is None else {normal}
    assert {kind for kind, path in told(folder) if path.endswith(".log")} == expected
    found = [one for one in verify(folder, level="deep")[0].findings if one.path.endswith(".log")]
    assert deep in {one.kind for one in found}
    assert {one.position for one in found} == {sum(len(data) for data, _, _ in written[:2])}


def test_verify_reports_damage_of_messages_inside_a_set(disk):
    from tests.support.logs import message_set

    records = [R(i, BASE_TIME_MS + i, b"k", b"value") for i in range(3)]
    good = message_set(records, 1, 1)
    inner = b"".join(message(record, 1) for record in records)
    import gzip

    bad = message(R(2, BASE_TIME_MS + 2, None, gzip.compress(inner[:-1] + b"X")), 1, 1)
    for data, expected in ((good, []), (bad, ["invalid-inner-message"])):
        folder = disk / f"set{len(expected)}-0"
        folder.mkdir()
        (folder / f"{0:020}.log").write_bytes(data)
        kinds = [kind for kind, path in told(folder, level="deep") if path.endswith(".log")]
        assert kinds == expected
        assert not [kind for kind, path in told(folder) if path.endswith(".log")]


# ---- what is chosen, and in which order


def test_files_are_verified_alone(disk):
    folder = partition(disk)
    index = folder / f"{0:020}.index"
    (log_result,) = verify(folder / f"{0:020}.log")
    assert (log_result.findings, log_result.segments, log_result.batches) == ([], 1, 10)
    index.write_bytes(struct.pack(">ii", 3, 99))
    assert told(folder / f"{0:020}.log") == []
    assert told(index) == [("end-not-seen", f"topic-0/{0:020}.log"), ("offset-index-wrong", f"topic-0/{0:020}.index")]


def test_in_parallel_the_order_is_the_same(disk):
    for number in range(12):
        partition(disk, f"topic-{number}", of=topic_id(1))
    one, other = verify(disk), verify(disk, more=("--jobs", "4"))
    assert [result.path for result in one] == [result.path for result in other]
    assert [result.partition for result in other] == [*range(12), None]
    chosen = verify(disk, more=("--topic", "topic", "--partition", "3", "--partition", "5"))
    assert [result.partition for result in chosen] == [3, 5]


def test_verify_of_a_topic_that_is_not_there_ends_with_10(disk):
    partition(disk)
    (failed,) = verify(disk, more=("--topic", "other"))
    assert failed.kind == "NothingSelected"
    assert failed.exit_code == 10


# ---- the machine


@pytest.mark.parametrize("level", LEVELS)
def test_verify_reports_a_sector_that_cannot_be_read(disk, level):
    """Read around where batches behind it can be: 4 KiB of a log of 40 KiB."""
    written = ten_batches(value=b"v" * 2000)
    folder = partition(disk, written=written)
    fs = FaultyFilesystem(below=RealFilesystem())
    fault = fs.fail_read(str(folder / f"{0:020}.log"), 8192, 12288)
    result = verify_on(fs, folder, level)[0]
    if level != "quick":
        assert fault.fired
        assert result.exit_code == 4
        (found,) = [one for one in result.findings if one.path.endswith(".log")]
        assert (found.kind, found.severity, found.position) == ("unreadable-range", "corruption", 8192)
        assert result.log_end_offset == 20


def test_verify_reports_a_log_that_cannot_be_opened(disk):
    folder = partition(disk)
    fs = FaultyFilesystem(below=RealFilesystem())
    fs.refuse_open(str(folder / f"{0:020}.log"))
    for level in LEVELS:
        result = verify_on(fs, folder, level)[0]
        assert "not-read" in {one.kind for one in result.findings}, level
    fs.refuse_open(str(folder))
    (failed,) = verify_on(fs, folder)
    assert failed.type == "error"
