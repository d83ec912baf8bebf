"""Aborted transactions whose records are in the log, but which are missing in the transaction index."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog_cli.disk.fs import Filesystem, ReadableFile, read_all
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format import txnindex
from kafkalog_cli.format.batch import CONTROL_MASK, TRANSACTIONAL_MASK
from kafkalog_cli.format.columns import rows_where
from kafkalog_cli.format.control import ABORT
from kafkalog_cli.log.reading.header import control_type_at
from kafkalog_cli.ops.checks.diagnose import Finding, finding
from kafkalog_cli.ops.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.checks.segment_walk import BatchRun


class AbortedCheck:
    """Follows transactions through the segments of a partition; `see` takes their runs of batches, in order.

    Call `findings` after each segment. A transaction without records in the log (compacted away) needs no entry.
    """

    def __init__(self, fs: Filesystem) -> None:
        self._fs = fs
        self._open: dict[int, int] = {}
        self._ended: list[tuple[int, int, int, int]] = []

    def see(self, batch_run: BatchRun) -> None:
        """Note the batches that belong to transactions."""
        batches = batch_run.batches
        for row in rows_where(lambda bits: bits & TRANSACTIONAL_MASK != 0, batches.attributes):
            if batches.magic[row] < 2 or not batches.valid[row]:
                continue
            producer = int(batches.producer_id[row])
            if batches.records_count[row] <= 0:
                continue  # the cleaner emptied the batch: it neither has records of a transaction nor ends it
            if batches.attributes[row] & CONTROL_MASK:
                first = self._open.pop(producer, None)
                if first is not None:
                    marker = int(batches.last_offset[row])
                    self._ended.append((int(batches.position[row]), producer, first, marker))
            else:
                self._open.setdefault(producer, int(batches.base_offset[row]))

    def findings(self, log: ReadableFile) -> Iterator[Finding]:
        """Yield a finding if aborted transactions that end in the segment `log` are not in its index."""
        ended, self._ended = self._ended, []
        aborted = [each for each in ended if control_type_at(log, each[0]) == ABORT]
        if not aborted:
            return
        path = log.path.removesuffix(FileKind.LOG.value) + FileKind.TXN_INDEX.value
        known = self._indexed(path)
        missing = [each for each in aborted if known is not None and each[1:4:2] not in known]
        if not missing:
            return
        _, producer, first, marker = missing[0]
        message = f"no entry for an aborted transaction of producer {producer}, offsets {first} to {marker}"
        if len(missing) > 1:
            message += f"; {len(missing) - 1} more are missing"
        yield finding(FindingKind.TXN_INDEX_WRONG, path, message, offsets=(first, marker))

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
