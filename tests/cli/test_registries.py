"""Schemas of registries in headers, in ids of eight bytes and in SQL; tests/transcripts/schemas.md has the others."""

import json
import struct

import pytest

from tests.support.commands import kafkalog
from tests.support.logs import BASE_TIME_MS, R, batch_v2, write_segment

USER = {"type": "record", "name": "User", "fields": [
    {"name": "alt", "type": ["null", "string"], "default": None}, {"name": "id", "type": "long"}, {"name": "name", "type": "string"},
]}  # fmt: skip
N1, N1_JSON = b"\x00\x02\x04n1", {"alt": None, "id": 1, "name": "n1"}


def log(folder, *records):
    """Records of key, value and headers."""
    folder.mkdir(parents=True)
    rows = [R(at, BASE_TIME_MS, key, value, tuple(headers)) for at, (key, value, *headers) in enumerate(records)]
    write_segment(folder, 0, [(batch_v2(rows), len(rows) - 1, BASE_TIME_MS)])
    return folder


def row(subject, version, schema_id, schema):
    value = {"subject": subject, "version": version, "id": schema_id, "schema": json.dumps(schema), "deleted": False}
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
    return json.dumps(key).encode(), json.dumps(value).encode()


def decoded(path, value_format="avro", *options):
    """The decoded values, None for others; the exit code; stderr."""
    code, out, err = kafkalog("read", path, "--value-format", value_format, *options, "--format", "json")
    found = [one for one in map(json.loads, out.splitlines()) if one["type"] == "record"]
    return [(one.get("decoded") or {}).get("value", {}).get("data") for one in found], code, err


@pytest.fixture
def raw(tmp_path):
    """Avro without framing, which begins with the bytes 0 and 1 that a framing begins with."""
    log(tmp_path / "_schemas-0", row("users-value", 1, 13, USER))
    log(tmp_path / "users-0", (b"a", b"\x02\x02x\x00\x04n0"), (b"b", N1), (b"c", b"\0\0\0\0\x0d" + N1))
    return tmp_path


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


def test_apicurio_ids_in_headers_and_of_eight_bytes_are_decoded(tmp_path):
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
