"""Batches that are read in parts: whatever makes a part, every command says what it says of a batch in one piece."""

import io
import random
from contextlib import contextmanager
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.cli.app import run
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.format import decode, legacy
from kafkalog_cli.format.compression import compress
from kafkalog_cli.log.reading import records as record_reader
from kafkalog_cli.log.reading.records import RecordReader
from kafkalog_cli.log.reading.scan import Scan
from tests.damage.makers import CONTROL, GZIP, START_MS, batch, record, seven
from tests.damage.reading import read
from tests.support.faulty_fs import BytesFile
from tests.support.logs import BASE_TIME_MS, R, batch_v2, message, message_set
from tests.support.naive_reader import NaiveBatch, NaiveRecord, read_batches, read_records
from tests.support.strategies import batches_v2, control_batches, logs, message_sets

HAVE_THE_SIZE = (decode, legacy, record_reader)


def many_batches(chance, count):
    offset = 0
    for _ in range(count):
        made = [
            R(
                offset + i,
                BASE_TIME_MS + i,
                b"k%d" % i if i % 3 else None,
                chance.randbytes(20),
                ((b"h", None),) * (i % 2),
            )
            for i in range(chance.randrange(1, 8))
        ]
        codec = chance.choice([0, 0, 0, 1, 2, 3, 4])
        kind = chance.randrange(12)
        if kind == 0:
            yield message_set(made, 1, 1)
        elif kind == 1:
            yield b"".join(message(r, 0) for r in made)
        elif kind == 2:
            yield batch_v2([], 0, offset, offset + 2, (9, 0, 4))
        else:
            yield batch_v2(
                made, codec, bits=chance.choice([0, 8, 0x10]), producer=chance.choice([(-1, -1, -1), (9, 0, 2**31 - 3)])
            )
        offset += 9


@contextmanager
def parts_of(records):
    """Batches of more records than this are read in parts."""
    before = decode.RECORDS_AT_ONCE  # type: ignore[attr-defined]
    try:
        for module in HAVE_THE_SIZE:
            module.RECORDS_AT_ONCE = records  # type: ignore[attr-defined]
        yield
    finally:
        for module in HAVE_THE_SIZE:
            module.RECORDS_AT_ONCE = before  # type: ignore[attr-defined]


def batch_by_batch(data):
    """The records of each batch, put together from its parts."""
    found, parts = [], 0
    reader, chunks = RecordReader(), Scan(BytesFile(data))
    for chunk in chunks:
        for block in reader.blocks(chunk):
            rows, begin = list(block.rows()), 0
            assert not block.faults
            assert block.end_row - block.first_row == 1 or not (block.begun or block.goes_on)
            for row, end in enumerate(block.record_ends, block.first_row):
                records = [NaiveRecord(*one[:-1]) for one in rows[begin : int(end)]]
                assert block.begun == (len(found[-1][1]) if block.begun else 0)
                if block.begun:
                    assert found[-1][2]
                    found[-1] = (found[-1][0], found[-1][1] + records, block.goes_on)
                else:
                    found.append((NaiveBatch(*block.batches.row(row)).position, records, block.goes_on))
                parts += 1
                begin = int(end)
    assert not any(goes_on for *_, goes_on in found)
    return [(position, records) for position, records, _ in found], parts


@given(log=logs((batches_v2, batches_v2, control_batches, message_sets)), most=st.integers(1, 4))
def test_the_parts_of_a_large_batch_have_the_records_of_the_whole(log, most):
    with parts_of(most):
        found, parts = batch_by_batch(log.data)
    records = [list(read_records(log.data, batch)) for batch in read_batches(log.data)]
    assert found == list(zip([one.position for one in read_batches(log.data)], records, strict=True))
    assert parts >= sum(max(1, -(-len(one) // most)) for one in records)


def damaged_log(seed, *, damaged=True):
    """A log of all sorts, some of its bits flipped; `valid` CRCs or not, all is read."""
    chance = random.Random(seed)
    data = bytearray(b"".join(many_batches(chance, 25)))
    for _ in range(seed % 4 if damaged else 0):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


@pytest.mark.parametrize("seed", range(40))
def test_damage_in_a_part_is_that_of_the_whole(seed):
    data = damaged_log(seed)
    whole = read(data)
    with parts_of(1 + seed % 3):
        assert read(data) == whole


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize(("extra", "count"), [(b"\0", 8), (b"", 9), (b"\x0e", 8), (record(9, b"k", b"v"), 8)])
def test_lies_about_the_count_in_the_last_part(codec, extra, count):
    records = b"".join(record(i, b"k%d" % i, b"v") for i in range(8)) + extra
    data = batch(0, records, codec=codec, count=count, delta=9) + batch(10, [record(0, b"last", b"1")])
    whole = read(data, goes_on=True)
    assert len(whole.record_faults) == 1
    assert len(whole.records) == 1 + (0 if codec else 7 if extra else 8)
    for most in (1, 3, 4, 8):
        with parts_of(most):
            assert read(data, goes_on=True) == whole, most


@given(
    st.recursive(st.binary(max_size=4), lambda inner: st.lists(inner, min_size=1, max_size=5), max_leaves=12),
    st.integers(1, 3),
    st.integers(0, 60),
)
def test_nested_sets_of_0_7_read_in_parts_have_the_records_of_the_whole(payload, most, flipped):
    def made(one):
        if isinstance(one, bytes):
            return seven(one)
        return seven(compress(GZIP, b"".join(map(made, one))), codec=GZIP)

    data = bytearray(made(payload) + seven(b"last"))
    for at in range(flipped // 10):
        data[(flipped * 37 + at * 11) % len(data)] ^= 1
    whole = read(bytes(data), seven=True)
    with parts_of(most):
        assert read(bytes(data), seven=True) == whole


# -- commands


def said(folder, command, *options):
    stdout, stderr = io.BytesIO(), io.BytesIO()
    code = run([command, *options, str(folder)], Environment(stdout, stderr))
    return code, stdout.getvalue(), stderr.getvalue()


COMMANDS = [
    ("dump-log", "--deep-iteration"),
    ("dump-log", "--print-data-log"),
    ("dump-log", "--print-data-log", "--resync"),
    ("dump-log", "--print-data-log", "--skip-record-metadata", "--key-decoder-class", "hex"),
    ("dump-log", "--format", "json", "--resync"),
    ("dump-log", "--format", "json", "--max-records", "7"),
    ("dump-log", "--format", "json", "--key", "k1"),
    ("dump-log", "--print-data-log", "--key", "k1"),
    ("dump-log", "--print-data-log", "--from-offset", "11", "--to-offset", "40"),
    ("verify", "--level", "deep", "--format", "json", "--now", "2026-01-01T00:00:00Z"),
    ("dump-index", "--format", "json"),
]


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(4))
def test_commands_print_the_same_of_batches_read_in_parts(tmp_path, seed):
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(damaged_log(seed))
    spoken = 0
    for command in COMMANDS:
        whole = said(folder, *command)
        with parts_of(2):
            assert said(folder, *command) == whole, command
        spoken += len(whole[1])
    assert spoken > 20_000


ODD_BATCHES = {
    "offsets that go back between parts": batch(0, [record(i, b"k", b"v") for i in (0, 5, 2, 6)], delta=9),
    "offsets that go back in a part": batch(0, [record(i, b"k", b"v") for i in (0, 2, 6, 5)], delta=9),
    "an offset beyond the end": batch(0, [record(i, b"k", b"v") for i in (0, 1, 2, 6)], delta=3),
    "the largest timestamp first": batch(0, [record(i, b"k", b"v", ms=9 - i) for i in range(5)], max_ms=START_MS + 9),
    "a lie about the largest timestamp": batch(0, [record(i, b"k", b"v", ms=9 - i) for i in range(5)], max_ms=START_MS),
    "control records that are none": batch(0, [record(i, b"key", b"v") for i in range(7)], attributes=CONTROL),
    "a key that only the last part has": batch(0, [record(i, b"k%d" % (i == 5), b"v") for i in range(6)]),
    "a key that the first and the last part have": batch(
        0, [record(i, b"k%d" % (i in (0, 5)), b"v") for i in range(6)]
    ),
    "keys in all parts": batch(0, [record(i, b"k%d" % (i % 2), b"v") for i in range(9)], codec=GZIP),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ODD_BATCHES)
def test_commands_print_the_same_of_damaged_batches_read_in_parts(tmp_path, name):
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(ODD_BATCHES[name] * 2 + batch(20, [record(0, b"k1", b"last")]))
    for command in COMMANDS:
        whole = said(folder, *command)
        for most in (1, 2, 3):
            with parts_of(most):
                assert said(folder, *command) == whole, (command, most)


def test_lookups_within_a_part_of_a_large_batch_find_the_record(tmp_path):
    folder = tmp_path / "t-0"
    folder.mkdir()
    made = [R(i, BASE_TIME_MS + i, b"k", b"v%d" % i) for i in range(20)]
    data = batch_v2(made[:9], 4) + message_set(made[9:15], 1, 1) + batch_v2(made[15:])
    (folder / "00000000000000000000.log").write_bytes(data)
    lookups = [("lookup-offset", str(i)) for i in range(20)]
    lookups += [("lookup-time", str(BASE_TIME_MS + i)) for i in range(20)]
    lookups += [("lookup-time", "--max-timestamp"), ("lookup-time", "--earliest"), ("lookup-time", "--latest")]
    for (command, what), form in product(lookups, ("json", "text")):

        def answer(what=what, command=command, form=form):
            stdout, stderr = io.BytesIO(), io.BytesIO()
            environment = Environment(stdout, stderr)
            code = run([command, str(folder), what, "--format", form], environment)
            return code, stdout.getvalue(), stderr.getvalue()

        whole = answer()
        assert whole[0] == 0
        with parts_of(2):
            assert answer() == whole, (command, what)
