"""`find` for Python programs: the records that meet some conditions, one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from os import PathLike
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.format.batch import NO_TIMESTAMP
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.records import Header
from kafkalog_cli.library.verbs import epoch_ms, path_texts
from kafkalog_cli.library.warning import warn
from kafkalog_cli.ops.read.request import Isolation, Start
from kafkalog_cli.ops.selection import Selection, select_partitions

if TYPE_CHECKING:
    import re
    from typing import TypeAlias

    from kafkalog_cli.ops.find.request import FindRequest

    Paths: TypeAlias = str | PathLike[str] | Sequence[str | PathLike[str]]


class FoundRecord(NamedTuple):
    """A record that `find` returns. `is_match` is False for a record around a match.

    `timestamp_ms` is None for a record without a timestamp. `path` is the partition's directory.
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
    limits: Limits = DEFAULT_LIMITS,
    jobs: int = 1,
) -> Iterator[FoundRecord]:
    """Iterate over the records that meet all conditions, as `kafkalog find` does.

    The order is that of the partitions and their offsets. `headers` has the wanted values by name, None for any value.
    `json` has texts such as `order.id=42`. `before` and `after` are numbers of records around each match. Damage is a
    LogWarning, and its records are left out. Raises UsageError, NothingSelected, PathNotFound, NotKafkaLayout,
    Unreadable, OSError.
    """
    from kafkalog_cli.ops.find.conditions import Conditions, HeaderCondition, parse_regex
    from kafkalog_cli.ops.find.json_path import parse_json_condition
    from kafkalog_cli.ops.find.request import FindRequest

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
    selection = Selection(frozenset(topics), frozenset(partitions))
    return _found(path_texts(paths), selection, request, jobs)


def _as_bytes(text: bytes | str | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else text


def _found(paths: list[str], selection: Selection, request: FindRequest, jobs: int) -> Iterator[FoundRecord]:
    from kafkalog_cli.disk.kernels import KernelChoice
    from kafkalog_cli.ops.find.partition_search import DamagedPart, FoundRecords, NotRead, SearchedPartition
    from kafkalog_cli.ops.find.search import find_records

    fs = RealFilesystem()
    chosen = select_partitions(fs, paths, selection)
    done = 0
    for event in find_records(fs, chosen, request, KernelChoice(), jobs=jobs):
        if isinstance(event, FoundRecords):
            partition = chosen[done]
            for one in event.found.block.rows():
                timestamp = None if one.timestamp == NO_TIMESTAMP else one.timestamp
                yield FoundRecord(
                    partition.path, partition.topic, partition.number, one.offset, timestamp, one.key, one.value,
                    one.headers, event.found.is_match,
                )  # fmt: skip
        elif isinstance(event, DamagedPart):
            warn(event.fault.message, event.path)
        elif isinstance(event, NotRead):
            raise event.error
        elif isinstance(event, SearchedPartition):
            done += 1
        else:
            warn(event.message, event.path)
