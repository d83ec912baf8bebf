"""The lines of records and batches, written naively: one value after another, with Python's own codecs and JSON."""

import base64
import json
import re

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MISHANDLED = re.compile("[\x7f-\x9f\u2028\u2029]")


def json_line(fields):
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    return MISHANDLED.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


def contents(data):
    if data is None:
        return None
    try:
        return {"encoding": "utf-8", "data": data.decode()}
    except UnicodeDecodeError:
        return {"encoding": "base64", "data": base64.b64encode(data).decode()}


def time_type(batch):
    if batch.magic == 0:
        return "NoTimestampType"
    return "LogAppendTime" if batch.attributes & 8 else "CreateTime"


def last_sequence(batch):
    sequence = batch.base_sequence
    return sequence if sequence < 0 else (sequence + batch.last_offset - batch.base_offset) % (1 << 31)


def is_control(batch):
    return batch.magic >= 2 and batch.attributes & 0x20 != 0


def known(number):
    return None if number == -1 else number


def place(kind, topic, partition, segment):
    start = {"schema": f"kafkalog.{kind}/1", "type": kind}
    return {**start, "topic": topic, "partition": partition, "segment": segment}


def batch_json(batch, *of):
    bits, is_new = batch.attributes, batch.magic >= 2
    return json_line({
        **place("batch", *of), "position": batch.position,
        "base_offset": known(batch.base_offset), "last_offset": batch.last_offset,
        "count": known(batch.records_count), "base_sequence": batch.base_sequence,
        "last_sequence": last_sequence(batch), "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch, "partition_leader_epoch": batch.leader_epoch,
        "is_transactional": is_new and bits & 0x10 != 0, "is_control": is_control(batch),
        "delete_horizon_ms": batch.base_timestamp if is_new and bits & 0x40 else None,
        "timestamp_type": time_type(batch), "max_timestamp_ms": known(batch.max_timestamp),
        "size": batch.size_bytes, "magic": batch.magic, "attributes": bits,
        "compresscodec": CODECS[bits & 7], "crc": batch.crc, "crc_valid": batch.valid == 1,
    })  # fmt: skip


def record_json(record, batch, *of):
    """The line of a record; `batch.base_offset` is that of its first record. Of control records, only markers."""
    marker = None
    if is_control(batch):
        type_id = int.from_bytes(record.key[2:4], "big")
        epoch = int.from_bytes(record.value[2:6], "big", signed=True)
        marker = {"type": ("ABORT", "COMMIT")[type_id], "type_id": type_id, "coordinatorEpoch": epoch}
    fields = {
        **place("record", *of), "position": batch.position, "offset": record.offset,
        "timestamp_ms": known(record.timestamp), "timestamp_type": time_type(batch),
        "key": contents(record.key), "value": contents(record.value),
        "headers": [{"key": contents(key), "value": contents(value)} for key, value in record.headers],
        "batch_base_offset": batch.base_offset, "codec": CODECS[batch.attributes & 7],
        "producer_id": batch.producer_id, "producer_epoch": batch.producer_epoch, "sequence": record.sequence,
        "leader_epoch": batch.leader_epoch, "transactional": batch.magic >= 2 and batch.attributes & 0x10 != 0,
        "control": marker, **({"crc_valid": record.valid == 1} if batch.magic < 2 else {}),
    }  # fmt: skip
    return json_line(fields)


def java_string(data):
    """Bytes as Java decodes them: Python's decoder differs for surrogates, of which it replaces each byte."""
    return re.sub(rb"\xed[\xa0-\xbf][\x80-\xbf]?", "\ufffd".encode(), data).decode(errors="replace")


def word(value):
    return "true" if value else "false"


def batch_text(batch):
    text = f"offset: {batch.last_offset}"
    if batch.magic >= 2:
        horizon = f"OptionalLong[{batch.base_timestamp}]" if batch.attributes & 0x40 else "OptionalLong.empty"
        text = (
            f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} count: {batch.records_count}"
            f" baseSequence: {batch.base_sequence} lastSequence: {last_sequence(batch)} producerId: {batch.producer_id}"
            f" producerEpoch: {batch.producer_epoch} partitionLeaderEpoch: {batch.leader_epoch}"
            f" isTransactional: {word(batch.attributes & 0x10)} isControl: {word(is_control(batch))}"
            f" deleteHorizonMs: {horizon}"
        )
    return (
        f"{text} position: {batch.position} {time_type(batch)}: {batch.max_timestamp} size: {batch.size_bytes}"
        f" magic: {batch.magic} compresscodec: {CODECS[batch.attributes & 7]} crc: {batch.crc}"
        f" isvalid: {word(batch.valid)}\n"
    )


def record_text(record, batch, decode=java_string, *, skip=False):
    """The line of a record, by `decode` of its key and payload; `skip`: without the metadata."""
    sizes = [-1 if data is None else len(data) for data in (record.key, record.value)]
    text = f"| offset: {record.offset} {time_type(batch)}: {record.timestamp} keySize: {sizes[0]} valueSize: {sizes[1]}"
    if batch.magic < 2:
        text += f" isValid: {word(record.valid)} crc: {record.crc}"
    else:
        text += f" sequence: {record.sequence} headerKeys: [{','.join(java_string(key) for key, _ in record.headers)}]"
    if is_control(batch):
        marker = ("ABORT", "COMMIT")[int.from_bytes(record.key[2:4], "big")]
        text += f" endTxnMarker: {marker} coordinatorEpoch: {int.from_bytes(record.value[2:6], 'big', signed=True)}"
    if skip:
        text = ""
    first = "| " if skip else " "
    if record.key is not None and not is_control(batch):
        text += f"{first}key: {decode(record.key)}"
        first = " "
    if record.value is not None and not is_control(batch):
        text += f"{first}payload: {decode(record.value)}"
    return text + "\n"


def consumer_line(record, batch, partition):
    """The line of kafka-console-consumer with all fields, as bytes."""

    def shown(data):
        return b"null" if data is None else data

    time = "NO_TIMESTAMP" if batch.magic == 0 else f"{time_type(batch)}:{record.timestamp}"
    epoch = "NOT_PRESENT" if batch.leader_epoch < 0 else batch.leader_epoch
    headers = [java_string(key).encode() + b":" + shown(value) for key, value in record.headers]
    start = f"{time}\tPartition:{partition}\tOffset:{record.offset}\tEpoch:{epoch}\t".encode()
    return start + b"\t".join((b",".join(headers) or b"NO_HEADERS", shown(record.key), shown(record.value))) + b"\n"
