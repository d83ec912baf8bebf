"""What would end a writer in the middle of its work: signals, and readers of its output that go away."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import RawIOBase
from typing import Any, BinaryIO


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt here, as Ctrl-C does, so that a safe point is waited for. Only in the main thread."""
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class Undisturbed(RawIOBase):
    """A stream whose reader may go away: what is written then is lost, and whoever writes goes on with its work.

    `end` raises BrokenPipeError if that has happened.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._has_reader = True

    def write(self, data: Any) -> int:  # noqa: D102
        if self._has_reader:
            try:
                self._stream.write(data)
            except BrokenPipeError:
                self._has_reader = False
        return len(data)

    def flush(self) -> None:  # noqa: D102
        if self._has_reader:
            try:
                self._stream.flush()
            except BrokenPipeError:
                self._has_reader = False

    def isatty(self) -> bool:  # noqa: D102
        return self._stream.isatty()

    def end(self) -> None:
        """Hand everything on. Raises BrokenPipeError if nobody reads it."""
        self.flush()
        if not self._has_reader:
            raise BrokenPipeError
