"""`read` of several partitions, `--merge-by-time`, `--key` and `-f`, and `lookup-time` of a topic, beside a naive twin."""

import io
import json
import random

import pytest

from tests.support.commands import Terminal
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.logs import BASE_TIME_MS, R, batch_v2, message, message_set
from tests.support.naive_consumer import consume
from tests.support.product import Environment, run

WRITINGS = [(2, 0), (2, 1), (2, 2), (2, 3), (2, 4), (1, 0), (1, 1), (1, 2), (1, 3), (0, 0), (0, 1), (0, 2), (0, 3)]
KEYS = [None, b"", b"a", b"ab", b"k\xc3\xa9y", b"\xff", b"A" * 300]


def call(files, *arguments, out=None):
    """(exit code, stdout, stderr)."""
    out, err = io.BytesIO() if out is None else out, io.BytesIO()
    fs = files if isinstance(files, FaultyFilesystem) else FaultyFilesystem(files)
    environment = Environment(out, err, fs, lambda: BASE_TIME_MS)
    code = run([*map(str, arguments)], environment)
    return code, out.getvalue(), err.getvalue().decode()


def utc(after_ms):
    """A time as messages name it; BASE_TIME_MS is 2023-11-14T22:13:20Z."""
    return f"2023-11-14T22:13:20.{after_ms:03d}Z ({BASE_TIME_MS + after_ms})"


def written(records, magic, codec):
    if magic == 2:
        return batch_v2(records, codec)
    if codec:
        return message_set(records, magic, codec)
    return b"".join(message(record, magic) for record in records)


def random_segments(rng):
    """Segments with every magic and codec; timestamps go forward mostly, and repeat."""
    offset, time, segments = rng.randrange(50), BASE_TIME_MS + rng.randrange(30), []
    for _ in range(rng.randrange(1, 4)):
        base, data = offset, b""
        for _ in range(rng.randrange(1, 5)):
            magic, codec = rng.choice(WRITINGS)
            records = []
            for _ in range(rng.choice([1, 2, 3, 40])):
                headers = [(b"h", None), (b"h", b""), (b"x", b"1")][: rng.randrange(4)] if magic == 2 else ()
                value = rng.choice([None, b"", b"%d" % rng.randrange(1000), bytes(range(256))])
                records.append(R(offset, time, rng.choice(KEYS), value, tuple(headers)))
                offset += 1
                time += rng.choice([0, 0, 1, 2, 9, -4])
            data += written(records, magic, codec)
        segments.append((base, data))
    return segments


def random_topic(rng, partitions):
    logs = {number: random_segments(rng) for number in range(partitions)}
    files = {
        f"/logs/orders-{number}/{base:020d}.log": data for number, log in logs.items() for base, data in log
    }  # fmt: skip
    return files, {number: [data for _, data in log] for number, log in logs.items()}


def kcat_line(number, record):
    """The record in the format FORMAT, as kcat prints it."""
    offset, timestamp, key, value, headers = record
    named = b",".join(name + b"=" + (b"NULL" if content is None else content) for name, content in headers)
    lengths = [-1 if content is None else len(content) for content in (key, value)]
    start = f"orders [{number}] @{offset} {timestamp} {lengths[0]} {lengths[1]} 100%".encode()
    return start + b"\t" + (key or b"") + b"|" + (value or b"") + b"|" + named + b"\x01\x0a\n"


FORMAT = r"%t [%p] @%o %T %K %S 100%%\t%k|%s|%h\x01\012\n"


def merged_naively(logs):
    """Again and again the head with the smallest timestamp; of equal ones that of the first partition."""
    left = {number: list(records) for number, records in logs.items()}
    while any(left.values()):
        number = min((one for one in left if left[one]), key=lambda one: (left[one][0][1], one))
        yield number, left[number].pop(0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(12))
def test_partitions_of_a_topic_are_read_in_turn_or_merged_as_by_the_naive_reader(seed):
    rng = random.Random(seed)
    files, logs = random_topic(rng, rng.choice([1, 2, 3, 5]))
    most = rng.choice([None, None, rng.randrange(1, 60)])
    until = rng.choice([None, BASE_TIME_MS + rng.randrange(90)])
    key = rng.choice([None, None, *(one for one in KEYS if one not in (None, b"\xff"))])
    options = ["--chunk-bytes", rng.choice([100, 1000, 1 << 20])]
    options += [] if most is None else ["--max-records", most]
    options += [] if until is None else ["--until", until]
    options += [] if key is None else ["--key", key.decode()]
    wanted = {
        number: [record for record in consume(log, until=until).records if key is None or record[2] == key]
        for number, log in logs.items()
    }
    in_turn = [(number, record) for number, records in wanted.items() for record in records]
    for order, records in (([], in_turn), (["--merge-by-time"], list(merged_naively(wanted)))):
        expected = b"".join(kcat_line(*one) for one in records[:most])
        code, out, err = call(files, "read", "/logs", "--topic", "orders", "-f", FORMAT, *options, *order)
        assert (code, out, err) == (0, expected, "")
        _, out, _ = call(files, "read", "/logs/orders-*", "--format", "json", *options, *order)
        *lines, summary = map(json.loads, out.splitlines())
        assert [(line["partition"], line["offset"]) for line in lines] == [(n, r[0]) for n, r in records[:most]]
        assert summary["records"] == len(lines)
        text = call(files, "read", "/logs", "--topic", "orders", "--print", "partition,offset", *options, *order)
        assert text[1] == b"".join(b"Partition:%d\tOffset:%d\n" % (n, r[0]) for n, r in records[:most])


def test_long_runs_of_one_partition_are_rendered_as_whole_blocks():
    files, logs = {}, {}
    for number in range(2):
        times = [BASE_TIME_MS + 1000 * (i // 300 * 2 + number) for i in range(900)]
        records = [R(i, times[i], b"%d" % i, b"v%d" % i) for i in range(900)]
        logs[number] = [b"".join(batch_v2(records[at : at + 90], 3) for at in range(0, 900, 90))]
        files[f"/logs/orders-{number}/{0:020d}.log"] = logs[number][0]
    wanted = list(merged_naively({number: consume(log).records for number, log in logs.items()}))
    code, out, _ = call(
        files, "read", "/logs", "--topic", "orders", "--merge-by-time", "--print", "partition,offset,key,value",
    )  # fmt: skip
    expected = b"".join(b"Partition:%d\tOffset:%d\t%b\t%b\n" % (n, r[0], r[2], r[3]) for n, r in wanted)
    assert (code, out) == (0, expected)


def simple(times, first=0):
    return batch_v2([R(first + i, BASE_TIME_MS + t, b"k", b"v%d" % (first + i)) for i, t in enumerate(times)])


def path(number, base=0):
    return f"/logs/orders-{number}/{base:020d}.log"


@pytest.mark.parametrize("order", [[], ["--merge-by-time"]])
def test_damage_in_one_partition_does_not_end_the_others(order):
    bad = bytearray(simple([1, 2]) + simple([3], 2))
    bad[70] ^= 1
    files = {path(0): bytes(bad), path(1): simple([4, 5]), path(2): simple([6])}
    arguments = ("read", "/logs", "--topic", "orders", "-f", "%p-%o ", *order)
    code, out, err = call(files, *arguments)
    assert (code, out) == (4, b"0-2 1-0 1-1 2-0 ")
    assert "its CRC does not match: the records of offsets 0 to 1 are left out" in err
    fs = FaultyFilesystem({path(0): simple([1, 2]), path(1): simple([4, 5]), path(2): simple([6])})
    fs.refuse_open(path(1))
    code, out, err = call(fs, *arguments)
    assert (code, out) == (5, b"0-0 0-1 2-0 ")
    assert path(1) in err
    torn = {path(0): simple([1, 2])[:-3], path(1): simple([4])}
    assert call(torn, *arguments)[:2] == (3, b"1-0 ")


def test_a_format_escapes_contents_on_a_terminal_only():
    record = R(0, BASE_TIME_MS, b"\x07k", b"\x1b[2J\xff", ((b"\x1bh", b"\r"),))
    files = {path(0): batch_v2([record])}
    arguments = ("read", "/logs/orders-0", "-f", r"%k|%s|%h|%R\n")
    assert call(files, *arguments)[1] == b"\x07k|\x1b[2J\xff|\x1bh=\r|\0\0\0\x05\n"
    shown = call(files, *arguments, out=Terminal())[1].decode()
    assert shown == "\\x07k|\\x1b[2J\ufffd|\\x1bh=\\r|\\x00\\x00\\x00\\x05\n"


def test_a_large_record_is_printed_whole_in_a_format():
    value = b"x\xc3\xa9" * 500_000
    files = {path(0): batch_v2([R(0, BASE_TIME_MS, b"k", value, ((b"h", value),)), R(1, BASE_TIME_MS, None, None)], 4)}
    wanted = b"k|" + value + b"|h=" + value + b"\n||\n"
    assert call(files, "read", "/logs/orders-0", "-f", r"%k|%s|%h\n")[:2] == (0, wanted)


def test_lookup_time_of_a_topic_in_json_with_a_partition_that_fails():
    fs = FaultyFilesystem({path(0): simple([1, 2]), path(1): simple([4, 5, 6]), path(2): simple([1])})
    fs.refuse_open(path(1))
    code, out, err = call(fs, "lookup-time", "/logs", "--topic", "orders", BASE_TIME_MS + 2, "--format", "json")
    first, second, summary = map(json.loads, out.splitlines())
    assert code == 5
    assert (first["topic"], first["partition"], first["record"]["offset"]) == ("orders", 0, 1)
    assert (second["partition"], second["offset"]) == (2, None)
    assert [summary[name] for name in ("partitions", "answers", "without", "exit_code")] == [3, 1, 1, 5]
    assert path(1) in json.loads(err.splitlines()[0])["message"]
