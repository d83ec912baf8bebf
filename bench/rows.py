"""The rows of the table: what is run against what, and what is asked of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import Enum, unique
from pathlib import Path
from typing import NamedTuple

from make_inputs import Input, middle, segments_of
from measure import ROOT, Pairs

SMALL_FILE = ROOT / "docs" / "example" / "levels-0" / f"{0:020}.log"
MOST_PEAK_BYTES = 300 << 20

_BENCH = Path(__file__).resolve().parent


@unique
class Measure(Enum):
    """What a row's floor and moonshot are."""

    TIMES_FASTER = "{}"
    """At least so many times as fast as the peer."""
    TIMES_AS_LONG = "at most {} times as long"
    SECONDS = "under {} s"


class Row(NamedTuple):
    """One row: the arguments of kafkalog, the peer's whole command (None: there is none), the bars."""

    work: str
    arguments: list[str]
    peer_name: str
    peer: list[str] | None
    floor: float
    moonshot: float
    measure: Measure = Measure.TIMES_FASTER
    prepare: Callable[[], None] = lambda: None
    """What is done before each run, and not measured."""
    command: list[str] | None = None
    """What is run in place of kafkalog with the arguments: a program that uses the library."""

    def bar(self, value: float) -> str:
        return self.measure.value.format(f"{value:g}")

    def meets_floor(self, pairs: Pairs) -> bool:
        """Whether the time of `pairs` is good enough (the memory is asked for apart)."""
        if self.measure is Measure.SECONDS:
            return pairs.seconds < self.floor
        if not pairs.peer:
            return False
        if self.measure is Measure.TIMES_AS_LONG:
            return 1 / pairs.ratio <= self.floor
        return pairs.ratio >= self.floor


def rows(found: dict[str, Input], jvm: list[str] | None) -> list[Row]:
    """All rows for which there is an input; `jvm` is the real tool's command without its arguments."""
    table = [_dump("dump of a small file", [], (SMALL_FILE,), jvm, 4, 10)]
    bars = {  # floor and moonshot of the default mode, --deep-iteration, --print-data-log
        "uncompressed": ((2.5, 6), (10, 20), (10, 20)),
        "one-record": ((6, 20), (10, 20), (8, 20)),
        "lz4": (None, (6, 12), (6, 12)),
        "zstd": (None, (2.5, 6), (2.5, 6)),
    }
    modes: dict[str, list[str]] = {"default": [], "deep": ["--deep-iteration"], "print": ["--print-data-log"]}
    for part, of_modes in bars.items():
        if part in found:
            what = described(found[part])
            for (mode, options), bar in zip(modes.items(), of_modes, strict=True):
                if bar is not None:
                    table.append(_dump(f"{mode}, {what}", options, found[part].segments, jvm, *bar))
            for level, mode, bar in zip(("normal", "deep"), modes, of_modes, strict=False):
                if bar is not None:
                    table.append(_verify(level, modes[mode], found[part], jvm, *bar))
    if "uncompressed" in found:
        table += _more(found["uncompressed"])
    return table + _starts()


def described(log: Input) -> str:
    size = log.size_bytes / (1 << 20)
    text = f"{size / 1024:.1f} GiB" if size >= 1000 else f"{size:.0f} MiB"
    return f"{text} {log.part}"


def _dump(
    work: str, options: list[str], segments: tuple[Path, ...], jvm: list[str] | None, floor: float, moonshot: float
) -> Row:
    arguments = [*options, "--files", ",".join(map(str, segments))]
    peer = None if jvm is None else [*jvm, *arguments]
    return Row(work, ["dump-log", *arguments], "DumpLogSegments", peer, floor, moonshot)


def _verify(level: str, options: list[str], log: Input, jvm: list[str] | None, floor: float, moonshot: float) -> Row:
    """A level of verify, of a partition with all that lies in it, against the dump that reads as much of it."""
    partition = log.segments[0].parent
    log = log._replace(segments=segments_of(partition))
    arguments = ["verify", "--level", level, str(partition)]
    peer = None if jvm is None else [*jvm, *options, "--files", ",".join(map(str, log.segments))]
    name = "DumpLogSegments, whose output is another"
    return Row(f"verify {level}, {described(log)}", arguments, name, peer, floor, moonshot)


def _more(log: Input) -> list[Row]:
    """What the real tool cannot do: JSON against a Python reader, and ranges by the clock."""
    files = [str(path) for path in log.segments]
    json = ["dump-log", "--print-data-log", "--format", "json"]
    reader = [sys.executable, str(_BENCH / "read_kafka_python.py"), *files]
    offset, timestamp = middle(log.segments[0])
    dump = ["dump-log", "--print-data-log"]
    partition = str(log.segments[0].parent)
    by_offset = [*dump, "--from-offset", str(offset), "--to-offset", str(offset + 100), partition]
    by_time = [*dump, "--since", str(timestamp), "--max-records", "100", partition]
    what = described(log)
    return [
        Row(f"NDJSON of every record, {what}", [*json, "--files", ",".join(files)], "kafka-python reading", reader,
            30, 60),
        Row("100 records of them by offset", by_offset, "", None, 0.25, 0.15, Measure.SECONDS),
        Row("100 records of them by time", by_time, "", None, 0.25, 0.15, Measure.SECONDS),
    ]  # fmt: skip


def _starts() -> list[Row]:
    hello = [sys.executable, str(_BENCH / "hello.py"), "--help"]
    peer = "--help of a hello-world typer application"
    return [
        Row("--help", ["--help"], peer, hello, 1.3, 1, Measure.TIMES_AS_LONG),
        Row("--version", ["--version"], peer, hello, 1, 0.25, Measure.TIMES_AS_LONG),
    ]
