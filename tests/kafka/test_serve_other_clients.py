"""Unmodified clients of other languages read from `serve` what `kafkalog read` prints: the corpus, both isolations."""

import json
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from tests.kafka import client_programs
from tests.kafka.broker import JAVA, broker
from tests.kafka.client_programs import (
    MANY_SECONDS,
    by_console_consumer,
    by_franz_go,
    by_kafkajs,
    by_kcat,
    by_partition,
    by_sarama,
)
from tests.kafka.real_kafka import NoRealKafka
from tests.kafka.spark_connector import connector_jars
from tests.kafka.test_serve_live import tool
from tests.support.commands import json_of
from tests.support.product_kafka import COORDINATOR_TOPICS
from tests.support.served_corpus import ALL_CODECS, CODECS, ISOLATIONS, log_dirs_of, served_corpus
from tests.support.serving import in_records, read_records, serving

pytestmark = [pytest.mark.xdist_group("broker"), pytest.mark.full]


def one_by_one(client):
    """A function of jobs for a client that reads a topic per process."""

    def each(_folder, _kafka, jobs):
        return [client(*job, f"g-{number}") for number, job in enumerate(jobs)]

    return each


CLIENTS = {
    "kcat": one_by_one(by_kcat),
    "franz-go": one_by_one(by_franz_go),
    "sarama": one_by_one(by_sarama),
    "kafkajs": lambda folder, _kafka, jobs: by_kafkajs(folder, jobs),
    "console consumer": lambda folder, kafka, jobs: by_console_consumer(folder, kafka.class_path, jobs),
    "Spark": lambda folder, _kafka, jobs: by_spark(folder, jobs),
}
"""Functions of a folder, a Kafka and jobs: (address, topic, isolation, number of records)."""


DECODED = {"franz-go": CODECS, "sarama": CODECS, "kafkajs": {"none", "gzip"}}
"""The codecs of clients that do not have all, of LZ4 without its first form (KAFKA-3160)."""


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("client", CLIENTS)
def test_other_clients_read_all_records_of_the_corpus_from_serve(
    newest_kafka, corpus, tmp_path, client, isolation, evidence
):
    """All topics of the log directories without damage, except for codecs that the client does not have."""
    jobs, wanted = [], []
    with served_corpus(corpus, isolation) as all_served:
        for served in all_served:
            for topic, records in served.with_codecs(DECODED.get(client, ALL_CODECS)).records.items():
                if client == "Spark" and topic in COORDINATOR_TOPICS:
                    continue  # its source leaves them out
                if client == "kafkajs" and topic == "now-idem":
                    continue  # it reads no further than a segment of batches without records
                jobs.append((served.server.bootstrap, topic, isolation, sum(map(len, records.values()))))
                wanted.append(records)
        try:
            found = CLIENTS[client](tmp_path, newest_kafka, jobs)
        except NoRealKafka as reason:
            pytest.skip(str(reason))
    assert len(found) == len(wanted)
    for job, one, other in zip(jobs, found, wanted, strict=True):
        assert one == other, job
    evidence("R67", sum(job[-1] for job in jobs), 2 * len(CLIENTS))


def test_three_members_of_franz_go_share_a_topic(corpus, tmp_path):
    """Each record goes to one of three members."""
    log_dir = corpus / "txn" / "data"
    wanted = read_records(log_dir, "tx2", committed=True)
    try:
        program = client_programs.franz_go()
    except NoRealKafka as reason:
        pytest.skip(str(reason))
    files = [tmp_path / f"member-{number}" for number in range(3)]
    with serving(log_dir) as server, ExitStack() as opened:
        words = [str(program), server.bootstrap, "tx2", "read_committed", "1000000", "three"]
        members = [subprocess.Popen(words, stdout=opened.enter_context(file.open("wb"))) for file in files]
        until = time.monotonic() + MANY_SECONDS
        while len(places_in(files)) < sum(map(len, wanted.values())) and time.monotonic() < until:
            time.sleep(0.2)
        time.sleep(1)  # for records that are too many
        for member in members:
            member.terminate()
            member.wait()
    assert places_in(files) == {(number, offset) for number, records in wanted.items() for offset, _, _ in records}


def places_in(files):
    """Partitions and offsets of the records that programs have printed."""
    lines = [line for file in files for line in file.read_bytes().split(b"\n")[:-1]]
    return {tuple(json.loads(line)[:2]) for line in lines}


def by_spark(folder, jobs):
    """All topics through Spark's Kafka source, in one session: a query reads the topics of many servers."""
    pytest.importorskip("pyspark", reason="the extra `spark` is not installed")
    (folder / "jobs").write_text(json.dumps(jobs))
    script = folder / "read.py"
    script.write_text(SPARK.format(jars=connector_jars(SPARK_CONNECTOR), jobs=folder / "jobs", out=folder / "out"))
    done = subprocess.run([sys.executable, script], capture_output=True, timeout=MANY_SECONDS, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    found = [[] for _ in jobs]
    for line in (folder / "out").read_text().splitlines():
        number, *record = json.loads(line)
        found[number].append(record)
    return [*map(by_partition, found)]


SPARK_CONNECTOR = "4.2.0"
"""Of Spark 4.3 there is none on Maven yet."""
SPARK = """
import json
from functools import reduce
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit
spark = SparkSession.builder.master("local[2]").config("spark.jars", "{jars}").config("spark.ui.enabled", "false")
spark = spark.getOrCreate()
with open("{jobs}") as file:
    jobs = json.load(file)
servers = dict()
for number, (address, topic, isolation, count) in enumerate(jobs):
    servers.setdefault(address, dict())[topic] = number

def rows_of(address):
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", address)
    source = source.option("subscribe", ",".join(servers[address])).option("kafka.isolation.level", isolation)
    return source.load().select(lit(address), "topic", "partition", "offset", "key", "value")

with open("{out}", "w") as out:
    addresses = [*servers]
    for first in range(0, len(addresses), 20):
        parts = map(rows_of, addresses[first : first + 20])
        for address, topic, *place, key, value in reduce(lambda one, other: one.union(other), parts).collect():
            fields = [None if field is None else bytes(field).hex() for field in (key, value)]
            out.write(json.dumps([servers[address][topic], *place, *fields]) + "\\n")
spark.stop()
"""


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_mirror_maker_copies_the_corpus_into_a_real_broker(real_kafka, corpus, tmp_path, isolation, evidence):
    """MirrorMaker 2 reads all topics from one `serve` and writes to a broker; `read` prints the broker's disk."""
    try:
        class_path = client_programs.mirror_maker_jars(client_programs.MIRROR_MAKER)
    except NoRealKafka as reason:
        pytest.skip(str(reason))
    disks = renamed_disks(corpus, tmp_path / "disks")
    with serving(*disks) as server, broker(tmp_path, real_kafka.broker_class_path, LARGE) as target:
        wanted = records_on(disks, isolation)
        count = sum(map(len, wanted.values()))
        target.start()
        settings = tmp_path / "mm2.properties"
        settings.write_text(MIRROR.format(source=server.bootstrap, target=target.address, isolation=isolation))
        main = "org.apache.kafka.connect.mirror.MirrorMaker"
        with (tmp_path / "mirror.log").open("wb") as log:
            mirror = subprocess.Popen([*JAVA, "-cp", class_path, main, settings], stdout=log, stderr=log)
        try:
            until = time.monotonic() + MANY_SECONDS
            while time.monotonic() < until and copied_count(target.data) < count:
                time.sleep(2)
                assert mirror.poll() is None, (tmp_path / "mirror.log").read_text()[-3000:]
        finally:
            mirror.terminate()
            mirror.wait(MANY_SECONDS)
        target.stop()
        found = records_on([target.data], ISOLATIONS[0])
    for (topic, number), records in wanted.items():
        assert found.get((f"disk.{topic}", number)) == records, (topic, number)
    evidence("R64", count, len(ISOLATIONS))


LARGE = {"message.max.bytes": "20000000", "replica.fetch.max.bytes": "20000000"}
CHECKPOINTS = ("log-start-offset-checkpoint", "recovery-point-offset-checkpoint", "replication-offset-checkpoint")


def renamed_disks(corpus, folder):
    """Copies of the corpus whose topics have the names of their directories too, so that one cluster has them all."""
    found = []
    for log_dir in log_dirs_of(corpus):
        name = "-".join(log_dir.relative_to(corpus).parts)
        copy = folder / name
        copy.mkdir(parents=True)
        for path in log_dir.iterdir():
            if path.name in CHECKPOINTS:
                lines = path.read_text().splitlines(keepends=True)
                (copy / path.name).write_text("".join(lines[:2] + [f"{name}-{line}" for line in lines[2:]]))
            elif path.is_file():
                shutil.copy(path, copy)
            elif not path.name.startswith("__cluster_metadata"):
                shutil.copytree(path, copy / f"{name}-{path.name}", ignore=shutil.ignore_patterns("partition.metadata"))
        found.append(copy)
    return found


def records_on(disks, isolation):
    """{(topic, partition): [(key, value)]} of `kafkalog read`, without log directories with damage."""
    found = {}
    for disk in disks:
        partitions = sorted(path.parent for path in disk.glob("*-[0-9]/*.log"))
        code, objects, _ = json_of("read", *dict.fromkeys(partitions), "--isolation", isolation)
        if not code:
            found |= in_records((one for one in objects if one["type"] == "record"), "topic", "partition")
    return {place: [record[1:] for record in records] for place, records in found.items()}


def copied_count(log_dir):
    """The number of records in the topics that MirrorMaker 2 has made."""
    _, objects, _ = json_of("ls", log_dir, "--topic-pattern", "disk[.].*")
    return sum(one["log_end_offset"] for one in objects if one["type"] == "partition")


MIRROR = """\
clusters=disk,fresh
disk.bootstrap.servers={source}
fresh.bootstrap.servers={target}
disk->fresh.enabled=true
fresh->disk.enabled=false
disk->fresh.topics=.*
disk->fresh.topics.exclude=none
disk->fresh.sync.topic.configs.enabled=false
fresh.producer.max.request.size=20000000
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


def test_the_admin_client_of_java_gets_topics_settings_and_offsets_from_serve(newest_kafka, corpus):
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
