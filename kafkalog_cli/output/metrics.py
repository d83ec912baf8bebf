"""The metrics of a run in Prometheus' text format, for node_exporter's textfile collector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class RunMetrics(NamedTuple):
    """One run of a command: its end in epoch ms, its duration, its exit code, and its counts."""

    command: str
    ended_ms: int
    seconds: float
    exit_code: int
    counts: Mapping[str, int]


_COUNTS = {
    "partitions": "Partitions that the last run was given.",
    "changed": "Partitions that the last run changed.",
    "failed_partitions": "Partitions that were refused, locked, or failed.",
    "partitions_not_done": "Partitions that were not begun, as the time was over or the run interrupted.",
    "removed_segments": "Segments that the last run removed.",
    "removed_bytes": "Bytes of the logs of these segments.",
    "unlinked_files": "Files of earlier runs that the last run unlinked.",
    "unlinked_bytes": "Bytes of these files.",
    "rolled": "Partitions whose active segment was rolled.",
    "freed_bytes": "Bytes that were unlinked for --free-bytes.",
    "cut_bytes": "Bytes that were cut off segments that stay.",
    "cleaned": "Partitions that were compacted.",
    "records_gone": "Records that compaction left out.",
    "records_erased": "Records of erased keys that were taken out.",
    "bytes_read": "Bytes of logs that compaction read.",
    "bytes_written": "Bytes of logs that it wrote.",
    "records": "Records that the last run appended, with markers of transactions.",
    "batches": "Batches that these are in.",
    "appended_bytes": "Bytes of these batches.",
}


def metrics_text(run: RunMetrics) -> str:
    """Return the whole file. Every metric is a gauge of the last run, with the command as its label."""
    label = f'{{command="{run.command}"}}'
    lines: list[str] = []

    def gauge(name: str, what: str, value: float) -> None:
        name = f"kafkalog_last_run_{name}"
        lines.extend((f"# HELP {name} {what}", f"# TYPE {name} gauge", f"{name}{label} {value!r}"))

    gauge("timestamp_seconds", "When the last run ended, in seconds since 1970.", run.ended_ms / 1000)
    gauge("duration_seconds", "How long the last run took.", round(run.seconds, 3))
    gauge("exit_code", "The exit code of the last run.", run.exit_code)
    for name, value in run.counts.items():
        gauge(name, _COUNTS[name], value)
    return "\n".join(lines) + "\n"
