"""read, then append, then read: what comes back is record for record what was there, offsets too where they are kept."""

import json
import shutil

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.support.commands import kafkalog
from tests.support.logs import BASE_TIME_MS
from tests.support.strategies import logs

FROM_THEN_ON = ("--now", str(BASE_TIME_MS + 10**9), "--single-replica")
WIDE = ("--config", f"segment.ms={2**62}", "--config", f"message.timestamp.after.max.ms={2**63 - 1}", "--config", "max.message.bytes=100000000")  # fmt: skip
OF_BATCHES = {"segment", "position", "batch_base_offset", "codec", "producer_id", "producer_epoch", "sequence", "transactional", "crc_valid", "decoded"}  # fmt: skip
"""What a record has from the batch, the file or the directory that it lies in."""
OF_PLACE = {"topic", "partition"}


def read(partition, *options, verb="read"):
    """The record lines of a partition."""
    code, out, err = kafkalog(verb, partition, "--format", "json", *options)
    assert code in (0, 3), err
    return [text for text in out.splitlines() if '"type":"record"' in text]


def facts(lines, *, offsets=True):
    """What must come back."""
    left_out = OF_BATCHES | OF_PLACE | (set() if offsets else {"offset", "timestamp_type", "leader_epoch"})
    found = []
    for text in lines:
        record = json.loads(text)
        if record["timestamp_type"] == "NoTimestampType":
            record["timestamp_type"] = "CreateTime"  # v2 has none for none
        if record["control"] is None:
            found.append({name: value for name, value in record.items() if name not in left_out})
    return found


def new_partition(root, name="copy-0"):
    partition = root / name
    partition.mkdir(parents=True)
    for suffix in (".log", ".index", ".timeindex"):
        (partition / f"{0:020d}{suffix}").write_bytes(b"")
    return partition


def again(lines, root, *options):
    """The record lines of a new partition to which these were appended."""
    partition = new_partition(root)
    stdin = "".join(text + "\n" for text in lines).encode()
    code, _, err = kafkalog("append", partition, *FROM_THEN_ON, *WIDE, *options, stdin=stdin)
    assert code == 0, err
    assert kafkalog("verify", partition, "--level", "deep", "--now", 2**62)[0] in (0, 3)  # odd times are told
    return read(partition)


def rising_epochs(lines):
    """As a log of several leaders has them."""
    epoch = -1
    for text in lines:
        record = json.loads(text)
        epoch = record["leader_epoch"] = max(epoch, record["leader_epoch"])
        yield json.dumps(record)


# -- any records


@pytest.mark.exhaustive
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@settings(max_examples=10, suppress_health_check=list(HealthCheck), deadline=None, phases=(Phase.generate,))
@given(made=logs(), batch_bytes=st.sampled_from([1, 200, 16384]))
def test_append_of_the_json_of_any_log_gives_the_same_records(tmp_path_factory, codec, made, batch_bytes):
    """Of every format and codec, with gaps, both timestamp types, transactions; twice."""
    root = tmp_path_factory.mktemp("again")
    first = made.batches[0][0].offset if made.batches and made.batches[0] else 0
    (root / "src-0").mkdir()
    (root / "src-0" / f"{first:020d}.log").write_bytes(made.data)
    lines = list(rising_epochs(read(root / "src-0")))
    assert len(lines) <= sum(map(len, made.batches))
    options = ("--codec", codec, "--batch-bytes", batch_bytes)
    for number in range(2):
        found = again(lines, root / f"with{number}", *options, "--keep-offsets")
        assert facts(found) == facts(lines)
        found = again(found, root / f"without{number}", *options)
        assert facts(found, offsets=False) == facts(lines, offsets=False)
        lines = found if not number else lines
        lines = list(rising_epochs(lines))
    shutil.rmtree(root)


# -- what brokers wrote


def partitions(case):
    return sorted(path for name in ("data", "after") for path in (case / name).glob("*") if any(path.glob("*.log")))


BROKERS = (
    *("txn", "compact-plain", "compact-tx", "v0", "v1", "upgraded", "v2-logappend", "v2-large", "v2-mixed", "v2-none"),
    *("v2-gzip", "v2-snappy", "v2-lz4", "v2-zstd", "client-librdkafka", "client-kafkajs"),
)


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", BROKERS)
@pytest.mark.parametrize("verb", ["read", "dump-log"])
def test_append_of_the_json_of_a_broker_log_gives_the_same_records(corpus, tmp_path, case, verb):
    counts = 0
    for partition in partitions(corpus / case):
        if partition.name.startswith("__cluster_metadata"):
            continue
        lines = read(partition, verb=verb)
        found = again(lines, tmp_path / partition.name, "--codec", "zstd", "--keep-offsets")
        assert facts(found) == facts(lines)
        assert facts(again(found, tmp_path / f"{partition.name}-again", "--keep-offsets")) == facts(lines)
        counts += len(facts(lines))
    assert counts > 5


# -- what is refused


def line(**fields):
    return json.dumps(fields)


def test_a_follower_asks_for_no_keys_and_times(tmp_path):
    """Its leader did; a record that is larger than a segment has no place all the same."""
    partition = new_partition(tmp_path)
    argv = ("append", partition, "--keep-offsets", *FROM_THEN_ON, "--config", "cleanup.policy=compact")
    stdin = line(offset=3, timestamp_ms=BASE_TIME_MS + 10**12, value="x" * 300).encode()
    assert kafkalog(*argv, "--config", "max.message.bytes=200", stdin=stdin)[0] == 0
    found = json.loads(read(partition)[0])
    assert (found["offset"], found["timestamp_ms"], found["key"]) == (3, BASE_TIME_MS + 10**12, None)
    code, _, err = kafkalog(*argv, "--config", "internal.segment.bytes=200", stdin=stdin.replace(b"3", b"4", 1))
    assert (code, "over 200 (segment.bytes)" in err) == (1, True), err
