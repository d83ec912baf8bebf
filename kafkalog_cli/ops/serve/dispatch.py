"""The functions that answer requests, by the key of the API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import NamedTuple

from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.protocol.errors import ApiError
from kafkalog_cli.format.protocol.messages import API_VERSIONS, PRODUCE, Api, RequestHeader, apis
from kafkalog_cli.ops.serve.catalog import ServedCatalog
from kafkalog_cli.ops.serve.committed import CommittedStore
from kafkalog_cli.ops.serve.groups import GroupCoordinator


class Caller(NamedTuple):
    """Who asks: the client's id and address, and the address of this broker that the client has dialled."""

    client_id: str
    client_host: str
    broker_host: str
    broker_port: int


class Request(NamedTuple):
    """A request that was read."""

    version: int
    body: Message
    caller: Caller


@dataclass(frozen=True, slots=True, eq=False)
class Broker:
    """The state that all requests share. `stopping` is set when the server ends."""

    catalog: ServedCatalog
    groups: GroupCoordinator
    committed: CommittedStore
    stopping: Event


Answer = Callable[[Broker, Request], Message]


def answers() -> dict[int, Answer]:
    """Return the functions by API key."""
    from kafkalog_cli.ops.serve import (
        answer_cluster,
        answer_descriptions,
        answer_fetch,
        answer_groups,
        answer_offsets,
        answer_produce,
    )

    found: dict[int, Answer] = {API_VERSIONS: _api_versions}
    for module in (answer_cluster, answer_descriptions, answer_fetch, answer_groups, answer_offsets, answer_produce):
        found |= module.ANSWERS
    return found


def unknown_api_versions() -> tuple[Api, int, Message]:
    """Return the answer to a version of ApiVersions that is not served: version 0, with the served versions."""
    return apis()[API_VERSIONS], 0, {"errorCode": ApiError.UNSUPPORTED_VERSION, "apiKeys": _api_keys()}


def why_refused(header: RequestHeader) -> str | None:
    """Return the reason why a request is not answered, None if it is. A broker closes the connection then."""
    api = apis().get(header.api_key)
    if api is None:
        return f"API {header.api_key} is not served"
    if header.version not in api.versions:
        first, last = api.versions
        return f"{api.name} v{header.version} is not served (served: v{first} to v{last})"
    return None


def _api_versions(_broker: Broker, _request: Request) -> Message:
    return {"apiKeys": _api_keys()}


def _api_keys() -> list[Message]:
    """Return the served versions. Those of Produce begin with 0, as in Kafka.

    Without version 0 of Produce, librdkafka would fetch in no version, and old clients not compress (KAFKA-18659).
    """
    return [
        {
            "apiKey": api.key,
            "minVersion": 0 if api.key == PRODUCE else api.versions.first,
            "maxVersion": api.versions.last,
        }
        for api in apis().values()
    ]
