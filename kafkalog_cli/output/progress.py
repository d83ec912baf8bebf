"""The progress of a long run on stderr: a line that is overwritten on a terminal, or JSON objects."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import RawIOBase
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from kafkalog_cli.ops.call.observer import NoProgress
from kafkalog_cli.output.stream import ResultStream, columns_of, has_styles, printable, terminal_columns

if TYPE_CHECKING:
    from kafkalog_cli.output.ndjson import JsonLines

FIRST_AFTER_SECONDS = 1.0
"""A shorter run shows no progress."""
TERMINAL_SECONDS, JSON_SECONDS = 0.2, 1.0
"""The time between two progress lines."""

_ERASE_LINE = "\r\x1b[K"
_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


class Progress(NoProgress):
    """Counts processed bytes, from any thread. Shows nothing in short runs, and in a pipe only with `as_json`.

    `work` names the work in one word. `total_bytes` None: the total is unknown, so no remaining time is shown. Leave
    the context, call `erase`, or take a stream of `beside`, before anything else is written to the terminal.
    """

    def __init__(
        self,
        stream: BinaryIO,
        work: str,
        *,
        as_json: bool,
        total_bytes: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = ResultStream(stream)
        self._work = work
        self._total_bytes = total_bytes
        self._clock = clock
        self._json: JsonLines | None = None
        if as_json:
            from kafkalog_cli.output.ndjson import JsonLines

            self._json = JsonLines(self._stream)
        self.is_shown = as_json or self._stream.is_terminal
        """Whether progress appears at all."""
        self._every_seconds = JSON_SECONDS if as_json else TERMINAL_SECONDS
        self._lock = Lock()
        self._begun = clock()
        self._due = self._begun + FIRST_AFTER_SECONDS
        self._done_bytes = 0
        self._subject = ""
        self._has_line = False
        self._pauses = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.erase()

    def begin(self, work: str, total_bytes: int | None) -> None:
        """Start a phase `work` of `total_bytes` (None: unknown); bytes and time before it do not count."""
        with self._lock:
            self._work = work
            self._total_bytes = total_bytes
            self._done_bytes = 0
            self._begun = self._clock()
            self._due = self._begun + FIRST_AFTER_SECONDS

    def expect(self, total_bytes: int | None) -> None:
        """Set the total number of bytes; None: unknown."""
        with self._lock:
            self._total_bytes = total_bytes

    def expect_more(self, size_bytes: int) -> None:
        """Add bytes to the total; a number below 0 reduces it."""
        with self._lock:
            if self._total_bytes is not None:
                self._total_bytes = max(self._done_bytes, self._total_bytes + size_bytes)

    def advance(self, size_bytes: int, subject: str = "") -> None:
        """Add processed bytes; `subject` is the file or directory that they belong to."""
        with self._lock:
            self._done_bytes += size_bytes
            self._subject = subject or self._subject
            now = self._clock()
            if not self.is_shown or self._pauses or now < self._due:
                return
            self._due = now + self._every_seconds
            with suppress(OSError):  # nobody reads the progress now; the work matters more
                self._show(max(now - self._begun, 1e-6))

    def read(self, path: str, size_bytes: int) -> None:
        """Add bytes that were read from a file."""
        self.advance(size_bytes, path)

    def erase(self) -> None:
        """Erase the line, if there is one; the next appears only after a while."""
        with self._lock:
            self._due = max(self._due, self._clock() + self._every_seconds)
            if self._has_line:
                self._has_line = False
                self._stream.write(erased_line())
                self._stream.flush()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Show no line in this context: something else writes to the terminal."""
        with self._lock:
            self._pauses += 1
        self.erase()
        try:
            yield
        finally:
            with self._lock:
                self._pauses -= 1

    def _show(self, seconds: float) -> None:
        rate = self._done_bytes / seconds
        left = None
        if self._total_bytes is not None and rate:
            left = max(0, self._total_bytes - self._done_bytes) / rate
        if self._json is None:
            self._has_line = True
            width = terminal_columns() - 1
            self._stream.write(erased_line() + self._line(rate, left, width))
        else:
            from kafkalog_cli.output.ndjson import Progressed

            left = None if left is None else round(left, 1)
            self._json.result(Progressed(self._work, self._done_bytes, self._total_bytes, round(rate), left))
        self._stream.flush()

    def _line(self, rate: float, left: float | None, width: int) -> str:
        done = sized(self._done_bytes)
        if self._total_bytes is not None:
            percent = min(100, 100 * self._done_bytes // self._total_bytes) if self._total_bytes else 100
            done = f"{percent} %, {done} of {sized(self._total_bytes)}"
        parts = [f"{self._work}: {done}", f"{sized(round(rate))}/s"]
        if left is not None:
            parts.append(f"{clock_time(left)} left")
        line = ", ".join(parts)
        subject = printable(self._subject)
        for shown in (subject, subject.rpartition("/")[0]):  # a file, or else its directory
            if shown and len(line) + columns_of(shown) + 2 <= width:
                return f"{line}, {shown}"
        return line[:width]


def beside(progress: Progress, stream: BinaryIO) -> BinaryIO:
    """Return a stream to write to while `progress` is shown: `stream`, or what keeps the two apart on a terminal."""
    return cast("BinaryIO", _BesideProgress(stream, progress)) if stream.isatty() else stream


class _BesideProgress(RawIOBase):
    """A stream whose writes erase the line of a progress first. No thread draws it in a write or in an unended line."""

    def __init__(self, stream: BinaryIO, progress: Progress) -> None:
        self._stream = stream
        self._progress = progress
        self._unended_line = ExitStack()

    def write(self, data: Any) -> int:
        with self._progress.paused():
            self._unended_line.close()
            if bytes(data[-1:]) != b"\n":
                self._unended_line.enter_context(self._progress.paused())
            return self._stream.write(data)

    def flush(self) -> None:
        with self._progress.paused():
            self._stream.flush()

    def close(self) -> None:
        """Do nothing: the stream belongs to the caller, who closes it."""

    def isatty(self) -> bool:
        return self._stream.isatty()


def erased_line() -> str:
    """Return the text that clears the cursor's line and returns to its start."""
    if has_styles():
        return _ERASE_LINE
    return "\r" + " " * (terminal_columns() - 1) + "\r"


def sized(size_bytes: int) -> str:
    """Return a number of bytes with two or three digits: 1.2 GiB, 35 MiB, 812 bytes."""
    for unit, name in _UNITS:
        if size_bytes >= unit:
            value = size_bytes / unit
            return f"{value:.1f} {name}" if value < 10 else f"{value:.0f} {name}"
    return f"{size_bytes} bytes"


def size_or_0(size_bytes: int) -> str:
    """Return a number of bytes as `sized`, but nothing as 0."""
    return sized(size_bytes) if size_bytes else "0"


def spent(seconds: float) -> str:
    """Return seconds as 40 ms, 1.4 s, 12 s, 3:05 min or 1:02:03 h, and from two days on as 3 d 19 h."""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    days, hours = divmod(int(seconds // 3600), 24)
    if days >= _LEAST_DAYS:
        return f"{days} d {hours} h"
    return f"{clock_time(seconds)} {'h' if round(seconds) >= 3600 else 'min'}"


def clock_time(seconds: float) -> str:
    """Return seconds as 0:07, 12:34 or 1:02:03."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


_EVERY_SECONDS = 1.0
_LEAST_DAYS = 2


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
