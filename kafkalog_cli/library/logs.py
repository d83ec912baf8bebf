"""Partitions of a log directory for Python programs: offsets, batches and records as Arrow, and appending to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.errors import DamagedLog, UsageError
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.library import reading, verbs
from kafkalog_cli.library.appending import append_arrow
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.log.partition import open_partition as listed_partition
from kafkalog_cli.log.reading.record_arrow import arrow_of_batches, record_batches, record_schema
from kafkalog_cli.ops.call.options import VerbOptions
from kafkalog_cli.ops.change.append.batching import Writing
from kafkalog_cli.ops.change.compact.verb import compact
from kafkalog_cli.ops.change.delete_records import delete_records
from kafkalog_cli.ops.change.purge import purge
from kafkalog_cli.ops.change.retain.retain import retain
from kafkalog_cli.ops.change.roll import roll
from kafkalog_cli.ops.change.truncate import truncate
from kafkalog_cli.ops.change.undo.verb import undo
from kafkalog_cli.ops.check.recover.recover import recover
from kafkalog_cli.ops.choices import Isolation
from kafkalog_cli.ops.damage import damaged_log
from kafkalog_cli.ops.decoding import Decoding
from kafkalog_cli.ops.log_warning import warn
from kafkalog_cli.ops.look.inspect import inspect
from kafkalog_cli.ops.look.read.log_read import LogRead
from kafkalog_cli.ops.look.read.request import ReadRequest, Start
from kafkalog_cli.ops.selection import Selection, select_partitions
from kafkalog_cli.ops.times import Time, epoch_ms
from kafkalog_cli.ops.values import DECODED, NEEDED, DecodedColumns

if TYPE_CHECKING:
    from typing import Concatenate, ParamSpec

    import pyarrow as pa

    from kafkalog_cli.library.appending import Appended, CodecName, Ending, NewPartition

    WordsT = ParamSpec("WordsT")


ResultT = TypeVar("ResultT")


def _on_path(verb: Callable[Concatenate[Any, WordsT], ResultT]) -> Callable[Concatenate[OnPath, WordsT], ResultT]:
    """Return a verb as a method: it takes the arguments of its function after the path."""

    def method(self: OnPath, /, *words: WordsT.args, **named: WordsT.kwargs) -> ResultT:
        return verb(self.path, *words, **named)

    method.__name__, method.__doc__ = verb.__name__, f"See `kafkalog_cli.{verb.__name__}`."
    return method


class OnPath:
    """The verbs as methods on the partitions under `path`; each takes the arguments of its function after the path."""

    @property
    def path(self) -> str:
        """The path that was opened."""
        raise NotImplementedError

    find = _on_path(reading.find)
    inspect = _on_path(inspect)
    replay = _on_path(reading.replay)
    serve = _on_path(reading.serve)
    stats = _on_path(reading.stats)
    cluster = _on_path(verbs.cluster)
    compact = _on_path(compact)
    delete_records = _on_path(delete_records)
    doctor = _on_path(verbs.doctor)
    group_history = _on_path(verbs.group_history)
    groups = _on_path(verbs.groups)
    metadump = _on_path(verbs.metadump)
    purge = _on_path(purge)
    recover = _on_path(recover)
    retain = _on_path(retain)
    roll = _on_path(roll)
    transactions = _on_path(verbs.transactions)
    truncate = _on_path(truncate)
    undo = _on_path(undo)
    verify = _on_path(verbs.verify)


IsolationLevel = Literal["read_uncommitted", "read_committed"]
OnDamage = Callable[[DamagedLog], None]
_WARNED_OF = ("transaction-index", "no-marker", "incomplete-message")


class Offsets(NamedTuple):
    """The first offset (inclusive) and end (exclusive) of a log, and its high watermark (None: in no checkpoint)."""

    start: int
    end: int
    high_watermark: int | None


class PartitionLog(OnPath):
    """One partition on disk.

    Each call reads the disk again; only `append` and the verbs of OnPath lock or change anything.
    """

    def __init__(self, partition: Partition, new: NewPartition | None = None) -> None:
        self._partition = partition
        self._new = new
        self._fs = RealFilesystem()

    def __repr__(self) -> str:
        return f"PartitionLog({self.path!r})"

    @property
    def path(self) -> str:
        """The partition's directory."""
        return self._partition.path

    @property
    def topic(self) -> str:
        """The topic, from the directory's name."""
        return self._partition.topic

    @property
    def partition(self) -> int:
        """The partition's number, from the directory's name; -1 if the name has no number."""
        return self._partition.number

    def offsets(self) -> Offsets:
        """Return the offsets of the log, from the log directory's checkpoints and the last segment.

        Raises NothingSelected (no segments), Unreadable, OSError.
        """
        bounds = self._listed().bounds
        return Offsets(bounds.start, bounds.end, bounds.high_watermark)

    def records(  # noqa: PLR0913
        self,
        *,
        columns: Sequence[str] | None = None,
        from_offset: int | None = None,
        from_time: Time = None,
        to_offset: int | None = None,
        until: Time = None,
        max_records: int | None = None,
        isolation: IsolationLevel = "read_uncommitted",
        key_format: str | None = None,
        value_format: str | None = None,
        schemas: str | PathLike[str] | None = None,
        on_damage: OnDamage | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the records that a consumer would get, in RecordBatches of `record_schema(columns)`.

        `from_offset` is inclusive, and so is the first record at or after `from_time`; without either, reading starts
        at the log start offset. `to_offset` and `until` are exclusive. A time is epoch ms or a datetime (without a
        zone: UTC). Control records are skipped. "read_committed" also skips aborted transactions and stops at the last
        stable offset. The iteration ends with DamagedLog at unreadable records. With `on_damage`, it calls `on_damage`
        for each damaged place and continues after the damage. `key_format` and `value_format` are those of `kafkalog
        read`, such as "auto", and `schemas` is its directory of schemas. They add the columns key_json and value_json,
        with decoded contents as JSON text. Contents that are not decoded are null, and a LogWarning.

        Raises OffsetOutOfRange, UsageError (an unknown column or format, no pyarrow), PathNotFound (no such schemas),
        Unreadable, OSError. Warns with LogWarning.
        """
        schema = record_schema(columns)
        decoding = Decoding.of_words(key_format, value_format, None if schemas is None else fspath(schemas))
        log = self._read(from_offset, from_time, to_offset, until, max_records, isolation, limits)
        parts = (
            self._batches_of(log, schema, on_damage)
            if not decoding
            else self._decoded(log, schema, on_damage, decoding)
        )
        yield from parts

    def _batches_of(self, log: LogRead, schema: pa.Schema, on_damage: OnDamage | None) -> Iterator[pa.RecordBatch]:
        for segment in log.segments():
            for block in segment.blocks():
                if isinstance(block, Fault):
                    _report_damage(segment.segment.log.path, block, on_damage)
                elif len(block.records):
                    yield from record_batches(block, schema)
                _warn(log)
        _warn(log)

    def _decoded(
        self, log: LogRead, schema: pa.Schema, on_damage: OnDamage | None, decoding: Decoding
    ) -> Iterator[pa.RecordBatch]:
        """Yield the parts with decoded columns."""
        decoder, notes = decoding.decoder(self._fs, [self.path])
        for note in notes:
            warn(note.message, note.path)
        assert decoder is not None
        decoded = DecodedColumns(decoder, self.topic)
        needed = record_schema(list(dict.fromkeys((*schema.names, *decoding.columns, *NEEDED))))
        for batch in self._batches_of(log, needed, on_damage):
            decoded_batch = batch.select(schema.names)
            for name in decoding.columns:
                decoded_batch = decoded_batch.append_column(DECODED[name], decoded.texts(batch, name))
            yield decoded_batch
        for failures in decoded.undecoded.failures():
            warn(failures.message, self.path)

    def batches(
        self,
        *,
        from_offset: int | None = None,
        to_offset: int | None = None,
        isolation: IsolationLevel = "read_uncommitted",
        on_damage: OnDamage | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the headers of the batches that hold these records, a row per batch; nothing is decompressed.

        The first and the last batch may reach past the range. All else is as in `records`.
        """
        log = self._read(from_offset, None, to_offset, None, None, isolation, limits)
        for segment in log.segments():
            for chunk in segment.chunks():
                if isinstance(chunk, Fault):
                    _report_damage(segment.segment.log.path, chunk, on_damage)
                elif len(chunk.batches):
                    yield arrow_of_batches(chunk.batches)
                _warn(log)
        _warn(log)

    def append(  # noqa: PLR0913
        self,
        data: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch],
        *,
        codec: CodecName = "none",
        compression_level: int | None = None,
        batch_bytes: int = 16_384,
        leader_epoch: int | None = None,
        producer_id: int | None = None,
        producer_epoch: int = 0,
        first_sequence: int | None = None,
        transaction: Ending | None = None,
        coordinator_epoch: int = 0,
        config: Mapping[str, object] | None = None,
        broker_config: str | PathLike[str] | None = None,
        metadata: str | PathLike[str] | None = None,
        single_replica: bool = False,
        now: Time = None,
        wait_seconds: float = 0,
    ) -> Appended:
        """Append records as the partition's leader would (UnifiedLog.appendAsLeader), as `kafkalog append` does.

        `data` has the columns key, value (binary or string), headers (lists of key and value) and timestamp; each is
        optional. Other columns of `record_schema` and of exported files are ignored, and control records are left out.
        So the output of `records` and of `kafkalog export` is accepted, and its records get new offsets. Without a
        timestamp column, records get `now`; a null timestamp means that the record has none. Parts are read one by one,
        so a generator need not fit in memory. The options are the command's: `config` has topic settings by name,
        `transaction` is the state in which the transaction is left. The log directory and the partition are locked
        meanwhile. If a broker would reject a record, BadInput is raised and nothing is appended. Raises Refused,
        Locked, BadInput, NoSpace, NotChanged, HalfChanged (`kafkalog undo` restores the previous state), UsageError,
        and the exceptions of iterating over `data`. Warns with LogWarning.
        """
        writing = Writing(
            codec=codec,
            compression_level=compression_level,
            batch_bytes=batch_bytes,
            leader_epoch=leader_epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            first_sequence=first_sequence,
            transaction=transaction,
            coordinator_epoch=coordinator_epoch,
        )
        options = VerbOptions(
            config=config or {},
            broker_config=broker_config,
            metadata=metadata,
            single_replica=single_replica,
            now=now,
            wait_seconds=wait_seconds,
        )
        target = self._partition if self._new is None else self._new
        appended = append_arrow(self._fs, target, data, writing, options)
        self._new = None
        return appended

    def _listed(self) -> Partition:
        return listed_partition(self._fs, self.path) if self._new is None else self._partition

    def _read(  # noqa: PLR0913, PLR0917
        self,
        from_offset: int | None,
        from_time: Time,
        to_offset: int | None,
        until: Time,
        max_records: int | None,
        isolation: str,
        limits: Limits,
    ) -> LogRead:
        if from_offset is not None and from_time is not None:
            raise UsageError(reason="give only one of from_offset and from_time")
        start = Start.EARLIEST if from_offset is None else from_offset
        request = ReadRequest(
            start, epoch_ms(from_time), to_offset, epoch_ms(until), max_records, Isolation(isolation), limits
        )  # fmt: skip
        return LogRead(self._fs, self._listed(), request)


class LogDirectory(OnPath, Sequence[PartitionLog]):
    """The partitions under a path, by topic and number."""

    def __init__(self, path: str, partitions: Sequence[PartitionLog]) -> None:
        self._path = path
        self._partitions = tuple(partitions)

    @property
    def path(self) -> str:
        """The path that was opened."""
        return self._path

    def __repr__(self) -> str:
        return f"LogDirectory({self.path!r}, {len(self)} partitions)"

    def __len__(self) -> int:
        return len(self._partitions)

    def __getitem__(self, index: Any) -> Any:
        return self._partitions[index]

    def partition(self, topic: str, number: int = 0) -> PartitionLog:
        """Return one partition. Raises KeyError."""
        for log in self._partitions:
            if (log.topic, log.partition) == (topic, number):
                return log
        raise KeyError((topic, number))


def open_logs(path: str | PathLike[str]) -> LogDirectory:
    """Return the partitions of a log directory; for a partition's own directory, that partition alone.

    Raises PathNotFound, NotKafkaLayout, NothingSelected, Unreadable.
    """
    text = fspath(path)
    partitions = select_partitions(RealFilesystem(), [text], Selection())
    return LogDirectory(text, [PartitionLog(partition) for partition in partitions])


def open_partition(path: str | PathLike[str]) -> PartitionLog:
    """Return the partition in a directory. Raises as `open_logs`, and UsageError if there are several."""
    logs = open_logs(path)
    if len(logs) != 1:
        raise UsageError(reason=f"{logs.path} holds {len(logs)} partitions: kl.open() has them all")
    partition: PartitionLog = logs[0]
    return partition


def new_partition(path: str | PathLike[str], topic_id: str | None = None) -> PartitionLog:
    """Return a partition that has no record yet: its first `append` creates the directory. Other calls find no log.

    `topic_id` is the topic's id, as Kafka prints it. None: the metadata log beside it is expected to have the id;
    otherwise a broker will set the directory aside, and a LogWarning reports this. Raises UsageError if the path is not
    a partition's, or is a partition with records or with another topic's id.
    """
    from kafkalog_cli.library.appending import new_partition as checked

    new = checked(RealFilesystem(), fspath(path), topic_id)
    return PartitionLog(new.partition, new)


def _report_damage(path: str, fault: Fault, on_damage: OnDamage | None) -> None:
    damage = damaged_log(path, fault)
    if on_damage is None:
        raise damage
    on_damage(damage)


def _warn(log: LogRead) -> None:
    while log.notes:
        note = log.notes.popleft()
        if note.kind in _WARNED_OF:
            warn(note.message, note.path)
