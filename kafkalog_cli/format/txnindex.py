"""Transaction indexes (`.txnindex`, since 0.11): the aborted transactions whose markers a segment holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.layout import Field, Layout, PackedEntries

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ABORTED_TXN = Layout(
    "Aborted transaction",
    "org.apache.kafka.storage.internals.log.AbortedTxn",
    Field("version", "h", "0; readers before Kafka 4.4 look at the first byte only"),
    Field("producer_id", "q", "of the producer whose transaction was aborted"),
    Field("first_offset", "q", "of the transaction; may lie in an earlier segment"),
    Field("last_offset", "q", "of the ABORT marker"),
    Field("last_stable_offset", "q", "first offset of the earliest other open transaction then, else last offset + 1"),
)

CURRENT_VERSION = 0

_MAX_FAULTS = 100


class AbortedTxn(NamedTuple):
    """An aborted transaction (AbortedTxn). Offsets are absolute."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class _AbortedTxns(PackedEntries[AbortedTxn]):
    __slots__ = ()

    layout = ABORTED_TXN

    def entry(self, fields: tuple[int, ...]) -> AbortedTxn:
        return AbortedTxn(*fields)


class _OfBytes(_AbortedTxns):
    __slots__ = ()

    def entry(self, fields: tuple[int, ...]) -> AbortedTxn:
        version, *others = fields
        return AbortedTxn(version >> 8, *others)


def decode(
    data: bytes, base_offset: int, *, is_version_a_byte: bool = False
) -> tuple[Sequence[AbortedTxn], list[Fault]]:
    """Return the entries of a `.txnindex` file, and faults for contents that no broker writes.

    The entries end before the first entry of an unknown version (a fault INVALID_VERSION), for which Kafka refuses the
    whole file. An incomplete entry at the end, which Kafka ignores, is a fault INVALID_LENGTH. `is_version_a_byte`: as
    Kafka before 4.4, which looks at the first byte of a version only, and accepts a negative one.
    """
    size = ABORTED_TXN.size
    end = len(data) // size * size
    faults: list[Fault] = []
    before: AbortedTxn | None = None
    count = 0
    kind = _OfBytes if is_version_a_byte else _AbortedTxns
    for entry in kind(memoryview(data)[:end]):
        if entry.version > CURRENT_VERSION or (entry.version < 0 and not is_version_a_byte):
            faults.append(_version_fault(count * size, entry.version))
            break
        if len(faults) < _MAX_FAULTS:
            faults.extend(_entry_faults(entry, count, before, base_offset))
        before = entry
        count += 1
    entries = kind(memoryview(data)[: count * size])
    if end != len(data):
        message = f"{len(data)} bytes are not a multiple of {size}"
        expected, got = f"a multiple of {size}", str(len(data))
        faults.append(Fault(FaultKind.INVALID_LENGTH, end, message, len(data) - end, expected, got))
    return entries, faults


def encode(entries: Iterable[AbortedTxn]) -> bytes:
    """Return the bytes of a `.txnindex` file. Raises ValueError for a version other than 0, the only known one."""
    parts = []
    for entry in entries:
        if entry.version != CURRENT_VERSION:
            raise ValueError(f"version {entry.version} of an aborted transaction cannot be written")
        parts.append(ABORTED_TXN.struct.pack(*entry))
    return b"".join(parts)


def _version_fault(position: int, version: int) -> Fault:
    message = f"unexpected aborted transaction version {version}, current version is {CURRENT_VERSION}"
    kind, size = FaultKind.INVALID_VERSION, ABORTED_TXN.size
    return Fault(kind, position, message, size, str(CURRENT_VERSION), str(version))


def _entry_faults(entry: AbortedTxn, number: int, before: AbortedTxn | None, base_offset: int) -> Iterable[Fault]:
    problems = []
    if entry.last_offset < base_offset:
        problems.append("last offset below the base offset")
    if before is not None and entry.last_offset <= before.last_offset:
        problems.append("last offset not above that of the entry before")
    if entry.first_offset > entry.last_offset:
        problems.append("first offset above the last offset")
    position, size = number * ABORTED_TXN.size, ABORTED_TXN.size
    first, last = entry.first_offset, entry.last_offset
    for problem in problems:
        message = f"entry {number}: {problem}"
        yield Fault(FaultKind.INVALID_ENTRY, position, message, size, base_offset=first, last_offset=last)
