"""The exit code and the message for each kind of malformed input: one table for all that reads records as NDJSON.

2: the line is JSON, but no record. 1: it is no JSON, or too deep to be read; or a broker would refuse the record.
"""

# ruff: noqa: F811 - fixtures of another module

import json
import shutil

import pytest

from tests.cli.test_append import NOW, partition, records, root  # noqa: F401 - fixtures
from tests.support.commands import kafkalog, tree
from tests.support.product import KafkalogError

BYTES = "must be null, a string, or an object with encoding and data"
FUTURE = 2**62
NO_JSON = {
    b"nonsense": "no JSON",
    b"{": "no JSON",
    b'{"value":"a"': "no JSON",
    b'{"value":"a"} {"value":"b"}': "no JSON",
    b"{'value':'a'}": "no JSON",
    b'{"value":a}': "no JSON",
    b'{"value":"a",}': "no JSON",
    b'{"value":"\xff"}': "no JSON",
    b'{"value":"\x01"}': "no JSON",
    b'{"value":NaN}': "NaN is not a number of JSON",
    b'{"value":"a","position":Infinity}': "Infinity is not a number of JSON",
    b'{"value":"a","timestamp_ms":-Infinity}': "-Infinity is not a number of JSON",
    b'{"value":"a","timestamp_ms":01}': "no JSON",
    b'{"value":' + b"[" * 100_000 + b"]" * 100_000 + b"}": "nested too deeply",
}
NO_RECORD = {
    **dict.fromkeys((b"5", b"null", b"[]", b'"a"', b"true", b"1e400"), "no JSON object"),
    **dict.fromkeys((b"{}", b'{"schema":"kafkalog.record/1"}'), "without key, value and headers"),
    b'{"value":"a","value":"b"}': "'value' twice",
    b'{"value":{"encoding":"utf-8","data":"a","data":"b"}}': "'data' twice",
    b'{"vlaue":"a","key":"k"}': "is value meant",
    b'{"value":"a","NaN":1}': "unknown field 'NaN'",
    b'{"type":"batch","value":"a"}': "type 'batch'",
    b'{"type":null,"value":"a"}': "type None",
    b'{"type":["record"],"value":"a"}': "is not a record",
    **{
        f'{{"{name}":{value}}}'.encode(): f"{name} {BYTES}"
        for name in ("key", "value")
        for value in (
            1,
            0,
            -1,
            1.5,
            "1e400",
            10**30,
            "true",
            "false",
            "[]",
            '["a"]',
            "{}",
            '{"data":1}',
            '{"data":null}',
        )
    },
    b'{"value":{"encoding":"utf-8"}}': f"value {BYTES}",
    b'{"value":{"data":"a"}}': "encoding of the value must be utf-8 or base64",
    b'{"value":{"encoding":"hex","data":"00"}}': "encoding of the value must be utf-8 or base64",
    b'{"value":{"encoding":null,"data":"00"}}': "encoding of the value must be utf-8 or base64",
    b'{"value":{"encoding":["utf-8"],"data":"00"}}': "encoding of the value must be utf-8 or base64",
    b'{"value":{"encoding":"base64","data":"YQ"}}': "the value is not base64",
    b'{"value":{"encoding":"base64","data":"Y!=="}}': "the value is not base64",
    b'{"value":{"encoding":"base64","data":"\xc3\xa9\xc3\xa9"}}': "the value is not base64",
    b'{"value":"\xed\xa0\x80"}': "half of a surrogate pair",
    b'{"value":"\\ud83d"}': "half of a surrogate pair",
    b'{"value":"\\ude00\\ud83d"}': "half of a surrogate pair",
    b'{"key":{"encoding":"utf-8","data":"\\ud83d"}}': "half of a surrogate pair",
    **dict.fromkeys(
        (
            f'{{"value":"a","headers":{value}}}'.encode()
            for value in ("0", "1", "false", '""', '"a"', "{}", '{"a":"b"}')
        ),
        "headers must be null or a list",
    ),
    **dict.fromkeys(
        (
            f'{{"value":"a","headers":[{value}]}}'.encode()
            for value in ("0", "null", '"a"', "[]", "{}", '{"value":"b"}')
        ),
        "headers must be objects with key and value",
    ),
    b'{"value":"a","headers":[{"key":null}]}': "header key must be anything but null",
    b'{"value":"a","headers":[{"key":1}]}': f"header key {BYTES}",
    b'{"value":"a","headers":[{"key":"k","value":1}]}': f"header value {BYTES}",
    b'{"value":"a","headers":[{"key":"k","value":"\\udfff"}]}': "half of a surrogate pair",
    **dict.fromkeys(
        (
            f'{{"value":"a","timestamp_ms":{value}}}'.encode()
            for value in ("1.0", "1e3", '"1"', "true", "false", "[]", "{}", "1e400")
        ),
        "timestamp_ms must be a number of milliseconds",
    ),
    **dict.fromkeys(
        (f'{{"value":"a","timestamp_ms":{value}}}'.encode() for value in (-2, -(2**63), 2**63, 10**300)),
        "is not possible in a record",
    ),
    b'{"value":"a","timestamp_ms":' + b"9" * 5000 + b"}": "a number with thousands of digits",
    b'{"value":' + b"9" * 5000 + b"}": "a number with thousands of digits",
    **dict.fromkeys(
        (
            f'{{"value":"a","control":{value}}}'.encode()
            for value in ("0", "5", "false", "true", '""', '"commit"', "[]")
        ),
        "control must be null or an object",
    ),
}
NO_CONTENTS = {b'{"topic":"t"}': "without key, value and headers"}  # with offsets kept, it is a record of nulls
OF_AN_ORIGIN = {
    **{
        f'{{"value":"a","{name}":{value}}}'.encode(): f"{name} must be a number from"
        for name, least in (("offset", 0), ("partition", 0), ("leader_epoch", -1))
        for value in (least - 1, 2**63 - 1, 10**300, 1.5, "true", '"1"', "[]", "{}", "1e400")
    },
    b'{"value":"a","timestamp_type":"now"}': "timestamp_type must be",
    b'{"value":"a","timestamp_type":1}': "timestamp_type must be",
    b'{"value":"a","timestamp_type":["CreateTime"]}': "timestamp_type must be",
}
OF_AN_IMPORT = {
    b'{"value":"a","partition":0,"topic":5}': "topic must be a string",
    b'{"value":"a","partition":0,"topic":"\\ud83d"}': "half of a surrogate pair",
    b'{"value":"a","partition":0,"codec":5}': "codec must be a string",
    b'{"value":"a","partition":0,"codec":"\\ud83d"}': "half of a surrogate pair",
    b'{"value":"a","partition":0,"transactional":"no"}': "transactional must be true, false or null",
    b'{"value":"a","partition":0,"transactional":1}': "transactional must be true, false or null",
}
REFUSED = {
    f'{{"value":"a","timestamp_ms":{FUTURE}}}'.encode(): "is in the future",
    b'{"value":"' + b"a" * 1_100_000 + b'"}': "over 1048588",
}
GOOD = b'{"value":"a"}\n'


def by_code(*tables):
    return [
        (line, message, 2 if table is not NO_JSON and table is not REFUSED else 1)
        for table in tables
        for line, message in table.items()
    ]


@pytest.mark.exhaustive
def test_append_refuses_each_malformed_ndjson_record_by_line_and_changes_nothing(partition):
    before = tree(partition.parent)
    for line, message, code in by_code(NO_JSON, NO_RECORD, NO_CONTENTS, REFUSED):
        for text in (line, GOOD * 3 + line + b"\n" + GOOD):
            ran = kafkalog("append", partition, *NOW, stdin=text)
            assert (ran.code, message in ran.err) == (code, True), (line[:99], ran.code, ran.err[:300])
            assert tree(partition.parent) == before, line[:99]
            if line not in REFUSED:
                assert f"line {4 if text.startswith(GOOD) else 1}: " in ran.err


@pytest.mark.exhaustive
@pytest.mark.parametrize("options", [("--dry-run",), ("--keep-offsets",), ("--keep-offsets", "--dry-run")])
def test_append_refuses_malformed_records_with_each_of_its_options(partition, options):
    tables = (NO_JSON, NO_RECORD, OF_AN_ORIGIN) if "--keep-offsets" in options else (NO_JSON, NO_RECORD)
    before = tree(partition.parent)
    for line, message, code in by_code(*tables):
        ran = kafkalog("append", partition, *NOW, *options, stdin=line)
        assert (ran.code, message in ran.err) == (code, True), (line[:99], ran.code, ran.err[:300])
    assert tree(partition.parent) == before


def test_append_to_several_partitions_refuses_malformed_records(root):
    """All lines are read and sorted before anything is appended."""
    shutil.copytree(root / "idem-0", root / "idem-1")
    before = tree(root)
    for line, message, code in by_code(NO_JSON, NO_RECORD, OF_AN_ORIGIN):
        ran = kafkalog("append", root, "--topic", "idem", *NOW, stdin=line)
        assert (ran.code, message in ran.err) == (code, True), (line[:99], ran.code, ran.err[:300])
    assert tree(root) == before


def test_erase_keys_refuses_each_malformed_line_of_its_input(partition, tmp_path):
    keys = tmp_path / "keys.ndjson"
    for line, message, code in by_code(NO_JSON, NO_RECORD, NO_CONTENTS):
        keys.write_bytes(line + b"\n")
        options = ("--erase-keys", keys, "--input", "ndjson", "--config", "cleanup.policy=compact")
        ran = kafkalog("compact", partition, *NOW[:2], *options)
        assert (ran.code, message in ran.err) == (code, True), (line[:99], ran.code, ran.err[:300])


def test_import_refuses_each_malformed_ndjson_record_and_makes_no_partition(tmp_path):
    pytest.importorskip("pyarrow")
    from tests.spark.importing import import_into, new_log_dir, seen

    new, source = new_log_dir(tmp_path / "new"), tmp_path / "a.ndjson"
    for line, message, code in by_code(NO_JSON, NO_RECORD, OF_AN_ORIGIN, OF_AN_IMPORT):
        source.write_bytes(line + b"\n")
        with pytest.raises(KafkalogError) as raised:
            import_into(new, source, topic="t", new_offsets=True)
        told = str(raised.value)
        assert (raised.value.exit_code, message in told) == (code, True), (line[:99], raised.value, told[:300])
        assert seen(new) == []


def test_append_takes_every_well_formed_value(partition):
    """Bounds, and other spellings of what is read."""
    end = len(records(partition))
    lines = [
        {"value": "a", "timestamp_ms": None}, {"value": None}, {"headers": []}, {"key": None}, {"value": "a", "headers": None},
        {"value": "a", "control": None}, {"value": "a", "timestamp_ms": -1}, {"value": "", "key": ""},
        {"value": {"encoding": "base64", "data": ""}}, {"value": "a", "headers": [{"key": ""}]},
        {"value": "a", "offset": -5, "position": 1.5, "topic": 7},
    ]  # fmt: skip
    text = "\n".join(map(json.dumps, lines)).encode()
    assert kafkalog("append", partition, *NOW, stdin=text + b'\n{"value":"\\ud83d\\ude00"}').code == 0
    assert len(records(partition)) == end + len(lines) + 1
