"""The outside world of a command: the disk, the streams, the clock. A parameter, so that tests can replace it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, BinaryIO, cast

from kafkalog_cli.cli.configuration import Configuration
from kafkalog_cli.cli.terminal import Terminal, standard_terminal
from kafkalog_cli.disk.clocks import wall_clock_ms
from kafkalog_cli.disk.fs import RealFilesystem, WritableFilesystem
from kafkalog_cli.disk.kernels import KernelChoice

if TYPE_CHECKING:
    from kafkalog_cli.cli.declared import CommandContext
    from kafkalog_cli.ops.session.options import Context


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
    kernels: KernelChoice = field(default_factory=KernelChoice)
    terminal: Terminal | None = field(default_factory=standard_terminal)
    """Where to ask before valid data are removed; None: no user is present."""
    stdin: BinaryIO = field(default_factory=lambda: sys.stdin.buffer)
    wants_json: bool = False
    """Whether messages are JSON objects."""
    argv: tuple[str, ...] = ()
    """The command line without the program's name, for messages with a command to continue."""
    configuration: Configuration = field(default_factory=Configuration)
    """The values of the configuration file."""

    @property
    def context(self) -> Context:
        """The part of the environment that a session uses."""
        from kafkalog_cli.ops.session.options import Context

        return Context(self.fs, self.kernels, self.now_ms, self.clock, self.sleep)


@contextmanager
def shown_reading(context: CommandContext, *, prints_while_reading: bool = False) -> Iterator[Environment]:
    """Yield an environment whose reads are shown as progress on stderr; surroundings of a command.

    `prints_while_reading`: results on a terminal, and objects of JSON output, show themselves where the command is.
    """
    environment = context.environment
    is_shown = environment.wants_json or environment.stderr.isatty()
    if not is_shown or (prints_while_reading and (environment.wants_json or environment.stdout.isatty())):
        yield environment
        return
    from kafkalog_cli.disk.metered_fs import MeteredFilesystem
    from kafkalog_cli.output.progress import BesideProgress, Progress

    with Progress(
        environment.stderr, environment.argv[0], as_json=environment.wants_json, clock=environment.clock
    ) as progress:
        streams = [
            cast("BinaryIO", BesideProgress(stream, progress)) if stream.isatty() else stream
            for stream in (environment.stdout, environment.stderr)
        ]
        fs = MeteredFilesystem(environment.fs, lambda path, size_bytes: progress.advance(size_bytes, path))
        yield replace(environment, fs=fs, stdout=streams[0], stderr=streams[1])


@contextmanager
def shown_reading_into_files(context: CommandContext) -> Iterator[Environment]:
    """Yield as `shown_reading` for a command that prints while it reads."""
    with shown_reading(context, prints_while_reading=True) as environment:
        yield environment
