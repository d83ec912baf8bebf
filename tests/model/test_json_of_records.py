"""`dump-log --format json` of made batches: every field, no byte lost, and the real tool's own text made from the lines."""

import json
import re
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.damage.makers import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    START_MS,
    TRANSACTIONAL,
    batch,
    message,
    record,
)
from tests.support.archives import corpus_names
from tests.support.commands import kafkalog, objects_in, stored
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.naive_lines import java_string

CASES = sorted(name.split("/")[0] for name in corpus_names() if name.endswith("/expected/COMMANDS.tsv"))
FOUND = re.compile(r"Found \d+ invalid bytes at the end of \S+\n\Z")
OPEN = re.compile(r"(?<=crc: )\d+(?=\})|(?<=headerKeys: \[\] )(LeaderChange|Snapshot|KRaft)[^\n]*")
"""What the text has and our lines do not: CRCs of single messages, KRaft's control records in Java's words."""


SEGMENT = "/logs/orders-3/00000000000000000000.log"


def lines_of(data, *options, path=SEGMENT, code=0):
    """The lines of batches and records of a segment with these bytes."""
    ran = kafkalog("dump-log", path, "--format", "json", *options, fs=FaultyFilesystem({path: data}))
    assert ran.code in (code, 4), ran
    *lines, summary = ran.out.splitlines()
    assert '"type":"summary"' in summary
    return lines


def objects(data, *options, **more):
    return [json.loads(line) for line in lines_of(data, *options, **more)]


def test_json_of_a_batch_and_its_record_has_every_field():
    data = batch(
        40,
        [record(2, b"k\xff", "wört".encode(), [(b"a", b"1"), (b"a", None), (b"\xfe", b"")], ms=5)],
        attributes=TRANSACTIONAL,
        producer=(9, 1, 4),
        delta=7,
    )
    lines = lines_of(data)
    crc = int.from_bytes(data[17:21], "big")
    assert lines == [
        '{"schema":"kafkalog.batch/1","type":"batch","topic":"orders","partition":3,"segment":"00000000000000000000.log",'
        '"position":0,"base_offset":40,"last_offset":47,"count":1,"base_sequence":4,"last_sequence":11,"producer_id":9,'
        '"producer_epoch":1,"partition_leader_epoch":3,"is_transactional":true,"is_control":false,'
        '"delete_horizon_ms":null,"timestamp_type":"CreateTime","max_timestamp_ms":1600000000007,'
        f'"size":{len(data)},"magic":2,"attributes":16,"compresscodec":"none","crc":{crc},"crc_valid":true}}',
        '{"schema":"kafkalog.record/1","type":"record","topic":"orders","partition":3,"segment":"00000000000000000000.log",'
        '"position":0,"offset":42,"timestamp_ms":1600000000005,"timestamp_type":"CreateTime",'
        '"key":{"encoding":"base64","data":"a/8="},"value":{"encoding":"utf-8","data":"wört"},"headers":['
        '{"key":{"encoding":"utf-8","data":"a"},"value":{"encoding":"utf-8","data":"1"}},'
        '{"key":{"encoding":"utf-8","data":"a"},"value":null},'
        '{"key":{"encoding":"base64","data":"/g=="},"value":{"encoding":"utf-8","data":""}}],'
        '"batch_base_offset":40,"codec":"none","producer_id":9,"producer_epoch":1,"sequence":6,"leader_epoch":3,'
        '"transactional":true,"control":null}',
    ]


def test_json_of_records_has_codec_timestamp_type_and_horizon_of_the_attributes():
    first = batch(0, [record(0, None, b"")], attributes=LOG_APPEND_TIME, codec=3)
    second = batch(1, [record(0, b"", None)], attributes=DELETE_HORIZON, base_ms=START_MS, max_ms=START_MS + 1)
    one, appended, two, kept = objects(first + second)
    assert (one["timestamp_type"], one["compresscodec"], one["attributes"]) == ("LogAppendTime", "lz4", 11)
    assert (appended["timestamp_ms"], appended["timestamp_type"]) == (START_MS + 7, "LogAppendTime")
    assert (appended["key"], appended["value"], appended["codec"]) == (None, {"encoding": "utf-8", "data": ""}, "lz4")
    assert (two["delete_horizon_ms"], two["position"]) == (START_MS, len(first))
    assert (kept["key"], kept["value"], kept["position"]) == ({"encoding": "utf-8", "data": ""}, None, len(first))


def test_no_timestamp_is_null():
    data = batch(0, [record(0, None, b"x")], base_ms=-1, max_ms=-1)
    shown_batch, shown_record = objects(data)
    assert (shown_batch["max_timestamp_ms"], shown_record["timestamp_ms"]) == (None, None)
    assert shown_batch["base_sequence"] == shown_record["producer_id"] == shown_record["sequence"] == -1


def test_json_of_a_batch_has_its_wrong_crc():
    shown_batch, shown_record = objects(batch(0, [record(0, None, b"x")], crc=1))
    assert (shown_batch["crc"], shown_batch["crc_valid"]) == (1, False)
    assert shown_record["value"]["data"] == "x"


def test_control_records_are_typed():
    key, value = b"\0\0\0\0", b"\0\0\0\0\0\5"
    data = batch(7, [record(0, key, value)], attributes=TRANSACTIONAL | CONTROL, producer=(9, 1, -1))
    data += batch(8, [record(0, b"\0", None)], attributes=CONTROL)
    marker, broken = [line for line in objects(data) if line["type"] == "record"]
    assert marker["control"] == {"type": "ABORT", "type_id": 0, "coordinatorEpoch": 5}
    assert (stored(marker["key"]), stored(marker["value"])) == (key, value)
    assert broken["control"]["type"] == "INVALID"


def test_an_unknown_codec_has_a_batch_line():
    line, *_ = objects(batch(0, b"", codec=0, attributes=5, count=0))
    assert (line["compresscodec"], line["attributes"]) == (None, 5)


def test_messages_have_checksums_of_their_own():
    data = message(3, b"k", b"v", magic=1) + message(4, None, b"w", magic=0, crc=0)
    batch_1, record_1, batch_0, record_0 = objects(data)
    assert (record_1["crc_valid"], record_1["timestamp_ms"], record_1["batch_base_offset"]) == (True, START_MS, 3)
    assert (record_0["crc_valid"], record_0["timestamp_ms"]) == (False, None)
    assert (batch_0["crc_valid"], batch_0["timestamp_type"], batch_0["max_timestamp_ms"]) == (
        False,
        "NoTimestampType",
        None,
    )
    assert (batch_1["magic"], batch_1["base_offset"]) == (1, 3)


def test_a_value_that_claims_more_than_there_is():
    data = message(0, b"k", b"value", magic=1, value_size=500)
    shown = objects(data)[1]
    assert shown["value"] == {"encoding": "utf-8", "data": "", "missing_bytes": 500}
    assert stored(shown["key"]) == b"k"


def test_records_of_internal_topics_are_decoded():
    key = b"\0\1" + b"\0\1g" + b"\0\1t" + b"\0\0\0\7"
    value = b"\0\3" + (5).to_bytes(8, "big") + b"\xff\xff\xff\xff" + b"\0\0" + (9).to_bytes(8, "big")
    data = batch(0, [record(0, key, value), record(1, key, None), record(2, b"\xff", b"")])
    path = SEGMENT.replace("orders", "__consumer_offsets")
    lines = [line for line in objects(data, path=path) if line["type"] == "record"]
    assert lines[0]["decoded"]["key"] == {"group": "g", "topic": "t", "partition": 7}
    assert lines[0]["decoded"]["value"]["offset"] == 5
    assert (lines[1]["decoded"]["type"], lines[1]["decoded"]["value"]) == (lines[0]["decoded"]["type"], None)
    assert lines[2]["decoded"] is None
    assert "decoded" not in objects(data)[1]


maybe = st.none() | st.binary(max_size=80) | st.text(max_size=20).map(str.encode)
headers = st.lists(st.tuples(st.binary(max_size=8), maybe), max_size=3)


@given(st.lists(st.tuples(maybe, maybe, headers), min_size=1, max_size=5))
def test_append_could_write_the_same_batch_again(contents):
    records = [record(i, key, value, more, ms=3 * i) for i, (key, value, more) in enumerate(contents)]
    data = batch(11, records, producer=(77, 2, 100), attributes=TRANSACTIONAL, max_ms=START_MS + 9)
    first, *lines = objects(data)
    again = [
        record(
            line["offset"] - line["batch_base_offset"],
            stored(line["key"]),
            stored(line["value"]),
            [(stored(header["key"]), stored(header["value"])) for header in line["headers"]],
            ms=line["timestamp_ms"] - START_MS,
        )
        for line in lines
    ]
    one = lines[0]
    rebuilt = batch(
        one["batch_base_offset"],
        again,
        epoch=one["leader_epoch"],
        max_ms=first["max_timestamp_ms"],
        producer=(one["producer_id"], one["producer_epoch"], one["sequence"]),
        attributes=TRANSACTIONAL * one["transactional"],
    )
    assert rebuilt == data


def tool_batch(line):
    """The real tool's line of a batch, from ours."""
    word = {True: "true", False: "false"}
    stamp = -1 if line["max_timestamp_ms"] is None else line["max_timestamp_ms"]
    if line["magic"] < 2:
        text = f"offset: {line['last_offset']}"
    else:
        horizon = line["delete_horizon_ms"]
        text = (
            f"baseOffset: {line['base_offset']} lastOffset: {line['last_offset']} count: {line['count']}"
            f" baseSequence: {line['base_sequence']} lastSequence: {line['last_sequence']} producerId: {line['producer_id']}"
            f" producerEpoch: {line['producer_epoch']} partitionLeaderEpoch: {line['partition_leader_epoch']}"
            f" isTransactional: {word[line['is_transactional']]} isControl: {word[line['is_control']]}"
            f" deleteHorizonMs: {'OptionalLong.empty' if horizon is None else f'OptionalLong[{horizon}]'}"
        )
    return (
        f"{text} position: {line['position']} {line['timestamp_type']}: {stamp} size: {line['size']} magic: {line['magic']}"
        f" compresscodec: {line['compresscodec']} crc: {line['crc']} isvalid: {word[line['crc_valid']]}\n"
    )


def tool_record(line):
    """The real tool's line of a record, from ours; CRCs of single messages and KRaft's control records left open."""
    key, value = stored(line["key"]), stored(line["value"])
    stamp = -1 if line["timestamp_ms"] is None else line["timestamp_ms"]
    text = f"| offset: {line['offset']} {line['timestamp_type']}: {stamp}"
    text += "".join(
        f" {name}Size: {-1 if data is None else len(data)}" for name, data in (("key", key), ("value", value))
    )
    if "crc_valid" in line:
        text += f" isValid: {'true' if line['crc_valid'] else 'false'} crc: \0}}"
    else:
        names = ",".join(java_string(stored(header["key"])) for header in line["headers"])
        text += f" sequence: {line['sequence']} headerKeys: [{names}]"
    control = line["control"]
    if control is not None and control["type_id"] < 2:
        return text + f" endTxnMarker: {control['type']} coordinatorEpoch: {control['coordinatorEpoch']}\n"
    if control is not None:
        return text + " \0\n"
    text += "" if key is None else f" key: {java_string(key)}"
    return text + ("" if value is None else f" payload: {java_string(value)}") + "\n"


def recorded(folder):
    """(segment, what the real tool printed of all its records) where it printed all."""
    with tarfile.open(folder / "expected" / "outputs.tar.gz") as tar:
        for line in (folder / "expected" / "COMMANDS.tsv").read_text().splitlines()[1:]:
            name, code, command = line.split("\t")
            if code == "0" and name.endswith(".log.print.out"):
                path = folder / command.split()[2]
                yield path, tar.extractfile(name).read().decode()


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", CASES)
def test_the_real_tools_text_can_be_made_of_the_lines(corpus, case):
    for path, expected in recorded(corpus / case):
        lines = objects_in(kafkalog("dump-log", path, "--format", "json").out)[:-1]
        text = "".join(tool_batch(line) if line["type"] == "batch" else tool_record(line) for line in lines)
        body = FOUND.sub("", expected.split("\n", 2)[2])
        assert text == OPEN.sub("\0", body), path
