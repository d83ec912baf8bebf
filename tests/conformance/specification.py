"""Log directories for cases, written from a short specification with struct alone: nothing of the code under test.

A log is a table:

- `segments`: the segments of the partition `t-0`, or `partitions`: a table of such lists. A segment is a text, BASE: BATCH BATCH …,
  and a batch is OFFSETS@TIME with options after colons, such as `3-5,8@T+10:gzip:k=key`. TIME is in milliseconds, T is BASE_TIME_MS.
  Keys and values have bytes such as %3A for a colon. `keys=a,b` are those of two records.
- `state`: if true, leader epochs and empty producer snapshots, as a broker has them; without them `verify` warns.
- `checkpoints`: the offset of t-0, or a table by partition, in NAME-checkpoint of the log directory.
- `files`: further files with their text; `hex:` begins bytes.
- `metadata`: lines of a metadata log (see `_metadata_records`).
- `mtimes`: the modification time of files, T where none is given.
- `damage`: lines of FILE VERB ARGUMENTS, done last (see `_damage`).

Names of segment files are short: `5.log` is 00000000000000000005.log.
"""

from __future__ import annotations

import os
import re
import struct
from urllib.parse import unquote_to_bytes

from tests.support import metadata_logs
from tests.support.logs import (
    BASE_TIME_MS,
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    R,
    aborted_txns,
    batch_v2,
    end_marker,
    message,
    message_set,
    producer_snapshot,
    write_segment,
)

CODECS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
TIME = re.compile(r"\bT([+-]\d+)?\b")
SHORT_NAME = re.compile(r"(^|/)(\d{1,19})(?=\.)")
LONG_NAME = re.compile(r"\b0{1,19}(\d+)(?=\.[a-z])")


def milliseconds(text):
    """A time: a number, or T with what is added to BASE_TIME_MS."""
    return int(TIME.sub(lambda found: str(BASE_TIME_MS + int(found[1] or 0)), text))


def with_times(value):
    """A value of a case with numbers in the place of times such as T+10, and None in that of "null", which TOML has not."""
    if isinstance(value, str) and value == "null":
        return None
    if isinstance(value, str):
        return milliseconds(value) if TIME.fullmatch(value) else value
    if isinstance(value, list):
        return [with_times(item) for item in value]
    return {name: with_times(item) for name, item in value.items()} if isinstance(value, dict) else value


def long_name(path):
    return SHORT_NAME.sub(lambda found: f"{found[1]}{int(found[2]):020d}", path)


def short_names(text):
    return LONG_NAME.sub(r"\1", text)


def batch_of(text):
    """(bytes, last offset, largest timestamp) of a batch."""
    place, *options = text.split(":")
    offsets, _, time = place.partition("@")
    numbers = []
    for part in offsets.split(","):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    times = [milliseconds(one) for one in time.split(",")]
    times += times[-1:] * (len(numbers) - len(times))
    given = dict(option.partition("=")[::2] for option in options)
    key, value = (None if given.get(name) == "null" else unquote_to_bytes(given[name]) if name in given else default
                  for name, default in (("k", None), ("v", b"v")))  # fmt: skip
    keys = given["keys"].encode().split(b",") if "keys" in given else [key] * len(numbers)
    records = [R(offset, at, one, value) for offset, at, one in zip(numbers, times, keys, strict=True)]
    codec = next((number for name, number in CODECS.items() if name in given), 0)
    if "v0" in given or "v1" in given:
        magic = int("v1" in given)
        data = message_set(records, magic, codec) if codec else b"".join(message(one, magic) for one in records)
    elif "commit" in given or "abort" in given:
        data = end_marker(numbers[0], times[0], _numbers(given["p"])[:2], int("commit" in given))
    else:
        fields = {name: int(given[name]) for name in ("base", "last", "epoch") if name in given}
        fields |= {name: milliseconds(given[short]) for short, name in (("max", "max_timestamp"), ("horizon", "horizon"))
                   if short in given}  # fmt: skip
        if "p" in given:
            producer = _numbers(given["p"])
            fields["producer"] = (*producer, *(0,) * (3 - len(producer)))
        bits = (
            TRANSACTIONAL * ("txn" in given)
            | LOG_APPEND_TIME * ("append-time" in given)
            | CONTROL * ("control" in given)
        )
        if "empty" in given:
            fields |= {"base": numbers[0], "last": numbers[-1]}
        data = batch_v2([] if "empty" in given else records, codec, bits=bits, **fields)
    if "bad-crc" in given:
        data = data[:-1] + bytes((data[-1] ^ 1,))
    return data, int(given.get("last", numbers[-1])), milliseconds(given["max"]) if "max" in given else max(times)


def _numbers(text):
    return [int(number) for number in text.split("/")]


def write_log(log, root):
    """Write the log directory of a specification."""
    root.mkdir()
    for name, segments in log.get("partitions", {"t-0": log.get("segments", [])}).items():
        folder = root / name
        folder.mkdir(parents=True)
        for segment in segments:
            base, batches = segment.split(":", 1) if re.match(r"\d+: ?", segment) else (segment, "")
            write_segment(folder, int(base), [batch_of(one) for one in batches.split()], log.get("interval", 4096))
        if log.get("state"):
            first, *others = [int(segment.partition(":")[0]) for segment in segments]
            (folder / "leader-epoch-checkpoint").write_text(f"0\n1\n0 {first}\n")
            for base in others:
                (folder / f"{base:020d}.snapshot").write_bytes(producer_snapshot([]))
    for name, lines in log.get("checkpoints", {}).items():
        lines = lines if isinstance(lines, dict) else {"t-0": lines}
        text = "".join(f"{' '.join(partition.rsplit('-', 1))} {offset}\n" for partition, offset in lines.items())
        (root / f"{name}-checkpoint").write_text(f"0\n{len(lines)}\n{text}")
    for name, text in log.get("files", {}).items():
        path = root / long_name(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_content(text))
    if "metadata" in log:
        folder = root / "__cluster_metadata-0"
        folder.mkdir()
        records = [record for line in log["metadata"] for record in _metadata_records(line.split())]
        (folder / f"{0:020d}.log").write_bytes(metadata_logs.batches([records])[0])
    for line in log.get("damage", ()):
        name, verb, *arguments = line.split()
        _damage(root / long_name(name), verb, arguments)
    times = {long_name(name): milliseconds(time) for name, time in log.get("mtimes", {}).items()}
    for path in root.rglob("*"):
        os.utime(path, ns=(times.get(str(path.relative_to(root)), BASE_TIME_MS) * 10**6,) * 2)


def _metadata_records(words):
    """`topic NAME ID REPLICAS` with one partition or a number behind, or `config KIND NAME KEY VALUE`; KIND is 2 for a topic, 4 for a broker."""
    if words[0] == "topic":
        topic_id = metadata_logs.topic_id(int(words[2]))
        yield metadata_logs.value("TopicRecord", name=words[1], topicId=topic_id)
        for number in range(int(words[4]) if len(words) > 4 else 1):
            yield metadata_logs.partition(topic_id, number, replicas=[int(one) for one in words[3].split(",")])
    else:
        _, kind, name, key, value = words
        fields = {"resourceType": int(kind), "resourceName": name.strip("-"), "name": key, "value": value}
        yield metadata_logs.value("ConfigRecord", **fields)


def _content(text):
    """Bytes of a file: a text, hex digits, or numbers of the entries of an index, a transaction index or a producer snapshot."""
    kind, _, rest = text.partition(":")
    if kind == "hex":
        return bytes.fromhex(rest)
    if kind not in ("index", "timeindex", "txnindex", "snapshot"):
        return text.encode()
    entries = [[milliseconds(number) for number in entry.split()] for entry in rest.split(";") if entry.strip()]
    if kind == "index":
        return b"".join(struct.pack(">ii", *entry) for entry in entries)
    if kind == "timeindex":
        return b"".join(struct.pack(">qi", *entry) for entry in entries)
    if kind == "txnindex":
        return aborted_txns(entries)
    return producer_snapshot(entries)


def _damage(path, verb, arguments):
    """`delete`, `cut N` bytes off, `size N` with zeros behind, `append HEX`, `put` and `insert POSITION HEX`, `touch` an empty file."""
    if verb == "delete":
        path.unlink()
        return
    data = path.read_bytes() if path.exists() else b""
    if verb == "cut":
        data = data[: len(data) - int(arguments[0])]
    elif verb == "size":
        data = data[: int(arguments[0])].ljust(int(arguments[0]), b"\0")
    elif verb == "append":
        data += bytes.fromhex(arguments[0])
    elif verb == "insert":
        position = int(arguments[0])
        data = data[:position] + bytes.fromhex(arguments[1]) + data[position:]
    elif verb == "put":
        position, new = int(arguments[0]), bytes.fromhex(arguments[1])
        position += len(data) if position < 0 else 0
        data = data[:position] + new + data[position + len(new) :]
    else:
        assert verb == "touch", verb
    path.write_bytes(data)
