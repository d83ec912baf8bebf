"""kafkalog: fsck, dump, retention, compaction and analytics for Apache Kafka log directories.

As a library: `import kafkalog_cli as kl`; docs/library.md shows it.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False
"""True to type checkers, which know the name; `typing` would take longer to import than `--version` takes."""

if TYPE_CHECKING:
    from kafkalog_cli.library import Appended as Appended
    from kafkalog_cli.library import DamagedLog as DamagedLog
    from kafkalog_cli.library import FoundRecord as FoundRecord
    from kafkalog_cli.library import LogDirectory as LogDirectory
    from kafkalog_cli.library import LogServer as LogServer
    from kafkalog_cli.library import LogWarning as LogWarning
    from kafkalog_cli.library import Offsets as Offsets
    from kafkalog_cli.library import PartitionLog as PartitionLog
    from kafkalog_cli.library import Run as Run
    from kafkalog_cli.library import cluster as cluster
    from kafkalog_cli.library import compact as compact
    from kafkalog_cli.library import delete_records as delete_records
    from kafkalog_cli.library import doctor as doctor
    from kafkalog_cli.library import find as find
    from kafkalog_cli.library import group_history as group_history
    from kafkalog_cli.library import groups as groups
    from kafkalog_cli.library import inspect as inspect
    from kafkalog_cli.library import metadump as metadump
    from kafkalog_cli.library import new_partition as new_partition
    from kafkalog_cli.library import open as open  # noqa: A004
    from kafkalog_cli.library import open_partition as open_partition
    from kafkalog_cli.library import purge as purge
    from kafkalog_cli.library import record_schema as record_schema
    from kafkalog_cli.library import recover as recover
    from kafkalog_cli.library import replay as replay
    from kafkalog_cli.library import retain as retain
    from kafkalog_cli.library import roll as roll
    from kafkalog_cli.library import serve as serve
    from kafkalog_cli.library import stats as stats
    from kafkalog_cli.library import transactions as transactions
    from kafkalog_cli.library import truncate as truncate
    from kafkalog_cli.library import undo as undo
    from kafkalog_cli.library import verify as verify


_LIBRARY = (
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
)


def __dir__() -> list[str]:
    """The names of the library, too, which are imported when they are first used."""
    return sorted({*globals(), *_LIBRARY})


def __getattr__(name: str) -> object:
    """Import a name of the library when it is first used: the command line starts without the library."""
    if name not in _LIBRARY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module("kafkalog_cli.library"), name)
