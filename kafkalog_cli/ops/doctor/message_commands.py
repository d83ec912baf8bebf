"""The commands of a page about a line of a broker's log, with the paths of the disk at hand."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kafkalog_cli.disk.names import DirectoryKind, place_outside
from kafkalog_cli.log.partition import PartitionPath
from kafkalog_cli.ops.doctor.broker_message import (
    BROKER_CONFIG,
    LOG_DIR,
    METADATA_DIR,
    OTHER_DIR,
    PARTITION,
    BrokerMessage,
)
from kafkalog_cli.ops.doctor.commands import NextCommand

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_PATH = re.compile(r"/[^\s,:;'\"()\[\]]+")
_WHOLE_DIRECTORY = ("verify", "recover", "ls")
"""Verbs that take a log directory where the partition is not known."""


@dataclass(frozen=True, slots=True)
class MessagePlaces:
    """The paths for the commands of a page; None for a path that is not known."""

    log_dir: str
    partition: PartitionPath | None = None
    other: str | None = None
    metadata: str | None = None
    broker_config: str | None = None

    @classmethod
    def of(
        cls,
        log_dir: str,
        directories: Iterable[PartitionPath],
        text: str,
        metadata: str | None = None,
        broker_config: str | None = None,
    ) -> MessagePlaces:
        """Return the paths for a text: its partition is the first directory of the log directory that it names."""
        by_name = {one.directory.name: one for one in directories if one.directory.kind is DirectoryKind.PARTITION}
        names = (word.rstrip(".") for word in _NAME.findall(text))
        partition = next((by_name[name] for name in names if name in by_name), None)
        return cls(log_dir, partition, _other(partition, text), metadata, broker_config)

    def about(self, directory: PartitionPath) -> MessagePlaces:
        """Return the places for another partition."""
        return MessagePlaces(self.log_dir, directory, None, self.metadata, self.broker_config)


def _other(partition: PartitionPath | None, text: str) -> str | None:
    """Return the path of a second directory of the partition that a text names; None if it names none."""
    if partition is None:
        return None
    paths = [path.rstrip("./") for path in _PATH.findall(text)]
    own = os.path.abspath(partition.path)  # noqa: PTH100 (links are not followed)
    twins = [path for path in paths if path.endswith(f"/{partition.directory.name}") and path != own]
    return twins[-1] if twins else None


def _copy_of(places: MessagePlaces) -> str | None:
    """Return a path for a copy of the partition."""
    return None if places.partition is None else place_outside(places.partition.path)


def commands_of_page(message: BrokerMessage, places: MessagePlaces) -> Iterator[NextCommand]:
    """Yield the commands of a page, without commands that need an unknown path."""
    for step in message.steps:
        argv = _with_places(shlex.split(step.command), places)
        if argv is not None:
            yield NextCommand(argv, step.why, 0)


def _with_places(words: list[str], places: MessagePlaces) -> tuple[str, ...] | None:
    """Return the words of a command with the known paths; None if a path is not known."""
    partition, verb = places.partition, words[1] if len(words) > 1 else ""
    if partition is None and PARTITION in words and verb in _WHOLE_DIRECTORY and "--against" not in words:
        words = [LOG_DIR if word == PARTITION else word for word in words]
    topic = None if partition is None else partition.directory.topic
    if "--topic" in words:
        if topic is None:
            return None
        words = [topic if words[at - 1] == "--topic" else word for at, word in enumerate(words)]
    values = {
        f"{OTHER_DIR}/orders-0": _copy_of(places) if words[0] == "cp" else places.other,
        OTHER_DIR: places.other if partition is None else None,
        PARTITION: None if partition is None else partition.path,
        METADATA_DIR: places.metadata,
        BROKER_CONFIG.split()[1]: places.broker_config,
        LOG_DIR: places.log_dir,
    }
    found = []
    for word in words:
        prefix = next((one for one in values if word == one or word.startswith(f"{one}/")), None)
        if prefix is None:
            found.append(word)
            continue
        value = values[prefix]
        if value is None:
            return None
        found.append(f"{value.rstrip('/')}{word.removeprefix(prefix)}")
    return tuple(found)
