"""The manifest of a run on one partition: the state before, the planned changes and the state after, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum, unique
from typing import Any, NamedTuple

from kafkalog_cli.change.checkpoint_lines import OldLines, read_old_lines
from kafkalog_cli.change.manifest_form import FORMAT, check_form
from kafkalog_cli.change.runs import MANIFEST, run_directory
from kafkalog_cli.disk.durable import replace_file
from kafkalog_cli.disk.fs import FileAttributes, FileStatus, Filesystem, WritableFilesystem, read_all
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import Refused, UnsupportedFormat, shell_word
from kafkalog_cli.format.strict_json import LIMIT_BYTES, parse
from kafkalog_cli.log.log_dir import LineEdit

_MOST_FORMAT = 1 << 31
_LIMIT_BYTES = LIMIT_BYTES


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
    action: str
    argv: tuple[str, ...]
    now_ms: int
    settings: Mapping[str, object] = field(default_factory=dict)
    version: str = ""
    holds_marker: bool = False
    keeps_records: bool = False
    makes_directory: bool = False
    makes_files: tuple[str, ...] = ()


class FileFacts(NamedTuple):
    """The state of a file.

    The mode is only for information. The inode only distinguishes files that are otherwise alike. So a run can be
    undone in a copied directory too.
    """

    size_bytes: int
    mtime_ns: int
    inode: int
    mode: int

    def looks_like(self, other: FileFacts | None) -> bool:
        """Whether both may be the same file, judged by size and mtime, which a rename keeps."""
        return other is not None and (self.size_bytes, self.mtime_ns) == (other.size_bytes, other.mtime_ns)


class Snapshot(NamedTuple):
    """The files of a partition directory by name, the directory's own mtime, and the partition's checkpoint lines."""

    files: Mapping[str, FileFacts]
    mtime_ns: int
    lines: tuple[OldLines, ...] = ()


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
    name: str
    new_name: str | None = None
    origin: str | None = None
    from_bytes: int = 0
    to_bytes: int = 0
    replaces: bool = False
    linked: bool = False
    kept: str | None = None
    staged: str | None = None
    sha256: str | None = None
    mtime_ns: int = 0


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
    finished_ms: int | None = None
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
    document = {
        "format": FORMAT,
        "state": manifest.state.value,
        "directory": manifest.directory,
        "discard": manifest.discard,
        "finished_ms": manifest.finished_ms,
        "run": {name: value for name, value in asdict(manifest.run).items() if name != "makes_files" or value},
        "changes": [_plain(change) for change in manifest.changes],
        "edits": [{**edit._asdict(), "kind": edit.kind.value} for edit in manifest.edits],
        "before": _encode_snapshot(manifest.before),
        "after": None if manifest.after is None else _encode_snapshot(manifest.after),
        "facts": dict(manifest.facts),
        "order": manifest.order,
    }
    return json.dumps(document, indent=1).encode("ascii") + b"\n"


def decode(path: str, data: bytes) -> Manifest:
    """Return the manifest that `encode` wrote. Raises UnsupportedFormat for another format, Refused for other data."""
    try:
        document = parse(data)
        version = document["format"]
        if type(version) is int and version != FORMAT and abs(version) < _MOST_FORMAT:
            reason = f"a manifest of format {version}, which another version of kafkalog wrote"
            raise UnsupportedFormat(path=path, reason=reason)
        check_form(document)
        return Manifest(
            _run_info(document["run"]),
            RunState(document["state"]),
            document["directory"],
            _snapshot(document["before"]),
            tuple(PlannedChange(**{**change, "kind": ChangeKind(change["kind"])}) for change in document["changes"]),
            tuple(LineEdit(**{**edit, "kind": FileKind(edit["kind"])}) for edit in document["edits"]),
            document["discard"],
            None if document["after"] is None else _snapshot(document["after"]),
            document["finished_ms"],
            document["facts"],
            document.get("order", 0),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(path=path, reason=f"the manifest cannot be read ({error}); {way_out(path)}") from error


def _run_info(found: dict[str, Any]) -> RunInfo:
    return RunInfo(**{**found, "argv": tuple(found["argv"]), "makes_files": tuple(found.get("makes_files", ()))})


def way_out(manifest_path: str) -> str:
    """Return what can be done about a run whose manifest is not one that kafkalog writes."""
    run = manifest_path.rpartition("/")[0]
    return (
        f"kafkalog ignores it. If no run of kafkalog made {run}, `rm -r {shell_word(run)}` removes it, and of a link"
        " in it nothing but the link"
    )


def _plain(change: PlannedChange) -> dict[str, object]:
    """Return the fields that differ from their defaults, and the kind."""
    plain = {name: value for name, value in change._asdict().items() if value not in (None, 0, False)}
    return {**plain, "kind": change.kind.value}


def _encode_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "mtime_ns": snapshot.mtime_ns,
        "files": {name: facts._asdict() for name, facts in snapshot.files.items()},
        "checkpoint_lines": [lines.as_object() for lines in snapshot.lines],
    }


def _snapshot(found: dict[str, Any]) -> Snapshot:
    return Snapshot(
        {name: FileFacts(**facts) for name, facts in found["files"].items()},
        found["mtime_ns"],
        tuple(OldLines.of_object(lines) for lines in found["checkpoint_lines"]),
    )


def snapshot(
    fs: WritableFilesystem, directory: str, log_dir: str | None = None, edits: Sequence[LineEdit] = ()
) -> Snapshot:
    """Return the state of the files of `directory` and of the checkpoint lines that `edits` concern.

    Raises OSError, and what `list_directory` and `read_old_lines` raise.
    """
    entries = [entry for entry in fs.list_directory(directory) if not entry.is_directory]
    files = {entry.path.rpartition("/")[2]: _facts(fs, entry) for entry in entries}
    lines = read_old_lines(fs, log_dir, edits) if edits and log_dir is not None else ()
    return Snapshot(files, fs.attributes(directory).mtime_ns, lines)


def facts_of(fs: WritableFilesystem, path: str) -> FileFacts | None:
    """Return the state of the file at `path`; None if there is none."""
    status = fs.status(path)
    return None if status is None else _facts(fs, status)


def first_difference(expected: Snapshot, found: Snapshot) -> str | None:
    """Return the first difference in words; None if there is none. Inodes and the directory's mtime do not count."""
    return difference_of_files(expected.files, found.files) or _difference_of_lines(expected.lines, found.lines)


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
            return f"its line in {was.kind.value} was changed since"
    return None


def _facts(fs: WritableFilesystem, status: FileStatus) -> FileFacts:
    attributes = fs.attributes(status.path)
    return FileFacts(status.size_bytes, attributes.mtime_ns, status.inode, attributes.mode)
