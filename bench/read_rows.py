"""The rows of read: against kafka-console-consumer's formatter on the same segments."""

from __future__ import annotations

from jvm import format_command
from make_inputs import Input
from rows import Row, described

FORMATTER = "DefaultMessageFormatter on FileRecords"
"""Prints the same bytes. Faster than the real tool, which also has a broker to ask, and flushes after each record."""


def read_rows(found: dict[str, Input]) -> list[Row]:
    """Values, which is what the console consumer prints, of each kind of log; with all fields; only committed ones."""
    table = []
    for part in ("uncompressed", "one-record", "lz4", "zstd"):
        if part in found:
            log = found[part]
            table.append(_row(f"read, {described(log)}", log, []))
    if "uncompressed" in found:
        log = found["uncompressed"]
        fields = ["timestamp", "partition", "offset", "headers", "key", "value"]
        table.append(_row("read --print all fields of them", log, ["--print", ",".join(fields)], fields))
        table.append(_row("read --isolation read_committed of them", log, ["--isolation", "read_committed"]))
    return table


def _row(work: str, log: Input, options: list[str], fields: list[str] | None = None) -> Row:
    partition = log.segments[0].parent
    peer = format_command(partition, [f"print.{name}=true" for name in fields or ["value"]])
    return Row(work, ["read", *options, str(partition)], FORMATTER, peer, 1, 10)
