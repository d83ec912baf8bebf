"""`kafkalog transactions`: transactional ids, and the transactions that are open in logs."""

from typing import Annotated

from typer import Context

from kafkalog_cli.cli.environment import now_of
from kafkalog_cli.cli.exit_codes import READ
from kafkalog_cli.cli.options import Format, LogDirPaths, MetadataOption, Now, OutputFormat, selection_option
from kafkalog_cli.errors import ExitCode

EXAMPLES = (
    (
        "Print the transactions, and what holds the last stable offset",
        "kafkalog transactions /var/lib/kafka",
    ),
    ("Print them as NDJSON, for a program", "kafkalog transactions /var/lib/kafka --format json"),
)
EXIT_CODES = READ | {ExitCode.WARNINGS: "a transaction is hanging, or damage at the end of a log"}


def transactions(  # noqa: PLR0913, PLR0917 options
    context: Context,
    paths: LogDirPaths,
    max_transaction_timeout: Annotated[int, selection_option("--max-transaction-timeout", metavar="MINUTES", min=0,
        help="A transaction can hang only if its last batch is older than MINUTES before now.")] = 15,
    now: Now = None,
    metadata: MetadataOption = None,
    output: Format = OutputFormat.TEXT,
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
    from kafkalog_cli.cli.run import Run
    from kafkalog_cli.ops.coordinators import Copies as Directories
    from kafkalog_cli.ops.open_transactions import find_transactions
    from kafkalog_cli.output.transactions_view import write_objects, write_transactions

    run = Run(context, output)
    run.show_reads()
    now_ms = run.environment.now_ms() if now is None else now_of(run.environment, now)
    log_dirs = Directories(run.fs, paths, metadata)
    run.lock_warnings.about(*log_dirs.log_dirs)
    found = find_transactions(log_dirs, now_ms, max_transaction_timeout * 60_000)
    counts = {}
    if run.lines is not None:
        counts = write_objects(run.lines, found)
    else:
        write_transactions(run.out, found)
    run.codes += log_dirs.codes
    code = run.end(**counts)
    run.messages.report(*log_dirs.notes)
    return code
