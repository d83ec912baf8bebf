"""Kafka's small JSON files, read as Jackson reads them: `.kafka_cleanshutdown` and quorum-state."""

from typing import Any, NamedTuple

from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.java_text import ZERO_UUID, canonical_uuid, lines
from kafkalog_cli.results import Hidden

_MAX_CHARACTERS = 1 << 20


def read_json_object(text: str) -> tuple[dict[str, Any], str]:
    """Return (the JSON object at the start of `text`, ""), or ({}, the reason why there is no object).

    Text after the object is ignored, as in Jackson.
    """
    import json

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    if len(text) > _MAX_CHARACTERS:
        return {}, f"{len(text)} characters are too many"
    try:
        value, _ = json.JSONDecoder(parse_constant=refuse).raw_decode(text.lstrip(" \t\r\n"))
    except (ValueError, RecursionError) as error:  # nesting a thousand levels deep, or numbers with thousands of digits
        return {}, "nested too deep" if isinstance(error, RecursionError) else str(error)
    return (value, "") if isinstance(value, dict) else ({}, "not an object")


def integer(value: object, bits: int) -> int | None:
    """Return `value` if it is a JSON integer that fits in a signed field of `bits` bits, else None."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else None


UNKNOWN_BROKER_EPOCH = -1


class CleanShutdown(NamedTuple):
    """The contents since 3.7 (CleanShutdownFileHandler, KIP-966).

    `broker_epoch` is -1 if the broker did not know it.
    """

    version: int
    broker_epoch: int


def decode_clean_shutdown(data: bytes) -> tuple[CleanShutdown | None, list[Fault]]:
    """Return the contents, or None if the file is empty (3.6 and older) or unreadable, and the faults.

    If the contents cannot be read, there is a fault: a broker then starts as after any clean shutdown, but registers
    without its previous broker epoch.
    """
    if not data:
        return None, []
    content, problem = read_json_object(data.decode(errors="replace"))
    version, epoch = integer(content.get("version", 0), 32), integer(content.get("brokerEpoch"), 64)
    if problem or version is None or epoch is None:
        message = f"no broker epoch can be read: {problem or 'a field is missing or no integer'}"
        return None, [Fault(FaultKind.INVALID_ENTRY, 0, message, len(data))]
    return CleanShutdown(version, epoch), []


_VERSIONS = (0, 1)


class QuorumState(NamedTuple):
    """The contents of quorum-state.

    The fields of both versions (QuorumStateData). -1 means no leader or no vote.

    `cluster_id`, `applied_offset` and `current_voters` (ids) exist in version 0. `voted_directory_id` (a uuid of 22
    characters) exists in version 1, which is written if kraft.version is 1 or more.
    """

    data_version: int
    leader_id: int = -1
    leader_epoch: int = -1
    voted_id: int = -1
    cluster_id: Hidden[str] = ""
    applied_offset: Hidden[int] = 0
    current_voters: Hidden[tuple[int, ...]] = ()
    voted_directory_id: Hidden[str] = ZERO_UUID


def decode_quorum_state(data: bytes) -> tuple[QuorumState | None, list[Fault]]:
    """Return the contents of the first line, or None and one fault if a controller would refuse it."""
    try:
        data.decode()
        first_line = next((line for _, line in lines(data)), b"").decode()
    except UnicodeDecodeError as error:
        return None, [_quorum_fault(str(error), len(data))]
    content, problem = read_json_object(first_line)
    if problem:
        return None, [_quorum_fault(f"its first line is no JSON object: {problem}", len(data))]
    version = integer(content.get("data_version"), 16)
    if version not in _VERSIONS:
        message = f"data_version ({content.get('data_version')!r}) is not 0 or 1"
        return None, [Fault(FaultKind.INVALID_VERSION, 0, message, len(data), "0 or 1")]
    try:
        state = _state(content, version)
    except (KeyError, TypeError, ValueError) as error:
        return None, [_quorum_fault(f"field {error.args[0]} is missing or of another type", len(data))]
    return state, []


def _state(content: dict[str, Any], version: int | None) -> QuorumState:
    common = (_integer(content, "leaderId"), _integer(content, "leaderEpoch"), _integer(content, "votedId"))
    if version == 0:
        cluster_id = content["clusterId"]
        if not isinstance(cluster_id, str):
            raise TypeError("clusterId")
        return QuorumState(0, *common, cluster_id, _integer(content, "appliedOffset", 64), _voters(content))
    directory_id = content["votedDirectoryId"]
    canonical = canonical_uuid(directory_id) if isinstance(directory_id, str) else None
    if canonical is None:
        raise ValueError("votedDirectoryId")
    return QuorumState(1, *common, voted_directory_id=canonical)


def _integer(content: dict[str, Any], key: str, bits: int = 32) -> int:
    value = integer(content[key], bits)
    if value is None:
        raise TypeError(key)
    return value


def _voters(content: dict[str, Any]) -> tuple[int, ...]:
    voters = content["currentVoters"]  # the schema allows null, but ElectionState fails on it
    if not isinstance(voters, list) or not all(isinstance(voter, dict) for voter in voters):
        raise TypeError("currentVoters")
    return tuple(_integer(voter, "voterId") for voter in voters)


def _quorum_fault(message: str, size_bytes: int) -> Fault:
    return Fault(FaultKind.INVALID_ENTRY, 0, message, size_bytes)
