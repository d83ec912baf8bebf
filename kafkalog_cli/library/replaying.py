"""`replay` for Python programs: sends the records of log directories to a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from os import PathLike, fspath
from typing import TYPE_CHECKING

from kafkalog_cli.errors import ClusterError, KafkalogError, combined_exit_code
from kafkalog_cli.library.verbs import Run, epoch_ms, path_texts
from kafkalog_cli.library.warning import warn
from kafkalog_cli.ops.read.request import Isolation, ReadRequest, Start
from kafkalog_cli.ops.selection import Selection
from kafkalog_cli.ops.session.observer import Note
from kafkalog_cli.ops.session.options import Context

if TYPE_CHECKING:
    from typing import TypeAlias

    from kafkalog_cli.ops.replay.cluster import Cluster
    from kafkalog_cli.ops.replay.sending import ReplayedPartition
    from kafkalog_cli.ops.replay.translation import ReplayedOffset

    Paths: TypeAlias = str | PathLike[str] | Sequence[str | PathLike[str]]


def replay(  # noqa: PLR0913
    paths: Paths,
    *,
    to: str | Cluster,
    state: str | PathLike[str],
    create: bool = False,
    rename: Mapping[str, str] | None = None,
    groups: bool = False,
    client: Mapping[str, str] | None = None,
    topics: Sequence[str] = (),
    partitions: Sequence[int] = (),
    from_offset: int | None = None,
    from_time: int | datetime | None = None,
    to_offset: int | None = None,
    until: int | datetime | None = None,
    isolation: str = "read_committed",
    bytes_per_second: int | None = None,
    metadata: str | PathLike[str] | None = None,
) -> Run[ReplayedPartition | ReplayedOffset]:
    """Send records as `kafkalog replay` does; the results are partitions, then the committed offsets of groups.

    `to` has the addresses of brokers, or is a cluster of your own (ops/replay/cluster.py). `client` has settings of
    librdkafka. Damage is a LogWarning too. Raises UsageError, ClusterError, Refused, Locked, BadInput, NothingSelected,
    PathNotFound, NotKafkaLayout, Unreadable, OSError.
    """
    from kafkalog_cli.ops.replay.kafka_cluster import KafkaCluster
    from kafkalog_cli.ops.replay.plan import ReplayRequest
    from kafkalog_cli.ops.replay.sending import Replay, ReplayedPartition

    read = ReadRequest(
        Start.EARLIEST if from_offset is None else from_offset, epoch_ms(from_time), to_offset, epoch_ms(until),
        isolation=Isolation(isolation),
    )  # fmt: skip
    request = ReplayRequest(
        path_texts(paths), fspath(state), Selection(frozenset(topics), frozenset(partitions)), read, rename or {},
        create, groups, None if metadata is None else fspath(metadata), bytes_per_second,
    )  # fmt: skip
    notes: list[Note] = []

    def report(note: Note) -> None:
        notes.append(note)
        warn(note.message, note.path)

    cluster = KafkaCluster(to, client) if isinstance(to, str) else to
    one = Replay(Context(), request, cluster, report)
    for note in one.notes:
        report(note)
    results: list[ReplayedPartition | ReplayedOffset] = []
    errors: list[KafkalogError] = []
    codes = list(one.codes)
    for outcome in one.run():
        if isinstance(outcome, ClusterError):
            errors.append(outcome)
            codes.append(outcome.exit_code)
            continue
        results.append(outcome)
        if isinstance(outcome, ReplayedPartition):
            codes.append(outcome.code)
            errors += [] if outcome.error is None else [outcome.error]
    return Run(combined_exit_code(codes), tuple(results), tuple(errors), tuple(notes))
