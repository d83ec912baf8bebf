"""Copies whole log directories without their data, into a directory that has its name only when it is complete."""

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from kafkalog_cli.change.removal import try_to_remove_directory
from kafkalog_cli.disk.directory_contents import check_layout
from kafkalog_cli.disk.durable import sync_directory
from kafkalog_cli.disk.fs import FileStatus, Filesystem, WritableFilesystem
from kafkalog_cli.disk.named_places import check_new_directory
from kafkalog_cli.disk.names import ROOT_KINDS, DirectoryKind, FileKind, classify_directory, classify_file
from kafkalog_cli.errors import Refused, UnsupportedFormat, UsageError, of_the_system, shell_word
from kafkalog_cli.format.limits import DEFAULT_LIMITS
from kafkalog_cli.log.partition import partitions_in
from kafkalog_cli.ops.move.metadump.files import COPIED_KINDS, LOG_KINDS, Counts, FileCopier
from kafkalog_cli.ops.move.metadump.internal_records import InternalRecords, Pseudonyms
from kafkalog_cli.ops.move.same_place import is_of_a_broker
from kafkalog_cli.results import FLAT, Count, Hidden, PathName, result

PARTIAL = ".partial"
"""Suffix of the directory until it is complete."""

_PARTITIONS = frozenset({DirectoryKind.PARTITION, DirectoryKind.DELETE, DirectoryKind.FUTURE, DirectoryKind.STRAY})
_LEFT_OUT = frozenset({FileKind.LOCK})


class _Source(NamedTuple):
    """A file to copy: its path, its path below the copy, its kind, and the topic of its directory."""

    path: str
    new_name: str
    kind: FileKind
    topic: str | None
    size_bytes: int


@result("kafkalog.metadump/1")
@dataclass(frozen=True, slots=True)
class Metadump:
    """A copy of log directories without their data.

    `copies` are the log directories in the copy.
    """

    path: Annotated[PathName, "the copy"]
    log_dirs: Annotated[tuple[PathName, ...], "the directories that were copied"]
    names_hashed: Annotated[bool, "whether names of topics, groups and transactional ids were replaced"]
    partitions: Annotated[Count, "their directories"]
    counts: Annotated[Counts, FLAT]
    left_out: Annotated[tuple[PathName, ...], "files and directories that were not copied"]
    copies: Hidden[tuple[str, ...]]


def metadump(  # noqa: PLR0913
    fs: WritableFilesystem,
    log_dirs: Sequence[str],
    out: str,
    *,
    hash_names: bool = False,
    begin: Callable[[int], None] = lambda _: None,
    report: Callable[[int, str], None] = lambda *_: None,
) -> Metadump:
    """Copy log directories to the new directory `out`; several become directories in it. The sources are only read.

    `begin` gets the number of bytes, and `report` each piece with its path. Raises UsageError, Refused if `out` exists
    or would be in a log directory, UnsupportedFormat for Kafka 0.7, and what `partitions_in` raises. Raises NoSpace and
    other errors of the disk after the incomplete copy was removed.
    """
    pseudonyms = Pseudonyms(secrets.token_bytes(32), hashes_names=hash_names)
    internal = InternalRecords(pseudonyms)
    out = out.rstrip("/") or "/"
    _check_out(fs, out, log_dirs)
    left_out: list[str] = []
    sources, directories = _plan(fs, log_dirs, internal, left_out)
    begin(sum(source.size_bytes for source in sources))
    copier = FileCopier(fs, pseudonyms, internal, DEFAULT_LIMITS, report)
    staged = out + PARTIAL
    fs.make_directory(staged)
    try:
        with fs.hold_directory(staged):  # writes stay in this directory even if another gets its name
            _fill(fs, staged, sources, directories, copier)
        fs.rename(staged, out)
    except BaseException as error:
        try_to_remove_directory(fs, staged)
        if isinstance(error, OSError):
            raise of_the_system(out, error) from error
        raise
    sync_directory(fs, os.path.dirname(os.path.abspath(out)))  # noqa: PTH100, PTH120 - links are not followed
    partitions = sum(1 for name in directories if _is_partition(name))
    copies = tuple(os.path.join(out, name).rstrip("/") for name in _names(log_dirs))  # noqa: PTH118
    return Metadump(out, tuple(log_dirs), hash_names, partitions, copier.counts, tuple(left_out), copies)


def _fill(
    fs: WritableFilesystem, staged: str, sources: Sequence[_Source], directories: Sequence[str], copier: FileCopier
) -> None:
    for name in directories:
        fs.make_directory(f"{staged}/{name}")
    for source in sorted(sources, key=_log_before_index):
        try:
            copier.copy(source.path, f"{staged}/{source.new_name}", source.kind, source.topic)
        except EOFError as error:
            reason = "it became shorter while it was read: stop the broker, or copy its directory first"
            raise Refused(path=source.path, reason=reason) from error
    for name in reversed(directories):
        sync_directory(fs, f"{staged}/{name}")
    sync_directory(fs, staged)


def _log_before_index(source: _Source) -> tuple[str, bool]:
    return source.path.rpartition(".")[0], source.kind not in LOG_KINDS


def _plan(
    fs: Filesystem, log_dirs: Sequence[str], internal: InternalRecords, left_out: list[str]
) -> tuple[list[_Source], list[str]]:
    """Return the files to copy, and the directories to make; what is not copied goes into `left_out`."""
    sources: list[_Source] = []
    directories: list[str] = []
    for path, below in zip(log_dirs, _names(log_dirs), strict=True):
        partitions_in(fs, path)
        if below:
            directories.append(below.rstrip("/"))
        for entry in fs.list_directory(path):
            name = entry.name
            directory = classify_directory(name)
            if not entry.is_directory:
                _add(entry, below + name, None, sources, left_out, is_root=True)
            elif directory.kind not in _PARTITIONS or directory.topic is None:
                left_out.append(entry.path)
            else:
                files = fs.list_directory(entry.path)
                check_layout(fs, entry.path, files)
                new_name = below + internal.topic_name(directory.topic) + name[len(directory.topic) :]
                directories.append(new_name)
                for file in files:
                    _add(file, f"{new_name}/{file.name}", directory.topic, sources, left_out, is_root=False)
    return sources, directories


def _add(  # noqa: PLR0913
    entry: FileStatus, new_name: str, topic: str | None, sources: list[_Source], left_out: list[str], *, is_root: bool
) -> None:
    kind = classify_file(entry.name).kind
    if kind is FileKind.SEVEN_LOG:
        raise UnsupportedFormat(path=entry.path, reason="metadump does not copy logs of Kafka 0.7")
    if entry.is_directory or not entry.is_file or kind not in COPIED_KINDS or is_root != (kind in ROOT_KINDS):
        if kind not in _LEFT_OUT:
            left_out.append(entry.path)
        return
    sources.append(_Source(entry.path, new_name, kind, topic, entry.size_bytes))


def _names(log_dirs: Sequence[str]) -> Iterator[str]:
    """Yield the directory below the copy for each log directory: none for a single one. Raises UsageError."""
    if len(log_dirs) == 1:
        yield ""
        return
    taken: set[str] = set()
    for path in log_dirs:
        name = os.path.abspath(path).rpartition("/")[2]  # noqa: PTH100
        if name in taken or not name:
            raise UsageError(reason=f"two log directories are named {name}: copy them one after the other")
        taken.add(name)
        yield f"{name}/"


def _check_out(fs: WritableFilesystem, out: str, log_dirs: Sequence[str]) -> None:
    if not log_dirs:
        raise UsageError(reason="metadump needs a LOG_DIR and OUT; see kafkalog metadump --help")
    if fs.status(out) is not None:
        raise Refused(path=out, reason="it already exists; metadump makes a new directory")
    if fs.status(out + PARTIAL) is not None:
        reason = f"a metadump that was cut off has left it; nothing in it is needed: rm -r {shell_word(out + PARTIAL)}"
        raise Refused(path=out + PARTIAL, reason=reason)
    check_new_directory(fs, out)
    directory = os.path.dirname(os.path.realpath(out))  # noqa: PTH120
    parents = fs.status(directory)
    if parents is None or not parents.is_directory:
        raise UsageError(reason=f"there is no directory {directory} for the copy")
    sources = {os.path.realpath(path) for path in log_dirs}
    while directory != "/":
        if directory in sources or is_of_a_broker(fs, directory):
            raise Refused(path=out, reason=f"it would be in {directory}, which is a broker's; give another place")
        directory = os.path.dirname(directory)  # noqa: PTH120


def _is_partition(name: str) -> bool:
    return classify_directory(name.rpartition("/")[2]).topic is not None
