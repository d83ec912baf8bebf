"""The page of `inspect --html`: one file with its data, its script and a chart library, which asks no network.

`page.html`, `page.css` and `page.js` are the page. `uPlot.iife.min.js` and `uPlot.min.css` are those of uPlot 1.6.32,
unchanged, with their licence.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from importlib import resources
from itertools import islice
from typing import Any

from kafkalog_cli.ops.look.inspect import InspectedPartition, InspectedSegment, common_span
from kafkalog_cli.output.stream import printable

_MOST_SEGMENTS = 50_000
"""Segments of the page. Beyond, neighbours of a partition are joined."""
_MOST_OPEN = 100


def inspect_page(
    partitions: Sequence[InspectedPartition], now_ms: int, sentences: Callable[[InspectedPartition], list[str]]
) -> bytes:
    """Return the page about these partitions, with the `sentences` of each."""
    segments = sum(len(partition.segments) for partition in partitions)
    joined = -(-segments // _MOST_SEGMENTS) or 1
    data = {
        "now_ms": now_ms,
        "span": common_span(partitions),
        "partitions": [_partition(partition, joined, sentences(partition)) for partition in partitions],
    }
    scripts = {"@CHART_JS@": _text("uPlot.iife.min.js"), "@PAGE_JS@": _text("page.js")}
    hashes = " ".join(f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in scripts.values())
    parts = {
        "@HASHES@": hashes,
        "@CHART_CSS@": _text("uPlot.min.css"),
        "@PAGE_CSS@": _text("page.css"),
        **scripts,
        # Within <script> only "<" can end the element or begin a comment.
        "@DATA@": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
    }
    page = _text("page.html")
    for name, text in parts.items():
        before, _, after = page.partition(name)
        page = f"{before}{text}{after}"
    return page.encode()


def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _partition(inspected: InspectedPartition, joined: int, sentences: list[str]) -> dict[str, Any]:
    retention, cleaning, period_ms = inspected.retention, inspected.cleaning, inspected.bytes_over_time.period_ms
    return {
        "name": printable(inspected.partition.name),
        "size": inspected.size_bytes,
        "start": inspected.log_start_offset,
        "end": inspected.log_end_offset,
        "segment_count": len(inspected.segments),
        "segments": list(_segments(inspected.segments, joined)),
        "over_time": [
            [period * period_ms, size] for period, size in sorted(inspected.bytes_over_time.counts.items())
        ],
        "holes": [[*hole] for hole in inspected.holes],
        "hole_count": inspected.hole_count,
        "searched": inspected.open_transactions is not None,
        "open": [
            [transaction.producer_id, transaction.first_offset, transaction.last_timestamp]
            for transaction in islice(inspected.open_transactions or (), _MOST_OPEN)
        ],
        "retention": None if retention is None else {
            "horizon": retention.horizon_ms, "bytes": retention.removable_bytes,
        },
        "cleaning": None if cleaning is None else {
            "bytes": cleaning.dirt.cleanable_bytes, "ratio": cleaning.dirt.ratio,
        },
        "notes": [f"{line}." for line in sentences],
    }  # fmt: skip


def _segments(segments: Iterable[InspectedSegment], joined: int) -> Iterable[list[Any]]:
    """Yield the segments, joined in groups of `joined`, each with its time span, bytes, offsets, kind and number."""
    rest = iter(segments)
    while part := [*islice(rest, joined)]:
        first = [segment.first_timestamp_ms for segment in part if segment.first_timestamp_ms is not None]
        last = [segment.last_timestamp_ms for segment in part if segment.last_timestamp_ms is not None]
        has_span = bool(first and last)
        yield [
            min(first) if has_span else None,
            max(last) if has_span else None,
            sum(segment.size_bytes for segment in part),
            part[0].base_offset,
            part[-1].next_offset,
            _kind(part[-1]),
            len(part),
        ]


def _kind(segment: InspectedSegment) -> str:
    if segment.removed_by is not None:
        return "removed"
    return "kept" if segment.part is None else segment.part.value
