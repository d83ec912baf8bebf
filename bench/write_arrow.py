"""Writes the records of a partition into an Arrow IPC file."""

import sys

import pyarrow as pa

import kafkalog_cli as kl

COLUMNS = ["timestamp", "key", "value", "headers"]


def write(partition: str, target: str) -> int:
    """How many records there are."""
    count = 0
    with pa.OSFile(target, "wb") as out, pa.ipc.new_file(out, kl.record_schema(COLUMNS)) as parts:
        for part in kl.open_partition(partition).records(columns=COLUMNS):
            parts.write_batch(part)
            count += part.num_rows
    return count


print(write(sys.argv[1], sys.argv[2]))
