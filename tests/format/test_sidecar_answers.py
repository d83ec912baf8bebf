"""Damaged sidecar files: our decoders against the answers of Kafka's own classes (fixtures/sidecars/README.md)."""

import json
import struct
from pathlib import Path

import pytest

from kafkalog_cli.format import (
    checkpoint,
    index,
    json_files,
    meta_properties,
    partition_metadata,
    producer_snapshot,
    txnindex,
)
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.java_text import parse_properties

FIXTURES = Path(__file__).parents[1] / "fixtures" / "sidecars"
ANSWERS = [json.loads(line) for line in (FIXTURES / "answers.jsonl").read_text().splitlines()]


def optional(value, kind="OptionalLong"):
    return f"{kind}.empty" if value is None else f"{kind}[{value}]"


def colons(pairs):
    return "".join(f" {first}:{second}" for first, second in pairs)


def answer_idx(data, base, *targets):
    entries = index.OffsetIndex(data, int(base))
    lookups = colons(entries.lookup(int(target)) for target in targets)
    sanity = entries.sanity_message("$D/x.index") or "-"
    return f"{len(entries)} {entries.last_entry.offset}{colons(list(entries)[:50])} |{lookups} | {sanity}"


def answer_tidx(data, base, *targets):
    entries = index.TimeIndex(data, int(base))
    lookups = colons(entries.lookup(int(target)) for target in targets)
    sanity = entries.sanity_message("$D/x.timeindex") or "-"
    return f"{len(entries)}{colons([entries.last_entry, *list(entries)[:50]])} |{lookups} | {sanity}"


def answer_txn(data, base):
    entries, faults = txnindex.decode(data, int(base), is_version_a_byte=True)  # the answers are those of 4.2.0
    path = "$D/x.txnindex"
    unknown = [fault.got for fault in faults if fault.kind is FaultKind.INVALID_VERSION]
    refusal = unknown and (
        f"Unexpected aborted transaction version {unknown[0]} in transaction index {path}, current version is 0"
    )
    below = (txn_text(entry) for entry in entries if entry.last_offset < int(base))
    problems = (
        f"Last offset of aborted transaction {text} in index {path} is less than start offset {base}" for text in below
    )
    return f"{refusal or ';'.join(map(txn_text, entries))} | {next(problems, refusal or '-')}"


def txn_text(entry):
    version, producer_id, first, last, stable = entry
    return f"AbortedTxn(version={version}, producerId={producer_id}, firstOffset={first}, lastOffset={last}, lastStableOffset={stable})"


def answer_psnap(data):
    entries, faults = producer_snapshot.decode(data)
    if faults and faults[0].kind is not FaultKind.TRAILING_BYTES:
        return f"! {faults[0].message}"
    return ";".join(map(producer_text, entries))


def producer_text(entry):
    batch = (entry.first_sequence, entry.last_sequence, entry.first_offset, entry.last_offset, entry.offset_delta)
    words = (entry.producer_id, entry.producer_epoch, entry.coordinator_epoch, optional(entry.open_txn_first_offset))
    tail = (*batch, entry.timestamp) if entry.has_batch else ("-",)
    return " ".join(map(str, (*words, entry.timestamp, *tail)))


def answer_offsets(data):
    entries, faults = checkpoint.decode_offsets(data)
    last = {(topic, partition): offset for topic, partition, offset in entries}
    return None if faults else ";".join(sorted(f"{topic} {part} {offset}" for (topic, part), offset in last.items()))


def answer_epochs(data):
    entries, faults = checkpoint.decode_leader_epochs(data)
    return None if faults else ";".join(f"{epoch} {start}" for epoch, start in entries)


def answer_props(data):
    try:
        return "\x02".join(f"{key}\x01{value}" for key, value in sorted(parse_properties(data).items()))
    except ValueError:
        return None


def answer_meta(data):
    meta, faults = meta_properties.decode(data)
    accepted = ("cluster.id is not one that Kafka generates", "directory.id is reserved")
    if [fault for fault in faults if fault.message not in accepted]:
        return None
    optionals = (optional(meta.cluster_id, "Optional"), optional(meta.node_id, "OptionalInt"))
    return " ".join([str(meta.version), *optionals, optional(meta.directory_id, "Optional")])


def answer_pm(data):
    metadata, faults = partition_metadata.decode(data)
    return None if faults else f"{metadata.version} {metadata.topic_id}"


def answer_cs(data):
    content, _ = json_files.decode_clean_shutdown(data)
    return optional(content.broker_epoch if content else None)


def answer_qs(data):
    state, faults = json_files.decode_quorum_state(data)
    if faults:
        return None
    return f"{state.leader_epoch} {optional(None if state.leader_id == -1 else state.leader_id, 'OptionalInt')}"


OPERATIONS = {name.removeprefix("answer_"): function for name, function in globals().items() if name[:7] == "answer_"}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_damaged_files_read_as_kafka_reads_them(operation):
    rows = [row for row in ANSWERS if row[0] == operation]
    assert len(rows) >= 12
    for _, data, *arguments, expected in rows:
        answer = OPERATIONS[operation](bytes.fromhex(data), *arguments)
        if operation == "qs" and expected:
            assert expected.startswith(f"{answer} "), data  # the vote, which follows, is not compared
        else:
            assert answer == expected, data


def shuffled_index(operation, zero_entries):
    pairs = [((i * 7919) % 3001 - 20, i * 50) for i in range(1500)]
    code = ">ii" if operation == "formula_idx" else ">qi"
    return b"".join(struct.pack(code, *pair) for pair in pairs) + bytes(struct.calcsize(code) * zero_entries)


@pytest.mark.parametrize("row", [row for row in ANSWERS if row[0].startswith("formula")], ids=lambda row: str(row[:2]))
def test_lookups_in_a_large_unsorted_index_take_the_steps_of_kafka(row):
    operation, zero_entries, targets, expected = row
    data = shuffled_index(operation, zero_entries)
    if operation == "formula_idx":
        found = [index.OffsetIndex(data, 1000).lookup(target + 1000) for target in targets]
    else:
        found = [index.TimeIndex(data, 1000).lookup(target) for target in targets]
    assert [f"{first}:{second}" for first, second in found] == expected
