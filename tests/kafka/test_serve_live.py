"""The newest Java tools on `serve`: console consumer, kafka-get-offsets, kafka-consumer-groups; and its tables."""

import subprocess

import pytest

from tests.kafka.broker import JAVA
from tests.kafka.test_groups_live import GroupClients
from tests.kafka.test_schemas_live import kafkas_definitions
from tests.serve.test_serve_copies import damaged_in_turn
from tests.support.product import apis
from tests.support.serving import read_records, serving

TOOLS = "org.apache.kafka.tools"
SECONDS = 300


def tool(kafka, name, *words, code=0):
    done = subprocess.run(
        [*JAVA, "-cp", kafka.class_path, f"{TOOLS}.{name}", *words], capture_output=True, timeout=SECONDS, check=False
    )
    assert done.returncode == code, done.stderr.decode()
    return done.stdout


@pytest.mark.exhaustive
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize(("case", "topic"), [("txn", "tx2"), ("upgraded", "upgraded")])
def test_the_console_consumer_prints_all_records(newest_kafka, corpus, case, topic, isolation):
    log_dir = corpus / case / "data"
    wanted = read_records(log_dir, topic, committed=isolation == "read_committed")
    values = sorted(b"null" if value is None else value for one in wanted.values() for _, _, value in one)
    with serving(log_dir) as server:
        words = ("--bootstrap-server", server.bootstrap, "--topic", topic, "--from-beginning")
        more = ("--isolation-level", isolation, "--max-messages", str(len(values)))
        out = tool(newest_kafka, "consumer.ConsoleConsumer", *words, *more)
    assert sorted(b"".join(value + b"\n" for value in values)) == sorted(out)


@pytest.mark.full
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_the_console_consumer_on_two_damaged_copies(newest_kafka, corpus, tmp_path, isolation):
    """No copy can be read alone."""
    log_dir = corpus / "txn" / "data"
    wanted = read_records(log_dir, "tx2", committed=isolation == "read_committed")
    values = [b"null" if value is None else value for one in wanted.values() for _, _, value in one]
    with serving(*damaged_in_turn(log_dir, tmp_path, "tx2")) as server:
        words = ("--bootstrap-server", server.bootstrap, "--topic", "tx2", "--from-beginning")
        more = ("--isolation-level", isolation, "--max-messages", str(len(values)))
        out = tool(newest_kafka, "consumer.ConsoleConsumer", *words, *more)
        assert all(" are served from " in note.message for note in server.notes if note.kind == "damage")
    assert sorted(out.splitlines()) == sorted(values)


@pytest.mark.full
def test_the_real_tools_get_offsets_and_groups_from_serve(newest_kafka, corpus):
    with serving(corpus / "txn" / "data") as server:
        address = ("--bootstrap-server", server.bootstrap)
        out = tool(newest_kafka, "GetOffsetShell", *address, "--topic", "tx2").decode().split()
        ends = {f"tx2:{n}:{one.high_watermark}" for n, one in server.catalog.topics["tx2"].partitions.items()}
        assert set(out) == ends
        known = server.committed.groups()
        words = ("--group", "made", "--topic", "idem", "--reset-offsets", "--to-offset", "7", "--execute")
        tool(newest_kafka, "consumer.group.ConsumerGroupCommand", *address, *words)
        out = tool(newest_kafka, "consumer.group.ConsumerGroupCommand", *address, "--list").decode().split()
        assert set(out) == known | {"made"}
        text = tool(newest_kafka, "consumer.group.ConsumerGroupCommand", *address, "--group", "made", "--describe")
        assert ["made", "idem", "0", "7", "180", "173"] in [line.split()[:6] for line in text.decode().splitlines()]


@pytest.mark.full
def test_a_consumer_of_the_new_protocol_reads_from_serve(newest_kafka, corpus):
    log_dir = corpus / "txn" / "data"
    wanted = read_records(log_dir, "tx2")
    with serving(log_dir) as server:
        address = ("--bootstrap-server", server.bootstrap)
        words = ("--topic", "tx2", "--group", "new", "--command-property", "group.protocol=consumer")
        more = (
            "--command-property",
            "auto.offset.reset=earliest",
            "--max-messages",
            str(sum(map(len, wanted.values()))),
        )
        out = tool(newest_kafka, "consumer.ConsoleConsumer", *address, *words, *more)
        assert sorted(out.splitlines()) == sorted(value for one in wanted.values() for _, _, value in one)
        text = tool(newest_kafka, "consumer.group.ConsumerGroupCommand", *address, "--group", "new", "--describe")
        ends = {n: one.high_watermark for n, one in server.catalog.topics["tx2"].partitions.items()}
        rows = [line.split()[1:6] for line in text.decode().splitlines() if line.startswith("new ")]
        assert sorted(rows) == [["tx2", str(n), str(end), str(end), "0"] for n, end in sorted(ends.items())]


@pytest.mark.full
def test_topics_that_the_server_matches(newest_kafka, corpus, tmp_path):
    """SubscriptionPattern: whole names match, and Java's consumer raises what the server says of an expression."""
    pytest.importorskip("pyarrow")
    log_dir, file = corpus / "txn" / "data", tmp_path / "records"
    records = {name: read_records(log_dir, name) for name in ("idem", "tx", "tx2")}
    with serving(log_dir) as server, GroupClients(server.bootstrap, newest_kafka.class_path, tmp_path) as clients:
        for expression, topics in (("tx.*", ["tx", "tx2"]), ("x2|i[a-z]{3}", ["idem"])):
            wanted = sorted(
                f"{name} {number} {offset}"
                for name in topics for number, found in records[name].items() for offset, _, _ in found
            )  # fmt: skip
            clients.do("match", f"group of {topics}", expression, len(wanted), file)
            assert sorted(file.read_text().splitlines()) == wanted
        with pytest.raises(AssertionError, match=r"InvalidRegularExpression.*`a\)\(b` is not a valid regular"):
            clients.do("match", "refused", "a)(b", 1, file)


@pytest.mark.full
def test_the_real_admin_tools_describe_what_serve_has(newest_kafka, corpus):
    with serving(corpus / "txn" / "data") as server:
        address = ("--bootstrap-server", server.bootstrap)
        text = tool(newest_kafka, "TopicCommand", *address, "--describe", "--topic", "tx2").decode()
        assert "PartitionCount: 2" in text
        listed = tool(newest_kafka, "TransactionsCommand", *address, "list").decode().splitlines()
        known = server.catalog.transactional_ids()
        assert {line.split()[0] for line in listed[1:]} == {*known}
        name = next(iter(known))
        words = ("describe", "--transactional-id", name)
        assert name in tool(newest_kafka, "TransactionsCommand", *address, *words).decode()
        words = ("describe-producers", "--topic", "tx2", "--partition", "0")
        found = tool(newest_kafka, "TransactionsCommand", *address, *words).decode().splitlines()
        producers = server.catalog.topics["tx2"].partitions[0].producers()
        assert {line.split()[0] for line in found[1:]} == {str(one.producer_id) for one in producers}
        for words in (("groups", "--entity-name", "readers"), ("brokers", "--entity-default")):
            tool(newest_kafka, "ConfigCommand", *address, "--describe", "--entity-type", *words)
        out = tool(newest_kafka, "GetOffsetShell", *address, "--topic", "tx2", "--time", "earliest-pending-upload")
        assert not out.strip()  # as from a broker without tiered storage
        words = ("--create", "--topic", "new", "--partitions", "1", "--replication-factor", "1")
        tool(newest_kafka, "TopicCommand", *address, *words, code=1)


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "api"),
    [
        ("consumer.group.ShareGroupCommand", "SHARE_GROUP_DESCRIBE"),
        ("streams.StreamsGroupCommand", "STREAMS_GROUP_DESCRIBE"),
    ],
)
def test_share_and_streams_groups_are_refused(newest_kafka, corpus, name, api):
    """The tools say that the node does not support them, as of a broker before these groups."""
    with serving(corpus / "txn" / "data") as server:
        words = ("--bootstrap-server", server.bootstrap, "--describe", "--group", "g")
        command = [*JAVA, "-cp", newest_kafka.class_path, f"{TOOLS}.{name}", *words]
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False, text=True)
        assert f"The node does not support {api}" in done.stdout + done.stderr


def test_the_tables_are_kafkas(newest_kafka):
    real = kafkas_definitions(newest_kafka.version.release)
    for api in apis().values():
        for kind, schema in (("Request", api.request), ("Response", api.response)):
            found = real[f"{api.name}{kind}"]
            first, last = api.versions
            assert (found["apiKey"], found["name"]) == (api.key, schema.name)
            names = [one["name"][0].lower() + one["name"][1:] for one in found["fields"] if is_in(one, first, last)]
            assert [field.name for field in schema.fields] == names


def is_in(field, first, last):
    begin, _, end = (field.get("versions") or field["taggedVersions"]).rstrip("+").partition("-")
    is_open = (field.get("versions") or field["taggedVersions"]).endswith("+")
    return int(begin) <= last and (is_open or int(end or begin) >= first)
