"""Replay into a real broker: what its consumers get, and what `read` prints of its disk, is what was committed."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.kafka.broker import Client, broker
from tests.kafka.broker_records import line_of
from tests.kafka.recovering import ENVIRONMENT
from tests.support.commands import kafkalog, objects_in

confluent = pytest.importorskip(
    "confluent_kafka", reason="the extra `replay` is not installed: nothing of it is tested"
)
pytestmark = [pytest.mark.xdist_group("broker"), pytest.mark.full]

CASES = (
    *("v0", "v1", "upgraded", "v2-mixed", "v2-large", "v2-logappend", "txn", "compact-tx", "internal"),
    *("client-librdkafka", "client-kafkajs", "client-aiokafka", "client-kafka-python"),
)


@pytest.fixture(scope="module")
def target(real_kafka, tmp_path_factory):
    settings = {"message.max.bytes": "20000000"}
    with broker(tmp_path_factory.mktemp("target"), real_kafka.broker_class_path, settings) as one:
        yield one.start()


def data_of(corpus, case):
    folders = (corpus / case / name for name in ("data", "before"))
    return next(folder for folder in folders if folder.exists())


def contents(log_dir, topic, number, committed=True):
    """The records of a partition as lines, without their offsets."""
    isolation = "read_committed" if committed else "read_uncommitted"
    words = ("--topic", topic, "--partition", number, "--isolation", isolation, "--format", "json")
    done = kafkalog("read", log_dir, *words)
    assert done.code == 0, done
    return [without_offset(line_of(one)) for one in objects_in(done.out) if one["type"] == "record"]


def without_offset(line):
    return line.partition("\t")[2]


def partitions_of(log_dir):
    names = (path.name.rpartition("-") for path in log_dir.glob("*-[0-9]*") if not path.name.startswith("__"))
    return sorted((topic, int(number)) for topic, _, number in names if number.isdigit())


def replay(log_dir, target, state, *more, code=0):
    done = kafkalog("replay", log_dir, "--to", target.address, "--state", state, "--format", "json", *more)
    assert done.code == code, done
    return objects_in(done.out)


def renames(log_dir, prefix):
    topics = {topic for topic, _ in partitions_of(log_dir)}
    return [f"--rename={topic}={prefix}.{topic}" for topic in sorted(topics)]


def consumed(target, counts):
    """What a consumer gets of each partition, from the first record on: topic and partition: lines; one more poll finds what is too much."""
    consumer = confluent.Consumer({**reading(target, "test"), "isolation.level": "read_committed"})
    consumer.assign([confluent.TopicPartition(topic, number, 0) for topic, number in counts])
    lines = {place: [] for place in counts}
    for one in polled(consumer, sum(counts.values())):
        lines[one.topic(), one.partition()].append(line(one))
    return lines


def reading(target, group):
    return {"bootstrap.servers": target.address, "group.id": group, "enable.auto.commit": False}


def polled(consumer, count):
    """So many records, and any that come in half a second more; the consumer is closed."""
    found, until = [], time.monotonic() + 180
    while len(found) < count and time.monotonic() < until:
        found += consumer.consume(min(count - len(found), 1000), timeout=0.5)
    found += consumer.consume(1000, timeout=0.5)
    consumer.close()
    assert not [one.error() for one in found if one.error() is not None]
    return found


def line(one):
    """A record as `contents` has it."""
    headers = " ".join(f"{key}={in_hex(value)}" for key, value in one.headers() or ())
    kind, time_ms = one.timestamp()
    return "\t".join((str(time_ms if kind else -1), in_hex(one.key()), in_hex(one.value()), headers))


def in_hex(data):
    return "-" if data is None else data.hex()


@pytest.mark.parametrize("case", CASES)
def test_consumers_get_the_committed_records(target, corpus, tmp_path, case):
    log_dir = data_of(corpus, case)
    done = replay(log_dir, target, tmp_path / "state", "--create", *renames(log_dir, case))
    sent = {(one["topic"], one["partition"]): one["sent"] for one in done if one["type"] == "replayed"}
    assert sorted(sent) == partitions_of(log_dir)
    wanted = {(f"{case}.{topic}", number): contents(log_dir, topic, number) for topic, number in sent}
    assert [*sent.values()] == [*map(len, wanted.values())]
    assert {place: contents(target.data, *place) for place in wanted} == wanted
    assert consumed(target, {place: len(lines) for place, lines in wanted.items()}) == wanted
    assert sum(sent.values()) > 0
    again = replay(log_dir, target, tmp_path / "state", "--create", *renames(log_dir, case))
    assert again[-1]["sent"] == 0


def test_a_group_continues_after_its_last_committed_record(target, real_kafka, tmp_path):
    """The source has markers and aborted records, so that its offsets are others than those of the cluster."""
    class_path = real_kafka.broker_class_path
    with broker(tmp_path / "source", class_path) as source:
        (tmp_path / "source").mkdir()
        source.start()
        with Client(source.address, class_path) as client:
            client.do("create", "ledger")
            for seed, end in enumerate(("commit", "abort", "commit")):
                client.do("produce", "ledger", count=50, per=7, seed=seed, transaction=f"t{seed}", end=end, nulls=1)
            client.do("consumed-group", "ledger", "at-end")
            client.do("produce", "ledger", count=30, per=7, seed=9, transaction="t9", end="commit")
            commit(source, "in-the-middle", 20)
            commit(source, "in-aborted", 70)
        source.stop()
    done = replay(source.data, target, tmp_path / "state", "--create", "--groups")
    assert {one["group_id"] for one in done if one["type"] == "replayed-offset"} == {
        "at-end", "in-the-middle", "in-aborted"
    }  # fmt: skip
    for group, offset in (("in-the-middle", 20), ("in-aborted", 70), ("at-end", 153)):
        rest = kafkalog(
            "read", source.data, "--topic", "ledger", "--isolation", "read_committed", "--from", offset,
            "--format", "json",
        )  # fmt: skip
        wanted = [without_offset(line_of(one)) for one in objects_in(rest.out) if one["type"] == "record"]
        assert read_by(target, group, len(wanted)) == wanted
        assert wanted


def commit(one, group, offset):
    consumer = confluent.Consumer(reading(one, group))
    consumer.commit(offsets=[confluent.TopicPartition("ledger", 0, offset)], asynchronous=False)
    consumer.close()


def read_by(target, group, count):
    """What a member of a group gets that has no other offset than the committed one."""
    consumer = confluent.Consumer({**reading(target, group), "auto.offset.reset": "error"})
    consumer.subscribe(["ledger"])
    return [*map(line, polled(consumer, count))]


def test_killed_runs_leave_no_gap_and_no_double(target, real_kafka, tmp_path):
    class_path = real_kafka.broker_class_path
    (tmp_path / "source").mkdir()
    with broker(tmp_path / "source", class_path) as source:
        source.start()
        with Client(source.address, class_path) as client:
            client.do("create", "busy")
            client.do("produce", "busy", count=60_000, per=500, seed=5, nulls=1, codec="lz4")
        source.stop()
    wanted = contents(source.data, "busy", 0)
    words = ["replay", source.data, "--to", target.address, "--state", tmp_path / "state", "--create"]
    command = [sys.executable, "-m", "kafkalog_cli", *map(str, words), "--bytes-per-s", "2MB"]
    kills = []
    for seconds, kind in ((4, signal.SIGKILL), (5, signal.SIGINT), (6, signal.SIGKILL)):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, kind)
            kills.append(kind)
            _, errors = process.communicate(timeout=300)
            assert process.returncode == (130 if kind is signal.SIGINT else -signal.SIGKILL), errors
            continue
        process.communicate()
    assert kills
    done = replay(source.data, target, tmp_path / "state", "--create")
    assert done[-1]["exit_code"] == 0
    assert 0 < done[0]["records"] == len(wanted)
    assert contents(target.data, "busy", 0) == wanted


def test_a_partitioner_puts_keys_where_a_producer_does(target, real_kafka, tmp_path):
    """From two partitions into six, with a kill between: `control` has the same records by librdkafka's producer."""
    sizes = {"few": 2, "control": 6, "many": 6}
    with Client(target.address, real_kafka.broker_class_path) as client:
        for topic, partitions in sizes.items():
            client.do("create", topic, partitions=partitions)
    settings = {"bootstrap.servers": target.address, "partitioner": "murmur2_random", "linger.ms": 5}
    producer = confluent.Producer(settings)
    for topic in ("few", "control"):
        for at in range(20_000):
            producer.produce(topic, b"%0100d" % at, None if at % 10 == 0 else b"user-%d" % (at % 500))
            producer.poll(0)
        assert producer.flush(60) == 0
    words = ("--topic", "few", "--rename=few=many", "--partitioner", "murmur2_random")
    command = ["replay", target.data, "--to", target.address, "--state", tmp_path / "state", *words]
    process = subprocess.Popen(
        [sys.executable, "-m", "kafkalog_cli", *map(str, command), "--bytes-per-s", "300kB"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT,
    )  # fmt: skip
    while not sum(one.stat().st_size for one in target.data.glob("many-*/*.log")):
        time.sleep(0.2)
        assert process.poll() is None
    time.sleep(2)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    done = replay(target.data, target, tmp_path / "state", *words)
    assert 0 < done[-1]["sent"] < 20_000
    found = {
        topic: [[line.split("\t")[1:3] for line in contents(target.data, topic, number)] for number in range(count)]
        for topic, count in sizes.items()
    }
    without_more = [*found["few"], [], [], [], []]
    for of_key, of_control, of_source in zip(found["many"], found["control"], without_more, strict=True):
        assert sorted(one for one in of_key if one[0] != "-") == sorted(one for one in of_control if one[0] != "-")
        assert [one for one in of_key if one[0] == "-"] == [one for one in of_source if one[0] == "-"]
        values = {}
        for key, value in of_key:
            values.setdefault(key, []).append(value)
        assert all(values[key] == sorted(values[key]) for key in values)
    assert sum(map(len, found["many"])) == 20_000


def test_a_record_that_the_cluster_refuses(target, real_kafka, corpus, tmp_path):
    """The records before it arrive; after a remedy, the same command continues with it."""
    log_dir = data_of(corpus, "v2-large")
    wanted = contents(log_dir, "large-none", 0)
    with Client(target.address, real_kafka.broker_class_path) as client:
        client.do("create", "small", **{"max.message.bytes": 20_000})
        words = ("--topic", "large-none", "--rename=large-none=small")
        done = kafkalog("replay", log_dir, "--to", target.address, "--state", tmp_path / "state", *words)
        assert done.code == 1, done
        assert "the record of offset 2 was not acknowledged" in done.err
        assert "too large" in done.err
        assert contents(target.data, "small", 0) == wanted[:2]
        client.do("alter", "small", **{"max.message.bytes": 20_000_000})
    replay(log_dir, target, tmp_path / "state", *words)
    assert contents(target.data, "small", 0) == wanted


def test_a_dry_run_and_a_cluster_that_is_not_there(target, corpus, tmp_path):
    log_dir = data_of(corpus, "txn")
    done = replay(log_dir, target, tmp_path / "state", "--create", "--dry-run", *renames(log_dir, "never"))
    assert {one["is_created"] for one in done if one["type"] == "planned-replay"} == {True}
    assert not (tmp_path / "state").exists()
    assert not list(target.data.glob("never.*"))
    missing = kafkalog("replay", log_dir, "--to", target.address, "--state", tmp_path / "state")
    assert missing.code == 14
    assert "--create creates it" in missing.err


SECURED = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.name.plaintext.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' username="writer" password="secret" user_writer="secret";',
    "ssl.keystore.type": "PEM",
    "ssl.truststore.type": "PEM",
    "ssl.endpoint.identification.algorithm": "",
}
"""The listener is named PLAINTEXT, as the Broker of the tests has it, and speaks SASL over TLS."""


def test_replay_connects_with_tls_and_a_password(real_kafka, corpus, tmp_path):
    """--command-config passes librdkafka's properties on. Without them, the cluster does not answer."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl makes the certificate")
    key, certificate, both = (tmp_path / name for name in ("key.pem", "certificate.pem", "both.pem"))
    words = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost")
    names = ("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate)
    subprocess.run(["openssl", *words, *names], check=True, capture_output=True)
    both.write_text(key.read_text() + certificate.read_text())
    places = {"ssl.keystore.location": both, "ssl.truststore.location": certificate}
    settings = tmp_path / "client.properties"
    settings.write_text(
        f"security.protocol=SASL_SSL\nsasl.mechanisms=PLAIN\nsasl.username=writer\nsasl.password=secret\n"
        f"ssl.ca.location={certificate}\n"
    )
    log_dir = data_of(corpus, "txn")
    with broker(tmp_path, real_kafka.broker_class_path, {**SECURED, **places}) as one:
        one.start()
        replay(log_dir, one, tmp_path / "state", "--create", "--command-config", settings)
        for topic, number in partitions_of(log_dir):
            assert contents(one.data, topic, number) == contents(log_dir, topic, number)
        wrong = tmp_path / "wrong.properties"
        wrong.write_text(settings.read_text().replace("secret", "guess"))
        refused = kafkalog("replay", log_dir, "--to", one.address, "--state", tmp_path / "s", "--command-config", wrong)
        assert refused.code == 1
        assert "guess" not in refused.err


def test_replay_sends_to_leaders_on_several_brokers(real_kafka, corpus, tmp_path):
    """The partitions have their leaders on two brokers. The state of the first run ends the second at once."""
    log_dir = data_of(corpus, "v2-mixed")
    class_path = real_kafka.broker_class_path
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    with broker(folders[0], class_path) as first, broker(folders[1], class_path, first=first) as second:
        first.start()
        second.start()
        for sent in (True, False):
            done = replay(log_dir, first, tmp_path / "state", "--create")
            assert bool(done[-1]["sent"]) is sent
        on = [{f"{topic}-{number}" for topic, number in partitions_of(one.data)} for one in (first, second)]
        assert all(on)
        assert not on[0] & on[1]
        for topic, number in partitions_of(log_dir):
            of = first if f"{topic}-{number}" in on[0] else second
            assert contents(of.data, topic, number) == contents(log_dir, topic, number)


def test_replay_into_a_compacted_topic_keeps_the_last_value_of_each_key(target, real_kafka, corpus, tmp_path):
    """The cluster's cleaner may run meanwhile: the last value of each key is that of the disk."""
    log_dir = data_of(corpus, "txn")
    cleaning = {"cleanup.policy": "compact", "segment.ms": 100, "min.cleanable.dirty.ratio": 0.01, "partitions": 2}
    with Client(target.address, real_kafka.broker_class_path) as client:
        client.do("create", "latest", **cleaning)
    words = ("--topic", "tx2", "--rename=tx2=latest")
    assert replay(log_dir, target, tmp_path / "state", *words)[-1]["sent"]
    assert replay(log_dir, target, tmp_path / "state", *words)[-1]["sent"] == 0
    for number in (0, 1):
        found, wanted = (
            {line.split("\t")[1]: line for line in contents(*place, number)}
            for place in ((target.data, "latest"), (log_dir, "tx2"))
        )
        assert found == wanted
        assert wanted
