"""`compact`: cleaning, retention after it if cleanup.policy has delete too, and erasure of keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkalog_cli.broker.cleaning.log import Damaged
from kafkalog_cli.broker.cleaning.marking import MEMORY_BYTES
from kafkalog_cli.broker.cleaning.marks import causes_in_words
from kafkalog_cli.change import journal
from kafkalog_cli.change.manifest import Manifest, RunInfo
from kafkalog_cli.change.removal import partly
from kafkalog_cli.change.runs import begun_ms, new_run_id
from kafkalog_cli.disk.durable import is_half_changed, unfinished
from kafkalog_cli.disk.fs import WritableFilesystem
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
from kafkalog_cli.format.kafka_version import NEWEST, KafkaVersion
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.log.settings.topic_config import CLEANUP_POLICY
from kafkalog_cli.ops.call.call import Call, Run
from kafkalog_cli.ops.call.options import Paths, VerbOptions
from kafkalog_cli.ops.call.target import Changed, Target
from kafkalog_cli.ops.change.apply_changes import Applied, MarkerUse, apply_changes
from kafkalog_cli.ops.change.compact.cleaning import Cleaning, MakeCleaning
from kafkalog_cli.ops.change.compact.erasing import ErasureProof, KeyFile, replication_words, with_holders
from kafkalog_cli.ops.change.compact.plan import Choice, CompactPlan, Erasure, RecordPlace, plan_compact
from kafkalog_cli.ops.change.plans import Remark, in_place, load_settings
from kafkalog_cli.ops.change.refusals import Action
from kafkalog_cli.ops.change.retain.plan import RetainPlan
from kafkalog_cli.ops.change.retain.retain import after_due_files, apply_retain, plan_retain, unlink_at_once
from kafkalog_cli.ops.change.roll import RollPlan, plan_roll
from kafkalog_cli.ops.steps import VERIFY, Step

if TYPE_CHECKING:
    from typing_extensions import Unpack


def compact(
    paths: Paths,
    *,
    force: bool = False,
    estimate: bool = False,
    delay_ms: int | None = None,
    **options: Unpack[VerbOptions],
) -> Run[Changed[CompactPlan]]:
    """Compact logs as `kafkalog compact` does, the dirtiest first. Raises as `recover`."""
    call = Call("compact", paths, options)
    return compact_each(call, call.writable_partitions(), force=force, estimate=estimate, delay_ms=delay_ms)


def compact_each(  # noqa: PLR0913
    call: Call,
    partitions: Sequence[Partition],
    *,
    force: bool = False,
    estimate: bool = False,
    explained_keys: tuple[bytes, ...] | None = None,
    keys: KeyFile | None = None,
    removes_others: bool = False,
    memory_bytes: int = MEMORY_BYTES,
    version: KafkaVersion = NEWEST,
    delay_ms: int | None = None,
) -> Run[Changed[CompactPlan]]:
    """Compact the partitions of a call, the dirtiest first.

    `keys`: all records of these keys are erased. `removes_others`: so are records of other keys, where only --config
    says that the topic is compacted. In a dry run only: `estimate` counts the records that would be removed, and
    `explained_keys` are the keys whose records' fates are reported. `delay_ms`, `force` as in `plan_compact`,
    `memory_bytes` and `version` as in `Cleaning`.
    """
    ordered = _dirtiest_first(call, partitions, is_forced=force, erases=keys is not None, delay_ms=delay_ms)
    make_plan = partial(plan_compact, clock=call.clock, is_forced=force, delay_ms=delay_ms)
    make_cleaning = partial(Cleaning, now_ms=call.clock.now_ms, memory_bytes=memory_bytes, version=version)

    def compact_one(target: Target) -> Changed[CompactPlan]:
        compacting = _Compacting(target, make_plan, make_cleaning, keys, delay_ms)
        return compacting.run(estimates=estimate, explained_keys=explained_keys, removes_others=removes_others)

    return call.change_each(ordered, compact_one)


def _dirtiest_first(call: Call, partitions: Sequence[Partition], **planning: Any) -> list[Partition]:
    """Sort the partitions in the order in which a broker's cleaner picks them; `planning` as for `plan_compact`.

    Errors of a partition are reported when it is processed.
    """
    call.settings(partitions)
    if len(partitions) < 2:
        return list(partitions)

    def ratio(partition: Partition) -> float:
        try:
            plan = plan_compact(call.context.fs, partition, call.clock, call.places, **planning)
        except (KafkalogError, OSError, Damaged):
            return 0.0
        return plan.dirt.ratio if plan.dirt is not None else 0.0

    ratios = {partition.path: ratio(partition) for partition in partitions}
    return sorted(partitions, key=lambda partition: -ratios[partition.path])


def _may_erase(work: Target) -> bool:
    """Whether keys are erased: not from a topic that is neither compacted nor named, as keys of others may be equal."""
    return work.is_named or work.settings.topic_config(work.log_dir, work.partition.topic).is_compacted


def _check_others(partition: Partition, plan: CompactPlan) -> None:
    """Raise Refused if records of other keys would be removed, although only --config says that they may be.

    Records of the keys in the active segment count too: after the roll that they need, others would be removed.
    """
    own, config = partition.own_config[CLEANUP_POLICY], partition.config
    is_compacted = partition.own_config.is_compacted if own.is_known else partition.topic_was_cleaned
    if not config.is_compacted or is_compacted or plan.erasure is None:
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
        path=partition.path,
        reason=f"{option} {effect}, and {why}. Without {option} exactly the records of the keys are erased"
        " (to remove the others too: --remove-other-records)",
    )


class _Compacting:
    """One partition while it is compacted. `proof` is None if no keys are erased."""

    def __init__(
        self,
        work: Target,
        make_plan: Callable[..., CompactPlan],
        make_cleaning: Callable[..., Cleaning],
        keys: KeyFile | None,
        delay_ms: int | None,
    ) -> None:
        erased = None if keys is None or not _may_erase(work) else keys.sought
        self.work, self.delay_ms, self.is_erasing = work, delay_ms, erased is not None
        self.make_plan = partial(make_plan, erases=self.is_erasing)
        self.make_cleaning = partial(make_cleaning, erased=erased)
        self.proof = None if keys is None else ErasureProof(work.fs, keys)

    def run(
        self, *, estimates: bool, explained_keys: tuple[bytes, ...] | None, removes_others: bool
    ) -> Changed[CompactPlan]:
        """Plan and, except in a dry run, compact."""
        work, cleaning, plan = self.work, self.make_cleaning, self.plan()
        try:
            if self.proof is not None and not plan.is_refused:
                plan = self.proof.look(plan)
                plan = estimate(work.fs, plan, cleaning)
                if not removes_others:
                    _check_others(work.partition, plan)
            if work.dry_run:
                shown = estimate(work.fs, plan, cleaning) if estimates else plan
                if explained_keys is not None and plan.dirt is not None and not plan.is_refused:
                    shown = replace(shown, explained=cleaning(work.fs, plan).explain(explained_keys))
                changed = Changed(shown, None, True)
            else:
                changed = self.change(plan)
        except Damaged as damage:
            changed = Changed(damaged(plan, damage), None, work.dry_run)
        else:
            changed = replace(changed, plan=with_holders(changed.plan))
        return replace(changed, is_named=work.is_named)

    def plan(self) -> CompactPlan:
        """Plan the compaction, and the retention after it."""
        work = self.work
        work.begin()
        try:
            work.check(Action.COMPACT, erases=self.is_erasing)
        except Skipped as skipped:
            if self.proof is None or self.is_erasing:
                raise
            named = f"or name the topic with --topic {shell_word(work.partition.topic)}"
            reason = f"{skipped.details['reason']}, {named} to erase exactly the records of the keys"
            raise Skipped(path=work.partition.path, reason=reason) from skipped
        plan = self.make_plan(work.fs, work.partition, places=work.places)
        if self.proof is not None:
            known = replication_words(work.replication, work.replication_unknown_because)
            return replace(plan, erasure=Erasure(known, self.proof.wanted))
        config = work.partition.config
        if plan.is_refused or not (config.is_compacted and config.is_deleted):
            return plan
        try:
            work.check(Action.RETAIN)
        except Refused as refused:
            work.note("retention", f"cleaned, but retention removed nothing: {refused}", work.partition.path)
            return plan
        return plan.followed_by(self._plan_retention())

    def change(self, plan: CompactPlan) -> Changed[CompactPlan]:
        """Make the changes of the plan, if any. Raises Damaged too."""
        work = self.work
        if not plan.has_work:
            return Changed(plan, None)
        if plan.rolls:
            work.check(Action.ROLL, in_place=in_place(_planned_roll(work)))
        with work.ready_to_change(plan):
            if not plan.rolls:
                return self._apply(plan)
            self._roll()
            try:
                return self._apply(self._plan_again(plan))
            except (KafkalogError, OSError) as error:
                if isinstance(error, PartlyRemoved) or is_half_changed(error):
                    raise
                raise unfinished(RolledOnly, plan.path, error) from error

    def _roll(self) -> None:
        """Roll the active segment, which is a run of its own."""
        work = self.work
        rolling = _planned_roll(work)
        before_ms = begun_ms(work.call.run_id) - 1  # runs sort by name: the roll is before the cleaning
        run = replace(work.call.run_info(rolling.settings), run_id=new_run_id("roll", before_ms))
        settings = load_settings(work.partition, work.clock.now_ms)
        done = apply_changes(work.fs, rolling, run, MarkerUse.GIVEN_BACK, settings)
        work.changed(rolling, done)

    def _plan_again(self, plan: CompactPlan) -> CompactPlan:
        """Return the plan for the log that the roll has left."""
        again = self.make_plan(self.work.fs, self.work.reopen(), places=self.work.places)
        if again.is_refused:
            return again
        return replace(again, groups=plan.groups, erasure=plan.erasure, estimate=plan.estimate, rolls=True)

    def _apply(self, plan: CompactPlan) -> Changed[CompactPlan]:
        work = self.work
        if not plan.has_work:  # the roll has left nothing to clean
            return Changed(plan, None)
        run = work.call.run_info(plan.settings)
        plan, done = apply_compact(work.fs, plan, run, self.make_cleaning)
        with partly(plan.path, is_begun=done is not None):
            if plan.retention is not None:
                plan = self._retain(plan)
            if self.proof is not None:
                plan = self.proof.look_again(plan)
        return Changed(plan, done)

    def _retain(self, plan: CompactPlan) -> CompactPlan:
        """Run retention after the cleaning, as a broker does if cleanup.policy has delete too. It is a separate run."""
        work = self.work
        work.reopen()
        retention = self._plan_retention()
        run = work.call.run_info(retention.settings)
        run = replace(run, run_id=new_run_id("retain", begun_ms(work.call.run_id)))
        done = apply_retain(work.fs, retention, run)
        return replace(plan, retention=retention, retention_run=None if done is None else done.manifest.run.run_id)

    def _plan_retention(self) -> RetainPlan:
        work = self.work
        return plan_retain(work.fs, work.partition, work.clock, work.places, delay_ms=self.delay_ms)


def _planned_roll(work: Target) -> RollPlan:
    return plan_roll(work.fs, work.reopen(), work.clock.now_ms, force=True)


def apply_compact(
    fs: WritableFilesystem, plan: CompactPlan, run: RunInfo, make_cleaning: MakeCleaning
) -> tuple[CompactPlan, Applied | None]:
    """Remove due files, clean the log, and swap the new segments in. Return the plan with what was done.

    The caller holds the partition's lock. Files of this run stay as `.deleted` for `plan.delay_ms`. With 0 they are
    removed at once, and the run cannot be undone. Raises Refused if a file has changed since the plan was made, Damaged
    if the log cannot be cleaned, and the exceptions of `journal.apply` and `apply_purge`.
    """
    if not plan.has_work:
        return plan, None
    manifest: Manifest | None
    with after_due_files(fs, plan, run) as begun:
        if plan.choice.is_cleaned:
            manifest, outcome = make_cleaning(fs, plan).apply(begun)
            plan = replace(plan, outcome=outcome)
        else:
            manifest = journal.apply(fs, plan.path, (), run=begun, log_dir=plan.log_dir, edits=plan.line_edits)
    if plan.choice.is_cleaned and not plan.delay_ms:
        unlink_at_once(fs, plan.path, run.now_ms)
    return plan, None if manifest is None else Applied(manifest)


def estimate(fs: WritableFilesystem, plan: CompactPlan, make_cleaning: MakeCleaning) -> CompactPlan:
    """Return the plan with the counts of a cleaning that writes nothing. Raises Damaged."""
    return replace(plan, estimate=make_cleaning(fs, plan).estimate()) if plan.choice.is_cleaned else plan


def damaged(plan: CompactPlan, damage: Damaged) -> CompactPlan:
    """Return the plan of a damaged log, which is left unchanged."""
    remark = Remark(
        damage.path,
        f"damaged, nothing is cleaned: {damage.fault.message}",
        ExitCode.CORRUPTION,
        damage.fault.position,
        (Step("", (*VERIFY, "--level", "deep"), "prints the next step"),),
    )
    return replace(plan, choice=Choice.DAMAGED, groups=(), line_edits=(), remarks=(*plan.remarks, remark))
