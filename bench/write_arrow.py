"""Writes the records of a partition into an Arrow IPC file, or a Parquet file."""

import sys

import pyarrow as pa
import pyarrow.parquet as pq

import kafkalog_cli as kl

COLUMNS = ["timestamp", "key", "value", "headers"]


def write(partition: str, target: str) -> int:
    """How many records there are."""
    count, schema = 0, kl.record_schema(COLUMNS)
    writer = pq.ParquetWriter if target.endswith(".parquet") else pa.ipc.new_file
    with pa.OSFile(target, "wb") as out, writer(out, schema) as parts:
        for part in kl.open_partition(partition).records(columns=COLUMNS):
            parts.write_batch(part)
            count += part.num_rows
    return count


print(write(sys.argv[1], sys.argv[2]))
