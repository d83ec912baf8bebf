"""The clean-shutdown marker of a log directory while writers work: taken away first, given back last, by the last.

`.kafka_cleanshutdown` says of all partitions of a log directory that they need no recovery. While a writer touches
an active segment it must not be there; afterwards the same bytes must come back (without them the broker would
leave every ISR, KIP-966), but only when every partition is whole again. Several runs, in several processes, may
work in one log directory. So the bytes wait in a file beside it, with the partitions for which it is away: a
reason a partition and run, gone when that partition is done, or its run undone. A run that dropped records below
the log end, or that crashed, leaves its reasons: the marker then stays away.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import dataclass, replace

from kafkalog_cli.errors import KafkalogError, PathNotFound, Refused
from kafkalog_cli.storage.changing.durable import (
    not_changed,
    remove_if_there,
    replace_file,
    sync_directory,
)
from kafkalog_cli.storage.changing.lock import LockPolicy, lock_checkpoints
from kafkalog_cli.storage.changing.turns import turn_of
from kafkalog_cli.storage.fs import FileAttributes, Filesystem, WritableFilesystem, read_all
from kafkalog_cli.storage.names import FileKind

HELD_MARKER = FileKind.HELD_CLEAN_SHUTDOWN.value
"""A plain file in log.dir, which a broker ignores; a directory of ours there would keep it from starting."""

PURGED = "purged"
"""In the place of a run: those that were purged, which nobody can undo; a run's own name never looks like this."""

_PATIENCE = LockPolicy(wait_ms=60_000, assume_offline=True)
"""Whoever has the root files has them for a moment; who may write at all was settled with byte 0."""


@dataclass(frozen=True, slots=True)
class HeldMarker:
    """A marker that is away: its bytes and attributes, and the names of the partitions by run for which it is."""

    content: bytes
    attributes: FileAttributes
    reasons: dict[str, tuple[str, ...]]


def hold_marker(fs: WritableFilesystem, log_dir: str, run_id: str, partitions: Collection[str]) -> bool:
    """Take the marker away, before a run first changes one of `partitions`; whether there was or is one to give back.

    A log directory that had none gets none: a broker that crashed has to recover. Raises NotChanged, NoSpace,
    SyncFailed (nothing may be changed then), Locked.
    """
    path, held_path = _paths(log_dir)
    try:
        with turn_of(log_dir), lock_checkpoints(fs, log_dir, _PATIENCE) or nullcontext():
            found = fs.status(path)
            if found is not None:
                if found.is_symlink or not found.is_file:
                    raise Refused(path=path, reason="it is a symbolic link, or no regular file: no broker makes such")
                # A held one beside it is of before a broker's clean stop, or of a crash in this function or the next.
                held = HeldMarker(read_all(fs, path), fs.attributes(path), {run_id: tuple(sorted(partitions))})
            else:
                away = read_held_marker(fs, log_dir)
                if away is None:
                    return False
                names = {*away.reasons.get(run_id, ()), *partitions}
                held = replace(away, reasons={**away.reasons, run_id: tuple(sorted(names))})
                if held == away:  # an undo of what took it away
                    return True
            replace_file(fs, held_path, _encode(held), held.attributes._replace(xattrs=()))
            if remove_if_there(fs, path):
                sync_directory(fs, log_dir)
            return True
    except OSError as error:
        raise not_changed(log_dir, error) from error


def release_marker(fs: WritableFilesystem, log_dir: str, run_id: str, partitions: Collection[str]) -> bool:
    """These partitions are whole again: give the marker back if no other is waited for; whether it is there now.

    Comes last, when the changes are on the disk. Partitions that lost records, or are not done, are not named.
    Raises OSError and SyncFailed as the disk has it, Unreadable, Locked: the marker may be away then.
    """
    path, held_path = _paths(log_dir)
    with turn_of(log_dir), lock_checkpoints(fs, log_dir, _PATIENCE) or nullcontext():
        held = read_held_marker(fs, log_dir)
        if fs.status(path) is not None or held is None:
            return fs.status(path) is not None
        left = tuple(name for name in held.reasons.get(run_id, ()) if name not in partitions)
        reasons = {run: names for run, names in {**held.reasons, run_id: left}.items() if names}
        if reasons:
            replace_file(fs, held_path, _encode(replace(held, reasons=reasons)), None)
            return False
        replace_file(fs, path, held.content, held.attributes, keep_mtime=True)
        fs.unlink(held_path)
        sync_directory(fs, log_dir)
        return True


def is_away(fs: Filesystem, log_dir: str) -> bool:
    """Whether a marker waits to be given back, as far as can be told."""
    path, held_path = _paths(log_dir)
    try:
        return fs.status(path) is None and fs.status(held_path) is not None
    except (OSError, KafkalogError):
        return True


def waits_for(fs: Filesystem, log_dir: str, run_id: str, partition: str) -> bool:
    """Whether the marker is away for a run on a partition; True where nobody can tell."""
    if not is_away(fs, log_dir):
        return False
    try:
        held = read_held_marker(fs, log_dir)
    except (OSError, KafkalogError):
        return True
    return held is not None and partition in held.reasons.get(run_id, ())


def runs_waiting(fs: Filesystem, log_dir: str, partition: str) -> list[str]:
    """The runs on a partition that the marker is away for, oldest first; none where nobody can tell."""
    if not is_away(fs, log_dir):
        return []
    try:
        held = read_held_marker(fs, log_dir)
    except (OSError, KafkalogError):
        return []
    return [] if held is None else sorted(run for run, names in held.reasons.items() if partition in names)


def keep_marker_away(fs: WritableFilesystem, log_dir: str, run_id: str, partition: str) -> None:
    """The run can soon not be undone any more: if the marker waits for it, it stays away for good.

    Before the first of what the run kept is removed: a run of which only the directory is left looks like one that
    never began. Raises NotChanged, NoSpace, SyncFailed, Unreadable, Locked.
    """
    try:
        with turn_of(log_dir), lock_checkpoints(fs, log_dir, _PATIENCE) or nullcontext():
            held = read_held_marker(fs, log_dir)
            if held is None or partition not in held.reasons.get(run_id, ()):
                return
            left = tuple(name for name in held.reasons[run_id] if name != partition)
            lost = tuple(sorted({*held.reasons.get(PURGED, ()), partition}))
            reasons = {run: names for run, names in {**held.reasons, run_id: left, PURGED: lost}.items() if names}
            replace_file(fs, _paths(log_dir)[1], _encode(replace(held, reasons=reasons)), None)
    except OSError as error:
        raise not_changed(log_dir, error) from error


def read_held_marker(fs: Filesystem, log_dir: str) -> HeldMarker | None:
    """The marker that is away; None if none is, or what lies there cannot be read: then it stays away.

    Of use only where `.kafka_cleanshutdown` is not there. Raises Unreadable.
    """
    path = _paths(log_dir)[1]
    status = fs.status(path)
    if status is not None and (status.is_symlink or not status.is_file):
        return None  # none that a run has made
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
