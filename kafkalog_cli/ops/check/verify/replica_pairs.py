"""Which partitions of two sides are replicas of each other, to be compared (`verify --against`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.names import DirectoryKind
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.check.checks.diagnose import Finding, finding
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.selection import Selection, expand, partition_paths, select_partitions
from kafkalog_cli.ops.steps import Steps


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: the paths given, and their partitions.

    `is_named`: each path given is a partition's directory.
    """

    paths: tuple[str, ...]
    partitions: tuple[Partition, ...]
    is_named: bool

    @property
    def text(self) -> str:
        """The side as text for a message."""
        return ", ".join(self.paths)


@dataclass(frozen=True, slots=True)
class ReplicaPairs:
    """The pairs to compare, and each partition without a partner, with the place that lacks it."""

    pairs: tuple[tuple[Partition, Partition], ...]
    alone: tuple[tuple[Partition, str], ...] = ()

    def paths(self, side: Side, other: Side, number: int) -> list[str]:
        """Return the paths to verify on one side.

        They are all paths of the side, or only the partitions named on this side or paired with those named on the
        other. `number` is 0 for the side given first, else 1.
        """
        if side.is_named:
            return [one.path for one in side.partitions]
        return [pair[number].path for pair in self.pairs] if other.is_named else list(side.paths)

    def findings_alone(self) -> Iterator[tuple[Partition, Finding]]:
        """Yield a finding per partition that only one side has.

        If there is no pair at all, the finding says that nothing was compared.
        """
        for partition, elsewhere in self.alone:
            kind = FindingKind.ONLY_ON_ONE_SIDE if self.pairs else FindingKind.NOT_COMPARED
            why = f"{partition.name} is only here, there is none in {elsewhere}"
            yield partition, not_compared(partition.path, why, kind=kind)


def side_of(fs: Filesystem, paths: Sequence[str], selection: Selection) -> Side:
    """Return the partitions of one side; a path that is itself a partition's directory may have any name.

    Raises PathNotFound, NotKafkaLayout, NothingSelected, Unreadable.
    """
    given = [path.rstrip("/") or "/" for path in expand(fs, list(paths))]
    named = [path for path in given if [one.path for one in partition_paths(fs, path)] == [path]]
    is_named = len(named) == len(given)
    chosen = select_partitions(fs, given, Selection() if is_named else selection)
    if not is_named:
        chosen = [one for one in chosen if one.directory.kind is DirectoryKind.PARTITION]
    return Side(tuple(paths), tuple(chosen), is_named)


def paired(ours: Side, theirs: Side) -> ReplicaPairs:
    """Pair the partitions of both sides by topic and number; two single directories are a pair under any names."""
    if len(ours.partitions) == len(theirs.partitions) == 1 and (
        ours.is_named or is_other_name(ours.partitions[0]) or theirs.is_named
    ):
        return ReplicaPairs(((ours.partitions[0], theirs.partitions[0]),))
    by_name = {(one.topic, one.number): one for one in theirs.partitions}
    names = {(one.topic, one.number) for one in ours.partitions}
    pairs = [(one, by_name[one.topic, one.number]) for one in ours.partitions if (one.topic, one.number) in by_name]
    missing = [one for one in ours.partitions if (one.topic, one.number) not in by_name]
    more = [one for one in theirs.partitions if (one.topic, one.number) not in names]
    alone = [] if theirs.is_named and pairs else [(one, theirs.text) for one in missing]
    alone += [] if ours.is_named else [(one, ours.text) for one in more]
    return ReplicaPairs(tuple(pairs), tuple(alone))


def is_other_name(partition: Partition) -> bool:
    """Whether the directory's name is not a partition's, as a backup's may be: orders-0.bak, backup."""
    return partition.directory.kind is DirectoryKind.OTHER


def not_compared(path: str, why: str, steps: Steps = (), *, kind: FindingKind = FindingKind.NOT_COMPARED) -> Finding:
    """Return a finding that says why nothing was compared."""
    return finding(kind, path, f"not compared: {why}", steps=steps)
