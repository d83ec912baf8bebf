"""Read records in a separate thread, a little ahead of the append."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import suppress
from queue import Empty, Queue
from threading import Event, Thread
from typing import NamedTuple

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
