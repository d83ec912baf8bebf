"""The indexes and snapshots of one run of `kafkalog dump-log`."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkalog_cli.disk.fs import Filesystem, read_all
from kafkalog_cli.disk.pair_spool import PairSpool
from kafkalog_cli.format import producer_snapshot, txnindex
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.index import OffsetIndex, TimeIndex
from kafkalog_cli.format.java_text import parse_long
from kafkalog_cli.ops.dump_indexes import GivesUp, check_offset_index, check_time_index
from kafkalog_cli.output.dump_printer import DumpReports
from kafkalog_cli.output.dump_text import aborted_txn_line, java_absolute_path, producer_line
from kafkalog_cli.output.stream import ResultStream

if TYPE_CHECKING:
    from kafkalog_cli.cli.dump_log import DumpLogOptions


class SidecarDump:
    """Prints one sidecar file; methods return the error with which the real tool aborts, None if it does not."""

    def __init__(
        self,
        fs: Filesystem,
        out: ResultStream,
        reports: DumpReports,
        options: "DumpLogOptions",
        shown_path: Callable[[str], str],
    ) -> None:
        self._fs = fs
        self._out = out
        self._reports = reports
        self._tool, self._limits, self._version = options.tool, options.decoding.limits, reports.version
        self._shown = shown_path

    def dump(self, path: str, name: str, suffix: str) -> GivesUp | str | None:
        """Print the file, whose name ends in `suffix`."""
        if suffix == ".index":
            return self.offset_index(path, name)
        if suffix == ".timeindex":
            return self.time_index(path, name)
        return self.snapshot(path) if suffix == ".snapshot" else self.txn_index(path, name)

    def offset_index(self, path: str, name: str) -> GivesUp | None:
        """Print an `.index` file (DumpLogSegments.dumpIndex)."""
        base, base_offset = _base_of(path, name)
        if base_offset is None:
            return _bad_name()
        with self._fs.open_read(base + ".log") as log:
            index = OffsetIndex(read_all(self._fs, path), base_offset)
            if not len(index):
                self._out.write(f"{self._shown(path)} is empty.\n")
                return None
            if self._tool.index_sanity_check:
                return self._sanity(path, index.sanity_message(java_absolute_path(path)))
            absolute = self._shown(java_absolute_path(path))
            self._reports.index_mismatches[absolute] = PairSpool()
            for checked in check_offset_index(index, log, self._tool.max_message_size):
                if isinstance(checked, GivesUp):
                    return checked
                if checked.log_offset != checked.offset:
                    pair = (checked.offset, checked.log_offset)
                    self._reports.add(self._reports.index_mismatches, absolute, pair)
                if not self._tool.verify_index_only:
                    self._out.write(f"offset: {checked.offset} position: {checked.position}\n")
        return None

    def time_index(self, path: str, name: str) -> GivesUp | None:
        """Print a `.timeindex` file (DumpLogSegments.dumpTimeIndex); it needs the segment and its offset index."""
        base, base_offset = _base_of(path, name)
        if base_offset is None:
            return _bad_name()
        with self._fs.open_read(base + ".log") as log:
            index = OffsetIndex(read_all(self._fs, base + ".index"), base_offset)
            time_index = TimeIndex(read_all(self._fs, path), base_offset)
            if self._tool.index_sanity_check:
                return self._sanity(path, time_index.sanity_message(java_absolute_path(path)))
            absolute = self._shown(java_absolute_path(path))
            limits, is_scala = self._limits, self._version.is_scala
            for checked in check_time_index(time_index, index, log, limits, follows_whole_log=not is_scala):
                if isinstance(checked, GivesUp):
                    return checked
                if not checked.is_found:
                    self._reports.add(self._reports.not_found, absolute, (checked.offset, checked.log_offset))
                else:
                    if checked.log_timestamp != checked.timestamp:
                        pair = (checked.timestamp, checked.log_timestamp)
                        self._reports.add(self._reports.time_mismatches, absolute, pair)
                    if checked.previous_timestamp >= checked.timestamp:
                        pair = (checked.timestamp, checked.previous_timestamp)
                        self._reports.add(self._reports.out_of_order, absolute, pair)
                if not self._tool.verify_index_only:
                    self._out.write(f"timestamp: {checked.timestamp} offset: {checked.offset}\n")
        return None

    def snapshot(self, path: str) -> str | None:
        """Print a `.snapshot` file; return the message for stderr if it is corrupt: the real tool does not abort."""
        entries, faults = producer_snapshot.decode(read_all(self._fs, path))
        for entry in entries:
            self._out.write(producer_line(entry, self._version))
        return next((fault.message for fault in faults if fault.kind is not FaultKind.TRAILING_BYTES), None)

    def txn_index(self, path: str, name: str) -> GivesUp | None:
        """Print a `.txnindex` file; if it has an unknown version, the real tool prints none of it."""
        base_offset = parse_long(name.split(".", maxsplit=1)[0])
        if base_offset is None:
            return _bad_name()
        entries, faults = txnindex.decode(
            read_all(self._fs, path), base_offset, is_version_a_byte=self._version.is_before_4_4
        )
        for fault in faults:
            if fault.kind is FaultKind.INVALID_VERSION:
                return GivesUp(fault.position, fault.message)
        for entry in entries:
            self._out.write(aborted_txn_line(entry))
        return None

    def _sanity(self, path: str, problem: str | None) -> GivesUp | None:
        if problem is not None:
            return GivesUp(None, problem)
        self._out.write(f"{self._shown(path)} passed sanity check.\n")
        return None


def _base_of(path: str, name: str) -> tuple[str, int | None]:
    """Return the path without its suffix, and the base offset in its name."""
    number = name.split(".", maxsplit=1)[0]
    return path[: len(path) - len(name)] + number, parse_long(number)


def _bad_name() -> GivesUp:
    return GivesUp(None, "the name does not begin with an offset")
