"""What `dump-log` prints of some bytes, as one comparable value, and a deadline that no reading may miss."""

from __future__ import annotations

import base64
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.support.commands import json_of
from tests.support.faulty_fs import FaultyFilesystem

ENDS_THE_CHAIN = {"trailing-bytes", "size-too-small", "batch-too-large"}
"""Faults behind which no entry is looked for."""


class Fact(NamedTuple):
    """A fault without its prose."""

    kind: str
    position: int


class Batch(NamedTuple):
    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    codec: str
    valid: bool
    rest: str


class Seen(NamedTuple):
    """A record and where its batch stands."""

    batch_position: int
    offset: int
    timestamp: int
    sequence: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes | None, bytes | None], ...]
    valid: bool


class Outcome(NamedTuple):
    """All that a reader of a segment learns."""

    batches: list[Batch]
    records: list[Seen]
    faults: list[Fact]
    messages: list[str]

    @property
    def record_faults(self) -> list[Fact]:
        return [fault for fault in self.faults if fault.kind not in ENDS_THE_CHAIN]

    @property
    def chain_fault(self) -> Fact | None:
        return next((fault for fault in self.faults if fault.kind in ENDS_THE_CHAIN), None)

    @property
    def valid_bytes(self) -> int:
        return self.batches[-1].position + self.batches[-1].size_bytes if self.batches else 0

    @property
    def is_clean(self) -> bool:
        """Whether nothing of the damage was seen."""
        return not self.faults and all(batch.valid for batch in self.batches) and all(r.valid for r in self.records)


def read(data: bytes, *, seven: bool = False, goes_on: bool = False) -> Outcome:
    """Print all of a segment, with its records; `goes_on` behind damage."""
    path = f"/t-0/{0:020d}.{'kafka' if seven else 'log'}"
    words = ("dump-log", "--print-data-log", *["--resync"] * goes_on, "--files", path)
    _, printed, errors = json_of(*words, fs=FaultyFilesystem({path: data}))
    batches = [_batch(line) for line in printed if line["type"] == "batch"]
    records = [_record(line) for line in printed if line["type"] == "record"]
    faults = [Fact(line["kind"], line["position"]) for line in errors]
    return Outcome(batches, records, faults, [line["message"] for line in errors])


def _batch(line: dict[str, Any]) -> Batch:
    first = (line["position"], line["size"], line["base_offset"], line["last_offset"])
    return Batch(*first, line["compresscodec"], line["crc_valid"], repr(line))


def _record(line: dict[str, Any]) -> Seen:
    headers = tuple((_field(header["key"]), _field(header["value"])) for header in line["headers"])
    first = (line["position"], line["offset"], line["timestamp_ms"], line["sequence"])
    return Seen(*first, _field(line["key"]), _field(line["value"]), headers, line.get("crc_valid", True))


def _field(field: dict[str, str] | None) -> bytes | None:
    if field is None:
        return None
    return base64.b64decode(field["data"]) if field["encoding"] == "base64" else field["data"].encode()


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise where it does not end, instead of hanging the suite. The seconds are of CPU: a busy machine is no reason."""

    def late(signum: int, frame: object) -> None:
        raise TimeoutError(f"not done after {seconds} s of CPU")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
