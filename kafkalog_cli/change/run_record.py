"""The record that commits a run: its files and their contents, in a small JSON file that is replaced in one step."""

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafkalog_cli.disk.durable import record_not_gone, remove_if_there, sync_directory
from kafkalog_cli.disk.fs import Filesystem, WritableFilesystem, read_all
from kafkalog_cli.errors import Refused, SyncFailed, UnsupportedFormat
from kafkalog_cli.format.strict_json import (
    LIMIT_BYTES,
    Form,
    anything,
    fields,
    integer,
    list_of,
    nothing_or,
    parse,
    table,
    text,
)

VERSION = 1
_MOST_NAMES = 64
_MOST_NAME_BYTES = 255
_MOST_PATH_BYTES = 4095


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


def read_record(fs: Filesystem, path: str, form: Form = anything) -> RunRecord | None:
    """Read the record in a file, None if the file does not exist. Raises UnsupportedFormat, Unreadable, OSError.

    `form` checks the parsed document further, for the caller's own data in it.
    """
    status = fs.status(path)
    if status is None:
        return None
    try:
        if status.size_bytes > LIMIT_BYTES:
            raise ValueError(f"it has {status.size_bytes} bytes, and a record at most {LIMIT_BYTES}")
        found = parse(read_all(fs, path, LIMIT_BYTES))
        _RECORD(found)
        form(found)
    except ValueError as error:
        reason = f"no earlier run wrote this content, so the end of that run is not known: {error}"
        raise UnsupportedFormat(path=path, reason=reason) from error
    coming = tuple(ComingFile(one["staged"], one["path"], one.get("facts")) for one in found["coming"])
    return RunRecord(found["output"], found["run"], found["what"], found["state"], coming)


def _below(most_names: int) -> Form:
    """A relative path of at most so many names that stays in its directory: files are moved and removed by them."""

    def check(value: Any) -> None:
        text(value)
        names = value.split("/")
        is_long = len(value.encode("utf-8", "surrogateescape")) > _MOST_PATH_BYTES
        if is_long or len(names) > most_names or not all(map(_is_name, names)):
            raise ValueError(f"{value[:_MOST_NAME_BYTES]!r} is not the name of a file below it")

    return check


def _is_name(name: str) -> bool:
    return (
        name not in {"", ".", ".."}
        and "\0" not in name
        and len(name.encode("utf-8", "surrogateescape")) <= _MOST_NAME_BYTES
    )


def _coming(value: Any) -> None:
    list_of(_COMING)(value)
    for what in ("staged", "path"):
        names = [one[what] for one in value]
        if len(set(names)) < len(names):
            raise ValueError("two files have one name")


_COMING = fields({"staged": _below(1), "path": _below(_MOST_NAMES)}, {"facts": nothing_or(table(text, anything))})
_RECORD = fields({
    "version": integer(VERSION, VERSION), "output": text, "run": _below(1), "what": table(text, anything),
    "state": table(text, anything), "coming": _coming,
})  # fmt: skip


def record_bytes(record: RunRecord) -> bytes:
    """Return the bytes of the record's file, which `read_record` reads. Raises Refused if they would be too many."""
    document = {
        "version": VERSION,
        "output": record.output,
        "run": record.run,
        "what": record.what,
        "state": record.state,
        "coming": [one._asdict() for one in record.coming],
    }
    content = (json.dumps(document, indent=1) + "\n").encode()
    if len(content) > LIMIT_BYTES:
        reason = f"the record of the run would have {len(content)} bytes, and is read up to {LIMIT_BYTES}"
        raise Refused(path=record.output, reason=f"{reason}: export fewer partitions, or larger files")
    return content


def forget_record(fs: WritableFilesystem, path: str, output: str) -> None:
    """Remove the record of a run of which all files are in their places on the disk. Raises OSError, RecordNotGone."""
    if remove_if_there(fs, path):
        try:
            sync_directory(fs, path.rpartition("/")[0])
        except SyncFailed as error:
            raise record_not_gone(output, error) from error
