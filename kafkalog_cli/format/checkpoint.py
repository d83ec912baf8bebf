"""Checkpoints as text: offsets by partition in a log directory, leader epochs in a partition (CheckpointFile)."""

from __future__ import annotations

from enum import Enum, unique
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.java_text import lines, parse_int, parse_long, split_white_space

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

VERSION = 0

_MAX_MALFORMED_LINES = 100
"""After so many the file is no checkpoint: the rest is not looked at."""


_READ_AHEAD_CHARS = 8192
"""BufferedReader decodes so many characters at once: bytes that are no UTF-8 fail the lines before them too."""
_HEAP_ENTRIES = 1 << 28
"""A list of so many entries does not fit into the heap of 1 GiB that Kafka's start script gives a broker."""


@unique
class BrokerReading(Enum):
    """What a broker gets from a checkpoint file (CheckpointFile, CheckpointFileWithFailureHandler)."""

    ENTRIES = "entries"
    FAILS = "fails"
    """An IOException: the whole log directory goes offline."""
    THROWS = "throws"
    """A RuntimeException: LogManager takes 0 for every partition, and every other reader fails."""
    OUT_OF_MEMORY = "out-of-memory"
    """The count on the second line is so large that the broker ends."""


class PartitionOffset(NamedTuple):
    """A line of one of the four offset checkpoints (OffsetCheckpointFile)."""

    topic: str
    partition: int
    offset: int


class EpochEntry(NamedTuple):
    """A line of `leader-epoch-checkpoint` (EpochEntry): where `epoch` starts."""

    epoch: int
    start_offset: int


EntryT = TypeVar("EntryT", PartitionOffset, EpochEntry)


def decode_offsets(data: bytes) -> tuple[list[PartitionOffset], list[Fault]]:
    """The lines of an offset checkpoint that can be read, and why a broker would refuse the file.

    An empty file has no entries. A broker reads the file exactly if there are no faults.
    """
    return _decode(data, _partition_offset)


def decode_leader_epochs(data: bytes) -> tuple[list[EpochEntry], list[Fault]]:
    """The lines of a `leader-epoch-checkpoint` that can be read, and why a broker would refuse the file.

    A broker reads the file exactly if there are no faults; whether the epochs ascend it does not ask
    here (LeaderEpochFileCache drops what does not fit).
    """
    return _decode(data, _epoch_entry)


def broker_reading(data: bytes, fields: int = 3) -> BrokerReading:
    """What a broker gets from these bytes: the first problem decides, as it stops there.

    `fields` are those of an entry: 3 in an offset checkpoint, 2 in `leader-epoch-checkpoint`.
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
    """How many bytes of lines a broker reads before it meets bytes that are no UTF-8; and whether there are none."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        text = data[: error.start].decode()
        # Java counts UTF-16 units, and of a block that cannot be decoded it has no line.
        units = text.encode("utf-16-le")
        whole = units[: len(units) // 2 // _READ_AHEAD_CHARS * _READ_AHEAD_CHARS * 2]
        kept = whole.decode("utf-16-le", "ignore").encode()
        return max(kept.rfind(b"\n"), kept.rfind(b"\r")) + 1, False
    return len(data), True


def can_name(topic: str) -> bool:
    """Whether a line about the topic can be written and read back."""
    return (
        bool(topic) and split_white_space(topic) == [topic] and not any("\ud800" <= char <= "\udfff" for char in topic)
    )


def encode_offsets(entries: Sequence[PartitionOffset]) -> bytes:
    """The bytes that OffsetCheckpointFile writes. Raises ValueError for a topic that cannot be read back."""
    for topic, _, _ in entries:
        if not can_name(topic):
            raise ValueError(f"topic {topic!r} cannot stand in a checkpoint")
    return _encode(entries)


def encode_leader_epochs(entries: Sequence[EpochEntry]) -> bytes:
    """The bytes that LeaderEpochCheckpointFile writes."""
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
            entries.append(entry)
        elif number > 1 or expected_count is None:
            faults.append(_malformed_line(position, raw))
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
        return [_malformed_line(0, raw)]
    if version == VERSION:
        return []
    message = f"unrecognised version {version}, expected version {VERSION}"
    return [Fault(FaultKind.INVALID_VERSION, 0, message, len(raw), str(VERSION), str(version))]


def _malformed_line(position: int, raw: bytes) -> Fault:
    message = f"malformed line: {raw[:200].decode(errors='backslashreplace')}"
    return Fault(FaultKind.INVALID_ENTRY, position, message, len(raw))


def _wrong_count(position: int, expected: int, got: int) -> Fault:
    message = f"expected {expected} entries, but found {got}"
    return Fault(FaultKind.INVALID_COUNT, position, message, 0, str(expected), str(got))
