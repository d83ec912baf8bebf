"""`meta.properties` (since 0.8.2): the cluster, node and directory ids of a log directory."""

import re
from typing import NamedTuple

from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.java_text import (
    RESERVED_DIRECTORY_IDS,
    canonical_uuid,
    format_properties,
    parse_int,
    parse_properties,
    parse_uuid,
)

_MAX_BYTES = 1 << 20
_CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]{1,22}")
_JAVA_BLANKS = "".join(map(chr, range(0x21)))
"""The characters that String.trim removes."""


class MetaProperties(NamedTuple):
    """The contents of meta.properties.

    Mirrors MetaProperties. None: the key is missing.

    `version` 0 is ZooKeeper's, where `node_id` is `broker.id`; 1 is KRaft's, where it is `node.id`. `directory_id`
    (since 3.7) is a uuid of 22 characters.
    """

    version: int
    cluster_id: str | None = None
    node_id: int | None = None
    directory_id: str | None = None

    @property
    def is_of_zookeeper(self) -> bool:
        """Whether a broker with ZooKeeper wrote the file. It stays as it is when the broker migrates to KRaft."""
        return self.version < 1


def decode(data: bytes) -> tuple[MetaProperties | None, list[Fault]]:
    """Return the contents, or None if the file cannot be read, and the faults for which a broker would refuse it.

    Two faults concern values that brokers accept: a cluster id that Kafka does not generate, and a reserved directory
    id.
    """
    if len(data) > _MAX_BYTES:
        expected, got = f"at most {_MAX_BYTES}", str(len(data))
        return None, [
            Fault(FaultKind.INVALID_LENGTH, 0, f"{got} bytes are not a meta.properties file", 0, expected, got)
        ]
    try:
        properties = parse_properties(data)
    except ValueError as error:
        return None, [_fault(str(error))]
    faults: list[Fault] = []
    version = _version(properties, faults)
    if version is None:
        return None, faults
    meta = MetaProperties(
        version,
        _cluster_id(properties, version, faults),
        _node_id(properties, version, faults),
        _directory_id(properties, faults),
    )
    return meta, faults


def encode(meta: MetaProperties, written_at: str) -> bytes:
    """Return the bytes that a broker writes on Java 17 or older. Java 18 and later sort the keys.

    Characters outside ASCII are escaped, because Kafka writes UTF-8 and reads Latin-1. No broker generates such
    characters. `written_at` is the date in the comment, like `Sat Nov 21 02:30:54 UTC 2026`.
    """
    pairs = {
        "node.id" if meta.version else "broker.id": meta.node_id,
        "directory.id": meta.directory_id,
        "version": meta.version,
        "cluster.id": meta.cluster_id,
    }
    present = ((key, str(value)) for key, value in pairs.items() if value is not None)
    return format_properties(present, ("", written_at))


def _version(properties: dict[str, str], faults: list[Fault]) -> int | None:
    text = properties.get("version", "0")
    version = parse_int(text.strip(_JAVA_BLANKS))
    if version in (0, 1):
        return version
    message = f"Invalid meta.properties version string '{text}'"
    if version is not None:
        message = f"Unknown meta.properties version number {version}"
    faults.append(Fault(FaultKind.INVALID_VERSION, 0, message, 0, "0 or 1", text))
    return None


def _node_id(properties: dict[str, str], version: int, faults: list[Fault]) -> int | None:
    key = "node.id" if version else "broker.id"
    text = properties.get(key)
    if text is None:
        if version:
            faults.append(_fault(f"Failed to find {key}"))
        return None
    node_id = parse_int(text)
    if node_id is None:
        faults.append(_fault(f"Unable to read {key} as a base-10 number.", "a number", text))
    return node_id


def _cluster_id(properties: dict[str, str], version: int, faults: list[Fault]) -> str | None:
    cluster_id = properties.get("cluster.id")
    if cluster_id is None:
        if version:
            faults.append(_fault("cluster.id was not found."))
    elif not _CLUSTER_ID.fullmatch(cluster_id):
        expected = "1 to 22 characters of A-Z a-z 0-9 _ -"
        fault = _fault("cluster.id is not one that Kafka generates", expected, cluster_id)
        faults.append(fault._replace(is_accepted=True))
    return cluster_id


def _directory_id(properties: dict[str, str], faults: list[Fault]) -> str | None:
    text = properties.get("directory.id")
    if text is None:
        return None
    raw = parse_uuid(text)
    if raw is None:
        faults.append(_fault("Unable to read directory.id as a Uuid", "a uuid of 22 characters", text))
        return None
    if int.from_bytes(raw, "big") < RESERVED_DIRECTORY_IDS:
        faults.append(_fault("directory.id is reserved", f"a uuid of {RESERVED_DIRECTORY_IDS} or more", text))
    return canonical_uuid(text)


def _fault(message: str, expected: str = "", got: str = "") -> Fault:
    return Fault(FaultKind.INVALID_ENTRY, 0, message, expected=expected, got=got)
