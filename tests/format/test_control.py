"""Control records against what the real kafka-dump-log prints of them, or the exception that ends it."""

import json
import struct
from itertools import product
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.format.control import (
    CONTROL_TYPES,
    ControlRecord,
    control_object,
    control_type,
    decode_control,
    encode_marker,
)
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.output.dump_text import control_text

FIXTURES = Path(__file__).parents[1] / "fixtures" / "internal_topics"


def recorded():
    """(key, value, text, exception)"""
    for line in (FIXTURES / "control.jsonl").read_text().splitlines():
        key, value, text, exception = json.loads(line)
        yield (*(None if data is None else bytes.fromhex(data) for data in (key, value)), text, exception)


def tells(fault, exception):
    """Whether a fault says what the exception did; one without a message of its own is named."""
    kind, _, message = exception.partition(": ")
    if kind.endswith("NullPointerException") or not message:
        return fault.message.endswith(f"({kind.rpartition('.')[2]})")
    return fault.message == message or fault.message.endswith(f": {message}")


def test_the_real_tools_text():
    for key, value, text, _ in recorded():
        if text is not None:
            assert control_text(key, value) == text


def test_where_the_real_tool_aborts_is_a_fault_with_the_same_message():
    for key, value, text, exception in recorded():
        if text is None:
            fault = decode_control(key, value)
            assert fault.kind is FaultKind.INVALID_CONTROL_RECORD
            assert tells(fault, exception), (fault.message, exception)


def test_all_types_were_recorded():
    types = {decode_control(key, value).name for key, value, text, _ in recorded() if text is not None}
    assert types == {*CONTROL_TYPES, "UNKNOWN"}


def test_a_marker_there_and_back():
    key, value = encode_marker(1, 7)
    assert (key.hex(), value.hex()) == ("00000001", "000000000007")
    record = decode_control(key + b"longer", value + b"longer")
    assert record == ControlRecord(1, {"coordinatorEpoch": 7})
    assert record.is_marker
    assert control_object(key, value) == {"type": "COMMIT", "type_id": 1, "coordinatorEpoch": 7}


def test_a_marker_too_short_for_its_version():
    key, _ = encode_marker(0, 0)
    assert (
        decode_control(key, b"\xff").message == "end transaction marker: 1 bytes are too few (BufferUnderflowException)"
    )
    assert decode_control(key, b"\xff\xff").message == (
        "Invalid version found for end transaction marker: -1. May indicate data corruption"
    )


def test_machine_output_of_unknown_and_unreadable():
    assert control_object(b"\0\0\0\x63", b"new") == {"type": "UNKNOWN", "type_id": 99}
    assert control_object(b"\0", None) == {
        "type": "INVALID",
        "error": "Invalid value size found for end control record key. Must have at least 4 bytes, but found only 1",
    }


@given(st.none() | st.binary(max_size=8), st.none() | st.binary(max_size=60))
def test_any_bytes_are_a_control_record_or_a_fault(key, value):
    assert isinstance(decode_control(key, value), ControlRecord | Fault)


@given(st.integers(0, 6), st.binary(max_size=60))
def test_any_value_of_a_known_type(type_id, value):
    found = decode_control(bytes([0, 0, 0, type_id]), value)
    assert isinstance(found, Fault) or found.type_id == type_id


def test_a_key_tells_its_type_from_four_bytes_and_version_0_on():
    """ControlRecordType.parseTypeId: fewer bytes, or a negative version, are refused; what comes after is not looked at."""
    for version, type_id in product((-2, -1, 0, 1), (-1, 0, 1, 7)):
        key = struct.pack(">hh", version, type_id)
        expected = type_id if version >= 0 else None
        assert [control_type(key[:size]) for size in range(4)] == [None] * 4
        assert [control_type(key), control_type(key + b"more")] == [expected] * 2
    assert control_type(None) is None
