"""dump-log's text of indexes, snapshots and transaction indexes (DumpLogSegments)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem, read_all
from kafkalog_cli.disk.spooled_pairs import SpooledPairs
from kafkalog_cli.format import producer_snapshot, txnindex
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.index import OffsetIndex, TimeIndex
from kafkalog_cli.format.java_text import parse_long
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.ops.look.dump_indexes import GivesUp, check_offset_index, check_time_index
from kafkalog_cli.output.dump_printer import DumpReports
from kafkalog_cli.output.dump_text import aborted_txn_line, java_absolute_path, producer_line


class Corrupt(NamedTuple):
    """The line on stderr for a corrupt snapshot, at which the real tool does not abort."""

    message: str


class Sidecars(NamedTuple):
    """Dumps the files beside a segment. A GivesUp is where the real tool aborts, and ends the text.

    `shown` returns a path as it is printed. `reports` collects the mismatches for the end of the output.
    """

    fs: Filesystem
    reports: DumpReports
    shown: Callable[[str], str]
    limits: Limits
    max_message_size: int
    only_sanity: bool
    only_mismatches: bool

    def text(self, path: str, suffix: str) -> Iterator[str | GivesUp | Corrupt]:
        """Yield the text of the file, whose name ends in `suffix`."""
        if suffix == ".snapshot":
            yield from self._snapshot(path)
            return
        directory, slash, name = path.rpartition("/")
        number = name.split(".", maxsplit=1)[0]
        base_offset = parse_long(number)
        if base_offset is None:
            yield GivesUp(None, "the name does not begin with an offset")
            return
        dump = {".index": self._offset_index, ".timeindex": self._time_index, ".txnindex": self._txn_index}[suffix]
        yield from dump(path, f"{directory}{slash}{number}", base_offset)

    def _offset_index(self, path: str, base: str, base_offset: int) -> Iterator[str | GivesUp]:
        with self.fs.open_read(base + ".log") as log:
            index = OffsetIndex(read_all(self.fs, path), base_offset)
            if not len(index):
                yield f"{self.shown(path)} is empty.\n"
                return
            if self.only_sanity:
                yield self._sanity(path, index.sanity_message(java_absolute_path(path)))
                return
            mismatches, absolute = self.reports.index_mismatches, self.shown(java_absolute_path(path))
            mismatches[absolute] = SpooledPairs()
            for checked in check_offset_index(index, log, self.max_message_size):
                if isinstance(checked, GivesUp):
                    yield checked
                    return
                if checked.log_offset != checked.offset:
                    self.reports.add(mismatches, absolute, (checked.offset, checked.log_offset))
                if not self.only_mismatches:
                    yield f"offset: {checked.offset} position: {checked.position}\n"

    def _time_index(self, path: str, base: str, base_offset: int) -> Iterator[str | GivesUp]:
        """Yield the text of a time index; it needs the segment and its offset index."""
        with self.fs.open_read(base + ".log") as log:
            index = OffsetIndex(read_all(self.fs, base + ".index"), base_offset)
            time_index = TimeIndex(read_all(self.fs, path), base_offset)
            if self.only_sanity:
                yield self._sanity(path, time_index.sanity_message(java_absolute_path(path)))
                return
            reports, absolute = self.reports, self.shown(java_absolute_path(path))
            follows_whole_log = not reports.version.is_scala
            for checked in check_time_index(time_index, index, log, self.limits, follows_whole_log=follows_whole_log):
                if isinstance(checked, GivesUp):
                    yield checked
                    return
                timestamp = checked.timestamp
                if not checked.is_found:
                    reports.add(reports.not_found, absolute, (checked.offset, checked.log_offset))
                else:
                    if checked.log_timestamp != timestamp:
                        reports.add(reports.time_mismatches, absolute, (timestamp, checked.log_timestamp))
                    if checked.previous_timestamp >= timestamp:
                        reports.add(reports.out_of_order, absolute, (timestamp, checked.previous_timestamp))
                if not self.only_mismatches:
                    yield f"timestamp: {timestamp} offset: {checked.offset}\n"

    def _snapshot(self, path: str) -> Iterator[str | Corrupt]:
        entries, faults = producer_snapshot.decode(read_all(self.fs, path))
        for entry in entries:
            yield producer_line(entry, self.reports.version)
        corrupt = (Corrupt(fault.message) for fault in faults if fault.kind is not FaultKind.TRAILING_BYTES)
        yield from islice(corrupt, 1)

    def _txn_index(self, path: str, base: str, base_offset: int) -> Iterator[str | GivesUp]:
        """Yield the text of a transaction index; if it has an unknown version, the real tool prints none of it."""
        del base
        is_version_a_byte = self.reports.version.is_before_4_4
        entries, faults = txnindex.decode(read_all(self.fs, path), base_offset, is_version_a_byte=is_version_a_byte)
        for fault in faults:
            if fault.kind is FaultKind.INVALID_VERSION:
                yield GivesUp(fault.position, fault.message)
                return
        yield from map(aborted_txn_line, entries)

    def _sanity(self, path: str, problem: str | None) -> str | GivesUp:
        return f"{self.shown(path)} passed sanity check.\n" if problem is None else GivesUp(None, problem)
