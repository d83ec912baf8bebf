"""The disk and the clocks that a verb works with, and the options that every verb takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from kafkalog_cli.disk.fs import RealFilesystem, WritableFilesystem
from kafkalog_cli.ops.option_values import Clock, wall_clock_ms

if TYPE_CHECKING:
    from kafkalog_cli.ops.call.observer import Observer
    from kafkalog_cli.ops.times import Time

Path: TypeAlias = str | PathLike[str]
Paths: TypeAlias = Path | Sequence[Path]


@dataclass(frozen=True, slots=True)
class Context:
    """The disk and the clocks. `clock` returns seconds from an arbitrary start."""

    fs: WritableFilesystem = field(default_factory=RealFilesystem)
    now_ms: Callable[[], int] = wall_clock_ms
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class VerbOptions(TypedDict, total=False):
    """The options that every verb takes, with the names and meanings of the command line's options.

    `config` has topic settings by name, or as NAME=VALUE. `now` is a time, see `Time`. `if_offline` leaves log
    directories alone on which a broker is running. `observer` receives results and notes; without it, notes are
    LogWarnings.
    """

    topics: Sequence[str]
    topic_pattern: str | None
    partitions: Sequence[int]
    dry_run: bool
    now: Time | Clock
    config: Mapping[str, object] | Sequence[str]
    broker_config: Path | None
    metadata: Path | None
    single_replica: bool
    wait_seconds: float
    assume_offline: bool
    if_offline: bool
    jobs: int
    time_budget_seconds: float | None
    io_bytes_per_second: int | None
    observer: Observer
