"""Follows transactions through a log: aborted transactions that an index lacks, and invalid markers."""

from array import array
from collections.abc import Iterator

from kafkalog_cli.disk.fs import Filesystem, ReadableFile, read_all
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format import txnindex
from kafkalog_cli.format.control import ABORT
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.log.open_transactions import TransactionReplay
from kafkalog_cli.log.reading.header import control_record_at
from kafkalog_cli.ops.check.checks.diagnose import Finding, finding
from kafkalog_cli.ops.check.checks.finding_kinds import MAX_FINDINGS, FindingKind
from kafkalog_cli.ops.check.checks.segment_walk import BatchRun

NO_MARKER = "control batch has no transaction marker (IllegalArgumentException)"


_NO_RECORDS = -1


class AbortedCheck:
    """Follows transactions through the segments of a partition; `see` takes their runs of batches, in order.

    Call `findings` after each segment. A transaction without records in the log (compacted away) needs no entry. With
    `checks_markers`, control batches at which a broker fails that replays them are found, too.
    """

    def __init__(self, fs: Filesystem, *, checks_markers: bool = False) -> None:
        self._fs = fs
        self._checks_markers = checks_markers
        self._replay = TransactionReplay()
        # Of each control batch its position in bytes, its producer id, and the first and last offset of the transaction
        # that it ends; packed, since a segment of a gigabyte may have millions.
        self._ended = array("q")

    def see(self, batch_run: BatchRun) -> bool:
        """Note the batches that belong to transactions, and return whether any ends one."""
        batches, has_marker = batch_run.batches.of_transactions(only_valid=True), False
        for marker, found in self._replay.ended(batches, only_records=True):
            has_marker = True
            first = _NO_RECORDS if found is None else found
            if first != _NO_RECORDS or (self._checks_markers and not marker.codec):
                self._ended.extend((marker.position, marker.producer_id, first, marker.last_offset))
        return has_marker

    def findings(self, log: ReadableFile) -> Iterator[Finding]:
        """Yield a finding per invalid marker, and one if the index of the segment `log` lacks aborted transactions."""
        ended, self._ended = iter(self._ended), array("q")
        aborted, invalid = array("q"), 0
        for position, producer, first, last in zip(ended, ended, ended, ended, strict=True):
            record = control_record_at(log, position)
            if isinstance(record, Fault) or not record.is_marker:
                invalid += 1
                if self._checks_markers and invalid <= MAX_FINDINGS:
                    message = record.message if isinstance(record, Fault) else f"a producer's {NO_MARKER}"
                    yield finding(
                        FindingKind.CONTROL_RECORD, log.path, message, position=position, offsets=(last, last)
                    )
            elif record.type_id == ABORT and first != _NO_RECORDS:
                aborted.extend((producer, first, last))
        if self._checks_markers and invalid > MAX_FINDINGS:
            message = f"{invalid - MAX_FINDINGS} more batches of the same kind"
            yield finding(FindingKind.CONTROL_RECORD, log.path, message)
        if not aborted:
            return
        path = log.path.removesuffix(FileKind.LOG.value) + FileKind.TXN_INDEX.value
        known = self._indexed(path)
        if known is None:
            return
        numbers = iter(aborted)
        missing = (one for one in zip(numbers, numbers, numbers, strict=True) if (one[0], one[2]) not in known)
        for producer, first, last in missing:
            more = sum(1 for _ in missing)
            message = f"no entry for an aborted transaction of producer {producer}, offsets {first} to {last}"
            if more:
                message += f"; {more} more are missing"
            yield finding(FindingKind.TXN_INDEX_WRONG, path, message, offsets=(first, last))

    def _indexed(self, path: str) -> set[tuple[int, int]] | None:
        """Return the producer id and last offset of each entry.

        None if the file cannot be read, which another check reports.
        """
        try:
            if self._fs.status(path) is None:
                return set()
            entries, _ = txnindex.decode(read_all(self._fs, path), 0)
        except (KafkalogError, OSError):
            return None
        return {(entry.producer_id, entry.last_offset) for entry in entries}
