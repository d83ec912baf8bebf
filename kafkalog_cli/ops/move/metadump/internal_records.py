"""Records of internal topics: their structure and numbers stay; users, hosts, secrets and free texts are replaced.

Every text that no rule names is hidden, and all bytes become filler, so a field of a newer Kafka gives nothing away.
"""

import struct
from collections.abc import Callable
from enum import Enum, unique
from functools import cache, lru_cache
from hashlib import blake2b
from typing import Any

from kafkalog_cli.format.control import ABORT, COMMIT, CONTROL_RECORD_KEY, END_TXN_MARKER
from kafkalog_cli.format.internal_topics.decode import Malformed, decode_message, encode_message
from kafkalog_cli.format.internal_topics.records import API_MESSAGE_TOPICS, COORDINATOR_TOPICS
from kafkalog_cli.format.internal_topics.schema import Message, SchemaField, definitions, message_schema
from kafkalog_cli.format.varint import BadVarint, decode_unsigned
from kafkalog_cli.log.settings.topic_config_table import TOPIC_KEYS
from kafkalog_cli.ops.cluster.cluster_entries import is_sensitive

FILLER = 0xC1
"""The byte in the place of a value. UTF-8 has no such byte, so no text of the original can appear by chance."""

_SHORT_BYTES, _DIGEST_BYTES, _ROUNDS = 8, 9, 8
_LETTERS = b"abcdefghijklmnopqrstuvwxyz0123456789"
_HIGH = 0x80


@unique
class NameKind(Enum):
    """The kinds of names; each kind has stand-ins of its own."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional id"


def filler(size_bytes: int) -> bytes:
    """Return the bytes that replace data without a meaning of its own."""
    return bytes((FILLER,)) * size_bytes


class Pseudonyms:
    """Stand-ins of one run. `hashes_names`: names of topics, groups and transactional ids are replaced, too."""

    def __init__(self, secret: bytes, *, hashes_names: bool) -> None:
        self._secret = secret
        self.hashes_names = hashes_names
        self._names: dict[tuple[NameKind, str], str] = {}
        self._given: set[tuple[NameKind, str]] = set()
        self.key = lru_cache(1 << 16)(self._key)
        self.hidden = lru_cache(1 << 16)(self._hidden)
        self.header_name = lru_cache(1 << 12)(self._header_name)

    def _key(self, data: bytes) -> bytes:
        """Return the stand-in of a record's key.

        Up to 8 bytes it is a permutation: different keys stay different, however short. Longer keys begin with 63 bits
        of a hash. Stand-ins of ASCII have no ASCII bytes.
        """
        size = len(data)
        if size > _SHORT_BYTES:
            return self._digest(b"key", data, _DIGEST_BYTES) + filler(size - _DIGEST_BYTES)
        if not size:
            return data
        if all(byte < _HIGH for byte in data):
            number = self._permuted(sum(byte << 7 * at for at, byte in enumerate(data)), 7 * size)
            return bytes((number >> 7 * at & 0x7F) | _HIGH for at in range(size))
        number = int.from_bytes(data, "big")
        while True:
            number = self._permuted(number, 8 * size)
            mixed = number.to_bytes(size, "big")
            if any(byte >= _HIGH for byte in mixed):  # as the originals of this branch; not one of all ASCII
                return bytes(byte ^ _HIGH for byte in mixed)

    def _hidden(self, text: str) -> str:
        """Return letters and digits for a text that is always hidden; as many as the text has bytes in UTF-8."""
        return self._letters(b"hidden", text, 0)

    def _header_name(self, data: bytes) -> bytes:
        """Return a name of the same size for a header; if there is room, none of its characters is ASCII."""
        size = len(data)
        if size < 2:
            return b"h" * size
        digest = self._digest(b"header", data, size)
        head = chr(0x4E00 + digest[0]).encode() if size % 2 else b""
        pairs = (size - len(head)) // 2
        return head + b"".join(chr(0x400 + (digest[at] & 0x7F)).encode() for at in range(pairs))

    def name(self, kind: NameKind, text: str) -> str:
        """Return a topic, group or transactional id as it is, or its stand-in, which no other name of the kind has.

        Raises ValueError if all stand-ins of this size are given.
        """
        if not self.hashes_names or not text:
            return text
        known = self._names.get((kind, text))
        if known is not None:
            return known
        for attempt in range(10_000):
            letters = self._letters(kind.value.encode(), text, attempt)
            if (kind, letters) not in self._given:
                self._given.add((kind, letters))
                self._names[kind, text] = letters
                return letters
        raise ValueError(f"too many names of {len(text.encode())} bytes to hash them")

    def _letters(self, kind: bytes, text: str, attempt: int) -> str:
        data = text.encode("utf-8", "surrogateescape")
        digest = self._digest(kind + b"%d" % attempt, data, len(data))
        return bytes(_LETTERS[byte % (26 if not at else 36)] for at, byte in enumerate(digest)).decode()

    def _digest(self, kind: bytes, data: bytes, size: int) -> bytes:
        """Return `size` bytes, each with its high bit set, that depend on all of `data`."""
        seed = blake2b(data, key=self._secret, person=kind[:16]).digest()
        digest = bytearray()
        while len(digest) < size:
            digest += seed
            seed = blake2b(seed, key=self._secret).digest()
        return bytes(byte | _HIGH for byte in digest[:size])

    def _permuted(self, number: int, bits: int) -> int:
        """Permute the numbers of `bits` bits: a Feistel network, repeated until the result has so few bits."""
        half = (bits + 1) // 2
        mask = (1 << half) - 1
        while True:
            left, right = number >> half, number & mask
            for turn in range(_ROUNDS):
                seed = b"%d %d %d" % (turn, bits, right)
                digest = blake2b(seed, key=self._secret, digest_size=8).digest()
                left, right = right, left ^ (int.from_bytes(digest, "big") & mask)
            number = left << half | right
            if number < 1 << bits:
                return number


_KEPT = frozenset({
    "protocolType", "protocol", "serverAssignor", "FeatureLevelRecord.name", "features.name", "endPoints.name",
    "endpoints.name", "ConfigRecord.name", "ClientQuotaRecord.key", "entity.entityType", "supportedProtocols.name",
    "ConfigRecord.resourceName", "ConfigRecord.value", "AccessControlEntryRecord.resourceName",
})  # fmt: skip
"""Texts with a meaning to a broker. Those of ConfigRecord and AccessControlEntryRecord have rules of their own."""

_TOPICS = frozenset({
    "topic", "topicName", "topics", "subscribedTopicNames", "TopicRecord.name", "topicIdPartition.name",
    "sourceTopics", "stateChangelogTopics.name", "repartitionSinkTopics", "repartitionSourceTopics.name",
})  # fmt: skip
_NAMES = {
    **dict.fromkeys(_TOPICS, NameKind.TOPIC),
    "group": NameKind.GROUP,
    "groupId": NameKind.GROUP,
    "transactionalId": NameKind.TRANSACTIONAL_ID,
}
_PRINCIPALS = frozenset({"principal", "owner", "requester", "renewers"})
_EMBEDDED = {
    "subscription": "ConsumerProtocolSubscription",
    "assignment": "ConsumerProtocolAssignment",
    "supportedProtocols.metadata": "ConsumerProtocolSubscription",
}
_TOPIC_RESOURCE, _GROUP_RESOURCE, _TRANSACTIONAL_RESOURCE, _GROUP_CONFIG = 2, 3, 5, 32
_ACL_NAMES = {
    _TOPIC_RESOURCE: NameKind.TOPIC,
    _GROUP_RESOURCE: NameKind.GROUP,
    _TRANSACTIONAL_RESOURCE: NameKind.TRANSACTIONAL_ID,
}
_CONFIG_NAMES = {_TOPIC_RESOURCE: NameKind.TOPIC, _GROUP_CONFIG: NameKind.GROUP}
_INTERNAL_TOPICS = frozenset({*COORDINATOR_TOPICS, *API_MESSAGE_TOPICS, "_schemas"})
_SHORT = struct.Struct(">h")


class InternalRecords:
    """Rewrites the records of internal topics. `opaque` counts records that it could not read: filler replaces them."""

    def __init__(self, pseudonyms: Pseudonyms) -> None:
        self._pseudonyms = pseudonyms
        self.opaque = 0

    def topic_name(self, topic: str) -> str:
        """Return the name of a topic in the copy; Kafka's own topics keep theirs."""
        return topic if topic in _INTERNAL_TOPICS else self._pseudonyms.name(NameKind.TOPIC, topic)

    def coordinator(self, topic: str, key: bytes | None, value: bytes | None) -> tuple[bytes | None, bytes | None]:
        """Return key and value of a record of a coordinator's topic."""
        names = _types(topic).get(_SHORT.unpack_from(key)[0]) if key is not None and len(key) >= 2 else None
        if key is None or names is None:
            return self._unreadable(key), self._unreadable(value)
        new_key = key[:2] + self._message(names[0], 0, key[2:])
        if value is None or len(value) < 2:
            return new_key, self._unreadable(value)
        version = _SHORT.unpack_from(value)[0]
        return new_key, value[:2] + self._message(names[1], version, value[2:])

    def api_message(self, topic: str, key: bytes | None, value: bytes | None) -> tuple[bytes | None, bytes | None]:
        """Return key and value of a record of a metadata topic, whose value begins with frame, type and version."""
        numbers, at = [], 0
        for _ in range(3):
            decoded = decode_unsigned(value or b"", at)
            if isinstance(decoded, BadVarint):
                return self._unreadable(key), self._unreadable(value)
            numbers.append(decoded[0])
            at = decoded[1]
        assert value is not None
        names = _types(topic).get(numbers[1])
        if names is None:
            return self._unreadable(key), self._unreadable(value)
        return self._unreadable(key), value[:at] + self._message(names[1], numbers[2], value[at:])

    def control(self, key: bytes | None, value: bytes | None) -> tuple[bytes | None, bytes | None]:
        """Return key and value of a control record: a marker as it is, one of KRaft without hosts."""
        if key is None or len(key) != CONTROL_RECORD_KEY.size:
            return self._unreadable(key), self._unreadable(value)
        type_id = CONTROL_RECORD_KEY.struct.unpack(key)[1]
        if type_id in (ABORT, COMMIT):
            return key, value if value is None or len(value) == END_TXN_MARKER.size else self._unreadable(value)
        names = {record["controlType"]: record["value"] for record in definitions()["controlRecords"]}
        if value is None or type_id not in names:
            return key, self._unreadable(value)
        return key, self._message(names[type_id], 0, value)

    def _unreadable(self, data: bytes | None) -> bytes | None:
        if data:
            self.opaque += 1
        return None if data is None else filler(len(data))

    def _message(self, name: str, version: int, data: bytes) -> bytes:
        """Return the message with other texts, of the same size; filler if it cannot be decoded and encoded again."""
        try:
            message = decode_message(name, version, data)
            if not isinstance(message, Malformed) and encode_message(name, version, message.message) == data:
                made = encode_message(name, version, self._changed(name, message.message))
                if len(made) == len(data):
                    return made
        except (ValueError, KeyError, struct.error):
            pass
        self.opaque += 1
        return filler(len(data))

    def _changed(self, name: str, message: Message) -> Message:
        made = self._struct(name, message_schema(name).fields, message)
        if name == "ConfigRecord":
            self._config(message, made)
        elif name == "AccessControlEntryRecord":
            kind = _ACL_NAMES.get(message["resourceType"])
            if kind is not None and message["resourceName"] != "*":
                made["resourceName"] = self._name(kind, message["resourceName"])
            elif message["resourceType"] not in _ACL_NAMES and message["resourceName"] not in ("*", "kafka-cluster"):
                made["resourceName"] = self._pseudonyms.hidden(message["resourceName"])
        return made

    def _config(self, message: Message, made: Message) -> None:
        """Keep settings of topics and numbers; other values may be passwords, and passwords may be numbers."""
        resource, kind = message["resourceName"], _CONFIG_NAMES.get(message["resourceType"])
        if kind is not None:
            made["resourceName"] = self._name(kind, resource)
        elif resource and not resource.isdecimal():
            made["resourceName"] = self._pseudonyms.hidden(resource)
        value = message["value"]
        is_setting = message["resourceType"] == _TOPIC_RESOURCE and message["name"] in TOPIC_KEYS
        is_plain = value is None or value in ("true", "false") or value.lstrip("-").isdecimal()
        if not is_setting and (not is_plain or is_sensitive(message["name"])):
            made["value"] = None if value is None else self._pseudonyms.hidden(value)

    def _struct(self, owner: str, fields: tuple[SchemaField, ...], message: Message) -> Message:
        by_name = {field.name: field for field in fields}
        return {name: self._value(owner, by_name[name], value) for name, value in message.items()}

    def _value(self, owner: str, field: SchemaField, value: Any) -> Any:
        if value is None or field.kind not in ("string", "bytes", "array", "struct"):
            return value
        if field.kind == "struct":
            return self._struct(field.name, field.fields, value)
        if field.kind == "array":
            if field.items == "struct":
                return [self._struct(field.name, field.fields, element) for element in value]
            return (
                [self._scalar(owner, field, element) for element in value]
                if field.items in ("string", "bytes")
                else value
            )
        return self._scalar(owner, field, value)

    def _scalar(self, owner: str, field: SchemaField, value: Any) -> Any:
        names = (f"{owner}.{field.name}", field.name)
        if isinstance(value, bytes | bytearray | memoryview):
            embedded = next((_EMBEDDED[name] for name in names if name in _EMBEDDED), None)
            return filler(len(value)) if embedded is None else self._embedded(embedded, bytes(value))
        return self._text_rule(names)(value)

    def _text_rule(self, names: tuple[str, str]) -> Callable[[str], str]:
        if any(name in _KEPT for name in names):
            return str
        kind = next((_NAMES[name] for name in names if name in _NAMES), None)
        if kind is not None:
            return lambda text: self._name(kind, text)
        if names[1] in _PRINCIPALS:
            return self._principal
        return lambda text: text if text == "*" else self._pseudonyms.hidden(text)

    def _name(self, kind: NameKind, text: str) -> str:
        return self.topic_name(text) if kind is NameKind.TOPIC else self._pseudonyms.name(kind, text)

    def _principal(self, text: str) -> str:
        """Return a principal with its type, such as User, but without its name; `*` stands for everybody."""
        kind, colon, name = text.partition(":")
        if not colon:
            return self._pseudonyms.hidden(text)
        return text if name == "*" else f"{kind}:{self._pseudonyms.hidden(name)}"

    def _embedded(self, name: str, data: bytes) -> bytes:
        """Return a subscription or assignment of a consumer; filler for other protocols, which it may also be."""
        opaque = self.opaque
        made = data[:2] + self._message(name, int.from_bytes(data[:2], "big", signed=True), data[2:])
        if self.opaque != opaque:
            self.opaque = opaque
            return filler(len(data))
        return made


@cache
def _types(topic: str) -> dict[int, tuple[str, str]]:
    """Return the names of key and value by the type of the record."""
    records = definitions()["topics"][topic]["records"]
    if topic in COORDINATOR_TOPICS:
        return {record["recordType"]: (record["key"], record["value"]) for record in records}
    return {record["apiKey"]: ("", record["value"]) for record in records}
