"""`kafkalog transactions`: transactional ids, and the transactions that are open in logs."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from typer import Context

from kafkalog_cli.cli.exit_codes import READ
from kafkalog_cli.cli.options import Format, LogDirPaths, MetadataOption, Now, selection_option
from kafkalog_cli.cli.run import Run
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.ops.cluster.coordinators import Copies as Directories
from kafkalog_cli.ops.cluster.open_transactions import IdState, InLog, OpenInLog, TransactionalId, find_transactions
from kafkalog_cli.output.human import Column, NumberColumn, iso_time, write_table
from kafkalog_cli.output.ndjson import JsonLines
from kafkalog_cli.output.progress import spent
from kafkalog_cli.output.stream import ResultStream, printable

EXAMPLES = {
    "Print the transactions, and what holds the last stable offset": "kafkalog transactions /var/lib/kafka",
    "Print them as NDJSON, for a program": "kafkalog transactions /var/lib/kafka --format json",
}
EXIT_CODES = READ | {ExitCode.WARNINGS: "a transaction is hanging, or damage at the end of a log"}


def transactions(  # noqa: PLR0913, PLR0917 options
    context: Context,
    paths: LogDirPaths,
    max_transaction_timeout: Annotated[int, selection_option("--max-transaction-timeout", metavar="MINUTES", min=0,
        help="A transaction can hang only if its last batch is older than MINUTES before now.")] = 15,
    now: Now = None,
    metadata: MetadataOption = None,
    output: Format = "text",
) -> int:  # fmt: skip
    """Print transactions: open, hanging, committed, aborted.

    The first table has the transactional ids of __transaction_state, with the state of their last transaction. The
    second has the transactions without a marker in the log of a partition, from producer snapshots and batch
    headers. Of these, the first in a partition holds its last stable offset: consumers with read_committed wait
    there.

    A transaction is hanging if no transactional id has that partition in its transaction, and its last batch is
    older than --max-transaction-timeout, as in kafka-transactions.sh find-hanging. No coordinator ends it. The
    command that does is printed, for use when the broker runs. For a younger transaction, or without all partitions
    of __transaction_state, the state is unknown. Nothing is locked or changed.
    """
    run = Run(context, output)
    run.show_reads()
    log_dirs = Directories(run.fs, paths, metadata)
    run.lock_warnings.about(*log_dirs.log_dirs)
    results = find_transactions(log_dirs, run.environment.clock_ms(now), max_transaction_timeout * 60_000)
    counts = {}
    if run.lines is not None:
        counts = write_objects(run.lines, results)
    else:
        write_transactions(run.out, results)
    run.codes += log_dirs.codes
    return run.end(log_dirs.notes, **counts)


def write_objects(lines: JsonLines, results: Iterable[TransactionalId | OpenInLog]) -> dict[str, int]:
    """Write all objects, and return their counts for the summary."""
    counts = {"transactional_ids": 0, "open_in_logs": 0, "hanging": 0}
    for result in results:
        counts["transactional_ids" if isinstance(result, TransactionalId) else "open_in_logs"] += 1
        counts["hanging"] += result.state is InLog.HANGING
        lines.result(result)
    return counts


_OPEN = (IdState.OPEN, IdState.COMMITTING, IdState.ABORTING)
_ID_COLUMNS = (
    Column("TRANSACTIONAL-ID", lambda row: row.transactional_id),
    Column("STATE", lambda row: row.state.value),
    NumberColumn("PRODUCER", lambda row: row.producer_id, 1),
    NumberColumn("EPOCH", lambda row: row.producer_epoch, 2),
    Column(
        "AGE", lambda row: _age(row.start_timestamp_ms if row.state in _OPEN else None, row.now_ms), 3, is_number=True
    ),
    Column("LAST-UPDATE", lambda row: iso_time(row.last_update_timestamp_ms), 5),
    Column("PARTITIONS", lambda row: _partitions(row) or None, 4),
)
_LOG_COLUMNS = (
    Column("OPEN IN", lambda row: f"{row.topic}-{row.partition}"),
    Column("STATE", lambda row: row.state.value),
    NumberColumn("PRODUCER", lambda row: row.producer_id, 1),
    NumberColumn("EPOCH", lambda row: row.producer_epoch, 4),
    NumberColumn("START-OFFSET", lambda row: row.start_offset),
    NumberColumn("AGE", lambda row: _age(row.last_timestamp_ms, row.now_ms), 3),
    Column("TRANSACTIONAL-ID", lambda row: row.transactional_id, 2),
    Column("HOLDS", lambda row: "last stable offset" if row.holds_last_stable_offset else None, 1),
)
_MOST_TABLE_ROWS = 20_000
"""Transactional ids of a table; more of them come in several tables."""
_MOST_LATE = 1000


def write_transactions(out: ResultStream, results: Iterable[TransactionalId | OpenInLog]) -> None:
    """Write the tables, the ids that are past their timeout, and the commands that end hanging transactions."""
    rows: list[TransactionalId] = []
    in_logs: list[OpenInLog] = []
    late: list[str] = []
    has_ids, late_count = False, 0
    for result in results:
        if isinstance(result, OpenInLog):
            in_logs.append(result)
            continue
        has_ids = True
        rows.append(result)
        if result.times_out_at_ms is not None and result.times_out_at_ms < result.now_ms:
            late_count += 1
            late += [result.transactional_id] if late_count <= _MOST_LATE else []
        if len(rows) == _MOST_TABLE_ROWS:
            write_table(out, _ID_COLUMNS, rows)
            rows.clear()
    if rows:
        write_table(out, _ID_COLUMNS, rows)
    if in_logs:
        out.write("\n" if has_ids else "")
        write_table(out, _LOG_COLUMNS, in_logs)
    lines = [*_sentences(late, late_count, in_logs)] if has_ids or in_logs else ["no transactions"]
    separator = "\n" if lines and (has_ids or in_logs) else ""
    out.write(separator + "".join(f"{printable(line)}\n" for line in lines))


def _sentences(late: Sequence[str], late_count: int, in_logs: Sequence[OpenInLog]) -> Iterator[str]:
    """Yield what is due: ids past their timeout, and the commands that end hanging transactions."""
    for name in late:
        yield f"past its timeout, so that a coordinator aborts it: {name}"
    if late_count > len(late):
        yield f"{late_count - len(late)} more transactional ids are past their timeout"
    for transaction in in_logs:
        if transaction.end_command is not None:
            yield f"{transaction.topic}-{transaction.partition}: hanging. When the broker runs, this ends it:"
            yield f"  {transaction.end_command}"


def _partitions(row: TransactionalId) -> str:
    return ",".join(f"{topic.topic}-{number}" for topic in row.partitions for number in topic.partitions)


def _age(since_ms: int | None, now_ms: int) -> str | None:
    return None if since_ms is None or since_ms < 0 or since_ms > now_ms else spent((now_ms - since_ms) / 1000)
