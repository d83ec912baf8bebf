"""Rows of transactional ids as a transaction coordinator has them after loading a partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafkalog_cli.ops.tables.committed_offsets import known_time
from kafkalog_cli.ops.tables.coordinator_log import CoordinatorEntry

STATES = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
)  # fmt: skip
"""Names of the states by number (TransactionState)."""


def state_name(number: int) -> str | None:
    """Return the name of a transactional id's state, None for a number that Kafka does not know."""
    return STATES[number] if 0 <= number < len(STATES) else None


class TransactionPartitions(NamedTuple):
    """Partitions of a topic that are in a transaction."""

    topic: str
    partitions: tuple[int, ...]


class Transaction(NamedTuple):
    """A transactional id. Times are in epoch ms; `partitions` are the partitions in the current transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    partitions: tuple[TransactionPartitions, ...]
    start_timestamp: int | None
    last_update_timestamp: int | None
    log_partition: int
    log_offset: int


def transactions(entries: Iterable[CoordinatorEntry], log_partition: int) -> Iterator[Transaction]:
    """Yield the last state of each transactional id, without expired ids (TransactionStateManager)."""
    held: dict[str, Transaction] = {}
    for entry in entries:
        if entry.record is None or entry.record.name != "TransactionLog":
            continue
        name, value = entry.record.key["transactionalId"], entry.record.value
        held.pop(name, None)
        if value is None:
            continue
        state = value["transactionStatus"]
        held[name] = Transaction(
            name,
            value["producerId"],
            value["producerEpoch"],
            state_name(state) or f"unknown ({state})",
            value["transactionTimeoutMs"],
            tuple(
                TransactionPartitions(one["topic"], tuple(one["partitionIds"]))
                for one in value["transactionPartitions"] or ()
            ),
            known_time(value["transactionStartTimestampMs"]),
            known_time(value["transactionLastUpdateTimestampMs"]),
            log_partition,
            entry.offset,
        )
    yield from held.values()
