"""Servers of the log directories of the corpus, and the records that `kafkalog read` prints of them."""

import time
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import pytest

from tests.support.commands import json_of
from tests.support.effort import DIAL, EIGHTHS
from tests.support.product import lower_limit
from tests.support.serving import in_records, serving

ISOLATIONS = ("read_uncommitted", "read_committed")
LEAST_DIRECTORIES = 100
"""Log directories without damage; `--on-damage` has tests of its own."""
SECONDS = 120
LZ4_OF_FORMAT_0 = "lz4 of format 0"
"""Its frames have another checksum (KAFKA-3160). Some clients refuse them."""
CODECS = frozenset({"none", "gzip", "snappy", "lz4", "zstd"})
ALL_CODECS = CODECS | {LZ4_OF_FORMAT_0}
_LEFT_OUT = {"format-0.7", "crash-flip-magic"}
"""Logs of 0.7, and a batch of magic 7: a broker and `read` take it as format 2, and clients refuse it."""


class Served(NamedTuple):
    """A server, its records, {topic: {partition: [(offset, key, value)]}}, and the codecs of each topic."""

    server: Any
    records: dict[str, dict[int, list[tuple[int, bytes | None, bytes | None]]]]
    codecs: dict[str, set[str]]

    @property
    def record_count(self) -> int:
        return sum(len(one) for partitions in self.records.values() for one in partitions.values())

    def with_codecs(self, codecs):
        """The same with the topics that have only these codecs."""
        return self._replace(records={name: one for name, one in self.records.items() if self.codecs[name] <= codecs})


@contextmanager
def served_corpus(corpus, isolation):
    """A running server for each log directory without damage. A new group does not wait for more members."""
    with ExitStack() as opened:
        lower_limit(opened.enter_context(pytest.MonkeyPatch.context()), "seconds a new group waits for members", 0.0)
        found = []
        for log_dir in DIAL.some(log_dirs_of(corpus)):
            server = opened.enter_context(serving(log_dir))
            records, codecs = printed(log_dir, server.catalog.topics, isolation)
            if records:
                found.append(Served(server, records, codecs))
        assert len(found) >= (LEAST_DIRECTORIES if DIAL.is_full else LEAST_DIRECTORIES // EIGHTHS)
        yield found


def printed(log_dir, topics, isolation):
    """Records and codecs by `kafkalog read`; no records if a batch is damaged or a broker would cut it off."""
    found, codecs = {}, {}
    for topic in topics:
        code, objects, _ = json_of("read", log_dir, "--topic", topic, "--isolation", isolation)
        if code:
            return {}, {}
        records = [one for one in objects if one["type"] == "record"]
        if records:
            found[topic] = in_records(records, "partition")
            codecs[topic] = {codec_of(one) for one in records}
    return found, codecs


def codec_of(record):
    is_format_0 = record["timestamp_type"] == "NoTimestampType"
    return LZ4_OF_FORMAT_0 if is_format_0 and record["codec"] == "lz4" else record["codec"]


def log_dirs_of(corpus):
    """The log directories of the corpus."""
    folders = (one / name for one in sorted(corpus.iterdir()) for name in ("data", "before", "after"))
    return [one for one in folders if one.is_dir() and one.parent.name not in _LEFT_OUT]


class Collected:
    """Records of a client, by topic and partition."""

    def __init__(self):
        self.records = {}
        self.count = 0
        self._until = time.monotonic() + SECONDS

    def add(self, topic, partition, *record):
        self.records.setdefault(topic, {}).setdefault(partition, []).append(record)
        self.count += 1

    def is_enough(self, served):
        """Whether the client has all records, or takes too long. The client may then ask once more for others."""
        return self.count >= served.record_count or time.monotonic() > self._until
