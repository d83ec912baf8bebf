"""The parts of a cluster's state that only `cluster` prints: listeners, controllers, ACLs, SCRAM users, quotas, tokens.

Secrets are not kept: of a SCRAM credential only its name, mechanism and iterations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafkalog_cli.format.internal_topics.schema import Message


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


class TokenState(NamedTuple):
    """A delegation token without its secret; times are epoch ms (TokenInformation)."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    latest_ms: int


QuotaEntity = tuple[tuple[str, str | None], ...]
"""Pairs of entity type and name; the name None is the default of the type."""


class ClusterRegistry:
    """The state after a `replay` of each record. A removal of an unknown thing changes nothing."""

    def __init__(self) -> None:
        self.listeners: dict[int, tuple[Endpoint, ...]] = {}
        """By broker id."""
        self.controllers: dict[int, ControllerState] = {}
        self.acls: dict[str, AccessControl] = {}
        self.scram_iterations: dict[tuple[str, int], int] = {}
        """By user and mechanism (ScramMechanism)."""
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.tokens: dict[str, TokenState] = {}
        self.next_producer_id: int | None = None

    def replay(self, api_key: int, message: Message) -> None:
        """Apply a record; record types of other parts change nothing."""
        handler = _HANDLERS.get(api_key)
        if handler is not None:
            handler(self, message)

    def _broker(self, message: Message) -> None:
        self.listeners[message["brokerId"]] = _endpoints(message)

    def _no_broker(self, message: Message) -> None:
        self.listeners.pop(message["brokerId"], None)

    def _controller(self, message: Message) -> None:
        number = message["controllerId"]
        self.controllers[number] = ControllerState(number, message["incarnationId"], _endpoints(message))

    def _no_controller(self, message: Message) -> None:
        self.controllers.pop(message["controllerId"], None)

    def _acl(self, message: Message) -> None:
        self.acls[message["id"]] = AccessControl(
            message["id"], message["resourceType"], message["resourceName"], message["patternType"],
            message["principal"], message["host"], message["operation"], message["permissionType"],
        )  # fmt: skip

    def _no_acl(self, message: Message) -> None:
        self.acls.pop(message["id"], None)

    def _scram(self, message: Message) -> None:
        self.scram_iterations[message["name"], message["mechanism"]] = message["iterations"]

    def _no_scram(self, message: Message) -> None:
        self.scram_iterations.pop((message["name"], message["mechanism"]), None)

    def _quota(self, message: Message) -> None:
        entity = tuple(sorted(((one["entityType"], one["entityName"]) for one in message["entity"]), key=str))
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

    def _no_token(self, message: Message) -> None:
        self.tokens.pop(message["tokenId"], None)

    def _producer_ids(self, message: Message) -> None:
        self.next_producer_id = message["nextProducerId"]


_HANDLERS: dict[int, Callable[[ClusterRegistry, Message], None]] = {
    0: ClusterRegistry._broker,
    1: ClusterRegistry._no_broker,
    10: ClusterRegistry._token,
    11: ClusterRegistry._scram,
    14: ClusterRegistry._quota,
    15: ClusterRegistry._producer_ids,
    18: ClusterRegistry._acl,
    19: ClusterRegistry._no_acl,
    22: ClusterRegistry._no_scram,
    26: ClusterRegistry._no_token,
    27: ClusterRegistry._controller,
    29: ClusterRegistry._no_controller,
}

REGISTRY_TYPES = frozenset(_HANDLERS)
"""Record types that change the registry."""


def _endpoints(message: Message) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(one["name"], one["host"], one["port"], one["securityProtocol"]) for one in message["endPoints"]
    )
