"""The text of an erasure: the erased records, and the evidence."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog_cli.errors import counted
from kafkalog_cli.ops.compact.erasure import ErasedKey, LogDigest
from kafkalog_cli.ops.compact.plan import CompactPlan
from kafkalog_cli.output.stream import printable

_MOST_SHOWN = 10


def erasure_lines(plan: CompactPlan) -> Iterator[str]:
    """Return lines for each key (by its line in the key file), the logs before and after, and the other replicas."""
    erasure = plan.erasure
    if erasure is None or plan.is_refused:
        return
    is_done = erasure.after is not None
    records = counted(sum(key.records for key in erasure.keys), "record", "records")
    keys = f"{len(erasure.keys)} of {counted(erasure.wanted, 'key', 'keys')}"
    yield f"  {'erased' if is_done else 'to be erased'}: {records} of {keys}"
    for key in erasure.keys:
        yield f"  key of line {key.line}: {_offsets(key)}"
    for word, logs in (("before", erasure.before), ("after", erasure.after or ())):
        for log in logs:
            yield f"  {word}: {_log(log)}"
    yield f"  {printable(erasure.replication)}"


def _offsets(key: ErasedKey) -> str:
    records = counted(key.records, "record", "records")
    shown = ", ".join(map(str, key.offsets[:_MOST_SHOWN]))
    more = f", ... to {key.last_offset}" if key.records > _MOST_SHOWN else ""
    return f"{records}, at {'offset' if key.records == 1 else 'offsets'} {shown}{more}"


def _log(log: LogDigest) -> str:
    records = counted(log.records, "record", "records")
    return f"{printable(log.name)}, {log.size_bytes} bytes, SHA-256 {log.sha256}, {records} of the keys"
