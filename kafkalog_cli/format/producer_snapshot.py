"""Producer snapshots (`.snapshot`, since 0.11): the state of idempotent and transactional producers at an offset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

from kafkalog_cli.format.batch import wrap_int32, wrap_int64
from kafkalog_cli.format.crc import crc32c
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.layout import Field, Layout, PackedEntries
from kafkalog_cli.results import Named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Pieces = Callable[[], Iterator[bytes]]
    """Makes an iterator over the same bytes each time it is called."""

PRODUCER_SNAPSHOT_HEADER = Layout(
    "Producer snapshot header",
    "org.apache.kafka.storage.internals.log.ProducerStateManager",
    Field("version", "h", "1, the only one"),
    Field("crc", "I", "CRC-32C of the bytes from entry_count to the end"),
    Field("entry_count", "i", "entries that follow, in no order"),
)

PRODUCER_ENTRY = Layout(
    "Producer snapshot entry",
    "org.apache.kafka.storage.internals.log.ProducerStateEntry",
    Field("producer_id", "q", "producer id"),
    Field("producer_epoch", "h", "current epoch of the producer"),
    Field("last_sequence", "i", "of the last batch, -1 none"),
    Field("last_offset", "q", "of the last batch, -1 none"),
    Field("offset_delta", "i", "last minus first sequence of that batch"),
    Field("timestamp", "q", "largest timestamp of the last write, ms"),
    Field("coordinator_epoch", "i", "of the transaction coordinator that wrote the last marker, -1 never"),
    Field("current_txn_first_offset", "q", "first offset of the open transaction, -1 none"),
)

VERSION = 1

_CRC_START = PRODUCER_SNAPSHOT_HEADER.offset["entry_count"]
_MAX_INT32 = (1 << 31) - 1


class ProducerEntry(NamedTuple):
    """The state of one producer (ProducerStateEntry), with its last batch only. `timestamp` is in ms."""

    producer_id: int
    producer_epoch: int
    last_sequence: Annotated[int, "-1: none"]
    last_offset: Annotated[int, "-1: none"]
    offset_delta: int
    timestamp: Annotated[int, Named("timestamp_ms"), "of its last batch"]
    coordinator_epoch: int
    current_txn_first_offset: Annotated[int, "-1: no open transaction"]

    @property
    def has_batch(self) -> bool:
        """Whether the entry has a last batch. If not, sequence, offset and offset delta have no meaning."""
        return self.last_offset >= 0

    @property
    def first_sequence(self) -> int:
        """Sequence of the first record of the last batch, a 31-bit counter (BatchMetadata.firstSeq)."""
        if self.last_sequence < self.offset_delta:
            return wrap_int32(_MAX_INT32 - wrap_int32(self.offset_delta - self.last_sequence) + 1)
        return wrap_int32(self.last_sequence - self.offset_delta)

    @property
    def first_offset(self) -> int:
        """Offset of the first record of the last batch (BatchMetadata.firstOffset)."""
        return wrap_int64(self.last_offset - self.offset_delta)

    @property
    def open_txn_first_offset(self) -> int | None:
        """First offset of the open transaction, None if no transaction is open."""
        return self.current_txn_first_offset if self.current_txn_first_offset >= 0 else None


class _ProducerEntries(PackedEntries[ProducerEntry]):
    __slots__ = ()

    layout = PRODUCER_ENTRY

    entry = staticmethod(ProducerEntry._make)


def decode(data: bytes) -> tuple[Sequence[ProducerEntry], list[Fault]]:
    """Return the entries of a `.snapshot` file in file order, and its faults.

    A file that Kafka treats as corrupt gives no entries and one fault, with the message of Kafka's dump tool. Bytes
    after the last entry are a fault too: the CRC covers them, but Kafka ignores them.
    """
    header, entry_size = PRODUCER_SNAPSHOT_HEADER, PRODUCER_ENTRY.size
    count, faults = check(len(data), lambda: iter((data,)))
    end = header.size + count * entry_size
    entries = _ProducerEntries(memoryview(data)[header.size : end])
    return entries if count else [], faults


def check(size_bytes: int, pieces: Pieces) -> tuple[int, list[Fault]]:
    """Return the number of entries of a `.snapshot` file, and its faults, as `decode` does.

    `pieces` yields all bytes of the file in order, at least the header in the first piece.
    """
    header = PRODUCER_SNAPSHOT_HEADER
    start = next(pieces(), b"")[: header.size]
    problem = _schema_problem(start, size_bytes)
    if problem:
        return 0, [problem]
    _, stored_crc, count = header.struct.unpack_from(start)
    computed_crc, skipped = 0, _CRC_START
    for piece in pieces():
        computed_crc = crc32c(memoryview(piece)[skipped:], computed_crc)
        skipped = 0
    if stored_crc != computed_crc:
        message = (
            f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored_crc}. Computed crc: {computed_crc}"
        )
        size, expected, got = size_bytes - _CRC_START, str(computed_crc), str(stored_crc)
        return 0, [Fault(FaultKind.CRC_MISMATCH, _CRC_START, message, size, expected, got)]
    end = header.size + count * PRODUCER_ENTRY.size
    rest = size_bytes - end
    message = f"{rest} bytes after the last of {count} entries"
    return count, [Fault(FaultKind.TRAILING_BYTES, end, message, rest)] if rest else []


def entries_of(count: int, pieces: Iterable[bytes]) -> Iterator[ProducerEntry]:
    """Yield the `count` entries of a file that `check` found to be right, given piece by piece."""
    size, begun, skipped = PRODUCER_ENTRY.size, b"", PRODUCER_SNAPSHOT_HEADER.size
    for piece in pieces:
        data = begun + piece[skipped:] if begun or skipped else piece
        skipped = 0
        whole = min(len(data) // size, count)
        yield from map(ProducerEntry._make, PRODUCER_ENTRY.struct.iter_unpack(memoryview(data)[: whole * size]))
        begun, count = data[whole * size :], count - whole
        if not count:
            return


def encode(entries: Sequence[ProducerEntry]) -> bytes:
    """Return the bytes of a `.snapshot` file. Raises struct.error for a number that does not fit in its field."""
    body = b"".join(PRODUCER_ENTRY.struct.pack(*entry) for entry in entries)
    return b"".join(encode_packed(len(entries), lambda: iter((body,))))


def encode_packed(count: int, pieces: Pieces) -> Iterator[bytes]:
    """Yield the bytes of a `.snapshot` file of `count` entries, which `pieces` yields packed."""
    pack = PRODUCER_SNAPSHOT_HEADER.struct.pack
    crc = crc32c(pack(VERSION, 0, count)[_CRC_START:])
    for piece in pieces():
        crc = crc32c(piece, crc)
    yield pack(VERSION, crc, count)
    yield from pieces()


def _schema_problem(data: bytes, size_bytes: int) -> Fault | None:
    """Return why a file does not fit the schema (ProducerSnapshot, ProducerStateManager.readSnapshot), or None.

    `data` is the header, as much of it as is in the file.
    """
    header = PRODUCER_SNAPSHOT_HEADER
    if len(data) >= 2:
        version = int.from_bytes(data[:2], "big", signed=True)
        if version != VERSION:
            reason = f"Snapshot contained an unknown file version {version}"
            return _schema_fault(FaultKind.INVALID_VERSION, 0, reason, str(VERSION), str(version))
    if len(data) < header.size:
        return _schema_fault(FaultKind.INVALID_LENGTH, len(data), "null", f"at least {header.size}", str(len(data)))
    count = header.struct.unpack_from(data)[2]
    remaining = size_bytes - header.size
    at = header.offset["entry_count"]
    if count < 0:
        reason = "non-nullable field producerEntries was serialized as null"
        return _schema_fault(FaultKind.INVALID_COUNT, at, reason, "0 or more", str(count))
    if count > remaining:
        reason = f"Tried to allocate a collection of size {count}, but there are only {remaining} bytes remaining."
        return _schema_fault(FaultKind.INVALID_COUNT, at, reason, f"at most {remaining}", str(count))
    needed = header.size + count * PRODUCER_ENTRY.size
    if size_bytes < needed:
        return _schema_fault(FaultKind.INVALID_LENGTH, size_bytes, "null", str(needed), str(size_bytes))
    return None


def _schema_fault(kind: FaultKind, position: int, reason: str, expected: str, got: str) -> Fault:
    # Java's BufferUnderflowException has no message, so the reason for a file that ends too early is "null".
    return Fault(kind, position, f"Snapshot failed schema validation: {reason}", 0, expected, got)
