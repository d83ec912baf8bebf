"""Records taken in a thread of their own, a little ahead of whoever appends them."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import suppress
from queue import Empty, Queue
from threading import Event, Thread
from typing import NamedTuple

from kafkalog_cli.actions.append.columns import RecordRun
from kafkalog_cli.actions.append.reading import NewRecord

_ITEMS_AHEAD = 2
"""Runs that wait for their turn; each holds what was made of a piece of the input."""

Records = Generator["NewRecord | RecordRun | None", None, None]


class _End(NamedTuple):
    """No more comes, for this reason; None: that was all."""

    error: BaseException | None


class Ahead:
    """Iterate once for what `records` gives, and raises, in its order. A context: behind it the thread has ended.

    Plain kernels hold the GIL, so the thread starts only with the first run; before it, all is done in the caller's.
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
            with suppress(Empty):  # it may wait for room, for once
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
        except BaseException as raised:  # whoever iterates raises it in its turn
            error = raised
        self._queue.put(_End(error))
