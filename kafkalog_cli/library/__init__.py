"""The library behind `import kafkalog_cli as kl`: log directories, partitions, records and batches as Arrow."""

from kafkalog_cli.library.logs import (
    DamagedLog,
    LogDirectory,
    LogWarning,
    Offsets,
    PartitionLog,
    open,  # noqa: A004
    open_partition,
    record_schema,
)

__all__ = [
    "DamagedLog",
    "LogDirectory",
    "LogWarning",
    "Offsets",
    "PartitionLog",
    "open",
    "open_partition",
    "record_schema",
]
