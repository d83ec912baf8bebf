"""Creates a partition directory as a broker does, with an empty segment and the topic's id, and removes it."""

import hashlib
from contextlib import suppress
from typing import NamedTuple

from kafkalog_cli.change.manifest import Manifest, RunState, difference_of_files, read_manifest, snapshot
from kafkalog_cli.change.removal import try_to_remove_directory
from kafkalog_cli.change.runs import run_ids
from kafkalog_cli.disk.durable import (
    attributes_in,
    is_of_a_sync,
    not_changed,
    remove_if_there,
    replace_file,
    sync,
    sync_directory,
    try_to_remove,
)
from kafkalog_cli.disk.fs import Filesystem, WritableFilesystem, read_all
from kafkalog_cli.disk.lock import PARTITION_LOCK, LockPolicy, lock_partition
from kafkalog_cli.disk.names import (
    OWN_DIRECTORY,
    DirectoryKind,
    FileKind,
    classify_directory,
    marked_directory_name,
    segment_file_name,
)
from kafkalog_cli.errors import KafkalogError, Refused
from kafkalog_cli.format import partition_metadata
from kafkalog_cli.format.partition_metadata import PartitionMetadata

_METADATA = FileKind.PARTITION_METADATA.value
_KINDS = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)


class Made(NamedTuple):
    """The result of `make_alone`: the directory and all in it, or only `files` in a directory that was there."""

    is_directory: bool
    files: tuple[str, ...]


def is_unfinished(fs: Filesystem, path: str, base_offset: int = 0) -> bool:
    """Whether a directory has no log, and only files that an interrupted `make_partition` leaves.

    A broker or an operator may have left them too. Only the topic id has bytes then, and it is readable. Other contents
    are of a log whose segments are lost.
    """
    entries = {entry.path.rpartition("/")[2]: entry for entry in fs.list_directory(path)}
    own, topic_id = entries.pop(OWN_DIRECTORY, None), entries.pop(_METADATA, None)
    if own is not None and not own.is_directory:
        return False
    if topic_id is not None and (not topic_id.is_file or _is_damaged(fs, topic_id.path)):
        return False
    made = set(_files(base_offset)) - {segment_file_name(base_offset, FileKind.LOG)}
    return entries.keys() <= made and all(one.is_file and not one.size_bytes for one in entries.values())


def _is_damaged(fs: Filesystem, path: str) -> bool:
    try:
        return partition_metadata.decode(read_all(fs, path))[0] is None
    except (OSError, KafkalogError):
        return True


def _files(base_offset: int) -> tuple[str, ...]:
    """Return the names of the files that are created empty."""
    return FileKind.LEADER_EPOCH_CHECKPOINT.value, *(segment_file_name(base_offset, kind) for kind in _KINDS)


def make_directory_of_partition(fs: WritableFilesystem, path: str) -> None:
    """Make an empty directory with owner, group and mode of its parent, the log directory.

    Raises NotChanged, NoSpace, and FileExistsError if another run has made it meanwhile.
    """
    try:
        fs.make_directory(path, fs.attributes(path.rpartition("/")[0] or "/")._replace(xattrs=()))
    except FileExistsError:
        raise
    except OSError as error:
        raise not_changed(path, error) from error


def make_partition(  # noqa: PLR0913
    fs: WritableFilesystem,
    path: str,
    topic_id: str | None,
    now_ms: int,
    base_offset: int = 0,
    *,
    is_new: bool = False,
) -> Made:
    """Create a partition directory and sync it; owner, group and mode are those of its parent directory.

    Its first offset is `base_offset`; its files have the mtime `now_ms`. In a directory that `is_unfinished` only the
    missing files are made; the others stay as they are. `is_new`: the caller has just made the directory. A crash
    leaves an unfinished directory, or a directory that a broker accepts as an empty partition. Raises Refused for any
    other directory, NotChanged, NoSpace.
    """
    files: list[str] = []
    try:
        parent = path.rpartition("/")[0] or "/"
        if fs.status(path) is None:
            make_directory_of_partition(fs, path)
            is_new = True
        elif not is_unfinished(fs, path, base_offset):
            raise Refused(path=path, reason="it already exists: another run has made it; append to it as it is")
        try:
            of_files = attributes_in(fs, parent)._replace(mtime_ns=now_ms * 1_000_000)
            # This file and its name are synced first: without it a broker sets the directory aside.
            if topic_id is not None and fs.status(f"{path}/{_METADATA}") is None:
                data = partition_metadata.encode(PartitionMetadata(partition_metadata.VERSION, topic_id))
                files.append(_METADATA)
                beside = _new_topic_id(path) if fs.status(f"{path}/{OWN_DIRECTORY}") is not None else None
                replace_file(fs, f"{path}/{_METADATA}", data, of_files, temporary=beside, keep_mtime=True)
            for name in _files(base_offset):
                if fs.status(f"{path}/{name}") is None:
                    files.append(name)
                    with fs.create(f"{path}/{name}", of_files) as file:
                        fs.set_attributes(f"{path}/{name}", of_files)
                        sync(file)
            sync_directory(fs, path)
            sync_directory(fs, parent)
        except BaseException as error:
            remove_partition(fs, path, error, Made(is_new, tuple(files)))
            raise
    except OSError as error:
        raise not_changed(path, error) from error
    return Made(is_new, tuple(files))


def _new_topic_id(path: str) -> str:
    """The temporary file of `partition.metadata`, which never is incomplete."""
    return f"{path}/{OWN_DIRECTORY}/{_METADATA}"


def make_alone(fs: WritableFilesystem, path: str, topic_id: str | None, now_ms: int, policy: LockPolicy) -> Made:
    """Make a partition under its lock, so that no other run makes it at the same time.

    Raises Locked, Refused, NotChanged, NoSpace, Unreadable.
    """
    is_new = False
    if fs.status(path) is None:
        with suppress(FileExistsError):
            make_directory_of_partition(fs, path)
            is_new = True
    try:
        lock = lock_partition(fs, path, policy)
    except BaseException:
        # Nothing is in them, unless another run is at work there.
        for directory in (f"{path}/{OWN_DIRECTORY}", path) if is_new else ():
            with suppress(OSError):
                fs.remove_directory(directory)
        raise
    with lock:
        return make_partition(fs, path, topic_id, now_ms, is_new=is_new)


def remove_partition(fs: WritableFilesystem, path: str, error: BaseException, made: Made) -> None:
    """Remove a directory that `make_partition` created, or only the files that it made there, after `error`.

    Records, a run or other files in it keep the directory. The lock goes last: until then no other run appends.
    """
    own = f"{path}/{OWN_DIRECTORY}"
    with suppress(OSError, KafkalogError):
        if _is_in_use(fs, path):
            return
        for name in made.files:
            try_to_remove(fs, f"{path}/{name}")
        try_to_remove(fs, _new_topic_id(path))
        if not made.is_directory:
            sync_directory(fs, path)
            return
        if fs.status(own) is not None:
            try_to_remove(fs, f"{own}/{PARTITION_LOCK}")
            fs.remove_directory(own)
        fs.remove_directory(path)
        if not is_of_a_sync(error):
            sync_directory(fs, path.rpartition("/")[0] or "/")


def _is_in_use(fs: Filesystem, path: str) -> bool:
    """Whether a partition has records, a run, or a directory that is not kafkalog's."""
    entries = list(fs.list_directory(path))
    own = [entry.path for entry in entries if entry.is_directory and entry.path.endswith(f"/{OWN_DIRECTORY}")]
    kept = [one.path.rpartition("/")[2] for directory in own for one in fs.list_directory(directory)]
    has_records = any(entry.size_bytes and entry.path.endswith(FileKind.LOG.value) for entry in entries)
    has_others = sum(entry.is_directory for entry in entries) > len(own)
    return has_records or has_others or not set(kept) <= {PARTITION_LOCK, _METADATA}


def retire_partition(fs: WritableFilesystem, path: str, manifest: Manifest) -> None:
    """Remove the directory or the files that an undone run made.

    Does nothing if files have changed since, or if another run is not undone.

    A directory whose logs had bytes before the run was not created by it, whatever its manifest says.

    The directory is first renamed to a `-delete` name, which a broker removes when it starts. So a crash leaves the
    whole directory under one of the two names, or a rest that a broker removes. Raises OSError, SyncFailed.
    """
    before, found, made = manifest.before.files, snapshot(fs, path).files, manifest.run.makes_files
    removed = {name for name in made if name not in found}  # by an undo that was interrupted
    if difference_of_files({name: facts for name, facts in before.items() if name not in removed}, found) is not None:
        return
    if any(name.endswith(FileKind.LOG.value) and facts.size_bytes for name, facts in before.items()):
        return
    for run_id in run_ids(fs, path):
        other = read_manifest(fs, path, run_id)
        if other is not None and other.state is not RunState.UNDONE:
            return
    if not manifest.run.makes_directory:
        _remove_made(fs, path, made)
        return
    parent, _, name = path.rpartition("/")
    directory = classify_directory(name)
    assert directory.topic is not None
    assert directory.partition is not None
    unique_id = hashlib.sha256(manifest.run.run_id.encode()).hexdigest()[:32]
    gone = marked_directory_name(directory.topic, directory.partition, DirectoryKind.DELETE, unique_id)
    fs.rename(path, f"{parent}/{gone}")
    sync_directory(fs, parent or "/")
    try_to_remove_directory(fs, f"{parent}/{gone}")


def _remove_made(fs: WritableFilesystem, path: str, made: tuple[str, ...]) -> None:
    """Remove the files of an empty partition that a run has made, the last first. Raises OSError, SyncFailed."""
    attributes = fs.attributes(path)
    for name in reversed(made):
        if name in {_METADATA, *_files(0)}:
            remove_if_there(fs, f"{path}/{name}")
    fs.set_attributes(path, attributes)
    sync_directory(fs, path)
