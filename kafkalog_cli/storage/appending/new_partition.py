"""A partition directory made from nothing: an empty segment at offset 0, as a broker makes it, and the topic's id."""

from __future__ import annotations

from contextlib import suppress

from kafkalog_cli.errors import PathNotFound
from kafkalog_cli.format import partition_metadata
from kafkalog_cli.format.partition_metadata import PartitionMetadata
from kafkalog_cli.storage.durable import not_changed, sync, sync_directory, try_to_remove
from kafkalog_cli.storage.fs import WritableFilesystem
from kafkalog_cli.storage.names import OWN_DIRECTORY, FileKind, segment_file_name

_EMPTY = (
    FileKind.LEADER_EPOCH_CHECKPOINT.value,
    *(segment_file_name(0, kind) for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)),
)


def make_partition(fs: WritableFilesystem, path: str, topic_id: str | None, now_ms: int) -> None:
    """Make the directory at `now_ms`, with owner, group and mode of the one that it lies in; it is on the disk then.

    A crash leaves what a broker takes for an empty partition. Raises NotChanged, NoSpace.
    """
    try:
        parent = path.rpartition("/")[0] or "/"
        fs.make_directory(path)
        try:
            attributes = fs.attributes(parent)
            fs.set_attributes(path, attributes._replace(xattrs=()))
            of_files = attributes._replace(mode=attributes.mode & 0o666, xattrs=(), mtime_ns=now_ms * 1_000_000)
            contents = dict.fromkeys(_EMPTY, b"")
            if topic_id is not None:  # first: without it a broker sets the directory aside
                metadata = partition_metadata.encode(PartitionMetadata(partition_metadata.VERSION, topic_id))
                contents = {FileKind.PARTITION_METADATA.value: metadata, **contents}
            for name, data in contents.items():
                with fs.create(f"{path}/{name}", of_files) as file:
                    file.write(0, data)
                    fs.set_attributes(f"{path}/{name}", of_files)
                    sync(file)
            sync_directory(fs, path)
            sync_directory(fs, parent)
        except BaseException:
            remove_partition(fs, path)
            raise
    except OSError as error:
        raise not_changed(path, error) from error


def remove_partition(fs: WritableFilesystem, path: str) -> None:
    """Take such a directory away again, while an error is on its way; what else is in it keeps it there."""
    try_to_remove(fs, f"{path}/{OWN_DIRECTORY}/lock")
    with suppress(OSError):
        fs.remove_directory(f"{path}/{OWN_DIRECTORY}")
    with suppress(OSError, PathNotFound):
        if not any(entry.is_directory for entry in fs.list_directory(path)):
            for name in (FileKind.PARTITION_METADATA.value, *_EMPTY):
                try_to_remove(fs, f"{path}/{name}")
            fs.remove_directory(path)
            sync_directory(fs, path.rpartition("/")[0] or "/")
