"""Decoded keys and values that are damaged or of no schema; tests/transcripts/schemas.md has what is decoded."""

import json
import struct

import pytest

from tests.support.commands import kafkalog
from tests.support.logs import R, batch_v2, write_segment

pytest.importorskip("google.protobuf")
pytest.importorskip("proto_schema_parser")

ADDRESS = '{"type":"record","name":"Address","namespace":"shop","fields":[{"name":"town","type":"string"}]}'
ORDER = '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"},{"name":"to","type":"Address"}]}'
LATER = '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"},{"name":"to","type":"Address"},{"name":"note","type":["null","string"]}]}'
PROTO = 'syntax = "proto3"; package shop; message Click { int64 at = 1; string page_name = 2; bool twice = 3; }'


def framed(schema_id, payload):
    return b"\0" + struct.pack(">I", schema_id) + payload


def registered(offset, subject, version, schema_id, text, **more):
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
    value = {"subject": subject, "version": version, "id": schema_id, "schema": text, "deleted": False, **more}
    return R(offset, 1_700_000_000_000, json.dumps(key).encode(), json.dumps(value).encode())


def partition(folder, records):
    folder.mkdir(parents=True)
    write_segment(folder, 0, [(batch_v2(records), records[-1].offset, max(one.timestamp for one in records))])


@pytest.fixture
def log_dir(tmp_path):
    root = tmp_path / "logs"
    reference = [{"name": "shop.Address", "subject": "address", "version": 1}]
    partition(root / "_schemas-0", [
        registered(0, "address", 1, 1, ADDRESS),
        registered(1, "orders-value", 1, 2, ORDER, references=reference),
        registered(2, "orders-value", 2, 3, LATER, references=reference),
        registered(3, "clicks-value", 1, 4, PROTO, schemaType="PROTOBUF"),
        registered(4, "views-value", 1, 5, '{"type":"object"}', schemaType="JSON"),
    ])  # fmt: skip
    partition(root / "orders-0", [
        R(0, 1, b"a", framed(2, b"\x0e\x06Ulm")), R(1, 2, b"b", framed(3, b"\x10\x06Ulm\x02\x04hi")), R(2, 3, b"c", None),
    ])  # fmt: skip
    partition(root / "clicks-0", [R(0, 1, None, framed(4, b"\0\x08\x05\x12\x01x"))])
    partition(root / "views-0", [R(0, 1, None, framed(5, b'{"n": 1}'))])
    partition(
        root / "mixed-0", [R(0, 1, None, b"text"), R(1, 1, None, framed(99, b"x")), R(2, 1, None, framed(99, b"y"))]
    )
    return root


def test_damage_in_the_topic_of_schemas_is_a_warning(log_dir):
    path = log_dir / "_schemas-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    code, _, err = kafkalog("read", log_dir / "orders-0", "--value-format", "avro")
    assert (code, "schemas may be missing" in " ".join(err.split())) == (3, True)


def test_what_is_not_decoded_is_printed_as_it_is_with_one_warning(log_dir):
    code, out, err = kafkalog("read", log_dir / "mixed-0", "--value-format", "auto")
    assert (code, out) == (3, "text\n\0\0\0\0cx\n\0\0\0\0cy\n")
    assert " ".join(err.split()) == (
        f"kafkalog: {log_dir}/mixed-0: the value of offset 1 and 1 more are not decoded: no schema id 99 in {log_dir}/_schemas-0"
    )
    code, out, err = kafkalog("dump-log", log_dir / "mixed-0", "--value-format", "auto", "--format", "json", "--strict")
    assert code == 3
    assert json.loads(out.splitlines()[2])["decoded"] == {
        "value": {"error": f"no schema id 99 in {log_dir}/_schemas-0"}
    }
    assert json.loads(err)["kind"] == "undecoded"
    assert (
        kafkalog("read", log_dir / "mixed-0", "--value-format", "auto", "--merge-by-time", log_dir / "views-0")[0] == 3
    )
