"""Inputs of `append`, replicas and producers that would take much memory as objects or several times over."""

from __future__ import annotations

import json
import sys

import pytest

from tests.damage.makers import GZIP, MEBIBYTE, batch, record
from tests.damage.peaks import BOMBS, peaks
from tests.support.commands import kafkalog
from tests.support.product import ExitCode, lower_limit

MOST_MEBIBYTES = 300
LOG = "00000000000000000000.log"
LARGE = 110 * MEBIBYTE
MOST_JSON_LINE_BYTES, MOST_WIDE_JSON_LINE_BYTES, MOST_JSON_LINE_VALUES = 32 * MEBIBYTE, 16 * MEBIBYTE, 250_000
pytestmark = pytest.mark.exhaustive


@pytest.fixture(autouse=True)
def counted(evidence):
    evidence("R9", 1, BOMBS)


LINES = {
    "a large value": (lambda: b'{"value":"' + b"a" * (MOST_JSON_LINE_BYTES - 40) + b'"}', 0),
    "a wide value": (lambda: b'{"value":"\xf0\x9f\x98\x80' + b"a" * (MOST_WIDE_JSON_LINE_BYTES - 40) + b'"}', 0),
    "too wide": (lambda: b'{"value":"\\ud83d\\ude00' + b"a" * MOST_WIDE_JSON_LINE_BYTES + b'"}', 1),
    "too many headers": (lambda: b'{"headers":[' + b",".join([b'{"key":""}'] * 2_000_000) + b"]}", 1),
    "too many lists in a field that is not used": (
        lambda: b'{"value":"v","decoded":[' + b"[]," * 8_000_000 + b"[]]}",
        1,
    ),
    "too many levels": (lambda: b'{"value":"v","decoded":' + b"[" * 100_000, 1),
}


@pytest.mark.parametrize("name", LINES)
def test_append_of_a_long_line_stays_within_the_memory_limit(name, tmp_path):
    if not sys.platform.startswith("linux"):
        pytest.skip("peak memory is in KiB on Linux")
    line, expected = LINES[name]
    (tmp_path / "t-0").mkdir()
    (tmp_path / "in.json").write_bytes(line() + b"\n")
    settings = ("--config", "max.message.bytes=200000000", "--single-replica")
    ((code, mebibytes),) = peaks([("append", str(tmp_path / "t-0"), *settings, str(tmp_path / "in.json"))])
    assert code == expected
    assert mebibytes < MOST_MEBIBYTES, mebibytes


def test_quotes_and_commas_within_a_value_are_not_values(tmp_path):
    text = '\\",[{' * MEBIBYTE + "\\"
    assert text.count(",") > MOST_JSON_LINE_VALUES
    (tmp_path / "t-0").mkdir()
    (tmp_path / "in.json").write_text(json.dumps({"value": text}))
    settings = ("--config", "max.message.bytes=200000000", "--single-replica")
    assert kafkalog("append", tmp_path / "t-0", *settings, tmp_path / "in.json").code == 0
    assert kafkalog("read", tmp_path / "t-0").out == text + "\n"


@pytest.mark.parametrize(("count", "is_refused"), [(20, False), (21, True)])
def test_append_refuses_a_log_of_more_producers_than_the_limit(count, is_refused, tmp_path, monkeypatch):
    """Of the limit itself, test_large_files.py has cases: each producer takes some 500 bytes."""
    (tmp_path / "t-0").mkdir()
    many = b"".join(batch(number, [record(0, None, None)], producer=(number, 0, 0)) for number in range(count))
    (tmp_path / "t-0" / LOG).write_bytes(many)
    lower_limit(monkeypatch, "producers", 20)
    assert kafkalog("recover", tmp_path / "t-0").code == (ExitCode.REFUSED if is_refused else ExitCode.OK)
    files = sorted(found.name for found in (tmp_path / "t-0").iterdir() if found.suffix)
    assert (files == [LOG]) == is_refused


@pytest.mark.parametrize(("command", "form"), [("append", "ndjson"), ("import", "ndjson"), ("import", "parquet")])
def test_import_of_many_large_values_stays_within_the_memory_limit(command, form, tmp_path):
    """Of 400 MiB; each batch of a log has a few of them."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    if not sys.platform.startswith("linux"):
        pytest.skip("peak memory is in KiB on Linux")
    path = tmp_path / f"in.{form}"
    if form == "ndjson":
        path.write_bytes((json.dumps({"value": "v" * (MEBIBYTE // 2)}).encode() + b"\n") * 800)
    else:
        part = pa.record_batch({"value": pa.array([b"v" * (MEBIBYTE // 2)] * 80, pa.binary())})
        with pq.ParquetWriter(path, part.schema, use_dictionary=False) as file:
            for _ in range(10):
                file.write_batch(part)
    (tmp_path / "logs" / "t-0").mkdir(parents=True)
    (tmp_path / "logs" / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    commands = {
        "append": ("append", str(tmp_path / "logs" / "t-0"), "--single-replica", str(path)),
        "import": ("import", str(path), "--log-dir", str(tmp_path / "logs"), "--topic", "new", "--partitions", "1"),
    }
    ((code, mebibytes),) = peaks([commands[command]])
    assert code == 0
    assert mebibytes < MOST_MEBIBYTES, mebibytes


def test_verify_against_a_replica_with_large_batches_stays_within_the_memory_limit(tmp_path):
    if not sys.platform.startswith("linux"):
        pytest.skip("peak memory is in KiB on Linux")
    for name, first in (("a", b"x"), ("b", b"y")):
        (tmp_path / name / "t-0").mkdir(parents=True)
        (tmp_path / name / "t-0" / LOG).write_bytes(batch(0, [record(0, b"k", first + bytes(LARGE))], codec=GZIP))
    ((code, mebibytes),) = peaks([("verify", str(tmp_path / "a/t-0"), "--against", str(tmp_path / "b/t-0"))])
    assert code == 4
    assert mebibytes < MOST_MEBIBYTES, mebibytes
