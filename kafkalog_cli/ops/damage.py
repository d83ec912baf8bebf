"""Decides whether damage in a segment is a torn tail or corruption (see EXIT STATUS in the man pages)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_cli.disk.fs import Filesystem, ReadableFile
from kafkalog_cli.disk.names import FileKind, WorkState, classify_file
from kafkalog_cli.errors import DamagedLog, ExitCode, KafkalogError
from kafkalog_cli.format.batch import RECORD_BATCH_MAGIC, Batch, BatchColumns
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.limits import Limits

if TYPE_CHECKING:
    from kafkalog_cli.log.partition import Partition

NOWHERE = -1


def is_torn_tail(partition: Partition, path: str, fault: Fault) -> bool:
    """Whether a fault in the log file `path` is an incomplete batch at the log's end, a warning for `verify`."""
    return fault.kind is FaultKind.TRAILING_BYTES and path == partition.segments[-1].log.path


def damaged_log(path: str, fault: Fault) -> DamagedLog:
    """Return the DamagedLog that programs get for a fault in a segment file."""
    return DamagedLog(
        path=path, position=fault.position, kind=fault.kind.value, message=fault.message,
        first_offset=fault.base_offset, last_offset=fault.last_offset,
    )  # fmt: skip


def refused_by_clients(batch: Batch, outcome: str) -> Fault:
    """Return the fault of a batch that is not valid for clients; `outcome`: its records are left out or not counted."""
    first, last = batch.base_offset, batch.last_offset
    if batch.magic > RECORD_BATCH_MAGIC:
        message = f"clients refuse its magic {batch.magic}: the records of offsets {first} to {last} are {outcome}"
        return Fault(
            FaultKind.INVALID_MAGIC, batch.position, message, batch.size_bytes, "0 to 2", str(batch.magic), first, last
        )
    message = f"its CRC does not match: the records of offsets {first} to {last} are {outcome}"
    return Fault(FaultKind.CRC_MISMATCH, batch.position, message, batch.size_bytes, base_offset=first, last_offset=last)


class DamageSeen:
    """Collects where the first bad byte and the last good batch are, during one pass over a segment."""

    def __init__(self) -> None:
        self.first_bad: int | None = None
        self.last_good = NOWHERE
        self._seen_end = 0
        self._chain_broke = False
        self._is_in_batch = False  # the first bad byte is inside a batch whose CRC is valid

    def batches(self, batches: BatchColumns) -> None:
        """Note the CRC results of some batches. Call it in file order."""
        rows = len(batches)
        if not rows:
            return
        valid = batches.valid
        if not batches.all_valid():
            self._note(int(batches.position[next(row for row in range(rows) if not valid[row])]))
        good = batches.last_valid_row()
        if good is not None:
            self.last_good = int(batches.position[good])
        self._seen_end = batches.end_position

    def fault(self, fault: Fault) -> None:
        """Note a fault. A record's fault may arrive after the CRCs of later batches were noted."""
        if self.first_bad is None or fault.position < self.first_bad:
            self._is_in_batch = fault.position < self._seen_end
        self._note(fault.position)
        self._chain_broke |= fault.position >= self._seen_end

    def exit_code(self, fs: Filesystem, file: ReadableFile, scanned_bytes: int, limits: Limits) -> ExitCode:
        """WARNINGS for tail damage, CORRUPTION for any other damage, OK for none.

        Tail damage is in the last segment, with no good batch after the first bad byte. Damage that a broker has cut
        off or overwritten since the file was read (`is_overtaken`) gives WARNINGS too.
        """
        if self.first_bad is None:
            return ExitCode.OK
        from kafkalog_cli.log.reading.resync import is_overtaken, next_good_batch

        is_v07 = classify_file(file.path.rpartition("/")[2]).kind is FileKind.SEVEN_LOG
        if not self._is_in_batch and is_overtaken(
            fs, file.path, file.size_bytes, self.first_bad, limits, is_v07=is_v07
        ):
            return ExitCode.WARNINGS
        if self.last_good > self.first_bad or not is_last_segment(fs, file.path):
            return ExitCode.CORRUPTION
        start = self.first_bad + 1
        if not self._chain_broke:  # else a damaged length may have led the scan across good batches
            start = max(scanned_bytes, self._seen_end, start)
        behind = next_good_batch(file, start, limits, is_v07=is_v07, broken_at=self.first_bad)
        return ExitCode.WARNINGS if behind is None else ExitCode.CORRUPTION

    def _note(self, position: int) -> None:
        self.first_bad = position if self.first_bad is None else min(self.first_bad, position)


def is_last_segment(fs: Filesystem, path: str) -> bool:
    """Whether no other non-empty log file in the directory has a larger base offset."""
    parent, slash, name = path.rpartition("/")
    own = classify_file(name)
    try:
        entries = fs.list_directory(parent or slash or ".")
    except KafkalogError:
        return True
    others = (classify_file(entry.path.rpartition("/")[2]) for entry in entries if entry.size_bytes)
    return not any(
        other.kind in (FileKind.LOG, FileKind.SEVEN_LOG)
        and other.state is WorkState.IN_PLACE
        and other.offset is not None
        and own.offset is not None
        and other.offset > own.offset
        for other in others
    )
