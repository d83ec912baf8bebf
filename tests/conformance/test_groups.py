"""`groups` on built and real logs of `__consumer_offsets`: offsets, lag, states, copies, damage, hostile names."""

import json
import re
import shlex
from pathlib import Path
from shutil import copytree

import pytest
from jsonschema import Draft202012Validator

import kafkalog_cli as kl
from tests.support.commands import json_of, kafkalog
from tests.support.coordinator_logs import (
    classic_group,
    commit,
    commit_key,
    commits,
    coordinator_partition_at,
    group_key,
    key,
    value,
)
from tests.support.logs import BASE_TIME_MS, TRANSACTIONAL, R, batch_v2, end_marker

NOON = BASE_TIME_MS
WEEK_MS = 7 * 24 * 3_600_000


def groups_of(*argv):
    """(exit code, groups by id, the kinds of what was reported)."""
    code, out, err = kafkalog("groups", *argv, "--format", "json")
    *found, summary = map(json.loads, out.splitlines())
    assert (summary["groups"], summary["exit_code"]) == (len(found), code)
    return code, {one["group_id"]: one for one in found}, [json.loads(line)["kind"] for line in err.splitlines()]


def data_log(log_dir, topic="orders", partition=0, count=10):
    records = [R(offset, NOON + offset, b"k", b"v") for offset in range(count)]
    coordinator_partition_at(log_dir, partition, [batch_v2(records)], topic)


def test_groups_prints_offsets_lag_and_expiry(tmp_path):
    data_log(tmp_path)
    coordinator_partition_at(
        tmp_path, 0,
        commits(
            (commit_key("simple"), commit(4, NOON)),
            (commit_key("simple", "elsewhere", 3), commit(9, NOON)),
            (commit_key("empty"), commit(7, NOON)),
            (group_key("empty"), classic_group(3, time_ms=NOON + 5)),
            (group_key("busy"), classic_group(2, ["m-1"])),
            (commit_key("busy"), commit(10, NOON)),
        ),
    )  # fmt: skip
    code, found, told = groups_of(tmp_path)
    assert (code, told, sorted(found)) == (0, [], ["busy", "empty", "simple"])
    rows = {(name, row["topic"]): row for name, one in found.items() for row in one["offsets"]}
    lags = {at: (row["current_offset"], row["log_end_offset"], row["lag"]) for at, row in rows.items()}
    assert lags == {
        ("simple", "orders"): (4, 10, 6), ("simple", "elsewhere"): (9, None, None), ("empty", "orders"): (7, 10, 3),
        ("busy", "orders"): (10, 10, 0),
    }  # fmt: skip
    expiry = {at: row["expires_at_ms"] for at, row in rows.items()}
    assert expiry["simple", "orders"] == NOON + WEEK_MS
    assert expiry["empty", "orders"] == NOON + 5 + WEEK_MS  # from the moment on at which the last member left
    assert expiry["busy", "orders"] is None  # its subscription cannot be decoded, so nothing expires
    assert [found[name]["state"] for name in ("simple", "empty", "busy")] == ["Empty", "Empty", "Stable"]
    (tmp_path / "server.properties").write_text("offsets.retention.minutes=2\n")
    argv = (tmp_path, "--group", "simple", "--topic", "orders", "--broker-config", tmp_path / "server.properties")
    (row,) = groups_of(*argv)[1]["simple"]["offsets"]
    assert row["expires_at_ms"] == NOON + 120_000
    (tmp_path / "server.properties").write_text("offsets.retention.minutes=soon\n")
    assert kafkalog("groups", *argv)[0] == 2


def test_groups_of_an_unknown_group_ends_with_10(tmp_path):
    coordinator_partition_at(tmp_path, 3, commits((commit_key("billing"), commit(4))))
    code, out, err = kafkalog("groups", tmp_path, "--group", "bling")
    assert (code, out) == (10, "")
    assert "there is no group bling. Groups there: billing" in err
    coordinator_partition_at(tmp_path, 3, commits(*((commit_key(f"g{at:02d}"), commit(4)) for at in range(12))))
    err = kafkalog("groups", tmp_path, "--group", "bling").err
    assert "Groups there: g00, g01, g02, g03, g04, g05, g06, g07, g08, g09 and 2 more" in err
    data_log(tmp_path / "other")
    assert kafkalog("groups", tmp_path / "other")[0] == 10
    assert kafkalog("groups", tmp_path / "nowhere")[0] == 10
    assert kafkalog("groups")[0] == 2


def test_the_best_copy_is_taken_and_named(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    first = (commit_key("g"), commit(4))
    coordinator_partition_at(one, 0, commits(first, (commit_key("g"), commit(5))), epoch=3)
    coordinator_partition_at(two, 0, commits(first), epoch=3)
    data_log(one, count=6)
    data_log(two, count=9)
    _, found, told = groups_of(one, two)
    (row,) = found["g"]["offsets"]
    assert (row["current_offset"], row["log_end_offset"], row["log"]["path"]) == (5, 9, str(two / "orders-0"))
    assert found["g"]["coordinator"]["path"] == str(one / "__consumer_offsets-0")
    assert [copy["path"] for copy in found["g"]["coordinator"]["other_copies"]] == [str(two / "__consumer_offsets-0")]
    assert told == ["copies"]
    # A later leader's log is the truth, though it is shorter.
    (two / "__consumer_offsets-0" / "leader-epoch-checkpoint").write_text("0\n1\n4 0\n")
    assert groups_of(one, two)[1]["g"]["offsets"][0]["current_offset"] == 4


def test_of_two_copies_of_the_coordinator_groups_reads_the_undamaged_one(tmp_path):
    records = [(commit_key("g"), commit(offset)) for offset in range(4)]
    for name in ("one", "two"):
        coordinator_partition_at(tmp_path / name, 0, commits(*records))
    path = tmp_path / "one" / "__consumer_offsets-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 0xFF
    path.write_bytes(data)
    code, found, _ = groups_of(tmp_path / "one", tmp_path / "two")
    assert (code, found["g"]["offsets"][0]["current_offset"]) == (0, 3)
    code, out, _ = kafkalog("groups", tmp_path / "one", tmp_path / "two", "--history", "--format", "json")
    offsets = [json.loads(line).get("offset") for line in out.splitlines()]
    assert (code, [offset for offset in offsets if offset is not None]) == (0, [0, 1, 2, 3])


def test_damage_in_the_middle_is_reported_and_the_rest_is_shown(tmp_path):
    batches = commits(*((commit_key(f"g-{at}"), commit(at)) for at in range(5)))
    broken = bytearray(batches[2])
    broken[-3] ^= 0xFF
    coordinator_partition_at(tmp_path, 0, [*batches[:2], bytes(broken), *batches[3:]])
    code, found, told = groups_of(tmp_path)
    assert (code, sorted(found)) == (4, ["g-0", "g-1", "g-3", "g-4"])
    assert told
    coordinator_partition_at(tmp_path, 0, [*batches[:4], batches[4][:-10]])
    code, found, told = groups_of(tmp_path)
    assert (code, len(found)) == (3, 4)
    coordinator_partition_at(tmp_path, 0, [*batches, *commits((b"\0\1short", commit(1)), base=5)])
    code, found, told = groups_of(tmp_path)
    assert (code, len(found), told) == (4, 5, ["invalid-record"])


def test_many_damaged_records_are_counted(tmp_path):
    coordinator_partition_at(tmp_path, 0, commits(*((b"\0\1short", commit(1)) for _ in range(40))))
    code, _, err = kafkalog("groups", tmp_path)
    assert code == 4
    assert "30 more damaged places" in err


def test_missing_first_segments_are_reported(tmp_path):
    coordinator_partition_at(tmp_path, 0, commits((commit_key("g"), commit(1)), base=40), base=40)
    code, found, told = groups_of(tmp_path)
    assert (code, sorted(found), told) == (3, ["g"], ["missing-records"])


def test_groups_marks_an_offset_in_an_open_transaction_as_pending(tmp_path):
    data = [
        *commits((commit_key("g"), commit(1))),
        batch_v2([R(1, NOON, commit_key("g"), commit(8))], producer=(7, 0, 0), bits=TRANSACTIONAL),
    ]
    coordinator_partition_at(tmp_path, 0, data)
    (row,) = groups_of(tmp_path)[1]["g"]["offsets"]
    assert (row["current_offset"], row["pending_offset"]) == (1, 8)
    assert "offset 8 of orders-0 is in an open transaction" in kafkalog("groups", tmp_path)[1]
    coordinator_partition_at(tmp_path, 0, [*data, end_marker(2, NOON, (7, 0), 1)])
    (row,) = groups_of(tmp_path)[1]["g"]["offsets"]
    assert (row["current_offset"], row["pending_offset"]) == (8, None)


def test_names_with_control_characters_and_of_other_directories(tmp_path):
    log_dir = tmp_path / "logs"
    data_log(tmp_path, "secret")
    hostile = "bad\x1b[31m\ngroup\t\u202e"
    coordinator_partition_at(
        log_dir, 0,
        commits(
            (commit_key(hostile), commit(1, metadata="\x1b]0;x\x07")),
            (commit_key("g", "../secret"), commit(1)),
            (group_key(hostile), classic_group(1, ["\x1b[2J"])),
        ),
    )  # fmt: skip
    for argv in ((), ("--members",), ("--group", "\x1b[2J")):
        _, out, err = kafkalog("groups", log_dir, *argv)
        assert not {one for one in out + err if not one.isprintable()} - {"\n"}
    _, found, _ = groups_of(log_dir)
    assert set(found) == {hostile, "g"}
    (row,) = found["g"]["offsets"]
    assert (row["topic"], row["log_end_offset"], row["log"]) == ("../secret", None, None)


STREAMS = {"StreamsGroupMetadata": 17, "StreamsGroupMemberMetadata": 19, "StreamsGroupTargetAssignmentMetadata": 20,
           "StreamsGroupCurrentMemberAssignment": 22, "StreamsGroupTopology": 23}  # fmt: skip
"""The types of the keys in __consumer_offsets."""
GROUP, MEMBER = {"groupId": "s"}, {"groupId": "s", "memberId": "m"}


def streams(name, record_key, **fields):
    return key(STREAMS[name], f"{name}Key", **record_key), value(0, f"{name}Value", **fields)


def streams_member(state, epoch):
    metadata = {"instanceId": None, "rackId": None, "clientId": "c", "clientHost": "/h", "rebalanceTimeoutMs": 1,
                "topologyEpoch": 0, "processId": "p", "userEndpoint": None, "clientTags": []}  # fmt: skip
    tasks = {"activeTasks": [{"subtopologyId": "0", "partitions": [0, 2]}], "memberEpoch": epoch, "state": state}
    pending = {name: [] for name in ("standbyTasks", "warmupTasks", "activeTasksPendingRevocation",
                                     "standbyTasksPendingRevocation", "warmupTasksPendingRevocation")}  # fmt: skip
    yield streams("StreamsGroupMemberMetadata", MEMBER, **metadata)
    yield streams("StreamsGroupCurrentMemberAssignment", MEMBER, previousMemberEpoch=epoch, **tasks, **pending)


def test_states_of_streams_groups(tmp_path):
    records = [streams("StreamsGroupMetadata", GROUP, epoch=4, metadataHash=0, validatedTopologyEpoch=2)]
    topology = [{"subtopologyId": "0", "sourceTopics": ["in"], "sourceTopicRegex": [], "stateChangelogTopics": [],
                 "repartitionSinkTopics": [], "copartitionGroups": [],
                 "repartitionSourceTopics": [{"name": "again", "partitions": 1, "replicationFactor": 1,
                                              "topicConfigs": []}]}]  # fmt: skip

    def group(*more):
        records.extend(more)
        coordinator_partition_at(tmp_path, 0, commits(*records))
        return groups_of(tmp_path, "--members")[1]["s"]

    assert group()["state"] == "Empty"
    assert group(*streams_member(1, 4))["state"] == "NotReady"
    found = group(streams("StreamsGroupTopology", GROUP, epoch=2, subtopologies=topology))
    assert found["state"] == "Assigning"
    found = group(streams("StreamsGroupTargetAssignmentMetadata", GROUP, assignmentEpoch=4))
    assert (found["state"], found["members"][0]["state"]) == ("Stable", "STABLE")
    owned = {one["topic"]: one["partitions"] for one in found["members"][0]["assignment"]}
    assert owned == {"in": [0, 2], "again": [0, 2]}
    found = group(*streams_member(2, 4))
    assert (found["state"], found["members"][0]["state"]) == ("Reconciling", "UNREVOKED_TASKS")
    assert group(*streams_member(1, 3))["state"] == "Reconciling"


def test_topics_of_a_regular_expression_do_not_expire(tmp_path):
    member = {"groupId": "g", "memberId": "m"}
    metadata = {
        "instanceId": None, "rackId": None, "clientId": "c", "clientHost": "/h", "subscribedTopicNames": [],
        "subscribedTopicRegex": "or.*", "rebalanceTimeoutMs": 1, "serverAssignor": None, "classicMemberMetadata": None,
    }  # fmt: skip
    regex = {"groupId": "g", "regularExpression": "or.*"}
    coordinator_partition_at(
        tmp_path, 0,
        commits(
            (key(3, "ConsumerGroupMetadataKey", groupId="g"), value(0, "ConsumerGroupMetadataValue", epoch=1)),
            (key(5, "ConsumerGroupMemberMetadataKey", **member), value(0, "ConsumerGroupMemberMetadataValue", **metadata)),
            (
                key(16, "ConsumerGroupRegularExpressionKey", **regex),
                value(0, "ConsumerGroupRegularExpressionValue", topics=["orders"], version=1, timestamp=1),
            ),
            (commit_key("g"), commit(1, NOON)),
            (commit_key("g", "left"), commit(1, NOON)),
        ),
    )  # fmt: skip
    _, found, _ = groups_of(tmp_path)
    assert {row["topic"]: row["expires_at_ms"] for row in found["g"]["offsets"]} == {
        "orders": None, "left": NOON + WEEK_MS,
    }  # fmt: skip


@pytest.fixture(scope="module")
def schema():
    schema = json.loads((Path(__file__).parents[2] / "docs" / "schemas" / "kafkalog.group-1.json").read_text())
    return Draft202012Validator(schema)


@pytest.mark.parametrize("case", ["internal", "txn"])
def test_groups_of_a_real_broker_fit_their_schema(corpus, schema, case):
    code, found, told = groups_of(corpus / case / "data")
    assert (code, told) == (0, [])
    for group in found.values():
        assert not [*schema.iter_errors(group)]
    if case == "internal":
        lags = {name: [row["lag"] for row in one["offsets"]] for name, one in found.items()}
        assert lags == {
            "g-classic": [68, 0], "g-new": [46], "g-new2": [43, 0, 76], "g-static": [73, 0], "g-tx": [88],
            "sg-1": [49], "sg-2": [60],
        }  # fmt: skip
        assert [one["assignment"] for one in found["g-new2"]["members"]] == [
            [{"topic": "in-a", "partitions": [0, 1]}, {"topic": "in-b", "partitions": [0]}]
        ]


def test_groups_names_topics_by_partition_metadata_without_a_metadata_log(corpus, tmp_path):
    """partition.metadata has the ids too."""
    source = corpus / "internal" / "data"
    for name in ("__consumer_offsets-0", "in-a-0", "in-a-1", "in-b-0"):
        copytree(source / name, tmp_path / name)
    group = groups_of(tmp_path, "--group", "g-new2")[1]["g-new2"]
    assert [row["topic"] for row in group["offsets"]] == ["in-a", "in-a", "in-b"]
    assert group["coordinator"]["belongs_in"] is None


def test_the_library_gives_the_groups_and_offsets_of_the_command(corpus):
    data = corpus / "internal" / "data"
    run = kl.groups(data, groups=["sg-1"])
    assert [(one.group_id, one.state.value) for one in run.results] == [("sg-1", "Empty")]
    assert len(kl.open(data).groups(topics=["in-b"]).results) == 4


def history(*argv):
    code, out, _ = kafkalog("groups", *argv, "--history", "--format", "json")
    *found, summary = map(json.loads, out.splitlines())
    assert summary["changes"] == len(found)
    assert summary["back"] == sum(one["is_back"] for one in found)
    return code, [(one["previous_offset"], one["offset"], one["verdict"], one["is_back"]) for one in found]


def test_a_history_has_a_verdict_on_each_step_back(tmp_path):
    g = commit_key("g")
    steps = [
        (group_key("g"), classic_group(1, ["m"])),
        (g, commit(5, NOON)),
        (g, commit(3, NOON)),  # a member went back itself
        (group_key("g"), classic_group(2, time_ms=NOON)),
        (g, commit(1, NOON)),  # nobody was there: an admin
        (g, commit(1, NOON)),
        (g, None),  # deleted at once
        (g, commit(0, NOON)),
    ]
    coordinator_partition_at(tmp_path, 0, commits(*steps))
    assert history(tmp_path) == (
        0,
        [
            (None, 5, "commit", False), (5, 3, "commit", True), (3, 1, "reset", True), (1, 1, "commit", False),
            (1, None, "tombstone", False),
            (1, 0, "tombstone", True),
        ],
    )  # fmt: skip
    coordinator_partition_at(
        tmp_path, 0,
        [*commits(*steps[:2], steps[3]), *commits((g, None), (g, commit(2, NOON)), base=3, time_ms=NOON + WEEK_MS)],
    )  # fmt: skip
    assert history(tmp_path)[1][1:] == [(5, None, "expiry", False), (5, 2, "expiry", True)]
    text = kafkalog("groups", tmp_path, "--history")[1]
    assert "g  orders-0  5 -> 2  back, after the offset had expired\n" in text
    assert kafkalog("groups", tmp_path, "--history", "--group", "h")[0] == 10


def test_the_history_of_a_group_has_a_verdict_for_each_transaction(tmp_path):
    def in_transaction(at, offset, producer):
        return batch_v2([R(at, NOON, commit_key("g"), commit(offset))], producer=(producer, 0, 0), bits=TRANSACTIONAL)

    coordinator_partition_at(
        tmp_path, 0,
        [
            *commits((commit_key("g"), commit(6))), in_transaction(1, 9, 7), in_transaction(2, 4, 8),
            end_marker(3, NOON, (7, 0), 0), end_marker(4, NOON, (8, 0), 1), in_transaction(5, 8, 9),
        ],
    )  # fmt: skip
    assert history(tmp_path)[1] == [
        (None, 6, "commit", False), (6, 9, "aborted", False), (6, 4, "reset", True), (4, 8, "open", False),
    ]  # fmt: skip


def test_the_history_of_a_real_brokers_groups_ends_at_their_offsets(corpus):
    code, out, _ = kafkalog("groups", corpus / "internal" / "data", "--history", "--format", "json")
    *found, _ = map(json.loads, out.splitlines())
    last = {
        (one["group_id"], one["topic"], one["partition"]): one["offset"] for one in found if one["verdict"] != "aborted"
    }
    assert code == 0
    changes = kl.group_history(corpus / "internal" / "data").results
    assert [(one.group_id, one.offset, one.verdict.value) for one in changes] == [
        (one["group_id"], one["offset"], one["verdict"]) for one in found
    ]
    assert {at: offset for at, offset in last.items() if offset is not None} == {
        ("g-classic", "in-a", 0): 25, ("g-classic", "in-a", 1): 0, ("g-static", "in-a", 0): 20,
        ("g-static", "in-a", 1): 0, ("g-new", "in-b", 0): 30, ("g-new2", "in-a", 0): 50, ("g-new2", "in-a", 1): 0,
        ("g-new2", "in-b", 0): 0, ("g-tx", "in-a", 0): 5,
    }  # fmt: skip


@pytest.fixture
def expired(tmp_path):
    """A broker with offsets.retention.minutes=1 removed the only offset two minutes after its commit."""
    removed = commits((commit_key("g"), None), base=1, time_ms=NOON + 2 * 60_000)
    coordinator_partition_at(tmp_path, 0, [*commits((commit_key("g"), commit(4, NOON))), *removed])
    return tmp_path


def test_without_groups_a_line_says_so_and_names_the_history(expired):
    code, out, _ = kafkalog("groups", expired)
    assert (code, out.startswith("no group has an offset or a member here"), "--history" in out) == (0, True, True)


def test_a_group_whose_offsets_are_gone_is_answered_with_the_command_that_prints_them(expired):
    code, _, err = kafkalog("groups", expired, "--group", "g")
    assert code == 10
    command = re.search(r"`kafkalog (.*)`", err)[1]
    code, out, _ = kafkalog(*shlex.split(command))
    assert (code, "g  orders-0  4 -> -" in out) == (0, True)


def test_a_removal_is_no_tombstone_for_sure_where_the_retention_is_assumed(expired):
    code, out, _ = kafkalog("groups", expired, "--history")
    assert "4 -> -  removed by a tombstone, or expired by a shorter retention\n" in out
    assert "follows offsets.retention.minutes=10080 (Kafka's default; --broker-config FILE names the broker's)" in out
    lines = json_of("groups", expired, "--history")[1]
    assert [one["assumed_retention_ms"] for one in lines[:-1]] == [None, WEEK_MS]

    config = expired / "server.properties"
    config.write_text("offsets.retention.minutes=1\n")
    out = kafkalog("groups", expired, "--history", "--broker-config", config)[1]
    assert out.endswith("4 -> -  expired\n")
