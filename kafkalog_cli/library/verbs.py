"""Functions for Python programs that only read: results are values. The verbs that change logs are in `ops`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, TypeVar

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.errors import combined_exit_code
from kafkalog_cli.log.settings.cluster_metadata import MetadataPoint
from kafkalog_cli.ops.call.call import Run, path_texts, text_of
from kafkalog_cli.ops.call.observer import Observer
from kafkalog_cli.ops.call.options import Context, Paths, VerbOptions
from kafkalog_cli.ops.log_warning import warn
from kafkalog_cli.ops.map_each import map_each
from kafkalog_cli.ops.option_values import is_date
from kafkalog_cli.ops.times import Time, epoch_ms

if TYPE_CHECKING:
    from kafkalog_cli.ops.check.doctor.examination import Examination
    from kafkalog_cli.ops.check.verify.task import Verification
    from kafkalog_cli.ops.cluster.cluster import ClusterDescription
    from kafkalog_cli.ops.cluster.coordinators import Copies
    from kafkalog_cli.ops.cluster.group_history import OffsetChange
    from kafkalog_cli.ops.cluster.groups import GroupDescription
    from kafkalog_cli.ops.cluster.open_transactions import OpenInLog, TransactionalId
    from kafkalog_cli.ops.move.metadump.copying import Metadump


ResultT = TypeVar("ResultT")


def verify(
    paths: Paths, *, level: str = "normal", topics: Sequence[str] = (), partitions: Sequence[int] = ()
) -> Run[Verification]:
    """Check partitions and log directories as `kafkalog verify` does; `level` is quick, normal or deep.

    Each Verification has its findings. Raises NotKafkaLayout, Unreadable, PathNotFound.
    """
    from kafkalog_cli.format.limits import DEFAULT_LIMITS
    from kafkalog_cli.ops.check.verify.verify import verify_paths
    from kafkalog_cli.ops.choices import Level

    options: VerbOptions = {"topics": topics, "partitions": partitions}
    return verify_paths(paths, options, Level(level), DEFAULT_LIMITS, map_each, Observer())


def cluster(
    paths: Paths,
    *,
    at: Time = None,
    since: Time = None,
    topics: Sequence[str] = (),
    metadata: str | PathLike[str] | None = None,
) -> ClusterDescription:
    """Describe a cluster from its metadata log as `kafkalog cluster` does.

    `at` and `since` are points: an offset, below which all records count, or a time (without a zone: UTC). Raises
    NothingSelected, PathNotFound, NotKafkaLayout, Unreadable.
    """
    from kafkalog_cli.ops.cluster.cluster import describe_cluster

    description = describe_cluster(
        RealFilesystem(), path_texts(paths), text_of(metadata), _point(at), _point(since),
        topics=frozenset(topics),
    )  # fmt: skip
    for note in description.notes:
        warn(note.message, note.path)
    return description


def _point(point: Time) -> MetadataPoint | None:
    if point is None:
        return None
    text = str(point)
    is_offset = text.isdecimal() and not is_date(text)
    return MetadataPoint(int(text)) if is_offset else MetadataPoint(None, epoch_ms(point))


def metadump(paths: Paths, out: str | PathLike[str], *, hash_names: bool = False) -> Metadump:
    """Copy log directories without their data into the new directory `out`, as `kafkalog metadump` does.

    Raises UsageError, Refused, UnsupportedFormat, PathNotFound, NotKafkaLayout, Unreadable, NoSpace.
    """
    from kafkalog_cli.ops.move.metadump.copying import metadump as copy_without_data

    return copy_without_data(RealFilesystem(), path_texts(paths), fspath(out), hash_names=hash_names)


def doctor(  # noqa: PLR0913 options
    path: str | PathLike[str],
    text: str = "",
    *,
    level: str = "normal",
    broker_config: str | PathLike[str] | None = None,
    metadata: str | PathLike[str] | None = None,
    now: Time = None,
) -> Examination:
    """Examine a log directory as `kafkalog doctor` does; `text` has lines of its broker's log.

    The commands of the Examination are lists of words. Raises PathNotFound, NotKafkaLayout, Unreadable, UsageError.
    """
    from kafkalog_cli.ops.check.doctor.examination import examine
    from kafkalog_cli.ops.choices import Level

    options: VerbOptions = {"broker_config": broker_config, "metadata": metadata, "now": now}
    (examination,) = examine(Context(), options, [fspath(path)], text, Level(level))
    for note in examination.notes:
        warn(note.message, note.path)
    return examination


def groups(
    paths: Paths,
    *,
    groups: Sequence[str] = (),
    topics: Sequence[str] = (),
    broker_config: str | PathLike[str] | None = None,
    metadata: str | PathLike[str] | None = None,
) -> Run[GroupDescription]:
    """Return the groups of consumers with offsets, lag and members, as `kafkalog groups` does.

    `groups` and `topics` choose; empty: all. Raises NothingSelected, UsageError, PathNotFound, NotKafkaLayout,
    Unreadable.
    """
    from kafkalog_cli.ops.cluster.coordinators import Copies
    from kafkalog_cli.ops.cluster.groups import GroupsRequest, describe_groups, offsets_retention

    log_dirs = Copies(RealFilesystem(), path_texts(paths), text_of(metadata))
    retention = offsets_retention(log_dirs.fs, text_of(broker_config))
    descriptions = describe_groups(log_dirs, GroupsRequest(frozenset(groups), frozenset(topics), retention))
    return _without_session(descriptions, log_dirs)


def group_history(
    paths: Paths,
    *,
    groups: Sequence[str] = (),
    topics: Sequence[str] = (),
    broker_config: str | PathLike[str] | None = None,
    metadata: str | PathLike[str] | None = None,
) -> Run[OffsetChange]:
    """Return each change of a committed offset with a verdict, in the order of the log, as `kafkalog groups --history`.

    `groups` and `topics` choose; empty: all. Raises as `groups`.
    """
    from kafkalog_cli.ops.cluster.coordinators import Copies
    from kafkalog_cli.ops.cluster.group_history import group_history as changes
    from kafkalog_cli.ops.cluster.groups import GroupsRequest, offsets_retention

    log_dirs = Copies(RealFilesystem(), path_texts(paths), text_of(metadata))
    retention = offsets_retention(log_dirs.fs, text_of(broker_config))
    history = changes(log_dirs, GroupsRequest(frozenset(groups), frozenset(topics), retention))
    return _without_session(history, log_dirs)


def transactions(
    paths: Paths,
    *,
    max_transaction_timeout_ms: int = 15 * 60_000,
    now: Time = None,
    metadata: str | PathLike[str] | None = None,
) -> Run[TransactionalId | OpenInLog]:
    """Return the transactional ids, then the transactions that are open in logs, as `kafkalog transactions` does.

    A transaction hangs only if its last batch is older than `max_transaction_timeout_ms` at `now`, epoch ms or a
    datetime. Raises PathNotFound, NotKafkaLayout, Unreadable.
    """
    from kafkalog_cli.ops.cluster.coordinators import Copies
    from kafkalog_cli.ops.cluster.open_transactions import find_transactions

    log_dirs = Copies(RealFilesystem(), path_texts(paths), text_of(metadata))
    now_ms = epoch_ms(now, is_clock=True)
    open_or_ended = find_transactions(
        log_dirs, Context().now_ms() if now_ms is None else now_ms, max_transaction_timeout_ms
    )
    return _without_session(open_or_ended, log_dirs)


def _without_session(results: Iterable[ResultT], log_dirs: Copies) -> Run[ResultT]:
    """Return the outcome of a verb that only reads; its notes are LogWarnings too."""
    values = tuple(results)
    for note in log_dirs.notes:
        warn(note.message, note.path)
    return Run(combined_exit_code(log_dirs.codes), values, notes=tuple(log_dirs.notes))
