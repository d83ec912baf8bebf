"""Compares the CPU seconds of ten commands with stored ratios, and with the least that they could take.

A ratio is the CPU seconds (user and system) of a command by those of a loop in Python just before it: it is about the
the same at another load. The limit is what Python's start, reading the file from the page cache, its checksums and its
codec take alone; `bound by` is the largest of these parts. A worse ratio does not fail: CI prints the table.
"""

from __future__ import annotations

import argparse
import json
import mmap
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

import crc32c
import lz4.frame
import zstandard
from jvm import cache_directory
from make_inputs import make
from measure import OUR_CODES, ROOT, run
from rows import SMALL_FILE

STORED = ROOT / "bench" / "smoke.json"
TURNS_OF_LOOP = 1_500_000
CHECKED_FROM = 21
"""Byte of a batch from which its checksum counts; its codec is in the low bits of the attributes that follow."""
_HEADER = struct.Struct(">qiibIh")
_RECORDS_FROM = 61
_CODECS: dict[int, tuple[str, Callable[[bytes], bytes]]] = {
    3: ("lz4", lz4.frame.decompress),
    4: ("zstd", lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data)),
}


class SmokeRow(NamedTuple):
    """One row: the arguments of kafkalog, and the segment that it reads; None if that is small."""

    work: str
    arguments: Sequence[str]
    segment: Path | None = None


class Measured(NamedTuple):
    """CPU seconds of the command and of each part of its limit, and the median ratio to the loop."""

    seconds: float
    ratio: float
    parts: dict[str, float]


def smoke_rows(directory: Path) -> list[SmokeRow]:
    """Return the rows; `directory` has the small logs of make_inputs."""
    plain, single, lz4_log, zstd_log = (
        directory / f"{part}-0" / f"{0:020}.log" for part in ("uncompressed", "one-record", "lz4", "zstd")
    )
    example = str(SMALL_FILE.parent)
    return [
        SmokeRow("dump of a small file", ["dump-log", "--files", str(SMALL_FILE)]),
        SmokeRow("--help", ["--help"]),
        SmokeRow("ls", ["ls", example]),
        SmokeRow("verify of a small partition", ["verify", example]),
        SmokeRow("dump default", ["dump-log", "--files", str(plain)], plain),
        SmokeRow("dump --deep-iteration", ["dump-log", "--deep-iteration", "--files", str(plain)], plain),
        SmokeRow("verify normal", ["verify", str(plain.parent)], plain),
        SmokeRow("verify deep, one-record batches", ["verify", "--level", "deep", str(single.parent)], single),
        SmokeRow("read, lz4", ["read", str(lz4_log.parent)], lz4_log),
        SmokeRow("read, zstd", ["read", str(zstd_log.parent)], zstd_log),
    ]


def loop_seconds() -> float:
    """Return the CPU seconds of the loop."""
    begin, total = time.process_time(), 0
    for number in range(TURNS_OF_LOOP):
        total += number & 7
    return time.process_time() - begin


def measured(row: SmokeRow, kafkalog: Sequence[str], runs: int) -> Measured:
    """Run a row after the loop, `runs` times."""
    command = [*kafkalog, *row.arguments]
    run(command, OUR_CODES)
    pairs = [(loop_seconds(), run(command, OUR_CODES).cpu_seconds) for _ in range(runs)]
    start = min(run([sys.executable, "-c", "pass"]).cpu_seconds for _ in range(runs))
    parts = {"start": start} | ({} if row.segment is None else parts_of(row.segment))
    return Measured(min(ours for _, ours in pairs), median(ours / loop for loop, ours in pairs), parts)


def parts_of(segment: Path) -> dict[str, float]:
    """Return the CPU seconds of reading the segment, of its checksums, and of its codec, each alone."""
    parts = {"page cache": reading_seconds(segment)}
    with segment.open("rb") as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    batches = list(_batches(data))
    for batch in batches:  # the pages are mapped before the checksums are measured
        batch[::4096].tobytes()
    begin = time.process_time()
    for batch in batches:
        crc32c.crc32c(batch[CHECKED_FROM:])
    parts["CRC"] = time.process_time() - begin
    name, decompress = _CODECS.get(_HEADER.unpack_from(batches[0])[5] & 7, ("", None))
    if decompress is not None:
        regions = [bytes(batch[_RECORDS_FROM:]) for batch in batches]
        begin = time.process_time()
        for region in regions:
            decompress(region)
        parts[name] = time.process_time() - begin
    return parts


def reading_seconds(path: Path) -> float:
    """Return the CPU seconds of reading a file from the page cache: a first reading brings it there."""
    buffer, seconds = bytearray(1 << 20), 0.0
    for _ in range(2):
        begin = time.process_time()
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
        seconds = time.process_time() - begin
    return seconds


def _batches(data: memoryview) -> Iterator[memoryview]:
    position = 0
    while position < len(data):
        size = _HEADER.unpack_from(data, position)[1] + 12
        yield data[position : position + size]
        position += size


HEADINGS = ["Work", "CPU s", "of the loop", "stored", "change", "limit s", "of CPU s", "bound by"]


def cells(row: SmokeRow, found: Measured, stored: float | None) -> list[str]:
    """Return a row of the table."""
    limit = sum(found.parts.values())
    change = "-" if stored is None else f"{found.ratio / stored - 1:+.0%}"
    return [row.work, f"{found.seconds:.3f}", f"{found.ratio:.2f}", "-" if stored is None else f"{stored:.2f}", change,
            f"{limit:.3f}", f"{limit / found.seconds:.0%}", max(found.parts, key=found.parts.__getitem__)]  # fmt: skip


def table(rows: list[list[str]]) -> str:
    """Return the table in Markdown."""
    lines = [HEADINGS, ["---", *["---:"] * (len(HEADINGS) - 2), "---"], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="of each command")
    parser.add_argument("--store", action="store_true", help="keep the ratios in bench/smoke.json")
    options = parser.parse_args()
    directory = cache_directory() / "bench-small"
    make("small", directory)
    kafkalog = [str(Path(sys.executable).with_name("kafkalog"))]
    stored = json.loads(STORED.read_text()) if STORED.exists() else {}
    rows = smoke_rows(directory)
    found = {row.work: measured(row, kafkalog, options.runs) for row in rows}
    text = table([cells(row, found[row.work], stored.get(row.work)) for row in rows])
    print(text)
    if options.store:
        STORED.write_text(json.dumps({work: round(one.ratio, 3) for work, one in found.items()}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
