"""The text output of transactions: a table of transactional ids, a table of those open in logs, and commands."""

from __future__ import annotations

from kafkalog_cli.ops.open_transactions import IdState, OpenInLog, TransactionalId, Transactions
from kafkalog_cli.output.human import NOTHING, TextColumn, TextTable, cell, iso_time, write_table
from kafkalog_cli.output.progress import spent
from kafkalog_cli.output.stream import ResultStream, printable

_ID_COLUMNS = (
    TextColumn("TRANSACTIONAL-ID"),
    TextColumn("STATE"),
    TextColumn("PRODUCER", is_number=True, rank=1),
    TextColumn("EPOCH", is_number=True, rank=2),
    TextColumn("AGE", is_number=True, rank=3),
    TextColumn("LAST-UPDATE", rank=5),
    TextColumn("PARTITIONS", rank=4),
)
_LOG_COLUMNS = (
    TextColumn("OPEN IN"),
    TextColumn("STATE"),
    TextColumn("PRODUCER", is_number=True, rank=1),
    TextColumn("EPOCH", is_number=True, rank=4),
    TextColumn("START-OFFSET", is_number=True),
    TextColumn("AGE", is_number=True, rank=3),
    TextColumn("TRANSACTIONAL-ID", rank=2),
    TextColumn("HOLDS", rank=1),
)


def write_transactions(out: ResultStream, found: Transactions, now_ms: int) -> None:
    """Write the tables, and the commands that end hanging transactions."""
    if found.ids:
        write_table(out, TextTable(_ID_COLUMNS, [_id_row(one, now_ms) for one in found.ids]))
    if found.in_logs:
        out.write("\n" if found.ids else "")
        write_table(out, TextTable(_LOG_COLUMNS, [_log_row(one, now_ms) for one in found.in_logs]))
    late = [one for one in found.ids if (one.times_out_at_ms or now_ms) < now_ms]
    lines = [f"past its timeout, so that a coordinator aborts it: {one.transaction.transactional_id}" for one in late]
    for one in found.in_logs:
        if one.end_command is not None:
            lines.append(f"{one.topic}-{one.partition}: hanging. When the broker runs, this ends it:")
            lines.append(f"  {one.end_command}")
    if not found.ids and not found.in_logs:
        lines.append("no transactions")
    separator = "\n" if lines and (found.ids or found.in_logs) else ""
    out.write(separator + "".join(f"{printable(line)}\n" for line in lines))


def _id_row(one: TransactionalId, now_ms: int) -> tuple[str, ...]:
    transaction = one.transaction
    partitions = ",".join(f"{part.topic}-{number}" for part in transaction.partitions for number in part.partitions)
    is_open = one.outcome in (IdState.OPEN, IdState.COMMITTING, IdState.ABORTING)
    return (
        cell(transaction.transactional_id), one.outcome.value, cell(transaction.producer_id),
        cell(transaction.producer_epoch), _age(transaction.start_timestamp if is_open else None, now_ms),
        iso_time(transaction.last_update_timestamp), printable(partitions) or NOTHING,
    )  # fmt: skip


def _log_row(one: OpenInLog, now_ms: int) -> tuple[str, ...]:
    transaction = one.transaction
    return (
        cell(f"{one.topic}-{one.partition}"), one.state.value, cell(transaction.producer_id),
        cell(transaction.producer_epoch), cell(transaction.first_offset), _age(transaction.last_timestamp, now_ms),
        cell(one.transactional_id), "last stable offset" if one.holds_last_stable_offset else NOTHING,
    )  # fmt: skip


def _age(since_ms: int | None, now_ms: int) -> str:
    return NOTHING if since_ms is None or since_ms < 0 or since_ms > now_ms else spent((now_ms - since_ms) / 1000)
