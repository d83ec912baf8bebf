"""Unmodified clients of other languages read from `serve` what `kafkalog read` prints: each topic, both isolations."""

import json
import subprocess
import sys
import time

import pytest

from tests.interop import client_programs
from tests.interop.broker import JAVA, broker
from tests.interop.client_programs import by_franz_go, by_kafkajs, by_kcat, by_sarama
from tests.interop.real_kafka import NoRealKafka
from tests.interop.spark_connector import connector_jars
from tests.interop.test_serve_live import tool
from tests.support.commands import json_of
from tests.support.serving import read_records, serving

pytestmark = [pytest.mark.xdist_group("broker"), pytest.mark.exhaustive(in_turn=True, together=True)]

TOPICS = {
    "txn": ("idem", "tx", "tx2"),
    "upgraded": ("upgraded",),
    "v2-mixed": ("mixed",),
    "v0": None,
    "v1": None,
    "client-kafkajs": None,
}
ISOLATIONS = ("read_uncommitted", "read_committed")
LZ4_OF_FORMAT_0 = ("v0-lz4", "v0-mixed", "py09-lz4", "upgraded")
"""Topics with LZ4 in message format 0, whose frames have another checksum (KAFKA-3160): franz-go refuses them."""


def topics_of(corpus, case):
    names = {path.name.rpartition("-")[0] for path in (corpus / case / "data").glob("*-[0-9]*")}
    return TOPICS[case] or sorted(name for name in names if not name.startswith("__"))


def codecs_of(log_dir, topic):
    _, found, _ = json_of("read", log_dir, "--topic", topic)
    return {one["codec"] for one in found if one["type"] == "record"}


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("client", [by_kcat, by_franz_go, by_sarama, by_kafkajs])
@pytest.mark.parametrize("case", TOPICS)
def test_clients_read_all_records(corpus, case, client, isolation):
    log_dir = corpus / case / "data"
    with serving(log_dir) as server:
        for topic in topics_of(corpus, case):
            if client in (by_franz_go, by_sarama) and topic in LZ4_OF_FORMAT_0:
                continue
            if client is by_kafkajs and not codecs_of(log_dir, topic) <= {"none", "gzip"}:
                continue  # it has no other codecs
            wanted = read_records(log_dir, topic, committed=isolation == "read_committed")
            count = sum(map(len, wanted.values()))
            try:
                found = client(server.bootstrap, topic, isolation, count, f"{topic}-{isolation}")
            except NoRealKafka as reason:
                pytest.skip(str(reason))
            assert found == wanted
            assert count


def test_three_members_of_franz_go_share_a_topic(corpus):
    """Each record goes to one of three members, and the group has committed the ends when they have left."""
    log_dir = corpus / "txn" / "data"
    wanted = read_records(log_dir, "tx2", committed=True)
    try:
        program = client_programs.franz_go()
    except NoRealKafka as reason:
        pytest.skip(str(reason))
    with serving(log_dir) as server:
        words = [str(program), server.bootstrap, "tx2", "read_committed", "1000000", "three"]
        members = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        out = [member.communicate(timeout=60)[0] for member in members]
    found = {}
    for line in "".join(out).splitlines():
        partition, offset, *_ = json.loads(line)
        found.setdefault(partition, set()).add(offset)
    assert found == {number: {offset for offset, _, _ in records} for number, records in wanted.items()}


@pytest.mark.spark
@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_sparks_kafka_source_reads_all_records(corpus, tmp_path, isolation):
    pytest.importorskip("pyspark", reason="the extra `spark` is not installed")
    try:
        jars = connector_jars(SPARK_CONNECTOR)
    except NoRealKafka as reason:
        pytest.skip(str(reason))
    log_dir = corpus / "txn" / "data"
    with serving(log_dir) as server:
        script = tmp_path / "read.py"
        script.write_text(SPARK.format(jars=jars, address=server.bootstrap, isolation=isolation, out=tmp_path / "out"))
        done = subprocess.run([sys.executable, script], capture_output=True, timeout=240, check=False)
        assert done.returncode == 0, done.stderr.decode()[-2000:]
    found = {}
    for line in (tmp_path / "out").read_text().splitlines():
        topic, partition, offset, *fields = json.loads(line)
        key, value = (None if field is None else bytes.fromhex(field) for field in fields)
        found.setdefault(topic, {}).setdefault(partition, []).append((offset, key, value))
    is_committed = isolation == "read_committed"
    assert found == {topic: read_records(log_dir, topic, committed=is_committed) for topic in TOPICS["txn"]}


SPARK_CONNECTOR = "4.2.0"
"""Of Spark 4.3 there is none on Maven yet."""
SPARK = """
import json
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.jars", "{jars}").config("spark.ui.enabled", "false")
spark = spark.config("spark.sql.shuffle.partitions", "1").getOrCreate()
source = spark.read.format("kafka").option("kafka.bootstrap.servers", "{address}").option("subscribe", "idem,tx,tx2")
rows = source.option("startingOffsets", "earliest").option("kafka.isolation.level", "{isolation}").load()
rows = rows.select("topic", "partition", "offset", "key", "value").orderBy("topic", "partition", "offset").collect()
with open("{out}", "w") as out:
    for topic, partition, offset, *fields in rows:
        fields = [None if field is None else bytes(field).hex() for field in fields]
        out.write(json.dumps([topic, partition, offset, *fields]) + "\\n")
spark.stop()
"""


@pytest.mark.parametrize(
    ("case", "topic", "isolation"), [("v2-mixed", "mixed", ISOLATIONS[0]), ("txn", "tx2", ISOLATIONS[1])]
)
def test_mirror_maker_copies_all_records_into_a_real_broker(real_kafka, corpus, tmp_path, case, topic, isolation):
    """MirrorMaker 2 reads from `serve` and writes to a broker; `read` prints the broker's disk."""
    try:
        class_path = client_programs.mirror_maker_jars(client_programs.MIRROR_MAKER)
    except NoRealKafka as reason:
        pytest.skip(str(reason))
    log_dir = corpus / case / "data"
    wanted = read_records(log_dir, topic, committed=isolation == "read_committed")
    assert (wanted == read_records(log_dir, topic)) == (case != "txn")
    with serving(log_dir) as server, broker(tmp_path, real_kafka.broker_class_path) as target:
        target.start()
        settings = tmp_path / "mm2.properties"
        settings.write_text(
            MIRROR.format(source=server.bootstrap, target=target.address, topic=topic, isolation=isolation)
        )
        main = "org.apache.kafka.connect.mirror.MirrorMaker"
        with (tmp_path / "mirror.log").open("wb") as log:
            mirror = subprocess.Popen([*JAVA, "-cp", class_path, main, settings], stdout=log, stderr=log)
        try:
            until = time.monotonic() + 150
            found = {}
            while time.monotonic() < until and sum(map(len, found.values())) < sum(map(len, wanted.values())):
                time.sleep(2)
                assert mirror.poll() is None, (tmp_path / "mirror.log").read_text()[-3000:]
                if (target.data / f"disk.{topic}-0").exists():
                    found = read_records(target.data, f"disk.{topic}")
        finally:
            mirror.terminate()
            mirror.wait(60)
        target.stop()
        found = read_records(target.data, f"disk.{topic}")
    assert without_offsets(found) == without_offsets(wanted), (tmp_path / "mirror.log").read_text()[-3000:]


def without_offsets(found):
    return {number: [one[1:] for one in records] for number, records in found.items()}


MIRROR = """\
clusters=disk,fresh
disk.bootstrap.servers={source}
fresh.bootstrap.servers={target}
disk->fresh.enabled=true
fresh->disk.enabled=false
disk->fresh.topics={topic}
disk->fresh.consumer.isolation.level={isolation}
disk->fresh.emit.heartbeats.enabled=false
disk->fresh.emit.checkpoints.enabled=false
disk->fresh.sync.topic.acls.enabled=false
offset-syncs.topic.location=target
disk->fresh.offset-syncs.topic.location=target
replication.factor=1
offset-syncs.topic.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
config.storage.replication.factor=1
offset.storage.partitions=1
status.storage.partitions=1
consumer.auto.offset.reset=earliest
disk.consumer.isolation.level={isolation}
dedicated.mode.enable.internal.rest=false
"""


def test_javas_admin_tools(newest_kafka, corpus):
    """Topics, settings, log directories and offsets are what is on the disk."""
    log_dir = corpus / "v2-mixed" / "data"
    with serving(log_dir) as server:
        address = ("--bootstrap-server", server.bootstrap)
        listed = tool(newest_kafka, "TopicCommand", *address, "--list").decode().split()
        assert listed == sorted(server.catalog.topics)
        described = tool(newest_kafka, "TopicCommand", *address, "--describe", "--topic", "mixed").decode()
        partitions = server.catalog.topics["mixed"].partitions
        assert f"PartitionCount: {len(partitions)}" in described
        assert all(f"Partition: {number}\tLeader: {server.catalog.node_id}" in described for number in partitions)
        words = ("--describe", "--topic-list", "mixed")
        sizes = json.loads(tool(newest_kafka, "LogDirsCommand", *address, *words).decode().splitlines()[-1])
        found = {one["partition"]: one["size"] for one in sizes["brokers"][0]["logDirs"][0]["partitions"]}
        assert found == {
            f"mixed-{number}": sum(path.stat().st_size for path in log_dir.glob(f"mixed-{number}/*.log"))
            for number in partitions
        }
