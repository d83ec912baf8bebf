"""A real broker's retention beside ours, on two copies of a log directory; and a broker that starts on what ours left.

Both read the limits from the metadata log. The limits are set last, so that neither has looked before.
"""

import json
import shutil
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.kafka.broker import Client, broker
from tests.kafka.broker_records import our_lines, served_lines
from tests.kafka.recovering import complaints, kafkalog

pytestmark = [pytest.mark.xdist_group("broker"), pytest.mark.full]

HOUR_MS = 3_600_000
LIMIT_MS = 6 * HOUR_MS + 180_000
"""Between two records: these are 6 minutes apart."""
SMALL = {"internal.segment.bytes": 3000, "index.interval.bytes": 512, "message.timestamp.after.max.ms": 2**62}
RETAINING = {"log.retention.check.interval.ms": "500", "log.initial.task.delay.ms": "100"}
DELETED_BEFORE = 57


class Topic(NamedTuple):
    name: str
    first_ms: int
    """The timestamp of its first record, from now."""
    limits: dict
    step_ms: int = 360_000


TOPICS = [
    Topic("by-time", -10 * HOUR_MS, {"retention.ms": LIMIT_MS}),
    Topic("by-size", -10 * HOUR_MS, {"retention.bytes": 3000}),
    Topic("by-both", -10 * HOUR_MS, {"retention.ms": LIMIT_MS, "retention.bytes": 3000}),
    Topic("to-nothing", -10 * HOUR_MS, {"retention.bytes": 0}),
    Topic("all-old", -10 * HOUR_MS, {"retention.ms": HOUR_MS}, 1000),
    Topic("future", -2 * HOUR_MS, {"retention.ms": HOUR_MS}),
    Topic("compacted", -10 * HOUR_MS, {"retention.ms": 1, "cleanup.policy": "compact"}),
    Topic("no-limit", -10 * HOUR_MS, {"retention.ms": -1}),
    Topic("deleted-records", -10 * HOUR_MS, {"retention.ms": -1}),
    Topic("rolled", -10 * HOUR_MS, {"retention.ms": -1}),
    Topic("cut", -10 * HOUR_MS, {"retention.ms": -1}),
]
NAMES = [topic.name for topic in TOPICS]
ALIKE = NAMES[:-2]
"""What both do to these is compared; the others are only ours."""
LOSING = [name for name in ALIKE if name not in ("future", "compacted", "no-limit")]
"""Of these segments go, and of deleted-records too, whose log begins later."""


class Outcome(NamedTuple):
    """`plans` of our retain by topic; files before, in both copies when retention was done, and when both stopped."""

    plans: dict
    before: dict
    ours: dict
    broker: dict
    ours_stopped: dict
    broker_stopped: dict
    records: dict
    served: dict
    told: dict
    told_after_cut: dict
    served_after_cut: dict
    cut: dict


@pytest.fixture(scope="module")
def outcome(real_kafka, tmp_path_factory):
    class_path = real_kafka.broker_class_path
    folder = tmp_path_factory.mktemp("retention")
    with broker(folder, class_path) as one:
        fill(one.start(), class_path)
        one.stop()
        before = files(one.data)
        other = folder / "other"
        other.mkdir()
        shutil.copytree(one.data, other / "data")
        with broker(other, class_path, RETAINING) as theirs:
            let_retain(theirs, class_path, before)
        plans = retain(one)
        ours, broker_files = files(one.data), files(other / "data")
        records = {name: our_lines(one.data / f"{name}-0") for name in NAMES if name != "deleted-records"}
        served, told = start_and_read(one, class_path)
        cut = objects("truncate", one.data / "cut-0", "--to", 30)["cut-0"]
        ours_stopped = files(one.data)
        served_after_cut, told_after_cut = start_and_read(one, class_path)
    return Outcome(
        plans,
        before,
        ours,
        broker_files,
        ours_stopped,
        files(other / "data"),
        records,
        served,
        told,
        told_after_cut,
        served_after_cut,
        cut,
    )


def fill(one, class_path):
    now_ms = int(time.time() * 1000)
    with Client(one.address, class_path) as client:
        for at, topic in enumerate(TOPICS):
            client.do("create", topic.name, **SMALL)
            times = {"from": now_ms + topic.first_ms, "step": topic.step_ms}
            client.do("produce", topic.name, count=90, per=4, seed=at, codec="none", idempotent="true", **times)
        for topic in TOPICS:
            client.do("alter", topic.name, **topic.limits)


def let_retain(theirs, class_path, before):
    """Until the broker has done what it does; it looks twice a second."""
    theirs.start()
    with Client(theirs.address, class_path) as client:
        client.do("delete-records", "deleted-records", DELETED_BEFORE)
    deadline = time.monotonic() + 240
    seen, since = list_of(before), time.monotonic()
    while time.monotonic() - since < 3 or any(seen[topic] == list_of(before)[topic] for topic in LOSING):
        assert time.monotonic() < deadline, "it does not come to an end"
        now = list_of(files(theirs.data))
        if now != seen:
            seen, since = now, time.monotonic()
        time.sleep(0.2)
    theirs.stop()


def list_of(found):
    return {topic: sorted(each for each in names if ".log" in each) for topic, names in found.items()}


def retain(one):
    properties = one.folder / "server.properties"
    properties.write_text(properties.read_text() + "log.cleanup.policy=delete\n")
    assert kafkalog("delete-records", one.data / "deleted-records-0", "--before", DELETED_BEFORE).code == 0
    assert kafkalog("roll", one.data / "rolled-0", "--force").code == 0
    plans = objects("retain", one.data, "--broker-config", properties, "--explain", "--topic-pattern", "|".join(NAMES))
    assert not any(plan["run"] for plan in objects("retain", one.data, "--broker-config", properties).values())
    return plans


def objects(*argv):
    done = kafkalog(*argv, "--format", "json")
    assert done.code in (0, 3), (done.out, done.err)
    found = [json.loads(line) for line in done.out.splitlines()]
    return {Path(each["path"]).name: each for each in found if "path" in each}


def start_and_read(one, class_path):
    """What it serves, and what it tells of the partitions."""
    one.start()
    with Client(one.address, class_path) as client:
        served = served_lines(client, NAMES, one.folder)
        for at, name in enumerate(NAMES):
            client.do("produce", name, count=3, per=3, seed=at + 1000, idempotent="true")
    one.stop()
    return served, complaints(one.log_entries(), NAMES)


def files(data):
    return {
        name: {path.name: path.read_bytes() for path in (data / f"{name}-0").iterdir() if path.is_file()}
        for name in NAMES
    }


def deleted(found):
    return {name: data for name, data in found.items() if name.endswith(".deleted")}


@pytest.mark.parametrize("topic", ALIKE)
def test_retain_deletes_the_segments_that_a_broker_deletes(outcome, topic):
    assert not deleted(outcome.before[topic])
    ours, theirs = deleted(outcome.ours[topic]), deleted(outcome.broker[topic])
    assert sorted(ours) == sorted(theirs)
    assert ours == theirs
    left = [{name for name in found[topic] if name.endswith(".log")} for found in (outcome.ours, outcome.broker)]
    assert left[0] == left[1]
    if topic in LOSING:
        assert ours, "it should not be without any"


def test_each_retention_limit_deletes_only_in_its_own_topic(outcome):
    limits = {name: {each["limit"] for each in outcome.plans[f"{name}-0"]["removed"]} for name in ALIKE[:-1]}
    assert limits.pop("by-both") == {"size"}
    assert limits == {
        "by-time": {"time"},
        "by-size": {"size"},
        "to-nothing": {"size"},
        "all-old": {"time"},
        "future": set(),
        "compacted": set(),
        "no-limit": set(),
    }
    assert [outcome.plans[f"{name}-0"]["rolled"] for name in ("all-old", "to-nothing", "by-time")] == [
        True,
        True,
        False,
    ]
    origins = {
        setting["origin"]
        for plan in outcome.plans.values()
        for setting in plan["settings"]
        if setting["name"] == "retention.ms"
    }
    assert "dynamic-topic-config" in origins, origins


@pytest.mark.parametrize("topic", ALIKE)
def test_retain_leaves_the_files_that_a_broker_leaves(outcome, topic):
    """But for what each start and stop adds: an epoch, a snapshot at the log's end."""
    ours, theirs = (
        {n: d for n, d in found[topic].items() if n.endswith((".log", "index"))}
        for found in (outcome.ours, outcome.broker)
    )
    assert ours == theirs


def test_a_broker_starts_on_what_ours_left_without_a_complaint(outcome):
    assert outcome.told == {}
    for name, lines in outcome.records.items():
        assert outcome.served[name] == lines, name
    first = outcome.served["deleted-records"].uncommitted[0]
    assert first.startswith(f"{DELETED_BEFORE}\t")
    assert len(outcome.served["deleted-records"].uncommitted) == 90 - DELETED_BEFORE


def test_a_broker_starts_on_what_was_truncated(outcome):
    """The marker of the clean stop is away, so that it looks at every log; it finds nothing to repair."""
    assert outcome.told_after_cut == {}
    end = outcome.cut["log_end_offset"]
    assert end <= 30
    lines = outcome.served_after_cut["cut"].uncommitted
    assert [int(line.split("\t")[0]) for line in lines] == list(range(end))
    assert lines == outcome.records["cut"].uncommitted[:end]
