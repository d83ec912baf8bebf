"""Text checkpoints: real files byte for byte, faults, round trips."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_cli.format.checkpoint import (
    EpochEntry,
    PartitionOffset,
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
