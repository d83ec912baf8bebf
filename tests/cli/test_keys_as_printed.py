"""Keys as numbers, UUIDs and fields; headers by their bytes (keys as --key-format prints them: cases/keys.toml)."""

import json
import struct
from uuid import UUID

import pytest

import kafkalog_cli as kl
from tests.support.commands import json_of, kafkalog
from tests.support.logs import BASE_TIME_MS, R, batch_v2, write_segment
from tests.support.product import UsageError

UUID_BYTES = bytes.fromhex("123e4567e89b12d3a456426614174000")
UUID_TEXT = "123e4567-e89b-12d3-a456-426614174000"
AVRO_KEY = {
    "type": "record",
    "name": "Key",
    "fields": [{"name": "id", "type": "long"}, {"name": "region", "type": "string"}],
}


def framed(schema_id, payload):
    return b"\0" + struct.pack(">i", schema_id) + payload


def avro_key(number, region):
    return framed(7, bytes([number << 1, len(region) << 1]) + region.encode())


@pytest.fixture
def topic(tmp_path):
    def make(*keys, name="t"):
        folder = tmp_path / "data" / f"{name}-0"
        folder.mkdir(parents=True)
        records = [R(at, BASE_TIME_MS + at, key, b"%d" % at, [(b"h", b"\0\xff")]) for at, key in enumerate(keys)]
        batches = [(batch_v2([record]), record.offset, record.timestamp) for record in records]
        write_segment(folder, 0, batches)
        write_segment(folder, len(keys), [])
        return folder

    return make


def test_the_library_takes_numbers_and_uuids_as_keys(topic):
    folder = topic(struct.pack(">q", 42), UUID_BYTES, b"42")
    for key, key_format, offset in ((42, "long", 0), (UUID(UUID_TEXT), "uuid", 1), (42, None, 2), ("42", "long", 0)):
        assert [found.offset for found in kl.find(folder, key=key, key_format=key_format)] == [offset]
    with pytest.raises(UsageError, match="no key of the format long"):
        list(kl.find(folder, key=4.2, key_format="long"))


def test_headers_are_found_by_their_bytes(topic):
    folder = topic(b"a")
    assert kafkalog("find", folder, "--header", "h=hex:00ff").code == 0
    assert kafkalog("find", folder, "--header", "h=base64:AP8=").code == 0
    assert kafkalog("find", folder, "--header", "h=hex:00fe").code == 1


def test_an_order_is_found_by_a_field_of_its_decoded_key(topic, tmp_path):
    folder = topic(avro_key(1, "EU"), avro_key(42, "US"), avro_key(42, "EU"))
    (tmp_path / "7.avsc").write_text(json.dumps(AVRO_KEY))
    options = ("--key-format", "avro", "--schemas", tmp_path)
    for conditions, offsets in (
        (("--json", "key.id=42"), [1, 2]),
        (("--json", "key.id=42", "--json", "key.region=EU"), [2]),
        (("--json", "key.region"), [0, 1, 2]),
        (("--key", '{"id":42,"region":"US"}'), [1]),
        (("--json", "$.key.id=42"), []),  # of the value
    ):
        code, found, _ = json_of("find", folder, *options, *conditions)
        assert [one["offset"] for one in found if one["type"] == "record"] == offsets, conditions
        assert code == (0 if offsets else 1)
    (undecoded, _, err) = json_of("find", folder, "--key-format", "avro", "--json", "key.id=42")
    assert undecoded == 3
    assert "schema id 7" in err[0]["message"]


# ---- large JSON values


def test_json_values_of_many_mebibytes_are_searched(topic, tmp_path):
    folder = tmp_path / "large-0"
    folder.mkdir()
    value = json.dumps({"text": "x" * (5 << 20), "id": 7}).encode()
    write_segment(folder, 0, [(batch_v2([R(0, BASE_TIME_MS, b"a", value)]), 0, BASE_TIME_MS)])
    assert kafkalog("find", folder, "--json", "id=7", "--count").code == 0
    assert kafkalog("find", folder, "--json", "id=8", "--count").code == 1


def test_json_values_that_are_not_searched_are_a_warning(tmp_path):
    folder = tmp_path / "large-0"
    folder.mkdir()
    value = b"[" + b"{}," * (2 << 20) + b"7]"
    write_segment(folder, 0, [(batch_v2([R(0, BASE_TIME_MS, b"a", value)], codec=4), 0, BASE_TIME_MS)])
    code, _, err = kafkalog("find", folder, "--json", "[-1]=7")
    assert code == 3
    assert "elements" in err
    binary = b"\x00" + b"," * (5 << 20)
    write_segment(folder, 0, [(batch_v2([R(0, BASE_TIME_MS, b"a", binary)]), 0, BASE_TIME_MS)])
    assert kafkalog("find", folder, "--json", "[-1]=7").code == 1
