"""Creates a partition directory as a broker does, with an empty segment and the topic's id, and removes it."""

import hashlib
from contextlib import suppress

from kafkalog_cli.change.changes import entries_below
from kafkalog_cli.change.manifest import Manifest, RunState, difference_of_files, read_manifest, snapshot
from kafkalog_cli.change.runs import run_ids
from kafkalog_cli.disk.durable import attributes_in, is_of_a_sync, not_changed, sync, sync_directory, try_to_remove
from kafkalog_cli.disk.fs import Filesystem, WritableFilesystem
from kafkalog_cli.disk.lock import PARTITION_LOCK, LockPolicy, lock_partition
from kafkalog_cli.disk.names import (
    OWN_DIRECTORY,
    DirectoryKind,
    FileKind,
    classify_directory,
    marked_directory_name,
    segment_file_name,
)
from kafkalog_cli.errors import KafkalogError, PathNotFound, Refused
from kafkalog_cli.format import partition_metadata
from kafkalog_cli.format.partition_metadata import PartitionMetadata

_METADATA = FileKind.PARTITION_METADATA.value
_KINDS = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)


def is_unfinished(fs: Filesystem, path: str, base_offset: int = 0) -> bool:
    """Whether a directory has no log, and only files that an interrupted `make_partition` leaves.

    Only the topic id has bytes then. Other contents are of a log whose segments are lost.
    """
    entries = {entry.path.rpartition("/")[2]: entry for entry in fs.list_directory(path)}
    log = segment_file_name(base_offset, FileKind.LOG)
    is_ours = entries.keys() <= {_METADATA, OWN_DIRECTORY, *_files(base_offset)} and log not in entries
    return is_ours and not any(one.size_bytes for name, one in entries.items() if one.is_file and name != _METADATA)


def _files(base_offset: int) -> tuple[str, ...]:
    """Return the names of the files that are created empty."""
    return FileKind.LEADER_EPOCH_CHECKPOINT.value, *(segment_file_name(base_offset, kind) for kind in _KINDS)


def make_partition(fs: WritableFilesystem, path: str, topic_id: str | None, now_ms: int, base_offset: int = 0) -> None:
    """Create a partition directory and sync it; owner, group and mode are those of its parent directory.

    Its first offset is `base_offset`; its files have the mtime `now_ms`. A directory that `is_unfinished` is
    completed. A crash leaves an unfinished directory, or a directory that a broker accepts as an empty partition.
    Raises Refused for any other directory, NotChanged, NoSpace.
    """
    try:
        parent = path.rpartition("/")[0] or "/"
        if fs.status(path) is None:
            fs.make_directory(path)
        elif not is_unfinished(fs, path, base_offset):
            raise Refused(path=path, reason="it already exists: another run has made it; append to it as it is")
        try:
            attributes = fs.attributes(parent)
            fs.set_attributes(path, attributes._replace(xattrs=()))
            of_files = attributes_in(fs, parent)._replace(mtime_ns=now_ms * 1_000_000)
            contents = dict.fromkeys(_files(base_offset), b"")
            # This file and its name are synced first: without it a broker sets the directory aside.
            if topic_id is not None:
                metadata = partition_metadata.encode(PartitionMetadata(partition_metadata.VERSION, topic_id))
                contents = {_METADATA: metadata, **contents}
            for name, data in contents.items():
                is_there = fs.status(f"{path}/{name}") is not None
                with fs.open_write(f"{path}/{name}") if is_there else fs.create(f"{path}/{name}", of_files) as file:
                    if is_there:
                        file.truncate(0)
                    file.write(0, data)
                    fs.set_attributes(f"{path}/{name}", of_files)
                    sync(file)
                if data:
                    sync_directory(fs, path)
            sync_directory(fs, path)
            sync_directory(fs, parent)
        except BaseException as error:
            remove_partition(fs, path, error, base_offset)
            raise
    except OSError as error:
        raise not_changed(path, error) from error


def make_alone(fs: WritableFilesystem, path: str, topic_id: str | None, now_ms: int, policy: LockPolicy) -> None:
    """Make a partition under its lock, so that no other run makes it at the same time.

    Raises Locked, Refused, NotChanged, NoSpace, Unreadable.
    """
    try:
        if fs.status(path) is None:
            with suppress(FileExistsError):
                fs.make_directory(path)
    except OSError as error:
        raise not_changed(path, error) from error
    try:
        lock = lock_partition(fs, path, policy)
    except BaseException:
        for directory in (f"{path}/{OWN_DIRECTORY}", path):  # nothing is in them, unless another run is at work there
            with suppress(OSError):
                fs.remove_directory(directory)
        raise
    with lock:
        make_partition(fs, path, topic_id, now_ms)


def remove_partition(fs: WritableFilesystem, path: str, error: BaseException, base_offset: int = 0) -> None:
    """Remove a directory that `make_partition` created, after `error`.

    Records, a run or other files in it keep the directory. The lock goes last: until then no other run appends.
    """
    own = f"{path}/{OWN_DIRECTORY}"
    with suppress(OSError, KafkalogError):
        if _is_in_use(fs, path):
            return
        for name in (_METADATA, *_files(base_offset)):
            try_to_remove(fs, f"{path}/{name}")
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
    return has_records or not set(kept) <= {PARTITION_LOCK} or sum(entry.is_directory for entry in entries) > len(own)


def retire_partition(fs: WritableFilesystem, path: str, manifest: Manifest) -> None:
    """Remove the directory that an undone run created, unless its files have changed or another run is not undone.

    A directory whose logs had bytes before the run was not created by it, whatever its manifest says.

    The directory is first renamed to a `-delete` name, which a broker removes when it starts. So a crash leaves the
    whole directory under one of the two names, or a rest that a broker removes. Raises OSError, SyncFailed.
    """
    before = manifest.before.files
    if difference_of_files(before, snapshot(fs, path).files) is not None:
        return
    if any(name.endswith(FileKind.LOG.value) and facts.size_bytes for name, facts in before.items()):
        return
    for run_id in run_ids(fs, path):
        other = read_manifest(fs, path, run_id)
        if other is not None and other.state is not RunState.UNDONE:
            return
    parent, _, name = path.rpartition("/")
    directory = classify_directory(name)
    assert directory.topic is not None
    assert directory.partition is not None
    unique_id = hashlib.sha256(manifest.run.run_id.encode()).hexdigest()[:32]
    gone = marked_directory_name(directory.topic, directory.partition, DirectoryKind.DELETE, unique_id)
    fs.rename(path, f"{parent}/{gone}")
    sync_directory(fs, parent or "/")
    remove_all(fs, f"{parent}/{gone}")


def remove_all(fs: WritableFilesystem, path: str) -> None:
    """Remove a directory with a `-delete` name as far as possible; a broker removes the rest."""
    status = fs.status(path)
    if status is None or status.is_symlink:
        return
    with suppress(OSError, PathNotFound, Refused):
        for entry, is_directory in entries_below(fs, path):
            if is_directory:
                with suppress(OSError):
                    fs.remove_directory(entry)
            else:
                try_to_remove(fs, entry)
        fs.remove_directory(path)
