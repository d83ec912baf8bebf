"""Searches partitions in parallel, and keeps their order."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from kafkalog_cli.disk.fs import WritableFilesystem
from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.disk.metered_fs import EndingMeter, Meter, MeteredFilesystem
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.engine import InOrder
from kafkalog_cli.ops.find.partition_search import FindEvent, FoundRecords, PartitionSearch, SearchedPartition
from kafkalog_cli.ops.find.request import FindRequest

KEPT_BYTES = 4 << 20
"""Most bytes of records that are kept of a partition before its turn. A partition with more is searched at its turn."""
_BYTES_PER_RECORD = 500
"""About what a copied record takes besides its contents."""


@dataclass(frozen=True, slots=True)
class _Ahead:
    """A search before its turn: its events, None if they were too many to keep."""

    search: PartitionSearch
    events: list[FindEvent] | None


def find_records(  # noqa: PLR0913
    fs: WritableFilesystem,
    partitions: Sequence[Partition],
    request: FindRequest,
    choice: KernelChoice | None = None,
    *,
    jobs: int = 1,
    on_read: Meter | None = None,
) -> Generator[FindEvent | SearchedPartition, None, None]:
    """Yield what is found in each partition, in order; a SearchedPartition ends each.

    Records are valid until the next event. `on_read` is called from any thread with the bytes that are read. A regular
    expression may take very long for a single record, and only the main thread can be interrupted then. So with a
    regular expression or a single job, nothing runs in other threads but the decoding.
    """
    meter = EndingMeter(on_read)
    metered = MeteredFilesystem(fs, meter)
    searches = (PartitionSearch(metered, one, request, choice) for one in partitions)
    if jobs <= 1 or request.conditions.pattern is not None or len(partitions) == 1:
        for search in searches:
            yield from _in_turn(search)
        return
    with InOrder((partial(_ahead, search) for search in searches), jobs, "kafkalog-find") as found, meter:
        for one in found:
            if one.events is None:
                yield from _in_turn(PartitionSearch(metered, one.search.result.partition, request, choice))
            else:
                yield from one.events
                yield one.search.result


def _in_turn(search: PartitionSearch) -> Iterator[FindEvent | SearchedPartition]:
    yield from search.events()
    yield search.result


def _ahead(search: PartitionSearch) -> _Ahead:
    events: list[FindEvent] = []
    size_bytes = 0
    with closing(search.events(copies=True)) as found:
        for event in found:
            events.append(event)
            size_bytes += _BYTES_PER_RECORD
            if isinstance(event, FoundRecords):
                block = event.found.block
                size_bytes += len(block.buffer) + _BYTES_PER_RECORD * len(block.records)
            if size_bytes > KEPT_BYTES:
                return _Ahead(search, None)
    return _Ahead(search, events)
