"""`stats` against a twin that decodes every record."""

import io
import json
import random
from collections import Counter

import pytest

import kafkalog_cli as kl
from tests.model.test_find import numbered, partition, some_logs
from tests.support.commands import json_of, kafkalog
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.naive_reader import read_batches, read_records
from tests.support.product import Environment, lower_limit, run

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
CONTROL = 0x20


def measured(files, *options):
    """Objects of a run by (scope, topic, partition), and its exit code."""
    out, err = io.BytesIO(), io.BytesIO()
    environment = Environment(out, err, FaultyFilesystem(files))
    code = run(["stats", "/logs", "--format", "json", *options], environment)
    assert not err.getvalue()
    *found, summary = [json.loads(line) for line in out.getvalue().splitlines()]
    assert summary["exit_code"] == code
    return {(one["scope"], one["topic"], one["partition"]): one for one in found}, code


def counted(segments):
    """What a twin counts in the bytes of the segments of one partition."""
    batches = [(data, batch) for data in segments for batch in read_batches(data)]
    data = [(part, batch) for part, batch in batches if not (batch.magic >= 2 and batch.attributes & CONTROL)]
    records = [(record, batch) for part, batch in data for record in read_records(part, batch)]
    keys = Counter(record.key for record, _ in records if record.key is not None)
    times = [record.timestamp for record, _ in records if record.timestamp != -1]
    codecs = {}
    for part, batch in batches:
        known = codecs.setdefault(CODECS[batch.attributes & 7], [0, 0, 0])
        known[0] += 1
        known[1] += batch.size_bytes
        if not (batch.magic >= 2 and batch.attributes & CONTROL):
            known[2] += sum(len(record.key or b"") + len(record.value or b"") for record in read_records(part, batch))
    producers = Counter()
    for _, batch in data:
        if batch.magic >= 2 and batch.producer_id >= 0:
            producers[batch.producer_id] += batch.records_count
    sizes = sorted((len(record.key or b"") + len(record.value or b"") for record, _ in records), reverse=True)
    return {
        "bytes": sum(map(len, segments)),
        "raw_bytes": sum(sizes),
        "batches": len(batches),
        "records": len(records),
        "control_records": len(batches) - len(data),
        "codecs": codecs,
        "smallest_batch_bytes": min(batch.size_bytes for _, batch in batches),
        "largest_batch_bytes": max(batch.size_bytes for _, batch in batches),
        "keys": len(keys),
        "null_keys": sum(record.key is None for record, _ in records),
        "duplicates": sum(keys.values()) - len(keys),
        "tombstones": sum(record.key is not None and record.value is None for record, _ in records),
        "frequent": sorted(keys.values(), reverse=True)[:3],
        "producers": dict(producers),
        "first_timestamp_ms": min(times, default=None),
        "last_timestamp_ms": max(times, default=None),
        "out_of_order": sum(time < max(times[: at + 1]) for at, time in enumerate(times)),
        "largest": sizes[:3],
        "over_time": Counter(time // 1000 * 1000 for time in times),
    }


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(20))
def test_stats_of_random_logs_counts_what_a_decoder_of_everything_counts(seed, evidence):
    generator, logs_measured = random.Random(seed), 0
    for _ in range(5):
        files, logs = some_logs(generator, "/logs")
        found, code = measured(
            files, "--top", "3", "--jobs", generator.choice("12")
        )  # fmt: skip
        assert code == 0
        sums = Counter()
        for path, segments in logs.items():
            topic, _, number = path.rpartition("/")[2].rpartition("-")
            got, wanted = found["partition", topic, int(number)], counted(segments)
            codecs = {one["codec"]: [one["batches"], one["bytes"], one["raw_bytes"]] for one in got["codecs"]}
            assert codecs == wanted.pop("codecs")
            assert [one["records"] for one in got["frequent_keys"]] == wanted.pop("frequent")
            assert [one["bytes"] for one in got["largest_records"]] == wanted.pop("largest")
            producers = wanted.pop("producers")
            assert got["producers"] == len(producers)
            top = {one["producer_id"]: one["records"] for one in got["top_producers"]}
            assert top == producers
            assert {one["start_ms"]: one["records"] for one in got["over_time"]} == wanted.pop("over_time")
            assert {name: got[name] for name in wanted} == wanted
            for name in (
                "bytes",
                "raw_bytes",
                "batches",
                "records",
                "keys",
                "duplicates",
                "tombstones",
                "out_of_order",
            ):
                sums[topic, name] += got[name]
                sums[None, name] += got[name]
            logs_measured += 1
        for (topic, name), total in sums.items():
            scope = "total" if topic is None else "topic"
            assert found[scope, topic, None][name] == total
    evidence("R56b", logs_measured, 20)


def test_a_producer_of_several_partitions_counts_once_and_the_text_says_how_keys_count(tmp_path):
    for number in range(2):
        folder = tmp_path / "logs" / f"t-{number}"
        folder.mkdir(parents=True)
        records = [R(at, BASE_TIME_MS + at, b"key", b"v") for at in range(2)]
        batches = [batch_v2(records, producer=(7, 0, 0))]
        batches.append(batch_v2([R(2, BASE_TIME_MS, b"key", b"v")], producer=(8 + number, 0, 0)))
        (folder / f"{0:020d}.log").write_bytes(b"".join(batches))
    code, out, _ = kafkalog("stats", tmp_path / "logs", "--format", "json")
    found = {one["scope"]: one for one in map(json.loads, out.splitlines()) if one["type"] == "stats"}
    assert (code, found["partition"]["producers"], found["topic"]["producers"], found["total"]["producers"]) == (
        0,
        2,
        3,
        3,
    )
    text = kafkalog("stats", tmp_path / "logs").out
    assert "keys: counted per partition and added up" in text
    assert "counted per partition" not in kafkalog("stats", tmp_path / "logs" / "t-0").out


@pytest.mark.parametrize("most", [2, 3])
def test_producers_are_counted_one_by_one_up_to_a_limit(tmp_path, monkeypatch, most):
    batches = [batch_v2([R(at, BASE_TIME_MS, None, b"v")], producer=(at % 3, 0, at)) for at in range(6)]
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(b"".join(batches))
    lower_limit(monkeypatch, "producers that stats counts one by one", most)
    found = json_of("stats", tmp_path / "t-0")[1][0]
    assert (found["producers"], found["more_producers"], found["records"]) == (most, most < 3, 6)


def test_frequent_keys_are_printed_in_their_format(tmp_path):
    folder = tmp_path / "t-0"
    folder.mkdir()
    keys = [(42).to_bytes(8, "big"), (42).to_bytes(8, "big"), b"other"]
    records = [R(at, BASE_TIME_MS + at, key, b"v") for at, key in enumerate(keys)]
    (folder / f"{0:020d}.log").write_bytes(batch_v2(records))
    out = kafkalog("stats", folder, "--key-format", "long").out
    assert "  42: 2 records" in out
    assert "  other: 1 record" in out


def test_stats_prints_sizes_counts_and_times_as_text(tmp_path):
    partition(tmp_path, [numbered(0, 50, 4), numbered(50, 1)])
    partition(
        tmp_path, [(batch_v2([R(0, BASE_TIME_MS, b"\x1b[1m", None), R(1, BASE_TIME_MS + 9000, b"")]), 1)], "odd-0"
    )
    code, out, err = kafkalog("stats", tmp_path)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in lines[:4]] == ["TOPIC", "orders", "odd", "total"]
    lines = kafkalog("stats", tmp_path, "--topic", "odd")[1].splitlines()
    assert "  odd-0:0  4 bytes, 2023-11-14T22:13:20.000Z" in lines
    assert "  \\x1b[1m: 1 record, 4 bytes" in lines
    assert "  (empty): 1 record, 0 bytes" in lines
    assert f"  |█{' ' * 58}█|" in lines
    code, out, _ = kafkalog("stats", tmp_path / "orders-0", "--partitions", "--top", "1")
    assert [line.split()[0] for line in out.splitlines()[:2]] == ["PARTITION", "orders-0"]
    assert "total" not in out
    assert kafkalog("stats", tmp_path / "none")[0] == 10
    assert kafkalog("stats", tmp_path, "--top", "0")[0] == 2


def test_keys_of_several_partitions_are_added_up(tmp_path):
    for number in range(3):
        keys = [b"own-%d" % number] * 3 + [b"shared"] * 2
        records = [R(n, BASE_TIME_MS, key) for n, key in enumerate(keys)]
        partition(tmp_path, [(batch_v2(records, producer=(7, number, 0)), 4)], f"orders-{number}")
    lines = kafkalog("stats", tmp_path, "--top", "1")[1].splitlines()
    assert "  shared: 6 records, 36 bytes" in lines
    assert lines[-1] == "  7: 15 records in 3 batches, 1 epoch"


def test_stats_of_an_empty_log_prints_zeros(tmp_path):
    partition(tmp_path, [])
    code, out, err = kafkalog("stats", tmp_path)
    assert (code, err) == (0, "")
    assert out.splitlines()[1].split()[:6] == ["orders", "1", "0", "bytes", "0", "bytes"]


def test_damage_is_left_out_and_reported(tmp_path):
    batches = [numbered(0, 5), numbered(5, 5, 4), numbered(10, 5)]
    path = partition(tmp_path, batches) / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[len(batches[0][0]) + 70] ^= 1
    path.write_bytes(data)
    code, out, err = kafkalog("stats", tmp_path)
    assert (code, out.splitlines()[1].split()[6]) == (4, "10")
    assert "offsets 5 to 9 are not counted" in err
    with pytest.warns(kl.LogWarning, match="not counted"):
        assert kl.stats(tmp_path).results[0].contents.records == 10
    path.write_bytes(path.read_bytes()[: len(batches[0][0])] + b"\0" * 100)
    assert kafkalog("stats", tmp_path)[0] == 3


def test_periods_stay_bounded_and_lose_no_record(tmp_path):
    generator = random.Random(5)
    times = [[generator.choice([0, 10**9, 10**13]) + generator.randrange(10**8) for _ in range(500)] for _ in range(8)]
    for number, of_partition in enumerate(times):
        records = [R(at, time, b"k", b"v") for at, time in enumerate(of_partition)]
        partition(tmp_path, [(batch_v2(records), len(records) - 1)], f"t-{number}")
    (found,) = [one for one in json_of("stats", tmp_path)[1] if one.get("scope") == "total"]
    period_ms = found["period_ms"]
    assert len(found["over_time"]) <= 2048
    counts = Counter(time // period_ms * period_ms for of_partition in times for time in of_partition)
    assert {one["start_ms"]: one["records"] for one in found["over_time"]} == counts
