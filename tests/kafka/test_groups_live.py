"""`groups` and `transactions` beside the real tools: their output just before the broker stops, and its disk then."""

import json
import re
import subprocess

import pytest

from tests.kafka.broker import JAVA, STOP_SECONDS, Client, broker
from tests.support.commands import kafkalog

pytestmark = [pytest.mark.xdist_group("groups"), pytest.mark.full]

GROUPS, SHARES = "consumer.group.ConsumerGroupCommand", "consumer.group.ShareGroupCommand"
STREAMS = "streams.StreamsGroupCommand"
SETTINGS = {
    "offsets.topic.num.partitions": "7",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.share.enable": "true",
    "offsets.retention.minutes": "600",
}


def printed(*argv, code=0):
    ran = kafkalog(*argv)
    assert ran.code == code, ran.err
    return ran.out


NO_ROWS = {"group", "offset", "EXPIRES", "Consumer", "Share", "Streams", "Warning:"}
"""The first words of sentences between the tables."""


def rows_of(text):
    """(words by column) of each row of a tool's tables; their cells have no spaces."""
    columns, found = [], []
    for line in text.splitlines():
        words = re.sub(r" +\((ID|\d+)\)", "", line).split()  # COORDINATOR (ID) is one column
        if words[:1] == ["GROUP"]:
            columns = words
        elif words and columns and words[0] not in NO_ROWS:
            found.append(dict(zip(columns, words, strict=False)))
    return found


class GroupClients:
    """Commands of java/GroupClients.java, in one JVM, which halts with the block: members do not leave."""

    def __init__(self, address, class_path, folder):
        self._folder = folder
        with (folder / "clients.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*JAVA, "-cp", class_path, "GroupClients", address],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait(STOP_SECONDS)
        self._process.stdout.close()

    def do(self, *words):
        self._process.stdin.write("\t".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        assert answer == "ok", answer or f"the clients have ended at {words}"

    def tool(self, name, *words):
        """The text that a tool of this package prints."""
        file = self._folder / "tool.txt"
        self.do("tool", file, f"org.apache.kafka.tools.{name}", *words)
        return file.read_text()


PRODUCED = [("orders", 3), ("paid", 0), ("paid", 1), ("payments", 0)]


def make_groups(clients):
    clients.do("member", "classic", "classic-two", "orders", "commit=3")
    clients.do("member", "classic", "classic-two", "orders", "commit=5")
    clients.do("member", "classic", "classic-static", "orders,payments", "commit=1", "instance=till-1")
    clients.do("member", "classic", "classic-left", "payments", "commit=8")
    clients.do("leave", "classic-left")
    clients.do("member", "consumer", "modern-two", "orders", "commit=2")
    clients.do("member", "consumer", "modern-two", "orders,payments", "commit=4")
    clients.do("member", "consumer", "modern-left", "orders", "commit=6")
    clients.do("leave", "modern-left")
    clients.do("set", "simple", "orders", 2, 11)
    clients.do("set", "simple", "payments", 0, 4)
    clients.do("forget", "simple", "payments", 0)
    for end, offset in (("commit", 7), ("abort", 9), ("open", 12)):
        clients.do("pending", f"tx-{end}", "in-transactions", "orders", 1, offset, end)
    clients.do("share", "shared", "payments", 20)


@pytest.fixture(scope="module")
def stopped(newest_kafka, tmp_path_factory):
    """(the log directory of a stopped broker, what the tools printed just before, by tool and words)."""
    folder = tmp_path_factory.mktemp("groups")
    said = {}
    with broker(folder, newest_kafka.broker_class_path, SETTINGS) as one:
        one.start()
        with Client(one.address, newest_kafka.class_path) as producers:
            producers.do("create", "orders", partitions=4)
            producers.do("create", "payments", partitions=1)
            producers.do("create", "paid", partitions=2)
            for partition in range(4):
                producers.do("produce", "orders", count=20 + partition, per=5, seed=partition, partition=partition)
            producers.do("produce", "payments", count=60, per=10, seed=9)
            for at, end in enumerate(("commit", "abort", "open", "open")):
                what = {"count": 4, "per": 2, "seed": at, "partition": at % 2, "transaction": f"paid-{at}", "end": end}
                producers.do("produce", "paid", **what)
            many = {"count": 4, "per": 2, "seed": 7, "partition": 1, "transaction": "paid-often"}
            producers.do("produce", "paid", **many, end="commit,abort,commit,open")
        one.stop()
        # What a producer that the coordinator knows nothing of leaves: a transaction that hangs.
        (folder / "lines").write_text("a\nb\n")
        hangs = ("--producer-id", "4242", "--transaction", "open", "--single-replica")
        printed("append", one.data / "orders-3", folder / "lines", "--input", "lines", *hangs)
        one.start()
        with GroupClients(one.address, newest_kafka.class_path, folder) as clients:
            make_groups(clients)
            for number in range(2):
                clients.do("streams", "streaming", "orders", folder / f"streams-{number}")
            for tool in (GROUPS, SHARES, STREAMS):
                for more in ((), ("--members", "--verbose"), ("--state", "--verbose")):
                    asked = (tool, *more)
                    said[asked] = clients.tool(tool, "--describe", "--all-groups", *more)
            said["list"] = clients.tool("TransactionsCommand", "list")
            for row in table(said["list"]):
                name = row["TransactionalId"]
                said["describe", name] = clients.tool("TransactionsCommand", "describe", "--transactional-id", name)
            for topic, number in PRODUCED:
                partition = ("--topic", topic, "--partition", number)
                said[topic, number] = clients.tool("TransactionsCommand", "describe-producers", *partition)
            said["hanging"] = "".join(
                clients.tool("TransactionsCommand", "find-hanging", "--topic", topic, "--max-transaction-timeout", 0)
                for topic in ("orders", "paid", "payments")
            )
            said["not old enough"] = clients.tool("TransactionsCommand", "find-hanging", "--topic", "orders")
            one.stop()
    return one.data, said


def test_groups_prints_the_offsets_and_lags_of_kafkas_tool(stopped):
    data, said = stopped
    real = rows_of(said[GROUPS,])
    ours = rows_of(printed("groups", data))
    wanted = {tuple(row.values()) for row in real}
    assert {tuple(row.values())[:9] for row in ours if row["GROUP"] not in {"shared", "streaming"}} == wanted
    assert len(real) == len(wanted) == 21
    assert {row["GROUP"] for row in real} == {
        *("classic-two", "classic-static", "classic-left", "modern-two", "modern-left", "simple", "in-transactions"),
    }  # fmt: skip


def test_start_offsets_and_lag_of_share_groups(stopped):
    data, said = stopped
    (real,) = rows_of(said[SHARES,])
    (ours,) = rows_of(printed("groups", data, "--group", "shared"))
    assert (ours["CURRENT-OFFSET"], ours["LAG"]) == (real["START-OFFSET"], real["LAG"])
    assert 0 < int(real["START-OFFSET"]) < 60 - int(real["LAG"])  # records after the start are acknowledged too


def test_groups_prints_the_members_and_assignments_of_kafkas_tool(stopped):
    data, said = stopped
    real = rows_of(said[GROUPS, "--members", "--verbose"])
    ours = {row["CONSUMER-ID"]: row for row in rows_of(printed("groups", data, "--members"))}
    assert len(real) == 5
    for row in real:
        mine = ours[row["CONSUMER-ID"]]
        assert {name: mine[name] for name in ("GROUP", "HOST", "CLIENT-ID", "#PARTITIONS")}.items() <= row.items()
        assert mine["ASSIGNMENT"] == row["CURRENT-ASSIGNMENT"]
        assert mine["GROUP-INSTANCE-ID"] == row.get("GROUP-INSTANCE-ID", "-")
        assert row["CURRENT-EPOCH"] in ("-", mine["EPOCH"])
    (shared,) = rows_of(said[SHARES, "--members", "--verbose"])
    mine = ours[shared["CONSUMER-ID"]]
    assert (mine["GROUP"], mine["HOST"], mine["CLIENT-ID"]) == ("shared", shared["HOST"], shared["CLIENT-ID"])
    assert mine["ASSIGNMENT"] == shared["ASSIGNMENT"]


def test_groups_prints_a_streams_group_like_the_real_tool(stopped):
    """Two members of Kafka Streams with the protocol streams (KIP-1071)."""
    data, said = stopped
    offsets = rows_of(printed("groups", data, "--group", "streaming"))
    real = {(row["TOPIC"], row["PARTITION"]): row["OFFSET-LAG"] for row in rows_of(said[STREAMS,])}
    assert {(row["TOPIC"], row["PARTITION"]): row["LAG"] for row in offsets} == real
    assert len(real) == 4
    ours = {row["CONSUMER-ID"]: row for row in rows_of(printed("groups", data, "--group", "streaming", "--members"))}
    members = rows_of(said[STREAMS, "--members", "--verbose"])
    assert len(members) == len(ours) == 2
    for row in members:
        mine = ours[row["MEMBER"]]
        assert (mine["CLIENT-ID"], mine["EPOCH"]) == (row["CLIENT-ID"], row["MEMBER-EPOCH"])
        numbers = re.search(r"\[([\d,]+)\]", said[STREAMS, "--members", "--verbose"].partition(row["MEMBER"])[2])[1]
        assert mine["ASSIGNMENT"] == f"orders:{numbers}"
        owned = {one["PARTITION"] for one in offsets if one["CONSUMER-ID"] == row["MEMBER"]}
        assert owned == set(numbers.split(","))


def test_the_transactions_are_of_version_2(stopped):
    """KIP-890: each transaction ends with a new epoch, and the coordinator adds partitions itself."""
    features = [json.loads(line) for line in printed("cluster", stopped[0], "--format", "json").splitlines()]
    (level,) = (one for one in features if one.get("name") == "transaction.version")
    assert level["level"] == 2


def test_groups_prints_the_states_epochs_and_coordinators_of_kafkas_tool(stopped):
    data, said = stopped
    found = [json.loads(line) for line in printed("groups", data, "--format", "json").splitlines()][:-1]
    ours = {group["group_id"]: group for group in found}
    for tool in (GROUPS, SHARES, STREAMS):
        for row in rows_of(said[tool, "--state", "--verbose"]):
            group = ours.pop(row["GROUP"])
            assert (group["state"], str(len(group["members"]))) == (row["STATE"], row["#MEMBERS"])
            if row["GROUP-EPOCH"] != "-" and group["group_type"] != "classic":
                assert (str(group["epoch"]), str(group["assignment_epoch"])) == (
                    row["GROUP-EPOCH"],
                    row.get("TARGET-ASSIGNMENT-EPOCH") or row["ASSIGNMENT-EPOCH"],
                )
    assert ours == {}
    assert all(group["coordinator"]["partition"] == group["coordinator"]["belongs_in"] for group in found)
    assert len({group["coordinator"]["partition"] for group in found}) > 2


def test_an_offset_in_an_open_transaction_is_pending(stopped):
    text = printed("groups", stopped[0], "--group", "in-transactions")
    assert re.search(r"in-transactions +orders +1 +7 ", text)
    assert "offset 12 of orders-1 is in an open transaction" in text


EVERY_AGE = ("--max-transaction-timeout", "0")


def objects(data, kind):
    """The objects of a kind, of `transactions`: there is one that hangs."""
    found = [
        json.loads(line) for line in printed("transactions", data, *EVERY_AGE, "--format", "json", code=3).splitlines()
    ]
    return [one for one in found if one["type"] == kind]


def table(text):
    """(words by column) of each row of kafka-transactions' tables."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if words and words[0] in {"CoordinatorId", "TransactionalId", "ProducerId", "Topic"}:
            columns = words
        elif words:
            found.append(dict(zip(columns, words, strict=columns[-1] != "TopicPartitions")))  # which may be empty
    return found


def test_transactions_prints_the_ids_and_states_of_kafkas_tool(stopped):
    data, said = stopped
    wanted = {(row["TransactionalId"], int(row["ProducerId"]), row["TransactionState"]) for row in table(said["list"])}
    found = objects(data, "transaction")
    assert {(one["transactional_id"], one["producer_id"], one["coordinator_state"]) for one in found} == wanted
    assert {one["transactional_id"]: one["state"] for one in found} == {
        "paid-0": "committed", "paid-1": "aborted", "paid-2": "open", "paid-3": "open",
        "paid-often": "open", "tx-commit": "committed", "tx-abort": "aborted", "tx-open": "open",
    }  # fmt: skip


def test_each_transactional_id_is_as_the_tool_describes_it(stopped):
    data, said = stopped
    found = {one["transactional_id"]: one for one in objects(data, "transaction")}
    assert len(found) == 8
    for name, ours in found.items():
        (real,) = table(said["describe", name])
        partitions = {f"{part['topic']}-{one}" for part in ours["partitions"] for one in part["partitions"]}
        assert (real["ProducerId"], real["ProducerEpoch"], real["TransactionState"], real["TransactionTimeoutMs"]) == (
            str(ours["producer_id"]), str(ours["producer_epoch"]), ours["coordinator_state"], str(ours["timeout_ms"]),
        )  # fmt: skip
        assert real["CurrentTransactionStartTimeMs"] == str(ours["start_timestamp_ms"])
        assert partitions == {one for one in real.get("TopicPartitions", "").split(",") if one}


def test_every_transaction_of_version_2_has_a_new_epoch(stopped):
    """KIP-890: the batches of a producer's transactions have epochs that go up by 1, each ended by a marker of its own."""
    data, _ = stopped
    (often,) = (one for one in objects(data, "transaction") if one["transactional_id"] == "paid-often")
    lines = [json.loads(line) for line in printed("dump-log", data / "paid-1", "--format", "json").splitlines()]
    batches = [one for one in lines if one["type"] == "batch" and one["producer_id"] == often["producer_id"]]
    written = [one["producer_epoch"] for one in batches if not one["is_control"]]
    markers = [one["producer_epoch"] for one in batches if one["is_control"]]
    assert sorted(set(written)) == list(range(often["producer_epoch"] - 3, often["producer_epoch"] + 1))
    assert markers == [one + 1 for one in sorted(set(written))[:-1]]


def test_producers_with_an_open_transaction(stopped):
    data, said = stopped
    wanted = {
        (topic, number, int(row["ProducerId"]), int(row["ProducerEpoch"]), int(row["CurrentTransactionStartOffset"]),
         int(row["LastTimestamp"]))
        for topic, number in PRODUCED
        for row in table(said[topic, number])
        if row["CurrentTransactionStartOffset"] != "None"
    }  # fmt: skip
    names = ("topic", "partition", "producer_id", "producer_epoch", "start_offset", "last_timestamp_ms")
    found = [one for one in objects(data, "open-transaction") if not one["topic"].startswith("__")]
    assert {tuple(map(one.get, names)) for one in found} == wanted
    assert len(wanted) == 4
    first: dict[tuple[str, int], int] = {}
    for topic, number, *_, start, _ in wanted:
        first[topic, number] = min(start, first.get((topic, number), start))
    for one in found:
        is_first = one["start_offset"] == first[one["topic"], one["partition"]]
        assert one["holds_last_stable_offset"] == is_first


def test_transactions_finds_the_hanging_transaction_of_the_real_tool(stopped):
    data, said = stopped
    (real,) = table(said["hanging"])
    (ours,) = (one for one in objects(data, "open-transaction") if one["state"] == "hanging")
    assert (real["Topic"], real["Partition"], real["ProducerId"], real["StartOffset"]) == (
        ours["topic"], str(ours["partition"]), str(ours["producer_id"]), str(ours["start_offset"]),
    )  # fmt: skip
    assert ours["producer_id"] == 4242
    words = f"abort --topic orders --partition 3 --start-offset {real['StartOffset']}"
    assert ours["end_command"].endswith(words)
    assert words in printed("transactions", data, *EVERY_AGE, code=3)
    assert table(said["not old enough"]) == []
    assert "hanging" not in printed("transactions", data, "--format", "json").splitlines()[0]
    recent = [json.loads(line) for line in printed("transactions", data, "--format", "json").splitlines()]
    assert recent[-1]["hanging"] == 0
