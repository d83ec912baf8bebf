"""The library behind `import kafkalog_cli as kl`: log directories, partitions, records and batches as Arrow."""

from kafkalog_cli.errors import DamagedLog
from kafkalog_cli.library.logs import LogDirectory, LogWarning, Offsets, PartitionLog, open_partition
from kafkalog_cli.library.logs import open_logs as open  # noqa: A004
from kafkalog_cli.storage.record_arrow import record_schema

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
