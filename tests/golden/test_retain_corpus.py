"""Retention and DeleteRecords against a real broker: the corpus' `retention` case, file for file.

What differs, and why: a broker that starts becomes the leader and notes its epochs (`with_broker_epochs`); ours does
not. The cleaner compacts what ret-compactdelete keeps. `.kafka_cleanshutdown` has the broker's own epoch.
"""

import re
import shutil

import pytest

from tests.support.commands import json_of

EPOCHS = "leader-epoch-checkpoint"
MARKER = ".kafka_cleanshutdown"
SIZE, TIME = "size", "time"

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
    version, _, *lines = data.decode().splitlines()
    for epoch in epochs:
        lines = [line for line in lines if int(line.split()[1]) < log_end] + [f"{epoch} {log_end}"]
    return "\n".join([version, str(len(lines)), *lines, ""]).encode()


@pytest.fixture
def log_dir(corpus, tmp_path):
    shutil.copytree(corpus / "retention" / "before", tmp_path / "data")
    return tmp_path / "data"


def retained(log_dir, topic, config, now_ms, *more):
    """The partition's result."""
    settings = [word for name, value in config.items() for word in ("--config", f"{name}={value}")]
    code, (result, _), _ = json_of("retain", log_dir / f"{topic}-0", *settings, "--now", now_ms, *more)
    assert code == 0
    return result


def gone(result):
    return {segment["base_offset"]: segment["limit"] for segment in result["removed"]}


@pytest.mark.parametrize("topic", sorted(WENT))
@pytest.mark.parametrize("more", [(), ("--explain",)])
def test_retain_leaves_the_files_that_the_broker_left(corpus, log_dir, topic, more):
    case = corpus / "retention"
    before = contents(log_dir)
    result = retained(log_dir, topic, configs(case)[topic], times("retention.log"), *more)
    assert (gone(result), result["remarks"]) == (WENT[topic], [])
    assert (result["run"] is not None) == bool(WENT[topic])
    ours, broker = contents(log_dir / f"{topic}-0"), contents(case / "after" / f"{topic}-0")
    ours[EPOCHS] = with_broker_epochs(ours[EPOCHS], 120, (0, 2))
    assert ours == broker
    after = {name: data for name, data in contents(log_dir).items() if name != ".lock"}
    assert after == before, "no line of a checkpoint changes, nor the clean-shutdown file"


@pytest.mark.parametrize("topic", sorted(WENT))
def test_a_second_retain_changes_nothing(corpus, log_dir, topic):
    config = configs(corpus / "retention")[topic]
    retained(log_dir, topic, config, times("retention.log"))
    before = contents(log_dir / f"{topic}-0")
    assert retained(log_dir, topic, config, times("retention.log"))["run"] is None
    assert contents(log_dir / f"{topic}-0") == before


def test_deleted_files_are_unlinked_after_the_delay(corpus, log_dir):
    config = configs(corpus / "retention")["ret-time"]
    retained(log_dir, "ret-time", config, times("retention.log"))
    later_ms = times("retention.log") + int(config["file.delete.delay.ms"])
    assert retained(log_dir, "ret-time", config, later_ms - 1)["unlinked_files"] == 0
    assert retained(log_dir, "ret-time", config, later_ms)["unlinked_files"] == 7
    assert not [name for name in contents(log_dir / "ret-time-0") if name.endswith(".deleted")]


def test_deleted_files_are_unlinked_at_once_without_a_delay(corpus, log_dir):
    config = {**configs(corpus / "retention")["ret-size"], "file.delete.delay.ms": "0"}
    retained(log_dir, "ret-size", config, times("retention.log"))
    names = contents(log_dir / "ret-size-0")
    assert "00000000000000000033.log" in names
    assert not [name for name in names if name.endswith(".deleted") or name.startswith("0" * 20)]


def test_delete_records_writes_the_log_start_that_the_broker_wrote(corpus, log_dir):
    case = corpus / "retention"
    settings = [word for pair in configs(case)["ret-records"].items() for word in ("--config", "=".join(pair))]
    code, (result, _), _ = json_of(
        "delete-records", log_dir / "ret-records-0", "--before", 57, "--single-replica", *settings,
        "--now", times("retention.log"),
    )  # fmt: skip
    assert (code, result["removed"], result["removed_bytes"], result["log_start_offset"]) == (0, [0], 3664, 57)
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
    assert gone(retained(tmp_path / "data", topic, config, times("cleaner.log"))) == {0: TIME, 35: TIME}
    ours, broker = contents(tmp_path / "data" / f"{topic}-0"), contents(case / "after-cleaner" / f"{topic}-0")
    cleaned = {name for name in broker if name.startswith(f"{68:020d}.") and not name.endswith(".snapshot")}
    ours[EPOCHS] = with_broker_epochs(ours[EPOCHS], 120, (6,))
    # What the cleaner made of segment 68; it keeps what it replaced until the delay is over.
    ours = {name: data for name, data in ours.items() if name not in cleaned}
    assert ours == {name: data for name, data in broker.items() if name not in cleaned}
    assert len(cleaned) == 6


def test_a_compacted_topic_without_delete_keeps_all(corpus, log_dir):
    config = configs(corpus / "retention")["ret-compact"]
    result = retained(log_dir, "ret-compact", config, times("retention.log"), "--explain")
    assert {segment["stays"] for segment in result["segments"]} == {"cleanup-policy"}
    assert {segment["setting"]["value"] for segment in result["segments"]} == {"compact"}
