"""Clients read the view of the start while kafkalog's own commands change the logs under the server."""

import pytest

from tests.serve.test_serve_fetch import batches, fetch, partition
from tests.support.commands import kafkalog
from tests.support.kafka_client import KafkaClient
from tests.support.logs import BASE_TIME_MS, indexes
from tests.support.product import NotLookedUp, RealFilesystem
from tests.support.serving import serving

COUNT, STORAGE_ERROR = 5, 56
TIMES = (-3, BASE_TIME_MS + 7, BASE_TIME_MS + 33)
POLICIES = ("--config", "cleanup.policy=delete", "--config", "retention.ms=1")
COMPACT = ("--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0")
CHANGES = {
    "retain": ("retain", *POLICIES),
    "retain at once": ("retain", "--free-bytes", "1000TiB", *POLICIES),
    "compact": ("compact", *COMPACT),
    "delete-records": ("delete-records", "--before", "22", "--single-replica", *POLICIES),
    "roll": ("roll", "--force"),
}
"""Commands that change orders-0, but cut no file off; each changes the files of its directory."""


@pytest.fixture(params=[False])
def log_dir(tmp_path, request):
    """orders-0 with three segments, of which the last can have a torn end."""
    folder = tmp_path / "logs" / "orders-0"
    folder.mkdir(parents=True)
    for base in (0, 15, 30):
        made = batches(base, 3)
        index, times = indexes(
            [(one, base + COUNT * n + 4, BASE_TIME_MS + base + COUNT * n + 4) for n, one in enumerate(made)], base
        )
        torn = batches(45, 1)[0][:-3] if base == 30 and request.param else b""
        for suffix, data in ((".log", b"".join(made) + torn), (".index", index), (".timeindex", times)):
            (folder / f"{base:020d}{suffix}").write_bytes(data)
    (folder.parent / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    return folder.parent


def read(client):
    """All that a client can ask about the log: its records, bounds, and some offsets by time."""
    found, offset, data = {}, 0, b""
    while True:
        answer = partition(fetch(client, offset, most=1))
        assert answer["errorCode"] == 0, (offset, answer)
        if not answer["records"]:
            break
        data += answer["records"]
        offset += COUNT
    found["records"], found["bounds"] = data, (answer["logStartOffset"], answer["highWatermark"])
    found["times"] = [offset_at(client, time) for time in (-1, -2, *TIMES)]
    found["producers"] = client.ask("DescribeProducers", 0, topics=[{"name": "orders", "partitionIndexes": [0]}])
    return found


def offset_at(client, time):
    asked = [{"partitionIndex": 0, "timestamp": time}]
    (topic,) = client.ask("ListOffsets", 7, topics=[{"name": "orders", "partitions": asked}])["topics"]
    return topic["partitions"][0]


def files(log_dir):
    return {one.name: one.read_bytes() for one in (log_dir / "orders-0").iterdir() if one.is_file()}


@pytest.mark.parametrize("has_read", [True, False], ids=["read-before", "first-read-after"])
@pytest.mark.parametrize("words", CHANGES.values(), ids=CHANGES)
def test_a_client_reads_the_logs_of_the_start(log_dir, words, has_read):
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        wanted = read(client)
    assert len(wanted["records"]) == sum(map(len, batches(0, 9)))
    before = files(log_dir)
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        assert not has_read or read(client) == wanted
        name, *more = words
        code, out, err = kafkalog(name, str(log_dir / "orders-0"), *more)
        assert files(log_dir) != before, (code, out, err)
        assert read(client) == wanted


@pytest.mark.parametrize("to", [3, 15, 42])
@pytest.mark.parametrize("has_read", [True, False], ids=["read-before", "first-read-after"])
def test_a_segment_that_truncate_cut_off_is_an_error_and_the_others_are_served(log_dir, to, has_read):
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        wanted = read(client)
        cut = to // 15 * 15
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        assert not has_read or read(client) == wanted
        code, _, err = kafkalog("truncate", str(log_dir / "orders-0"), "--to", str(to), "--single-replica")
        assert code == 0, err
        for offset in range(0, 45, COUNT):
            found = partition(fetch(client, offset, most=1))
            if cut <= offset < cut + 15:
                assert (found["errorCode"], found["records"]) == (STORAGE_ERROR, b"")
            else:
                assert found["records"] == batches(offset, 1)[0]
        assert {offset_at(client, time)["errorCode"] for time in TIMES} == {STORAGE_ERROR}
        assert sum("another program cut it" in note.message for note in server.notes) == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("count", [1, 2, 40])
@pytest.mark.parametrize("to", [3, 15, 30, 33, 42])
@pytest.mark.parametrize("has_read", [True, False], ids=["read-before", "first-read-after"])
def test_records_that_take_the_place_of_cut_records_are_never_served(log_dir, to, has_read, count):
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        wanted = read(client)
        source = log_dir.parent / "records"
        source.write_text("other\tdata\n" * count)
        assert not has_read or read(client) == wanted
        for words in (("truncate", "--to", str(to)), ("append", str(source), "--input", "lines")):
            code, _, err = kafkalog(words[0], str(log_dir / "orders-0"), *words[1:], "--single-replica")
            assert code == 0, err
        for offset in range(0, 45, COUNT):
            found = partition(fetch(client, offset, most=1))
            is_changed = to // 15 * 15 <= offset < to // 15 * 15 + 15
            assert found["errorCode"] == (STORAGE_ERROR if is_changed else 0), (offset, found)
            assert found["records"] == (b"" if is_changed else batches(offset, 1)[0])
        assert {offset_at(client, time)["errorCode"] for time in TIMES} == {STORAGE_ERROR}
        assert sum("another program cut it" in note.message for note in server.notes) == 1


def test_a_closed_segment_that_gets_other_batches_of_the_same_size_is_not_served(log_dir):
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        log = log_dir / "orders-0" / f"{15:020d}.log"
        data = b"".join([*batches(15, 2), batches(25, 1, size=4)[0]])
        log.write_bytes(data + bytes(log.stat().st_size - len(data)))
        assert partition(fetch(client, 0, most=1))["records"] == batches(0, 1)[0]
        for offset in (15, 25):
            assert partition(fetch(client, offset, most=1))["errorCode"] == STORAGE_ERROR
        assert partition(fetch(client, 30, most=1))["records"] == batches(30, 1)[0]


@pytest.mark.parametrize("has_read", [True, False], ids=["read-before", "first-read-after"])
def test_a_last_batch_that_lost_a_byte_is_an_error(log_dir, has_read):
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        assert not has_read or partition(fetch(client, 40, most=1))["records"] == batches(40, 1)[0]
        with (log_dir / "orders-0" / f"{30:020d}.log").open("r+b") as log:
            log.truncate(log.seek(0, 2) - 1)
        assert partition(fetch(client, 40, most=1))["errorCode"] == STORAGE_ERROR


@pytest.mark.parametrize("log_dir", [True], indirect=True)
@pytest.mark.parametrize("has_read", [True, False], ids=["read-before", "first-read-after"])
def test_a_repair_changes_nothing_for_clients(log_dir, has_read):
    test_a_client_reads_the_logs_of_the_start(log_dir, ("recover",), has_read)


@pytest.mark.parametrize("has_read", [True, False])
def test_appended_records_are_served_by_the_next_server_only(log_dir, has_read):
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        wanted = read(client) if has_read else None
        source = log_dir.parent / "records"
        source.write_text("k1\tv1\nk2\tv2\n")
        words = (str(source), "--input", "lines", "--single-replica")
        code, _, err = kafkalog("append", str(log_dir / "orders-0"), *words)
        assert code == 0, err
        assert wanted is None or read(client) == wanted
        assert read(client)["bounds"] == (0, 45)
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        assert partition(fetch(client, 45))["highWatermark"] == 47


def test_a_log_whose_path_cannot_be_looked_up_is_served_from_the_open_file(log_dir, monkeypatch):
    def refuse(_, path):
        raise NotLookedUp(path=path, reason="Permission denied")

    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        monkeypatch.setattr(RealFilesystem, "status", refuse)
        for offset in range(0, 45, COUNT):
            assert partition(fetch(client, offset, most=1))["records"] == batches(offset, 1)[0]
        with (log_dir / "orders-0" / f"{30:020d}.log").open("r+b") as log:
            log.truncate(log.seek(0, 2) - 1)
        assert partition(fetch(client, 40, most=1))["errorCode"] == STORAGE_ERROR
