"""The output of transactions: transactional ids, and transactions that are open in a log, as objects and as tables."""

from typing import Annotated, TypedDict

from kafkalog_cli.ops.open_transactions import IdState, InLog, OpenInLog, TransactionalId, Transactions
from kafkalog_cli.output.human import NOTHING, TextColumn, TextTable, cell, iso_time, write_table
from kafkalog_cli.output.ndjson import JsonLines, ObjectKind, PathText, same_fields
from kafkalog_cli.output.progress import spent
from kafkalog_cli.output.stream import ResultStream, printable


class TransactionPartitionsObject(TypedDict):
    """Partitions of a topic in a transaction."""

    topic: str
    partitions: list[int]


class TransactionCoordinatorObject(TypedDict):
    """The partition of `__transaction_state` that has the transactional id."""

    path: Annotated[PathText, "the copy of the partition of __transaction_state that was read"]
    partition: int


class TransactionalIdObject(TypedDict):
    """A transactional id with its last transaction, as a coordinator that loads `__transaction_state` has it."""

    transactional_id: str
    state: Annotated[IdState, "the outcome of the last transaction"]
    coordinator_state: Annotated[str, "Kafka's name of the state: Ongoing, CompleteCommit, …"]
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_timestamp_ms: int | None
    last_update_timestamp_ms: int | None
    times_out_at_ms: Annotated[
        int | None, "the time from which a coordinator aborts the open transaction; null if none is open"
    ]
    age_ms: Annotated[int | None, "of the open transaction"]
    partitions: Annotated[list[TransactionPartitionsObject], "the partitions in the transaction"]
    coordinator: TransactionCoordinatorObject


class OpenInLogObject(TypedDict):
    """A transaction without a marker in the log of a partition."""

    topic: str
    partition: int
    state: Annotated[
        InLog,
        "hanging: no transactional id has the partition; unknown: the last batch is recent, or not all partitions of"
        " __transaction_state are here",
    ]
    transactional_id: Annotated[str | None, "the id that has the producer"]
    producer_id: int
    producer_epoch: int
    start_offset: int
    last_timestamp_ms: Annotated[int | None, "of the last batch"]
    age_ms: Annotated[int | None, "since the last batch"]
    holds_last_stable_offset: Annotated[bool, "whether consumers with read_committed wait for this transaction"]
    end_command: Annotated[str | None, "ends a hanging transaction when the broker runs"]
    path: Annotated[PathText, "the copy of the partition that was read"]


TRANSACTION = ObjectKind("kafkalog.transaction/1", TransactionalIdObject)
OPEN_TRANSACTION = ObjectKind("kafkalog.open-transaction/1", OpenInLogObject)


def write_objects(lines: JsonLines, found: Transactions, now_ms: int, code: int) -> None:
    """Write all objects and the summary."""
    for one in found.ids:
        lines.object(TRANSACTION, _id_object(one, now_ms))
    for open_one in found.in_logs:
        lines.object(OPEN_TRANSACTION, _log_object(open_one, now_ms))
    hanging = sum(one.state is InLog.HANGING for one in found.in_logs)
    lines.summary(code, transactional_ids=len(found.ids), open_in_logs=len(found.in_logs), hanging=hanging)


def _id_object(one: TransactionalId, now_ms: int) -> TransactionalIdObject:
    transaction = one.transaction
    start = transaction.start_timestamp
    return same_fields(
        TransactionalIdObject,
        transaction,
        state=one.outcome,
        coordinator_state=transaction.state,
        start_timestamp_ms=start,
        last_update_timestamp_ms=transaction.last_update_timestamp,
        times_out_at_ms=one.times_out_at_ms,
        age_ms=None if start is None or one.times_out_at_ms is None else now_ms - start,
        partitions=[{"topic": part.topic, "partitions": [*part.partitions]} for part in transaction.partitions],
        coordinator={"path": PathText(one.loaded.copy.partition.path), "partition": one.loaded.number},
    )


def _log_object(one: OpenInLog, now_ms: int) -> OpenInLogObject:
    transaction = one.transaction
    last = None if transaction.last_timestamp < 0 else transaction.last_timestamp
    return same_fields(
        OpenInLogObject,
        one,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        start_offset=transaction.first_offset,
        last_timestamp_ms=last,
        age_ms=None if last is None else now_ms - last,
        path=PathText(one.path),
    )


# ---- text


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
