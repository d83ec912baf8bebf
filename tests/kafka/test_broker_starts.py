"""A real broker starts on log directories that `kafkalog recover` has repaired, and finds nothing left to repair.

One log directory lives through it all: a broker is killed on it and its partitions are damaged; later it stops
cleanly and only indexes are damaged; later a tail is torn after a clean stop. The time of each broker's start is
what these tests cost.
"""

import re
import shutil
import subprocess
import sys
from typing import Any, NamedTuple

import pytest

from tests.kafka import partition_damage as damage
from tests.kafka.broker import Broker, Client, broker
from tests.kafka.broker_records import our_lines, served_lines
from tests.kafka.recovering import ENVIRONMENT, Recovered, complaints, kafkalog, our_lock, recover, unclean
from tests.support.commands import Ran

pytestmark = pytest.mark.xdist_group("broker")  # what its fixtures make is made once

SMALL = {"internal.segment.bytes": 3000, "index.interval.bytes": 512}
NO_RECOVERY_POINTS = {"log.flush.offset.checkpoint.interval.ms": "3600000"}
"""A broker that writes recovery points while it runs, each minute by default, reports other damage after it was killed."""
MARKER = ".kafka_cleanshutdown"
STRAY = f"whole-0.{'0123456789abcdef' * 2}-stray"
ADDED = 7
INTERNAL = ("__consumer_offsets", "__transaction_state")


class Topic(NamedTuple):
    name: str
    damage: Any
    """After the kill; None: the partition stays as it is."""
    is_told: bool = False
    """Whether a broker that recovers the partition says so; with no marker it makes indexes anew without a word."""
    codec: str = "none"
    policy: str = "delete"
    has_transactions: bool = False


TOPICS = [
    Topic("whole", None, codec="gzip"),
    Topic("torn", damage.torn_tail, is_told=True, codec="zstd"),
    Topic("flipped", damage.flip_in_last_batch, is_told=True, codec="snappy"),
    Topic("garbage", damage.garbage_tail, is_told=True, codec="lz4"),
    Topic("zeros", damage.zero_tail, is_told=True),
    Topic("no-indexes", damage.no_indexes, codec="lz4", has_transactions=True),
    Topic("garbage-indexes", damage.garbage_indexes),
    Topic("snapshots", damage.garbage_snapshots, has_transactions=True),
    Topic("no-snapshots", damage.no_snapshots_and_epochs, has_transactions=True),
    Topic("swap", damage.leftover_swap, is_told=True, policy="compact"),
    Topic("cleaned", damage.leftover_cleaned, policy="compact,delete"),
    Topic("deleted", damage.leftover_deleted),
    Topic("torn-transactions", damage.torn_last_of_several, codec="zstd", has_transactions=True),
    Topic("middle", damage.flip_in_first_segment, is_told=True, codec="gzip", has_transactions=True),
]
NAMES = [topic.name for topic in TOPICS]
"""Each with one partition: 0."""


# -- the life of a log directory


class Stage(NamedTuple):
    """What was there before, what recover did and what the broker did with what recover left."""

    before: dict
    """topic: Lines as the broker served them before the damage, less those that the damage costs."""
    first: Recovered
    second: Recovered
    ours: dict
    served: dict
    """Up to the end that recover tells; some records were produced after it."""
    added: dict
    """topic: how many records are served past that."""
    entries: list
    """The broker's log of its start."""
    told_untreated: dict
    """topic: what a broker's log told of a copy that was not recovered; empty where that was not asked."""
    marker: tuple
    """The bytes of the marker, None where there is none: before recover, and after it."""


class Life:
    def __init__(self, one: Broker, client: Client, class_path):
        self.broker, self.client, self._class_path = one, client, class_path
        self.data, self.folder = one.data, one.folder
        self.before = {}
        self._copies = 0

    def marker(self):
        path = self.data / MARKER
        return path.read_bytes() if path.exists() else None

    def read(self):
        return served_lines(self.client, [*NAMES, *INTERNAL], self.folder)

    def damage(self, damages):
        """Damage partitions; what is served after that has to be without what it costs."""
        for topic, spoil in damages.items():
            self.before[topic] = self.before[topic].without(spoil(self.data / f"{topic}-0"))

    def start_on_copy(self):
        """What a broker tells that starts on a copy of the directory as it is now."""
        self._copies += 1
        folder = self.folder / f"copy-{self._copies}"
        folder.mkdir()
        shutil.copytree(self.data, folder / "data")
        with broker(folder, self._class_path) as one:
            return complaints(one.start().log_entries(), NAMES)

    def repair_and_start(self, repair, told_untreated):
        """Recover twice, start the broker, write some more, read all, stop cleanly."""
        marker, before = self.marker(), self.before
        first = repair(self.data)
        markers = marker, self.marker()
        second = recover(self.data)
        ours = {topic: our_lines(self.data / f"{topic}-0") for topic in [*NAMES, *INTERNAL]}
        self.broker.start()
        for seed, topic in enumerate(NAMES):
            self.client.do("produce", topic, count=ADDED, per=3, seed=seed + 1000, idempotent="true")
        self.before = self.read()
        entries = self.broker.log_entries()
        self.broker.stop()
        ends = {topic: second.partitions[f"{topic}-0"]["log_end_offset"] for topic in self.before}
        served = {topic: lines.up_to(ends[topic]) for topic, lines in self.before.items()}
        added = {topic: len(self.before[topic].uncommitted) - len(served[topic].uncommitted) for topic in NAMES}
        return Stage(before, first, second, ours, served, added, entries, told_untreated, markers)


@pytest.fixture(scope="module")
def life(real_kafka, tmp_path_factory):
    class_path, folder = real_kafka.broker_class_path, tmp_path_factory.mktemp("broker")
    with broker(folder, class_path, NO_RECOVERY_POINTS) as one, Client(one.address, class_path) as client:
        yield Life(one, client, class_path)


class Killed(NamedTuple):
    stage: Stage
    while_it_ran: Recovered
    pid: int
    refused: Recovered
    """Of the partition with damage in its middle, for itself."""
    middle_stays: bool
    salvage: Ran


@pytest.fixture(scope="module")
def killed(life):
    """A broker was killed, its partitions damaged, recovered, and the broker started again."""
    life.broker.start()
    fill(life.client)
    life.before = life.read()
    while_it_runs = recover(life.data)
    life.broker.kill()
    life.damage({topic.name: topic.damage for topic in TOPICS if topic.damage is not None})
    pid, told = life.broker.pid, life.start_on_copy()
    middle, results = life.data / "middle-0", {}

    def repair(data):
        tree = contents(middle)
        first = recover(data)
        results["refused"] = recover(middle)
        results["middle_stays"] = contents(middle) == tree
        results["salvage"] = kafkalog("recover", "--salvage", life.folder / "out", middle)
        middle.rename(life.folder / "middle-0.damaged")
        (life.folder / "out" / "middle-0").rename(middle)
        return first

    return Killed(life.repair_and_start(repair, told), while_it_runs, pid, **results)


def fill(client):
    for at, topic in enumerate(TOPICS):
        client.do("create", topic.name, **SMALL, **{"cleanup.policy": topic.policy})
        client.do("produce", topic.name, count=150, per=4 + at % 5, seed=at, codec=topic.codec)
        client.do("produce", topic.name, count=30, per=5, seed=at + 100, codec=topic.codec, idempotent="true")
        if topic.has_transactions:
            for number, end in enumerate(("commit", "abort", "commit", "open")):
                sizes = {"count": 12, "per": 4, "seed": at + 200 + number, "codec": topic.codec}
                client.do("produce", topic.name, transaction=f"{topic.name}-{number}", end=end, **sizes)
            client.do("produce", topic.name, count=20, per=4, seed=at + 300, codec=topic.codec)
    client.do("consumed-group", "whole", "a-group")


def contents(directory):
    """What a partition consists of; our own directory in it is no part of that."""
    files = (path for path in directory.iterdir() if path.is_file())
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def files(directory):
    """The files that a start and a clean stop leave; not the epochs, of which each start adds one."""
    return {name: data for name, (data, _) in contents(directory).items() if name != "leader-epoch-checkpoint"}


@pytest.fixture(scope="module")
def indexes_repaired(life, killed):
    """After a clean stop, files were damaged that a repair makes from the log, which stays as it is."""
    life.damage(
        {
            "whole": damage.no_index_of_the_active_segment,
            "torn": damage.no_index_of_a_closed_segment,
            "garbage": damage.garbage_indexes,
            "snapshots": damage.garbage_snapshots,
            "no-indexes": damage.no_txn_indexes,
        }
    )
    return life.repair_and_start(recover, life.start_on_copy())


@pytest.fixture(scope="module")
def given_back(life, indexes_repaired):
    """After a clean stop, one partition has the name that a broker gives to strays. Each command is run as printed.

    The name comes back, goes by the printed undo, and comes back.
    """
    stray = life.data / STRAY
    (life.data / "whole-0").rename(stray)
    told = kafkalog("verify", stray)
    [recovery] = re.findall(r"`(kafkalog recover [^`]+)`", told.out)
    first = as_printed(recovery)
    back = as_printed(first.stderr.partition("undo: ")[2].splitlines()[0])
    is_stray_again = stray.exists()
    return first, back, is_stray_again, as_printed(recovery)


def as_printed(command):
    """A command of a message, in a shell."""
    words = command.replace("kafkalog ", f"{sys.executable} -m kafkalog_cli ", 1) if "kafkalog " in command else command
    return subprocess.run(["sh", "-c", words], capture_output=True, text=True, check=False, env=ENVIRONMENT)


@pytest.fixture(scope="module")
def tail_cut(life, given_back):
    """After a clean stop, the last batch of one partition was torn; another was stray, and was given back."""
    life.damage({"flipped": damage.torn_tail})
    return life.repair_and_start(recover, {})


@pytest.fixture(scope="module")
def at_the_end(life, tail_cut):
    """Recover after the last clean stop."""
    return recover(life.data)


LATER = pytest.mark.full
"""Tests of what comes after the first stage, each with another two starts of a broker."""
STAGES = ["killed", *(pytest.param(name, marks=LATER) for name in ("indexes_repaired", "tail_cut"))]


@pytest.fixture(params=STAGES)
def stage(request):
    found = request.getfixturevalue(request.param)
    return found.stage if isinstance(found, Killed) else found


# -- what has to hold


def test_recover_leaves_nothing_for_a_second_run(stage):
    assert (stage.second.code, stage.second.changed) == (0, 0), stage.second.stderr
    assert {name: one["changes"] for name, one in stage.second.partitions.items() if one["changes"]} == {}


def test_a_broker_repairs_nothing_in_recovered_logs(stage):
    assert complaints(stage.entries, [*NAMES, *INTERNAL]) == {}


@LATER
def test_a_broker_logs_the_damage_of_logs_that_were_not_recovered(killed, indexes_repaired):
    """What the test above looks for is what a broker says: it says it where nothing was recovered, and only there."""
    assert set(killed.stage.told_untreated) == {topic.name for topic in TOPICS if topic.is_told}
    assert set(indexes_repaired.told_untreated) == {"whole", "torn", "snapshots"}


def test_a_broker_serves_of_recovered_logs_what_read_prints(stage):
    for topic in NAMES:
        assert stage.served[topic] == stage.ours[topic], topic
    for topic in INTERNAL:
        assert stage.served[topic].uncommitted == stage.ours[topic].uncommitted, topic


def test_only_what_the_damage_hit_is_lost(stage):
    for topic in NAMES:
        expected = stage.before[topic]
        assert len(expected.uncommitted) >= 150, topic
        assert stage.served[topic].uncommitted == expected.uncommitted, topic


def test_committed_reads_are_as_before(stage):
    for topic in NAMES:
        assert stage.served[topic].committed == stage.before[topic].committed, topic


def test_a_broker_takes_new_records_into_recovered_logs(stage):
    assert stage.added == dict.fromkeys(NAMES, ADDED)


@LATER
def test_recover_has_nothing_to_do_after_the_next_clean_stop(at_the_end):
    assert (at_the_end.code, at_the_end.changed) == (0, 0), at_the_end.stderr
    assert {name: one["remarks"] for name, one in at_the_end.partitions.items() if one["remarks"]} == {}


def test_recover_repairs_each_damaged_log(killed):
    repaired = {name for name, one in killed.stage.first.partitions.items() if one["run"] is not None}
    left = {"whole", "middle", "deleted"}  # a broker unlinks what is .deleted; until then it may be wanted back
    assert repaired == {f"{name}-0" for name in NAMES if name not in left}


def test_damage_in_the_middle_is_left_and_salvaged(killed):
    assert killed.stage.first.code == 5  # of the others none failed
    assert killed.refused.code == 14
    assert killed.refused.partitions["middle-0"]["refused"]
    assert killed.middle_stays
    assert killed.salvage.code == 4, killed.salvage.err
    assert killed.stage.ours["middle"] == killed.stage.before["middle"]


@LATER
def test_a_stray_partition_comes_back_by_what_is_printed(given_back, tail_cut, life):
    """The broker starts with it, says nothing of it, and serves all its records."""
    first, back, is_stray_again, second = given_back
    assert [first.returncode, back.returncode, is_stray_again, second.returncode] == [0, 0, True, 0], given_back
    assert not (life.data / STRAY).exists()
    assert complaints(tail_cut.entries, ["whole"]) == {}
    assert len(tail_cut.served["whole"].uncommitted) > 180
    assert tail_cut.served["whole"] == tail_cut.before["whole"]


@LATER
def test_recover_like_a_broker_does_what_it_does(at_the_end, life):
    copy = life.folder / "like-broker"
    shutil.copytree(life.data, copy)
    done = recover("--like-broker", copy)
    assert done.code == 0, done.stderr
    assert done.changed > 0
    life.broker.start()
    life.broker.stop()
    for topic in NAMES:
        ours, real = files(copy / f"{topic}-0"), files(life.data / f"{topic}-0")
        assert ours.keys() == real.keys(), topic
        assert [name for name in real if ours[name] != real[name]] == [], topic


# -- the lock


def test_a_running_broker_keeps_recover_out(killed):
    assert killed.while_it_ran.code == 11
    assert killed.while_it_ran.partitions == {}
    assert f"pid {killed.pid}" in killed.while_it_ran.stderr


@LATER
def test_recover_keeps_a_broker_out(at_the_end, life):
    with our_lock(life.data), pytest.raises(RuntimeError):
        life.broker.start()
    assert "Failed to acquire lock on file .lock" in life.broker.log()


# -- the marker of a clean shutdown


def test_no_marker_is_made_where_a_broker_was_killed(killed):
    assert killed.stage.marker == (None, None)
    assert unclean(killed.stage.entries)


@LATER
def test_repaired_indexes_leave_the_marker(indexes_repaired):
    before, after = indexes_repaired.marker
    assert before == after is not None
    repaired = {name for name, one in indexes_repaired.first.partitions.items() if one["run"] is not None}
    assert repaired == {"whole-0", "torn-0", "garbage-0", "snapshots-0", "no-indexes-0"}
    assert not any(one["cut"] for one in indexes_repaired.first.partitions.values())
    assert unclean(indexes_repaired.entries) == []


@LATER
def test_a_cut_takes_the_marker_away(tail_cut):
    before, after = tail_cut.marker
    assert before is not None
    assert after is None
    assert [name for name, one in tail_cut.first.partitions.items() if one["cut"]] == ["flipped-0"]
    assert unclean(tail_cut.entries)
