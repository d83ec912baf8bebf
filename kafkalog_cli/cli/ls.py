"""`kafkalog ls`: list log directories, partition directories and files."""

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

from kafkalog_cli.cli.declared import Command, CommandContext, Option
from kafkalog_cli.cli.environment import Environment, now_of, shown_reading
from kafkalog_cli.cli.groups import Topics
from kafkalog_cli.cli.options import Format, Now, OutputFormat, PathsArgument
from kafkalog_cli.cli.session_groups import Safety, SettingSources, session_options
from kafkalog_cli.errors import UsageError
from kafkalog_cli.ops.choices import SortKey

if TYPE_CHECKING:
    from kafkalog_cli.cli.ls_run import UsageOptions
    from kafkalog_cli.ops.session.options import SessionOptions

_space_option = partial(Option, rich_help_panel="Space on the disk")


class Space(NamedTuple):
    """The options of which any shows the space on the disk instead, and the time for its plans."""

    by_topic: Annotated[bool, _space_option("--topics",
        help="Show what fills the disk: a row per topic, over all log directories.")] = False  # fmt: skip
    sort: Annotated[SortKey | None, _space_option(
        help="Show what fills the disk in this order: by name, or the largest first. allocated is the space on the"
        " disk, which differs from the size of sparse files, such as preallocated indexes.")] = None  # fmt: skip
    freeable: Annotated[bool, _space_option("--freeable",
        help="Show also what retain and compact would free now. Logs that are due for compaction are"
        " read.")] = False  # fmt: skip
    now: Now = None


def ls(  # noqa: PLR0913
    context: CommandContext,
    *,
    paths: PathsArgument = None,
    topics: Topics,
    segments: Annotated[bool, Option("--segments", help="Print a row per segment, not per partition.")] = False,
    transactions: Annotated[bool, Option(
        help="Look for open transactions. After an unclean stop this reads the batch headers after the newest producer"
        " snapshot.")] = True,
    space: Space,
    settings: SettingSources,
    output: Format = OutputFormat.TEXT,
) -> int:  # fmt: skip
    """List topics, partitions and segments, and what fills the disk.

    Only names, small files and the first and last batch headers are read. No CRC is checked.

    --topics, --sort and --freeable show what fills the disk instead, with sums per log directory and a total.
    The settings for --freeable have the same sources as those of retain and compact. Nothing is locked or changed.
    """
    from kafkalog_cli.cli.ls_run import LsRequest, LsRun

    environment = context.environment
    if segments and not context.is_typed("--sort"):
        space = space._replace(sort=None)  # a configured order is not a question about space
    usage = _usage_options(paths or [], space, _planning(context, topics, settings, space))
    if usage is not None and segments:
        raise UsageError(reason="--segments cannot be combined with --topics, --sort and --freeable")
    # The tables of space have no transactions, the objects of partitions have.
    transactions = transactions and (usage is None or output.is_json)
    request = LsRequest(topics.selection, segments, transactions, output.is_json, usage)
    return LsRun(environment, request).run(paths or [])


def _planning(
    context: CommandContext, topics: Topics, settings: SettingSources, space: Space
) -> "SessionOptions | None":
    """Return the options of the session that plans, None without --freeable. Raises UsageError."""
    if space.freeable:
        return session_options(context.environment, topics, Safety(now=space.now, dry_run=True), settings=settings)
    if space.now is not None:
        now_of(context.environment, space.now)  # a time in a wrong unit is reported first
    for name, value in (
        ("--now", space.now),
        ("--config", settings.config),
        ("--broker-config", settings.broker_config),
        ("--metadata", settings.metadata),
    ):
        if value and context.is_typed(name):
            raise UsageError(reason=f"{name} needs --freeable")
    return None


def _usage_options(paths: list[str], space: Space, planning: "SessionOptions | None") -> "UsageOptions | None":
    if not (space.by_topic or space.freeable) and space.sort is None:
        return None
    from kafkalog_cli.cli.ls_run import UsageOptions

    if space.sort is SortKey.FREEABLE and planning is None:
        raise UsageError(reason="--sort freeable needs --freeable")
    key = space.sort or SortKey.BY_NAME
    return UsageOptions(space.by_topic, key, planning, tuple(paths))


def _shown_reading(context: CommandContext) -> "AbstractContextManager[Environment]":
    """Return the surroundings of a call. The session of --freeable has its own progress."""
    return nullcontext(context.environment) if context.values["freeable"] else shown_reading(context)


command = Command(ls, surroundings=_shown_reading)
