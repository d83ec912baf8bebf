"""A cluster's state as entries by part and name: brokers, controllers, topics, partitions, settings, ACLs and more.

The JSON objects of `cluster` have the fields of the entries. The JSON schemas show the meaning of a field, which is the
string of its `Annotated`.
"""

from collections.abc import Iterator, Mapping
from enum import Enum, unique
from typing import Annotated, NamedTuple

from kafkalog_cli.log.settings.cluster_metadata import ClusterMetadata
from kafkalog_cli.log.settings.cluster_registry import ClusterRegistry, Endpoint, QuotaEntity, TokenState
from kafkalog_cli.ops.cluster.tables.cluster import Feature, Topic, configs, features, topics
from kafkalog_cli.results import keywords, result


@unique
class ClusterPart(Enum):
    """A part of the state, in the order of the output. The value is its word in options and output."""

    BROKERS = "brokers"
    CONTROLLERS = "controllers"
    FEATURES = "features"
    TOPICS = "topics"
    PARTITIONS = "partitions"
    CONFIGS = "configs"
    ACLS = "acls"
    SCRAM_USERS = "scram-users"
    QUOTAS = "quotas"
    TOKENS = "tokens"


@result("kafkalog.cluster-broker/1")
class BrokerEntry(NamedTuple):
    """A broker that has registered."""

    broker_id: int
    epoch: int
    incarnation_id: str
    fenced: bool
    in_controlled_shutdown: bool
    rack: str | None
    listeners: Annotated[tuple[str, ...], "NAME://HOST:PORT"]
    log_dirs: Annotated[tuple[str, ...], "ids of log directories"]


@result("kafkalog.cluster-controller/1")
class ControllerEntry(NamedTuple):
    """A controller that has registered."""

    controller_id: int
    incarnation_id: str
    voter: Annotated[bool | None, "null: the state does not have the voters"]
    listeners: Annotated[tuple[str, ...], "NAME://HOST:PORT"]


@result("kafkalog.cluster-partition/1")
class PartitionEntry(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int
    leader: Annotated[int | None, "null: it has no leader"]
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: Annotated[tuple[int, ...], "eligible leader replicas"]
    last_known_elr: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    directories: Annotated[tuple[str, ...], "an id of a log directory per replica"]
    recovering: Annotated[bool, "after an unclean election"]


@result("kafkalog.cluster-config/1")
class ConfigEntry(NamedTuple):
    """A dynamic setting."""

    resource_type: str
    resource_name: Annotated[str, "empty for the default of all brokers"]
    name: str
    value: Annotated[str | None, "null: the value is sensitive"]


@result("kafkalog.cluster-acl/1")
class AclEntry(NamedTuple):
    """An access control entry."""

    acl_id: str
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


@result("kafkalog.cluster-scram-user/1")
class ScramUserEntry(NamedTuple):
    """A SCRAM credential of a user, without its secrets."""

    user: str
    mechanism: str
    iterations: int


@result("kafkalog.cluster-quota/1")
class QuotaEntry(NamedTuple):
    """A quota."""

    entity: Annotated[tuple[str, ...], "TYPE=NAME, or TYPE=<default>"]
    key: str
    value: float


Entry = (
    BrokerEntry | ControllerEntry | Feature | Topic | PartitionEntry | ConfigEntry | AclEntry | ScramUserEntry
    | QuotaEntry | TokenState
)  # fmt: skip
Entries = Mapping[ClusterPart, Mapping[str, Entry]]
"""The entries of each part by name."""

_RESOURCES = {1: "ANY", 2: "TOPIC", 3: "GROUP", 4: "CLUSTER", 5: "TRANSACTIONAL_ID", 6: "DELEGATION_TOKEN", 7: "USER"}
_PATTERNS = {1: "ANY", 2: "MATCH", 3: "LITERAL", 4: "PREFIXED"}
_OPERATIONS = {
    1: "ANY", 2: "ALL", 3: "READ", 4: "WRITE", 5: "CREATE", 6: "DELETE", 7: "ALTER", 8: "DESCRIBE", 9: "CLUSTER_ACTION",
    10: "DESCRIBE_CONFIGS", 11: "ALTER_CONFIGS", 12: "IDEMPOTENT_WRITE", 13: "CREATE_TOKENS", 14: "DESCRIBE_TOKENS",
    15: "TWO_PHASE_COMMIT",
}  # fmt: skip
_PERMISSIONS = {1: "ANY", 2: "DENY", 3: "ALLOW"}
_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_SENSITIVE = (
    "password", "sasl.jaas.config", "ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates",
    "secret", "passphrase", "delegation.token.secret.key", "delegation.token.master.key",
)  # fmt: skip
"""Ends of the names of settings that have the type PASSWORD."""


def is_sensitive(name: str) -> bool:
    """Whether the value of a setting must not be printed."""
    return name.endswith(_SENSITIVE)


def entries_of(metadata: ClusterMetadata) -> Entries:
    """Return the entries of a state that was read with its registry."""
    registry = metadata.registry
    return {
        ClusterPart.BROKERS: {str(broker.broker_id): broker for broker in _brokers(metadata, registry)},
        ClusterPart.CONTROLLERS: {
            str(controller.controller_id): controller for controller in _controllers(metadata, registry)
        },
        ClusterPart.FEATURES: {feature.name: feature for feature in features(metadata)},
        ClusterPart.TOPICS: {topic.topic: topic for topic in topics(metadata)},
        ClusterPart.PARTITIONS: {
            f"{partition.topic}-{partition.partition}": partition for partition in _partitions(metadata)
        },
        ClusterPart.CONFIGS: {
            f"{setting.resource_type} {setting.resource_name} {setting.name}": setting for setting in _configs(metadata)
        },
        ClusterPart.ACLS: {acl.acl_id: acl for acl in _acls(registry)},
        ClusterPart.SCRAM_USERS: {f"{user.user} {user.mechanism}": user for user in _scram_users(registry)},
        ClusterPart.QUOTAS: {f"{','.join(quota.entity)} {quota.key}": quota for quota in _quotas(registry)},
        ClusterPart.TOKENS: dict(sorted(registry.tokens.items())),
    }


def only_topics(entries: Entries, topics: frozenset[str]) -> Entries:
    """Return the entries without other topics, their partitions and their settings; without `topics`, all entries."""
    if not topics:
        return entries
    chosen_entries = {part: dict(of_part) for part, of_part in entries.items()}
    for part in (ClusterPart.TOPICS, ClusterPart.PARTITIONS):
        chosen_entries[part] = {name: entry for name, entry in entries[part].items() if entry[0] in topics}
    chosen_entries[ClusterPart.CONFIGS] = {
        name: entry
        for name, entry in entries[ClusterPart.CONFIGS].items()
        if entry[0] == "TOPIC" and entry[1] in topics
    }
    return chosen_entries


def _word(words: Mapping[int, str], number: int) -> str:
    return words.get(number, f"UNKNOWN ({number})")


def _texts(listeners: tuple[Endpoint, ...]) -> tuple[str, ...]:
    return tuple(f"{endpoint.name}://{endpoint.host}:{endpoint.port}" for endpoint in listeners)


def _brokers(metadata: ClusterMetadata, registry: ClusterRegistry) -> Iterator[BrokerEntry]:
    for number, broker in sorted(metadata.brokers.items()):
        yield BrokerEntry(
            number, broker.broker_epoch, broker.incarnation_id, broker.is_fenced, broker.in_controlled_shutdown,
            broker.rack, _texts(registry.listeners.get(number, ())), broker.log_dirs,
        )  # fmt: skip


def _controllers(metadata: ClusterMetadata, registry: ClusterRegistry) -> Iterator[ControllerEntry]:
    for number, controller in sorted(registry.controllers.items()):
        voter = number in metadata.voters if metadata.voters else None
        yield ControllerEntry(number, controller.incarnation_id, voter, _texts(controller.listeners))


def _partitions(metadata: ClusterMetadata) -> Iterator[PartitionEntry]:
    for name, topic in sorted(metadata.topics.items()):
        for number, state in sorted(topic.partitions.items()):
            yield PartitionEntry(
                name, number, None if state.leader < 0 else state.leader, state.leader_epoch, state.partition_epoch,
                state.replicas, state.isr, state.elr, state.last_known_elr, state.adding_replicas,
                state.removing_replicas, state.directories, state.is_recovering,
            )  # fmt: skip


def _configs(metadata: ClusterMetadata) -> Iterator[ConfigEntry]:
    for setting in configs(metadata):
        value = None if is_sensitive(setting.name) else setting.value
        yield ConfigEntry(setting.resource_type, setting.resource_name, setting.name, value)


def _acls(registry: ClusterRegistry) -> Iterator[AclEntry]:
    for acl in sorted(registry.acls.values(), key=lambda acl: (*acl[1:], acl.acl_id)):
        yield AclEntry(
            acl.acl_id, _word(_RESOURCES, acl.resource_type), acl.resource_name, _word(_PATTERNS, acl.pattern_type),
            acl.principal, acl.host, _word(_OPERATIONS, acl.operation), _word(_PERMISSIONS, acl.permission_type),
        )  # fmt: skip


def _scram_users(registry: ClusterRegistry) -> Iterator[ScramUserEntry]:
    for (user, mechanism), iterations in sorted(registry.scram_iterations.items()):
        yield ScramUserEntry(user, _word(_MECHANISMS, mechanism), iterations)


def _quotas(registry: ClusterRegistry) -> Iterator[QuotaEntry]:
    for entity, values in sorted(registry.quotas.items(), key=str):
        for key, value in sorted(values.items()):
            yield QuotaEntry(_entity(entity), key, value)


def _entity(entity: QuotaEntity) -> tuple[str, ...]:
    return tuple(f"{kind}={'<default>' if name is None else name}" for kind, name in entity)


class FieldChange(NamedTuple):
    """A field with another value; both values are texts.

    They are "" for an entry that does not exist.
    """

    field: str
    before: str
    after: str


@result("kafkalog.cluster-change/1")
class EntryChange(NamedTuple):
    """An entry that differs between two points."""

    part: ClusterPart
    name: str
    change: Annotated[str, keywords(enum=("added", "removed", "changed"))]
    fields: tuple[FieldChange, ...]


def differences(before: Entries, after: Entries) -> Iterator[EntryChange]:
    """Yield the entries that differ between two points, by part and name."""
    for part in ClusterPart:
        earlier, later = before[part], after[part]
        for name in sorted(earlier.keys() | later.keys()):
            old, new = earlier.get(name), later.get(name)
            if old == new:
                continue
            word = "added" if old is None else "removed" if new is None else "changed"
            yield EntryChange(part, name, word, tuple(_changed(old, new)))


def _changed(old: Entry | None, new: Entry | None) -> Iterator[FieldChange]:
    entry = new if new is not None else old
    assert entry is not None
    for at, name in enumerate(entry._fields):
        before, after = "" if old is None else text_of(old[at]), "" if new is None else text_of(new[at])
        if before != after:
            yield FieldChange(name, before, after)


def text_of(value: object) -> str:
    """Return a value of an entry as text: lists with commas, "" for none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else str(value)
    return "" if value is None else ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
