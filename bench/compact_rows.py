"""The rows of compact: logs of many keys, all dirty, against the real Cleaner; fsync and indexes are in both."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

from jvm import clean_command
from logs import Log, json_record, write_segment
from rows import Row

KEYS = {"full": 1_000_000, "small": 5_000}
SEGMENTS = 3
SETTINGS = {"cleanup.policy": "compact", "segment.bytes": 1 << 30, "min.cleanable.dirty.ratio": 0}


class KeyedPartition:
    """A partition whose records have one of `keys` keys each, three a key, in closed segments before an empty one.

    `reset` makes all as it was before a cleaning; the logs are not written again, which a cleaning leaves as they are.
    """

    def __init__(self, directory: Path, codec: str, keys: int) -> None:
        self.path = directory / "t-0"
        self._source = directory / "source"
        self._codec = codec
        self._keys = keys
        self.end_offset = 3 * keys

    def reset(self) -> None:
        """As it was."""
        if not self._source.is_dir():
            self._make()
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir()
        for path in self._source.iterdir():
            if path.suffix == ".log":
                os.link(path, self.path / path.name)
            else:
                shutil.copyfile(path, self.path / path.name)
        for suffix in (".log", ".index", ".timeindex"):
            (self.path / f"{self.end_offset:020}{suffix}").touch()

    def _make(self) -> None:
        making = self._source.with_name(".making")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        source = random.Random(self._codec)
        value = json_record(*((60, 120) if self._codec == "none" else (150, 350)), keyed=False)

        def record(chance: random.Random) -> tuple[bytes, bytes]:
            return b"user-%08d" % chance.randrange(self._keys), value(chance)[1]

        log = Log(self._codec, self._codec, 0, 16 << 10, record)
        each = self.end_offset // SEGMENTS
        for at in range(SEGMENTS):
            end = self.end_offset if at + 1 == SEGMENTS else (at + 1) * each
            write_segment(log, making / f"{at * each:020}.log", end - at * each, source)
        making.rename(self._source)


def compact_rows(directory: Path, size: str) -> list[Row]:
    """A cleaning of everything, uncompressed and lz4."""
    rows = []
    for codec, what, moonshot in (("none", "uncompressed", 6), ("lz4", "lz4", 5)):
        keys = KEYS[size] if codec == "none" else KEYS[size] // 4
        made = KeyedPartition(directory / f"{codec}-{keys}", codec, keys)
        arguments = ["compact", str(made.path)]
        for name, value in SETTINGS.items():
            arguments += ["--config", f"{name}={value}"]
        peer = clean_command(made.path, made.end_offset, SETTINGS)
        work = f"compact, {what}, {keys:,} keys, {made.end_offset:,} records"
        rows.append(Row(work, arguments, "Cleaner.doClean, one thread", peer, 2.5, moonshot, prepare=made.reset))
    return rows
