"""Records of internal topics against what the real kafka-dump-log prints of them, and as objects."""

import collections
import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.format.internal_topics.decode import encode_message
from kafkalog_cli.format.internal_topics.java_json import java_json
from kafkalog_cli.format.internal_topics.records import (
    API_MESSAGE_TOPICS,
    COORDINATOR_TOPICS,
    UnreadableRecord,
    decode_api_message,
    decode_coordinator,
    record_object,
)
from kafkalog_cli.format.internal_topics.schema import KafkaVersion, definitions, is_in, message_schema
from kafkalog_cli.format.varint import encode_unsigned
from kafkalog_cli.output.decoders import CannotDecode
from kafkalog_cli.output.topic_decoders import TopicDecoder

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
    key_text, payload = TopicDecoder(TOPICS[decoder], KafkaVersion.V4_2).parse(offset, key, value)
    return ("" if key_text is None else f" key: {key_text}") + ("" if payload is None else f" payload: {payload}")


@pytest.mark.parametrize("name", ["brokers.jsonl", "made.jsonl"])
def test_the_real_tools_text(name):
    tried = collections.Counter()
    for decoder, key, value, offset, text in recorded(name):
        assert printed(decoder, key, value, offset) == text
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


def test_what_brokers_wrote_encodes_to_the_same_bytes():
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


def test_an_offset_commit_as_an_object():
    key = struct.pack(">h", 1) + encode_message("OffsetCommitKey", 0, {"group": "g", "topic": "t", "partition": 3})
    value = {"offset": 42, "leaderEpoch": 7, "metadata": "m", "commitTimestamp": 99}
    record = {
        "type": "OffsetCommit",
        "type_id": 1,
        "version": 3,
        "key": {"group": "g", "topic": "t", "partition": 3},
        "value": value,
    }
    encoded = struct.pack(">h", 3) + encode_message("OffsetCommitValue", 3, value)
    assert record_object("__consumer_offsets", key, encoded) == record
    assert record_object("__consumer_offsets", key, None) == {**record, "version": None, "value": None}


def test_a_metadata_record_as_an_object():
    message = {"name": "metadata.version", "featureLevel": 29}
    encoded = b"\1\x0c\0" + encode_message("FeatureLevelRecord", 0, message)
    expected = {"type": "FeatureLevelRecord", "type_id": 12, "version": 0, "value": message}
    assert record_object("__cluster_metadata", None, encoded) == expected


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
def test_what_is_not_known_has_no_object(topic, key, value):
    assert record_object(topic, key, value) is None


@pytest.mark.parametrize("decoder", ["offsets", "transaction-log", "share-group-state"])
def test_a_record_without_a_key_ends_the_dump(decoder):
    message = "Failed to decode message at offset 5 using the specified decoder (message had a missing key)"
    assert TopicDecoder(TOPICS[decoder]).parse(5, None, b"\0\0") == CannotDecode(message)


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


def test_json_is_jacksons():
    text = 'a"\\/\b\t\n\f\r\0\x1f\x7f\x80é\u2028\U0001f600'
    assert java_json({"é": [text, None, True, -1, b"\xff\xfe", {}]}) == (
        '{"é":["a\\"\\\\/\\b\\t\\n\\f\\r\\u0000\\u001F\x7f\x80é\u2028\U0001f600",null,true,-1,"//4=",{}]}'
    )
    assert java_json([1e7, float("nan"), float("-inf"), -0.0]) == '[1.0E7,"NaN","-Infinity",-0.0]'
