"""The library behind `import kafkalog_cli as kl`: log directories, partitions, records and batches as Arrow.

The files are:

- `logs.py`: LogDirectory and PartitionLog, which read a partition and have the verbs as methods, and the functions that
  open them.
- `verbs.py`: the verbs of the command line (verify, recover, retain, compact, …) as functions that return a `Run`.
- `reading.py`: find, stats, inspect, replay, and serve, a read-only broker that runs during a `with` block.
- `appending.py`: PartitionLog.append, with the plan, locks, refusals and journal of `kafkalog append`.
- `times.py`: times as programs give them.
- `warning.py`: LogWarning, the library's only warning.

A verb returns its results as values and never prints. Only `append` and the verbs that change logs take locks.
"""

from kafkalog_cli.errors import DamagedLog
from kafkalog_cli.library.appending import Appended
from kafkalog_cli.library.logs import LogDirectory, Offsets, PartitionLog, new_partition, open_partition
from kafkalog_cli.library.logs import open_logs as open  # noqa: A004
from kafkalog_cli.library.reading import FoundRecord, LogServer, find, inspect, replay, serve, stats
from kafkalog_cli.library.verbs import (
    Run,
    cluster,
    compact,
    delete_records,
    doctor,
    group_history,
    groups,
    metadump,
    purge,
    recover,
    retain,
    roll,
    transactions,
    truncate,
    undo,
    verify,
)
from kafkalog_cli.library.warning import LogWarning
from kafkalog_cli.log.reading.record_arrow import record_schema

__all__ = [
    "Appended",
    "DamagedLog",
    "FoundRecord",
    "LogDirectory",
    "LogServer",
    "LogWarning",
    "Offsets",
    "PartitionLog",
    "Run",
    "cluster",
    "compact",
    "delete_records",
    "doctor",
    "find",
    "group_history",
    "groups",
    "inspect",
    "metadump",
    "new_partition",
    "open",
    "open_partition",
    "purge",
    "record_schema",
    "recover",
    "replay",
    "retain",
    "roll",
    "serve",
    "stats",
    "transactions",
    "truncate",
    "undo",
    "verify",
]
