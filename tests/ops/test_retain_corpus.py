"""Retention and DeleteRecords against a real broker: the corpus' `retention` case, file for file.

What differs, and why: a broker that starts becomes the leader and notes its epochs (`with_broker_epochs`); ours does
not. The cleaner compacts what ret-compactdelete keeps. `.kafka_cleanshutdown` has the broker's own epoch.
"""

import re
import shutil

import pytest

from kafkalog_cli.broker.leader_epochs import LeaderEpochs
from kafkalog_cli.broker.retention import RetentionPass
from kafkalog_cli.change.manifest import RunInfo
from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.format.checkpoint import decode_leader_epochs
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.ops.apply_changes import MarkerUse, apply_changes
from kafkalog_cli.ops.delete_records import DeleteRecordsRequest, plan_delete_records
from kafkalog_cli.ops.partition_state import Roots
from kafkalog_cli.ops.retain.plan import RetainRequest, Stay
from kafkalog_cli.ops.retain.retain import apply_retain, plan_retain
from kafkalog_cli.ops.settings import SettingsSource

EPOCHS = "leader-epoch-checkpoint"
MARKER = ".kafka_cleanshutdown"
FS = RealFilesystem()
LOG_START, SIZE, TIME = RetentionPass

WENT = {
    "ret-time": {0: TIME, 33: TIME},
    "ret-time-lat": {},
    "ret-size": {0: SIZE},
    "ret-both": {0: TIME},
    "ret-compact": {},
    "ret-future": {},
    "ret-allold": {0: TIME, 32: TIME, 61: TIME, 93: TIME},
}
"""As the broker's log tells it: base offsets, and the limit that was breached."""


def times(case):
    """When the broker looked, in epoch ms: each line of its log about a segment that goes has what is in the index."""
    return 1795228795800 if case == "retention.log" else 1795228814209


def configs(case):
    """The settings of each topic, as they were altered at last."""
    found = {}
    for line in (case / "how.txt").read_text().splitlines():
        match = re.match(r"(?:topic|alter) (\S+) (.*)", line)
        if match:
            found.setdefault(match[1], {"cleanup.policy": "delete"}).update(w.split("=") for w in match[2].split())
    return found


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def with_broker_epochs(data, log_end, epochs):
    """What becomes of the file when the broker leads the partition: each of its epochs begins at the log's end."""
    entries, _ = decode_leader_epochs(data)
    led = LeaderEpochs(entries)
    for epoch in epochs:
        led.assign(epoch, log_end)
    return led.encode()


@pytest.fixture
def log_dir(corpus, tmp_path):
    shutil.copytree(corpus / "retention" / "before", tmp_path / "data")
    return tmp_path / "data"


def retained(log_dir, topic, config, now_ms, *, explains=False, run_id="r1"):
    partition = open_partition(FS, str(log_dir / f"{topic}-0"))
    request = RetainRequest(now_ms, SettingsSource(FS, config, None), now_is_given=True, explains=explains)
    plan = plan_retain(FS, partition, Roots(FS).state(str(log_dir), partition), request)
    done = apply_retain(FS, plan, RunInfo(run_id, "retain", (), now_ms), request, held=None)
    return plan, done


@pytest.mark.parametrize("topic", sorted(WENT))
@pytest.mark.parametrize("explains", [False, True])
def test_the_files_that_the_broker_left(corpus, log_dir, topic, explains):
    case = corpus / "retention"
    before = {path.name: path.read_bytes() for path in log_dir.iterdir() if path.is_file()}
    plan, done = retained(log_dir, topic, configs(case)[topic], times("retention.log"), explains=explains)
    assert {fate.base_offset: fate.goes for fate in plan.removed} == WENT[topic]
    assert (done is not None) == bool(WENT[topic])
    assert plan.remarks == ()
    ours, broker = contents(log_dir / f"{topic}-0"), contents(case / "after" / f"{topic}-0")
    ours[EPOCHS] = with_broker_epochs(ours[EPOCHS], 120, (0, 2))
    assert ours == broker
    after = {path.name: path.read_bytes() for path in log_dir.iterdir() if path.is_file()}
    assert after == before, "no line of a checkpoint changes, nor the marker"


@pytest.mark.parametrize("topic", sorted(WENT))
def test_twice_is_as_once(corpus, log_dir, topic):
    config = configs(corpus / "retention")[topic]
    retained(log_dir, topic, config, times("retention.log"))
    before = contents(log_dir / f"{topic}-0")
    plan, done = retained(log_dir, topic, config, times("retention.log"), run_id="r2")
    assert (plan.has_work, done) == (False, None)
    assert contents(log_dir / f"{topic}-0") == before


def test_after_the_delay_they_go(corpus, log_dir):
    config = configs(corpus / "retention")["ret-time"]
    retained(log_dir, "ret-time", config, times("retention.log"))
    later_ms = times("retention.log") + int(config["file.delete.delay.ms"])
    assert not retained(log_dir, "ret-time", config, later_ms - 1, run_id="r2")[0].has_work
    plan, _ = retained(log_dir, "ret-time", config, later_ms, run_id="r3")
    assert len(plan.due.files) == 7
    assert not [name for name in contents(log_dir / "ret-time-0") if name.endswith(".deleted")]


def test_without_a_delay_they_go_at_once(corpus, log_dir):
    config = {**configs(corpus / "retention")["ret-size"], "file.delete.delay.ms": "0"}
    retained(log_dir, "ret-size", config, times("retention.log"))
    names = contents(log_dir / "ret-size-0")
    assert "00000000000000000033.log" in names
    assert not [name for name in names if name.endswith(".deleted") or name.startswith("0" * 20)]


def test_delete_records(corpus, log_dir):
    case = corpus / "retention"
    config = configs(case)["ret-records"]
    partition = open_partition(FS, str(log_dir / "ret-records-0"))
    request = DeleteRecordsRequest(times("retention.log"), SettingsSource(FS, config, None), before_offset=57)
    plan = plan_delete_records(FS, partition, Roots(FS).state(str(log_dir), partition), request)
    assert (plan.removed, plan.removed_bytes, plan.old_start_offset, plan.log_start_offset) == ((0,), 3664, 0, 57)
    run = RunInfo("r1", "delete-records", (), request.now_ms)
    apply_changes(FS, plan, run, MarkerUse.LEFT, request, held=None)
    ours, broker = contents(log_dir / "ret-records-0"), contents(case / "after" / "ret-records-0")
    ours[EPOCHS] = with_broker_epochs(ours[EPOCHS], 120, (0, 2))
    assert ours == broker
    name = "log-start-offset-checkpoint"
    assert (log_dir / name).read_bytes() == (case / "after" / name).read_bytes() == b"0\n1\nret-records 0 57\n"
    assert (log_dir / MARKER).read_bytes() == (case / "before" / MARKER).read_bytes()


def test_a_compacted_topic_is_retained_too(corpus, tmp_path):
    """The cleaner does it, and compacts what is left; without a cleaner nothing went before."""
    case = corpus / "retention"
    shutil.copytree(case / "after-restart", tmp_path / "data")
    topic, config = "ret-compactdelete", configs(case)["ret-compactdelete"]
    plan, _ = retained(tmp_path / "data", topic, config, times("cleaner.log"))
    assert {fate.base_offset: fate.goes for fate in plan.removed} == {0: TIME, 35: TIME}
    ours, broker = contents(tmp_path / "data" / f"{topic}-0"), contents(case / "after-cleaner" / f"{topic}-0")
    cleaned = {name for name in broker if name.startswith(f"{68:020d}.") and not name.endswith(".snapshot")}
    ours[EPOCHS] = with_broker_epochs(ours[EPOCHS], 120, (6,))
    # What the cleaner made of segment 68; it keeps what it replaced until the delay is over.
    ours = {name: data for name, data in ours.items() if name not in cleaned}
    assert ours == {name: data for name, data in broker.items() if name not in cleaned}
    assert len(cleaned) == 6


def test_a_compacted_topic_without_delete_keeps_all(corpus, log_dir):
    plan, _ = retained(log_dir, "ret-compact", configs(corpus / "retention")["ret-compact"], times("retention.log"))
    assert {fate.stays for fate in plan.fates} == {Stay.POLICY}
    assert {fate.setting.explanation for fate in plan.fates} == {"cleanup.policy=compact (--config)"}
