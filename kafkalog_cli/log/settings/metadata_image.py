"""The state that the records of `__cluster_metadata` produce: topics, partitions, settings, features, brokers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.java_text import ZERO_UUID

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
"""Resource types of settings (ConfigResource.Type)."""

NO_LEADER_CHANGE = -2

MIGRATING_DIRECTORY = ZERO_UUID
"""The id of an unknown directory: in older metadata, or while one log directory becomes several (DirectoryId)."""


class PartitionRegistration(NamedTuple):
    """A partition in the controller's state (PartitionRegistration); `directories` has an id per replica.

    `elr` are the eligible leader replicas (KIP-966).
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[str, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    is_recovering: bool = False
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic and its partitions by number."""

    name: str
    topic_id: str
    partitions: dict[int, PartitionRegistration] = field(default_factory=dict)


class BrokerState(NamedTuple):
    """A broker's registration; `log_dirs` are the ids of its log directories (KIP-858)."""

    broker_id: int
    broker_epoch: int
    incarnation_id: str
    is_fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[str, ...]
    rack: str | None = None


class MetadataImage:
    """The state after a `replay` of each record (Kafka's MetadataImage, MetadataDelta).

    A record that does not fit is skipped, and `replay` returns the reason; a broker treats it as fatal. Records in a
    metadata transaction (KIP-866) are applied at its end, or not at all if it is aborted. `registry` None: records of
    the parts that it has change nothing.
    """

    def __init__(self, registry: ClusterRegistry | None = None) -> None:
        self.registry = registry
        self.topics: dict[str, TopicState] = {}
        """By topic id."""
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        """By resource type and name; the settings that apply to all brokers are those of a broker named ""."""
        self.features: dict[str, int] = {}
        self.brokers: dict[int, BrokerState] = {}
        self._pending: list[tuple[int, Message]] | None = None

    def replay(self, api_key: int, message: Message) -> str | None:
        """Apply a record; return what is wrong with it, None if it fits."""
        if api_key in _TRANSACTION:
            return self._transaction(api_key)
        if self._pending is not None:
            self._pending.append((api_key, message))
            return None
        if self.registry is not None:
            self.registry.replay(api_key, message)
        handler = _HANDLERS.get(api_key)
        return None if handler is None else handler(self, message)

    def _transaction(self, api_key: int) -> str | None:
        if api_key == _BEGIN:
            if self._pending is not None:
                return "Encountered BeginTransactionRecord while already in a transaction"
            self._pending = []
            return None
        if self._pending is None:
            return "a metadata transaction ends that has not begun"
        records, self._pending = self._pending, None
        problems = [self.replay(*record) for record in records] if api_key == _END else []
        return next((problem for problem in problems if problem is not None), None)

    def _topic(self, message: Message) -> str | None:
        self.topics[message["topicId"]] = TopicState(message["name"], message["topicId"])
        return None

    def _remove_topic(self, message: Message) -> str | None:
        topic = self.topics.pop(message["topicId"], None)
        if topic is None:
            return f"Unable to delete topic with id {message['topicId']}: no such topic found."
        self.configs.pop((TOPIC_RESOURCE, topic.name), None)
        return None

    def _partition(self, message: Message) -> str | None:
        topic = self.topics.get(message["topicId"])
        if topic is None:
            return f"a partition of topic id {message['topicId']}, which does not exist"
        replicas = tuple(message["replicas"])
        topic.partitions[message["partitionId"]] = PartitionRegistration(
            replicas,
            tuple(message["isr"]),
            message["leader"],
            message["leaderEpoch"],
            message["partitionEpoch"],
            _directories(message.get("directories", ()), len(replicas)),
            tuple(message["addingReplicas"]),
            tuple(message["removingReplicas"]),
            message.get("leaderRecoveryState", 0) == 1,
            tuple(message.get("eligibleLeaderReplicas") or ()),
            tuple(message.get("lastKnownElr") or ()),
        )
        return None

    def _clear_elr(self, message: Message) -> str | None:
        """Clear the eligible leader replicas of a topic, or of all topics if the record names none."""
        name = message["topicName"]
        for topic in self.topics.values():
            if name in ("", topic.name):
                cleared = {number: one._replace(elr=(), last_known_elr=()) for number, one in topic.partitions.items()}
                topic.partitions.update(cleared)
        return None

    def _partition_change(self, message: Message) -> str | None:
        topic = self.topics.get(message["topicId"])
        old = None if topic is None else topic.partitions.get(message["partitionId"])
        if topic is None or old is None:
            return f"Unable to find partition {message['topicId']}:{message['partitionId']}"
        topic.partitions[message["partitionId"]] = _changed(old, message)
        return None

    def _config(self, message: Message) -> str | None:
        resource = (message["resourceType"], message["resourceName"])
        settings = self.configs.setdefault(resource, {})
        if message["value"] is None:
            settings.pop(message["name"], None)
        else:
            settings[message["name"]] = message["value"]
        if not settings:
            del self.configs[resource]
        return None

    def _feature(self, message: Message) -> str | None:
        if message["featureLevel"]:
            self.features[message["name"]] = message["featureLevel"]
        else:
            self.features.pop(message["name"], None)
        return None

    def _register(self, message: Message) -> str | None:
        self.brokers[message["brokerId"]] = BrokerState(
            message["brokerId"],
            message["brokerEpoch"],
            message["incarnationId"],
            message["fenced"],
            message.get("inControlledShutdown", False),
            tuple(message.get("logDirs", ())),
            message["rack"],
        )
        return None

    def _unregister(self, message: Message) -> str | None:
        self.brokers.pop(message["brokerId"], None)
        return None

    def _change_registration(self, message: Message) -> str | None:
        fenced, shutdown = message.get("fenced", 0), message.get("inControlledShutdown", 0)
        if fenced not in (-1, 0, 1) or shutdown not in (0, 1):
            return f"unknown change of broker {message['brokerId']}: fenced {fenced}, in shutdown {shutdown}"
        return self._change_broker(
            message["brokerId"],
            message["brokerEpoch"],
            is_fenced={-1: False, 1: True}.get(fenced),
            in_controlled_shutdown=shutdown == 1,
            log_dirs=tuple(message.get("logDirs", ())),
        )

    def _change_broker(
        self,
        broker_id: int,
        epoch: int,
        *,
        is_fenced: bool | None,
        in_controlled_shutdown: bool = False,
        log_dirs: tuple[str, ...] = (),
    ) -> str | None:
        broker = self.brokers.get(broker_id)
        if broker is None:
            return f"Tried to change broker {broker_id}, but that broker was not registered."
        if broker.broker_epoch != epoch:
            return f"a change of broker {broker_id} at epoch {epoch}, which is at epoch {broker.broker_epoch}"
        self.brokers[broker_id] = broker._replace(
            is_fenced=broker.is_fenced if is_fenced is None else is_fenced,
            in_controlled_shutdown=broker.in_controlled_shutdown or in_controlled_shutdown,
            log_dirs=log_dirs or broker.log_dirs,
        )
        return None


_BEGIN, _END, _ABORT = 23, 24, 25
_TRANSACTION = (_BEGIN, _END, _ABORT)

_HANDLERS: dict[int, Callable[[MetadataImage, Message], str | None]] = {
    0: MetadataImage._register,
    1: MetadataImage._unregister,
    2: MetadataImage._topic,
    3: MetadataImage._partition,
    4: MetadataImage._config,
    5: MetadataImage._partition_change,
    7: lambda image, message: image._change_broker(message["id"], message["epoch"], is_fenced=True),
    8: lambda image, message: image._change_broker(message["id"], message["epoch"], is_fenced=False),
    9: MetadataImage._remove_topic,
    12: MetadataImage._feature,
    17: MetadataImage._change_registration,
    28: MetadataImage._clear_elr,
}

REPLAYED_TYPES = frozenset(_HANDLERS) | frozenset(_TRANSACTION)
"""Record types that change the image; other types need not be decoded."""


def _changed(old: PartitionRegistration, message: Message) -> PartitionRegistration:
    """Return the partition after a change (PartitionRegistration.merge)."""
    replicas = _either(message.get("replicas"), old.replicas)
    leader = message.get("leader", NO_LEADER_CHANGE)
    is_elected = leader != NO_LEADER_CHANGE
    recovery = message.get("leaderRecoveryState", -1)
    directories = message.get("directories")
    return PartitionRegistration(
        replicas,
        _either(message.get("isr"), old.isr),
        leader if is_elected else old.leader,
        old.leader_epoch + is_elected,
        old.partition_epoch + 1,
        _directories(old.directories if directories is None else directories, len(replicas)),
        _either(message.get("addingReplicas"), old.adding_replicas),
        _either(message.get("removingReplicas"), old.removing_replicas),
        old.is_recovering if recovery == -1 else recovery == 1,
        _either(message.get("eligibleLeaderReplicas"), old.elr),
        _either(message.get("lastKnownElr"), old.last_known_elr),
    )


def _either(new: list[int] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if new is None else tuple(new)


def _directories(found: Sequence[str], replicas: int) -> tuple[str, ...]:
    """Return a directory id per replica; without any known id, the id MIGRATING_DIRECTORY for each."""
    if all(directory == MIGRATING_DIRECTORY for directory in found):
        return (MIGRATING_DIRECTORY,) * replicas
    return tuple(found)


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

    def _producer_ids(self, message: Message) -> None:
        self.next_producer_id = message["nextProducerId"]


_REGISTRY_HANDLERS: dict[int, Callable[[ClusterRegistry, Message], object]] = {
    0: ClusterRegistry._broker,
    1: lambda registry, message: registry.listeners.pop(message["brokerId"], None),
    10: ClusterRegistry._token,
    11: ClusterRegistry._scram,
    14: ClusterRegistry._quota,
    15: ClusterRegistry._producer_ids,
    18: ClusterRegistry._acl,
    19: lambda registry, message: registry.acls.pop(message["id"], None),
    22: lambda registry, message: registry.scram_iterations.pop((message["name"], message["mechanism"]), None),
    26: lambda registry, message: registry.tokens.pop(message["tokenId"], None),
    27: ClusterRegistry._controller,
    29: lambda registry, message: registry.controllers.pop(message["controllerId"], None),
}

REGISTRY_TYPES = frozenset(_REGISTRY_HANDLERS)
"""Record types that change the registry."""


def _endpoints(message: Message) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(one["name"], one["host"], one["port"], one["securityProtocol"]) for one in message["endPoints"]
    )
