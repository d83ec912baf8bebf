"""`kafkalog append`: any record that goes in comes out again, and a long input is written while more of it comes.

tests/transcripts/append.md has what it prints, conformance/cases/append.toml what it takes at each limit.
"""

import io
import json
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.commands import kafkalog, tree, writable_copy
from tests.support.naive_lines import contents as json_bytes
from tests.support.naive_reader import read_batches, read_records
from tests.support.product import Environment, run
from tests.support.strategies import contents, headers, timestamps

NOW_MS = 1795228795800
NOW = ("--now", str(NOW_MS), "--single-replica", "--config", f"segment.ms={2**62}")
ANY_TIME = ("--config", f"message.timestamp.after.max.ms={2**63 - 1}")
MARKER = ".kafka_cleanshutdown"


@pytest.fixture
def root(corpus, tmp_path):
    return writable_copy(corpus / "txn" / "data", tmp_path / "data")


@pytest.fixture
def partition(root):
    return root / "idem-0"


def records(partition, first=0):
    """(offset, timestamp, key, value, headers) from an offset on, by the naive reader."""
    found = []
    for path in sorted(partition.glob("*.log")):
        data = path.read_bytes()
        for batch in read_batches(data):
            assert batch.valid
            found += [tuple(record[:2]) + tuple(record[3:6]) for record in read_records(data, batch)]
    return [record for record in found if record[0] >= first]


def json_line(record):
    timestamp, key, value, pairs = record
    line = {
        "type": "record",
        "timestamp_ms": None if timestamp == -1 else timestamp,
        "key": json_bytes(key),
        "value": json_bytes(value),
        "headers": [{"key": json_bytes(name), "value": json_bytes(content)} for name, content in pairs],
    }
    return json.dumps(line).encode() + b"\n"


RECORDS = st.lists(st.tuples(timestamps, contents, contents, headers), min_size=1, max_size=12)


@pytest.mark.exhaustive
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@settings(max_examples=12, suppress_health_check=list(HealthCheck), deadline=None)
@given(made=RECORDS, batch_bytes=st.sampled_from([1, 200, 16384]))
def test_append_stores_any_record_given_as_ndjson(corpus, tmp_path_factory, codec, made, batch_bytes):
    partition = tmp_path_factory.mktemp("one") / "t-0"
    partition.mkdir()
    for suffix in (".log", ".index", ".timeindex"):
        (partition / f"{0:020d}{suffix}").write_bytes(b"")
    stdin = b"".join(map(json_line, made))
    options = ("--codec", codec, "--batch-bytes", batch_bytes, *NOW, *ANY_TIME)
    code, out, err = kafkalog("append", partition, *options, stdin=stdin)
    assert code == 0, err
    assert f"{len(made)} record" in out
    assert records(partition) == [(at, *record) for at, record in enumerate(made)]
    assert kafkalog("verify", partition, "--level", "deep", "--now", 2**62)[0] in (0, 3)  # odd times are told
    shutil.rmtree(partition.parent)


def test_append_writes_records_while_its_input_still_grows(partition):
    """Memory holds a block of it, not all."""

    class Stream(io.BytesIO):
        seen = ()

        def read(self, size=-1):
            logs = partition.glob("*.log")
            Stream.seen += (sum(path.stat().st_size for path in logs),)
            return super().read(size)

    count = 5000
    out, err = io.BytesIO(), io.BytesIO()
    stdin = Stream(b'{"value":"%s"}\n' % (b"x" * 2000) * count)
    environment = Environment(stdout=out, stderr=err, stdin=stdin)
    stdin.read1 = stdin.read
    assert run(["append", str(partition), *NOW], environment) == 0
    grown = [size - Stream.seen[0] for size in Stream.seen]
    assert len(grown) > 8
    assert all(size > (at - 6) << 20 for at, size in enumerate(grown[:-1])), " ".join(str(size >> 10) for size in grown)


@pytest.mark.parametrize(
    "line", [b"nonsense\n", b'{"value":7}\n', b'{"value":"a","timestamp_ms":%d}\n' % (NOW_MS + 3_600_001)]
)
def test_a_bad_line_after_megabytes_that_are_written_takes_them_back(root, partition, line):
    before, good = tree(root), b'{"value":"%s"}\n' % (b"x" * 3000) * 900
    code, out, err = kafkalog("append", partition, *NOW, stdin=good + line)
    assert (code in (1, 2), out) == (True, "")
    assert "line 901: " in err or "in the future" in err
    assert tree(root) == before
    assert not (partition / ".kafkalog").exists()


@pytest.mark.parametrize("before", [1, 5000])
def test_a_name_that_an_object_has_twice_is_refused(root, partition, before):
    """Of the two values the last would be taken, silently."""
    files = tree(root)
    for line, name in (
        ('{"value":"a","value":"b"}', "value"),
        ('{"key":{"encoding":"utf-8","data":"x","data":"y"},"value":"b"}', "data"),
        ('{"value":"b","headers":[{"key":"a","key":"b","value":null}]}', "key"),
        ('{"timestamp_ms":1700000000000,"value":"b","timestamp_ms":1}', "timestamp_ms"),
    ):
        code, _, err = kafkalog("append", partition, *NOW, stdin=b'{"value":"x"}\n' * before + line.encode() + b"\n")
        assert code == 2, err
        assert f"standard input: line {before + 1}: an object has the name '{name}' twice" in err
    assert tree(root) == files
