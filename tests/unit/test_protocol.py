"""The messages of Kafka's protocol: random values of all versions go out and come back, and the limits hold."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_cli.format.internal_topics.decode import WireReader, encode_pieces, read_fields
from kafkalog_cli.format.protocol.messages import BadRequest, apis, read_header, read_request, response_pieces
from tests.support.kafka_client import APIS, request_frame, response_of
from tests.unit.internal_messages import fields_of, same

SCHEMAS = [
    (schema, version)
    for api in apis().values()
    for schema in (api.request, api.response)
    for version in range(api.versions.first, api.versions.last + 1)
]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("schema", "version"), SCHEMAS, ids=lambda value: getattr(value, "name", value))
def test_messages_go_out_and_come_back(schema, version):
    @settings(max_examples=15, deadline=None)
    @given(fields_of(schema.fields, version))
    def each_goes_round(message):
        goes_round(schema, version, message)

    each_goes_round()


@given(st.data())
def test_any_message_of_any_version_goes_out_and_comes_back(data):
    schema, version = data.draw(st.sampled_from(SCHEMAS))
    goes_round(schema, version, data.draw(fields_of(schema.fields, version)))


def goes_round(schema, version, message):
    data = b"".join(encode_pieces(schema, version, message))
    reader = WireReader(data)
    assert same(read_fields(schema, version, reader), message)
    assert reader.remaining == 0


def test_a_request_decodes_to_its_header_and_fields():
    frame = request_frame("Metadata", 9, 77, {"topics": [{"name": "orders"}]}, client_id=None)
    assert len(frame) == 4 + struct.unpack_from(">i", frame)[0]
    header, reader = read_header(frame[4:], apis())
    assert header == (3, 9, 77, None)
    assert [topic["name"] for topic in read_request(APIS["Metadata"], 9, reader)["topics"]] == ["orders"]


class Part:
    size_bytes = 1000


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_records_are_spliced_into_a_response(version):
    partition = {"partitionIndex": 0, "abortedTransactions": None, "records": Part(), "highWatermark": 9}
    message = {"responses": [{"topic": "a", "partitions": [partition, partition]}]}
    pieces = response_pieces(APIS["Fetch"], version, 5, message)
    assert [isinstance(piece, Part) for piece in pieces] == [False, True, False, True, False]
    sent = b"".join(b"r" * 1000 if isinstance(piece, Part) else piece for piece in pieces)
    size, whole = sent[:4], sent[4:]
    assert struct.unpack(">i", size)[0] == len(whole)
    correlation, found = response_of("Fetch", version, whole)
    assert correlation == 5
    assert [one["records"] for one in found["responses"][0]["partitions"]] == [b"r" * 1000] * 2


@given(st.binary(max_size=60))
def test_random_bytes_are_a_bad_request_or_a_request(data):
    try:
        header, reader = read_header(data, apis())
        api = apis().get(header.api_key)
        if api is not None and header.version in api.versions:
            read_request(api, header.version, reader)
    except BadRequest:
        pass


def test_bytes_after_a_request_are_ignored_as_by_a_broker():
    frame = request_frame("Heartbeat", 4, 1, {"groupId": "g"}) + b"\1" * 300
    header, reader = read_header(frame[4:], apis())
    assert read_request(APIS["Heartbeat"], header.version, reader)["groupId"] == "g"


@pytest.mark.parametrize(("size", "client"), [(-1, None), (-2, None), (0, ""), (1, "c")])
def test_a_client_without_a_name_is_not_one_with_an_empty_name(size, client):
    """A nullable string: only a length below 0 is null."""
    header, reader = read_header(struct.pack(">hhih", 18, 0, 7, size) + b"c"[: max(size, 0)], {})
    assert (header.client_id, reader.remaining) == (client, 0)
