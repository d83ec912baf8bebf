"""The output of transactions: transactional ids, and transactions that are open in a log, as objects and as tables."""

from collections.abc import Iterable
from typing import Annotated, TypedDict

from kafkalog_cli.ops.open_transactions import IdState, InLog, OpenInLog, TransactionalId
from kafkalog_cli.output.human import NOTHING, TextColumn, TextTable, cell, iso_time, write_table
from kafkalog_cli.output.ndjson import NEGATIVE_IS_NULL, From, JsonLines, ObjectKind, PathText
from kafkalog_cli.output.progress import spent
from kafkalog_cli.output.stream import ResultStream, printable


class TransactionPartitionsObject(TypedDict):
    """Partitions of a topic in a transaction."""

    topic: str
    partitions: list[int]


class TransactionCoordinatorObject(TypedDict):
    """The partition of `__transaction_state` that has the transactional id."""

    path: Annotated[PathText, From("copy.path"), "the copy of the partition of __transaction_state that was read"]
    partition: Annotated[int, From("number")]


class TransactionalIdObject(TypedDict):
    """A transactional id with its last transaction, as a coordinator that loads `__transaction_state` has it."""

    transactional_id: Annotated[str, From("transaction.transactional_id")]
    state: Annotated[IdState, From("outcome"), "the outcome of the last transaction"]
    coordinator_state: Annotated[
        str, From("transaction.state"), "Kafka's name of the state: Ongoing, CompleteCommit, …"
    ]
    producer_id: Annotated[int, From("transaction.producer_id")]
    producer_epoch: Annotated[int, From("transaction.producer_epoch")]
    timeout_ms: Annotated[int, From("transaction.timeout_ms")]
    start_timestamp_ms: Annotated[int | None, From("transaction.start_timestamp")]
    last_update_timestamp_ms: Annotated[int | None, From("transaction.last_update_timestamp")]
    times_out_at_ms: Annotated[
        int | None, "the time from which a coordinator aborts the open transaction; null if none is open"
    ]
    age_ms: Annotated[int | None, "of the open transaction"]
    partitions: Annotated[
        list[TransactionPartitionsObject], From("transaction.partitions"), "the partitions in the transaction"
    ]
    coordinator: Annotated[TransactionCoordinatorObject, From("loaded")]


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
    producer_id: Annotated[int, From("transaction.producer_id")]
    producer_epoch: Annotated[int, From("transaction.producer_epoch")]
    start_offset: Annotated[int, From("transaction.first_offset")]
    last_timestamp_ms: Annotated[int | None, From("transaction.last_timestamp"), NEGATIVE_IS_NULL, "of the last batch"]
    age_ms: Annotated[int | None, "since the last batch"]
    holds_last_stable_offset: Annotated[bool, "whether consumers with read_committed wait for this transaction"]
    end_command: Annotated[str | None, "ends a hanging transaction when the broker runs"]
    path: Annotated[PathText, "the copy of the partition that was read"]


TRANSACTION = ObjectKind("kafkalog.transaction/1", TransactionalIdObject)
OPEN_TRANSACTION = ObjectKind("kafkalog.open-transaction/1", OpenInLogObject)


def write_objects(lines: JsonLines, found: Iterable[TransactionalId | OpenInLog], now_ms: int) -> dict[str, int]:
    """Write all objects, and return their counts for the summary."""
    counts = {"transactional_ids": 0, "open_in_logs": 0, "hanging": 0}
    for one in found:
        if isinstance(one, TransactionalId):
            counts["transactional_ids"] += 1
            start = one.transaction.start_timestamp
            age_ms = None if start is None or one.times_out_at_ms is None else now_ms - start
            lines.record(TRANSACTION, one, age_ms=age_ms)
        else:
            counts["open_in_logs"] += 1
            counts["hanging"] += one.state is InLog.HANGING
            last = one.transaction.last_timestamp
            lines.record(OPEN_TRANSACTION, one, age_ms=None if last < 0 else now_ms - last)
    return counts


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


_MOST_TABLE_ROWS = 20_000
"""Transactional ids of a table; more of them come in several tables."""
_MOST_LATE = 1000


def write_transactions(out: ResultStream, found: Iterable[TransactionalId | OpenInLog], now_ms: int) -> None:
    """Write the tables, and the commands that end hanging transactions."""
    ids = _IdTables(out, now_ms)
    in_logs: list[OpenInLog] = []
    for one in found:
        if isinstance(one, TransactionalId):
            ids.take(one)
        else:
            in_logs.append(one)
    ids.write()
    if in_logs:
        out.write("\n" if ids.count else "")
        write_table(out, TextTable(_LOG_COLUMNS, [_log_row(one, now_ms) for one in in_logs]))
    lines = [f"past its timeout, so that a coordinator aborts it: {name}" for name in ids.late]
    if ids.late_count > len(ids.late):
        lines.append(f"{ids.late_count - len(ids.late)} more transactional ids are past their timeout")
    for transaction in in_logs:
        if transaction.end_command is not None:
            place = f"{transaction.topic}-{transaction.partition}"
            lines.append(f"{place}: hanging. When the broker runs, this ends it:")
            lines.append(f"  {transaction.end_command}")
    if not ids.count and not in_logs:
        lines.append("no transactions")
    separator = "\n" if lines and (ids.count or in_logs) else ""
    out.write(separator + "".join(f"{printable(line)}\n" for line in lines))


class _IdTables:
    """Writes transactional ids as tables. `late` are the first ids past their timeout, of `late_count`."""

    def __init__(self, out: ResultStream, now_ms: int) -> None:
        self.count = self.late_count = 0
        self.late: list[str] = []
        self._out = out
        self._now_ms = now_ms
        self._rows: list[tuple[str, ...]] = []

    def take(self, one: TransactionalId) -> None:
        """Take a transactional id."""
        self.count += 1
        self._rows.append(_id_row(one, self._now_ms))
        if (one.times_out_at_ms or self._now_ms) < self._now_ms:
            self.late_count += 1
            if self.late_count <= _MOST_LATE:
                self.late.append(one.transaction.transactional_id)
        if len(self._rows) == _MOST_TABLE_ROWS:
            self.write()

    def write(self) -> None:
        """Write the ids since the last table."""
        if self._rows:
            write_table(self._out, TextTable(_ID_COLUMNS, self._rows))
        self._rows = []


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
