"""`transactions`: transactional ids as their coordinator has them, and the transactions that are open in logs."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum, unique
from typing import Annotated, ClassVar, NamedTuple

from kafkalog_cli.disk.names import DirectoryKind
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format.internal_topics import TRANSACTION_STATE
from kafkalog_cli.log.open_transactions import OpenTransaction
from kafkalog_cli.ops.cluster.coordinators import CoordinatorTopic, Copies, in_sorted_runs
from kafkalog_cli.ops.cluster.tables.coordinator_log import Transaction, TransactionPartitions, transactions
from kafkalog_cli.ops.look.listing.listing import list_partition
from kafkalog_cli.ops.selection import partition_paths
from kafkalog_cli.results import NEGATIVE_IS_NULL, Hidden, PathName, of, result

MAX_TRANSACTION_TIMEOUT_MS = 15 * 60_000
"""The default of transaction.max.timeout.ms, and of kafka-transactions.sh find-hanging."""


@unique
class IdState(Enum):
    """The end of the last transaction of a transactional id. The value is its word in the output."""

    NONE = "none"
    OPEN = "open"
    COMMITTING = "committing"
    ABORTING = "aborting"
    COMMITTED = "committed"
    ABORTED = "aborted"
    DEAD = "dead"
    UNKNOWN = "unknown"


_OUTCOMES = {
    "Empty": IdState.NONE, "Ongoing": IdState.OPEN, "PrepareCommit": IdState.COMMITTING,
    "PrepareAbort": IdState.ABORTING, "CompleteCommit": IdState.COMMITTED, "CompleteAbort": IdState.ABORTED,
    "Dead": IdState.DEAD, "PrepareEpochFence": IdState.ABORTING,
}  # fmt: skip


@unique
class InLog(Enum):
    """The state of a transaction that is open in the log of a partition. The value is its word in the output.

    OPEN: its coordinator will end it. HANGING: no coordinator will. UNKNOWN: no coordinator here has it, but the last
    batch is recent, or these directories do not have all partitions of `__transaction_state`.
    """

    OPEN = "open"
    HANGING = "hanging"
    UNKNOWN = "unknown"


class TransactionCoordinator(NamedTuple):
    """The partition of `__transaction_state` that has the transactional id."""

    path: Annotated[PathName, "the copy of the partition of __transaction_state that was read"]
    partition: int


@result("kafkalog.transaction/1")
@dataclass(frozen=True, slots=True)
class TransactionalId:
    """A transactional id with its last transaction, as a coordinator that loads `__transaction_state` has it."""

    transaction: Hidden[Transaction]
    now_ms: Hidden[int]
    transactional_id: ClassVar[str] = of("transaction.transactional_id")
    state: ClassVar[Annotated[IdState, "the outcome of the last transaction"]] = of(
        lambda found: _OUTCOMES.get(found.transaction.state, IdState.UNKNOWN)
    )
    coordinator_state: ClassVar[Annotated[str, "Kafka's name of the state: Ongoing, CompleteCommit, …"]] = of(
        "transaction.state"
    )
    producer_id: ClassVar[int] = of("transaction.producer_id")
    producer_epoch: ClassVar[int] = of("transaction.producer_epoch")
    timeout_ms: ClassVar[int] = of("transaction.timeout_ms")
    start_timestamp_ms: ClassVar[int | None] = of("transaction.start_timestamp")
    last_update_timestamp_ms: ClassVar[int | None] = of("transaction.last_update_timestamp")
    times_out_at_ms: ClassVar[
        Annotated[int | None, "the time from which a coordinator aborts the open transaction; null if none is open"]
    ] = of(lambda found: found.start_timestamp_ms + found.timeout_ms if found.is_open else None)
    age_ms: ClassVar[Annotated[int | None, "of the open transaction"]] = of(
        lambda found: found.now_ms - found.start_timestamp_ms if found.is_open else None
    )
    partitions: ClassVar[Annotated[tuple[TransactionPartitions, ...], "the partitions in the transaction"]] = of(
        "transaction.partitions"
    )
    coordinator: TransactionCoordinator

    @property
    def is_open(self) -> bool:
        """Whether the transaction is open, and its start is known."""
        return self.state is IdState.OPEN and self.start_timestamp_ms is not None

    def has(self, topic: str, partition: int) -> bool:
        """Whether the coordinator will write a marker to a partition."""
        return any(topics.topic == topic and partition in topics.partitions for topics in self.partitions)


@result("kafkalog.open-transaction/1")
@dataclass(frozen=True, slots=True)
class OpenInLog:
    """A transaction without a marker in the log of a partition."""

    topic: str
    partition: int
    state: Annotated[
        InLog,
        "hanging: no transactional id has the partition; unknown: the last batch is recent, or not all partitions of"
        " __transaction_state are here",
    ]
    transactional_id: Annotated[str | None, "the id that has the producer"]
    transaction: Hidden[OpenTransaction]
    now_ms: Hidden[int]
    producer_id: ClassVar[int] = of("transaction.producer_id")
    producer_epoch: ClassVar[int] = of("transaction.producer_epoch")
    start_offset: ClassVar[int] = of("transaction.first_offset")
    last_timestamp_ms: ClassVar[Annotated[int | None, NEGATIVE_IS_NULL, "of the last batch"]] = of(
        "transaction.last_timestamp"
    )
    age_ms: ClassVar[Annotated[int | None, "since the last batch"]] = of(
        lambda found: None if found.last_timestamp_ms < 0 else found.now_ms - found.last_timestamp_ms
    )
    holds_last_stable_offset: Annotated[bool, "whether consumers with read_committed wait for this transaction"]
    end_command: ClassVar[Annotated[str | None, "ends a hanging transaction when the broker runs"]] = of(
        lambda found: found.abort_command if found.state is InLog.HANGING else None
    )
    path: Annotated[PathName, "the copy of the partition that was read"]

    @property
    def abort_command(self) -> str:
        """The command that ends the transaction."""
        return (
            f"kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic {self.topic}"
            f" --partition {self.partition} --start-offset {self.start_offset}"
        )


def find_transactions(
    log_dirs: Copies, now_ms: int, max_transaction_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS
) -> Iterator[TransactionalId | OpenInLog]:
    """Yield the transactional ids as `in_sorted_runs` does, then the transactions open in logs by partition and offset.

    The ids of one partition at a time are in memory. Raises as `partition_paths` and `list_partition`.

    The rule for hanging transactions is that of kafka-transactions.sh find-hanging. The last batch is older than
    `max_transaction_timeout_ms`. No transactional id has the producer, or the transaction of that id does not have the
    partition.
    """
    topic = CoordinatorTopic(log_dirs, TRANSACTION_STATE)
    open_in_logs = list(_open_in_logs(log_dirs, now_ms))
    producers = {transaction.producer_id for transaction in open_in_logs}
    owners: dict[int, TransactionalId] = {}
    for known in in_sorted_runs(_ids(topic, now_ms), lambda known: known.transactional_id, lambda _: 1):
        if known.producer_id in producers:
            owners[known.producer_id] = known
        yield known
    if topic.partitions is None:  # a cluster without the topic has no transactional id
        is_complete = log_dirs.knows_all_topics
    else:
        is_complete = topic.numbers == list(range(topic.partitions))
    in_logs = [
        _in_log(
            transaction,
            owners.get(transaction.producer_id),
            is_complete=is_complete,
            is_old=now_ms - transaction.transaction.last_timestamp > max_transaction_timeout_ms,
        )
        for transaction in open_in_logs
    ]
    if any(transaction.state is InLog.HANGING for transaction in in_logs):
        log_dirs.codes.append(ExitCode.WARNINGS)
    yield from in_logs


def _ids(topic: CoordinatorTopic, now_ms: int) -> Iterator[TransactionalId]:
    for number in topic.numbers:
        loaded, ids = topic.load(number, transactions)
        topic.forget()
        coordinator = TransactionCoordinator(loaded.copy.path, loaded.number)
        for transaction in ids:
            yield TransactionalId(transaction, now_ms, coordinator)
        del ids


def _in_log(transaction: OpenInLog, owner: TransactionalId | None, *, is_complete: bool, is_old: bool) -> OpenInLog:
    name = None if owner is None else owner.transactional_id
    if owner is not None and owner.has(transaction.topic, transaction.partition):
        state = InLog.OPEN
    else:
        state = InLog.HANGING if is_old and (owner is not None or is_complete) else InLog.UNKNOWN
    return replace(transaction, state=state, transactional_id=name)


def _open_in_logs(log_dirs: Copies, now_ms: int) -> Iterator[OpenInLog]:
    """Yield the open transactions of the best copy of each partition, their state not known yet."""
    for topic, number in _partitions(log_dirs):
        best = log_dirs.best(topic, number)
        if best is None:
            continue
        listing = list_partition(log_dirs.fs, best, None)
        if listing.open_transactions is None:
            message = "too much of the log has no producer snapshot: open transactions were not searched for"
            log_dirs.note("not-searched", message, best.path)
        for at, transaction in enumerate(listing.open_transactions or ()):
            yield OpenInLog(topic, number, InLog.UNKNOWN, None, transaction, now_ms, not at, best.path)


def _partitions(log_dirs: Copies) -> list[tuple[str, int]]:
    """Return the names of all partitions in the paths, in order. The metadata log has no transactions."""
    partitions: set[tuple[str, int]] = set()
    for path in log_dirs.expanded:
        for partition in partition_paths(log_dirs.fs, path):
            name = partition.directory
            if name.kind is DirectoryKind.PARTITION and not name.is_metadata_log:
                partitions.add((name.topic or "", -1 if name.partition is None else name.partition))
    return sorted(partitions)
