"""The server of `serve` with a client of its own: fetches, offsets, damage, commits, and logs that change meanwhile."""

import shutil
import socket
import struct
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.coordinator_logs import commit as commit_of
from tests.support.coordinator_logs import commit_key, commits, coordinator_partition_at
from tests.support.kafka_client import KafkaClient
from tests.support.logs import BASE_TIME_MS, R, batch_v2, message, producer_snapshot
from tests.support.product import Context, ExitCode, ServeOptions, Serving, lower_limit, replace_point
from tests.support.serving import serving

OUT_OF_RANGE, CORRUPT, UNKNOWN_TOPIC, SESSION_UNKNOWN, FENCED, NEWER, READ_ONLY = 1, 2, 3, 70, 74, 75, 29
COUNT = 5


def records(first, count=COUNT, size=5):
    return [R(first + i, BASE_TIME_MS + first + i, b"k", b"v" * size) for i in range(count)]


def write_segment(folder, base, parts):
    (folder / f"{base:020d}.log").write_bytes(b"".join(parts))


def batches(first, number, size=5):
    return [batch_v2(records(first + COUNT * i, size=size)) for i in range(number)]


@pytest.fixture
def log_dir(tmp_path):
    """orders-0 with two segments of three batches each."""
    folder = tmp_path / "logs" / "orders-0"
    folder.mkdir(parents=True)
    write_segment(folder, 0, batches(0, 3))
    write_segment(folder, 15, batches(15, 3))
    (folder / "leader-epoch-checkpoint").write_text("0\n2\n1 0\n4 10\n")
    return tmp_path / "logs"


def fetch(client, offset, version=12, most=1 << 20, topic="orders", **more):
    asked = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": most, **more.pop("of_partition", {})}
    whole = {"maxWaitMs": 0, "minBytes": 0, "maxBytes": 1 << 20, **more}
    return client.ask("Fetch", version, **whole, topics=[{"topic": topic, "partitions": [asked]}])


def partition(response):
    return response["responses"][0]["partitions"][0]


def file_bytes(log_dir, base, start=0, end=None):
    return (log_dir / "orders-0" / f"{base:020d}.log").read_bytes()[start:end]


def test_batches_are_sent_as_they_are(log_dir):
    size = len(batches(0, 1)[0])
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        for version in range(4, 13):
            found = partition(fetch(client, 0, version))
            assert (found["errorCode"], found["highWatermark"]) == (0, 30)
            assert found["records"] == file_bytes(log_dir, 0)
        assert partition(fetch(client, 7))["records"] == file_bytes(log_dir, 0, size)
        assert partition(fetch(client, 7, most=size))["records"] == file_bytes(log_dir, 0, size, 2 * size)
        assert partition(fetch(client, 7, most=2 * size - 1))["records"] == file_bytes(log_dir, 0, size, 2 * size)
        assert partition(fetch(client, 7, most=1))["records"] == file_bytes(log_dir, 0, size, 2 * size)
        assert partition(fetch(client, 15))["records"] == file_bytes(log_dir, 15)
        assert partition(fetch(client, 30))["records"] == b""
        assert partition(fetch(client, 31))["errorCode"] == OUT_OF_RANGE
        assert partition(fetch(client, 0, topic="none"))["errorCode"] == UNKNOWN_TOPIC


def test_the_directory_of_a_partition_is_served_alone(log_dir):
    for name in ("orders-1", "payments-0"):
        shutil.copytree(log_dir / "orders-0", log_dir / name)
    with serving(log_dir / "orders-0") as server, KafkaClient(server.server.address) as client:
        found = client.ask("Metadata", 9, topics=None)["topics"]
        assert [(topic["name"], [one["partitionIndex"] for one in topic["partitions"]]) for topic in found] == [
            ("orders", [0])
        ]
        assert partition(fetch(client, 0))["records"] == file_bytes(log_dir, 0)


def one_large_log(log_dir):
    """Replace the segments by one of 600 batches; return its bytes, which are read in seven parts."""
    whole = b"".join(batches(0, 600, size=1000))
    (log_dir / "orders-0" / f"{0:020d}.log").write_bytes(whole)
    (log_dir / "orders-0" / f"{15:020d}.log").unlink()
    return whole


def test_small_batches_are_read_ahead_as_far_as_the_next_response_needs(log_dir):
    whole = one_large_log(log_dir)
    size, most = len(whole) // 600, 1 << 20
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        sent = len(partition(fetch(client, 0, most=most))["records"])
        until = time.monotonic() + 120
        while server.catalog.find("orders", 0).own.map(0)._at < sent + most - size:
            assert time.monotonic() < until
            time.sleep(0.01)


@pytest.mark.parametrize("is_stopped_cleanly", [True, False])
def test_a_log_with_a_snapshot_at_its_end_is_not_read_for_open_transactions(log_dir, monkeypatch, is_stopped_cleanly):
    """A first fetch with read_committed would wait until the whole last segment is read."""
    whole = one_large_log(log_dir)
    if is_stopped_cleanly:
        (log_dir / "orders-0" / f"{3000:020d}.snapshot").write_bytes(producer_snapshot([]))
    with serving(log_dir) as server:
        served = server.catalog.find("orders", 0)
        log = server.catalog.fs.open_file(served.segments[0].log.path)
        read_into, reached = log.read_into, [0]

        def read_and_note(position, buffer):
            reached.append(position + len(buffer))
            return read_into(position, buffer)

        monkeypatch.setattr(log, "read_into", read_and_note)
        assert served.last_stable_offset == 3000
        assert (max(reached) < len(whole)) == is_stopped_cleanly


@pytest.mark.skipif(sys.platform != "linux", reason="the count of packets is Linux's")
def test_a_response_comes_in_one_packet(log_dir):
    """The header, the records and the fields after them: a client would wake up for each packet.

    Linux sends the first part of a response after 200 ms without the rest. A busy machine may take as long, but not five
    times in turn.
    """
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        for offset in (0, 5, 15, 0, 20):
            assert 1 in (packets_of_a_fetch(client, offset) for _ in range(5))


def packets_of_a_fetch(client, offset):
    before = packets(client)
    assert partition(fetch(client, offset))["records"]
    return packets(client) - before


def packets(client):
    """The number of packets with data that came: tcpi_data_segs_in of Linux's struct tcp_info."""
    return struct.unpack_from("=I", client.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 160), 152)[0]


def test_only_the_first_batch_may_be_too_large(log_dir):
    size = len(batches(0, 1)[0])
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        for of_partition, most, wanted in ((1, 1, [1, 0]), (size, 2 * size - 1, [1, 0]), (size, 2 * size, [1, 1])):
            both = [{"partition": 0, "fetchOffset": at, "partitionMaxBytes": of_partition} for at in (0, 5)]
            topics = [{"topic": "orders", "partitions": both}]
            found = client.ask("Fetch", 11, maxWaitMs=0, minBytes=0, maxBytes=most, topics=topics)
            assert [len(one["records"]) // size for one in found["responses"][0]["partitions"]] == wanted


def test_fetch_refuses_unknown_sessions_and_fenced_or_newer_leader_epochs(log_dir):
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        assert fetch(client, 0, sessionId=7, sessionEpoch=1)["errorCode"] == SESSION_UNKNOWN
        assert fetch(client, 0, sessionEpoch=0)["sessionId"] == 0
        for epoch, error in ((-1, 0), (4, 0), (3, FENCED), (5, NEWER)):
            assert partition(fetch(client, 0, of_partition={"currentLeaderEpoch": epoch}))["errorCode"] == error
        asked = [{"partition": 0, "currentLeaderEpoch": 4, "leaderEpoch": epoch} for epoch in (0, 1, 3, 4, 5)]
        found = client.ask("OffsetForLeaderEpoch", 4, topics=[{"topic": "orders", "partitions": asked}])
        ends = [(one["leaderEpoch"], one["endOffset"]) for one in found["topics"][0]["partitions"]]
        assert ends == [(0, 0), (1, 10), (1, 10), (4, 30), (-1, -1)]


EPOCHS = [
    ("2\n1 20\n2 5\n", 0, 2, {1: (1, 5)}),  # an entry that does not ascend drops those before it
    ("2\n1 0\n4 30\n", 0, 4, {1: (1, 30), 4: (4, 30)}),
    ("2\n1 0\n4 31\n", 0, 1, {1: (1, 30), 4: (-1, -1)}),
    ("3\n1 0\n2 10\n4 20\n", 15, 4, {1: (1, 15), 2: (2, 20)}),  # the log start cuts epochs
    ("1\n-1 0\n", 0, 0, {0: (-1, -1)}),
]


@pytest.mark.parametrize(("lines", "start", "latest", "ends"), EPOCHS)
def test_leader_epochs_are_those_that_a_broker_loads(log_dir, lines, start, latest, ends):
    (log_dir / "orders-0" / "leader-epoch-checkpoint").write_text(f"0\n{lines}")
    (log_dir / "log-start-offset-checkpoint").write_text(f"0\n1\norders 0 {start}\n")
    asked = [{"partition": 0, "leaderEpoch": epoch} for epoch in ends]
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        (topic,) = client.ask("Metadata", 9, topics=None)["topics"]
        assert topic["partitions"][0]["leaderEpoch"] == latest
        (topic,) = client.ask("OffsetForLeaderEpoch", 4, topics=[{"topic": "orders", "partitions": asked}])["topics"]
        found = [(one["leaderEpoch"], one["endOffset"]) for one in topic["partitions"]]
        assert found == [*ends.values()]


def test_a_response_with_enough_bytes_does_not_wait(log_dir):
    size = len(batches(0, 1)[0])
    with serving(log_dir) as server, KafkaClient(server.server.address, timeout=25) as client:
        found = fetch(client, 0, most=size, minBytes=size, maxWaitMs=30_000)
        assert partition(found)["records"] == file_bytes(log_dir, 0, 0, size)


def test_serve_refuses_commits_with_too_long_metadata_or_an_unknown_partition(log_dir):
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        assert [commit(client, "g", 11, committedMetadata="m" * size) for size in (4096, 4097)] == [0, 12]
        found = [commit(client, "g", 11, partitionIndex=number) for number in (-1, 0, 1)]
        assert found == [UNKNOWN_TOPIC, 0, UNKNOWN_TOPIC]


def test_serve_keeps_as_many_commits_as_the_limit(log_dir, monkeypatch):
    lower_limit(monkeypatch, "offsets that serve holds", 2)
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        assert [commit(client, group, 1) for group in "abc"] == [0, 0, 16]


def test_serve_finds_offsets_by_time_and_special_timestamps(log_dir):
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:

        def offset(timestamp, version=10):
            asked = [{"partitionIndex": 0, "timestamp": timestamp}]
            topics = [{"name": "orders", "partitions": asked}]
            (one,) = client.ask("ListOffsets", version, topics=topics)["topics"][0]["partitions"]
            return one["errorCode"], one["offset"], one["leaderEpoch"]

        assert [offset(-1, version) for version in (4, 7, 10)] == [(0, 30, 4)] * 3
        assert offset(-2) == offset(-4) == (0, 0, 1)
        assert offset(-3) == (0, 29, 4)
        assert offset(BASE_TIME_MS + 12) == (0, 12, 4)
        assert offset(BASE_TIME_MS + 30) == offset(-5) == (0, -1, -1)
        assert offset(-3, 6) == offset(-6, 10) == (35, -1, -1)
        assert offset(-6, 11) == (0, -1, -1)  # nothing is uploaded, as without tiered storage


def test_served_records_end_before_a_given_batch(log_dir):
    with serving(log_dir) as server:
        part = server.catalog.find("orders", 0).records(0, 30, 1 << 20, first_is_whole=True)
        found = [part.before(lambda batch, at=at: batch.base_offset >= at) for at in (5, 10, 15)]
        assert [(one.size_bytes, one.next_offset) for one in found] == [
            (part.size_bytes * n // 3, COUNT * n) for n in (1, 2, 3)
        ]


def test_of_equal_timestamps_the_first_record_is_the_latest(tmp_path):
    (tmp_path / "orders-0").mkdir()
    for base in (0, 10):
        write_segment(tmp_path / "orders-0", base, [batch_v2([R(base, 7, b"k")]), batch_v2([R(base + 1, 7, b"k")])])
    with serving(tmp_path) as server:
        assert server.catalog.find("orders", 0).latest().record_offset == 0


def test_without_timestamps_no_record_is_the_latest(tmp_path):
    (tmp_path / "orders-0").mkdir()
    write_segment(tmp_path / "orders-0", 0, [message(R(at, -1, b"k", b"v"), 0) for at in range(3)])
    with serving(tmp_path) as server:
        assert server.catalog.find("orders", 0).latest() is None


def damage(log_dir, base, position):
    path = log_dir / "orders-0" / f"{base:020d}.log"
    data = bytearray(path.read_bytes())
    data[position] ^= 0x20
    path.write_bytes(data)


def test_a_damaged_batch_is_an_error_or_skipped_and_never_sent(log_dir):
    size = len(batches(0, 1)[0])
    damage(log_dir, 0, size + 70)  # the batch of offsets 5 to 9
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        assert partition(fetch(client, 0))["records"] == file_bytes(log_dir, 0, 0, size)
        assert [partition(fetch(client, offset))["errorCode"] for offset in (5, 9, 10)] == [CORRUPT, CORRUPT, 0]
        assert [note.exit_code for note in server.notes] == [ExitCode.CORRUPTION]
    with serving(log_dir, on_damage="skip") as server, KafkaClient(server.server.address) as client:
        assert partition(fetch(client, 0))["records"] == file_bytes(log_dir, 0, 0, size)
        assert partition(fetch(client, 5))["records"] == file_bytes(log_dir, 0, 2 * size)
        assert "are skipped" in server.notes[0].message


def test_serve_ends_a_log_before_damage_at_its_end(log_dir):
    size = len(batches(0, 1)[0])
    damage(log_dir, 15, 2 * size + 70)
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        assert partition(fetch(client, 25))["errorCode"] == CORRUPT
    with serving(log_dir, on_damage="skip") as server, KafkaClient(server.server.address) as client:
        assert (partition(fetch(client, 25))["highWatermark"], partition(fetch(client, 25))["records"]) == (25, b"")


def test_a_torn_end_is_no_error(log_dir):
    path = log_dir / "orders-0" / f"{15:020d}.log"
    path.write_bytes(path.read_bytes()[:-3])
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        found = partition(fetch(client, 25))
        assert (found["errorCode"], found["highWatermark"], found["records"]) == (0, 25, b"")


def test_the_view_stays_when_files_are_removed_replaced_and_extended(log_dir):
    first, last = file_bytes(log_dir, 0), file_bytes(log_dir, 15)
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        folder = log_dir / "orders-0"
        with (folder / f"{15:020d}.log").open("ab") as log:
            log.write(batches(30, 1)[0])
        (folder / f"{0:020d}.log").unlink()
        other = folder / "new"
        other.write_bytes(batches(0, 1, size=50)[0])
        other.rename(folder / f"{0:020d}.log")
        assert partition(fetch(client, 0))["records"] == first
        assert partition(fetch(client, 15))["records"] == last
        shutil.rmtree(log_dir)
        assert partition(fetch(client, 0))["records"] == first


def test_the_best_of_two_copies_is_served(log_dir, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(log_dir, other)
    (other / "orders-0" / f"{15:020d}.log").unlink()
    write_segment(other / "orders-0", 15, batches(15, 5))
    with serving(log_dir, other) as server, KafkaClient(server.server.address) as client:
        assert partition(fetch(client, 0))["highWatermark"] == 40


def test_serve_refuses_to_produce(log_dir):
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        sent = [{"index": 0, "records": batches(30, 1)[0]}]
        found = client.ask("Produce", 9, acks=1, timeoutMs=1, topicData=[{"name": "orders", "partitionData": sent}])
        assert found["responses"][0]["partitionResponses"][0]["errorCode"] == READ_ONLY


def commit(client, group, offset, **more):
    one = {"partitionIndex": 0, "committedOffset": offset, "committedMetadata": "m", **more}
    topics = [{"name": "orders", "partitions": [one]}]
    found = client.ask("OffsetCommit", 8, groupId=group, generationIdOrMemberEpoch=-1, topics=topics)
    return found["topics"][0]["partitions"][0]["errorCode"]


def committed(client, group):
    found = client.ask("OffsetFetch", 8, groups=[{"groupId": group, "topics": None}])["groups"][0]
    return [(one["name"], [p["committedOffset"] for p in one["partitions"]]) for one in found["topics"]]


def test_damage_in_the_committed_offsets_is_reported(log_dir):
    made = commits(*[(commit_key("g"), commit_of(offset)) for offset in (1, 2)])
    made[1] = made[1][:-1] + b"\xff"
    coordinator_partition_at(log_dir, 0, made)
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        assert committed(client, "g") == [("orders", [1])]
        (note,) = server.notes
        assert ("__consumer_offsets-0" in note.path, note.exit_code) == (True, ExitCode.WARNINGS)  # a damaged tail


def test_one_thread_decodes_records_at_a_time(log_dir, monkeypatch):
    """Four clients that asked by time, and the load of offsets, took 727 MiB where each met a record of 100 MiB."""
    coordinator_partition_at(log_dir, 0, commits((commit_key("g"), commit_of(3))))
    working, most = [], []

    def slowed(method):
        def work(*arguments):
            working.append(1)
            most.append(len(working))
            time.sleep(0.05)
            found = method(*arguments)
            working.pop()
            return found

        return work

    for name in (
        "search for the first record of a time", "search for the latest record", "load of a coordinator's topic"
    ):  # fmt: skip
        replace_point(monkeypatch, name, slowed)
    options = ServeOptions([str(log_dir)], port=0)
    with Serving(Context(), options, print) as server, ThreadPoolExecutor(4) as threads:
        served = server.catalog.find("orders", 0)
        found = list(threads.map(lambda n: served.latest() if n % 2 else served.first_at(BASE_TIME_MS + 7), range(8)))
    assert [one.record_offset for one in found] == [7, 29] * 4
    assert (max(most), len(most) >= 13) == (1, True)
