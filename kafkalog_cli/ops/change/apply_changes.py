"""Applies the changes of a plan, and removes the clean shutdown marker during the change where that is necessary."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum, unique
from typing import NamedTuple

from kafkalog_cli.broker.loaded_segment import LoadSettings
from kafkalog_cli.change import journal
from kafkalog_cli.change.clean_marker import followed_runs, hold_marker, release_marker, settled_runs, waits_for
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.change.manifest import (
    ChangeKind,
    Manifest,
    RunInfo,
    RunState,
    difference_of_files,
    first_difference,
    snapshot,
)
from kafkalog_cli.disk.durable import error_text, is_half_changed, is_of_a_sync, marker_kept, marker_left_away
from kafkalog_cli.disk.fs import Filesystem, WritableFilesystem
from kafkalog_cli.errors import ExitCode, KafkalogError, NotChanged, SyncFailed, shell_word
from kafkalog_cli.log.partition import Partition, open_partition
from kafkalog_cli.ops.change.plans import ChangePlan, check_unchanged

_ROOM_BYTES = 1 << 30


@unique
class MarkerUse(Enum):
    """How a change treats the clean shutdown marker."""

    LEFT = "left"  # only whole closed segments are removed
    GIVEN_BACK = "given-back"  # an active segment is changed, no record is lost
    DROPPED = "dropped"  # records below the log end are removed


MARKER_STAYS_AWAY = (
    ".kafka_cleanshutdown is not restored, since records below the log's end were removed or the partition is not"
    " sound: the broker recovers all partitions when it starts, and leaves every in-sync replica set"
)


class Applied(NamedTuple):
    """The manifest of a run whose changes were made, and whether the clean shutdown marker stays away because of it."""

    manifest: Manifest
    is_marker_away: bool = False


def apply_changes(  # noqa: PLR0913
    fs: WritableFilesystem,
    plan: ChangePlan,
    run: RunInfo,
    marker: MarkerUse,
    settings: LoadSettings | None = None,
    *,
    discard: bool | None = None,
) -> Applied | None:
    """Make the changes of a plan, and return None if it has none. The caller holds the lock of the partition.

    `settings`: the log is checked with them before the clean-shutdown file is given back; None: it is not given back.
    `discard`: removed data is not kept; None: the command has no option --discard. Raises Refused if a file has changed
    since the plan was made, and the exceptions of `journal.apply`.
    """
    if not plan.has_work:
        return None
    check_unchanged(fs, plan)
    with marker_away(fs, plan, run.run_id, is_needed=marker is not MarkerUse.LEFT) as is_held:
        info = replace(run, holds_marker=is_held, keeps_records=marker is MarkerUse.GIVEN_BACK)
        manifest = journal.apply(
            fs, plan.path, plan.changes, run=info, discard=discard, log_dir=plan.log_dir, edits=plan.line_edits
        )
    assert manifest is not None
    is_away = is_held and (settings is None or not put_marker_back(fs, plan, manifest, settings))
    return Applied(manifest, is_away)


def put_marker_back(
    fs: WritableFilesystem, plan: ChangePlan, manifest: Manifest, settings: LoadSettings, *, since: int | None = None
) -> bool:
    """Restore the clean shutdown marker that a run removed, if no other run needs it away.

    Returns False, and restores nothing, if the partition is not sound.
    `since` (an offset): segments that end before it are not checked, as the run did not change them. Damage in them is
    no worse than before, and a broker that finds the marker does not check them either. Without it, the marker need
    not be away because of the runs before either. Raises MarkerLeftAway, NoSpace.
    """
    assert plan.log_dir is not None
    is_checked = False
    try:
        if not is_sound(fs, plan.path, settings, since):
            return False
        is_checked = True
        also = followed_runs(fs, plan.path, plan.name, plan.log_dir, manifest) if since is None else ()
        release_marker(fs, plan.log_dir, manifest.run.run_id, [plan.name], also=also)
    except (OSError, KafkalogError) as error:
        command = f"kafkalog recover {shell_word(plan.path)}"
        raise marker_left_away(plan.log_dir, command, error, is_checked=is_checked) from error
    return True


@contextmanager
def marker_away(
    fs: WritableFilesystem, plan: ChangePlan, run_id: str, *, is_needed: bool = True
) -> Generator[bool, None, None]:
    """Remove the clean shutdown marker before a change, and yield whether a marker is held now.

    After an error that left all files unchanged, the marker is restored: then there is no run to undo. If it cannot be
    restored, raises MarkerKept, or NoSpace with its text: `undo` then restores it, even if the run left nothing else.
    """
    is_held = False
    try:
        if is_needed and plan.log_dir is not None:
            is_held = hold_marker(fs, plan.log_dir, run_id, [plan.name])
    except BaseException as error:
        if not isinstance(error, KafkalogError) or isinstance(error, SyncFailed):  # else the marker is where it was
            _give_marker_back(fs, plan, run_id, error)
        raise
    try:
        yield is_held
    except BaseException as error:
        if is_held and not is_half_changed(error):  # undo restores the files and the marker
            _give_marker_back(fs, plan, run_id, error)
        raise


def _give_marker_back(fs: WritableFilesystem, plan: ChangePlan, run_id: str, error: BaseException) -> None:
    """Restore the marker after `error`, see `marker_away`.

    After a failed sync nothing is restored, because the contents of the disk are not known.
    """
    log_dir = plan.log_dir or ""
    failed: OSError | KafkalogError
    if is_of_a_sync(error) and isinstance(error, KafkalogError):
        failed = error.__cause__ if isinstance(error.__cause__, SyncFailed) else error
    else:
        try:
            release_marker(fs, log_dir, run_id, [plan.name])
        except (OSError, KafkalogError) as second:
            failed = second
        else:
            return
    if waits_for(fs, log_dir, run_id, plan.name):
        raise marker_kept(log_dir, plan.path, run_id, failed) from error


def is_sound(fs: Filesystem, path: str, settings: LoadSettings, since: int | None) -> bool:
    """Whether a second check of the partition finds no fault: every CRC, index, epoch and snapshot is checked."""
    from kafkalog_cli.ops.check.recover.repair import plan_repair  # a heavy import that most runs do not need

    # Room for all entries: an index that was filled under another setting is not a fault.
    roomy = settings._replace(segment_index_bytes=max(settings.segment_index_bytes, _ROOM_BYTES))
    again = plan_repair(Draft(fs, path), open_partition(fs, path), roomy, since=since, with_inexact=False)
    return not again.is_refused and not again.changes and again.exit_code is not ExitCode.CORRUPTION


def settle_marker(fs: WritableFilesystem, partition: Partition, log_dir: str, now_ms: int) -> str | None:
    """Restore the marker if the log is as those runs left it. Returns a message, None if there is nothing to report.

    The caller locks the partition. Raises NotChanged for a failed sync: no change may follow it.
    """
    command = f"kafkalog recover {shell_word(partition.path)}"
    try:
        is_back = False
        for manifest in settled_runs(fs, partition.path, partition.name, log_dir):
            if _is_as_left(fs, partition.path, log_dir, manifest, now_ms):
                is_whole = manifest.state is RunState.DONE and _first_touched(manifest) is None
                also = followed_runs(fs, partition.path, partition.name, log_dir, manifest) if is_whole else []
                is_back |= release_marker(fs, log_dir, manifest.run.run_id, [partition.name], also=also)
    except (OSError, KafkalogError) as error:
        reason = error_text(error)
        told = f".kafka_cleanshutdown is still missing: {reason}; once the disk works, `{command}` puts it back"
        if is_of_a_sync(error):
            raise NotChanged(path=log_dir, reason=told) from error
        return told
    return ".kafka_cleanshutdown, which an earlier run could not restore, is restored" if is_back else None


def _is_as_left(fs: WritableFilesystem, path: str, log_dir: str, manifest: Manifest, now_ms: int) -> bool:
    """Whether the log is sound and as the run left it or, if the run was undone, as it was before the run."""
    if manifest.state is RunState.UNDONE:
        return difference_of_files(manifest.before.files, snapshot(fs, path).files) is None
    found = snapshot(fs, path, log_dir, manifest.edits)
    if manifest.after is None or first_difference(manifest.after, found) is not None:
        return False
    return is_sound(fs, path, LoadSettings(now_ms), _first_touched(manifest))


def _first_touched(manifest: Manifest) -> int | None:
    """Return the base offset of the segment that an append extended, for `marker_after`; None if there is none."""
    grown = [change.name.partition(".")[0] for change in manifest.changes if change.kind is ChangeKind.GROW]
    return min((int(base) for base in grown if base.isdecimal()), default=None)
