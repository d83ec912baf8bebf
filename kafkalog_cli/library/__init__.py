"""The library behind `import kafkalog_cli as kl`: log directories, partitions, records and batches as Arrow.

The files are:

- `logs.py`: LogDirectory and PartitionLog, which read a partition and have the verbs as methods, and the functions that
  open them.
- `verbs.py`: verify, cluster, doctor, groups and other commands that only read, as functions.
- `reading.py`: find, stats, replay, and serve, a read-only broker that runs during a `with` block.
- `queries.py`: sql, which gives the rows of a query.
- `appending.py`: PartitionLog.append, with the plan, locks, refusals and journal of `kafkalog append`.

The verbs that change logs (recover, retain, compact, …) are those of `ops`, which the command line calls, too.
A verb returns its results as values and never prints. Only `append` and the verbs that change logs take locks.
"""

from kafkalog_cli.errors import DamagedLog
from kafkalog_cli.library.appending import Appended
from kafkalog_cli.library.logs import LogDirectory, Offsets, PartitionLog, new_partition, open_partition
from kafkalog_cli.library.logs import open_logs as open  # noqa: A004
from kafkalog_cli.library.queries import sql
from kafkalog_cli.library.reading import FoundRecord, LogServer, find, replay, serve, stats
from kafkalog_cli.library.verbs import cluster, doctor, group_history, groups, metadump, transactions, verify
from kafkalog_cli.log.reading.record_arrow import record_schema
from kafkalog_cli.ops.call.call import Run
from kafkalog_cli.ops.change.compact.verb import compact
from kafkalog_cli.ops.change.delete_records import delete_records
from kafkalog_cli.ops.change.purge import purge
from kafkalog_cli.ops.change.retain.retain import retain
from kafkalog_cli.ops.change.roll import roll
from kafkalog_cli.ops.change.truncate import truncate
from kafkalog_cli.ops.change.undo.verb import undo
from kafkalog_cli.ops.check.recover.recover import recover
from kafkalog_cli.ops.log_warning import LogWarning
from kafkalog_cli.ops.look.inspect import inspect

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
    "sql",
    "stats",
    "transactions",
    "truncate",
    "undo",
    "verify",
]
