"""R58: hostile clients of `serve`. The server stays up, refuses, and keeps no thread, descriptor or memory."""

import random
import re
import socket
import struct
import threading
import time
import tracemalloc
from pathlib import Path

import pytest

from tests.serve.test_serve_fetch import fetch, log_dir, partition  # noqa: F401 fixture
from tests.support.kafka_client import APIS, KafkaClient, request_frame, response_of
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.product import Context, ServerLimits
from tests.support.serving import serving

SECONDS = 120
MOST_REQUEST_BYTES = 1 << 20
SHARE_AND_STREAMS = [(key, 1) for key in (76, 77, 78, 79, 88, 89)]
"""ShareGroupHeartbeat, ShareGroupDescribe, ShareFetch, ShareAcknowledge, StreamsGroupHeartbeat, StreamsGroupDescribe."""


def is_well(server):
    with KafkaClient(server.server.address) as client:
        return partition(fetch(client, 0))["errorCode"] == 0


def closes(client):
    """Whether the server closes the connection, with nothing sent before."""
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("size", [-1, 0, -(2**31), 2**31 - 1, (1 << 20) + 1])
def test_serve_closes_a_connection_with_an_impossible_request_size(log_dir, size):  # noqa: F811
    with serving(log_dir) as server:
        with socket.create_connection(server.server.address, SECONDS) as client:
            client.sendall(struct.pack(">i", size) + b"x" * 100)
            assert closes(client)
        wait_until(lambda: server.notes)
        assert f"closed: a request of {size} bytes" in server.notes[0].message
        assert is_well(server)


def test_serve_answers_a_request_of_the_largest_size(log_dir):  # noqa: F811
    frame = request_frame("ApiVersions", 0, 1, {})
    after = bytes(MOST_REQUEST_BYTES + 4 - len(frame))
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        client.socket.sendall(request_frame("ApiVersions", 0, 1, {}, after=after))
        assert response_of("ApiVersions", 0, client.frame())[1]["errorCode"] == 0


def test_serve_closes_a_client_just_after_its_time_is_over(log_dir):  # noqa: F811
    """With no time left, the socket would not wait, which looks like an error of the connection."""
    options = {"limits": ServerLimits(idle_seconds=0), "context": Context(clock=lambda: 1.0)}
    with serving(log_dir, **options) as server:
        with socket.create_connection(server.server.address, SECONDS) as idle:
            assert closes(idle)
        wait_until(lambda: "kafkalog-client" not in {one.name for one in threading.enumerate()})
        assert server.notes == []


def test_an_unknown_version_of_apiversions_is_answered_with_version_0(log_dir):  # noqa: F811
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        client.socket.sendall(struct.pack(">ihhih", 10, 18, 99, 5, -1))
        correlation, found = response_of("ApiVersions", 0, client.frame())
        assert (correlation, found["errorCode"]) == (5, 35)
        served = {one["apiKey"]: (one["minVersion"], one["maxVersion"]) for one in found["apiKeys"]}
        assert served[0] == (0, 12)
        assert all(served[api.key] == tuple(api.versions) for api in APIS.values() if api.key)
        assert client.ask("ApiVersions", 3)["errorCode"] == 0


@pytest.mark.parametrize(("key", "version"), [(1, 3), (1, 18), (999, 0), (-1, 0), (3, -1), (22, 0), *SHARE_AND_STREAMS])
def test_unknown_keys_and_versions_end_the_connection(log_dir, key, version):  # noqa: F811
    with serving(log_dir) as server:
        with socket.create_connection(server.server.address, SECONDS) as client:
            client.sendall(struct.pack(">ihhih", 10, key, version, 5, -1))
            assert closes(client)
        assert is_well(server)


def test_serve_closes_idle_half_requests_and_connections_over_its_limit(log_dir):  # noqa: F811
    with serving(log_dir, limits=ServerLimits(connections=3, idle_seconds=1.0)) as server:
        held = [socket.create_connection(server.server.address, SECONDS) for _ in range(3)]
        for client in held:
            client.sendall(b"\0\0")
        with socket.create_connection(server.server.address, SECONDS) as one_more:
            assert closes(one_more)
        for client in held:
            client.close()
        wait_until(lambda: server.server.connections == 0)
        with socket.create_connection(server.server.address, SECONDS) as idle:
            assert closes(idle)
        assert is_well(server)


def test_a_client_that_comes_again_and_again_is_reported_once_a_minute(log_dir):  # noqa: F811
    """kafka-replica-verification sends Fetch 18 to every broker, again and again: 2,200 lines a minute."""
    now = [100.0]
    with serving(log_dir, context=Context(clock=lambda: now[0])) as server:

        def again(version, times):
            for _ in range(times):
                with socket.create_connection(server.server.address, SECONDS) as client:
                    client.sendall(struct.pack(">ihhih", 10, 1, version, 5, -1))
                    assert closes(client)
            wait_until(lambda: "kafkalog-client" not in {one.name for one in threading.enumerate()})

        again(18, 5)
        again(19, 2)
        now[0] += 61
        again(18, 2)
        said = [note.message.partition(" is not served ")[2] for note in server.notes]
        assert said == ["(served: v4 to v17)"] * 2 + ["(served: v4 to v17) (4 more times since the last report)"]


def test_refused_connections_are_reported(log_dir):  # noqa: F811
    with serving(log_dir, limits=ServerLimits(connections=1)) as server:
        with socket.create_connection(server.server.address, SECONDS):
            for _ in range(3):
                with socket.create_connection(server.server.address, SECONDS) as one_more:
                    assert closes(one_more)
        (note,) = server.notes
        assert note.message.endswith(" closed: more than 1 at a time (--max-connections)")


def test_a_slow_reader_does_not_stop_others(log_dir):  # noqa: F811
    with serving(log_dir) as server, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        slow.connect(server.server.address)
        asked = {"topic": "orders", "partitions": [{"fetchOffset": 0, "partitionMaxBytes": 1 << 20}] * 1000}
        frame = request_frame("Fetch", 11, 1, {"maxBytes": 1 << 30, "topics": [asked]})
        for _ in range(20):
            slow.sendall(frame)
        assert is_well(server)


REPEATED = [
    ("Metadata", 8, "topics", {"name": "orders"}),
    ("Metadata", 12, "topics", {"name": "orders"}),
    ("DescribeTopicPartitions", 0, "topics", {"name": "orders"}),
    ("DescribeProducers", 0, "topics", {"name": "orders", "partitionIndexes": [0] * 9}),
    ("DescribeTransactions", 0, "transactionalIds", "t"),
    ("DescribeGroups", 5, "groups", "g"),
    ("ConsumerGroupDescribe", 1, "groupIds", "g"),
    ("DescribeConfigs", 4, "resources", {"resourceType": 2, "resourceName": "orders", "configurationKeys": None}),
    ("OffsetFetch", 8, "groups", {"groupId": "g", "topics": None}),
]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "version", "array", "element"), REPEATED)
def test_a_thing_that_is_named_many_times_is_answered_once(log_dir, name, version, array, element):  # noqa: F811
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        once, often = (client.ask(name, version, **{array: [element] * count}) for count in (1, 20_000))
        assert once == often


def test_a_partition_that_is_asked_for_twice(log_dir):  # noqa: F811
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        topics = [{"name": "orders", "partitions": [{"partitionIndex": 0, "timestamp": 5}] * 3}]
        found = client.ask("ListOffsets", 7, topics=topics)["topics"][0]["partitions"]
        assert [one["errorCode"] for one in found] == [42, 42, 42]


def test_a_response_is_never_larger_than_its_size_can_say(tmp_path):
    folder = tmp_path / "orders-0"
    folder.mkdir()
    big = batch_v2([R(0, BASE_TIME_MS, b"k", bytes(1 << 20))])
    (folder / f"{0:020d}.log").write_bytes(big)
    asked = [{"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 2**31 - 1}] * 3000
    topics = [{"topic": "orders", "partitions": asked}]
    with serving(tmp_path) as server, KafkaClient(server.server.address) as client:
        client.socket.sendall(request_frame("Fetch", 11, 1, {"maxBytes": 2**31 - 1, "topics": topics}))
        assert 1 << 29 < struct.unpack(">i", client.exactly(4))[0] <= (1 << 30) + len(big)
        assert is_well(server)


def random_frame(chance):
    """A sound request with some bytes changed, cut or added; or bytes alone."""
    name = chance.choice([*APIS])
    version = chance.randint(*APIS[name].versions)
    frame = bytearray(request_frame(name, version, chance.randrange(99), {}))[4:]
    for _ in range(chance.randrange(4)):
        frame[chance.randrange(len(frame))] = chance.randrange(256)
    frame += chance.randbytes(chance.choice([0, 0, 1, 40]))
    if chance.random() < 0.2:
        frame = frame[: chance.randrange(1, len(frame) + 1)]
    if chance.random() < 0.1:
        frame = bytearray(chance.randbytes(chance.randrange(1, 200)))
    frame[: chance.choice([0, 0, 2])] = b""
    return bytes(frame)


def descriptors():
    return len([*Path("/dev/fd").iterdir()])


def wait_until(holds):
    until = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def send_random(address, chance, count, made=random_frame):
    """Send requests; a fetch that waits and an answer that is not read are cut short by the next connection."""
    for _ in range(count):
        with socket.create_connection(address, SECONDS) as client:
            frame = made(chance)
            client.sendall(struct.pack(">i", len(frame)) + frame)
            client.settimeout(0.02)
            try:
                client.recv(1 << 16)
            except (TimeoutError, ConnectionError):
                continue


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.full)])
def test_random_requests_leave_nothing_behind(log_dir, count, evidence):  # noqa: F811
    with serving(log_dir) as server:
        chance = random.Random(58)
        send_random(server.server.address, chance, 200)
        wait_until(lambda: server.server.connections == 0)
        threads, files = threading.active_count(), descriptors()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        send_random(server.server.address, chance, count)
        wait_until(lambda: server.server.connections == 0)
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        wait_until(lambda: threading.active_count() <= threads and descriptors() <= files)
        assert grown < 8 << 20
        assert not [note.message for note in server.notes if re.search(r"closed: \w+(Error|Exception): ", note.message)]
        assert is_well(server)
        evidence("R58", count, 2)


def test_requests_that_arrive_together_and_in_parts_are_answered_in_order(log_dir):  # noqa: F811
    """Bytes of the next requests arrive with the first. Each request is answered, in order."""
    frames = [request_frame("DescribeCluster", 0, number, {}) for number in range(5)]
    sent = b"".join(frames)
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        client.socket.sendall(sent[:-30])
        found = [response_of("DescribeCluster", 0, client.frame())[0] for _ in range(3)]
        client.socket.sendall(sent[-30:-25])
        time.sleep(0.05)
        client.socket.sendall(sent[-25:])
        found += [response_of("DescribeCluster", 0, client.frame())[0] for _ in range(2)]
        assert found == [0, 1, 2, 3, 4]
