"""Makes the logs that bench/compare.py measures, or finds what plays their parts among logs that exist."""

from __future__ import annotations

import argparse
import struct
import sys
from pathlib import Path
from typing import NamedTuple

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent))

from logs import HEADER, Log, json_record, text_record, write_log

KIBIBYTE, MEBIBYTE, GIBIBYTE = 1 << 10, 1 << 20, 1 << 30
MOST_BYTES = {"lz4": 320 * MEBIBYTE}
"""How much of a log that exists is taken, in whole segments; of the other parts, all."""

PARTS = ("uncompressed", "one-record", "lz4", "zstd")
"""What a log can be in the table: its codec, or what is special about its batches."""


class Input(NamedTuple):
    """A log of the table: its segments, and what lies in their middle (for ranges)."""

    part: str
    segments: tuple[Path, ...]

    @property
    def size_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.segments)


def inputs(size: str) -> list[Log]:
    """The logs of the table; `small` is for a smoke run."""
    full = size == "full"
    return [
        Log("uncompressed", "none", GIBIBYTE if full else 16 * MEBIBYTE, 10_850, text_record),
        Log("one-record", "none", 200 * MEBIBYTE if full else 4 * MEBIBYTE, 0, text_record),
        Log("lz4", "lz4", 256 * MEBIBYTE if full else 4 * MEBIBYTE, 160 * KIBIBYTE, json_record(150, 350, keyed=True)),
        Log("zstd", "zstd", 720 * MEBIBYTE if full else 4 * MEBIBYTE, 288 * KIBIBYTE,
            json_record(800, 1200, keyed=False)),
    ]  # fmt: skip


def make(size: str, directory: Path) -> None:
    """Write what is not there yet; a log appears under its name once it is whole."""
    for log in inputs(size):
        done = directory / f"{log.name}-0"
        if done.is_dir():
            continue
        print(f"making {done.name}: {log.segment_bytes >> 20} MiB", file=sys.stderr, flush=True)
        making = directory / f".making-{log.name}"
        write_log(log, making)
        (making / done.name).rename(done)
        making.rmdir()


def find(directory: Path) -> dict[str, Input]:
    """What plays the parts among the partitions at or below `directory`: the largest of each kind."""
    found: dict[str, Input] = {}
    for partition in sorted({path.parent for path in directory.rglob("*.log")}):
        segments = segments_of(partition)
        part = _part(segments[0]) if segments else None
        if part is None:
            continue
        candidate = Input(part, _at_most(segments, MOST_BYTES.get(part)))
        if part not in found or candidate.size_bytes > found[part].size_bytes:
            found[part] = candidate
    return found


def segments_of(partition: Path) -> tuple[Path, ...]:
    """All segments of a partition, by base offset."""
    return tuple(sorted(path for path in partition.glob("*.log") if path.stem.isdigit()))


def _part(segment: Path) -> str | None:
    """By the header of the first batch; None for what the table has no row of."""
    with segment.open("rb") as file:
        header = file.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    fields = HEADER.unpack(header)
    magic, attributes, count = fields[3], fields[5], fields[12]
    codec = {0: "uncompressed", 3: "lz4", 4: "zstd"}.get(attributes & 7) if magic == 2 else None
    return "one-record" if codec == "uncompressed" and count == 1 else codec


def _at_most(segments: tuple[Path, ...], most_bytes: int | None) -> tuple[Path, ...]:
    if most_bytes is None:
        return segments
    taken, total = [segments[0]], segments[0].stat().st_size
    for path in segments[1:]:
        total += path.stat().st_size
        if total > most_bytes:
            break
        taken.append(path)
    return tuple(taken)


def middle(segment: Path) -> tuple[int, int]:
    """Offset and timestamp (epoch milliseconds) of a batch about the middle of a segment, by its indexes."""
    entry = struct.Struct(">ii")
    data = segment.with_suffix(".index").read_bytes()
    relative, position = entry.unpack_from(data, len(data) // entry.size // 2 * entry.size)
    with segment.open("rb") as file:
        file.seek(position)
        fields = HEADER.unpack(file.read(HEADER.size))
    assert fields[0] <= int(segment.stem) + relative
    return fields[0], fields[7]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=("full", "small"), default="full", help="2.2 GiB, or 28 MiB for a smoke run")
    parser.add_argument("--out", type=Path, help="where the logs are written")
    parser.add_argument(
        "--directory", type=Path, help="make nothing: show what the logs below DIRECTORY would serve for"
    )
    options = parser.parse_args()
    if (options.out is None) == (options.directory is None):
        parser.error("give --out or --directory")
    if options.out is not None:
        make(options.size, options.out)
    for found in find(options.out or options.directory).values():
        print(f"{found.part}: {found.size_bytes} bytes in {', '.join(map(str, found.segments))}")


if __name__ == "__main__":
    main()
