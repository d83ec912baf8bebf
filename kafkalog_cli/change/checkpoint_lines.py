"""Changing, restoring and rebuilding the lines of the offset checkpoints at the root of a log directory."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from threading import Lock
from typing import Annotated, NamedTuple

from kafkalog_cli.disk.durable import replace_file, sync_directory, try_to_link
from kafkalog_cli.disk.fs import FileAttributes, WritableFilesystem, read_all
from kafkalog_cli.disk.lock import LockPolicy, root_files_locked
from kafkalog_cli.disk.names import FileKind, moved_aside
from kafkalog_cli.errors import KafkalogError, PathNotFound, Refused
from kafkalog_cli.format import checkpoint
from kafkalog_cli.format.checkpoint import BrokerReading, PartitionOffset
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.java_text import lines
from kafkalog_cli.format.strict_json import MOST_NUMBER, int32, integer, matching
from kafkalog_cli.log.log_dir import OFFSET_CHECKPOINTS, LineEdit, LogDir, checkpoint_path

_PATIENCE = LockPolicy(wait_ms=10_000, assume_offline=True)
"""Another writer holds the lock on byte 1 only for a moment. If locks do not work, the caller was already permitted
to go on without the lock on byte 0."""


TimeNs = Annotated[int, integer(-(MOST_NUMBER + 1) * 1_000_000_000, (MOST_NUMBER + 1) * 1_000_000_000 - 1)]
"""Times of files have 64 bits for the seconds: since the year 2262, their nanoseconds have more."""
Sha256 = Annotated[str, matching(re.compile(r"[0-9a-f]{64}"))]


class OldLine(NamedTuple):
    """A partition's line as it was: its text, and its place (the number of lines before it); None without a line."""

    topic: str
    partition: Annotated[int, int32]
    text: str | None
    place: int | None


class OldLines(NamedTuple):
    """The state of one checkpoint before edits, for `restore_lines`: the lines that the edits concern, and the file.

    `size_bytes` None: there was no file. `sha256` is the hash of the whole file.
    """

    file: FileKind
    size_bytes: int | None
    sha256: Sha256
    mtime_ns: TimeNs
    lines: tuple[OldLine, ...]


def read_old_lines(fs: WritableFilesystem, log_dir: str, edits: Sequence[LineEdit]) -> tuple[OldLines, ...]:
    """Return the present lines that `edits` concern, for the manifest of the change.

    Raises Refused for a file that `change_lines` would refuse.
    """
    return tuple(_old_lines(_load(fs, log_dir, kind), edits) for kind in _kinds(edits))


def change_lines(fs: WritableFilesystem, log_dir: str, edits: Sequence[LineEdit]) -> None:
    """Apply `edits` to the checkpoints. All other lines keep their places and bytes. A second call changes nothing.

    Each file is replaced by a synced temporary file under the lock on byte 1 of `.lock`; the caller holds byte 0.
    Raises Refused for a symbolic link, and for a file that a broker cannot read: the rewritten file would lack the
    unreadable lines. Raises what `lock_checkpoints` raises, and OSError as the disk reports it; the file is unchanged.
    """
    with root_files_locked(fs, log_dir, _PATIENCE):
        for kind in _kinds(edits):
            file = _load(fs, log_dir, kind)
            changed = _edited(file.rows, [edit for edit in edits if edit.kind is kind])
            if changed != file.rows:
                data = _encode(changed)
                _DECODED.remember(data, changed)
                _replace(fs, log_dir, file, data, None)


def restore_lines(
    fs: WritableFilesystem,
    log_dir: str,
    old: Iterable[OldLines],
    of_run: Callable[[], Iterable[OldLines]] = tuple,
) -> None:
    """Restore lines at their old places. If nothing else has changed since, the file gets its old mtime too.

    A file that did not exist and would be empty is removed. `of_run` returns the old lines of all partitions of the
    run, and so the sizes that the file had before each of them. The smallest size is that before the run, in whatever
    order the partitions are undone. Raises what `change_lines` raises. A second call changes nothing.
    """
    with root_files_locked(fs, log_dir, _PATIENCE):
        for own in old:
            file, before = _load(fs, log_dir, own.file), own
            rows = _restored(file.rows, own.lines)
            if rows == file.rows:
                continue
            if not rows and own.size_bytes:
                others = (one for one in of_run() if one.file is own.file)
                before = min((own, *others), key=lambda one: one.size_bytes or 0)
            if not rows and before.size_bytes is None:
                fs.unlink(file.path)
                sync_directory(fs, log_dir)
                continue
            data = b"" if not rows and before.size_bytes == 0 else _encode(rows)
            is_same = hashlib.sha256(data).hexdigest() == before.sha256
            _replace(fs, log_dir, file, data, before.mtime_ns if is_same else None)


class RebuiltCheckpoint(NamedTuple):
    """A checkpoint that `rebuild_damaged` replaced. `kept_as` is the path of the old file, `lines` the new line count.

    `fault` is the damage. None: a broker can read the old file, but it has several lines for one partition.
    """

    path: str
    fault: Fault | None
    kept_as: str
    lines: int


def rebuild_damaged(
    fs: WritableFilesystem, known: LogDir, run_id: str, *, like_broker: bool = False
) -> list[RebuiltCheckpoint]:
    """Rewrite each checkpoint that a broker cannot read, or that has two lines for a partition, as `known` says.

    The new file contains the lines that can be read. The last of several lines for a partition is kept, as in a
    broker. `like_broker`: of the files that a broker cannot read, only those that it treats as empty when it starts
    are rewritten, without any line.
    The old file stays in the directory as a plain file with the run's id in its name, which a broker ignores.
    Links and files that cannot be read from the disk are skipped. The caller holds byte 0 of `.lock`.
    Raises what `change_lines` raises.
    """
    rebuilt = []
    log_dir, kinds = known.path, [kind for kind in OFFSET_CHECKPOINTS if known.needs_rebuild(kind)]
    if not kinds:
        return []
    with root_files_locked(fs, log_dir, _PATIENCE):
        for kind in kinds:
            path = checkpoint_path(log_dir, kind)
            status = fs.status(path)
            if status is None or status.is_symlink or not status.is_file:
                continue
            try:
                data = read_all(fs, path)
            except (KafkalogError, OSError):
                continue
            entries, faults = checkpoint.decode_offsets(data)
            if not faults and len({(e.topic, e.partition) for e in entries}) == len(entries):
                continue
            if like_broker and faults:
                if not _is_taken_for_empty(kind, data):
                    continue
                entries = []
            offsets = {(e.topic, e.partition): e for e in entries if checkpoint.can_name(e.topic) and e.offset >= 0}
            file = _File(kind, path, data, fs.attributes(path), [])
            kept_as = f"{path}.damaged-{run_id}"
            if try_to_link(fs, path, kept_as):
                sync_directory(fs, log_dir)
            else:
                replace_file(fs, kept_as, data, file.attributes, keep_mtime=True)
            _replace(fs, log_dir, file, checkpoint.encode_offsets(list(offsets.values())), None)
            rebuilt.append(RebuiltCheckpoint(path, faults[0] if faults else None, kept_as, len(offsets)))
    return rebuilt


def _is_taken_for_empty(kind: FileKind, data: bytes) -> bool:
    is_of_start = kind in (FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.LOG_START_CHECKPOINT)
    return is_of_start and checkpoint.broker_reading(data) is BrokerReading.THROWS


class _Row(NamedTuple):
    """A line of a checkpoint: its partition, and its text as it is in the file."""

    topic: str
    partition: int
    text: bytes


class _File(NamedTuple):
    """A checkpoint in its present state. `data` None: there is no such file."""

    kind: FileKind
    path: str
    data: bytes | None
    attributes: FileAttributes | None
    rows: list[_Row]


def _load(fs: WritableFilesystem, log_dir: str, kind: FileKind) -> _File:
    path = checkpoint_path(log_dir, kind)
    status = fs.status(path)
    if status is not None and status.is_symlink:
        raise Refused(path=path, reason="it is a symbolic link")
    try:
        data = read_all(fs, path)
    except PathNotFound:
        return _File(kind, path, None, None, [])
    rows = _DECODED.rows(data)
    if isinstance(rows, Fault):
        reason = (
            f"no broker can read it ({rows.message}); {moved_aside(path)} moves it away, and it then counts as empty"
        )
        raise Refused(path=path, reason=reason)
    return _File(kind, path, data, fs.attributes(path), rows)


class _Decoded:
    """A cache of decoded checkpoints by their bytes: a run on many partitions changes one line after the other."""

    def __init__(self) -> None:
        self._known: dict[bytes, list[_Row]] = {}
        self._lock = Lock()

    def rows(self, data: bytes) -> list[_Row] | Fault:
        """Return the lines of a checkpoint with these bytes, or the fault that stops a broker.

        The caller must not change the list.
        """
        with self._lock:
            known = self._known.get(data)
        if known is not None:
            return known
        entries, faults = checkpoint.decode_offsets(data)
        if faults:
            return faults[0]
        texts = [text for _, text in lines(data)][2:]
        rows = [_Row(entry.topic, entry.partition, text) for entry, text in zip(entries, texts, strict=True)]
        self.remember(data, rows)
        return rows

    def remember(self, data: bytes, rows: list[_Row]) -> None:
        """Add the lines of a checkpoint with these bytes to the cache."""
        with self._lock:
            self._known[data] = rows
            if len(self._known) > 2 * len(OFFSET_CHECKPOINTS):
                del self._known[next(iter(self._known))]


_DECODED = _Decoded()


def _old_lines(file: _File, edits: Sequence[LineEdit]) -> OldLines:
    data = file.data or b""
    places = _places(file.rows)
    found = []
    for edit in edits:
        if edit.kind is file.kind:
            place = places.get((edit.topic, edit.partition))
            text = None if place is None else file.rows[place].text.decode()
            found.append(OldLine(edit.topic, edit.partition, text, place))
    return OldLines(
        file.kind,
        None if file.data is None else len(data),
        hashlib.sha256(data).hexdigest(),
        0 if file.attributes is None else file.attributes.mtime_ns,
        tuple(found),
    )


def _edited(rows: list[_Row], edits: Sequence[LineEdit]) -> list[_Row]:
    changed = list(rows)
    places = _places(rows)
    gone = {(topic, partition) for _, topic, partition, offset in edits if offset is None}
    for _, topic, partition, offset in edits:
        place = places.get((topic, partition))
        if offset is None:
            continue
        row = _Row(topic, partition, _text(PartitionOffset(topic, partition, offset)))
        if place is None:
            places[topic, partition] = len(changed)
            changed.append(row)
        elif checkpoint.decode_offsets(_encode([changed[place]]))[0][0].offset != offset:
            changed[place] = row
    return [row for row in changed if row[:2] not in gone]


def _restored(rows: list[_Row], old: Iterable[OldLine]) -> list[_Row]:
    changed = list(rows)
    # In the order of places: a place is a number of lines before, so the earlier lines must be there already.
    for topic, partition, text, place in sorted(old, key=lambda line: -1 if line.place is None else line.place):
        here = _places(changed).get((topic, partition))
        if text is None or place is None:
            changed = [row for row in changed if row[:2] != (topic, partition)]
        elif here is None:
            changed.insert(place, _Row(topic, partition, text.encode()))
        else:
            changed[here] = _Row(topic, partition, text.encode())
    return changed


def _places(rows: Sequence[_Row]) -> dict[tuple[str, int], int]:
    """Return the index of each partition's line; of several lines, the last, which a broker uses."""
    return {(row.topic, row.partition): at for at, row in enumerate(rows)}


def _text(entry: PartitionOffset) -> bytes:
    return checkpoint.encode_offsets([entry]).splitlines()[2]


def _encode(rows: list[_Row]) -> bytes:
    return b"".join(b"%b\n" % text for text in (b"%d" % checkpoint.VERSION, b"%d" % len(rows), *(r.text for r in rows)))


def _replace(fs: WritableFilesystem, log_dir: str, file: _File, data: bytes, mtime_ns: int | None) -> None:
    """Replace the bytes of the file. `mtime_ns` is its mtime afterwards; None: the present time."""
    attributes = file.attributes or _attributes_of_new(fs, log_dir)
    if mtime_ns is not None:
        attributes = attributes._replace(mtime_ns=mtime_ns)
    replace_file(fs, file.path, data, attributes, keep_mtime=mtime_ns is not None)


def _attributes_of_new(fs: WritableFilesystem, log_dir: str) -> FileAttributes:
    """Return the attributes of a sibling for a new file, else the directory's: a broker must be able to replace it."""
    for kind in (*OFFSET_CHECKPOINTS, FileKind.META_PROPERTIES):
        with suppress(OSError):
            return fs.attributes(checkpoint_path(log_dir, kind))
    directory = fs.attributes(log_dir)
    return FileAttributes(directory.mode & 0o666, directory.owner_id, directory.group_id, directory.mtime_ns)


def _kinds(edits: Sequence[LineEdit]) -> list[FileKind]:
    found = {edit.kind for edit in edits}
    if not found <= set(OFFSET_CHECKPOINTS):
        raise ValueError(f"no offset checkpoints: {found}")
    return [kind for kind in OFFSET_CHECKPOINTS if kind in found]
