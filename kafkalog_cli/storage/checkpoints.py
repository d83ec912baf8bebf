"""The offset checkpoints at the root of a log directory: the lines of given partitions, read and changed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from enum import Enum, unique
from threading import Lock
from typing import Any, NamedTuple

from kafkalog_cli.errors import KafkalogError, PathNotFound, Refused
from kafkalog_cli.format import checkpoint
from kafkalog_cli.format.checkpoint import BrokerReading, PartitionOffset
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.java_text import lines
from kafkalog_cli.storage.changing.durable import sync, sync_directory, temporary_of
from kafkalog_cli.storage.changing.lock import LockPolicy, lock_checkpoints
from kafkalog_cli.storage.changing.turns import turn_of
from kafkalog_cli.storage.fs import FileAttributes, Filesystem, WritableFilesystem, read_all
from kafkalog_cli.storage.logdir import OFFSET_CHECKPOINTS
from kafkalog_cli.storage.names import FileKind
from kafkalog_cli.storage.reading.unreadable import unreadable

_PATIENCE = LockPolicy(wait_ms=10_000, assume_offline=True)
"""Whoever has the lock on byte 1 has it for a moment only. Where locks do not work, the caller was allowed to go on
without the one on byte 0, or would not be here."""


class LineEdit(NamedTuple):
    """What a partition's line in a checkpoint shall say; `offset` None: there shall be none."""

    kind: FileKind
    topic: str
    partition: int
    offset: int | None


class OldLine(NamedTuple):
    """A partition's line as it was: its text, and how many lines stood before it; None: there was none."""

    topic: str
    partition: int
    text: str | None
    place: int | None


@dataclass(frozen=True, slots=True)
class OldLines:
    """Of one checkpoint the lines that edits concern, and the file: what `restore_lines` puts back.

    `size_bytes` None: there was no file. `sha256` is of all its bytes.
    """

    kind: FileKind
    size_bytes: int | None
    sha256: str
    mtime_ns: int
    lines: tuple[OldLine, ...]

    def as_object(self) -> dict[str, Any]:
        """For a manifest, in JSON's types."""
        return {
            "file": self.kind.value,
            "size_bytes": self.size_bytes,
            "sha256": self.sha256,
            "mtime_ns": self.mtime_ns,
            "lines": [line._asdict() for line in self.lines],
        }

    @classmethod
    def of_object(cls, found: dict[str, Any]) -> OldLines:
        """What `as_object` made. Raises KeyError, ValueError or TypeError for anything else."""
        kind = FileKind(found["file"])
        if kind not in OFFSET_CHECKPOINTS:
            raise ValueError(f"{kind.value} is no offset checkpoint")
        old = tuple(OldLine(**line) for line in found["lines"])
        return cls(kind, found["size_bytes"], found["sha256"], found["mtime_ns"], old)


@dataclass(frozen=True, slots=True)
class RootCheckpoints:
    """The four offset checkpoints of a log directory; a file that a broker cannot read is one without lines to it.

    `offsets` are by (topic, partition), also those of lines beside damaged ones; `faults` are (path, fault).
    """

    log_dir: str
    offsets: dict[FileKind, dict[tuple[str, int], int]]
    faults: tuple[tuple[str, Fault], ...] = ()
    readings: tuple[tuple[FileKind, BrokerReading], ...] = ()
    """What a broker gets from the damaged files."""

    def offset(self, kind: FileKind, topic: str, partition: int) -> int | None:
        """The offset in a partition's line, None if it has none."""
        return self.offsets.get(kind, {}).get((topic, partition))


@unique
class HighWatermarkOrigin(Enum):
    """Where a high watermark comes from. The value is the word that machine output uses."""

    CHECKPOINT = FileKind.REPLICATION_CHECKPOINT.value
    LOG_END = "log-end"


class HighWatermark(NamedTuple):
    """The offset below which every in-sync replica has the records, as far as the disk tells."""

    offset: int
    origin: HighWatermarkOrigin


def high_watermark(log_end: int, checkpointed: int | None) -> HighWatermark:
    """The smaller of the log end and the partition's line in replication-offset-checkpoint; the log end without one."""
    if checkpointed is None or checkpointed > log_end:
        return HighWatermark(log_end, HighWatermarkOrigin.LOG_END)
    return HighWatermark(checkpointed, HighWatermarkOrigin.CHECKPOINT)


def read_root_checkpoints(fs: Filesystem, log_dir: str) -> RootCheckpoints:
    """The checkpoints as they are; nothing is raised: a missing file has no lines, a damaged one has faults."""
    offsets: dict[FileKind, dict[tuple[str, int], int]] = {}
    faults: list[tuple[str, Fault]] = []
    readings: list[tuple[FileKind, BrokerReading]] = []
    for kind in OFFSET_CHECKPOINTS:
        path = _path(log_dir, kind)
        try:
            data = read_all(fs, path)
            entries, found = checkpoint.decode_offsets(data)
        except PathNotFound:
            continue
        except (KafkalogError, OSError) as error:
            faults.append((path, unreadable(error)))
            continue
        offsets[kind] = {(entry.topic, entry.partition): entry.offset for entry in entries}
        faults += [(path, fault) for fault in found]
        if found:
            readings.append((kind, checkpoint.broker_reading(data)))
    return RootCheckpoints(log_dir, offsets, tuple(faults), tuple(readings))


def read_old_lines(fs: WritableFilesystem, log_dir: str, edits: Sequence[LineEdit]) -> tuple[OldLines, ...]:
    """What is there where `edits` would change something: for the manifest, before the change.

    Raises Refused for a file that `change_lines` would not touch.
    """
    return tuple(_old_lines(_load(fs, log_dir, kind), edits) for kind in _kinds(edits))


def change_lines(fs: WritableFilesystem, log_dir: str, edits: Sequence[LineEdit]) -> None:
    """Make the lines say what `edits` want; all other lines keep their place and bytes. Twice is as once.

    Each file is written beside, synced and renamed, under the lock on byte 1 of `.lock`; the caller holds byte 0.
    Raises Refused for a file that a broker could not read or that is a link: it would take it for empty, and
    what it says would be lost; what `lock_checkpoints` raises; and OSError as the disk has it, with the file as it was.
    """
    with turn_of(log_dir), lock_checkpoints(fs, log_dir, _PATIENCE) or nullcontext():
        for kind in _kinds(edits):
            file = _load(fs, log_dir, kind)
            changed = _edited(file.rows, [edit for edit in edits if edit.kind is kind])
            if changed != file.rows:
                data = _encode(changed)
                _DECODED.remember(data, changed)
                _replace(fs, log_dir, file, data, None)


def restore_lines(fs: WritableFilesystem, log_dir: str, old: Iterable[OldLines]) -> None:
    """Put lines back as they were, at their place; where nothing else has changed since, the file with its mtime too.

    Raises as `change_lines` does. Twice is as once.
    """
    with turn_of(log_dir), lock_checkpoints(fs, log_dir, _PATIENCE) or nullcontext():
        for before in old:
            file = _load(fs, log_dir, before.kind)
            rows = _restored(file.rows, before.lines)
            if rows == file.rows:
                continue
            if not rows and before.size_bytes is None:
                fs.unlink(file.path)
                sync_directory(fs, log_dir)
                continue
            data = b"" if not rows and before.size_bytes == 0 else _encode(rows)
            is_same = hashlib.sha256(data).hexdigest() == before.sha256
            _replace(fs, log_dir, file, data, before.mtime_ns if is_same else None)


class Rebuilt(NamedTuple):
    """A damaged checkpoint after `rebuild_damaged`: what was wrong, where the old file is, how many lines were kept.

    `fault` None: a broker can read it, and takes the last of several lines about one partition.
    """

    path: str
    fault: Fault | None
    kept_as: str
    lines: int


def rebuild_damaged(fs: WritableFilesystem, log_dir: str, run_id: str, *, like_broker: bool = False) -> list[Rebuilt]:
    """Write each checkpoint that a broker cannot read, or that has a partition twice, with the lines that can be read.

    Of two lines about a partition the last stays, which a broker takes.

    `like_broker`: only those that a broker that starts takes for empty, without any line.
    The old file stays beside it as a plain file with the run's id in its name, which a broker ignores. The caller
    holds byte 0 of `.lock`. A file that the disk does not give, and a link, are left alone. Raises as `change_lines`.
    """
    rebuilt = []
    with turn_of(log_dir), lock_checkpoints(fs, log_dir, _PATIENCE) or nullcontext():
        for kind in OFFSET_CHECKPOINTS:
            path = _path(log_dir, kind)
            status = fs.status(path)
            if status is None or status.is_symlink or not status.is_file:
                continue
            try:
                data = read_all(fs, path)
            except (KafkalogError, OSError):
                continue
            entries, faults = checkpoint.decode_offsets(data)
            is_told_twice = not like_broker and len({(e.topic, e.partition) for e in entries}) < len(entries)
            if like_broker and not _is_taken_for_empty(kind, data):
                continue
            if not faults and not is_told_twice:
                continue
            entries = [] if like_broker else entries
            offsets = {(e.topic, e.partition): e for e in entries if checkpoint.can_name(e.topic) and e.offset >= 0}
            file = _File(kind, path, data, fs.attributes(path), [])
            kept_as = f"{path}.damaged-{run_id}"
            fs.link(path, kept_as)
            sync_directory(fs, log_dir)
            _replace(fs, log_dir, file, checkpoint.encode_offsets(list(offsets.values())), None)
            rebuilt.append(Rebuilt(path, faults[0] if faults else None, kept_as, len(offsets)))
    return rebuilt


def _is_taken_for_empty(kind: FileKind, data: bytes) -> bool:
    is_of_start = kind in (FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.LOG_START_CHECKPOINT)
    return is_of_start and checkpoint.broker_reading(data) is BrokerReading.THROWS


class _Row(NamedTuple):
    """A line, with what it says."""

    topic: str
    partition: int
    text: bytes


class _File(NamedTuple):
    """A checkpoint as it is; `data` None: there is no such file."""

    kind: FileKind
    path: str
    data: bytes | None
    attributes: FileAttributes | None
    rows: list[_Row]


def _load(fs: WritableFilesystem, log_dir: str, kind: FileKind) -> _File:
    path = _path(log_dir, kind)
    status = fs.status(path)
    if status is not None and status.is_symlink:
        raise Refused(path=path, reason="it is a symbolic link")
    try:
        data = read_all(fs, path)
    except PathNotFound:
        return _File(kind, path, None, None, [])
    rows = _DECODED.rows(data)
    if isinstance(rows, Fault):
        reason = f"no broker can read it ({rows.message}); to have it taken for empty, move it away"
        raise Refused(path=path, reason=reason)
    return _File(kind, path, data, fs.attributes(path), rows)


class _Decoded:
    """The lines of the last few files, by their bytes: a run over many partitions changes a line each time."""

    def __init__(self) -> None:
        self._known: dict[bytes, list[_Row]] = {}
        self._lock = Lock()

    def rows(self, data: bytes) -> list[_Row] | Fault:
        """The lines of these bytes, which nobody may change; or why a broker cannot read them."""
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
        """These bytes have these lines."""
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
    # The first places first: each counts on those before it.
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
    """Where the line of each partition is; of several the last, which is the one that a broker goes by."""
    return {(row.topic, row.partition): at for at, row in enumerate(rows)}


def _text(entry: PartitionOffset) -> bytes:
    return checkpoint.encode_offsets([entry]).splitlines()[2]


def _encode(rows: list[_Row]) -> bytes:
    return b"".join(b"%b\n" % text for text in (b"%d" % checkpoint.VERSION, b"%d" % len(rows), *(r.text for r in rows)))


def _replace(fs: WritableFilesystem, log_dir: str, file: _File, data: bytes, mtime_ns: int | None) -> None:
    """Give the file other bytes: written beside, synced, renamed. A failed sync is final: nothing is renamed then."""
    temporary = temporary_of(file.path)
    attributes = file.attributes or _attributes_of_new(fs, log_dir)
    try:
        with fs.create(temporary, attributes) as new:
            new.write(0, data)
            if mtime_ns is not None:
                fs.set_attributes(temporary, _dated(attributes, mtime_ns))
            sync(new)
        fs.rename(temporary, file.path)
    except OSError:
        with suppress(OSError):
            fs.unlink(temporary)
        raise
    sync_directory(fs, log_dir)


def _dated(attributes: FileAttributes, mtime_ns: int) -> FileAttributes:
    return FileAttributes(attributes.mode, attributes.owner_id, attributes.group_id, mtime_ns, attributes.xattrs)


def _attributes_of_new(fs: WritableFilesystem, log_dir: str) -> FileAttributes:
    """As a sibling has them, else as the directory has them: a broker must be able to replace it."""
    for kind in (*OFFSET_CHECKPOINTS, FileKind.META_PROPERTIES):
        with suppress(OSError):
            return fs.attributes(_path(log_dir, kind))
    directory = fs.attributes(log_dir)
    return FileAttributes(directory.mode & 0o666, directory.owner_id, directory.group_id, directory.mtime_ns)


def _kinds(edits: Sequence[LineEdit]) -> list[FileKind]:
    found = {edit.kind for edit in edits}
    if not found <= set(OFFSET_CHECKPOINTS):
        raise ValueError(f"no offset checkpoints: {found}")
    return [kind for kind in OFFSET_CHECKPOINTS if kind in found]


def _path(log_dir: str, kind: FileKind) -> str:
    return os.path.join(log_dir, kind.value)  # noqa: PTH118 (paths are text)
