"""The listener for clients of Kafka 0.7 and 0.8: their requests as bytes, their error codes, and random requests."""

import random
import re
import struct
import threading

import pytest

from tests.serve.test_serve_hostile import descriptors, send_random, wait_until
from tests.support.commands import kafkalog
from tests.support.kafka_client import KafkaClient
from tests.support.logs import BASE_TIME_MS, R, batch_v2, message
from tests.support.product_kafka import apis_for_old_clients
from tests.support.serving import serving

FETCH, MULTI_FETCH, OFFSETS = 1, 2, 4
REQUESTS = 2_000


def of_seven(topic, place, most, partition=0):
    """A part of a request of 0.7."""
    return struct.pack(">h", len(topic)) + topic.encode() + struct.pack(">iqi", partition, place, most)


def ask(server, kind, *parts):
    """The response to a request of 0.7, without its size."""
    count = struct.pack(">h", len(parts)) if kind == MULTI_FETCH else b""
    frame = struct.pack(">h", kind) + count + b"".join(parts)
    with KafkaClient(server.server.addresses[1]) as client:
        client.socket.sendall(struct.pack(">i", len(frame)) + frame)
        return client.frame()


def offsets(server, *words):
    found = ask(server, OFFSETS, of_seven(*words))
    error, count = struct.unpack_from(">hi", found)
    return error, [*struct.unpack(f">{count}q", found[6:])]


@pytest.fixture(scope="module")
def sevens(corpus):
    return corpus / "format-0.7" / "data"


@pytest.fixture(scope="module")
def server(sevens):
    with serving(sevens, old_clients_port=0) as found:
        yield found


def files_of(sevens, topic):
    return [path.read_bytes() for path in sorted((sevens / f"{topic}-0").glob("*.kafka"))]


def test_a_fetch_has_bytes_of_one_segment(server, sevens):
    first, second = files_of(sevens, "m1")
    assert ask(server, FETCH, of_seven("m1", 0, 1 << 20)) == b"\0\0" + first
    assert ask(server, FETCH, of_seven("m1", len(first), 1 << 20)) == b"\0\0" + second
    assert ask(server, FETCH, of_seven("m1", 0, 7)) == b"\0\0" + first[:7]
    assert ask(server, FETCH, of_seven("m1", len(first) + len(second), 100)) == b"\0\0"


def test_a_multi_fetch_has_a_response_for_each_part(server, sevens):
    log = files_of(sevens, "m1")[0]
    parts = [of_seven("m1", 0, 30), of_seven("missing", 0, 30), of_seven("m1", 30, 20)]
    sets = [struct.pack(">ih", 32, 0) + log[:30], struct.pack(">ih", 2, 3), struct.pack(">ih", 22, 0) + log[30:50]]
    assert ask(server, MULTI_FETCH, *parts) == b"\0\0" + b"".join(sets)


@pytest.mark.parametrize(
    ("part", "error"),
    [
        (of_seven("missing", 0, 9), 3),
        (of_seven("m1", 0, 9, partition=1), 3),
        (of_seven("m1", 1 << 40, 9), 1),
        (of_seven("m1", -1, 9), 1),
        *((of_seven("badcrc", place, 9), 2) for place in (162, 165, 171)),
    ],
)
def test_serve_answers_wrong_fetches_of_0_7_with_their_errors(server, part, error):
    assert ask(server, FETCH, part) == struct.pack(">h", error)


def test_serve_ends_a_fetch_of_0_7_before_damage_and_serves_what_follows_it(server, sevens):
    """The message at bytes 162 to 171 has a wrong CRC. The messages before it and after it are served."""
    (log,) = files_of(sevens, "badcrc")
    assert ask(server, FETCH, of_seven("badcrc", 0, 1 << 20)) == b"\0\0" + log[:162]
    assert ask(server, FETCH, of_seven("badcrc", 172, 1 << 20)) == b"\0\0" + log[172:]


def test_an_incomplete_message_at_the_end_is_not_served(server, sevens):
    (log,) = files_of(sevens, "torn")
    assert ask(server, FETCH, of_seven("torn", 0, 1 << 20)) == b"\0\0" + log[:542]
    assert ask(server, FETCH, of_seven("torn", 542, 1 << 20)) == b"\0\0"
    assert offsets(server, "torn", -1, 9) == (0, [542, 0])


def test_serve_answers_offsets_of_0_7_before_a_time(server):
    assert offsets(server, "m1", -1, 9) == (0, [1571, 1506, 0])
    assert offsets(server, "m1", -1, 1) == (0, [1571])
    assert offsets(server, "m1", -2, 9) == (0, [0])
    assert offsets(server, "m1", 0, 9) == (0, [])
    assert offsets(server, "m1", -1, -5) == (0, [])
    assert offsets(server, "missing", -1, 9) == (3, [])


def test_without_the_option_logs_of_0_7_are_not_served(sevens):
    code, _, errors = kafkalog("serve", str(sevens), "--port", "0", "--topic", "m1")
    assert code == 10
    assert "--old-clients PORT" in errors


def test_a_request_of_0_7_ends_a_connection_of_the_other_listener(server):
    frame = struct.pack(">h", FETCH) + of_seven("m1", 0, 100)
    with KafkaClient(server.server.address) as client:
        client.socket.sendall(struct.pack(">i", len(frame)) + frame)
        with pytest.raises(ConnectionError):
            client.frame()


@pytest.fixture
def formats(tmp_path):
    """A log with a batch of each message format."""
    folder = tmp_path / "logs" / "orders-0"
    folder.mkdir(parents=True)
    old = [message(R(magic, BASE_TIME_MS, b"k", b"v"), magic) for magic in (0, 1)]
    (folder / f"{0:020d}.log").write_bytes(b"".join(old) + batch_v2([R(2, BASE_TIME_MS, b"k", b"v")]))
    return folder.parent, old


def fetched(client, version, offset):
    """The error and the records of a fetch in an old version."""
    asked = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 1 << 20}
    topics = [{"topic": "orders", "partitions": [asked]}]
    found = client.ask("Fetch", version, replicaId=-1, maxWaitMs=0, minBytes=0, maxBytes=1 << 20, topics=topics)
    (one,) = found["responses"][0]["partitions"]
    return one["errorCode"], bytes(one["records"])


@pytest.mark.parametrize(("version", "newest"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_old_versions_of_fetch_have_old_formats_only(formats, version, newest):
    log_dir, old = formats
    with serving(log_dir, old_clients_port=0) as server:
        with KafkaClient(server.server.addresses[1], apis=apis_for_old_clients()) as client:
            assert fetched(client, version, 0) == (0, b"".join(old[: newest + 1]))
            assert fetched(client, version, newest + 1) == (35, b"")
            served = {one["apiKey"]: one["minVersion"] for one in client.ask("ApiVersions", 0)["apiKeys"]}
        with KafkaClient(server.server.address) as client:
            today = {one["apiKey"]: one["minVersion"] for one in client.ask("ApiVersions", 0)["apiKeys"]}
    assert {key: first for key, first in served.items() if first != today[key]} == {1: 0, 2: 0, 8: 0, 9: 0}


@pytest.mark.parametrize("version", [0, 1])
def test_clients_of_0_8_commit_offsets(formats, version):
    """Version 0 was for ZooKeeper: no offset is an error there, and -1 in version 1."""
    with serving(formats[0], old_clients_port=0) as server:  # noqa: SIM117
        with KafkaClient(server.server.addresses[1], apis=apis_for_old_clients()) as client:

            def fetched_offset(number=0):
                asked = [{"name": "orders", "partitionIndexes": [number]}]
                (topic,) = client.ask("OffsetFetch", version, groupId="g", topics=asked)["topics"]
                (one,) = topic["partitions"]
                return one["committedOffset"], one["metadata"], one["errorCode"]

            assert fetched_offset() == (-1, "", 0 if version else 3)
            one = {"partitionIndex": 0, "committedOffset": 2, "committedMetadata": "m"}
            more = {"commitTimestamp": BASE_TIME_MS} if version else {}
            topics = [{"name": "orders", "partitions": [{**one, **more}]}]
            found = client.ask("OffsetCommit", version, groupId="g", topics=topics)
            assert found["topics"][0]["partitions"][0]["errorCode"] == 0
            assert fetched_offset() == (2, "m", 0)


def test_a_list_of_offsets_is_cut_at_the_high_watermark(formats):
    """A broker puts the high watermark in place of all offsets above it, also where it is a segment's start."""
    log_dir, _ = formats
    (log_dir / "orders-0" / f"{3:020d}.log").write_bytes(batch_v2([R(at, BASE_TIME_MS + at, b"k") for at in (3, 4)]))
    asked = [{"partitionIndex": 0, "timestamp": -1, "maxNumOffsets": 9}]
    for watermark, wanted in ((5, [5, 3, 0]), (4, [4, 3, 0]), (3, [3, 3, 0]), (2, [2, 0])):
        (log_dir / "replication-offset-checkpoint").write_text(f"0\n1\norders 0 {watermark}\n")
        (log_dir / ".kafka_cleanshutdown").write_text('{"version": 0, "brokerEpoch": 1}')
        with (
            serving(log_dir, old_clients_port=0) as server,
            KafkaClient(server.server.addresses[1], apis=apis_for_old_clients()) as client,
        ):
            (topic,) = client.ask("ListOffsets", 0, topics=[{"name": "orders", "partitions": asked}])["topics"]
            assert topic["partitions"][0]["oldStyleOffsets"] == wanted
            by_time = [{"name": "orders", "partitions": [{"partitionIndex": 0, "timestamp": BASE_TIME_MS + 3}]}]
            (topic,) = client.ask("ListOffsets", 1, topics=by_time)["topics"]
            assert topic["partitions"][0]["offset"] == (3 if watermark > 3 else -1)


def test_a_request_of_0_8_that_looks_like_one_of_0_7_is_answered_as_0_8(server):
    """Its bytes are those of a MultiFetch of one topic without a name, and 0.7 has no such topic."""
    with KafkaClient(server.server.addresses[1], apis=apis_for_old_clients()) as client:
        assert client.ask("ListOffsets", 1, topics=[]) == {"topics": []}


def test_random_requests_leave_nothing_behind(sevens, evidence):
    with serving(sevens, old_clients_port=0) as server:
        chance = random.Random(65)
        place = server.server.addresses[1]
        send_random(place, chance, 100, seven_frame)
        wait_until(lambda: server.server.connections == 0)
        threads, files = threading.active_count(), descriptors()
        send_random(place, chance, REQUESTS, seven_frame)
        wait_until(lambda: server.server.connections == 0)
        wait_until(lambda: threading.active_count() <= threads and descriptors() <= files)
        assert not [note.message for note in server.notes if re.search(r"closed: \w+(Error|Exception): ", note.message)]
        assert offsets(server, "m1", -2, 9) == (0, [0])
        evidence("R65", REQUESTS)


def seven_frame(chance):
    """A request of 0.7 with some bytes changed, cut or added."""
    kind = chance.choice([FETCH, MULTI_FETCH, OFFSETS])
    parts = []
    for _ in range(chance.randrange(4) if kind == MULTI_FETCH else 1):
        place = chance.choice([0, -1, -2, 30, 1571, chance.randrange(2000), chance.randrange(-(2**63), 2**63)])
        topic = chance.choice(["m1", "badcrc", "torn", "gzip", "none"])
        parts.append(of_seven(topic, place, chance.choice([0, 100, 2**31 - 1, -1]), chance.choice([0, 0, 0, 7, -1])))
    count = struct.pack(">h", chance.choice([len(parts), len(parts), -1, 32767])) if kind == MULTI_FETCH else b""
    frame = bytearray(struct.pack(">h", kind) + count + b"".join(parts))
    for _ in range(chance.choice([0, 0, 1, 3])):
        frame[chance.randrange(len(frame))] = chance.randrange(256)
    if chance.random() < 0.2:
        frame = frame[: chance.randrange(1, len(frame) + 1)]
    return bytes(frame)
