"""The record that commits a run: its files and their contents, in a small JSON file that is replaced in one step."""

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
    """A complete file in the staging directory, under the name `staged`; `path` is its place in the output.

    `facts` is the caller's data about the file, for use when the file is in its place.
    """

    staged: str
    path: str
    facts: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The record of a committed run.

    `output` is the directory. `what` says how its files are made, and `state` what they contain; both are data of the
    caller. `coming` lists the files of `run` that may not be in their places yet.
    """

    output: str
    run: str
    what: dict[str, Any]
    state: dict[str, Any]
    coming: tuple[ComingFile, ...] = field(default=())


def read_record(fs: Filesystem, path: str) -> RunRecord | None:
    """Read the record in a file, None if the file does not exist. Raises UnsupportedFormat, Unreadable, OSError."""
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
        return RunRecord(str(found["output"]), run, what, state, coming)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"it is not what an earlier run wrote, so where that ended is not known: {error}"
        raise UnsupportedFormat(path=path, reason=reason) from error


def _check_below(path: str, most_names: int = _MOST_NAMES) -> None:
    """Raise ValueError unless `path` is a relative path of at most `most_names` names that stays in its directory.

    The names in a record are not trusted, and files are moved and removed by them.
    """
    names = path.split("/")
    if len(names) > most_names or any(name in {"", ".", ".."} or "\0" in name for name in names):
        raise ValueError(f"{path!r} is not the name of a file below it")


def record_bytes(record: RunRecord) -> bytes:
    """Return the bytes of the record's file, which `read_record` reads."""
    fields = {
        "version": VERSION,
        "output": record.output,
        "run": record.run,
        "what": record.what,
        "state": record.state,
        "coming": [one._asdict() for one in record.coming],
    }
    return (json.dumps(fields, indent=1) + "\n").encode()
