"""The manifest of a run on one partition: the state before, the planned changes and the state after, as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, unique
from typing import Annotated, Any, NamedTuple

from kafkalog_cli.change.checkpoint_lines import OldLines, Sha256, TimeNs, read_old_lines
from kafkalog_cli.change.runs import MANIFEST, run_directory
from kafkalog_cli.disk.durable import replace_file
from kafkalog_cli.disk.fs import FileAttributes, FileStatus, Filesystem, WritableFilesystem, read_all
from kafkalog_cli.disk.names import OWN_DIRECTORY
from kafkalog_cli.errors import Refused, UnsupportedFormat, shell_word
from kafkalog_cli.format.checkpoint import decode_offsets
from kafkalog_cli.format.strict_json import LIMIT_BYTES, MOST_NUMBER, form_of, integer, matching, parse, plain
from kafkalog_cli.log.log_dir import OFFSET_CHECKPOINTS, LineEdit

FORMAT = 1
_MOST_FORMAT = 1 << 31
_LIMIT_BYTES = LIMIT_BYTES
_MOST_NAME_BYTES = 255
_MOST_MS = 253_402_300_799_999
"""The end of the year 9999, the last time that Python's calendar has."""


def _file_name(value: Any) -> str:
    """The name of an entry of a partition directory other than `.kafkalog`."""
    is_text = type(value) is str and "/" not in value and "\0" not in value
    if not is_text or value in {"", ".", "..", OWN_DIRECTORY}:
        raise ValueError(f"{value!r} is not the name of a file of a partition" if type(value) is str else "no name")
    if len(value.encode("utf-8", "surrogateescape")) > _MOST_NAME_BYTES:
        raise ValueError(f"{value!r} is not the name of a file: it is too long")
    return str(value)


def _kept_name(value: Any) -> str:
    """The name of a file in the run's directory. No change takes or restores the manifest itself."""
    if value == MANIFEST:
        raise ValueError(f"{value!r} is not the name of a file that a run keeps")
    return _file_name(value)


FileName = Annotated[str, _file_name]
KeptName = Annotated[str, _kept_name]
TimeMs = Annotated[int, integer(-_MOST_MS, _MOST_MS)]


@unique
class RunState(Enum):
    """The progress of a run. Before DONE and after UNDOING began, each change may or may not have been made.

    GROWING replaces STARTED in a run that appends records. If such a run is interrupted, its changes stay.
    """

    STARTED = "started"
    GROWING = "growing"
    DONE = "done"
    UNDOING = "undoing"
    UNDONE = "undone"


@unique
class ChangeKind(Enum):
    """The kind of a change. The first four are those of changes.py, the others of change/growing_run.py."""

    CUT = "cut"
    MOVE = "move"
    DROP = "drop"
    PUT = "put"
    GROW = "grow"
    REPLACE = "replace"
    MAKE = "make"


@dataclass(frozen=True, slots=True)
class RunInfo:
    """The command that makes a run. `run_id` is the name of the run's directory; `settings` must fit into JSON.

    `holds_marker`: the clean shutdown marker is away while the run works (clean_marker.py). `keeps_records`: the run
    removes no record, so the marker is put back if the log is sound. `makes_directory`: the run creates the partition.
    `makes_files` are the files of an empty segment, and the topic id, that the run makes in a directory without a log.
    """

    run_id: str
    action: Annotated[str, matching(re.compile(r"[a-z][a-z-]{0,63}"))]
    argv: tuple[str, ...]
    now_ms: TimeMs
    settings: Mapping[str, object] = field(default_factory=dict)
    version: str = ""
    holds_marker: bool = False
    keeps_records: bool = False
    makes_directory: bool = False
    makes_files: tuple[FileName, ...] = ()


class FileFacts(NamedTuple):
    """The state of a file.

    The mode is only for information. The inode only distinguishes files that are otherwise alike. So a run can be
    undone in a copied directory too.
    """

    size_bytes: int
    mtime_ns: TimeNs
    inode: Annotated[int, integer(0, 2 * MOST_NUMBER + 1)]
    mode: Annotated[int, integer(0, (1 << 31) - 1)]

    def looks_like(self, other: FileFacts | None) -> bool:
        """Whether both may be the same file, judged by size and mtime, which a rename keeps."""
        return other is not None and (self.size_bytes, self.mtime_ns) == (other.size_bytes, other.mtime_ns)


class Snapshot(NamedTuple):
    """The files of a partition directory by name, the directory's own mtime, and the partition's checkpoint lines."""

    mtime_ns: TimeNs
    files: Mapping[FileName, FileFacts]
    checkpoint_lines: tuple[OldLines, ...]


class PlannedChange(NamedTuple):
    """A change as the manifest records it.

    `kept` and `staged` are file names in the run's directory: of the old data, and of the new file.
    `from_bytes` is the size of a CUT or GROW file before the run; `to_bytes` is the size after a CUT or PUT.
    `mtime_ns` is the mtime of a CUT or GROW file before the run, of a PUT file after it.
    `sha256` is the hash of the bytes that a CUT keeps, or that a PUT writes (None if they were staged by the caller).
    The content that REPLACE and MAKE write is not known beforehand.
    `origin` is the name that the file of a CUT or MOVE had before the run; None if the run itself has put the file.
    `linked`: the kept file of a DROP is a second name of the file, made before the manifest.
    """

    kind: ChangeKind
    name: FileName
    new_name: FileName | None = None
    origin: FileName | None = None
    from_bytes: int = 0
    to_bytes: int = 0
    replaces: bool = False
    linked: bool = False
    kept: KeptName | None = None
    staged: KeptName | None = None
    sha256: Sha256 | None = None
    mtime_ns: TimeNs = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """One run on one partition. `facts` are the results of the action, in JSON's types.

    `discard`: removed data is not kept. `order` increases from partition to partition in a run that changes several:
    each partition finds the checkpoints as the partition before left them.
    """

    run: RunInfo
    state: RunState
    directory: str
    before: Snapshot
    changes: tuple[PlannedChange, ...]
    edits: tuple[LineEdit, ...] = ()
    discard: bool = False
    after: Snapshot | None = None
    finished_ms: TimeMs | None = None
    facts: Mapping[str, object] = field(default_factory=dict)
    order: int = 0


def write_manifest(
    fs: WritableFilesystem, directory: str, manifest: Manifest, attributes: FileAttributes | None
) -> None:
    """Write or replace a manifest durably. Raises OSError (nothing was replaced then), SyncFailed.

    Raises Refused for a manifest that would be too large to be read again.
    """
    path = f"{run_directory(directory, manifest.run.run_id)}/{MANIFEST}"
    content = encode(manifest)
    if len(content) > _LIMIT_BYTES:
        reason = f"its manifest would have {len(content)} bytes, and is read up to {_LIMIT_BYTES}: change fewer files"
        raise Refused(path=directory, reason=f"{reason} in one run")
    replace_file(fs, path, content, attributes)


def read_manifest(fs: Filesystem, directory: str, run_id: str) -> Manifest | None:
    """Return the manifest of a run; None if there is none, as after a crash before the first change.

    Raises Refused if the manifest is not valid, UnsupportedFormat if its format is of another kafkalog, Unreadable.
    """
    path = f"{run_directory(directory, run_id)}/{MANIFEST}"
    status = fs.status(path)
    if status is None:
        return None
    if status.is_symlink or not status.is_file:
        reason = f"it is a symbolic link, or not a regular file: kafkalog did not make it; {way_out(path)}"
        raise Refused(path=path, reason=reason)
    if status.size_bytes > _LIMIT_BYTES:
        reason = f"a manifest of {status.size_bytes} bytes is larger than any of kafkalog's, which have at most"
        raise Refused(path=path, reason=f"{reason} {_LIMIT_BYTES}; {way_out(path)}")
    manifest = decode(path, read_all(fs, path, _LIMIT_BYTES))
    if manifest.run.run_id != run_id:
        raise Refused(path=path, reason=f"it is the manifest of another run; {way_out(path)}")
    return manifest


def encode(manifest: Manifest) -> bytes:
    """Return the manifest as JSON in ASCII. Names that are not UTF-8 survive as escapes."""
    return json.dumps({"format": FORMAT, **plain(manifest)}, indent=1).encode("ascii") + b"\n"


def decode(path: str, data: bytes) -> Manifest:
    """Return the manifest that `encode` wrote. Raises UnsupportedFormat for another format, Refused for other data.

    Anybody may have written the file, but an undo follows it with the rights of its own user. So nothing is done by a
    manifest that this version of kafkalog cannot have written.
    """
    try:
        document = parse(data)
        version = document.pop("format")
        if type(version) is int and version != FORMAT and abs(version) < _MOST_FORMAT:
            reason = f"a manifest of format {version}, which another version of kafkalog wrote"
            raise UnsupportedFormat(path=path, reason=reason)
        integer(FORMAT, FORMAT)(version)
        manifest: Manifest = form_of(Manifest)(document)
        for change in manifest.changes:
            _check_change(change, manifest.before.files)
        _check_lines(manifest)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(path=path, reason=f"the manifest cannot be read ({error}); {way_out(path)}") from error
    return manifest


def way_out(manifest_path: str) -> str:
    """Return what can be done about a run whose manifest is not one that kafkalog writes."""
    run = manifest_path.rpartition("/")[0]
    return (
        f"kafkalog ignores it. If no run of kafkalog made {run}, `rm -r {shell_word(run)}` removes it, and of a link"
        " in it nothing but the link"
    )


def _check_change(change: PlannedChange, before: Mapping[str, FileFacts]) -> None:
    """Raises ValueError for a change that lacks what its undo needs."""
    kind, name = change.kind, change.name
    origin = name if kind in (ChangeKind.REPLACE, ChangeKind.GROW) else change.origin
    if origin is not None and origin not in before:
        raise ValueError(f"{origin!r} is to be changed, and was not there before")
    if kind is ChangeKind.MOVE and change.new_name is None:
        raise ValueError(f"{name!r} is renamed to nothing")
    if kind is ChangeKind.REPLACE and change.kept is None:
        raise ValueError(f"{name!r} is replaced, and not kept")
    if kind is ChangeKind.PUT and change.staged is None:
        raise ValueError(f"{name!r} comes from nowhere")
    if kind is ChangeKind.CUT and change.to_bytes > change.from_bytes:
        raise ValueError(f"{name!r} is cut to more than it has")
    if kind is ChangeKind.CUT and change.kept is not None and change.sha256 is None:
        raise ValueError(f"what was cut off {name!r} has no digest")


def _check_lines(manifest: Manifest) -> None:
    """Raises ValueError unless all lines of checkpoints belong to one partition, and are lines that the run changed."""
    edited = {edit.kind for edit in manifest.edits}
    partitions = {(edit.topic, edit.partition) for edit in manifest.edits}
    kinds = [kind for kind in OFFSET_CHECKPOINTS if kind in edited]
    if len(partitions) > 1 or len(kinds) < len(manifest.edits):
        raise ValueError("it changes lines of several partitions, or a line twice, or other files than checkpoints")
    for found in (manifest.before, manifest.after):
        if found is None:
            continue
        if [old.file for old in found.checkpoint_lines] != kinds:
            raise ValueError("its checkpoints differ from the checkpoints that it changes")
        for old in found.checkpoint_lines:
            (line,) = old.lines
            if (line.topic, line.partition) not in partitions or (line.text is None) != (line.place is None):
                raise ValueError(f"its line in {old.file.value} differs from the line that it changes")
            if line.text is not None and not _is_line_of(line.text, line.topic, line.partition):
                raise ValueError(f"{line.text!r} is not a line of {line.topic}-{line.partition}")


def _is_line_of(line: str, topic: str, partition: int) -> bool:
    """Whether a text is one line of a checkpoint, and of this partition."""
    entries, faults = decode_offsets(b"0\n1\n" + line.encode() + b"\n")
    return not faults and [(entry.topic, entry.partition) for entry in entries] == [(topic, partition)]


def snapshot(
    fs: WritableFilesystem, directory: str, log_dir: str | None = None, edits: Sequence[LineEdit] = ()
) -> Snapshot:
    """Return the state of the files of `directory` and of the checkpoint lines that `edits` concern.

    Raises OSError, and what `list_directory` and `read_old_lines` raise.
    """
    entries = [entry for entry in fs.list_directory(directory) if not entry.is_directory]
    files = {entry.path.rpartition("/")[2]: _facts(fs, entry) for entry in entries}
    lines = read_old_lines(fs, log_dir, edits) if edits and log_dir is not None else ()
    return Snapshot(fs.attributes(directory).mtime_ns, files, lines)


def facts_of(fs: WritableFilesystem, path: str) -> FileFacts | None:
    """Return the state of the file at `path`; None if there is none."""
    status = fs.status(path)
    return None if status is None else _facts(fs, status)


def first_difference(expected: Snapshot, found: Snapshot) -> str | None:
    """Return the first difference in words; None if there is none. Inodes and the directory's mtime do not count."""
    return difference_of_files(expected.files, found.files) or _difference_of_lines(
        expected.checkpoint_lines, found.checkpoint_lines
    )


def difference_of_files(expected: Mapping[str, FileFacts], found: Mapping[str, FileFacts]) -> str | None:
    """Describe the first file, by name, that is missing or new or has another size or mtime; None if all are alike."""
    for name in sorted({*expected, *found}):
        was, now = expected.get(name), found.get(name)
        if was is None:
            return f"{name} is new"
        if now is None:
            return f"{name} is not there"
        if was.size_bytes != now.size_bytes:
            return f"{name} has {now.size_bytes} bytes, not {was.size_bytes}"
        if not was.looks_like(now):
            return f"{name} was changed since"
    return None


def _difference_of_lines(expected: Sequence[OldLines], found: Sequence[OldLines]) -> str | None:
    for was, now in zip(expected, found, strict=True):
        texts = [[line.text for line in old.lines] for old in (was, now)]
        if texts[0] != texts[1]:
            return f"its line in {was.file.value} was changed since"
    return None


def _facts(fs: WritableFilesystem, status: FileStatus) -> FileFacts:
    attributes = fs.attributes(status.path)
    return FileFacts(status.size_bytes, attributes.mtime_ns, status.inode, attributes.mode)
