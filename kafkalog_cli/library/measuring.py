"""`stats` and `inspect` for Python programs: the contents of each partition, and its place on a time axis."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.errors import KafkalogError, Unreadable, combined_exit_code
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.library.verbs import Call, Run, VerbOptions, path_texts
from kafkalog_cli.library.warning import warn
from kafkalog_cli.ops.selection import Selection, select_partitions

if TYPE_CHECKING:
    from typing import TypeAlias

    from typing_extensions import Unpack

    from kafkalog_cli.ops.inspect.inspecting import InspectedPartition
    from kafkalog_cli.ops.stats.measuring import MeasuredPartition

    Paths: TypeAlias = str | PathLike[str] | Sequence[str | PathLike[str]]


def stats(  # noqa: PLR0913
    paths: Paths,
    *,
    topics: Sequence[str] = (),
    partitions: Sequence[int] = (),
    top: int = 5,
    limits: Limits = DEFAULT_LIMITS,
    jobs: int = 1,
) -> Run[MeasuredPartition]:
    """Measure what lies in logs as `kafkalog stats` does; each result has the `contents` of one partition.

    The results are in the order of the partitions. `top` is the number of the largest records, most frequent keys and
    producers in each. Damage is a LogWarning too. Raises NothingSelected, PathNotFound, NotKafkaLayout, Unreadable.
    """
    from kafkalog_cli.disk.kernels import KernelChoice
    from kafkalog_cli.ops.stats.measuring import StatsRequest, measure_partitions

    fs = RealFilesystem()
    chosen = select_partitions(fs, path_texts(paths), Selection(frozenset(topics), frozenset(partitions)))
    found = list(measure_partitions(fs, chosen, StatsRequest(top, limits), KernelChoice(), jobs=jobs))
    errors: list[KafkalogError] = []
    for one in found:
        for path, fault in one.damage:
            warn(fault.message, path)
        for path, error in one.not_read:
            known = isinstance(error, KafkalogError)
            errors.append(error if known else Unreadable(path=path, reason=str(error)))  # type: ignore[arg-type]
    return Run(combined_exit_code([one.code for one in found]), tuple(found), tuple(errors))


def inspect(paths: Paths, **options: Unpack[VerbOptions]) -> Run[InspectedPartition]:
    """Describe partitions on a time axis as `kafkalog inspect` does; each result is one partition.

    It has the time spans of segments, bytes over time, holes, open transactions, and what retention and compaction
    would do. Raises UsageError, PathNotFound, NotKafkaLayout, NothingSelected. Failures of single partitions are in
    `errors`.
    """
    from kafkalog_cli.ops.inspect.inspecting import INSPECT, inspect_request

    call = Call(INSPECT, paths, {**options, "dry_run": True})
    partitions = call.session.partitions(call.paths)
    return call.run(inspect_request(call.session, partitions), partitions)
