"""The state that the records of `__cluster_metadata` produce: topics, partitions, settings, features, brokers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.java_text import ZERO_UUID
from kafkalog_cli.log.settings.cluster_registry import CannotApply, ClusterRegistry
from kafkalog_cli.results import Int32

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

    broker_id: Int32
    broker_epoch: int
    incarnation_id: str
    is_fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[str, ...]
    rack: str | None = None


FEATURE_LEVELS = {
    "metadata.version": (7, 34),
    "kraft.version": (0, 1),
    "transaction.version": (0, 2),
    "group.version": (0, 1),
    "eligible.leader.replicas.version": (0, 1),
    "share.version": (0, 2),
    "streams.version": (0, 1),
}
"""The lowest and highest level of each feature in Kafka 4.4, also of levels that are still tested (Feature)."""

KRAFT_VERSION = "kraft.version"


class MetadataImage:
    """The state after a `replay` of each record (MetadataDelta), by the rules of QuorumController.replay.

    Records in a metadata transaction (KIP-866) are taken back if it is aborted, or still open at `finish`.
    """

    def __init__(self) -> None:
        self.registry = ClusterRegistry()
        self.topics: dict[str, TopicState] = {}
        """By topic id."""
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        """By resource type and name; the settings that apply to all brokers are those of a broker named ""."""
        self.features: dict[str, int] = {}
        self.brokers: dict[int, BrokerState] = {}
        self._topic_ids: dict[str, str] = {}
        """By topic name."""
        self._levels: dict[str, tuple[int, int]] = {}
        """The levels of features that the nodes of this log have said to support."""
        self._before_transaction: dict[str, object] | None = None

    def replay(self, api_key: int, message: Message) -> None:
        """Apply a record. Raises CannotApply where a controller ends."""
        if api_key in TRANSACTION_TYPES:
            self._transaction(api_key)
            return
        self.registry.replay(api_key, message)
        handler = _HANDLERS.get(api_key)
        if handler is not None:
            handler(self, message)

    def finish(self) -> None:
        """Take back the records of a transaction that is still open: the next controller aborts it."""
        if self._before_transaction is not None:
            self._transaction(_ABORT)

    def _transaction(self, api_key: int) -> None:
        is_open = self._before_transaction is not None
        if is_open is (api_key == _BEGIN):
            problem = "a metadata transaction begins in another" if is_open else "no metadata transaction is open"
            raise CannotApply(problem)
        if api_key == _BEGIN:
            self._before_transaction = copy.deepcopy(self.__dict__)
        elif api_key == _END:
            self._before_transaction = None
        else:
            self.__dict__.update(self._before_transaction or {})

    def _topic(self, message: Message) -> None:
        name = message["name"]
        topic_id = message["topicId"]
        if name in self._topic_ids:
            raise CannotApply(f"the topic {name} exists already, with the id {self._topic_ids[name]}")
        if topic_id in self.topics:
            raise CannotApply(f"the topic {self.topics[topic_id].name} has the id {topic_id} already")
        self._topic_ids[name] = topic_id
        self.topics[topic_id] = TopicState(name, topic_id)

    def _remove_topic(self, message: Message) -> None:
        topic = self.topics.pop(message["topicId"], None)
        if topic is None:
            raise CannotApply(f"no topic has the id {message['topicId']}")
        self._topic_ids.pop(topic.name, None)
        self.configs.pop((TOPIC_RESOURCE, topic.name), None)

    def _partition(self, message: Message) -> None:
        topic = self.topics.get(message["topicId"])
        if topic is None:
            raise CannotApply(f"a partition of the topic id {message['topicId']}, which no topic has")
        replicas = tuple(message["replicas"])
        recovery = message.get("leaderRecoveryState", 0)
        if recovery not in (0, 1):
            raise CannotApply(f"leader recovery state {recovery}")
        topic.partitions[message["partitionId"]] = _check_directories(
            PartitionRegistration(
                replicas,
                tuple(message["isr"]),
                message["leader"],
                message["leaderEpoch"],
                message["partitionEpoch"],
                _directories(message.get("directories", ()), len(replicas)),
                tuple(message["addingReplicas"]),
                tuple(message["removingReplicas"]),
                recovery == 1,
                tuple(message.get("eligibleLeaderReplicas") or ()),
                tuple(message.get("lastKnownElr") or ()),
            )
        )

    def _clear_elr(self, message: Message) -> None:
        """Clear the eligible leader replicas of a topic, or of all topics if the record names none."""
        name = message["topicName"]
        if name and name not in self._topic_ids:
            raise CannotApply(f"the topic {name} does not exist")
        for topic in self.topics.values():
            if name in ("", topic.name):
                cleared = {
                    number: partition._replace(elr=(), last_known_elr=())
                    for number, partition in topic.partitions.items()
                }
                topic.partitions.update(cleared)

    def _partition_change(self, message: Message) -> None:
        topic = self.topics.get(message["topicId"])
        old = None if topic is None else topic.partitions.get(message["partitionId"])
        if topic is None or old is None:
            raise CannotApply(f"no partition {message['partitionId']} of the topic id {message['topicId']} exists")
        topic.partitions[message["partitionId"]] = _check_directories(_apply_change(old, message))

    def _config(self, message: Message) -> None:
        resource = (message["resourceType"], message["resourceName"])
        settings = self.configs.setdefault(resource, {})
        if message["value"] is None:
            settings.pop(message["name"], None)
        else:
            settings[message["name"]] = message["value"]
        if not settings:
            del self.configs[resource]

    def _feature(self, message: Message) -> None:
        name, level = message["name"], message["featureLevel"]
        low, high = FEATURE_LEVELS.get(name, (0, 0))
        if level > high:
            raise CannotApply(f"{name} {level} is of a newer Kafka than 4.4, which has {low} to {high}", is_newer=True)
        low, high = self._levels.get(name, (low, high))
        if not low <= level <= high:
            raise CannotApply(f"{name} {level}, where the nodes of this log support {low} to {high}")
        if level and name != KRAFT_VERSION:  # KAFKA-18979: control records have that version
            self.features[name] = level
        else:
            self.features.pop(name, None)

    def _support(self, message: Message) -> None:
        """Note the features of a broker or controller that registers: a node has at least those of its last start."""
        for feature in message["features"]:
            self._levels[feature["name"]] = (feature["minSupportedVersion"], feature["maxSupportedVersion"])

    def _register(self, message: Message) -> None:
        self._support(message)
        self.brokers[message["brokerId"]] = BrokerState(
            message["brokerId"],
            message["brokerEpoch"],
            message["incarnationId"],
            message["fenced"],
            message.get("inControlledShutdown", False),
            tuple(message.get("logDirs", ())),
            message["rack"],
        )

    def _unregister(self, message: Message) -> None:
        del self.brokers[self._broker(message["brokerId"], message["brokerEpoch"]).broker_id]

    def _change_registration(self, message: Message) -> None:
        fenced, shutdown = message.get("fenced", 0), message.get("inControlledShutdown", 0)
        if fenced not in (-1, 0, 1) or shutdown not in (0, 1):
            problem = f"unknown change of broker {message['brokerId']}: fenced {fenced}, in shutdown {shutdown}"
            raise CannotApply(problem)
        self._change_broker(
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
    ) -> None:
        broker = self._broker(broker_id, epoch)
        self.brokers[broker_id] = broker._replace(
            is_fenced=broker.is_fenced if is_fenced is None else is_fenced,
            in_controlled_shutdown=broker.in_controlled_shutdown or in_controlled_shutdown,
            log_dirs=log_dirs or broker.log_dirs,
        )

    def _broker(self, broker_id: int, epoch: int) -> BrokerState:
        broker = self.brokers.get(broker_id)
        if broker is None:
            raise CannotApply(f"a change of broker {broker_id}, which is not registered")
        if broker.broker_epoch != epoch:
            problem = f"a change of broker {broker_id} at epoch {epoch}, which is at epoch {broker.broker_epoch}"
            raise CannotApply(problem)
        return broker


_BEGIN, _END, _ABORT = 23, 24, 25
TRANSACTION_TYPES = (_BEGIN, _END, _ABORT)

_HANDLERS: dict[int, Callable[[MetadataImage, Message], None]] = {
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
    27: MetadataImage._support,
    28: MetadataImage._clear_elr,
}


def _check_directories(partition: PartitionRegistration) -> PartitionRegistration:
    if len(partition.directories) not in (0, len(partition.replicas)):
        count = f"{len(partition.replicas)} replicas with {len(partition.directories)} directories"
        raise CannotApply(f"a partition has {count}")
    return partition


def _apply_change(old: PartitionRegistration, message: Message) -> PartitionRegistration:
    """Return the partition after a change (PartitionRegistration.merge)."""
    replicas = _either(message.get("replicas"), old.replicas)
    leader = message.get("leader", NO_LEADER_CHANGE)
    is_elected = leader != NO_LEADER_CHANGE
    recovery = message.get("leaderRecoveryState", -1)
    if recovery not in (-1, 0, 1):
        raise CannotApply(f"leader recovery state {recovery}")
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


def _directories(directories: Sequence[str], replicas: int) -> tuple[str, ...]:
    """Return a directory id per replica; without any known id, the id MIGRATING_DIRECTORY for each."""
    if all(directory == MIGRATING_DIRECTORY for directory in directories):
        return (MIGRATING_DIRECTORY,) * replicas
    return tuple(directories)
