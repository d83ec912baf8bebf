"""What is found out of a partition before it is changed, on real directories and on made ones."""

import os
import shutil

import pytest

from kafkalog_cli.disk.directory_contents import BOOKKEEPER, REDPANDA, foreign_layout
from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.disk.names import DirectoryKind
from kafkalog_cli.errors import PathNotFound, UsageError
from kafkalog_cli.log.checkpoints import read_root_checkpoints
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.log.settings.topic_config import Origin
from kafkalog_cli.ops.partition_facts import NewestFile, gather_facts, places_of_partitions
from kafkalog_cli.ops.refusals import RULES, Action, Intent, judge
from kafkalog_cli.ops.settings import SettingsSource
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.metadata_logs import batches, partition, topic_id, value

FS = RealFilesystem()
T1 = topic_id(1)


def source(metadata_path=None, log_dirs=(), command_line=None, broker=None):
    return SettingsSource(FS, command_line or {}, broker or None, metadata_path=metadata_path, log_dirs=log_dirs)


def facts_of(path, log_dir, settings=None, **more):
    checkpoints = read_root_checkpoints(FS, str(log_dir)) if log_dir else None
    log_dir = None if log_dir is None else str(log_dir)
    return gather_facts(
        FS, open_partition(FS, str(path)), log_dir, settings or source(), checkpoints=checkpoints, **more
    )


def make_log_dir(path, *, broker=1, cluster="cluster", records=None):
    path.mkdir()
    (path / "meta.properties").write_text(f"version=1\nnode.id={broker}\ncluster.id={cluster}\n")
    if records is not None:
        (path / "__cluster_metadata-0").mkdir()
        (path / "__cluster_metadata-0" / f"{0:020d}.log").write_bytes(batches(records)[0])
    return path


def make_partition(log_dir, name="t1-0", base=0):
    path = log_dir / name
    path.mkdir()
    (path / f"{base:020d}.log").write_bytes(batch_v2([R(base, BASE_TIME_MS, b"k", b"v")]))
    (path / f"{base:020d}.index").write_bytes(b"")
    return path


TOPIC = [value("TopicRecord", name="t1", topicId=T1), partition(T1, replicas=(1, 2))]


def test_partitions_of_a_broker(corpus):
    data = corpus / "internal" / "data"
    facts = facts_of(data / "in-a-0", data)
    assert facts.replication.replicas == (1,)
    assert facts.replication.broker_id == 1
    assert facts.config["retention.ms"].origin is Origin.TOPIC
    assert facts.config.retention_ms == 100000000
    assert (facts.is_metadata_log, facts.tiered_because, facts.linked, facts.foreign) == (False, "", (), None)
    assert facts_of(data / "__cluster_metadata-0", data).is_metadata_log
    (deleted, _) = sorted(data.glob("in-c-*-delete"))
    gone = facts_of(deleted, data)
    assert gone.kind is DirectoryKind.DELETE
    assert gone.replication is None
    assert [verdict.rule.name for verdict in judge(gone, Intent(Action.PURGE, 2**60))] == ["marked-directory"]


def test_a_tiered_topic(corpus):
    """Its log.dir has no metadata log (that was in a directory of its own), so the checkpoint tells."""
    data = corpus / "remote" / "data"
    facts = facts_of(data / "tiered-0", data)
    first = min(int(path.stem) for path in (data / "tiered-0").glob("*.log"))
    assert facts.tiered_because.startswith("the log starts at ")
    told = f"below the first segment here ({first}), and no source has remote.storage.enable=false"
    assert facts.tiered_because.endswith(told)
    denied = facts_of(data / "tiered-0", data, source(command_line={"remote.storage.enable": "false"}))
    assert denied.tiered_because == ""
    said = facts_of(data / "tiered-0", data, source(command_line={"remote.storage.enable": "true"}))
    assert said.tiered_because == "remote.storage.enable=true (--config)"
    other = corpus / "retention" / "after"
    assert facts_of(other / "ret-records-0", other).tiered_because == ""


def test_a_start_below_the_first_segment_is_no_tier_where_the_metadata_says_so(tmp_path):
    data = make_log_dir(tmp_path / "d", records=[TOPIC])
    path = make_partition(data, base=50)
    (data / "log-start-offset-checkpoint").write_text("0\n1\nt1 0 10\n")
    assert facts_of(path, data).tiered_because == ""
    shutil.rmtree(data / "__cluster_metadata-0")
    assert facts_of(path, data).tiered_because.startswith("the log starts at 10, below the first segment here (50)")


def test_replication_is_known_or_why_not(tmp_path):
    data = make_log_dir(tmp_path / "d", broker=2, records=[TOPIC])
    path, other = make_partition(data), make_partition(data, "t1-7")
    facts = facts_of(path, data)
    assert (facts.replication.replicas, facts.replication.broker_id, facts.unknown_because) == ((1, 2), 2, "")
    assert "does not have this partition" in facts_of(other, data).unknown_because
    (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {T1}")
    assert facts_of(path, data).replication is not None
    (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id(2)}")
    found = facts_of(path, data)
    assert found.replication is None
    assert found.unknown_because == f"the metadata log has another topic of that name (id {T1}, here {topic_id(2)})"
    log = data / "__cluster_metadata-0" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:-1] + b"\xff" + log.read_bytes())
    damaged = facts_of(path, data)
    assert damaged.replication is None
    assert damaged.metadata_is_damaged
    assert "is damaged" in damaged.unknown_because
    assert facts_of(path, None).unknown_because == "there is no metadata log to ask"


def test_links(tmp_path):
    data = make_log_dir(tmp_path / "d")
    path = make_partition(data)
    assert facts_of(path, data).linked == ()
    os.link(path / f"{0:020d}.log", tmp_path / "backup")
    (path / f"{0:020d}.index").rename(tmp_path / "index")
    (path / f"{0:020d}.index").symlink_to(tmp_path / "index")
    facts = facts_of(path, data)
    assert facts.linked == (f"{0:020d}.log", f"{0:020d}.index")
    assert facts.resolved_path is None
    (tmp_path / "link").symlink_to(data)
    assert facts_of(tmp_path / "link" / "t1-0", data).resolved_path == str(path)


def test_the_newest_file(tmp_path):
    data = make_log_dir(tmp_path / "d")
    path = make_partition(data)
    for file in path.iterdir():
        os.utime(file, (1, 1))
    (path / "leader-epoch-checkpoint").write_text("0\n0\n")
    os.utime(path / "leader-epoch-checkpoint", (5, 5))
    facts = facts_of(path, data)
    assert facts.newest == NewestFile("leader-epoch-checkpoint", 5000)
    assert [v.rule.name for v in judge(facts, Intent(Action.RECOVER, 4999))] == ["clock"]
    assert judge(facts, Intent(Action.RECOVER, 5000)) == ()


def test_two_directories_of_one_partition(tmp_path):
    first, second = make_log_dir(tmp_path / "a"), make_log_dir(tmp_path / "b")
    paths = [make_partition(first), make_partition(second)]
    make_partition(second, "t1-1")
    make_partition(second, "t1-1.0123456789abcdef0123456789abcdef-future")
    (tmp_path / "again").symlink_to(first)
    places = places_of_partitions(FS, [str(first), str(second), str(tmp_path / "again"), str(tmp_path / "nothing")])
    assert places["t1", 0] == tuple(map(str, paths))
    assert places["t1", 1] == (str(second / "t1-1"),)
    assert facts_of(paths[0], first, places=places).twins == (str(paths[1]),)
    assert facts_of(second / "t1-1", second, places=places).twins == ()


@pytest.mark.parametrize("own", [None, topic_id(2)])
def test_a_directory_that_a_broker_sets_aside_refuses_nothing_to_the_partition(tmp_path, own):
    """It refuses itself a change that would make it a second directory of the partition."""
    first, second = make_log_dir(tmp_path / "a", records=[TOPIC]), make_log_dir(tmp_path / "b")
    live, aside = make_partition(first), make_partition(second)
    for path, identity in ((live, T1), (aside, own)):
        if identity is not None:
            (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {identity}\n")
    places = places_of_partitions(FS, [str(first), str(second)])
    settings = source(log_dirs=(str(first), str(second)))
    assert facts_of(live, first, settings, places=places).twins == ()
    facts = facts_of(aside, second, settings, places=places)
    assert facts.twins == (str(live),)
    said = next(rule for rule in RULES if rule.name == "twins").find(facts, Intent(Action.RECOVER, 0))
    assert said.startswith(f"the partition is also in {live}: this directory is set aside, and no broker serves it.")


def test_files_of_other_programs(tmp_path, corpus):
    redpanda, bookie = tmp_path / "0_2", tmp_path / "current-0"
    redpanda.mkdir()
    bookie.mkdir()
    (redpanda / "0-1-v1.log").write_bytes(b"\0" * 70)
    (bookie / "0.log").write_bytes(b"BKLO" + bytes(1020))
    assert foreign_layout(FS, FS.list_directory(str(redpanda))) == REDPANDA
    assert foreign_layout(FS, FS.list_directory(str(bookie))) == BOOKKEEPER
    assert facts_of(bookie, None).foreign == BOOKKEEPER
    tried = 0
    for path in corpus.rglob("*.log"):
        if path.parent.name.rpartition("-")[2].isdigit():
            tried += 1
            assert foreign_layout(FS, FS.list_directory(str(path.parent))) is None
    assert tried > 100


def test_settings_by_strength(tmp_path):
    """Each source in turn, and the broker that a log directory says it belongs to."""
    name, log_name = "retention.ms", "log.retention.ms"

    def of(text, resource, kind=4, key=log_name):
        return value("ConfigRecord", resourceType=kind, resourceName=resource, name=key, value=text)

    data = make_log_dir(tmp_path / "d", broker=2, records=[[of("3", "")], [of("9", "1")]])
    settings = source(broker={"log.retention.hours": "1"})
    assert settings.topic_config(str(data), "t1")[name][1:3] == (3, Origin.DYNAMIC_DEFAULT_BROKER)
    data = make_log_dir(tmp_path / "e", broker=2, records=[[of("3", ""), of("4", "2"), of("9", "1")]])
    settings = source(broker={"log.retention.hours": "1"})
    assert settings.topic_config(str(data), "t1")[name][1:3] == (4, Origin.DYNAMIC_BROKER)
    assert settings.topic_config(None, "t1")[name][1:3] == (3600000, Origin.STATIC_BROKER)
    data = make_log_dir(tmp_path / "f", broker=2, records=[[*TOPIC, of("4", "2"), of("5", "t1", 2, name)]])
    assert source().topic_config(str(data), "t1")[name][1:3] == (5, Origin.TOPIC)
    assert source().topic_config(str(data), "t2")[name][1:3] == (4, Origin.DYNAMIC_BROKER)
    assert source(command_line={name: "6"}).topic_config(str(data), "t1")[name][1:3] == (6, Origin.COMMAND_LINE)
    assert source().topic_config(None, "t1")[name].origin is Origin.DEFAULT
    expiring = make_log_dir(tmp_path / "g", records=[[of("77", "1", key="producer.id.expiration.ms")]])
    assert source().broker_settings(str(expiring)).producer_id_expiration_ms == 77
    assert source().broker_settings(None).producer_id_expiration_ms == 86400000


def test_where_the_metadata_log_is(tmp_path):
    records = [TOPIC]
    own = make_log_dir(tmp_path / "a", records=records)
    beside = make_log_dir(tmp_path / "b")
    stranger = make_log_dir(tmp_path / "c", broker=3)
    other_cluster = make_log_dir(tmp_path / "e", cluster="other")
    dirs = [str(path) for path in (own, beside, stranger, other_cluster)]
    settings = source(log_dirs=dirs)
    found = settings.metadata(str(own))
    assert found.path == str(own / "__cluster_metadata-0")
    assert settings.metadata(str(own)) is found
    assert settings.metadata(str(beside)) is found  # of the same broker
    assert settings.metadata(str(stranger)) is None
    assert settings.metadata(None) is None
    for path in (own, own / "__cluster_metadata-0"):
        named = source(metadata_path=str(path))
        assert named.metadata(str(stranger)).topics == found.topics  # any broker's will do
        assert named.metadata(None).topics == found.topics
        with pytest.raises(UsageError, match=r"is of cluster cluster, .*/e of cluster other"):
            named.metadata(str(other_cluster))
    with pytest.raises(PathNotFound):
        source(metadata_path=str(tmp_path / "nothing")).metadata(str(own))
