"""`serve --at`: each log ends before the first batch after the time, and everything follows from that end."""

import pytest

from tests.serve.test_serve_fetch import CORRUPT, batches, fetch, file_bytes, log_dir, partition, records, write_segment  # noqa: F401
from tests.support.coordinator_logs import commit, commit_key, commits, coordinator_partition_at
from tests.support.kafka_client import KafkaClient
from tests.support.logs import BASE_TIME_MS, TRANSACTIONAL, batch_v2, end_marker
from tests.support.serving import serving


def offset_of(client, timestamp):
    asked = [{"partitionIndex": 0, "timestamp": timestamp}]
    (one,) = client.ask("ListOffsets", 10, topics=[{"name": "orders", "partitions": asked}])["topics"][0]["partitions"]
    return one["offset"]


@pytest.mark.parametrize(("time", "end"), [(-1, 0), (3, 0), (4, 5), (9, 10), (14, 15), (18, 15), (19, 20), (29, 30)])
def test_a_log_ends_before_the_first_later_batch(log_dir, time, end):  # noqa: F811
    whole = file_bytes(log_dir, 0) + file_bytes(log_dir, 15)
    size = len(batches(0, 1)[0])
    with serving(log_dir, at_ms=BASE_TIME_MS + time) as server, KafkaClient(server.server.address) as client:
        sent = b"".join(partition(fetch(client, at))["records"] for at in (0, 15) if at < end)
        assert sent == whole[: end // 5 * size]
        assert partition(fetch(client, end))["highWatermark"] == end
        assert partition(fetch(client, end + 1))["errorCode"] == 1
        assert (offset_of(client, -2), offset_of(client, -1), offset_of(client, -3)) == (0, end, end - 1)
        assert offset_of(client, BASE_TIME_MS + end) == -1
        (topic,) = client.ask("Metadata", 9, topics=[{"name": "orders"}])["topics"]
        assert topic["partitions"][0]["leaderEpoch"] == (4 if end >= 10 else 1)
        asked = [{"partition": 0, "leaderEpoch": 1}]
        found = client.ask("OffsetForLeaderEpoch", 4, topics=[{"topic": "orders", "partitions": asked}])
        assert found["topics"][0]["partitions"][0]["endOffset"] == min(end, 10)


def test_a_late_record_does_not_move_the_end_and_an_early_clock_does(tmp_path):
    folder = tmp_path / "orders-0"
    folder.mkdir()
    ahead = batch_v2([one._replace(timestamp=BASE_TIME_MS + 1000) for one in records(5)])
    write_segment(folder, 0, [batch_v2(records(0)), ahead, batch_v2(records(10))])
    for time, end in ((999, 5), (1000, 15)):
        with serving(tmp_path, at_ms=BASE_TIME_MS + time) as server, KafkaClient(server.server.address) as client:
            assert partition(fetch(client, 0))["highWatermark"] == end


def test_a_damaged_batch_has_no_time(tmp_path):
    folder = tmp_path / "orders-0"
    folder.mkdir()
    parts = batches(0, 4)
    damaged = bytearray(parts[1])
    damaged[35] = 0x70  # the largest timestamp
    write_segment(folder, 0, [parts[0], damaged, *parts[2:]])
    with serving(tmp_path, at_ms=BASE_TIME_MS + 14) as server, KafkaClient(server.server.address) as client:
        assert partition(fetch(client, 5))["errorCode"] == CORRUPT
        found = partition(fetch(client, 10))
        assert (found["records"], found["highWatermark"]) == (parts[2], 15)


def test_nothing_is_left_if_retention_removed_the_records_of_then(log_dir):  # noqa: F811
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\norders 0 12\n")
    with serving(log_dir, at_ms=BASE_TIME_MS + 4) as server, KafkaClient(server.server.address) as client:
        found = partition(fetch(client, 12))
        assert (found["errorCode"], found["logStartOffset"], found["highWatermark"]) == (0, 12, 12)


def test_serve_as_of_a_time_has_the_transactions_of_then(tmp_path):
    def data(producer, first):
        return batch_v2(records(first, 3), producer=(producer, 0, 0), bits=TRANSACTIONAL)

    folder = tmp_path / "orders-0"
    folder.mkdir()
    marks = [end_marker(9 + n, BASE_TIME_MS + 100 * (n + 1), (producer, 0), False) for n, producer in enumerate((1, 2))]
    write_segment(folder, 0, [data(1, 0), data(2, 3), data(3, 6), *marks])
    for time, stable, aborted in ((50, 0, []), (100, 3, [1]), (200, 6, [1, 2])):
        with serving(tmp_path, at_ms=BASE_TIME_MS + time) as server, KafkaClient(server.server.address) as client:
            found = partition(fetch(client, 0, isolationLevel=1))
            assert found["lastStableOffset"] == stable
            assert [one["producerId"] for one in found["abortedTransactions"] or []] == aborted


def test_serve_as_of_a_time_has_the_committed_offsets_of_then(log_dir):  # noqa: F811
    made = commits(*[(commit_key("g"), commit(offset)) for offset in (1, 2, 3)], time_ms=BASE_TIME_MS + 10)
    coordinator_partition_at(log_dir, 0, made)
    for time, offset in ((9, -1), (10, 1), (11, 2), (100, 3)):
        with serving(log_dir, at_ms=BASE_TIME_MS + time) as server, KafkaClient(server.server.address) as client:
            topics = [{"name": "orders", "partitionIndexes": [0]}]
            found = client.ask("OffsetFetch", 8, groups=[{"groupId": "g", "topics": topics}])["groups"][0]
            assert found["topics"][0]["partitions"][0]["committedOffset"] == offset
