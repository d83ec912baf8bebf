"""`find`, `stats`, `replay` and `serve` for Python programs: they change no log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from os import PathLike, fspath
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.errors import ClusterError, KafkalogError, Unreadable, combined_exit_code
from kafkalog_cli.format.batch import NO_TIMESTAMP
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.records import Header
from kafkalog_cli.format.values.decoder import DecodedContents, Undecoded
from kafkalog_cli.ops.call.call import Run, path_texts
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.call.options import Context, Paths
from kafkalog_cli.ops.choices import Hashing, Isolation
from kafkalog_cli.ops.decoding import Decoding
from kafkalog_cli.ops.log_warning import warn
from kafkalog_cli.ops.look.read.request import ReadRequest, Start
from kafkalog_cli.ops.selection import Selection, select_served
from kafkalog_cli.ops.times import Time, epoch_ms

if TYPE_CHECKING:
    import re
    from uuid import UUID

    from kafkalog_cli.log.partition import Partition
    from kafkalog_cli.ops.keys import WantedKey
    from kafkalog_cli.ops.look.read.conditions import FindRequest
    from kafkalog_cli.ops.look.stats import MeasuredPartition
    from kafkalog_cli.ops.move.replay.kafka_cluster import KafkaCluster
    from kafkalog_cli.ops.move.replay.sending import ReplayedOffset, ReplayedPartition
    from kafkalog_cli.ops.move.serve.options import ServeOptions


class FoundRecord(NamedTuple):
    """A record that `find` returns. `is_match` is False for a record around a match.

    `timestamp_ms` is None for a record without a timestamp. `path` is the partition's directory.
    `decoded_key` and `decoded_value` are as JSON has them, None if they are not decoded.
    """

    path: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    is_match: bool = True
    decoded_key: Any = None
    decoded_value: Any = None


def find(  # noqa: PLR0913
    paths: Paths,
    *,
    key: bytes | str | float | UUID | None = None,
    value: bytes | str | None = None,
    regex: re.Pattern[bytes] | str | None = None,
    headers: Mapping[str, bytes | str | None] | None = None,
    json: Sequence[str] = (),
    ignore_case: bool = False,
    topics: Sequence[str] = (),
    partitions: Sequence[int] = (),
    from_offset: int | None = None,
    from_time: Time = None,
    to_offset: int | None = None,
    until: Time = None,
    isolation: str = "read_uncommitted",
    first: int | None = None,
    last: int | None = None,
    before: int = 0,
    after: int = 0,
    key_format: str | None = None,
    value_format: str | None = None,
    schemas: str | PathLike[str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    jobs: int = 1,
) -> Iterator[FoundRecord]:
    """Iterate over the records that meet all conditions, as `kafkalog find` does.

    The order is that of the partitions and their offsets. A `key` other than bytes is as `key_format`
    prints it, such as 42 for a `long`. `headers` has the wanted values by name, None for any value.
    `json` has texts such as `order.id=42`. `before` and `after` are numbers of records around each match. Damage is a
    LogWarning, and its records are left out. With `value_format`, such as "auto", `json` looks into decoded values, and
    `schemas` is a directory of schemas. Raises UsageError, NothingSelected, PathNotFound, NotKafkaLayout, Unreadable,
    OSError.
    """
    from kafkalog_cli.ops.look.read.conditions import (
        Conditions,
        FindRequest,
        HeaderCondition,
        parse_json_condition,
        parse_regex,
    )

    header_conditions = tuple(HeaderCondition(name.encode(), _as_bytes(text)) for name, text in (headers or {}).items())
    decoding = Decoding.of_words(key_format, value_format, None if schemas is None else fspath(schemas))
    conditions = Conditions(
        _wanted_key(key, decoding), _as_bytes(value), ignore_case,
        parse_regex(regex, ignores_case=ignore_case) if isinstance(regex, str) else regex,
        header_conditions, tuple(parse_json_condition(text, has_keys=key_format is not None) for text in json),
    )  # fmt: skip
    start = Start.EARLIEST if from_offset is None else from_offset
    read = ReadRequest(
        start, epoch_ms(from_time), to_offset, epoch_ms(until), isolation=Isolation(isolation), limits=limits
    )  # fmt: skip
    request = FindRequest(conditions, read, first, last, before, after)
    fs = RealFilesystem()
    selected = select_served(fs, path_texts(paths), Selection(frozenset(topics), frozenset(partitions)))
    decoder, notes = decoding.decoder(fs, [partition.path for partition in selected])
    for note in notes:
        warn(note.message, note.path)
    return _iterate_records(fs, selected, replace(request, decoder=decoder), jobs)


def _wanted_key(key: bytes | str | float | UUID | None, decoding: Decoding) -> WantedKey | None:
    from kafkalog_cli.ops.keys import WantedKey

    if isinstance(key, bytes):
        return WantedKey.of_bytes(key)
    return None if key is None else WantedKey(str(key), decoding.key_format)


def _view(data: bytes | None) -> memoryview | None:
    return None if data is None else memoryview(data)


def _pairs(headers: tuple[Header, ...]) -> list[tuple[bytes, bytes | None]]:
    return [(header.key, header.value) for header in headers]


def _json_value(decoded: DecodedContents | Undecoded | None) -> Any:
    return decoded.value if isinstance(decoded, DecodedContents) else None


def _as_bytes(text: bytes | str | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else text


def _iterate_records(
    fs: RealFilesystem, selected: Sequence[Partition], request: FindRequest, jobs: int
) -> Iterator[FoundRecord]:
    from kafkalog_cli.ops.look.read.events import DamagedPart, FoundRecords, NotRead
    from kafkalog_cli.ops.look.read.search import SearchedPartition, find_records

    number, decoder = 0, request.decoder
    for event in find_records(fs, selected, request, jobs=jobs):
        if isinstance(event, FoundRecords):
            partition = selected[number]
            for record in event.found.block.rows():
                key = value = None
                if decoder is not None:
                    headers = partial(_pairs, record.headers)
                    key = _json_value(decoder.key(partition.topic, _view(record.key), headers))
                    value = _json_value(decoder.value(partition.topic, _view(record.value), headers))
                timestamp = None if record.timestamp == NO_TIMESTAMP else record.timestamp
                yield FoundRecord(
                    partition.path, partition.topic, partition.number, record.offset, timestamp, record.key,
                    record.value, record.headers, event.found.is_match, key, value,
                )  # fmt: skip
        elif isinstance(event, DamagedPart):
            warn(event.fault.message, event.path)
        elif isinstance(event, NotRead):
            raise event.error
        elif isinstance(event, SearchedPartition):
            number += 1
        else:
            warn(event.message, event.path)


def stats(  # noqa: PLR0913
    paths: Paths,
    *,
    topics: Sequence[str] = (),
    partitions: Sequence[int] = (),
    top: int = 5,
    limits: Limits = DEFAULT_LIMITS,
    jobs: int = 1,
) -> Run[MeasuredPartition]:
    """Measure what lies in logs as `kafkalog stats` does; each result has the `contents` of one partition.

    The results are in the order of the partitions. `top` is the number of the largest records, most frequent keys and
    producers in each. Damage is a LogWarning too. Raises NothingSelected, PathNotFound, NotKafkaLayout, Unreadable.
    """
    from kafkalog_cli.ops.look.stats import measure_partitions

    fs = RealFilesystem()
    selected = select_served(fs, path_texts(paths), Selection(frozenset(topics), frozenset(partitions)))
    results = list(measure_partitions(fs, selected, top=top, limits=limits, jobs=jobs))
    errors: list[KafkalogError] = []
    for result in results:
        for path, fault in result.damage:
            warn(fault.message, path)
        for path, error in result.not_read:
            known = isinstance(error, KafkalogError)
            errors.append(error if known else Unreadable(path=path, reason=str(error)))  # type: ignore[arg-type]
    return Run(combined_exit_code([result.code for result in results]), tuple(results), tuple(errors))


def replay(  # noqa: PLR0913
    paths: Paths,
    *,
    to: str | KafkaCluster,
    state: str | PathLike[str],
    create: bool = False,
    rename: Mapping[str, str] | None = None,
    groups: bool = False,
    client: Mapping[str, str] | None = None,
    topics: Sequence[str] = (),
    partitions: Sequence[int] = (),
    from_offset: int | None = None,
    from_time: Time = None,
    to_offset: int | None = None,
    until: Time = None,
    isolation: str = "read_committed",
    bytes_per_second: int | None = None,
    metadata: str | PathLike[str] | None = None,
    partitioner: str | None = None,
) -> Run[ReplayedPartition | ReplayedOffset]:
    """Send records as `kafkalog replay` does; the results are partitions, then the committed offsets of groups.

    `to` has the addresses of brokers, or is an object with the methods of KafkaCluster. `client` has settings of
    librdkafka. Damage is a LogWarning too. Raises UsageError, ClusterError, Refused, Locked, BadInput, NothingSelected,
    PathNotFound, NotKafkaLayout, Unreadable, OSError.
    """
    from kafkalog_cli.ops.move.replay.kafka_cluster import KafkaCluster
    from kafkalog_cli.ops.move.replay.plan import ReplayRequest
    from kafkalog_cli.ops.move.replay.sending import Replay, ReplayedPartition

    read = ReadRequest(
        Start.EARLIEST if from_offset is None else from_offset, epoch_ms(from_time), to_offset, epoch_ms(until),
        isolation=Isolation(isolation),
    )  # fmt: skip
    request = ReplayRequest(
        path_texts(paths), fspath(state), Selection(frozenset(topics), frozenset(partitions)), read, rename or {},
        create, groups, None if metadata is None else fspath(metadata), bytes_per_second,
        None if partitioner is None else Hashing(partitioner),
    )  # fmt: skip
    notes: list[Note] = []

    def report(note: Note) -> None:
        notes.append(note)
        warn(note.message, note.path)

    cluster = KafkaCluster(to, client) if isinstance(to, str) else to
    job = Replay(Context(), request, cluster, report)
    for note in job.notes:
        report(note)
    results: list[ReplayedPartition | ReplayedOffset] = []
    errors: list[KafkalogError] = []
    codes = list(job.codes)
    for outcome in job.run():
        if isinstance(outcome, ClusterError):
            errors.append(outcome)
            codes.append(outcome.exit_code)
            continue
        results.append(outcome)
        if isinstance(outcome, ReplayedPartition):
            codes.append(outcome.code)
            errors += [] if outcome.error is None else [outcome.error]
    return Run(combined_exit_code(codes), tuple(results), tuple(errors), tuple(notes))


class LogServer:
    """A server of log directories, to be used once, in a `with` block. Its threads have ended after the block.

    `bootstrap` is its address for bootstrap.servers, `old_clients` the address for clients of Kafka 0.7 and 0.8 (None
    without a listener for them). `notes` are its reports so far, such as damage that a fetch met; each
    is a LogWarning at the end of the block.
    """

    def __init__(self, options: ServeOptions) -> None:
        self.bootstrap = ""
        self.old_clients: str | None = None
        self.notes: list[Note] = []
        self._options = options
        self._stack = ExitStack()

    def __enter__(self) -> LogServer:
        from kafkalog_cli.ops.move.serve.serving import Serving

        with ExitStack() as opened:
            serving = opened.enter_context(Serving(Context(), self._options, self.notes.append))
            thread = Thread(target=serving.run, name="kafkalog-serve", daemon=True)
            opened.callback(thread.join)
            opened.callback(serving.stop)
            thread.start()
            self.bootstrap, self.old_clients = serving.bootstrap, serving.old_clients
            self._stack = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        for note in self.notes:
            warn(note.message, note.path)


def serve(  # noqa: PLR0913
    paths: Paths,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    at: Time = None,
    on_damage: str = "stop",
    topics: Sequence[str] = (),
    broker_config: str | PathLike[str] | None = None,
    metadata: str | PathLike[str] | None = None,
    old_clients: int | None = None,
) -> LogServer:
    """Serve log directories to Kafka clients during a `with` block, as `kafkalog serve` does.

    Port 0 takes a free port. `old_clients` is a second port, for clients of Kafka 0.7 and 0.8. `at` serves the logs as
    of a time, in epoch ms or as a datetime. `on_damage` is stop or skip. Entering the block raises NothingSelected,
    UsageError, PathNotFound, NotKafkaLayout, Unreadable, BadInput, and KafkalogError if the port is taken.
    """
    from kafkalog_cli.ops.choices import DamageAnswer
    from kafkalog_cli.ops.move.serve.options import ServeOptions

    return LogServer(
        ServeOptions(
            path_texts(paths), Selection(frozenset(topics)), host, port,
            DamageAnswer(on_damage), epoch_ms(at),
            None if metadata is None else fspath(metadata), None if broker_config is None else fspath(broker_config),
            old_clients_port=old_clients,
        )
    )  # fmt: skip
