"""The user's directory for what takes long to make: the archive of Spark's classes."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from kafkalog_cli import __version__

if TYPE_CHECKING:
    from pathlib import Path


def cache_directory() -> Path | None:
    """Return the directory: $KAFKALOG_CACHE_DIR, or the user's cache. None if neither can be used.

    The user's cache is used only if it belongs to this user and nobody else can write to it: its files are executed.
    A relative path is none: without HOME and without a passwd entry it would be `~` in the working directory. A cache
    in a log directory, such as the home directory of the broker's user, would keep a broker from starting.
    """
    from pathlib import Path  # its import takes a tenth of the time of a small dump

    named = os.environ.get("KAFKALOG_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111  (never raises)
    directory = Path(named or f"{base}/kafkalog/{__version__}")
    try:
        if not directory.is_absolute() or any((above / "meta.properties").exists() for above in directory.parents):
            return None
        if named:
            return directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
    except OSError:
        return None
    is_usable = status.st_uid == os.getuid() and is_trusted(status) and os.access(directory, os.W_OK)
    return directory if is_usable else None


def trusted_cache_directory() -> Path | None:
    """Return the directory; None if there is none, or another user can change its files.

    It belongs to this user, or to root where $KAFKALOG_CACHE_DIR names a directory for all users.
    """
    directory = cache_directory()
    try:
        return directory if directory is not None and is_trusted(directory.stat()) else None
    except OSError:
        return None


def is_trusted(status: os.stat_result) -> bool:
    """Whether a file or directory belongs to this user or to root, and nobody else can write to it."""
    is_writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid in (0, os.getuid()) and not is_writable
