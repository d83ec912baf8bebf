"""Clients of Kafka 0.7 (prozess) and 0.8 (the SimpleConsumer of 0.8.2.2) on the listener of `serve --old-clients`."""

import os
import struct

import pytest

from tests.kafka.client_programs import by_kafka_08, by_prozess
from tests.kafka.real_kafka import NoRealKafka
from tests.support.serving import read_records, serving

pytestmark = pytest.mark.full

FORMAT_0 = ["v0-none", "v0-gzip", "v0-snappy", "v0-mixed", "py09-none", "py09-gzip", "py09-snappy"]
"""The topics of message format 0 without LZ4, which came with 0.8.2 and is not in its SimpleConsumer."""


def old_client(client, *words):
    try:
        return client(*words)
    except NoRealKafka as reason:
        pytest.skip(str(reason))


def old_address(server):
    return server.server.addresses[1]


@pytest.mark.parametrize("topic", FORMAT_0)
def test_the_simple_consumer_reads_all_records_of_format_0(corpus, topic):
    log_dir = corpus / "v0" / "data"
    with serving(log_dir, old_clients_port=0) as server:
        _, found, error = old_client(by_kafka_08, old_address(server), topic, 0, 65536, -1)
    assert {0: found} == read_records(log_dir, topic)
    assert not error


def test_records_of_a_newer_format_are_refused_where_they_begin(corpus):
    """The log has batches of formats 0, 1 and 2: the SimpleConsumer gets the first, then UNSUPPORTED_VERSION."""
    log_dir = corpus / "upgraded" / "data"
    wanted = read_records(log_dir, "upgraded")[0]
    with serving(log_dir, old_clients_port=0) as server:
        _, found, error = old_client(by_kafka_08, old_address(server), "upgraded", 0, 1 << 20, -1)
    assert found == wanted[: len(found)]
    assert 0 < len(found) < len(wanted)
    assert error == f"error 35 at {wanted[len(found)][0]}"


@pytest.mark.parametrize("size", [100, 4000])
def test_an_old_client_gets_a_compressed_batch_whole(corpus, size):
    """A broker of 0.8 would send a part of the first batch, which its client cannot read."""
    log_dir = corpus / "v0" / "data"
    with serving(log_dir, old_clients_port=0) as server:
        _, found, _ = old_client(by_kafka_08, old_address(server), "v0-mixed", 0, size, -1)
    assert {0: found} == read_records(log_dir, "v0-mixed")


def test_an_old_client_gets_offsets_before_a_time_by_file_times(corpus, tmp_path):
    """Offsets before a time are the starts of segments by the times of their files, and the end of the log is now."""
    folder = corpus / "compact-old" / "before" / "cmp-v0-0"
    logs = sorted(folder.glob("*.log"))
    starts = [int(log.stem) for log in logs]
    for number, log in enumerate(logs):
        os.utime(log, (1_000_000 * (number + 1),) * 2)
    end = read_records(folder.parent, "cmp-v0")[0][-1][0] + 1
    with serving(folder.parent, old_clients_port=0) as server:
        ask = (by_kafka_08, old_address(server), "cmp-v0", 0, 65536)
        assert old_client(*ask, -1)[0] == [end, *reversed(starts)]
        assert old_client(*ask, -2)[0] == [starts[0]]
        assert old_client(*ask, 2_000_000_000)[0] == [*reversed(starts[:2])]
        assert old_client(*ask, 999_999_999)[0] == []


def messages_of(folder):
    """[(codec, payload)] of the messages in 0.7's files of a partition, by their layout."""
    found = []
    for path in sorted(folder.glob("*.kafka")):
        data, at = path.read_bytes(), 0
        while at < len(data):
            size, magic = struct.unpack_from(">ib", data, at)
            payload = at + 4 + (6 if magic else 5)
            found.append((data[at + 5] & 3 if magic else 0, data[payload : at + 4 + size]))
            at += 4 + size
    return found


@pytest.mark.parametrize("topic", ["prozess", "m1", "gzip", "gzip-nested", "snappy-raw", "snappy-xerial"])
def test_prozess_reads_all_messages(corpus, topic):
    """prozess adds up the sizes of messages of magic 1 only; it does not decompress."""
    folder = corpus / "format-0.7" / "data" / f"{topic}-0"
    wanted = messages_of(folder)
    with serving(folder, old_clients_port=0) as server:
        bounds, found = old_client(by_prozess, old_address(server), topic)
    assert bounds == [sum(path.stat().st_size for path in folder.glob("*.kafka")), 0]
    assert found == [(True, *one) for one in wanted]
    assert wanted
