"""The records of an append, read in a separate thread a little ahead; the first may be skipped."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from queue import Empty, Queue
from threading import Event, Thread
from typing import NamedTuple

from kafkalog_cli.errors import BadInput, UsageError
from kafkalog_cli.ops.append.columns import RecordRun
from kafkalog_cli.ops.append.reading import NewRecord

_ITEMS_AHEAD = 2
"""The number of runs that may wait in the queue; each holds the records of one piece of the input."""

Records = Generator["NewRecord | RecordRun | None", None, None]


class _End(NamedTuple):
    """The end of the records: `error` is what ended them, None if there are no more."""

    error: BaseException | None


class Ahead:
    """Iterate once for what `records` yields or raises, in its order. On leaving the context the thread has ended.

    Plain kernels hold the GIL, so a thread would not help them. The thread therefore starts only after the first run;
    earlier records are read in the caller's thread.
    """

    def __init__(self, records: Records) -> None:
        self._records = records
        self._queue: Queue[NewRecord | RecordRun | _End | None] = Queue(_ITEMS_AHEAD)
        self._is_stopped = Event()
        self._thread: Thread | None = None

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopped.set()
        if self._thread is not None:
            with suppress(Empty):  # the thread may be waiting for room in the queue
                while True:
                    self._queue.get_nowait()
            self._thread.join()
        self._records.close()

    def __iter__(self) -> Iterator[NewRecord | RecordRun | None]:
        for found in self._records:
            yield found
            if isinstance(found, RecordRun):
                break
        else:
            return
        self._thread = Thread(target=self._run, name="kafkalog-append")
        self._thread.start()
        while not isinstance(taken := self._queue.get(), _End):
            yield taken
        if taken.error is not None:
            raise taken.error

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            for found in self._records:
                self._queue.put(found)
                if self._is_stopped.is_set():
                    return
        except BaseException as raised:  # the iterating thread raises it in its turn
            error = raised
        self._queue.put(_End(error))


class SkippedRecords(NamedTuple):
    """The number of records to skip: for the only partition, or by number if there are several partitions."""

    of_only: int = 0
    by_partition: dict[int, int] = {}  # noqa: RUF012  never changed

    def of(self, partition: int) -> int:
        """Return the number of records to skip for a partition."""
        return self.by_partition.get(partition, self.of_only)

    def check(self, partitions: Sequence[int]) -> None:
        """Check the numbers against the partitions of the run.

        Raises UsageError for a number that is meant for another partition, or for no particular one of several.
        """
        unknown = sorted(self.by_partition.keys() - set(partitions))
        if unknown:
            raise UsageError(reason=f"--skip-records names partition {unknown[0]}, to which this append does not write")
        if self.of_only and len(partitions) > 1:
            raise UsageError(reason="--skip-records needs PARTITION:N where an append goes to several partitions")


def parse_skipped(words: Sequence[str]) -> SkippedRecords:
    """Parse the values of --skip-records: N, or PARTITION:N for each partition. Raises UsageError."""
    of_only, by_partition = 0, {}
    for word in words:
        name, colon, number = word.rpartition(":")
        if not (number.isdecimal() and number.isascii() and (not colon or (name.isdecimal() and name.isascii()))):
            raise UsageError(reason=f"--skip-records {word!r} is neither N nor PARTITION:N")
        if colon:
            by_partition[int(name)] = int(number)
        else:
            of_only = int(number)
    return SkippedRecords(of_only, by_partition)


def without_first(records: Records, count: int) -> Generator[NewRecord | RecordRun | None, None, None]:
    """Yield the records after the first `count`.

    Raises BadInput if there are fewer, since it is another input then.
    """
    left = count
    with closing(records):
        for found in records:
            if not left or found is None:
                yield found
            elif not isinstance(found, RecordRun):
                left -= 1
            elif len(found) <= left:
                left -= len(found)
            else:
                yield found.rest(left)
                left = 0
    if left:
        reason = f"the input has {count - left} records, and {count} are to be skipped: it is not the same input"
        raise BadInput(path="--skip-records", reason=reason)
