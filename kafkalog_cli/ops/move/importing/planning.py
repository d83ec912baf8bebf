"""The plan of an import, and its proof.

The plan says which partitions to make: from which files, with which topic ids, and what prevents it. The proof reads a
new partition back, and compares it with the rows that it was built from.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Annotated, Any, ClassVar, NamedTuple, cast

from kafkalog_cli.change.new_partitions import Completed, has_no_record
from kafkalog_cli.disk.fs import Filesystem, WritableFilesystem
from kafkalog_cli.disk.names import (
    DirectoryKind,
    classify_directory,
    is_topic_name,
    moved_out,
    partition_directory_name,
)
from kafkalog_cli.errors import ExitCode, NothingSelected, NotSame, Refused, UsageError, counted
from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.columns import column_of
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.log_dir import LogDirs
from kafkalog_cli.log.partition import Partition, open_partition
from kafkalog_cli.log.reading.record_arrow import record_batches, record_schema
from kafkalog_cli.log.settings.source import SettingsSource
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.change.append.append import AppendCounts, append_time_of, codec_of, is_codec_forced
from kafkalog_cli.ops.change.append.batching import BatchStyle
from kafkalog_cli.ops.change.append.making import check_topic_id
from kafkalog_cli.ops.change.append.records import NewRecords
from kafkalog_cli.ops.change.plans import used_settings
from kafkalog_cli.ops.change.refusals import Action, Intent, judge, raise_refusals
from kafkalog_cli.ops.damage import damaged_log
from kafkalog_cli.ops.look.read.log_read import LogRead
from kafkalog_cli.ops.look.read.request import ReadRequest, Start
from kafkalog_cli.ops.move.importing.building import TopicStyle
from kafkalog_cli.ops.move.importing.scattering import SortedFile, in_offset_order
from kafkalog_cli.ops.move.importing.sources import ImportRequest, InputFile
from kafkalog_cli.ops.ownership import Places, registered_topic
from kafkalog_cli.results import EMPTY_IS_NULL, Hidden, PathName, keywords, of, result


class Job(NamedTuple):
    """A partition to make from files, in this order unless their offsets give another order."""

    topic: str
    partition: int
    files: tuple[InputFile | SortedFile, ...]

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

    @property
    def first_offset(self) -> int:
        """The smallest offset, 0 if the files have no rows. Raises BadInput."""
        ranges = [found for file in self.files if (found := file.offset_range()) is not None]
        return max(min(ranges)[0], 0) if ranges else 0

    def records(self, now_ms: int) -> Iterator[NewRecords]:
        """Iterate over the records: by offset if all files have offsets, else in file order. Raises BadInput.

        `now_ms` is the timestamp of records from a file without timestamps.
        """
        if all(file.has_offsets for file in self.files):
            yield from in_offset_order(self.files, now_ms)
            return
        for file in self.files:
            yield from file.records(now_ms)


class TopicId(NamedTuple):
    """The topic id with which a topic is made, and its source. None: no source knows it."""

    topic_id: str | None
    source: str = ""


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
    return [Job(topic, partition, tuple(own)) for (topic, partition), own in sorted(found.items())]


def jobs_of_sorted_files(files: Iterable[SortedFile]) -> list[Job]:
    """Return a job per partition, with its files in the order of the input."""
    found: dict[tuple[str, int], list[SortedFile]] = {}
    for file in sorted(files, key=lambda file: file.order):
        found.setdefault((file.topic, file.partition), []).append(file)
    return [Job(topic, partition, tuple(own)) for (topic, partition), own in sorted(found.items())]


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """The planned partitions.

    `jobs` is None if the partitions are known only after the rows were read. `ids` has the topic ids by topic.
    """

    files: tuple[InputFile, ...]
    jobs: tuple[Job, ...] | None
    ids: dict[str, TopicId] = field(default_factory=dict)
    keep_offsets: bool = False


@dataclass(slots=True)
class Planner:
    """Plans the topics of one import into `log_dir`; `places` are all partitions that exist already."""

    fs: WritableFilesystem
    log_dir: str
    request: ImportRequest
    source: SettingsSource
    places: Places
    now_ms: int
    notes: list[Note] = field(default_factory=list)
    empty_ids: dict[str, str | None] = field(default_factory=dict)
    """The topic ids of partitions without a record that are replaced, by topic."""

    def plan(self, files: Sequence[InputFile]) -> ImportPlan:
        """Plan an import of files. Raises as `with_jobs`, and UsageError for files that do not fit the options."""
        jobs = jobs_of_files(files, self.request)
        topics = (topic_of(file, self.request) for file in files)
        self.check_count({topic for topic in topics if topic is not None})
        left_out = sorted({name for file in files for name in file.left_out})
        if left_out:
            self.notes.append(Note("columns", f"left out: no record has {', '.join(left_out)}", files[0].path))
        plan = ImportPlan(tuple(files), None, keep_offsets=self.request.keeps_offsets(files))
        return plan if jobs is None else self.with_jobs(plan, jobs)

    def with_jobs(self, plan: ImportPlan, jobs: Sequence[Job]) -> ImportPlan:
        """Return the plan with its partitions. Raises NothingSelected for none, and as `check` and `topic_ids`."""
        if not jobs:
            raise NothingSelected(reason="the input has no records")
        self.check(jobs)
        return replace(plan, jobs=tuple(jobs), ids=self.topic_ids(jobs, ids_of_files(plan.files, self.request)))

    def check(self, jobs: Sequence[Job]) -> None:
        """Check that the partitions may be made.

        Raises Refused or UnsupportedFormat for the first that may not, UsageError for an invalid topic name.
        """
        self.check_count({job.topic for job in jobs})
        reported: set[tuple[str, str]] = set()
        log_dirs = LogDirs(self.fs)
        log_dirs.settings = self.source
        for job in jobs:
            if not is_topic_name(job.topic):
                raise UsageError(reason=f"{job.topic!r} is not a topic name")
            partition = Partition(self.fs, f"{self.log_dir}/{job.name}", log_dirs=log_dirs)
            if partition.directory.kind is not DirectoryKind.PARTITION:
                raise UsageError(reason=f"{job.name} is not a partition name")
            self._check_place(job, partition)
            intent = Intent(Action.IMPORT, self.now_ms, self.places, single_replica=self.request.single_replica)
            verdicts = judge(partition, intent)
            raise_refusals(verdicts)
            for verdict in verdicts:
                if (verdict.rule.name, job.topic) not in reported:
                    reported.add((verdict.rule.name, job.topic))
                    self.notes.append(Note(verdict.rule.name, verdict.message, partition.path))

    def check_count(self, topics: Iterable[str]) -> None:
        """Raise Refused if --partitions is another number than these topics have: producers choose by that number."""
        count, metadata = self.request.partitions, self.source.metadata(self.log_dir)
        for topic in sorted(topics) if count is not None else ():
            registered = registered_topic(metadata, topic)
            known = 0 if registered is None else len(registered.partitions)
            there = 1 + max((number for name, number in self.places if name == topic), default=-1)
            if known not in (0, count):
                reason = (
                    f"topic {topic} has {counted(known, 'partition')} in the metadata log, and keys go by that number"
                )
                raise Refused(path=self.log_dir, reason=f"{reason}, not by {count}: --partitions {known} fits")
            if there > (known or count or 0):
                reason = f"topic {topic} has partition {there - 1} here, so that its keys go by more than {count}"
                raise Refused(path=self.log_dir, reason=f"{reason} partitions: --partitions {there} or more fits")

    def _check_place(self, job: Job, partition: Partition) -> None:
        """Raise Refused if the partition exists already, or if a broker was copying it there."""
        if self.fs.status(partition.path) is not None:
            is_empty = has_no_record(self.fs, partition.path)
            if not (is_empty and self.request.replace_empty):
                way_out = f"{moved_out(partition.path)} moves it out of the log directory"
                if is_empty:
                    way_out = "it never held a record: --replace-empty takes its place"
                raise Refused(path=partition.path, reason=f"it already exists; {way_out}")
            self.empty_ids[job.topic] = open_partition(self.fs, partition.path).topic_id
        for entry in self.fs.list_directory(self.log_dir):
            found = classify_directory(entry.path.rpartition("/")[2])
            if found.kind is DirectoryKind.FUTURE and (found.topic, found.partition) == (job.topic, job.partition):
                raise Refused(path=entry.path, reason="a broker was copying this partition here")

    def topic_ids(self, jobs: Sequence[Job], of_files: Mapping[str, set[str]]) -> dict[str, TopicId]:
        """Return the topic ids, by topic.

        The command line takes precedence, then the metadata log, because a broker requires the id in it. Raises
        UsageError if the ids of the command line do not fit the topics.
        """
        topics = sorted({job.topic for job in jobs})
        given = dict(self.request.topic_ids)
        if "" in given and len(topics) > 1:
            raise UsageError(reason=f"--topic-id: the input has the topics {', '.join(topics[:3])}: give TOPIC=ID")
        if "" in given and topics:
            given = {topics[0]: given[""]}
        unknown = sorted(set(given) - set(topics))
        if unknown:
            raise UsageError(reason=f"--topic-id: the input has no topic {unknown[0]}")
        return {topic: self._topic_id(topic, given.get(topic), of_files.get(topic, set())) for topic in topics}

    def _topic_id(self, topic: str, given: str | None, of_files: set[str]) -> TopicId:
        metadata = self.source.metadata(self.log_dir)
        check_topic_id(metadata, topic, given)
        known = None if metadata is None else metadata.topics.get(topic)
        path = f"{self.log_dir}/{topic}-*"
        if metadata is not None and known is None:
            message = "the metadata log has no such topic: a broker sets its partitions aside as -stray"
            self.notes.append(Note("unknown-topic", message, path))
        candidates = (
            (given, "--topic-id"),
            (None if known is None else known.topic_id, "the metadata log"),
            (self.empty_ids.get(topic), "the empty partition"),
            (next(iter(of_files)) if len(of_files) == 1 else None, "the input"),
        )
        found = next((TopicId(*one) for one in candidates if one[0] is not None), TopicId(None))
        if found.topic_id is None:
            several = f" (the input has {len(of_files)})" if of_files else ""
            message = (
                "no topic id is known: a broker sets its partitions aside as -stray and starts empty"
                " partitions. Give --topic-id"
            )
            self.notes.append(Note("no-topic-id", message + several, path))
        return found

    def style(self, topic: str, topic_id: TopicId, of_files: set[str], *, keep_offsets: bool) -> TopicStyle:
        """Return how a topic's partitions are made. Raises as `SettingsSource.metadata` does."""
        request, source, found = self.request, self.source, topic_id.topic_id
        config, writing = source.topic_config(self.log_dir, topic), request.writing(keep_offsets=keep_offsets)
        most_bytes = min(cast("int", config["max.message.bytes"].value), config.segment_bytes)
        is_same_topic = found is not None and of_files == {found}  # its leader epochs were assigned in this topic
        batches = BatchStyle(
            *codec_of(config, writing),
            min(writing.batch_bytes, most_bytes),
            append_time_ms=append_time_of(config, writing, self.now_ms),
            keeps_offsets=keep_offsets,
            keeps_epochs=keep_offsets and is_same_topic,
            keeps_codecs=request.codec is None and not is_codec_forced(config),
        )
        registered = registered_topic(source.metadata(self.log_dir), topic)
        count = None if registered is None or request.partitions is not None else len(registered.partitions)
        return TopicStyle(config, used_settings(source, self.log_dir, topic), batches, self.now_ms, found, count)


def ids_of_files(files: Sequence[InputFile], request: ImportRequest) -> dict[str, set[str]]:
    """Return the topic ids found in the files, by topic."""
    found: dict[str, set[str]] = {}
    for file in files:
        topic = topic_of(file, request)
        if topic is not None and file.topic_id is not None:
            found.setdefault(topic, set()).add(file.topic_id)
    return found


_RECORD = ("timestamp", "key", "value", "headers")
_ROWS = 1 << 14


class Proof(NamedTuple):
    """The number of records compared, and their SHA-256; equal records have equal digests."""

    records: int
    digest: str


def prove(  # noqa: PLR0913
    fs: Filesystem, path: str, name: str, expected: Iterable[NewRecords],
    *, with_offsets: bool, append_time_ms: int | None = None,
) -> Proof:  # fmt: skip
    """Compare the partition in `path` (`name` in messages) with the records that it was built from.

    It compares timestamp, key, value and headers of all records in order and, with `with_offsets`, the offset.
    `append_time_ms` is the timestamp of all records if the topic has LogAppendTime, else None. Raises NotSame at the
    first difference, DamagedLog, and as reading does.
    """
    columns = (*(("offset",) if with_offsets else ()), *_RECORD)
    schema = record_schema(columns)
    expected_rows = _rows_of(_arrow_of(expected, schema, append_time_ms))
    found = _rows_of(_read(fs, path, schema))
    digest, count = hashlib.sha256(), 0
    while True:
        one, other = next(expected_rows, None), next(found, None)
        if one is None and other is None:
            return Proof(count, digest.hexdigest())
        if one is None or other is None or not one.equals(other):
            raise NotSame(path=name, reason=_difference(one, other, count))
        count += one.num_rows
        _add(digest, one)


def _arrow_of(parts: Iterable[NewRecords], schema: Any, append_time_ms: int | None) -> Iterator[Any]:
    for records in parts:
        count, no_batches = len(records), BatchColumns.from_rows([])
        if append_time_ms is not None:
            records.columns.timestamp[:] = column_of(repeat(append_time_ms, count))
        buffer, ends = memoryview(records.buffer), column_of((count,))
        yield from record_batches(RecordBlock(buffer, no_batches, 0, 0, ends, records.stored), schema)


def _read(fs: Filesystem, path: str, schema: Any) -> Iterator[Any]:
    log = LogRead(fs, open_partition(fs, path), ReadRequest(Start.EARLIEST))
    for segment in log.segments():
        for found in segment.blocks():
            if isinstance(found, Fault):
                raise damaged_log(segment.segment.log.path, found)
            if len(found.records):
                yield from record_batches(found, schema)


def _rows_of(parts: Iterable[Any]) -> Iterator[Any]:
    """Yield the same rows as tables of equal size, except the last, with one chunk per column."""
    import pyarrow as pa

    pending: list[Any] = []
    count = 0
    for part in parts:
        if part.num_rows:
            pending.append(part)
            count += part.num_rows
        while count >= _ROWS:
            whole = pa.Table.from_batches(pending)
            yield whole.slice(0, _ROWS).combine_chunks()
            rest = whole.slice(_ROWS)
            count = rest.num_rows
            pending = rest.to_batches() if count else []
    if count:
        yield pa.Table.from_batches(pending).combine_chunks()


def _difference(one: Any, other: Any, before: int) -> str:
    """Describe the first record that differs; `before` is the number of equal records."""
    written, found = ([] if table is None else table.to_pylist() for table in (one, other))
    for number, (first, second) in enumerate(zip(written, found, strict=False)):
        if first != second:
            names = ", ".join(name for name in first if first[name] != second[name])
            return f"record {before + number + 1} was read back with another {names}"
    count = before + len(written)
    if len(found) < len(written):
        return f"{before + len(found)} records were read back, {count} or more were written"
    return f"more than the {count} records written were read back"


def _add(digest: Any, table: Any) -> None:
    """Add lengths and bytes of all columns to the digest; a null and an empty value differ in it."""
    for name in table.schema.names:
        for array in _flat(table.column(name).combine_chunks()):
            digest.update(array)


def _flat(array: Any) -> Iterator[bytes]:
    import numpy as np
    import pyarrow as pa

    valid: Any = array.is_valid().to_numpy(zero_copy_only=False)
    yield np.packbits(valid).tobytes()
    if pa.types.is_list(array.type):
        yield array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64).tobytes()
        for field in array.flatten().flatten():
            yield from _flat(field)
    elif pa.types.is_binary(array.type):
        import pyarrow.compute as pc

        yield pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64).tobytes()
        _, ends, data = array.buffers()
        bounds: Any = np.frombuffer(ends, np.int32)[array.offset : array.offset + len(array) + 1]
        if data is not None:
            yield memoryview(data)[int(bounds[0]) : int(bounds[-1])].tobytes()
    else:
        yield array.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64).tobytes()


class JobDone(NamedTuple):
    """A partition that is complete under the name `staged`; `proof` is None if it was not requested."""

    topic: str
    partition: int
    staged: str
    built: AppendCounts
    proof: Proof | None = None
    inode: int | None = None
    """The staged directory, by which it is known when it gets its place."""
    misplaced: int = 0
    """Records with a key that no producer of Kafka or librdkafka would put here."""


_SOURCES = ("--topic-id", "the metadata log", "the empty partition", "the input")


@result("kafkalog.imported/1")
@dataclass(frozen=True, slots=True)
class ImportedPartition:
    """A partition that import made, or would make. In a dry run unknown numbers are null."""

    path: Annotated[PathName, "the partition directory"]
    topic: str
    partition: int
    topic_id: Annotated[str | None, "null: unknown, and a broker renames the partition to -stray"]
    topic_id_from: Annotated[
        Annotated[str, keywords(enum=_SOURCES)] | None, EMPTY_IS_NULL, "the source of the topic id"
    ]
    keeps_offsets: Annotated[bool, "offsets are those of the input, else new offsets from 0 on"]
    dry_run: Annotated[bool, "nothing was made: the other fields show what would be made"]
    planned_records: Hidden[int | None] = None
    built: Hidden[AppendCounts | None] = None
    proof: Hidden[Proof | None] = None
    first_offset: ClassVar[Annotated[int | None, "of the first record"]] = of("built.first_offset")
    end_offset: ClassVar[Annotated[int | None, "of the next record"]] = of("built.end_offset")
    records: ClassVar[
        Annotated[int | None, "in a dry run the rows of the input, with control records; null if unknown"]
    ] = of(lambda one: one.planned_records if one.built is None else one.built.records)
    batches: ClassVar[int | None] = of("built.batches")
    size_bytes: ClassVar[Annotated[int | None, "of the batches"]] = of("built.size_bytes")
    segments: ClassVar[int | None] = of("built.segments")
    transactional_records: ClassVar[Annotated[int | None, "records of transactions, which became plain records"]] = of(
        "built.transactional"
    )
    proved_records: ClassVar[
        Annotated[int | None, "records that were read back and equal the input; null without --prove"]
    ] = of("proof.records")
    digest: ClassVar[Annotated[str | None, "SHA-256 over these records; equal records have equal digests"]] = of(
        "proof.digest"
    )


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The partitions that were made, and remarks on them.

    `completed` is about an earlier run that was cut off after its commit.
    """

    plan: ImportPlan | None = None
    done: tuple[JobDone, ...] = ()
    notes: tuple[Note, ...] = ()
    completed: Completed = field(default_factory=Completed)

    @property
    def exit_code(self) -> ExitCode:
        """FAILURE if partitions of a committed run are lost."""
        return ExitCode.FAILURE if self.completed.lost else ExitCode.OK

    def partitions(self, log_dir: str, *, dry_run: bool) -> Iterator[ImportedPartition]:
        """Yield each new partition; in a dry run, with what is known before the rows are read."""
        plan = self.plan
        if plan is None:
            return

        def partition(topic: str, number: int, *of_it: Any) -> ImportedPartition:
            found = plan.ids.get(topic, TopicId(None))
            path = f"{log_dir.rstrip('/')}/{topic}-{number}"
            of_plan = (found.topic_id, found.source, plan.keep_offsets, dry_run)
            return ImportedPartition(path, topic, number, *of_plan, *of_it)

        if dry_run:
            for job in plan.jobs or ():
                yield partition(job.topic, job.partition, None if job.rows < 0 else job.rows)
        else:
            for done in self.done:
                yield partition(done.topic, done.partition, None, done.built, done.proof)
