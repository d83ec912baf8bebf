"""`find` for Python programs: the records that meet some conditions, one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.format.batch import NO_TIMESTAMP
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.records import Header
from kafkalog_cli.format.values.decoder import DecodedContents, Undecoded
from kafkalog_cli.library.verbs import epoch_ms, path_texts
from kafkalog_cli.library.warning import warn
from kafkalog_cli.ops.read.request import Isolation, Start
from kafkalog_cli.ops.selection import Selection, select_partitions
from kafkalog_cli.ops.values.decoded_columns import Decoding

if TYPE_CHECKING:
    import re
    from typing import TypeAlias

    from kafkalog_cli.log.partition import Partition
    from kafkalog_cli.ops.find.conditions import FindRequest

    Paths: TypeAlias = str | PathLike[str] | Sequence[str | PathLike[str]]


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
    key: bytes | str | None = None,
    value: bytes | str | None = None,
    regex: re.Pattern[bytes] | str | None = None,
    headers: Mapping[str, bytes | str | None] | None = None,
    json: Sequence[str] = (),
    ignore_case: bool = False,
    topics: Sequence[str] = (),
    partitions: Sequence[int] = (),
    from_offset: int | None = None,
    from_time: int | datetime | None = None,
    to_offset: int | None = None,
    until: int | datetime | None = None,
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

    The order is that of the partitions and their offsets. `headers` has the wanted values by name, None for any value.
    `json` has texts such as `order.id=42`. `before` and `after` are numbers of records around each match. Damage is a
    LogWarning, and its records are left out. With `value_format`, such as "auto", `json` looks into decoded values, and
    `schemas` is a directory of schemas. Raises UsageError, NothingSelected, PathNotFound, NotKafkaLayout, Unreadable,
    OSError.
    """
    from kafkalog_cli.ops.find.conditions import (
        Conditions,
        FindRequest,
        HeaderCondition,
        parse_json_condition,
        parse_regex,
    )

    wanted = tuple(HeaderCondition(name.encode(), _as_bytes(one)) for name, one in (headers or {}).items())
    conditions = Conditions(
        _as_bytes(key), _as_bytes(value), ignore_case,
        parse_regex(regex, ignores_case=ignore_case) if isinstance(regex, str) else regex,
        wanted, tuple(map(parse_json_condition, json)),
    )  # fmt: skip
    start = Start.EARLIEST if from_offset is None else from_offset
    request = FindRequest(
        conditions, start, epoch_ms(from_time), to_offset, epoch_ms(until), Isolation(isolation), first, last,
        before, after, limits=limits,
    )  # fmt: skip
    fs = RealFilesystem()
    chosen = select_partitions(fs, path_texts(paths), Selection(frozenset(topics), frozenset(partitions)))
    decoding = Decoding.of_words(key_format, value_format, None if schemas is None else fspath(schemas))
    decoder, notes = decoding.decoder(fs, [one.path for one in chosen])
    for note in notes:
        warn(note.message, note.path)
    return _found(fs, chosen, replace(request, decoder=decoder), jobs)


def _view(data: bytes | None) -> memoryview | None:
    return None if data is None else memoryview(data)


def _pairs(headers: tuple[Header, ...]) -> list[tuple[bytes, bytes | None]]:
    return [(one.key, one.value) for one in headers]


def _json_value(found: DecodedContents | Undecoded | None) -> Any:
    return found.value if isinstance(found, DecodedContents) else None


def _as_bytes(text: bytes | str | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else text


def _found(fs: RealFilesystem, chosen: Sequence[Partition], request: FindRequest, jobs: int) -> Iterator[FoundRecord]:
    from kafkalog_cli.disk.kernels import KernelChoice
    from kafkalog_cli.ops.find.partition_search import (
        DamagedPart,
        FoundRecords,
        NotRead,
        SearchedPartition,
        find_records,
    )

    done, decoder = 0, request.decoder
    for event in find_records(fs, chosen, request, KernelChoice(), jobs=jobs):
        if isinstance(event, FoundRecords):
            partition = chosen[done]
            for one in event.found.block.rows():
                key = value = None
                if decoder is not None:
                    headers = partial(_pairs, one.headers)
                    key = _json_value(decoder.key(partition.topic, _view(one.key), headers))
                    value = _json_value(decoder.value(partition.topic, _view(one.value), headers))
                timestamp = None if one.timestamp == NO_TIMESTAMP else one.timestamp
                yield FoundRecord(
                    partition.path, partition.topic, partition.number, one.offset, timestamp, one.key, one.value,
                    one.headers, event.found.is_match, key, value,
                )  # fmt: skip
        elif isinstance(event, DamagedPart):
            warn(event.fault.message, event.path)
        elif isinstance(event, NotRead):
            raise event.error
        elif isinstance(event, SearchedPartition):
            done += 1
        else:
            warn(event.message, event.path)
