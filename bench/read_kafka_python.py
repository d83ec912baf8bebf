"""Reads every record of segment files with kafka-python, as its consumer does, and prints only their number."""

import sys
from pathlib import Path

from kafka.record import MemoryRecords  # type: ignore[import-untyped]

FETCH_BYTES = 1 << 20
"""The consumer's max.partition.fetch.bytes."""


def read(path: str) -> int:
    count = 0
    rest = b""
    with Path(path).open("rb") as file:
        while fetched := file.read(FETCH_BYTES):
            records = MemoryRecords(rest + fetched)
            while (batch := records.next_batch()) is not None:
                if not batch.validate_crc():
                    raise SystemExit(f"{path}: bad CRC")
                for record in batch:
                    count += record.value is not None
            rest = (rest + fetched)[records.valid_bytes() :]
    return count


print(sum(read(path) for path in sys.argv[1:]))
