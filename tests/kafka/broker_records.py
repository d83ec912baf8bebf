"""The records of partitions as lines of text, as our reader sees them and as a broker serves them."""

import base64
from typing import NamedTuple

from tests.support.commands import json_of


class Lines(NamedTuple):
    """Offset, timestamp, key, value and headers in hex, for each record that a consumer sees with that isolation."""

    uncommitted: list
    committed: list

    def without(self, offsets):
        """The same without the records of `offsets`."""
        return Lines(*([line for line in lines if offset_of(line) not in offsets] for lines in self))

    def up_to(self, end_offset):
        """The records below `end_offset`."""
        return Lines(*([line for line in lines if offset_of(line) < end_offset] for lines in self))


def offset_of(line):
    return int(line.split("\t")[0])


def our_lines(directory):
    """What `dump-log` sees of a partition, and what of it is committed, by its control records."""
    code, objects, errors = json_of("dump-log", "--strict", directory)
    assert (code, errors) == (0, [])
    records = [one for one in objects if one["type"] == "record"]
    hidden = uncommitted_offsets(records)
    data = [record for record in records if record["control"] is None]
    return Lines([line_of(one) for one in data], [line_of(one) for one in data if one["offset"] not in hidden])


def uncommitted_offsets(records):
    """Offsets that read_committed does not show: of aborted transactions, and all from the first open one on."""
    ongoing, hidden = {}, set()
    for record in records:
        producer = record["producer_id"]
        if record["control"] is not None:
            offsets = ongoing.pop(producer, [])
            if record["control"]["type"] == "ABORT":
                hidden.update(offsets)
        elif record["transactional"]:
            ongoing.setdefault(producer, []).append(record["offset"])
    stable_end = min((offsets[0] for offsets in ongoing.values()), default=None)
    if stable_end is not None:
        hidden.update(record["offset"] for record in records if record["offset"] >= stable_end)
    return hidden


def line_of(record):
    headers = " ".join(f"{bytes_of(header['key']).decode()}={hex_of(header['value'])}" for header in record["headers"])
    timestamp = -1 if record["timestamp_ms"] is None else record["timestamp_ms"]  # as consumers have it
    fields = record["offset"], timestamp, hex_of(record["key"]), hex_of(record["value"]), headers
    return "\t".join(map(str, fields))


def hex_of(field):
    return "-" if field is None else bytes_of(field).hex()


def bytes_of(field):
    return field["data"].encode() if field["encoding"] == "utf-8" else base64.b64decode(field["data"])


def served_lines(client, topics, folder):
    """topic: what a broker serves of its partition 0."""
    isolations = "read_uncommitted", "read_committed"
    for isolation in isolations:
        client.do("consume", folder, isolation, *topics)
    return {
        topic: Lines(*((folder / f"{topic}.{isolation}").read_text().split("\n")[:-1] for isolation in isolations))
        for topic in topics
    }
