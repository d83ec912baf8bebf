"""Messages and records of Kafka's internal topics: as the real kafka-dump-log prints them, there and back, damaged."""

import collections
import json
import re
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_cli.format.internal_topics import decode
from kafkalog_cli.format.internal_topics.decode import (
    Decoded,
    Malformed,
    OverLimit,
    WireReader,
    at_version,
    decode_message,
    encode_message,
    read_message,
)
from kafkalog_cli.format.internal_topics.java_json import java_json
from kafkalog_cli.format.internal_topics.records import (
    API_MESSAGE_TOPICS,
    COORDINATOR_TOPICS,
    UnreadableRecord,
    decode_api_message,
    decode_coordinator,
    record_object,
)
from kafkalog_cli.format.internal_topics.schema import definitions, is_in, message_schema
from kafkalog_cli.format.kafka_version import KafkaVersion
from kafkalog_cli.format.varint import encode_unsigned
from kafkalog_cli.output.decoders import CannotDecode
from kafkalog_cli.output.topic_decoders import topic_decoder
from tests.unit.internal_messages import NAMES, VERSIONS, messages, same

# -- Records of internal topics against what the real kafka-dump-log prints of them, and as objects


FIXTURES = Path(__file__).parents[1] / "fixtures" / "internal_topics"
TOPICS = dict(
    zip(
        ("offsets", "transaction-log", "share-group-state", "cluster-metadata", "remote-log-metadata"),
        (*COORDINATOR_TOPICS, *API_MESSAGE_TOPICS),
        strict=True,
    )
)


def recorded(name):
    """(decoder, key, value, offset, what the real tool printed)"""
    for line in (FIXTURES / name).read_text().splitlines():
        decoder, key, value, offset, text = json.loads(line)
        yield decoder, unhex(key), unhex(value), offset, text


def unhex(text):
    return None if text is None else bytes.fromhex(text)


def printed(decoder, key, value, offset):
    key_text, payload = topic_decoder(TOPICS[decoder], KafkaVersion.V4_2)(offset, key, value)
    return ("" if key_text is None else f" key: {key_text}") + ("" if payload is None else f" payload: {payload}")


def with_shortest_doubles(text):
    """JDK 17 does not always print the shortest digits of a double."""
    return re.sub(r'(?<="value":)-?\d[\d.E-]*', lambda match: repr(float(match[0])), text)


@pytest.mark.parametrize("name", ["brokers.jsonl", "made.jsonl"])
def test_records_print_as_the_real_tool_prints_them(name):
    tried = collections.Counter()
    for decoder, key, value, offset, text in recorded(name):
        assert with_shortest_doubles(printed(decoder, key, value, offset)) == with_shortest_doubles(text)
        tried[decoder] += 1
    assert set(tried) == set(TOPICS)


def test_every_type_and_version_was_recorded_and_read():
    seen = collections.defaultdict(set)
    for decoder, key, value, _, text in recorded("made.jsonl"):
        if "skipping." not in text and value is not None:
            if key is None:
                found = decode_api_message(TOPICS[decoder], value)
                seen[TOPICS[decoder]].add((found.api_key, found.version))
            else:
                found = decode_coordinator(TOPICS[decoder], key, value)
                seen[TOPICS[decoder]].add((found.record_type, found.value_version))
    for topic, records in topics().items():
        assert {(number, version) for number, _, _, versions in records for version in versions} <= seen[topic]


def test_decoded_internal_records_of_brokers_encode_to_the_same_bytes():
    encoded = 0
    for decoder, key, value, _, _ in recorded("brokers.jsonl"):
        if key is None:
            found = decode_api_message(TOPICS[decoder], value)
            start = b"".join(map(encode_unsigned, (1, found.api_key, found.version)))
            assert start + encode_message(found.name, found.version, found.message) == value
        else:
            found = decode_coordinator(TOPICS[decoder], key, value)
            start = struct.pack(">h", found.record_type)
            assert start + encode_message(f"{found.name}Key", 0, found.key) == key
            if value is None or found.name == "GroupMetadata":  # its members are expanded
                continue
            start = struct.pack(">h", found.value_version)
            assert start + encode_message(f"{found.name}Value", found.value_version, found.value) == value
        encoded += 1
    assert encoded > 100


RECORDED_WITH = (4, 2)
"""The release whose tool printed the recorded text; test_schemas_live.py has the newest one print all."""


def versions_of(name):
    first, last = message_schema(name, RECORDED_WITH).versions
    return range(first, last + 1)


def topics():
    """By topic: (type, key message, value message, versions) of each record that 4.2 has."""
    return {
        topic: [
            (
                record.get("recordType", record.get("apiKey")),
                record.get("key"),
                record["value"],
                versions_of(record["value"]),
            )
            for record in found["records"]
            if is_in(record, RECORDED_WITH)
        ]
        for topic, found in definitions()["topics"].items()
    }


def test_machine_output_has_an_object_where_the_text_is_no_error():
    for name in ("brokers.jsonl", "made.jsonl"):
        for decoder, key, value, _, text in recorded(name):
            found = record_object(TOPICS[decoder], key, value)
            if decoder != "remote-log-metadata":  # its classes refuse values that the message can hold
                assert (found is None) == ("skipping." in text)


@pytest.mark.parametrize(
    ("topic", "key", "value"),
    [
        ("__consumer_offsets", b"\0\x09", b""),  # a type that is none
        ("__consumer_offsets", b"\0\1\0\1g\0\1t\0\0\0\3", b"\0\x05"),  # a version of the future
        ("__consumer_offsets", b"\0\1\0\1", None),
        ("__consumer_offsets", None, b"\0\1"),
        ("__cluster_metadata", None, b"\1\x64\0"),
        ("__cluster_metadata", None, None),
        ("orders", b"\0\1", b"\0\1"),
    ],
)
def test_an_unknown_internal_record_has_no_json_object(topic, key, value):
    assert record_object(topic, key, value) is None


@pytest.mark.parametrize("decoder", ["offsets", "transaction-log", "share-group-state"])
def test_a_record_without_a_key_ends_the_dump(decoder):
    message = "Failed to decode message at offset 5 using the specified decoder (message had a missing key)"
    assert topic_decoder(TOPICS[decoder])(5, None, b"\0\0") == CannotDecode(message)


def groups(protocol_type):
    """A GroupMetadata record with two members, one with a subscription, one with bytes that are none."""
    subscription = struct.pack(">h", 0) + encode_message("ConsumerProtocolSubscription", 0, {"topics": ["t"]})
    members = [
        {"memberId": "a", "subscription": subscription, "assignment": b""},
        {"memberId": "b", "subscription": b"\0", "assignment": b"\xff\xff"},
    ]
    value = encode_message("GroupMetadataValue", 3, {"protocolType": protocol_type, "members": members})
    key = struct.pack(">h", 2) + encode_message("GroupMetadataKey", 0, {"group": "g"})
    return subscription, decode_coordinator("__consumer_offsets", key, struct.pack(">h", 3) + value)


def test_consumers_are_expanded_where_they_can_be_read():
    _, record = groups("consumer")
    first, second = record.value["members"]
    assert first["subscription"] == {"topics": ["t"], "userData": None}
    assert (first["assignment"], second["subscription"], second["assignment"]) == (b"", b"\0", b"\xff\xff")


def test_other_protocols_stay_bytes():
    subscription, record = groups("connect")
    assert [member["subscription"] for member in record.value["members"]] == [subscription, b"\0"]


@given(st.sampled_from(COORDINATOR_TOPICS), st.binary(max_size=40), st.none() | st.binary(max_size=80))
def test_any_coordinator_record_is_read_or_unreadable(topic, key, value):
    found = decode_coordinator(topic, key, value)
    assert (record_object(topic, key, value) is None) == isinstance(found, UnreadableRecord)


@given(st.sampled_from(API_MESSAGE_TOPICS), st.none() | st.binary(max_size=80))
def test_any_metadata_record_is_read_or_unreadable(topic, value):
    found = decode_api_message(topic, value)
    assert (record_object(topic, None, value) is None) == isinstance(found, UnreadableRecord)


def test_json_of_internal_records_is_that_of_jackson():
    text = 'a"\\/\b\t\n\f\r\0\x1f\x7f\x80é\u2028\U0001f600'
    assert java_json({"é": [text, None, True, -1, b"\xff\xfe", {}]}) == (
        '{"é":["a\\"\\\\/\\b\\t\\n\\f\\r\\u0000\\u001F\x7f\x80é\u2028\U0001f600",null,true,-1,"//4=",{}]}'
    )
    assert java_json([1e7, float("nan"), float("-inf"), -0.0]) == '[1.0E7,"NaN","-Infinity",-0.0]'


# -- Messages by their schemas: there and back, cut off, lying, newer than we know


PER_VERSION = settings(max_examples=max(5, settings().max_examples // 10), deadline=None)
LARGEST = b"\x80\x80\x80\x80\x08"  # 2^31 as a length plus one: 2^31-1, where Java's int has wrapped


def test_all_of_kafkas_messages_are_there():
    assert len(NAMES) == 91
    assert len(VERSIONS) == 119  # as the definitions of Kafka 4.4.0 have them
    assert sum(len(range(first, last + 1)) for first, last in versions_in((4, 2))) == 116
    last = [message_schema("RegisterBrokerRecord", release).versions.last for release in ((4, 2), (4, 3), (4, 4))]
    assert last == [3, 4, 4]  # the definition of 4.3 is the first with version 4
    with pytest.raises(KeyError):
        decode_message("NoSuchMessage", 0, b"")


def versions_in(release):
    messages = definitions()["messages"]
    return [message_schema(name, release).versions for name in messages if is_in(messages[name], release)]


@pytest.mark.parametrize(("release", "fields"), [((4, 2), 0), ((4, 3), 1), ((4, 4), 3)])
def test_a_release_reads_the_fields_that_it_has(release, fields):
    """Fields that a release does not know are kept aside as unknown tags; the group epoch is in all."""
    new = {"assignmentTimestamp": 7}
    encoded = encode_message("ConsumerGroupTargetAssignmentMetadataValue", 0, {"assignmentEpoch": 1, **new})
    more = {"storedDescriptionTopologyEpoch": 2, "failedDescriptionTopologyEpoch": 3}
    streams = encode_message("StreamsGroupMetadataValue", 0, {"epoch": 1, "metadataHash": 2, **more})
    readers = [WireReader(encoded), WireReader(streams)]
    read = [
        read_message(name, 0, reader, release)
        for name, reader in zip(
            ("ConsumerGroupTargetAssignmentMetadataValue", "StreamsGroupMetadataValue"), readers, strict=True
        )
    ]
    assert sum(name in {**new, **more} for message in read for name in message) == fields
    assert sum(len(reader.unknown_tags) for reader in readers) == 3 - fields


def test_the_default_of_assignment_epochs_is_a_list():
    """Its definition says null without quotes, which Kafka's generator takes for no default: a null is told."""
    value = {"memberEpoch": 1, "previousMemberEpoch": 0, "state": 0, "partitionsPendingRevocation": []}
    for epochs, told in ((None, True), ([], False), ([1], True)):
        assigned = [{"topicId": "A" * 22, "partitions": [0], "assignmentEpochs": epochs}]
        encoded = encode_message(
            "ConsumerGroupCurrentMemberAssignmentValue", 0, {**value, "assignedPartitions": assigned}
        )
        found = decode_message("ConsumerGroupCurrentMemberAssignmentValue", 0, encoded).message
        assert ("assignmentEpochs" in found["assignedPartitions"][0]) is told


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_encoded_messages_decode_to_themselves(name, version):
    @PER_VERSION
    @given(messages(name, version), st.binary(max_size=3), st.binary(max_size=3))
    def check(message, before, after):
        data = encode_message(name, version, message)
        found = decode_message(name, version, memoryview(before + data + after), len(before))
        assert found == Decoded(message, len(before) + len(data), ())
        assert same(found.message, message)
        assert encode_message(name, version, found.message) == data

    check()


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_no_message_survives_a_cut(name, version):
    @PER_VERSION
    @given(messages(name, version))
    def check(message):
        data = encode_message(name, version, message)
        for end in range(len(data)):
            assert isinstance(decode_message(name, version, data[:end]), Malformed)

    check()


@given(st.sampled_from(NAMES), st.integers(-(2**15), 2**15 - 1), st.binary(max_size=300))
def test_any_bytes_in_any_version_are_a_message_or_malformed(name, version, data):
    found = decode_message(name, version, data)
    assert isinstance(found, Malformed) or found.next_position <= len(data)


@given(st.sampled_from(VERSIONS).flatmap(lambda at: st.tuples(st.just(at), messages(*at))), st.data())
def test_a_changed_byte_is_a_message_or_malformed(sample, data):
    (name, version), message = sample
    encoded = bytearray(encode_message(name, version, message))
    if encoded:
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    found = decode_message(name, version, bytes(encoded))
    assert isinstance(found, Malformed) or found.next_position <= len(encoded)


def test_a_version_that_is_none_is_read_as_kafkas_class_reads_it():
    """ProducerSnapshot does not look at the version; of 4.2.0's class these four gave the same."""
    entry = {"producerId": 1, "epoch": 2, "lastSequence": 3, "lastOffset": 4, "offsetDelta": 5, "timestamp": 6}
    message = {"crc": 7, "producerEntries": [{**entry, "coordinatorEpoch": 7, "currentTxnFirstOffset": 8}]}
    data = encode_message("ProducerSnapshot", 1, message)
    assert {str(decode_message("ProducerSnapshot", version, data)) for version in (0, 1, 9, -1)} == {
        str(Decoded(message, len(data), ()))
    }


def test_missing_fields_have_their_defaults():
    encoded = encode_message("PartitionRecord", 2, {"partitionId": 5})
    assert decode_message("PartitionRecord", 2, encoded).message == {
        "partitionId": 5,
        "topicId": "A" * 22,
        "replicas": [],
        "isr": [],
        "removingReplicas": [],
        "addingReplicas": [],
        "leader": -1,
        "leaderEpoch": -1,
        "partitionEpoch": -1,
        "directories": [],
    }


def test_a_message_in_another_version_has_a_tagged_field_only_if_it_was_written():
    """The first tag is 0; other fields of the version get their defaults."""
    read = {"epoch": 1, "metadataHash": 2}
    assert at_version("StreamsGroupMetadataValue", 0, read) == read
    assert at_version("StreamsGroupMetadataValue", 0, {"validatedTopologyEpoch": 3, "epoch": 1}) == {
        "epoch": 1, "metadataHash": 0, "validatedTopologyEpoch": 3,
    }  # fmt: skip


def test_a_tagged_field_may_be_null_where_that_is_not_its_default():
    topology = {"epoch": 1, "metadataHash": 2}
    encoded = encode_message("StreamsGroupMetadataValue", 0, {**topology, "lastAssignmentConfigs": None})
    assert encoded[-4:] == b"\1\1\1\0"
    assert decode_message("StreamsGroupMetadataValue", 0, encoded).message == {
        **topology,
        "lastAssignmentConfigs": None,
    }


def test_the_encoder_writes_tags_in_their_order():
    """The bytes are those of Kafka's TransactionLogValue, whose fields are not in the order of their tags."""
    message = {"previousProducerId": 3, "nextProducerEpoch": 1, "transactionPartitions": []}
    assert encode_message("TransactionLogValue", 1, {**message, "clientTransactionVersion": 2}).hex() == (
        "000000000000000000000000000000010000000000000000000000000000000003000800000000000000030202000203020001"
    )


def tagged(*fields):
    """A ShareUpdateValue of zeroes with these tagged fields."""
    parts = [bytes([tag, len(data)]) + data for tag, data in fields]
    return bytes(16) + b"\1" + bytes([len(parts)]) + b"".join(parts)


def test_unknown_tags_are_kept_aside():
    found = decode_message("ShareUpdateValue", 0, tagged((0, struct.pack(">i", 7)), (9, b"new"), (10, b"")))
    assert found.message["deliveryCompleteCount"] == 7
    assert found.unknown_tags == ((9, b"new"), (10, b""))


def test_of_a_repeated_tag_the_last_counts():
    seven, unset = struct.pack(">i", 7), struct.pack(">i", -1)
    assert "deliveryCompleteCount" not in decode_message("ShareUpdateValue", 0, tagged((0, seven), (0, unset))).message
    found = decode_message("ShareUpdateValue", 0, tagged((0, unset), (0, seven)))
    assert found.message["deliveryCompleteCount"] == 7


def test_a_tag_of_another_version_is_refused():
    version_0 = encode_message("PartitionChangeRecord", 0, {})
    with_directories = version_0[:-1] + b"\1\x08\1\1"
    assert decode_message("PartitionChangeRecord", 0, with_directories).reason == "Tag 8 is not valid for version 0"
    assert decode_message("PartitionChangeRecord", 1, with_directories).message["directories"] == []


def flexible_list(count):
    return decode_message("ConsumerGroupRegularExpressionValue", 0, count + b"\2a\2b")


def test_counts_and_lengths_that_lie():
    assert flexible_list(b"\7").reason == (
        "Tried to allocate a collection of size 6, but there are only 4 bytes remaining."
    )
    assert flexible_list(LARGEST).reason == (
        "Tried to allocate a collection of size 2147483647, but there are only 4 bytes remaining."
    )
    assert flexible_list(b"\0").reason == "non-nullable field topics was serialized as null"
    assert flexible_list(b"\2" + LARGEST).reason == "string field topics element had invalid length 2147483647"
    assert flexible_list(b"\2\0").reason == "non-nullable field topics element was serialized as null"
    assert flexible_list(b"\2\x21").reason == "Error reading byte array of 32 byte(s): only 4 byte(s) available"
    assert decode_message("ConsumerGroupRegularExpressionValue", 0, b"").reason == "null"


def bombs():
    zeroes = bytes(1 << 16)
    yield "PartitionRecord", 2, bytes(20) + b"\x81\x80\x04" + zeroes  # as many elements as there are bytes
    yield "NoOpRecord", 0, b"\xff\xff\xff\xff\x07" + zeroes  # 2^31-1 tagged fields
    yield "NoOpRecord", 0, b"\1\5\xff\xff\xff\xff\x07" + zeroes  # one of 2^31-1 bytes
    yield "ConsumerProtocolSubscription", 3, b"\0\0\x80\0" + zeroes  # elements of two bytes
    yield "ConsumerGroupRegularExpressionValue", 0, b"\x81\x80\x04" + b"\1" * (1 << 16)  # elements of one byte


@pytest.mark.parametrize(("name", "version", "data"), list(bombs()))
def test_lies_cost_no_more_than_the_bytes_that_are_there(name, version, data):
    tracemalloc.start()
    found = decode_message(name, version, data)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(found, Malformed)
    assert peak_bytes < 100 * len(data)


def test_the_encoder_refuses_what_kafka_could_not_write():
    for version, message in (
        (5, {}),  # no such version
        (3, {"topicId": "A" * 21 + "Q"}),  # a tagged field where there are none
        (4, {"metadata": None}),
        (4, {"topicId": "no uuid"}),
        (4, {"metadata": "x" * 32768}),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - the reasons are for people
            encode_message("OffsetCommitValue", version, message)
    with pytest.raises(struct.error):
        encode_message("OffsetCommitValue", 3, {"leaderEpoch": 1 << 31})
    with pytest.raises(ValueError, match="version 0 has no field directories"):
        encode_message("PartitionChangeRecord", 0, {"directories": []})
    with pytest.raises(ValueError, match="an element of topics cannot be null"):
        encode_message("ConsumerGroupRegularExpressionValue", 0, {"topics": [None]})


def test_tagged_fields_have_no_other_versions():
    """What the decoder takes for granted: a field is tagged in all its versions or in none."""
    for name in NAMES:
        for field in message_schema(name).fields:
            assert (field.tag < 0) == (not field.tagged)
            assert field.tag < 0 or field.tagged == field.versions


def test_the_limits_of_a_reader_are_reached_and_not_passed(monkeypatch):
    monkeypatch.setattr(decode, "MOST_BYTES", 3)
    monkeypatch.setattr(decode, "MOST_VALUES", 7)
    reader = WireReader(b"123")
    WireReader(b"", within=reader).claim(5)
    reader.claim(2)
    with pytest.raises(OverLimit, match="more values than are decoded"):
        reader.claim(1)
    with pytest.raises(OverLimit, match="4 bytes are more than are decoded"):
        WireReader(b"1234")


def test_each_element_of_an_array_counts_once_and_its_fields_besides(monkeypatch):
    partition = encode_message("PartitionRecord", 0, {"replicas": [1, 2, 3]})
    endpoints = encode_message("RegisterBrokerRecord", 0, {"endPoints": [{}, {}]})
    fields = len(next(one for one in message_schema("RegisterBrokerRecord").fields if one.name == "endPoints").fields)
    for name, data, values in (
        ("PartitionRecord", partition, 3),
        ("RegisterBrokerRecord", endpoints, 2 * (1 + fields)),
    ):
        monkeypatch.setattr(decode, "MOST_VALUES", values)
        assert isinstance(decode_message(name, 0, data), Decoded)
        monkeypatch.setattr(decode, "MOST_VALUES", values - 1)
        assert "more values" in decode_message(name, 0, data).reason


def test_a_string_has_at_most_32767_bytes():
    """The generated classes throw `had invalid length` above 0x7fff."""
    data = encode_message("TopicRecord", 0, {"name": "t" * 0x7FFF})
    assert decode_message("TopicRecord", 0, data).message["name"] == "t" * 0x7FFF
    longer = encode_unsigned(0x8001) + b"t" * 0x8000 + data[-17:]
    assert decode_message("TopicRecord", 0, longer) == Malformed("string field name had invalid length 32768")


@pytest.mark.parametrize(("byte", "is_there"), [(1, True), (0, True), (127, True), (-1, False), (-128, False)])
def test_a_struct_is_null_where_its_byte_is_below_zero(byte, is_there):
    """`if (_readable.readByte() < 0)` in the generated classes, which write 1 and -1."""
    name, endpoint = "StreamsGroupMemberMetadataValue", {"host": "h", "port": 9}
    data = encode_message(name, 0, {"userEndpoint": endpoint})
    at = data.index(b"\1\2h\0\x09")
    given = data[:at] + struct.pack(">b", byte) + data[at + (1 if is_there else 6) :]
    found = decode_message(name, 0, given)
    assert found.message["userEndpoint"] == (endpoint if is_there else None)
