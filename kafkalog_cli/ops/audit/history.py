"""The history of audits: a directory with a Parquet file per run, which gets its name when it is complete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kafkalog_cli.change.manifest import new_run_id
from kafkalog_cli.change.publishing.output_directory import OutputDirectory
from kafkalog_cli.change.publishing.record import ComingFile, RunRecord
from kafkalog_cli.disk.fs import WritableFilesystem, read_all
from kafkalog_cli.disk.staged_file import StagedFile
from kafkalog_cli.errors import UnsupportedFormat
from kafkalog_cli.ops.audit.audit import Audited
from kafkalog_cli.ops.audit.columns import HistoryRun, audit_table

SUFFIX = ".parquet"
_WHAT = b"kafkalog.audit"
_HOST = b"kafkalog.host"
_STAGED = "rows.tmp"
_MOST_BYTES = 1 << 30

_COMPARED = [
    "run", "time", "path", "log_dir", "cluster_id", "node_id", "directory_id", "topic", "partition", "bytes", "records",
    "log_end_offset", "dirty_ratio", "findings", "error",
]  # fmt: skip

Row = dict[str, Any]
"""Some columns of `audit_schema` by name, with `time_ms` for the time."""


class Before(NamedTuple):
    """The rows of an earlier run about a place.

    A place is a log directory, or the parent directory of partitions outside of log directories.
    """

    run: str
    time_ms: int
    rows: tuple[Row, ...]


def run_of(now_ms: int, host: str, version: str) -> HistoryRun:
    """Return a new run; its name sorts by its time."""
    return HistoryRun(new_run_id("audit", now_ms), now_ms, host, version)


class History:
    """The runs in a directory; `what` identifies runs that chose the same partitions of the same directories."""

    def __init__(self, fs: WritableFilesystem, path: str, what: str) -> None:
        self.path = path
        self._fs = fs
        self._what = what.encode("utf-8", "backslashreplace")

    def append(self, audited: Iterable[Audited], run: HistoryRun) -> None:
        """Add a run, which becomes visible as a whole or not at all.

        An earlier run that was cut off after its commit is completed first. Raises Locked, NotChanged, NoSpace,
        NotKafkaLayout (no directory), Refused, HalfPublished.
        """
        import pyarrow.parquet as pq

        facts = {_WHAT: self._what, _HOST: run.host.encode()}
        table = audit_table(audited, run).replace_schema_metadata(facts)
        with OutputDirectory(self._fs, self.path, None, run.time_ms) as out:
            left = out.record()
            if left is not None:
                out.complete(left)
            staging = out.begin(run.run)
            try:
                file = StagedFile(self._fs, f"{staging}/{_STAGED}", out.new_file())
                try:
                    pq.write_table(table, file, compression="zstd")
                    file.finish()
                except BaseException:
                    file.drop()
                    raise
                coming = (ComingFile(_STAGED, f"{run.run}{SUFFIX}"),)
                out.publish(RunRecord(out.path, run.run, {"audit": run.version}, {}, coming))
            except BaseException:
                if out.record() is None:
                    out.abandon(run.run)
                raise

    def before(self, places: Iterable[str], host: str, until_ms: int) -> dict[str, Before]:
        """Return the newest rows of each place from runs of `host` up to a time, if a run could audit the place.

        Raises UnsupportedFormat for a file that is not one of the history's.
        """
        wanted, found = set(places), dict[str, Before]()
        for rows in self._runs(host, until_ms):
            for place in wanted - found.keys():
                of_place = tuple(row for row in rows if place_of(row) == place)
                if any(row["error"] is None for row in of_place):
                    found[place] = Before(rows[0]["run"], rows[0]["time_ms"], of_place)
            if wanted <= found.keys():
                break
        return found

    def _runs(self, host: str, until_ms: int) -> Iterator[list[Row]]:
        """Yield the rows of each run, the last run first."""
        if self._fs.status(self.path) is None:
            return
        names = [entry.path for entry in self._fs.list_directory(self.path) if entry.path.endswith(f"{SUFFIX}")]
        for path in sorted(names, reverse=True):
            rows = self._rows(path, host)
            if rows and rows[0]["time_ms"] <= until_ms:
                yield rows

    def _rows(self, path: str, host: str) -> list[Row]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(pa.BufferReader(read_all(self._fs, path, _MOST_BYTES)), columns=_COMPARED)
            facts = table.schema.metadata or {}
            return _rows(table) if (facts.get(_WHAT), facts.get(_HOST)) == (self._what, host.encode()) else []
        except (pa.ArrowException, KeyError) as error:
            raise UnsupportedFormat(path=path, reason=f"is not a file of an audit history: {error}") from error


def place_of(row: Row) -> str:
    """Return the directory that contains the partition of a row."""
    return str(row["log_dir"] or row["path"].rpartition("/")[0])


def rows_of(audited: Iterable[Audited], run: HistoryRun) -> list[Row]:
    """Return the rows of a run that may not be in the history yet, in the form of `before`."""
    return _rows(audit_table(audited, run).select(_COMPARED))


def _rows(table: Any) -> list[Row]:
    import pyarrow as pa

    at = table.schema.get_field_index("time")
    times = table.column("time").cast(pa.int64())
    found: list[Row] = table.remove_column(at).append_column("time_ms", times).to_pylist()
    return found
