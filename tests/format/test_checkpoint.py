"""Text checkpoints: real files byte for byte, faults, round trips."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_cli.format import checkpoint
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

KRAFT = Path(__file__).parents[1] / "fixtures" / "sidecars" / "kraft"

ints, longs = (st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (32, 64))
topics = st.text("abz._-0\u00e9\U0001f600\u00a0", min_size=1)


@pytest.mark.parametrize("kind", ["recovery-point", "replication", "log-start", "cleaner"])
def test_real_offset_checkpoints_come_back_byte_for_byte(kind):
    data = (KRAFT / f"{kind}-offset-checkpoint").read_bytes()
    entries, faults = decode_offsets(data)
    assert faults == []
    assert encode_offsets(entries) == data


def test_real_offset_checkpoint():
    entries, _ = decode_offsets((KRAFT / "replication-offset-checkpoint").read_bytes())
    assert PartitionOffset("__consumer_offsets", 0, 4) in entries
    assert len(entries) == 6


def test_real_leader_epochs():
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
def test_any_bytes_decode(data):
    for decode in (decode_offsets, decode_leader_epochs):
        entries, faults = decode(data)
        for fault in faults:
            assert 0 <= fault.position <= len(data)
            assert fault.position + fault.size_bytes <= len(data)
        assert len(entries) <= data.count(b"\n") + data.count(b"\r") + 1


@pytest.mark.parametrize("data", [b"", b"0\n", b"0", b"0\n0\n", b"0\r\n0\r\n", b"0\r0"])
def test_files_without_entries(data):
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


def test_wrong_count():
    entries, faults = decode_leader_epochs(b"0\n3\n0 0\n2 130\n")
    assert entries == [(0, 0), (2, 130)]
    assert [(f.kind, f.expected, f.got) for f in faults] == [(FaultKind.INVALID_COUNT, "3", "2")]


def test_wrong_version_still_shows_the_entries():
    entries, faults = decode_leader_epochs(b"1\n1\n0 0\n")
    assert entries == [(0, 0)]
    assert [(f.kind, f.expected, f.got) for f in faults] == [(FaultKind.INVALID_VERSION, "0", "1")]


@pytest.mark.parametrize("data", [b" 0\n0\n", b"x\n0\n", b"0\n\n", b"0\n-\n", b"0\n1\n 1 2\n", b"\n"])
def test_lines_as_strict_as_kafka(data):
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
