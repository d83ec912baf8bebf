"""The corpus' cleanings by real brokers, done again: `before` to `after`, `before2` to `after2`.

What differs, and why: a broker that starts notes its epochs; 2.8.2 kept messages of old as they were. A stop writes a
snapshot at the log's end, the next removes an older one. Where a batch is compressed anew, the library of the broker
may pack otherwise: then its records and header are compared.
"""

import re
import struct
from datetime import datetime, timezone

import pytest

from tests.support.commands import json_of, writable_copy
from tests.support.naive_reader import read_batches, read_records

CASES = ("compact-edge", "compact-plain", "compact-plain2", "compact-producers", "compact-ret0", "compact-tx")
STAGES = (("before", "after", "cleaner.log"), ("before2", "after2", "cleaner2.log"))
MARKS = re.compile(r"\.(log|index|timeindex|txnindex)$")
CHECKPOINT = "cleaner-offset-checkpoint"
DELETE_HORIZON = 0x40
PRODUCER = struct.Struct(">qhiqiqiq")


def configs(case):
    """Topic to its settings; of the internal one none are needed."""
    return {"__transaction_state": {}} | {
        match[1]: dict(word.split("=", 1) for word in match[2].split())
        for line in (case / "how.txt").read_text().splitlines()
        if (match := re.match(r"topic (\S+) (.*)", line))
    }


def clock(case, log_name, partition):
    """When the broker began, in epoch ms: the time of a line in its log, in UTC; None if it did not."""
    for line in (case / log_name).read_text().splitlines():
        match = re.match(rf"\[([\d\- :]+),(\d+)\] INFO .*Beginning cleaning of log {partition}\.? ", line)
        if match:
            moment = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc)
            return int(moment.timestamp()) * 1000 + int(match[2])
    return None


def now_of(case, after, log_name, topic):
    """The broker's clock at a cleaning: the line came up to 4 ms later than the clock that the horizons were set by."""
    logged_ms = clock(case, log_name, f"{topic}-0")
    retention_ms = int(configs(case)[topic].get("delete.retention.ms", 0))
    for path in (case / after / f"{topic}-0").glob("*.log"):
        for batch, _ in decoded(path):
            if batch.magic == 2 and batch.attributes & DELETE_HORIZON and logged_ms is not None:
                now_ms = batch.base_timestamp - retention_ms
                if 0 <= logged_ms - now_ms <= 4:
                    return now_ms
    return logged_ms


def lines_of(path):
    """Partition to offset, of a checkpoint."""
    words = (line.split() for line in path.read_text().splitlines()[2:]) if path.exists() else ()
    return {(topic, number): int(offset) for topic, number, offset in words}


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def segment_files(files):
    return {name: data for name, data in files.items() if MARKS.search(name)}


def decoded(path):
    """(header fields but sizes and checksum, records) of each batch of a log."""
    data, found = path.read_bytes(), []
    for batch in read_batches(data):
        records = [record._replace(crc=0) for record in read_records(data, batch)]
        found.append((batch._replace(position=0, size_bytes=0, crc=0), records))
    return found


def compacted(log_dir, topic, config, now_ms):
    """The partition's result of a cleaning as Kafka 4.2 does it."""
    settings = [word for name, value in config.items() for word in ("--config", f"{name}={value}")]
    code, (result, *_), _ = json_of(
        "compact", log_dir / f"{topic}-0", *settings, "--now", now_ms, "--kafka-version", "4.2", "--delay", "60s"
    )
    assert code == 0
    return result


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage[0])
def test_compact_leaves_the_log_that_the_broker_left(corpus, tmp_path, name, stage):
    before, after, log_name = stage
    case = corpus / name
    log_dir = writable_copy(case / before, tmp_path / "data")
    tried = 0
    for directory in sorted(log_dir.glob("*-0")):
        topic = directory.name[:-2]
        now_ms = now_of(case, after, log_name, topic)
        original = contents(directory)
        result = compacted(log_dir, topic, configs(case)[topic], now_ms or 1_795_300_000_000)
        tried += 1
        if now_ms is None:
            assert result["run"] is None
            assert contents(directory) == original
            continue
        assert result["run"] is not None
        ours, broker = contents(directory), contents(case / after / directory.name)
        compare(directory, case / after / directory.name, ours, broker)
        key = (topic, "0")
        assert lines_of(log_dir / CHECKPOINT)[key] == lines_of(case / after / CHECKPOINT)[key]
        for file, data in original.items():
            if file not in ours:
                assert ours[f"{file}.deleted"] == data
    assert tried
    others = {key for key in lines_of(case / before / CHECKPOINT) if not (log_dir / f"{key[0]}-{key[1]}").exists()}
    assert others <= set(lines_of(log_dir / CHECKPOINT))


def compare(directory, broker_directory, ours, broker):
    assert set(segment_files(ours)) == set(segment_files(broker))
    for name, data in segment_files(broker).items():
        if ours[name] == data:
            continue
        stem = name.split(".")[0]
        assert name.endswith(".log") or ours[f"{stem}.log"] != broker[f"{stem}.log"], name
        if name.endswith(".log"):
            assert decoded(directory / name) == decoded(broker_directory / name)
    snapshots = {name for name in ours if name.endswith(".snapshot")}
    theirs = {name for name in broker if name.endswith(".snapshot")}
    assert theirs <= snapshots
    for name in theirs:
        assert producers_in(ours[name]) == producers_in(broker[name])


def producers_in(snapshot):
    """The entries of a producer snapshot, behind its version, checksum and number of entries."""
    return set(PRODUCER.iter_unpack(snapshot[10:]))
