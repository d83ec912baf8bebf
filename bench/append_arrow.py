"""Appends what is in an Arrow IPC file to a partition with the library, part by part."""

import sys
import warnings

import pyarrow as pa

import kafkalog_cli as kl


def append(source: str, partition: str) -> int:
    """How many records that were."""
    with pa.OSFile(source) as file, pa.ipc.open_file(file) as parts:
        found = (parts.get_batch(at) for at in range(parts.num_record_batches))
        options = {"segment.ms": 2**62}
        return kl.open_partition(partition).append(found, single_replica=True, config=options).records


warnings.simplefilter("ignore", kl.LogWarning)
print(append(sys.argv[1], sys.argv[2]))
