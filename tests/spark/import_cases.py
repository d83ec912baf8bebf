"""Random logs that go through export and import, and what an independent reader sees of them before and after."""

import random
import shutil
import warnings
from contextlib import suppress
from typing import NamedTuple

from tests.damage.makers import seven, seven_set
from tests.kafka.random_segments import random_batches
from tests.spark.exporting import FileFormat, export
from tests.spark.importing import NOW_MS, import_into, new_log_dir, seen
from tests.support import naive_reader
from tests.support.logs import (
    BASE_TIME_MS,
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    R,
    batch_v2,
    end_marker,
    message,
    message_set,
)
from tests.support.product import BadInput

MOST_OFFSET = (1 << 63) - 2
TIMES = [-1, 0, 1, BASE_TIME_MS * 1000, BASE_TIME_MS * 1_000_000, 1 << 45, (1 << 62) + 7, 253_402_300_800_000]
TEXTS = [None, b"", b"a", b"plain", "größe \U0001f600".encode(), b"\xff\xed\xa0\x80", b"x" * 700, b"\0\n\t\x7f"]
NAMES = [b"h", b"h", b"", "ключ".encode(), b"\xff"]


class Row(NamedTuple):
    """A record as the naive reader has it. `codec` and `is_append_time` are the batch's."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple
    codec: int
    is_append_time: bool


class Case(NamedTuple):
    """Partitions (number to segments by name), how they are exported and imported."""

    seed: int
    partitions: dict
    exported: dict
    imported: dict
    config: dict

    @property
    def keeps_offsets(self):
        return not self.imported.get("new_offsets") and "partitions" not in self.imported

    def __str__(self):
        files = {number: {name: len(data) for name, data in found.items()} for number, found in self.partitions.items()}
        return f"{self.seed} {files} {self.exported} {self.imported} {self.config}"


# -- logs


def make_case(seed, *, is_plain=False):
    """`is_plain`: what a consumer can show as text, and a broker keeps."""
    chance = random.Random(seed)
    has_negative = not is_plain and chance.random() < 0.04
    makers = [odd_segments, wide_segments, wide_segments, sevens] if not is_plain else [wide_segments]
    count = 1 if is_plain else chance.choice([1, 1, 2, 3])
    partitions = {
        number: chance.choice(makers)(chance, is_plain=is_plain, has_negative=has_negative) for number in range(count)
    }
    file_format = chance.choice(list(FileFormat))
    exported = {
        "format": file_format,
        "codec": chance.choice(file_format.codecs),
        "by_day": chance.random() < 0.3,
        "with_control": chance.random() < 0.3,
    }
    imported = {"prove": True, "batch_bytes": chance.choice([1, 100, 500, 16_384, 16_384, 1 << 20])}
    has_sevens = any(name.endswith(".kafka") for files in partitions.values() for name in files)
    if chance.random() < (0.8 if has_sevens else 0.3):  # messages of a packed set have one offset
        imported["new_offsets"] = True
    if chance.random() < 0.3:
        imported["codec"] = chance.choice(["none", "gzip", "snappy", "lz4", "zstd"])
    config = {
        "index.interval.bytes": chance.choice(["0", "300", "4096"]),
        "message.timestamp.after.max.ms": str((1 << 63) - 1),
    }
    rows = (row for files in partitions.values() for row in rows_of(files))
    largest = max((len(row.key or b"") + len(row.value or b"") for row in rows), default=0)
    if chance.random() < 0.5 and largest < 4000:
        config["segment.bytes"] = str(chance.choice([20_000, 50_000, 400_000]))
    if chance.random() < 0.15:
        config["compression.type"] = chance.choice(["gzip", "zstd", "uncompressed"])
    if chance.random() < 0.1:
        config["message.timestamp.type"] = "LogAppendTime"
    return Case(seed, partitions, exported, imported, config)


def odd_segments(chance, **_):
    """Of every magic and attribute, with control records, empty batches and gaps; timestamps near each other."""
    offset, found = chance.choice([0, 7, 1 << 33]), {}
    for _ in range(chance.randrange(1, 4)):
        batches = random_batches(chance, offset, 10)
        found[f"{offset:020d}.log"] = b"".join(one[0] for one in batches)
        offset = max(one[1] for one in batches) + chance.choice([1, 1, 50])
    return found


def wide_segments(chance, *, is_plain=False, has_negative=False):
    """Odd timestamps, large records, gaps beyond 2^31, offsets up to the largest."""
    offset = chance.choice([0, 0, 3, 1 << 31, 1 << 40, MOST_OFFSET - (1 << 40)])
    times = [BASE_TIME_MS] if is_plain else [*TIMES, *[BASE_TIME_MS] * 8, *([-2, -(1 << 40)] if has_negative else [])]
    found, base, data = {}, offset, b""
    for _ in range(chance.randrange(1, chance.choice([2, 6, 30]))):
        if data and chance.random() < 0.15:
            found[f"{base:020d}.log"] = data
            offset += chance.choice([0, 5, (1 << 31) + 5, 1 << 33])
            base, data = offset, b""
        part, offset = wide_batch(chance, offset, times, is_plain=is_plain)
        data += part
        offset += chance.choice([0, 0, 0, 0, 4])
    return {**found, f"{base:020d}.log": data}


def wide_batch(chance, offset, times, *, is_plain):
    """Its bytes, and the offset behind it."""
    rows, magic = [], chance.choice([2, 2, 2, 2, 1, 0])
    sizes = [0, 1, 30, 30, 3000, chance.choice([3000, 70_000])]
    names = [name for name in NAMES if name != b"\xff"] if is_plain else NAMES
    for _ in range(chance.randrange(1, chance.choice([2, 5, 40]))):
        value = chance.choice([*TEXTS, chance.randbytes(chance.choice(sizes)), b"ab" * chance.choice(sizes)])
        pairs = tuple((chance.choice(names), chance.choice(TEXTS)) for _ in range(chance.choice([0, 0, 0, 1, 4])))
        timestamp = chance.choice(times) + chance.randrange(3)
        rows.append(R(offset, timestamp, chance.choice(TEXTS), value, pairs if magic == 2 else ()))
        offset += chance.choice([1, 1, 1, 1, 9])
    if magic == 2:
        if chance.random() < 0.08:
            return end_marker(rows[0].offset, BASE_TIME_MS, (5, 1), chance.randrange(2), 4), rows[0].offset + 1
        bits = chance.choice([0, 0, 0, LOG_APPEND_TIME, TRANSACTIONAL])
        producer = (5, 1, 10) if bits & TRANSACTIONAL else (-1, -1, -1)
        horizon = chance.choice([None, None, None, BASE_TIME_MS + 86_400_000])
        if any(abs(row.timestamp - (horizon or row.timestamp)) >= 1 << 62 for row in rows):
            horizon = None
        last = rows[-1].offset + chance.choice([0, 0, 2])
        return batch_v2(rows, chance.randrange(5), None, last, producer, 0, bits, horizon=horizon), last + 1
    clock = chance.choice([None, BASE_TIME_MS + 77]) if magic else None
    if codec := chance.randrange(4):
        return message_set(rows, magic, codec, append_time=clock), offset
    if clock is not None:
        rows = [row._replace(timestamp=clock) for row in rows]
    return b"".join(message(row, magic, timestamp_type=clock is not None) for row in rows), offset


def sevens(chance, **_):
    """Files of Kafka 0.7: no keys, no times, and offsets are bytes."""
    found, base = {}, 0
    for _ in range(chance.randrange(1, 3)):
        data = b""
        for _ in range(chance.randrange(1, 12)):
            payloads = [chance.choice(TEXTS) or b"" for _ in range(chance.randrange(1, 4))]
            kind = chance.randrange(4)
            if kind == 3:
                data += seven_set(payloads, chance.choice([1, 2]))
            else:
                data += seven(payloads[0], codec=0 if kind else None)
        found[f"{base:020d}.kafka"] = data
        base += len(data)
    return found


# -- the naive reader


def rows_of(files):
    """The records of a partition's logs, without control records."""
    found = []
    for name in sorted(files):
        if name.endswith(".kafka"):
            found += _rows_of_seven(int(name.removesuffix(".kafka")), files[name])
        elif name.endswith(".log"):
            for batch in naive_reader.read_batches(files[name]):
                assert batch.valid
                if not batch.attributes & CONTROL or batch.magic < 2:
                    kind = batch.attributes & 7, bool(batch.attributes & 8)
                    for record in naive_reader.read_records(files[name], batch):
                        found.append(Row(record.offset, *record[1:2], *record[3:6], *kind))  # type: ignore[call-arg]
    return found


def _rows_of_seven(base, data):
    for message_ in naive_reader.read_seven(data):
        for payload, is_valid in naive_reader.seven_payloads(message_):
            assert is_valid
            yield Row(base + message_.position, -1, None, payload, (), message_.codec, False)


def files_of(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


# -- there and back


class Outcome(NamedTuple):
    """`refused`: what import says of a log that no broker has; else the names and what differs."""

    refused: str
    different: list
    records: int


def expected(case, files):
    """The rows as they are to come back; None where an import is to be refused."""
    rows = rows_of(files)
    if any(row.timestamp < -1 for row in rows):
        return None
    if case.keeps_offsets:
        if any(one.offset >= other.offset for one, other in zip(rows, rows[1:], strict=False)):
            return None
        wanted = [row._replace(codec=_codec(case, row)) for row in rows]
    else:
        is_append_time = case.config.get("message.timestamp.type") == "LogAppendTime"
        wanted = [
            row._replace(
                offset=at,
                codec=_codec(case, row),
                is_append_time=is_append_time,
                timestamp=NOW_MS if is_append_time else row.timestamp,
            )
            for at, row in enumerate(rows)
        ]
    return wanted


_BY_NAME = {"uncompressed": 0, "none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def _codec(case, row):
    given = case.config.get("compression.type", case.imported.get("codec"))
    return row.codec if given is None else _BY_NAME[given]


def run_case(case, folder, log_dir=None, topic="t"):
    """Export and import a case below `folder`, which is made; what came of it. Raises what neither may raise."""
    source, out = folder / "log", folder / "out"
    source.mkdir(parents=True)
    for number, files in case.partitions.items():
        (source / f"{topic}-{number}").mkdir()
        for name, data in files.items():
            (source / f"{topic}-{number}" / name).write_bytes(data)
    wanted = {number: expected(case, files) for number, files in case.partitions.items()}
    log_dir = log_dir or new_log_dir(folder / "new")
    if not any(rows_of(files) for files in case.partitions.values()):
        return Outcome("", [], 0)
    refusal = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        export(source, out, **case.exported)
        try:
            import_into(log_dir, out, config=case.config, **case.imported)
        except BadInput as error:
            refusal = str(error)
    if refusal or None in wanted.values():
        is_due = bool(refusal) and None in wanted.values() and seen(log_dir) == []
        return Outcome(refusal, [] if is_due else [f"refused: {refusal or 'no'}"], 0)
    different, records = [], 0
    for number, rows in wanted.items():
        directory = log_dir / f"{topic}-{number}"
        found = rows_of(files_of(directory)) if directory.exists() else []
        records += len(found)
        different += differences(directory.name, found, rows)
    return Outcome("", different, records)


def differences(name, found, wanted):
    """In words, the first few."""
    told = [] if len(found) == len(wanted) else [f"{name}: {len(found)} records, {len(wanted)} wanted"]
    for at, (one, other) in enumerate(zip(found, wanted, strict=False)):
        if one != other:
            fields = [field for field in Row._fields if getattr(one, field) != getattr(other, field)]
            told.append(f"{name}: record {at}: {fields}: {str(one)[:300]} wanted {str(other)[:300]}")
        if len(told) > 5:
            break
    return told


def removed(folder):
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
