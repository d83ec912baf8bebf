"""Schemas of registries: contexts, values without framing that look framed, Apicurio, AWS Glue, google/type."""

import json
import struct
import zlib

import pytest

from tests.support.commands import kafkalog
from tests.support.logs import BASE_TIME_MS, R, batch_v2, write_segment

GUID = "b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63"
GLUE = bytes.fromhex(GUID.replace("-", ""))
USER = {"type": "record", "name": "User", "fields": [
    {"name": "alt", "type": ["null", "string"], "default": None}, {"name": "id", "type": "long"}, {"name": "name", "type": "string"},
]}  # fmt: skip
PLACE = {"type": "record", "name": "T", "fields": [{"name": "c", "type": "int"}, {"name": "where", "type": "string"}]}
N1, N1_JSON = b"\x00\x02\x04n1", {"alt": None, "id": 1, "name": "n1"}
UTAH, UTAH_JSON = b"\x01\x22somewhere in Utah", {"c": -1, "where": "somewhere in Utah"}


def log(folder, *records):
    """Records of key, value and headers."""
    folder.mkdir(parents=True)
    rows = [R(at, BASE_TIME_MS, key, value, tuple(headers)) for at, (key, value, *headers) in enumerate(records)]
    write_segment(folder, 0, [(batch_v2(rows), len(rows) - 1, BASE_TIME_MS)])
    return folder


def row(subject, version, schema_id, schema, kind=None, references=()):
    text = schema if isinstance(schema, str) else json.dumps(schema)
    value = {"subject": subject, "version": version, "id": schema_id, "schema": text, "deleted": False}
    value |= {"schemaType": kind} if kind else {}
    value |= {"references": [dict(zip(("name", "subject", "version"), one, strict=True)) for one in references]}
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
    return json.dumps(key).encode(), json.dumps(value).encode()


def decoded(path, value_format="avro", *options):
    """The decoded values, None for others; the exit code; stderr."""
    code, out, err = kafkalog("read", path, "--value-format", value_format, *options, "--format", "json")
    found = [one for one in map(json.loads, out.splitlines()) if one["type"] == "record"]
    return [(one.get("decoded") or {}).get("value", {}).get("data") for one in found], code, err


def address(field):
    return {"type": "record", "name": "Address", "namespace": "shop", "fields": [{"name": field, "type": "string"}]}


CUSTOMER = {
    "type": "record",
    "name": "Customer",
    "namespace": "shop",
    "fields": [{"name": "a", "type": "shop.Address"}],
}


@pytest.mark.parametrize("version", [1, -1])
@pytest.mark.parametrize("subject", ["addr", ":.:addr", ":.lab:addr"])
@pytest.mark.parametrize("with_default", [False, True])
def test_a_reference_is_looked_up_in_the_context_of_its_schema(tmp_path, subject, version, with_default):
    rows = [row("addr", 1, 9, address("street"))] if with_default else []
    rows += [
        row(":.lab:addr", 1, 1, address("town")),
        row(":.lab:c-value", 1, 2, CUSTOMER, None, [("shop.Address", subject, version)]),
    ]
    log(tmp_path / "_schemas-0", *rows)
    found, code, err = decoded(log(tmp_path / "c-0", (b"k", b"\0\0\0\0\2\x06Ulm")))
    assert (found, code) == ([{"a": {"town": "Ulm"}}], 0), err


@pytest.mark.parametrize(("subject", "field"), [("addr", "street"), (":.lab:addr", "town")])
def test_a_reference_of_the_default_context_stays_there_or_names_its_own(tmp_path, subject, field):
    rows = [row("addr", 1, 9, address("street")), row(":.lab:addr", 1, 1, address("town"))]
    log(tmp_path / "_schemas-0", *rows, row("c-value", 1, 2, CUSTOMER, None, [("shop.Address", subject, 1)]))
    assert decoded(log(tmp_path / "c-0", (b"k", b"\0\0\0\0\2\x06Ulm")))[0] == [{"a": {field: "Ulm"}}]


def test_a_reference_that_only_another_context_has_is_not_decoded_by_that(tmp_path):
    rows = [
        row("addr", 1, 9, address("street")),
        row(":.lab:c-value", 1, 2, CUSTOMER, None, [("shop.Address", "addr", 1)]),
    ]
    log(tmp_path / "_schemas-0", *rows)
    found, code, err = decoded(log(tmp_path / "c-0", (b"k", b"\0\0\0\0\2\x06Ulm")))
    assert (found, code) == ([None], 3)
    assert "version 1 of :.lab:addr, which is not in" in err


def test_a_proto_file_of_a_context_imports_from_it(tmp_path):
    def money(field):
        return f'syntax = "proto3"; message Money {{ int32 {field} = 1; }}'

    text = 'syntax = "proto3"; import "money.proto"; message M { Money d = 1; }'
    rows = [row("m", 1, 9, money("wrong"), "PROTOBUF"), row(":.lab:m", 1, 1, money("units"), "PROTOBUF")]
    log(tmp_path / "_schemas-0", *rows, row(":.lab:p-value", 1, 2, text, "PROTOBUF", [("money.proto", "m", 1)]))
    assert decoded(log(tmp_path / "p-0", (b"k", b"\0\0\0\0\2\0\x0a\x02\x08\x05")), "protobuf")[0] == [
        {"d": {"units": 5}}
    ]


@pytest.fixture
def raw(tmp_path):
    """Avro without framing, which begins with the bytes 0 and 1 that a framing begins with."""
    log(tmp_path / "_schemas-0", row("users-value", 1, 13, USER), row("temp-value", 1, 14, PLACE))
    log(tmp_path / "users-0", (b"a", b"\x02\x02x\x00\x04n0"), (b"b", N1), (b"c", b"\0\0\0\0\x0d" + N1))
    log(tmp_path / "temp-0", (b"a", b"\x0a\x22somewhere in Utah"), (b"b", UTAH))
    return tmp_path


def test_avro_without_framing_is_decoded_by_the_subject_whatever_its_first_byte(raw):
    users = [{"alt": {"string": "x"}, "id": 0, "name": "n0"}, N1_JSON, N1_JSON]
    assert decoded(raw / "users-0")[:2] == (users, 0)
    assert decoded(raw / "temp-0")[:2] == ([{"c": 5, "where": "somewhere in Utah"}, UTAH_JSON], 0)


def test_what_fits_neither_a_framing_nor_the_subject_names_both_reasons(raw):
    found, code, err = decoded(log(raw / "users-1", (b"a", b"\0\0\0\0\x63" + N1)))
    assert (found, code) == ([None], 3)
    assert "no schema id 99" in err
    assert "without a framing by users-value" in err


@pytest.mark.exhaustive
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("select", ["offset, value_json", "value_struct.id", "count(*), max(value_json)"])
def test_sql_says_what_it_has_not_decoded(raw, select):
    log(raw / "users-1", (b"a", b"\0\0\0\0\x63" + N1), (b"b", b"\0\0\0\0\x63" + N1), (b"b", N1))
    code, out, err = kafkalog(
        "sql", raw, f"select {select} from users order by 1", "--value-format", "avro", "--format", "json"
    )
    assert (code, json.loads(out.splitlines()[-1])["exit_code"]) == (3, 3)
    (note,) = [one for one in map(json.loads, err.splitlines()) if one["kind"] == "undecoded"]
    assert note["path"] == str(raw / "users-1")
    assert "offset 0 and 1 more are not decoded: no schema id 99" in note["message"]
    assert kafkalog("sql", raw, f"select {select} from users where partition = 0", "--value-format", "avro")[0::2] == (
        0,
        "",
    )


def test_apicurio_in_headers_and_with_ids_of_eight_bytes(tmp_path):
    log(tmp_path / "_schemas-0", row("users-value", 1, 13, USER))
    users = log(
        tmp_path / "users-0", (b"a", N1, (b"apicurio.value.globalId", struct.pack(">q", 13))),
        (b"b", N1, (b"apicurio.value.contentId", struct.pack(">q", 13))), (b"c", b"\0" + struct.pack(">q", 13) + N1),
        (b"d", b"\0" + struct.pack(">q", 1 << 40) + N1), (b"e", N1, (b"apicurio.value.globalId", struct.pack(">q", 77))),
    )  # fmt: skip
    for value_format in ("avro", "auto"):
        found, code, err = decoded(users, value_format)
        assert (found, code) == ([N1_JSON] * 3 + [None] * 2, 3)
        assert "no Apicurio schema id 77 in" in err


def test_glue_is_decoded_by_a_file_or_named(tmp_path):
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / f"{GUID}.avsc").write_text(json.dumps(USER))
    payloads = [
        b"\x03\x00" + GLUE + N1,
        b"\x03\x05" + GLUE + zlib.compress(N1),
        b"\x03\x05" + GLUE + zlib.compress(N1)[:-2],
    ]
    users = log(tmp_path / "users-0", *((b"k", payload) for payload in payloads))
    for value_format in ("avro", "auto"):
        found, code, err = decoded(users, value_format, "--schemas", tmp_path / "schemas")
        assert (found, code) == ([N1_JSON, N1_JSON, None], 3)
        assert "is cut off" in err
        found, code, err = decoded(users, value_format)
        assert (found, code) == ([None] * 3, 3)
        assert f"no AWS Glue schema GUID {GUID}" in err
        assert "--schemas DIR" in err


@pytest.mark.parametrize(
    ("name", "kind", "payload", "wanted"),
    [
        ("money", "Money", b"\x0a\x03EUR\x10\x05", {"currencyCode": "EUR", "units": "5", "nanos": 0}),
        ("date", "Date", b"\x08\xea\x0f\x10\x0b\x18\x1a", {"year": 2026, "month": 11, "day": 26}),
        ("latlng", "LatLng", b"\x09" + struct.pack("<d", 1.5), {"latitude": 1.5, "longitude": 0.0}),
        ("timeofday", "TimeOfDay", b"\x08\x07", {"hours": 7, "minutes": 0, "seconds": 0, "nanos": 0}),
    ],
)
def test_files_of_google_type_are_known_without_a_reference(tmp_path, name, kind, payload, wanted):
    text = f'syntax = "proto3"; import "google/type/{name}.proto"; message M {{ google.type.{kind} d = 1; }}'
    log(tmp_path / "_schemas-0", row("p-value", 1, 5, text, "PROTOBUF"))
    message = b"\x0a" + bytes([len(payload)]) + payload
    found, code, err = decoded(log(tmp_path / "p-0", (b"k", b"\0\0\0\0\5\0" + message)), "auto")
    assert (found, code) == ([{"d": wanted}], 0), err
