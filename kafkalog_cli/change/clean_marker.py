"""The clean shutdown marker of a log directory while writers work: removed before the first, put back after the last.

`.kafka_cleanshutdown` declares that no partition of a log directory needs recovery. The marker must be absent while
a writer changes an active segment. Afterwards the same bytes must be put back, but only when every partition is
whole again. Without these bytes the broker would leave every ISR (KIP-966).

Several runs, in several processes, may work in one log directory. The bytes therefore wait in a second file, the
held marker, together with the reasons why the marker is away. A reason is a partition and a run. It is removed when
the run has finished that partition or has been undone. A run that removed records below the log end, or that
crashed, leaves its reasons: the marker then stays away.
"""

import base64
import json
from collections.abc import Collection, Mapping
from typing import NamedTuple

from kafkalog_cli.change.manifest import FileFacts, Manifest, RunState, difference_of_files, read_manifest
from kafkalog_cli.disk.durable import not_changed, replace_file, sync_directory, try_to_remove
from kafkalog_cli.disk.fs import FileAttributes, Filesystem, WritableFilesystem, read_all
from kafkalog_cli.disk.lock import LockPolicy, root_files_locked
from kafkalog_cli.disk.names import FileKind, moved_from_root
from kafkalog_cli.errors import KafkalogError, PathNotFound, Refused, SyncFailed

HELD_MARKER = FileKind.HELD_CLEAN_SHUTDOWN.value
"""The name of the held marker: a plain file in log.dir. A broker ignores it, but a directory would stop its start."""

PURGED = "purged"
"""Stands in for the ids of purged runs, which nobody can undo. No run id has this form."""

_PATIENCE = LockPolicy(wait_ms=60_000, assume_offline=True)
"""Another writer locks the root files only for a moment. The lock on byte 0 has already decided who may write."""


class HeldMarker(NamedTuple):
    """A marker that is away: its bytes, its attributes, and the reasons (partition names by run id)."""

    content: bytes
    attributes: FileAttributes
    reasons: dict[str, tuple[str, ...]]


def hold_marker(fs: WritableFilesystem, log_dir: str, run_id: str, partitions: Collection[str]) -> bool:
    """Remove the marker before a run first changes one of `partitions`. Return whether a marker is now held.

    A log directory without a marker never gets one: a broker that crashed has to recover.
    Raises NotChanged, NoSpace, Locked, Unreadable, and Refused if the marker is not a regular file: the marker is where
    it was then. Raises SyncFailed: the marker may be away. The caller must change nothing in either case.
    """
    path, held_path = _paths(log_dir)
    try:
        with root_files_locked(fs, log_dir, _PATIENCE):
            found = fs.status(path)
            if found is not None:
                if found.is_symlink or not found.is_file:
                    step = moved_from_root(path, is_directory=found.is_directory)
                    what = "it is a symbolic link, or not a regular file: no broker makes such a file"
                    raise Refused(path=path, reason=f"{what}; {step} moves it away")
                # A held marker that also exists is outdated: a broker has stopped cleanly since, or this function
                # or release_marker crashed.
                held = HeldMarker(read_all(fs, path), fs.attributes(path), {run_id: tuple(sorted(partitions))})
            else:
                away = read_held_marker(fs, log_dir)
                if away is None:
                    return False
                names = {*away.reasons.get(run_id, ()), *partitions}
                held = away._replace(reasons={**away.reasons, run_id: tuple(sorted(names))})
                if held == away:  # an undo of the run that removed the marker
                    return True
            try:
                replace_file(fs, held_path, _encode(held), held.attributes._replace(xattrs=()))
            except SyncFailed as error:
                raise not_changed(log_dir, error) from error
            if found is not None:
                try:
                    fs.unlink(path)
                except OSError:
                    try_to_remove(fs, held_path)  # the marker is where it was
                    raise
                sync_directory(fs, log_dir)
            return True
    except OSError as error:
        raise not_changed(log_dir, error) from error


def release_marker(
    fs: WritableFilesystem, log_dir: str, run_id: str, partitions: Collection[str], *, also: Collection[str] = ()
) -> bool:
    """Remove the reasons of a run for `partitions`, which are whole again. Return whether the marker is there now.

    `also`: ids of earlier runs, whose reasons for these partitions go with it. The marker is put back if no reason is
    left. Call this last, when the changes are on the disk, and leave out partitions that lost records or are not
    finished. Raises OSError and SyncFailed as the disk reports them, Unreadable, Locked; the marker may be away then.
    """
    path, held_path = _paths(log_dir)
    with root_files_locked(fs, log_dir, _PATIENCE):
        held = read_held_marker(fs, log_dir)
        is_there = fs.status(path) is not None
        if is_there or held is None:
            return is_there
        left = {
            run: tuple(name for name in names if name not in partitions or run not in {run_id, *also})
            for run, names in held.reasons.items()
        }
        reasons = {run: names for run, names in left.items() if names}
        if reasons:
            replace_file(fs, held_path, _encode(held._replace(reasons=reasons)), None)
            return False
        replace_file(fs, path, held.content, held.attributes, keep_mtime=True)
        fs.unlink(held_path)
        sync_directory(fs, log_dir)
        return True


def is_away(fs: Filesystem, log_dir: str) -> bool:
    """Whether a held marker waits to be put back; True if this cannot be determined."""
    path, held_path = _paths(log_dir)
    try:
        return fs.status(path) is None and fs.status(held_path) is not None
    except (OSError, KafkalogError):
        return True


def waits_for(fs: Filesystem, log_dir: str, run_id: str, partition: str) -> bool:
    """Whether the marker is away because of this run on this partition; True if the held marker cannot be opened."""
    reasons = _reasons(fs, log_dir)
    return reasons is None or partition in reasons.get(run_id, ())


def runs_waiting(fs: Filesystem, log_dir: str, partition: str) -> list[str]:
    """Return the runs on a partition for which the marker is away, oldest first; none if it cannot be read."""
    return sorted(run for run, names in (_reasons(fs, log_dir) or {}).items() if partition in names)


def _reasons(fs: Filesystem, log_dir: str) -> Mapping[str, tuple[str, ...]] | None:
    """Return the reasons why the marker is away, none if it is not; None if the held marker cannot be opened."""
    try:
        held = read_held_marker(fs, log_dir) if is_away(fs, log_dir) else None
    except (OSError, KafkalogError):
        return None
    return {} if held is None else held.reasons


def keep_marker_away(fs: WritableFilesystem, log_dir: str, run_id: str, partition: str) -> bool:
    """Record that a run on a partition is about to be purged: a marker that waits for it then stays away for good.

    Return whether a marker waited for it. Call this before the first file that the run kept is removed. If only the
    directory of the run is left, the run looks as if it had never begun. Raises NotChanged, NoSpace, SyncFailed,
    Unreadable, Locked.
    """
    try:
        with root_files_locked(fs, log_dir, _PATIENCE):
            held = read_held_marker(fs, log_dir)
            if held is None or partition not in held.reasons.get(run_id, ()):
                return False
            left = tuple(name for name in held.reasons[run_id] if name != partition)
            lost = tuple(sorted({*held.reasons.get(PURGED, ()), partition}))
            reasons = {run: names for run, names in {**held.reasons, run_id: left, PURGED: lost}.items() if names}
            replace_file(fs, _paths(log_dir)[1], _encode(held._replace(reasons=reasons)), None)
            return True
    except OSError as error:
        raise not_changed(log_dir, error) from error


def read_held_marker(fs: Filesystem, log_dir: str) -> HeldMarker | None:
    """Return the held marker; None if there is none or its content is not valid (the marker then stays away).

    The held marker counts only if `.kafka_cleanshutdown` is missing. Raises Unreadable.
    """
    path = _paths(log_dir)[1]
    status = fs.status(path)
    if status is not None and (status.is_symlink or not status.is_file):
        return None  # no run made this entry
    try:
        document = json.loads(read_all(fs, path))
        mode, owner_id, group_id, mtime_ns, xattrs = document["attributes"]
        named = tuple((name, base64.b64decode(value)) for name, value in xattrs)
        attributes = FileAttributes(int(mode), int(owner_id), int(group_id), int(mtime_ns), named)
        reasons = {str(run): tuple(map(str, names)) for run, names in document["reasons"].items()}
        return HeldMarker(base64.b64decode(document["content"], validate=True), attributes, reasons)
    except PathNotFound:
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _encode(held: HeldMarker) -> bytes:
    kept = held.attributes
    xattrs = [(name, base64.b64encode(value).decode()) for name, value in kept.xattrs]
    document = {
        "about": f"{FileKind.CLEAN_SHUTDOWN.value} of this directory, away until these runs are done or undone",
        "content": base64.b64encode(held.content).decode(),
        "attributes": (kept.mode, kept.owner_id, kept.group_id, kept.mtime_ns, xattrs),
        "reasons": held.reasons,
    }
    return json.dumps(document, indent=1).encode("ascii") + b"\n"


def _paths(log_dir: str) -> tuple[str, str]:
    root = log_dir.rstrip("/")
    return f"{root}/{FileKind.CLEAN_SHUTDOWN.value}", f"{root}/{HELD_MARKER}"


def settled_runs(fs: Filesystem, path: str, name: str, log_dir: str) -> list[Manifest]:
    """Return the runs for which the marker is still removed, though they ended and lost no record, or were undone.

    A run without a manifest is not returned: the leftovers of a truncation may have been removed.
    """
    found = []
    for run_id in runs_waiting(fs, log_dir, name):
        try:
            manifest = read_manifest(fs, path, run_id)
        except (OSError, KafkalogError):  # reported by commands that work with that run
            continue
        if manifest is not None and manifest.run.holds_marker and _may_be_settled(manifest):
            found.append(manifest)
    return found


def followed_runs(fs: Filesystem, path: str, name: str, log_dir: str, manifest: Manifest) -> list[str]:
    """Return the settled runs that the run of `manifest` followed, with no change of the partition between them.

    If that run left the partition sound, the marker need not be away because of them either.
    """
    found: list[str] = []
    files = manifest.before.files
    waiting = [one for one in settled_runs(fs, path, name, log_dir) if one.run.run_id != manifest.run.run_id]
    while waiting:
        last = next((one for one in waiting if difference_of_files(_left(one), files) is None), None)
        if last is None:
            break
        waiting.remove(last)
        found.append(last.run.run_id)
        files = last.before.files
    return found


def _may_be_settled(manifest: Manifest) -> bool:
    return manifest.state is RunState.UNDONE or (manifest.state is RunState.DONE and manifest.run.keeps_records)


def _left(manifest: Manifest) -> Mapping[str, FileFacts]:
    is_done = manifest.state is RunState.DONE and manifest.after is not None
    return manifest.after.files if is_done and manifest.after is not None else manifest.before.files
