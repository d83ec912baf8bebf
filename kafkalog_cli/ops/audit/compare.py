"""The history of audits as Parquet files, and the changes since an earlier audit: partitions, growth, findings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, unique
from typing import Any, NamedTuple

from kafkalog_cli.change.output_directory import ComingFile, OutputDirectory, RunRecord
from kafkalog_cli.change.runs import new_run_id
from kafkalog_cli.disk.fs import WritableFilesystem, read_all
from kafkalog_cli.disk.named_places import StagedFile
from kafkalog_cli.errors import UnsupportedFormat
from kafkalog_cli.ops.audit.audit import Audited, AuditedLogDir, Failed, PartitionStatistics
from kafkalog_cli.ops.checks.finding_kinds import Severity

Finding = tuple[str, str]
"""The kind of a finding, and its path."""


@unique
class AuditChangeKind(Enum):
    """How a partition has changed. The value is the word that machine output uses."""

    NEW = "new"
    GONE = "gone"
    CHANGED = "changed"
    SAME = "same"


class AuditChange(NamedTuple):
    """The change of a partition directory since an earlier run.

    Numbers are the present value minus the earlier one, None if one of them is unknown. `seconds` is the time between
    the runs. `bytes` and their rate are of the files on the disk, so retention lowers them; `offsets` count what was
    written.
    """

    path: str
    topic: str | None
    partition: int | None
    kind: AuditChangeKind
    since_run: str
    since_ms: int
    seconds: float
    bytes: int | None = None
    records: int | None = None
    offsets: int | None = None
    bytes_per_s: float | None = None
    offsets_per_s: float | None = None
    dirty_ratio_before: float | None = None
    dirty_ratio: float | None = None
    new_findings: tuple[Finding, ...] = ()
    gone_findings: tuple[Finding, ...] = ()


def changes(rows: Sequence[Row], before: Mapping[str, Before]) -> list[AuditChange]:
    """Return the changes at places with an earlier audit: those of `rows` in order, then missing partitions.

    A place that could not be audited now has no changes.
    """
    seen = {row["path"] for row in rows}
    places = {place_of(row) for row in rows if row["error"] is None}
    found = []
    for row in rows:
        past = before.get(place_of(row))
        if row["error"] is None and past is not None:
            old = next((one for one in past.rows if one["path"] == row["path"] and one["error"] is None), None)
            found.append(_change(row, old, past, row["time_ms"]))
    for place, past in before.items():
        if place in places:
            gone = (old for old in past.rows if old["path"] not in seen and old["error"] is None)
            found += (_gone(old, past, rows[0]["time_ms"]) for old in gone)
    return found


def _change(row: Row, old: Row | None, past: Before, now_ms: int) -> AuditChange:
    whose = (row["path"], row["topic"], row["partition"])
    seconds = (now_ms - past.time_ms) / 1000
    if old is None:
        new = AuditChange(*whose, AuditChangeKind.NEW, past.run, past.time_ms, seconds, row["bytes"], row["records"])
        return new._replace(dirty_ratio=row["dirty_ratio"], new_findings=tuple(_findings(row)))
    size_bytes, records, offsets = (_less(row[name], old[name]) for name in ("bytes", "records", "log_end_offset"))
    told, known = _findings(row), _findings(old)
    made = AuditChange(
        *whose,
        AuditChangeKind.CHANGED,
        past.run,
        past.time_ms,
        seconds,
        size_bytes,
        records,
        offsets,
        _rate(size_bytes, seconds),
        _rate(offsets, seconds),
        old["dirty_ratio"],
        row["dirty_ratio"],
        tuple(one for one in told if one not in known),
        tuple(one for one in known if one not in told),
    )
    is_same = not (size_bytes or records or offsets or made.new_findings or made.gone_findings)
    return made._replace(kind=AuditChangeKind.SAME) if is_same and made.dirty_ratio == made.dirty_ratio_before else made


def _gone(old: Row, past: Before, now_ms: int) -> AuditChange:
    seconds = (now_ms - past.time_ms) / 1000
    size_bytes, records = (_less(0, old[name]) for name in ("bytes", "records"))
    whose = (old["path"], old["topic"], old["partition"])
    return AuditChange(*whose, AuditChangeKind.GONE, past.run, past.time_ms, seconds, size_bytes, records)


def _less(now: int | None, before: int | None) -> int | None:
    return None if now is None or before is None else now - before


def _rate(count: int | None, seconds: float) -> float | None:
    return None if count is None or seconds <= 0 else count / seconds


def _findings(row: Mapping[str, Any]) -> dict[Finding, None]:
    """Return the warnings and corruptions, each once, in their order."""
    told = (one for one in row["findings"] or () if one["severity"] != "info")
    return dict.fromkeys((one["kind"], one["path"]) for one in told)


def replaced(now: AuditedLogDir, partitions: int, past: Before) -> str:
    """Return why a log directory seems to be another one than in the earlier audit; "" if it does not.

    `partitions` is the number of its partitions now.
    """
    had = sum(row["topic"] is not None for row in past.rows)
    if had and not partitions:
        return f"it is empty; at the audit {past.run} it had {had} partitions"
    known = next((row for row in past.rows if row["cluster_id"] is not None), None)
    if known is None:
        return ""
    if now.cluster_id is None:
        return f"it has no meta.properties; at the audit {past.run} it was of cluster {known['cluster_id']}"
    for name in ("cluster_id", "node_id", "directory_id"):
        found = getattr(now, name)
        if known[name] is not None and found != known[name]:
            return f"its {name.replace('_', '.')} is {found}; at the audit {past.run} it was {known[name]}"
    return ""


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
        with OutputDirectory(self._fs, self.path, None) as out:
            left = out.record()
            if left is not None:
                out.complete(left)
            staging = out.begin(run.run)
            try:
                file = StagedFile(self._fs, f"{staging}/{_STAGED}")
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
        """Return, for each place, the rows of the newest run of `host` up to a time that could audit the place.

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


_MOST_MS = (1 << 63) // 1000
"""Larger timestamps become null, because Spark counts microseconds."""


class HistoryRun(NamedTuple):
    """The run that a row belongs to; `time_ms` is its time, or that of `--now`."""

    run: str
    time_ms: int
    host: str
    version: str


def audit_schema() -> Any:
    """Return the pyarrow.Schema of rows: one per partition directory, and one per log directory."""
    import pyarrow as pa

    text, whole, time = pa.string(), pa.int64(), pa.timestamp("ms", tz="UTC")
    codec = pa.struct([("codec", text), ("batches", whole), ("bytes", whole)])
    key = pa.struct([
        ("key", pa.binary()), ("key_bytes", whole), ("records", whole), ("bytes", whole), ("records_error", whole),
        ("bytes_error", whole),
    ])  # fmt: skip
    finding = pa.struct([
        ("kind", text), ("severity", text), ("path", text), ("position", whole), ("first_offset", whole),
        ("last_offset", whole), ("message", text), ("broker_effect", text), ("next_step", text),
    ])  # fmt: skip
    return pa.schema([
        ("run", text), ("time", time), ("host", text), ("version", text), ("path", text), ("log_dir", text),
        ("cluster_id", text), ("node_id", pa.int32()), ("directory_id", text), ("target", text), ("topic", text),
        ("partition", pa.int32()), ("directory_kind", text), ("topic_id", text), ("level", text), ("segments", whole),
        ("bytes", whole), ("total_bytes", whole), ("allocated_bytes", whole), ("log_start_offset", whole),
        ("log_end_offset", whole), ("high_watermark", whole), ("batches", whole), ("records", whole),
        ("control_records", whole), ("first_timestamp", time), ("max_timestamp", time), ("codecs", pa.list_(codec)),
        ("dirty_bytes", whole), ("dirty_ratio", pa.float64()), ("keys", whole), ("keys_relative_error", pa.float64()),
        ("null_keys", whole), ("tombstones", whole), ("largest_keys", pa.list_(key)),
        ("most_frequent_keys", pa.list_(key)), ("corruptions", pa.int32()), ("warnings", pa.int32()),
        ("infos", pa.int32()), ("findings", pa.list_(finding)), ("not_looked_at", pa.list_(text)), ("error", text),
        ("exit_code", pa.int32()),
    ])  # fmt: skip


def audit_table(audited: Iterable[Audited], run: HistoryRun) -> Any:
    """Return the audits as a pyarrow.Table of `audit_schema`."""
    import pyarrow as pa

    return pa.Table.from_pylist([_row(one, run) for one in audited], schema=audit_schema())


def _row(audited: Audited, run: HistoryRun) -> dict[str, Any]:
    result, log_dir, found = audited.result, audited.log_dir, audited.statistics
    row: dict[str, Any] = {
        **run._asdict(), "time": run.time_ms, "path": as_text(result.path), "exit_code": int(audited.exit_code),
    }  # fmt: skip
    if log_dir is not None:
        row |= {**log_dir._asdict(), "path": row["path"], "log_dir": as_text(log_dir.path)}
    if isinstance(result, Failed):
        return {**row, "error": as_text(str(result.error))}
    row |= {
        "target": result.target.value,
        "topic": None if result.topic is None else as_text(result.topic),
        "partition": result.partition,
        "level": result.level.value,
        "log_start_offset": None if result.log is None else result.log.start,
        "log_end_offset": None if result.log is None else result.log.end,
        **{f"{severity.value}s": result.count(severity) for severity in Severity},
        "not_looked_at": [*result.not_looked_at],
        "findings": [
            {
                "kind": one.kind.value, "severity": one.severity.value, "path": as_text(one.path),
                "position": one.position, "first_offset": one.first_offset, "last_offset": one.last_offset,
                "message": as_text(one.message), "broker_effect": one.broker_effect, "next_step": one.next_step,
            }
            for one in result.findings
        ],
    }  # fmt: skip
    return row if found is None else row | _statistics(found)


def _statistics(found: PartitionStatistics) -> dict[str, Any]:
    plain = ("topic_id", "segments", "bytes", "total_bytes", "allocated_bytes", "high_watermark", "batches", "records",
             "control_records", "dirty_bytes", "dirty_ratio")  # fmt: skip
    row = {name: getattr(found, name) for name in plain}
    row |= {"directory_kind": found.kind.name.lower(), "codecs": _structs(found.codecs)}
    row |= {name: _time(getattr(found, name)) for name in ("first_timestamp", "max_timestamp")}
    keys = found.keys
    if keys is not None:
        row |= {"keys": keys.keys, "keys_relative_error": keys.relative_error, "null_keys": keys.null_keys}
        row |= {"tombstones": keys.tombstones, "largest_keys": _structs(keys.largest)}
        row |= {"most_frequent_keys": _structs(keys.most_frequent)}
    return row


def _structs(values: Sequence[Any]) -> list[dict[str, Any]]:
    return [one._asdict() for one in values]


def _time(millis: int | None) -> int | None:
    return None if millis is None or abs(millis) > _MOST_MS else millis


def as_text(name: str) -> str:
    """Return a name as valid UTF-8; other bytes are escaped."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
