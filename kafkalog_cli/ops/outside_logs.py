"""The check that output of a command does not go into a log directory."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kafkalog_cli.disk.directory_contents import looks_like_partition
from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.names import ROOT_KINDS, FileKind
from kafkalog_cli.errors import Refused
from kafkalog_cli.log.partition import Partition, directory_name

_TELLING = tuple(kind for kind in ROOT_KINDS if kind is not FileKind.LOCK)
"""Files that exist only in a log directory."""


def check_outside(fs: Filesystem, path: str, what: str, partitions: Sequence[Partition] = ()) -> None:
    """Raise Refused if `path` is in a log directory or a partition: a broker would find the output there."""
    directory = os.path.realpath(path)
    read = {os.path.realpath(one.path) for one in partitions}
    while directory != "/":
        if directory in read or _is_of_a_broker(fs, directory):
            raise Refused(path=path, reason=f"{what} would lie in {directory}, which is a broker's")
        directory = os.path.dirname(directory)  # noqa: PTH120


def _is_of_a_broker(fs: Filesystem, directory: str) -> bool:
    status = fs.status(directory)
    if status is None or not status.is_directory:
        return False
    if any(fs.status(f"{directory}/{kind.value}") is not None for kind in _TELLING):
        return True
    return directory_name(directory).topic is not None and looks_like_partition(fs.list_directory(directory))
