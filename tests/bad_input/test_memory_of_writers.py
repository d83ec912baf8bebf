"""Inputs of `append`, replicas and producers that would take much memory as objects or several times over."""

from __future__ import annotations

import json
import sys

import pytest

from kafkalog_cli.broker import producer_state
from kafkalog_cli.broker.producer_state import ProducerState
from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.errors import Refused
from kafkalog_cli.format.limits import MEBIBYTE, MOST_JSON_LINE_BYTES, MOST_JSON_LINE_VALUES, MOST_WIDE_JSON_LINE_BYTES
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.ops.append.arrow import ArrowReader
from kafkalog_cli.ops.append.reading import SMALL_BYTES, parse_json_line
from kafkalog_cli.ops.importing import taking as importing_lines
from tests.bad_input.makers import GZIP, START_MS, batch, record
from tests.bad_input.peaks import BOMBS, peaks

MOST_MEBIBYTES = 300
LOG = "00000000000000000000.log"
LARGE = 110 * MEBIBYTE
pytestmark = pytest.mark.full


@pytest.fixture(autouse=True)
def counted(evidence):
    evidence("R9", 1, BOMBS)


def test_replicas_with_different_large_batches(tmp_path):
    if not sys.platform.startswith("linux"):
        pytest.skip("peak memory is in KiB on Linux")
    for name, first in (("a", b"x"), ("b", b"y")):
        (tmp_path / name / "t-0").mkdir(parents=True)
        (tmp_path / name / "t-0" / LOG).write_bytes(batch(0, [record(0, b"k", first + bytes(LARGE))], codec=GZIP))
    ((code, mebibytes),) = peaks([("verify", str(tmp_path / "a/t-0"), "--against", str(tmp_path / "b/t-0"))])
    assert code == 4
    assert mebibytes < MOST_MEBIBYTES, mebibytes


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
def test_a_line_of_an_input(name, tmp_path):
    if not sys.platform.startswith("linux"):
        pytest.skip("peak memory is in KiB on Linux")
    line, expected = LINES[name]
    (tmp_path / "t-0").mkdir()
    (tmp_path / "in.json").write_bytes(line() + b"\n")
    settings = ("--config", "max.message.bytes=200000000", "--single-replica")
    ((code, mebibytes),) = peaks([("append", str(tmp_path / "t-0"), *settings, str(tmp_path / "in.json"))])
    assert code == expected
    assert mebibytes < MOST_MEBIBYTES, mebibytes


def test_quotes_and_commas_within_a_value_are_not_values():
    text = '\\",[{' * (SMALL_BYTES // 4) + "\\"
    line = json.dumps({"value": text}).encode()
    assert len(line) > SMALL_BYTES
    assert text.count(",") > MOST_JSON_LINE_VALUES
    assert parse_json_line(line) == {"value": text}


def entry(producer_id: int) -> ProducerEntry:
    return ProducerEntry(producer_id, 0, 0, producer_id, 0, START_MS, -1, -1)


def test_more_producers_than_are_held_in_memory(monkeypatch):
    monkeypatch.setattr(producer_state, "MOST_PRODUCERS", 10)
    state = ProducerState("logs/t-0")
    state.load(map(entry, range(10)))
    assert len(state.producers) == 10
    with pytest.raises(Refused, match=r"logs/t-0: .*more than 10 producers"):
        ProducerState("logs/t-0").load(map(entry, range(12)))
    state.merge(entry(10), ())
    with pytest.raises(Refused, match="more than 10 producers"):
        state.merge(entry(11), ())


def test_a_log_of_more_producers_than_are_held_in_memory(tmp_path):
    """Of the limit itself, in a process: each producer takes some 500 bytes."""
    from kafkalog_cli.cli.app import run
    from kafkalog_cli.cli.environment import Environment

    (tmp_path / "t-0").mkdir()
    many = b"".join(batch(number, [record(0, None, None)], producer=(number, 0, 0)) for number in range(30))
    (tmp_path / "t-0" / LOG).write_bytes(many)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(producer_state, "MOST_PRODUCERS", 20)
        code = run(["recover", str(tmp_path / "t-0")], Environment(kernels=KernelChoice(forced=False)))
    assert code == Refused.exit_code
    assert sorted(found.name for found in (tmp_path / "t-0").iterdir() if found.suffix) == [LOG]


def test_arrow_parts_with_large_values_are_taken_in_small_slices(monkeypatch):
    pa = pytest.importorskip("pyarrow")
    values = [bytes([number]) * MEBIBYTE for number in range(40)] + [b"", None]
    part = pa.record_batch({"value": pa.array(values, pa.binary())})
    seen: list[int] = []
    slice_of = ArrowReader._slice

    def noted(self: ArrowReader, part: object, rows: int) -> object:
        seen.append(part.nbytes)  # type: ignore[attr-defined]
        return slice_of(self, part, rows)

    monkeypatch.setattr(ArrowReader, "_slice", noted)
    found = list(ArrowReader(KernelChoice(forced=False), START_MS).records([part]))
    assert [one.value for one in found] == values
    assert max(seen) <= 17 * MEBIBYTE


def test_lines_of_an_import_with_large_values_fill_small_batches(tmp_path):
    pytest.importorskip("pyarrow")
    line = json.dumps({"value": "v" * MEBIBYTE}).encode() + b"\n"
    (tmp_path / "in.ndjson").write_bytes(line * 40)
    parts = [part.num_rows for part in importing_lines.line_batches(str(tmp_path / "in.ndjson"))]
    assert sum(parts) == 40
    assert max(parts) <= 17
