"""`quorum-state` (KRaft): a controller's vote and its leader, as one line of JSON (QuorumStateData)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.java_text import lines
from kafkalog_cli.format.json_object import integer, read_json_object
from kafkalog_cli.format.kafka_uuid import ZERO_UUID, canonical_uuid

_VERSIONS = (0, 1)


@dataclass(frozen=True, slots=True)
class QuorumState:
    """The fields of both versions (QuorumStateData). -1 means no leader or no vote.

    `cluster_id`, `applied_offset` and `current_voters` (ids) exist in version 0. `voted_directory_id` (a uuid of 22
    characters) exists in version 1, which is written if kraft.version is 1 or more.
    """

    data_version: int
    leader_id: int = -1
    leader_epoch: int = -1
    voted_id: int = -1
    cluster_id: str = ""
    applied_offset: int = 0
    current_voters: tuple[int, ...] = ()
    voted_directory_id: str = ZERO_UUID


def decode(data: bytes) -> tuple[QuorumState | None, list[Fault]]:
    """Return the contents of the first line, or None and one fault if a controller would refuse it."""
    try:
        data.decode()
        first_line = next((line for _, line in lines(data)), b"").decode()
    except UnicodeDecodeError as error:
        return None, [_fault(str(error), len(data))]
    content, problem = read_json_object(first_line)
    if problem:
        return None, [_fault(problem, len(data))]
    version = integer(content.get("data_version"), 16)
    if version not in _VERSIONS:
        message = f"data_version ({content.get('data_version')!r}) is not 0 or 1"
        return None, [Fault(FaultKind.INVALID_VERSION, 0, message, len(data), "0 or 1")]
    try:
        state = _state(content, version)
    except (KeyError, TypeError, ValueError) as error:
        return None, [_fault(f"field {error.args[0]} is missing or of another type", len(data))]
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


def _fault(message: str, size_bytes: int) -> Fault:
    return Fault(FaultKind.INVALID_ENTRY, 0, message, size_bytes)
