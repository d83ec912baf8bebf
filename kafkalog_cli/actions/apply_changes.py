"""Makes the changes of a plan, with the marker of a clean shutdown kept away meanwhile where it must be."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, unique
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.actions.change_plan import ChangePlan, fingerprints_of
from kafkalog_cli.errors import ExitCode, KafkalogError, Refused, SyncFailed
from kafkalog_cli.storage.changing import journal
from kafkalog_cli.storage.changing.clean_marker import hold_marker, is_away, release_marker, waits_for
from kafkalog_cli.storage.changing.durable import is_half_changed, is_of_a_sync, marker_kept, marker_left_away
from kafkalog_cli.storage.changing.journal import CheckpointEdits
from kafkalog_cli.storage.changing.manifest import Manifest, RunInfo
from kafkalog_cli.storage.fs import Filesystem, LockHandle, WritableFilesystem
from kafkalog_cli.storage.partition import open_partition

if TYPE_CHECKING:
    from kafkalog_cli.storage.log.loaded_segment import LoadSettings

_ROOM_BYTES = 1 << 30


@unique
class MarkerUse(Enum):
    """What becomes of the marker of a clean shutdown (safety.md)."""

    LEFT = "left"  # whole closed segments go
    GIVEN_BACK = "given-back"  # an active segment is touched, nothing is lost
    DROPPED = "dropped"  # records below the log's end go


@unique
class Marker(Enum):
    """What became of the marker of a clean shutdown."""

    NONE = "none"  # there was none, or another run waits for it
    BACK = "back"
    AWAY = "away"


MARKER_STAYS_AWAY = (
    "the marker of the clean shutdown stays away, since records below the log's end are gone or the partition is not"
    " sound: the broker recovers all partitions when it starts, and leaves every ISR"
)


class Applied(NamedTuple):
    """Changes that were made."""

    manifest: Manifest
    marker: Marker


def apply_changes(  # noqa: PLR0913
    fs: WritableFilesystem,
    plan: ChangePlan,
    run: RunInfo,
    marker: MarkerUse,
    settings: LoadSettings,
    *,
    discard: bool = False,
    held: LockHandle | None,
) -> Applied | None:
    """Make the changes of a plan; None if there are none. `held` is the lock of the partition.

    Raises Refused if the partition is not what the plan was made for, and what `journal.apply` raises.
    """
    if not plan.has_work:
        return None
    if fingerprints_of(fs, plan.path) != plan.fingerprints:
        raise Refused(path=plan.path, reason="a file has changed since the plan was made")
    is_held = False
    try:
        if marker is not MarkerUse.LEFT and plan.log_dir is not None:
            is_held = hold_marker(fs, plan.log_dir, run.run_id, [plan.name])
        edits = CheckpointEdits(plan.log_dir, plan.line_edits) if plan.log_dir and plan.line_edits else None
        info = replace(run, holds_marker=is_held, keeps_records=marker is MarkerUse.GIVEN_BACK)
        manifest = journal.apply(fs, plan.path, plan.changes, run=info, discard=discard, checkpoints=edits, held=held)
    except BaseException as error:
        if marker is not MarkerUse.LEFT:
            give_marker_back(fs, plan, run.run_id, error)
        raise
    assert manifest is not None
    if is_held and marker is MarkerUse.DROPPED:
        return Applied(manifest, Marker.AWAY)
    return Applied(manifest, marker_after(fs, plan, run.run_id, settings) if is_held else Marker.NONE)


def marker_after(
    fs: WritableFilesystem, plan: ChangePlan, run_id: str, settings: LoadSettings, *, since: int | None = None
) -> Marker:
    """Put the marker back that a run held while it lost nothing, if the partition is sound.

    `since`: the segments that end before that offset were not touched, and are left alone. What is latent in them is no
    worse than it was, and a broker that finds the marker does not look at them either. Raises MarkerLeftAway, NoSpace.
    """
    if plan.log_dir is None:
        return Marker.NONE
    try:
        if not is_sound(fs, plan.path, settings, since):
            return Marker.AWAY
        return Marker.BACK if release_marker(fs, plan.log_dir, run_id, [plan.name]) else Marker.NONE
    except (OSError, KafkalogError) as error:
        raise marker_left_away(plan.log_dir, f"kafkalog recover {quote(plan.path)}", error) from error


def give_marker_back(fs: WritableFilesystem, plan: ChangePlan, run_id: str, error: BaseException) -> None:
    """After an error that left all as it was there is no run that has to be undone, and that the marker waits for.

    Where a sync failed nothing is given back: what the disk has is not known. Raises MarkerKept, or NoSpace with its
    words, where it is not given back: `undo` does that then, though the run may have left nothing else.
    """
    if plan.log_dir is None or is_half_changed(error):  # undo puts back both
        return
    failed: OSError | KafkalogError
    if is_of_a_sync(error) and isinstance(error, KafkalogError):
        failed = error.__cause__ if isinstance(error.__cause__, SyncFailed) else error
    else:
        try:
            release_marker(fs, plan.log_dir, run_id, [plan.name])
        except (OSError, KafkalogError) as second:
            failed = second
        else:
            return
    if is_away(fs, plan.log_dir) and waits_for(fs, plan.log_dir, run_id, plan.name):
        raise marker_kept(plan.log_dir, plan.path, run_id, failed) from error


def is_sound(fs: Filesystem, path: str, settings: LoadSettings, since: int | None) -> bool:
    """Whether nothing is wrong with the partition, looked at again: every CRC, index, epoch and snapshot."""
    from kafkalog_cli.actions.recover.repair import Scope, plan_repair  # much, and most runs leave the marker alone
    from kafkalog_cli.storage.log.log_loader import StartState

    # With room for all entries: one made full under another setting is still right.
    roomy = replace(settings, segment_index_bytes=max(settings.segment_index_bytes, _ROOM_BYTES))
    again = plan_repair(
        fs, open_partition(fs, path), StartState(is_clean=False), roomy, Scope(since=since, with_inexact=False)
    )
    return not again.is_refused and not again.changes and again.exit_code is not ExitCode.CORRUPTION
