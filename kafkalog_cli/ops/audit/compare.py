"""Find the changes since an earlier audit: new and missing partitions, growth, the dirty ratio, findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, unique
from typing import Any, NamedTuple

from kafkalog_cli.ops.audit.audit import AuditedLogDir
from kafkalog_cli.ops.audit.history import Before, Row, place_of

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
