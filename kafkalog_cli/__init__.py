"""kafkalog: fsck, dump, retention, compaction and analytics for Apache Kafka log directories.

As a library: `import kafkalog_cli as kl`; docs/library.md shows it.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False
"""True to type checkers, which know the name; `typing` would take longer to import than `--version` takes."""

if TYPE_CHECKING:
    from kafkalog_cli.library import Appended as Appended
    from kafkalog_cli.library import DamagedLog as DamagedLog
    from kafkalog_cli.library import LogDirectory as LogDirectory
    from kafkalog_cli.library import LogWarning as LogWarning
    from kafkalog_cli.library import Offsets as Offsets
    from kafkalog_cli.library import PartitionLog as PartitionLog
    from kafkalog_cli.library import new_partition as new_partition
    from kafkalog_cli.library import open as open  # noqa: A004
    from kafkalog_cli.library import open_partition as open_partition
    from kafkalog_cli.library import record_schema as record_schema


_LIBRARY = (
    "Appended",
    "DamagedLog",
    "LogDirectory",
    "LogWarning",
    "Offsets",
    "PartitionLog",
    "new_partition",
    "open",
    "open_partition",
    "record_schema",
)


def __getattr__(name: str) -> object:
    """What the library has, imported when it is asked for: the command starts without it."""
    if name not in _LIBRARY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module("kafkalog_cli.library"), name)
