"""The rows of a thousand partitions of 1 MiB: hard links of one log, so that the bytes come from the page cache."""

from __future__ import annotations

import os
import random
import shutil
from functools import partial
from pathlib import Path

from logs import Log, json_record, write_segment
from rows import Measure, Row

PARTITIONS = {"full": 1_000, "small": 20}
RECORDS = 3_200
"""So many make 1 MiB."""
MOST_LINKS = 30_000
"""The links that one file gets: ext4 allows 65,000."""


def partition_rows(directory: Path, size: str, jvm: list[str] | None) -> list[Row]:
    """List and verify all partitions, and audit them with Spark; only `verify` has a peer, which reads as much."""
    count = PARTITIONS[size]
    data, what = directory / f"{count}" / "data", f"{count:,} partitions of 1 MiB"
    logs = ",".join(str(data / partition_name(number) / f"{0:020}.log") for number in range(count))
    peer = None if jvm is None else [*jvm, "--files", logs]
    make = partial(_make, data, count)
    return [
        Row(f"ls, {what}", ["ls", str(data)], "", None, 2, 1, Measure.SECONDS, make),
        Row(f"verify normal, {what}", ["verify", str(data)], "DumpLogSegments, whose output is another", peer, 2.5, 6,
            prepare=make),
        Row(f"audit, {what}", ["audit", str(data), "--quiet"], "", None, 60, 30, Measure.SECONDS, make),
    ]  # fmt: skip


def _make(data: Path, count: int) -> None:
    if not data.is_dir():
        link_partitions(data.parent, RECORDS, count)


def partition_name(number: int) -> str:
    """Return the name of the directory of a partition."""
    return f"t{number // 100:04}-{number % 100}"


def link_partitions(directory: Path, records: int, partitions: int) -> int:
    """Make a log directory of equal partitions; return the bytes of their segments."""
    shutil.rmtree(directory, ignore_errors=True)
    data, size = directory / "data", 0
    data.mkdir(parents=True)
    log = Log("none", "none", 0, 16_000, json_record(250, 350, keyed=True))
    for number in range(partitions):
        source = directory / str(number // MOST_LINKS) / f"{0:020}.log"
        if number % MOST_LINKS == 0:
            source.parent.mkdir()
            write_segment(log, source, records, random.Random(1))
            size = source.stat().st_size
        partition = data / partition_name(number)
        partition.mkdir()
        for file in source.parent.iterdir():
            os.link(file, partition / file.name)
    return size * partitions
