"""The verb `compact`: cleaning, retention after it if cleanup.policy has delete too, and erasure of keys."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from kafkalog_cli.broker.cleaning.cleaner import CleanedGroup
from kafkalog_cli.broker.cleaning.explaining import explain_key
from kafkalog_cli.broker.cleaning.key_table import SoughtKeys
from kafkalog_cli.broker.cleaning.log import Damaged
from kafkalog_cli.broker.cleaning.marks import causes_in_words
from kafkalog_cli.change import journal
from kafkalog_cli.change.changes import Change, Drop, Move, Put, Staged
from kafkalog_cli.change.journal import StagingArea
from kafkalog_cli.change.manifest import Manifest, RunInfo
from kafkalog_cli.change.removal import partly
from kafkalog_cli.change.run import CheckpointEdits
from kafkalog_cli.change.runs import begun_ms, new_run_id
from kafkalog_cli.disk.durable import is_half_changed, unfinished
from kafkalog_cli.disk.fs import Filesystem, LockHandle, WritableFilesystem
from kafkalog_cli.disk.names import FileKind, WorkState, segment_file_name
from kafkalog_cli.errors import (
    ExitCode,
    KafkalogError,
    PartlyRemoved,
    Refused,
    RolledOnly,
    Skipped,
    counted,
    shell_word,
)
from kafkalog_cli.format.limits import DEFAULT_LIMITS
from kafkalog_cli.log.log_dir import LineEdit
from kafkalog_cli.log.partition import Partition, open_partition
from kafkalog_cli.log.settings.topic_config import CLEANUP_POLICY
from kafkalog_cli.ops.append.reading import PieceLines, file_pieces
from kafkalog_cli.ops.apply_changes import Applied, MarkerState, MarkerUse, apply_changes
from kafkalog_cli.ops.compact.cleaning import LogCleaning, log_of, marking_request
from kafkalog_cli.ops.compact.erasing import (
    ErasureProof,
    KeyFile,
    read_keys,
    replication_words,
    with_holders,
    with_stored_keys,
)
from kafkalog_cli.ops.compact.plan import (
    Choice,
    Compaction,
    CompactPlan,
    CompactRequest,
    Erasure,
    Estimate,
    RecordPlace,
    plan_compact,
)
from kafkalog_cli.ops.decoding import Decoding
from kafkalog_cli.ops.keys import stored_forms
from kafkalog_cli.ops.plans import Remark, in_place, load_settings
from kafkalog_cli.ops.refusals import Action
from kafkalog_cli.ops.retain.plan import RetainPlan
from kafkalog_cli.ops.retain.retain import after_due_files, apply_retain, plan_retain, unlink_at_once
from kafkalog_cli.ops.roll import RollPlan, plan_roll
from kafkalog_cli.ops.session.session import Session
from kafkalog_cli.ops.session.verb import Verb
from kafkalog_cli.ops.session.work import Changed, Work
from kafkalog_cli.ops.steps import VERIFY, Step


class CompactWork(NamedTuple):
    """The work of `compact`. `keys`: all records of these keys are erased.

    `removes_others`: so are records of other keys, where only --config says that the topic is compacted. In a dry run
    only: `estimates` counts the records that would be removed. `explained_keys` are the keys whose records' fates
    are reported.
    """

    request: CompactRequest
    keys: KeyFile | None = None
    estimates: bool = False
    explained_keys: tuple[bytes, ...] | None = None
    removes_others: bool = False


def keys_to_erase(
    fs: Filesystem, path: str, partitions: Sequence[Partition], decoding: Decoding, *, is_ndjson: bool
) -> KeyFile:
    """Read the keys to erase from a file; printed keys are looked up in the partitions.

    Raises BadInput, and the exceptions of reading.
    """
    with fs.open_read(path) as file:
        lines = PieceLines(file_pieces(file))
        keys = read_keys(lines, path, is_ndjson=is_ndjson, key_format=decoding.key_format)
    decoder, _ = decoding.decoder(fs, [partition.path for partition in partitions] if keys.printed else [])
    return with_stored_keys(fs, keys, partitions, decoder, DEFAULT_LIMITS)


def keys_to_explain(
    fs: Filesystem, text: str, partitions: Sequence[Partition], decoding: Decoding
) -> tuple[bytes, ...]:
    """Return the bytes of the key to explain, as `keys_to_erase` does."""
    stored = stored_forms(text, decoding.key_format)
    if stored is not None:
        return stored
    decoder, _ = decoding.decoder(fs, [partition.path for partition in partitions])
    keys = KeyFile(SoughtKeys(()), (), ((1, text),))
    return tuple(key for key, _ in with_stored_keys(fs, keys, partitions, decoder, DEFAULT_LIMITS).sought.items())


def dirtiest_first(session: Session, partitions: Sequence[Partition], request: CompactRequest) -> list[Partition]:
    """Sort the partitions in the order in which a broker's cleaner picks them.

    Errors of a partition are reported when it is processed.
    """
    session.settings(partitions)
    if len(partitions) < 2:
        return list(partitions)
    ratios = {partition.path: _ratio(session, partition, request) for partition in partitions}
    return sorted(partitions, key=lambda partition: -ratios[partition.path])


def _ratio(session: Session, partition: Partition, request: CompactRequest) -> float:
    """Return the dirty ratio of a partition, 0 if it cannot be found."""
    fs = session.context.fs
    try:
        plan = plan_compact(fs, partition, request, session.places)
    except (KafkalogError, OSError, Damaged):
        return 0.0
    return plan.dirt.ratio if plan.dirt is not None else 0.0


def compact_partition(work: Work, what: CompactWork) -> Changed[CompactPlan]:
    """Compact one partition."""
    if what.keys is not None:
        what = _only_of_named(work, what)
    plan = _plan(work, what)
    try:
        if what.keys is not None and not plan.is_refused:
            plan = ErasureProof(work.fs, what.keys, what.request).look(plan)
            plan = estimate(work.fs, plan, what.request)
            _check_others(work, what, plan)
        changed = Changed(_looked_into(work, what, plan), None, True) if work.dry_run else _change(work, what, plan)
    except Damaged as damage:
        changed = Changed(damaged(plan, damage), None, work.dry_run)
    else:
        changed = replace(changed, plan=with_holders(changed.plan))
    return replace(changed, is_named=work.is_named)


def _only_of_named(work: Work, what: CompactWork) -> CompactWork:
    """Return work that erases nothing from a topic that is neither compacted nor named: keys of others may be equal."""
    is_compacted = work.settings.topic_config(work.log_dir, work.partition.topic).is_compacted
    if is_compacted or work.is_named:
        return what
    return what._replace(request=replace(what.request, erased=None))


def _check_others(work: Work, what: CompactWork, plan: CompactPlan) -> None:
    """Raise Refused if records of other keys would be removed, although only --config says that they may be.

    Records of the keys in the active segment count too: after the roll that they need, others would be removed.
    """
    partition = work.partition
    own, config = partition.own_config[CLEANUP_POLICY], partition.config
    is_compacted = partition.own_config.is_compacted if own.is_known else partition.topic_was_cleaned
    if not config.is_compacted or is_compacted or what.removes_others or plan.erasure is None:
        return
    option = f"--config {CLEANUP_POLICY}={config[CLEANUP_POLICY].text}"
    active = sum(holder.records for holder in plan.erasure.holders if holder.place is RecordPlace.ACTIVE)
    if plan.estimate is not None and plan.estimate.causes.others:
        others = counted(plan.estimate.causes.others, "record")
        causes = causes_in_words(plan.estimate.causes, with_erased=False)
        effect = f"would also remove {others} of other keys without undo ({causes})"
    elif active:
        effect = f"would leave {counted(active, 'record')} of the keys in the active segment"
    else:
        return
    why = own.explanation if own.is_known else "no source but the option says that the topic is compacted"
    raise Refused(
        path=work.partition.path,
        reason=f"{option} {effect}, and {why}. Without {option} exactly the records of the keys are erased"
        " (to remove the others too: --remove-other-records)",
    )


def _plan(work: Work, what: CompactWork) -> CompactPlan:
    work.begin()
    try:
        work.check(Action.COMPACT, erases=what.request.erased is not None)
    except Skipped as skipped:
        if what.keys is None or what.request.erased is not None:
            raise
        named = f"or name the topic with --topic {shell_word(work.partition.topic)}"
        reason = f"{skipped.details['reason']}, {named} to erase exactly the records of the keys"
        raise Skipped(path=work.partition.path, reason=reason) from skipped
    plan = plan_compact(work.fs, work.partition, what.request, work.places)
    if what.keys is not None:
        known = replication_words(work.replication, work.replication_unknown_because)
        plan = replace(plan, erasure=Erasure(known, len(what.keys.shown())))
    config = work.partition.config
    if plan.is_refused or what.keys is not None or not (config.is_compacted and config.is_deleted):
        return plan
    try:
        work.check(Action.RETAIN)
    except Refused as refused:
        work.note("retention", f"cleaned, but retention removed nothing: {refused}", work.partition.path)
        return plan
    retention = _retention(work, what)
    return plan.followed_by(retention)


def _looked_into(work: Work, what: CompactWork, plan: CompactPlan) -> CompactPlan:
    """Add the estimate and explanation to the plan, if requested; both read the log. Raises Damaged."""
    if what.estimates:
        plan = estimate(work.fs, plan, what.request)
    if what.explained_keys is not None:
        plan = explain(work.fs, plan, what.request, what.explained_keys)
    return plan


def _change(work: Work, what: CompactWork, plan: CompactPlan) -> Changed[CompactPlan]:
    """Make the changes of the plan, if any. Raises Damaged too."""
    if not plan.has_work:
        return Changed(plan, None)
    if plan.rolls:
        work.check(Action.ROLL, in_place=in_place(_planned_roll(work)))
    with work.ready_to_change(plan):
        if not plan.rolls:
            return _apply(work, what, plan, work.session.run_info(plan.settings))
        plan = _rolled(work, what, plan)
        try:
            return _apply(work, what, plan, work.session.run_info(plan.settings))
        except (KafkalogError, OSError) as error:
            if isinstance(error, PartlyRemoved) or is_half_changed(error):
                raise
            raise unfinished(RolledOnly, plan.path, error) from error


def _planned_roll(work: Work) -> RollPlan:
    return plan_roll(work.fs, work.reopen(), work.clock.now_ms, force=True)


def _rolled(work: Work, what: CompactWork, plan: CompactPlan) -> CompactPlan:
    """Roll the active segment, which is a run of its own, and return the plan for the log that it leaves."""
    rolling = _planned_roll(work)
    before_ms = begun_ms(work.session.run_id) - 1  # runs sort by name: that of the roll is before that of the cleaning
    run = replace(work.session.run_info(rolling.settings), run_id=new_run_id("roll", before_ms))
    settings = load_settings(work.partition, work.clock.now_ms)
    done = apply_changes(work.fs, rolling, run, MarkerUse.GIVEN_BACK, settings, held=work.lock)
    work.changed(rolling, done)
    again = plan_compact(work.fs, work.reopen(), what.request, work.places)
    if again.is_refused:
        return again
    return replace(again, groups=plan.groups, erasure=plan.erasure, estimate=plan.estimate, rolls=True)


def _apply(work: Work, what: CompactWork, plan: CompactPlan, run: RunInfo) -> Changed[CompactPlan]:
    made = apply_compact(work.fs, plan, run, what.request, held=work.lock)
    if made is None:
        return Changed(plan, None)
    with partly(plan.path, is_begun=made.manifest is not None):
        plan = _retain(work, what, replace(plan, outcome=made.compaction))
        if what.keys is not None:
            plan = ErasureProof(work.fs, what.keys, what.request).look_again(plan)
    return Changed(plan, None if made.manifest is None else Applied(made.manifest, MarkerState.NONE))


def _retain(work: Work, what: CompactWork, plan: CompactPlan) -> CompactPlan:
    """Run retention after the cleaning, as a broker does if cleanup.policy has delete too. It is a separate run."""
    if plan.retention is None:
        return plan
    work.reopen()
    retention = _retention(work, what)
    run = replace(work.session.run_info(retention.settings), run_id=new_run_id("retain", begun_ms(work.session.run_id)))
    done = apply_retain(work.fs, retention, run, held=work.lock)
    return replace(plan, retention=retention, retention_run=None if done is None else done.manifest.run.run_id)


def _retention(work: Work, what: CompactWork) -> RetainPlan:
    return plan_retain(work.fs, work.partition, work.clock, work.places, delay_ms=what.request.delay_ms)


COMPACT = Verb(Action.COMPACT.value)


_SEGMENT_FILES = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)


class Compacted(NamedTuple):
    """A finished compaction. `compaction` is None if only files of earlier runs were removed."""

    manifest: Manifest | None
    compaction: Compaction | None = None


def apply_compact(
    fs: WritableFilesystem, plan: CompactPlan, run: RunInfo, request: CompactRequest, *, held: LockHandle | None
) -> Compacted | None:
    """Remove due files, clean the log, and swap the new segments in; None if there is nothing to do.

    `held` is the lock of the partition. Files of this run stay as `.deleted` for `plan.delay_ms`. With 0 they are
    removed at once, and the run cannot be undone. Raises Refused if a file has changed since the plan was made, Damaged
    if the log cannot be cleaned, and the exceptions of `journal.apply` and `apply_purge`.
    """
    if not plan.has_work:
        return None
    with after_due_files(fs, plan, run) as begun:
        work = _Compaction(fs, open_partition(fs, plan.path), plan, request)
        manifest = work.apply(begun, held)
    if plan.choice.is_cleaned and not plan.delay_ms:
        unlink_at_once(fs, plan.path, run.now_ms)
    return work.done(manifest)


def estimate(fs: WritableFilesystem, plan: CompactPlan, request: CompactRequest) -> CompactPlan:
    """Return the plan with an estimate: the counts of a cleaning that writes nothing. Raises Damaged."""
    if not plan.choice.is_cleaned:
        return plan
    counts, _ = LogCleaning(log_of(fs, open_partition(fs, plan.path), plan, request), plan, request).measure()
    gone = counts.records_read - counts.records_kept
    return replace(plan, estimate=Estimate(counts.records_read, gone, counts.causes))


def explain(fs: WritableFilesystem, plan: CompactPlan, request: CompactRequest, keys: Sequence[bytes]) -> CompactPlan:
    """Return the plan with the fate of each record of `keys`, if the log can be cleaned. Raises Damaged."""
    if plan.dirt is None or plan.is_refused:
        return plan
    partition = open_partition(fs, plan.path)
    log, marking = log_of(fs, partition, plan, request), marking_request(partition.segments, plan, request)
    return replace(plan, explained=tuple(fate for key in keys for fate in explain_key(log, marking, key)))


def damaged(plan: CompactPlan, damage: Damaged) -> CompactPlan:
    """Return the plan of a damaged log, which is left unchanged."""
    remark = Remark(
        damage.path,
        f"damaged, nothing is cleaned: {damage.fault.message}",
        ExitCode.CORRUPTION,
        damage.fault.position,
        (Step("", (*VERIFY, "--level", "deep"), " prints the next step"),),
    )
    return replace(plan, choice=Choice.DAMAGED, groups=(), line_edits=(), remarks=(*plan.remarks, remark))


class _Compaction:
    """One call of `apply_compact`."""

    def __init__(
        self, fs: WritableFilesystem, partition: Partition, plan: CompactPlan, request: CompactRequest
    ) -> None:
        self._fs = fs
        self._partition = partition
        self._plan = plan
        self._cleaning: LogCleaning | None = None
        if plan.choice.is_cleaned:
            self._cleaning = LogCleaning(log_of(fs, partition, plan, request), plan, request)

    def done(self, manifest: Manifest | None) -> Compacted:
        """Return the result of the compaction."""
        return Compacted(manifest, None if self._cleaning is None else self._cleaning.compaction)

    def apply(self, run: RunInfo, held: LockHandle | None) -> Manifest | None:
        """Clean the log, swap new segments in, and update the checkpoint. Raises Damaged, and as `journal.apply`."""
        plan = self._plan
        if self._cleaning is not None:
            self._cleaning.mark()
        edits = CheckpointEdits(plan.log_dir, self.line_edits) if plan.log_dir and self.line_edits else None
        changes = () if self._cleaning is None else self.changes
        return journal.apply(self._fs, plan.path, changes, run=run, checkpoints=edits, held=held)

    @property
    def line_edits(self) -> tuple[LineEdit, ...]:
        """The cleaner checkpoint's line: the offset up to which the log is clean now."""
        plan = self._plan
        if self._cleaning is None or plan.dirt is None or plan.choice is Choice.ERASING_ONLY:
            return plan.line_edits
        end_offset = max(plan.dirt.first_dirty, self._cleaning.end_offset)
        return (LineEdit(FileKind.CLEANER_CHECKPOINT, plan.topic, plan.partition, end_offset),)

    def changes(self, area: StagingArea) -> Sequence[Change]:
        """Write new segments into the run's directory, and return the changes to swap them in."""
        assert self._cleaning is not None
        changes: list[Change] = []
        for group in self._cleaning.write(area):
            changes += self._swap(group, area)
        names = {change.new_name for change in changes if isinstance(change, Move)}
        there = {file.status.path.rpartition("/")[2] for file in self._partition.leftovers}
        return [*(Drop(name) for name in sorted(names & there)), *changes]

    def _swap(self, group: CleanedGroup, area: StagingArea) -> Iterator[Change]:
        """Yield the changes in a broker's order: its start completes or undoes them (LocalLog.replaceSegments)."""
        new = sorted(group.segments, reverse=True)
        for segment in new:
            for name in segment.names:
                yield Put(name, Staged(name, area.status(name).size_bytes), replaces=False)
        swaps = [name.removesuffix(WorkState.CLEANED.value) for segment in new for name in segment.names]
        for name in swaps:
            yield Move(name + WorkState.CLEANED.value, name + WorkState.SWAP.value)
        for base_offset in group.sources:
            for kind in _SEGMENT_FILES:
                yield from self._delete(segment_file_name(base_offset, kind))
        for name in swaps:
            yield Move(name + WorkState.SWAP.value, name)
        bases = {segment.base_offset for segment in new}
        for base_offset in group.sources:
            if base_offset not in bases:
                yield from self._delete(segment_file_name(base_offset, FileKind.PRODUCER_SNAPSHOT))

    def _delete(self, name: str) -> Iterator[Change]:
        if self._fs.status(f"{self._partition.path}/{name}") is not None:
            yield Move(name, name + WorkState.DELETED.value)
