"""Make the demo: append records of a web shop, then leave the directory as a broker killed on a bad disk does."""

from __future__ import annotations

import base64
import io
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, NamedTuple

from kafkalog_cli.disk.fs import WritableFilesystem
from kafkalog_cli.disk.named_places import check_output_directory
from kafkalog_cli.disk.names import OWN_DIRECTORY, FileKind
from kafkalog_cli.errors import KafkalogError, UsageError, shell_word
from kafkalog_cli.format import checkpoint, meta_properties
from kafkalog_cli.format.checkpoint import PartitionOffset
from kafkalog_cli.format.internal_topics.decode import encode_message
from kafkalog_cli.format.internal_topics.schema import Message, definitions
from kafkalog_cli.format.meta_properties import MetaProperties
from kafkalog_cli.format.partition_metadata import METADATA_TOPIC_ID
from kafkalog_cli.format.varint import encode_unsigned
from kafkalog_cli.log.partition import Partition, open_partition
from kafkalog_cli.ops.append.batching import Writing
from kafkalog_cli.ops.append.inputs import STDIN, AppendInputs
from kafkalog_cli.ops.append.verb import APPEND, Appending, AppendOptions
from kafkalog_cli.ops.option_values import MAX_MS
from kafkalog_cli.ops.purge import PURGE, PurgeRequest
from kafkalog_cli.ops.session.observer import SilentObserver
from kafkalog_cli.ops.session.options import Context, SessionOptions
from kafkalog_cli.ops.session.session import Session

_CLUSTER_ID, _DIRECTORY_ID = "ZGVtby1jbHVzdGVyLWlkLQ", "ZGVtby1kaXJlY3RvcnktaQ"
_METADATA_LOG = "__cluster_metadata-0"
TORN, FLIPPED = "orders-1", "orders-2"


class Demo(NamedTuple):
    """The demo that was made: its log directory, and the number of its partitions."""

    path: str
    partitions: int


class _Strict(SilentObserver):
    """Raises the first error of a session, as none is expected, and keeps the result."""

    result: Any = None

    def fail(self, error: KafkalogError, *, path: str | None = None, is_told: bool) -> None:
        """See Observer."""
        del path, is_told
        raise error

    def show(self, result: Any) -> None:
        """See Observer."""
        self.result = result


def make_demo(context: Context, path: str, now_ms: int) -> Demo:
    """Make the log directory `path`, which must not exist or be empty.

    Raises UsageError, as `check_output_directory`, and as an append does.
    """
    fs = context.fs
    check_output_directory(fs, path)
    status = fs.status(path)
    if status is None:
        fs.make_directory(path)
    elif not status.is_directory or fs.list_directory(path):
        raise UsageError(reason=f"demo makes a new directory; {path} is there and is not empty")
    written_at = datetime.fromtimestamp(min(now_ms, MAX_MS) // 1000, timezone.utc)
    meta = MetaProperties(1, _CLUSTER_ID, NODE_ID, _DIRECTORY_ID)
    _write(
        fs,
        f"{path}/{FileKind.META_PROPERTIES.value}",
        meta_properties.encode(meta, f"{written_at:%a %b %d %H:%M:%S UTC %Y}"),
    )
    # Writers leave the metadata log alone: its records are appended under another name.
    begin = PartOfDemo("metadata-0", metadata_lines(now_ms - 73 * 3_600_000, _DIRECTORY_ID), Writing())
    _append(context, path, begin, METADATA_TOPIC_ID, now_ms)
    ids = {topic.name: topic.topic_id for topic in TOPICS}
    ends: dict[str, int] = {}
    for part in parts(now_ms):
        topic_id = None if part.directory in ends else ids[part.directory.rpartition("-")[0]]
        ends[part.directory] = _append(context, path, part, topic_id, now_ms)
    _forget_runs(context, path, now_ms)
    fs.rename(f"{path}/{begin.directory}", f"{path}/{_METADATA_LOG}")
    partitions = [open_partition(fs, f"{path}/{name}") for name in ends]
    lines = [PartitionOffset(each.topic, each.number, ends[each.directory.name]) for each in partitions]
    _write(fs, f"{path}/{FileKind.REPLICATION_CHECKPOINT.value}", checkpoint.encode_offsets(lines))
    _tear(fs, open_partition(fs, f"{path}/{TORN}"))
    _flip(fs, open_partition(fs, f"{path}/{FLIPPED}"))
    return Demo(path, len(partitions) + 1)


def _append(context: Context, path: str, part: PartOfDemo, topic_id: str | None, now_ms: int) -> int:
    """Append to a partition, or to a new partition with `topic_id`. Returns the end of its log."""
    observer = _Strict()
    options = SessionOptions(now_ms=now_ms, single_replica=True, config=[f"segment.bytes={SEGMENT_BYTES}"])
    session = Session(APPEND, context, options, observer)
    inputs = AppendInputs(context.fs, (STDIN,), io.BytesIO(part.lines), session.interruptions, observer)
    appending = Appending(session, AppendOptions(part.writing, topic_id=topic_id), inputs)
    targets = appending.targets(f"{path}/{part.directory}", ())
    session.settings(targets)
    session.run(appending, targets)
    return int(observer.result.plan.log_end_offset)


def _forget_runs(context: Context, path: str, now_ms: int) -> None:
    """Remove what the appends kept for undo."""
    session = Session(PURGE, context, SessionOptions(now_ms=now_ms), _Strict())
    partitions = session.partitions([path])
    session.run(PurgeRequest(older_than_ms=0), partitions)
    for partition in partitions:
        context.fs.unlink(f"{partition.path}/{OWN_DIRECTORY}/lock")
        context.fs.remove_directory(f"{partition.path}/{OWN_DIRECTORY}")


def _write(fs: WritableFilesystem, path: str, data: bytes) -> None:
    with fs.create(path) as file:
        file.write(0, data)
        file.sync()


def _tear(fs: WritableFilesystem, partition: Partition) -> None:
    """Cut off the end of the last batch, as a power cut does."""
    log = partition.segments[-1].log
    with fs.open_write(log.path) as file:
        file.truncate(log.size_bytes - 120)


def _flip(fs: WritableFilesystem, partition: Partition) -> None:
    """Change a byte in the middle of the first segment, as a bad disk does."""
    log = partition.segments[0].log
    middle = log.size_bytes // 2
    with fs.open_read(log.path) as source:
        byte = bytearray(1)
        source.read_into(middle, memoryview(byte))
    with fs.open_write(log.path) as file:
        file.write(middle, bytes([byte[0] ^ 0x20]))


NODE_ID = 1
SEGMENT_BYTES = 8192
"""Segments are small, so that every log has some; brokers from 4.0 on take no such setting for a topic (KIP-1030)."""
ORDERS = 3
"""Partitions of the topic orders."""
_HOUR_MS = 3_600_000
_SPAN_MS = 72 * _HOUR_MS
_COUNTRIES = ("AT", "BE", "CH", "DE", "FR", "NL", "PL", "SE")
_STATES = ("placed", "paid", "packed", "shipped")
_CITIES = ("Aachen", "Basel", "Gent", "Kraków", "Lille", "Malmö", "Utrecht", "Wien")


@dataclass(frozen=True, slots=True)
class TopicOfDemo:
    """A topic, its id, its partitions, and the settings that the metadata log has for it."""

    name: str
    topic_id: str
    partitions: int
    settings: dict[str, str] = field(default_factory=dict)


TOPICS = (
    TopicOfDemo(
        "orders", "Yi5pcmRlcnMtZGVtby1pZA", ORDERS, {"cleanup.policy": "delete", "retention.ms": str(36 * _HOUR_MS)}
    ),
    TopicOfDemo("customers", "Y3VzdG9tZXJzLWRlbW8taQ", 1, {"cleanup.policy": "compact"}),
    TopicOfDemo("payments", "cGF5bWVudHMtZGVtby1pZA", 1),
    TopicOfDemo("__consumer_offsets", "b2Zmc2V0cy1kZW1vLWlkLQ", 50, {"cleanup.policy": "compact"}),
)
GROUP_PARTITION = 109_829_509 % 50
"""The partition of __consumer_offsets that holds the group billing: the absolute value of its String.hashCode."""


@dataclass(frozen=True, slots=True)
class PartOfDemo:
    """Records that are appended together: a partition's directory name, NDJSON lines, and how they are written."""

    directory: str
    lines: bytes
    writing: Writing


def parts(now_ms: int) -> Iterator[PartOfDemo]:
    """Yield all records up to `now_ms`, in the order in which they are appended."""
    chance = random.Random(7)
    codecs = ("lz4", "zstd", "none")
    for number in range(ORDERS):
        yield PartOfDemo(
            f"orders-{number}", _orders(chance, number, now_ms), Writing(codec=codecs[number], batch_bytes=2048)
        )
    yield PartOfDemo("customers-0", _customers(chance, now_ms), Writing(batch_bytes=1024))
    for at, ending in enumerate(("commit", "abort", "commit", "open")):
        lines = _payments(chance, at, now_ms)
        yield PartOfDemo("payments-0", lines, Writing(producer_id=4000 + at, transaction=ending))
    yield PartOfDemo(f"__consumer_offsets-{GROUP_PARTITION}", _commits(now_ms), Writing(batch_bytes=1))


def _line(time_ms: int, key: str | bytes, value: str | bytes | None, **headers: str) -> bytes:
    pairs = [{"key": name, "value": _field(text)} for name, text in headers.items()]
    record = {"timestamp_ms": time_ms, "key": _field(key), "value": _field(value), "headers": pairs}
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"


def _field(content: str | bytes | None) -> dict[str, str] | None:
    if content is None:
        return None
    if isinstance(content, str):
        return {"encoding": "utf-8", "data": content}
    return {"encoding": "base64", "data": base64.b64encode(content).decode()}


def _times(chance: random.Random, count: int, now_ms: int) -> list[int]:
    return sorted(now_ms - chance.randrange(_SPAN_MS) for _ in range(count))


def _orders(chance: random.Random, number: int, now_ms: int) -> bytes:
    lines = []
    for at, time_ms in enumerate(_times(chance, 400, now_ms)):
        identity = f"order-{(at * ORDERS + number) // 4 + 1000}"
        order = {
            "order": identity,
            "state": _STATES[at % 4],
            "country": chance.choice(_COUNTRIES),
            "cents": chance.randrange(500, 90_000),
        }
        lines.append(_line(time_ms, identity, json.dumps(order), trace=f"{chance.randrange(1 << 32):08x}"))
    return b"".join(lines)


def _customers(chance: random.Random, now_ms: int) -> bytes:
    """Return changes of 40 customers; some of them leave, and their records end with a tombstone."""
    lines = []
    for at, time_ms in enumerate(_times(chance, 500, now_ms - _HOUR_MS)):
        number = chance.randrange(40)
        customer = {"id": number, "city": chance.choice(_CITIES), "points": at}
        lines.append(_line(time_ms, f"customer-{number}", None if at > 450 and number < 8 else json.dumps(customer)))
    return b"".join(lines)


def _payments(chance: random.Random, transaction: int, now_ms: int) -> bytes:
    begin = now_ms - (4 - transaction) * _HOUR_MS
    orders = [f"order-{1000 + transaction * 5 + at}" for at in range(5)]
    payments = [json.dumps({"order": order, "cents": chance.randrange(500, 90_000)}) for order in orders]
    return b"".join(_line(begin + at, order, payments[at]) for at, order in enumerate(orders))


def _commits(now_ms: int) -> bytes:
    """Return commits of the group billing, which has not read all orders."""
    lines = []
    for step in range(1, 5):
        for number in range(ORDERS):
            key = b"\0\1" + encode_message(
                "OffsetCommitKey", 0, {"group": "billing", "topic": "orders", "partition": number}
            )
            time_ms = now_ms - (5 - step) * _HOUR_MS
            value = {"offset": step * 90 - number * 7, "leaderEpoch": 0, "metadata": "", "commitTimestamp": time_ms}
            lines.append(_line(time_ms, key, b"\0\3" + encode_message("OffsetCommitValue", 3, value)))
    return b"".join(lines)


def metadata_lines(now_ms: int, directory_id: str) -> bytes:
    """Return the records of a metadata log in which the broker has all partitions of the topics."""
    lines = []
    for topic in TOPICS:
        records: list[tuple[str, int, Message]] = [("TopicRecord", 0, {"name": topic.name, "topicId": topic.topic_id})]
        for number in range(topic.partitions):
            place: Message = {"partitionId": number, "topicId": topic.topic_id, "directories": [directory_id]}
            place |= {"leader": NODE_ID, "leaderEpoch": 0, "partitionEpoch": 0}
            place |= {"replicas": [NODE_ID], "isr": [NODE_ID], "removingReplicas": [], "addingReplicas": []}
            records.append(("PartitionRecord", 1, place))
        for name, value in topic.settings.items():
            setting: Message = {"resourceType": 2, "resourceName": topic.name, "name": name, "value": value}
            records.append(("ConfigRecord", 0, setting))
        lines += [_metadata_line(now_ms, *record) for record in records]
    return b"".join(lines)


def _metadata_line(time_ms: int, name: str, version: int, message: Message) -> bytes:
    kinds = definitions()["topics"]["__cluster_metadata"]["records"]
    api_key = next(kind["apiKey"] for kind in kinds if kind["value"] == name)
    frame = b"".join(map(encode_unsigned, (1, api_key, version)))
    data = base64.b64encode(frame + encode_message(name, version, message)).decode()
    record = {"timestamp_ms": time_ms, "value": {"encoding": "base64", "data": data}}
    return json.dumps(record).encode() + b"\n"


TOUR = (
    ("ls {dir}", "lists partitions, segments and offsets"),
    ("verify {dir}", f"finds half a batch at the end of {TORN} and a flipped bit in {FLIPPED}; changes nothing"),
    (f"recover {{dir}}/{TORN} --dry-run", "shows the repair of the torn end; changes nothing"),
    (f"recover {{dir}}/{TORN}", "repairs it, keeps the bytes that it cuts off, and prints the undo command"),
    (f"recover {{dir}}/{FLIPPED} --salvage {{dir}}-salvaged", "copies every readable batch to another directory"),
    ("read {dir}/payments-0 --isolation read_committed", "prints committed payments; a later transaction hangs"),
    ("compact {dir}/customers-0 --dry-run --estimate", "shows the log cleaner's gain on 500 changes of 40 customers"),
    ("retain {dir}/orders-0 --dry-run --explain", "shows which segments are older than the topic's 36 hours"),
    ("sql {dir} 'select count(*) from orders'", "queries the topics, on Spark"),
)
"""Commands after `kafkalog`, in the order of a repair, and the effect of each."""


def demo_lines(demo: Demo) -> Iterator[str]:
    """Yield the lines to print."""
    yield f"{demo.path}: {demo.partitions} partitions of a broker that was killed, on a disk with a bad sector. Try:"
    for command, effect in TOUR:
        yield ""
        yield f"  # {effect}"
        yield f"  kafkalog {command.format(dir=shell_word(demo.path))}"
