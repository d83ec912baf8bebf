"""The outside world of a command: the disk, the streams, the clock. A parameter, so that tests can replace it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from kafkalog_cli.cli.configuration import Configuration
from kafkalog_cli.cli.terminal import Terminal, standard_terminal
from kafkalog_cli.disk.clocks import wall_clock_ms
from kafkalog_cli.disk.fs import RealFilesystem, WritableFilesystem
from kafkalog_cli.disk.kernels import KernelChoice

if TYPE_CHECKING:
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
