"""Which log directories and logs a running broker has open, by the lock that it holds."""

import os

from kafkalog_cli.disk.posix_lock import lock_owner

LOG_SUFFIX = ".log"


def is_broker_running(log_dir: str) -> bool:
    """Whether a broker holds the lock of a log directory; False if that is not known."""
    try:
        owner = lock_owner(log_dir)
    except OSError:
        return False
    return owner is not None and owner.is_exclusive


def is_of_running_broker(path: str) -> bool:
    """Whether a file is in a partition's directory of a log directory that a running broker has locked."""
    return is_broker_running(parent_directory(os.path.dirname(path)))  # noqa: PTH120


def is_newest_log(path: str) -> bool:
    """Whether a log file is that of the last segment in its directory, the active segment; False if that is not known.

    Names of log files are offsets of equal length.
    """
    directory, _, name = path.rpartition("/")
    try:
        return name == newest_log(directory or ".")
    except OSError:
        return False


def newest_log(directory: str) -> str:
    """Return the name of the log file with the largest base offset; "" if there is none. Raises OSError."""
    return max((name for name in os.listdir(directory) if name.endswith(LOG_SUFFIX)), default="")  # noqa: PTH208


def parent_directory(directory: str) -> str:
    """Return the directory that contains a directory. Links are not followed."""
    return os.path.dirname(os.path.abspath(directory or "."))  # noqa: PTH100, PTH120


class ClosedSegments:
    """The logs of closed segments of a running broker. Each directory is looked at only once."""

    def __init__(self) -> None:
        self._live: dict[str, bool] = {}
        self._newest: dict[str, str] = {}

    def contain(self, path: str) -> bool:
        """Whether the file at `path` is one of them."""
        if not path.endswith(LOG_SUFFIX):
            return False
        directory, _, name = path.rpartition("/")
        parent = parent_directory(directory)
        if parent not in self._live:
            self._live[parent] = is_broker_running(parent)
        if self._live[parent] and directory not in self._newest:
            try:
                self._newest[directory] = newest_log(directory or ".")
            except OSError:
                return False
        return self._live[parent] and name < self._newest[directory]
