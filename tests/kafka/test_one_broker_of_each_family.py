"""One broker for a small case of what the long tests beside this try with many topics: quick has none of those.

Clients write and commit, the broker stops, commands change its logs; then it starts on them, `serve` answers the same
consumer as the broker, and `replay` writes to the broker.
"""

import json
from typing import NamedTuple

import pytest

pytest.importorskip("confluent_kafka", reason="the extra `replay` is not installed: nothing of it is tested")

from tests.kafka.broker import Client, broker
from tests.kafka.broker_records import our_lines, served_lines
from tests.kafka.recovering import complaints
from tests.kafka.test_broker_serves_erased import commonest_keys
from tests.kafka.test_groups_live import GROUPS, GroupClients, rows_of, table
from tests.support.commands import json_of, kafkalog
from tests.support.serving import serving

pytestmark = pytest.mark.xdist_group("broker")

TOPICS = ("plain", "compacted", "erased", "retained", "cut")
"""Without the words that a broker writes of repairs."""
SMALL = {"internal.segment.bytes": 2000, "index.interval.bytes": 512}
SETTINGS = {"plain": {}, "compacted": {**SMALL, "cleanup.policy": "compact"}}


class Outcome(NamedTuple):
    printed_by_tools: dict
    """What Kafka's tools printed just before the broker stopped."""
    printed: dict
    """What commands printed of the stopped broker's log directory."""
    before: dict
    changed: dict
    """Lines of the records before and after the changes, by topic."""
    by_broker: dict
    by_serve: dict
    of_the_copy: dict
    complaints: dict
    replayed: list


def run(*argv):
    ran = kafkalog(*argv)
    assert ran.code == 0, ran.err
    return ran.out


def lines_of(data):
    return {topic: our_lines(data / f"{topic}-0") for topic in TOPICS}


def change(data, folder):
    """Run each writer on the topic of its name."""
    delete, one = ("--config", "cleanup.policy=delete"), "--single-replica"
    run("compact", data, "--topic", "compacted", "--delay", "0s", "--force")
    keys = commonest_keys(our_lines(data / "erased-0").uncommitted)
    (folder / "keys").write_text("".join(json.dumps({"key": bytes.fromhex(key).decode()}) + "\n" for key in keys))
    run("compact", data, "--topic", "erased", "--erase-keys", folder / "keys")
    run("retain", data / "retained-0", *delete, "--config", "retention.bytes=4000")
    run("truncate", data / "cut-0", "--to", "28", one, *delete)


@pytest.fixture(scope="module")
def outcome(real_kafka, tmp_path_factory):
    folder, class_path = tmp_path_factory.mktemp("families"), real_kafka.broker_class_path
    by_tools = {}
    for name in ("broker", "serve", "copy"):
        (folder / name).mkdir()
    with broker(folder, class_path) as one:
        one.start()
        with (
            Client(one.address, class_path) as client,
            GroupClients(one.address, real_kafka.class_path, folder) as tools,
        ):
            for seed, topic in enumerate(TOPICS):
                client.do("create", topic, **SETTINGS.get(topic, SMALL))
                client.do("produce", topic, count=90, per=4, seed=seed, codec=("lz4", "zstd")[seed % 2])
            client.do("produce", "plain", count=9, per=3, seed=9, transaction="some-id", end="abort")
            client.do("consumed-group", "plain", "some-group")
            tools.do("set", "simple", "erased", 0, 11)
            by_tools["groups"] = tools.tool(GROUPS, "--describe", "--all-groups")
            by_tools["transactions"] = tools.tool("TransactionsCommand", "list")
        one.stop()
        before = lines_of(one.data)
        printed = {"groups": run("groups", one.data)}
        printed |= {name: json_of(name, one.data)[1] for name in ("cluster", "transactions")}
        change(one.data, folder)
        changed = lines_of(one.data)
        run("metadump", one.data, folder / "copy" / "data")
        with serving(one.data) as server, Client(server.bootstrap, class_path) as client:
            by_serve = served_lines(client, TOPICS, folder / "serve")
        one.start()
        run("replay", one.data, "--topic", "plain", "--to", one.address, "--state", folder / "state", "--create",
             "--rename=plain=replayed")  # fmt: skip
        with Client(one.address, class_path) as client:
            by_broker = served_lines(client, TOPICS, folder / "broker")
        complained = complaints(one.log_entries(), TOPICS)
        one.stop()
        replayed = our_lines(one.data / "replayed-0").uncommitted
    with broker(folder / "copy", class_path) as copy:
        copy.start()
        with Client(copy.address, class_path) as client:
            of_the_copy = served_lines(client, TOPICS, folder / "copy")
    return Outcome(by_tools, printed, before, changed, by_broker, by_serve, of_the_copy, complained, replayed)


def test_a_broker_serves_the_records_that_each_writer_left(outcome):
    assert outcome.by_broker == outcome.changed
    assert outcome.complaints == {}
    sizes = {topic: len(lines.uncommitted) for topic, lines in outcome.changed.items()}
    assert sizes["cut"] == 28
    for topic in ("compacted", "erased", "retained"):
        assert 0 < sizes[topic] < len(outcome.before[topic].uncommitted), topic


def test_a_consumer_gets_of_serve_what_it_gets_of_the_broker(outcome):
    assert outcome.by_serve == outcome.by_broker
    assert outcome.by_serve["plain"].committed != outcome.by_serve["plain"].uncommitted


def test_groups_transactions_and_cluster_print_what_kafkas_tools_print(outcome):
    wanted = {tuple(row.values()) for row in rows_of(outcome.printed_by_tools["groups"])}
    assert {tuple(row.values())[: len(next(iter(wanted)))] for row in rows_of(outcome.printed["groups"])} == wanted
    assert len(wanted) == 2
    (real,) = table(outcome.printed_by_tools["transactions"])
    (found,) = [one for one in outcome.printed["transactions"] if one["type"] == "transaction"]
    assert (found["transactional_id"], found["producer_id"], found["coordinator_state"]) == (
        real["TransactionalId"], int(real["ProducerId"]), real["TransactionState"],
    )  # fmt: skip
    topics = {one["topic"] for one in outcome.printed["cluster"] if one["type"] == "cluster-topic"}
    assert topics == {*TOPICS, "__consumer_offsets", "__transaction_state"}


def test_a_broker_serves_of_a_metadump_records_of_the_same_offsets_and_times(outcome):
    def without_data(lines):
        return [[line.split("\t")[:2] for line in some] for some in lines]

    for topic in TOPICS:
        assert without_data(outcome.of_the_copy[topic]) == without_data(outcome.changed[topic]), topic
        assert outcome.of_the_copy[topic] != outcome.changed[topic]


def test_replay_sends_the_committed_records_to_a_broker(outcome):
    def without_offset(lines):
        return [line.partition("\t")[2] for line in lines]

    assert without_offset(outcome.replayed) == without_offset(outcome.changed["plain"].committed)
