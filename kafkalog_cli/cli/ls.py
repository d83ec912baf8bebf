"""`kafkalog ls`: list log directories, partition directories and files."""

from functools import partial
from typing import Annotated, NamedTuple

from typer import Context, Option

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.exit_codes import READ
from kafkalog_cli.cli.groups import Topics
from kafkalog_cli.cli.options import Format, Now, OutputFormat, PathsArgument
from kafkalog_cli.cli.session_groups import SettingSources
from kafkalog_cli.cli.shown_reading import shown_reading
from kafkalog_cli.ops.choices import SortKey

EXAMPLES = (
    ("List the partitions of a log directory", "kafkalog ls /var/lib/kafka"),
    (
        "Show the topics that fill the disk, the largest first",
        "kafkalog ls /var/lib/kafka --topics --sort size",
    ),
    ("List the segments of one topic", "kafkalog ls /var/lib/kafka --topic orders --segments"),
)
EXIT_CODES = READ

_space_option = partial(Option, rich_help_panel="Space on the disk")


# fmt: off
class Space(NamedTuple):
    """The options of which any shows the space on the disk instead, and the time for its plans."""

    by_topic: Annotated[bool, _space_option("--topics",
        help="Show what fills the disk: a row per topic, over all log directories.")] = False
    sort: Annotated[SortKey | None, _space_option(envvar="KAFKALOG_SORT",
        help="Show what fills the disk in this order: by name, or the largest first. allocated is the space on the"
        " disk, which differs from the size of sparse files, such as preallocated indexes.")] = None
    freeable: Annotated[bool, _space_option("--freeable",
        help="Show also what retain and compact would free now. Logs that are due for compaction are"
        " read.")] = False
    now: Now = None

    @property
    def is_wanted(self) -> bool:
        """Whether the question is what fills the disk."""
        return self.by_topic or self.freeable or self.sort is not None


class LsOptions(NamedTuple):
    """The options of ls."""

    paths: PathsArgument = None
    topics: Topics = Topics()
    segments: Annotated[bool, Option("--segments", help="Print a row per segment, not per partition.")] = False
    transactions: Annotated[bool, Option(
        help="Look for open transactions. After an unclean stop this reads the batch headers after the newest producer"
        " snapshot.")] = True
    space: Space = Space()
    settings: SettingSources = SettingSources()
    output: Format = OutputFormat.TEXT
# fmt: on


def ls(context: Context, options: LsOptions) -> int:
    """List topics, partitions and segments, and what fills the disk.

    Only names, small files and the first and last batch headers are read. No CRC is checked.

    --topics, --sort and --freeable show what fills the disk instead, with sums per log directory and a total.
    The settings for --freeable have the same sources as those of retain and compact. Nothing is locked or changed.
    """
    from kafkalog_cli.cli.ls_run import LsRun

    environment: Environment = context.obj
    if not options.space.freeable:  # the session of --freeable has its own progress
        environment = context.with_resource(shown_reading(environment))
    sources = {name: context.get_parameter_source(name) for name in context.params}
    typed = {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}
    return LsRun(environment, options, typed).run()
