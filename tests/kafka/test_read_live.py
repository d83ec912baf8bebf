"""`read` against real consumers: what a broker serves them of the same partition, and how their formatter prints it."""

import json
import random
import subprocess

import pytest

from tests.kafka.broker import Client, broker
from tests.kafka.broker_records import line_of, served_lines
from tests.kafka.random_segments import random_log
from tests.support.commands import kafkalog

FIELDS = ("timestamp", "partition", "offset", "epoch", "headers", "key", "value")


def read(*argv):
    """(exit code, stdout, stderr)."""
    return kafkalog("read", *argv, errors="surrogateescape")


def lines_read(partition, isolation, *options):
    code, out, _ = read(partition, "--isolation", isolation, "--format", "json", *options)
    *records, summary = map(json.loads, out.splitlines())
    assert code == 0
    return [line_of(record) for record in records], summary


@pytest.mark.full
def test_read_prints_the_records_of_a_consumer_of_transactions(real_kafka, tmp_path):
    """Transactions that overlap, committed, aborted and left open, with other records between; some were deleted."""
    topics = "plain", "ended", "open", "deleted", "rolled"
    with broker(tmp_path, real_kafka.broker_class_path) as one:
        one.start()
        with Client(one.address, real_kafka.class_path) as client:
            for seed, topic in enumerate(topics):
                settings = {"internal.segment.bytes": 3000} if topic == "rolled" else {}
                client.do("create", topic, **settings)
                for at, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
                    mine = 100 * seed + 10 * at
                    client.do("produce", topic, count=20, per=6, seed=mine, codec=codec)
                    if topic != "plain":
                        for turn, end in enumerate(("commit", "abort", "abort")):
                            client.do("produce", topic, count=7, per=3, seed=mine + turn, codec=codec,
                                      transaction=f"{topic}-{turn}", end=end)  # fmt: skip
            client.do("produce", "open", count=5, per=5, seed=900, transaction="hangs", end="open")
            client.do("produce", "open", count=9, per=4, seed=901)
            client.do("produce", "open", count=5, per=5, seed=902, transaction="open-1", end="commit")
            client.do("delete-records", "deleted", 77)
            served = served_lines(client, topics, tmp_path)
        one.stop()  # which writes down where the logs start
    for topic in topics:
        partition = one.data / f"{topic}-0"
        for isolation, wanted in zip(("read_uncommitted", "read_committed"), served[topic], strict=True):
            assert lines_read(partition, isolation)[0] == wanted, (topic, isolation)
            middle = int(wanted[len(wanted) // 2].split("\t")[0])
            behind = [line for line in wanted if int(line.split("\t")[0]) >= middle]
            assert lines_read(partition, isolation, "--from", middle)[0] == behind
        for index in partition.glob("*.txnindex"):
            index.unlink()
        assert lines_read(partition, "read_committed")[0] == served[topic].committed
    assert len(served["ended"].uncommitted) - len(served["ended"].committed) == 70
    assert lines_read(one.data / "open-0", "read_committed")[1]["last_stable_offset"] is not None
    assert lines_read(one.data / "deleted-0", "read_committed")[1]["log_start_offset"] == 77


@pytest.mark.full
def test_read_prints_records_like_the_formatter_of_the_console_consumer(real_kafka, tmp_path):
    """Random logs of every format, byte for byte."""
    chance = random.Random(5)
    partition = tmp_path / "orders-3"
    partition.mkdir()
    tried = 0
    for turn in range(12):
        (partition / f"{0:020}.log").write_bytes(random_log(chance))
        fields = FIELDS if turn % 3 == 0 else chance.sample(FIELDS, chance.randrange(1, 6))
        chosen = [f"print.{name}={'true' if name in fields else 'false'}" for name in FIELDS]
        command = [
            "java",
            "-XX:TieredStopAtLevel=1",
            "-Dfile.encoding=UTF-8",
            "-cp",
            real_kafka.class_path,
            "FormatSegments",
            partition,
            *chosen,
        ]
        done = subprocess.run(command, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        code, out, err = read(partition, "--print", ",".join(fields))
        assert (code, out.encode(errors="surrogateescape")) == (0, done.stdout), (turn, fields, err)
        tried += len(out) > 1000
    assert tried > 5
