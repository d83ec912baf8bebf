"""Plan which partitions an import makes: from which files, with which topic ids, and what prevents it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from kafkalog_cli.change.publishing.new_partitions import has_no_record
from kafkalog_cli.disk.fs import WritableFilesystem
from kafkalog_cli.disk.names import (
    DirectoryKind,
    classify_directory,
    is_topic_name,
    moved_out,
    partition_directory_name,
)
from kafkalog_cli.errors import Refused, UsageError
from kafkalog_cli.log.partition import Partition, open_partition
from kafkalog_cli.ops.importing.building import TopicStyle
from kafkalog_cli.ops.importing.inputs import InputFile
from kafkalog_cli.ops.importing.request import ImportRequest
from kafkalog_cli.ops.importing.scattering import Part
from kafkalog_cli.ops.partition_facts import Places, facts_of_new, topic_id_of
from kafkalog_cli.ops.read.visible import ReadNote
from kafkalog_cli.ops.refusals import Action, Intent, judge, raise_refusals
from kafkalog_cli.ops.settings import SettingsSource


class Job(NamedTuple):
    """A partition to make from files, in this order unless their offsets give another order."""

    topic: str
    partition: int
    files: tuple[InputFile, ...]

    @property
    def name(self) -> str:
        """The name of the partition's directory."""
        return partition_directory_name(self.topic, self.partition)

    @property
    def size_bytes(self) -> int:
        """The total size of the files."""
        return sum(file.size_bytes for file in self.files)

    @property
    def rows(self) -> int:
        """The number of rows in the files; -1 if only reading them shows it."""
        return -1 if any(file.rows < 0 for file in self.files) else sum(file.rows for file in self.files)


class TopicId(NamedTuple):
    """The topic id with which a topic is made, and its source. None: no source knows it."""

    topic_id: str | None
    said_by: str = ""


def topic_of(file: InputFile, request: ImportRequest) -> str | None:
    """Return the topic of all rows of a file; None if the rows have a topic column, or if the topic is unknown."""
    if request.topic is not None:
        return request.topic
    return None if "topic" in file.columns else file.topic


def jobs_of_files(files: Sequence[InputFile], request: ImportRequest) -> list[Job] | None:
    """Return a job per partition if each file belongs to a single one; None if rows must be sorted first.

    Raises UsageError if the topic or partition of a file is unknown, or if --topic is given for several topics.
    """
    own = {file.topic for file in files if "topic" not in file.columns}
    if request.topic is not None and len(own) > 1:
        raise UsageError(reason=f"--topic {request.topic} is for one topic, the input has {', '.join(map(str, own))}")
    for file in files:
        if file.topic is None and request.topic is None and "topic" not in file.columns:
            raise UsageError(reason=f"{file.path} does not name its topic: give --topic NAME")
        if file.partition is None and request.partitions is None and "partition" not in file.columns:
            reason = f"{file.path} does not name the partition of its rows: --partitions N chooses it by their keys"
            raise UsageError(reason=reason)
    if request.partitions is not None or any(file.partition is None or not topic_of(file, request) for file in files):
        return None
    found: dict[tuple[str, int], list[InputFile]] = {}
    for file in files:
        topic = topic_of(file, request)
        assert topic is not None
        assert file.partition is not None
        found.setdefault((topic, file.partition), []).append(file)
    return [Job(*place, tuple(own_files)) for place, own_files in sorted(found.items())]


def jobs_of_parts(parts: Iterable[Part]) -> list[Job]:
    """Return a job per partition, with its files in the order of the input."""
    found: dict[tuple[str, int], list[Part]] = {}
    for part in parts:
        found.setdefault((part.topic, part.partition), []).append(part)
    return [
        Job(*place, tuple(part.file for part in sorted(own, key=lambda one: one.order)))
        for place, own in sorted(found.items())
    ]


class Planner:
    """Plans the topics of one import into `log_dir`; `places` are all partitions that exist already."""

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        fs: WritableFilesystem,
        log_dir: str,
        request: ImportRequest,
        source: SettingsSource,
        places: Places,
        now_ms: int,
    ) -> None:
        self.notes: list[ReadNote] = []
        self._fs = fs
        self._log_dir = log_dir
        self._request = request
        self._source = source
        self._places = places
        self._now_ms = now_ms
        self._empty_ids: dict[str, str | None] = {}

    def check(self, jobs: Sequence[Job]) -> None:
        """Check that the partitions may be made.

        Raises Refused or UnsupportedFormat for the first that may not, UsageError for an invalid topic name.
        """
        told: set[tuple[str, str]] = set()
        for job in jobs:
            _check_name(job.topic)
            partition = Partition(f"{self._log_dir}/{job.name}", classify_directory(job.name), ())
            if partition.directory.kind is not DirectoryKind.PARTITION:
                raise UsageError(reason=f"{job.name} is not a partition name")
            self._check_place(job, partition)
            facts = facts_of_new(self._fs, partition, self._log_dir, self._source, self._places)
            intent = Intent(Action.IMPORT, self._now_ms, single_replica=self._request.single_replica)
            verdicts = judge(facts, intent)
            raise_refusals(verdicts)
            for verdict in verdicts:
                if (verdict.rule.name, job.topic) not in told:
                    told.add((verdict.rule.name, job.topic))
                    self.notes.append(ReadNote(verdict.rule.name, partition.path, verdict.message))

    def _check_place(self, job: Job, partition: Partition) -> None:
        """Raise Refused if the partition exists already, or if a broker was copying it there."""
        if self._fs.status(partition.path) is not None:
            is_empty = has_no_record(self._fs, partition.path)
            if not (is_empty and self._request.replace_empty):
                way_out = f"{moved_out(partition.path)} moves it out of the log directory"
                if is_empty:
                    way_out = "it never held a record: --replace-empty takes its place"
                raise Refused(path=partition.path, reason=f"it already exists; {way_out}")
            self._empty_ids[job.topic] = topic_id_of(self._fs, open_partition(self._fs, partition.path))
        for entry in self._fs.list_directory(self._log_dir):
            found = classify_directory(entry.path.rpartition("/")[2])
            if found.kind is DirectoryKind.FUTURE and (found.topic, found.partition) == (job.topic, job.partition):
                raise Refused(path=entry.path, reason="a broker was copying this partition here")

    def topic_ids(self, jobs: Sequence[Job], of_files: Mapping[str, set[str]]) -> dict[str, TopicId]:
        """Return the topic ids, by topic.

        The command line takes precedence, then the metadata log, because a broker requires the id in it. Raises
        UsageError if the ids of the command line do not fit the topics.
        """
        topics = sorted({job.topic for job in jobs})
        given = dict(self._request.topic_ids)
        if "" in given and len(topics) > 1:
            raise UsageError(reason=f"--topic-id: the input has the topics {', '.join(topics[:3])}: give TOPIC=ID")
        if "" in given and topics:
            given = {topics[0]: given[""]}
        unknown = sorted(set(given) - set(topics))
        if unknown:
            raise UsageError(reason=f"--topic-id: the input has no topic {unknown[0]}")
        return {topic: self._topic_id(topic, given.get(topic), of_files.get(topic, set())) for topic in topics}

    def _topic_id(self, topic: str, given: str | None, of_files: set[str]) -> TopicId:
        metadata = self._source.metadata(self._log_dir)
        known = None if metadata is None else metadata.topics.get(topic)
        path = f"{self._log_dir}/{topic}-*"
        if metadata is not None and known is None:
            told = "the metadata log has no such topic: a broker sets its partitions aside as -stray"
            self.notes.append(ReadNote("unknown-topic", path, told))
        candidates = (
            (given, "--topic-id"),
            (None if known is None else known.topic_id, "the metadata log"),
            (self._empty_ids.get(topic), "the empty partition"),
            (next(iter(of_files)) if len(of_files) == 1 else None, "the input"),
        )
        found = next((TopicId(*one) for one in candidates if one[0] is not None), TopicId(None))
        if found.topic_id is None:
            several = f" (the input has {len(of_files)})" if len(of_files) > 1 else ""
            told = (
                "no topic id is known: a broker sets its partitions aside as -stray and starts empty"
                " partitions. Give --topic-id"
            )
            self.notes.append(ReadNote("no-topic-id", path, told + several))
        return found

    def style(self, topic: str, topic_id: TopicId, of_files: set[str], *, keep_offsets: bool) -> TopicStyle:
        """Return how a topic's partitions are made. Raises as `SettingsSource.metadata` does."""
        writing = self._request.writing(keep_offsets=keep_offsets)
        style = TopicStyle.of(self._source, self._log_dir, topic, writing, self._now_ms)
        is_same = topic_id.topic_id is not None and of_files == {topic_id.topic_id}
        return replace(
            style, topic_id=topic_id.topic_id, keeps_codecs=self._request.codec is None, keeps_epochs=is_same
        )


def ids_of_files(files: Sequence[InputFile], request: ImportRequest) -> dict[str, set[str]]:
    """Return the topic ids found in the files, by topic."""
    found: dict[str, set[str]] = {}
    for file in files:
        topic = topic_of(file, request)
        if topic is not None and file.topic_id is not None:
            found.setdefault(topic, set()).add(file.topic_id)
    return found


def _check_name(topic: str) -> None:
    """Raise UsageError for an invalid topic name, as a broker does (Topic.validate)."""
    if not is_topic_name(topic):
        raise UsageError(reason=f"{topic!r} is not a topic name")
