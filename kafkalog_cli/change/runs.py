"""A partition's runs on the disk: their names, their directories in `.kafkalog`, and entries that are of no run."""

import re
from collections import deque
from collections.abc import Iterable
from contextlib import suppress

from kafkalog_cli.disk.fs import FileStatus, Filesystem
from kafkalog_cli.disk.names import OWN_DIRECTORY
from kafkalog_cli.errors import PathNotFound

MANIFEST = "manifest.json"
"""The file in a run's directory that describes the run."""

_RECENT_NAMES: deque[str] = deque(maxlen=1024)
_MOST_TRIES = 100
"""The names that are tried: a hundred in a row that were all given before show that nothing is random here."""
_RUN_ID = re.compile(r"\d{8}T\d{6}(\.\d{3})?Z-[a-z][a-z-]*-[0-9a-z]+")


_LAST_MS = 253_402_300_799_999
"""The end of the year 9999: a later time gets this name."""


def new_run_id(action: str, now_ms: int) -> str:
    """Return a name for a run: its time, its action and a random suffix, so that names sort by time and are unique.

    A process gets no recent name again, even from a clock that stands still.
    """
    from datetime import datetime, timezone
    from secrets import token_hex

    seconds, milliseconds = divmod(min(now_ms, _LAST_MS), 1000)
    time = f"{datetime.fromtimestamp(seconds, timezone.utc):%Y%m%dT%H%M%S}.{milliseconds:03d}Z"
    for _ in range(_MOST_TRIES):
        name = f"{time}-{action}-{token_hex(2)}"
        if name not in _RECENT_NAMES:
            break
    _RECENT_NAMES.append(name)
    return name


def begun_ms(run_id: str) -> int:
    """Return the time in a run's name, by the host's clock even with `--now`; 0 if the name has no time."""
    from datetime import datetime, timedelta, timezone

    try:
        time = datetime.strptime(f"{run_id.partition('Z-')[0]}+0000", "%Y%m%dT%H%M%S.%f%z")
    except ValueError:
        return 0
    return (time - datetime.fromtimestamp(0, timezone.utc)) // timedelta(milliseconds=1)


def is_run_id(name: str) -> bool:
    """Whether the name has the form of a run id, which no other program gives to its directories."""
    return _RUN_ID.fullmatch(name) is not None


def runs_directory(directory: str) -> str:
    """Return the directory that contains a partition's runs."""
    return f"{directory.rstrip('/')}/{OWN_DIRECTORY}"


def run_directory(directory: str, run_id: str) -> str:
    """Return the directory of a run, which contains its manifest and the kept files."""
    return f"{runs_directory(directory)}/{run_id}"


def run_ids(fs: Filesystem, directory: str) -> list[str]:
    """Return the ids of a partition's runs, sorted by name. Ids from `new_run_id` are then in the order of time."""
    runs = runs_directory(directory)
    found = fs.status(runs)
    if found is None or found.is_symlink or not found.is_directory:
        return []
    entries = [entry for entry in fs.list_directory(runs) if entry.is_directory and not entry.is_symlink]
    return [entry.path.rpartition("/")[2] for entry in entries]


def odd_entries(fs: Filesystem, directory: str, listed: Iterable[FileStatus] | None = None) -> list[tuple[str, str]]:
    """Return the path and a description of each entry in a partition's `.kafkalog` that no run makes, such as a link.

    Every command leaves these entries alone. `listed`: the partition's entries, if they are known. Raises Unreadable.
    """
    runs = runs_directory(directory)
    found = fs.status(runs) if listed is None else next((entry for entry in listed if entry.path == runs), None)
    if found is None:
        return []
    if found.is_symlink or not found.is_directory:
        return [(runs, _what(found))]
    odd = []
    for entry in fs.list_directory(runs):
        if entry.is_directory and not entry.is_symlink:
            with suppress(PathNotFound):  # a run that another command removes meanwhile
                odd += [(kept.path, _what(kept)) for kept in fs.list_directory(entry.path) if not _is_regular(kept)]
            if not is_run_id(entry.path.rpartition("/")[2]) and fs.status(f"{entry.path}/{MANIFEST}") is None:
                odd.append((entry.path, "a directory of no run"))
        elif not _is_regular(entry) or not (entry.path == f"{runs}/lock" or entry.path.endswith(".tmp")):
            odd.append((entry.path, _what(entry)))
    return odd


def _is_regular(status: FileStatus) -> bool:
    return status.is_file and not status.is_symlink


def _what(status: FileStatus) -> str:
    if status.is_symlink:
        return "a symbolic link"
    return "a directory" if status.is_directory else "a file" if status.is_file else "no regular file"
