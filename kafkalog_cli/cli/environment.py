"""The outside world of a command: disk, streams, clock, and a terminal that answers questions. Tests replace it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Protocol, overload

from kafkalog_cli.disk.fs import RealFilesystem, WritableFilesystem
from kafkalog_cli.errors import UsageError, as_typed
from kafkalog_cli.ops.option_values import parse_clock_ms, parse_time_ms, unit_doubt, wall_clock_ms

if TYPE_CHECKING:
    from kafkalog_cli.ops.call.options import Context
    from kafkalog_cli.output.messages import Messages

POLL_SECONDS = 0.1


class Terminal(Protocol):
    """A terminal with a user who can answer."""

    def answer(self, question: str, poll: Callable[[], None]) -> str:
        """Ask, and return the typed line, "" at the end of input; `poll` is called repeatedly and may raise."""


class StandardTerminal:
    """The terminal of standard input and standard error."""

    def answer(self, question: str, poll: Callable[[], None]) -> str:
        """See Terminal."""
        import select  # every command imports this module, few ask

        sys.stderr.write(question)
        sys.stderr.flush()
        while not select.select([sys.stdin], [], [], POLL_SECONDS)[0]:
            poll()
        return sys.stdin.readline()


def standard_terminal() -> Terminal | None:
    """Return the user's terminal if standard input and standard error are both terminals, else None."""
    streams = (sys.stdin, sys.stderr)
    if any(stream is None or stream.closed or not stream.isatty() for stream in streams):
        return None
    return StandardTerminal()


@dataclass(slots=True, eq=False, repr=False)
class Environment:
    """The disk, streams and clock of a command. Streams are binary: output is bytes, independent of the locale."""

    stdout: BinaryIO = field(default_factory=lambda: sys.stdout.buffer)
    stderr: BinaryIO = field(default_factory=lambda: sys.stderr.buffer)
    fs: WritableFilesystem = field(default_factory=RealFilesystem)
    now_ms: Callable[[], int] = wall_clock_ms
    clock: Callable[[], float] = time.monotonic
    """Seconds since an arbitrary moment, for durations."""
    sleep: Callable[[float], None] = time.sleep
    terminal: Terminal | None = field(default_factory=standard_terminal)
    """Where to ask before valid data are removed; None: no user is present."""
    stdin: BinaryIO = field(default_factory=lambda: sys.stdin.buffer)
    wants_json: bool = False
    """Whether messages are JSON objects."""
    argv: tuple[str, ...] = ()
    """The command line without the program's name, for messages with a command to continue."""

    @property
    def messages(self) -> Messages:
        """The messages of the whole run, before its command has any of its own."""
        from kafkalog_cli.output.messages import Messages

        return Messages(self.stderr, as_json=self.wants_json)

    @property
    def context(self) -> Context:
        """The part of the environment that a call of a verb uses."""
        from kafkalog_cli.ops.call.options import Context

        return Context(self.fs, self.now_ms, self.clock, self.sleep)

    def clock_ms(self, now: str | None) -> int:
        """Return the time of --now in epoch ms, without it the time of the clock.

        Raises UsageError, also for an integer that seems to have another unit: by a clock of the year 55000 every
        record is old.
        """
        if now is None:
            return self.now_ms()
        doubt = self._unit_doubt(now)
        if doubt is not None:
            raise UsageError(reason=f"--now: {doubt}")
        return parse_clock_ms(now, self.now_ms())

    @overload
    def time_ms(self, text: str, now: str | None) -> int: ...

    @overload
    def time_ms(self, text: str | None, now: str | None) -> int | None: ...

    def time_ms(self, text: str | None, now: str | None) -> int | None:
        """Return a time option in epoch ms; warn if an integer seems to have another unit. Raises UsageError.

        `now` is that of --now, from which -2h counts.
        """
        if text is None:
            return None
        clock_ms = self.clock_ms(now)
        doubt = self._unit_doubt(text)
        if doubt is not None:
            self.messages.warn("time-unit", doubt)
        return parse_time_ms(text, clock_ms)

    def _unit_doubt(self, text: str) -> str | None:
        """Return a message with an integer's time in ms and its probable meaning; None if no other unit is probable."""
        doubt = unit_doubt(text)
        if doubt is None:
            return None
        words = [_replace_time(word, text, str(doubt.meant_ms)) for word in self.argv]
        command = f"`{' '.join(map(as_typed, ['kafkalog', *words]))}`"
        return f"{doubt.message}: {f'write {doubt.meant_ms}' if words == [*self.argv] else command}"


def _replace_time(word: str, text: str, time_ms: str) -> str:
    option, equals, value = word.partition("=")
    if word == text:
        return time_ms
    return f"{option}={time_ms}" if equals and option.startswith("--") and value == text else word
