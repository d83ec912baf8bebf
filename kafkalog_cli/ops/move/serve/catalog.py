"""The view that is served: the best copy of each partition, opened once, and the names and ids of topics."""

import resource
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from threading import Lock
from typing import NamedTuple

from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import ExitCode, Unreadable
from kafkalog_cli.format.internal_topics import INTERNAL_COMPACTED, TRANSACTION_STATE
from kafkalog_cli.format.java_text import ZERO_UUID
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.log.settings.source import SettingsSource, read_meta
from kafkalog_cli.log.settings.topic_config import read_broker_properties
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.call.options import Context
from kafkalog_cli.ops.cluster.coordinators import CoordinatorTopic, Copies
from kafkalog_cli.ops.cluster.tables.coordinator_log import Transaction, transactions
from kafkalog_cli.ops.move.serve.as_of import AsOfFilesystem
from kafkalog_cli.ops.move.serve.open_files import OpenFilesystem
from kafkalog_cli.ops.move.serve.options import ServeOptions
from kafkalog_cli.ops.move.serve.served_copy import ServedCopy
from kafkalog_cli.ops.move.serve.served_partition import ServedPartition
from kafkalog_cli.ops.selection import nothing_selected

_FREE_DESCRIPTORS = 64
"""Descriptors that are left for files beside the logs and the connections."""
_DEFAULT_NODE = 1


class ServedTopic(NamedTuple):
    """A topic: `topic_id` is the zero id if no source has it. Partitions are by number; numbers may be missing."""

    name: str
    topic_id: str
    partitions: dict[int, ServedPartition]

    @property
    def partition_count(self) -> int:
        """The number of partitions from 0 to the largest number in the log directories."""
        return max(self.partitions) + 1


class ServedCatalog:
    """The topics that are served. `report` gets the copies that cannot be served, and damage when a request meets it.

    Raises as `Copies` and `read_broker_properties`; NothingSelected; Unreadable for too many segments to keep open.
    """

    def __init__(self, context: Context, options: ServeOptions, report: Callable[[Note], None]) -> None:
        config = options.broker_config
        properties = None if config is None else read_broker_properties(context.fs, config)
        then = None if options.at_ms is None else AsOfFilesystem(context.fs, options.at_ms)
        self.fs = OpenFilesystem(then or context.fs)
        self.decoding = Lock()
        """Locked by the thread that decodes records: the batches of several threads would not fit into 300 MiB."""
        self._report = report
        self._context = context
        self._options = options
        self.log_dirs = Copies(self.fs, options.paths, options.metadata)
        dirs = self.log_dirs.log_dirs
        self.settings = SettingsSource(
            context.fs, {}, properties, metadata_path=options.metadata, log_dirs=dirs
        )  # fmt: skip
        self.topics: dict[str, ServedTopic] = {}
        self.partitions_v07: dict[tuple[str, int], ServedPartition] = {}
        """Logs of Kafka 0.7, which belong to no topic that newer clients see."""
        try:
            self._open()
        except BaseException:
            self.fs.close()
            raise
        self.by_id = {topic.topic_id: topic for topic in self.topics.values() if topic.topic_id != ZERO_UUID}
        meta = [read_meta(context.fs, path) for path in dirs]
        self.cluster_id = next((file.cluster_id for file in meta if file is not None and file.cluster_id), None)
        nodes = (file.node_id for file in meta if file is not None and file.node_id is not None and file.node_id >= 0)
        self.node_id = next(nodes, _DEFAULT_NODE)

    @property
    def partitions(self) -> list[ServedPartition]:
        """All partitions."""
        return [
            *(partition for topic in self.topics.values() for partition in topic.partitions.values()),
            *self.partitions_v07.values(),
        ]

    @property
    def topic_count(self) -> int:
        """The number of topics, with those of Kafka 0.7."""
        return len(self.topics) + len({topic for topic, _ in self.partitions_v07})

    def find(self, topic: str | None, number: int) -> ServedPartition | None:
        """Return a partition by the name of its topic, None if it is not served."""
        served = None if topic is None else self.topics.get(topic)
        return None if served is None else served.partitions.get(number)

    def assignable(self, topic: str) -> tuple[str, Collection[int]] | None:
        """Return the id and partitions of a topic; None for a topic that is not served, or has no id."""
        served = self.topics.get(topic)
        return None if served is None or served.topic_id == ZERO_UUID else (served.topic_id, served.partitions)

    def transactional_ids(self) -> Mapping[str, Transaction]:
        """Return transactional ids as their coordinator loads them. Raises as `CoordinatorTopic.load`."""
        with self.decoding:
            return self._transactional_ids

    @cached_property
    def _transactional_ids(self) -> dict[str, Transaction]:
        topic = CoordinatorTopic(self.log_dirs, TRANSACTION_STATE)
        states = [state for number in topic.numbers for state in topic.load(number, transactions)[1]]
        for note in self.log_dirs.take_notes():
            self._report(note)
        return {state.transactional_id: state for state in sorted(states, key=lambda state: state.transactional_id)}

    def close(self) -> None:
        """Close all files."""
        self.fs.close()

    def _open(self) -> None:
        best = self._best_copies()
        of_best, of_all = (
            sum(len(copy.segments) for copy in copies)
            for copies in (best, [copy for best_copy in best for copy in self._copies(best_copy)])
        )
        keeps_all_open = self._make_room(of_best, of_all)
        by_topic: dict[str, dict[int, ServedPartition]] = {}
        for best_copy in best:
            candidates = self._copies(best_copy)
            has_gaps = len(candidates) == 1 or self._may_have_gaps(candidates)
            copies = [ServedCopy(self.fs, copy, self._report, has_gaps=has_gaps) for copy in candidates]
            if keeps_all_open:
                copies = [copy for copy in copies if copy.open_logs()]
            else:
                while copies and not copies[0].open_logs():
                    del copies[0]
            if not copies:
                continue
            served = ServedPartition(self.fs, copies, self._options.on_damage, self._report, self.decoding)
            if served.segments[-1].is_v07:
                self.partitions_v07[best_copy.topic, best_copy.number] = served
            else:
                by_topic.setdefault(best_copy.topic, {})[best_copy.number] = served
        ids = self.log_dirs.topic_ids_on_disk
        if self.log_dirs.metadata is not None:
            ids = ids | {topic.name: topic.topic_id for topic in self.log_dirs.metadata.topics.values()}
        for name, partitions in sorted(by_topic.items()):
            self.topics[name] = ServedTopic(name, ids.get(name, ZERO_UUID), dict(sorted(partitions.items())))
        if not self.partitions:
            raise nothing_selected(self.fs, list(self._options.paths), self._options.selection)

    def _copies(self, best: Partition) -> Sequence[Partition]:
        """Return the copies of a partition, the best first. Logs of Kafka 0.7 have no replicas."""
        if best.segments[-1].is_v07:
            return [best]
        copies = self.log_dirs.copies(best.topic, best.number)
        return [copy for copy in copies if not any(segment.is_v07 for segment in copy.segments)]

    def _may_have_gaps(self, copies: Sequence[Partition]) -> bool:
        """Whether the cleaner may have removed offsets between the segments of a partition."""
        partition = copies[0]
        if partition.topic in INTERNAL_COMPACTED or any(FileKind.CLEANER_CHECKPOINT in copy.lines for copy in copies):
            return True
        log_dir = partition.path.rpartition("/")[0] or "/"
        return self.settings.topic_config(log_dir, partition.topic).is_compacted

    def _best_copies(self) -> list[Partition]:
        best = []
        for copy in self.log_dirs.best_copies(self._options.selection):
            sevens = {segment.is_v07 for segment in copy.segments}
            if sevens != {False} and (self._options.old_clients_port is None or sevens != {True}):
                message = "not served: it is a log of Kafka 0.7, which no client since 0.8 reads (--old-clients PORT)"
                self._report(Note("unsupported", message, copy.path, exit_code=ExitCode.PARTIAL))
                continue
            best.append(copy)
        return best

    def _make_room(self, segments: int, most: int) -> bool:
        """Raise the limit of open files for `segments`, and if possible for `most`; return whether it is."""
        kept = self._options.limits.connections + _FREE_DESCRIPTORS
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY or most + kept <= soft:
            return True
        if hard != resource.RLIM_INFINITY and segments + kept > hard:
            reason = (
                f"{segments} segments stay open while they are served, and this process may open {hard} files."
                " Serve fewer topics with --topic, or raise the limit with ulimit -n"
            )
            raise Unreadable(path=self._options.paths[0], reason=reason)
        limit = most + kept if hard == resource.RLIM_INFINITY else min(most + kept, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        return limit == most + kept
