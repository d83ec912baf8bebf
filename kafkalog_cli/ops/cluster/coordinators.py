"""The topic of a coordinator in some log directories: the best copy of each partition, and the partition of an id."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TypeVar

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.names import (
    METADATA_TOPIC,
    DirectoryKind,
    DirectoryName,
    is_topic_name,
    partition_directory_name,
)
from kafkalog_cli.errors import DamagedLog, ExitCode, KafkalogError, NothingSelected, Unreadable
from kafkalog_cli.format.fault import unreadable
from kafkalog_cli.format.internal_topics.records import CoordinatorRecord
from kafkalog_cli.format.java_text import string_hash
from kafkalog_cli.log.log_dir import LogDirs
from kafkalog_cli.log.partition import Partition, open_partition, topic_id_on_disk
from kafkalog_cli.log.settings.cluster_metadata import ClusterMetadata
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.cluster.tables.cluster import furthest_metadata, metadata_logs
from kafkalog_cli.ops.cluster.tables.coordinator_log import CoordinatorEntry, coordinator_entries
from kafkalog_cli.ops.selection import (
    Selection,
    expand,
    in_its_log_dir,
    log_dirs_of,
    nothing_selected,
    partition_paths,
    partitions_taken,
)

_ReplayT = TypeVar("_ReplayT")
_ResultT = TypeVar("_ResultT")
_MIN_INT = -(1 << 31)
_MOST_DAMAGE = 10
"""Damaged places of a partition that are reported one by one."""
MOST_HELD_BYTES = 256 << 20
"""The most memory that the replays of a topic's partitions that are kept may take, by this estimate."""
_ENTRY_BYTES, _BYTES_EACH = 800, 12
"""Measured: an offset or a transactional id takes 1.0 KiB, a group 2.3 KiB, a list of numbers 10 times its size."""
_WAY_OUT = "`kafkalog dump-log` with --offsets-decoder or --transaction-log-decoder prints its records"
MOST_SORTED_ROWS = 20_000
"""Rows that are sorted at once; a row takes less than 1 KiB."""


def in_sorted_runs(
    results: Iterable[_ResultT], name: Callable[[_ResultT], str], rows: Callable[[_ResultT], int]
) -> Iterator[_ResultT]:
    """Yield results of all partitions by `name`; more rows than are sorted at once come in several sorted runs."""
    run: list[_ResultT] = []
    count = 0
    for result in results:
        run.append(result)
        count += rows(result)
        if count >= MOST_SORTED_ROWS:
            yield from sorted(run, key=name)
            run, count = [], 0
    yield from sorted(run, key=name)


def rank(copy: Partition) -> tuple[int, int]:
    """Return the last leader epoch, then the end of the log: the larger, the better, as in an election of a leader."""
    return copy.last_epoch, copy.bounds.next_offset


class Copies:
    """The copies of partitions in some log directories, and what a command on a coordinator's state needs of them.

    `notes` are facts beside the results, and `codes` the exit codes that damage and notes cause.
    """

    def __init__(self, fs: Filesystem, paths: Sequence[str], metadata: str | None = None) -> None:
        """Take the log directories at `paths`; a partition's directory stands for its parent. Raises as `expand`."""
        self.fs = fs
        self.paths = list(paths)
        self.expanded = expand(fs, self.paths)
        self.notes: list[Note] = []
        self.codes: list[ExitCode] = []
        log_dirs = log_dirs_of(fs, self.paths)
        self.log_dirs = list({os.path.realpath(path): path.rstrip("/") or "/" for path in log_dirs}.values())
        self._of_run = LogDirs(fs)
        self._found: dict[tuple[str, int], tuple[Partition, ...]] = {}
        self._metadata_path = metadata

    @cached_property
    def metadata(self) -> ClusterMetadata | None:
        """The furthest replica of the metadata log in the log directories, or the option's; None if there is none."""
        logs = metadata_logs(self.fs, self.log_dirs, self._metadata_path)
        return furthest_metadata(self.fs, logs, self._damaged)

    @property
    def knows_all_topics(self) -> bool:
        """Whether an undamaged metadata log was read, so that a topic that is not there has been deleted."""
        return self.metadata is not None and self.metadata.is_complete

    def topic_name(self, topic_id: str) -> str | None:
        """Return the name of the topic with an id, from the metadata log or a partition.metadata; None for neither."""
        return self._topic_names.get(topic_id)

    @cached_property
    def _topic_names(self) -> dict[str, str]:
        if self.metadata is not None:
            return {topic.topic_id: topic.name for topic in self.metadata.topics.values()}
        return {topic_id: topic for topic, topic_id in self.topic_ids_on_disk.items()}

    @cached_property
    def topic_ids_on_disk(self) -> dict[str, str]:
        """The ids of topics by name, each from the first partition.metadata that has it."""
        topic_ids: dict[str, str] = {}
        for log_dir in self.log_dirs:
            for partition in partition_paths(self.fs, log_dir):
                topic = partition.directory.topic
                if topic is not None and topic not in topic_ids and partition.directory.kind is DirectoryKind.PARTITION:
                    topic_id = topic_id_on_disk(self.fs, partition.path)
                    if topic_id is not None:
                        topic_ids[topic] = topic_id
        return topic_ids

    def best_copies(self, selection: Selection) -> list[Partition]:
        """Return the best copy of each selected partition of a topic, by topic and number; the metadata log is none.

        A path of a partition selects this partition alone. Copies that cannot be read are left out. Raises as
        `partition_paths`; NothingSelected.
        """

        def takes(name: DirectoryName) -> bool:
            is_topic = name.kind is DirectoryKind.PARTITION and name.topic is not None and name.topic != METADATA_TOPIC
            return is_topic and selection.takes(name)

        partitions = {
            (partition.directory.topic or "", partition.directory.partition or 0)
            for path in self.expanded
            for partition in partition_paths(self.fs, in_its_log_dir(self.fs, path), takes)
            if takes(partition.directory)
        }
        if not partitions:
            raise nothing_selected(self.fs, self.paths, selection)
        copies = (self.best(topic, number) for topic, number in sorted(partitions))
        return [copy for copy in copies if copy is not None]

    def note(self, kind: str, message: str, path: str | None = None, *, code: ExitCode = ExitCode.WARNINGS) -> None:
        """Add a note that makes the exit code at least `code`."""
        self.notes.append(Note(kind, message, path, exit_code=code))
        self.codes.append(code)

    def take_notes(self) -> list[Note]:
        """Return the notes since the last call, for a caller that reports them while it goes on."""
        notes, self.notes = self.notes, []
        return notes

    def _damaged(self, damage: DamagedLog) -> None:
        details = damage.details
        self.note(
            str(details["kind"]), f"at byte {details['position']}: {details['message']}", str(details["path"]),
            code=ExitCode.CORRUPTION,
        )  # fmt: skip

    def copies(self, topic: str, number: int) -> tuple[Partition, ...]:
        """Return the copies of a partition, the best first, and of equal copies the copy that starts first.

        A copy that cannot be read is noted and left out.
        """
        key = (topic, number)
        if key not in self._found:
            of_log_dirs = (
                [self._copy(log_dir, topic, number) for log_dir in self.log_dirs] if is_topic_name(topic) else []
            )
            copies = sorted((copy for copy in of_log_dirs if copy), key=lambda copy: copy.bounds.start)
            self._found[key] = tuple(sorted(copies, key=rank, reverse=True))
        return self._found[key]

    def best(self, topic: str, number: int) -> Partition | None:
        """Return the best copy of a partition, None if no log directory has it."""
        return next(iter(self.copies(topic, number)), None)

    def _copy(self, log_dir: str, topic: str, number: int) -> Partition | None:
        path = f"{log_dir.rstrip('/')}/{partition_directory_name(topic, number)}"
        status = self.fs.status(path)
        if status is None or not (status.is_directory or status.is_symlink):
            return None
        try:
            partition = open_partition(self.fs, path, self._of_run)
            rank(partition)  # reads what may fail
        except NothingSelected:
            return None
        except (KafkalogError, OSError) as error:
            self.note("unreadable", unreadable(error).message, path, code=ExitCode.FAILURE)
            return None
        return partition


class Loaded:
    """A copy of a partition of a coordinator's topic that is read. `others` are the other copies, the better first.

    `damage` has the first damaged places of `damage_count`.
    """

    def __init__(self, fs: Filesystem, copy: Partition, copies: tuple[Partition, ...]) -> None:
        self.copy = copy
        self.others = tuple(other for other in copies if other is not copy)
        self.damage: list[DamagedLog] = []
        self.damage_count = 0
        self.codes: list[ExitCode] = []
        self._fs = fs

    @property
    def number(self) -> int:
        """The number of the partition."""
        return self.copy.number

    def entries(self) -> Iterator[CoordinatorEntry]:
        """Yield the entries, and collect the damage of this pass."""
        self.damage, self.damage_count, self.codes = [], 0, []
        return coordinator_entries(self._fs, self.copy, self._add, self.codes)

    def _add(self, damage: DamagedLog) -> None:
        self.damage_count += 1
        if len(self.damage) < _MOST_DAMAGE:
            self.damage.append(damage)


class HeldMemory:
    """Estimates the memory of the last record of each key, which a replay keeps."""

    def __init__(self) -> None:
        self._bytes = 0
        self._sizes: dict[int, int] = {}

    def counted(self, entries: Iterator[CoordinatorEntry], path: str) -> Iterator[CoordinatorEntry]:
        """Yield the entries. Raises Unreadable once they need more than the limit."""
        for entry in entries:
            if entry.record is not None:
                self._take(entry.record, entry.size_bytes)
                if self._bytes > MOST_HELD_BYTES:
                    limit = f"{MOST_HELD_BYTES >> 20} MiB of memory"
                    reason = f"its offsets, groups or transactional ids need more than {limit}; {_WAY_OUT}"
                    raise Unreadable(path=path, reason=reason)
            yield entry

    def _take(self, record: CoordinatorRecord, size_bytes: int) -> None:
        key = hash((record.name, *record.key.values()))
        before = self._sizes.pop(key, None)
        if before is not None:
            self._bytes -= _ENTRY_BYTES + _BYTES_EACH * before
        if record.value is not None:
            self._sizes[key] = size_bytes
            self._bytes += _ENTRY_BYTES + _BYTES_EACH * size_bytes


class CoordinatorTopic:
    """The partitions of a coordinator's topic (`__consumer_offsets`, …) in some log directories."""

    def __init__(self, log_dirs: Copies, topic: str) -> None:
        """Raises PathNotFound, NotKafkaLayout, Unreadable."""
        self.topic = topic
        self._log_dirs = log_dirs
        self._held = HeldMemory()

        def takes(name: DirectoryName) -> bool:
            return name.topic == topic and name.kind is DirectoryKind.PARTITION

        self.numbers = sorted({partition.number for partition in partitions_taken(log_dirs.fs, log_dirs.paths, takes)})

    def require(self, what: str) -> None:
        """Raise NothingSelected if there is no partition of the topic."""
        if not self.numbers:
            paths = ", ".join(self._log_dirs.paths)
            raise NothingSelected(reason=f"there is no partition of {self.topic} under {paths}: {what}")

    @cached_property
    def partitions(self) -> int | None:
        """The number of partitions of the topic, from the metadata log; None if it does not say."""
        metadata = self._log_dirs.metadata
        topic = None if metadata is None else metadata.topics.get(self.topic)
        return None if topic is None or not topic.partitions else len(topic.partitions)

    def partition_of(self, key: str) -> int | None:
        """Return the partition to which a group id or transactional id belongs; None if their number is unknown."""
        return None if self.partitions is None else coordinator_partition(key, self.partitions)

    def forget(self) -> None:
        """Start the limit of memory again: the caller loads no more before it frees what it has."""
        self._held = HeldMemory()

    def load(
        self, number: int, replay: Callable[[Iterator[CoordinatorEntry], int], _ReplayT]
    ) -> tuple[Loaded, _ReplayT]:
        """Replay the best copy of a partition; of equal copies, the first without damage.

        `replay` gets the number of the partition too.

        Raises NothingSelected if no copy can be read; Unreadable if all that was loaded since `forget` does not fit
        into memory.
        """

        def counted_replay(entries: Iterator[CoordinatorEntry]) -> _ReplayT:
            return replay(self._held.counted(entries, f"{self.topic}-{number}"), number)

        loaded, replayed = _undamaged(self._best(number), counted_replay)
        self._report(loaded)
        return loaded, replayed

    def stream(self, number: int) -> Iterator[CoordinatorEntry]:
        """Yield the entries of the best copy of a partition, for a reader that does not keep them.

        Equal copies are first read to find one without damage. Raises as `load`.
        """
        best = self._best(number)
        loaded = best[0] if len(best) == 1 else _undamaged(best, _read_through)[0]
        yield from self._held.counted(loaded.entries(), f"{self.topic}-{number}")
        self._report(loaded)

    def _best(self, number: int) -> list[Loaded]:
        """Return the best copies of a partition: several if they are equal. Raises NothingSelected."""
        copies = self._log_dirs.copies(self.topic, number)
        if not copies:
            raise NothingSelected(reason=f"no copy of {self.topic}-{number} can be read")
        return [Loaded(self._log_dirs.fs, copy, copies) for copy in copies if rank(copy) == rank(copies[0])]

    def _report(self, loaded: Loaded) -> None:
        log_dirs, copy = self._log_dirs, loaded.copy
        worst = max((code for code in loaded.codes if code is not ExitCode.OK), default=ExitCode.CORRUPTION)
        for damage in loaded.damage:
            details = damage.details
            message = f"at byte {details['position']}: {details['message']}; these records are left out"
            log_dirs.note(str(details["kind"]), message, str(details["path"]), code=worst)
        if loaded.damage_count > len(loaded.damage):
            message = f"{loaded.damage_count - len(loaded.damage)} more damaged places (kafkalog verify reports each)"
            log_dirs.note("more-damage", message, copy.path, code=worst)
        if copy.bounds.start > 0:
            message = f"the log begins at offset {copy.bounds.start}: earlier records are missing"
            log_dirs.note("missing-records", message, copy.path)
        for other in loaded.others:
            message = (
                f"of {1 + len(loaded.others)} copies, {copy.path} is used: it ends at {_place(copy)},"
                f" {other.path} at {_place(other)}"
            )
            log_dirs.notes.append(Note("copies", message))


def _undamaged(
    copies: Sequence[Loaded], replay: Callable[[Iterator[CoordinatorEntry]], _ReplayT]
) -> tuple[Loaded, _ReplayT]:
    """Replay copies until one has no damage; return it, or else the first, and its replay."""
    for copy in copies:
        replayed = replay(copy.entries())
        if not copy.damage_count or len(copies) == 1:
            return copy, replayed
        del replayed  # or two replays would be in memory
    return copies[0], replay(copies[0].entries())


def _read_through(entries: Iterator[CoordinatorEntry]) -> None:
    for _ in entries:
        pass


def _place(copy: Partition) -> str:
    epoch = "" if copy.last_epoch < 0 else f" of leader epoch {copy.last_epoch}"
    return f"offset {copy.bounds.next_offset}{epoch}"


def coordinator_partition(key: str, partitions: int) -> int:
    """Return the partition of a coordinator's topic for a group id or transactional id (Utils.abs of the hash)."""
    hashed = string_hash(key)
    return 0 if hashed == _MIN_INT else abs(hashed) % partitions
