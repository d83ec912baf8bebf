"""What a run commits: which files it made and what they hold, in a small JSON file that is replaced at once."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafkalog_cli.errors import UnsupportedFormat
from kafkalog_cli.storage.fs import Filesystem, read_all

VERSION = 1
_MOST_BYTES = 1 << 30
_MOST_NAMES = 64


class ComingFile(NamedTuple):
    """A file that is complete in the staging directory under the name `staged`; `path` is its place in the output.

    `facts` are what the caller wants to know of it when it is in its place.
    """

    staged: str
    path: str
    facts: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """`output` is the directory, `what` how its files are made, `state` what is in them: both are the caller's.

    `coming` are files of `run` that may not be in their places yet.
    """

    output: str
    run: str
    what: dict[str, Any]
    state: dict[str, Any]
    coming: tuple[ComingFile, ...] = field(default=())


def read_record(fs: Filesystem, path: str) -> Record | None:
    """The record in a file, None if there is no such file. Raises UnsupportedFormat, Unreadable, OSError."""
    if fs.status(path) is None:
        return None
    try:
        found = json.loads(read_all(fs, path, _MOST_BYTES))
        if found["version"] != VERSION:
            raise ValueError(f"its version is {found['version']}, not {VERSION}")
        coming = tuple(
            ComingFile(str(one["staged"]), str(one["path"]), one.get("facts") and dict(one["facts"]))
            for one in found["coming"]
        )
        what, state, run = dict(found["what"]), dict(found["state"]), str(found["run"])
        for name in (run, *(one.staged for one in coming)):
            _check_below(name, most_names=1)
        for one in coming:
            _check_below(one.path)
        return Record(str(found["output"]), run, what, state, coming)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"it is not what an earlier run wrote, so where that ended is not known: {error}"
        raise UnsupportedFormat(path=path, reason=reason) from error


def _check_below(path: str, most_names: int = _MOST_NAMES) -> None:
    """Files are moved and removed by these names, and anybody may have written them. Raises ValueError."""
    names = path.split("/")
    if len(names) > most_names or any(name in {"", ".", ".."} or "\0" in name for name in names):
        raise ValueError(f"{path!r} is not the name of a file below it")


def record_bytes(record: Record) -> bytes:
    """What `read_record` takes."""
    fields = {
        "version": VERSION,
        "output": record.output,
        "run": record.run,
        "what": record.what,
        "state": record.state,
        "coming": [one._asdict() for one in record.coming],
    }
    return (json.dumps(fields, indent=1) + "\n").encode()
