"""The verb `verify`: partitions in parallel, then the log directories that contain them, and pairs of replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, cast

from kafkalog_cli.disk.directory_contents import check_layout
from kafkalog_cli.disk.names import PARTITION_KINDS, DirectoryKind, FileKind, FileName, WorkState, classify_file
from kafkalog_cli.errors import KafkalogError, NotKafkaLayout, PathNotFound
from kafkalog_cli.format.internal_topics import INTERNAL_COMPACTED
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.log.partition import Partition, PartitionPath, directory_name, log_bytes, open_partition_of
from kafkalog_cli.log.settings.source import SettingsSource
from kafkalog_cli.log.settings.topic_config import CLEANUP_POLICY, COMPACT
from kafkalog_cli.ops.call.call import Call, Outcome, Run
from kafkalog_cli.ops.call.observer import Observer
from kafkalog_cli.ops.call.options import Paths, VerbOptions
from kafkalog_cli.ops.check.checks.diagnose import Finding, with_path
from kafkalog_cli.ops.check.checks.partition_check import ReadContext
from kafkalog_cli.ops.check.checks.recheck import Recheck, identity, is_doubtful
from kafkalog_cli.ops.check.verify.places import (
    PartitionDirectories,
    TopicFacts,
    facts_of,
)
from kafkalog_cli.ops.check.verify.root import CHECKED_ROOT_KINDS, findings_across, root_findings, staged_finding
from kafkalog_cli.ops.check.verify.task import TargetKind, Verification, VerifyTask, shown_path
from kafkalog_cli.ops.check.verify.with_rechecks import removed, verify_with_rechecks
from kafkalog_cli.ops.choices import Level
from kafkalog_cli.ops.look.listing.root import LogDirRoot, read_root, root_above
from kafkalog_cli.ops.map_each import Advance, AnyItem, Forks, Item, Known, MapEach, Unplanned
from kafkalog_cli.ops.selection import Selection, expand, in_its_log_dir, nothing_selected, partition_paths
from kafkalog_cli.ops.steps import Step, path_word


def verify_paths(  # noqa: PLR0913, PLR0917
    paths: Paths,
    options: VerbOptions,
    level: Level,
    limits: Limits,
    engine: MapEach,
    observer: Observer,
    *,
    with_facts: bool = False,
) -> Run[Verification]:
    """Verify partitions and log directories, `with_facts` to compare replicas. Raises as `VerifyPlanner.tasks`."""
    call = Call("verify", paths, {**options, "observer": observer}, reads=True, engine=engine)
    planner = VerifyPlanner(call, level, limits, with_facts=with_facts)
    forks = Forks.NONE if level is Level.DEEP else Forks.OF_MANY_ITEMS  # threads do better for records
    return call.read_each(planner.tasks(call.paths), planner.work, forks=forks)


class _Target(NamedTuple):
    """A directory, or some files of it (`wanted`).

    `is_root`: the directory is a log directory itself. `is_named`: the partition was given by its own path. `is_copy`:
    the path is that of a file with records whose name is not a broker's for a segment in its place.
    """

    directory: PartitionPath
    wanted: frozenset[str] | None = None
    is_root: bool = False
    is_named: bool = False
    is_copy: bool = False


class VerifyPlanner:
    """Plans what `verify` does, in the order of the paths, for `Call.read_each`, with `work` for each task.

    A log directory follows its partitions. A path that cannot be verified gives an error and does not end the run.
    `selection` None: the call's.
    """

    def __init__(
        self,
        call: Call,
        level: Level,
        limits: Limits = DEFAULT_LIMITS,
        selection: Selection | None = None,
        *,
        with_facts: bool = False,
    ) -> None:
        self._call, self._level, self._limits, self._with_facts = call, level, limits, with_facts
        self._fs = call.context.fs
        self._selection = call.selection if selection is None else selection
        self._config = call.config
        self._directories = PartitionDirectories()
        self._roots: dict[str, LogDirRoot | None] = {}
        self._failed: list[Known[Outcome]] = []
        self._settings: SettingsSource | None = None

    @property
    def work(self) -> Callable[[VerifyTask, Advance], Verification]:
        """The work on a task."""
        return partial(_verify, ReadContext(self._fs, self._limits, self._call.context.sleep))

    @property
    def settings(self) -> SettingsSource:
        """The source of the topics' settings; available once `tasks` has yielded its first item."""
        assert self._settings is not None
        return self._settings

    def is_compacted(self, partition: Partition) -> bool | None:
        """Whether the topic of a partition is compacted, by settings and checkpoints, None if no source knows.

        Call it after `tasks`. Raises as `SettingsSource.metadata` does.
        """
        target = _Target(PartitionPath(partition.path, partition.directory), is_named=True)
        facts = self._facts(target, partition, partition.topic_id)
        return True if facts.is_compacted is None and facts.is_in_cleaner_checkpoint else facts.is_compacted

    def log_start(self, partition: Partition) -> int:
        """Return the log start in the checkpoint, 0 without a line."""
        root = self.root_of(partition.path)
        return 0 if root is None else root.offsets_of(partition.topic, partition.number).log_start or 0

    def root_of(self, path: str) -> LogDirRoot | None:
        """Return the log directory of a partition, None if it is in none."""
        log_dir = self._log_dir(path)
        return None if log_dir is None else self._root(log_dir)

    def tasks(self, paths: Sequence[str]) -> Iterator[AnyItem[VerifyTask, Outcome]]:
        """Yield the tasks, and the results that are known already, in order.

        Raises PathNotFound, NotKafkaLayout, Unreadable, UsageError for the settings and the metadata log.
        """
        call, targets = self._call, self._targets(paths)
        log_dirs = [target.directory.path for target in targets if target.is_root]
        above = {self._log_dir(target.directory.path) for target in targets if not target.is_root}
        log_dirs_there = [*dict.fromkeys([*log_dirs, *sorted(path for path in above if path is not None)])]
        config = {name: text for name, text in self._config.items() if name != CLEANUP_POLICY}
        settings = self._settings = call.settings_with(config, log_dirs_there)
        for target in targets if len(targets) > 1 else ():
            if not target.is_root and target.wanted is None:
                log_dir = self._log_dir(target.directory.path)
                self._directories.add(self._fs, target.directory, settings.meta(log_dir), settings.metadata(log_dir))
        # A listing of each directory that only the sum needs
        total_bytes = sum(map(self._size_bytes, targets)) if call.observer.progress.is_shown else None
        call.observer.progress.begin(call.verb, total_bytes)
        roots = [root for path in log_dirs if (root := self._root(path)) is not None]
        across = findings_across(self._fs, roots, settings)
        yield from self._failed
        if not targets and not self._failed:
            yield _failed("", nothing_selected(self._fs, list(paths), self._selection))
        for target in targets:
            paths_read = () if target.is_root else (target.directory.path,)
            yield Unplanned(partial(self._task_of, target, settings, across), paths_read)

    # ---- the work to do

    def _targets(self, paths: Sequence[str]) -> list[_Target]:
        found: list[_Target] = []
        for path in paths:
            try:
                for match in expand(self._fs, [path]):
                    found += self._of_path(match)
            except KafkalogError as error:
                self._failed.append(_failed(path, error))
        return _files_together(found)

    def _of_path(self, path: str) -> Iterator[_Target]:
        fs, selection = self._fs, self._selection
        status = fs.status(path)
        if status is None:
            raise PathNotFound(path=path)
        if not status.is_directory:
            yield from self._of_file(path)
            return
        trimmed = in_its_log_dir(fs, path).rstrip("/") or "/"
        partitions = list(partition_paths(fs, trimmed))
        chosen = [partition for partition in partitions if selection.takes(partition.directory)]
        yield from (_Target(one, is_named=one.path == trimmed) for one in chosen)
        if [partition.path for partition in partitions] != [trimmed]:
            self._roots[trimmed] = read_root(fs, trimmed, frozenset(partition.path for partition in partitions))
            if selection.is_everything:
                yield _Target(PartitionPath(trimmed, directory_name(trimmed)), is_root=True)

    def _of_file(self, path: str) -> Iterator[_Target]:
        fs, selection = self._fs, self._selection
        parent, _, name = path.rpartition("/")
        parent = parent or ("/" if path.startswith("/") else ".")
        directory, parsed = directory_name(parent), classify_file(name)
        kind = parsed.kind
        is_elsewhere = directory.kind is DirectoryKind.OTHER
        if _is_copy_of_records(parsed, is_elsewhere=is_elsewhere):
            if selection.takes(directory):
                yield _Target(PartitionPath(path, directory), frozenset({name}), is_copy=True)
        elif parsed.state is WorkState.TEMPORARY:
            raise NotKafkaLayout(path=path, reason="an unfinished temporary file, which no broker reads")
        elif parsed.offset is None and (kind is FileKind.SEVEN_LOG or (kind in _RELATIVE_KINDS and is_elsewhere)):
            reason = "its name does not begin with an offset, without which its entries cannot be verified"
            raise NotKafkaLayout(path=path, reason=reason)
        elif kind in CHECKED_ROOT_KINDS:
            if selection.is_everything:
                if parent not in self._roots:
                    directories = (entry.path for entry in fs.list_directory(parent) if entry.is_directory)
                    self._roots[parent] = read_root(fs, parent, frozenset(directories))
                yield _Target(PartitionPath(parent, directory), frozenset({name}), is_root=True)
        elif kind not in PARTITION_KINDS:
            raise NotKafkaLayout(
                path=path, reason="its name is not that of a Kafka file, so that it cannot be verified"
            )
        elif selection.takes(directory):
            yield _Target(PartitionPath(parent, directory), frozenset({name}))

    def _task_of(self, target: _Target, settings: SettingsSource, across: dict[str, list[Finding]]
    ) -> Item[VerifyTask] | Known[Outcome]:  # fmt: skip
        path = target.directory.path
        if target.is_root:
            root = cast(LogDirRoot, self._root(path))
            found = (*self._root_findings(root), *across[path])
            findings = tuple(with_path(one, path, settings.metadata_option) for one in found)
            if target.wanted is not None:
                findings = tuple(one for one in findings if one.path.rpartition("/")[2] in target.wanted)
            shown = shown_path(path, target.wanted)
            return _known(Verification(shown, self._level, TargetKind.LOG_DIR, findings=findings, files=target.wanted))
        try:
            task = self._of_copy(path) if target.is_copy else self._task(target, settings)
        except KafkalogError as error:
            gone = removed(self._fs, target.directory, self._level)
            return _failed(path, error) if gone is None else _known(gone)
        if isinstance(task, Verification):
            return _known(task)
        size_bytes = log_bytes(task.partition, target.wanted)
        return Item(task, size_bytes, (path,))

    def _task(self, target: _Target, settings: SettingsSource) -> VerifyTask | Verification:
        """Return the task of verifying a partition; the result for a directory that an import did not commit."""
        fs, path, level = self._fs, target.directory.path, self._level
        now_ms, root = self._call.clock.now_ms, self.root_of(path)
        partition = open_partition_of(fs, path, target.wanted)
        check_layout(fs, path, partition.entries)
        if target.wanted is not None:
            return VerifyTask(partition, level, now_ms, root, wanted=target.wanted)
        leftover = None if root is None else staged_finding(root, partition.directory.name)
        if leftover is not None:
            topic, number, found = partition.topic, partition.number, (with_path(leftover, path),)
            unread = ("what is in it",)
            return Verification(path, level, TargetKind.PARTITION, topic, number, found, not_looked_at=unread)
        places, meta = self._directories, settings.meta(self._log_dir(path))
        topic_id = places.topic_ids.get(path) or partition.topic_id
        facts = self._facts(target, partition, topic_id)
        own = places.beside_the_partition(facts.findings, partition, meta)
        facts = facts._replace(findings=(*places.findings(partition, topic_id, meta), *own))
        return VerifyTask(partition, level, now_ms, root, facts, with_facts=self._with_facts)

    def _of_copy(self, path: str) -> Verification:
        """Verify a copy of a segment. Raises NotKafkaLayout for a file without a batch, Unreadable."""
        from kafkalog_cli.ops.single_files import SingleFiles

        call, status = self._call, self._fs.status(path)
        if status is None:
            raise PathNotFound(path=path)
        files = SingleFiles(self._fs)
        directory, wanted = files.add(path, status), frozenset({status.name})
        partition = open_partition_of(files, directory, wanted)
        context = ReadContext(files, self._limits, call.context.sleep)
        task = VerifyTask(partition, self._level, call.clock.now_ms, wanted=wanted)
        found = verify_with_rechecks(context, task)
        steps = (Step("", ("kafkalog", "read", path_word(path)), "prints the records that can be read"),)
        own = (one._replace(path=path, broker_effect="", steps=steps) for one in found.findings)
        return replace(found, path=path, files=wanted, findings=tuple(own))

    def _facts(self, target: _Target, partition: Partition, topic_id: str | None) -> TopicFacts:
        log_dir, root = self._log_dir(partition.path), self.root_of(partition.path)
        was_cleaned = root is not None and root.offsets_of(partition.topic, partition.number).cleaner is not None
        facts = facts_of(self._fs, partition, topic_id, log_dir, self.settings)
        config = self.settings.topic_config(log_dir, partition.topic)
        is_known = config.remote_storage_enable or config.is_known("remote.storage.enable")
        return facts._replace(
            is_compacted=self._is_compacted(target, partition, facts.is_compacted, was_cleaned=was_cleaned),
            is_in_cleaner_checkpoint=was_cleaned,
            is_tiered=config.remote_storage_enable if is_known else None,
            metadata_option=self.settings.metadata_option,
        )

    def _is_compacted(
        self, target: _Target, partition: Partition, own: bool | None, *, was_cleaned: bool
    ) -> bool | None:
        """Return whether the topic counts as compacted, None if unknown.

        `own` is the answer of the sources other than `--config`. Its `delete`, given for many topics at once, does not
        override an `own` of True. For a partition in the cleaner's checkpoint, it leaves the answer unknown unless the
        option is meant for this partition, whose topic is the only one selected or whose path was given.
        """
        text = self._config.get(CLEANUP_POLICY)
        if text is None or partition.topic in INTERNAL_COMPACTED:
            return own
        if COMPACT in {word.strip() for word in text.split(",")}:
            return True
        is_meant = target.is_named or self._selection.topics == {partition.topic}
        return own or None if (own or was_cleaned) and not is_meant else False

    def _size_bytes(self, target: _Target) -> int:
        """Return the size in bytes of a target's log files; 0 if they cannot be listed."""
        if target.is_root:
            return 0
        try:
            return log_bytes(open_partition_of(self._fs, target.directory.path, target.wanted), target.wanted)
        except KafkalogError:
            return 0

    # ---- log directories

    def _root_findings(self, root: LogDirRoot) -> tuple[Finding, ...]:
        """Return the findings about the root's files, except transient findings in files that a broker is writing."""
        fs = self._fs
        recheck = Recheck(fs, root.path, is_live=root.is_live, sleep=self._call.context.sleep)

        def check(now: LogDirRoot | None = None) -> tuple[Finding, ...]:
            recheck.begin()
            if now is None:
                now = read_root(fs, root.path, frozenset(one.path for one in partition_paths(fs, root.path)))
            return tuple(root_findings(fs, now, self.settings))

        found, confirmed, stamps = recheck.confirm(
            check(root), check, lambda found, stamps: {identity(one, stamps) for one in found if is_doubtful(one)}
        )
        return tuple(one for one in found if not is_doubtful(one) or identity(one, stamps) in confirmed)

    def _log_dir(self, path: str) -> str | None:
        """Return the log directory of a partition, as it was given if it was, None if there is none."""
        parent = path.rpartition("/")[0]
        return parent if parent in self._roots else self._call.log_dir(path)

    def _root(self, path: str) -> LogDirRoot | None:
        if path not in self._roots:
            self._roots[path] = root_above(self._fs, f"{path.rstrip('/')}/0")
        return self._roots[path]


_RELATIVE_KINDS = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX, FileKind.PRODUCER_SNAPSHOT)


def _is_copy_of_records(name: FileName, *, is_elsewhere: bool) -> bool:
    """Whether a file has records if it is of Kafka, but is not in its place under a broker's name.

    In a partition directory (`is_elsewhere` False), a segment in its place with another name is damage.
    """
    is_misnamed = is_elsewhere and name.offset is None
    is_of_records = name.kind in (FileKind.LOG, FileKind.METADATA_SNAPSHOT)
    return name.kind is FileKind.OTHER or (is_of_records and (is_misnamed or name.state is not WorkState.IN_PLACE))


def _known(result: Verification) -> Known[Outcome]:
    return Known(Outcome(result.path, result))


def _failed(path: str, error: KafkalogError) -> Known[Outcome]:
    return Known(Outcome(path, error=error))


def _verify(context: ReadContext, task: VerifyTask, advance: Advance) -> Verification:
    return verify_with_rechecks(context, task._replace(advance=advance))


def _files_together(targets: Iterable[_Target]) -> list[_Target]:
    """Join consecutive files of one directory into one target."""
    joined: list[_Target] = []
    for target in targets:
        last = joined[-1] if joined else None
        is_same = last is not None and (last.directory.path, last.is_root) == (target.directory.path, target.is_root)
        if is_same and last is not None and last.wanted is not None and target.wanted is not None:
            joined[-1] = last._replace(wanted=last.wanted | target.wanted)
        else:
            joined.append(target)
    return joined
