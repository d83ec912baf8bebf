"""The verb `compact`: cleaning, retention after it if cleanup.policy has delete too, and erasure of keys."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kafkalog_cli.broker.cleaning.log import Damaged
from kafkalog_cli.change.manifest import RunInfo, new_run_id
from kafkalog_cli.change.removal import partly
from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import KafkalogError, Refused
from kafkalog_cli.log.partition import Partition, open_partition
from kafkalog_cli.ops.append.reading import PieceLines, file_pieces
from kafkalog_cli.ops.apply_changes import Applied, MarkerState
from kafkalog_cli.ops.compact.apply import apply_compact, damaged, estimate, explain
from kafkalog_cli.ops.compact.choose import plan_compact
from kafkalog_cli.ops.compact.erasing import ErasureProof, KeyFile, read_keys, replication_words, with_holders
from kafkalog_cli.ops.compact.erasure import Erasure
from kafkalog_cli.ops.compact.plan import CompactPlan, CompactRequest
from kafkalog_cli.ops.partition_state import Roots
from kafkalog_cli.ops.refusals import Action
from kafkalog_cli.ops.retain.plan import RetainRequest
from kafkalog_cli.ops.retain.retain import apply_retain, plan_retain
from kafkalog_cli.ops.session.session import Session
from kafkalog_cli.ops.session.verb import Verb
from kafkalog_cli.ops.session.work import Changed, Work


@dataclass(frozen=True, slots=True)
class CompactWork:
    """The work of `compact`. `keys`: all records of these keys are erased.

    In a dry run only: `estimates` counts the records that would be removed. `explained_key` is the key whose records'
    fates are reported.
    """

    request: CompactRequest
    keys: KeyFile | None = None
    estimates: bool = False
    explained_key: str | None = None


def keys_to_erase(fs: Filesystem, path: str, *, is_ndjson: bool) -> KeyFile:
    """Read the keys to erase from a file. Raises BadInput, and as `open_read` does."""
    with fs.open_read(path) as file:
        return read_keys(PieceLines(file_pieces(file)), path, is_ndjson=is_ndjson)


def dirtiest_first(session: Session, partitions: Sequence[Partition], request: CompactRequest) -> list[Partition]:
    """Sort the partitions in the order in which a broker's cleaner picks them.

    Errors of a partition are reported when it is processed.
    """
    if len(partitions) < 2:
        return list(partitions)
    ratios = {partition.path: _ratio(session, partition, request) for partition in partitions}
    return sorted(partitions, key=lambda partition: -ratios[partition.path])


def _ratio(session: Session, partition: Partition, request: CompactRequest) -> float:
    """Return the dirty ratio of a partition, 0 if it cannot be found."""
    fs = session.context.fs
    try:
        root = session.shared.roots.state(session.log_dir(partition), partition)
        plan = plan_compact(fs, partition, root, request, session.shared.places)
    except (KafkalogError, OSError, Damaged):
        return 0.0
    return plan.dirt.ratio if plan.dirt is not None else 0.0


def _run(work: Work, what: CompactWork) -> Changed[CompactPlan]:
    plan = _plan(work, what)
    try:
        if what.keys is not None and not plan.is_refused:
            plan = ErasureProof(work.fs, what.keys, what.request).look(plan)
        changed = Changed(_looked_into(work, what, plan), None, True) if work.dry_run else _change(work, what, plan)
    except Damaged as damage:
        changed = Changed(damaged(plan, damage), None, work.dry_run)
    else:
        changed = replace(changed, plan=with_holders(changed.plan))
    return replace(changed, is_named=work.is_named)


def _plan(work: Work, what: CompactWork) -> CompactPlan:
    root = work.begin()
    facts = work.check(Action.COMPACT)
    plan = plan_compact(work.fs, work.partition, root, what.request, work.places)
    if what.keys is not None:
        known = replication_words(facts.replication, facts.unknown_because)
        plan = replace(plan, erasure=Erasure(known, len(what.keys.sought)))
    if plan.is_refused or not (facts.config.is_compacted and facts.config.is_deleted):
        return plan
    try:
        work.check(Action.RETAIN)
    except Refused as refused:
        work.note("retention", f"cleaned, but retention removed nothing: {refused}", work.partition.path)
        return plan
    return plan.followed_by(plan_retain(work.fs, work.partition, root, _retention(what.request), work.places))


def _looked_into(work: Work, what: CompactWork, plan: CompactPlan) -> CompactPlan:
    """Add the estimate and explanation to the plan, if requested; both read the log. Raises Damaged."""
    if what.estimates:
        plan = estimate(work.fs, plan, what.request)
    if what.explained_key is not None:
        plan = explain(work.fs, plan, what.request, os.fsencode(what.explained_key))
    return plan


def _change(work: Work, what: CompactWork, plan: CompactPlan) -> Changed[CompactPlan]:
    """Make the changes of the plan, if any. Raises Damaged too."""
    if not plan.has_work:
        return Changed(plan, None)
    with work.ready_to_change(plan):
        return _apply(work, what, plan, work.run_info(plan.settings))


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
    partition = open_partition(work.fs, work.partition.path)
    root, request = Roots(work.fs).state(work.log_dir, partition), _retention(what.request)
    retention = plan_retain(work.fs, partition, root, request, work.places)
    run = replace(work.run_info(retention.settings), run_id=new_run_id("retain", request.now_ms))
    done = apply_retain(work.fs, retention, run, request, held=work.lock)
    return replace(plan, retention=retention, retention_run=None if done is None else done.manifest.run.run_id)


def _retention(request: CompactRequest) -> RetainRequest:
    return RetainRequest(
        request.now_ms,
        request.settings,
        kernels=request.kernels,
        delay_ms=request.delay_ms,
        now_is_given=request.now_is_given,
    )


COMPACT = Verb(Action.COMPACT.value, _run)
