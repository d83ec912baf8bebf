"""`verify --against`: verify two sides, and compare the partitions that are replicas of each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.names import DirectoryKind
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.call.call import Call, Outcome, Run
from kafkalog_cli.ops.check.checks.diagnose import Finding, with_path
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.check.verify.against import compare, is_other_name, not_compared
from kafkalog_cli.ops.check.verify.task import TargetKind, Verification
from kafkalog_cli.ops.check.verify.verify import VerifyPlanner
from kafkalog_cli.ops.choices import Level
from kafkalog_cli.ops.map_each import Known
from kafkalog_cli.ops.selection import Selection, expand, partition_paths, select_partitions

_Pair = tuple[Partition, Partition]


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a comparison: the paths given, and their partitions.

    `is_named`: each path given is a partition's directory.
    """

    paths: tuple[str, ...]
    partitions: tuple[Partition, ...]
    is_named: bool


def verify_against(call: Call, level: Level, limits: Limits, against: str) -> Run[Verification]:
    """Verify both sides, and compare each partition with its replica on the other side.

    Raises as `VerifyPlanner.tasks` and `compare`; PathNotFound, NotKafkaLayout, NothingSelected, Unreadable.
    """
    fs = call.context.fs
    ours, theirs = _side(fs, call.paths, call.selection), _side(fs, [against], call.selection)
    pairs, alone = _paired(ours, theirs)
    verified: set[str] = set()

    def show(result: Verification) -> None:
        verified.add(result.path)
        call.observer.show(result)

    planners = []
    for number, (side, other) in enumerate(((ours, theirs), (theirs, ours))):
        chosen = [*side.paths]
        if side.is_named:
            chosen = [one.path for one in side.partitions]
        elif other.is_named:  # only the partitions that are named there
            chosen = [pair[number].path for pair in pairs]
        is_whole = chosen == [*side.paths] and not side.is_named
        planner = VerifyPlanner(call, level, limits, None if is_whole else Selection())
        planners.append(planner)
        if chosen:
            call.read_each(planner.tasks(chosen), planner.work, show=show)

    def results() -> Iterator[Known[Outcome]]:
        for here, there in pairs:
            if {here.path, there.path} <= verified:
                yield _result(here, level, _compared(here, there, limits, planners))
        kind = FindingKind.ONLY_ON_ONE_SIDE if pairs else FindingKind.NOT_COMPARED
        for partition, elsewhere in alone:
            why = f"{partition.name} is only here, there is none in {elsewhere}"
            found = not_compared(partition.path, why, kind=kind)
            yield _result(partition, level, (with_path(found, partition.path),))

    return call.read_each(results(), planners[0].work)


def _result(here: Partition, level: Level, findings: tuple[Finding, ...]) -> Known[Outcome]:
    result = Verification(here.path, level, TargetKind.COMPARISON, here.topic, here.number, findings)
    return Known(Outcome(result.path, result))


def _compared(
    here: Partition, there: Partition, limits: Limits, planners: Sequence[VerifyPlanner]
) -> tuple[Finding, ...]:
    """Compare two replicas, with what the settings and checkpoints of both sides say of the topic.

    One source that knows the policy is enough. If the sources disagree, the topic counts as compacted, because
    compaction explains more.
    """
    policies = [planner.is_compacted(one) for planner, one in zip(planners, (here, there), strict=True)]
    known = [policy for policy in policies if policy is not None]
    log_start = max(planner.log_start(one) for planner, one in zip(planners, (here, there), strict=True))
    found = compare(here, there, limits, any(known) if known else None, log_start)
    own = f"{here.path.rstrip('/')}/"
    return tuple(with_path(one, here.path if one.path.startswith(own) else one.path) for one in found)


def _side(fs: Filesystem, paths: Sequence[str], selection: Selection) -> _Side:
    """Return the partitions of one side; a path that is itself a partition's directory may have any name."""
    given = [path.rstrip("/") or "/" for path in expand(fs, list(paths))]
    named = [path for path in given if [one.path for one in partition_paths(fs, path)] == [path]]
    is_named = len(named) == len(given)
    chosen = select_partitions(fs, given, Selection() if is_named else selection)
    if not is_named:
        chosen = [one for one in chosen if one.directory.kind is DirectoryKind.PARTITION]
    return _Side(tuple(paths), tuple(chosen), is_named)


def _paired(ours: _Side, theirs: _Side) -> tuple[list[_Pair], list[tuple[Partition, str]]]:
    """Pair the partitions of both sides by topic and number; two single directories are a pair under any names.

    Also returns each partition without a partner, with the paths that lack it.
    """
    if len(ours.partitions) == len(theirs.partitions) == 1 and (
        ours.is_named or is_other_name(ours.partitions[0]) or theirs.is_named
    ):
        return [(ours.partitions[0], theirs.partitions[0])], []
    by_name = {(one.topic, one.number): one for one in theirs.partitions}
    names = {(one.topic, one.number) for one in ours.partitions}
    pairs = [(one, by_name[one.topic, one.number]) for one in ours.partitions if (one.topic, one.number) in by_name]
    missing = [one for one in ours.partitions if (one.topic, one.number) not in by_name]
    more = [one for one in theirs.partitions if (one.topic, one.number) not in names]
    alone = [] if theirs.is_named and pairs else [(one, ", ".join(theirs.paths)) for one in missing]
    alone += [] if ours.is_named else [(one, ", ".join(ours.paths)) for one in more]
    return pairs, alone
