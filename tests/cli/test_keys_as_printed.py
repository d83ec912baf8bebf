"""Keys on the command line: as `--key-format` prints them, as bytes, and with the windows of Kafka Streams."""

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


def window(key, start):
    return key + struct.pack(">q", start)


def stored(key, start, sequence=3):
    return window(key, start) + struct.pack(">i", sequence)


def session(key, start, end):
    return key + struct.pack(">qq", end, start)


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


PRINTED = [
    ("long", "42", struct.pack(">q", 42)),
    ("long", "-1", struct.pack(">q", -1)),
    ("int", "42", struct.pack(">i", 42)),
    ("short", "7", struct.pack(">h", 7)),
    ("float", "1.5", struct.pack(">f", 1.5)),
    ("double", "0.1", struct.pack(">d", 0.1)),
    ("uuid", UUID_TEXT, UUID_BYTES),
    ("uuid", UUID_TEXT, UUID_TEXT.encode()),
    ("hex", "00ff", b"\0\xff"),
    ("base64", "AP8=", b"\0\xff"),
    ("string", "café", "café".encode()),
    ("json", '{"b":2,"a":1}', b'{"a": 1, "b": 2}'),
    ("auto", "plain", b"plain"),
    (None, "hex:00FF", b"\0\xff"),
    (None, "base64:AP8=", b"\0\xff"),
    ("long", "hex:000000000000002A", struct.pack(">q", 42)),
    ("windowed-string", "user", window(b"user", 60_000)),
    ("windowed-string", '{"key":"user","window_start_ms":60000}', window(b"user", 60_000)),
    ("windowed-long", "42", window(struct.pack(">q", 42), 60_000)),
    ("session-windowed-string", '{"key":"user","window_start_ms":5,"window_end_ms":9}', session(b"user", 5, 9)),
]


@pytest.mark.parametrize(("key_format", "printed", "key"), PRINTED)
def test_a_key_is_found_as_it_is_printed(topic, key_format, printed, key):
    folder = topic(b"other", key, b"longer than others", None, window(b"user2", 60_000))
    options = () if key_format is None else ("--key-format", key_format)
    for command in ("read", "find", "dump-log"):
        _, found, _ = json_of(command, folder, "--key", printed, *options)
        assert [one["offset"] for one in found if one["type"] == "record"] == [1], command
    if key_format is not None:
        shown = kafkalog("read", folder, "--print", "key", "--key", printed, *options).out.strip()
        _, found, _ = json_of("find", folder, "--key", shown, *options)
        assert [one["offset"] for one in found if one["type"] == "record"] == [1], shown


def test_the_library_takes_numbers_and_uuids_as_keys(topic):
    folder = topic(struct.pack(">q", 42), UUID_BYTES, b"42")
    for key, key_format, offset in ((42, "long", 0), (UUID(UUID_TEXT), "uuid", 1), (42, None, 2), ("42", "long", 0)):
        assert [found.offset for found in kl.find(folder, key=key, key_format=key_format)] == [offset]
    with pytest.raises(UsageError, match="no key of the format long"):
        list(kl.find(folder, key=4.2, key_format="long"))


def test_a_key_that_is_none_of_the_format_is_a_usage_error(topic):
    folder = topic(b"a")
    for options in (("--key-format", "long", "--key", "a"), ("--key", "hex:0"), ("--key", "base64:!")):
        for command in ("read", "find"):
            assert kafkalog(command, folder, *options).code == 2, options
    assert kafkalog("read", folder, "--value-format", "windowed-string").code == 2


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


def test_windowed_keys_are_read_with_their_windows(topic):
    folder = topic(window(b"a", 60_000), b"short")
    code, out, err = kafkalog("read", folder, "--key-format", "windowed-string", "--print", "key")
    assert out.splitlines()[0] == '{"key":"a","window_start_ms":60000}'
    assert code == 3
    assert "the window alone has 8" in err
    folder = topic(stored(b"a", 60_000), name="app-store-changelog")
    assert kafkalog("read", folder, "--key-format", "windowed-string", "--print", "key").out == (
        '{"key":"a","window_start_ms":60000}\n'
    )
    folder = topic(session(b"a", 5, 9), name="sessions")
    assert kafkalog("read", folder, "--key-format", "session-windowed-string", "--print", "key").out == (
        '{"key":"a","window_start_ms":5,"window_end_ms":9}\n'
    )


COMPACTED = ("--config", "cleanup.policy=compact", "--force")


@pytest.mark.parametrize(
    ("key_format", "printed", "keys", "erased"),
    [
        ("long", "42\n43\n", [struct.pack(">q", at) for at in (42, 1, 42, 7)], [0, 2]),
        ("uuid", UUID_TEXT, [UUID_BYTES, UUID_TEXT.encode(), b"x"], [0, 1]),
        (
            "windowed-string",
            "user-1\nnobody\n",
            [window(b"user-1", 1), window(b"user-2", 1), window(b"user-1", 9)],
            [0, 2],
        ),
        ("session-windowed-string", "a", [session(b"b", 1, 2), session(b"a", 1, 2)], [1]),
        ("json", '{"id":1}', [b'{ "id" : 1 }', b'{"id":2}'], [0]),
    ],
)
def test_keys_are_erased_as_they_are_printed(topic, tmp_path, key_format, printed, keys, erased):
    folder = topic(*keys)
    (tmp_path / "keys").write_text(printed)
    options = ("--erase-keys", tmp_path / "keys", "--input", "lines", "--key-format", key_format)
    code, found, err = json_of("compact", folder, *options)
    offsets = [offset for one in found[0]["erasure"]["keys"] for offset in one["offsets"]]
    assert sorted(offsets) == erased
    missing = printed.count("\n") > 1
    assert code == (3 if missing else 0), err
    assert not missing or "line 2" in err[0]["message"]
    _, left, _ = json_of("read", folder)
    assert [one["offset"] for one in left if one["type"] == "record"] == sorted({*range(len(keys))} - {*erased})


def test_printed_keys_that_no_record_has_erase_nothing(topic, tmp_path):
    folder = topic(window(b"a", 1))
    (tmp_path / "keys").write_text("nobody\n")
    options = ("--erase-keys", tmp_path / "keys", "--input", "lines", "--key-format", "windowed-string")
    code, _, err = kafkalog("compact", folder, *options)
    assert code == 3
    assert "1 of 1 key in no record: line 1: 'nobody'" in err


def test_a_key_is_explained_as_it_is_printed(topic):
    folder = topic(*(struct.pack(">q", at) for at in (42, 1, 42)))
    explaining = ("compact", folder, *COMPACTED, "--dry-run", "--explain")
    out = kafkalog(*explaining, "42", "--key-format", "long").out
    assert "offset 0 " in out
    assert "goes, offset 2 has the same key" in out
    folder = topic(window(b"a", 1), window(b"b", 1), window(b"a", 2), name="w")
    explaining = ("compact", folder, *COMPACTED, "--dry-run", "--explain")
    out = kafkalog(*explaining, "a", "--key-format", "windowed-string").out
    assert ("offset 0 " in out, "offset 1 " in out, "offset 2 " in out) == (True, False, True)


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
