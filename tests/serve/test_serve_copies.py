"""Several disks with copies of a partition: where the best copy is damaged, another copy stands in."""

import random
import resource
import shutil
import time

import pytest

from tests.serve.test_serve_fetch import COUNT, records, write_segment
from tests.support.kafka_client import KafkaClient
from tests.support.logs import BASE_TIME_MS, R, batch_v2, message
from tests.support.product import Context, ExitCode, RealFilesystem, ServerLimits, Unreadable
from tests.support.serving import read_records, serving

CORRUPT = 2
SEEDS = 300
SEGMENTS = {0: 3, 15: 3, 30: 4}
"""Base offsets, and the number of batches; all offsets from 15 on are of epoch 4."""
END = 50


def epoch_at(offset):
    return 4 if offset >= 15 else 1


def made(offset, *, epoch=None, size=5):
    return batch_v2(records(offset, size=size), epoch=epoch_at(offset) if epoch is None else epoch)


def segment_batches(base):
    return [made(base + COUNT * i) for i in range(SEGMENTS[base])]


WHOLE = {offset: made(offset) for offset in range(0, END, COUNT)}


@pytest.fixture
def disks(tmp_path):
    """Three equal copies of orders-0."""
    found = [tmp_path / name for name in ("d1", "d2", "d3")]
    for disk in found:
        folder = disk / "orders-0"
        folder.mkdir(parents=True)
        for base in SEGMENTS:
            write_segment(folder, base, segment_batches(base))
        write_epochs(folder, (1, 0), (4, 15))
    return found


def write_epochs(folder, *lines):
    text = "".join(f"{epoch} {start}\n" for epoch, start in lines)
    (folder / "leader-epoch-checkpoint").write_text(f"0\n{len(lines)}\n{text}")


def log(disk, base):
    return disk / "orders-0" / f"{base:020d}.log"


def place_of(offset):
    """The segment of a batch, and its bytes there."""
    base = max(base for base in SEGMENTS if base <= offset)
    start = sum(len(WHOLE[one]) for one in range(base, offset, COUNT))
    return base, start, start + len(WHOLE[offset])


def flip(disk, offset):
    """Change a byte of a record of the batch at `offset`."""
    base, _, end = place_of(offset)
    overwrite(disk, base, end - 3, b"\xff")


def overwrite(disk, base, position, data):
    with log(disk, base).open("r+b") as file:
        file.seek(position)
        file.write(data)


def consumed(client, offset=0, most=1 << 20, isolation=0):
    """The bytes that a consumer gets, fetch after fetch, and the error at which it stops: {base offset: batch}."""
    found = {}
    while True:
        asked = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": most}
        topics = [{"topic": "orders", "partitions": [asked]}]
        whole = client.ask("Fetch", 11, maxWaitMs=0, minBytes=0, maxBytes=most, isolationLevel=isolation, topics=topics)
        (answer,) = whole["responses"][0]["partitions"]
        rest = answer["records"]
        if not rest:
            return found, answer["errorCode"]
        while rest:
            base, size = int.from_bytes(rest[:8], "big"), 12 + int.from_bytes(rest[8:12], "big")
            assert base >= offset - COUNT + 1
            found[base], rest = rest[:size], rest[size:]
            offset = base + int.from_bytes(found[base][23:27], "big") + 1


def read(*disks, on_damage="stop", most=1 << 20):
    """What a consumer of served disks gets, its last error, and the reports."""
    with serving(*disks, on_damage=on_damage) as server, KafkaClient(server.server.address) as client:
        found, error = consumed(client, most=most)
        return found, error, server.notes


@pytest.mark.parametrize("on_damage", ["stop", "skip"])
@pytest.mark.parametrize("most", [1, 200, 1 << 20])
def test_a_damaged_batch_comes_from_the_other_copy(disks, on_damage, most):
    """Of two disks with equal ends, the first was served even if it was damaged and the other was not."""
    flip(disks[0], 5)
    for served in (disks[:2], disks[1::-1]):
        found, error, notes = read(*served, on_damage=on_damage, most=most)
        assert (found, error) == (WHOLE, 0)
        if served[0] == disks[0]:
            (note,) = notes
            assert (note.path, note.exit_code) == (str(log(disks[0], 0)), ExitCode.CORRUPTION)
            start, end = place_of(5)[1:]
            assert note.message == (
                f"bytes {start} to {end} are served from {disks[1]}/orders-0: the offsets 5 to 9 have a wrong CRC"
            )


def test_each_of_three_copies_has_records_that_the_others_lost(disks):
    flip(disks[0], 5)
    flip(disks[0], 35)
    flip(disks[1], 5)
    log(disks[1], 15).unlink()
    log(disks[2], 30).write_bytes(b"".join(segment_batches(30)[:3]))  # and so it is not the best
    flip(disks[2], 35)
    for served in (disks, disks[::-1]):
        found, error, _ = read(*served)
        assert (found, error) == (WHOLE, 0)


def test_serve_reports_records_that_no_copy_has(disks):
    for disk in disks:
        flip(disk, 20)
    flip(disks[0], 0)
    found, error, notes = read(*disks)
    assert (sorted(found), error) == ([0, 5, 10, 15], CORRUPT)
    assert [f"from {disks[1]}" in note.message for note in notes] == [True, False]
    assert "consumers get the error CORRUPT_MESSAGE there: the offsets 20 to 24" in notes[1].message
    assert notes[1].message.endswith("; no other copy has these records")
    found, error, notes = read(*disks, on_damage="skip")
    assert (sorted(set(WHOLE) - set(found)), error, len(notes)) == ([20], 0, 2)


def test_two_damaged_batches_of_which_another_copy_has_one(disks):
    """With skip the consumer gets the nearest batch that any copy has."""
    for offset in (15, 20, 25, 30):
        flip(disks[0], offset)
    for offset in (15, 20):
        flip(disks[1], offset)
    flip(disks[2], 15)
    found, error, _ = read(*disks, on_damage="skip")
    assert (sorted(set(WHOLE) - set(found)), error) == ([15], 0)
    found, error, _ = read(*disks)
    assert (sorted(found), error) == ([0, 5, 10], CORRUPT)


@pytest.mark.parametrize("room", [10_000, 89])
def test_another_program_removes_the_other_copy_meanwhile(disks, room, monkeypatch):
    """Its files stay open from the start. With a low limit of open files they are opened when they are needed."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (room, room))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    flip(disks[0], 5)
    with (
        serving(*disks[:2], limits=ServerLimits(connections=22)) as server,
        KafkaClient(server.server.address) as client,
    ):
        shutil.rmtree(disks[1])
        found, error = consumed(client)
        assert (found, error) == (WHOLE, 0) if room > 89 else (sorted(found), error) == ([0], CORRUPT)
        assert len(server.notes) == 1 if room > 89 else "not served: " in server.notes[0].message


def test_a_missing_segment_comes_from_the_other_copy(disks):
    log(disks[0], 15).unlink()
    found, error, notes = read(*disks[:2])
    assert (found, error) == (WHOLE, 0)
    assert [note.message for note in notes] == [
        f"the offsets 15 to 29 are missing, and are served from {disks[1]}/orders-0"
    ]
    found, error, notes = read(disks[0])
    assert (sorted(set(WHOLE) - set(found)), error, notes) == ([15, 20, 25], 0, [])


@pytest.mark.parametrize("cut", [1, 0, -1])
def test_a_cut_segment_in_the_middle_comes_from_the_other_copy(disks, cut):
    _, _, end = place_of(20)
    with log(disks[0], 15).open("r+b") as file:
        file.truncate(end + cut)
    assert read(*disks[:2])[:2] == (WHOLE, 0)


def test_a_cut_last_segment_is_not_the_best_copy(disks):
    with log(disks[0], 30).open("r+b") as file:
        file.truncate(100)
    assert read(*disks[:2]) == (WHOLE, 0, [])


@pytest.mark.parametrize("line", ["", "0\n1\norders 0 30\n"])
def test_a_gap_of_a_compacted_topic_stays(disks, line):
    """The cleaner of the copy removed these records; those of the other copy may have been deleted since."""
    log(disks[0], 15).unlink()
    if line:
        (disks[1] / "cleaner-offset-checkpoint").write_text(line)
    found, error, _ = read(*disks[:2])
    assert (sorted(set(WHOLE) - set(found)), error) == ([15, 20, 25] if line else [], 0)


def test_offsets_that_the_other_copy_compacted_are_passed_over(disks):
    flip(disks[0], 20)
    for disk in disks:
        (disk / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 30\n")
    write_segment(disks[1] / "orders-0", 15, [made(15), made(25)])
    found, error, _ = read(*disks[:2])
    assert (sorted(set(WHOLE) - set(found)), error) == ([20], 0)


@pytest.mark.parametrize("of_other", [0, 4])
def test_a_copy_of_another_history_does_not_stand_in(disks, of_other):
    """The second disk has records of an older leader, which were never committed, at the same offsets."""
    flip(disks[0], 20)
    other = [made(15 + COUNT * i, epoch=of_other, size=6) for i in range(3)]
    write_segment(disks[1] / "orders-0", 15, other)
    write_epochs(disks[1] / "orders-0", (1, 0), (3, 15))
    found, error, notes = read(*disks[:2])
    is_same = of_other == 4  # the headers of batches decide, not the file of the other copy
    assert (
        (found[20] == other[1], error) == (True, 0) if is_same else (sorted(found), error) == ([0, 5, 10, 15], CORRUPT)
    )
    assert len(notes) == 1


def test_a_copy_that_starts_later_does_not_stand_in(disks):
    flip(disks[0], 5)
    log(disks[1], 0).unlink()
    assert read(*disks[:2])[1] == read(*disks[1::-1])[1] == CORRUPT
    found, error, _ = read(*disks[:2], on_damage="skip")
    assert (sorted(set(WHOLE) - set(found)), error) == ([5], 0)


def test_a_copy_that_starts_with_the_damaged_batch_stands_in(disks):
    flip(disks[0], 15)
    log(disks[1], 0).unlink()
    assert read(*disks[:2])[:2] == (WHOLE, 0)


def of_single_records(tmp_path, timestamp, *offsets):
    """Copies of orders-0 that have batches of one record at some offsets."""
    disks = [tmp_path / f"d{number}" for number in range(len(offsets))]
    for disk, of_disk in zip(disks, offsets, strict=True):
        (disk / "orders-0").mkdir(parents=True)
        write_epochs(disk / "orders-0", (0, 0))
        write_segment(disk / "orders-0", 0, [batch_v2([R(at, timestamp, b"k", b"v")]) for at in of_disk])
    return disks


def test_a_record_that_follows_records_that_the_other_copy_compacted(tmp_path):
    """The record is whole in this copy, which serves it."""
    disks = of_single_records(tmp_path, BASE_TIME_MS, range(5), (0, 2, 3, 4))
    size = len(batch_v2([R(0, BASE_TIME_MS, b"k", b"v")]))
    overwrite(disks[0], 0, 2 * size - 1, b"\xff")
    found, error, notes = read(*disks)
    assert (sorted(found), error, notes) == ([0, 2, 3, 4], 0, [])


def test_of_equal_timestamps_the_first_record_of_all_copies_is_the_latest(tmp_path):
    disks = of_single_records(tmp_path, 7, range(5), range(5))
    overwrite(disks[0], 0, len(batch_v2([R(0, 7, b"k", b"v")])) - 1, b"\xff")
    with serving(*disks) as server:
        assert server.catalog.find("orders", 0).latest().record_offset == 0


@pytest.mark.parametrize("on_damage", ["stop", "skip"])
def test_serve_ends_two_copies_before_damage_at_the_end(disks, on_damage):
    flip(disks[0], 40)
    flip(disks[0], 45)
    assert read(*disks[:2], on_damage=on_damage)[:2] == (WHOLE, 0)
    flip(disks[1], 45)
    found, error, _ = read(*disks[:2], on_damage=on_damage)
    assert (sorted(set(WHOLE) - set(found)), error) == ([45], 0 if on_damage == "skip" else CORRUPT)


def test_serve_reads_the_other_copy_at_each_kind_of_damage(disks):
    """A missing partition, an empty one, damaged indexes, and checkpoints of a directory that cannot be read."""
    (disks[0] / "replication-offset-checkpoint").write_text("0\n0\n")
    shutil.rmtree(disks[0] / "orders-0")
    assert read(*disks) == (WHOLE, 0, [])
    (disks[0] / "orders-0").mkdir()
    assert read(*disks) == (WHOLE, 0, [])
    for base in SEGMENTS:
        for suffix in ("index", "timeindex"):
            log(disks[1], base).with_suffix(f".{suffix}").write_bytes(random.Random(base).randbytes(120))
    assert read(*disks)[:2] == (WHOLE, 0)
    flip(disks[2], 5)
    assert read(*disks)[:2] == (WHOLE, 0)
    (disks[1] / "orders-0" / "leader-epoch-checkpoint").write_bytes(b"\xff\0")
    assert read(*disks)[:2] == (WHOLE, 0)


def test_serve_reads_the_other_copy_where_one_cannot_be_opened(disks):
    """The next copy is served, and the reason is reported once."""

    class Failing(RealFilesystem):
        def open_read(self, path):
            if path == str(log(disks[0], 15)) and failing:
                raise Unreadable(path=path, reason="Input/output error")
            return super().open_read(path)

    failing = []
    context = Context(fs=Failing())
    with serving(*disks[:2], context=context) as server, KafkaClient(server.server.address) as client:
        assert consumed(client) == (WHOLE, 0)
    failing.append(True)
    with serving(*disks[:2], context=context) as server, KafkaClient(server.server.address) as client:
        assert consumed(client) == (WHOLE, 0)
        (note,) = server.notes
        assert (note.path, note.exit_code) == (f"{disks[0]}/orders-0", ExitCode.PARTIAL)


def test_old_formats_have_no_epochs(tmp_path):
    """Below the high watermarks of both copies, replicas agree."""
    whole = [message(records(offset, 1)[0], offset % 2)[:] for offset in range(6)]
    disks = [tmp_path / name for name in ("d1", "d2")]
    for disk in disks:
        (disk / "orders-0").mkdir(parents=True)
        write_segment(disk / "orders-0", 0, [bytes(8)[:7] + bytes([n]) + one[8:] for n, one in enumerate(whole)])
        (disk / "replication-offset-checkpoint").write_text("0\n1\norders 0 4\n")
    starts = [sum(map(len, whole[:n])) for n in range(6)]
    for offset in (2, 4, 5):
        overwrite(disks[0], 0, starts[offset] + len(whole[offset]) - 2, b"\xff")
    with serving(*disks) as server, KafkaClient(server.server.address) as client:
        size = len(log(disks[1], 0).read_bytes())
        for offset, wanted in ((2, 0), (4, CORRUPT), (5, CORRUPT)):
            asked = [{"partition": 0, "fetchOffset": offset, "partitionMaxBytes": size}]
            topics = [{"topic": "orders", "partitions": asked}]
            found = client.ask("Fetch", 11, maxWaitMs=0, minBytes=0, maxBytes=size, topics=topics)
            (one,) = found["responses"][0]["partitions"]
            assert one["errorCode"] == wanted
            if not wanted:
                assert one["records"] == log(disks[1], 0).read_bytes()[starts[2] : starts[3]]


@pytest.mark.parametrize("way", ["damaged", "missing"])
def test_serve_looks_up_times_in_the_other_copy_where_one_is_damaged(disks, way):
    if way == "damaged":
        for offset in (0, 15, 20, 45):
            flip(disks[0], offset)
    else:
        log(disks[0], 15).unlink()
        flip(disks[0], 45)

    def answers(client):
        for timestamp in (BASE_TIME_MS, BASE_TIME_MS + 17, BASE_TIME_MS + 22, BASE_TIME_MS + 47, -3, -1, -2):
            asked = [{"partitionIndex": 0, "timestamp": timestamp}]
            (one,) = client.ask("ListOffsets", 10, topics=[{"name": "orders", "partitions": asked}])["topics"]
            yield one["partitions"]

    with serving(disks[1]) as server, KafkaClient(server.server.address) as client:
        wanted = list(answers(client))
    with serving(*disks[:2]) as server, KafkaClient(server.server.address) as client:
        assert list(answers(client)) == wanted


def damaged_in_turn(log_dir, folder, topic):
    """Two copies of a log directory: each second batch of a topic is damaged in one, and the others in the other."""
    disks = [folder / name for name in ("d1", "d2")]
    for number, disk in enumerate(disks):
        shutil.copytree(log_dir, disk)
        for path in disk.glob(f"{topic}-*/*.log"):
            data, at, count = bytearray(path.read_bytes()), 0, 0
            while at < len(data):
                end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
                if count % 2 == number:
                    data[end - 1] ^= 0x40
                at, count = end, count + 1
            path.write_bytes(data)
    return disks


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("topic", ["tx2", "idem"])
def test_librdkafka_reads_a_brokers_log_of_two_damaged_copies(corpus, tmp_path, topic, isolation):
    """No copy can be read alone."""
    pytest.importorskip("confluent_kafka")
    whole = corpus / "txn" / "data"
    disks = damaged_in_turn(whole, tmp_path, topic)
    wanted = read_records(whole, topic, committed=isolation == "read_committed")
    for on_damage in ("stop", "skip"):
        with serving(*disks, on_damage=on_damage) as server:
            found = with_confluent(server.bootstrap, topic, wanted, isolation)
            ends = {n: one.last_stable_offset for n, one in server.catalog.topics[topic].partitions.items()}
        assert found == wanted
        with serving(whole) as server:
            assert ends == {n: one.last_stable_offset for n, one in server.catalog.topics[topic].partitions.items()}


def with_confluent(bootstrap, topic, wanted, isolation):
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    settings = {"bootstrap.servers": bootstrap, "group.id": "g", "isolation.level": isolation, "check.crcs": True}
    consumer = Consumer(settings)
    found, left, until = {}, sum(map(len, wanted.values())), time.monotonic() + 120
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in wanted])
        while left and time.monotonic() < until:
            got = consumer.poll(1)
            if got is not None:
                assert got.error() is None, got.error()
                found.setdefault(got.partition(), []).append((got.offset(), got.key(), got.value()))
                left -= 1
    finally:
        consumer.close()
    return found


def test_of_equal_copies_the_one_that_starts_first_is_served(disks):
    log(disks[0], 0).unlink()
    assert read(*disks[:2]) == (WHOLE, 0, [])


def damaged_at_random(disk, chance):
    """Damage a copy, but not so that another copy becomes better; return the offsets of batches that stay good."""
    good = set(WHOLE)
    for _ in range(chance.randrange(4)):
        offset = chance.choice(sorted(WHOLE))
        base, start, end = place_of(offset)
        if not log(disk, base).exists() or log(disk, base).stat().st_size < end:
            continue
        match chance.randrange(5):
            case 0 if base == 15:
                log(disk, base).unlink()
                good -= {15, 20, 25}
            case 1 if base < 30:
                with log(disk, base).open("r+b") as file:
                    file.truncate(start + chance.randrange(0, 40))
                good -= set(range(offset, base + COUNT * SEGMENTS[base], COUNT))
            case 2 if offset < 45:
                overwrite(disk, base, start, bytes(end - start))
                good.discard(offset)
            case _:
                flip(disk, offset)
                good.discard(offset)
    return good


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_consumer_gets_what_any_copy_has(disks, seed, evidence):
    """With skip all batches that are good in a copy; with stop those before the first that is good in none."""
    chance = random.Random(seed)
    good = [damaged_at_random(disk, chance) for disk in disks]
    union = set.union(*good)
    most = chance.choice([1, 150, 300, 1 << 20])
    found, error, _ = read(*disks, on_damage="skip", most=most)
    assert (sorted(found), error) == (sorted(union), 0)
    assert all(found[offset] == WHOLE[offset] for offset in found)
    found, error, _ = read(*disks, most=most)
    assert set(found) <= union
    lost = sorted(set(WHOLE) - union)
    assert set(found) >= {offset for offset in union if not lost or offset < lost[0]}
    evidence("R69", 1, SEEDS)


def test_a_batch_that_does_not_fit_is_not_passed_over(tmp_path):
    """The first batch of the next segment was sent instead: the consumer lost the records before it."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    write_segment(folder, 0, [made(0, size=400), made(5, size=400)])
    write_segment(folder, 10, [made(10), made(15), made(20)])
    most = len(made(15))
    asked = [{"partition": 0, "fetchOffset": offset, "partitionMaxBytes": most} for offset in (15, 5)]
    with serving(tmp_path) as server, KafkaClient(server.server.address) as client:
        topics = [{"topic": "orders", "partitions": asked}]
        found = client.ask("Fetch", 11, maxWaitMs=0, minBytes=0, maxBytes=1 << 20, topics=topics)
        assert [one["records"] for one in found["responses"][0]["partitions"]] == [made(15), b""]
