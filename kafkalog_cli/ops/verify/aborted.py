"""Follows transactions through a log: aborted transactions that an index lacks, and invalid markers."""

from collections.abc import Iterator
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem, ReadableFile, read_all
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format import txnindex
from kafkalog_cli.format.batch import CODEC_MASK, CONTROL_MASK, TRANSACTIONAL_MASK
from kafkalog_cli.format.columns import rows_where
from kafkalog_cli.format.control import ABORT
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.log.reading.header import control_record_at
from kafkalog_cli.ops.checks.diagnose import Finding, finding
from kafkalog_cli.ops.checks.finding_kinds import MAX_TOLD, FindingKind
from kafkalog_cli.ops.checks.segment_walk import BatchRun

NO_MARKER = "control batch has no transaction marker (IllegalArgumentException)"


class Marker(NamedTuple):
    """A producer's control batch: its position in bytes, and the offsets of the transaction that it ends."""

    position: int
    producer_id: int
    first_offset: int | None
    """None if the log has no record of the transaction."""
    last_offset: int


class AbortedCheck:
    """Follows transactions through the segments of a partition; `see` takes their runs of batches, in order.

    Call `findings` after each segment. A transaction without records in the log (compacted away) needs no entry. With
    `tells_markers`, control batches at which a broker fails that replays them are found, too.
    """

    def __init__(self, fs: Filesystem, *, tells_markers: bool = False) -> None:
        self._fs = fs
        self._tells_markers = tells_markers
        self._open: dict[int, int] = {}
        self._ended: list[Marker] = []

    def see(self, batch_run: BatchRun) -> None:
        """Note the batches that belong to transactions."""
        batches = batch_run.batches
        for row in rows_where(lambda bits: bits & (TRANSACTIONAL_MASK | CONTROL_MASK) != 0, batches.attributes):
            if batches.magic[row] < 2 or not batches.valid[row]:
                continue
            producer = int(batches.producer_id[row])
            if producer < 0 or batches.records_count[row] <= 0:
                continue  # the cleaner emptied the batch: it neither has records of a transaction nor ends it
            if batches.attributes[row] & CONTROL_MASK:
                first = self._open.pop(producer, None)
                is_told = self._tells_markers and not batches.attributes[row] & CODEC_MASK
                if first is not None or is_told:
                    marker = int(batches.last_offset[row])
                    self._ended.append(Marker(int(batches.position[row]), producer, first, marker))
            elif batches.attributes[row] & TRANSACTIONAL_MASK:
                self._open.setdefault(producer, int(batches.base_offset[row]))

    def findings(self, log: ReadableFile) -> Iterator[Finding]:
        """Yield a finding per invalid marker, and one if the index of the segment `log` lacks aborted transactions."""
        ended, self._ended = self._ended, []
        aborted: list[Marker] = []
        invalid = 0
        for marker in ended:
            record = control_record_at(log, marker.position)
            if isinstance(record, Fault) or not record.is_marker:
                invalid += 1
                if self._tells_markers and invalid <= MAX_TOLD:
                    message = record.message if isinstance(record, Fault) else f"a producer's {NO_MARKER}"
                    offsets, position = (marker.last_offset, marker.last_offset), marker.position
                    yield finding(FindingKind.CONTROL_RECORD, log.path, message, position=position, offsets=offsets)
            elif record.type_id == ABORT and marker.first_offset is not None:
                aborted.append(marker)
        if self._tells_markers and invalid > MAX_TOLD:
            message = f"{invalid - MAX_TOLD} more batches of the same kind"
            yield finding(FindingKind.CONTROL_RECORD, log.path, message)
        if not aborted:
            return
        path = log.path.removesuffix(FileKind.LOG.value) + FileKind.TXN_INDEX.value
        known = self._indexed(path)
        missing = [each for each in aborted if known is not None and (each.producer_id, each.last_offset) not in known]
        if not missing:
            return
        _, producer, first, last = missing[0]
        message = f"no entry for an aborted transaction of producer {producer}, offsets {first} to {last}"
        if len(missing) > 1:
            message += f"; {len(missing) - 1} more are missing"
        yield finding(FindingKind.TXN_INDEX_WRONG, path, message, offsets=(first if first is not None else last, last))

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
