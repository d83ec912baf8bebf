"""The metadata log: a broker's own, snapshots, transactions, and what damage makes of it."""

import random

import pytest

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.errors import NotKafkaLayout, PathNotFound
from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.java_text import ZERO_UUID
from kafkalog_cli.log.settings.cluster_metadata import MetadataPoint, SnapshotId, read_cluster_metadata
from kafkalog_cli.log.settings.metadata_image import PartitionRegistration
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.metadata_logs import (
    RandomRecords,
    batches,
    directory,
    leader_change,
    partition,
    snapshot,
    topic_id,
    value,
)

FS = RealFilesystem()
T1, T2 = topic_id(1), topic_id(2)


def topic(name="t1", identity=T1):
    return value("TopicRecord", name=name, topicId=identity)


def config(text, name="retention.ms", resource="t1", kind=2):
    return value("ConfigRecord", resourceType=kind, resourceName=resource, name=name, value=text)


def write(folder, groups, base=0, epoch=1):
    log, end = batches(groups, base, epoch)
    (folder / f"{base:020d}.log").write_bytes(log)
    return end


def write_snapshot(folder, groups, end_offset, epoch=1):
    path = folder / f"{end_offset:020d}-{epoch:010d}.checkpoint"
    path.write_bytes(snapshot(groups))
    return path


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "__cluster_metadata-0"
    path.mkdir()
    return path


def read(folder):
    return read_cluster_metadata(FS, str(folder))


def test_the_directory_that_it_lies_in_will_do(corpus):
    data = corpus / "internal" / "data"
    assert read(data) == read(data / "__cluster_metadata-0")
    with pytest.raises(PathNotFound):
        read(data / "nothing")
    with pytest.raises(NotKafkaLayout):
        read(corpus)


def test_a_partition_change_record_replaces_the_given_fields(folder):
    change = value(
        "PartitionChangeRecord",
        2,
        partitionId=0,
        topicId=T1,
        leader=2,
        isr=[2],
        replicas=[2, 3],
        directories=[directory(2), directory(3)],
    )
    same_leader = value("PartitionChangeRecord", 2, partitionId=0, topicId=T1, isr=[2, 3])
    write(folder, [[topic(), partition(T1, replicas=(1, 2))], [change], [same_leader]])
    assert read(folder).partition("t1", 0) == PartitionRegistration(
        (2, 3), (2, 3), 2, 1, 2, (directory(2), directory(3))
    )


def test_directories_of_older_metadata_are_not_known(folder):
    write(folder, [[topic(), partition(T1, replicas=(1, 2), version=0, directories=[])]])
    assert read(folder).partition("t1", 0).directories == (ZERO_UUID, ZERO_UUID)


def transaction(*records, end):
    begin = [value("BeginTransactionRecord", name="n")]
    return [begin, list(records), *([[value(end)]] if end else [])]


@pytest.mark.parametrize(
    ("end", "expected"), [("EndTransactionRecord", "9"), ("AbortTransactionRecord", "5"), (None, "5")]
)
def test_a_transaction_counts_when_it_has_ended(folder, end, expected):
    write(folder, [[topic(), config("5")], *transaction(config("9"), end=end)])
    found = read(folder)
    assert found.topic_settings("t1") == {"retention.ms": expected}
    assert found.is_complete


def test_cluster_metadata_is_the_newest_snapshot_and_the_log_after_it(folder):
    write_snapshot(folder, [[topic("old", T2)]], 2)
    write_snapshot(folder, [[topic(), partition(T1), config("5")]], 10, epoch=3)
    write(folder, [[topic("gone", T2)]] * 10 + [[config("6")]])
    found = read(folder)
    assert found.snapshot == SnapshotId(10, 3)
    assert sorted(found.topics) == ["t1"]
    assert found.topic_settings("t1") == {"retention.ms": "6"}
    assert found.end_offset == 11


@pytest.mark.parametrize(
    ("point", "is_used"),
    [
        (MetadataPoint(end_offset=2), False),
        (MetadataPoint(end_offset=3), True),
        (MetadataPoint(time_ms=BASE_TIME_MS - 1), False),
        (MetadataPoint(time_ms=BASE_TIME_MS), True),
    ],
)
def test_a_snapshot_of_the_very_point_is_used(folder, point, is_used):
    write(folder, [[topic()], [config("4")], [config("5")]])
    write_snapshot(folder, [[topic(), config("5")]], 3)
    found = read_cluster_metadata(FS, str(folder), until=point)
    assert found.snapshot == (SnapshotId(3, 1) if is_used else None)


@pytest.mark.parametrize(("damaged", "is_complete"), [(1, True), (2, False)])
def test_the_first_batch_after_a_snapshot_must_be_good(folder, damaged, is_complete):
    parts = [batches([[config(str(at))]], at)[0] for at in range(4)]
    parts[damaged] = parts[damaged][:17] + bytes(4) + parts[damaged][21:]  # the CRC
    (folder / f"{0:020d}.log").write_bytes(b"".join(parts))
    write_snapshot(folder, [[topic(), config("1")]], 2)
    found = read(folder)
    assert (found.is_complete, found.end_offset, len(found.faults)) == (
        is_complete,
        4 if is_complete else 2,
        not is_complete,
    )


def test_a_snapshot_without_a_log_is_complete_cluster_metadata(folder):
    write_snapshot(folder, [[topic()]], 10)
    found = read(folder)
    assert sorted(found.topics) == ["t1"]
    assert found.is_complete
    assert found.end_offset == 10


def test_nothing_at_all_is_not_complete(folder):
    (folder / "partition.metadata").write_bytes(b"")
    found = read(folder)
    assert not found.is_complete
    assert found.topics == {}


@pytest.mark.parametrize("cut", [1, 70, 300])
def test_a_damaged_snapshot_gives_way_to_the_one_before(folder, cut):
    write_snapshot(folder, [[topic(), config("4")]], 3)
    bad = write_snapshot(folder, [[topic()], [config("5")]], 4)
    bad.write_bytes(bad.read_bytes()[:-cut])
    write(folder, [[topic("x", T2)], [topic("y", T2)], [topic("z", T2)], [config("5")], [config("6")]])
    found = read(folder)
    assert found.snapshot == SnapshotId(3, 1)
    assert found.topic_settings("t1") == {"retention.ms": "6"}
    assert [path for path, _ in found.faults] == [str(bad)]
    assert found.is_complete


def test_a_snapshot_without_a_footer_is_none(folder):
    path = write_snapshot(folder, [[topic()]], 3)
    whole = path.read_bytes()
    path.write_bytes(batch_v2([R(0, 1, None, topic())]))
    assert not read(folder).is_complete
    without_footer = len(whole) - 75  # a batch of one record: 61 bytes, then 14
    ends = [without_footer, without_footer + 1, len(whole) - 1]
    for end in ends:  # also where only whole batches are left
        path.write_bytes(whole[:end])
        assert not read(folder).is_complete
    path.write_bytes(whole)
    assert read(folder).is_complete


def test_records_that_are_missing(folder):
    write_snapshot(folder, [[topic()]], 10)
    write(folder, [[config("5")]], 12)
    found = read(folder)
    assert not found.is_complete
    assert found.topic_settings("t1") == {}
    assert found.faults[0][1].message == "records from offset 10 to 11 are missing"


def test_a_log_that_does_not_begin_at_the_beginning(folder):
    write(folder, [[config("5")]], 12)
    assert not read(folder).is_complete


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_a_torn_tail_is_what_a_broker_cuts(folder):
    write(folder, [[topic()], [config("5")]])
    path = folder / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-3])
    found = read(folder)
    assert found.is_complete
    assert found.topic_settings("t1") == {}
    assert [fault.kind for _, fault in found.faults] == [FaultKind.TRAILING_BYTES]
    write(folder, [[config("5")]], 7)
    assert not read(folder).is_complete  # torn, and more behind it


@pytest.mark.parametrize("damage", ["crc", "zeros", "unknown", "misfit", "unreadable"])
def test_damage_ends_the_view(folder, damage):
    bad = [config("5")]
    if damage == "unknown":
        bad = [value("ConfigRecord", resourceType=2, resourceName="t1", name="a", value="b")[:-1]]
    if damage == "misfit":
        bad = [value("PartitionChangeRecord", partitionId=0, topicId=T2, leader=2)]
    end = write(folder, [[topic(), config("1")], bad, [config("6")]])
    path = folder / f"{0:020d}.log"
    first = len(batches([[topic(), config("1")]])[0])
    if damage == "crc":
        flip(path, first + 70)
    if damage == "zeros":
        path.write_bytes(path.read_bytes()[:first] + bytes(200))
    if damage == "unreadable":
        path.unlink()
        path.mkdir()
        assert not read(folder).is_complete
        return
    found = read(folder)
    assert not found.is_complete
    assert found.topic_settings("t1") == {"retention.ms": "1"}
    assert found.end_offset < end
    assert len(found.faults) == 1


def test_a_record_of_a_newer_kafka_ends_the_view(folder):
    newer = bytes([1, 90, 0, 1, 2, 3])  # a type that 4.4 has not
    write(folder, [[topic(), newer, value("NoOpRecord"), config("5")]])
    found = read(folder)
    assert not found.is_complete
    [(_, fault)] = found.faults
    assert (fault.kind, fault.base_offset) == (FaultKind.INVALID_VERSION, 1)
    assert found.topic_settings("t1") == {}


def register(epoch, **more):
    return value(
        "RegisterBrokerRecord",
        3,
        brokerId=1,
        incarnationId=T1,
        brokerEpoch=epoch,
        rack=None,
        logDirs=[directory(1)],
        **more,
    )


def broker_change(epoch, **more):
    return value("BrokerRegistrationChangeRecord", 2, brokerId=1, brokerEpoch=epoch, **more)


def test_a_broker_s_registration_changes_with_each_of_its_records(folder):
    write(
        folder,
        [
            [register(7)],
            [broker_change(7, fenced=-1)],
            [broker_change(7, inControlledShutdown=1)],
            [broker_change(7, fenced=1)],
        ],
    )
    broker = read(folder).brokers[1]
    assert (broker.is_fenced, broker.in_controlled_shutdown, broker.broker_epoch, broker.log_dirs) == (
        True,
        True,
        7,
        (directory(1),),
    )
    write(folder, [[register(7)], [register(9, fenced=False)], [broker_change(9, logDirs=[directory(2)])]])
    broker = read(folder).brokers[1]
    assert (broker.is_fenced, broker.in_controlled_shutdown, broker.broker_epoch, broker.log_dirs) == (
        False,
        False,
        9,
        (directory(2),),
    )
    write(folder, [[register(7)], [value("UnregisterBrokerRecord", brokerId=1, brokerEpoch=7)]])
    assert read(folder).brokers == {}
    write(folder, [[register(7)], [value("FenceBrokerRecord", id=1, epoch=6)]])
    assert not read(folder).is_complete


def test_voters_are_those_of_the_last_leader_change(folder):
    log, end = batches([[topic()]])
    (folder / f"{0:020d}.log").write_bytes(log + leader_change(end, (4, 7)))
    found = read(folder)
    assert found.voters == (4, 7)
    assert found.end_offset == 2


def test_randomly_damaged_metadata_is_read_or_a_fault(folder):
    chance = random.Random(8)
    records = RandomRecords(chance)
    log, _ = batches(records.groups(12))
    whole = snapshot([[records.next() for _ in range(4)]])
    for _ in range(400):
        for path, data in ((folder / f"{0:020d}.log", log), (folder / f"{5:020d}-{1:010d}.checkpoint", whole)):
            spoiled = bytearray(data)
            for _ in range(chance.randrange(3)):
                spoiled[chance.randrange(len(spoiled))] = chance.randrange(256)
            path.write_bytes(spoiled[: chance.choice([len(spoiled), chance.randrange(len(spoiled))])])
        found = read(folder)
        assert found.is_complete or found.faults


def test_a_point_excludes_the_record_at_its_offset_and_batches_of_a_later_time():
    batches = [Batch(0, 61, 0, 9, 0, 2, 0, 0, time_ms, time_ms, -1, -1, -1, 1, 1) for time_ms in (999, 1000, 1001)]
    at_3, at_time = MetadataPoint(end_offset=3), MetadataPoint(time_ms=1000)
    assert [at_3.is_before(batches[0], offset) for offset in (2, 3, 4)] == [False, True, True]
    assert [at_time.is_before(one, 0) for one in batches] == [False, False, True]
