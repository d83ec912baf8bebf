"""`kafkalog recover`: repair partitions, optionally exactly as a broker would at start-up."""

from functools import partial
from typing import Annotated

from typer import Argument, Context, Option

from kafkalog_cli.cli.exit_codes import CHANGE_DAMAGED
from kafkalog_cli.cli.option_groups import Topics
from kafkalog_cli.cli.session_groups import Pacing, Printing, Safety, WriterSettings, session_options
from kafkalog_cli.errors import UsageError

EXAMPLES = (
    ("See what a repair would do", "kafkalog recover /var/lib/kafka --dry-run"),
    ("Repair a log directory", "kafkalog recover /var/lib/kafka"),
    (
        "Copy all valid batches of a damaged partition",
        "kafkalog recover /var/lib/kafka/orders-0 --salvage /mnt/salvaged",
    ),
)
EXIT_CODES = CHANGE_DAMAGED

_rule = partial(Option, rich_help_panel="Rules")


def recover(  # noqa: PLR0913
    context: Context,
    *,
    paths: Annotated[list[str] | None, Argument(metavar="PATH...",
        help="Partition directories, log directories, or globs of them.")] = None,
    topics: Topics,
    like_broker: Annotated[bool, _rule("--like-broker",
        help="Repair exactly as a broker would at start-up, honouring .kafka_cleanshutdown, followed by a clean"
        " stop.")] = False,
    indexes_only: Annotated[bool, _rule("--indexes-only",
        help="Rebuild missing and wrong indexes, and nothing else.")] = False,
    salvage: Annotated[str | None, _rule(metavar="OUT",
        help="Copy all valid batches, also after damage, into new partition directories in OUT.")] = None,
    since_recovery_point: Annotated[bool, _rule("--since-recovery-point",
        help="Check only segments from the recovery point on, as a broker does.")] = False,
    discard: Annotated[bool, _rule("--discard",
        help="Keep no copy of removed bytes. The run cannot be undone.")] = False,
    settings: WriterSettings,
    safety: Safety,
    pacing: Pacing,
    printing: Printing,
) -> int:  # fmt: skip
    """Repair damaged partitions, and keep what is cut off for undo.

    Torn tails are cut, interrupted swaps of files are finished or undone, and missing or wrong indexes are rebuilt.
    All segments are checked, also after a clean shutdown. A partition with valid batches after damage stays as it
    is (exit code 14): --salvage copies its valid batches.

    If the disk reports errors, nothing is cut that could not be read, and --salvage reads the rest. Ctrl-C and
    SIGTERM end the run after the partitions in progress. The remaining partitions are listed (exit code 130).
    """
    if not paths:
        raise UsageError(reason="recover needs a PATH; see kafkalog recover --help")
    if sum((like_broker, indexes_only, salvage is not None)) > 1:
        raise UsageError(reason="--like-broker, --indexes-only and --salvage exclude each other")
    if since_recovery_point and (like_broker or salvage is not None):
        raise UsageError(reason="--since-recovery-point needs plain recovery or --indexes-only")
    if salvage is not None and (safety.dry_run or discard):
        raise UsageError(reason="--salvage changes nothing, and cannot be combined with --dry-run or --discard")
    options = session_options(context.obj, topics, safety, settings=settings, pacing=pacing)
    from kafkalog_cli.cli.verbs import VerbRun
    from kafkalog_cli.ops.recover.plan import RecoverMode
    from kafkalog_cli.ops.recover.verb import RECOVER, SALVAGE, recovery, salvaging
    from kafkalog_cli.output.recover_view import recover_view, salvage_view

    if salvage is not None:
        run = VerbRun(context, SALVAGE, salvage_view(), options, printing)
        with salvaging(run.session, paths, salvage) as salvaged:
            return run.complete(*salvaged)
    run = VerbRun(context, RECOVER, recover_view(), options, printing)
    mode = RecoverMode.INDEXES_ONLY if indexes_only else RecoverMode.REPAIR
    mode = RecoverMode.LIKE_BROKER if like_broker else mode
    return run.complete(*recovery(run.session, paths, mode, since_recovery_point=since_recovery_point, discard=discard))
