"""Topics of a real broker for Spark's Kafka source and ours: what they hold, and where their logs begin and end."""

import time
from typing import NamedTuple

import kafkalog_cli as kl

SETTINGS = {
    "log.flush.start.offset.checkpoint.interval.ms": "300",
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "200",
    "log.segment.delete.delay.ms": "500",
}
SMALL = {"internal.segment.bytes": 3000, "index.interval.bytes": 512}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_MS, STEP_MS = 1_700_000_000_000, 1_000
CLEANED = "cleaned"
SETTLED_SECONDS = 4


class Log(NamedTuple):
    """A partition: where its log begins and ends, and about how many offsets it has."""

    topic: str
    number: int
    start: int
    end: int


def make_topics(client, data):
    """Produce into all of them, and wait until the cleaner and the checkpoints are done with them."""
    _codecs(client)
    _times(client)
    _transactions(client)
    _thinned(client, data)
    client.do("create", "em.pty-1", partitions=2)
    client.do("consumed-group", "codecs", "somebody")


def logs_of(data):
    """Every partition below the log directory, as it lies there, but for internal ones."""
    found = []
    for path in sorted(data.glob("*-[0-9]*")):
        one = kl.open_partition(path)
        if not one.topic.startswith("__"):  # Spark's Kafka source has nothing of these
            found.append(Log(one.topic, one.partition, *one.offsets()[:2]))
    return found


def _codecs(client):
    client.do("create", "codecs", partitions=3, **SMALL)
    for partition in range(2):  # the last one is empty
        for seed, codec in enumerate(CODECS):
            begin = FIRST_MS + (partition * 500 + seed * 40) * STEP_MS
            client.do("produce", "codecs", partition=partition, count=40, per=4 + 9 * partition, seed=seed, codec=codec,
                      nulls="true", **{"from": begin})  # fmt: skip


def _times(client):
    client.do("create", "times.out-of_order", partitions=2, **SMALL)
    for seed, (begin, step) in enumerate(((500, 7), (0, 3), (200, -1), (900, 0), (450, 11))):
        client.do("produce", "times.out-of_order", partition=seed % 2, count=30, per=5, seed=seed, step=step * STEP_MS,
                  **{"from": FIRST_MS + begin * STEP_MS})  # fmt: skip
    client.do("create", "appended", **SMALL, **{"message.timestamp.type": "LogAppendTime"})
    client.do("produce", "appended", count=60, per=6, seed=9, codec="lz4", nulls="true")


def _transactions(client):
    for topic in ("tx", "tx-open"):
        client.do("create", topic, **SMALL)
        for number, ending in enumerate(("commit", "abort", "commit", "abort", "abort")):
            client.do("produce", topic, count=13, per=4, seed=number, transaction=f"{topic}-{number}", end=ending,
                      codec=CODECS[number], **{"from": FIRST_MS + number * 60 * STEP_MS})  # fmt: skip
            client.do("produce", topic, count=5, per=2, seed=number, idempotent="true",
                      **{"from": FIRST_MS + number * 60 * STEP_MS})  # fmt: skip
    client.do("produce", "tx-open", count=8, per=3, seed=7, transaction="open", end="open")
    client.do("produce", "tx-open", count=8, per=3, seed=8, **{"from": FIRST_MS + 900 * STEP_MS})


def _thinned(client, data):
    for topic, keep in (("begun-late", 37), ("all-gone", 60)):
        client.do("create", topic, **SMALL)
        client.do("produce", topic, count=60, per=6, seed=3)
        client.do("delete-records", topic, keep)
    cleaning = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.ms": 600_000}
    client.do("create", CLEANED, **SMALL, **cleaning)
    for seed in range(6):
        client.do("produce", CLEANED, count=70, per=7, seed=seed, codec=CODECS[seed % 5])
    until = time.monotonic() + 240
    last, since = None, time.monotonic()
    while time.monotonic() < until:
        found = _is_settled(data) and sorted(
            (one.name, one.stat().st_mtime_ns) for one in (data / f"{CLEANED}-0").iterdir()
        )
        if found != last or not found:  # the cleaner goes on: for a moment a broker has not all that is there
            last, since = found, time.monotonic()
        elif time.monotonic() - since > SETTLED_SECONDS:
            return
        time.sleep(0.3)
    raise AssertionError("the cleaner does not come to an end")


def _is_settled(data):
    starts = {log.topic: log.start for log in logs_of(data)}
    checkpoint = data / "cleaner-offset-checkpoint"
    is_cleaned = checkpoint.exists() and f"{CLEANED} 0 " in checkpoint.read_text()
    return is_cleaned and starts["begun-late"] == 37 and starts["all-gone"] == 60
