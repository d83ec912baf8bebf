"""The command lines of the record: each reading command and each writer on each log directory of the fixtures."""

from __future__ import annotations

import re
import zlib
from typing import NamedTuple

PARTITION = re.compile(r".+-\d+$")
SIDECARS = (".index", ".timeindex", ".txnindex", ".snapshot")
NOW = ["--now", "2030-01-01T00:00:00Z"]
JSON = ["--format", "json"]
DELETE = ["--config", "cleanup.policy=delete", "--config", "remote.storage.enable=false"]
COMPACT = ["--config", "cleanup.policy=compact", "--config", "remote.storage.enable=false"]
ALONE = ["--single-replica"]


class Row(NamedTuple):
    """Command lines that run one after the other in one directory, which holds the log directory `D` and the file `LINES`.

    The word RUN stands for the newest run that a command has printed. Where `changes` is false, D is a link to the fixture.
    """

    commands: tuple[tuple[str, ...], ...]
    changes: bool = False

    @property
    def name(self):
        return " ; ".join(" ".join(command) for command in self.commands)


def rows_for(case, root):
    """The rows of the log directory of a case: half of all, another half for each case."""
    return [row for row in _all_rows(root) if zlib.crc32(f"{case} {row.name}".encode()) % 2]


def _all_rows(root):
    partitions = sorted(path for path in root.iterdir() if path.is_dir() and PARTITION.match(path.name))
    data = [path for path in partitions if not path.name.startswith("__") and any(path.glob("*.log"))]
    rows = [Row((tuple(command),)) for command in _directory_readers()]
    rows += [Row(tuple(map(tuple, commands)), changes=True) for commands in _directory_writers()]
    for path in data[:1] or partitions[:1]:
        rows += [Row((tuple(command),)) for command in _partition_readers(path)]
        rows += [Row(tuple(map(tuple, commands)), changes=True) for commands in _partition_writers(f"D/{path.name}")]
    return rows


def _directory_readers():
    yield from (["ls", "D", *NOW, *words] for words in ([], JSON, ["--segments"], ["--topics"], ["--freeable", *JSON]))
    yield from (["verify", "D", *NOW, "--level", level] for level in ("quick", "normal", "deep"))
    yield from (["verify", "D", *NOW, "--level", level, *JSON] for level in ("normal", "deep"))
    yield ["verify", "D", *NOW, "-v"]
    for command, clock in (("doctor", NOW), ("stats", []), ("groups", []), ("transactions", NOW), ("cluster", NOW)):
        yield from ([command, "D", *clock, *words] for words in ([], JSON))
    yield ["groups", "D", "--history"]
    yield from (["inspect", "D", *NOW, *words] for words in ([], JSON))
    yield from (
        ["read", "D", *words]
        for words in (
            JSON,
            ["--isolation", "read_committed", *JSON],
            ["--print", "partition,offset,timestamp,key,value"],
        )
    )
    yield ["find", "D", "--value", "a", *JSON]
    yield ["compact", "D", "--dry-run", "--estimate", "--force", *COMPACT, *NOW]
    yield ["retain", "D", "--dry-run", "--explain", "--config", "retention.ms=1000", *DELETE, *NOW]
    yield ["retain", "D", "--dry-run", *NOW, *JSON]
    yield from (["recover", "D", "--dry-run", *NOW, *words] for words in ([], ["--like-broker", *JSON]))


def _directory_writers():
    yield [["recover", "D", *NOW], ["verify", "D", *NOW], ["undo", "D", "RUN"]]


def _partition_readers(path):
    partition = f"D/{path.name}"
    logs = sorted(path.glob("*.log"))
    middle = int(logs[len(logs) // 2].stem) if logs and logs[0].stem.isdigit() else 0
    prints = ["--print-data-log"]
    for words in ([], ["--deep-iteration"], prints, [*prints, *JSON], ["--kafka-version", "4.2", *prints]):
        yield ["dump-log", partition, *words]
    yield from (["dump-index", partition, *words] for words in ([], JSON))
    yield from (["lookup-offset", partition, str(middle + 7), *words] for words in ([], JSON))
    yield ["lookup-time", partition, "1700000050000"]
    for suffix in SIDECARS:
        yield from (["dump-log", "--files", f"{partition}/{file.name}"] for file in sorted(path.glob(f"*{suffix}"))[:1])


def _partition_writers(partition):
    limits = (["retention.ms=1000"], ["retention.bytes=4000"])
    changes = [
        ["recover", partition],
        ["recover", partition, "--like-broker"],
        ["recover", partition, "--indexes-only"],
        ["roll", partition, "--force", *DELETE],
        *(["retain", partition, *DELETE, "--config", *limit] for limit in limits),
        ["compact", partition, *COMPACT, "--force"],
        ["truncate", partition, "--to", "20", *ALONE, *DELETE],
        ["delete-records", partition, "--before", "15", *ALONE, *DELETE],
        ["append", partition, "LINES", "--input", "lines", *ALONE, *DELETE],
    ]
    for change in changes:
        yield [[*change, *NOW], ["verify", partition, *NOW, "--level", "deep"], ["undo", partition, "RUN"]]
    yield [
        ["retain", partition, *DELETE, "--config", *limits[0], *NOW, *JSON],
        ["purge", partition, "--older-than", "0s"],
    ]
    yield [["recover", partition, "--salvage", "OUT", *NOW, *JSON]]
