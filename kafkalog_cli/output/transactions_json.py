"""The JSON output of transactions: an object per transactional id, and per transaction that is open in a log."""

from __future__ import annotations

from typing import Any

from kafkalog_cli.ops.open_transactions import InLog, OpenInLog, TransactionalId, Transactions
from kafkalog_cli.output.ndjson import JsonLines, json_path

TRANSACTION = "kafkalog.transaction/1"
OPEN_TRANSACTION = "kafkalog.open-transaction/1"


def write_objects(lines: JsonLines, found: Transactions, now_ms: int, code: int) -> None:
    """Write all objects and the summary."""
    for one in found.ids:
        lines.object(TRANSACTION, "transaction", _id_object(one, now_ms))
    for open_one in found.in_logs:
        lines.object(OPEN_TRANSACTION, "open-transaction", _log_object(open_one, now_ms))
    hanging = sum(one.state is InLog.HANGING for one in found.in_logs)
    lines.summary(code, transactional_ids=len(found.ids), open_in_logs=len(found.in_logs), hanging=hanging)


def _id_object(one: TransactionalId, now_ms: int) -> dict[str, Any]:
    transaction = one.transaction
    start = transaction.start_timestamp
    return {
        "transactional_id": transaction.transactional_id,
        "state": one.outcome.value,
        "coordinator_state": transaction.state,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "timeout_ms": transaction.timeout_ms,
        "start_timestamp_ms": start,
        "last_update_timestamp_ms": transaction.last_update_timestamp,
        "times_out_at_ms": one.times_out_at_ms,
        "age_ms": None if start is None or one.times_out_at_ms is None else now_ms - start,
        "partitions": [{"topic": part.topic, "partitions": part.partitions} for part in transaction.partitions],
        "coordinator": {**json_path(one.loaded.copy.partition.path), "partition": one.loaded.number},
    }


def _log_object(one: OpenInLog, now_ms: int) -> dict[str, Any]:
    transaction = one.transaction
    last = None if transaction.last_timestamp < 0 else transaction.last_timestamp
    return {
        "topic": one.topic,
        "partition": one.partition,
        "state": one.state.value,
        "transactional_id": one.transactional_id,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "start_offset": transaction.first_offset,
        "last_timestamp_ms": last,
        "age_ms": None if last is None else now_ms - last,
        "holds_last_stable_offset": one.holds_last_stable_offset,
        "end_command": one.end_command,
        **json_path(one.path),
    }
