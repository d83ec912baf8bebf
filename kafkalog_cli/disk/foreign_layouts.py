"""Directories of other programs that look like Kafka's, recognized by the names and first bytes of their files."""

from __future__ import annotations

import re

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import KafkalogError, UnsupportedFormat

REDPANDA, BOOKKEEPER = "Redpanda", "BookKeeper (Pulsar)"

_REDPANDA_FILE = re.compile(r"[0-9]+-[0-9]+-v[0-9]+\.(log|base_index|compaction_index)")
"""Base offset, term, and version of the format."""
_BOOKKEEPER_LOG = re.compile(r"[0-9a-f]{1,16}\.log")
_BOOKKEEPER_MAGIC = b"BKLO"
"""The first bytes of an entry log. In a Kafka log they would mean an offset of 4.8e18."""


def foreign_layout(fs: Filesystem, directory: str) -> str | None:
    """Return the program whose files lie in `directory`; None if they may be Kafka's. Links are followed.

    Raises PathNotFound, NotKafkaLayout, Unreadable for the directory.
    """
    for entry in fs.list_directory(directory):
        name = entry.path.rpartition("/")[2]
        if entry.is_file and _REDPANDA_FILE.fullmatch(name):
            return REDPANDA
        if entry.is_file and _BOOKKEEPER_LOG.fullmatch(name) and _start(fs, entry.path) == _BOOKKEEPER_MAGIC:
            return BOOKKEEPER
    return None


def check_layout(fs: Filesystem, directory: str) -> None:
    """Raises UnsupportedFormat if the files belong to another known program, and what `foreign_layout` raises."""
    foreign = foreign_layout(fs, directory)
    if foreign is not None:
        raise UnsupportedFormat(path=directory, reason=f"these are files of {foreign}, not of Kafka")


def _start(fs: Filesystem, path: str) -> bytes:
    try:
        with fs.open_read(path) as file:
            data = bytearray(len(_BOOKKEEPER_MAGIC))
            return bytes(data[: file.read_into(0, memoryview(data))])
    except (KafkalogError, OSError):
        return b""
