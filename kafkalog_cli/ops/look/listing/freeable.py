"""The space that retention and compaction would free now, from the plans of `retain` and `compact`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from kafkalog_cli.broker.cleaning.log import Damaged
from kafkalog_cli.change.changes import Drop, Move
from kafkalog_cli.disk.fs import FileStatus, WritableFilesystem
from kafkalog_cli.disk.names import WorkState
from kafkalog_cli.errors import ExitCode, KafkalogError, Refused
from kafkalog_cli.log.partition import Partition, open_partition
from kafkalog_cli.log.settings.topic_config import CLEANUP_POLICY
from kafkalog_cli.ops.call.call import Call
from kafkalog_cli.ops.call.options import VerbOptions
from kafkalog_cli.ops.call.target import Target
from kafkalog_cli.ops.change.compact.cleaning import Cleaning
from kafkalog_cli.ops.change.compact.plan import CompactPlan, plan_compact
from kafkalog_cli.ops.change.plans import LogPlan
from kafkalog_cli.ops.change.refusals import Action
from kafkalog_cli.ops.change.retain.plan import RetainPlan
from kafkalog_cli.ops.change.retain.retain import plan_retain
from kafkalog_cli.ops.look.listing.listing import Freeable, PartitionListing

_Result = TypeVar("_Result")
_PlanT = TypeVar("_PlanT", bound=LogPlan)

BLOCK_BYTES = 4096
"""The unit in which a new file gets its space, as on ext4 and XFS."""


def freeable_of(
    fs: WritableFilesystem, paths: Sequence[str], listings: Iterable[PartitionListing], options: VerbOptions
) -> tuple[dict[str, Freeable], ExitCode]:
    """Return what each partition of `ls PATHS` would free, by path, and the exit code of all.

    The options are those of a dry run, so that it takes no lock. Raises as `Call.settings`.
    """
    found: dict[str, Freeable] = {}
    call, partitions = Call("ls", paths, options), []
    call.named_paths = frozenset(path.rstrip("/") for path in paths)
    for path in (listing.path for listing in listings):
        try:
            partitions.append(open_partition(fs, path))
        except KafkalogError as error:  # a broker removed it after it was listed
            found[path] = Freeable(unknown_because=(str(error),), partitions=1, unknown_partitions=1)

    def plan(target: Target) -> Freeable:
        found[target.partition.path] = freeable = _freeable(target)
        return freeable

    run = call.change_each(partitions, plan, show=lambda _: None)
    for path in run.not_done:
        found[path] = Freeable(unknown_because=("interrupted",), partitions=1, unknown_partitions=1)
    return found, run.exit_code


def _freeable(work: Target) -> Freeable:
    try:
        work.begin()
        _ = work.partition.config  # fails if the settings cannot be read
    except (KafkalogError, OSError) as error:
        return Freeable(unknown_because=(_reason(error),), partitions=1, unknown_partitions=1)
    return Plans(work).freeable()


@dataclass(slots=True)
class Plans:
    """The two plans for one partition."""

    work: Target
    unknown: list[str] = field(default_factory=list)

    def freeable(self) -> Freeable:
        """Return the sums of both plans; nothing for the metadata log, which only controllers change."""
        if self.work.partition.directory.is_metadata_log:
            return Freeable(0, 0, 0, (), 1, 0)
        retention = self.planned("retention", self._retention)
        due_bytes, retention_bytes, gone = retention or (0, None, frozenset[int]())
        compaction_bytes = self._compaction_of(gone, is_retention_known=retention is not None)
        return Freeable(
            due_bytes, retention_bytes, compaction_bytes, tuple(dict.fromkeys(self.unknown)), 1, int(bool(self.unknown))
        )

    def _compaction_of(self, gone: frozenset[int], *, is_retention_known: bool) -> int | None:
        """Return the bytes that compaction frees beside retention, None if they are not known."""
        config = self.work.partition.config
        if config.is_compacted:
            return self.planned("compaction", lambda: self._compaction(gone))
        # A policy that retention accepted has no compact.
        return 0 if is_retention_known or config.is_known(CLEANUP_POLICY) else None

    def planned(self, what: str, plan: Callable[[], _Result]) -> _Result | None:
        """Return the result of a plan; None, with the reason in `unknown`, where there is none."""
        try:
            return plan()
        except Damaged as damage:
            self.unknown.append(f"{what}: {damage.path}: {damage.fault.message}")
        except (KafkalogError, OSError) as error:
            self.unknown.append(f"{what}: {_reason(error)}")
        return None

    def retain_plan(self) -> RetainPlan:
        """Return the plan of retention. Raises as `plan_retain` and `Target.check`, and Refused for a refused plan."""
        self.work.check(Action.RETAIN)
        return _unless_refused(plan_retain(self.work.fs, self.work.partition, self.work.clock, self.work.places))

    def compact_plan(self) -> CompactPlan:
        """Return the plan of compaction. Raises as `plan_compact`, `Target.check`, and Refused if it is refused."""
        self.work.check(Action.COMPACT)
        work = self.work
        return _unless_refused(plan_compact(work.fs, work.partition, work.clock, work.places))

    def _retention(self) -> tuple[int, int, frozenset[int]]:
        """Return the bytes of due files, those of files that retention removes, and the segments that go."""
        work, plan = self.work, self.retain_plan()
        due = [] if plan.due is None else [due.file for due in plan.due.files]
        names = _names_that_go(plan)
        files = [file for file in work.fs.list_directory(plan.path) if file.name in names]
        gone = frozenset(fate.base_offset for fate in plan.removed)
        return _space(work.fs, due), _space(work.fs, files), gone

    def _compaction(self, gone: frozenset[int]) -> int:
        """Return the bytes that the cleaning of segments frees that retention leaves."""
        work, plan, freed_bytes = self.work, self.compact_plan(), 0
        if not plan.choice.is_cleaned:
            return 0
        for group, sizes in Cleaning(work.fs, plan, work.clock.now_ms).measure():
            if gone.isdisjoint(group.sources):
                new_bytes = sum(-(-size // BLOCK_BYTES) * BLOCK_BYTES for size in sizes)
                replaced = _replaced(work.partition, group.sources, [made.base_offset for made in group.segments])
                freed_bytes += _space(work.fs, replaced) - new_bytes
        return max(freed_bytes, 0)


def _unless_refused(plan: _PlanT) -> _PlanT:
    if plan.is_refused:
        raise Refused(path=plan.path, reason="; ".join(remark.message for remark in plan.remarks))
    return plan


def _reason(error: KafkalogError | OSError) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error.details.get("reason", error))


def _names_that_go(plan: RetainPlan) -> set[str]:
    """Return the names of the files that retention removes or renames to `.deleted`."""
    moved = {c.name for c in plan.changes if isinstance(c, Move) and c.new_name.endswith(WorkState.DELETED.value)}
    return moved | {change.name for change in plan.changes if isinstance(change, Drop)}


def _replaced(partition: Partition, sources: Sequence[int], made: Sequence[int]) -> list[FileStatus]:
    """Return the files that a cleaning replaces: those of its source segments, and snapshots of merged segments."""
    files: list[FileStatus | None] = []
    for segment in partition.segments:
        if segment.base_offset in sources:
            files += [segment.log, segment.offset_index, segment.time_index, segment.txn_index]
    merged = set(sources) - set(made)
    files += [file.status for file in partition.snapshots if file.name.offset in merged]
    return [file for file in files if file is not None]


def _space(fs: WritableFilesystem, files: Iterable[FileStatus]) -> int:
    """Return the space that the removal of files frees: none for links, and for files that have another name."""
    return sum(
        file.allocated_bytes
        for file in files
        if file.allocated_bytes and not file.is_symlink and fs.attributes(file.path).link_count == 1
    )
