"""Checkpoint files (CheckpointFile): offsets per partition of a log directory, leader epochs of a partition."""

from __future__ import annotations

from enum import Enum, unique
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

from kafkalog_cli.format.fault import Fault, FaultKind, malformed_line
from kafkalog_cli.format.java_text import lines, parse_int, parse_long, split_white_space
from kafkalog_cli.results import PathName

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

VERSION = 0

MOST_ENTRIES = 250_000
"""The most lines that are read: with more partitions in one log directory, no broker is known to run.

A file of 16 MiB may have three million, which would take 500 MiB as objects.
"""

_MAX_MALFORMED_LINES = 100
"""After this many malformed lines the file is not a checkpoint, and reading stops."""


_READ_AHEAD_CHARS = 8192
"""Number of characters that BufferedReader decodes at once. Invalid UTF-8 also fails the lines before it in a block."""
_HEAP_ENTRIES = 1 << 28
"""A list of this many entries exceeds the 1 GiB heap that Kafka's start script gives a broker."""


@unique
class BrokerReading(Enum):
    """The result of reading a checkpoint file in a broker (CheckpointFile, CheckpointFileWithFailureHandler)."""

    ENTRIES = "entries"
    FAILS = "fails"
    """An IOException: the whole log directory goes offline."""
    THROWS = "throws"
    """A RuntimeException: LogManager uses 0 for every partition, and every other reader fails."""
    OUT_OF_MEMORY = "out-of-memory"
    """The count on the second line is so large that the broker exits."""


class PartitionOffset(NamedTuple):
    """A line of one of the four offset checkpoints (OffsetCheckpointFile)."""

    topic: Annotated[PathName, "the topic of the line"]
    partition: int
    offset: int


class EpochEntry(NamedTuple):
    """A line of leader-epoch-checkpoint."""

    epoch: int
    start_offset: int


EntryT = TypeVar("EntryT", PartitionOffset, EpochEntry)


def decode_offsets(data: bytes) -> tuple[list[PartitionOffset], list[Fault]]:
    """Return the readable lines of an offset checkpoint, and the reasons why a broker would refuse the file.

    An empty file has no entries. A broker reads the file if and only if there are no faults.
    """
    return _decode(data, _partition_offset)


def decode_leader_epochs(data: bytes) -> tuple[list[EpochEntry], list[Fault]]:
    """Return the readable lines of a `leader-epoch-checkpoint`, and the reasons why a broker would refuse the file.

    A broker reads the file if and only if there are no faults. Whether the epochs ascend is not checked here, as in the
    broker: LeaderEpochFileCache drops entries that do not fit.
    """
    return _decode(data, _epoch_entry)


def broker_reading(data: bytes, fields: int = 3) -> BrokerReading:
    """Return what a broker does with these bytes. The first problem decides, because the broker stops there.

    `fields` is the number of fields of an entry: 3 in an offset checkpoint, 2 in `leader-epoch-checkpoint`.
    """
    end, is_utf8 = _decodable(data)
    expected_count = count = 0
    for number, (_, raw) in enumerate(lines(data[:end])):
        line = raw.decode()
        if number == 0:
            if parse_int(line) != VERSION:
                return BrokerReading.FAILS
        elif number == 1:
            given = parse_int(line)
            if given is None:
                return BrokerReading.FAILS
            if given < 0:  # new ArrayList(-1)
                return BrokerReading.THROWS
            if given >= _HEAP_ENTRIES:
                return BrokerReading.OUT_OF_MEMORY
            expected_count = given
        else:
            words = split_white_space(line)
            if len(words) != fields:
                return BrokerReading.FAILS
            if parse_int(words[-2]) is None or parse_long(words[-1]) is None:
                return BrokerReading.THROWS
            count += 1
    return BrokerReading.ENTRIES if is_utf8 and count == expected_count else BrokerReading.FAILS


def _decodable(data: bytes) -> tuple[int, bool]:
    """Return how many bytes of lines a broker reads before it meets invalid UTF-8, and whether all bytes are valid."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        text = data[: error.start].decode()
        # Java counts UTF-16 units, and returns no line of a block that cannot be decoded.
        units = text.encode("utf-16-le")
        whole = units[: len(units) // 2 // _READ_AHEAD_CHARS * _READ_AHEAD_CHARS * 2]
        kept = whole.decode("utf-16-le", "ignore").encode()
        return max(kept.rfind(b"\n"), kept.rfind(b"\r")) + 1, False
    return len(data), True


def can_name(topic: str) -> bool:
    """Whether a line for this topic can be written and read back."""
    return (
        bool(topic) and split_white_space(topic) == [topic] and not any("\ud800" <= char <= "\udfff" for char in topic)
    )


def encode_offsets(entries: Sequence[PartitionOffset]) -> bytes:
    """Return the bytes that OffsetCheckpointFile writes. Raises ValueError for a topic that cannot be read back."""
    for topic, _, _ in entries:
        if not can_name(topic):
            raise ValueError(f"topic {topic!r} cannot stand in a checkpoint")
    return _encode(entries)


def encode_leader_epochs(entries: Sequence[EpochEntry]) -> bytes:
    """Return the bytes that LeaderEpochCheckpointFile writes."""
    return _encode(entries)


def _encode(entries: Sequence[tuple[str | int, ...]]) -> bytes:
    rows = [" ".join(map(str, entry)) for entry in entries]
    return "".join(f"{line}\n" for line in (str(VERSION), str(len(entries)), *rows)).encode()


def _partition_offset(line: str) -> PartitionOffset | None:
    fields = split_white_space(line)
    if len(fields) != 3:
        return None
    partition, offset = parse_int(fields[1]), parse_long(fields[2])
    return None if partition is None or offset is None else PartitionOffset(fields[0], partition, offset)


def _epoch_entry(line: str) -> EpochEntry | None:
    fields = split_white_space(line)
    if len(fields) != 2:
        return None
    epoch, start_offset = parse_int(fields[0]), parse_long(fields[1])
    return None if epoch is None or start_offset is None else EpochEntry(epoch, start_offset)


def _decode(data: bytes, parse: Callable[[str], EntryT | None]) -> tuple[list[EntryT], list[Fault]]:
    entries: list[EntryT] = []
    faults: list[Fault] = []
    expected_count: int | None = None
    malformed = 0
    for number, (position, raw) in enumerate(lines(data)):
        line = _text(raw)
        if number == 0:
            faults.extend(_version_faults(line, raw))
            continue
        if number == 1:
            expected_count = parse_int(line) if line is not None else None
            entry = None
        else:
            entry = parse(line) if line is not None else None
        if entry is not None:
            if len(entries) == MOST_ENTRIES:
                faults.append(_too_many(position))
                return entries, faults
            entries.append(entry)
        elif number > 1 or expected_count is None:
            faults.append(malformed_line(position, raw))
            malformed += 1
            if malformed == _MAX_MALFORMED_LINES:
                return entries, faults
    if expected_count is not None and expected_count != len(entries) and not malformed:
        faults.append(_wrong_count(len(data), expected_count, len(entries)))
    return entries, faults


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _version_faults(line: str | None, raw: bytes) -> list[Fault]:
    version = parse_int(line) if line is not None else None
    if version is None:
        return [malformed_line(0, raw)]
    if version == VERSION:
        return []
    message = f"unrecognised version {version}, expected version {VERSION}"
    return [Fault(FaultKind.INVALID_VERSION, 0, message, len(raw), str(VERSION), str(version))]


def _too_many(position: int) -> Fault:
    message = f"more entries than are read (limit {MOST_ENTRIES})"
    return Fault(FaultKind.INVALID_COUNT, position, message, 0, f"at most {MOST_ENTRIES}", "more")


def _wrong_count(position: int, expected: int, got: int) -> Fault:
    message = f"expected {expected} entries, but found {got}"
    return Fault(FaultKind.INVALID_COUNT, position, message, 0, str(expected), str(got))
