"""`kafkalog cluster`: the state of a cluster at any point of its metadata log, and the differences of two points."""

from typing import Annotated

from typer import Context

from kafkalog_cli.cli.environment import Environment, time_of
from kafkalog_cli.cli.exit_codes import READ, exit_codes
from kafkalog_cli.cli.options import (
    TIME_HELP,
    Format,
    LogDirPaths,
    MetadataOption,
    Now,
    OutputFormat,
    complete_topics,
    selection_option,
)
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.log.settings.cluster_metadata import MetadataPoint
from kafkalog_cli.ops.cluster_entries import ClusterPart
from kafkalog_cli.ops.option_values import is_date

EXAMPLES = (
    ("Print the state of a cluster", "kafkalog cluster /var/lib/kafka"),
    (
        "Print the partitions of a topic as of an hour ago",
        "kafkalog cluster /var/lib/kafka --at -1h --topic orders",
    ),
    ("Print the changes since midnight", "kafkalog cluster /var/lib/kafka --since 2026-11-23"),
)
EXIT_CODES = READ | exit_codes(ExitCode.UNSUPPORTED)

POINT_HELP = f"An integer is an offset: all records below it count. A time: {TIME_HELP}"


def cluster(  # noqa: PLR0913, PLR0917 options
    context: Context,
    paths: LogDirPaths,
    at: Annotated[str | None, selection_option("--at", metavar="POINT",
        help=f"Print the state at this point. {POINT_HELP}.")] = None,
    since: Annotated[str | None, selection_option("--since", metavar="POINT",
        help="Print only the differences from this point to the other.")] = None,
    part: Annotated[list[ClusterPart] | None, selection_option("--part", metavar="PART",
        help="Print only this part: brokers, controllers, features, topics, partitions, configs, acls, scram-users,"
        " quotas or tokens. May be repeated.")] = None,
    topic: Annotated[list[str] | None, selection_option("--topic", metavar="TOPIC", autocompletion=complete_topics,
        help="Of topics, partitions and settings, print only this topic's; may be repeated.")] = None,
    metadata: MetadataOption = None,
    now: Now = None,
    output: Format = OutputFormat.TEXT,
) -> int:  # fmt: skip
    """Print brokers, topics, settings, ACLs of the metadata log.

    The state is read from __cluster_metadata-0 and its snapshots. It has brokers, controllers, features, topics,
    partitions with leaders and in-sync replicas, settings, ACLs, SCRAM users, quotas and delegation tokens. Secrets are
    not printed. Of several replicas of the metadata log, the furthest is taken.

    Without --at, partitions on disk that the cluster does not give to this broker or log directory are listed. Without
    a metadata log, as in ZooKeeper clusters, meta.properties and the checkpoints are printed. Nothing is locked or
    changed.
    """
    from kafkalog_cli.cli.run import Run
    from kafkalog_cli.ops.cluster import describe_cluster
    from kafkalog_cli.output.cluster_view import ClusterText, write_objects

    run = Run(context, output)
    run.show_reads()
    points = (_point(run.environment, at, now), _point(run.environment, since, now))
    found = describe_cluster(run.fs, paths, metadata, *points, topics=frozenset(topic or ()))
    parts = [one for one in ClusterPart if not part or one in part]
    run.codes += found.codes
    counts = {}
    if run.lines is not None:
        counts = write_objects(run.lines, found, parts)
    else:
        ClusterText(run.out).write(found, parts)
    code = run.end(**counts)
    run.messages.report(*found.notes)
    return code


def _point(environment: Environment, text: str | None, now: str | None) -> MetadataPoint | None:
    """Return the point of an option. Raises UsageError."""
    if text is None:
        return None
    if text.isdecimal() and not is_date(text):
        return MetadataPoint(int(text))
    return MetadataPoint(None, time_of(environment, text, now))
