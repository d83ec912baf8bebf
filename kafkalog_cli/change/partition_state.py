"""The present state of a partition's files, as manifests record and compare it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkalog_cli.change.manifest import FileFacts, Snapshot
from kafkalog_cli.disk.fs import FileStatus, WritableFilesystem
from kafkalog_cli.log.checkpoints import LineEdit, OldLines, read_old_lines


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
