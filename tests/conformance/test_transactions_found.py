"""`transactions`: transactional ids beside the logs, hanging transactions, damage, hostile names."""

import json
from pathlib import Path
from shutil import copytree, rmtree

import pytest
from jsonschema import Draft202012Validator

import kafkalog_cli as kl
from tests.support.commands import kafkalog
from tests.support.coordinator_logs import commits, coordinator_partition_at, key, value
from tests.support.logs import BASE_TIME_MS, TRANSACTIONAL, R, batch_v2, end_marker

STATE = "__transaction_state"
SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT, COMPLETE_ABORT = 1, 2, 4, 5


def called(*argv):
    return kafkalog(*argv, now_ms=lambda: BASE_TIME_MS + 90_000)


def found_in(*log_dirs, options=("--max-transaction-timeout", "1")):
    """(exit code, transactional ids by name, (topic, partition, producer): what is open in logs)."""
    code, out, _ = called("transactions", *log_dirs, *options, "--format", "json")
    *found, summary = map(json.loads, out.splitlines())
    ids = {one["transactional_id"]: one for one in found if one["type"] == "transaction"}
    logs = {
        (one["topic"], one["partition"], one["producer_id"]): one for one in found if one["type"] == "open-transaction"
    }
    assert (summary["transactional_ids"], summary["open_in_logs"]) == (len(ids), len(logs))
    assert summary["hanging"] == sum(one["state"] == "hanging" for one in logs.values())
    assert len(found) == len(ids) + len(logs)
    return code, ids, logs


def transaction(name, producer, status, *partitions, topic="t"):
    fields = {
        "producerId": producer, "producerEpoch": 3, "transactionTimeoutMs": 60_000, "transactionStatus": status,
        "transactionPartitions": [{"topic": topic, "partitionIds": list(partitions)}] if partitions else None,
        "transactionLastUpdateTimestampMs": BASE_TIME_MS, "transactionStartTimestampMs": BASE_TIME_MS,
    }  # fmt: skip
    return key(0, "TransactionLogKey", transactionalId=name), value(0, "TransactionLogValue", **fields)


def data(log_dir, partition, *producers, ended=()):
    """A partition of the topic t with a transaction of each producer, in this order."""
    batches = [
        batch_v2([R(at, BASE_TIME_MS + at, b"k", b"v")], producer=(one, 3, 0), bits=TRANSACTIONAL)
        for at, one in enumerate(producers)
    ]
    batches += [end_marker(len(producers) + at, BASE_TIME_MS + 9, (one, 3), commits=1) for at, one in enumerate(ended)]
    coordinator_partition_at(log_dir, partition, batches, "t")


@pytest.fixture
def log_dir(tmp_path):
    """Producer 1 committed, 2 is open in t-0, 3 is open where its coordinator does not know of, 4 is nobody's."""
    data(tmp_path, 0, 1, 2, 3, ended=[1])
    data(tmp_path, 1, 4, 2)
    records = [
        transaction("a", 1, COMPLETE_COMMIT), transaction("b", 2, ONGOING, 0), transaction("c", 3, ONGOING, 7),
        transaction("gone", 9, ONGOING, 0), (key(0, "TransactionLogKey", transactionalId="gone"), None),
    ]  # fmt: skip
    coordinator_partition_at(tmp_path, 0, commits(*records), STATE)
    return tmp_path


def test_transactions_prints_the_state_of_each_transaction_in_the_logs(log_dir):
    code, ids, logs = found_in(log_dir)
    assert {name: one["state"] for name, one in ids.items()} == {"a": "committed", "b": "open", "c": "open"}
    assert (ids["b"]["times_out_at_ms"], ids["b"]["age_ms"]) == (BASE_TIME_MS + 60_000, 90_000)
    assert (ids["a"]["times_out_at_ms"], ids["a"]["age_ms"]) == (None, None)
    states = {at: (one["state"], one["transactional_id"], one["holds_last_stable_offset"]) for at, one in logs.items()}
    assert states == {
        ("t", 0, 2): ("open", "b", True), ("t", 0, 3): ("hanging", "c", False),
        ("t", 1, 2): ("hanging", "b", False),
        # Nothing shows how many partitions __transaction_state has: another may have the producer.
        ("t", 1, 4): ("unknown", None, True),
    }  # fmt: skip
    assert code == 3
    assert logs["t", 0, 3]["end_command"].endswith("abort --topic t --partition 0 --start-offset 2")
    assert logs["t", 0, 2]["end_command"] is None
    text = called("transactions", log_dir, "--max-transaction-timeout", "1")[1]
    assert logs["t", 0, 3]["end_command"] in text
    assert "past its timeout, so that a coordinator aborts it: b\n" in text
    assert "1:30" in text  # the age of b


def test_a_recent_transaction_does_not_hang(log_dir):
    """By default those of the last 15 minutes, as kafka-transactions.sh find-hanging."""
    last_ms = found_in(log_dir)[2]["t", 0, 3]["last_timestamp_ms"]
    for options, state in (
        ((), "unknown"),
        (("--now", str(last_ms + 900_000)), "unknown"),
        (("--now", str(last_ms + 900_001)), "hanging"),
        (("--now", str(last_ms + 120_000), "--max-transaction-timeout", "2"), "unknown"),
        (("--now", str(last_ms + 120_001), "--max-transaction-timeout", "2"), "hanging"),
    ):
        code, _, logs = found_in(log_dir, options=options)
        assert logs["t", 0, 3]["state"] == state
        assert code == (3 if any(one["state"] == "hanging" for one in logs.values()) else 0)
        assert logs["t", 0, 2]["state"] == "open"
        assert (logs["t", 0, 3]["end_command"] is None) == (state == "unknown")
    states = {
        now: [one.state.value for one in kl.transactions(log_dir, now=now).results if type(one).__name__ == "OpenInLog"]
        for now in (last_ms, last_ms + 900_001)
    }
    assert "hanging" not in states[last_ms]
    assert "hanging" in states[last_ms + 900_001]


def test_with_all_partitions_a_producer_without_an_id_hangs(corpus, tmp_path):
    """The metadata log of a real broker says that __transaction_state has one partition, which is there."""
    place = copytree(corpus / "internal" / "data", tmp_path / "data")
    (place / ".kafka_cleanshutdown").unlink()  # with it, the broker would have written a snapshot
    data(place, 0, 4242)
    code, _, logs = found_in(place)
    assert (code, logs["t", 0, 4242]["state"]) == (3, "hanging")
    rmtree(place / f"{STATE}-0")
    code, ids, logs = found_in(place)
    assert (code, ids) == (0, {})
    assert {one["state"] for one in logs.values()} == {"unknown"}


def test_in_a_cluster_without_transactional_ids_every_open_transaction_hangs(tmp_path):
    """The metadata log of the demo has no topic __transaction_state."""
    assert called("demo", tmp_path / "demo")[0] == 0
    code, ids, logs = found_in(tmp_path / "demo", options=("--now", "2026-11-23T14:30:00Z"))
    assert (code, ids, [one["state"] for one in logs.values()]) == (3, {}, ["hanging"])


def test_a_transaction_that_is_prepared_is_not_hanging(tmp_path):
    data(tmp_path, 0, 2)
    coordinator_partition_at(tmp_path, 0, commits(transaction("b", 2, PREPARE_COMMIT, 0)), STATE)
    code, ids, logs = found_in(tmp_path)
    assert (code, ids["b"]["state"], logs["t", 0, 2]["state"]) == (0, "committing", "open")


def test_transactions_without_any_transaction_says_so(tmp_path):
    data(tmp_path, 0, 1, ended=[1])
    assert called("transactions", tmp_path) == (0, "no transactions\n", "")
    assert called("transactions", tmp_path / "nowhere")[0] == 10
    assert called("transactions")[0] == 2


def test_the_best_copies_of_two_log_directories(tmp_path):
    for name, status, producers in (("one", ONGOING, (2,)), ("two", COMPLETE_ABORT, (2, 5))):
        records = [transaction("b", 2, ONGOING, 0), transaction("b", 2, status, *([0] if status == ONGOING else []))]
        coordinator_partition_at(tmp_path / name, 0, commits(*records)[: 1 + (name == "two")], STATE)
        data(tmp_path / name, 0, *producers)
    code, ids, logs = found_in(tmp_path / "one", tmp_path / "two")
    assert (code, ids["b"]["state"]) == (3, "aborted")
    assert ids["b"]["coordinator"]["path"] == str(tmp_path / "two" / f"{STATE}-0")
    assert set(logs) == {("t", 0, 2), ("t", 0, 5)}


def test_transactions_reports_damage_and_escapes_control_characters(tmp_path):
    hostile = "id\x1b[2J\n"
    batches = commits(transaction(hostile, 2, ONGOING, 0, topic="x\x07"), transaction("b", 3, ONGOING, 0))
    coordinator_partition_at(tmp_path, 0, batches, STATE)
    code, out, err = called("transactions", tmp_path)
    assert code == 0
    assert not {one for one in out + err if not one.isprintable()} - {"\n"}
    assert set(found_in(tmp_path)[1]) == {hostile, "b"}
    broken = bytearray(batches[0])
    broken[-1] ^= 0xFF
    coordinator_partition_at(tmp_path, 0, [bytes(broken), batches[1]], STATE)
    code, ids, _ = found_in(tmp_path)
    assert (code, set(ids)) == (4, {"b"})


@pytest.mark.parametrize("case", ["internal", "txn"])
def test_transactions_of_a_real_broker_are_those_that_its_clients_left(corpus, case):
    """What the clients did there is in the case's how.txt: one transaction was left open."""
    code, ids, logs = found_in(corpus / case / "data")
    validators = {
        name: Draft202012Validator(json.loads((SCHEMAS / f"kafkalog.{name}-1.json").read_text()))
        for name in ("transaction", "open-transaction")
    }
    for one in (*ids.values(), *logs.values()):
        assert not [*validators[one["type"]].iter_errors(one)]
    ((at, left),) = logs.items()
    assert (code, left["state"], left["transactional_id"]) == (0, "open", "tx-open")
    assert left["holds_last_stable_offset"]
    assert ids["tx-open"]["partitions"] == [{"topic": at[0], "partitions": [at[1]]}]
    run = kl.transactions(corpus / case / "data")
    assert len(run.results) == len(ids) + len(logs)
