"""`find` against a twin that decodes every record of the log and asks each condition of it."""

import io
import json
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog_cli as kl
from tests.support.commands import Terminal, kafkalog, stored
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.logs import BASE_TIME_MS, TRANSACTIONAL, R, batch_v2, end_marker, message, message_set, write_segment
from tests.support.naive_consumer import ABORT, COMMIT, consume
from tests.support.product import Environment, UsageError, lower_limit, run
from tests.support.strategies import logs as any_logs

WORDS = [b"", b"a", b"order", b"naive \xff\xfe", "größe".encode(), b"x" * 300, b"aab", b"order-42", b"\0\x01"]
VALUES = [*WORDS, b'{"order":{"id":42,"tags":["a","b"]}}', b'{"order":{"id":"42"}}', b"[1,[2,{}]]", b'{"id":', b"null"]
NAMES = [b"trace", b"t", "größe".encode()]


def some_records(random, offset):
    """Records with rising offsets and gaps; nulls, bytes that are not UTF-8, headers with and without values."""
    found = []
    for _ in range(random.randint(1, 6)):
        headers = tuple((random.choice(NAMES), random.choice([None, *WORDS])) for _ in range(random.randint(0, 2)))
        timestamp = BASE_TIME_MS + offset + random.choice([0, 0, -50, 1000])
        found.append(R(offset, timestamp, random.choice([None, *WORDS]), random.choice([None, *VALUES]), headers))
        offset += random.choice([1, 1, 3])
    return found


def some_batches(random, offset):
    """(bytes, end offset) of batches of any kind: the three magics, all codecs, sets, transactions and markers."""
    records = some_records(random, offset)
    end = records[-1].offset + 1
    kind = random.choice(["v2", "v2", "v2", "v1", "v0", "set", "transaction"])
    if kind == "v2":
        return batch_v2(records, random.choice([0, 0, 1, 2, 3, 4])), end
    if kind == "transaction":
        producer = (random.randint(1, 3), 0)
        data = batch_v2(records, random.choice([0, 4]), producer=(*producer, 0), bits=TRANSACTIONAL)
        return data + end_marker(end, BASE_TIME_MS, producer, random.choice([ABORT, COMMIT])), end + 1
    plain = [one._replace(headers=()) for one in records]
    magic = 0 if kind == "v0" else 1
    if kind == "set":
        dense = [one._replace(offset=offset + at) for at, one in enumerate(plain)]
        return message_set(dense, 1, random.choice([1, 2, 3])), offset + len(dense)
    return b"".join(message(one, magic) for one in plain), end


def some_logs(random, folder):
    """Files of two log directories with partitions of several segments; segments' bytes by partition's path."""
    files, logs = {}, {}
    for number, topic in ((0, "orders"), (1, "orders"), (0, "users")):
        path = f"{folder}/{topic}-{number}"
        offset, logs[path] = random.choice([0, 100]), []
        for _ in range(random.randint(1, 3)):
            base, data = offset, b""
            for _ in range(random.randint(1, 4)):
                part, offset = some_batches(random, offset)
                data += part
            files[f"{path}/{base:020d}.log"] = data
            logs[path].append(data)
    return files, logs


def some_conditions(random):
    """(options, the same as a question about (key, value, headers))."""
    options, questions = [], []
    text = random.choice([b"a", b"order", "größe".encode(), b"42", b"ORDER", b"aab", b"xxx", b"rder-4"])
    for kind in random.sample(["key", "value", "regex", "header", "json"], random.choice([0, 1, 1, 1, 2])):
        if kind == "key":
            key = random.choice([b"a", b"order", "größe".encode(), b""])
            options += ["--key", key.decode()]
            questions.append(lambda k, v, h, key=key: k == key)
        elif kind == "value":
            if random.random() < 0.3:
                options += ["-i"]
                questions.append(lambda k, v, h: v is not None and text.lower() in v.lower())
            else:
                questions.append(lambda k, v, h: v is not None and text in v)
            options += ["--value", text.decode()]
        elif kind == "regex":
            pattern = random.choice(["^a+b?$", "4.?2", "order|gr", "^$"])
            options += ["--regex", pattern]
            bits = re.compile(pattern.encode(), re.IGNORECASE if "-i" in options else 0)
            questions.append(lambda k, v, h, b=bits: any(one is not None and b.search(one) for one in (k, v)))
        elif kind == "header":
            name, wanted = random.choice(NAMES), random.choice([None, b"", b"a", b"order-42"])
            options += ["--header", name.decode() + ("" if wanted is None else "=" + wanted.decode())]
            questions.append(lambda k, v, h, n=name, w=wanted: any(a == n and w in (None, b) for a, b in h))
        else:
            options += ["--json", "order.id=42"]
            questions.append(lambda k, v, h: v in (VALUES[len(WORDS)], VALUES[len(WORDS) + 1]))
    return options, lambda key, value, headers: all(one(key, value, headers) for one in questions)


def around(records, matches, before, after):
    """The rows to show, and whether each is a match."""
    shown = {row for match in matches for row in range(max(0, match - before), min(len(records), match + after + 1))}
    return [(row, row in matches) for row in sorted(shown)]


def search(files, *options, folder="/logs"):
    """(exit code, records of stdout, its summary, objects of stderr)."""
    out, err = io.BytesIO(), io.BytesIO()
    fs = files if isinstance(files, FaultyFilesystem) else FaultyFilesystem(files)
    environment = Environment(out, err, fs)
    code = run(["find", folder, "--format", "json", *options], environment)
    *found, summary = [json.loads(line) for line in out.getvalue().splitlines()] or [None]
    told = map(json.loads, err.getvalue().splitlines())
    return code, found, summary, [one for one in told if one["type"] != "progress"]  # a slow machine shows progress


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(30))
def test_random_searches_against_a_decoder_of_everything(seed, evidence):
    generator = random.Random(seed)
    searches = 0
    for _ in range(5):
        files, logs = some_logs(generator, "/logs")
        for _ in range(4):
            conditions, holds = some_conditions(generator)
            first, last = generator.choice([(None, None), (None, None), (2, None), (None, 2), (None, 1)])
            before, after = generator.choice([(0, 0), (0, 0), (1, 0), (0, 2), (3, 3)])
            options = ["--first", str(first)] if first else ["--last", str(last)] if last else []
            options += ["-B", str(before), "-A", str(after)] if before or after else []
            begin, end = generator.choice([(0, 1 << 62), (3, 1 << 62), (5, 107), (101, 110)])
            options += ["--from", str(begin)] if begin else []
            options += ["--to-offset", str(end)] if end < 1 << 62 else []
            committed = generator.random() < 0.3
            options += ["--isolation", "read_committed"] if committed else []
            wanted = []
            for path, segments in logs.items():
                topic, _, number = path.rpartition("/")[2].rpartition("-")
                records = consume(segments, begin, end, committed=committed).records
                matches = [row for row, one in enumerate(records) if holds(*one[2:])]
                matches = matches[:first] if first else matches[-last:] if last else matches
                for row, is_match in around(records, matches, before, after):
                    offset, timestamp, key, value, headers = records[row]
                    mark = (is_match,) if before or after else ()
                    wanted.append((topic, int(number), offset, timestamp, key, value, tuple(headers), *mark))
            code, found, summary, errors = search(
                files, *conditions, *options, "--jobs", generator.choice("12")
            )  # fmt: skip
            assert {one["kind"] for one in errors} <= {"transaction-index"}, (errors, conditions, options)
            assert code == (0 if wanted else 1), (conditions, options)
            got = [
                (
                    one["topic"], one["partition"], one["offset"],
                    -1 if one["timestamp_ms"] is None else one["timestamp_ms"], stored(one["key"]),
                    stored(one["value"]),
                    tuple((stored(header["key"]), stored(header["value"])) for header in one["headers"]),
                    *((one["match"],) if before or after else ()),
                )
                for one in found
            ]  # fmt: skip
            assert got == wanted, (conditions, options)
            assert summary["matches"] == sum(one[-1] is True or len(one) == 7 for one in wanted)
            searches += 1
    evidence("R56", searches, 30)


@given(any_logs(), st.binary(max_size=3))
def test_find_of_a_random_value_finds_the_records_of_a_naive_search(made, text):
    files = {f"/logs/orders-0/{made.base_offset:020d}.log": made.data}
    try:
        argument = text.decode()
    except UnicodeDecodeError:
        argument, text = "v", b"v"
    if "\0" in argument:
        argument, text = "v", b"v"
    wanted = [one.offset for batch in made.batches for one in batch if one.value is not None and text in one.value]
    visible = {one[0] for one in consume([made.data]).records}
    _, found, _, _ = search(files, f"--value={argument}")
    assert [one["offset"] for one in found] == [offset for offset in wanted if offset in visible]


def json_search(path, value):
    """(exit code, stderr) of a search in a log with this value."""
    fs = FaultyFilesystem({f"/logs/t-0/{0:020d}.log": batch_v2([R(0, BASE_TIME_MS, None, value)])})
    ran = kafkalog("find", "/logs", "--json", path, "--count", fs=fs)
    return ran.code, ran.err


@pytest.mark.parametrize(
    ("path", "value", "holds"),
    [
        ("a.b", b'{"a":{"b":null}}', True),
        ("a.b", b'{"a":{}}', False),
        ("a.b", b'{"a":[1]}', False),
        ("$.a[1].b=x", b'{"a":[0,{"b":"x"}]}', True),
        ("a[-1]=2", b'{"a":[1,2]}', True),
        ("a[2]", b'{"a":[1,2]}', False),
        ("[0]=1", b"[1.0]", True),
        ("[0]=true", b"[1]", False),
        ("[0]=1", b"[true]", False),
        ("a[*].b=2", b'{"a":[{"b":1},{"b":2},3]}', True),
        ("[*][*]=2", b'{"a":{"b":2}}', True),
        ('["unit price"]=null', b'{"unit price":null}', True),
        ("a=", b'{"a":""}', True),
        ('a={"x": [1]}', b'{"a":{"x":[1]}}', True),
        ("a=b=c", b'{"a":"b=c"}', True),
        ("$=null", b"null", True),
        ("$", b"{", False),
        ("$", b"\xff", False),
        ("$", b'"' + b"a" * (4 << 20) + b'"', True),
        ("$", b"\0" + b"," * (4 << 20), False),
    ],
)
def test_find_by_a_json_path_matches_as_documented(path, value, holds):
    assert json_search(path, value)[0] == int(not holds)


@pytest.mark.parametrize("value", [b"[" * 100_000, b"1" * 100_000, b"[" + b"0," * (2 << 20) + b"0]"])
def test_find_reports_json_that_python_cannot_hold(value):
    code, err = json_search("$", value)
    assert (code, re.search("to be searched|are searched", err) is not None) == (3, True)


@pytest.mark.parametrize("text", ["", "=1", "a..b", "a[", "a[x]", "a.[", "[]", 'a["b]'])
def test_find_refuses_malformed_json_paths(text):
    assert json_search(text, b"{}")[0] == 2


def partition(folder, batches, name="orders-0", base=0):
    path = folder / name
    path.mkdir(parents=True)
    write_segment(path, base, [(data, last, BASE_TIME_MS) for data, last in batches])
    return path


def numbered(first, count, codec=0):
    records = [R(n, BASE_TIME_MS + n, b"key-%d" % n, b"value %d" % n) for n in range(first, first + count)]
    return batch_v2(records, codec), first + count - 1


def test_find_prints_matches_as_text(tmp_path):
    partition(tmp_path, [numbered(0, 5), numbered(5, 5, 4)])
    partition(tmp_path, [numbered(7, 2)], "orders-1", 7)
    partition(tmp_path, [(batch_v2([R(0, 0, None, b"a\nb \x1b[1m"), R(1, 0, b"", None)]), 1)], "odd-0")
    assert kafkalog("find", tmp_path, "--value", "value 7") == (
        0, "orders-0:7:key-7\tvalue 7\norders-1:7:key-7\tvalue 7\n", "",
    )  # fmt: skip
    assert kafkalog("find", tmp_path, "--key", "key-1", "--print", "offset,value") == (
        0, "orders-0:1:Offset:1\tvalue 1\n", "",
    )  # fmt: skip
    assert kafkalog("find", tmp_path / "orders-0", "--regex", "[28]$", "-C", "1", "--print", "key")[1] == (
        "orders-0:1-key-1\norders-0:2:key-2\norders-0:3-key-3\n--\norders-0:7-key-7\norders-0:8:key-8\norders-0:9-key-9\n"
    )
    assert kafkalog("find", tmp_path, "--topic", "orders", "--key", "key-8", "-B", "1", "--print", "key")[1] == (
        "orders-0:7-key-7\norders-0:8:key-8\n--\norders-1:7-key-7\norders-1:8:key-8\n"
    )
    assert kafkalog("find", tmp_path, "--topic", "odd")[1] == "odd-0:0:null\ta\nb \x1b[1m\nodd-0:1:\tnull\n"
    assert kafkalog("find", tmp_path, "--count", "--value", "7") == (0, "orders-0:1\norders-1:1\n", "")
    assert kafkalog("find", tmp_path, "--value", "7", "-f", r"%t/%p %o %s\n")[1] == (
        "orders/0 7 value 7\norders/1 7 value 7\n"
    )
    assert kafkalog("find", tmp_path, "--value", "nowhere") == (1, "", "")
    assert kafkalog("find", tmp_path, "--from", "1000") == (1, "", "")
    assert kafkalog("find", tmp_path, "--from-time", "2033-01-01") == (1, "", "")
    assert kafkalog("find", tmp_path / "none")[0] == 10


def test_a_terminal_gets_colours_and_no_control_characters(tmp_path, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    records = [R(0, 0, b"key", "größe \x1b[2J".encode()), R(1, 0, b"other", b"key")]
    path = partition(tmp_path, [(batch_v2(records), 1)])

    def shown(*options):
        out = Terminal()
        run(["find", str(path), *options], Environment(out, io.BytesIO()))
        return out.getvalue().decode()

    name, red, end = "\x1b[1morders-0\x1b[0m", "\x1b[31m", "\x1b[0m"
    assert shown("--value", "ö") == f"{name}:0:key\tgr{red}ö{end}ße \\x1b[2J\n"
    assert shown("--regex", r"\xb6") == f"{name}:0:key\tgr{red}ö{end}ße \\x1b[2J\n"  # the second byte of a character
    assert shown("--key", "key") == f"{name}:0:{red}key{end}\tgröße \\x1b[2J\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown("--value", "ö") == "orders-0:0:key\tgröße \\x1b[2J\n"


def test_find_refuses_contradicting_options(tmp_path):
    partition(tmp_path, [numbered(0, 1)])
    for options in (
        ["--regex", "("], ["--json", "a..b"], ["-i"], ["--first", "1", "--last", "1"], ["-f", "%s", "--count"],
        ["-f", "%s", "--format", "json"], ["--count", "-C", "1"], ["--from", "1", "--from-time", "0"],
        ["--print", "name"], ["--from", "x"],
    ):  # fmt: skip
        code, out, err = kafkalog("find", tmp_path, *options)
        assert (code, out) == (2, ""), (options, err)


def test_damage_is_reported_and_does_not_end_the_search(tmp_path):
    batches = [numbered(0, 5), numbered(5, 5, 4), numbered(10, 5)]
    path = partition(tmp_path, batches) / f"{0:020d}.log"
    partition(tmp_path, [numbered(0, 3)], "users-0")
    whole = path.read_bytes()
    data = bytearray(whole)
    data[len(batches[0][0]) + 70] ^= 1
    path.write_bytes(data)
    code, out, err = kafkalog("find", tmp_path, "--regex", "value (2|7|12)$", "--print", "value")
    assert (code, out) == (4, "orders-0:2:value 2\norders-0:12:value 12\nusers-0:2:value 2\n")
    assert "the records of offsets 5 to 9 are left out" in err
    assert kafkalog("find", tmp_path, "--value", "nowhere")[0] == 4
    assert kafkalog("find", tmp_path, "--value", "value 12", "--first", "1")[0] == 4
    assert kafkalog("find", tmp_path, "--value", "value 12", "--last", "1")[0] == 4
    with pytest.warns(kl.LogWarning, match="are left out"):
        assert [one.offset for one in kl.find(tmp_path, value="value 1", topics=["orders"])] == [1, *range(10, 15)]
    path.write_bytes(whole[:-7])
    code, out, _ = kafkalog("find", tmp_path, "--value", "value 2")
    assert (code, out) == (3, "orders-0:2:key-2\tvalue 2\nusers-0:2:key-2\tvalue 2\n")


def test_the_last_matches_are_searched_from_the_end(tmp_path):
    path = partition(tmp_path, [numbered(0, 10)])
    for base in (10, 20, 30):
        write_segment(path, base, [(*numbered(base, 10), BASE_TIME_MS)])
    fs = FaultyFilesystem({str(one): one.read_bytes() for one in path.iterdir()})
    opened = []
    below = fs.open_read
    fs.open_read = lambda name: (opened.append(name), below(name))[1]
    _, found, _, _ = search(fs, "--regex", "value 2[35]$", "--last", "1", folder=str(path))
    assert [one["offset"] for one in found] == [25]
    assert not [name for name in opened if name.endswith(f"{0:020d}.log")]


def test_partitions_with_many_matches_are_printed_in_order(tmp_path, monkeypatch):
    for number in range(6):
        partition(tmp_path, [numbered(0, 50), numbered(50, 50, 3)], f"orders-{number}")
    one_job = kafkalog("find", tmp_path, "--jobs", "1")
    assert len(one_job[1].splitlines()) == 600
    assert kafkalog("find", tmp_path, "--jobs", "4") == one_job
    lower_limit(monkeypatch, "bytes of matches that find keeps for the order", 1000)
    assert kafkalog("find", tmp_path, "--jobs", "4") == one_job


def test_find_of_the_library_gives_the_records_of_the_command(tmp_path):
    path = partition(tmp_path, [(batch_v2([R(3, BASE_TIME_MS, b"k", b"v", ((b"h", None),)), R(4, 5, None, None)]), 4)])
    found = list(kl.find(tmp_path, headers={"h": None}))
    assert found == [kl.FoundRecord(str(path), "orders", 0, 3, BASE_TIME_MS, b"k", b"v", ((b"h", None),), True)]
    assert [(one.offset, one.is_match) for one in kl.open(tmp_path).find(key="k", after=1)] == [(3, True), (4, False)]
    assert list(kl.find(path, regex=re.compile(b"x"))) == []
    with pytest.raises(UsageError):
        kl.find(path, regex="(")


def test_find_reads_a_linked_partition_like_the_partition(tmp_path):
    partition(tmp_path / "real", [numbered(0, 3)])
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "orders-0").symlink_to(tmp_path / "real" / "orders-0")
    expected = kafkalog("find", tmp_path / "real")
    assert expected[1].count("\n") == 3
    assert kafkalog("find", tmp_path / "linked" / "orders-0") == expected
    assert kafkalog("find", tmp_path / "real", tmp_path / "real" / "orders-0")[0] == 0


def started(tmp_path, *options):
    for number in range(4):
        records = [R(n, 0, b"k", b"a" * 40 + b"!") for n in range(2000)]
        partition(tmp_path, [(batch_v2(records), 1999)], f"orders-{number}")
    command = [sys.executable, "-m", "kafkalog_cli", "find", str(tmp_path), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=Path(__file__).parents[2])


def wait_until_it_searches(process):
    """Until it has used two seconds of CPU: on a busy machine it may still import modules after two seconds of any clock."""
    while sum(map(int, Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13])) < 200:
        assert process.poll() is None
        time.sleep(0.1)


@pytest.mark.skipif(sys.platform != "linux", reason="the CPU time of a process is in /proc")
def test_an_interrupt_ends_a_regular_expression_that_takes_for_ever(tmp_path):
    with started(tmp_path, "--regex", "^(a+)+$") as process:
        wait_until_it_searches(process)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=300) == 130


def test_the_search_ends_without_a_reader(tmp_path):
    with started(tmp_path, "--value", "a") as process:
        process.stdout.close()
        process.wait(timeout=300)
        assert process.stderr.read() == b""
