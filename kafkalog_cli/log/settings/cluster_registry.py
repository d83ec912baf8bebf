"""The parts of a cluster's state that no partition needs: listeners, controllers, ACLs, users, quotas, tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.results import result


class CannotApply(Exception):
    """A record that no controller can apply to the state before it. `is_newer`: it has a feature of a newer Kafka."""

    def __init__(self, message: str, *, is_newer: bool = False) -> None:
        super().__init__(message)
        self.is_newer = is_newer


class Endpoint(NamedTuple):
    """A listener of a broker or controller; `security_protocol` is the number of Kafka's SecurityProtocol."""

    name: str
    host: str
    port: int
    security_protocol: int


class ControllerState(NamedTuple):
    """A controller's registration (ControllerRegistration)."""

    controller_id: int
    incarnation_id: str
    listeners: tuple[Endpoint, ...]


class AccessControl(NamedTuple):
    """An access control entry, with Kafka's numbers (AclBinding)."""

    acl_id: str
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


@result("kafkalog.cluster-token/1")
class TokenState(NamedTuple):
    """A delegation token, without its secret.

    Mirrors TokenInformation.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    latest_ms: Annotated[int, "the time up to which it can be renewed"]


QuotaEntity = tuple[tuple[str, str | None], ...]
"""Pairs of entity type and name; the name None is the default of the type."""


@dataclass(slots=True)
class ClusterRegistry:
    """The state after a `replay` of each record, which raises CannotApply where a controller ends.

    `listeners` are by broker id, `scram_iterations` by user and mechanism (ScramMechanism).
    """

    listeners: dict[int, tuple[Endpoint, ...]] = field(default_factory=dict)
    controllers: dict[int, ControllerState] = field(default_factory=dict)
    acls: dict[str, AccessControl] = field(default_factory=dict)
    scram_iterations: dict[tuple[str, int], int] = field(default_factory=dict)
    quotas: dict[QuotaEntity, dict[str, float]] = field(default_factory=dict)
    tokens: dict[str, TokenState] = field(default_factory=dict)
    next_producer_id: int | None = None

    def replay(self, api_key: int, message: Message) -> None:
        """Apply a record; record types of other parts change nothing."""
        handler = _REGISTRY_HANDLERS.get(api_key)
        if handler is not None:
            handler(self, message)

    def _broker(self, message: Message) -> None:
        self.listeners[message["brokerId"]] = _endpoints(message)

    def _controller(self, message: Message) -> None:
        number = message["controllerId"]
        self.controllers[number] = ControllerState(number, message["incarnationId"], _endpoints(message))

    def _acl(self, message: Message) -> None:
        self.acls[message["id"]] = AccessControl(
            message["id"], message["resourceType"], message["resourceName"], message["patternType"],
            message["principal"], message["host"], message["operation"], message["permissionType"],
        )  # fmt: skip

    def _scram(self, message: Message) -> None:
        self.scram_iterations[message["name"], message["mechanism"]] = message["iterations"]

    def _quota(self, message: Message) -> None:
        entity = tuple(sorted(((part["entityType"], part["entityName"]) for part in message["entity"]), key=str))
        values = self.quotas.setdefault(entity, {})
        if message["remove"]:
            values.pop(message["key"], None)
        else:
            values[message["key"]] = message["value"]
        if not values:
            del self.quotas[entity]

    def _token(self, message: Message) -> None:
        self.tokens[message["tokenId"]] = TokenState(
            message["tokenId"], message["owner"], message["requester"], tuple(message["renewers"]),
            message["issueTimestamp"], message["expirationTimestamp"], message["maxTimestamp"],
        )  # fmt: skip

    def _producer_ids(self, message: Message) -> None:
        next_id, before = message["nextProducerId"], self.next_producer_id
        if before is not None and next_id <= before:
            raise CannotApply(f"the next producer id {next_id} is not above the one before, {before}")
        self.next_producer_id = next_id

    def _remove_acl(self, message: Message) -> None:
        if self.acls.pop(message["id"], None) is None:
            raise CannotApply(f"no access control entry has the id {message['id']}")

    def _remove_scram(self, message: Message) -> None:
        user = (message["name"], message["mechanism"])
        if self.scram_iterations.pop(user, None) is None:
            raise CannotApply(f"the user {user[0]} has no SCRAM credential of mechanism {user[1]}")


_REGISTRY_HANDLERS: dict[int, Callable[[ClusterRegistry, Message], object]] = {
    0: ClusterRegistry._broker,
    1: lambda registry, message: registry.listeners.pop(message["brokerId"], None),
    10: ClusterRegistry._token,
    11: ClusterRegistry._scram,
    14: ClusterRegistry._quota,
    15: ClusterRegistry._producer_ids,
    18: ClusterRegistry._acl,
    19: ClusterRegistry._remove_acl,
    22: ClusterRegistry._remove_scram,
    26: lambda registry, message: registry.tokens.pop(message["tokenId"], None),
    27: ClusterRegistry._controller,
    29: lambda registry, message: registry.controllers.pop(message["controllerId"], None),
}


def _endpoints(message: Message) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(endpoint["name"], endpoint["host"], endpoint["port"], endpoint["securityProtocol"])
        for endpoint in message["endPoints"]
    )
