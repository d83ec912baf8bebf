"""meta.properties, partition.metadata, .kafka_cleanshutdown, quorum-state, and Kafka's uuids."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_cli.format import json_files, meta_properties, partition_metadata
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.java_text import ZERO_UUID, canonical_uuid, parse_uuid, uuid_text
from kafkalog_cli.format.json_files import CleanShutdown, QuorumState, decode_clean_shutdown, decode_quorum_state
from kafkalog_cli.format.meta_properties import MetaProperties
from kafkalog_cli.format.partition_metadata import PartitionMetadata

FIXTURES = Path(__file__).parents[1] / "fixtures" / "sidecars"
KRAFT, ZOOKEEPER = FIXTURES / "kraft", FIXTURES / "zookeeper"
DATE = "Sat Nov 21 02:30:54 UTC 2026"

ints, longs = (st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (32, 64))
uuids = st.binary(min_size=16, max_size=16).map(uuid_text)
DECODERS = (meta_properties.decode, partition_metadata.decode, decode_clean_shutdown, decode_quorum_state)


@settings(deadline=None)
@given(st.binary(min_size=16, max_size=16))
def test_uuids_come_back(raw):
    text = uuid_text(raw)
    assert len(text) == 22
    assert parse_uuid(text) == parse_uuid(text + "==") == raw


def test_uuid_texts():
    assert parse_uuid(ZERO_UUID) == bytes(16)
    assert parse_uuid("A" * 21 + "Q") == bytes(15) + b"\x01"
    assert canonical_uuid("jfNfcIbPbUNcLXFGbdkMJR") == "jfNfcIbPbUNcLXFGbdkMJQ"
    for bad in (
        "",
        "jfNfcIbPbUNcLXFGbdkMJ",
        "jfNfcIbPbUNcLXFGbdkMJQ=",
        "jfNfcIbPbUNcLXFGbdkM+Q",
        "jfNfcIbPbUNcLXFGbdkMJQ\n",
    ):
        assert parse_uuid(bad) is None


@settings(deadline=None)
@given(st.binary(max_size=100) | st.text(max_size=50).map(lambda text: text.encode(errors="replace")))
def test_any_bytes_decode(data):
    for decode in DECODERS:
        value, faults = decode(data)
        assert value is None or not faults or decode is meta_properties.decode
        assert faults or value is not None or data == b""


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"a":' * 50_000, b'{"brokerEpoch":' + b"9" * 10_000 + b"}"])
def test_hostile_json_is_a_fault(data):
    for decode in (decode_clean_shutdown, decode_quorum_state):
        value, faults = decode(data)
        assert value is None
        assert len(faults) == 1


def test_real_meta_properties_come_back_byte_for_byte():
    for root in (KRAFT, ZOOKEEPER):
        data = (root / "meta.properties").read_bytes()
        meta, faults = meta_properties.decode(data)
        assert faults == []
        assert meta_properties.encode(meta, data.splitlines()[1][1:].decode()) == data
    assert meta == MetaProperties(0, "Nej6spHrQS2hAJqQMY6wTw", 1, None)


@settings(deadline=None)
@given(st.builds(MetaProperties, st.just(1), st.text("aZ09_-", min_size=1, max_size=22), ints, st.none() | uuids))
def test_meta_properties_come_back(meta):
    decoded, faults = meta_properties.decode(meta_properties.encode(meta, DATE))
    assert decoded == meta
    assert [fault.message for fault in faults] in ([], ["directory.id is reserved"])


@settings(deadline=None)
@given(st.builds(MetaProperties, st.just(0), st.none() | st.text(), st.none() | ints, st.none() | uuids))
def test_any_cluster_id_comes_back(meta):
    assert meta_properties.decode(meta_properties.encode(meta, DATE))[0] == meta


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"version=2\n", "Unknown meta.properties version number 2"),
        (b"version=x\n", "Invalid meta.properties version string 'x'"),
        (b"version=1\ncluster.id=c\n", "Failed to find node.id"),
        (b"version=1\ncluster.id=c\nnode.id=1x\n", "Unable to read node.id as a base-10 number."),
        (b"version=1\nnode.id=1\n", "cluster.id was not found."),
        (b"directory.id=x\n", "Unable to read directory.id as a Uuid"),
        (b"directory.id=AAAAAAAAAAAAAAAAAAAAAQ\n", "directory.id is reserved"),
        (b"cluster.id=a b\n", "cluster.id is not one that Kafka generates"),
        (b"cluster.id=" + b"a" * 23, "cluster.id is not one that Kafka generates"),
        (b"a=\\u12\n", "Malformed \\uxxxx encoding."),
        (b"#" * (1 << 20) + b"#", "1048577 bytes are not a meta.properties file"),
    ],
)
def test_meta_properties_that_a_broker_refuses_or_never_wrote(data, message):
    assert [fault.message for fault in meta_properties.decode(data)[1]] == [message]


@pytest.mark.parametrize(("number", "messages"), [(99, ["directory.id is reserved"]), (100, [])])
def test_the_first_hundred_directory_ids_are_reserved(number, messages):
    """DirectoryId.reserved."""
    text = uuid_text(number.to_bytes(16, "big"))
    assert [fault.message for fault in meta_properties.decode(f"directory.id={text}\n".encode())[1]] == messages


def test_meta_properties_are_read_up_to_a_mebibyte():
    assert meta_properties.decode(b"#" * (1 << 20)) == (MetaProperties(0), [])


@pytest.mark.parametrize(("data", "line"), [(b"", 1), (b"version: 0", 2)])
def test_partition_metadata_that_ends_early_tells_where(data, line):
    assert partition_metadata.decode(data)[1][0].message == f"the file ends before line {line}"


@pytest.mark.parametrize("bits", [16, 32])
def test_numbers_of_json_fit_into_their_fields(bits):
    most = (1 << (bits - 1)) - 1
    for value in (most, -most - 1, 0):
        assert json_files.integer(value, bits) == value
    for value in (most + 1, -most - 2, True, 1.0):
        assert json_files.integer(value, bits) is None


def test_json_is_read_up_to_its_limit(monkeypatch):
    monkeypatch.setattr(json_files, "_MAX_CHARACTERS", 8)
    assert json_files.read_json_object('{"a": 1}') == ({"a": 1}, "")
    assert json_files.read_json_object(' {"a": 1}') == ({}, "9 characters are too many")


def test_meta_properties_without_a_version_are_version_0():
    assert meta_properties.decode(b"broker.id=5") == (MetaProperties(0, None, 5, None), [])
    assert meta_properties.decode(b"") == (MetaProperties(0), [])
    assert meta_properties.decode(b"version= 0 \nbroker.id=5") == (MetaProperties(0, None, 5, None), [])


def test_real_partition_metadata_comes_back_byte_for_byte():
    data = (KRAFT / "tx-0" / "partition.metadata").read_bytes()
    metadata, faults = partition_metadata.decode(data)
    assert faults == []
    assert len(data) == 43
    assert metadata.topic_id == data[-22:].decode()
    assert partition_metadata.encode(metadata) == data


@pytest.mark.parametrize(
    ("data", "kind", "position"),
    [
        (b"", FaultKind.INVALID_LENGTH, 0),
        (b"version: 0", FaultKind.INVALID_LENGTH, 10),
        (b"version:0\n", FaultKind.INVALID_ENTRY, 0),
        (b"version: a\n", FaultKind.INVALID_ENTRY, 0),
        (b"version: -1\n", FaultKind.INVALID_VERSION, 0),
        (b"version: 0\ntopic_id: " + ZERO_UUID.encode(), FaultKind.INVALID_ENTRY, 11),
        (b"version: 0\ntopic_id: abc", FaultKind.INVALID_ENTRY, 11),
        (b"version: 0\ntopic_id", FaultKind.INVALID_ENTRY, 11),
        (b"version: 0\ntopic_id: \xff", FaultKind.INVALID_ENTRY, 21),
    ],
)
def test_partition_metadata_that_a_broker_refuses(data, kind, position):
    metadata, (fault,) = partition_metadata.decode(data)
    assert metadata is None
    assert (fault.kind, fault.position) == (kind, position)


def test_partition_metadata_of_a_later_version_is_accepted():
    data = b"v: 7\r\ntopic_id:\t_qQQcX1WSKWPpLPwdGN7Rg\r\nmore: 1\r\n"
    assert partition_metadata.decode(data) == (PartitionMetadata(7, "_qQQcX1WSKWPpLPwdGN7Rg"), [])


def test_real_clean_shutdown_markers():
    for root in (KRAFT, ZOOKEEPER):
        data = (root / ".kafka_cleanshutdown").read_bytes()
        content, faults = decode_clean_shutdown(data)
        assert faults == []
        assert content == (None if root is ZOOKEEPER else CleanShutdown(0, 87))
    assert data == b""


@settings(deadline=None)
@given(st.builds(CleanShutdown, ints, longs))
def test_clean_shutdown_markers_come_back(content):
    data = b'{"version":%d,"brokerEpoch":%d}' % content
    assert decode_clean_shutdown(data) == (content, [])


def test_a_marker_that_cannot_be_read_is_told():
    content, (fault,) = decode_clean_shutdown(b'{"version":0}')
    assert content is None
    assert fault.message.startswith("no broker epoch can be read")


def test_real_quorum_state():
    data = (KRAFT / "quorum-state").read_bytes()
    state, faults = decode_quorum_state(data)
    assert faults == []
    assert (state.leader_id, state.leader_epoch, state.current_voters) == (1, 2, (1,))


def quorum_state_file(state, more):
    """The line that FileQuorumStateStore writes; `more` has the fields that only one version has."""
    common = {"leaderId": state.leader_id, "leaderEpoch": state.leader_epoch, "votedId": state.voted_id}
    return json.dumps({**common, **more, "data_version": state.data_version}, ensure_ascii=False).encode()


@settings(deadline=None)
@given(st.tuples(st.just(0), ints, ints, ints, st.text(), longs, st.lists(ints).map(tuple)))
def test_quorum_states_of_version_0_come_back(fields):
    state = QuorumState(*fields)
    if "\ud800" <= max(state.cluster_id, default="") <= "\udfff":
        return
    voters = [{"voterId": voter} for voter in state.current_voters]
    more = {"clusterId": state.cluster_id, "appliedOffset": state.applied_offset, "currentVoters": voters}
    assert decode_quorum_state(quorum_state_file(state, more)) == (state, [])


@settings(deadline=None)
@given(st.tuples(st.just(1), ints, ints, ints), uuids)
def test_quorum_states_of_version_1_come_back(fields, voted):
    state = QuorumState(*fields, voted_directory_id=voted)
    data = quorum_state_file(state, {"votedDirectoryId": state.voted_directory_id})
    assert decode_quorum_state(data) == (state, [])


@pytest.mark.parametrize("key", ["clusterId", "leaderId", "leaderEpoch", "votedId", "appliedOffset", "currentVoters"])
def test_a_quorum_state_without_one_of_its_fields_is_refused(key):
    content = json.loads((KRAFT / "quorum-state").read_bytes())
    for value in (None, "x", 2**70, [1]):
        state, faults = decode_quorum_state(json.dumps(content | {key: value}).encode())
        assert (state, len(faults)) == (None, 1) or (key, value) == ("clusterId", "x")
    del content[key]
    _, (fault,) = decode_quorum_state(json.dumps(content).encode())
    assert fault.message == f"field {key} is missing or of another type"


def test_unknown_versions_of_quorum_state():
    _, (fault,) = decode_quorum_state(b'{"data_version":2}')
    assert fault.kind is FaultKind.INVALID_VERSION
