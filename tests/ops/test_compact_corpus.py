"""The corpus' cleanings by real brokers, done again: `before` to `after`, `before2` to `after2`.

What differs, and why: a broker that starts notes its epochs; 2.8.2 kept messages of old as they were. A stop writes a
snapshot at the log's end, the next removes an older one. Where a batch is compressed anew, the library of the broker
may pack otherwise: then its records and header are compared.
"""

import re
import shutil
from datetime import datetime, timezone

import pytest

from kafkalog_cli.change.manifest import RunInfo
from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.format.internal_topics.schema import KafkaVersion
from kafkalog_cli.format.producer_snapshot import decode as decode_snapshot
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.log.reading.read import RecordReader
from kafkalog_cli.log.reading.scan import Scan
from kafkalog_cli.ops.compact.plan import CompactRequest, plan_compact
from kafkalog_cli.ops.compact.verb import apply_compact
from kafkalog_cli.ops.partition_state import Roots
from kafkalog_cli.ops.settings import SettingsSource

FS = RealFilesystem()
CASES = ("compact-edge", "compact-plain", "compact-plain2", "compact-producers", "compact-ret0", "compact-tx")
STAGES = (("before", "after", "cleaner.log"), ("before2", "after2", "cleaner2.log"))
MARKS = re.compile(r"\.(log|index|timeindex|txnindex)$")
CHECKPOINT = "cleaner-offset-checkpoint"


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
            if batch.delete_horizon_ms is not None and logged_ms is not None:
                now_ms = batch.delete_horizon_ms - retention_ms
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
    found = []
    reader = RecordReader()
    with FS.open_read(str(path)) as file:
        for chunk in Scan(file, choice=KernelChoice(forced=False)):
            for block in reader.blocks(chunk):
                assert not block.faults
                records = [tuple(record[:-1]) for record in block.rows()]
                batch = block.batches.row(block.first_row)
                found.append((batch._replace(position=0, size_bytes=0, crc=0), records))
    return found


def compacted(log_dir, topic, config, now_ms, *, compiled=False, **more):
    partition = open_partition(FS, str(log_dir / f"{topic}-0"))
    request = CompactRequest(
        now_ms,
        SettingsSource(FS, config, None),
        now_is_given=True,
        kernels=KernelChoice(forced=compiled),
        delay_ms=60_000,
        version=KafkaVersion.V4_2,
        **more,
    )
    plan = plan_compact(FS, partition, Roots(FS).state(str(log_dir), partition), request)
    return plan, apply_compact(FS, plan, RunInfo("r1", "compact", (), now_ms), request, held=None)


@pytest.mark.exhaustive
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage[0])
def test_the_log_that_the_broker_left(corpus, tmp_path, name, stage, compiled):
    before, after, log_name = stage
    case = corpus / name
    shutil.copytree(case / before, tmp_path / "data")
    log_dir = tmp_path / "data"
    tried = 0
    for directory in sorted(log_dir.glob("*-0")):
        topic = directory.name[:-2]
        now_ms = now_of(case, after, log_name, topic)
        original = contents(directory)
        plan, done = compacted(log_dir, topic, configs(case)[topic], now_ms or 1_795_300_000_000, compiled=compiled)
        assert not plan.is_refused, plan.remarks
        tried += 1
        if now_ms is None:
            assert done is None
            assert contents(directory) == original
            continue
        assert done is not None
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
        assert set(decode_snapshot(ours[name])[0]) == set(decode_snapshot(broker[name])[0])
