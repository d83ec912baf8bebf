"""The environment of a session, and the options that its caller may choose."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkalog_cli.disk.fs import RealFilesystem, WritableFilesystem
from kafkalog_cli.ops.engine import THREADS, Engine
from kafkalog_cli.ops.option_values import wall_clock_ms
from kafkalog_cli.ops.selection import Selection


@dataclass(frozen=True, slots=True)
class Context:
    """The disk and the clocks. `clock` returns seconds from an arbitrary start."""

    fs: WritableFilesystem = field(default_factory=RealFilesystem)
    now_ms: Callable[[], int] = wall_clock_ms
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class Pace(NamedTuple):
    """Limits of a session: partitions at a time, seconds, and bytes per second. None means no limit."""

    jobs: int = 1
    time_budget_seconds: float | None = None
    io_bytes_per_second: int | None = None


class SessionOptions(NamedTuple):
    """Options that all verbs share, named like the command line's options.

    `now_ms` replaces the clock's current time; None uses the clock. `config` contains topic settings as NAME=VALUE.
    `if_offline` leaves log directories alone on which a broker is running.
    `broker_config` is the path of a server.properties, `metadata` the path of a metadata log.
    """

    selection: Selection = Selection()
    now_ms: int | None = None
    dry_run: bool = False
    wait_seconds: float = 0
    assume_offline: bool = False
    if_offline: bool = False
    single_replica: bool = False
    config: Sequence[str] = ()
    broker_config: str | None = None
    metadata: str | None = None
    pace: Pace = Pace()
    engine: Engine = THREADS
