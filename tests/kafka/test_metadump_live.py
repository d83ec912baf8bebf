"""A real broker starts on what `kafkalog metadump` makes of its log directory, and serves records of the same sizes."""

import json
import re
from typing import NamedTuple

import pytest

from tests.kafka.broker import Client, broker
from tests.kafka.recovering import complaints, kafkalog

pytestmark = [pytest.mark.xdist_group("broker"), pytest.mark.full]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPICS = [*(f"of-{codec}" for codec in CODECS), "in-transactions", "compacted"]
SMALL = {"internal.segment.bytes": 6000, "index.interval.bytes": 512}
ISOLATION = "read_committed"


class Original(NamedTuple):
    broker: object
    lines: list
    """Of each topic, the records that a consumer gets: offset, timestamp, key, value, headers."""


@pytest.fixture(scope="module")
def original(real_kafka, tmp_path_factory):
    class_path = real_kafka.broker_class_path
    with broker(tmp_path_factory.mktemp("original"), class_path) as one:
        one.start()
        with Client(one.address, class_path) as client:
            for topic in TOPICS:
                policy = {"cleanup.policy": "compact"} if topic == "compacted" else {}
                client.do("create", topic, **SMALL, **policy)
            for seed, codec in enumerate(CODECS):
                client.do("produce", f"of-{codec}", count=400, per=7 + seed, seed=seed, codec=codec, nulls=1)
            client.do("produce", "compacted", count=200, per=9, seed=7, codec="zstd", idempotent=1)
            for seed, end in enumerate(("commit", "abort", "commit", "open")):
                options = {"transaction": f"id-{seed}", "end": end, "codec": CODECS[seed]}
                client.do("produce", "in-transactions", count=60, per=11, seed=20 + seed, **options)
            client.do("consumed-group", "of-lz4", "some-group")
            consumed = consume(client, one.folder, TOPICS)
        one.stop()
        yield Original(one, consumed)


def consume(client, folder, topics):
    client.do("consume", folder, ISOLATION, *topics)
    return sorted((folder / f"{topic}.{ISOLATION}").read_text().splitlines() for topic in topics)


def without_data(topics):
    """Of each record: offset, timestamp, sizes of key and value, number of headers. Of topics in any order."""

    def of_one(line):
        offset, timestamp, key, value, headers = line.split("\t")
        sizes = [-1 if text == "-" else len(text) // 2 for text in (key, value)]
        return int(offset), int(timestamp), *sizes, len(headers.split())

    return sorted([of_one(line) for line in lines] for lines in topics)


def findings(data):
    """What `verify` finds: kind and file, without the directories of topics, whose names may be hidden."""
    done = kafkalog("verify", "--level", "deep", "--format", "json", data)
    objects = map(json.loads, done.out.splitlines())
    return sorted((one["kind"], one["path"].rpartition("/")[2]) for one in objects if one["type"] == "finding")


@pytest.mark.parametrize("options", [(), ("--hash-names",)], ids=["names", "hashed-names"])
def test_a_broker_starts_on_a_metadump_and_serves_records_of_the_same_sizes(
    original, real_kafka, tmp_path, evidence, options
):
    evidence("R59", 1, "copies")
    data = tmp_path / "data"
    done = kafkalog("metadump", *options, original.broker.data, data)
    assert done.code == 0, done
    assert findings(data) == findings(original.broker.data)
    topics = sorted(path.name[:-2] for path in data.glob("[!_]*-0"))
    assert (topics == sorted(TOPICS)) is not bool(options)
    class_path = real_kafka.broker_class_path
    with broker(tmp_path, class_path) as one:
        one.start()
        with Client(one.address, class_path) as client:
            consumed = consume(client, tmp_path, topics)
        one.stop()
        entries = one.log_entries()
    assert complaints(entries, topics) == {}
    assert [text for level, text in entries if level == "ERROR"] == []
    assert without_data(consumed) == without_data(original.lines)
    hidden = re.findall(r"[0-9a-f]{16,}", "\n".join(line for lines in original.lines for line in lines))
    text = "\n".join(line for lines in consumed for line in lines)
    assert len(hidden) > 1000
    assert not [field for field in set(hidden) if field in text]
