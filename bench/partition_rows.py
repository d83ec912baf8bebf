"""The rows of a thousand partitions of 1 MiB: hard links of one log, so that the bytes come from the page cache."""

from __future__ import annotations

import os
import random
from functools import partial
from pathlib import Path

from logs import Log, json_record, write_segment
from rows import Measure, Row

PARTITIONS = {"full": 1_000, "small": 20}
RECORDS = 3_200
"""So many make 1 MiB."""
MOST_LINKS = 30_000
"""The links that one file gets: ext4 allows 65,000."""
FIRST = f"{0:020}.log"


def partition_rows(directory: Path, size: str, jvm: list[str] | None) -> list[Row]:
    """List and verify all partitions; only `verify` has a peer, which reads as much."""
    count = PARTITIONS[size]
    data, what = directory / f"{count}" / "data", f"{count:,} partitions of 1 MiB"
    logs = ",".join(str(data / partition_name(number) / FIRST) for number in range(count))
    peer = None if jvm is None else [*jvm, "--files", logs]
    make = partial(_make, data, count)
    return [
        Row(f"ls, {what}", ["ls", str(data)], "", None, 2, 1, Measure.SECONDS, make),
        Row(f"verify normal, {what}", ["verify", str(data)], "DumpLogSegments, whose output is another", peer, 2.5, 6,
            prepare=make),
    ]  # fmt: skip


def _make(data: Path, count: int) -> None:
    if not data.is_dir():
        Partitions(data.parent, RECORDS).add(count)


def partition_name(number: int) -> str:
    """Return the name of the directory of a partition."""
    return f"t{number // 100:04}-{number % 100}"


class Partitions:
    """A log directory of equal partitions, to which more are added. `directory` must not exist yet."""

    def __init__(self, directory: Path, records: int) -> None:
        self.data = directory / "data"
        self.data.mkdir(parents=True)
        self._sources = directory
        self._log = Log("none", "none", 0, 16_000, json_record(250, 350, keyed=True))
        self._records = records
        self._count = 0
        self.add(1)
        self.size_bytes = (self.data / partition_name(0) / FIRST).stat().st_size
        """The bytes of a partition's segment."""

    def add(self, until: int) -> None:
        """Add partitions until there are so many."""
        for number in range(self._count, until):
            source = self._sources / str(number // MOST_LINKS)
            if number % MOST_LINKS == 0:
                source.mkdir()
                write_segment(self._log, source / FIRST, self._records, random.Random(1))
            partition = self.data / partition_name(number)
            partition.mkdir()
            for file in source.iterdir():
                os.link(file, partition / file.name)
        self._count = max(self._count, until)
