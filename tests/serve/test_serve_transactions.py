"""Transactions through `serve`: what is open, what was aborted, emptied batches, and damage that another copy mends."""

import pytest

from tests.serve.test_serve_copies import consumed, write_epochs
from tests.serve.test_serve_fetch import fetch, log_dir, partition, records, write_segment  # noqa: F401 fixture
from tests.support.kafka_client import KafkaClient
from tests.support.logs import BASE_TIME_MS, CONTROL, TRANSACTIONAL, batch_v2, end_marker, producer_snapshot
from tests.support.serving import serving


def of_transaction(producer, first, count=3):
    made = [] if count == 0 else records(first, count)
    return batch_v2(made, base=first, last=first + 2, producer=(producer, 0, 0), bits=TRANSACTIONAL)


def mark(producer, offset, commits):
    return end_marker(offset, BASE_TIME_MS, (producer, 0), commits)


@pytest.mark.parametrize("has_snapshot", [True, False])
def test_serve_sends_aborted_transactions_and_the_last_stable_offset(tmp_path, has_snapshot):
    """The transaction at offset 12 is open, also where a snapshot at this offset does not know it yet."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    first = [of_transaction(0, 0), of_transaction(2, 3), mark(2, 6, True), of_transaction(3, 7)]
    write_segment(folder, 0, first)
    write_segment(folder, 10, [mark(0, 10, False), mark(3, 11, False), of_transaction(4, 12)])
    if has_snapshot:
        (folder / f"{12:020d}.snapshot").write_bytes(producer_snapshot([]))
    with serving(tmp_path) as server, KafkaClient(server.server.address) as client:
        found = partition(fetch(client, 0, isolationLevel=1))
        assert found["lastStableOffset"] == 12
        assert found["abortedTransactions"] == [
            {"producerId": 0, "firstOffset": 0}, {"producerId": 3, "firstOffset": 7},
        ]  # fmt: skip
        before = partition(fetch(client, 3, isolationLevel=1, most=sum(map(len, first[1:3]))))["abortedTransactions"]
        assert before == [{"producerId": 0, "firstOffset": 0}]
        late = partition(fetch(client, 11, isolationLevel=1))["abortedTransactions"]
        assert late == [{"producerId": 3, "firstOffset": 7}]
        assert partition(fetch(client, 12, isolationLevel=1))["records"] == b""
        assert partition(fetch(client, 12))["records"] != b""


def test_a_transaction_that_began_after_the_snapshot_and_in_an_earlier_segment(log_dir):  # noqa: F811
    write_segment(log_dir / "orders-0", 0, [batch_v2(records(0, 3)), of_transaction(1, 3)])
    (log_dir / "orders-0" / f"{3:020d}.snapshot").write_bytes(producer_snapshot([]))
    with serving(log_dir) as server:
        assert server.catalog.find("orders", 0).last_stable_offset == 3


@pytest.mark.parametrize(("end", "stable", "aborted"), [([], 0, []), ([mark(0, 6, False)], 7, [(0, 0)])])
def test_batches_that_the_cleaner_emptied_begin_and_end_transactions_as_in_kafka(tmp_path, end, stable, aborted):
    """A transaction begins with a batch without records too, and an empty marker ends none (ProducerAppendInfo)."""
    (tmp_path / "orders-0").mkdir()
    marker = batch_v2([], base=3, last=3, producer=(0, 0, -1), bits=TRANSACTIONAL | CONTROL)
    write_segment(tmp_path / "orders-0", 0, [of_transaction(0, 0, 0), marker, batch_v2(records(4, 2)), *end])
    with serving(tmp_path) as server:
        served = server.catalog.find("orders", 0)
        found = [(one.producer_id, one.first_offset) for one in served.aborted(0, 7)]
        assert (served.last_stable_offset, found) == (stable, aborted)


def transactional(tmp_path, name):
    folder = tmp_path / name / "orders-0"
    folder.mkdir(parents=True)
    write_epochs(folder, (0, 0))
    write_segment(
        folder,
        0,
        [of_transaction(0, 0), of_transaction(1, 3), mark(1, 6, True), of_transaction(2, 7), mark(0, 10, False)],
    )
    write_segment(folder, 11, [mark(2, 11, False), of_transaction(3, 12), mark(3, 15, True), of_transaction(4, 16)])
    return folder


@pytest.mark.parametrize("base", [0, 11])
@pytest.mark.parametrize("number", range(5))
def test_transactions_whose_markers_are_damaged(tmp_path, base, number):
    """The last stable offset and the aborted transactions are those of the undamaged log."""
    folder = transactional(tmp_path, "d1")
    transactional(tmp_path, "d2")
    path = folder / f"{base:020d}.log"
    data, at = path.read_bytes(), 0
    answers = []
    for _ in range(2):
        with serving(tmp_path / "d1", tmp_path / "d2") as server, KafkaClient(server.server.address) as client:
            served = server.catalog.find("orders", 0)
            answers.append((consumed(client, isolation=1), served.last_stable_offset, served.aborted(0, 19)))
        for _ in range(number):
            at = min(at + 12 + int.from_bytes(data[at + 8 : at + 12], "big"), len(data) - 1)
        path.write_bytes(data[: at + 30] + b"\xff\xff" + data[at + 32 :])
    assert answers[0][1] == 16
    assert len(answers[0][2]) == 2
    assert answers[1] == answers[0]


def test_the_end_has_the_epoch_of_the_leader_also_before_an_open_transaction(tmp_path):
    """As Partition.fetchOffsetForTimestamp: the offset of the open transaction was written under an earlier leader."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    write_segment(folder, 0, [batch_v2(records(0, 3)), of_transaction(4, 3), batch_v2(records(6, 3))])
    (folder / "leader-epoch-checkpoint").write_text("0\n3\n1 0\n2 3\n5 6\n")
    with serving(tmp_path) as server, KafkaClient(server.server.address) as client:

        def offset_and_epoch(timestamp, isolation):
            asked = [{"name": "orders", "partitions": [{"partitionIndex": 0, "timestamp": timestamp}]}]
            found = client.ask("ListOffsets", 10, topics=asked, isolationLevel=isolation)
            (one,) = found["topics"][0]["partitions"]
            return one["offset"], one["leaderEpoch"]

        assert [offset_and_epoch(-1, isolation) for isolation in (0, 1)] == [(9, 5), (3, 5)]
        assert [offset_and_epoch(-2, isolation) for isolation in (0, 1)] == [(0, 1), (0, 1)]
        assert offset_and_epoch(BASE_TIME_MS + 4, 0) == (4, 2)
