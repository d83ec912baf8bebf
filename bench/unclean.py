"""Partitions as a broker leaves them that was killed: what recover and the real loader are measured on."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

from logs import HEADER

MAX_INDEX_BYTES = 10 << 20
"""segment.index.bytes: the indexes of the active segment are as long, with zeros behind their entries."""
TORN_BYTES = 1000
_ENTRY_BYTES = {".index": 8, ".timeindex": 12}
_BASE_OFFSET = struct.Struct(">q")


class UncleanPartition:
    """A partition of `copies` times one segment, in a log directory of its own, recovery point 0.

    The log ends in the middle of a batch. `reset` makes all as it was after a run; the logs are not written again.
    """

    def __init__(self, directory: Path, source: Path, copies: int) -> None:
        self.path = directory / "t-0"
        self._source = source
        self._copies = copies
        self._offsets = _offsets_in(source)
        self._recovery_points = directory / "recovery-point-offset-checkpoint"
        if not self.path.is_dir():
            making = directory / ".making"
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir(parents=True)
            for copy in range(copies):
                _write_shifted(source, self._named(making, copy, ".log"), copy * self._offsets)
            making.rename(self.path)

    @property
    def size_bytes(self) -> int:
        return self._copies * self._source.stat().st_size

    def reset(self) -> None:
        """As the broker left it."""
        for path in self.path.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.suffix != ".log":
                path.unlink()
        for copy in range(self._copies):
            is_active = copy == self._copies - 1
            for suffix, entry_bytes in _ENTRY_BYTES.items():
                data = self._source.with_suffix(suffix).read_bytes()
                room = MAX_INDEX_BYTES - MAX_INDEX_BYTES % entry_bytes if is_active else len(data)
                self._named(self.path, copy, suffix).write_bytes(data.ljust(room, b"\0"))
        (self.path / "leader-epoch-checkpoint").write_text(f"0\n1\n{self._leader_epoch()} 0\n")
        self._tear()
        self._recovery_points.write_text("0\n1\nt 0 0\n")

    def _leader_epoch(self) -> int:
        with self._source.open("rb") as log:
            return int(HEADER.unpack(log.read(HEADER.size))[2])

    def _tear(self) -> None:
        size = self._source.stat().st_size
        with self._named(self.path, self._copies - 1, ".log").open("r+b") as log:
            first = log.read(TORN_BYTES)
            log.truncate(size)
            log.seek(size)
            log.write(_BASE_OFFSET.pack(self._copies * self._offsets) + first[_BASE_OFFSET.size :])

    def _named(self, directory: Path, copy: int, suffix: str) -> Path:
        return directory / f"{copy * self._offsets:020}{suffix}"


def _offsets_in(segment: Path) -> int:
    """How many offsets a segment that starts at 0 takes."""
    end = 0
    with segment.open("rb") as file:
        while len(header := file.read(HEADER.size)) == HEADER.size:
            fields = HEADER.unpack(header)
            end = fields[0] + fields[6] + 1
            file.seek(fields[1] + 12 - HEADER.size, 1)
    return int(end)


def _write_shifted(source: Path, target: Path, shift: int) -> None:
    """Copy a segment with all offsets so much higher: no checksum covers a batch's base offset."""
    shutil.copyfile(source, target)
    with target.open("r+b", buffering=0) as file:
        position, end = 0, target.stat().st_size
        while shift and position < end:
            file.seek(position)
            fields = HEADER.unpack(file.read(HEADER.size))
            file.seek(position)
            file.write(_BASE_OFFSET.pack(fields[0] + shift))
            position += fields[1] + 12
