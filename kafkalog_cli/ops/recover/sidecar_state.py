"""Which sidecar files a repair rebuilds."""

from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format.index import OffsetIndex, TimeIndex
from kafkalog_cli.format.txnindex import ABORTED_TXN
from kafkalog_cli.ops.checks.file_report import ODD_VERDICTS, FileReport


def is_wrong(report: FileReport) -> bool:
    """Whether the file is missing, misleads a reader, or cannot be read."""
    return report.size_bytes is None or report.exit_code is ExitCode.CORRUPTION or is_unreadable(report)


def is_inexact(report: FileReport) -> bool:
    """Whether the file is odd but misleads no reader: a length, a zero tail, an entry with too low a value."""
    if any(note.code is ExitCode.WARNINGS and note.kind is not None for note in report.notes):
        return True
    is_odd = report.worst_entry is ExitCode.WARNINGS
    return is_odd and any(
        entry.exit_code is ExitCode.WARNINGS and entry.verdict in ODD_VERDICTS for entry in report.entries
    )


def entries_alone(report: FileReport, data: bytes) -> bytes | None:
    """Return the bytes of an index's entries if only the bytes after them are odd; None for any other fault.

    A dense index stays dense that way: a rebuilt index has only an entry per index.interval.bytes.
    """
    size = _ENTRY_BYTES.get(report.kind)
    is_entry_odd = report.worst_entry is not ExitCode.OK or report.lacks_largest
    return None if size is None or is_entry_odd else data[: sum(report.counts.values()) * size]


_ENTRY_BYTES = {FileKind.OFFSET_INDEX: OffsetIndex.layout.size, FileKind.TIME_INDEX: TimeIndex.layout.size}


def is_torn(report: FileReport) -> bool:
    """Whether a transaction index ends within an entry: a broker ignores that, and appends its next entry after it."""
    return report.kind is FileKind.TXN_INDEX and bool((report.size_bytes or 0) % ABORTED_TXN.size)


def is_unreadable(report: FileReport) -> bool:
    """Whether the device cannot read all of the file. A file that may not be opened does not count."""
    is_closed = any(note.is_closed for note in report.notes)
    return report.exit_code is ExitCode.FAILURE and not is_closed


def why_rebuilt(report: FileReport) -> str:
    """Return the reason in a few words."""
    if report.size_bytes is None:
        return "it was missing"
    if is_unreadable(report):
        return "it cannot be read"
    return "it did not fit the log" if report.exit_code is ExitCode.CORRUPTION else "it was inexact"
