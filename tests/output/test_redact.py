"""--redact: how it is read, and what stands in the place of what it leaves out."""

import hashlib
import json

import pytest

from kafkalog_cli.errors import UsageError
from kafkalog_cli.output.decoders import CannotDecode
from kafkalog_cli.output.dump_text import ClassDecoder
from kafkalog_cli.output.record_json import RecordJsonOptions, topic_decode
from kafkalog_cli.output.redact import RedactingDecoder, Redaction, Showing, parse_redaction
from tests.bad_input.makers import batch, record
from tests.output.output_segments import plain_lines

SECRET = b"s3cret-\xc3\xa4"
DATA = batch(0, [record(0, SECRET, SECRET, [(b"trace", SECRET), (b"none", None)]), record(1, None, b"")])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("keys", Redaction(Showing.NOTHING)),
        ("values=len", Redaction(values=Showing.LENGTH)),
        ("keys,values,headers=hash", Redaction(Showing.HASH, Showing.HASH, Showing.HASH)),
        ("keys=hash, values,headers=len", Redaction(Showing.HASH, Showing.LENGTH, Showing.LENGTH)),
        ("headers=len,keys", Redaction(Showing.NOTHING, headers=Showing.LENGTH)),
    ],
)
def test_what_is_asked_for(text, expected):
    assert parse_redaction(text) == expected


@pytest.mark.parametrize(
    "text", ["", "key", "keys,,values", "keys=", "keys=sha1", "keys,keys", "keys=len,keys", "=len"]
)
def test_what_is_not_understood(text):
    with pytest.raises(UsageError, match="--redact"):
        parse_redaction(text)


def shown(redaction, data=DATA):
    return [
        json.loads(line)
        for line in plain_lines(data, RecordJsonOptions(parse_redaction(redaction), with_batches=False))
    ]


def test_left_out_without_a_trace():
    first, second = shown("keys,values,headers")
    assert "s3cret" not in json.dumps([first, second])
    assert first["key"] == first["value"] == {"redacted": True}
    assert [header["key"]["data"] for header in first["headers"]] == ["trace", "none"]
    assert [header["value"] for header in first["headers"]] == [{"redacted": True}, None]
    assert (second["key"], second["value"]) == (None, {"redacted": True})


def test_sizes_and_hashes():
    first, second = shown("keys=len,values,headers=hash")
    assert first["key"] == {"redacted": True, "bytes": len(SECRET)}
    digest = hashlib.sha256(SECRET).hexdigest()
    assert first["value"] == first["headers"][0]["value"] == {"redacted": True, "sha256": digest}
    assert second["value"]["sha256"] == hashlib.sha256(b"").hexdigest()


def test_only_what_is_named():
    first, _ = shown("headers")
    assert first["key"]["data"] == SECRET.decode()
    assert first["headers"][0]["value"] == {"redacted": True}


def test_decoded_contents_go_with_the_key_or_the_value():
    key = b"\0\1" + b"\0\1g" + b"\0\1t" + b"\0\0\0\7"
    data = batch(0, [record(0, key, None)])
    for redaction, is_there in (("keys", False), ("values", False), ("headers", True)):
        options = RecordJsonOptions(parse_redaction(redaction), decode=topic_decode("__consumer_offsets"))
        line = json.loads(plain_lines(data, options)[-1])
        assert ("decoded" in line) is is_there


def test_control_records_keep_their_type_alone():
    marker = record(0, b"\0\0\0\1", b"\0\0\0\0\0\5")
    data = batch(0, [marker], attributes=0x30, producer=(9, 1, -1))
    assert json.loads(plain_lines(data)[-1])["control"] == {"type": "COMMIT", "type_id": 1, "coordinatorEpoch": 5}
    hidden = plain_lines(data, RecordJsonOptions(parse_redaction("values")))[-1]
    assert json.loads(hidden)["control"] == {"type": "COMMIT", "type_id": 1}


def test_text_for_people():
    decoder = ClassDecoder(bytes.decode, bytes.hex)
    digest = hashlib.sha256(b"ab").hexdigest()
    cases = {
        "keys": ("<redacted>", "6162"),
        "keys=len,values=hash": ("<2 bytes>", f"<sha256:{digest}>"),
        "headers": ("ab", "6162"),
    }
    for redaction, expected in cases.items():
        assert RedactingDecoder(decoder, parse_redaction(redaction)).parse(0, b"ab", b"ab") == expected
    assert RedactingDecoder(decoder, parse_redaction("keys,values")).parse(0, None, b"") == (None, "<redacted>")


def test_text_where_the_real_tool_aborts():
    decoder = ClassDecoder(lambda data: CannotDecode("no"), bytes.hex)
    assert RedactingDecoder(decoder, parse_redaction("values")).parse(0, b"a", b"b") == CannotDecode("no")
