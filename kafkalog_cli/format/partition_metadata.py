"""`partition.metadata` (since 2.8): the topic id of a partition directory."""

from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from kafkalog_cli.format.fault import Fault, FaultKind, malformed_line
from kafkalog_cli.format.java_text import ZERO_UUID, canonical_uuid, lines, parse_int, split_colon

VERSION = 0

METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
"""The topic id of `__cluster_metadata` in every cluster (Uuid.METADATA_TOPIC_ID)."""


class PartitionMetadata(NamedTuple):
    """The contents of the file (PartitionMetadata). `topic_id` is a uuid of 22 characters."""

    version: int
    topic_id: str


def decode(data: bytes) -> tuple[PartitionMetadata | None, list[Fault]]:
    """Return the contents of the file, or None and one fault if a broker would refuse it.

    The rules are those of PartitionMetadataReadBuffer. Any version from 0 on is accepted, the names before the colons
    are not checked, and nothing is read after the second line.
    """
    decoded = (_known if len(data) <= _USUAL_BYTES else _decode)(data)
    return (None, [decoded]) if isinstance(decoded, Fault) else (decoded, [])


def _decode(data: bytes) -> PartitionMetadata | Fault:
    """Return the contents of the file, or its fault."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return Fault(FaultKind.INVALID_ENTRY, error.start, "not UTF-8")
    rows = [*islice(lines(data), 2)]
    version, fault = _version(rows, len(data))
    topic_id = ""
    if fault is None:
        topic_id, fault = _topic_id(rows, len(data))
    return fault or PartitionMetadata(version, topic_id)


_known = lru_cache(maxsize=256)(_decode)
"""Keeps what usual files contain: all partitions of a topic have the same."""
_USUAL_BYTES = 256


def encode(metadata: PartitionMetadata) -> bytes:
    """Return the bytes that a broker writes. The topic id is not followed by a line end."""
    return f"version: {metadata.version}\ntopic_id: {metadata.topic_id}".encode()


def _version(rows: list[tuple[int, bytes]], size_bytes: int) -> tuple[int, Fault | None]:
    text, fault = _value(rows, 0, size_bytes)
    version = parse_int(text)
    if fault or version is None:
        return -1, fault or malformed_line(*rows[0])
    if version < VERSION:
        message = f"Unrecognized version of partition metadata file: {version}"
        fault = Fault(FaultKind.INVALID_VERSION, 0, message, len(rows[0][1]), f"{VERSION} or more", str(version))
    return version, fault


def _topic_id(rows: list[tuple[int, bytes]], size_bytes: int) -> tuple[str, Fault | None]:
    text, fault = _value(rows, 1, size_bytes)
    topic_id = canonical_uuid(text)
    if fault is None and topic_id in (None, ZERO_UUID):
        position, raw = rows[1]
        message = "Invalid topic ID in partition metadata file"
        fault = Fault(FaultKind.INVALID_ENTRY, position, message, len(raw), "a uuid of 22 characters, not zero", text)
    return topic_id or "", fault


def _value(rows: list[tuple[int, bytes]], number: int, size_bytes: int) -> tuple[str, Fault | None]:
    if number >= len(rows):
        message = f"the file ends before line {number + 1}"
        return "", Fault(FaultKind.INVALID_LENGTH, size_bytes, message)
    fields = split_colon(rows[number][1].decode())
    return (fields[1], None) if len(fields) == 2 else ("", malformed_line(*rows[number]))
