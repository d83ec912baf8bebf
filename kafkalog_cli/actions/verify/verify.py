"""Verify everything selected: partitions in parallel, then the log directories that contain them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, cast

from kafkalog_cli.actions.engine import THREADS, Engine, Place, log_bytes
from kafkalog_cli.actions.in_order import Sized
from kafkalog_cli.actions.listing.root import LogDirRoot, read_root, root_above
from kafkalog_cli.actions.reports.fresh_looks import FreshLooks
from kafkalog_cli.actions.reports.segment_reports import ReadContext
from kafkalog_cli.actions.selection import Selection, expand, nothing_selected, partition_paths
from kafkalog_cli.actions.settings import SettingsSource
from kafkalog_cli.actions.verify.against import Comparison, ReplicaPolicy
from kafkalog_cli.actions.verify.diagnose import Finding, finding, with_path
from kafkalog_cli.actions.verify.finding_kinds import FindingKind
from kafkalog_cli.actions.verify.partition import Level, TargetKind, Verification, VerifyTask, shown_path
from kafkalog_cli.actions.verify.places import GivenPolicy, PartitionPlaces, TopicFacts, read_topic_id, topic_facts
from kafkalog_cli.actions.verify.root import CHECKED_ROOT_KINDS, findings_across, root_findings, staged_finding
from kafkalog_cli.actions.verify.settled import removed, settled_findings, settled_verification
from kafkalog_cli.errors import KafkalogError, NotKafkaLayout, PathNotFound
from kafkalog_cli.storage.changing.lock import log_dir_of
from kafkalog_cli.storage.foreign_layouts import check_layout
from kafkalog_cli.storage.logdir import PartitionPath
from kafkalog_cli.storage.names import PARTITION_KINDS, classify_file
from kafkalog_cli.storage.partition import Partition, directory_name, open_partition
from kafkalog_cli.storage.settings.topic_config import CLEANUP_POLICY


class Watcher(Protocol):
    """Receives the progress of the run."""

    def expect(self, total_bytes: int) -> None:
        """Set the number of bytes to check in all."""

    def advance(self, size_bytes: int, subject: str = "") -> None:
        """Add to the number of bytes checked; called from any thread."""


class Failed(NamedTuple):
    """A path that could not be verified."""

    path: str
    error: KafkalogError


Result = Verification | Failed


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """The options of a verification.

    `jobs` is the number of partitions verified at the same time. `config` holds the settings of `--config`, and
    `broker_properties` the contents of server.properties (empty: not given). Both map names to text.
    """

    selection: Selection
    level: Level
    now_ms: int
    metadata_path: str | None = None
    jobs: int = 1
    progress: Watcher | None = None
    engine: Engine = THREADS
    config: Mapping[str, str] = field(default_factory=dict)
    broker_properties: Mapping[str, str] = field(default_factory=dict)


class _Target(NamedTuple):
    """A directory, or some files of it (`wanted`).

    `is_root`: the directory is a log directory itself. `is_named`: the partition was given by its own path.
    """

    directory: PartitionPath
    wanted: frozenset[str] | None = None
    is_root: bool = False
    is_named: bool = False


class Verifier:
    """Iterate over `run` for the results, in the order of the paths; a log directory follows its partitions.

    A path that cannot be verified gives a `Failed` and does not end the run.
    """

    def __init__(self, read_context: ReadContext, request: VerifyRequest) -> None:
        self._read_context = read_context
        self._request = request
        self._places = PartitionPlaces()
        self._roots: dict[str, LogDirRoot | None] = {}
        self._failed: list[Failed] = []
        self._settings: SettingsSource | None = None
        self._verify = _Verify(read_context, self._roots)

    def run(self, paths: Sequence[str]) -> Iterator[Result]:
        """Yield the results for `paths`.

        Raises PathNotFound, NotKafkaLayout, Unreadable, UsageError for the metadata log.
        """
        work = (self._sized(part) for part in self.parts(paths))
        with self._request.engine.in_order(work, self._request.jobs, "kafkalog-verify") as results:
            yield from results

    @property
    def settings(self) -> SettingsSource:
        """The source of the topics' settings; available once `parts` has yielded its first item."""
        assert self._settings is not None
        return self._settings

    def replica_policy(self, partition: Partition) -> ReplicaPolicy:
        """Return what may explain that a replica lacks batches, from its settings and checkpoints.

        Call it after `parts`. Raises as `SettingsSource.metadata` does.
        """
        log_dir = self._log_dir(partition.path)
        root = None if log_dir is None else self._root(log_dir)
        target = _Target(PartitionPath(partition.path, partition.directory), is_named=True)
        facts = self._facts(target, partition)
        compacted = facts.is_compacted
        if compacted is None and facts.is_in_cleaner_checkpoint:
            compacted = True
        log_start = None if root is None else root.offsets_of(partition.topic, partition.number).log_start
        return ReplicaPolicy(compacted, log_start or 0)

    def root_of(self, path: str) -> LogDirRoot | None:
        """Return the log directory of a partition, None if it is in none."""
        log_dir = self._log_dir(path)
        return None if log_dir is None else self._root(log_dir)

    def parts(self, paths: Sequence[str]) -> Iterator[VerifyTask | Result]:
        """Yield the partitions to verify, without their roots, and the results already known, in order.

        Raises as `run`.
        """
        targets = self._targets(paths)
        log_dirs = [target.directory.path for target in targets if target.is_root]
        above = {self._log_dir(target.directory.path) for target in targets if not target.is_root}
        known = [*dict.fromkeys([*log_dirs, *sorted(path for path in above if path is not None)])]
        settings = self._settings = SettingsSource(
            self._read_context.fs,
            {name: text for name, text in self._request.config.items() if name != CLEANUP_POLICY},
            self._request.broker_properties,
            metadata_path=self._request.metadata_path,
            log_dirs=known,
            kernels=self._read_context.choice,
        )
        for target in targets:
            if not target.is_root and target.wanted is None:
                meta = settings.meta(self._log_dir(target.directory.path))
                self._places.add(self._read_context.fs, target.directory, meta)
        total_bytes = sum(map(self._size_bytes, targets))
        if self._request.progress is not None:
            self._request.progress.expect(total_bytes)
        if self._read_context.choice is not None and not self._request.engine.is_here:
            self._read_context.choice.expect(total_bytes)  # each process sees only a few of the partitions
        across = findings_across([root for path in log_dirs if (root := self._root(path)) is not None])
        yield from self._failed
        if not targets and not self._failed:
            yield Failed("", nothing_selected(self._read_context.fs, list(paths), self._request.selection))
        for target in targets:
            yield self._part(target, settings, across)

    # ---- the work to do

    def _targets(self, paths: Sequence[str]) -> list[_Target]:
        found: list[_Target] = []
        for path in paths:
            try:
                for match in expand(self._read_context.fs, [path]):
                    found += self._of_path(match)
            except KafkalogError as error:
                self._failed.append(Failed(path, error))
        return _files_together(found)

    def _of_path(self, path: str) -> Iterator[_Target]:
        fs, selection = self._read_context.fs, self._request.selection
        status = fs.status(path)
        if status is None:
            raise PathNotFound(path=path)
        if not status.is_directory:
            yield from self._of_file(path)
            return
        trimmed = path.rstrip("/") or "/"
        partitions = list(partition_paths(fs, trimmed))
        chosen = [partition for partition in partitions if selection.takes(partition.directory)]
        yield from (_Target(one, is_named=one.path == trimmed) for one in chosen)
        if [partition.path for partition in partitions] != [trimmed]:
            self._roots[trimmed] = read_root(fs, trimmed, frozenset(partition.path for partition in partitions))
            if selection.is_everything:
                yield _Target(PartitionPath(trimmed, directory_name(trimmed)), is_root=True)

    def _of_file(self, path: str) -> Iterator[_Target]:
        fs, selection = self._read_context.fs, self._request.selection
        parent, _, name = path.rpartition("/")
        parent = parent or ("/" if path.startswith("/") else ".")
        directory, kind = directory_name(parent), classify_file(name).kind
        if kind in CHECKED_ROOT_KINDS:
            if selection.is_everything:
                if parent not in self._roots:
                    directories = (entry.path for entry in fs.list_directory(parent) if entry.is_directory)
                    self._roots[parent] = read_root(fs, parent, frozenset(directories))
                yield _Target(PartitionPath(parent, directory), frozenset({name}), is_root=True)
        elif kind not in PARTITION_KINDS:
            raise NotKafkaLayout(path=path, reason="is no file that can be verified, by its name")
        elif selection.takes(directory):
            yield _Target(PartitionPath(parent, directory), frozenset({name}))

    def _part(self, target: _Target, settings: SettingsSource, across: dict[str, list[Finding]]) -> VerifyTask | Result:
        path = target.directory.path
        if target.is_root:
            root = cast(LogDirRoot, self._root(path))
            level = self._request.level
            findings = tuple(with_path(one, path) for one in (*self._root_findings(root), *across[path]))
            if target.wanted is not None:
                findings = tuple(one for one in findings if one.path.rpartition("/")[2] in target.wanted)
            shown = shown_path(path, target.wanted)
            return Verification(shown, level, TargetKind.LOG_DIR, findings=findings, files=target.wanted)
        try:
            return self._task(target, settings)
        except KafkalogError as error:
            return removed(self._read_context.fs, target.directory, self._request.level) or Failed(path, error)

    def _task(self, target: _Target, settings: SettingsSource) -> VerifyTask:
        fs, path, request = self._read_context.fs, target.directory.path, self._request
        log_dir = self._log_dir(path)
        partition = self._open(target)
        check_layout(fs, path)
        root = None if log_dir is None else self._root(log_dir)
        advance = None if request.progress is None or not request.engine.is_here else request.progress.advance
        if target.wanted is not None:
            return VerifyTask(partition, request.level, request.now_ms, wanted=target.wanted, advance=advance)
        leftover = None if root is None else staged_finding(root, partition.directory.name)
        if leftover is not None:
            return VerifyTask(partition, request.level, request.now_ms, advance=advance, leftover=leftover)
        facts = self._facts(target, partition)
        topic_id = read_topic_id(fs, path)
        elsewhere = tuple(self._places.findings(partition, topic_id.topic_id, settings.meta(log_dir)))
        return VerifyTask(partition, request.level, request.now_ms, facts=facts, elsewhere=elsewhere, advance=advance)

    def _facts(self, target: _Target, partition: Partition) -> TopicFacts:
        log_dir = self._log_dir(partition.path)
        root = None if log_dir is None else self._root(log_dir)
        given = self._given_policy(partition, is_named=target.is_named)
        topic_id = read_topic_id(self._read_context.fs, partition.path)
        return topic_facts(partition, topic_id, log_dir, self.settings, given, root)

    def _given_policy(self, partition: Partition, *, is_named: bool) -> GivenPolicy:
        text = self._request.config.get(CLEANUP_POLICY)
        if text is None:
            return GivenPolicy()
        policy = frozenset(word.strip() for word in text.split(","))
        return GivenPolicy(policy, is_named or self._request.selection.topics == {partition.topic})

    def _size_bytes(self, target: _Target) -> int:
        """Return the size in bytes of a target's log files; 0 if they cannot be listed."""
        if target.is_root:
            return 0
        try:
            return log_bytes(self._open(target), target.wanted)
        except KafkalogError:
            return 0

    def _open(self, target: _Target) -> Partition:
        try:
            return open_partition(self._read_context.fs, target.directory.path)
        except NotKafkaLayout:
            if target.wanted is None:
                raise
        return Partition(target.directory.path, target.directory.directory, ())

    def _sized(self, part: VerifyTask | Result) -> Sized[Result]:
        if not isinstance(part, VerifyTask):
            return Sized(lambda: part, None)
        return Sized(lambda: self._verified(part), log_bytes(part.partition, part.wanted))

    def _verified(self, task: VerifyTask) -> Result:
        path, engine, progress = task.partition.path, self._request.engine, self._request.progress
        try:
            log_dir = self._log_dir(path)
            place = Place(self._read_context.fs, path, log_dir, is_locked=False)
            return engine.do(self._verify, (task, log_dir), place)
        except KafkalogError as error:
            return Failed(path, error)
        finally:
            if progress is not None and not engine.is_here:
                progress.advance(log_bytes(task.partition, task.wanted), path)

    # ---- log directories

    def _root_findings(self, root: LogDirRoot) -> tuple[Finding, ...]:
        """Return the findings about the root's files, except transient findings in files that a broker is writing."""
        fs = self._read_context.fs
        looks = FreshLooks(fs, root.path, is_live=root.is_live, sleep=self._read_context.sleep)
        seen: LogDirRoot | None = root

        def look() -> tuple[Finding, ...]:
            nonlocal seen
            now, seen = seen, None
            if now is None:
                now = read_root(fs, root.path, frozenset(one.path for one in partition_paths(fs, root.path)))
            return tuple(root_findings(fs, now))

        return settled_findings(looks, look)

    def _log_dir(self, path: str) -> str | None:
        """Return the log directory of a partition, as it was given if it was, None if there is none."""
        parent = path.rpartition("/")[0]
        return parent if parent in self._roots else log_dir_of(self._read_context.fs, path)

    def _root(self, path: str) -> LogDirRoot | None:
        if path not in self._roots:
            self._roots[path] = root_above(self._read_context.fs, f"{path.rstrip('/')}/0")
        return self._roots[path]


def verified(read_context: ReadContext, task: VerifyTask) -> Result:
    """Return the verification of a partition, or the error that prevented it."""
    try:
        return settled_verification(read_context, task)
    except KafkalogError as error:
        return Failed(task.partition.path, error)


class _Verify:
    """Verifies a partition in any process; the state of log directories is the same for many and is sent once."""

    def __init__(self, read_context: ReadContext, roots: dict[str, LogDirRoot | None]) -> None:
        self._read_context = read_context
        self._roots = roots

    def __call__(self, item: tuple[VerifyTask, str | None]) -> Verification:
        task, log_dir = item
        return settled_verification(
            self._read_context, replace(task, root=None if log_dir is None else self._roots[log_dir])
        )


def comparison_of(here: Partition, level: Level, compared: Comparison) -> Verification:
    """Return the comparison of two replicas as a result about the replica that was given first."""
    findings = compared.findings
    if compared.verdict:
        findings += (finding(FindingKind.MORE_COMPLETE, here.path, compared.verdict),)
    own = f"{here.path.rstrip('/')}/"
    findings = tuple(with_path(one, here.path if one.path.startswith(own) else one.path) for one in findings)
    return _of_comparison(here, level, findings)


def left_alone(here: Partition, level: Level, found: Finding) -> Verification:
    """Return the result for a partition without another directory to compare it with."""
    return _of_comparison(here, level, (with_path(found, here.path),))


def _of_comparison(here: Partition, level: Level, findings: tuple[Finding, ...]) -> Verification:
    return Verification(here.path, level, TargetKind.COMPARISON, here.topic, here.number, findings)


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
