"""The outside world of a command: disk, streams, clock, and a terminal that answers questions. Tests replace it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO, Protocol

from kafkalog_cli.disk.fs import RealFilesystem, WritableFilesystem
from kafkalog_cli.errors import NotChanged, UsageError, as_typed
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


class Consent:
    """Asks once per partition, or once for all remaining partitions; threads share it."""

    def __init__(self, terminal: Terminal, poll: Callable[[], None]) -> None:
        self._terminal = terminal
        self._poll = poll
        self._is_for_all = False
        self._asking = Lock()

    def need(self, path: str, question: str) -> None:
        """Ask a question, without a question mark, before a partition is changed.

        Raises NotChanged if the user refuses, and the exceptions of `poll`.
        """
        with self._asking:
            if self._is_for_all:
                return
            self._poll()
            answer = self._terminal.answer(f"{question}? [y/N/a(ll)] ", self._poll).strip().lower()
            self._is_for_all = answer in ("a", "all")
            if not self._is_for_all and answer not in ("y", "yes"):
                raise NotChanged(path=path, reason="no consent was given")


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


def time_of(environment: Environment, text: str, now: str | None) -> int:
    """Return a time option in epoch ms; warn if an integer seems to have another unit. Raises UsageError."""
    clock_ms = environment.now_ms() if now is None else now_of(environment, now)
    reading = _other_reading(text, environment.argv)
    if reading is not None:
        environment.messages.warn("time-unit", reading)
    return parse_time_ms(text, clock_ms)


def now_of(environment: Environment, text: str) -> int:
    """Return the time of --now in epoch ms. Raises UsageError, also for an integer that seems to have another unit.

    A wrong unit is an error here: by a clock of the year 55000 every record is old.
    """
    reading = _other_reading(text, environment.argv)
    if reading is not None:
        raise UsageError(reason=f"--now: {reading}")
    return parse_clock_ms(text, environment.now_ms())


def _other_reading(text: str, argv: Sequence[str]) -> str | None:
    """Return a message with an integer's time in ms and its probable meaning; None if no other unit is probable."""
    doubt = unit_doubt(text)
    return None if doubt is None else f"{doubt.message}: {_again(argv, text, doubt.meant_ms)}"


def _again(argv: Sequence[str], text: str, meant_ms: int) -> str:
    """Return what to write: the command line with the time in milliseconds, or that time alone."""
    words = [_replaced(word, text, str(meant_ms)) for word in argv]
    if words == [*argv]:
        return f"write {meant_ms}"
    return f"`{' '.join(map(as_typed, ['kafkalog', *words]))}`"


def _replaced(word: str, text: str, instead: str) -> str:
    option, equals, value = word.partition("=")
    if word == text:
        return instead
    return f"{option}={instead}" if equals and option.startswith("--") and value == text else word
