"""kafkalog: fsck, dump, retention, compaction and analytics for Apache Kafka log directories.

As a library: `import kafkalog_cli as kl`; docs/library.md shows it.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False
"""True to type checkers, which know the name; `typing` would take longer to import than `--version` takes."""

if TYPE_CHECKING:
    from kafkalog_cli.library import *  # noqa: F403


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
    "sql",
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
