"""A line on the terminal while something runs that reports no progress, such as the start of Spark."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread
from typing import BinaryIO

from kafkalog_cli.output.progress import FIRST_AFTER_SECONDS, clock_time, erased_line
from kafkalog_cli.output.stream import ResultStream

_EVERY_SECONDS = 1.0


class Waiting:
    """Shows `work` and the time that it has taken so far in seconds, after a second and until the context is left.

    Only a terminal gets the line. Call `end` before anything else is written to the terminal.
    """

    def __init__(
        self,
        stream: BinaryIO,
        work: str,
        *,
        is_shown: bool = True,
        first_after: float = FIRST_AFTER_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = ResultStream(stream)
        self._work = work
        self._first_after = first_after
        self._clock = clock
        self._ended = Event()
        self._thread = Thread(target=self._run, daemon=True) if is_shown and self._stream.is_terminal else None

    def __enter__(self) -> Waiting:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Erase the line, if there is one; further calls do nothing."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        begun = self._clock()
        if self._ended.wait(self._first_after):
            return
        while not self._ended.is_set():
            self._write(f"{erased_line()}{self._work}: {clock_time(self._clock() - begun)}")
            self._ended.wait(_EVERY_SECONDS)
        self._write(erased_line())

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
