"""Text files of a log directory: checkpoints, meta.properties, partition.metadata and their like, as Kafka reads them."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_cli.format import checkpoint, json_files, meta_properties, partition_metadata
from kafkalog_cli.format.checkpoint import (
    EpochEntry,
    PartitionOffset,
    broker_reading,
    can_name,
    decode_leader_epochs,
    decode_offsets,
    encode_leader_epochs,
    encode_offsets,
)
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.java_text import ZERO_UUID, canonical_uuid, parse_uuid, uuid_text
from kafkalog_cli.format.json_files import CleanShutdown, QuorumState, decode_clean_shutdown, decode_quorum_state
from kafkalog_cli.format.meta_properties import MetaProperties
from kafkalog_cli.format.partition_metadata import PartitionMetadata

# -- Text checkpoints: real files byte for byte, faults, round trips


KRAFT = Path(__file__).parents[1] / "fixtures" / "sidecars" / "kraft"

ints, longs = (st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (32, 64))
topics = st.text("abz._-0\u00e9\U0001f600\u00a0", min_size=1)


@pytest.mark.parametrize("kind", ["recovery-point", "replication", "log-start", "cleaner"])
def test_real_offset_checkpoints_come_back_byte_for_byte(kind):
    data = (KRAFT / f"{kind}-offset-checkpoint").read_bytes()
    entries, faults = decode_offsets(data)
    assert faults == []
    assert encode_offsets(entries) == data


def test_real_leader_epochs_come_back_byte_for_byte():
    data = (KRAFT / "tx-0" / "leader-epoch-checkpoint").read_bytes()
    entries, faults = decode_leader_epochs(data)
    assert faults == []
    assert entries == [EpochEntry(0, 0), EpochEntry(2, 167), EpochEntry(4, 178)][: len(entries)]
    assert encode_leader_epochs(entries) == data


@settings(deadline=None)
@given(st.lists(st.builds(PartitionOffset, topics, ints, longs)))
def test_offsets_come_back_as_they_were_written(entries):
    assert decode_offsets(encode_offsets(entries)) == (entries, [])


@settings(deadline=None)
@given(st.lists(st.builds(EpochEntry, ints, longs)))
def test_leader_epochs_come_back_as_they_were_written(entries):
    assert decode_leader_epochs(encode_leader_epochs(entries)) == (entries, [])


@settings(deadline=None)
@given(st.binary(max_size=100) | st.text("0123a \n\r\t-").map(str.encode))
def test_any_bytes_are_a_checkpoint_or_faults_inside_it(data):
    for decode in (decode_offsets, decode_leader_epochs):
        entries, faults = decode(data)
        for fault in faults:
            assert 0 <= fault.position <= len(data)
            assert fault.position + fault.size_bytes <= len(data)
        assert len(entries) <= data.count(b"\n") + data.count(b"\r") + 1


@pytest.mark.parametrize("data", [b"", b"0\n", b"0", b"0\n0\n", b"0\r\n0\r\n", b"0\r0"])
def test_a_checkpoint_without_entries_has_no_fault(data):
    assert decode_offsets(data) == ([], [])


def test_good_lines_survive_bad_ones():
    data = b"0\n3\na 0 5\nb 1\nc 2 x\n\xff 0 1\nd 3 7"
    entries, faults = decode_offsets(data)
    assert entries == [("a", 0, 5), ("d", 3, 7)]
    assert [(f.kind, f.position, f.size_bytes, f.message) for f in faults] == [
        (FaultKind.INVALID_ENTRY, 10, 3, "malformed line: b 1"),
        (FaultKind.INVALID_ENTRY, 14, 5, "malformed line: c 2 x"),
        (FaultKind.INVALID_ENTRY, 20, 5, "malformed line: \\xff 0 1"),
    ]


def test_a_wrong_count_of_entries_is_a_fault():
    entries, faults = decode_leader_epochs(b"0\n3\n0 0\n2 130\n")
    assert entries == [(0, 0), (2, 130)]
    assert [(f.kind, f.expected, f.got) for f in faults] == [(FaultKind.INVALID_COUNT, "3", "2")]


def test_wrong_version_still_shows_the_entries():
    entries, faults = decode_leader_epochs(b"1\n1\n0 0\n")
    assert entries == [(0, 0)]
    assert [(f.kind, f.expected, f.got) for f in faults] == [(FaultKind.INVALID_VERSION, "0", "1")]


@pytest.mark.parametrize("data", [b" 0\n0\n", b"x\n0\n", b"0\n\n", b"0\n-\n", b"0\n1\n 1 2\n", b"\n"])
def test_checkpoint_lines_that_kafka_refuses_are_invalid_entries(data):
    assert [fault.kind for fault in decode_leader_epochs(data)[1]] == [FaultKind.INVALID_ENTRY]


def test_a_file_that_is_no_checkpoint_gives_few_faults():
    assert len(decode_offsets(b"\n" * 1_000_000)[1]) == 101  # the version line and a hundred more
    assert len(decode_offsets(b"0" * 1_000_000 + b"x\n")[1]) == 1


@pytest.mark.parametrize("topic", ["", "a b", "a\nb", "\t"])
def test_topics_that_would_not_be_read_back_are_not_written(topic):
    with pytest.raises(ValueError, match="cannot stand in a checkpoint"):
        encode_offsets([PartitionOffset(topic, 0, 0)])


@pytest.mark.parametrize("code", [0xD7FF, 0xD800, 0xDBFF, 0xDC00, 0xDFFF, 0xE000, 0xFFFF])
def test_a_topic_is_named_where_its_name_comes_back(code):
    """Half a pair of surrogates, from U+D800 to U+DFFF, is not text; its neighbours are."""
    topic = f"a{chr(code)}b"
    try:
        encode_offsets([PartitionOffset(topic, 0, 1)])
    except ValueError:
        assert not can_name(topic)
        with pytest.raises(UnicodeEncodeError):
            topic.encode()
    else:
        assert can_name(topic)
        topic.encode()


def test_the_count_of_a_broker_begins_at_0_and_ends_at_its_heap():
    """A broker makes a list of the size that is told before it reads on: `new ArrayList(-1)` throws, 0 is a size."""
    told = {-1: "THROWS", 0: "ENTRIES", 1: "FAILS", checkpoint._HEAP_ENTRIES - 1: "FAILS"}
    told[checkpoint._HEAP_ENTRIES] = "OUT_OF_MEMORY"
    assert {count: broker_reading(b"0\n%d\n" % count).name for count in told} == told


@pytest.mark.parametrize("newline", [b"\n", b"\r", b"\r\n"])
def test_lines_before_bytes_that_are_no_text_are_read_to_their_ends(newline):
    """Of the block with bad bytes Java has no line; a line that ends with the block before decides as ever."""
    block = checkpoint._READ_AHEAD_CHARS
    good = b"0" + newline + b"1" + newline
    name = b"x" * (block - len(good) - len(newline) - len(b" 0 z"))
    for line, wanted in ((name + b" 0 z", "THROWS"), (name + b" 0 5", "FAILS")):
        assert broker_reading(good + line + newline + b"a 0 1" + newline + b"\xff").name == wanted
    # A line that does not end within the block is no line, nor is any line of the first block with bad bytes.
    assert broker_reading(good + name + b" 0 zzz" + newline + b"\xff").name == "FAILS"
    assert broker_reading(b"0" + newline + b"-1" + newline + b"\xff").name == "FAILS"


# -- meta.properties, partition.metadata, .kafka_cleanshutdown, quorum-state, and Kafka's uuids


FIXTURES = Path(__file__).parents[1] / "fixtures" / "sidecars"
KRAFT_OF_METADATA_FILES, ZOOKEEPER = FIXTURES / "kraft", FIXTURES / "zookeeper"
DATE = "Sat Nov 21 02:30:54 UTC 2026"

ints_of_metadata_files, longs_of_metadata_files = (
    st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (32, 64)
)
uuids = st.binary(min_size=16, max_size=16).map(uuid_text)
DECODERS = (meta_properties.decode, partition_metadata.decode, decode_clean_shutdown, decode_quorum_state)


@settings(deadline=None)
@given(st.binary(min_size=16, max_size=16))
def test_uuids_are_parsed_as_they_were_formatted(raw):
    text = uuid_text(raw)
    assert len(text) == 22
    assert parse_uuid(text) == parse_uuid(text + "==") == raw


def test_uuids_are_read_as_kafka_reads_them():
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
def test_any_bytes_are_a_metadata_file_or_a_fault(data):
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
    for root in (KRAFT_OF_METADATA_FILES, ZOOKEEPER):
        data = (root / "meta.properties").read_bytes()
        meta, faults = meta_properties.decode(data)
        assert faults == []
        assert meta_properties.encode(meta, data.splitlines()[1][1:].decode()) == data
    assert meta == MetaProperties(0, "Nej6spHrQS2hAJqQMY6wTw", 1, None)


@settings(deadline=None)
@given(
    st.builds(
        MetaProperties,
        st.just(1),
        st.text("aZ09_-", min_size=1, max_size=22),
        ints_of_metadata_files,
        st.none() | uuids,
    )
)
def test_meta_properties_come_back(meta):
    decoded, faults = meta_properties.decode(meta_properties.encode(meta, DATE))
    assert decoded == meta
    assert [fault.message for fault in faults] in ([], ["directory.id is reserved"])


@settings(deadline=None)
@given(
    st.builds(MetaProperties, st.just(0), st.none() | st.text(), st.none() | ints_of_metadata_files, st.none() | uuids)
)
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
def test_partition_metadata_that_ends_early_names_the_missing_line(data, line):
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


@settings(deadline=None)
@given(st.builds(CleanShutdown, ints_of_metadata_files, longs_of_metadata_files))
def test_clean_shutdown_markers_come_back(content):
    data = b'{"version":%d,"brokerEpoch":%d}' % content
    assert decode_clean_shutdown(data) == (content, [])


def test_an_unreadable_clean_shutdown_file_is_a_fault():
    content, (fault,) = decode_clean_shutdown(b'{"version":0}')
    assert content is None
    assert fault.message.startswith("no broker epoch can be read")


def quorum_state_file(state, more):
    """The line that FileQuorumStateStore writes; `more` has the fields that only one version has."""
    common = {"leaderId": state.leader_id, "leaderEpoch": state.leader_epoch, "votedId": state.voted_id}
    return json.dumps({**common, **more, "data_version": state.data_version}, ensure_ascii=False).encode()


@settings(deadline=None)
@given(
    st.tuples(
        st.just(0),
        ints_of_metadata_files,
        ints_of_metadata_files,
        ints_of_metadata_files,
        st.text(),
        longs_of_metadata_files,
        st.lists(ints_of_metadata_files).map(tuple),
    )
)
def test_quorum_states_of_version_0_come_back(fields):
    state = QuorumState(*fields)
    if "\ud800" <= max(state.cluster_id, default="") <= "\udfff":
        return
    voters = [{"voterId": voter} for voter in state.current_voters]
    more = {"clusterId": state.cluster_id, "appliedOffset": state.applied_offset, "currentVoters": voters}
    assert decode_quorum_state(quorum_state_file(state, more)) == (state, [])


@settings(deadline=None)
@given(st.tuples(st.just(1), ints_of_metadata_files, ints_of_metadata_files, ints_of_metadata_files), uuids)
def test_quorum_states_of_version_1_come_back(fields, voted):
    state = QuorumState(*fields, voted_directory_id=voted)
    data = quorum_state_file(state, {"votedDirectoryId": state.voted_directory_id})
    assert decode_quorum_state(data) == (state, [])


@pytest.mark.parametrize("key", ["clusterId", "leaderId", "leaderEpoch", "votedId", "appliedOffset", "currentVoters"])
def test_a_quorum_state_without_one_of_its_fields_is_refused(key):
    content = json.loads((KRAFT_OF_METADATA_FILES / "quorum-state").read_bytes())
    for value in (None, "x", 2**70, [1]):
        state, faults = decode_quorum_state(json.dumps(content | {key: value}).encode())
        assert (state, len(faults)) == (None, 1) or (key, value) == ("clusterId", "x")
    del content[key]
    _, (fault,) = decode_quorum_state(json.dumps(content).encode())
    assert fault.message == f"field {key} is missing or of another type"


def test_a_quorum_state_of_an_unknown_version_is_refused():
    _, (fault,) = decode_quorum_state(b'{"data_version":2}')
    assert fault.kind is FaultKind.INVALID_VERSION
