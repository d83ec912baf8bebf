"""A connection of `serve` at its limits: what it waits for, and what it sends at once, without a socket."""

import struct
from types import SimpleNamespace

import pytest

from kafkalog_cli.ops.serve.connection import MOST_REQUEST_BYTES, Connection, Gone
from kafkalog_cli.ops.serve.served_copy import RecordsPart


def connection(*arriving):
    """A connection to which these bytes arrive, one after another."""
    made, waiting = object.__new__(Connection), iter(arriving)
    made._received, made._clock, made._idle_seconds = bytearray(), lambda: 0.0, 1.0
    made._receive = lambda *_: made._received.extend(next(waiting))
    return made


@pytest.mark.parametrize("size", [-1, 0, MOST_REQUEST_BYTES + 1])
@pytest.mark.parametrize("cut", range(4))
def test_a_size_that_lies_is_known_from_its_last_byte_on(size, cut):
    data = struct.pack(">i", size)
    with pytest.raises(Gone, match=f"a request of {size} bytes"):
        connection(data[:cut], data[cut:])._frame()


@pytest.mark.parametrize("cut", range(9))
def test_a_request_is_whole_when_its_last_byte_is_here(cut):
    data = struct.pack(">i", 3) + b"abc" + b"next"
    made = connection(data[:cut], data[cut:7])
    assert made._frame() == b"abc"
    assert bytes(made._received) == data[7:cut]


@pytest.mark.parametrize(("seconds", "is_ready"), [(-1, False), (0, False), (0.001, True)])
def test_without_time_left_nothing_is_ready(seconds, is_ready):
    made = object.__new__(Connection)
    made._client, made._poll = None, type("Poll", (), {"register": lambda *_: None, "poll": lambda *_: [1]})()
    assert made._is_ready(1, seconds) == is_ready


def part(size):
    return RecordsPart(None, 10, size, 0, SimpleNamespace(read_ahead=lambda *_: None), size)


@pytest.mark.parametrize(("checked", "is_in_memory"), [(4, False), (5, True)])
def test_records_are_in_memory_if_all_bytes_are(checked, is_in_memory):
    made = object.__new__(Connection)
    made._checked = lambda _, position, end: memoryview(b"12345")[:checked]
    assert made._in_memory([b"head", part(5)]) == ([b"head", b"12345"] if is_in_memory else [])


@pytest.mark.parametrize("count", [0, 1, 2])
def test_one_part_of_records_in_memory_is_sent_with_the_head(count):
    """Records of several partitions are read and sent in turn: one at a time is in memory."""
    made, sent = object.__new__(Connection), []
    pieces = [b"head", *[part(5)] * count]
    made._broker = made._caller = None
    made._dialect = lambda *_: pieces
    made._checked = lambda *_: memoryview(b"12345")
    made._send = lambda views: sent.append(b"".join(views))
    made._send_in_turn = sent.extend
    made._ahead = None
    made._answer(b"")
    assert sent == (pieces if count > 1 else [b"head" + b"12345" * count])
