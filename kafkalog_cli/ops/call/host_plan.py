"""What a verb has to do on the disks of one host: planned there, for work that another process hands out.

See `spark/each_host.py`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from kafkalog_cli.disk.fs import Filesystem, RealFilesystem
from kafkalog_cli.disk.names import DirectoryKind
from kafkalog_cli.errors import KafkalogError, NothingSelected
from kafkalog_cli.log.log_dir import LogDirs
from kafkalog_cli.log.partition import directory_name
from kafkalog_cli.log.settings.source import SettingsSource
from kafkalog_cli.ops.call.observer import Note, Observer
from kafkalog_cli.ops.map_each import (
    Advance,
    Failed,
    Forks,
    Item,
    Items,
    Known,
    MapEach,
    Work,
    do_not_report,
    planned,
    run_item,
)
from kafkalog_cli.ops.selection import expand

Verb = Callable[[MapEach, Observer], object]
"""A verb with its paths and options, which only reads. It works by the `map_each` that it gets, and is pickled."""


class HostsRequest(NamedTuple):
    """A verb on the paths of each host. `metadata` is the value of --metadata, a path of each host.

    `hosts` is how many must have the paths; None: those of all brokers that a metadata log registers. `jobs`: tasks of
    a host at a time, 0: as many as it has cores.
    """

    verb: Verb
    paths: tuple[str, ...]
    metadata: str | None = None
    hosts: int | None = None
    jobs: int = 0


class Place(NamedTuple):
    """What two processes have in common that see the same directories at the same paths.

    A host's name would not do: containers, and processes with mounts of their own, see other disks.
    """

    boot_id: str
    mounts: int
    directories: tuple[tuple[int, int] | None, ...]

    @classmethod
    def of(cls, paths: Sequence[str]) -> Place:
        """Return the place of this process, for these paths."""
        boot_id = socket.gethostname()
        with suppress(OSError):  # not Linux
            boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        mounts = _identity("/proc/self/ns/mnt")
        return cls(boot_id, 0 if mounts is None else mounts[1], tuple(map(_identity, ("/", *paths))))


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return status.st_dev, status.st_ino


class Subject(NamedTuple):
    """What items of several hosts are about: partitions come first, log directories last."""

    rank: int
    topic: str
    number: int


class HostPlan(NamedTuple):
    """What a verb has to do on a host, in the order of the subjects.

    `run` returns the result of an item, and `failed` what stands for it after an error; the result of a Known item is
    there. `owners` are the brokers that own the log directories, `brokers` those that a metadata log registers, with
    their addresses. `error`: nothing was planned.
    """

    items: tuple[tuple[Subject, Item[Any] | Known[Any]], ...] = ()
    run: Callable[[Item[Any], Advance], Any] | None = None
    failed: Failed[Any, Any] | None = None
    notes: tuple[Note, ...] = ()
    owners: frozenset[int] = frozenset()
    brokers: tuple[tuple[int, str], ...] = ()
    error: KafkalogError | None = None


def plan_on_host(verb: Verb, paths: Sequence[str], metadata: str | None = None) -> HostPlan:
    """Return what a verb has to do at the paths on this host.

    Paths that do not exist, or have no logs, are an error of the host only if all are so.
    """
    fs = RealFilesystem()
    there: list[str] = []
    errors: list[KafkalogError] = []
    for path in paths:
        try:
            there += expand(fs, [path])
        except KafkalogError as error:
            errors.append(error)
    if not there:
        return HostPlan(error=errors[0])
    observer, captured = _Notes(), _Captured()
    try:
        verb(captured, observer)
        items = [item for item in captured.items if not _is_empty(item)]
        failed = list(filter(None, map(_error, items)))
        if items and len(failed) == len(items):  # such as the directory on which no disk is mounted
            return HostPlan(error=failed[0])
        owners, brokers = _brokers(fs, there, [path for item in items if (path := _path(item))], metadata)
    except (KafkalogError, OSError) as error:
        return HostPlan(error=error if isinstance(error, KafkalogError) else KafkalogError(reason=str(error)))
    planned = sorted(((_subject(item), item) for item in items), key=lambda pair: pair[0])
    return HostPlan(tuple(planned), captured.run, captured.failed, tuple(observer.notes), owners, brokers)


class _Notes(Observer):
    """Keeps the notes: the process that hands out the work reports them."""

    def report(self, note: Note) -> None:
        self.notes.append(note)


class _Captured:
    """A `map_each` that lists the items of a verb, and works on none."""

    def __init__(self) -> None:
        self.items: list[Item[Any] | Known[Any]] = []
        self.run: Callable[[Item[Any], Advance], Any] | None = None
        self.failed: Failed[Any, Any] | None = None

    def __call__(  # noqa: PLR0913
        self,
        items: Items[Any, Any],
        work: Work[Any, Any],
        *,
        jobs: int = 1,
        name: str = "",
        advance: Advance = do_not_report,
        failed: Failed[Any, Any] | None = None,
        forks: Forks = Forks.NONE,
        fs: Filesystem | None = None,
    ) -> Generator[Any, None, None]:
        """See MapEach."""
        del jobs, name, advance, forks, fs
        self.items += planned(items)
        self.run, self.failed = partial(run_item, work, failed), failed
        yield from ()


def _error(item: Item[Any] | Known[Any]) -> KafkalogError | None:
    return getattr(item.result, "error", None) if isinstance(item, Known) else None


def _is_empty(item: Item[Any] | Known[Any]) -> bool:
    """Whether the item only says that the selection takes nothing here: another host may have it."""
    return isinstance(_error(item), NothingSelected)


def _path(item: Item[Any] | Known[Any]) -> str:
    return item.paths[0] if isinstance(item, Item) else str(getattr(item.result, "path", ""))


def _subject(item: Item[Any] | Known[Any]) -> Subject:
    name = directory_name(_path(item))
    if name.kind is not DirectoryKind.PARTITION or (isinstance(item, Known) and not _is_of_partition(item)):
        return Subject(2, "", 0) if isinstance(item, Known) else Subject(1, name.name, 0)
    return Subject(0, name.shown_topic, name.shown_partition)


def _is_of_partition(item: Known[Any]) -> bool:
    result = getattr(item.result, "result", None)
    return result is None or getattr(result, "topic", None) is not None


def _brokers(
    fs: Filesystem, given: Sequence[str], planned: Sequence[str], metadata: str | None
) -> tuple[frozenset[int], tuple[tuple[int, str], ...]]:
    """Return the brokers that own the log directories of paths, and all that their metadata logs register."""
    above, owners, brokers = LogDirs(fs), set[int](), dict[int, str]()
    log_dirs = dict.fromkeys(filter(None, [*given, *map(above.path_above, planned)]))
    settings = SettingsSource(fs, {}, None, metadata_path=metadata, log_dirs=[*log_dirs])
    for log_dir in log_dirs:
        owner = settings.broker_id(log_dir)
        if owner is None:
            continue
        owners.add(owner)
        state = settings.metadata(log_dir)
        if state is not None:
            listeners = state.registry.listeners
            brokers |= {one: ", ".join({at.host: None for at in listeners.get(one, ())}) for one in state.brokers}
    return frozenset(owners), tuple(brokers.items())
