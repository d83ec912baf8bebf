"""Chooses the partitions and files that a command works on: by paths, globs, topics and partition numbers."""

import fnmatch
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from kafkalog_cli.disk.directory_contents import holds_partition, looks_like_partition
from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.lock import log_dir_of
from kafkalog_cli.disk.names import DirectoryKind, DirectoryName, classify_directory
from kafkalog_cli.errors import (
    KafkalogError,
    NothingSelected,
    NotKafkaLayout,
    PathMisspelt,
    PathNotFound,
    UsageError,
    as_typed,
    did_you_mean,
)
from kafkalog_cli.log.log_dir import LogDirs
from kafkalog_cli.log.partition import Partition, PartitionPath, Takes, directory_name, open_partition, partitions_in

_NOT_SERVED = (DirectoryKind.DELETE, DirectoryKind.FUTURE, DirectoryKind.STRAY)
_GLOB = re.compile(r"[*?\[]")
_MOST_LISTED = 10
_MOST_COMPARED = 1000
"""Names beside a missing path that are compared with it."""
_RESEMBLES = 0.6


class Selection(NamedTuple):
    """Topics and partition numbers; empty: all. `topic_pattern` must match the whole topic name."""

    topics: frozenset[str] = frozenset()
    partitions: frozenset[int] = frozenset()
    topic_pattern: re.Pattern[str] | None = None

    @property
    def is_everything(self) -> bool:
        """Whether nothing was chosen, so that all partitions are selected."""
        return not self.topics and not self.partitions and self.topic_pattern is None

    @property
    def option_words(self) -> str:
        """The options of a command line that make this choice."""
        words = [f"--topic {as_typed(topic)}" for topic in sorted(self.topics)]
        words += [] if self.topic_pattern is None else [f"--topic-pattern {as_typed(self.topic_pattern.pattern)}"]
        return " ".join([*words, *(f"--partition {number}" for number in sorted(self.partitions))])

    @property
    def text(self) -> str:
        """A text that identifies the selection, equal in every process (unlike the order of a set)."""
        pattern = None if self.topic_pattern is None else self.topic_pattern.pattern
        import json  # few commands ask

        return json.dumps([sorted(self.topics), sorted(self.partitions), pattern])

    def takes(self, directory: DirectoryName) -> bool:
        """Whether the partition with this directory name is chosen."""
        if not self.takes_topic(directory.shown_topic):
            return False
        return not self.partitions or directory.partition in self.partitions

    def takes_topic(self, topic: str) -> bool:
        """Whether partitions of the topic are chosen."""
        if not self.topics and self.topic_pattern is None:
            return True
        by_pattern = self.topic_pattern is not None and self.topic_pattern.fullmatch(topic) is not None
        return topic in self.topics or by_pattern


def selection_of(
    topics: Iterable[str] | None, partitions: Iterable[int] | None, topic_pattern: str | None = None
) -> Selection:
    """Return the selection of these options. Raises UsageError."""
    try:
        pattern = None if topic_pattern is None else re.compile(topic_pattern)
    except re.error as error:
        raise UsageError(reason=f"--topic-pattern {topic_pattern}: {error}") from error
    numbers = () if partitions is None else partitions  # 0 is no list, and must not choose all
    return Selection(frozenset(topics or ()), frozenset(numbers), pattern)


def expand(fs: Filesystem, paths: list[str]) -> list[str]:
    """Replace globs in `paths` by their matches, in order. A path that exists is never treated as a glob.

    Raises PathNotFound for a missing path, NothingSelected for a glob without matches.
    """
    paths_found: list[str] = []
    for path in paths:
        if fs.status(path) is not None:
            paths_found.append(path)
        elif _GLOB.search(path):
            matches = sorted(_matches(fs, path))
            if not matches:
                raise NothingSelected(reason=f"{path} matches nothing")
            paths_found += matches
        else:
            raise _not_found(fs, path)
    return paths_found


def _not_found(fs: Filesystem, path: str) -> PathNotFound:
    """The error for a missing path. It names paths beside it that resemble it."""
    parent, slash, name = path.rstrip("/").rpartition("/")
    with suppress(KafkalogError, OSError):
        beside = [status.path.rpartition("/")[2] for status in fs.list_directory(parent + slash or ".")]
        question = did_you_mean(name, beside[:_MOST_COMPARED], parent + slash)
        if question:
            return PathMisspelt(path=path, question=question)
    return PathNotFound(path=path)


def select_partitions(
    fs: Filesystem, paths: list[str], selection: Selection, log_dirs: LogDirs | None = None
) -> list[Partition]:
    """Return the selected partitions in `paths` (partition or log directories), as given, then by topic and number.

    `log_dirs` are those that the partitions share; None: new ones.

    Raises PathNotFound, NotKafkaLayout, NothingSelected, Unreadable.
    """
    partitions = partitions_taken(fs, paths, selection.takes, log_dirs)
    if not partitions:
        raise nothing_selected(fs, paths, selection)
    return partitions


def select_served(fs: Filesystem, paths: list[str], selection: Selection) -> list[Partition]:
    """Return the selected partitions that a broker would serve to clients, and partitions whose own path is given.

    Directories of deleted topics, of copies for another log directory, and of stray partitions do not belong to the
    topic that they are named after. Raises PathNotFound, NotKafkaLayout, NothingSelected, Unreadable.
    """
    partitions = served_partitions(fs, paths, selection.takes)
    if not partitions:
        raise nothing_selected(fs, paths, selection)
    return partitions


def served_partitions(fs: Filesystem, paths: list[str], takes: Takes) -> list[Partition]:
    """Return the partitions of `select_served`, chosen by `takes`: perhaps none."""
    partitions = partitions_taken(fs, paths, takes)
    if all(partition.directory.kind not in _NOT_SERVED for partition in partitions):
        return partitions
    named = {in_its_log_dir(fs, path).rstrip("/") for path in expand(fs, paths)}
    return [
        partition for partition in partitions if partition.directory.kind not in _NOT_SERVED or partition.path in named
    ]


def nothing_selected(
    fs: Filesystem, paths: list[str], selection: Selection, what: str = "partition"
) -> NothingSelected:
    """The error where no partition under `paths` is chosen: it names the topics and partitions that are there."""
    names = ", ".join(paths)
    numbers_by_topic: dict[str, set[int]] = {}
    with suppress(KafkalogError, OSError):
        for path in expand(fs, paths):
            for partition in partition_paths(fs, path):
                if partition.directory.kind in _NOT_SERVED and selection.takes(partition.directory):
                    return NothingSelected(
                        reason=f"{partition.path} is a directory that a broker does not serve: of a deleted, moved or"
                        " stray partition. It is taken if its own path is given"
                    )
                topic, number = partition.directory.topic, partition.directory.partition
                if topic is not None and number is not None:
                    numbers_by_topic.setdefault(topic, set()).add(number)
    if selection.is_everything or not numbers_by_topic:
        return NothingSelected(reason=f"there is no {what} under {names}")
    chosen = [topic for topic in sorted(numbers_by_topic) if selection.takes_topic(topic)]
    if chosen:
        numbers = (f"{topic} ({_listed(sorted(numbers_by_topic[topic]))})" for topic in chosen[:_MOST_LISTED])
        there = f"Partitions here: {', '.join(numbers)}"
    else:
        topics = sorted(numbers_by_topic, key=partial(_distance, selection))
        there = f"Topics here: {_listed(topics)}"
    return NothingSelected(reason=f"no {what} matches {selection.option_words}. {there}")


def _listed(names: Sequence[object]) -> str:
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return f"{', '.join(map(str, names[:_MOST_LISTED]))}{more}"


def _distance(selection: Selection, topic: str) -> tuple[float, str]:
    """Topics that resemble a chosen topic come first, then by name."""
    from difflib import SequenceMatcher  # no other run needs it

    resemblance = max((SequenceMatcher(None, topic, wanted).ratio() for wanted in selection.topics), default=0)
    return (-resemblance if resemblance > _RESEMBLES else 0, topic)


def partitions_taken(
    fs: Filesystem, paths: list[str], takes: Takes, log_dirs: LogDirs | None = None
) -> list[Partition]:
    """Return the partitions under `paths` whose directory names `takes` selects; other partitions are not opened.

    A partition to which several paths lead comes once. Raises PathNotFound, NotKafkaLayout, Unreadable; NothingSelected
    for a glob without matches.
    """
    taken: dict[str, str] = {}
    for path in expand(fs, paths):
        for partition in partition_paths(fs, in_its_log_dir(fs, _directory(fs, path)), takes):
            if takes(partition.directory):
                taken.setdefault(os.path.realpath(partition.path), partition.path)
    log_dirs = log_dirs or LogDirs(fs)
    return [open_partition(fs, path, log_dirs) for path in taken.values()]


def in_its_log_dir(fs: Filesystem, path: str) -> str:
    """Return the path in its log directory of a partition to which `path` leads by a link, or by `..` after a link.

    The lock against brokers, the checkpoints and the topic's name are beside the directory itself, not beside the link.
    A partition's link in a log directory stays as it is. A partition that is given as `.` or `..` gets a path that ends
    in its name, which records of runs and printed commands need. Raises as `list_directory`, also for a link that is
    not followed.
    """
    real, typed = os.path.realpath(path), os.path.abspath(path)  # noqa: PTH100
    if real == typed or (log_dir_of(fs, path) is not None and ".." not in path.split("/")):
        is_nameless = path.rstrip("/").rpartition("/")[2] in (".", "..")
        return typed if is_nameless and looks_like_partition(fs.list_directory(path)) else path
    status, target = fs.status(path), fs.status(real)
    if status is None or target is None or not status.is_directory or status.inode != target.inode:
        return path
    is_partition = looks_like_partition(fs.list_directory(path.rstrip("/") or "/"))
    return real if is_partition and log_dir_of(fs, real) is not None else path


def log_dirs_of(fs: Filesystem, paths: list[str]) -> list[str]:
    """Return the log directories at `paths`; a partition's directory stands for its parent.

    Raises PathNotFound, NotKafkaLayout, Unreadable; NothingSelected for a glob without matches.
    """
    log_dirs: dict[str, None] = {}
    for path in expand(fs, paths):
        trimmed = in_its_log_dir(fs, _directory(fs, path)).rstrip("/") or "/"
        is_partition = any(partition.path == trimmed for partition in partition_paths(fs, trimmed))
        log_dirs[os.path.dirname(os.path.abspath(trimmed)) if is_partition else trimmed] = None  # noqa: PTH100, PTH120
    return list(log_dirs)


def select_files(fs: Filesystem, paths: list[str], selection: Selection) -> list[str]:
    """Return the segment files under `paths`: files as given, and the segments of directories by base offset.

    Raises PathNotFound, NotKafkaLayout, NothingSelected, Unreadable.
    """
    files: list[str] = []
    for path in expand(fs, paths):
        status = fs.status(path)
        if status is None or not status.is_directory:
            if selection.is_everything or selection.takes(directory_name(path.rpartition("/")[0] or ".")):
                files.append(path)
            continue
        for partition in partition_paths(fs, path):
            if selection.takes(partition.directory):
                files += [segment.log.path for segment in open_partition(fs, partition.path).segments]
    if not files:
        raise nothing_selected(fs, paths, selection, "segment")
    return files


def partition_paths(fs: Filesystem, path: str, takes: Takes | None = None) -> Iterator[PartitionPath]:
    """Yield `path` if it is a partition directory, else the partition directories in it that `takes` selects.

    Raises PathNotFound, NotKafkaLayout, Unreadable.
    """
    trimmed = path.rstrip("/") or "/"
    entries = fs.list_directory(trimmed)
    directory = directory_name(trimmed)
    holds_directories = any(
        entry.is_directory and classify_directory(entry.path.rpartition("/")[2]).topic is not None for entry in entries
    )
    is_named_so = directory.topic is not None and not holds_directories
    if looks_like_partition(entries) or (
        is_named_so and (holds_partition(fs, entries) or log_dir_of(fs, trimmed) is not None)
    ):
        yield PartitionPath(trimmed, directory)
    else:
        yield from partitions_in(fs, trimmed, takes, entries)


def _directory(fs: Filesystem, path: str) -> str:
    """Return `path` if it is not a file. Raises NotKafkaLayout, which names the directory that may be meant."""
    status = fs.status(path)
    if status is not None and not status.is_directory and not status.is_symlink:
        parent = path.rpartition("/")[0] or "."
        raise NotKafkaLayout(path=path, reason=f"is a file; this command takes whole directories, such as {parent}")
    return path


def _matches(fs: Filesystem, pattern: str) -> Iterator[str]:
    """Yield the paths that match a glob, component by component."""
    parent, _, last = pattern.rpartition("/")
    if not last:
        yield from _matches(fs, parent)
        return
    parents = [parent] if parent in ("", "/") or not _GLOB.search(parent) else list(_matches(fs, parent))
    if pattern.startswith("/") and not parent:
        parents = ["/"]
    for directory in parents:
        status = fs.status(directory or ".")
        if status is None or not status.is_directory:
            continue
        for entry in fs.list_directory(directory or "."):
            name = entry.path.rpartition("/")[2]
            hidden = name.startswith(".") and not last.startswith(".")
            if not hidden and fnmatch.fnmatchcase(name, last):
                yield name if not directory else f"{directory.rstrip('/')}/{name}"


def select_one(fs: Filesystem, path: str, selection: Selection) -> Partition:
    """Return the selected partition. Raises UsageError for several partitions, NothingSelected for none."""
    partitions = select_served(fs, [path], selection)
    if len(partitions) > 1:
        raise UsageError(reason=f"{path} holds {len(partitions)} partitions: choose one with --topic and --partition")
    return partitions[0]


def select_of_topics(fs: Filesystem, paths: list[str], selection: Selection) -> list[Partition]:
    """Return the selected partitions. Raises UsageError for a directory of several partitions without a topic.

    Raises also the exceptions of `select_served`.
    """
    partitions = select_served(fs, paths, selection)
    if not selection.topics:
        named = {in_its_log_dir(fs, path).rstrip("/") or "/" for path in expand(fs, paths)}
        others = [partition.path for partition in partitions if partition.path not in named]
        if len(others) > 1:
            directory = others[0].rpartition("/")[0] or "/"
            raise UsageError(reason=f"{directory} holds {len(others)} partitions: choose a topic with --topic")
    return partitions
