"""Whether damage in a segment is a torn tail or corruption (product.md, "Exit codes")."""

from __future__ import annotations

from typing import Any

from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.storage.fs import Filesystem, ReadableFile


class DamageSeen:
    """Gathers what one pass over a segment sees: where the first bad byte is, and good batches behind it."""

    def __init__(self) -> None:
        self.first_bad: int | None = None
        self._good_after = False

    def batches(self, batches: BatchColumns) -> None:
        """Look at the CRCs of some batches, in file order."""
        valid: Any = batches.valid
        if batches.matrix is not None:
            all_good, any_good = bool(valid.all()), bool(valid.any())
        else:
            all_good, any_good = all(valid), any(valid)
        if self.first_bad is not None:
            self._good_after |= any_good
        elif not all_good:
            row = next(index for index, good in enumerate(valid) if not good)
            self.first_bad = int(batches.position[row])
            self._good_after = any(good for index, good in enumerate(valid) if index > row)

    def fault(self, fault: Fault) -> None:
        """Note a fault; faults come in file order too."""
        if self.first_bad is None:
            self.first_bad = fault.position

    def exit_code(self, fs: Filesystem, file: ReadableFile, scanned_bytes: int, limits: Limits) -> ExitCode:
        """WARNINGS for tail damage: the last segment, and no good batch behind the first bad byte; else CORRUPTION."""
        if self.first_bad is None:
            return ExitCode.OK
        if self._good_after or not _is_last_segment(fs, file.path):
            return ExitCode.CORRUPTION
        from kafkalog_cli.storage.resync import next_good_batch

        behind = next_good_batch(file, max(scanned_bytes, self.first_bad + 1), limits)
        return ExitCode.WARNINGS if behind is None else ExitCode.CORRUPTION


def _is_last_segment(fs: Filesystem, path: str) -> bool:
    from kafkalog_cli.storage.names import FileKind, WorkState, classify_file

    parent, _, name = path.rpartition("/")
    own = classify_file(name)
    try:
        entries = fs.list_directory(parent or ".")
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
