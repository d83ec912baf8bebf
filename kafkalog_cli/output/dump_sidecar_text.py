"""The text of kafka-dump-log (4.2 or 4.3) for producer snapshots and transaction indexes, byte for byte."""

from __future__ import annotations

from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.format.txnindex import AbortedTxn
from kafkalog_cli.output.dump_text import optional_long
from kafkalog_cli.output.dump_version import NEWEST, DumpVersion


def producer_line(entry: ProducerEntry, version: DumpVersion = NEWEST) -> str:
    """Return the line of one producer; without a batch, the Scala tool's line ends in a blank."""
    line = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch}"
        f" coordinatorEpoch: {entry.coordinator_epoch}"
        f" currentTxnFirstOffset: {optional_long(entry.open_txn_first_offset)} lastTimestamp: {entry.timestamp}"
    )
    if entry.has_batch:
        line += (
            f" firstSequence: {entry.first_sequence} lastSequence: {entry.last_sequence}"
            f" lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
        )
    elif version.is_scala:
        line += " "
    return line + "\n"


def aborted_txn_line(entry: AbortedTxn) -> str:
    """Return the line of one aborted transaction."""
    return (
        f"version: {entry.version} producerId: {entry.producer_id} firstOffset: {entry.first_offset}"
        f" lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}\n"
    )
